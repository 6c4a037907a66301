// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/scope.h"
#include "calib/statistics/stream.h"
#include "calib/weights/round_weights.h"
#include "calib/weights/round_weights_parts.h"
#include "graph/core/recurrent.h"
#include "rewrite/passes/simulate.h"
#include "simq/plan/plan.h"

/* Adds the new integers of the weight that an affine value of the old graph holds. */
static qc_id add_rounded(struct qc_rebuild *b, const struct qc_round_weights_layer *l, qc_id weight,
                         struct qc_status *st)
{
    const struct qc_value *v = &l->g->values[weight];
    const char *name = v->name ? v->name : l->g->values[qc_quantized_constant(l->g, weight)].name;
    return qc_graph_add_affine_constant(b->to, name, l->rounded, v->type.qparams, v->type.axis, st);
}

/* Makes the new weight as the node reads it: dequantized, in the operator's shape. */
static qc_id new_weight(struct qc_rebuild *b, const struct qc_round_weights_layer *l, struct qc_status *st)
{
    const struct qc_graph *g = l->g;
    const struct qc_node *n = &g->nodes[l->node], *shape = qc_node_of(g, n->inputs[l->at]);
    const struct qc_node *dequantize = shape->op == QC_OP_Reshape ? qc_node_of(g, shape->inputs[0]) : shape;
    const qc_id stored = add_rounded(b, l, dequantize->inputs[0], st);
    const struct qc_node_def d = {.inputs = &stored};
    const qc_id real = stored ? qc_graph_add_like(b->to, g, dequantize, &d, st) : 0;
    if (!real || shape == dequantize) return real;
    const qc_id inputs[] = {real, qc_rebuild_value(b, shape->inputs[1], st)};
    const struct qc_node_def r = {.inputs = inputs};
    return inputs[1] ? qc_graph_add_like(b->to, g, shape, &r, st) : 0;
}

/* Copies a recurrent node of g with the new weights that are not NULL. */
static bool copy_recurrent(struct qc_rebuild *b, const struct qc_graph *g, qc_id node,
                           const struct qc_round_weights_layer *const of[QC_MOMENTS_RECURRENT], struct qc_status *st)
{
    const struct qc_node *n = &g->nodes[node];
    qc_id inputs[QC_RECURRENT_INPUTS];
    assert(n->input_count <= QC_RECURRENT_INPUTS);
    for (unsigned i = 0; i < n->input_count; i++) {
        const struct qc_round_weights_layer *l = NULL;
        for (int k = 0; k < QC_MOMENTS_RECURRENT; k++)
            if (of[k] && of[k]->at == i) l = of[k];
        inputs[i] = !n->inputs[i] ? QC_ABSENT : l ? new_weight(b, l, st) : qc_rebuild_value(b, n->inputs[i], st);
        if (n->inputs[i] && !inputs[i]) return false;
    }
    const struct qc_node_def with = {.inputs = inputs};
    const qc_id first = qc_graph_add_like(b->to, g, n, &with, st);
    for (unsigned k = 0; first && k < n->output_count; k++) b->map[n->outputs + k] = first + k;
    return first != 0;
}

/* Returns the constant operand of an Add with one number per output; 0: none. */
static qc_id addend(const struct qc_uses *u, const struct qc_node *n, size_t outputs)
{
    const struct qc_graph *g = u->graph;
    for (unsigned i = 0; n->op == QC_OP_Add && i < 2; i++) {
        const struct qc_tensor *t = qc_constant_of(g, n->inputs[i]);
        if (t && t->dtype == QC_F32 && t->count == outputs && t->shape.rank &&
            t->shape.dim[t->shape.rank - 1] == (int64_t)outputs)
            return n->inputs[i];
    }
    return 0;
}

static bool read_in_float(const struct qc_uses *u, qc_id v)
{
    const struct qc_use_list readers = qc_readers(u, v);
    for (size_t i = 0; i < readers.count; i++) {
        const struct qc_node *n = &u->graph->nodes[readers.of[i].node];
        const bool arithmetic = n->op == QC_OP_Add || n->op == QC_OP_Sub || n->op == QC_OP_Mul || n->op == QC_OP_Div;
        if (!arithmetic && (qc_op_info(n->op)->affine != QC_AFFINE_NONE || n->op == QC_OP_Quantize)) return false;
    }
    return true;
}

