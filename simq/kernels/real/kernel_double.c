// SPDX-License-Identifier: Apache-2.0
/* Float64 kernels of ops whose own kernels are for float32: functions of one variable, Softmax, MatMul, Gemm. */
#include <math.h>

#include "simq/core/kernel_util.h"

/* --- Functions of one variable: the expressions of the table, with double functions --- */

static double logistic(double x)
{
    return 1 / (1 + exp(-x));
}

#define expf exp
#define expm1f expm1
#define log1pf log1p
#define logf log
#define tanhf tanh
#define logisticf logistic
#define erff erf
#define fmaxf fmax
#define fminf fmin
#define nearbyintf nearbyint
#define sqrtf sqrt
#define sinf sin
#define cosf cos
#define tanf tan
#define asinf asin
#define acosf acos
#define atanf atan
#define asinhf asinh
#define acoshf acosh
#define atanhf atanh
#define sinhf sinh
#define coshf cosh
#define floorf floor
#define ceilf ceil
#define fabsf fabs

typedef double unary_fn(double x, double a, double b);

/* Literals of the table are floats. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdouble-promotion"

#define QC_UNARY(op, onnx, a_, a0, b_, b0, expression, lo, hi, tolerance)                                              \
    static double value_##op(double x, double a, double b)                                                             \
    {                                                                                                                  \
        return (double)(expression);                                                                                   \
    }
#include "graph/types/ops.def"

#pragma GCC diagnostic pop

static const struct {
    enum qc_op op;
    unary_fn *fn;
    const char *a_name, *b_name;
    double a, b;
} rows[] = {
#define QC_UNARY(op_, onnx, a_, a0, b_, b0, expression, lo, hi, tolerance)                                             \
    {.op = QC_OP_##op_, .fn = value_##op_, .a_name = (a_), .b_name = (b_), .a = (double)(a0), .b = (double)(b0)},
#include "graph/types/ops.def"
};

struct unary {
    unary_fn *fn;
    double a, b;
};

static bool prepare_double_unary(struct qc_prepare *p, struct qc_status *st)
{
    struct unary *u = QC_NEW_STATE(p, struct unary, st);
    if (!u) return false;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].op != p->node->op) continue;
        *u = (struct unary){.fn = rows[i].fn, .a = rows[i].a, .b = rows[i].b};
        if (*rows[i].a_name) u->a = (double)qc_attr_float(p->node, rows[i].a_name, (float)u->a);
        if (*rows[i].b_name) u->b = (double)qc_attr_float(p->node, rows[i].b_name, (float)u->b);
    }
    return u->fn || qc_kernel_no_type(QC_F64, st);
}

static void unary_run(void *user, int64_t n, void *const data[], const int64_t stride[])
{
    const struct unary *u = user;
    double *y = data[0];
    const double *x = data[1];
    for (int64_t i = 0; i < n; i++) y[i * stride[0]] = u->fn(x[i * stride[1]], u->a, u->b);
}

static bool run_double_unary(const struct qc_run *r, struct qc_status *st)
{
    return qc_kernel_map(r, unary_run, r->state);
}

/* --- Softmax, LogSoftmax --- */

struct softmax {
    int axis;
    bool log;
};

static bool prepare_double_softmax(struct qc_prepare *p, struct qc_status *st)
{
    struct softmax *s = QC_NEW_STATE(p, struct softmax, st);
    if (s) s->log = p->node->op == QC_OP_LogSoftmax;
    return s && qc_kernel_axis(&s->axis, p, -1, st);
}

static void softmax_line(const void *user, void *to, const void *from, int64_t n, int64_t sy, int64_t sx)
{
    const bool log_form = *(const bool *)user;
    double *y = to, most = -HUGE_VAL, sum = 0;
    const double *x = from;
    for (int64_t i = 0; i < n; i++) most = x[i * sx] > most || x[i * sx] != x[i * sx] ? x[i * sx] : most;
    for (int64_t i = 0; i < n; i++) sum += exp(x[i * sx] - most);
    for (int64_t i = 0; i < n; i++) y[i * sy] = log_form ? x[i * sx] - most - log(sum) : exp(x[i * sx] - most) / sum;
}

