// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/scope.h"
#include "graph/core/recurrent.h"
#include "rewrite/canonical/canonical.h"
#include "rewrite/canonical/canonical_parts.h"
#include "rewrite/passes/simulate.h"

/* Returns the stored value, with quantizer parameters, that a new real value is read from. */
static qc_id stored_of(const struct qc_canon *c, qc_id real)
{
    const struct qc_graph *to = c->r.to;
    const struct qc_node *n = real ? qc_node_of(to, real) : NULL;
    if (!n || n->op != QC_OP_Dequantize) return 0;
    return to->qparams_of[to->values[n->inputs[0]].type.qparams].kind == QC_QPARAMS_QUANTIZER ? n->inputs[0] : 0;
}

static bool has_channels(const struct qc_canon *c, qc_id affine)
{
    return c->r.to->qparams_of[c->r.to->values[affine].type.qparams].count > 1;
}

static qc_id canon_add(struct qc_canon *c, const struct qc_node *from, const struct qc_node_def *def,
                       struct qc_status *st);

static qc_id ours(struct qc_canon *c, enum qc_op op, qc_id v, qc_id qparams, int axis, struct qc_status *st)
{
    return canon_add(c, NULL, QC_NODE(op, QC_INPUTS(v), .qparams = qparams, .axis = axis), st);
}

static qc_id dequantized(struct qc_canon *c, qc_id v, struct qc_status *st)
{
    return ours(c, QC_OP_Dequantize, v, 0, 0, st);
}

/* --- Products --- */

/* Returns the axis of the output channels of the second operand, or -1 if its channels cannot have scales of their
   own. */
static int weight_axis(const struct qc_canon *c, enum qc_op op, const struct qc_node *n, qc_id weight)
{
    const int rank = c->g->values[weight].type.shape.rank;
    switch ((int)op) {
    case QC_OP_Conv: return 0;
    case QC_OP_ConvTranspose: return qc_attr_int(n, "group", 1) == 1 ? 1 : -1;
    case QC_OP_Gemm: return qc_attr_int(n, "transB", 0) ? 0 : 1;
    case QC_OP_MatMul: return rank >= 1 ? rank - 1 : -1;
    default: return -1;
    }
}

/* Makes an int32 constant the bias of an accumulator with these qparams. */
static qc_id accumulator_bias(struct qc_canon *c, qc_id old, qc_id product, struct qc_status *st)
{
    const struct qc_tensor *t = qc_constant_of(c->g, old);
    const struct qc_shape shape = QC_SHAPE((int64_t)t->count);
    struct qc_tensor *flat = qc_tensor_of(QC_I32, &shape, t->data, st);
    const qc_id id = flat ? qc_graph_add_affine_constant(c->r.to, qc_canon_base(c, old, st), flat, product, 0, st) : 0;
    qc_tensor_unref(flat);
    return id;
}

/* Returns the int32 constant of a float bias if it has exactly the scales of the accumulator and zero point 0, else
   0. */
static qc_id joining_bias(const struct qc_canon *c, qc_id bias, qc_id product, const char **why)
{
    const struct qc_node *n = qc_node_of(c->g, bias);
    const struct qc_qparams *p = &c->r.to->qparams_of[product];
    const struct qc_tensor *q = n && n->op == QC_OP_DequantizeLinear ? qc_constant_of(c->g, n->inputs[0]) : NULL;
    const struct qc_tensor *s = q ? qc_constant_of(c->g, n->inputs[1]) : NULL;
    const struct qc_tensor *z = q && n->input_count > 2 ? qc_constant_of(c->g, n->inputs[2]) : NULL;
    *why = "it is not an int32 constant";
    if (!s || q->dtype != QC_I32 || s->dtype != QC_F32) return 0;
    if (q->shape.rank > 2 || (q->shape.rank == 2 && q->shape.dim[0] != 1)) return 0;
    *why = "its zero point is not 0";
    for (size_t i = 0; z && i < z->count; i++)
        if (qc_tensor_int(z, i) != 0) return 0;
    *why = "its scale is not the product of the scales of input and weight";
    const size_t count = s->count > p->count ? s->count : p->count;
    if (count > 1 && count != q->count) return 0;
    for (size_t i = 0; i < count; i++)
        if (((const float *)s->data)[s->count > 1 ? i : 0] != p->scale[p->count > 1 ? i : 0]) return 0;
    return n->inputs[0];
}