/* Returns the size of a row of the node's result; 0: unknown. */
static int64_t outputs_of(const struct qc_graph *g, qc_id node)
{
    const struct qc_shape *s = &g->values[g->nodes[node].outputs].type.shape;
    return s->rank > 0 && s->dim[s->rank - 1] > 0 ? s->dim[s->rank - 1] : 0;
}

qc_id qc_bias_after_matmul(const struct qc_uses *u, qc_id node, bool make)
{
    const struct qc_graph *g = u->graph;
    const struct qc_node *n = &g->nodes[node];
    const qc_id dequantize = n->op == QC_OP_MatMul ? qc_only_reader(u, n->outputs) : 0;
    if (!dequantize || g->nodes[dequantize].op != QC_OP_Dequantize) return 0;
    const qc_id v = g->nodes[dequantize].outputs, add = qc_only_reader(u, v);
    const int64_t outputs = outputs_of(g, node);
    if (!outputs) return 0;
    if (add && addend(u, &g->nodes[add], (size_t)outputs)) return add;
    return make && read_in_float(u, v) ? dequantize : 0;
}

const struct qc_tensor *qc_round_weights_addend(const struct qc_uses *u, qc_id node)
{
    const qc_id behind = qc_bias_after_matmul(u, node, false);
    const qc_id v = behind ? addend(u, &u->graph->nodes[behind], (size_t)outputs_of(u->graph, node)) : 0;
    return v ? qc_constant_of(u->graph, v) : NULL;
}

bool qc_round_weights_copy_behind(struct qc_rebuild *b, const struct qc_uses *u, qc_id product, qc_id node,
                                  struct qc_tensor *bias, struct qc_status *st)
{
    const struct qc_graph *g = u->graph;
    const struct qc_node *n = &g->nodes[node], *p = &g->nodes[product];
    char name[QC_LABEL];
    qc_id inputs[2];
    if (n->op == QC_OP_Add) {
        const qc_id old = addend(u, n, (size_t)outputs_of(g, product));
        const char *own =
            qc_all_uses(u, old).count == 1 ? g->values[old].name : NULL; /* other readers keep the old constant */
        for (unsigned i = 0; i < 2; i++)
            if (!(inputs[i] = n->inputs[i] == old ? qc_graph_add_constant(b->to, own, bias, st)
                                                  : qc_rebuild_value(b, n->inputs[i], st)))
                return false;
        const struct qc_node_def with = {.inputs = inputs};
        return (b->map[n->outputs] = qc_graph_add_like(b->to, g, n, &with, st)) != 0;
    }
    qc_text(name, sizeof name, "%.200s/bias", p->name ? p->name : "");
    if (!qc_rebuild_node(b, node, st) || !(inputs[0] = b->map[n->outputs]) ||
        !(inputs[1] = qc_graph_add_constant(b->to, NULL, bias, st)))
        return false;
    const struct qc_node_def def = {.op = QC_OP_Add, .name = name, .input_count = 2, .inputs = inputs};
    return (b->map[n->outputs] = qc_graph_add(b->to, &def, st)) != 0;
}

/* Largest bias magnitude of int32 in steps, with a margin for the rounding of the step. */
static const double BIAS_LIMIT = 2147480000.0;

struct qc_weight_rounder {
    const struct qc_graph *g;
    size_t nodes; /* number of nodes of the network */
    struct qc_arena *arena;
    struct qc_uses uses; /* of g */
    const struct qc_second_moments *second_moments;
    struct qc_round_weights_options options;
    struct qc_weight_rounding *result;
    size_t count;
    struct qc_round_weights_layer *layers;      /* [count] */
    size_t *by_node;                            /* [node_count + 1]: layer + 1, or 0 */
    size_t *of_recurrent[QC_MOMENTS_RECURRENT]; /* [node_count + 1]: of each of its weights, layer + 1, or 0 */
    size_t *behind;                             /* [node_count + 1]: layer + 1 whose bias this node can take, or 0 */
    double seconds;                             /* spent on layers solved one by one */
};

