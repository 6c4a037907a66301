// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "rewrite/language/expression.h"
#include "rewrite/language/match.h"

enum { RESULTS = 8, MOST_ATTRIBUTES = 36 };

static qc_id build(const struct qc_build *b, const struct qc_expr *e, const struct qc_expr *taker, qc_id qparams,
                   bool top, struct qc_status *st);

/* Returns a constant in another shape, or a Reshape if the value is not folded yet. */
static qc_id reshaped(const struct qc_build *b, qc_id v, const struct qc_shape *shape, struct qc_status *st)
{
    struct qc_graph *to = b->rebuild->to;
    const struct qc_tensor *t = qc_constant_of(to, v);
    if (t) {
        if (qc_shape_equal(&t->shape, shape)) return v;
        return qc_graph_add_made_constant(to, NULL, qc_tensor_of(t->dtype, shape, t->data, st), st);
    }
    const struct qc_shape length = QC_SHAPE(shape->rank);
    qc_id inputs[] = {v, qc_graph_add_made_constant(to, NULL, qc_tensor_of(QC_I64, &length, shape->dim, st), st)};
    struct qc_node_def def = {.op = QC_OP_Reshape, .input_count = 2, .inputs = inputs};
    return inputs[1] ? qc_graph_add(to, &def, st) : 0;
}

/* Returns the value as one of the new graph: a number is a float32 scalar. 0: it is none. */
static qc_id id_of(struct qc_frame *f, const struct qc_fvalue *v)
{
    return v->kind == QC_FVALUE_TENSOR
               ? v->id
               : qc_expression_constant(f, v->kind == QC_FVALUE_LIST ? qc_fvalue_dtype(v) : QC_F32, v);
}

static struct qc_fvalue run_vector(const struct qc_asked *c)
{
    const struct qc_build *b = c->frame->build;
    const struct qc_graph *to = b->rebuild->to;
    const qc_id v = id_of(c->frame, &c->args[0]), like = c->count > 1 ? id_of(c->frame, &c->args[1]) : 0;
    size_t n = 0;
    if (!qc_shape_count(&n, &to->values[v].type.shape))
        qc_fail(c->frame->st, QC_BAD_INPUT, "rule '%s': the size of a constant is not known", b->match->rule->name);
    if (c->frame->st->code != QC_OK) return qc_fvalue_tensor(0);
    struct qc_shape shape = {.rank = like ? to->values[like].type.shape.rank : 1, .dim = {(int64_t)n}};
    for (int i = 1; i < shape.rank; i++) shape.dim[i] = 1;
    return qc_fvalue_tensor(reshaped(b, v, &shape, c->frame->st));
}

/* Reshapes [a,b,c,...] to [a*b,1,c,...], so that parameters along axis 0 cover both dimensions. */
static struct qc_fvalue run_rows(const struct qc_asked *c)
{
    const struct qc_build *b = c->frame->build;
    const struct qc_graph *from = b->rebuild->from;
    const struct qc_tensor *t = qc_constant_of(from, c->args[0].id);
    if (!t || t->shape.rank < 2) {
        qc_fail(c->frame->st, QC_BAD_INPUT, "rule '%s': rows() needs a constant of at least two dimensions",
                b->match->rule->name);
        return qc_fvalue_tensor(0);
    }
    struct qc_shape shape = t->shape;
    shape.dim[0] *= shape.dim[1];
    shape.dim[1] = 1;
    return qc_fvalue_tensor(qc_graph_add_made_constant(b->rebuild->to, from->values[c->args[0].id].name,
                                                       qc_tensor_of(t->dtype, &shape, t->data, c->frame->st),
                                                       c->frame->st));
}

static struct qc_fvalue run_first(const struct qc_asked *c)
{
    const struct qc_tensor *t = qc_constant_of(c->frame->graph, c->args[0].id);
    return t && t->count ? qc_fvalue_real(qc_tensor_float(t, 0)) : qc_fvalue_tensor(0);
}