static qc_id canon_real(struct qc_canon *c, qc_id old, struct qc_status *st);

/* Each returns false if the node has no affine form and is copied. */
static bool product_of_floats(struct qc_canon *c, const struct qc_node *n, struct qc_status *st)
{
    const char *name = c->g->values[n->outputs].name, *why = NULL;
    if (n->op == QC_OP_Gemm &&
        (qc_attr_float(n, "alpha", 1) != 1 || qc_attr_float(n, "beta", 1) != 1 || qc_attr_int(n, "transA", 0)))
        return false;
    const qc_id a = canon_real(c, n->inputs[0], st), b = canon_real(c, n->inputs[1], st);
    qc_id in[3] = {stored_of(c, a), stored_of(c, b), QC_ABSENT};
    if (!in[0] || !in[1] || has_channels(c, in[0])) return false;
    if (has_channels(c, in[1]) && c->r.to->values[in[1]].type.axis != weight_axis(c, n->op, n, n->inputs[1]))
        return false;
    const qc_id product =
        qc_graph_add_product(c->r.to, c->r.to->values[in[0]].type.qparams, c->r.to->values[in[1]].type.qparams, st);
    const qc_id bias = n->input_count > 2 ? n->inputs[2] : QC_ABSENT;
    const qc_id joins = bias && product ? joining_bias(c, bias, product, &why) : 0;
    if (joins) in[2] = accumulator_bias(c, joins, product, st);
    if (bias && !joins) {
        if (c->notes)
            qc_lines_add(c->notes, c->r.to->arena, st, "node '%s' (%s): its bias is added in float, because %s",
                         n->name ? n->name : QC_VALUE_LABEL(c->g, n->outputs), qc_op_info(n->op)->name, why);
        name = NULL;
    }
    const struct qc_node_def def = {
        .op = n->op, .inputs = in, .input_count = joins ? 3 : 2, .qparams = product, QC_RESULT(name)};
    qc_id real = dequantized(c, canon_add(c, n, &def, st), st);
    if (bias && !joins) {
        const int rank = c->r.to->values[real].type.shape.rank;
        qc_id sum[2] = {real, canon_real(c, bias, st)};
        if (n->op != QC_OP_Gemm) {
            const struct qc_shape *s = &c->r.to->values[sum[1]].type.shape, length = QC_SHAPE(rank - 1);
            int64_t dims[QC_RANK_MAX] = {s->rank == 1 && s->dim[0] != QC_FREE ? s->dim[0] : -1};
            for (int i = 1; i < rank - 1; i++) dims[i] = 1;
            const qc_id shape[2] = {sum[1], qc_graph_add_made_constant(c->r.to, NULL,
                                                                       qc_tensor_of(QC_I64, &length, dims, st), st)};
            sum[1] = canon_add(c, NULL, QC_NODE(QC_OP_Reshape, .inputs = shape, .input_count = 2), st);
        }
        real = canon_add(c, NULL,
                         QC_NODE(QC_OP_Add, .inputs = sum, .input_count = 2, QC_RESULT(c->g->values[n->outputs].name)),
                         st);
    }
    c->r.map[n->outputs] = real;
    return true;
}

/* --- Ops that round once --- */

static bool merge_of_floats(struct qc_canon *c, const struct qc_node *n, struct qc_status *st)
{
    qc_id in[4];
    const qc_id qparams = c->mixed[n->outputs] ? 0 : c->want[n->outputs];
    if (!qparams || n->input_count > 4) return false;
    for (unsigned i = 0; i < n->input_count; i++) {
        const qc_id real = n->inputs[i] ? canon_real(c, n->inputs[i], st) : 0;
        if (!real || !(in[i] = stored_of(c, real)) || has_channels(c, in[i])) return false;
    }
    const struct qc_node_def def = {.op = n->op,
                                    .inputs = in,
                                    .input_count = n->input_count,
                                    .qparams = qparams,
                                    QC_RESULT(c->g->values[n->outputs].name)};
    c->r.map[n->outputs] = dequantized(c, canon_add(c, n, &def, st), st);
    return true;
}

/* --- Ops between a dequantize and what reads its values --- */

/* Moves the dequantize down. If all results are quantized with other qparams, qc_propagate_qdq moves the quantize up
   instead. */