enum qc_op qc_round_weights_biased_op(const struct qc_graph *g, const struct qc_node *n)
{
    const bool dense = n->op == QC_OP_MatMul && g->values[n->inputs[0]].type.shape.rank == 2 &&
                       g->values[n->inputs[1]].type.shape.rank == 2;
    return dense ? QC_OP_Gemm : n->op;
}

static const char *why_never(const struct qc_round_weights_layer *l, const struct qc_node *n)
{
    if (!(l->moments->parts[QC_MOMENTS_FIT].rows + l->moments->parts[QC_MOMENTS_HELD].rows))
        return "no sample reached it";
    if (l->qparams->given) return "it is quantized in the model already";
    return qc_readers(l->uses, n->inputs[l->at]).count > 1 ? "it is used by more than one operator" : NULL;
}

/* Returns true if only the weights are quantized: the layer reads real numbers. */
static bool reads_real(const struct qc_graph *g, const struct qc_node *n)
{
    return g->values[n->inputs[1]].type.qparams == QC_REAL;
}

static bool add_rounded_layer(struct qc_weight_rounder *r, qc_id id)
{
    const struct qc_graph *g = r->g;
    const struct qc_node *n = &g->nodes[id];
    const char *reason;
    const struct qc_second_moments_layer *moments = qc_second_moments_of(r->second_moments, &reason, id);
    if (!moments && !reason) return false;
    struct qc_round_weights_layer *l = &r->layers[r->count];
    const qc_id weight = qc_second_moments_weight(g, n);
    const struct qc_node *bias = n->input_count > 2 && n->inputs[2] ? qc_node_of(g, n->inputs[2]) : NULL;
    const qc_id a = g->values[n->inputs[0]].type.qparams;
    *l = (struct qc_round_weights_layer){.g = g,
                                         .uses = &r->uses,
                                         .node = id,
                                         .moments = moments,
                                         .at = 1,
                                         .fitted = SIZE_MAX,
                                         .weight = qc_constant_of(g, qc_quantized_constant(g, weight)),
                                         .bias = bias && bias->op == QC_OP_Quantize ? qc_constant_of(g, bias->inputs[0])
                                                 : reads_real(g, n) && n->input_count > 2
                                                     ? qc_constant_of(g, n->inputs[2])
                                                     : NULL,
                                         .qparams = &g->qparams_of[g->values[weight].type.qparams],
                                         .input = a ? &g->qparams_of[a] : NULL,
                                         .result = &r->result->layers[r->count]};
    l->scales = qc_scale_layout_of(l->qparams, &g->values[weight].type.shape, g->values[weight].type.axis);
    if (qc_round_weights_biased_op(g, n) == QC_OP_MatMul && moments)
        l->behind = qc_bias_after_matmul(&r->uses, id, r->options.settings->add_ops);
    if (l->behind) r->behind[l->behind] = r->count + 1;
    l->correctable =
        l->behind ||
        (qc_round_weights_biased_op(g, n) != QC_OP_MatMul && (l->bias || n->input_count < 3 || !n->inputs[2]) &&
         (!l->bias || (l->bias->dtype == QC_F32 && moments && l->bias->count == moments->outputs)));
    *l->result = (struct qc_rounded_weights){.quantizer = g->values[weight].type.qparams,
                                             .name = l->qparams->name,
                                             .reason = reason};
    r->by_node[id] = ++r->count;
    return true;
}

