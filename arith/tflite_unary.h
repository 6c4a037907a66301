// SPDX-License-Identifier: Apache-2.0
/* Contract "tflite": functions of one variable as TensorFlow Lite's reference kernels compute them on 8-bit integers
   (docs/numerics.md says how each was checked). Sources: tensorflow/lite/kernels/activations.cc, internal/reference. */
#ifndef QC_ARITH_TFLITE_UNARY_H
#define QC_ARITH_TFLITE_UNARY_H

#include "arith/fixed_point.h"

/* Unary functions: the level of input level q, for tables.
     LeakyRelu   (q - zi) times f(si/so), or times f(f(si*alpha)/so) when negative;   Relu is LeakyRelu with alpha 0
     HardSwish   16-bit fixed point in two factors
     Sigmoid, Tanh, Elu, others: through `f`, TFLite's tables: RHA(f(f(f(si*(q-zi))) * f(1/so))) + zo
   Errors (QC_BAD_INPUT): scales as in qc_requantizer_of. */
enum qc_tflite_function { QC_TFLITE_TABLE, QC_TFLITE_LEAKY_RELU, QC_TFLITE_HARD_SWISH };

struct qc_tflite_unary {
    enum qc_tflite_function kind;
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