static bool pass_floats(struct qc_canon *c, const struct qc_node *n, struct qc_status *st)
{
    const qc_id stored = stored_of(c, canon_real(c, n->inputs[0], st));
    if (!stored || has_channels(c, stored)) return false;
    const qc_id qparams = c->r.to->values[stored].type.qparams;
    bool other = true;
    for (unsigned k = 0; k < n->output_count; k++)
        other = other && !c->mixed[n->outputs + k] && c->want[n->outputs + k] && c->want[n->outputs + k] != qparams;
    qc_id *in = other ? NULL : QC_NEW_ARRAY(c->arena, qc_id, n->input_count, st);
    if (!in) return false;
    for (unsigned i = 0; i < n->input_count; i++)
        if (n->inputs[i]) in[i] = i ? canon_real(c, n->inputs[i], st) : stored;
    const struct qc_node_def with = {.inputs = in};
    const qc_id v = qc_graph_add_like(c->r.to, c->g, n, &with, st);
    for (unsigned k = 0; k < n->output_count; k++) c->r.map[n->outputs + k] = dequantized(c, v + k, st);
    return true;
}

static bool canon_float_op(struct qc_canon *c, const struct qc_node *n, struct qc_status *st)
{
    if (c->g->values[n->outputs].type.dtype != QC_F32) return false;
    if (qc_rules_behaviour(c->rules, c->g, n) != QC_AFFINE_JOIN && qc_moves_exactly(c->rules, c->g, n))
        return pass_floats(c, n, st); /* It is exact on stored values, whatever reads its result. */
    if (n->output_count != 1) return false;
    if (qc_op_info(n->op)->affine == QC_AFFINE_PRODUCT) return product_of_floats(c, n, st);
    return c->merges[n->op] && qc_node_affine(n) == QC_AFFINE_MERGE && merge_of_floats(c, n, st);
}

/* --- Quantized operators of a file --- */

static void canon_define(struct qc_canon *c, const struct qc_qlinear_port *p, qc_id v, struct qc_status *st);

static qc_id canon_operand(struct qc_canon *c, const struct qc_qlinear_port *p, int axis, struct qc_status *st);

static void canon_qlinear_op(struct qc_canon *c, const struct qc_node *n, const struct qc_qlinear *q,
                             struct qc_status *st)
{
    if (qc_op_info(q->op)->affine == QC_AFFINE_PRODUCT) {
        qc_id in[3] = {QC_ABSENT};
        for (unsigned i = 0; i < 2; i++) {
            const struct qc_qlinear_port p = qc_qlinear_operand(n, i);
            in[i] = canon_operand(c, &p, weight_axis(c, q->op, n, p.value), st);
        }
        if (st->code != QC_OK) return;
        const struct qc_value *values = c->r.to->values;
        const qc_id product = qc_graph_add_product(c->r.to, values[in[0]].type.qparams, values[in[1]].type.qparams, st);
        if (q->extra) in[2] = accumulator_bias(c, q->extra, product, st);
        const struct qc_node_def def = {.op = q->op,
                                        .inputs = in,
                                        .input_count = q->extra ? 3 : 2,
                                        .qparams = product,
                                        QC_RESULT(qc_canon_base(c, n->outputs, st))};
        const qc_id v = canon_add(c, n, &def, st);
        if (q->result)
            canon_define(c, &q->out, ours(c, QC_OP_Requantize, v, qc_canon_port_qparams(c, &q->out, st), 0, st), st);
        else
            c->r.map[n->outputs] = dequantized(c, v, st);
        return;
    }
    const qc_id qparams = qc_canon_port_qparams(c, &q->out, st);
    if (q->op == QC_OP_Where || q->op == QC_OP_Softmax) {
        /* Where and Softmax have no affine form: they are computed on real values. */
        qc_id in[3];
        unsigned count = 0;
        if (q->op == QC_OP_Where) in[count++] = canon_real(c, q->extra, st);
        for (unsigned i = 0; i < q->operands; i++) {
            const struct qc_qlinear_port p = qc_qlinear_operand(n, i);
            in[count++] = dequantized(c, canon_operand(c, &p, 0, st), st);
        }
        const char *name = qc_canon_base(c, n->outputs, st);
        const qc_id real = canon_add(c, n, QC_NODE(q->op, .inputs = in, .input_count = count, QC_RESULT(name)), st);
        canon_define(c, &q->out, ours(c, QC_OP_Quantize, real, qparams, 0, st), st);
        return;
    }
    qc_id *in = QC_NEW_ARRAY(c->arena, qc_id, q->operands, st);
    for (unsigned i = 0; in && i < q->operands; i++) {
        const struct qc_qlinear_port p = qc_qlinear_operand(n, i);
        in[i] = canon_operand(c, &p, 0, st);
        if (q->op == QC_OP_Concat && c->r.to->values[in[i]].type.qparams != qparams)
            in[i] = ours(c, QC_OP_Requantize, in[i], qparams, 0, st);
    }
    const struct qc_node_def def = {.op = q->op,
                                    .inputs = in,
                                    .input_count = q->operands,
                                    .qparams = q->op == QC_OP_Concat ? 0 : qparams,
                                    QC_RESULT(qc_canon_base(c, n->outputs, st))};
    canon_define(c, &q->out, canon_add(c, n, &def, st), st);
}

