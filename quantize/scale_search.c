// SPDX-License-Identifier: Apache-2.0
#include "quantize/scale_search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/core/rebuild.h"
#include "graph/core/value_name.h"

/* Outputs of a layer that judge. */
enum { JUDGED = 128 };

/* Powers of the root mean square of a channel, and of its weights. */
static const struct {
    double activation, weight;
} tried[] = {{0, 0.5},    {0, 1},     {0.25, 0.25}, {0.25, 0.5}, {0.25, 0.75},
             {0.5, 0.25}, {0.5, 0.5}, {0.5, 0},     {0.75, 0.25}};
enum { TRIED = sizeof tried / sizeof *tried };

/* A channel counts as at least this part of the largest one. */
static const double FLOOR = 1e-3;

static const double *one_group(const struct qc_channels *c, qc_id value, const double *scale)
{
    return scale + c->layout[value].offset;
}

bool qc_scale_moments(struct qc_second_moments *gram, const struct qc_channels *c, const struct qc_scaled_group *group,
                      const double *scale, struct qc_arena *a, struct qc_status *st)
{
    for (size_t i = 0; i < group->reader_count; i++) {
        struct qc_second_moments_layer *l = qc_second_moments_of(gram, NULL, group->simulated[i]);
        const qc_id x = c->graph->nodes[group->readers[i]].inputs[0];
        double *own = NULL;
        if (scale && !(own = QC_NEW_ARRAY(a, double, l->channels, st))) return false;
        if (scale) memcpy(own, one_group(c, x, scale), l->channels * sizeof *own);
        l->divisor = own;
    }
    return true;
}

/* ---- What can be scaled ---- */

/* The node of the simulated graph that multiplies with the same weight: constants are shared from graph to graph. */
static qc_id simulated_of(const struct qc_scale_search *s, const struct qc_tensor *weight)
{
    const struct qc_graph *g = s->simulated;
    qc_id found = 0;
    for (qc_id id = 1; id <= g->node_count; id++) {
        const struct qc_node *q = qc_second_moments_weight(g, &g->nodes[id]);
        if (!q || qc_constant_of(g, q->inputs[0]) != weight) continue;
        if (found) return 0;
        found = id;
    }
    return found;
}

/* The quantizer of a reader's weight. */
static qc_id quantizer_of(const struct qc_graph *g, qc_id node)
{
    const struct qc_node *q = qc_second_moments_weight(g, &g->nodes[node]);
    return g->values[q->outputs].type.qparams;
}

/* Layers of moments side by side - depthwise convolutions - have a scale for each channel that they read: nothing changes
   for them. */
static bool is_reader(const struct qc_scale_search *s, qc_id simulated)
{
    const struct qc_graph *g = s->simulated;
    if (!simulated) return false;
    const struct qc_second_moments_layer *l = qc_second_moments_of(s->gram, NULL, simulated);
    const struct qc_qparams *q = &g->qparams_of[quantizer_of(g, simulated)];
    const struct qc_levels levels = qc_qparams_levels(q);
    return l && !l->divisor && !l->lanes && l->product_count && qc_second_moments_rows(l, ~0u) && !q->given &&
           (q->per_channel || q->block) && (size_t)(levels.hi - levels.lo) < s->most_levels;
}

static bool is_busy(const struct qc_scale_search *s, const struct qc_channels *c, qc_id group)
{
    for (qc_id v = 1; v <= c->graph->value_count; v++)
        if (c->group[v] == group && s->busy[v]) return true;
    return false;
}

