// SPDX-License-Identifier: Apache-2.0
/* Inside simq/: multiply-accumulate ops in integers: acc = bias + sum (qa - za)(qw - zw), exact modulo 2^32 or in a
   given accumulator. The conversion of the result follows at once, while the sums are in cache.

   Both operands may be stored integers or centred float32. Source of the form: docs/numerics.md. Data is held as qa
   - shift, to fit the instructions; (za - shift) times the sum of a channel's weights is subtracted from its bias. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "graph/core/infer.h"
#include "simq/core/convert.h"
#include "simq/core/kernel.h"
#include "simq/kernels/integer/tile.h"

/* Inside simq/: weights of integer multiply-accumulate ops in the order of simq/kernels/integer/tile.h. */

/* Sizes of a multiply-accumulate op in integers. There are always three spatial dimensions; the last one holds the
   rows of a matrix product. */
struct qc_int_shape {
    bool transposed; /* ConvTranspose: data is spread out by `stride`, then convolved with the flipped weights */
    int64_t batch, groups;
    int64_t inputs, outputs; /* channels per group */
    int64_t in[3], out[3], kernel[3], stride[3], dilation[3], begin[3];
};

struct qc_int_pack {
    const struct qc_int_shape *shape;
    enum qc_dtype type;
    const int64_t *stride; /* as in struct qc_int_def */
    const struct qc_scales *scales;
    bool wide;   /* two bytes per weight */
    bool joined; /* a run covers all positions along the last kernel dimension, with their channels */
    size_t quads, panels;
    const int *blocks;
    size_t channels;
    int32_t zero;         /* zero point of the data as held (q - shift) ... */
    const int32_t *zeros; /* ... or one per group; NULL: `zero` for all */
    int32_t less;         /* constant that the tiles subtract from the data */
};

/* Packs the weights of all groups to `to`, group after group. sums[group][channels]: sums of the weights, modulo
   2^32; 0 for channels that only fill a block. The sums do not depend on the data's zero point. */
void qc_int_pack(uint8_t *to, int32_t *sums, const struct qc_int_pack *p, const void *weights);
/* Returns whether all sums of two products in narrow tiles fit in 16 bits, for any data from 0 to `most` and the
   `less` of p. */
bool qc_int_pack_fits(const struct qc_int_pack *p, const void *weights, int32_t most);
/* Computes bias[group][channels]: given - (zero - less) * sum, modulo 2^32. given: [groups * outputs]. May work in
   place. */
void qc_int_pack_bias(int32_t *bias, const struct qc_int_pack *p, const int32_t *sums, const int32_t *given);

/* Packs for the saturating pairs of int_mac.h: for each group, each pair of inputs, the first weights of all
   channels, then the second. Weights are as stored; an odd last input is paired with 0. sums as above. */
void qc_int_pack_pairs(int8_t *to, int32_t *sums, const struct qc_int_pack *p, const void *weights);

/* Packs depthwise weights as to[tap][channel], and bias[channel] as above. */
void qc_int_pack_taps(int32_t *to, int32_t *bias, const struct qc_int_pack *p, const void *weights,
                      const int32_t *given);

/* The definition of a multiply-accumulate step. */
struct qc_int_def {
    struct qc_int_shape shape;
    enum qc_isa isa; /* from qc_isa_detect; QC_ISA_BEST: detected here */
    bool wide;       /* operands are held in 16 bits, whatever their type */
    bool pairs;      /* pairs of products saturate (int_mac_run.c): 8-bit data and signed 8-bit weights */
    /* Element strides: data and result [n, channel, 3 spatial], weights [output channel of a group, group, input
     * channel, 3 spatial]. */
    enum qc_dtype data_type, weight_type;
    int64_t data_stride[5], weight_stride[6], out_stride[5]; /* channels of the result are contiguous */
    const void *weights;                                     /* NULL: packed at each run */
    const struct qc_tensor *constant; /* owner of the weights, if it caches other forms of them; else NULL */
    struct qc_packed *packs;          /* for packed weights; NULL: a step keeps its own */
    bool in_file; /* packed weights are in a temporary file of packs; if the disk has no room, they are given at run
                     time. Not for `constant`, `pairs` and depthwise convolutions */
    const struct qc_view *bias; /* NULL, or constant: i32 or centred f32, dense, one per output channel */
    const struct qc_scales *data_scales,
        *weight_scales; /* data: one scale, or one per group of one channel. weights: one, or one per output channel;
                           their arrays are valid as long as the state */
    struct qc_convert finish;          /* from i32 */
    struct qc_accumulator accumulator; /* sums may overflow it, checked after each addition. 0 bits: exact int32 sums */
    bool narrow_sums;                  /* no sum can leave int32 */
};