/* --- Ops that move integers --- */

static qc_id real_of_level(struct qc_canon *c, const struct qc_qparams *s, int64_t level, struct qc_status *st)
{
    const float v = (float)(level - s->zero_point[0]) * s->scale[0];
    return qc_graph_add_made_constant(c->r.to, NULL, qc_tensor_of(QC_F32, &QC_SCALAR, &v, st), st);
}

/* A Clip of integers: a Relu if it cuts only at the zero point. */
static qc_id add_clip(struct qc_canon *c, const struct qc_node *n, qc_id v, const char *name, struct qc_status *st)
{
    const struct qc_qparams *s = &c->r.to->qparams_of[c->r.to->values[v].type.qparams];
    const struct qc_levels levels = qc_qparams_levels(s);
    qc_id in[3] = {v, QC_ABSENT, QC_ABSENT};
    int64_t bound[2] = {levels.lo, levels.hi};
    for (unsigned i = 1; i < n->input_count; i++)
        if (n->inputs[i]) bound[i - 1] = qc_tensor_int(qc_constant_of(c->g, n->inputs[i]), 0);
    if (bound[0] == s->zero_point[0] && bound[1] == levels.hi)
        return canon_add(c, n, QC_NODE(QC_OP_Relu, QC_INPUTS(v), QC_RESULT(name)), st);
    if (bound[0] > levels.lo) in[1] = real_of_level(c, s, bound[0], st);
    if (bound[1] < levels.hi) in[2] = real_of_level(c, s, bound[1], st);
    const unsigned count = in[2] ? 3 : in[1] ? 2 : 1;
    return canon_add(c, n, QC_NODE(QC_OP_Clip, .inputs = in, .input_count = count, QC_RESULT(name)), st);
}

static void canon_moving_op(struct qc_canon *c, const struct qc_node *n, struct qc_status *st)
{
    const qc_id qparams = qc_canon_qparams_of(c, n->outputs);
    const struct qc_qparams *s = &c->r.to->qparams_of[qparams];
    const unsigned data = qc_op_info(n->op)->affine == QC_AFFINE_JOIN ? n->input_count : 1;
    qc_id *in = QC_NEW_ARRAY(c->arena, qc_id, n->input_count + 3, st), v;
    const char **names = QC_NEW_ARRAY(c->arena, const char *, n->output_count, st);
    unsigned count = n->input_count;
    if (!in || !names) return;
    for (unsigned i = 0; i < n->input_count; i++) {
        const struct qc_tensor *t = qc_constant_of(c->g, n->inputs[i]);
        if (!n->inputs[i]) continue;
        if (i < data)
            in[i] = t ? qc_graph_add_affine_constant(c->r.to, qc_canon_base(c, n->inputs[i], st), t, qparams, 0, st)
                      : c->affine[n->inputs[i]];
        else if (n->op != QC_OP_Clip)
            in[i] = canon_real(c, n->inputs[i], st);
        if (!in[i] && (i < data || n->op != QC_OP_Clip))
            qc_fail(st, QC_BAD_INPUT, "an integer is used before it is made");
    }
    for (unsigned k = 0; k < n->output_count; k++) names[k] = qc_canon_base(c, n->outputs + k, st);
    if (n->op == QC_OP_Pad) { /* with an integer of the file (0 if absent), as a real number */
        const struct qc_tensor *t = n->input_count > 2 ? qc_constant_of(c->g, n->inputs[2]) : NULL;
        const bool fills = strcmp(qc_attr_string(n, "mode", "constant"), "constant") == 0;
        in[2] = fills ? real_of_level(c, s, t && t->count ? qc_tensor_int(t, 0) : 0, st) : QC_ABSENT;
        count = n->input_count > 2 ? n->input_count : in[2] ? 3 : 2;
    }
    const struct qc_node_def with = {.input_count = count, .inputs = in, .output_names = names};
    v = n->op == QC_OP_Clip ? add_clip(c, n, in[0], names[0], st) : qc_graph_add_like(c->r.to, c->g, n, &with, st);
    for (unsigned k = 0; k < n->output_count; k++) c->affine[n->outputs + k] = v + k;
}

