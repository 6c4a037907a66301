// SPDX-License-Identifier: Apache-2.0
#include "quantize/scaling/scale_search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/core/rebuild.h"

/* Number of outputs of a layer that the error is computed on. */
enum { JUDGED = 128 };

/* The exponents a and b that are tried: of a channel's magnitude, and of its weights' root mean square. */
static const struct {
    double activation, weight;
} tried[] = {{0, 0.5},    {0, 1},     {0.25, 0.25}, {0.25, 0.5}, {0.25, 0.75},
             {0.5, 0.25}, {0.5, 0.5}, {0.5, 0},     {0.75, 0.25}};
enum { TRIED = sizeof tried / sizeof *tried };

/* Least magnitude of a channel relative to the largest one; bounds the scales. */
static const double FLOOR = 1e-3;

static const double *one_group(const struct qc_channels *c, qc_id value, const double *scale)
{
    return scale + c->layout[value].offset;
}

bool qc_scale_moments(struct qc_second_moments *second_moments, const struct qc_channels *c,
                      const struct qc_scaled_group *group, const double *scale, struct qc_arena *a,
                      struct qc_status *st)
{
    for (size_t i = 0; i < group->reader_count; i++) {
        struct qc_second_moments_layer *l = qc_second_moments_of(second_moments, NULL, group->readers[i].simulated);
        const qc_id x = c->graph->nodes[group->readers[i].node].inputs[0];
        double *own = NULL;
        if (scale && !(own = QC_NEW_ARRAY(a, double, l->channels, st))) return false;
        if (scale) memcpy(own, one_group(c, x, scale), l->channels * sizeof *own);
        l->divisor = own;
    }
    return true;
}

/* ---- Candidates ---- */

/* Takes the maximum of `activation` and the squared magnitude of each channel: the mean square, or the square of the
   largest value if the input is quantized. */
static bool measure_activation(double *activation, const struct qc_scale_search *s, const struct qc_channels *c,
                               const struct qc_scaled_reader *r, struct qc_status *st)
{
    const struct qc_second_moments_layer *l = qc_second_moments_of(s->second_moments, NULL, r->simulated);
    const size_t each = l->channels / l->groups;
    double *own = activation + c->layout[c->graph->nodes[r->node].inputs[0]].offset;
    for (size_t i = 0; r->seen && i < r->seen->units * l->channels; i++) {
        const double top = fmax(-(double)r->seen->lo[i], (double)r->seen->hi[i]);
        own[i % l->channels] = fmax(own[i % l->channels], top * top);
    }
    if (r->seen) return true;
    double *diagonal = malloc(l->block * sizeof *diagonal), *sum = calloc(l->channels, sizeof *sum);
    const bool ok = (diagonal && sum) || qc_fail_memory(st, l->channels * sizeof *sum);
    for (size_t k = 0; ok && k < l->groups * l->blocks; k++) {
        const size_t b = k % l->blocks, width = qc_second_moments_width(l, b);
        qc_second_moments_read_diagonal(diagonal, l, ~0u, k / l->blocks, b);
        for (size_t i = 0; i < width; i++) sum[k / l->blocks * each + (b * l->block + i) % each] += diagonal[i];
    }
    for (size_t i = 0; ok && i < l->channels; i++) own[i] = fmax(own[i], sum[i]);
    free(diagonal);
    free(sum);
    return ok;
}

/* The same for the weights: squares relative to the sum over the channels, the maximum over several readers. */
static void measure_weight(double *weight, const struct qc_channels *c, const struct qc_scaled_reader *r)
{
    const struct qc_layer_weight *w = &c->weights[r->node];
    const int64_t channels = w->inputs * w->conv_groups;
    double *own = weight + c->layout[c->graph->nodes[r->node].inputs[0]].offset, sum = 0;
    for (int64_t i = 0; i < channels; i++) sum += r->squares[i];
    for (int64_t i = 0; sum > 0 && i < channels; i++) own[i] = fmax(own[i], r->squares[i] / sum);
}

/* s = r^a / m^b, divided by the geometric mean. */
static void set_scales(double *scale, const double *activation, const double *weight, size_t which,
                       const struct qc_channel_group *q)
{
    double top[2] = {0, 0}, sum = 0;
    size_t free_channels = 0;
    for (int64_t i = 0; i < q->count; i++) {
        top[0] = fmax(top[0], activation[i]);
        top[1] = fmax(top[1], weight[i]);
    }
    for (int64_t i = 0; i < q->count; i++) {
        const double r = top[0] > 0 ? fmax(sqrt(activation[i] / top[0]), FLOOR) : 1,
                     m = top[1] > 0 ? fmax(sqrt(weight[i] / top[1]), FLOOR) : 1;
        scale[i] = q->held[i] ? 1 : pow(r, tried[which].activation) / pow(m, tried[which].weight);
        if (q->held[i]) continue;
        sum += log(scale[i]);
        free_channels++;
    }
    const double middle = free_channels ? exp(sum / (double)free_channels) : 1;
    for (int64_t i = 0; i < q->count; i++)
        if (!q->held[i]) scale[i] /= middle;
}

