// SPDX-License-Identifier: Apache-2.0
#include "rewrite/canonical/canonical.h"

#include <stdio.h>
#include <string.h>

#include "rewrite/canonical/canonical_parts.h"

/* --- Values --- */

qc_id qc_canon_add(struct qc_canon *c, enum qc_op op, const struct qc_node *from, unsigned count, const qc_id *inputs,
                   qc_id qparams, int axis, const char *name, struct qc_status *st)
{
    static const char *const dropped[] = {"opset", "channels_last", "kernel_shape"};
    struct qc_attr attrs[32];
    unsigned kept = 0;
    for (unsigned i = 0; from && i < from->attr_count && kept < 32; i++) {
        bool drop = false;
        for (size_t k = 0; from->op != op && k < sizeof dropped / sizeof *dropped; k++)
            drop = drop || (strcmp(from->attrs[i].name, dropped[k]) == 0 && (k < 2 || op == QC_OP_Conv));
        if (!drop) attrs[kept++] = from->attrs[i];
    }
    const struct qc_node_def def = {.op = op,
                                    .name = from ? from->name : NULL,
                                    .input_count = count,
                                    .inputs = inputs,
                                    .attr_count = kept,
                                    .attrs = attrs,
                                    .output_names = name ? &name : NULL,
                                    .qparams = qparams,
                                    .axis = axis};
    return qc_graph_add(c->r.to, &def, st);
}

static qc_id ours(struct qc_canon *c, enum qc_op op, qc_id v, qc_id qparams, int axis, struct qc_status *st)
{
    return qc_canon_add(c, op, NULL, 1, &v, qparams, axis, NULL, st);
}

/* Returns the constant f((q - z) * s), for a bias that does not join its accumulator. */
static qc_id real_constant(struct qc_canon *c, const struct qc_node *n, struct qc_status *st)
{
    const struct qc_tensor *q = qc_constant_of(c->g, n->inputs[0]), *s = qc_constant_of(c->g, n->inputs[1]);
    const struct qc_tensor *z = n->input_count > 2 ? qc_constant_of(c->g, n->inputs[2]) : NULL;
    struct qc_tensor *t = qc_tensor_new(QC_F32, &q->shape, st);
    if (!t) return 0;
    for (size_t i = 0; i < t->count; i++) {
        const int64_t v = qc_tensor_int(q, i) - (z ? qc_tensor_int(z, z->count > 1 ? i : 0) : 0);
        ((float *)t->data)[i] = (float)v * (float)qc_tensor_float(s, s->count > 1 ? i : 0);
    }
    return qc_graph_add_made_constant(c->r.to, qc_canon_base(c, n->inputs[0], st), t, st);
}

/* Returns true for an int32 constant with constant float32 parameters: one, or one per element. */
static bool is_bias(const struct qc_canon *c, const struct qc_node *n)
{
    const struct qc_tensor *q = n->op == QC_OP_DequantizeLinear ? qc_constant_of(c->g, n->inputs[0]) : NULL;
    const struct qc_tensor *s = q ? qc_constant_of(c->g, n->inputs[1]) : NULL;
    if (!s || q->dtype != QC_I32 || s->dtype != QC_F32 ||
        (n->input_count > 2 && n->inputs[2] && !qc_constant_of(c->g, n->inputs[2])))
        return false;
    return s->count == 1 || (s->count == q->count && !qc_attr_int(n, "block_size", 0));
}

qc_id qc_canon_real(struct qc_canon *c, qc_id old, struct qc_status *st)
{
    const struct qc_node *n = qc_node_of(c->g, old);
    if (!c->r.map[old] && n && is_bias(c, n)) c->r.map[old] = real_constant(c, n, st);
    return c->r.map[old] || st->code != QC_OK ? c->r.map[old] : qc_rebuild_value(&c->r, old, st);
}

qc_id qc_canon_operand(struct qc_canon *c, const struct qc_qlinear_port *p, int axis, struct qc_status *st)
{
    const struct qc_tensor *t = qc_constant_of(c->g, p->value);
    const char *name = qc_canon_base(c, p->value, st);
    const qc_id known = c->affine[p->value];
    qc_id qparams;
    if (known && qc_canon_qparams_of(c, p->value)) return known;
    if (!name || !qc_canon_qparams(&qparams, c, p->scale, p->zero_point, c->g->values[p->value].type.dtype, name, st))
        return 0;
    if (t)
        return qc_graph_add_affine_constant(c->r.to, name, t, qparams,
                                            c->r.to->qparams_of[qparams].count > 1 ? axis : 0, st);
    if (known && c->r.to->values[known].type.qparams == qparams) return known;
    qc_id in[3] = {qc_canon_real(c, p->value, st), qc_canon_real(c, p->scale, st), QC_ABSENT};
    if (!in[0] || !in[1] || (p->zero_point && !(in[2] = qc_canon_real(c, p->zero_point, st)))) return 0;
    qc_id real = qc_canon_add(c, QC_OP_DequantizeLinear, NULL, in[2] ? 3 : 2, in, 0, 0, NULL, st);
    return real ? ours(c, QC_OP_Quantize, real, qparams, 0, st) : 0;
}

