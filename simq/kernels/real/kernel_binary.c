// SPDX-License-Identifier: Apache-2.0
/* Elementwise functions of two real values with numpy broadcasting (Add-14, Pow-15, Mod-13, PRelu-16, And-7,
   Less-13, ...), and Max-13, Min-13, Sum-13, Mean-13 of any number of values, folded from the left. Integers wrap
   around, as in ONNX Runtime; a division by zero is an error. */
#include <math.h>
#include <string.h>

#include "base/simd.h"
#include "simq/core/kernel_util.h"

struct work {
    bool zero; /* an integer was divided by zero */
};

/* o = f(a, b). Compilers can vectorise the first three forms. */
#define QC_LOOP(NAME, TO, TA, TB, EXPRESSION)                                                                          \
    static void NAME(void *user, int64_t n, void *const data[], const int64_t stride[])                                \
    {                                                                                                                  \
        struct work *w = user;                                                                                         \
        TO *o = data[0];                                                                                               \
        const TA *pa = data[1];                                                                                        \
        const TB *pb = data[2];                                                                                        \
        const int64_t so = stride[0], sa = stride[1], sb = stride[2];                                                  \
        (void)w;                                                                                                       \
        if (so == 1 && sa == 1 && sb == 1) {                                                                           \
            for (int64_t i = 0; i < n; i++) {                                                                          \
                const TA a = pa[i];                                                                                    \
                const TB b = pb[i];                                                                                    \
                o[i] = (TO)(EXPRESSION);                                                                               \
            }                                                                                                          \
        } else if (so == 1 && sa == 1 && sb == 0) {                                                                    \
            const TB b = *pb;                                                                                          \
            for (int64_t i = 0; i < n; i++) {                                                                          \
                const TA a = pa[i];                                                                                    \
                o[i] = (TO)(EXPRESSION);                                                                               \
            }                                                                                                          \
        } else if (so == 1 && sa == 0 && sb == 1) {                                                                    \
            const TA a = *pa;                                                                                          \
            for (int64_t i = 0; i < n; i++) {                                                                          \
                const TB b = pb[i];                                                                                    \
                o[i] = (TO)(EXPRESSION);                                                                               \
            }                                                                                                          \
        } else {                                                                                                       \
            for (int64_t i = 0; i < n; i++) {                                                                          \
                const TA a = pa[i * sa];                                                                               \
                const TB b = pb[i * sb];                                                                               \
                o[i * so] = (TO)(EXPRESSION);                                                                          \
            }                                                                                                          \
        }                                                                                                              \
    }

/* Truncating division. The minimum divided by -1 wraps to the minimum. */
static int64_t divide(struct work *w, int64_t a, int64_t b)
{
    if (b == 0) w->zero = true;
    if (b == 0 || b == -1) return (int64_t)(0 - (uint64_t)a);
    return a / b;
}

static uint64_t divide_unsigned(struct work *w, uint64_t a, uint64_t b)
{
    if (b == 0) w->zero = true;
    return b ? a / b : 0;
}

/* The result has the sign of the divisor, as in Python. */
static int64_t modulo(struct work *w, int64_t a, int64_t b)
{
    if (b == 0) w->zero = true;
    if (b == 0 || b == -1) return 0;
    const int64_t m = a % b;
    return m != 0 && (m < 0) != (b < 0) ? m + b : m;
}

static uint64_t modulo_unsigned(struct work *w, uint64_t a, uint64_t b)
{
    if (b == 0) w->zero = true;
    return b ? a % b : 0;
}

/* The result has the sign of the dividend, as in C. */
static int64_t remainder_of(struct work *w, int64_t a, int64_t b)
{
    if (b == 0) w->zero = true;
    return b == 0 || b == -1 ? 0 : a % b;
}

/* Integer power of an integer, wrapping; a negative exponent gives 1/a^b, truncated. */
static int64_t power(int64_t a, int64_t b)
{
    if (b < 0) return a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;
    uint64_t r = 1, base = (uint64_t)a;
    for (uint64_t e = (uint64_t)b; e; e >>= 1) {
        if (e & 1) r *= base;
        base *= base;
    }
    return (int64_t)r;
}

/* Integer to the power of a float, computed in double, truncated and clamped to 64 bits. */
static int64_t power_of_float(int64_t a, double b)
{
    const double r = pow((double)a, b);
    if (r != r) return 0;
    if (r <= -0x1p63) return INT64_MIN;
    return r >= 0x1p63 ? INT64_MAX : (int64_t)r;
}

/* Square and cube are the most frequent exponents; powf gives the same except for the last bit. */
static float power_f32(float a, float b)
{
    if (b == 2.0f) return a * a;
    if (b == 3.0f) return a * a * a;
    return powf(a, b);
}

