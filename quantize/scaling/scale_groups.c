// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "graph/core/graph.h"
#include "graph/core/uses.h"
#include "quantize/scaling/scale_search.h"

/* Returns the node of the simulated graph that multiplies with this weight (graphs share constants); 0 if there is none
   or more than one. */
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

/* Returns the qparams of the node's input, quantized or dequantized; NULL if it is real. */
static const struct qc_qparams *input_of(const struct qc_graph *g, const struct qc_node *n)
{
    const struct qc_node *d = qc_node_of(g, n->inputs[0]);
    const qc_id v = d && d->op == QC_OP_Dequantize ? d->inputs[0] : n->inputs[0], q = g->values[v].type.qparams;
    return q ? &g->qparams_of[q] : NULL;
}

static bool has_few_levels(const struct qc_graph *g, qc_id node)
{
    const struct qc_node *q = qc_second_moments_weight(g, &g->nodes[node]);
    return qc_qparams_are_few(&g->qparams_of[g->values[q->outputs].type.qparams]);
}

/* Returns true and fills *out if scaling can help this layer. Depthwise convolutions (l->lanes) have a weight scale for
   each channel that they read, so scaling changes nothing. */
static bool fill_reader(struct qc_scaled_reader *out, const struct qc_scale_search *s, qc_id simulated)
{
    const struct qc_graph *g = s->simulated;
    const struct qc_node *n = &g->nodes[simulated], *weight = qc_second_moments_weight(g, n);
    const struct qc_second_moments_layer *l = weight ? qc_second_moments_of(s->second_moments, NULL, simulated) : NULL;
    const struct qc_qparams *q = weight ? &g->qparams_of[g->values[weight->outputs].type.qparams] : NULL,
                            *in = weight ? input_of(g, n) : NULL;
    if (!l || l->divisor || l->lanes || !l->product_count || !qc_second_moments_rows(l, ~0u) || q->given ||
        !(q->per_channel || q->block) || (in && (in->given || in->kind != QC_QPARAMS_QUANTIZER)))
        return false;
    *out = (struct qc_scaled_reader){.simulated = simulated, .dynamic = s->dynamic[simulated]};
    if (out->dynamic)
        out->steps = 255;
    else if (in)
        out->steps = (double)(qc_qparams_levels(in).hi - qc_qparams_levels(in).lo);
    return ((s->kinds & QC_SCALE_FEW) && has_few_levels(g, simulated)) ||
           ((s->kinds & QC_SCALE_DYNAMIC) && out->dynamic) || ((s->kinds & QC_SCALE_STATIC) && in);
}

bool qc_scale_hopes(const struct qc_scale_search *s)
{
    struct qc_scaled_reader ignored;
    for (qc_id id = 1; id <= s->simulated->node_count; id++)
        if (fill_reader(&ignored, s, id) && (s->data || ignored.steps == 0)) return true;
    return false;
}

/* Sums the squares of a layer's weights for each channel that it reads, divided by the number of outputs. */
static bool sum_squares(struct qc_scaled_reader *r, const struct qc_channels *c, struct qc_arena *a,
                        struct qc_status *st)
{
    const struct qc_node *n = &c->graph->nodes[r->node];
    const struct qc_tensor *t = qc_constant_of(c->graph, n->inputs[1]);
    const struct qc_layer_weight *w = &c->weights[r->node];
    const bool rows = n->op == QC_OP_Conv || qc_attr_int(n, "transB", 0);
    const int64_t window = (int64_t)t->count / (w->outputs * w->inputs);
    const float *x = t->data;
    if (!(r->squares = QC_NEW_ARRAY(a, double, w->inputs * w->conv_groups, st))) return false;
    for (int64_t o = 0; o < w->outputs; o++)
        for (int64_t i = 0; i < w->inputs; i++) {
            const float *at = x + (rows ? o * w->inputs + i : i * w->outputs + o) * window;
            double sum = 0;
            for (int64_t k = 0; k < window; k++) sum += (double)at[k] * (double)at[k];
            r->squares[qc_weight_channel(w, o, i)] += sum / (double)w->outputs;
        }
    return true;
}