/* False in *wanted: there is nothing to scale in the group. */
static bool find_readers(bool *wanted, struct qc_scaled_group *out, const struct qc_scale_search *s,
                         const struct qc_channels *c, qc_id group, struct qc_status *st)
{
    size_t count = 0;
    *wanted = false;
    for (qc_id id = c->first_reader[group]; id; id = c->next_reader[id]) count++;
    *out = (struct qc_scaled_group){.group = group, .channels = (size_t)c->groups[group].count, .error = 1};
    out->name = qc_value_name(c->graph, group, s->arena, st);
    out->nodes = QC_NEW_ARRAY(s->arena, const char *, count + 1, st);
    out->readers = QC_NEW_ARRAY(s->arena, qc_id, count + 1, st);
    out->simulated = QC_NEW_ARRAY(s->arena, qc_id, count + 1, st);
    out->best = QC_NEW_ARRAY(s->arena, double, c->groups[group].count, st);
    if (!out->name || !out->nodes || !out->readers || !out->simulated || !out->best) return false;
    for (qc_id id = c->first_reader[group]; id; id = c->next_reader[id]) {
        if (c->role[id] != QC_CHANNELS_LAYER) continue;
        const qc_id simulated = simulated_of(s, qc_constant_of(c->graph, c->graph->nodes[id].inputs[1]));
        if (!is_reader(s, simulated)) continue;
        const struct qc_node *n = &c->graph->nodes[id];
        const char *name = n->name && *n->name ? n->name : qc_value_name(c->graph, n->outputs, s->arena, st);
        if (!(out->nodes[out->reader_count] = name)) return false;
        out->readers[out->reader_count] = id;
        out->simulated[out->reader_count++] = simulated;
    }
    *wanted = out->reader_count != 0;
    return true;
}

bool qc_scale_hopes(const struct qc_scale_search *s)
{
    for (qc_id id = 1; id <= s->simulated->node_count; id++)
        if (qc_second_moments_weight(s->simulated, &s->simulated->nodes[id]) && is_reader(s, id)) return true;
    return false;
}

bool qc_scale_groups(struct qc_scaled_group **groups, size_t *count, const struct qc_scale_search *s,
                     const struct qc_channels *c, struct qc_status *st)
{
    struct qc_scaled_group *g = QC_NEW_ARRAY(s->arena, struct qc_scaled_group, c->graph->value_count + 1, st);
    if (!g) return false;
    *count = 0;
    for (qc_id v = 1; v <= c->graph->value_count; v++) {
        bool wanted;
        if (c->group[v] != v || c->groups[v].fixed || is_busy(s, c, v)) continue;
        if (!find_readers(&wanted, &g[*count], s, c, v, st)) return false;
        *count += wanted;
    }
    *groups = g;
    return true;
}

/* ---- Candidates ---- */

/* Mean squares of the group's channels, and of their weights: of several readers the largest, relative to each. */
static bool measure_channels(double *activation, double *weight, const struct qc_scale_search *s,
                             const struct qc_channels *c, const struct qc_scaled_group *group, struct qc_status *st)
{
    double *diagonal = NULL, *columns = NULL;
    bool ok = true;
    for (size_t r = 0; ok && r < group->reader_count; r++) {
        const struct qc_second_moments_layer *l = qc_second_moments_of(s->gram, NULL, group->simulated[r]);
        const struct qc_node *n = &c->graph->nodes[group->readers[r]];
        const struct qc_layer_weight *w = &c->weights[group->readers[r]];
        const size_t each = l->channels / l->groups, first = (size_t)c->layout[n->inputs[0]].offset;
        double sum = 0;
        diagonal = malloc(l->block * sizeof *diagonal);
        columns = calloc(l->channels, sizeof *columns);
        ok = (diagonal && columns) || qc_fail_memory(st, l->channels * sizeof *columns);
        for (size_t k = 0; ok && k < l->groups * l->blocks; k++) {
            const size_t b = k % l->blocks, width = qc_second_moments_width(l, b);
            qc_second_moments_read_diagonal(diagonal, l, ~0u, k / l->blocks, b);
            for (size_t i = 0; i < width; i++)
                activation[first + k / l->blocks * each + (b * l->block + i) % each] += diagonal[i];
        }
        for (int64_t o = 0; ok && o < w->outputs; o++)
            for (int64_t i = 0; i < w->inputs; i++) {
                const double x = (double)w->magnitude[o * w->inputs + i];
                columns[qc_weight_channel(w, o, i)] += x * x;
                sum += x * x;
            }
        for (size_t i = 0; ok && sum > 0 && i < l->channels; i++)
            weight[first + i] = fmax(weight[first + i], columns[i] / sum);
        free(diagonal);
        free(columns);
    }
    return ok;
}

