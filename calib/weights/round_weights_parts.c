// SPDX-License-Identifier: Apache-2.0
#include "calib/weights/round_weights_parts.h"

#include <stdlib.h>

#include "base/simd.h"
#include "calib/ablation.h"
#include "calib/weights/sum_bound.h"

enum { HELD_MIN = 4 }; /* samples: with fewer held out, one of them decides */

bool qc_round_weights_holds(const struct qc_second_moments_layer *l)
{
    return !qc_ablated("held") && l->parts[QC_MOMENTS_HELD].samples >= HELD_MIN &&
           l->parts[QC_MOMENTS_FIT].samples >= 2 * HELD_MIN;
}

size_t qc_round_weights_element(const struct qc_round_weights_layer *l, size_t output, size_t column)
{
    const struct qc_second_moments_layer *m = l->moments;
    if (l->recurrent) return output * m->columns + column;
    const size_t each = m->channels / m->groups, tap = column / each, c = column % each, per = m->outputs / m->groups;
    if (m->transposed) return ((output / per * each + c) * per + output % per) * m->taps + tap;
    if (m->window_given) return (output * each + c) * m->taps + tap;
    const struct qc_node *n = &l->g->nodes[l->node];
    return n->op == QC_OP_Gemm && qc_attr_int(n, "transB", 0) ? output * m->channels + column
                                                              : column * m->outputs + output;
}

size_t qc_round_weights_step(const struct qc_round_weights_layer *l)
{
    return l->moments->outputs == l->moments->groups
               ? 0
               : qc_round_weights_element(l, 1, 0) - qc_round_weights_element(l, 0, 0);
}

void qc_round_weights_centre(double *h, const double *m, const double *centre, size_t w)
{
    for (size_t i = 0; i < w; i++)
        for (size_t j = 0; j < w; j++) h[i * w + j] += centre[i] * centre[j] - centre[i] * m[j] - m[i] * centre[j];
}

double qc_round_weights_input_noise(const struct qc_qparams *input, size_t group)
{
    const double s = input && input->state == QC_QPARAMS_BOUND ? (double)input->scale[input->count > 1 ? group : 0] : 0;
    return s * s / 12;
}

/* ---- Layers not worth solving ---- */

/* Their weights are so fine that the error of nearest rounding is negligible beside that of
   the rounded input. Both have a closed form: the mean squared error of rounded weights, and of rounded inputs, is a
   twelfth of a squared step. */

/* 40 dB: the error of the outputs would fall by less than 0.0005 dB. */
static const double BESIDE = 1e-4;

/* Sums the squares of all weights, in lanes that are added up at the end. */
QC_VECTOR(add_squares, (double *restrict sum, const float *restrict x, size_t n), (sum, x, n))
{
    enum { LANES = 16 };
    double lane[LANES] = {0};
    for (size_t i = 0; i + LANES <= n; i += LANES)
        for (size_t k = 0; k < LANES; k++) lane[k] += (double)x[i + k] * (double)x[i + k];
    for (size_t i = n - n % LANES; i < n; i++) lane[0] += (double)x[i] * (double)x[i];
    for (size_t k = 0; k < LANES; k++) *sum += lane[k];
}

bool qc_round_weights_pays(bool *pays, const struct qc_round_weights_layer *l, struct qc_status *st)
{
    const struct qc_second_moments_layer *m = l->moments;
    const struct qc_qparams *s = l->qparams;
    const float *x = l->weight->data;
    const size_t per = m->outputs / m->groups;
    const bool whole = m->groups == 1 && l->weight->count == m->outputs * m->columns;
    double of_weights = 0, of_inputs = 0;
    if (!*pays || m->lanes || s->block || !l->input || !m->product_count) return true; /* little work, or few levels */
    for (size_t g = 0; g < m->groups; g++) {
        const double noise = qc_round_weights_input_noise(l->input, g);
        double sum, squares = 0, steps = 0;
        if (!(noise > 0)) return true;
        /* Sum the diagonal of a group's second moments */
        const unsigned all = 1u << QC_MOMENTS_FIT | 1u << QC_MOMENTS_HELD;
        double *diagonal = malloc(m->block * sizeof *diagonal);
        if (!diagonal) return qc_fail_memory(st, m->block * sizeof *diagonal);
        sum = 0;
        for (size_t b = 0; b < m->blocks; b++) {
            qc_second_moments_read_diagonal(diagonal, m, all, g, b);
            for (size_t i = 0; i < qc_second_moments_width(m, b); i++) sum += diagonal[i];
        }
        free(diagonal);
        for (size_t o = g * per; o < (g + 1) * per; o++) {
            const double step = (double)s->scale[s->count == 1 ? 0 : m->transposed ? o % per : o];
            steps += step * step / 12;
            for (size_t i = 0; !whole && i < m->columns; i++) {
                const double w = (double)x[qc_round_weights_element(l, o, i)];
                squares += w * w;
            }
        }
        if (whole) add_squares(&squares, x, l->weight->count);
        of_weights += steps * sum;
        of_inputs += squares * noise;
    }
    *pays = !(of_weights < BESIDE * of_inputs) || qc_ablated("good_enough");
    return true;
}

