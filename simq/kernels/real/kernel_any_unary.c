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

/* All loops: QC_ROW(op, type, name, C types of the result and of x, expression). The sign of NaN is NaN. */
#define QC_OF_FLOATS(N, T)                                                                                             \
    QC_ROW(Neg, N, neg, T, T, -x)                                                                                      \
    QC_ROW(Sign, N, sign, T, T, x > 0 ? (T)1 : x < 0 ? (T)-1 : x == 0 ? (T)0 : x)                                      \
    QC_ROW(IsNaN, N, isnan, uint8_t, T, x != x)
#define QC_OF_INTEGERS(N, T) QC_ROW(BitwiseNot, N, bitnot, T, T, ~x)
#define QC_OF_SIGNED(N, T)                                                                                             \
    QC_ROW(Abs, N, abs, T, T, x < 0 ? 0 - (uint64_t)x : (uint64_t)x)                                                   \
    QC_ROW(Neg, N, neg, T, T, 0 - (uint64_t)x)                                                                         \
    QC_ROW(Sign, N, sign, T, T, (x > 0) - (x < 0))
#define QC_OF_UNSIGNED(N, T) QC_ROW(Abs, N, abs, T, T, x) QC_ROW(Sign, N, sign, T, T, x > 0)
#define QC_UNARIES                                                                                                     \
    QC_KERNEL_FLOATS(QC_OF_FLOATS)                                                                                     \
    QC_KERNEL_SIGNED(QC_OF_SIGNED)                                                                                     \
    QC_KERNEL_UNSIGNED(QC_OF_UNSIGNED)                                                                                 \
    QC_KERNEL_SIGNED(QC_OF_INTEGERS)                                                                                   \
    QC_KERNEL_UNSIGNED(QC_OF_INTEGERS)                                                                                 \
    QC_ROW(Abs, F32, abs, float, float, fabsf(x))                                                                      \
    QC_ROW(Abs, F64, abs, double, double, fabs(x))                                                                     \
    QC_ROW(Not, BOOL, not, uint8_t, uint8_t, !x)                                                                       \
    QC_ROW(IsNaN, F16, isnan, uint8_t, uint16_t, (x & 0x7fff) > 0x7c00)                                                \
    QC_ROW(IsNaN, BF16, isnan, uint8_t, uint16_t, (x & 0x7fff) > 0x7f80)
/* IsInf that detects no infinity, the positive one, the negative one, both. */
#define QC_NEVER(N, T) QC_ROW(IsInf, N, never, uint8_t, T, x != x && x == x)
#define QC_ABOVE(N, T) QC_ROW(IsInf, N, above, uint8_t, T, isinf(x) && x > 0)
#define QC_BELOW(N, T) QC_ROW(IsInf, N, below, uint8_t, T, isinf(x) && x < 0)
#define QC_INFINITE(N, T) QC_ROW(IsInf, N, infinite, uint8_t, T, isinf(x) != 0)

#define QC_LOOPS                                                                                                       \
    QC_UNARIES                                                                                                         \
    QC_KERNEL_FLOATS(QC_NEVER)                                                                                         \
    QC_KERNEL_FLOATS(QC_ABOVE)                                                                                         \
    QC_KERNEL_FLOATS(QC_BELOW)                                                                                         \
    QC_KERNEL_FLOATS(QC_INFINITE)

#define QC_ROW(OP, N, NAME, TO, T, EXPRESSION) QC_LOOP(NAME##_##N, TO, T, EXPRESSION)
QC_LOOPS
#undef QC_ROW

#define QC_ROW(OP, N, NAME, TO, T, EXPRESSION) {.op = QC_OP_##OP, .type = QC_##N, .fn = NAME##_##N},
static const struct qc_kernel_row rows[] = {QC_UNARIES};
static const struct qc_kernel_row is_inf[4][2] = {{QC_KERNEL_FLOATS(QC_NEVER)},
                                                  {QC_KERNEL_FLOATS(QC_ABOVE)},
                                                  {QC_KERNEL_FLOATS(QC_BELOW)},
                                                  {QC_KERNEL_FLOATS(QC_INFINITE)}};
#undef QC_ROW

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