static bool run_double_softmax(const struct qc_run *r, struct qc_status *st)
{
    const struct softmax *s = r->state;
    qc_lines_each(&r->out[0], &r->in[0], s->axis, softmax_line, &s->log);
    return true;
}

/* --- MatMul, Gemm --- */

struct gemm {
    double alpha, beta;
    bool turned[2];
};

static bool prepare_double_gemm(struct qc_prepare *p, struct qc_status *st)
{
    struct gemm *g = QC_NEW_STATE(p, struct gemm, st);
    if (g)
        *g = (struct gemm){.alpha = (double)qc_attr_float(p->node, "alpha", 1),
                           .beta = (double)qc_attr_float(p->node, "beta", 1),
                           .turned = {qc_attr_int(p->node, "transA", 0) != 0, qc_attr_int(p->node, "transB", 0) != 0}};
    return g != NULL;
}

/* A vector as a matrix of one row or column. */
static struct qc_view double_matrix(const struct qc_view *v, bool first, bool turned)
{
    struct qc_view m = *v;
    if (v->rank == 1) {
        m.rank = 2;
        m.dim[0] = first ? 1 : v->dim[0];
        m.dim[1] = first ? v->dim[0] : 1;
        m.stride[0] = first ? 0 : v->stride[0];
        m.stride[1] = first ? v->stride[0] : 0;
    }
    if (turned) {
        const int64_t dim = m.dim[0], stride = m.stride[0];
        m.dim[0] = m.dim[1];
        m.stride[0] = m.stride[1];
        m.dim[1] = dim;
        m.stride[1] = stride;
    }
    return m;
}

/* Returns the dims of y with the strides of a, or 0 where a has one element. `drop`: the dimension summed over. */
static struct qc_view along_axis(const struct qc_view *y, const struct qc_view *a, int drop)
{
    struct qc_view r = *y;
    for (int d = 0; d < y->rank; d++) {
        const int from = d - (y->rank - a->rank);
        r.stride[d] = from < 0 || from == drop || a->dim[from] == 1 ? 0 : a->stride[from];
    }
    return r;
}

static bool run_gemm(const struct qc_run *r, struct qc_status *st)
{
    const struct gemm *g = r->state;
    const struct qc_view a = double_matrix(&r->in[0], true, g->turned[0]),
                         b = double_matrix(&r->in[1], false, g->turned[1]);
    const bool bias = r->input_count > 2 && r->in[2].rank >= 0;
    struct qc_view y = r->out[0];
    if (r->in[1].rank == 1) { /* the result of a product with a vector has no columns */
        y.dim[y.rank] = 1;
        y.stride[y.rank++] = 0;
    }
    if (r->in[0].rank == 1) {
        for (int d = y.rank++; d > y.rank - 2; d--) {
            y.dim[d] = y.dim[d - 1];
            y.stride[d] = y.stride[d - 1];
        }
        y.dim[y.rank - 2] = 1;
        y.stride[y.rank - 2] = 0;
    }
    const struct qc_view at_a = along_axis(&y, &a, a.rank - 1), at_b = along_axis(&y, &b, b.rank - 2),
                         at_c = bias ? qc_view_broadcast(&r->in[2], &y) : y;
    const int64_t n = a.dim[a.rank - 1], along_a = a.stride[a.rank - 1], along_b = b.stride[b.rank - 2];
    QC_WALK(w, 0, &y, &at_a, &at_b, &at_c) {
        const double *from_a = (const double *)a.data + w.at[1], *from_b = (const double *)b.data + w.at[2];
        double sum = 0;
        for (int64_t i = 0; i < n; i++) sum += from_a[i * along_a] * from_b[i * along_b];
        double v = g->alpha * sum;
        if (bias) v += g->beta * ((const double *)r->in[2].data)[w.at[3]];
        ((double *)y.data)[w.at[0]] = v;
    }
    return true;
}

QC_KERNEL(unary_double, .order = QC_ORDER_ANY, .prepare = prepare_double_unary, .run = run_double_unary);
QC_KERNEL(softmax_double, .order = QC_ORDER_ANY, .prepare = prepare_double_softmax, .run = run_double_softmax);
QC_KERNEL(gemm_double, .order = QC_ORDER_ANY, .prepare = prepare_double_gemm, .run = run_gemm);
