// SPDX-License-Identifier: Apache-2.0
#include "rewrite/passes/centre.h"

#include <math.h>
#include <string.h>

#include "graph/core/rebuild.h"
#include "graph/core/uses.h"
#include "rewrite/passes/channel_layout.h"

enum { ATTRIBUTES = 16 }; /* most of a product; its operator has fewer */

bool qc_centre_product_of(struct qc_centre_product *p, const struct qc_graph *g, qc_id node)
{
    const struct qc_node *n = &g->nodes[node];
    *p = (struct qc_centre_product){.weight = qc_real_constant(g, n, 1), .groups = 1, .taps = 1, .rows = true};
    if ((n->op != QC_OP_Conv && n->op != QC_OP_Gemm && n->op != QC_OP_MatMul) || !p->weight ||
        qc_constant_of(g, n->inputs[0]) || n->attr_count > ATTRIBUTES)
        return false;
    const struct qc_shape *w = &p->weight->shape, *x = &g->values[n->inputs[0]].type.shape;
    const bool bias = n->input_count > 2 && n->inputs[2];
    if (n->op == QC_OP_Conv) {
        if (w->rank < 3) return false;
        struct qc_status ignored = QC_STATUS_INIT;
        if (!qc_window_of(&p->window, g, n, &ignored)) return false;
        for (int i = 0; i < p->window.spatial; i++) {
            const int64_t begin = p->window.pad_begin[i], end = p->window.pad_end[i];
            if (begin < 0 || end < 0) return false; /* QC_FREE too */
            p->padded = p->padded || begin || end;
        }
        p->groups = qc_attr_int(n, "group", 1);
        p->outputs = w->dim[0];
        p->channels = w->dim[1] * p->groups;
        p->taps = (int64_t)p->weight->count / (w->dim[0] * w->dim[1]);
    } else {
        if (w->rank != 2 || x->rank < 2) return false;
        if (n->op == QC_OP_Gemm &&
            (qc_attr_float(n, "alpha", 1) != 1 || qc_attr_float(n, "beta", 1) != 1 || qc_attr_int(n, "transA", 0)))
            return false;
        p->rows = n->op == QC_OP_Gemm && qc_attr_int(n, "transB", 0);
        p->outputs = w->dim[p->rows ? 0 : 1];
        p->channels = w->dim[p->rows ? 1 : 0];
    }
    if (!bias) return true;
    const struct qc_tensor *b = qc_real_constant(g, n, 2);
    return b && b->count == (size_t)p->outputs && b->shape.dim[b->shape.rank - 1] == p->outputs;
}

struct centring {
    struct qc_rebuild *r;
    const float *const *centre;
    struct qc_arena *arena;
    struct qc_uses uses;
    qc_id *matmul; /* [node_count + 1]: the MatMul whose W c the constant of this Add takes; 0: none */
};

/* Returns W c + b as a constant. bias: value of b, or 0. */
static qc_id build_bias(struct centring *k, const struct qc_centre_product *p, qc_id bias, const float *centre,
                        struct qc_status *st)
{
    const struct qc_graph *g = k->r->from;
    const struct qc_tensor *b = qc_constant_of(g, bias);
    const float *w = p->weight->data, *old = b ? b->data : NULL;
    const struct qc_shape shape = b ? b->shape : QC_SHAPE(p->outputs);
    struct qc_tensor *t = qc_tensor_new(QC_F32, &shape, st);
    const int64_t each = p->channels / p->groups, of_group = p->outputs / p->groups;
    for (int64_t o = 0; t && o < p->outputs; o++) {
        double sum = old ? (double)old[o] : 0;
        for (int64_t i = 0; i < each; i++)
            for (int64_t tap = 0; tap < p->taps; tap++)
                sum += (double)w[p->rows ? (o * each + i) * p->taps + tap : i * p->outputs + o] *
                       (double)centre[o / of_group * each + i];
        ((float *)t->data)[o] = (float)sum;
    }
    return qc_graph_add_made_constant(k->r->to, bias ? g->values[bias].name : NULL, t, st);
}

/* Returns a name like that of value v that neither graph has: later values keep their names. */
static const char *free_name(struct centring *k, qc_id v, const char *suffix, struct qc_status *st)
{
    const char *name = qc_arena_printf(k->arena, st, "%s_%s", QC_VALUE_LABEL(k->r->from, v), suffix);
    while (name && (qc_graph_find_value(k->r->from, name) || qc_graph_find_value(k->r->to, name)))
        name = qc_arena_printf(k->arena, st, "%s_", name);
    return name;
}