static double elements(const struct qc_asked *c)
{
    const struct qc_tensor *t = qc_constant_of(c->frame->graph, c->args[0].id);
    return t && t->count ? (double)t->count : (double)NAN;
}

/* Returns the pads of the matched convolution together with those of a Pad before it. */
static struct qc_fvalue run_pads(const struct qc_asked *c)
{
    struct qc_frame *f = c->frame;
    const struct qc_tensor *t = qc_constant_of(f->graph, c->args[0].id);
    const struct qc_node *n = qc_match_node(f->match, f->graph, QC_OP_Conv);
    const int64_t *own;
    struct qc_number *items;
    if (!t || !n) return qc_expression_fail(f, QC_BAD_INPUT, "pads() needs the pads of a Pad before a Conv");
    const size_t axes = t->count / 2 - 2;
    const bool pads = qc_attr_ints(n, "pads", &own) == 2 * axes;
    const struct qc_fvalue list = qc_expression_list(&items, f, 2 * axes);
    for (size_t i = 0; items && i < 2 * axes; i++)
        items[i] = qc_number_whole((pads ? own[i] : 0) + ((const int64_t *)t->data)[i + (i < axes ? 2 : 4)]);
    return list;
}

const struct qc_builtin qc_template_builtins[] = {
    {"rows", "rows(c), c a constant of the match", 1, 1, "v", .run = run_rows},
    {"vector", "vector(e)", 1, 1, NULL, .run = run_vector},
    {"column", "column(e, w)", 2, 2, NULL, .run = run_vector},
    {"value", "value(c), c a constant of the match", 1, 1, "v", .run = run_first},
    {"pads", "pads(p), p the pads of a matched Pad", 1, 1, "v", .run = run_pads},
    {"elements", "elements(c), c a constant of the match", 1, 1, "v", .value = elements},
    {.name = NULL},
};

qc_id qc_template_quantizes(const struct qc_match *m, const struct qc_expr *e)
{
    if (e->kind != QC_EXPR_OP || e->op != QC_OP_Quantize) return 0;
    const struct qc_expr *arg = e->args[0];
    if (arg->kind == QC_EXPR_ASKED && arg->builtin == &qc_template_builtins[0]) arg = arg->args[0];
    return arg->kind == QC_EXPR_CAPTURE ? m->values[arg->slot] : 0;
}

static qc_id resolve(const struct qc_build *b, const struct qc_qparams_expr *e, qc_id value, qc_id capture,
                     struct qc_status *st)
{
    const struct qc_match *m = b->match;
    qc_id first = m->qparams_of[e->first], second = e->product ? m->qparams_of[e->second] : 0;
    if (b->qparams) return b->qparams(b->user, m, e, value, capture, st);
    if (!first || (e->product && !second))
        return qc_fail(st, QC_BAD_INPUT, "rule '%s': qparams '%s' are not in the match", m->rule->name,
                       m->rule->qparams_of[e->first]);
    return e->product ? qc_graph_add_product(b->rebuild->to, first, second, st) : first;
}

int qc_template_axis(const struct qc_match *m, const struct qc_graph *from, const struct qc_qparams_expr *e,
                     const struct qc_expr *taker)
{
    if (e->axis_kind == QC_AXIS_NUMBER) return e->axis;
    if (e->axis_kind == QC_AXIS_TENSOR || !taker) return 0;
    if (taker->op == QC_OP_Gemm) {
        const struct qc_node *n = qc_match_node(m, from, QC_OP_Gemm);
        return n && qc_attr_int(n, "transB", 0) ? 0 : 1;
    }
    if (taker->op == QC_OP_MatMul) {
        const struct qc_node *n = qc_match_node(m, from, QC_OP_MatMul);
        return n ? from->values[n->inputs[1]].type.shape.rank - 1 : 1;
    }
    return taker->op == QC_OP_ConvTranspose ? 1 : 0;
}

