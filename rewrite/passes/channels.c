// SPDX-License-Identifier: Apache-2.0
#include "rewrite/passes/channels.h"

#include <math.h>

static bool is_real(const struct qc_graph *g, qc_id v)
{
    return v && g->values[v].type.dtype == QC_F32 && g->values[v].type.qparams == QC_REAL &&
           g->values[v].type.shape.rank >= 2;
}

/* Holds the channels of a value at scale 1, because a reader does not commute with scales. */
static void hold(struct qc_channels *c, qc_id v)
{
    if (c->group[v]) qc_layout_mark(c->groups[c->group[v]].held, &c->layout[v], &c->graph->values[v].type.shape);
}

/* Begins a group for a value, with its channels along an axis. */
static bool begin(struct qc_channels *c, qc_id v, int axis, struct qc_status *st)
{
    const struct qc_shape *s = &c->graph->values[v].type.shape;
    if (c->group[v] || !is_real(c->graph, v) || axis < 0 || axis >= s->rank || s->dim[axis] < 1) return true;
    struct qc_channel_group *q = &c->groups[v];
    q->count = s->dim[axis];
    if (!(q->held = QC_NEW_ARRAY(c->arena, bool, q->count, st)) ||
        !(q->scale = QC_NEW_ARRAY(c->arena, double, q->count, st)))
        return false;
    for (int64_t i = 0; i < q->count; i++) q->scale[i] = 1;
    c->group[v] = v;
    c->layout[v] = (struct qc_channel_layout){.stride = {0}};
    c->layout[v].stride[axis] = 1;
    return true;
}

static const struct qc_tensor *constant(const struct qc_graph *g, const struct qc_node *n, unsigned i)
{
    const struct qc_tensor *t = i < n->input_count ? qc_constant_of(g, n->inputs[i]) : NULL;
    return t && t->dtype == QC_F32 && g->values[n->inputs[i]].type.qparams == QC_REAL ? t : NULL;
}

static bool absent(const struct qc_node *n, unsigned i)
{
    return i >= n->input_count || !n->inputs[i];
}

/* Returns true for a constant with one element, or with one per channel of a value with `rank` dimensions to which it
   broadcasts. */
static bool per_channel(const struct qc_tensor *t, int rank, int axis, int64_t channels)
{
    if (t->count == 1) return t->shape.rank <= rank;
    int at = axis - (rank - t->shape.rank);
    return t->shape.rank <= rank && at >= 0 && t->count == (size_t)channels && t->shape.dim[at] == channels;
}

/* Returns the axis of the channels that a layer reads and makes. */
static int layer_axis(const struct qc_graph *g, const struct qc_node *n, qc_id value)
{
    return n->op == QC_OP_Conv ? 1 : g->values[value].type.shape.rank - 1;
}

static bool is_layer(const struct qc_graph *g, const struct qc_node *n, const uint32_t *uses)
{
    const struct qc_tensor *w = constant(g, n, 1);
    if ((n->op != QC_OP_Conv && n->op != QC_OP_Gemm && n->op != QC_OP_MatMul) || !w || uses[n->inputs[1]] != 1 ||
        qc_constant_of(g, n->inputs[0]))
        return false;
    if (!absent(n, 2) && !constant(g, n, 2)) return false;
    if (n->op == QC_OP_Conv) return w->shape.rank > 2 && w->count;
    if (w->shape.rank != 2 || !w->count) return false;
    if (n->op == QC_OP_MatMul) return true;
    const bool plain =
        qc_attr_float(n, "alpha", 1) == 1 && qc_attr_float(n, "beta", 1) == 1 && !qc_attr_int(n, "transA", 0);
    return plain && (absent(n, 2) || constant(g, n, 2)->shape.rank < 2 || constant(g, n, 2)->shape.dim[0] == 1);
}

