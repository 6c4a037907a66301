// SPDX-License-Identifier: Apache-2.0
/* Rows of a weight table that a Gather reads. The integers are gathered first, then dequantized: DequantizeLinear of
   the whole table takes ONNX Runtime (1.31) 600 times as long.

     one scale        DequantizeLinear(Gather(q))
     scale per row    DequantizeLinear(Gather(q), 1, z) * Gather(scales)
                      (DequantizeLinear(Gather(q), 1) - Gather(z)) * Gather(scales) if zero points differ
     blocks           DequantizeLinear(Gather(q), Gather(scales), Gather(z)) with block_size */
#include <stdlib.h>

#include "base/scope.h"
#include "export/formats/lowering.h"
#include "graph/core/rebuild.h"
#include "graph/core/scale_layout.h"

/* Returns true if the table has one scale: its rows then have the same qparams. */
static bool moves_rows(const struct qc_graph *g, const struct qc_node *n)
{
    const qc_id qparams = n->op == QC_OP_Gather ? g->values[n->outputs].type.qparams : 0;
    return qparams && g->qparams_of[qparams].is_weight && g->qparams_of[qparams].count == 1 &&
           g->values[n->inputs[0]].constant;
}

static qc_id table_behind(const struct qc_graph *g, const struct qc_node *dequantize)
{
    const qc_id v = dequantize && dequantize->op == QC_OP_Dequantize ? dequantize->inputs[0] : 0;
    return v && qc_constant_of(g, v) && g->values[v].type.shape.rank == 2 ? v : 0;
}

qc_id qc_lower_table_of(const struct qc_lowering *x, const struct qc_node *n)
{
    const struct qc_graph *g = x->from;
    const qc_id v =
        n->op == QC_OP_Gather && !qc_attr_int(n, "axis", 0) ? table_behind(g, qc_node_of(g, n->inputs[0])) : 0;
    if (!v || n->inputs[1] == n->inputs[0]) return 0;
    const struct qc_qparams *s = &g->qparams_of[g->values[v].type.qparams];
    const bool each = !s->block && s->count == (size_t)g->values[v].type.shape.dim[0] && g->values[v].type.axis == 0;
    return s->is_weight && (each || (s->block && g->values[v].type.axis == 1)) ? v : 0;
}

static bool is_table(const struct qc_lowering *x, const struct qc_node *n)
{
    const struct qc_use_list readers = qc_readers(&x->uses, n->outputs);
    if (!table_behind(x->from, n) || !readers.count) return false;
    for (size_t i = 0; i < readers.count; i++)
        if (!readers.of[i].node || !qc_lower_table_of(x, &x->from->nodes[readers.of[i].node])) return false;
    return true;
}

static qc_id add(struct qc_lowering *x, enum qc_op op, unsigned count, const qc_id *in, const char *base,
                 const char *what, struct qc_status *st)
{
    return qc_lower_add(x, (struct qc_node_def){.op = op, .input_count = count, .inputs = in}, base, what, st);
}

/* Gathers from a constant. */
static qc_id take(struct qc_lowering *x, const struct qc_node *n, qc_id constant, struct qc_status *st)
{
    const qc_id in[2] = {constant, constant ? qc_lower_real(x, n->inputs[1], st) : 0};
    return in[1] ? add(x, QC_OP_Gather, 2, in, x->to->values[constant].name, "rows", st) : 0;
}

/* Gathers the integers, with the node itself. */
static qc_id take_rows(struct qc_lowering *x, const struct qc_node *n, qc_id table, struct qc_status *st)
{
    const char *name, *node;
    const qc_id in[2] = {x->integer[table], qc_lower_real(x, n->inputs[1], st)};
    if (!in[1] || !qc_lower_fresh_names(&name, &node, x, n->op, qc_lower_base(x, n->outputs), "rows", st)) return 0;
    const struct qc_node_def with = {.inputs = in, .output_names = &name};
    return qc_graph_add_like(x->to, x->from, n, &with, st);
}

/* Returns the zero points of blocks, in the type that the file has for the integers. */
static qc_id zero_points(struct qc_lowering *x, const struct qc_qparams *s, const struct qc_shape *shape,
                         struct qc_status *st)
{
    const enum qc_dtype type = qc_lower_type(s);
    const qc_id v = qc_lower_zero_points(x, s, s->dtype, shape, st);
    const struct qc_attr to = QC_INT("to", qc_dtype_info(type)->onnx);
    if (!v || type == s->dtype) return v;
    return qc_lower_add(
        x, (struct qc_node_def){.op = QC_OP_Cast, .input_count = 1, .inputs = &v, .attr_count = 1, .attrs = &to},
        x->to->values[v].name, "widened", st);
}