/* ---- Narrow accumulators ---- */

struct bounded {
    const struct qc_sum_layer *sums;
    double limit;
    size_t output;
    float scale; /* of its weights */
};

static double bound_of_rounded(const struct bounded *b, const struct qc_tensor *weights, double shift)
{
    return qc_sum_bound(b->sums, weights, (float)((double)qc_sum_bias(b->sums, b->output) + shift), b->output,
                        b->scale);
}

/* Clamps the shift to the range in which the sums fit. Returns false if no shift fits. */
static bool fit_shift(double *shift, const struct bounded *b, const struct qc_tensor *weights, bool may_change)
{
    const double old = (double)qc_sum_bias(b->sums, b->output),
                 step = (double)(qc_sum_data_scale(b->sums, b->output) * b->scale);
    double above, below;
    if (!may_change) return bound_of_rounded(b, weights, 0) <= b->limit;
    qc_sum_terms(&above, &below, b->sums, weights, b->output, b->scale);
    const double most = (b->limit - above) * step - old, least = (below - b->limit) * step - old;
    if (above > b->limit || below > b->limit) return false;
    *shift = *shift > most ? most : *shift < least ? least : *shift;
    return bound_of_rounded(b, weights, *shift) <= b->limit;
}

void qc_round_weights_bound(struct qc_round_weights_layer *l, unsigned bits)
{
    const bool corrected = l->result->bias_corrected;
    const struct qc_levels levels = qc_qparams_levels(l->qparams);
    struct qc_sum_layer sums;
    if (!qc_sum_layer_of(&sums, l->g, l->node) || sums.axis < 0) return;
    for (size_t o = 0; o < sums.channels; o++) {
        const struct bounded b = {.sums = &sums,
                                  .limit = qc_sum_limit(bits),
                                  .output = o,
                                  .scale = l->qparams->scale[l->qparams->count > 1 ? o : 0]};
        const struct qc_tensor *nearest = l->weight;
        struct qc_round_weights_output *made = &l->made[o];
        if (bound_of_rounded(&b, nearest, 0) > b.limit ||
            bound_of_rounded(&b, l->rounded, corrected ? made->shift : 0) <= b.limit)
            continue; /* no bound holds for nearest weights, or the new weights fit */
        double shift = made->shift, other = made->nearest_shift;
        const bool fits = fit_shift(&shift, &b, l->rounded, corrected);
        if (!fit_shift(&other, &b, nearest, corrected)) other = 0;
        /* The remaining mean error is in every row. */
        const double left = made->shift - shift, other_left = corrected ? made->nearest_shift - other : 0;
        l->result->bounded++;
        if (fits && made->error + left * left < made->nearest_error + other_left * other_left) {
            made->shift = shift;
            made->error += left * left;
            continue;
        }
        /* Round the weights of the output to nearest. */
        const struct qc_affine p = {.scale = b.scale,
                                    .zero_point = l->qparams->zero_point[l->qparams->count > 1 ? o : 0]};
        for (size_t i = 0; i < l->moments->columns; i++) {
            const size_t e = qc_round_weights_element(l, o, i);
            qc_round_weights_put(l, e, qc_quantize_one(((const float *)nearest->data)[e], p, levels));
        }
        made->moved = false;
        made->shift = other;
        made->error = made->nearest_error + other_left * other_left;
    }
}
