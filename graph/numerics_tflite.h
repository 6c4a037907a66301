// SPDX-License-Identifier: Apache-2.0
/* Contract "tflite" where an operator has an arithmetic of its own: what TensorFlow Lite's reference kernels compute on 8-bit
   integers (docs/numerics.md says how each was checked). Sources: tensorflow/lite/kernels/{activations,internal/reference}.cc
   and gemmlowp/fixedpoint. */
#ifndef QC_GRAPH_NUMERICS_TFLITE_H
#define QC_GRAPH_NUMERICS_TFLITE_H

#include "graph/numerics.h"
#include "graph/op.h"

/* Scale and zero point of results whose range is known, which TFLite fixes:
     Sigmoid, Softmax 1/256, lowest level;  Tanh, LpNormalization (p 2) 1/128, middle;  LogSoftmax 16/256, highest level;
     16 bits signed: 1/32768, 0 (Sigmoid, Softmax, Tanh).
   False when `contract` is another than tflite and tflite-single, or fixes nothing for this op and type. */
bool qc_fixed_parameters(struct qc_affine *out, enum qc_contract contract, enum qc_op op, enum qc_dtype dtype);

/* Softmax over rows of 8-bit integers. Prepared from beta and the input's scale; the result's parameters are the fixed ones. */
struct qc_tflite_softmax {
    int32_t multiplier, left_shift;
    int32_t diff_min; /* a number that is this far below the largest of its row has the result 0 */
};
/* input_scale, beta positive. */
struct qc_tflite_softmax qc_tflite_softmax_of(float input_scale, float beta);
/* y[n] from x[n], stored integers; y in [lowest, lowest + 255], in place is fine. */
void qc_tflite_softmax_row(const struct qc_tflite_softmax *s, int32_t *y, const int32_t *x, size_t n, int32_t lowest);

/* Unary functions: the level of input level q, for tables.
     LeakyRelu   (q - zi) times f(si/so), or times f(f(si*alpha)/so) when negative;   Relu as LeakyRelu without a negative part
     HardSwish   16-bit fixed point in two factors
     Sigmoid, Tanh, Elu, others: through `f`, TFLite's tables: RHA(f(f(f(si*(q-zi))) * f(1/so))) + zo
   Errors (QC_BAD_INPUT): scales as in qc_requantizer_of. */
struct qc_tflite_unary {
    enum qc_op op;
    struct qc_affine input, output;
    struct qc_levels levels;
    float alpha;                        /* LeakyRelu */
    struct qc_fixed identity, negative; /* LeakyRelu; HardSwish: `identity` for the result, `negative` for the factor */
    float (*function)(float x, const void *context); /* others */
    const void *context;
};
bool qc_tflite_unary_of(struct qc_tflite_unary *u,
                        struct qc_status *st); /* fills identity and negative from the rest */
int32_t qc_tflite_unary_one(const struct qc_tflite_unary *u, int32_t q);

#endif
