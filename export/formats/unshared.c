// SPDX-License-Identifier: Apache-2.0
/* With session.x64quantprecision=1 and without VNNI, ONNX Runtime replaces int8 weights and their zero points by uint8
   ones named after the original initializers. It fails if it replaces an initializer twice (1.31), so each operator
   that it rewrites gets initializers of its own:

     zero points    a copy
     weights        Reshape of the shared one to its own shape, which runtimes fold; the file does not grow
     DequantizeLinear of weights    one for each reader, as ONNX Runtime makes one for each (1.31)

   ONNX Runtime also rewrites DequantizeLinear of integers that it computes from constants. */
#include <stdlib.h>
#include <string.h>

#include "base/scope.h"
#include "export/formats/lowering.h"
#include "graph/core/custom.h"
#include "graph/core/rebuild.h"
#include "graph/types/tensor.h"

/* A table of integers that is also the matrix of a product is written once: the product reads a Transpose of the table
   (MatMulNBits: a Reshape), which ONNX Runtime (1.32) computes when it loads the model. */

enum { SMALLEST = 4096 }; /* elements; a smaller one is not worth a node */

bool qc_lower_share_tables(struct qc_graph **g, struct qc_status *st)
{
    QC_REBUILD_SCOPE r = {0};
    QC_FREED qc_id *table = /* [value_count + 1]: the table that a constant is made from; 0: none */
        calloc((size_t)(*g)->value_count + 1, sizeof *table);
    struct qc_graph *out;
    if (!table) return qc_fail_memory(st, (size_t)(*g)->value_count * sizeof *table);
    const struct qc_graph *from = *g;
    bool found = false;
    for (qc_id id = 1; id <= from->node_count; id++) {
        /* The constant that a Gather takes rows of, perhaps through a Cast, if it is a table of integers of some size.
         */
        const struct qc_node *n = &from->nodes[id];
        const bool takes = n->op == QC_OP_Gather || n->op == QC_OP_GatherBlockQuantized;
        const struct qc_node *by = takes ? qc_node_of(from, n->inputs[0]) : NULL;
        const qc_id read = by && by->op == QC_OP_Cast ? by->inputs[0] : n->inputs[0];
        const struct qc_tensor *of = takes ? qc_constant_of(from, read) : NULL;
        const bool fits = of && of->shape.rank == 2 && of->count >= SMALLEST && !qc_dtype_info(of->dtype)->is_float;
        const qc_id whole = fits ? read : 0;
        const struct qc_tensor *t = whole ? qc_constant_of(from, whole) : NULL;
        for (qc_id v = 1; t && !table[whole] && v <= from->value_count; v++) {
            const struct qc_tensor *c = v == whole || table[v] ? NULL : qc_constant_of(from, v);
            if (!c || !(qc_tensor_is_transposed(c, t) ||
                        (c->dtype == t->dtype && c->count == t->count && !qc_shape_equal(&c->shape, &t->shape) &&
                         memcmp(c->data, t->data, c->bytes) == 0)))
                continue;
            table[v] = whole;
            found = true;
        }
    }
    if (!found) return true;
    if (!qc_rebuild_begin(&r, from, st)) return false;
    for (qc_id v = 1; v <= from->value_count; v++) {
        if (!table[v]) continue;
        static const int64_t swapped[] = {1, 0};
        const struct qc_tensor *c = qc_constant_of(from, v);
        const char *name = from->values[v].name;
        const qc_id whole = qc_rebuild_value(&r, table[v], st);
        if (qc_tensor_is_transposed(c, qc_constant_of(from, table[v]))) {
            r.map[v] = qc_graph_add(r.to,
                                    QC_NODE(QC_OP_Transpose, QC_INPUTS(whole), QC_ATTRS(QC_INTS("perm", 2, swapped)),
                                            QC_RESULT(name), .name = name),
                                    st);
            continue;
        }
        const struct qc_shape rank = QC_SHAPE(c->shape.rank);
        const qc_id shape =
            qc_graph_add_made_constant(r.to, "table_shape", qc_tensor_of(QC_I64, &rank, c->shape.dim, st), st);
        r.map[v] =
            qc_graph_add(r.to, QC_NODE(QC_OP_Reshape, QC_INPUTS(whole, shape), QC_RESULT(name), .name = name), st);
    }
    if (!qc_rebuild_finish(&out, &r, st)) return false;
    qc_graph_free(*g);
    *g = out;
    return true;
}

/* Inputs that the runtime rewrites, of operators without their domain. */
static const struct rewritten {
    const char *op;
    unsigned weight, zero_point;
} rewritten[] = {
    {"DequantizeLinear", 0, 2},     {"QLinearConv", 3, 5},
    {"QLinearMatMul", 3, 5},        {"QGemm", 3, 5},
    {"MatMulInteger", 1, 3},        {"DynamicQuantizeMatMul", 1, 3},
    {"MatMulIntegerToFloat", 1, 5}, {"DynamicQuantizeLSTM", 1, 9},
    {"DynamicQuantizeLSTM", 2, 11}, {"QAttention", 1, 7},
};
enum { REWRITTEN = sizeof rewritten / sizeof *rewritten };

