// SPDX-License-Identifier: Apache-2.0
/* Inside simq/: weights of integer multiply-accumulate ops in the order of simq/kernels/integer/tile.h. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "simq/core/kernel.h"

/* Sizes of a multiply-accumulate op in integers. */
/* Always three spatial dimensions; a matrix product has its rows along the last one. */
struct qc_int_shape {
    bool transposed; /* ConvTranspose: data is spread out by `stride`, then convolved with flipped weights */
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
    bool joined; /* positions along the last kernel dimension make one run with the channels */
    size_t quads, panels;
    const int *blocks;
    size_t channels;
    int32_t zero;         /* zero point of the data as the tiles see it ... */
    const int32_t *zeros; /* ... or, by group; NULL: the same for all */
    int32_t less;         /* what the tiles subtract from the data */
};

/* to: panels of all groups, one after the other. sums[group][channels]: of the weights, modulo 2^32; 0 for channels
   that only fill up a block. They do not depend on the data's zero point. */
void qc_int_pack(uint8_t *to, int32_t *sums, const struct qc_int_pack *p, const void *weights);
/* Do all sums of two products that narrow tiles of this kind make fit in 16 bits, whatever the data from 0 to `most`?
   less: as in the pack. */
bool qc_int_pack_fits(const struct qc_int_pack *p, const void *weights, int32_t most);
/* bias[group][channels]: given less zero times the sum, modulo 2^32. given: [groups * outputs]. Also in place. */
void qc_int_pack_bias(int32_t *bias, const struct qc_int_pack *p, const int32_t *sums, const int32_t *given);

/* Of simq/kernels/integer/int_pairs.h: for each group, for each pair, the first and the second weights of all channels
   as they are stored, 0 beside the last one of an odd count. sums as above. */
void qc_int_pack_pairs(int8_t *to, int32_t *sums, const struct qc_int_pack *p, const void *weights);

/* Depthwise: to[tap][channel], bias[channel] likewise. */
void qc_int_pack_taps(int32_t *to, int32_t *bias, const struct qc_int_pack *p, const void *weights,
                      const int32_t *given);