/* Returns the axis of the scales of a quantized activation; 0 if its quantizer is a weight's or has one scale. */
static int activation_axis(const struct qc_build *b, qc_id qparams, qc_id capture)
{
    const struct qc_graph *from = b->rebuild->from, *to = b->rebuild->to;
    if (!qparams || to->qparams_of[qparams].kind != QC_QPARAMS_QUANTIZER || to->qparams_of[qparams].is_weight ||
        !to->qparams_of[qparams].per_channel)
        return 0;
    if (b->axis) return b->axis(b->user, b->match, capture);
    return from->values[b->match->root].type.axis;
}

static qc_id build_ours(const struct qc_build *b, const struct qc_expr *e, const struct qc_expr *taker, bool top,
                        struct qc_status *st)
{
    struct qc_graph *to = b->rebuild->to;
    const struct qc_expr *arg = e->args[0];
    const qc_id capture = arg->kind == QC_EXPR_CAPTURE ? b->match->values[arg->slot] : 0;
    qc_id qparams = 0, v;
    if (b->weights_only && capture && e->op == QC_OP_Quantize && !qc_constant_of(b->rebuild->from, capture))
        return build(b, arg, NULL, 0, top, st);
    const bool makes_product = arg->kind == QC_EXPR_OP && qc_op_info(arg->op)->affine == QC_AFFINE_PRODUCT;
    if (b->real_product && (e->op == QC_OP_Quantize ? e->qparams.product : makes_product))
        return build(b, arg, NULL, 0, top, st);
    if (e->op == QC_OP_Dequantize) {
        if (arg->kind == QC_EXPR_OP && qc_op_info(arg->op)->affine == QC_AFFINE_MERGE &&
            !(qparams = resolve(b, &e->qparams, 0, 0, st)))
            return 0;
        v = build(b, arg, NULL, qparams, top, st);
    } else {
        v = build(b, arg, NULL, 0, top, st);
        if (v && !(qparams = resolve(b, &e->qparams, v, capture, st))) return 0;
    }
    if (!v) return 0;
    if (b->weights_only && e->op == QC_OP_Dequantize && to->values[v].type.qparams == QC_REAL) return v;
    if (e->op == QC_OP_Dequantize && makes_product) {
        if (!(qparams = resolve(b, &e->qparams, 0, 0, st))) return 0;
        if (qparams != to->values[v].type.qparams)
            return qc_fail(st, QC_BAD_INPUT,
                           "the accumulator of %s is in the product of its inputs' qparams, not in '%s'",
                           qc_op_info(arg->op)->name, to->qparams_of[qparams].name);
    }
    const struct qc_node *n = qc_node_of(to, v);
    const bool reads_real =
        b->real_product && e->op == QC_OP_Quantize && taker && qc_op_info(taker->op)->affine == QC_AFFINE_PRODUCT;
    if (e->op == QC_OP_Quantize && n && n->op == QC_OP_Dequantize && to->values[n->inputs[0]].type.qparams == qparams)
        return reads_real ? v : n->inputs[0];
    struct qc_node_def def = {.op = e->op, .input_count = 1, .inputs = &v};
    if (e->op != QC_OP_Dequantize) {
        def.qparams = qparams;
        def.axis = to->qparams_of[qparams].is_weight || e->qparams.axis_kind != QC_AXIS_TENSOR
                       ? qc_template_axis(b->match, b->rebuild->from, &e->qparams, taker)
                       : activation_axis(b, qparams, capture);
        if (b->weight_axis && to->qparams_of[qparams].block)
            def.axis = b->weight_axis(b->user, qc_template_quantizes(b->match, e));
    }
    const qc_id made = qc_graph_add(to, &def, st);
    return reads_real ? qc_graph_dequantize(to, made, st) : made;
}

static struct qc_fvalue captured(struct qc_frame *f, unsigned slot)
{
    const qc_id v = f->match->values[slot];
    return qc_fvalue_tensor(v ? qc_rebuild_value(f->build->rebuild, v, f->st) : 0);
}

static struct qc_fvalue built(struct qc_frame *f, const struct qc_expr *e)
{
    return qc_fvalue_tensor(build(f->build, e, NULL, 0, false, f->st));
}