bool qc_canon_define(struct qc_canon *c, const struct qc_qlinear_port *p, qc_id v, struct qc_status *st)
{
    c->affine[p->value] = v;
    if (qc_canon_qparams_of(c, p->value)) return true;
    const char *name = c->g->values[p->value].name;
    qc_id in[3] = {ours(c, QC_OP_Dequantize, v, 0, 0, st), qc_canon_real(c, p->scale, st), QC_ABSENT};
    if (!in[0] || !in[1] || (p->zero_point && !(in[2] = qc_canon_real(c, p->zero_point, st)))) return false;
    return (c->r.map[p->value] = qc_canon_add(c, QC_OP_QuantizeLinear, NULL, in[2] ? 3 : 2, in, 0, 0, name, st));
}

/* --- Nodes --- */

static bool copy(struct qc_canon *c, qc_id id, struct qc_status *st)
{
    const struct qc_node *n = &c->g->nodes[id];
    for (unsigned i = 0; i < n->input_count; i++)
        if (n->inputs[i] && !qc_canon_real(c, n->inputs[i], st)) return false;
    return qc_rebuild_node(&c->r, id, st) != 0;
}

/* Defines the integers of the file from an affine value with the same parameters, which is exact. */
static bool define_integers(struct qc_canon *c, const struct qc_node *n, qc_id q, struct qc_status *st)
{
    qc_id in[3] = {ours(c, QC_OP_Dequantize, q, 0, 0, st), qc_canon_real(c, n->inputs[1], st), QC_ABSENT};
    const bool zero = n->input_count > 2 && n->inputs[2];
    if (!in[0] || !in[1] || (zero && !(in[2] = qc_canon_real(c, n->inputs[2], st)))) return false;
    const char *name = c->g->values[n->outputs].name;
    return (c->r.map[n->outputs] = qc_canon_add(c, QC_OP_QuantizeLinear, n, zero ? 3 : 2, in, 0, 0, name, st));
}

static bool build_quantize(struct qc_canon *c, qc_id id, struct qc_status *st)
{
    const struct qc_node *n = &c->g->nodes[id];
    const qc_id stored = qc_canon_qparams_of(c, n->outputs), qparams = stored ? stored : c->own[n->outputs];
    const qc_id x = qparams ? qc_canon_real(c, n->inputs[0], st) : 0;
    if (!qparams) return copy(c, id, st);
    if (!x) return false;
    const struct qc_node *from = qc_node_of(c->r.to, x);
    if (!stored && !from) return copy(c, id, st); /* A graph input stays as it is. */
    qc_id q;
    if (from && from->op == QC_OP_Dequantize && c->r.to->values[from->inputs[0]].type.qparams == qparams)
        q = from->inputs[0];
    else
        q = ours(c, QC_OP_Quantize, x, qparams,
                 c->r.to->qparams_of[qparams].count > 1 ? qc_canon_axis_of(c, n->outputs) : 0, st);
    return (c->affine[n->outputs] = q) && (stored || define_integers(c, n, q, st));
}

/* Reads integers of the file with these parameters. Quantizing them again is exact. */
static bool read_integers(struct qc_canon *c, qc_id id, struct qc_status *st)
{
    const struct qc_node *n = &c->g->nodes[id];
    const qc_id v = n->inputs[0], qparams = c->own[n->outputs];
    qc_id q = c->affine[v];
    if (!q || c->r.to->values[q].type.qparams != qparams) {
        if (!copy(c, id, st) || !(q = ours(c, QC_OP_Quantize, c->r.map[n->outputs], qparams, 0, st))) return false;
        if (!c->affine[v]) c->affine[v] = q;
    }
    return (c->r.map[n->outputs] = ours(c, QC_OP_Dequantize, q, 0, 0, st));
}

