// SPDX-License-Identifier: Apache-2.0
#include "rewrite/passes/equalize.h"

#include "graph/core/rebuild.h"

/* Returns the element of a constant for channel i; the constant has one element or one per channel. */
static double element_of(const struct qc_tensor *t, int64_t i)
{
    return qc_tensor_float(t, t->count == 1 ? 0 : (size_t)i);
}

struct building {
    const struct qc_channels *c;
    struct qc_rebuild r;
    struct qc_equalized *info;
};

bool qc_channels_scaled_weight(struct qc_tensor **to, const struct qc_channels *c, qc_id id, const double *in,
                               const double *out, struct qc_status *st)
{
    const struct qc_node *n = &c->graph->nodes[id];
    const struct qc_layer_weight *w = &c->weights[id];
    const struct qc_tensor *from = qc_constant_of(c->graph, n->inputs[1]);
    struct qc_tensor *t = qc_tensor_of(QC_F32, &from->shape, from->data, st);
    const bool rows = n->op == QC_OP_Conv || qc_attr_int(n, "transB", 0);
    float *x = t ? t->data : NULL;
    const int64_t window = t ? (int64_t)t->count / (w->outputs * w->inputs) : 0;
    for (int64_t o = 0; t && o < w->outputs; o++)
        for (int64_t i = 0; i < w->inputs; i++) {
            const double factor = (in ? in[qc_weight_channel(w, o, i)] : 1) / (out ? out[o] : 1);
            float *at = x + (rows ? o * w->inputs + i : i * w->outputs + o) * window;
            for (int64_t k = 0; k < window; k++) at[k] = (float)((double)at[k] * factor);
        }
    return (*to = t) != NULL;
}

/* Returns constant * in / out per channel. A single number becomes one per channel of a value with `rank` dimensions.
   in NULL: 1. */
static struct qc_tensor *scaled_constant(const struct qc_tensor *t, int rank, int axis, int64_t channels,
                                         const double *in, const double *out, struct qc_status *st)
{
    struct qc_shape shape = t->shape;
    if (t->count == 1 && channels > 1) {
        shape = (struct qc_shape){.rank = rank - axis};
        for (int i = 0; i < shape.rank; i++) shape.dim[i] = i ? 1 : channels;
    }
    struct qc_tensor *made = qc_tensor_new(QC_F32, &shape, st);
    float *y = made ? made->data : NULL;
    for (int64_t i = 0; made && i < channels; i++) y[i] = (float)(element_of(t, i) * (in ? in[i] : 1) / out[i]);
    return made;
}

static qc_id add_constant(struct building *b, qc_id like, struct qc_tensor *t, struct qc_status *st)
{
    return qc_graph_add_made_constant(b->r.to, like ? b->c->graph->values[like].name : NULL, t, st);
}

static bool all_one(const double *scale, int64_t n)
{
    for (int64_t i = 0; scale && i < n; i++)
        if (scale[i] != 1) return false;
    return true;
}

/* Builds a Clip with bounds per channel: Relu or Max for the lower one, Min for the upper one. */
static bool build_clip(struct building *b, const struct qc_node *n, int axis, int64_t channels, const double *out,
                       struct qc_status *st)
{
    const struct qc_graph *g = b->c->graph;
    qc_id x = qc_rebuild_value(&b->r, n->inputs[0], st);
    const int rank = g->values[n->inputs[0]].type.shape.rank;
    for (unsigned i = 1; x && i < n->input_count; i++) {
        if (!n->inputs[i]) continue;
        const struct qc_tensor *bound = qc_constant_of(g, n->inputs[i]);
        const bool last = i == 2 || n->input_count < 3 || !n->inputs[2],
                   zero = i == 1 && qc_tensor_float(bound, 0) == 0;
        qc_id inputs[2] = {x, zero ? 0
                                   : add_constant(b, n->inputs[i],
                                                  scaled_constant(bound, rank, axis, channels, NULL, out, st), st)};
        struct qc_node_def def = {.op = zero     ? QC_OP_Relu
                                        : i == 1 ? QC_OP_Max
                                                 : QC_OP_Min,
                                  .name = last ? n->name : NULL,
                                  .input_count = zero ? 1 : 2,
                                  .inputs = inputs,
                                  .output_names = last ? &g->values[n->outputs].name : NULL};
        x = zero || inputs[1] ? qc_graph_add(b->r.to, &def, st) : 0;
    }
    b->info->clips++;
    return (b->r.map[n->outputs] = x) != 0;
}