#define QC_INTEGERS(X) QC_KERNEL_SIGNED(X) QC_KERNEL_UNSIGNED(X)
#define QC_ALL(X) QC_KERNEL_FLOATS(X) QC_INTEGERS(X)

/* The result has the sign of the divisor. A number divided by infinity gives itself, or infinity if the signs
   differ. */
static double floored(double a, double b)
{
    const double m = fmod(a, b);
    if (m == 0) return copysign(0, b);
    return (m < 0) != (b < 0) ? m + b : m;
}

/* All loops: QC_BINARY(op, other, name, types of a and b, C types of the result, of a and of b, expression). Shifts by
   the width of the type or more leave only the sign. The result of Pow has the type of the base. */
#define QC_SAME(OP, OTHER, NAME, N, T, EXPRESSION) QC_BINARY(OP, OTHER, NAME##_##N, N, N, T, T, T, EXPRESSION)
#define QC_TEST(OP, NAME, N, T, EXPRESSION) QC_BINARY(OP, false, NAME##_##N, N, N, uint8_t, T, T, EXPRESSION)
#define QC_POWER(A, TA, N, T, EXPRESSION) QC_BINARY(Pow, false, pow_##A##_##N, A, N, TA, TA, T, EXPRESSION)
#define QC_OF_FLOATS(N, T)                                                                                             \
    QC_SAME(Add, false, add, N, T, a + b)                                                                              \
    QC_SAME(Sub, false, sub, N, T, a - b)                                                                              \
    QC_SAME(Mul, false, mul, N, T, a *b)                                                                               \
    QC_SAME(Div, false, div, N, T, a / b)                                                                              \
    QC_SAME(PRelu, false, prelu, N, T, a < 0 ? a * b : a)                                                              \
    QC_SAME(Mod, false, mod, N, T, floored((double)a, (double)b))                                                      \
    QC_POWER(F64, double, N, T, pow(a, (double)b))                                                                     \
    QC_POWER(I32, int32_t, N, T, power_of_float(a, (double)b))                                                         \
    QC_POWER(I64, int64_t, N, T, power_of_float(a, (double)b))
#define QC_OF_INTEGERS(N, T)                                                                                           \
    QC_SAME(Add, false, add, N, T, (uint64_t)a + (uint64_t)b)                                                          \
    QC_SAME(Sub, false, sub, N, T, (uint64_t)a - (uint64_t)b)                                                          \
    QC_SAME(Mul, false, mul, N, T, (uint64_t)a *(uint64_t)b)                                                           \
    QC_SAME(BitwiseAnd, false, bitand, N, T, a &b)                                                                     \
    QC_SAME(BitwiseOr, false, bitor, N, T, a | b)                                                                      \
    QC_SAME(BitwiseXor, false, bitxor, N, T, a ^ b)                                                                    \
    QC_SAME(BitShift, true, left, N, T, (uint64_t)b < 8 * sizeof(T) ? (uint64_t)a << b : 0)                            \
    QC_POWER(F32, float, N, T, powf(a, (float)b))                                                                      \
    QC_POWER(F64, double, N, T, pow(a, (double)b))                                                                     \
    QC_POWER(I32, int32_t, N, T, power(a, (int64_t)b))                                                                 \
    QC_POWER(I64, int64_t, N, T, power(a, (int64_t)b))
#define QC_OF_SIGNED(N, T)                                                                                             \
    QC_SAME(Div, false, div, N, T, divide(w, a, b))                                                                    \
    QC_SAME(Mod, false, mod, N, T, modulo(w, a, b))                                                                    \
    QC_SAME(Mod, true, fmod, N, T, remainder_of(w, a, b))                                                              \
    QC_SAME(PRelu, false, prelu, N, T, a < 0 ? (uint64_t)a * (uint64_t)b : (uint64_t)a)                                \
    QC_SAME(BitShift, false, right, N, T, a >> ((uint64_t)b < 8 * sizeof(T) ? (uint64_t)b : 8 * sizeof(T) - 1))
#define QC_OF_UNSIGNED(N, T)                                                                                           \
    QC_SAME(Div, false, div, N, T, divide_unsigned(w, a, b))                                                           \
    QC_SAME(Mod, false, mod, N, T, modulo_unsigned(w, a, b))                                                           \
    QC_SAME(Mod, true, fmod, N, T, modulo_unsigned(w, a, b))                                                           \
    QC_SAME(PRelu, false, prelu, N, T, a + 0 * b)                                                                      \
    QC_SAME(BitShift, false, right, N, T, (uint64_t)b < 8 * sizeof(T) ? a >> b : 0)
