// SPDX-License-Identifier: Apache-2.0
/* Functions of one real variable: one loop per QC_UNARY row of graph/types/ops.def, and Gelu. */
#include <math.h>
#include <string.h>

#include "simq/core/kernel_util.h"
#include "simq/kernels/real/unary.h"
#include "simq/kernels/real/vector_math.h"

/* In the expressions of the table, these names stand for functions that can be inlined in a loop. Maxima propagate
   NaN. */
#define expf(v) qc_vector_exp(native, v)
#define expm1f(v) qc_vector_expm1(native, v)
#define log1pf(v) qc_vector_log1p(v)
#define logf(v) qc_vector_log(v)
#define tanhf(v) qc_vector_tanh(v)
#define logisticf(v) qc_vector_logistic(v)
#define erff(v) qc_vector_erf(native, v)
#define fmaxf(v, w) qc_vector_max(v, w)
#define fminf(v, w) qc_vector_min(v, w)
#define nearbyintf(v) qc_round_even(v, native)

#define QC_BODY(NAME, EXPRESSION)                                                                                      \
    static QC_INLINE void NAME##_body(const bool native, float *y, const float *x_, int64_t n, float a, float b)       \
    {                                                                                                                  \
        QC_IVDEP                                                                                                       \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            const float x = x_[i];                                                                                     \
            y[i] = (float)(EXPRESSION);                                                                                \
        }                                                                                                              \
    }                                                                                                                  \
    QC_SIMD_ROUND(NAME, (float *y, const float *x, int64_t n, float a, float b), (y, x, n, a, b))

/* One loop per row. The literals of the table are ints and floats, so all arithmetic is in float32. */
#define QC_UNARY(op, onnx, a_name, a0, b_name, b0, expression, lo, hi, tolerance) QC_BODY(loop_##op, expression)
#include "graph/types/ops.def"

/* Gelu-20: x/2 (1 + erf(x / sqrt 2)). */
QC_BODY(gelu_erf, 0.5f * x * (1 + erff(x * 0.70710678f)))

/* Gelu-20, approximate = "tanh": x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))). */
QC_BODY(gelu_tanh, 0.5f * x * (1 + tanhf(0.79788456f * (x + 0.044715f * x * x * x))))

struct row {
    enum qc_op op;
    qc_unary_fn *fn;
    const char *a_name, *b_name;
    float a, b;
};

#define QC_UNARY(op_, onnx, a_, a0, b_, b0, expression, lo, hi, tolerance)                                             \
    {.op = QC_OP_##op_, .fn = loop_##op_, .a_name = (a_), .b_name = (b_), .a = (float)(a0), .b = (float)(b0)},
static const struct row rows[] = {
#include "graph/types/ops.def"
};

bool qc_unary_of(struct qc_unary *out, const struct qc_node *n, struct qc_status *st)
{
    if (n->op == QC_OP_Gelu) {
        const char *how = qc_attr_string(n, "approximate", "none");
        bool tanh_form = strcmp(how, "tanh") == 0;
        if (!tanh_form && strcmp(how, "none") != 0)
            return qc_fail(st, QC_UNSUPPORTED, "attribute approximate is \"%s\", expected \"none\" or \"tanh\"", how);
        *out = (struct qc_unary){.fn = tanh_form ? gelu_tanh : gelu_erf};
        return true;
    }
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *r = &rows[i];
        if (r->op != n->op) continue;
        *out = (struct qc_unary){.fn = r->fn, .a = r->a, .b = r->b};
        if (*r->a_name) out->a = qc_attr_float(n, r->a_name, r->a);
        if (*r->b_name) out->b = qc_attr_float(n, r->b_name, r->b);
        return true;
    }
    return qc_fail(st, QC_UNSUPPORTED, "%s is not a function of one real variable", qc_op_info(n->op)->name);
}

static bool prepare_unary(struct qc_prepare *p, struct qc_status *st)
{
    if (p->in[0].dtype != QC_F32) return qc_kernel_no_type(p->in[0].dtype, st);
    struct qc_unary *u = QC_NEW_STATE(p, struct qc_unary, st);
    if (!u || !qc_unary_of(u, p->node, st)) return false;
    return true;
}

static void strided_unary(void *user, int64_t n, void *const data[], const int64_t stride[])
{
    const struct qc_unary *u = user;
    float *y = data[0];
    const float *x = data[1];
    if (stride[0] == 1 && stride[1] == 1) {
        u->fn(y, x, n, u->a, u->b);
        return;
    }
    enum { BLOCK = 256 };
    float in[BLOCK];
    for (int64_t i = 0; i < n; i += BLOCK) {
        const int64_t count = n - i < BLOCK ? n - i : BLOCK;
        for (int64_t k = 0; k < count; k++) in[k] = x[(i + k) * stride[1]];
        u->fn(in, in, count, u->a, u->b);
        for (int64_t k = 0; k < count; k++) y[(i + k) * stride[0]] = in[k];
    }
}

static bool run_unary(const struct qc_run *r, struct qc_status *st)
{
    const struct qc_unary *u = r->state;
    if (!qc_view_same_order(&r->out[0], &r->in[0])) return qc_kernel_map(r, strided_unary, u);
    u->fn(r->out[0].data, r->in[0].data, (int64_t)qc_view_count(&r->in[0]), u->a, u->b);
    return true;
}

QC_KERNEL(unary, .in_double = &qc_kernel_unary_double, .order = QC_ORDER_ANY, .in_place = 1, .takes_any = true,
          .prepare = prepare_unary, .run = run_unary);
QC_KERNEL(gelu, .order = QC_ORDER_ANY, .in_place = 1, .prepare = prepare_unary, .run = run_unary);
