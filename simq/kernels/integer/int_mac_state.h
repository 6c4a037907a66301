// SPDX-License-Identifier: Apache-2.0
/* Inside simq/kernels/integer/: the state of a multiply-accumulate step. */
#pragma once

#include "simq/kernels/integer/int_def.h"
#include "simq/kernels/integer/int_pack.h"
#include "simq/kernels/integer/tile.h"

/* Outputs of a line whose sums are converted at once. */
enum { QC_INT_STRIP = 8 * QC_TILE_ROWS };

struct qc_int_mac {
    struct qc_int_def d;
    struct qc_scales weight_scales;
    struct qc_tile_set tiles;
    bool wide, depthwise, copied; /* copied: data is copied to scratch, padded and shifted */
    bool pairs;                   /* simq/kernels/integer/int_pairs.h */
    bool serial;                  /* the accumulator may overflow */
    int32_t shift, zero;          /* data is held as q - shift; zero: its zero point in this form */
    int32_t *zeros; /* NULL, or the zero points of data channels with scales of their own (each channel is a group) */
    size_t element; /* bytes per element of the data that the tiles read */
    int64_t plane[3], up[3],
        origin[3];         /* of the copy: size, spacing of the data in it, position of the first element */
    int64_t plane_step[3]; /* bytes */
    size_t runs, run_elements, quads, panels;
    ptrdiff_t *run;
    int *blocks;                                /* [panels] */
    size_t *panel_at;                           /* [panels] byte offset of the panel in a group's weights */
    size_t group_bytes, weight_bytes, channels; /* channels: per group, padded to blocks */
    const uint8_t *weights;                     /* NULL: packed at each run */
    bool shared;                                /* weights are owned by d.packs or d.constant */
    size_t held_bytes;                          /* bytes of weights that no other step shares */
    size_t copy_bytes, sum_bytes, packed_bytes; /* bytes of scratch: copy, sums, weights packed at each run */
    int amx_rows;                               /* rows of a tile of simq/kernels/integer/tile_amx.h; 0: not used */
    int64_t amx_pitch;  /* positions between lines if all lines of a plane are computed as one, or 0 */
    int64_t slab_lines; /* most lines of the result that are computed together; 0: all */
    size_t together;    /* depthwise: pixels of a line computed together */
    uint8_t *pair[2];   /* depthwise, [weight_bytes]: for two lines at a time (simq/kernels/integer/depthwise.h); NULL:
                           not used */
    struct qc_int_lines *lines; /* simq/kernels/integer/int_lines.h; NULL: not used */
    int32_t *bias;              /* [groups][channels]; includes the data's zero point if weights are packed here */
    int32_t *given;             /* bias as given, [groups * outputs], if weights are packed at each run */
    char name[64];
};

/* Returns the number of slabs, of almost equal size. */
static inline int64_t qc_int_mac_slabs(const struct qc_int_mac *m)
{
    return (m->d.shape.out[1] + m->slab_lines - 1) / m->slab_lines;
}

/* Returns the parameters of its weight packing. */
struct qc_int_pack qc_int_mac_pack(const struct qc_int_mac *m);