#define QC_OF_ALL(N, T)                                                                                                \
    QC_TEST(Equal, equal, N, T, a == b)                                                                                \
    QC_TEST(Greater, greater, N, T, a > b)                                                                             \
    QC_TEST(GreaterOrEqual, greater_equal, N, T, a >= b)                                                               \
    QC_TEST(Less, less, N, T, a < b)                                                                                   \
    QC_TEST(LessOrEqual, less_equal, N, T, a <= b)
#define QC_BINARIES                                                                                                    \
    QC_KERNEL_FLOATS(QC_OF_FLOATS)                                                                                     \
    QC_INTEGERS(QC_OF_INTEGERS)                                                                                        \
    QC_KERNEL_SIGNED(QC_OF_SIGNED)                                                                                     \
    QC_KERNEL_UNSIGNED(QC_OF_UNSIGNED)                                                                                 \
    QC_ALL(QC_OF_ALL)                                                                                                  \
    QC_SAME(Mod, true, fmod, F32, float, fmodf(a, b))                                                                  \
    QC_SAME(Mod, true, fmod, F64, double, fmod(a, b))                                                                  \
    QC_SAME(And, false, and, BOOL, uint8_t, a &&b)                                                                     \
    QC_SAME(Or, false, or, BOOL, uint8_t, a || b)                                                                      \
    QC_SAME(Xor, false, xor, BOOL, uint8_t, !a != !b)                                                                  \
    QC_SAME(Equal, false, equal, BOOL, uint8_t, !a == !b)                                                              \
    QC_POWER(F32, float, F32, float, power_f32(a, b))                                                                  \
    QC_POWER(F32, float, F64, double, pow((double)a, b))

#define QC_BINARY(OP, OTHER, NAME, A, B, TO, TA, TB, EXPRESSION) QC_LOOP(NAME, TO, TA, TB, EXPRESSION)
QC_BINARIES
#undef QC_BINARY

static const struct row {
    enum qc_op op;
    enum qc_dtype a, b;
    bool other; /* Mod with fmod; BitShift to the left */
    qc_view_run_fn *fn;
} rows[] = {
#define QC_BINARY(OP, OTHER, NAME, A, B, TO, TA, TB, EXPRESSION)                                                       \
    {.op = QC_OP_##OP, .a = QC_##A, .b = QC_##B, .other = (OTHER), .fn = NAME},
    QC_BINARIES
#undef QC_BINARY
};

static bool prepare_binary(struct qc_prepare *p, struct qc_status *st)
{
    const bool other =
        qc_attr_int(p->node, "fmod", 0) != 0 || strcmp(qc_attr_string(p->node, "direction", ""), "LEFT") == 0;
    const enum qc_dtype a = p->in[0].dtype, b = p->in[1].dtype;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *r = &rows[i];
        if (r->op != p->node->op || r->a != a || r->b != b || r->other != other) continue;
        const struct row **state = QC_NEW(p->arena, const struct row *, st);
        p->state = state;
        if (state) *state = r;
        return state != NULL;
    }
    if (a == b) return qc_kernel_no_type(a, st);
    return qc_fail(st, QC_UNSUPPORTED, "element types %s and %s are not handled together", qc_dtype_info(a)->name,
                   qc_dtype_info(b)->name);
}

static bool run_binary(const struct qc_run *r, struct qc_status *st)
{
    const struct row *const *state = r->state;
    struct work w = {.zero = false};
    const struct qc_view *to = &r->out[0];
    const struct qc_view a = qc_view_broadcast(&r->in[0], to), b = qc_view_broadcast(&r->in[1], to);
    qc_view_each(3, QC_VIEWS(to, &a, &b), (*state)->fn, &w);
    return !w.zero || qc_fail(st, QC_BAD_INPUT, "an integer is divided by zero");
}

QC_KERNEL(binary, .order = QC_ORDER_ANY, .in_place = 3, .prepare = prepare_binary, .run = run_binary);

/* --- Max, Min, Sum, Mean; NaN propagates --- */

