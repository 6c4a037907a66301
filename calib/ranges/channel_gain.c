// SPDX-License-Identifier: Apache-2.0
#include "calib/ranges/calibrate_parts.h"

#include "graph/core/infer.h"
#include "rewrite/passes/channel_layout.h"

struct gains {
    const struct qc_graph *g;
    struct qc_arena *a;
    struct qc_channel_gain *of; /* [value_count + 1] */
};

static double *room(const struct gains *k, qc_id v, struct qc_status *st)
{
    struct qc_channel_gain *c = &k->of[v];
    if (!c->gain) c->gain = QC_NEW_ARRAY(k->a, double, c->channels, st);
    return c->gain;
}

/* Adds the squared weights of a product to the gains of its first input. A channel's position in the constant is
   element / inner % count, plus the group's. */
static bool take_layer(const struct gains *k, const struct qc_node *n, struct qc_status *st)
{
    const struct qc_graph *g = k->g;
    const qc_id v = n->inputs[0];
    const struct qc_channel_gain *c = &k->of[v];
    const struct qc_tensor *t = qc_layer_constant(g, n);
    const bool conv = n->op == QC_OP_Conv, transposed = n->op == QC_OP_ConvTranspose;
    struct qc_status ignored = QC_STATUS_INIT;
    struct qc_window window;
    double positions = 1;
    size_t inner = 1, count, groups = 1, outer = 0; /* outer: elements of a group, 0: one group */
    if (!t || t->shape.rank < (conv || transposed ? 3 : 2)) return true;
    const struct qc_shape *s = &t->shape;
    if (!conv && !transposed) {
        const bool last = n->op == QC_OP_Gemm && qc_attr_int(n, "transB", 0);
        inner = last ? 1 : (size_t)s->dim[s->rank - 1];
        count = (size_t)s->dim[s->rank - (last ? 1 : 2)];
    } else {
        if (!qc_window_of(&window, g, n, &ignored)) return true;
        for (int i = transposed ? 1 : 2; i < s->rank; i++) inner *= (size_t)s->dim[i];
        count = (size_t)s->dim[transposed ? 0 : 1];
        for (int i = 0; conv && i < window.spatial; i++) positions *= (double)window.stride[i];
        if (conv) groups = (size_t)qc_attr_int(n, "group", 1);
        outer = conv ? t->count / groups : 0;
    }
    const int axis = conv || transposed ? 1 : g->values[v].type.shape.rank - 1;
    if (c->axis != axis || c->channels != count * groups) return true;
    double *gain = room(k, v, st);
    const float *x = t->data;
    if (!gain) return false;
    for (size_t i = 0; i < t->count; i++)
        gain[i / inner % count + (outer ? i / outer * count : 0)] += (double)x[i] * (double)x[i] / positions;
    return true;
}

static double size_of(const struct qc_shape *s, int from)
{
    double n = 1;
    for (int i = from; i < s->rank; i++) n *= s->dim[i] > 0 ? (double)s->dim[i] : 1;
    return n;
}

/* Returns the share of an element's error that a node passes on, summed over the results that read it; 0: none. */
static double gain_share(const struct qc_graph *g, const struct qc_node *n, unsigned data)
{
    struct qc_status ignored = QC_STATUS_INIT;
    struct qc_window w;
    const struct qc_shape *x = &g->values[n->inputs[data]].type.shape, *y = &g->values[n->outputs].type.shape;
    double taps = 1, strides = 1;
    if (n->op == QC_OP_MaxPool || n->op == QC_OP_AveragePool) {
        if (!qc_window_of(&w, g, n, &ignored)) return 0;
        for (int i = 0; i < w.spatial; i++) {
            taps *= (double)w.kernel[i];
            strides *= (double)w.stride[i];
        }
        return 1 / (n->op == QC_OP_MaxPool ? strides : taps * strides);
    }
    if (n->op == QC_OP_GlobalAveragePool) return 1 / (size_of(x, 2) * size_of(x, 2));
    if (n->op == QC_OP_ReduceMean) return size_of(y, 0) * size_of(y, 0) / (size_of(x, 0) * size_of(x, 0));
    if (n->op == QC_OP_Add || n->op == QC_OP_Sub) return x->rank == y->rank && size_of(x, 0) == size_of(y, 0);
    const enum qc_affine_behaviour b = qc_op_info(n->op)->affine;
    const bool unary = n->input_count == 1 && b == QC_AFFINE_MERGE;
    return unary || b == QC_AFFINE_KEEP || b == QC_AFFINE_BOUND || b == QC_AFFINE_JOIN || n->op == QC_OP_Quantize ||
           n->op == QC_OP_Dequantize || n->op == QC_OP_Requantize;
}

