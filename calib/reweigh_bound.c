// SPDX-License-Identifier: Apache-2.0
#include "calib/reweigh_parts.h"
#include "calib/sum_bound.h"

/* The weights of an output, rounded to nearest: as they lie in the original, of which new_weight is a copy on the grid. */
static void take_nearest(struct qc_reweigh_layer *l, const struct qc_sum_layer *sums, size_t o)
{
    const struct qc_levels levels = qc_space_levels(l->space);
    const size_t c = l->space->count > 1 ? o : 0;
    const struct qc_affine p = {.scale = l->space->scale[c], .zero_point = l->space->zero_point[c]};
    const float *from = sums->weights->data;
    for (size_t i = 0; i < l->moments->columns; i++) {
        const size_t e = qc_reweigh_element(l, o, i);
        l->new_weight[e] = qc_dequantize_one(qc_quantize_one(from[e], p, levels), p);
    }
    l->made[o].moved = false;
    l->made[o].shift = l->made[o].nearest_shift;
    l->made[o].error = l->made[o].nearest_error;
}

static double bound(const struct qc_reweigh_layer *l, const struct qc_sum_layer *sums, size_t o)
{
    const double shift = l->result->bias_corrected ? l->made[o].shift : 0;
    return qc_sum_bound(sums, l->new_weight, (float)((double)qc_sum_bias(sums, o) + shift), o, l->space->scale[l->space->count > 1 ? o : 0]);
}

void qc_reweigh_bound(struct qc_reweigh_layer *l, unsigned bits)
{
    const double limit = qc_sum_limit(bits);
    struct qc_sum_layer sums;
    if (!qc_sum_layer_of(&sums, l->g, l->node) || sums.axis < 0) return;
    for (size_t o = 0; o < sums.channels; o++) {
        const float scale = l->space->scale[l->space->count > 1 ? o : 0];
        if (qc_sum_bound(&sums, sums.weights->data, qc_sum_bias(&sums, o), o, scale) > limit || bound(l, &sums, o) <= limit) continue;
        l->result->bounded++;
        take_nearest(l, &sums, o);
        if (bound(l, &sums, o) > limit) l->made[o].shift = 0;
    }
}
