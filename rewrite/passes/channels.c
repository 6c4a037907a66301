// SPDX-License-Identifier: Apache-2.0
#include "rewrite/passes/channels.h"

#include <math.h>
#include <string.h>

#include "graph/core/rebuild.h"
#include "graph/core/source_call.h"

static bool is_real_matrix(const struct qc_graph *g, qc_id v)
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
static void begin_group(struct qc_channels *c, qc_id v, int axis, struct qc_status *st)
{
    const struct qc_shape *s = &c->graph->values[v].type.shape;
    if (c->group[v] || !is_real_matrix(c->graph, v) || axis < 0 || axis >= s->rank || s->dim[axis] < 1) return;
    struct qc_channel_group *q = &c->groups[v];
    q->held = QC_NEW_ARRAY(c->arena, bool, s->dim[axis], st);
    q->scale = QC_NEW_ARRAY(c->arena, double, s->dim[axis], st);
    if (st->code != QC_OK) return;
    q->count = s->dim[axis];
    for (int64_t i = 0; i < q->count; i++) q->scale[i] = 1;
    c->group[v] = v;
    c->layout[v] = (struct qc_channel_layout){.stride = {0}};
    c->layout[v].stride[axis] = 1;
}

static bool absent(const struct qc_node *n, unsigned i)
{
    return i >= n->input_count || !n->inputs[i];
}

/* Returns the axis of the channels that a layer reads and makes. */
static int layer_axis(const struct qc_graph *g, const struct qc_node *n, qc_id value)
{
    return n->op == QC_OP_Conv ? 1 : g->values[value].type.shape.rank - 1;
}

static bool is_weighted(const struct qc_graph *g, const struct qc_node *n, const uint32_t *uses)
{
    const struct qc_tensor *w = qc_real_constant(g, n, 1);
    if ((n->op != QC_OP_Conv && n->op != QC_OP_Gemm && n->op != QC_OP_MatMul) || !w || uses[n->inputs[1]] != 1 ||
        qc_constant_of(g, n->inputs[0]))
        return false;
    if (!absent(n, 2) && !qc_real_constant(g, n, 2)) return false;
    if (n->op == QC_OP_Conv) return w->shape.rank > 2 && w->count;
    if (w->shape.rank != 2 || !w->count) return false;
    if (n->op == QC_OP_MatMul) return true;
    const bool plain =
        qc_attr_float(n, "alpha", 1) == 1 && qc_attr_float(n, "beta", 1) == 1 && !qc_attr_int(n, "transA", 0);
    return plain &&
           (absent(n, 2) || qc_real_constant(g, n, 2)->shape.rank < 2 || qc_real_constant(g, n, 2)->shape.dim[0] == 1);
}

