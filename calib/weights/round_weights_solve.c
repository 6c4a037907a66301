// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "calib/moments/moments_parts.h"
#include "calib/weights/compensate.h"
#include "calib/weights/round_weights_parts.h"

enum { HELD_MIN = 4 };

bool qc_round_weights_holds(const struct qc_second_moments_layer *l)
{
    return l->parts[QC_MOMENTS_HELD].samples >= HELD_MIN && l->parts[QC_MOMENTS_FIT].samples >= 2 * HELD_MIN;
}

/* Scratch of one matrix of w columns. */
struct matrix {
    size_t w;
    double *fit, *judge;     /* [w][w]: factor, and moments that errors are taken from */
    double *mean, *other;    /* [w] */
    double *quantized;       /* [w]: mean of what is read in the quantized network */
    double *panel;           /* [QC_FACTOR_PANEL][w] */
    double *d, *nearest, *x; /* [w][QC_LANES] */
    size_t *order;           /* [w] */
    bool factorised;
};

size_t qc_round_weights_bytes(const struct qc_second_moments_layer *l)
{
    const size_t w = l->block;
    return sizeof(double) * (2 * w * w + 3 * w + QC_FACTOR_PANEL * w + 3 * w * QC_LANES) + sizeof(size_t) * w +
           sizeof(float) * l->outputs * l->columns + sizeof(struct qc_round_weights_output) * l->outputs;
}

size_t qc_round_weights_bytes_of_all(const struct qc_second_moments *m)
{
    size_t most = 0;
    for (size_t i = 0; i < m->count; i++) {
        const size_t bytes = qc_round_weights_bytes(m->layers[i]);
        most = bytes > most ? bytes : most;
    }
    return most;
}

static void free_matrix(struct matrix *m)
{
    free(m->fit);
    free(m->judge);
    free(m->mean);
    free(m->other);
    free(m->quantized);
    free(m->panel);
    free(m->d);
    free(m->nearest);
    free(m->x);
    free(m->order);
}

static bool new_matrix(struct matrix *m, size_t w, struct qc_status *st)
{
    const size_t side = w * QC_LANES;
    *m = (struct matrix){.fit = malloc(w * w * sizeof(double)),
                         .judge = malloc(w * w * sizeof(double)),
                         .mean = malloc(w * sizeof(double)),
                         .other = malloc(w * sizeof(double)),
                         .quantized = malloc(w * sizeof(double)),
                         .panel = malloc(QC_FACTOR_PANEL * w * sizeof(double)),
                         .d = malloc(side * sizeof(double)),
                         .nearest = malloc(side * sizeof(double)),
                         .x = malloc(side * sizeof(double)),
                         .order = malloc(w * sizeof(size_t))};
    if (m->fit && m->judge && m->mean && m->other && m->quantized && m->panel && m->d && m->nearest && m->x && m->order)
        return true;
    free_matrix(m);
    return qc_fail_memory(st, 2 * w * w * sizeof(double));
}