/* Adds the weights of a recurrent node as layers. */
static void add_recurrent(struct qc_weight_rounder *r, qc_id id)
{
    const struct qc_graph *g = r->g;
    const struct qc_node *n = &g->nodes[id];
    for (int k = 0; k < QC_MOMENTS_RECURRENT; k++) {
        const enum qc_second_moments_recurrent which = (enum qc_second_moments_recurrent)k;
        const qc_id weight = qc_second_moments_recurrent_weight(g, n, which);
        const struct qc_second_moments_layer *m = qc_second_moments_of_recurrent(r->second_moments, id, which);
        if (!weight || !m) continue;
        const struct qc_type *type = &g->values[weight].type;
        const size_t per = m->outputs / m->groups;
        /* The third gate of a GRU multiplies R by the reset state, which is no output of the operator: it cannot be
           compensated. */
        const bool reset = n->op == QC_OP_GRU && which == QC_MOMENTS_STATE && !qc_attr_int(n, "linear_before_reset", 0);
        struct qc_round_weights_layer *l = &r->layers[r->count];
        *l = (struct qc_round_weights_layer){.g = g,
                                             .uses = &r->uses,
                                             .node = id,
                                             .moments = m,
                                             .at = which == QC_MOMENTS_INPUT ? QC_RECURRENT_W : QC_RECURRENT_R,
                                             .recurrent = true,
                                             .fitted = reset ? per / 3 * 2 : per,
                                             .weight = qc_constant_of(g, qc_quantized_constant(g, weight)),
                                             .qparams = &g->qparams_of[type->qparams],
                                             .result = &r->result->layers[r->count]};
        l->scales = qc_scale_layout_of(l->qparams, &type->shape, type->axis);
        *l->result = (struct qc_rounded_weights){.quantizer = type->qparams, .name = l->qparams->name};
        r->of_recurrent[k][id] = ++r->count;
    }
}

static bool new_corrected_bias(qc_id *out, struct qc_rebuild *b, const struct qc_round_weights_layer *l, qc_id product,
                               const char *name, struct qc_status *st)
{
    const size_t count = l->moments->outputs;
    const struct qc_qparams *p = product ? &b->to->qparams_of[product] : NULL;
    const struct qc_shape shape = QC_SHAPE((int64_t)count);
    struct qc_tensor *t = qc_tensor_new(QC_F32, &shape, st);
    if (!t) return false;
    for (size_t o = 0; o < count; o++) {
        const double limit = p ? BIAS_LIMIT * (double)p->scale[p->count > 1 ? o : 0] : (double)FLT_MAX,
                     old = l->bias ? (double)((const float *)l->bias->data)[o] : 0;
        const double x = old + l->made[o].shift;
        ((float *)t->data)[o] = (float)(x > limit ? limit : x < -limit ? -limit : x);
    }
    *out = qc_graph_add_made_constant(b->to, name, t, st);
    if (product) *out = qc_graph_quantize(b->to, *out, product, 0, st);
    return *out != 0;
}

/* Returns true if the layer needs a bias: it has one, or a new one would not be zero in integers. product: NULL if the
   bias stays real. */
static bool wants_bias(const struct qc_round_weights_layer *l, const struct qc_qparams *product)
{
    bool wanted = l->bias != NULL || !product;
    for (size_t o = 0; !wanted && o < l->moments->outputs; o++)
        wanted = fabs(l->made[o].shift) >= 0.5 * (double)product->scale[product->count > 1 ? o : 0];
    return wanted;
}

/* Binds the changed scales of blocks or outputs. */
static bool bind_scales(struct qc_rebuild *b, const struct qc_round_weights_layer *l, qc_id quantizer,
                        struct qc_status *st)
{
    const struct qc_qparams *q = l->qparams;
    float *scale = l->new_scale, *own = NULL;
    for (size_t o = 0; !scale && !own && o < l->moments->outputs; o++)
        if (l->made[o].scale > 0 && !(own = malloc(q->count * sizeof *own)))
            return qc_fail_memory(st, q->count * sizeof *own);
    for (size_t o = 0; own && o < q->count; o++) own[o] = l->made[o].scale > 0 ? l->made[o].scale : q->scale[o];
    if (own) scale = own;
    const bool ok = !scale || qc_graph_bind_quantizer(b->to, quantizer, q->count, scale, q->zero_point, st);
    free(own);
    return ok;
}

