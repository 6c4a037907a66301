// SPDX-License-Identifier: Apache-2.0
/* Abs-13, Neg-13, Sign-13 of all numeric types, Not-1, BitwiseNot-18, IsNaN-13, IsInf-20. */
#include <math.h>

#include "simq/core/kernel_util.h"

#define QC_LOOP(NAME, TO, T, EXPRESSION)                                                                               \
    static void NAME(void *user, int64_t n, void *const data[], const int64_t stride[])                                \
    {                                                                                                                  \
        TO *o = data[0];                                                                                               \
        const T *p = data[1];                                                                                          \
        const int64_t so = stride[0], sp = stride[1];                                                                  \
        if (so == 1 && sp == 1) {                                                                                      \
            for (int64_t i = 0; i < n; i++) {                                                                          \
                const T x = p[i];                                                                                      \
                o[i] = (TO)(EXPRESSION);                                                                               \
            }                                                                                                          \
        } else {                                                                                                       \
            for (int64_t i = 0; i < n; i++) {                                                                          \
                const T x = p[i * sp];                                                                                 \
                o[i * so] = (TO)(EXPRESSION);                                                                          \
            }                                                                                                          \
        }                                                                                                              \
    }

/* The sign of NaN is NaN. */
#define QC_X(N, T)                                                                                                     \
    QC_LOOP(neg_##N, T, T, -x)                                                                                         \
    QC_LOOP(sign_##N, T, T, x > 0 ? (T)1 : x < 0 ? (T)-1 : x == 0 ? (T)0 : x)                                          \
    QC_LOOP(isnan_##N, uint8_t, T, x != x)
QC_KERNEL_FLOATS(QC_X)
#undef QC_X
QC_LOOP(abs_F32, float, float, fabsf(x))
QC_LOOP(abs_F64, double, double, fabs(x))
#define QC_X(N, T)                                                                                                     \
    QC_LOOP(abs_##N, T, T, x < 0 ? 0 - (uint64_t)x : (uint64_t)x)                                                      \
    QC_LOOP(neg_##N, T, T, 0 - (uint64_t)x)                                                                            \
    QC_LOOP(sign_##N, T, T, (x > 0) - (x < 0))
QC_KERNEL_SIGNED(QC_X)
#undef QC_X
#define QC_X(N, T)                                                                                                     \
    QC_LOOP(abs_##N, T, T, x)                                                                                          \
    QC_LOOP(sign_##N, T, T, x > 0)
QC_KERNEL_UNSIGNED(QC_X)
#undef QC_X
#define QC_X(N, T)                                                                                                     \
    QC_LOOP(infinite_##N, uint8_t, T, isinf(x) != 0)                                                                   \
    QC_LOOP(above_##N, uint8_t, T, isinf(x) && x > 0)                                                                  \
    QC_LOOP(below_##N, uint8_t, T, isinf(x) && x < 0)                                                                  \
    QC_LOOP(never_##N, uint8_t, T, x != x && x == x)
QC_KERNEL_FLOATS(QC_X)
#undef QC_X
#define QC_X(N, T) QC_LOOP(bitnot_##N, T, T, ~x)
QC_KERNEL_SIGNED(QC_X)
QC_KERNEL_UNSIGNED(QC_X)
#undef QC_X
QC_LOOP(not_BOOL, uint8_t, uint8_t, !x)
QC_LOOP(isnan_F16, uint8_t, uint16_t, (x & 0x7fff) > 0x7c00)
QC_LOOP(isnan_BF16, uint8_t, uint16_t, (x & 0x7fff) > 0x7f80)

#define QC_ROW(OP, N, NAME) {.op = QC_OP_##OP, .type = QC_##N, .fn = NAME##_##N},
static const struct qc_kernel_row rows[] = {
#define QC_X(N, T) QC_ROW(Abs, N, abs) QC_ROW(Sign, N, sign)
    QC_KERNEL_FLOATS(QC_X) QC_KERNEL_SIGNED(QC_X) QC_KERNEL_UNSIGNED(QC_X)
#undef QC_X
#define QC_X(N, T) QC_ROW(Neg, N, neg)
        QC_KERNEL_FLOATS(QC_X) QC_KERNEL_SIGNED(QC_X)
#undef QC_X
#define QC_X(N, T) QC_ROW(BitwiseNot, N, bitnot)
            QC_KERNEL_SIGNED(QC_X) QC_KERNEL_UNSIGNED(QC_X)
#undef QC_X
                QC_ROW(Not, BOOL, not ) QC_ROW(IsNaN, F32, isnan) QC_ROW(IsNaN, F64, isnan) QC_ROW(IsNaN, F16, isnan)
                    QC_ROW(IsNaN, BF16, isnan)};

/* Detecting no infinity, the positive one, the negative one, both. */
static const struct qc_kernel_row is_inf[4][2] = {{QC_ROW(IsInf, F32, never) QC_ROW(IsInf, F64, never)},
                                                  {QC_ROW(IsInf, F32, above) QC_ROW(IsInf, F64, above)},
                                                  {QC_ROW(IsInf, F32, below) QC_ROW(IsInf, F64, below)},
                                                  {QC_ROW(IsInf, F32, infinite) QC_ROW(IsInf, F64, infinite)}};

static bool prepare_any_unary(struct qc_prepare *p, struct qc_status *st)
{
    if (p->node->op != QC_OP_IsInf) return qc_kernel_choose(p, rows, sizeof rows / sizeof *rows, st);
    const int which =
        (qc_attr_int(p->node, "detect_positive", 1) != 0) + 2 * (qc_attr_int(p->node, "detect_negative", 1) != 0);
    return qc_kernel_choose(p, is_inf[which], sizeof is_inf[which] / sizeof *is_inf[which], st);
}

static bool run_any_unary(const struct qc_run *r, struct qc_status *st)
{
    return qc_kernel_map(r, ((const struct qc_kernel_row *)r->state)->fn, NULL);
}

QC_KERNEL(any_unary, .order = QC_ORDER_ANY, .in_place = 1, .prepare = prepare_any_unary, .run = run_any_unary);