/* --- Values --- */

/* Adds an op on affine values, with the name and attributes of `from` unless that is NULL. */
static qc_id canon_add(struct qc_canon *c, const struct qc_node *from, const struct qc_node_def *def,
                       struct qc_status *st)
{
    static const char *const dropped[] = {"opset", "channels_last", "kernel_shape"};
    struct qc_attr attrs[32];
    struct qc_node_def with = *def;
    for (unsigned i = 0; from && i < from->attr_count && with.attr_count < 32; i++) {
        bool drop = false;
        for (size_t k = 0; from->op != def->op && k < sizeof dropped / sizeof *dropped; k++)
            drop = drop || (strcmp(from->attrs[i].name, dropped[k]) == 0 && (k < 2 || def->op == QC_OP_Conv));
        if (!drop) attrs[with.attr_count++] = from->attrs[i];
    }
    with.attrs = attrs;
    if (from) with.name = from->name;
    return qc_graph_add(c->r.to, &with, st);
}

/* Returns true for an int32 constant with constant float32 parameters: one, or one per element. */
static bool is_product_bias(const struct qc_canon *c, const struct qc_node *n)
{
    const struct qc_tensor *q = n->op == QC_OP_DequantizeLinear ? qc_constant_of(c->g, n->inputs[0]) : NULL;
    const struct qc_tensor *s = q ? qc_constant_of(c->g, n->inputs[1]) : NULL;
    if (!s || q->dtype != QC_I32 || s->dtype != QC_F32 ||
        (n->input_count > 2 && n->inputs[2] && !qc_constant_of(c->g, n->inputs[2])))
        return false;
    return s->count == 1 || (s->count == q->count && !qc_attr_int(n, "block_size", 0));
}

/* Returns the new real value of an old float value or of integers of a literal class. */
static qc_id canon_real(struct qc_canon *c, qc_id old, struct qc_status *st)
{
    const struct qc_node *n = qc_node_of(c->g, old);
    if (!c->r.map[old] && n && is_product_bias(c, n)) { /* f((q - z) * s): it does not join its accumulator */
        const struct qc_tensor *q = qc_constant_of(c->g, n->inputs[0]), *s = qc_constant_of(c->g, n->inputs[1]);
        const struct qc_tensor *z = n->input_count > 2 ? qc_constant_of(c->g, n->inputs[2]) : NULL;
        struct qc_tensor *t = qc_tensor_new(QC_F32, &q->shape, st);
        for (size_t i = 0; t && i < t->count; i++) {
            const int64_t v = qc_tensor_int(q, i) - (z ? qc_tensor_int(z, z->count > 1 ? i : 0) : 0);
            ((float *)t->data)[i] = (float)v * (float)qc_tensor_float(s, s->count > 1 ? i : 0);
        }
        c->r.map[old] = qc_graph_add_made_constant(c->r.to, qc_canon_base(c, n->inputs[0], st), t, st);
    }
    return c->r.map[old] || st->code != QC_OK ? c->r.map[old] : qc_rebuild_value(&c->r, old, st);
}

