// SPDX-License-Identifier: Apache-2.0
#include "calib/ranges/calibrate_parts.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "arith/params.h"
#include "graph/core/pair_order.h"
#include "graph/core/parameters.h"

static const double STEP = 1 + 1.0 / 512; /* ratio of one tried scale to the previous */

/* Two neighbouring weights of a row; with an odd count the last weight is alone. */
struct pair {
    float a, b;
    bool alone;
};

struct row {
    const float *weights;
    const struct qc_pair_order *order;
    int64_t channel;
    struct qc_levels levels;
    int32_t zero_point;
    struct pair *pairs; /* [(order->count + 1) / 2]: those that may exceed the limit */
    size_t count;
};

/* Returns the larger of the pair's positive and negative sums. */
static int32_t pair_sum(const struct row *r, const struct pair *pair, float scale)
{
    const struct qc_affine p = {.scale = scale, .zero_point = r->zero_point};
    const int32_t a = qc_quantize_one(pair->a, p, r->levels),
                  b = pair->alone ? 0 : qc_quantize_one(pair->b, p, r->levels);
    const int32_t above = (a > 0 ? a : 0) + (b > 0 ? b : 0), below = (a < 0 ? -a : 0) + (b < 0 ? -b : 0);
    return above > below ? above : below;
}

/* Returns the largest sum at this scale. With zero point 0, levels only shrink as the scale grows, so a pair within the
   limit is dropped. */
static int32_t largest_pair(struct row *r, float scale, int32_t limit)
{
    int32_t most = 0;
    size_t left = 0;
    for (size_t i = 0; i < r->count; i++) {
        const int32_t sum = pair_sum(r, &r->pairs[i], scale);
        if (sum > most) most = sum;
        if (sum > limit || r->zero_point) r->pairs[left++] = r->pairs[i];
    }
    r->count = left;
    return most;
}

static float fitting_scale(struct row *r, float scale, int32_t limit)
{
    /* Read the pairs of a row that may exceed the limit at this scale. Rounding raises a sum by at most one level; a
       second level is a margin for float errors. */
    const struct qc_pair_order *o = r->order;
    const float kept = (float)(limit - 2) * scale;
    const float *run = r->weights + qc_pair_order_at(o, r->channel, 0);
    int64_t k = 0;
    struct pair pair = {0};
    r->count = 0;
    for (int64_t i = 0; i < o->count; i++) {
        const float w = run[k * o->step];
        if (++k == o->run) {
            run += o->run_step;
            k = 0;
        }
        if (i % 2 == 0) {
            pair = (struct pair){.a = w, .alone = true};
            if (i + 1 < o->count) continue;
        } else {
            pair.b = w;
            pair.alone = false;
        }
        if (r->zero_point || !(((pair.a > 0 ? pair.a : 0) + (pair.b > 0 ? pair.b : 0)) <= kept &&
                               ((pair.a < 0 ? -pair.a : 0) + (pair.b < 0 ? -pair.b : 0)) <= kept))
            r->pairs[r->count++] = pair;
    }
    const int32_t now = largest_pair(r, scale, limit);
    if (now <= limit) return scale;
    /* Rounding changes the sum of a pair by at most 1. */
    double to = (double)scale * fmax(1, (double)(now - 1) / (limit + 1));
    while (to < (double)FLT_MAX && largest_pair(r, (float)to, limit) > limit) to *= STEP;
    return (float)to;
}

bool qc_fit_pairs(size_t *raised, float *scale, const int32_t *zero_point, const struct qc_pair_fit *fit,
                  struct qc_status *st)
{
    const struct qc_qparams *q = &fit->g->qparams_of[fit->quantizer];
    const struct qc_shape *shape = &fit->weights->shape;
    const struct qc_scale_layout layout = qc_scale_layout_of(q, shape, fit->axis);
    struct qc_pair_order order;
    if (!fit->node || !qc_pair_order_of(&order, fit->g, &fit->g->nodes[fit->node]))
        order = qc_pair_order_of_rows(shape);
    struct row r = {.weights = fit->weights->data, .order = &order, .levels = qc_qparams_levels(q)};
    const size_t bytes = ((size_t)order.count + 1) / 2 * sizeof *r.pairs;
    if (!(r.pairs = malloc(bytes + 1))) return qc_fail_memory(st, bytes);
    /* A larger scale may round a pair of another row up, if rows share it. */
    for (bool first = true, again = true; again; first = false) {
        again = false;
        for (r.channel = 0; r.channel < order.channels; r.channel++) {
            const size_t at = qc_scale_at(&layout, (size_t)qc_pair_order_at(&order, r.channel, 0));
            const float was = scale[at];
            r.zero_point = zero_point[at];
            scale[at] = fitting_scale(&r, was, q->pair_limit);
            *raised += first && scale[at] > was;
            again = again || (scale[at] > was && layout.count < (size_t)order.channels);
        }
    }
    free(r.pairs);
    return true;
}