/* s = r^a / m^b, around 1. */
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

/* The simulated graph with the readers' columns multiplied by scales (by group; NULL: all 1); nodes have the numbers
   that they have there. What makes the groups stays as it is: it decides on no error of weights behind it. */
static bool build(struct qc_graph **out, const struct qc_scale_search *s, const struct qc_channels *c,
                  const struct qc_scaled_group *groups, size_t count, double *const *scales, struct qc_status *st)
{
    const struct qc_graph *g = s->simulated;
    struct qc_rebuild b;
    bool ok = qc_rebuild_begin(&b, g, st);
    for (size_t i = 0; ok && scales && i < count; i++)
        for (size_t r = 0; ok && r < groups[i].reader_count; r++) {
            const qc_id reader = groups[i].readers[r], x = c->graph->nodes[reader].inputs[0],
                        w = qc_second_moments_weight(g, &g->nodes[groups[i].simulated[r]])->inputs[0];
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

/* Errors of all readers, one after the other. */
static bool judge(double *errors, const struct qc_scale_search *s, const struct qc_scaled_group *groups, size_t count,
                  struct qc_graph *g, struct qc_status *st)
{
    struct qc_round_weights_options o = s->rounding;
    struct qc_calibration_options choosing = *s->calibration;
    struct qc_calibration c = {.arena = qc_arena_new(), .qparams_count = g->qparams_count};
    struct qc_weight_rounder *rounder = NULL;
    if (!c.arena) return qc_fail_memory(st, 1);
    o.known = NULL;
    o.progress = NULL;
    o.judged = JUDGED;
    choosing.gram = s->gram;
    bool *wanted = QC_NEW_ARRAY(c.arena, bool, g->qparams_count + 1, st);
    c.choices = QC_NEW_ARRAY(c.arena, struct qc_choice, g->qparams_count + 1, st);
    bool ok = wanted && c.choices;
    for (size_t i = 0; ok && i < count; i++)
        for (size_t r = 0; r < groups[i].reader_count; r++) wanted[quantizer_of(g, groups[i].simulated[r])] = true;
    ok = ok && qc_choose_some_weights(&c, g, wanted, &choosing, st) &&
         qc_weight_rounder_new(&rounder, g, s->gram, &o, st);
    for (size_t i = 0; ok && i < count; i++)
        for (size_t r = 0; ok && r < groups[i].reader_count; r++, errors++) {
            const qc_id node = groups[i].simulated[r];
            *errors = 0;
            if (!qc_weight_rounder_waits(rounder, node)) continue;
            ok = qc_weight_rounder_solve(rounder, node, NULL, st);
            if (ok) *errors = qc_weight_rounder_result(rounder, node)->error;
        }
    qc_weight_rounder_free(rounder);
    free(c.warnings);
    qc_arena_free(c.arena);
    return ok;
}

static bool try_scales(double *errors, const struct qc_scale_search *s, const struct qc_channels *c,
                       const struct qc_scaled_group *groups, size_t count, double *const *scales, struct qc_status *st)
{
    struct qc_graph *g = NULL;
    bool ok = build(&g, s, c, groups, count, scales, st);
    for (size_t i = 0; ok && scales && i < count; i++)
        ok = qc_scale_moments(s->gram, c, &groups[i], scales[i], s->arena, st);
    ok = ok && judge(errors, s, groups, count, g, st);
    for (size_t i = 0; scales && i < count; i++) {
        struct qc_status ignored = QC_STATUS_INIT;
        qc_scale_moments(s->gram, c, &groups[i], NULL, s->arena, &ignored);
    }
    qc_graph_free(g);
    return ok;
}

/* The mean over the readers of error to error before; those without any do not count. */
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
            !(scales[i] = QC_NEW_ARRAY(s->arena, double, n, st)) ||
            !measure_channels(activation[i], weight[i], s, c, &g[i], st))
            return false;
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
            g[i].kind = "awq";
            g[i].activation_power = tried[k].activation;
            g[i].weight_power = tried[k].weight;
            memcpy(g[i].best, scales[i], (size_t)c->groups[g[i].group].count * sizeof *g[i].best);
        }
    }
    return true;
}