/* Returns the new affine value of an integer operand with these parameters. */
static qc_id canon_operand(struct qc_canon *c, const struct qc_qlinear_port *p, int axis, struct qc_status *st)
{
    const struct qc_tensor *t = qc_constant_of(c->g, p->value);
    const char *name = qc_canon_base(c, p->value, st);
    const qc_id known = c->affine[p->value];
    if (known && qc_canon_qparams_of(c, p->value)) return known;
    const qc_id qparams = qc_canon_port_qparams(c, p, st);
    if (t)
        return qc_graph_add_affine_constant(c->r.to, name, t, qparams,
                                            c->r.to->qparams_of[qparams].count > 1 ? axis : 0, st);
    if (known && c->r.to->values[known].type.qparams == qparams) return known;
    const qc_id in[3] = {canon_real(c, p->value, st), canon_real(c, p->scale, st), canon_real(c, p->zero_point, st)};
    const struct qc_node_def def = {.op = QC_OP_DequantizeLinear, .inputs = in, .input_count = in[2] ? 3 : 2};
    return ours(c, QC_OP_Quantize, canon_add(c, NULL, &def, st), qparams, 0, st);
}

/* from: the QuantizeLinear of the file, whose attributes it keeps; NULL: none. The parameters are those of p. */
static void define_integers(struct qc_canon *c, const struct qc_qlinear_port *p, const struct qc_node *from, qc_id v,
                            struct qc_status *st)
{
    const qc_id in[3] = {dequantized(c, v, st), canon_real(c, p->scale, st), canon_real(c, p->zero_point, st)};
    const struct qc_node_def def = {.op = QC_OP_QuantizeLinear,
                                    .inputs = in,
                                    .input_count = in[2] ? 3 : 2,
                                    QC_RESULT(c->g->values[p->value].name)};
    c->r.map[p->value] = canon_add(c, from, &def, st);
}

/* Defines an old integer value as v, or as its integers if its class is literal. p: parameters as in the file. */
static void canon_define(struct qc_canon *c, const struct qc_qlinear_port *p, qc_id v, struct qc_status *st)
{
    c->affine[p->value] = v;
    if (!qc_canon_qparams_of(c, p->value)) define_integers(c, p, NULL, v, st);
}

/* --- Nodes --- */

static void copy(struct qc_canon *c, const struct qc_node *n, struct qc_status *st)
{
    for (unsigned i = 0; i < n->input_count; i++) canon_real(c, n->inputs[i], st);
    qc_rebuild_node(&c->r, n->id, st);
}

static void build_quantize(struct qc_canon *c, const struct qc_node *n, struct qc_status *st)
{
    const struct qc_qlinear_port port = {.value = n->outputs,
                                         .scale = n->inputs[1],
                                         .zero_point = n->input_count > 2 ? n->inputs[2] : QC_ABSENT};
    const qc_id stored = qc_canon_qparams_of(c, n->outputs), qparams = stored ? stored : c->own[n->outputs];
    const qc_id x = qparams ? canon_real(c, n->inputs[0], st) : 0;
    const struct qc_node *from = qc_node_of(c->r.to, x);
    if (!qparams || (!stored && !from)) { /* A graph input stays as it is. */
        copy(c, n, st);
        return;
    }
    qc_id q;
    if (from && from->op == QC_OP_Dequantize && c->r.to->values[from->inputs[0]].type.qparams == qparams)
        q = from->inputs[0];
    else
        q = ours(c, QC_OP_Quantize, x, qparams,
                 c->r.to->qparams_of[qparams].count > 1 ? qc_canon_axis_of(c, n->outputs) : 0, st);
    c->affine[n->outputs] = q;
    if (!stored) define_integers(c, &port, n, q, st);
}

