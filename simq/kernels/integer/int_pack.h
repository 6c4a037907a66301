// SPDX-License-Identifier: Apache-2.0
/* Inside simq/: weights of integer multiply-accumulate ops in the order of simq/kernels/integer/tile.h. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "simq/core/kernel.h"

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
