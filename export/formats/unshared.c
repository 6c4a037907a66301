// SPDX-License-Identifier: Apache-2.0
/* With session.x64quantprecision=1 and without VNNI, ONNX Runtime replaces int8 weights and their zero points by uint8
   ones named after the original initializers. It fails if it replaces an initializer twice (1.31), so each operator
   that it rewrites gets initializers of its own:

     zero points    a copy
     weights        Reshape of the shared one to its own shape, which runtimes fold; the file does not grow
     DequantizeLinear of weights    one for each reader, as ONNX Runtime makes one for each (1.31)

   ONNX Runtime also rewrites DequantizeLinear of integers that it computes from constants. */
#include <stdlib.h>

#include "export/formats/lowering.h"
#include "graph/core/rebuild.h"

/* Inputs that the runtime rewrites. */
static const struct rewritten {
    enum qc_op op;
    unsigned weight, zero_point;
} rewritten[] = {
    {QC_OP_DequantizeLinear, 0, 2},     {QC_OP_QLinearConv, 3, 5},
    {QC_OP_QLinearMatMul, 3, 5},        {QC_OP_QGemm, 3, 5},
    {QC_OP_MatMulInteger, 1, 3},        {QC_OP_DynamicQuantizeMatMul, 1, 3},
    {QC_OP_MatMulIntegerToFloat, 1, 5}, {QC_OP_DynamicQuantizeLSTM, 1, 9},
    {QC_OP_DynamicQuantizeLSTM, 2, 11},
};
enum { REWRITTEN = sizeof rewritten / sizeof *rewritten };

struct unsharing {
    struct qc_rebuild r;
    bool *constant; /* [value_count + 1] of from: a constant, or computed from constants alone */
    qc_id *own;     /* [value_count + 1] of from: the last copy in `to` that an operator has for itself, or 0 */
    bool *read;     /* [value_count + 1] of from: the result of a DequantizeLinear that has a reader already */
};

static qc_id input_of(const struct qc_node *n, unsigned i)
{
    return i < n->input_count ? n->inputs[i] : QC_ABSENT;
}

static bool is_rewritten(const struct unsharing *u, const struct qc_node *n, const struct rewritten *w)
{
    const qc_id v = n->op == w->op ? input_of(n, w->weight) : QC_ABSENT;
    return v && u->constant[v] && u->r.from->values[v].type.dtype == QC_I8;
}

/* Returns a new name: BASE_again, followed by a number if necessary. */
static const char *fresh_name(const struct unsharing *u, const char *base, struct qc_status *st)
{
    const char *name = qc_arena_printf(u->r.to->arena, st, "%s_again", base);
    return name ? qc_graph_free_name(u->r.to, name, st) : NULL;
}

/* Returns a copy of a weight: a Reshape of its last copy. */
static qc_id reshaped(const struct unsharing *u, qc_id weight, struct qc_status *st)
{
    const struct qc_shape *shape = &u->r.from->values[weight].type.shape;
    char label[QC_LABEL];
    const char *name = fresh_name(u, qc_value_label(label, u->r.from, weight), st);
    const struct qc_shape dims = QC_SHAPE(shape->rank);
    struct qc_tensor *t = qc_tensor_of(QC_I64, &dims, shape->dim, st);
    const qc_id in[2] = {u->own[weight], name && t ? qc_graph_add_constant(u->r.to, "weight_shape", t, st) : 0};
    qc_tensor_unref(t);
    const struct qc_node_def def = {
        .op = QC_OP_Reshape, .name = name, .input_count = 2, .inputs = in, .output_names = &name};
    return in[1] ? qc_graph_add(u->r.to, &def, st) : 0;
}

/* Returns the input as a value that no rewritten operator has yet. */
static qc_id own(struct unsharing *u, qc_id v, bool is_weight, struct qc_status *st)
{
    const struct qc_value *from = &u->r.from->values[v];
    if (!u->own[v])
        u->own[v] = qc_rebuild_value(&u->r, v, st);
    else if (is_weight)
        u->own[v] = reshaped(u, v, st);
    else
        u->own[v] = qc_graph_add_constant_apart(u->r.to, from->name, from->constant, st);
    return u->own[v];
}