/* Returns true for a LayerNormalization over the last axis whose only result is the normalised value. */
static bool is_norm(const struct qc_graph *g, const struct qc_node *n)
{
    if (n->op != QC_OP_LayerNormalization || n->output_count != 1) return false;
    /* An operator of the file may compute it with a scale in integers (QEmbedLayerNormalization). */
    for (size_t i = 0; i < g->call_count; i++) {
        const struct qc_source_call *c = &g->calls[i];
        bool made = false, bytes = false;
        for (unsigned k = 0; c->op && k < c->output_count; k++) made = made || c->outputs[k] == n->outputs;
        for (unsigned k = 0; made && k < c->input_count; k++) {
            const struct qc_tensor *t = c->inputs[k] ? qc_constant_of(g, c->inputs[k]) : NULL;
            bytes = bytes || (t && (t->dtype == QC_U8 || t->dtype == QC_I8));
        }
        if (bytes) return false;
        if (made) break;
    }
    const struct qc_shape *s = &g->values[n->inputs[0]].type.shape;
    const int64_t axis = qc_attr_int(n, "axis", -1);
    if (s->rank < 2 || (axis != -1 && axis != s->rank - 1) || !qc_real_constant(g, n, 1)) return false;
    for (unsigned i = 1; i < n->input_count; i++) {
        const struct qc_tensor *t = qc_real_constant(g, n, i);
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
        if (!is_real_matrix(g, n->outputs + k)) return QC_CHANNELS_STOP;
    if (is_weighted(g, n, uses)) return QC_CHANNELS_LAYER;
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
    const struct qc_tensor *t = qc_real_constant(g, n, 1 - (*data & 1));
    /* One element, or one per channel of a value with `rank` dimensions to which it broadcasts. */
    const int at = t ? axis - (rank - t->shape.rank) : 0;
    const bool fits = t && axis >= 0 && t->shape.rank <= rank &&
                      (t->count == 1 || (at >= 0 && t->count == (size_t)channels && t->shape.dim[at] == channels));
    if (n->op == QC_OP_Mul && fits && t->count == (size_t)channels) return QC_CHANNELS_GAIN;
    if (!c->group[x]) return QC_CHANNELS_STOP;
    if (n->op == QC_OP_Add || n->op == QC_OP_Sub) return fits ? QC_CHANNELS_SHIFT : QC_CHANNELS_STOP;
    if (n->op == QC_OP_Clip) {
        for (unsigned i = 1; i < 3; i++)
            if (!absent(n, i) && (!qc_real_constant(g, n, i) || qc_real_constant(g, n, i)->count != 1))
                return QC_CHANNELS_STOP;
        return axis >= 0 ? QC_CHANNELS_CLIP : QC_CHANNELS_STOP;
    }
    const bool pool = n->op == QC_OP_MaxPool || n->op == QC_OP_AveragePool || n->op == QC_OP_GlobalAveragePool ||
                      n->op == QC_OP_GlobalMaxPool;
    const bool pass = n->op == QC_OP_Relu || n->op == QC_OP_LeakyRelu || (n->op == QC_OP_PRelu && t) ||
                      (n->op == QC_OP_Mul && fits) || (pool && axis == 1);
    return pass ? QC_CHANNELS_PASS : QC_CHANNELS_STOP;
}

/* Reads the largest magnitudes over the window. Rows are the outputs for every op. */
static void read_magnitudes(struct qc_layer_weight *w, const struct qc_graph *g, const struct qc_node *n,
                            struct qc_arena *a, struct qc_status *st)
{
    const struct qc_tensor *t = qc_real_constant(g, n, 1);
    const float *x = t->data;
    const bool conv = n->op == QC_OP_Conv, rows = conv || qc_attr_int(n, "transB", 0);
    *w = (struct qc_layer_weight){.outputs = t->shape.dim[rows ? 0 : 1],
                                  .inputs = t->shape.dim[rows ? 1 : 0],
                                  .conv_groups = conv ? qc_attr_int(n, "group", 1) : 1};
    const int64_t window = (int64_t)t->count / (w->outputs * w->inputs);
    w->magnitude = QC_NEW_ARRAY(a, float, w->outputs * w->inputs, st);
    for (int64_t o = 0; w->magnitude && o < w->outputs; o++)
        for (int64_t i = 0; i < w->inputs; i++) {
            float top = 0;
            for (int64_t k = 0; k < window; k++)
                top = fmaxf(top, fabsf(x[((rows ? o * w->inputs + i : i * w->outputs + o)) * window + k]));
            w->magnitude[o * w->inputs + i] = top;
        }
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
        if (i != data) hold(c, n->inputs[i]); /* the other factor of a product */
    return true;
}

static void find_role(struct qc_channels *c, const struct qc_node *n, const uint32_t *uses, struct qc_status *st)
{
    const struct qc_graph *g = c->graph;
    enum qc_channel_role role = role_of(&c->data[n->id], c, n, uses);
    const qc_id x = n->inputs[c->data[n->id]];
    bool fits = true;
    if (role == QC_CHANNELS_LAYER) {
        const int in_axis = layer_axis(g, n, x);
        struct qc_layer_weight *w = &c->weights[n->id];
        begin_group(c, x, in_axis, st);
        begin_group(c, n->outputs, layer_axis(g, n, n->outputs), st);
        read_magnitudes(w, g, n, c->arena, st);
        fits = qc_channel_axis(c, x) == in_axis && w->outputs % w->conv_groups == 0 &&
               qc_channel_count(c, x) == w->inputs * w->conv_groups && qc_channel_count(c, n->outputs) == w->outputs;
    } else if (role == QC_CHANNELS_GAIN) {
        begin_group(c, x, g->values[x].type.shape.rank - 1, st);
        begin_group(c, n->outputs, qc_channel_axis(c, x), st);
        fits = c->group[x] && c->group[n->outputs];
    } else if (role == QC_CHANNELS_NORM) {
        hold(c, x);
        begin_group(c, n->outputs, g->values[n->outputs].type.shape.rank - 1, st);
        fits = c->group[n->outputs] != 0;
    } else if (role != QC_CHANNELS_STOP && role != QC_CHANNELS_LOOK) {
        fits = pass(c, n, c->data[n->id]);
    }
    if (!fits) role = QC_CHANNELS_STOP;
    c->role[n->id] = role;
    for (unsigned i = 0; role == QC_CHANNELS_STOP && i < n->input_count; i++) hold(c, n->inputs[i]);
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
    if (st->code != QC_OK) return false;
    QC_EACH_NODE(n, g) find_role(c, n, uses, st);
    for (size_t i = 0; i < g->input_count; i++) hold(c, g->inputs[i].value);
    for (size_t i = 0; i < g->output_count; i++) hold(c, g->outputs[i].value);
    /* Backwards, so that the lists are in topological order. */
    QC_EACH_NODE_BACK(n, g) {
        const enum qc_channel_role role = c->role[n->id];
        const bool weighs = role == QC_CHANNELS_LAYER || role == QC_CHANNELS_GAIN;
        if (weighs || role == QC_CHANNELS_SHIFT || role == QC_CHANNELS_NORM) {
            c->next_maker[n->id] = c->first_maker[c->group[n->outputs]];
            c->first_maker[c->group[n->outputs]] = n->id;
        }
        if (!weighs) continue;
        const qc_id from = c->group[n->inputs[c->data[n->id]]];
        c->next_reader[n->id] = c->first_reader[from];
        c->first_reader[from] = n->id;
    }
    /* Fix groups that no node makes, and hold each channel that no layer reads. */
    for (qc_id v = 1; v <= g->value_count; v++)
        if (c->group[v] == v) {
            struct qc_channel_group *q = &c->groups[v];
            const qc_id maker = c->first_maker[v];
            bool *read = QC_NEW_ARRAY(c->arena, bool, q->count, st);
            if (!read) return false;
            for (qc_id id = c->first_reader[v]; id; id = c->next_reader[id]) {
                const qc_id x = c->graph->nodes[id].inputs[c->data[id]];
                if (c->role[id] == QC_CHANNELS_LAYER)
                    qc_layout_mark(read, &c->layout[x], &c->graph->values[x].type.shape);
            }
            q->fixed = true;
            for (int64_t i = 0; i < q->count; i++) {
                q->held[i] = q->held[i] || !read[i] || !maker || c->role[maker] == QC_CHANNELS_SHIFT;
                q->fixed = q->fixed && q->held[i];
            }
        }
    return st->code == QC_OK;
}

/* Most sweeps over all groups. A chain of layers changes little after that. */
enum { SWEEPS = 100 };
/* The sweep that changes no scale by more than this factor is the last. */
#define SETTLED 1.01
/* Least share of a channel relative to the largest one: smaller values are rounded to 0 in any case. */
#define FLOOR 1e-3
/* Assumed largest element of a normalised value, in standard deviations. */
#define DEVIATIONS 3.0

struct solver {
    struct qc_channels *c;
    double *made, *shift, *read, *column; /* [channels of the widest group] */
};

static double largest(const double *x, int64_t n)
{
    double top = 0;
    for (int64_t i = 0; i < n; i++) top = fmax(top, x[i]);
    return top;
}

/* Adds the magnitudes of a bias, a shift or a gain of value v, divided by the current scales, to sum. */
static void add_magnitudes(double *sum, const struct qc_channels *c, qc_id v, const struct qc_tensor *t, double factor)
{
    const int64_t first = c->layout[v].offset, count = qc_channel_count(c, v);
    const double *scale = qc_channel_scales(c, v);
    for (int64_t i = 0; t && i < count; i++)
        sum[first + i] += factor * fabs(qc_tensor_float(t, t->count == 1 ? 0 : (size_t)i)) / scale[i];
}

/* s->made: the share of each channel in the constants that make the group, at most 1. Returns false if all are 0. A
   layer's bias counts like its weights, relative to the largest bias: dividing a channel of small weights and a large
   bias by a small number would widen the range of the whole tensor. A gain and its shifts are added: their sum is the
   magnitude of the result. */
static bool find_made(struct solver *s, qc_id group)
{
    const struct qc_channels *c = s->c;
    const struct qc_channel_group *q = &c->groups[group];
    bool gain = false;
    memset(s->made, 0, (size_t)q->count * sizeof *s->made);
    memset(s->shift, 0, (size_t)q->count * sizeof *s->shift);
    for (qc_id id = c->first_maker[group]; id; id = c->next_maker[id]) {
        const struct qc_node *n = &c->graph->nodes[id];
        const qc_id operand = n->inputs[1 - (c->data[id] & 1)];
        if (c->role[id] == QC_CHANNELS_LAYER) {
            const double *in = qc_channel_scales(c, n->inputs[0]), *out = qc_channel_scales(c, n->outputs);
            const struct qc_layer_weight *w = &c->weights[id];
            for (int64_t o = 0; o < w->outputs; o++)
                for (int64_t i = 0; i < w->inputs; i++)
                    s->made[o] = fmax(s->made[o], (double)w->magnitude[o * w->inputs + i] *
                                                      in[qc_weight_channel(w, o, i)] / out[o]);
            if (n->input_count > 2) add_magnitudes(s->shift, c, n->outputs, qc_constant_of(c->graph, n->inputs[2]), 1);
        } else if (c->role[id] == QC_CHANNELS_GAIN) {
            add_magnitudes(s->made, c, n->outputs, qc_constant_of(c->graph, operand), DEVIATIONS);
            gain = true;
        } else if (c->role[id] == QC_CHANNELS_SHIFT)
            add_magnitudes(s->shift, c, n->outputs, qc_constant_of(c->graph, operand), 1);
    }
    for (int64_t i = 0; gain && i < q->count; i++) s->made[i] += s->shift[i];
    const double top = largest(s->made, q->count), high = gain ? 0 : largest(s->shift, q->count);
    for (int64_t i = 0; top > 0 && i < q->count; i++)
        s->made[i] = fmax(s->made[i] / top, high > 0 ? s->shift[i] / high : 0);
    return top > 0;
}

/* s <- s * sqrt(made / read). Returns the factor of the largest change. */
static double step(struct solver *s, qc_id group)
{
    const struct qc_channels *c = s->c;
    struct qc_channel_group *q = &c->groups[group];
    double change = 1;
    bool weighed = false;
    if (!find_made(s, group)) return 1;
    memset(s->read, 0, (size_t)q->count * sizeof *s->read);
    for (qc_id id = c->first_reader[group]; id; id = c->next_reader[id]) {
        if (c->role[id] != QC_CHANNELS_LAYER) continue;
        const struct qc_node *n = &c->graph->nodes[id];
        const double *in = qc_channel_scales(c, n->inputs[0]), *out = qc_channel_scales(c, n->outputs);
        const struct qc_layer_weight *w = &c->weights[id];
        const int64_t channels = w->inputs * w->conv_groups;
        memset(s->column, 0, (size_t)channels * sizeof *s->column);
        for (int64_t o = 0; o < w->outputs; o++)
            for (int64_t i = 0; i < w->inputs; i++) {
                const int64_t channel = qc_weight_channel(w, o, i);
                s->column[channel] =
                    fmax(s->column[channel], (double)w->magnitude[o * w->inputs + i] * in[channel] / out[o]);
            }
        const double top = largest(s->column, channels); /* columns count relative to it */
        double *read = s->read + c->layout[n->inputs[0]].offset;
        for (int64_t i = 0; top > 0 && i < channels; i++) read[i] = fmax(read[i], s->column[i] / top);
        weighed = true;
    }
    for (int64_t i = 0; weighed && i < q->count; i++) {
        if (q->held[i]) continue;
        const double factor = sqrt(fmax(s->made[i], FLOOR) / fmax(s->read[i], FLOOR));
        q->scale[i] *= factor;
        change = fmax(change, fmax(factor, 1 / factor));
    }
    return change;
}

struct building {
    const struct qc_channels *c;
    struct qc_rebuild *r;
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
    const int64_t window = t ? (int64_t)t->count / (w->outputs * w->inputs) : 0, slow = rows ? w->outputs : w->inputs,
                  fast = rows ? w->inputs : w->outputs; /* in order of memory */
    for (int64_t p = 0; t && p < slow; p++)
        for (int64_t q = 0; q < fast; q++, x += window) {
            const int64_t o = rows ? p : q, i = rows ? q : p;
            const double of = in ? in[qc_weight_channel(w, o, i)] : 1, factor = out ? of / out[o] : of;
            for (int64_t k = 0; k < window; k++) x[k] = (float)((double)x[k] * factor);
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
    for (int64_t i = 0; made && i < channels; i++)
        y[i] = (float)(qc_tensor_float(t, t->count == 1 ? 0 : (size_t)i) * (in ? in[i] : 1) / out[i]);
    return made;
}

static bool all_one(const double *scale, int64_t n)
{
    for (int64_t i = 0; scale && i < n; i++)
        if (scale[i] != 1) return false;
    return true;
}

/* Builds a Clip with bounds per channel: Relu or Max for the lower one, Min for the upper one. */
static void build_clip(struct building *b, const struct qc_node *n, int axis, int64_t channels, const double *out,
                       struct qc_status *st)
{
    const struct qc_graph *g = b->c->graph;
    qc_id x = qc_rebuild_value(b->r, n->inputs[0], st);
    const int rank = g->values[n->inputs[0]].type.shape.rank;
    for (unsigned i = 1; i < n->input_count; i++) {
        if (!n->inputs[i]) continue;
        const struct qc_tensor *bound = qc_constant_of(g, n->inputs[i]);
        const bool last = i == 2 || n->input_count < 3 || !n->inputs[2],
                   zero = i == 1 && qc_tensor_float(bound, 0) == 0;
        qc_id inputs[2] = {x};
        if (!zero)
            inputs[1] = qc_graph_add_made_constant(b->r->to, g->values[n->inputs[i]].name,
                                                   scaled_constant(bound, rank, axis, channels, NULL, out, st), st);
        struct qc_node_def def = {.op = zero     ? QC_OP_Relu
                                        : i == 1 ? QC_OP_Max
                                                 : QC_OP_Min,
                                  .name = last ? n->name : NULL,
                                  .input_count = zero ? 1 : 2,
                                  .inputs = inputs,
                                  .output_names = last ? &g->values[n->outputs].name : NULL};
        x = qc_graph_add(b->r->to, &def, st);
    }
    b->info->clips++;
    b->r->map[n->outputs] = x;
}

static void build_scaled_node(struct building *b, const struct qc_node *n, struct qc_status *st)
{
    const struct qc_channels *c = b->c;
    const struct qc_graph *g = c->graph;
    const enum qc_channel_role role = c->role[n->id];
    const unsigned data = c->data[n->id];
    const bool scales = role == QC_CHANNELS_LAYER || role == QC_CHANNELS_NORM || role == QC_CHANNELS_GAIN ||
                        role == QC_CHANNELS_SHIFT || role == QC_CHANNELS_CLIP;
    const double *from = qc_channel_scales(c, n->inputs[data]), *to = qc_channel_scales(c, n->outputs);
    const int64_t count = qc_channel_count(c, n->outputs);
    if (!scales || (all_one(to, count) && all_one(from, qc_channel_count(c, n->inputs[data])))) {
        qc_rebuild_node(b->r, n->id, st);
        return;
    }
    const int axis = qc_channel_axis(c, n->outputs), rank = g->values[n->outputs].type.shape.rank;
    if (role == QC_CHANNELS_CLIP) {
        build_clip(b, n, axis, count, to, st);
        return;
    }
    qc_id inputs[3] = {0};
    for (unsigned i = 0; i < n->input_count; i++) {
        const qc_id v = n->inputs[i];
        struct qc_tensor *t = NULL;
        if (!v) continue;
        if (i == data) {
            inputs[i] = qc_rebuild_value(b->r, v, st);
            continue;
        }
        if (role == QC_CHANNELS_LAYER && i == 1)
            qc_channels_scaled_weight(&t, c, n->id, from, to, st);
        else if (role == QC_CHANNELS_LAYER)
            t = scaled_constant(qc_constant_of(g, v), 2, 1, count, NULL, to, st);
        else
            t = scaled_constant(qc_constant_of(g, v), rank, axis, count, role == QC_CHANNELS_GAIN ? from : NULL, to,
                                st);
        inputs[i] = qc_graph_add_made_constant(b->r->to, g->values[v].name, t, st);
    }
    const struct qc_node_def with = {.inputs = inputs};
    b->r->map[n->outputs] = qc_graph_add_like(b->r->to, g, n, &with, st);
}

bool qc_channels_apply(struct qc_graph **out, struct qc_equalized *info, const struct qc_channels *c,
                       struct qc_status *st)
{
    const struct qc_graph *g = c->graph;
    QC_REBUILD_SCOPE r = {0};
    struct building b = {.c = c, .r = &r, .info = info};
    *info = (struct qc_equalized){0};
    for (qc_id v = 1; v <= g->value_count; v++) {
        const struct qc_channel_group *q = &c->groups[v];
        if (c->group[v] != v || q->fixed || all_one(q->scale, q->count)) continue;
        info->groups++;
        for (int64_t i = 0; i < q->count; i++) info->channels += !q->held[i];
    }
    if (!qc_rebuild_begin(&r, g, st)) return false;
    QC_EACH_NODE(n, g) build_scaled_node(&b, n, st);
    return qc_rebuild_finish(out, &r, st);
}

void qc_channels_leave_clips(struct qc_channels *c)
{
    QC_EACH_NODE(n, c->graph)
        if (c->role[n->id] == QC_CHANNELS_CLIP) c->groups[c->group[n->outputs]].fixed = true;
}

bool qc_equalize(struct qc_graph **out, struct qc_equalized *info, const struct qc_graph *g,
                 enum qc_equalize_extent extent, struct qc_status *st)
{
    QC_ARENA_SCOPE *a = qc_arena_new();
    struct qc_channels c;
    if (!qc_channels_find(&c, g, a, st)) return false;
    if (extent == QC_EQUALIZE_FREE) qc_channels_leave_clips(&c);
    /* Choose the scales of all groups that are not fixed. Each step divides a channel by sqrt(made / read), its shares
       in the weights that make and that read the group (Nagel et al. 2019, eq. 11), until no scale changes by more than
       1 %. Results of a LayerNormalization are not scaled: constants alone do not tell how large its channels are. */
    struct solver s = {.c = &c};
    int64_t widest = 0;
    double change = 2 * SETTLED;
    for (qc_id v = 1; v <= g->value_count; v++)
        if (c.group[v] == v && c.groups[v].count > widest) widest = c.groups[v].count;
    s.made = QC_NEW_ARRAY(a, double, widest, st);
    s.shift = QC_NEW_ARRAY(a, double, widest, st);
    s.read = QC_NEW_ARRAY(a, double, widest, st);
    s.column = QC_NEW_ARRAY(a, double, widest, st);
    if (st->code != QC_OK) return false;
    for (int k = 0; k < SWEEPS && change > SETTLED; k++) {
        change = 1;
        for (qc_id i = 1; i <= g->value_count; i++) {
            const qc_id v = k % 2 ? (qc_id)g->value_count + 1 - i
                                  : i; /* alternating directions: a change at one end reaches the other in one sweep */
            if (c.group[v] == v && !c.groups[v].fixed) change = fmax(change, step(&s, v));
        }
    }
    return qc_channels_apply(out, info, &c, st);
}