/* ---- Trials ---- */

/* Copies the simulated graph with the weights of the readers multiplied by scales (by group; NULL: all 1); nodes keep
   their ids. The producers of the groups are not divided: the error of the readers' weights does not depend on them. */
static bool build(struct qc_graph **out, const struct qc_scale_search *s, const struct qc_channels *c,
                  const struct qc_scaled_group *groups, size_t count, double *const *scales, struct qc_status *st)
{
    const struct qc_graph *g = s->simulated;
    struct qc_rebuild b;
    bool ok = qc_rebuild_begin(&b, g, st);
    for (size_t i = 0; ok && scales && i < count; i++)
        for (size_t r = 0; ok && r < groups[i].reader_count; r++) {
            const qc_id reader = groups[i].readers[r].node, x = c->graph->nodes[reader].inputs[0],
                        w = qc_second_moments_weight(g, &g->nodes[groups[i].readers[r].simulated])->inputs[0];
            struct qc_tensor *t = NULL;
            ok = qc_channels_scaled_weight(&t, c, reader, one_group(c, x, scales[i]), NULL, st) &&
                 (b.map[w] = qc_graph_add_constant(b.to, g->values[w].name, t, st));
            qc_tensor_unref(t);
        }
    for (qc_id id = 1; ok && id <= g->node_count; id++) ok = qc_rebuild_node(&b, id, st) != 0;
    ok = ok && qc_rebuild_finish(out, &b, st);
    qc_rebuild_free(&b);
    return ok;
}

/* Returns the quantizer of a reader's weight. */
static qc_id quantizer_of(const struct qc_graph *g, qc_id node)
{
    const struct qc_node *q = qc_second_moments_weight(g, &g->nodes[node]);
    return g->values[q->outputs].type.qparams;
}

/* Returns the mean output noise from rounding the scaled input: step^2 / 12 times the sum of the squared weights.
   scale: of the reader's channels; NULL: 1. */
static double input_noise(const struct qc_scaled_reader *r, const double *scale)
{
    const struct qc_channel_extremes *e = r->seen;
    double sum = 0, steps = 0, lo_all = 0, hi_all = 0;
    if (!e) return 0;
    for (size_t i = 0; i < e->channels; i++) sum += r->squares[i] * (scale ? scale[i] * scale[i] : 1);
    for (size_t u = 0; u < e->units; u++) {
        double lo = 0, hi = 0;
        for (size_t i = 0; i < e->channels; i++) {
            lo = fmin(lo, (double)e->lo[u * e->channels + i] / (scale ? scale[i] : 1));
            hi = fmax(hi, (double)e->hi[u * e->channels + i] / (scale ? scale[i] : 1));
        }
        steps += (hi - lo) * (hi - lo) / (double)e->units;
        lo_all = fmin(lo_all, lo);
        hi_all = fmax(hi_all, hi);
    }
    if (!r->dynamic) steps = (hi_all - lo_all) * (hi_all - lo_all);
    return steps / (r->steps * r->steps) / 12 * sum;
}

/* Sets errors[] to the weight rounding errors of all readers, in the order of the groups. */
static bool judge(double *errors, const struct qc_scale_search *s, const struct qc_scaled_group *groups, size_t count,
                  struct qc_graph *g, struct qc_status *st)
{
    struct qc_round_weights_options o = s->rounding;
    struct qc_calibration_options choosing = *s->calibration;
    struct qc_calibration c = {.arena = qc_arena_new(), .qparams_count = g->qparams_count};
    struct qc_weight_rounder *rounder = NULL;
    if (!c.arena) return qc_fail_memory(st, 1);
    o.known = NULL;
    o.run.progress = NULL;
    o.judged = JUDGED;
    choosing.second_moments = s->second_moments;
    bool *wanted = QC_NEW_ARRAY(c.arena, bool, g->qparams_count + 1, st);
    c.choices = QC_NEW_ARRAY(c.arena, struct qc_choice, g->qparams_count + 1, st);
    bool ok = wanted && c.choices;
    for (size_t i = 0; ok && i < count; i++)
        for (size_t r = 0; r < groups[i].reader_count; r++)
            wanted[quantizer_of(g, groups[i].readers[r].simulated)] = true;
    ok = ok && qc_choose_some_weights(&c, g, wanted, &choosing, st) &&
         qc_weight_rounder_new(&rounder, g, s->second_moments, &o, st);
    for (size_t i = 0; ok && i < count; i++)
        for (size_t r = 0; ok && r < groups[i].reader_count; r++, errors++) {
            const qc_id node = groups[i].readers[r].simulated;
            *errors = 0;
            if (!qc_weight_rounder_waits(rounder, node)) continue;
            ok = qc_weight_rounder_solve(rounder, node, NULL, st);
            if (ok) *errors = qc_weight_rounder_result(rounder, node)->error;
        }
    qc_weight_rounder_free(rounder);
    qc_arena_free(c.arena);
    return ok;
}