/* Returns true for a LayerNormalization over the last axis whose only result is the normalised value. */
static bool is_norm(const struct qc_graph *g, const struct qc_node *n)
{
    if (n->op != QC_OP_LayerNormalization || n->output_count != 1) return false;
    const struct qc_shape *s = &g->values[n->inputs[0]].type.shape;
    const int64_t axis = qc_attr_int(n, "axis", -1);
    if (s->rank < 2 || (axis != -1 && axis != s->rank - 1) || !constant(g, n, 1)) return false;
    for (unsigned i = 1; i < n->input_count; i++) {
        const struct qc_tensor *t = constant(g, n, i);
        if (!absent(n, i) && (!t || t->shape.rank != 1 || t->shape.dim[0] != s->dim[s->rank - 1])) return false;
    }
    return true;
}

static enum qc_channel_role role_of(unsigned *data, const struct qc_channels *c, const struct qc_node *n,
                                    const uint32_t *uses)
{
    const struct qc_graph *g = c->graph;
    *data = 0;
    if (n->op == QC_OP_Shape || n->op == QC_OP_Size) return QC_CHANNELS_LOOK;
    for (unsigned k = 0; k < n->output_count; k++)
        if (!is_real(g, n->outputs + k)) return QC_CHANNELS_STOP;
    if (is_layer(g, n, uses)) return QC_CHANNELS_LAYER;
    if (is_norm(g, n)) return QC_CHANNELS_NORM;
    if (qc_layout_moves(n->op)) {
        *data = n->op == QC_OP_MatMul && c->group[n->inputs[1]];
        return c->group[n->inputs[*data]] ? QC_CHANNELS_PASS : QC_CHANNELS_STOP;
    }
    if (n->output_count != 1) return QC_CHANNELS_STOP;
    if ((n->op == QC_OP_Add || n->op == QC_OP_Mul) && qc_constant_of(g, n->inputs[0])) *data = 1;
    const qc_id x = n->inputs[*data];
    if (!x || qc_constant_of(g, x)) return QC_CHANNELS_STOP;
    const struct qc_shape *in = &g->values[x].type.shape;
    const int rank = in->rank, axis = c->group[x] ? qc_channel_axis(c, x) : rank - 1;
    const int64_t channels = axis >= 0 ? in->dim[axis] : 0;
    if (!c->group[x] && channels < 1) return QC_CHANNELS_STOP;
    const struct qc_tensor *t = constant(g, n, 1 - (*data & 1));
    const bool fits = t && axis >= 0 && per_channel(t, rank, axis, channels);
    if (n->op == QC_OP_Mul && fits && t->count == (size_t)channels) return QC_CHANNELS_GAIN;
    if (!c->group[x]) return QC_CHANNELS_STOP;
    if (n->op == QC_OP_Add || n->op == QC_OP_Sub) return fits ? QC_CHANNELS_SHIFT : QC_CHANNELS_STOP;
    if (n->op == QC_OP_Clip) {
        for (unsigned i = 1; i < 3; i++)
            if (!absent(n, i) && (!constant(g, n, i) || constant(g, n, i)->count != 1)) return QC_CHANNELS_STOP;
        return axis >= 0 ? QC_CHANNELS_CLIP : QC_CHANNELS_STOP;
    }
    const bool pool = n->op == QC_OP_MaxPool || n->op == QC_OP_AveragePool || n->op == QC_OP_GlobalAveragePool ||
                      n->op == QC_OP_GlobalMaxPool;
    const bool pass = n->op == QC_OP_Relu || n->op == QC_OP_LeakyRelu || (n->op == QC_OP_PRelu && t) ||
                      (n->op == QC_OP_Mul && fits) || (pool && axis == 1);
    return pass ? QC_CHANNELS_PASS : QC_CHANNELS_STOP;
}