/* Copies a layer with its new constants. */
static bool copy_layer(struct qc_rebuild *b, const struct qc_round_weights_layer *l, qc_id id, struct qc_status *st)
{
    const struct qc_graph *g = l->g;
    const struct qc_node *n = &g->nodes[id];
    const struct qc_type *result = &g->values[n->outputs].type;
    const qc_id weight = qc_second_moments_weight(g, n);
    qc_id inputs[3] = {qc_rebuild_value(b, n->inputs[0], st), 0, 0};
    if (!inputs[0] || !bind_scales(b, l, g->values[weight].type.qparams, st) ||
        !(inputs[1] = add_rounded(b, l, weight, st)))
        return false;
    const bool real = reads_real(g, n);
    if (real && !(inputs[1] = qc_graph_dequantize(b->to, inputs[1], st))) return false;
    unsigned count = n->input_count;
    enum qc_op op = n->op;
    const bool product = result->qparams && g->qparams_of[result->qparams].kind == QC_QPARAMS_PRODUCT &&
                         g->qparams_of[result->qparams].state == QC_QPARAMS_BOUND;
    if (l->result->bias_corrected && !l->behind && (product || real) &&
        wants_bias(l, product ? &b->to->qparams_of[result->qparams] : NULL)) {
        const struct qc_node *bias = l->bias ? qc_node_of(g, n->inputs[2]) : NULL;
        const char *name = bias ? g->values[bias->inputs[0]].name : l->bias ? g->values[n->inputs[2]].name : NULL;
        if (!new_corrected_bias(&inputs[2], b, l, result->qparams, name, st)) return false;
        count = 3;
        op = qc_round_weights_biased_op(g, n);
    } else if (count > 2 && n->inputs[2] && !(inputs[2] = qc_rebuild_value(b, n->inputs[2], st))) {
        return false;
    }
    const struct qc_node_def with = {
        .op = op, .input_count = count, .inputs = inputs, .qparams = result->qparams, .axis = result->axis};
    return (b->map[n->outputs] = qc_graph_add_like(b->to, g, n, &with, st)) != 0;
}

bool qc_weight_rounder_copy(bool *copied, struct qc_rebuild *b, const struct qc_weight_rounder *r, qc_id node,
                            struct qc_status *st)
{
    if (qc_is_recurrent(r->g->nodes[node].op)) {
        const struct qc_round_weights_layer *of[QC_MOMENTS_RECURRENT] = {NULL};
        *copied = false;
        for (int k = 0; k < QC_MOMENTS_RECURRENT; k++) {
            const size_t at = r->of_recurrent[k][node];
            if (!at || !r->layers[at - 1].rounded) continue;
            of[k] = &r->layers[at - 1];
            *copied = true;
        }
        return !*copied || copy_recurrent(b, r->g, node, of, st);
    }
    const size_t at = r->by_node[node] ? r->by_node[node] : r->behind[node];
    const struct qc_round_weights_layer *l = at ? &r->layers[at - 1] : NULL;
    const bool itself = r->by_node[node] != 0;
    *copied = l && l->rounded && (itself || l->result->bias_corrected);
    if (*copied && !itself) {
        /* If the product has no bound parameters in the new graph, or needs no bias, there is nothing to correct. A
           product of another part of the graph has the parameters of the whole graph. */
        const qc_id v = r->g->nodes[l->node].outputs, s = r->g->values[v].type.qparams;
        const struct qc_qparams *p = &(b->map[v] ? b->to : r->g)->qparams_of[s];
        *copied = s && p->kind == QC_QPARAMS_PRODUCT && p->state == QC_QPARAMS_BOUND && wants_bias(l, p);
    }
    if (!*copied) return true;
    if (itself) return copy_layer(b, l, node, st);
    /* the corrected bias of the layer, behind it */
    const struct qc_tensor *old = qc_round_weights_addend(l->uses, l->node);
    const struct qc_shape flat = QC_SHAPE((int64_t)l->moments->outputs);
    struct qc_tensor *t = qc_tensor_new(QC_F32, old ? &old->shape : &flat, st);
    for (size_t o = 0; t && o < l->moments->outputs; o++)
        ((float *)t->data)[o] = (float)((old ? (double)((const float *)old->data)[o] : 0) + l->made[o].shift);
    const bool ok = t && qc_round_weights_copy_behind(b, l->uses, l->node, l->behind, t, st);
    qc_tensor_unref(t);
    return ok;
}

