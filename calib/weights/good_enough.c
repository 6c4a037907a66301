// SPDX-License-Identifier: Apache-2.0
/* Layers not worth solving: their weights are so fine that the error of nearest rounding is negligible beside that of
   the rounded input. Both have a closed form: the mean squared error of rounded weights, and of rounded inputs, is a
   twelfth of a squared step. */
#include <stdlib.h>

#include "base/simd.h"
#include "calib/ablation.h"
#include "calib/weights/round_weights_parts.h"

/* 40 dB: the error of the outputs would fall by less than 0.0005 dB. */
static const double BESIDE = 1e-4;

/* Sums the diagonal of a group's second moments. */
static bool sum_of(double *sum, const struct qc_second_moments_layer *m, size_t group, struct qc_status *st)
{
    const unsigned all = 1u << QC_MOMENTS_FIT | 1u << QC_MOMENTS_HELD;
    double *diagonal = malloc(m->block * sizeof *diagonal);
    if (!diagonal) return qc_fail_memory(st, m->block * sizeof *diagonal);
    *sum = 0;
    for (size_t b = 0; b < m->blocks; b++) {
        qc_second_moments_read_diagonal(diagonal, m, all, group, b);
        for (size_t i = 0; i < qc_second_moments_width(m, b); i++) *sum += diagonal[i];
    }
    free(diagonal);
    return true;
}

/* Sums the squares of all weights, in lanes that are added up at the end. */
static QC_INLINE void add_squares_body(double *restrict sum, const float *restrict x, size_t n)
{
    enum { LANES = 16 };
    double lane[LANES] = {0};
    for (size_t i = 0; i + LANES <= n; i += LANES)
        for (size_t k = 0; k < LANES; k++) lane[k] += (double)x[i + k] * (double)x[i + k];
    for (size_t i = n - n % LANES; i < n; i++) lane[0] += (double)x[i] * (double)x[i];
    for (size_t k = 0; k < LANES; k++) *sum += lane[k];
}
QC_SIMD(add_squares, (double *sum, const float *x, size_t n), (sum, x, n))

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
        if (!sum_of(&sum, m, g, st)) return false;
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