static bool in_blocks(struct qc_lowering *x, const struct qc_node *n, qc_id table, qc_id rows, struct qc_status *st)
{
    const struct qc_type *type = &x->from->values[table].type;
    const struct qc_qparams *s = &x->from->qparams_of[type->qparams];
    const struct qc_shape shape = qc_scale_shape(s, &type->shape, type->axis);
    const bool zeros = qc_lower_has_zero_points(s);
    const char *name = qc_lower_inner_name(x, n->outputs, st);
    const qc_id scales = qc_lower_constant(x, QC_F32, &shape, s->scale, s->name, "scale", st),
                zero = zeros ? zero_points(x, s, &shape, st) : QC_ABSENT;
    qc_id in[3] = {rows, scales ? take(x, n, scales, st) : 0, QC_ABSENT};
    if (!in[1] || (zeros && (!zero || !(in[2] = take(x, n, zero, st))))) return false;
    const struct qc_attr attrs[] = {QC_INT("axis", -1), QC_INT("block_size", s->block)};
    const struct qc_node_def def = {.op = QC_OP_DequantizeLinear,
                                    .input_count = zeros ? 3 : 2,
                                    .inputs = in,
                                    .attr_count = 2,
                                    .attrs = attrs,
                                    .output_names = &name};
    return (x->real[n->outputs] = qc_lower_add(x, def, qc_lower_base(x, n->outputs), "dequantized", st)) != 0;
}

static bool differ(const struct qc_qparams *s)
{
    for (size_t i = 1; i < s->count; i++)
        if (s->zero_point[i] != s->zero_point[0]) return true;
    return false;
}

/* Returns the zero points of the rows as real numbers. */
static qc_id real_zero_points(struct qc_lowering *x, const struct qc_qparams *s, const struct qc_shape *column,
                              struct qc_status *st)
{
    QC_FREED float *zero = malloc(s->count * sizeof *zero);
    if (!zero) return qc_fail_memory(st, s->count * sizeof *zero);
    for (size_t i = 0; i < s->count; i++) zero[i] = (float)s->zero_point[i];
    return qc_lower_constant(x, QC_F32, column, zero, s->name, "zero_points", st);
}

static bool by_rows(struct qc_lowering *x, const struct qc_node *n, qc_id table, qc_id rows, struct qc_status *st)
{
    const struct qc_qparams *s = &x->from->qparams_of[x->from->values[table].type.qparams];
    const struct qc_shape column = QC_SHAPE((int64_t)s->count, 1), scalar = QC_SCALAR;
    const enum qc_dtype type = qc_lower_type(s);
    const int32_t common = differ(s) ? 0 : s->zero_point[0];
    const float one = 1;
    const char *base = qc_lower_base(x, n->outputs), *name = qc_lower_inner_name(x, n->outputs, st);
    const qc_id in[3] = {rows, qc_lower_constant(x, QC_F32, &scalar, &one, s->name, "unit", st),
                         qc_lower_constant(x, type, &scalar, &common, s->name, "zero_point", st)},
                scales = qc_lower_constant(x, QC_F32, &column, s->scale, s->name, "scale", st);
    if (!in[1] || !in[2] || !scales) return false;
    qc_id y[2] = {add(x, QC_OP_DequantizeLinear, 3, in, base, "dequantized", st), 0};
    if (y[0] && differ(s)) {
        const qc_id zero = real_zero_points(x, s, &column, st);
        if (!zero || !(y[1] = take(x, n, zero, st))) return false;
        y[0] = add(x, QC_OP_Sub, 2, y, base, "shifted", st);
    }
    if (!y[0] || !(y[1] = take(x, n, scales, st))) return false;
    const struct qc_node_def product = {.op = QC_OP_Mul, .input_count = 2, .inputs = y, .output_names = &name};
    return (x->real[n->outputs] = qc_lower_add(x, product, base, "scaled", st)) != 0;
}

bool qc_lower_rows(bool *done, struct qc_lowering *x, const struct qc_node *n, struct qc_status *st)
{
    const struct qc_graph *g = x->from;
    const bool moves = moves_rows(g, n);
    const qc_id table = moves ? n->inputs[0] : qc_lower_table_of(x, n);
    *done = table || is_table(x, n); /* nothing is made of the table alone */
    if (!table) return true;
    if (!qc_lower_integer(x, table, st)) return false;
    const qc_id rows = take_rows(x, n, table, st);
    if (!rows) return false;
    if (moves) return (x->integer[n->outputs] = rows) != 0;
    return g->qparams_of[g->values[table].type.qparams].block ? in_blocks(x, n, table, rows, st)
                                                              : by_rows(x, n, table, rows, st);
}