static bool build_dequantize(struct qc_canon *c, qc_id id, struct qc_status *st)
{
    const struct qc_node *n = &c->g->nodes[id];
    const qc_id v = n->inputs[0], zero = n->input_count > 2 ? n->inputs[2] : QC_ABSENT;
    const struct qc_tensor *t = qc_constant_of(c->g, v);
    qc_id q = 0, qparams = 0;
    if (is_bias(c, n)) return true; /* It is built where it is used. */
    if (!t && qc_canon_qparams_of(c, v)) q = c->affine[v];
    if (!q && c->own[n->outputs] && c->taken[n->outputs]) return read_integers(c, id, st);
    if (t && qc_canon_is_stored(t->dtype) && c->g->values[n->outputs].type.dtype == QC_F32 &&
        !qc_attr_int(n, "block_size", 0)) {
        const char *name = qc_canon_base(c, v, st);
        if (!name || !qc_canon_qparams(&qparams, c, n->inputs[1], zero, t->dtype, name, st)) return false;
        int64_t axis = qc_attr_int(n, "axis", 1);
        if (axis < 0) axis += t->shape.rank;
        if (qparams && c->r.to->qparams_of[qparams].count == 1) axis = 0;
        if (qparams && !(q = qc_graph_add_affine_constant(c->r.to, name, t, qparams, (int)axis, st))) return false;
    }
    if (!q) return copy(c, id, st);
    return (c->r.map[n->outputs] = ours(c, QC_OP_Dequantize, q, 0, 0, st));
}

static bool build_node(struct qc_canon *c, qc_id id, struct qc_status *st)
{
    const struct qc_node *n = &c->g->nodes[id];
    struct qc_qlinear q;
    bool done = false;
    if (n->op == QC_OP_QuantizeLinear) return build_quantize(c, id, st);
    if (n->op == QC_OP_DequantizeLinear) return build_dequantize(c, id, st);
    if (qc_qlinear_of(&q, n)) {
        if (qc_canon_turns(c, n, &q, st)) return qc_canon_qlinear_op(c, n, &q, st);
        return st->code == QC_OK && copy(c, id, st);
    }
    if (qc_canon_is_stored(c->g->values[n->outputs].type.dtype) && qc_canon_qparams_of(c, n->outputs))
        return qc_canon_moving_op(c, n, st);
    if (!qc_canon_float_op(&done, c, n, st)) return false;
    return done || copy(c, id, st);
}

static void find_merges(struct qc_canon *c)
{
    for (size_t i = 0; i < c->rules->count; i++) {
        const struct qc_rule *r = &c->rules->rules[i];
        if (r->kind == QC_RULE_PATTERN && r->match->kind == QC_EXPR_OP &&
            qc_op_info(r->match->op)->affine == QC_AFFINE_MERGE)
            c->merges[r->match->op] = true;
    }
}

bool qc_is_quantized(const struct qc_graph *g)
{
    struct qc_qlinear q;
    for (size_t id = 1; id <= g->node_count; id++)
        if (g->nodes[id].op == QC_OP_QuantizeLinear || g->nodes[id].op == QC_OP_DequantizeLinear ||
            qc_qlinear_of(&q, &g->nodes[id]))
            return true;
    return false;
}

static bool has_integer_products(const struct qc_graph *g)
{
    for (size_t id = 1; id <= g->node_count; id++) {
        const enum qc_op op = g->nodes[id].op;
        if (op == QC_OP_QLinearConv || op == QC_OP_QLinearMatMul || op == QC_OP_QGemm) return true;
    }
    return false;
}

bool qc_canonical(struct qc_graph **out, struct qc_lines *notes, const struct qc_graph *g, const struct qc_rules *rules,
                  struct qc_status *st)
{
    struct qc_canon c = {.g = g, .rules = rules, .notes = notes, .arena = qc_arena_new()};
    bool ok = false;
    if (!c.arena) return qc_fail_memory(st, 1);
    if (!qc_rebuild_begin(&c.r, g, st)) goto out;
    c.r.to->simulated = false;
    c.r.to->integer_operators = has_integer_products(g);
    find_merges(&c);
    if (!qc_canon_classify(&c, st)) goto out;
    for (qc_id id = 1; id <= g->node_count; id++)
        if (!build_node(&c, id, st)) goto out;
    for (size_t i = 0; i < g->output_count; i++)
        if (!qc_canon_real(&c, g->outputs[i].value, st)) goto out;
    ok = qc_rebuild_finish(out, &c.r, st);
out:
    qc_rebuild_free(&c.r);
    qc_index_free(&c.by_numbers);
    qc_arena_free(c.arena);
    return ok;
}

bool qc_canonical_finish(struct qc_graph **out, const struct qc_graph *canonical, const struct qc_rules *rules,
                         const struct qc_rules *fold_rules, qc_eval_fn *eval, struct qc_status *st)
{
    struct qc_graph *expanded = NULL, *folded = NULL;
    const bool ok = qc_propagate_exactly(&expanded, canonical, rules, st) &&
                    qc_fold(&folded, expanded, fold_rules, st) && qc_to_integer(out, folded, eval, st);
    qc_graph_free(folded);
    qc_graph_free(expanded);
    return ok;
}