static bool build_node(struct building *b, qc_id id, struct qc_status *st)
{
    const struct qc_channels *c = b->c;
    const struct qc_graph *g = c->graph;
    const struct qc_node *n = &g->nodes[id];
    const enum qc_channel_role role = c->role[id];
    const unsigned data = c->data[id];
    const bool scales = role == QC_CHANNELS_LAYER || role == QC_CHANNELS_NORM || role == QC_CHANNELS_GAIN ||
                        role == QC_CHANNELS_SHIFT || role == QC_CHANNELS_CLIP;
    if (!scales) return qc_rebuild_node(&b->r, id, st) != 0;
    const double *from = qc_channel_scales(c, n->inputs[data]), *to = qc_channel_scales(c, n->outputs);
    const int64_t count = qc_channel_count(c, n->outputs);
    const int axis = qc_channel_axis(c, n->outputs), rank = g->values[n->outputs].type.shape.rank;
    if (all_one(to, count) && all_one(from, qc_channel_count(c, n->inputs[data])))
        return qc_rebuild_node(&b->r, id, st) != 0;
    if (role == QC_CHANNELS_CLIP) return build_clip(b, n, axis, count, to, st);
    qc_id inputs[3] = {0};
    for (unsigned i = 0; i < n->input_count; i++) {
        const qc_id v = n->inputs[i];
        struct qc_tensor *t = NULL;
        if (!v) continue;
        if (i == data)
            inputs[i] = qc_rebuild_value(&b->r, v, st);
        else {
            if (role == QC_CHANNELS_LAYER && i == 1)
                qc_channels_scaled_weight(&t, c, id, from, to, st);
            else if (role == QC_CHANNELS_LAYER)
                t = scaled_constant(qc_constant_of(g, v), 2, 1, count, NULL, to, st);
            else
                t = scaled_constant(qc_constant_of(g, v), rank, axis, count, role == QC_CHANNELS_GAIN ? from : NULL, to,
                                    st);
            inputs[i] = add_constant(b, v, t, st);
        }
        if (!inputs[i]) return false;
    }
    const struct qc_node_def with = {.inputs = inputs};
    return (b->r.map[n->outputs] = qc_graph_add_like(b->r.to, g, n, &with, st)) != 0;
}

bool qc_channels_apply(struct qc_graph **out, struct qc_equalized *info, const struct qc_channels *c,
                       struct qc_status *st)
{
    const struct qc_graph *g = c->graph;
    struct building b = {.c = c, .info = info};
    *info = (struct qc_equalized){0};
    for (qc_id v = 1; v <= g->value_count; v++) {
        const struct qc_channel_group *q = &c->groups[v];
        if (c->group[v] != v || q->fixed || all_one(q->scale, q->count)) continue;
        info->groups++;
        for (int64_t i = 0; i < q->count; i++) info->channels += !q->held[i];
    }
    bool ok = qc_rebuild_begin(&b.r, g, st);
    for (qc_id id = 1; ok && id <= g->node_count; id++) ok = build_node(&b, id, st);
    ok = ok && qc_rebuild_finish(out, &b.r, st);
    qc_rebuild_free(&b.r);
    return ok;
}

bool qc_equalize(struct qc_graph **out, struct qc_equalized *info, const struct qc_graph *g, struct qc_status *st)
{
    struct qc_arena *a = qc_arena_new();
    struct qc_channels c;
    if (!a) return qc_fail_memory(st, 1);
    const bool ok = qc_channels_find(&c, g, a, st) && qc_channels_solve(&c, st) && qc_channels_apply(out, info, &c, st);
    qc_arena_free(a);
    return ok;
}