struct unsharing {
    struct qc_rebuild *r;
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
    /* operators of the model that are written again are Custom (export/formats/restored_calls.c) */
    const char *op = n->op == QC_OP_Custom ? qc_attr_string(n, QC_CUSTOM_OP, "") : qc_op_info(n->op)->name;
    const qc_id v = strcmp(op, w->op) == 0 ? input_of(n, w->weight) : QC_ABSENT;
    return v && u->constant[v] && u->r->from->values[v].type.dtype == QC_I8;
}

/* Returns a new name: BASE_again, followed by a number if necessary. */
static const char *fresh_name(const struct unsharing *u, const char *base, struct qc_status *st)
{
    const char *name = qc_arena_printf(u->r->to->arena, st, "%s_again", base);
    return name ? qc_graph_free_name(u->r->to, name, st) : NULL;
}

/* Returns the input as a value that no rewritten operator has yet. */
static qc_id own(struct unsharing *u, qc_id v, bool is_weight, struct qc_status *st)
{
    const struct qc_value *from = &u->r->from->values[v];
    if (!u->own[v])
        u->own[v] = qc_rebuild_value(u->r, v, st);
    else if (is_weight) {
        /* A copy of a weight: a Reshape of its last copy. */
        const struct qc_shape *shape = &u->r->from->values[v].type.shape;
        const char *name = fresh_name(u, QC_VALUE_LABEL(u->r->from, v), st);
        const struct qc_shape dims = QC_SHAPE(shape->rank);
        const qc_id to =
            qc_graph_add_made_constant(u->r->to, "weight_shape", qc_tensor_of(QC_I64, &dims, shape->dim, st), st);
        u->own[v] =
            qc_graph_add(u->r->to, QC_NODE(QC_OP_Reshape, QC_INPUTS(u->own[v], to), QC_RESULT(name), .name = name), st);
    } else
        u->own[v] = qc_graph_add_constant_apart(u->r->to, from->name, from->constant, st);
    return u->own[v];
}

/* Copies a node, with weights and zero points of its own. again: n was copied already; makes a second copy. */
static void copy_node(struct unsharing *u, const struct qc_node *n, bool again, struct qc_status *st)
{
    qc_id *inputs = qc_rebuild_inputs(u->r, n, st);
    const struct qc_node_def with = {.inputs = inputs};
    if (!inputs) return;
    for (size_t i = 0; i < REWRITTEN; i++) {
        const struct rewritten *w = &rewritten[i];
        if (!is_rewritten(u, n, w)) continue;
        const qc_id zero = input_of(n, w->zero_point);
        inputs[w->weight] = own(u, n->inputs[w->weight], true, st);
        if (zero && u->r->from->values[zero].constant) inputs[w->zero_point] = own(u, zero, false, st);
    }
    const char *name = again ? fresh_name(u, QC_VALUE_LABEL(u->r->from, n->outputs), st) : NULL;
    const struct qc_node_def def = {.op = n->op,
                                    .name = name,
                                    .input_count = n->input_count,
                                    .inputs = inputs,
                                    .attr_count = n->attr_count,
                                    .attrs = n->attrs,
                                    .output_names = &name};
    qc_rebuild_map(u->r, n,
                   again ? qc_graph_add(u->r->to, &def, st) : qc_graph_add_like(u->r->to, u->r->from, n, &with, st));
}

bool qc_lower_unshare(struct qc_graph **g, struct qc_status *st)
{
    const struct qc_graph *from = *g;
    QC_REBUILD_SCOPE r = {0};
    QC_ARENA_SCOPE *a = qc_arena_new();
    struct unsharing u = {.r = &r,
                          .constant = QC_NEW_ARRAY(a, bool, from->value_count + 1, st),
                          .own = QC_NEW_ARRAY(a, qc_id, from->value_count + 1, st),
                          .read = QC_NEW_ARRAY(a, bool, from->value_count + 1, st)};
    if (st->code != QC_OK || !qc_rebuild_begin(&r, from, st)) return false;
    for (qc_id v = 1; v <= from->value_count; v++) u.constant[v] = from->values[v].constant != NULL;
    QC_EACH_NODE(n, from) {
        bool constant = n->input_count > 0;
        for (unsigned i = 0; i < n->input_count; i++)
            constant = constant && (!n->inputs[i] || u.constant[n->inputs[i]]);
        for (unsigned k = 0; k < n->output_count; k++) u.constant[n->outputs + k] = constant;
        /* Gives each reader of dequantized weights its own DequantizeLinear. */
        for (unsigned i = 0; i < n->input_count; i++) {
            const qc_id v = n->inputs[i];
            const struct qc_node *dq = v ? qc_node_of(from, v) : NULL;
            bool earlier = false;
            for (unsigned k = 0; k < i; k++) earlier = earlier || n->inputs[k] == v;
            if (!dq || earlier || !is_rewritten(&u, dq, &rewritten[0])) continue;
            if (u.read[v]) copy_node(&u, dq, true, st);
            u.read[v] = true;
        }
        copy_node(&u, n, false, st);
    }
    struct qc_graph *to;
    if (!qc_rebuild_finish(&to, &r, st)) return false;
    qc_graph_free(*g);
    *g = to;
    return true;
}