/* Makes the graph with new constants; weights that are no layers are rounded to nearest. */
static bool rebuild(struct qc_graph **out, const struct qc_weight_rounder *r, struct qc_status *st)
{
    struct qc_rebuild b;
    struct qc_graph *rounded = NULL;
    bool ok = qc_rebuild_begin(&b, r->g, st), copied;
    for (qc_id id = 1; ok && id <= r->nodes; id++) {
        /* Constants, and nodes that only quantize one, or dequantize and reshape it, are copied where they are used. */
        const struct qc_node *n = &r->g->nodes[id], *q = n->op == QC_OP_Reshape ? qc_node_of(r->g, n->inputs[0]) : n;
        if (q && q->op == QC_OP_Dequantize) q = qc_node_of(r->g, q->inputs[0]);
        const bool constant = q && q->op == QC_OP_Quantize && qc_constant_of(r->g, q->inputs[0]);
        ok = qc_weight_rounder_copy(&copied, &b, r, id, st);
        if (ok && !copied && !constant) ok = qc_rebuild_node(&b, id, st) != 0;
    }
    ok = ok && qc_rebuild_finish(&rounded, &b, st) &&
         qc_store_weights(out, rounded, r->options.settings->memory_limit ? QC_FORMS_NOT_KEPT : QC_FORMS_KEPT,
                          qc_evaluate, st);
    qc_graph_free(rounded);
    qc_rebuild_free(&b);
    return ok;
}

bool qc_weight_rounder_new(struct qc_weight_rounder **out, const struct qc_graph *g, const struct qc_second_moments *m,
                           const struct qc_round_weights_options *options, struct qc_status *st)
{
    const size_t most = QC_MOMENTS_RECURRENT * g->node_count + 1, nodes = g->node_count + 1;
    struct qc_weight_rounder *r;
    if (!QC_NEW_OWNER(r, st)) return false;
    struct qc_arena *a = r->arena;
    *r = (struct qc_weight_rounder){.g = g,
                                    .nodes = options->nodes ? options->nodes : g->node_count,
                                    .arena = a,
                                    .second_moments = m,
                                    .options = *options};
    bool ok = QC_NEW_OWNER(r->result, st);
    if (!ok) r->result = NULL; /* freed */
    ok = ok && (r->result->layers = QC_NEW_ARRAY(r->result->arena, struct qc_rounded_weights, most, st)) &&
         (r->layers = QC_NEW_ARRAY(a, struct qc_round_weights_layer, most, st)) &&
         (r->by_node = QC_NEW_ARRAY(a, size_t, nodes, st)) && (r->behind = QC_NEW_ARRAY(a, size_t, nodes, st)) &&
         qc_uses_of_first(&r->uses, g, r->nodes, a, st);
    for (int k = 0; ok && k < QC_MOMENTS_RECURRENT; k++)
        ok = (r->of_recurrent[k] = QC_NEW_ARRAY(a, size_t, nodes, st)) != NULL;
    if (!ok) {
        qc_weight_rounder_free(r);
        return false;
    }
    for (qc_id id = 1; id <= r->nodes; id++)
        if (!add_rounded_layer(r, id)) add_recurrent(r, id);
    *out = r;
    return true;
}

void qc_weight_rounder_free(struct qc_weight_rounder *r)
{
    if (!r) return;
    for (size_t i = 0; r->layers && i < r->count; i++) {
        qc_tensor_unref(r->layers[i].rounded);
        free(r->layers[i].made);
        free(r->layers[i].new_scale);
    }
    qc_arena_free(r->arena);
    qc_weight_rounding_free(r->result);
    free(r);
}

bool qc_weight_rounder_expects(const struct qc_weight_rounder *r, qc_id node)
{
    const struct qc_round_weights_layer *l = r->by_node[node] ? &r->layers[r->by_node[node] - 1] : NULL;
    return l && l->moments && !l->rounded && !why_never(l, &r->g->nodes[node]);
}