struct qc_int_mac; /* state of a step, shared by workers */

/* Fails with QC_UNSUPPORTED if the numbers do not fit. *scratch: bytes per run. */
bool qc_int_mac_new(struct qc_int_mac **out, size_t *scratch, const struct qc_int_def *d, struct qc_status *st);
void qc_int_mac_free(struct qc_int_mac *m); /* NULL-safe */

struct qc_int_facts {
    size_t bytes;     /* of packed constants */
    bool is_packed;   /* false: weights are given at run time */
    const char *name; /* of the implementation */
};
struct qc_int_facts qc_int_mac_facts(const struct qc_int_mac *m);

/* Returns whether levels less their zero points are from lo to hi. */
bool qc_int_levels_fit(const struct qc_scales *s, int64_t lo, int64_t hi);

/* With an accumulator of fewer than 32 bits, adds the statistics of the sums to *sums; otherwise sums is not used. */
void qc_int_mac_run(const struct qc_int_mac *m, void *y, const void *x, const void *weights, void *scratch,
                    struct qc_sums *sums);

/* --- The state, for the files of a step --- */

/* Outputs of a line whose sums are converted at once. */
enum { QC_INT_STRIP = 8 * QC_TILE_ROWS };

struct qc_int_mac {
    struct qc_int_def d;
    struct qc_scales weight_scales;
    struct qc_tile_set tiles;
    bool wide, depthwise, copied; /* copied: data is copied to scratch, padded and shifted */
    bool pairs;                   /* pairs of products saturate */
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
    int amx_rows;                               /* rows of a tile of simq/kernels/integer/tile.h; 0: not used */
    int64_t amx_pitch;  /* positions between lines if all lines of a plane are computed as one, or 0 */
    int64_t slab_lines; /* most lines of the result that are computed together; 0: all */
    size_t together;    /* depthwise: pixels of a line computed together */
    uint8_t *pair[2];   /* depthwise, [weight_bytes]: for two lines at a time (simq/kernels/integer/depthwise.h); NULL:
                           not used */
    struct qc_int_lines *lines; /* NULL: not used */
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

/* Sums of products as x86 without VNNI computes them: two products at a time,
   saturated at 16 bits (arith/contract.h). Data are unsigned bytes, weights are as stored, in the order of
   graph/core/pair_order.h; zero points are subtracted afterwards. Plain loops, one pixel at a time. */

/* Bytes of the packed weights of a group, and of scratch per pixel. The runs and channels of m must be set. */
size_t qc_int_pairs_bytes(const struct qc_int_mac *m);
size_t qc_int_pairs_scratch(const struct qc_int_mac *m);

/* 3 by 3 depthwise convolutions with byte results, one or two lines at a time. If data
   is copied, four lines are held. */

/* Sets m->lines if this kernel is faster, else leaves it NULL. w[tap][channel], bias[channel]. */
bool qc_int_lines_new(struct qc_int_mac *m, const int32_t *w, const int32_t *bias, struct qc_status *st);
size_t qc_int_lines_bytes(const struct qc_int_mac *m);
size_t qc_int_lines_scratch(const struct qc_int_mac *m);
