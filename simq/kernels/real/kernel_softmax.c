// SPDX-License-Identifier: Apache-2.0
/* Softmax-13, LogSoftmax-13 along one axis: exp(x - max) / sum, the sum in double. */
#include <math.h>
#include <string.h>

#include "simq/core/kernel_util.h"
#include "simq/kernels/real/line_math.h"
#include "simq/kernels/real/vector_math.h"

enum { LANES = 64 };

struct state {
    int axis;
    bool log;
};

static bool prepare_softmax(struct qc_prepare *p, struct qc_status *st)
{
    if (p->in[0].dtype != QC_F32) return qc_kernel_no_type(p->in[0].dtype, st);
    struct state *s = QC_NEW_STATE(p, struct state, st);
    if (!s) return false;
    s->log = p->node->op == QC_OP_LogSoftmax;
    return qc_kernel_axis(&s->axis, p, -1, st);
}

/* y = e^(x - max) / sum, or x - max - log(sum). */
QC_VECTOR_ROUND(softmax_line, (float *y, const float *x, int64_t n, bool log_form), (y, x, n, log_form))
{
    const float max = qc_line_max(x, n);
    if (log_form) {
        double part[QC_LINE_PARTS] = {0};
        float e[QC_LINE_PARTS];
        for (int64_t i = 0; i < n; i += QC_LINE_PARTS) {
            const int64_t count = n - i < QC_LINE_PARTS ? n - i : QC_LINE_PARTS;
            for (int64_t k = 0; k < count; k++) e[k] = qc_vector_exp(native, x[i + k] - max);
            for (int64_t k = 0; k < count; k++) part[k] += (double)e[k];
        }
        const double shift = (double)max + log(qc_line_join(part));
        for (int64_t i = 0; i < n; i++) y[i] = (float)((double)x[i] - shift);
        return;
    }
    QC_IVDEP
    for (int64_t i = 0; i < n; i++) y[i] = qc_vector_exp(native, x[i] - max);
    const float factor = (float)(1 / qc_line_sum(y, n, 0));
    for (int64_t i = 0; i < n; i++) y[i] *= factor;
}

/* `lanes` adjacent lines: element i of line j is at i * stride + j. */
QC_VECTOR_ROUND(lanes_of, (float *y, const float *x, int64_t n, const int64_t stride[2], int64_t lanes, bool log_form),
                (y, x, n, stride, lanes, log_form))
{
    float max[LANES], factor[LANES];
    double sum[LANES];
    for (int64_t j = 0; j < lanes; j++) {
        max[j] = x[j];
        sum[j] = 0;
    }
    for (int64_t i = 1; i < n; i++) {
        const float *row = x + i * stride[1];
        for (int64_t j = 0; j < lanes; j++) max[j] = row[j] > max[j] ? row[j] : max[j];
    }
    for (int64_t i = 0; i < n; i++) {
        const float *row = x + i * stride[1];
        float e[LANES];
        for (int64_t j = 0; j < lanes; j++) e[j] = qc_vector_exp(native, row[j] - max[j]);
        for (int64_t j = 0; j < lanes; j++) sum[j] += (double)e[j];
        if (!log_form) memcpy(y + i * stride[0], e, (size_t)lanes * sizeof *y);
    }
    if (log_form) {
        for (int64_t j = 0; j < lanes; j++) sum[j] = (double)max[j] + log(sum[j]);
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < lanes; j++) y[i * stride[0] + j] = (float)((double)x[i * stride[1] + j] - sum[j]);
        return;
    }
    for (int64_t j = 0; j < lanes; j++) factor[j] = (float)(1 / sum[j]);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < lanes; j++) y[i * stride[0] + j] *= factor[j];
}

/* Lines of few elements, wherever they are: their sums have one element a part, so both orders of summation are one. */
struct short_lines {
    float *y[LANES];
    const float *x[LANES];
    int64_t count;
};

static void run_short_lines(const struct short_lines *s, int64_t n)
{
    float block[QC_LINE_PARTS * LANES] = {0};
    if (s->count < n) {
        for (int64_t j = 0; j < s->count; j++) softmax_line(s->y[j], s->x[j], n, false);
        return;
    }
    for (int64_t j = 0; j < s->count; j++)
        for (int64_t i = 0; i < n; i++) block[i * LANES + j] = s->x[j][i];
    lanes_of(block, block, n, (int64_t[]){LANES, LANES}, s->count, false);
    for (int64_t j = 0; j < s->count; j++)
        for (int64_t i = 0; i < n; i++) s->y[j][i] = block[i * LANES + j];
}

static bool run_softmax(const struct qc_run *r, struct qc_status *st)
{
    const struct state *s = r->state;
    struct qc_view views[2] = {r->out[0], r->in[0]};
    if (!qc_view_same_order(&r->out[0], &r->in[0])) { /* rare: copy to the output and work in place */
        qc_view_copy(&r->out[0], &r->in[0]);
        views[1] = r->out[0];
    }
    unsigned marked = 0;
    if (views[0].rank) marked = 1U << s->axis;
    qc_views_simplify(2, views, &marked);
    const int inner = views[0].rank - 1;
    int axis = inner;
    for (int d = 0; d < views[0].rank; d++)
        if (marked >> d & 1) axis = d;
    const int64_t n = views[0].dim[axis], lanes = axis == inner ? 1 : views[0].dim[inner];
    const int64_t stride[2] = {views[0].stride[axis], views[1].stride[axis]};
    const bool few = axis == inner && n < QC_LINE_PARTS && !s->log;
    struct short_lines lines = {.count = 0};
    QC_WALK(w, 1U << axis | 1U << inner, &views[0], &views[1]) {
        for (int64_t j = 0; j < lanes; j += LANES) {
            float *y = qc_at(&views[0], w.at[0] + j);
            const float *x = qc_at(&views[1], w.at[1] + j);
            if (few) {
                lines.y[lines.count] = y;
                lines.x[lines.count++] = x;
                if (lines.count < LANES) continue;
                run_short_lines(&lines, n);
                lines.count = 0;
            } else if (axis == inner)
                softmax_line(y, x, n, s->log);
            else
                lanes_of(y, x, n, stride, lanes - j < LANES ? lanes - j : LANES, s->log);
        }
    }
    run_short_lines(&lines, n);
    return true;
}

QC_KERNEL(softmax, .in_double = &qc_kernel_softmax_double, .order = QC_ORDER_ANY, .in_place = 1, .takes_any = true,
          .prepare = prepare_softmax, .run = run_softmax);