size_t qc_round_weights_element(const struct qc_round_weights_layer *l, size_t output, size_t column)
{
    const struct qc_second_moments_layer *m = l->moments;
    const size_t each = m->channels / m->groups, tap = column / each, c = column % each, per = m->outputs / m->groups;
    if (m->transposed) return ((output / per * each + c) * per + output % per) * m->taps + tap;
    if (m->window_given) return (output * each + c) * m->taps + tap;
    const struct qc_node *n = &l->g->nodes[l->node];
    return n->op == QC_OP_Gemm && qc_attr_int(n, "transB", 0) ? output * m->channels + column
                                                              : column * m->outputs + output;
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

static void read_matrix(struct matrix *m, const struct qc_round_weights_layer *l, bool centred, bool compensate,
                        size_t group, size_t block)
{
    const unsigned all = 1u << QC_MOMENTS_FIT | 1u << QC_MOMENTS_HELD;
    const bool held = l->result->held;
    const struct qc_second_moments_layer *g = l->moments;
    const size_t w = m->w = qc_second_moments_width(g, block);
    const double noise = qc_round_weights_input_noise(l->input, group);
    qc_second_moments_read(m->fit, m->mean, g, all, group, block);
    if (l->quantized)
        qc_second_moments_read_mean(m->quantized, l->quantized, all, group, block * g->block, w);
    else
        memcpy(m->quantized, m->mean, w * sizeof *m->mean);
    qc_second_moments_read(m->judge, m->other, g, held ? 1u << QC_MOMENTS_FIT : all, group, block);
    if (centred) qc_round_weights_centre(m->judge, m->other, m->mean, w);
    m->factorised = compensate && qc_factorise_damped(m->fit, m->order, m->judge, w, noise, m->panel);
    qc_second_moments_read(m->judge, m->other, g, held ? 1u << QC_MOMENTS_HELD : all, group, block);
    if (centred) qc_round_weights_centre(m->judge, m->other, m->mean, w);
}

/* Outputs first .. first + count of a group, which share a matrix. */
static void round_outputs(struct qc_round_weights_layer *l, struct matrix *m, size_t first, size_t count, size_t column)
{
    const struct qc_second_moments_layer *g = l->moments;
    const struct qc_levels levels = qc_qparams_levels(l->qparams);
    const float *from = l->weight->data;
    double lo[QC_LANES], hi[QC_LANES], scale[QC_LANES], before[QC_LANES] = {0}, after[QC_LANES] = {0};
    const size_t per = g->outputs / g->groups;
    for (size_t k = 0; k < QC_LANES; k++) {
        const size_t o = first + (k < count ? k : 0), c = l->qparams->count == 1 ? 0 : g->transposed ? o % per : o;
        scale[k] = (double)l->qparams->scale[c];
        lo[k] = (double)(levels.lo - l->qparams->zero_point[c]);
        hi[k] = (double)(levels.hi - l->qparams->zero_point[c]);
        for (size_t i = 0; i < m->w; i++)
            m->x[i * QC_LANES + k] = (double)(from[qc_round_weights_element(l, o, column + i)] / l->qparams->scale[c]);
    }
    qc_round_nearest(m->nearest, m->x, m->w, lo, hi);
    qc_row_errors(before, m->nearest, m->judge, m->w);
    if (m->factorised) {
        qc_round_compensated(m->d, m->x, m->fit, m->order, m->w, lo, hi);
        qc_row_errors(after, m->d, m->judge, m->w);
    }
    for (size_t k = 0; k < count; k++) {
        struct qc_round_weights_output *made = &l->made[first + k];
        const bool better = m->factorised && after[k] < before[k];
        const double *d = better ? m->d : m->nearest;
        made->moved = made->moved || better;
        made->nearest_error += before[k] * scale[k] * scale[k];
        made->error += (better ? after[k] : before[k]) * scale[k] * scale[k];
        for (size_t i = 0; i < m->w; i++) {
            const size_t e = qc_round_weights_element(l, first + k, column + i), at = i * QC_LANES + k;
            const float nearest = (float)((m->x[at] - m->nearest[at]) * scale[k]);
            l->new_weight[e] = (float)((m->x[at] - d[at]) * scale[k]);
            made->shift += ((double)from[e] - (double)l->new_weight[e]) * m->mean[i] +
                           (double)l->new_weight[e] * (m->mean[i] - m->quantized[i]);
            made->nearest_shift +=
                ((double)from[e] - (double)nearest) * m->mean[i] + (double)nearest * (m->mean[i] - m->quantized[i]);
        }
    }
}

bool qc_round_weights_solve(struct qc_round_weights_layer *l, const struct qc_round_weights_options *options,
                            struct qc_status *st)
{
    const struct qc_second_moments_layer *g = l->moments;
    struct qc_rounded_weights *r = l->result;
    const size_t per = g->outputs / g->groups;
    struct matrix m;
    l->new_weight = malloc(l->weight->bytes);
    l->made = calloc(g->outputs, sizeof *l->made);
    if (!l->new_weight || !l->made || !new_matrix(&m, g->block, st)) return qc_fail_memory(st, l->weight->bytes);
    r->held = qc_round_weights_holds(g);
    r->outputs = g->outputs;
    r->blocks = g->blocks;
    r->bias_corrected = options->correct_bias && l->correctable;
    for (size_t group = 0; group < g->groups; group++)
        for (size_t block = 0; block < g->blocks; block++) {
            read_matrix(&m, l, r->bias_corrected, options->compensate, group, block);
            for (size_t o = 0; o < per; o += QC_LANES)
                round_outputs(l, &m, group * per + o, per - o < QC_LANES ? per - o : QC_LANES, block * g->block);
        }
    free_matrix(&m);
    if (options->accumulator_bits && options->accumulator_bits < 32 && l->input)
        qc_round_weights_bound(l, options->accumulator_bits);
    for (size_t o = 0; o < g->outputs; o++) {
        const double a = r->bias_corrected ? fabs(l->made[o].shift) : 0;
        r->nearest += !l->made[o].moved;
        r->error += l->made[o].error;
        r->error_nearest += l->made[o].nearest_error;
        r->bias_rms += a * a;
        r->bias_max = a > r->bias_max ? a : r->bias_max;
    }
    r->bias_rms = sqrt(r->bias_rms / (double)g->outputs);
    r->error /= (double)g->outputs;
    r->error_nearest /= (double)g->outputs;
    r->compensated = r->nearest < g->outputs;
    return true;
}