/* Reads the largest magnitudes over the window. Rows are the outputs for every op. */
static bool read_weight(struct qc_layer_weight *w, const struct qc_graph *g, const struct qc_node *n,
                        struct qc_arena *a, struct qc_status *st)
{
    const struct qc_tensor *t = constant(g, n, 1);
    const float *x = t->data;
    const bool conv = n->op == QC_OP_Conv, rows = conv || qc_attr_int(n, "transB", 0);
    *w = (struct qc_layer_weight){.outputs = t->shape.dim[rows ? 0 : 1],
                                  .inputs = t->shape.dim[rows ? 1 : 0],
                                  .conv_groups = conv ? qc_attr_int(n, "group", 1) : 1};
    const int64_t window = (int64_t)t->count / (w->outputs * w->inputs);
    if (!(w->magnitude = QC_NEW_ARRAY(a, float, w->outputs * w->inputs, st))) return false;
    for (int64_t o = 0; o < w->outputs; o++)
        for (int64_t i = 0; i < w->inputs; i++) {
            float top = 0;
            for (int64_t k = 0; k < window; k++)
                top = fmaxf(top, fabsf(x[((rows ? o * w->inputs + i : i * w->outputs + o)) * window + k]));
            w->magnitude[o * w->inputs + i] = top;
        }
    return true;
}

/* The outputs take the channels of input x, moved or in place. */
static bool pass(struct qc_channels *c, const struct qc_node *n, unsigned data)
{
    const qc_id x = n->inputs[data];
    for (unsigned k = 0; qc_layout_moves(n->op) && k < n->output_count; k++)
        if (!qc_layout_through(&c->layout[n->outputs + k], &c->layout[x], c->graph, n, data, k)) return false;
    for (unsigned k = 0; k < n->output_count; k++) {
        if (!qc_layout_moves(n->op)) c->layout[n->outputs + k] = c->layout[x];
        c->group[n->outputs + k] = c->group[x];
    }
    for (unsigned i = 0; i < n->input_count; i++)
        if (i != data && n->inputs[i]) hold(c, n->inputs[i]); /* the other factor of a product */
    return true;
}

static bool take_node(struct qc_channels *c, qc_id id, const uint32_t *uses, struct qc_status *st)
{
    const struct qc_graph *g = c->graph;
    const struct qc_node *n = &g->nodes[id];
    enum qc_channel_role role = role_of(&c->data[id], c, n, uses);
    const qc_id x = n->inputs[c->data[id]];
    bool fits = true;
    if (role == QC_CHANNELS_LAYER) {
        const int in_axis = layer_axis(g, n, x);
        if (!begin(c, x, in_axis, st) || !begin(c, n->outputs, layer_axis(g, n, n->outputs), st) ||
            !read_weight(&c->weights[id], g, n, c->arena, st))
            return false;
        const struct qc_layer_weight *w = &c->weights[id];
        fits = qc_channel_axis(c, x) == in_axis && w->outputs % w->conv_groups == 0 &&
               qc_channel_count(c, x) == w->inputs * w->conv_groups && qc_channel_count(c, n->outputs) == w->outputs;
    } else if (role == QC_CHANNELS_GAIN) {
        if (!begin(c, x, g->values[x].type.shape.rank - 1, st) || !begin(c, n->outputs, qc_channel_axis(c, x), st))
            return false;
        fits = c->group[x] && c->group[n->outputs];
    } else if (role == QC_CHANNELS_NORM) {
        hold(c, x);
        if (!begin(c, n->outputs, g->values[n->outputs].type.shape.rank - 1, st)) return false;
        fits = c->group[n->outputs] != 0;
    } else if (role != QC_CHANNELS_STOP && role != QC_CHANNELS_LOOK) {
        fits = pass(c, n, c->data[id]);
    }
    if (!fits) role = QC_CHANNELS_STOP;
    c->role[id] = role;
    for (unsigned i = 0; role == QC_CHANNELS_STOP && i < n->input_count; i++)
        if (n->inputs[i]) hold(c, n->inputs[i]);
    return true;
}