static bool is_seen(const struct qc_scale_search *s, const struct qc_channels *c, qc_id group)
{
    for (qc_id v = 1; v <= c->graph->value_count; v++)
        if (c->group[v] == group && s->busy[v]) return true;
    return false;
}

/* *wanted is false if there is nothing to scale in the group. */
static bool fill_group(bool *wanted, struct qc_scaled_group *out, const struct qc_scale_search *s,
                       const struct qc_channels *c, qc_id group, struct qc_status *st)
{
    size_t count = 0;
    for (qc_id id = c->first_reader[group]; id; id = c->next_reader[id]) count++;
    *out = (struct qc_scaled_group){.group = group,
                                    .channels = (size_t)c->groups[group].count,
                                    .name = qc_value_name(c->graph, group, s->arena, st),
                                    .few = true,
                                    .seen = is_seen(s, c, group),
                                    .readers = QC_NEW_ARRAY(s->arena, struct qc_scaled_reader, count, st),
                                    .best = QC_NEW_ARRAY(s->arena, double, c->groups[group].count, st),
                                    .error = 1};
    if (!out->name || !out->readers || !out->best) return false;
    bool rounded = out->seen, tied = false; /* tied: a scaled matrix would differ from its table */
    for (qc_id id = c->first_reader[group]; id; id = c->next_reader[id]) {
        struct qc_scaled_reader r;
        const struct qc_node *n = &c->graph->nodes[id];
        if (c->role[id] != QC_CHANNELS_LAYER) continue;
        const struct qc_tensor *weight = qc_constant_of(c->graph, n->inputs[1]);
        tied = tied || (!s->tables_apart && weight && qc_next_tied_table(c->graph, weight, 0));
        const qc_id simulated = simulated_of(s, weight);
        if (!simulated || !fill_reader(&r, s, simulated)) continue;
        r.node = id;
        r.name = n->name && *n->name ? n->name : qc_value_name(c->graph, n->outputs, s->arena, st);
        if (!r.name || !sum_squares(&r, c, s->arena, st)) return false;
        rounded = rounded || r.steps > 0;
        out->few = out->few && has_few_levels(s->simulated, simulated);
        out->readers[out->reader_count++] = r;
    }
    *wanted = out->reader_count && !tied && (!rounded || s->data) && (!out->seen || s->may_collect);
    return true;
}

/* Computes the minima and maxima of the channels of the readers' quantized inputs, once for each value. */
static bool see_inputs(struct qc_scaled_group *groups, size_t count, const struct qc_scale_search *s,
                       const struct qc_channels *c, struct qc_status *st)
{
    struct qc_channel_extremes *of = QC_NEW_ARRAY(s->arena, struct qc_channel_extremes, c->graph->node_count, st);
    size_t values = 0;
    if (!of) return false;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < groups[i].reader_count; k++) {
            struct qc_scaled_reader *r = &groups[i].readers[k];
            const qc_id x = c->graph->nodes[r->node].inputs[0];
            size_t at = 0;
            if (r->steps == 0) continue;
            while (at < values && of[at].value != x) at++;
            r->seen = &of[at];
            if (at < values) continue;
            of[values++] = (struct qc_channel_extremes){.value = x,
                                                        .axis = qc_channel_axis(c, x),
                                                        .channels = (size_t)qc_channel_count(c, x)};
        }
    return !values ||
           qc_channel_extremes_take(of, values, c->graph, s->data, s->calibration->run.workers, s->arena, st);
}

bool qc_scale_groups(struct qc_scaled_group **groups, size_t *count, const struct qc_scale_search *s,
                     const struct qc_channels *c, struct qc_status *st)
{
    struct qc_scaled_group *g = QC_NEW_ARRAY(s->arena, struct qc_scaled_group, c->graph->value_count + 1, st);
    if (!g) return false;
    *count = 0;
    for (qc_id v = 1; v <= c->graph->value_count; v++) {
        bool wanted;
        if (c->group[v] != v || c->groups[v].fixed) continue;
        if (!fill_group(&wanted, &g[*count], s, c, v, st)) return false;
        *count += wanted;
    }
    *groups = g;
    return see_inputs(g, *count, s, c, st);
}
