// SPDX-License-Identifier: Apache-2.0
#include "calib/ranges/fit_pairs.h"

#include <float.h>
#include <math.h>

#include "arith/params.h"
#include "graph/core/pair_order.h"
#include "graph/core/scale_layout.h"

static const double STEP = 1 + 1.0 / 512; /* from one scale that is tried to the next */

struct row {
    const float *weights;
    const struct qc_pair_order *order;
    int64_t channel;
    struct qc_levels levels;
    int32_t zero_point;
};

static int32_t level_at(const struct row *r, int64_t i, float scale)
{
    if (i >= r->order->count) return 0;
    const struct qc_affine p = {.scale = scale, .zero_point = r->zero_point};
    return qc_quantize_one(r->weights[qc_pair_order_at(r->order, r->channel, i)], p, r->levels);
}

/* The largest sum of one sign in a pair. */
static int32_t largest_pair(const struct row *r, float scale)
{
    int32_t most = 0;
    for (int64_t i = 0; i < r->order->count; i += 2) {
        const int32_t a = level_at(r, i, scale), b = level_at(r, i + 1, scale);
        const int32_t above = (a > 0 ? a : 0) + (b > 0 ? b : 0), below = (a < 0 ? -a : 0) + (b < 0 ? -b : 0);
        if (above > most) most = above;
        if (below > most) most = below;
    }
    return most;
}

static float fitting_scale(const struct row *r, float scale, int32_t limit)
{
    const int32_t now = largest_pair(r, scale);
    if (now <= limit) return scale;
    /* Rounding moves the sum of a pair by 1 at most. */
    double to = (double)scale * fmax(1, (double)(now - 1) / (limit + 1));
    while (to < (double)FLT_MAX && largest_pair(r, (float)to) > limit) to *= STEP;
    return (float)to;
}

size_t qc_fit_pairs(float *scale, const int32_t *zero_point, const struct qc_pair_fit *fit)
{
    const struct qc_qparams *q = &fit->g->qparams_of[fit->quantizer];
    const struct qc_shape *shape = &fit->weights->shape;
    const struct qc_scale_layout layout = qc_scale_layout_of(q, shape, fit->axis);
    struct qc_pair_order order;
    if (!fit->node || !qc_pair_order_of(&order, fit->g, &fit->g->nodes[fit->node]))
        order = qc_pair_order_of_rows(shape);
    size_t raised = 0;
    struct row r = {.weights = fit->weights->data, .order = &order, .levels = qc_qparams_levels(q)};
    for (r.channel = 0; r.channel < order.channels; r.channel++) {
        const size_t at = qc_scale_at(&layout, (size_t)qc_pair_order_at(&order, r.channel, 0));
        const float was = scale[at];
        r.zero_point = zero_point[at];
        scale[at] = fitting_scale(&r, was, q->pair_limit);
        raised += scale[at] > was;
    }
    /* A larger scale may round a pair of another row up. */
    for (bool again = layout.count < (size_t)order.channels; again;) {
        again = false;
        for (r.channel = 0; r.channel < order.channels; r.channel++) {
            const size_t at = qc_scale_at(&layout, (size_t)qc_pair_order_at(&order, r.channel, 0));
            const float was = scale[at];
            r.zero_point = zero_point[at];
            scale[at] = fitting_scale(&r, was, q->pair_limit);
            again = again || scale[at] > was;
        }
    }
    return raised;
}