/* Returns v - c, padded. An equal one is found, not made again. */
static qc_id build_centred(struct centring *k, const struct qc_centre_product *p, qc_id v, struct qc_status *st)
{
    qc_id x = qc_rebuild_value(k->r, v, st);
    if (p->padded) {
        const int64_t spatial = p->window.spatial, rank = spatial + 2;
        const struct qc_shape shape = QC_SHAPE(2 * rank);
        struct qc_tensor *t = qc_tensor_new(QC_I64, &shape, st);
        for (int64_t i = 0; t && i < spatial; i++) {
            ((int64_t *)t->data)[2 + i] = p->window.pad_begin[i];
            ((int64_t *)t->data)[rank + 2 + i] = p->window.pad_end[i];
        }
        const qc_id pads = qc_graph_add_made_constant(k->r->to, NULL, t, st);
        x = qc_graph_add(k->r->to, QC_NODE(QC_OP_Pad, QC_INPUTS(x, pads)), st);
    }
    int64_t dims[QC_RANK_MAX];
    const int rank = p->window.spatial ? p->window.spatial + 1 : 1;
    for (int i = 0; i < rank; i++) dims[i] = i ? 1 : p->channels;
    const struct qc_shape shape = qc_shape_of(rank, dims);
    const qc_id c = qc_graph_add_made_constant(k->r->to, NULL, qc_tensor_of(QC_F32, &shape, k->centre[v], st), st);
    const char *const name = free_name(k, v, "centred", st);
    const qc_id y = qc_graph_add(k->r->to, QC_NODE(QC_OP_Sub, QC_INPUTS(x, c)), st);
    qc_graph_name_value(k->r->to, y, name, st);
    return y;
}

/* Returns the place of the constant that an Add adds to a MatMul, with one number per output; 0 or 1, -1: none. */
static int addend_of(const struct qc_graph *g, const struct qc_node *add, int64_t outputs)
{
    for (unsigned i = 0; add->op == QC_OP_Add && i < 2; i++) {
        const struct qc_tensor *t = qc_real_constant(g, add, i);
        if (t && t->count == (size_t)outputs && t->shape.rank && t->shape.dim[t->shape.rank - 1] == outputs)
            return (int)i;
    }
    return -1;
}

bool qc_centre_adds(const struct qc_graph *g, const struct qc_uses *uses, qc_id node)
{
    const struct qc_node *n = &g->nodes[node];
    struct qc_centre_product p;
    return n->op == QC_OP_MatMul && qc_centre_product_of(&p, g, node) &&
           addend_of(g, &g->nodes[qc_only_reader(uses, n->outputs)], p.outputs) < 0;
}

static void build_product(struct centring *k, const struct qc_centre_product *p, const struct qc_node *n,
                          struct qc_status *st)
{
    const struct qc_graph *g = k->r->from;
    struct qc_attr attrs[ATTRIBUTES];
    const qc_id x = build_centred(k, p, n->inputs[0], st);
    if (n->op == QC_OP_MatMul) {
        const qc_id behind = qc_only_reader(&k->uses, n->outputs),
                    pair[2] = {x, qc_rebuild_value(k->r, n->inputs[1], st)};
        const bool folds = addend_of(g, &g->nodes[behind], p->outputs) >= 0;
        const char *const name = folds ? g->values[n->outputs].name : free_name(k, n->outputs, "product", st);
        const struct qc_node_def def = {.inputs = pair, .output_names = &name};
        qc_id y = qc_graph_add_like(k->r->to, g, n, &def, st);
        if (folds) k->matmul[behind] = n->id;
        if (!folds)
            y = qc_graph_add(k->r->to,
                             QC_NODE(QC_OP_Add, QC_INPUTS(y, build_bias(k, p, 0, k->centre[n->inputs[0]], st)),
                                     QC_RESULT(g->values[n->outputs].name)),
                             st);
        k->r->map[n->outputs] = y;
        return;
    }
    static const int64_t zeros[6];
    for (unsigned i = 0; i < n->attr_count; i++) {
        attrs[i] = n->attrs[i];
        if (strcmp(attrs[i].name, "pads") == 0) attrs[i].ints = zeros;
        if (strcmp(attrs[i].name, "auto_pad") == 0) attrs[i].s = "NOTSET";
    }
    const qc_id inputs[3] = {x, qc_rebuild_value(k->r, n->inputs[1], st),
                             build_bias(k, p, n->input_count > 2 ? n->inputs[2] : 0, k->centre[n->inputs[0]], st)};
    const struct qc_node_def def = {.input_count = 3, .inputs = inputs, .attrs = attrs};
    k->r->map[n->outputs] = qc_graph_add_like(k->r->to, g, n, &def, st);
}