bool qc_weight_rounder_waits(const struct qc_weight_rounder *r, qc_id node)
{
    return qc_weight_rounder_expects(r, node) && r->layers[r->by_node[node] - 1].qparams->state == QC_QPARAMS_BOUND;
}

bool qc_weight_rounder_can_cross(const struct qc_weight_rounder *r, qc_id node, double share)
{
    return qc_weight_rounder_waits(r, node) &&
           qc_round_weights_can_cross(&r->layers[r->by_node[node] - 1], r->options.cross_all, share);
}

bool qc_weight_rounder_solve(struct qc_weight_rounder *r, qc_id node, const struct qc_second_moments *quantized,
                             struct qc_status *st)
{
    const double t0 = qc_seconds();
    struct qc_round_weights_layer *l = &r->layers[r->by_node[node] - 1];
    l->quantized = quantized ? qc_second_moments_of(quantized, NULL, node) : NULL;
    const struct qc_qparams *q = l->qparams;
    bool ok = true;
    /* Scales of blocks may change: no other parameters depend on them. Of a format or of float levels, only some scales
       are representable. */
    if (l->quantized && l->quantized->paired && q->block && !q->format && !qc_qparams_levels(q).mantissa) {
        const size_t bytes = q->count * sizeof *l->new_scale;
        ok = (l->new_scale = malloc(bytes)) || qc_fail_memory(st, bytes);
        if (ok) memcpy(l->new_scale, q->scale, bytes);
    }
    ok = (ok && qc_round_weights_solve(l, &r->options, r->options.settings->workers, st)) ||
         qc_where(st, "weight '%s'", l->result->name);
    r->seconds += qc_seconds() - t0;
    return ok;
}

const struct qc_rounded_weights *qc_weight_rounder_result(const struct qc_weight_rounder *r, qc_id node)
{
    return r->layers[r->by_node[node] - 1].result;
}

struct solving {
    struct qc_weight_rounder *r;
    size_t count;                           /* layers to solve, most work first */
    struct qc_round_weights_layer **layers; /* [count] */
    size_t first;                           /* the first layer that is not solved yet */
    size_t shared, each;                    /* most bytes of one layer: shared by the team, and per worker */
    size_t largest, scratch;                /* most bytes of one layer with its new weights, and without */
    size_t weights, kept;                   /* bytes of all weights; of new weights held in memory */
};

static bool solve_one(struct solving *s, size_t item, unsigned workers, struct qc_status *st)
{
    struct qc_round_weights_layer *l = s->layers[item];
    return qc_round_weights_solve(l, &s->r->options, workers, st) || qc_where(st, "weight '%s'", l->result->name);
}

static bool solve_layer_item(void *user, size_t item, unsigned worker, struct qc_status *st)
{
    struct solving *s = user;
    return solve_one(s, s->first + item, 1, st);
}

