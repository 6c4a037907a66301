// SPDX-License-Identifier: Apache-2.0
/* Add, Sub and Mul of two affine values of up to 16 bits, by every contract. The constants are prepared once. One
   function takes a pair of stored integers, others take arrays; both give the same results bit for bit. */
#pragma once

#include "arith/fixed_point.h"

/* a and b are stored integers, va = a - za, vb = b - zb.
     FLOAT            Add ra=f(sa/sc) rb=f(sb/sc) k=f(zc - fma(ra,za,f(rb*zb))): RNE(fma(a,ra,fma(b,rb,k)))
                      Mul RNE(f(f(f(va*vb) * f(f(sa*sb)/sc)) + zc))
                      Sub RNE(f(f(f(va*sa) - f(vb*sb)) / sc)) + zc: ONNX Runtime has no integer Sub
     DOUBLE (tflite)  Add and Sub: both operands << left_shift, times s/(2 max), summed, times 2 max/(2^left_shift sc);
                      left_shift is 20 if all three types have at most 8 bits, otherwise 15 if va and vb fit 16 bits
                      (TFLite's int16), otherwise 14
                      Mul: (va*vb) times f(f(sa*sb)/sc)
     UPWARD, NEAREST  Add and Sub: each operand requantized to the result's qparams without saturation, summed (QNN)
                      Mul: (va*vb) times sa*sb/sc in double
     XNNPACK          Add and Sub: (va*ma +- vb*mb + half) >> shift, ma = RNE(f(sa/sc) * 2^shift); the larger multiplier
                      has 21 bits
                      Mul: RNE(f(f(va*vb) * f(f(sa*sb)/sc)))
                      As DOUBLE if a type has more than 8 bits, if f(sa/sc) or f(sb/sc) is not in [2^-10, 2^8), or for
                      Mul f(f(sa*sb)/sc) not in [2^-16, 2^8) */
enum qc_qbinary_op { QC_QBINARY_ADD, QC_QBINARY_SUB, QC_QBINARY_MUL };

struct qc_qbinary {
    enum qc_qbinary_op op;
    enum qc_requantize_rule rule;
    float ra, rb, k, m;      /* FLOAT; Sub: the scales of a, b, c in ra, rb, k */
    float fza, fzb, fzc;     /* the zero points in float32 */
    int left_shift;          /* DOUBLE; XNNPACK: the shift, with multipliers in a and b */
    struct qc_fixed a, b, c; /* fixed point */
    bool copies_a, copies_b; /* UPWARD, NEAREST: the operand's scale equals the result's */
    bool wide;               /* Mul in fixed point: va*vb may not fit 32 bits */
    int32_t za, zb, zc;
    struct qc_levels levels;
};

/* Prepares the constants. The parameters and levels are those of a, b and the result, in this order. Fails with
   QC_BAD_INPUT if a scale is not positive and finite, or if a ratio is 2^30 or more under a fixed-point contract. Fails
   with QC_UNSUPPORTED if levels have more than 16 bits. */
bool qc_qbinary_of(struct qc_qbinary *out, enum qc_contract contract, enum qc_qbinary_op op,
                   const struct qc_affine parameters[3], const struct qc_levels levels[3], struct qc_status *st);

/* Contract "onnx"; the scales are not checked, as ONNX Runtime does not check them either. */
struct qc_qbinary qc_qbinary_onnx(enum qc_qbinary_op op, const struct qc_affine parameters[3], struct qc_levels result);

int32_t qc_qbinary_one(const struct qc_qbinary *m, int32_t a, int32_t b);

/* y[i] = qc_qbinary_one(m, a[i], b[i]). y may be a or b. */
void qc_qbinary_run(const struct qc_qbinary *m, int32_t *y, const int32_t *a, const int32_t *b, size_t n);

/* The same for rule FLOAT, with elements of y, a and b that are `step` apart. The elements are all unsigned bytes, all
   signed bytes, or float32 numbers minus their zero points. */
void qc_qbinary_u8(const struct qc_qbinary *m, uint8_t *y, const uint8_t *a, const uint8_t *b, size_t n,
                   const int64_t step[3]);
void qc_qbinary_i8(const struct qc_qbinary *m, int8_t *y, const int8_t *a, const int8_t *b, size_t n,
                   const int64_t step[3]);
void qc_qbinary_centred(const struct qc_qbinary *m, float *y, const float *a, const float *b, size_t n,
                        const int64_t step[3]);