#define QC_X(N, T)                                                                                                     \
    QC_LOOP(max_##N, T, T, T, a > b || a != a ? a : b)                                                                 \
    QC_LOOP(min_##N, T, T, T, a < b || a != a ? a : b)                                                                 \
    static void scale_##N(void *user, int64_t n, void *const data[], const int64_t stride[])                           \
    {                                                                                                                  \
        const T count = (T) * (const unsigned *)user;                                                                  \
        T *o = data[0];                                                                                                \
        for (int64_t i = 0; i < n; i++) o[i * stride[0]] /= count;                                                     \
    }
QC_KERNEL_FLOATS(QC_X)
#undef QC_X
#define QC_X(N, T)                                                                                                     \
    QC_LOOP(max_##N, T, T, T, a > b ? a : b)                                                                           \
    QC_LOOP(min_##N, T, T, T, a < b ? a : b)
QC_INTEGERS(QC_X)
#undef QC_X
QC_LOOP(max_F16, uint16_t, uint16_t, uint16_t,
        qc_half_to_float(a) > qc_half_to_float(b) || qc_half_to_float(a) != qc_half_to_float(a) ? a : b)
QC_LOOP(min_F16, uint16_t, uint16_t, uint16_t,
        qc_half_to_float(a) < qc_half_to_float(b) || qc_half_to_float(a) != qc_half_to_float(a) ? a : b)

static const struct qc_kernel_row folds[] = {
#define QC_X(N, T)                                                                                                     \
    {.op = QC_OP_Sum, .type = QC_##N, .fn = add_##N},                                                                  \
        {.op = QC_OP_Mean, .type = QC_##N, .fn = add_##N, .last = scale_##N},
    QC_KERNEL_FLOATS(QC_X)
#undef QC_X
#define QC_X(N, T) {.op = QC_OP_Max, .type = QC_##N, .fn = max_##N}, {.op = QC_OP_Min, .type = QC_##N, .fn = min_##N},
        QC_ALL(QC_X) QC_X(F16, uint16_t)
#undef QC_X
};

static bool prepare_fold(struct qc_prepare *p, struct qc_status *st)
{
    return qc_kernel_choose(p, folds, sizeof folds / sizeof *folds, st);
}

static bool run_fold(const struct qc_run *r, struct qc_status *st)
{
    const struct qc_kernel_row *row = r->state;
    const struct qc_view *to = &r->out[0];
    for (unsigned k = 0; k < r->input_count; k++) {
        const struct qc_view from = qc_view_broadcast(&r->in[k], to);
        if (k)
            qc_view_each(3, QC_VIEWS(to, to, &from), row->fn, NULL);
        else if (from.data != to->data)
            qc_view_copy(to, &from);
    }
    unsigned count = r->input_count;
    if (row->last) qc_view_each(1, &to, row->last, &count);
    return true;
}

QC_KERNEL(variadic, .order = QC_ORDER_ANY, .in_place = 1, .prepare = prepare_fold, .run = run_fold);

/* Where-16: numpy broadcasting of all three inputs, elements of any size. */

/* Loads both sides, so that the selection needs no branch. */
#define QC_FORM(o_, c_, x_, y_)                                                                                        \
    QC_IVDEP                                                                                                           \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
        const T a = x_, b = y_;                                                                                        \
        o_ = c_ ? a : b;                                                                                               \
    }
#define QC_X(BITS)                                                                                                     \
    static QC_INLINE void select_##BITS##_body(void *const data[], const int64_t s[], int64_t n)                       \
    {                                                                                                                  \
        typedef uint##BITS##_t T;                                                                                      \
        T *o = data[0];                                                                                                \
        const uint8_t *c = data[1];                                                                                    \
        const T *x = data[2], *y = data[3];                                                                            \
        const bool dense = s[0] == 1 && s[1] == 1;                                                                     \
        if (dense && s[2] == 1 && s[3] == 1)                                                                           \
            QC_FORM(o[i], c[i], x[i], y[i])                                                                            \
        else if (dense && s[2] == 1 && s[3] == 0)                                                                      \
            QC_FORM(o[i], c[i], x[i], y[0])                                                                            \
        else if (dense && s[2] == 0 && s[3] == 1)                                                                      \
            QC_FORM(o[i], c[i], x[0], y[i])                                                                            \
        else                                                                                                           \
            QC_FORM(o[i * s[0]], c[i * s[1]], x[i * s[2]], y[i * s[3]])                                                \
    }                                                                                                                  \
    QC_SIMD(select_##BITS, (void *const data[], const int64_t s[], int64_t n), (data, s, n))                           \
    static void run_##BITS(void *user, int64_t n, void *const data[], const int64_t stride[])                          \
    {                                                                                                                  \
        (void)user;                                                                                                    \
        select_##BITS(data, stride, n);                                                                                \
    }
QC_X(8)
QC_X(16)
QC_X(32)
QC_X(64)
#undef QC_X

static bool run_where(const struct qc_run *r, struct qc_status *st)
{
    const struct qc_view *to = &r->out[0];
    const struct qc_view c = qc_view_broadcast(&r->in[0], to), x = qc_view_broadcast(&r->in[1], to),
                         y = qc_view_broadcast(&r->in[2], to);
    qc_view_run_fn *fn = NULL;
    switch (qc_dtype_size(to->dtype)) {
    case 1: fn = run_8; break;
    case 2: fn = run_16; break;
    case 4: fn = run_32; break;
    case 8: fn = run_64; break;
    }
    if (!fn) return qc_kernel_no_type(to->dtype, st);
    qc_view_each(4, QC_VIEWS(to, &c, &x, &y), fn, NULL);
    return true;
}

QC_KERNEL(where, .halves = true, .order = QC_ORDER_ANY, .in_place = 6, .run = run_where);
