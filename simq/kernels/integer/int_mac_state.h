// SPDX-License-Identifier: Apache-2.0
/* Inside simq/kernels/integer/: what a multiply-accumulate step knows, for the files that run it. */
#pragma once

#include "simq/kernels/integer/int_def.h"
#include "simq/kernels/integer/int_pack.h"
#include "simq/kernels/integer/tile.h"

struct qc_int_mac {
    struct qc_int_def d;
    struct qc_scales weight_scales;
    struct qc_tile_set tiles;
    bool wide, depthwise, copied;       /* copied: data goes through scratch, padded and shifted */
    bool pairs;                         /* simq/kernels/integer/int_pairs.h */
    bool serial;                        /* an accumulator that sums may leave */
    int32_t shift, zero;                /* data is held as q - shift, zero is its zero point then */
    int32_t *zeros;                     /* NULL, or one for each channel of the data, which are groups of their own */
    size_t element;                     /* bytes of an element of data as the tiles read it */
    int64_t plane[3], up[3], origin[3]; /* of the copy: size, spacing of the data in it, where data begins */
    int64_t plane_step[3];              /* bytes */
    size_t runs, run_elements, quads, panels;
    ptrdiff_t *run;
    int *blocks;                                /* [panels] */
    size_t *panel_at;                           /* [panels] bytes of a group's weights before the panel */
    size_t group_bytes, weight_bytes, channels; /* channels: of a group, padded to blocks */
    const uint8_t *weights;                     /* NULL: packed at each run */
    bool shared;                                /* weights are in d.packs, or of d.constant */
    size_t held_bytes;                          /* of weights that no other step has */
    size_t copy_bytes, sum_bytes, packed_bytes; /* of scratch: copy, sums, weights that are packed at each run */
    int amx_rows;                               /* of a tile of simq/kernels/integer/tile_amx.h; 0: it is not used */
    int64_t amx_pitch; /* positions from line to line where all lines of a plane are done as one, or 0 */
    size_t together;   /* depthwise: pixels of a line that are done as one */
    uint8_t *pair[2]; /* depthwise, [weight_bytes]: of two lines at a time (simq/kernels/integer/tile.h); NULL: they are
                         not */
    struct qc_int_lines *lines; /* simq/kernels/integer/int_lines.h; NULL: it is not done so */
    int32_t *bias;  /* [groups][channels], the data's zero point taken into account when weights are packed */
    int32_t *given; /* bias as it came, [groups * outputs], when weights are packed at each run */
    char name[64];
};

/* How its weights are packed. */
struct qc_int_pack qc_int_mac_pack(const struct qc_int_mac *m);
