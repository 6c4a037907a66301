// SPDX-License-Identifier: Apache-2.0
#include "calib/weights/round_weights_parts.h"
#include "calib/weights/sum_bound.h"

struct bounded {
    const struct qc_sum_layer *sums;
    double limit;
    size_t output;
    float scale; /* of its weights */
};

static double bound(const struct bounded *b, const float *weights, double shift)
{
    return qc_sum_bound(b->sums, weights, (float)((double)qc_sum_bias(b->sums, b->output) + shift), b->output,
                        b->scale);
}

/* Clamps the shift to the range in which the sums fit. Returns false if no shift fits. */
static bool fit_shift(double *shift, const struct bounded *b, const float *weights, bool may_change)
{
    const double old = (double)qc_sum_bias(b->sums, b->output),
                 step = (double)(qc_sum_data_scale(b->sums, b->output) * b->scale);
    double above, below;
    if (!may_change) return bound(b, weights, 0) <= b->limit;
    qc_sum_terms(&above, &below, b->sums, weights, b->output, b->scale);
    const double most = (b->limit - above) * step - old, least = (below - b->limit) * step - old;
    if (above > b->limit || below > b->limit) return false;
    *shift = *shift > most ? most : *shift < least ? least : *shift;
    return bound(b, weights, *shift) <= b->limit;
}

/* Rounds the weights of an output to nearest. */
static void take_nearest(struct qc_round_weights_layer *l, const struct bounded *b, double shift)
{
    const struct qc_levels levels = qc_qparams_levels(l->qparams);
    const struct qc_affine p = {.scale = b->scale,
                                .zero_point = l->qparams->zero_point[l->qparams->count > 1 ? b->output : 0]};
    const float *from = l->weight->data;
    struct qc_round_weights_output *made = &l->made[b->output];
    for (size_t i = 0; i < l->moments->columns; i++) {
        const size_t e = qc_round_weights_element(l, b->output, i);
        l->new_weight[e] = qc_dequantize_one(qc_quantize_one(from[e], p, levels), p);
    }
    made->moved = false;
    made->shift = shift;
    made->error = made->nearest_error;
}

void qc_round_weights_bound(struct qc_round_weights_layer *l, unsigned bits)
{
    const bool corrected = l->result->bias_corrected;
    struct qc_sum_layer sums;
    if (!qc_sum_layer_of(&sums, l->g, l->node) || sums.axis < 0) return;
    for (size_t o = 0; o < sums.channels; o++) {
        const struct bounded b = {.sums = &sums,
                                  .limit = qc_sum_limit(bits),
                                  .output = o,
                                  .scale = l->qparams->scale[l->qparams->count > 1 ? o : 0]};
        const float *nearest = l->weight->data;
        struct qc_round_weights_output *made = &l->made[o];
        if (bound(&b, nearest, 0) > b.limit || bound(&b, l->new_weight, corrected ? made->shift : 0) <= b.limit)
            continue; /* no bound holds for nearest weights, or the new weights fit */
        double shift = made->shift, other = made->nearest_shift;
        const bool fits = fit_shift(&shift, &b, l->new_weight, corrected);
        if (!fit_shift(&other, &b, nearest, corrected)) other = 0;
        /* The remaining mean error is in every row. */
        const double left = made->shift - shift, other_left = corrected ? made->nearest_shift - other : 0;
        l->result->bounded++;
        if (fits && made->error + left * left < made->nearest_error + other_left * other_left) {
            made->shift = shift;
            made->error += left * left;
        } else {
            take_nearest(l, &b, other);
            made->error += other_left * other_left;
        }
    }
}