/* Runs backwards, so that the lists are in topological order. */
static void list_nodes(struct qc_channels *c)
{
    const struct qc_graph *g = c->graph;
    for (qc_id id = (qc_id)g->node_count; id >= 1; id--) {
        const enum qc_channel_role role = c->role[id];
        const struct qc_node *n = &g->nodes[id];
        const bool weighs = role == QC_CHANNELS_LAYER || role == QC_CHANNELS_GAIN;
        if (weighs || role == QC_CHANNELS_SHIFT || role == QC_CHANNELS_NORM) {
            c->next_maker[id] = c->first_maker[c->group[n->outputs]];
            c->first_maker[c->group[n->outputs]] = id;
        }
        if (!weighs) continue;
        const qc_id from = c->group[n->inputs[c->data[id]]];
        c->next_reader[id] = c->first_reader[from];
        c->first_reader[from] = id;
    }
}

/* Fixes a group that no node makes, and holds each channel that no layer reads. */
static bool settle(struct qc_channels *c, qc_id group, struct qc_status *st)
{
    struct qc_channel_group *q = &c->groups[group];
    const qc_id maker = c->first_maker[group];
    bool *read = QC_NEW_ARRAY(c->arena, bool, q->count, st);
    if (!read) return false;
    for (qc_id id = c->first_reader[group]; id; id = c->next_reader[id]) {
        const qc_id x = c->graph->nodes[id].inputs[c->data[id]];
        if (c->role[id] == QC_CHANNELS_LAYER) qc_layout_mark(read, &c->layout[x], &c->graph->values[x].type.shape);
    }
    q->fixed = true;
    for (int64_t i = 0; i < q->count; i++) {
        q->held[i] = q->held[i] || !read[i] || !maker || c->role[maker] == QC_CHANNELS_SHIFT;
        q->fixed = q->fixed && q->held[i];
    }
    return true;
}

bool qc_channels_find(struct qc_channels *c, const struct qc_graph *g, struct qc_arena *a, struct qc_status *st)
{
    *c = (struct qc_channels){.arena = a, .graph = g};
    uint32_t *uses = qc_graph_uses(g, a, st);
    c->role = QC_NEW_ARRAY(a, enum qc_channel_role, g->node_count + 1, st);
    c->data = QC_NEW_ARRAY(a, unsigned, g->node_count + 1, st);
    c->weights = QC_NEW_ARRAY(a, struct qc_layer_weight, g->node_count + 1, st);
    c->group = QC_NEW_ARRAY(a, qc_id, g->value_count + 1, st);
    c->layout = QC_NEW_ARRAY(a, struct qc_channel_layout, g->value_count + 1, st);
    c->groups = QC_NEW_ARRAY(a, struct qc_channel_group, g->value_count + 1, st);
    c->first_maker = QC_NEW_ARRAY(a, qc_id, g->value_count + 1, st);
    c->first_reader = QC_NEW_ARRAY(a, qc_id, g->value_count + 1, st);
    c->next_maker = QC_NEW_ARRAY(a, qc_id, g->node_count + 1, st);
    c->next_reader = QC_NEW_ARRAY(a, qc_id, g->node_count + 1, st);
    if (!c->first_maker || !c->first_reader || !c->next_maker || !c->next_reader) return false;
    if (!uses || !c->role || !c->data || !c->weights || !c->group || !c->layout || !c->groups) return false;
    for (qc_id id = 1; id <= g->node_count; id++)
        if (!take_node(c, id, uses, st)) return false;
    for (size_t i = 0; i < g->input_count; i++) hold(c, g->inputs[i].value);
    for (size_t i = 0; i < g->output_count; i++) hold(c, g->outputs[i].value);
    list_nodes(c);
    for (qc_id v = 1; v <= g->value_count; v++)
        if (c->group[v] == v && !settle(c, v, st)) return false;
    return true;
}