static bool try_scales(double *errors, const struct qc_scale_search *s, const struct qc_channels *c,
                       const struct qc_scaled_group *groups, size_t count, double *const *scales, struct qc_status *st)
{
    struct qc_graph *g = NULL;
    bool ok = build(&g, s, c, groups, count, scales, st);
    for (size_t i = 0; ok && scales && i < count; i++)
        ok = qc_scale_moments(s->second_moments, c, &groups[i], scales[i], s->arena, st);
    ok = ok && judge(errors, s, groups, count, g, st);
    for (size_t i = 0, at = 0; ok && i < count; i++)
        for (size_t r = 0; r < groups[i].reader_count; r++, at++) {
            const qc_id x = c->graph->nodes[groups[i].readers[r].node].inputs[0];
            errors[at] += input_noise(&groups[i].readers[r], scales ? one_group(c, x, scales[i]) : NULL);
        }
    for (size_t i = 0; scales && i < count; i++) {
        struct qc_status ignored = QC_STATUS_INIT;
        qc_scale_moments(s->second_moments, c, &groups[i], NULL, s->arena, &ignored);
    }
    qc_graph_free(g);
    return ok;
}

/* Returns the mean over the readers of the ratio of the errors. Readers without an error before do not count. */
static double compare(const double *now, const double *before, size_t count)
{
    double sum = 0;
    size_t judged = 0;
    for (size_t r = 0; r < count; r++) {
        if (!(before[r] > 0)) continue;
        sum += now[r] / before[r];
        judged++;
    }
    return judged ? sum / (double)judged : 1;
}

bool qc_scale_search(struct qc_scaled_group *g, size_t count, const struct qc_scale_search *s,
                     const struct qc_channels *c, struct qc_status *st)
{
    size_t readers = 0;
    for (size_t i = 0; i < count; i++) readers += g[i].reader_count;
    double *errors = QC_NEW_ARRAY(s->arena, double, readers, st), *before = QC_NEW_ARRAY(s->arena, double, readers, st),
           **activation = QC_NEW_ARRAY(s->arena, double *, count, st),
           **weight = QC_NEW_ARRAY(s->arena, double *, count, st),
           **scales = QC_NEW_ARRAY(s->arena, double *, count, st);
    if (!errors || !before || !activation || !weight || !scales) return false;
    for (size_t i = 0; i < count; i++) {
        const size_t n = (size_t)c->groups[g[i].group].count;
        if (!(activation[i] = QC_NEW_ARRAY(s->arena, double, n, st)) ||
            !(weight[i] = QC_NEW_ARRAY(s->arena, double, n, st)) ||
            !(scales[i] = QC_NEW_ARRAY(s->arena, double, n, st)))
            return false;
        for (size_t r = 0; r < g[i].reader_count; r++) {
            measure_weight(weight[i], c, &g[i].readers[r]);
            if (!measure_activation(activation[i], s, c, &g[i].readers[r], st)) return false;
        }
    }
    if (!try_scales(before, s, c, g, count, NULL, st)) return false;
    for (size_t k = 0; k < TRIED; k++) {
        for (size_t i = 0; i < count; i++) set_scales(scales[i], activation[i], weight[i], k, &c->groups[g[i].group]);
        if (!try_scales(errors, s, c, g, count, scales, st)) return false;
        if (s->progress && !s->progress(s->progress_user, k + 1, TRIED))
            return qc_fail(st, QC_INTERRUPTED, "interrupted");
        for (size_t i = 0, at = 0; i < count; at += g[i++].reader_count) {
            const double e = compare(errors + at, before + at, g[i].reader_count);
            if (!(e < g[i].error)) continue;
            g[i].error = e;
            g[i].kind = g[i].few ? "awq" : "smooth";
            g[i].activation_power = tried[k].activation;
            g[i].weight_power = tried[k].weight;
            memcpy(g[i].best, scales[i], (size_t)c->groups[g[i].group].count * sizeof *g[i].best);
        }
    }
    return true;
}