static void build_dequantize(struct qc_canon *c, const struct qc_node *n, struct qc_status *st)
{
    const qc_id v = n->inputs[0], zero = n->input_count > 2 ? n->inputs[2] : QC_ABSENT;
    const struct qc_tensor *t = qc_constant_of(c->g, v);
    qc_id q = 0, qparams = 0;
    if (is_product_bias(c, n)) return; /* It is built where it is used. */
    if (!t && qc_canon_qparams_of(c, v)) q = c->affine[v];
    if (!q && c->own[n->outputs] && c->taken[n->outputs]) {
        /* Quantizing integers of the file with these parameters again is exact. */
        q = c->affine[v];
        qparams = c->own[n->outputs];
        if (!q || c->r.to->values[q].type.qparams != qparams) {
            copy(c, n, st);
            q = ours(c, QC_OP_Quantize, c->r.map[n->outputs], qparams, 0, st);
            if (!c->affine[v]) c->affine[v] = q;
        }
        c->r.map[n->outputs] = dequantized(c, q, st);
        return;
    }
    if (t && qc_dtype_is_affine(t->dtype) && c->g->values[n->outputs].type.dtype == QC_F32 &&
        !qc_attr_int(n, "block_size", 0)) {
        const char *name = qc_canon_base(c, v, st);
        qparams = qc_canon_qparams(c, n->inputs[1], zero, t->dtype, name, st);
        int64_t axis = qc_attr_int(n, "axis", 1);
        if (axis < 0) axis += t->shape.rank;
        if (qparams && c->r.to->qparams_of[qparams].count == 1) axis = 0;
        if (qparams) q = qc_graph_add_affine_constant(c->r.to, name, t, qparams, (int)axis, st);
    }
    if (q)
        c->r.map[n->outputs] = dequantized(c, q, st);
    else
        copy(c, n, st);
}

static void build_canonical_node(struct qc_canon *c, const struct qc_node *n, struct qc_status *st)
{
    struct qc_qlinear q;
    const bool qlinear = qc_qlinear_of(&q, n);
    if (n->op == QC_OP_QuantizeLinear)
        build_quantize(c, n, st);
    else if (n->op == QC_OP_DequantizeLinear)
        build_dequantize(c, n, st);
    else if (qlinear && qc_canon_turns(c, n, &q, st))
        canon_qlinear_op(c, n, &q, st);
    else if (!qlinear && qc_dtype_is_affine(c->g->values[n->outputs].type.dtype) && qc_canon_qparams_of(c, n->outputs))
        canon_moving_op(c, n, st);
    else if (qlinear || !canon_float_op(c, n, st))
        copy(c, n, st);
}

bool qc_is_quantized(const struct qc_graph *g)
{
    struct qc_qlinear q;
    QC_EACH_NODE(n, g) {
        if (n->op == QC_OP_QuantizeLinear || n->op == QC_OP_DequantizeLinear || qc_qlinear_of(&q, n) ||
            qc_attr_int(n, QC_RECURRENT_DYNAMIC, 0))
            return true;
    }
    return false;
}

static bool build_canonical(struct qc_graph **out, struct qc_canon *c, struct qc_status *st)
{
    c->r.to->simulated = false;
    QC_EACH_NODE(n, c->g)
        c->r.to->integer_operators = c->r.to->integer_operators || n->op == QC_OP_QLinearConv ||
                                     n->op == QC_OP_QLinearMatMul || n->op == QC_OP_QGemm;
    for (size_t i = 0; i < c->rules->count; i++) {
        const struct qc_rule *r = &c->rules->rules[i];
        if (r->kind == QC_RULE_PATTERN && r->match->kind == QC_EXPR_OP &&
            qc_op_info(r->match->op)->affine == QC_AFFINE_MERGE)
            c->merges[r->match->op] = true;
    }
    if (!qc_canon_classify(c, st)) return false;
    QC_EACH_NODE(n, c->g)
        if (st->code == QC_OK) build_canonical_node(c, n, st);
    for (size_t i = 0; i < c->g->output_count; i++) canon_real(c, c->g->outputs[i].value, st);
    return qc_rebuild_finish(out, &c->r, st);
}

bool qc_canonical(struct qc_graph **out, struct qc_lines *notes, const struct qc_graph *g, const struct qc_rules *rules,
                  struct qc_status *st)
{
    QC_ARENA_SCOPE *arena = qc_arena_new();
    struct qc_canon c = {.g = g, .rules = rules, .notes = notes, .arena = arena};
    const bool ok = qc_rebuild_begin(&c.r, g, st) && build_canonical(out, &c, st);
    qc_rebuild_free(&c.r);
    qc_index_free(&c.by_numbers);
    return ok;
}

bool qc_canonical_finish(struct qc_graph **out, const struct qc_graph *canonical, const struct qc_rules *rules,
                         const struct qc_rules *fold_rules, qc_eval_fn *eval, struct qc_status *st)
{
    QC_GRAPH_SCOPE *expanded = NULL, *folded = NULL;
    return qc_propagate_exactly(&expanded, canonical, rules, st) && qc_fold(&folded, expanded, fold_rules, st) &&
           qc_to_integer(out, folded, eval, st);
}
