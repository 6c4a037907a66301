// SPDX-License-Identifier: Apache-2.0
/* Decides which quantizers have a scale per channel. All values of a class must have the same channels in the same
   order, and no reader may sum over them. */
#include "rewrite/passes/channel_axis.h"
#include "rewrite/passes/partition.h"

struct finding {
    struct qc_partition *p;
    const struct qc_graph *g;
    int *axes;         /* [value_count + 1] */
    int64_t *channels; /* [value_count + 1] by class */
    bool *wanted;      /* [value_count + 1] by class */
};

static const char moved[] = "channels are mixed, cut, joined or filled on their way";

static void refuse(struct finding *f, qc_id v, const char *reason)
{
    const char **known = &f->p->one_scale[f->p->class_of[v]];
    if (f->wanted[f->p->class_of[v]] && !*known) *known = reason;
}

static void take_value(struct finding *f, qc_id v)
{
    const qc_id class = f->p->class_of[v];
    const int axis = f->axes[v];
    if (qc_constant_of(f->g, v))
        refuse(f, v, "a constant is stored as it is");
    else if (axis < 0)
        refuse(f, v, "its channels are not known");
    else if (f->channels[class] && f->channels[class] != f->g->values[v].type.shape.dim[axis])
        refuse(f, v, moved);
    else
        f->channels[class] = f->g->values[v].type.shape.dim[axis];
}

/* Refuses channels if parameters that pass through the node do not lie along the axes of its input and output. */
static void take_passage(struct finding *f, const struct qc_node *n)
{
    const struct qc_graph *g = f->g;
    for (unsigned i = 0; i < n->input_count; i++)
        for (unsigned k = 0; n->inputs[i] && k < n->output_count; k++) {
            const qc_id x = n->inputs[i], y = n->outputs + k;
            if (f->p->class_of[x] == f->p->class_of[y] &&
                qc_kept_axis(g, n, &g->values[x].type.shape, &g->values[y].type.shape, f->axes[x]) != f->axes[y])
                refuse(f, x, moved);
        }
}

/* Returns true if every output reads one channel and every channel is read by one output. */
static bool is_depthwise(const struct finding *f, const struct qc_node *n)
{
    const struct qc_tensor *w = qc_layer_constant(f->g, n);
    const struct qc_shape *x = &f->g->values[n->inputs[0]].type.shape;
    return n->op == QC_OP_Conv && w && x->rank > 2 && f->axes[n->inputs[0]] == 1 &&
           qc_attr_int(n, "group", 1) == x->dim[1] && w->shape.dim[0] == x->dim[1] && w->shape.dim[1] == 1;
}

static void take_match(struct finding *f, const struct qc_match *m)
{
    const struct qc_graph *g = f->g;
    const int rank = g->values[m->root].type.shape.rank;
    const qc_id stored_as = qc_partition_stored_as(m);
    for (unsigned k = 0; k < m->node_count; k++) {
        const struct qc_node *n = &g->nodes[m->nodes[k]];
        if (qc_op_info(n->op)->affine != QC_AFFINE_PRODUCT) continue;
        for (unsigned i = 0; i < 2; i++)
            if (i || !is_depthwise(f, n))
                refuse(f, n->inputs[i], "a convolution or matrix product that reads it sums over its channels");
        if (f->axes[m->root] != (n->op == QC_OP_Conv || n->op == QC_OP_ConvTranspose ? 1 : rank - 1))
            refuse(f, m->root, "its channels are not those of the layer that makes it");
    }
    if (stored_as && f->p->class_of[stored_as] == f->p->class_of[m->root] && f->axes[stored_as] != f->axes[m->root])
        refuse(f, m->root, moved);
}

bool qc_partition_channels(struct qc_partition *p, const struct qc_rules *rules, struct qc_status *st)
{
    const struct qc_graph *g = p->graph;
    struct finding f = {.p = p, .g = g};
    bool any = false;
    for (qc_id v = 0; v <= g->value_count; v++) p->channel_axis[v] = -1;
    for (qc_id v = 1; v <= g->value_count && !any; v++) any = qc_partition_scheme(p, p->class_of[v], false).per_channel;
    if (!any) return true;
    f.channels = QC_NEW_ARRAY(p->arena, int64_t, g->value_count + 1, st);
    f.wanted = QC_NEW_ARRAY(p->arena, bool, g->value_count + 1, st);
    if (!f.channels || !f.wanted || !qc_channel_axes(&f.axes, g, p->arena, st)) return false;
    for (qc_id v = 1; v <= g->value_count; v++)
        if (p->requested[v]) f.wanted[p->class_of[v]] = qc_partition_scheme(p, p->class_of[v], false).per_channel;
    for (qc_id id = 1; id <= g->node_count; id++) { /* results of patterns with a quantizer of their own */
        const struct qc_match *m = p->matches.at[id];
        if (m && m->rule->give->op == QC_OP_Dequantize)
            f.wanted[p->class_of[m->root]] =
                f.wanted[p->class_of[m->root]] ||
                (!m->rule->give->qparams.product && qc_partition_scheme(p, p->class_of[m->root], false).per_channel);
    }
    for (qc_id id = 1; id <= g->node_count; id++) {
        const struct qc_node *n = &g->nodes[id];
        if (p->matches.at[id])
            take_match(&f, p->matches.at[id]);
        else if (p->matches.live[id] && qc_rules_behaviour(rules, g, n) != QC_AFFINE_NONE)
            take_passage(&f, n);
    }
    for (qc_id v = 1; v <= g->value_count; v++)
        if (f.wanted[p->class_of[v]]) take_value(&f, v);
    for (size_t i = 0; i < g->output_count; i++)
        refuse(&f, g->outputs[i].value, "it is an output of the model, where channels are compared with each other");
    for (qc_id v = 1; v <= g->value_count; v++) {
        const qc_id class = p->class_of[v];
        if (f.wanted[class] && !p->one_scale[class] && f.channels[class] > 1) p->channel_axis[v] = f.axes[v];
    }
    return true;
}