static struct qc_frame frame_of(const struct qc_build *b, struct qc_status *st)
{
    static const struct qc_scope scope = {.name = captured, .op = built};
    return (struct qc_frame){.scope = &scope,
                             .st = st,
                             .to = b->rebuild->to,
                             .arena = b->rebuild->to->arena,
                             .graph = b->rebuild->from,
                             .match = b->match,
                             .build = b};
}

/* Attributes of the template replace those of the matched node. */
static bool add_attributes(struct qc_attr attrs[MOST_ATTRIBUTES], struct qc_node_def *def, const struct qc_build *b,
                           const struct qc_expr *e, struct qc_status *st)
{
    struct qc_frame f = frame_of(b, st);
    unsigned count = 0;
    if (!e->attr_count) return true;
    if (def->attr_count > MOST_ATTRIBUTES - QC_RULE_ARGS)
        return qc_fail(st, QC_BAD_INPUT, "has %u attributes, at most %d are handled in a template", def->attr_count,
                       (int)(MOST_ATTRIBUTES - QC_RULE_ARGS));
    for (unsigned i = 0; i < def->attr_count; i++) {
        bool replaced = false;
        for (unsigned k = 0; k < e->attr_count; k++)
            replaced = replaced || strcmp(e->attr_names[k], def->attrs[i].name) == 0;
        if (!replaced) attrs[count++] = def->attrs[i];
    }
    for (unsigned k = 0; k < e->attr_count; k++) {
        const struct qc_fvalue v = qc_expr_evaluate(&f, e->attrs[k]);
        attrs[count++] = qc_expression_attribute(&f, e->attr_names[k], &v);
    }
    def->attrs = attrs;
    def->attr_count = count;
    return st->code == QC_OK;
}

/* Returns true if the root's own node is among the ops inside e; it then keeps its name. */
static bool keeps_root(const struct qc_build *b, const struct qc_expr *e)
{
    const struct qc_graph *from = b->rebuild->from;
    for (unsigned i = 0; i < e->arg_count; i++) {
        const struct qc_expr *arg = e->args[i];
        if (arg->kind == QC_EXPR_OP &&
            (qc_match_node_of(b->match, from, arg) == qc_node_of(from, b->match->root) || keeps_root(b, arg)))
            return true;
    }
    return false;
}

/* Returns true if an op of this template already has the name. */
static bool is_named_node(const struct qc_graph *to, const char *name)
{
    for (qc_id id = (qc_id)to->node_count, n = 0; name && id >= 1 && n < QC_RULE_OPS; id--, n++)
        if (to->nodes[id].name && strcmp(to->nodes[id].name, name) == 0) return true;
    return false;
}

/* Chooses the name of a node of the template: that of the op matched in its place; the root's, if no op inside has it;
   else one derived from the root's. */
static bool name_node(const char **out, const struct qc_build *b, const struct qc_expr *e, const struct qc_node *from,
                      bool top, struct qc_status *st)
{
    const struct qc_graph *g = b->rebuild->from;
    struct qc_graph *to = b->rebuild->to;
    const char *root = g->nodes[g->values[b->match->root].node].name;
    *out = from ? from->name : top && !keeps_root(b, e) ? root : NULL;
    if (*out && !is_named_node(to, *out)) return true;
    *out = NULL;
    if (!root || !*root || (from && !from->name) || (top && b->match->rule->kind != QC_RULE_PATTERN)) return true;
    *out = qc_arena_printf(to->arena, st, "%s/%s", root, qc_op_info(e->op)->name);
    for (unsigned k = 1; *out && is_named_node(to, *out); k++)
        *out = qc_arena_printf(to->arena, st, "%s/%s_%u", root, qc_op_info(e->op)->name, k);
    return *out != NULL;
}

/* top: the outermost op of the template except dq, q and requantize; it takes the root's name. In a pattern the other
   ops keep their own names. */