/* A Reshape that splits a channel into `inner` channels: its gain is their mean. */
static bool take_split(const struct gains *k, const struct qc_node *n, struct qc_status *st)
{
    const struct qc_channel_gain *in = &k->of[n->inputs[0]], *out = &k->of[n->outputs];
    const struct qc_shape *x = &k->g->values[n->inputs[0]].type.shape, *y = &k->g->values[n->outputs].type.shape;
    const size_t inner = in->axis < 0 ? 0 : (size_t)size_of(x, in->axis + 1);
    if (!inner || !out->gain || out->axis != y->rank - 1 || out->channels != inner * in->channels) return true;
    double *gain = room(k, n->inputs[0], st);
    for (size_t i = 0; gain && i < out->channels; i++) gain[i / inner] += out->gain[i] / (double)inner;
    return gain != NULL;
}

/* Computes the squared factor of a product with a constant of one number, or of one per channel. Returns false for
   other products. */
static bool product_factor(double *out, const struct gains *k, const struct qc_node *n, unsigned data, size_t channel)
{
    const struct qc_graph *g = k->g;
    const qc_id other = n->input_count == 2 ? n->inputs[1 - data] : 0;
    const struct qc_node *q = qc_node_of(g, other);
    const struct qc_tensor *t = qc_constant_of(g, q && q->op == QC_OP_Quantize ? q->inputs[0] : other);
    const struct qc_channel_gain *in = &k->of[n->inputs[data]];
    const int at = t ? in->axis - (g->values[n->outputs].type.shape.rank - t->shape.rank) : -1;
    if (!t || t->dtype != QC_F32 ||
        (t->count != 1 && (at < 0 || t->count != in->channels || t->shape.dim[at] != (int64_t)in->channels)))
        return false;
    const double f = (double)((const float *)t->data)[t->count == 1 ? 0 : channel];
    *out = f * f;
    return true;
}

static bool take_input(const struct gains *k, const struct qc_node *n, unsigned data, struct qc_status *st)
{
    const struct qc_channel_gain *in = &k->of[n->inputs[data]];
    const bool reshapes = n->op == QC_OP_Reshape || n->op == QC_OP_Flatten;
    for (unsigned o = 0; o < n->output_count; o++) {
        const struct qc_channel_gain *out = &k->of[n->outputs + o];
        int64_t first;
        if (!out->gain) continue;
        if (qc_channel_axis_through(&first, k->g, n, data, o, in->axis) != out->axis || first < 0) {
            if (reshapes && !data && !take_split(k, n, st)) return false;
            continue;
        }
        const bool joins = n->op == QC_OP_Concat, multiplies = n->op == QC_OP_Mul;
        const double all = multiplies ? 1 : gain_share(k->g, n, data);
        double *gain = all > 0 ? room(k, n->inputs[data], st) : NULL;
        if (!gain) {
            if (all > 0) return false;
            continue;
        }
        for (size_t c = 0; c < (joins ? in->channels : out->channels); c++) {
            const size_t from = joins ? c + (size_t)first : c, to = joins ? c : c + (size_t)first;
            double f = all;
            if (from >= out->channels || to >= in->channels || (multiplies && !product_factor(&f, k, n, data, to)))
                continue;
            gain[to] += out->gain[from] * f;
        }
    }
    return true;
}

bool qc_channel_gains(struct qc_channel_gain **out, const struct qc_graph *g, struct qc_arena *a, struct qc_status *st)
{
    struct gains k = {.g = g, .a = a, .of = QC_NEW_ARRAY(a, struct qc_channel_gain, g->value_count + 1, st)};
    int *axes;
    if (!k.of || !qc_channel_axes(&axes, g, a, st)) return false;
    for (qc_id v = 0; v <= g->value_count; v++)
        k.of[v] = (struct qc_channel_gain){.axis = axes[v],
                                           .channels = axes[v] < 0 ? 0 : (size_t)g->values[v].type.shape.dim[axes[v]]};
    for (qc_id id = (qc_id)g->node_count; id >= 1; id--) {
        const struct qc_node *n = &g->nodes[id];
        for (unsigned i = 0; i < n->input_count; i++) {
            const qc_id v = n->inputs[i];
            if (!v || qc_constant_of(g, v) || !k.of[v].channels) continue;
            if (qc_op_info(n->op)->affine == QC_AFFINE_PRODUCT ? !i && !take_layer(&k, n, st)
                                                               : !take_input(&k, n, i, st))
                return false;
        }
    }
    for (qc_id v = 1; v <= g->value_count; v++) {
        double sum = 0;
        for (size_t c = 0; k.of[v].gain && c < k.of[v].channels; c++) sum += k.of[v].gain[c];
        if (!(sum > 0 && sum < (double)INFINITY)) k.of[v].gain = NULL;
    }
    *out = k.of;
    return true;
}
