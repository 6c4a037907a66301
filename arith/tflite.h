// SPDX-License-Identifier: Apache-2.0
/* Contract "tflite": functions of one variable as TensorFlow Lite's reference kernels compute them on 8-bit integers
   (docs/numerics.md says how each was checked). Sources: tensorflow/lite/kernels/activations.cc, internal/reference. */
#pragma once

#include "arith/fixed_point.h"

/* Unary functions, which give the level of an input level q.
     LeakyRelu   (q - zi) times f(si/so), or times f(f(si*alpha)/so) if negative; Relu is LeakyRelu with alpha 0
     HardSwish   16-bit fixed point in two factors
     Sigmoid, Tanh of 16 bits: interpolation in a table of 256 sigmoids, zero points 0, result scale 1/32768
     Sigmoid, Tanh, Elu, others: `function`, as TFLite's tables: RHA(f(f(function(si*(q-zi))) * f(1/so))) + zo
   Fails with QC_BAD_INPUT if a scale is one that qc_requantizer_of refuses. */
enum qc_tflite_function {
    QC_TFLITE_TABLE,
    QC_TFLITE_LEAKY_RELU,
    QC_TFLITE_HARD_SWISH,
    QC_TFLITE_SIGMOID_16,
    QC_TFLITE_TANH_16
};

struct qc_tflite_unary {
    enum qc_tflite_function kind;
    struct qc_affine input, output;
    struct qc_levels levels;
    float alpha;                        /* LeakyRelu */
    struct qc_fixed identity, negative; /* LeakyRelu; HardSwish: `identity` for the result, `negative` for the factor;
                                           16 bits: `identity` is the input's, shifted right by `shift` */
    uint16_t sigmoid[256];              /* 16 bits */
    float (*function)(float x, const void *context); /* others */
    const void *context;
};
bool qc_tflite_unary_of(struct qc_tflite_unary *u,
                        struct qc_status *st); /* fills identity, negative and sigmoid from the other members */
int32_t qc_tflite_unary_one(const struct qc_tflite_unary *u, int32_t q);

/* Contract "tflite": the softmax of TensorFlow Lite's reference kernels on 8-bit integers (docs/numerics.md says how it
   was checked). Sources: tensorflow/lite/kernels/internal/reference/softmax.h and gemmlowp/fixedpoint. */

/* Softmax over rows of 8-bit integers, prepared from beta and the input's scale. The result's qparams are those of
   qc_fixed_parameters. */
struct qc_tflite_softmax {
    int32_t multiplier, left_shift;
    int32_t diff_min; /* numbers that are this far below the largest of their row have the result 0 */
};
/* input_scale and beta are positive. */
struct qc_tflite_softmax qc_tflite_softmax_of(float input_scale, float beta);
/* Computes y[n] from x[n], both stored integers; y is in [lowest, lowest + 255]. y may be x. */
void qc_tflite_softmax_row(const struct qc_tflite_softmax *s, int32_t *y, const int32_t *x, size_t n, int32_t lowest);

/* Contract "xnnpack": the softmax of LiteRT on 8-bit integers, which XNNPACK does not compute. Every step is float32.
   Source: tensorflow/lite/kernels/internal/optimized/optimized_ops.h. */
struct qc_litert_softmax {
    float exponential[256]; /* of the distance to the largest number of a row */
};
void qc_litert_softmax_of(struct qc_litert_softmax *out, float input_scale, float beta);
/* As qc_tflite_softmax_row. */
void qc_litert_softmax_row(const struct qc_litert_softmax *s, int32_t *y, const int32_t *x, size_t n, int32_t lowest);

/* The softmax of 16-bit integers: two tables of 512 pieces of a line, for exp and for 1 / (1 + x). */
struct qc_tflite_softmax16 {
    struct qc_fixed input; /* differences to the largest, as 1/6553.5 */
    int16_t exponential[513], inverse[513];
};
/* input_scale, beta positive, their product below 2^15. */
void qc_tflite_softmax16_of(struct qc_tflite_softmax16 *out, float input_scale, float beta);
/* y[n] from x[n], stored integers; y in [0, 32767], in place is fine. */
void qc_tflite_softmax16_row(const struct qc_tflite_softmax16 *s, int32_t *y, const int32_t *x, size_t n);