bool qc_centre(struct qc_graph **out, const struct qc_graph *g, const float *const *centre, const bool *products,
               struct qc_status *st)
{
    QC_ARENA_SCOPE *a = qc_arena_new();
    QC_REBUILD_SCOPE r = {0};
    struct centring k = {.r = &r,
                         .centre = centre,
                         .arena = a,
                         .matmul = QC_NEW_ARRAY(a, qc_id, g->node_count + 1, st)};
    struct qc_centre_product p;
    if (!k.matmul || !qc_uses_of(&k.uses, g, a, st) || !qc_rebuild_begin(&r, g, st)) return false;
    QC_EACH_NODE(n, g) {
        if (k.matmul[n->id] && qc_centre_product_of(&p, g, k.matmul[n->id])) {
            const struct qc_node *product = &g->nodes[k.matmul[n->id]];
            const int at = addend_of(g, n, p.outputs);
            qc_id inputs[2];
            inputs[at] = build_bias(&k, &p, n->inputs[at], centre[product->inputs[0]], st);
            inputs[1 - at] = r.map[product->outputs];
            const struct qc_node_def def = {.inputs = inputs};
            r.map[n->outputs] = qc_graph_add_like(r.to, g, n, &def, st);
        } else if (products[n->id] && centre[n->inputs[0]] && qc_centre_product_of(&p, g, n->id))
            build_product(&k, &p, n, st);
        else
            qc_rebuild_node(&r, n->id, st);
    }
    return qc_rebuild_finish(out, &r, st);
}

static bool has_float_levels(const struct qc_graph *g, qc_id qparams)
{
    const struct qc_qparams *q = &g->qparams_of[qparams];
    return qparams && q->kind == QC_QPARAMS_QUANTIZER && qc_qparams_levels(q).mantissa;
}

const struct qc_node *qc_small_float_input(const struct qc_graph *g, const struct qc_node *product)
{
    const struct qc_node *q = qc_node_of(g, product->inputs[0]);
    if (q && q->op == QC_OP_Dequantize) q = qc_node_of(g, q->inputs[0]);
    return q && q->op == QC_OP_Quantize && has_float_levels(g, g->values[q->outputs].type.qparams) ? q : NULL;
}

qc_id qc_unmoved(const struct qc_graph *g, qc_id v)
{
    for (const struct qc_node *n; (n = qc_node_of(g, v)) && n->op != QC_OP_Pad && qc_node_affine(n) == QC_AFFINE_KEEP;)
        v = n->inputs[0];
    return v;
}

static struct qc_centred centred(const struct qc_graph *g, qc_id v)
{
    struct qc_centred c = {.value = 0};
    const struct qc_node *sub = qc_node_of(g, v);
    if (!sub || sub->op != QC_OP_Sub || !qc_real_constant(g, sub, 1)) return c;
    const struct qc_node *pad = qc_node_of(g, sub->inputs[0]);
    const bool padded = pad && pad->op == QC_OP_Pad && pad->input_count == 2 && qc_constant_of(g, pad->inputs[1]);
    c = (struct qc_centred){.value = padded ? pad->inputs[0] : sub->inputs[0],
                            .centre = qc_real_constant(g, sub, 1),
                            .pad = padded ? pad : NULL,
                            .lo = (double)INFINITY,
                            .hi = -(double)INFINITY};
    for (size_t i = 0; i < c.centre->count; i++) {
        c.lo = fmin(c.lo, (double)((const float *)c.centre->data)[i]);
        c.hi = fmax(c.hi, (double)((const float *)c.centre->data)[i]);
    }
    return c;
}

struct qc_centred qc_centred_of(const struct qc_graph *g, qc_id v, qc_id qparams)
{
    return has_float_levels(g, qparams) ? centred(g, v) : (struct qc_centred){.value = 0};
}

struct qc_centred qc_centred_input(const struct qc_graph *g, const struct qc_node *product)
{
    const struct qc_node *q = qc_small_float_input(g, product);
    if (q) return qc_centred_of(g, q->inputs[0], g->values[q->outputs].type.qparams);
    return centred(g, product->inputs[0]);
}
