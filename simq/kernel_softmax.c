// SPDX-License-Identifier: Apache-2.0
/* Softmax-13, LogSoftmax-13 along one axis: exp(x - max) / sum, the sum in double. */
#include <math.h>

#include "simq/kernel_util.h"

enum { LANES = 64 };

struct state {
    int axis;
    bool log;
};

static bool prepare(struct qc_prepare *p, struct qc_status *st)
{
    if (p->in[0].dtype != QC_F32) return qc_kernel_no_type(p->in[0].dtype, st);
    struct state *s = QC_NEW(p->arena, struct state, st);
    p->state = s;
    if (!s) return false;
    s->log = p->node->op == QC_OP_LogSoftmax;
    return qc_kernel_axis(&s->axis, p, -1, st);
}

/* `lanes` lines side by side, each of n elements: element i of line j is at i * stride + j * lane_stride. */
static void lines(float *y, const float *x, int64_t n, const int64_t stride[2], int64_t lanes,
                  const int64_t lane_stride[2], bool log_form)
{
    float max[LANES];
    double sum[LANES];
    for (int64_t j = 0; j < lanes; j++) {
        max[j] = x[j * lane_stride[1]];
        sum[j] = 0;
    }
    for (int64_t i = 1; i < n; i++) {
        const float *row = x + i * stride[1];
        for (int64_t j = 0; j < lanes; j++)
            max[j] = row[j * lane_stride[1]] > max[j] ? row[j * lane_stride[1]] : max[j];
    }
    for (int64_t i = 0; i < n; i++) {
        const float *row = x + i * stride[1];
        float *to = y + i * stride[0];
        for (int64_t j = 0; j < lanes; j++) {
            const float d = row[j * lane_stride[1]] - max[j], e = expf(d);
            sum[j] += (double)e;
            to[j * lane_stride[0]] = log_form ? d : e;
        }
    }
    for (int64_t j = 0; j < lanes; j++) sum[j] = log_form ? log(sum[j]) : 1 / sum[j];
    for (int64_t i = 0; i < n; i++) {
        float *to = y + i * stride[0];
        for (int64_t j = 0; j < lanes; j++) {
            float *e = &to[j * lane_stride[0]];
            *e = (float)(log_form ? (double)*e - sum[j] : (double)*e * sum[j]);
        }
    }
}

static bool run(const struct qc_run *r, struct qc_status *st)
{
    (void)st;
    const struct state *s = r->state;
    struct qc_view views[2] = {r->out[0], r->in[0]};
    if (qc_view_count(&r->out[0]) == 0) return true;
    unsigned marked = 0;
    if (views[0].rank) marked = 1U << s->axis;
    qc_views_simplify(2, views, &marked);
    const int inner = views[0].rank - 1;
    int axis = inner;
    for (int d = 0; d < views[0].rank; d++)
        if (marked >> d & 1) axis = d;
    const int64_t lanes = axis == inner ? 1 : views[0].dim[inner];
    const int64_t stride[2] = {views[0].stride[axis], views[1].stride[axis]};
    const int64_t lane_stride[2] = {views[0].stride[inner], views[1].stride[inner]};
    const struct qc_view *const both[] = {&views[0], &views[1]};
    struct qc_walk w;
    if (!qc_walk_begin(&w, 2, both, 1U << axis | 1U << inner)) return true;
    do {
        for (int64_t j = 0; j < lanes; j += LANES) {
            float *y = qc_at(&views[0], w.at[0] + j * lane_stride[0]);
            const float *x = qc_at(&views[1], w.at[1] + j * lane_stride[1]);
            lines(y, x, views[0].dim[axis], stride, lanes - j < LANES ? lanes - j : LANES, lane_stride, s->log);
        }
    } while (qc_walk_next(&w));
    return true;
}

const struct qc_kernel qc_kernel_softmax = {
    .name = "softmax", .order = QC_ORDER_ANY, .in_place = 1, .prepare = prepare, .run = run};
