// SPDX-License-Identifier: Apache-2.0
/* Functions of one real variable composed of ops (graph/core/function.h). Each block goes through all steps, in
   float32 with the same bits as the op's own kernel. */
#include "graph/core/function.h"

#include <math.h>
#include <string.h>

#include "simq/core/kernel_util.h"
#include "simq/kernels/real/unary.h"

enum { BLOCK = QC_COMPOSED_BLOCK };

struct qc_composed {
    struct qc_function f;
    struct qc_unary unary[QC_FUNCTION_STEPS]; /* for steps that are functions of the table */
};

bool qc_composed_of(struct qc_composed **out, const struct qc_node *n, struct qc_arena *a, struct qc_status *st)
{
    struct qc_composed *s = QC_NEW(a, struct qc_composed, st);
    if (!s || !qc_function_parse(&s->f, qc_attr_string(n, "f", ""), a, st)) return false;
    for (unsigned k = 0; k < s->f.count; k++) {
        const struct qc_function_step *step = &s->f.steps[k];
        const struct qc_node one = {.op = step->op, .attr_count = step->attr_count, .attrs = step->attrs};
        if ((qc_op_info(step->op)->unary || step->op == QC_OP_Gelu) && !qc_unary_of(&s->unary[k], &one, st))
            return false;
    }
    *out = s;
    return true;
}

size_t qc_composed_scratch(const struct qc_composed *f)
{
    return (size_t)f->f.count * BLOCK;
}

#define QC_EACH(OP, EXPRESSION)                                                                                        \
    case QC_OP_##OP:                                                                                                   \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            const float a = pa[i * sa], b = pb[i * sb];                                                                \
            (void)b;                                                                                                   \
            y[i] = (EXPRESSION);                                                                                       \
        }                                                                                                              \
        break;

/* Strides are 1, or 0 for a scalar. */
static void compute(enum qc_op op, float *y, int64_t n, const float *pa, int64_t sa, const float *pb, int64_t sb)
{
    switch ((int)op) {
        QC_EACH(Abs, fabsf(a))
        QC_EACH(Neg, -a)
        QC_EACH(Relu, a < 0 ? 0 : a)
        QC_EACH(Add, a + b)
        QC_EACH(Sub, a - b)
        QC_EACH(Mul, a * b)
        QC_EACH(Div, a / b)
        QC_EACH(Max, a > b || a != a ? a : b)
        QC_EACH(Min, a < b || a != a ? a : b)
    }
}

void qc_composed_run(const struct qc_composed *f, float *y, const float *x, int64_t n, float *scratch)
{
    for (unsigned k = 0; k < f->f.count; k++) {
        const struct qc_function_step *step = &f->f.steps[k];
        const float *in[QC_FUNCTION_ARGS] = {NULL};
        int64_t stride[QC_FUNCTION_ARGS] = {0};
        float *to = scratch + (size_t)k * BLOCK;
        for (unsigned i = 0; i < step->arg_count; i++) {
            const struct qc_function_arg *arg = &step->args[i];
            stride[i] = arg->kind != QC_ARG_NUMBER;
            switch (arg->kind) {
            case QC_ARG_ABSENT: break;
            case QC_ARG_X: in[i] = x; break;
            case QC_ARG_STEP: in[i] = scratch + (size_t)arg->step * BLOCK; break;
            case QC_ARG_NUMBER: in[i] = &arg->number; break;
            }
        }
        if (f->unary[k].fn && stride[0])
            f->unary[k].fn(to, in[0], n, f->unary[k].a, f->unary[k].b);
        else if (f->unary[k].fn) {
            for (int64_t i = 0; i < n; i++) to[i] = *in[0];
            f->unary[k].fn(to, to, n, f->unary[k].a, f->unary[k].b);
        } else if (step->op == QC_OP_Clip) {
            for (int64_t i = 0; i < n; i++) {
                float v = in[0][i * stride[0]];
                if (in[1] && v < *in[1]) v = *in[1];
                if (in[2] && v > *in[2]) v = *in[2];
                to[i] = v;
            }
        } else {
            compute(step->op, to, n, in[0], stride[0], in[1] ? in[1] : in[0], in[1] ? stride[1] : stride[0]);
        }
    }
    memcpy(y, scratch + (size_t)(f->f.count - 1) * BLOCK, (size_t)n * sizeof *y);
}

static bool prepare_function(struct qc_prepare *p, struct qc_status *st)
{
    struct qc_composed *f;
    if (p->in[0].dtype != QC_F32) return qc_kernel_no_type(p->in[0].dtype, st);
    if (!qc_composed_of(&f, p->node, p->arena, st)) return false;
    p->state = f;
    p->scratch = (qc_composed_scratch(f) + BLOCK) * sizeof(float);
    return true;
}

struct job {
    const struct qc_composed *f;
    float *scratch;
};

static void strided_function(void *user, int64_t n, void *const data[], const int64_t stride[])
{
    const struct job *j = user;
    float *y = data[0], *x = j->scratch;
    const float *from = data[1];
    for (int64_t at = 0; at < n; at += BLOCK) {
        const int64_t count = n - at < BLOCK ? n - at : BLOCK;
        for (int64_t i = 0; i < count; i++) x[i] = from[(at + i) * stride[1]];
        qc_composed_run(j->f, x, x, count, j->scratch + BLOCK);
        for (int64_t i = 0; i < count; i++) y[(at + i) * stride[0]] = x[i];
    }
}

static bool run_function(const struct qc_run *r, struct qc_status *st)
{
    return qc_kernel_map(r, strided_function, &(struct job){.f = r->state, .scratch = r->scratch});
}

QC_KERNEL(function, .order = QC_ORDER_ANY, .in_place = 1, .prepare = prepare_function, .run = run_function);