static bool tell_rounded(void *user, size_t done, size_t count)
{
    const struct solving *s = user;
    const struct qc_round_weights_options *o = &s->r->options;
    return !o->settings->progress || o->settings->progress(o->settings->progress_user, s->first + done, s->count);
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static int by_work(const void *a, const void *b)
{
    const struct qc_round_weights_layer *const *x = a, *const *y = b;
    const double p = qc_round_weights_work((*x)->moments), q = qc_round_weights_work((*y)->moments);
    if (p < q || p > q) return p > q ? -1 : 1;
    return ((*x)->node > (*y)->node) - ((*x)->node < (*y)->node);
}

/* Layers solved in parallel may need 1.5 times the bytes of all weights, and at least this. */
enum { SPACE_LEAST = 16 << 20 };

/* Returns true if the whole team solves layer i: it needs more than its share of the remaining work, or memory suffices
   for one layer at a time only. */
static bool goes_alone(const struct solving *s, size_t i, unsigned team, unsigned side_by_side)
{
    double left = 0;
    if (side_by_side < 2) return true;
    for (size_t k = i; k < s->count; k++) left += qc_round_weights_work(s->layers[k]->moments);
    return team > 1 && qc_round_weights_work(s->layers[i]->moments) > left / side_by_side;
}

static bool solve_all(unsigned *workers, struct solving *s, struct qc_status *st)
{
    const struct qc_round_weights_options *o = &s->r->options;
    const size_t held = qc_stream_held_bytes(o->settings->memory_limit) + s->kept;
    unsigned side_by_side;
    if (!qc_stream_workers(workers, o->settings->workers, o->settings->memory_limit, held + s->shared, s->each, st) ||
        !qc_stream_workers(&side_by_side, o->settings->workers, o->settings->memory_limit, held, s->largest, st))
        return false;
    const size_t space = larger(s->weights + s->weights / 2, SPACE_LEAST);
    if (s->scratch && space / s->scratch < side_by_side) side_by_side = (unsigned)(space / s->scratch);
    for (; s->first < s->count && goes_alone(s, s->first, *workers, side_by_side); s->first++)
        if (!solve_one(s, s->first, *workers, st))
            return false;
        else if (!tell_rounded(s, 1, 0))
            return qc_fail(st, QC_INTERRUPTED, "interrupted");
    const struct qc_pool_options pool = {.workers = side_by_side, .progress = tell_rounded, .progress_user = s};
    return qc_pool_run(s->count - s->first, solve_layer_item, s, &pool, st);
}

bool qc_weight_rounder_finish(struct qc_weight_rounding **out, struct qc_graph **graph, struct qc_weight_rounder *r,
                              struct qc_status *st)
{
    const double t0 = qc_seconds();
    struct solving s = {.r = r, .layers = calloc(r->count + 1, sizeof *s.layers)};
    struct qc_weight_rounding *w = r->result;
    if (!s.layers) return qc_fail_memory(st, r->count * sizeof *s.layers);
    for (size_t i = 0; i < r->count; i++) {
        struct qc_round_weights_layer *l = &r->layers[i];
        if (!l->moments || l->rounded) continue;
        l->result->reason =
            l->qparams->state == QC_QPARAMS_BOUND ? why_never(l, &r->g->nodes[l->node]) : "it is not quantized";
        if (l->result->reason) continue;
        s.layers[s.count++] = l;
        s.weights += l->weight->bytes;
        s.kept += qc_graph_held_bytes(r->g, l->weight->bytes);
        const size_t bytes = qc_round_weights_bytes(l->moments);
        s.largest = larger(s.largest, bytes);
        s.scratch = larger(s.scratch, bytes > l->weight->bytes ? bytes - l->weight->bytes : 0);
        s.shared = larger(s.shared, qc_round_weights_shared_bytes(l->moments));
        s.each = larger(s.each, qc_round_weights_worker_bytes(l->moments));
    }
    if (s.count) qsort(s.layers, s.count, sizeof *s.layers, by_work);
    bool ok = solve_all(&w->workers, &s, st);
    for (size_t i = 0; ok && i < r->count; i++) /* copied, since names outlive the graph */
        ok = (w->layers[i].name = qc_arena_strdup(w->arena, w->layers[i].name, st)) != NULL;
    if (ok) {
        w->count = r->count;
        ok = rebuild(graph, r, st);
        w->seconds = qc_seconds() - t0 + r->seconds;
    }
    free(s.layers);
    if (!ok) return false;
    *out = w;
    r->result = NULL;
    return true;
}

bool qc_round_weights(struct qc_weight_rounding **out, struct qc_graph **graph, const struct qc_graph *g,
                      const struct qc_second_moments *m, const struct qc_round_weights_options *options,
                      struct qc_status *st)
{
    struct qc_weight_rounder *r = NULL;
    const bool ok = qc_weight_rounder_new(&r, g, m, options, st) && qc_weight_rounder_finish(out, graph, r, st);
    qc_weight_rounder_free(r);
    return ok;
}

void qc_weight_rounding_free(struct qc_weight_rounding *r)
{
    if (!r) return;
    qc_arena_free(r->arena);
    free(r);
}