static qc_id build_op(const struct qc_build *b, const struct qc_expr *e, qc_id qparams, bool top, struct qc_status *st)
{
    struct qc_rebuild *r = b->rebuild;
    const struct qc_node *from = qc_match_node_of(b->match, r->from, e);
    enum qc_op op = from ? from->op : e->op;
    qc_id inputs[QC_RULE_ARGS];
    unsigned count = 0;
    if (e->optional && !from) return build(b, e->args[0], e, qparams, top, st);
    if (e->op_count > 1 && !from) return qc_fail(st, QC_BAD_INPUT, "none of the ops was matched");
    for (unsigned i = 0; i < e->arg_count; i++) {
        const struct qc_expr *arg = e->args[i];
        const struct qc_expr *inner = arg->kind == QC_EXPR_OP && arg->op == QC_OP_Quantize ? arg->args[0] : arg;
        bool absent = inner->kind == QC_EXPR_CAPTURE && !b->match->values[inner->slot];
        inputs[count] = absent ? QC_ABSENT : build(b, arg, e, 0, false, st);
        if (!absent && !inputs[count]) return 0;
        count++;
    }
    while (count && inputs[count - 1] == QC_ABSENT) count--;
    const char *name = r->from->values[b->match->root].name;
    struct qc_node_def def = {
        .op = op, .input_count = count, .inputs = inputs, .qparams = qparams, .axis = activation_axis(b, qparams, 0)};
    struct qc_attr attrs[MOST_ATTRIBUTES];
    if (from) {
        def.attr_count = from->attr_count;
        def.attrs = from->attrs;
    }
    if (!name_node(&def.name, b, e, from, top, st)) return 0;
    if (!add_attributes(attrs, &def, b, e, st)) return 0;
    const char *several[RESULTS];
    if (from && from->output_count > 1) { /* A pattern's outermost op has as many results as the matched op. */
        if (from->output_count > RESULTS) return qc_fail(st, QC_UNSUPPORTED, "has too many results");
        def.output_count = from->output_count;
        for (unsigned k = 0; k < from->output_count; k++) several[k] = r->from->values[from->outputs + k].name;
    }
    const bool inner = from && b->match->rule->kind == QC_RULE_PATTERN && from->outputs != b->match->root;
    const char *own = inner ? r->from->values[from->outputs].name : NULL;
    if (def.output_count > 1)
        def.output_names = several;
    else if (top)
        def.output_names = &name;
    else if (own)
        def.output_names = &own;
    if (qc_op_info(op)->affine == QC_AFFINE_PRODUCT && count > 1) {
        qc_id sa = r->to->values[inputs[0]].type.qparams, sb = r->to->values[inputs[1]].type.qparams;
        if (sa && sb && !(def.qparams = qc_graph_add_product(r->to, sa, sb, st))) return 0;
    }
    return qc_graph_add(r->to, &def, st);
}

static qc_id build(const struct qc_build *b, const struct qc_expr *e, const struct qc_expr *taker, qc_id qparams,
                   bool top, struct qc_status *st)
{
    struct qc_frame f = frame_of(b, st);
    if (e->kind == QC_EXPR_OP)
        return qc_op_is_conversion(e->op) ? build_ours(b, e, taker, top, st) : build_op(b, e, qparams, top, st);
    const struct qc_fvalue v = qc_expr_evaluate(&f, e);
    if (v.kind == QC_FVALUE_ABSENT && e->kind == QC_EXPR_CAPTURE)
        return qc_fail(st, QC_BAD_INPUT, "rule '%s': '%s' is absent", b->match->rule->name,
                       b->match->rule->slots[e->slot]);
    return id_of(&f, &v);
}

qc_id qc_build_template(const struct qc_build *b, struct qc_status *st)
{
    const struct qc_graph *from = b->rebuild->from;
    qc_id v = build(b, b->match->rule->give, NULL, 0, true, st);
    if (!v) {
        qc_where(st, "rule '%s' at '%s'", b->match->rule->name, QC_VALUE_LABEL(from, b->match->root));
        return 0;
    }
    const char *name = from->values[b->match->root].name;
    if (name && qc_graph_find_value(b->rebuild->to, name)) return v; /* The op under the dq has the name. */
    return qc_graph_name_value(b->rebuild->to, v, name, st) ? v : 0;
}