static bool own_inputs(qc_id *inputs, struct unsharing *u, const struct qc_node *n, struct qc_status *st)
{
    for (unsigned i = 0; i < n->input_count; i++)
        if (n->inputs[i] && !(inputs[i] = qc_rebuild_value(&u->r, n->inputs[i], st))) return false;
    for (size_t i = 0; i < REWRITTEN; i++) {
        const struct rewritten *w = &rewritten[i];
        if (!is_rewritten(u, n, w)) continue;
        const qc_id zero = input_of(n, w->zero_point);
        if (!(inputs[w->weight] = own(u, n->inputs[w->weight], true, st))) return false;
        if (zero && u->r.from->values[zero].constant && !(inputs[w->zero_point] = own(u, zero, false, st)))
            return false;
    }
    return true;
}

/* Adds another DequantizeLinear like n with a new name. */
static qc_id another(const struct unsharing *u, const struct qc_node *n, const qc_id *inputs, struct qc_status *st)
{
    char label[QC_LABEL];
    const char *name = fresh_name(u, qc_value_label(label, u->r.from, n->outputs), st);
    const struct qc_node_def def = {.op = n->op,
                                    .name = name,
                                    .input_count = n->input_count,
                                    .inputs = inputs,
                                    .attr_count = n->attr_count,
                                    .attrs = n->attrs,
                                    .output_names = &name};
    return name ? qc_graph_add(u->r.to, &def, st) : 0;
}

/* Copies a node, with weights and zero points of its own. again: n was copied already; makes a second copy. */
static bool copy_node(struct unsharing *u, const struct qc_node *n, bool again, struct qc_status *st)
{
    qc_id *inputs = calloc(n->input_count + 1U, sizeof *inputs), first = 0;
    if (!inputs) return qc_fail_memory(st, n->input_count * sizeof *inputs);
    const struct qc_node_def with = {.inputs = inputs};
    if (own_inputs(inputs, u, n, st))
        first = again ? another(u, n, inputs, st) : qc_graph_add_like(u->r.to, u->r.from, n, &with, st);
    for (unsigned k = 0; first && k < n->output_count; k++) u->r.map[n->outputs + k] = first + k;
    free(inputs);
    return first != 0;
}

/* Gives each reader of dequantized weights its own DequantizeLinear. */
static bool dequantize_again(struct unsharing *u, const struct qc_node *n, struct qc_status *st)
{
    for (unsigned i = 0; i < n->input_count; i++) {
        const qc_id v = n->inputs[i];
        const struct qc_node *dq = v ? qc_node_of(u->r.from, v) : NULL;
        bool earlier = false;
        for (unsigned k = 0; k < i; k++) earlier = earlier || n->inputs[k] == v;
        if (!dq || earlier || !is_rewritten(u, dq, &rewritten[0])) continue;
        if (u->read[v] && !copy_node(u, dq, true, st)) return false;
        u->read[v] = true;
    }
    return true;
}

static bool is_constant(const struct unsharing *u, const struct qc_node *n)
{
    bool all = n->input_count > 0;
    for (unsigned i = 0; i < n->input_count; i++) all = all && (!n->inputs[i] || u->constant[n->inputs[i]]);
    return all;
}

bool qc_lower_unshare(struct qc_graph **g, struct qc_status *st)
{
    const struct qc_graph *from = *g;
    struct unsharing u = {.r = {0}};
    QC_ARENA_SCOPE *a = qc_arena_new();
    bool ok = a || qc_fail_memory(st, 1);
    ok = ok && (u.constant = QC_NEW_ARRAY(a, bool, from->value_count + 1, st)) &&
         (u.own = QC_NEW_ARRAY(a, qc_id, from->value_count + 1, st)) &&
         (u.read = QC_NEW_ARRAY(a, bool, from->value_count + 1, st)) && qc_rebuild_begin(&u.r, from, st);
    for (qc_id v = 1; ok && v <= from->value_count; v++) u.constant[v] = from->values[v].constant != NULL;
    for (qc_id id = 1; ok && id <= from->node_count; id++) {
        const struct qc_node *n = &from->nodes[id];
        const bool constant = is_constant(&u, n);
        for (unsigned k = 0; k < n->output_count; k++) u.constant[n->outputs + k] = constant;
        ok = dequantize_again(&u, n, st) && copy_node(&u, n, false, st);
    }
    struct qc_graph *to = NULL;
    ok = ok && qc_rebuild_finish(&to, &u.r, st);
    qc_rebuild_free(&u.r);
    if (!ok) return false;
    qc_graph_free(*g);
    *g = to;
    return true;
}
