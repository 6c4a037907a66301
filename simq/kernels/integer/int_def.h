// SPDX-License-Identifier: Apache-2.0
/* Inside simq/kernels/integer/: the definition of a multiply-accumulate step. */
#pragma once

#include "graph/core/infer.h"
#include "simq/core/accumulator.h"
#include "simq/core/convert.h"
#include "simq/core/packed.h"
#include "simq/kernels/integer/int_pack.h"
#include "simq/kernels/integer/tile.h"

struct qc_int_def {
    struct qc_int_shape shape;
    enum qc_isa isa; /* from qc_isa_detect; QC_ISA_BEST: detected here */
    bool wide;       /* operands are held in 16 bits, whatever their type */
    bool pairs;      /* pairs of products saturate (int_pairs.h): 8-bit data and signed 8-bit weights */
    /* Element strides: data and result [n, channel, 3 spatial], weights [output channel of a group, group, input
     * channel, 3 spatial]. */
    enum qc_dtype data_type, weight_type;
    int64_t data_stride[5], weight_stride[6], out_stride[5]; /* channels of the result are contiguous */
    const void *weights;                                     /* NULL: packed at each run */
    const struct qc_tensor *constant; /* owner of the weights, if it caches other forms of them; else NULL */
    struct qc_packed *packs;          /* for packed weights; NULL: a step keeps its own */
    const struct qc_view *bias;       /* NULL, or constant: i32 or centred f32, dense, one per output channel */
    const struct qc_scales *data_scales,
        *weight_scales; /* data: one scale, or one per group of one channel. weights: one, or one per output channel;
                           their arrays are valid as long as the state */
    struct qc_convert finish;          /* from i32 */
    struct qc_accumulator accumulator; /* sums may overflow it, checked after each addition. 0 bits: exact int32 sums */
    bool narrow_sums;                  /* no sum can leave int32 */
};
