// SPDX-License-Identifier: Apache-2.0
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "base/checked.h"
#include "base/scope.h"
#include "export/formats/lowering.h"
#include "graph/core/parameters.h"
#include "graph/core/rebuild.h"
#include "graph/types/number_format.h"

static bool lower_has_zero_points(const struct qc_qparams *s)
{
    for (size_t i = 0; i < s->count; i++)
        if (s->zero_point[i]) return true;
    return false;
}

/* The type of the file: of 2 bits int2. But ONNX Runtime (1.31) makes another matrix of one whose rows do not fill
   bytes, where it fuses product and weight; that stays in 4 bits. int2 needs opset 25. x: NULL if the graph is not
   known. */
static enum qc_dtype type_in_file(const struct qc_lowering *x, const struct qc_qparams *s, const struct qc_shape *shape)
{
    if (s->bits != 2 || (x && x->old) || shape->dim[shape->rank - 1] % 4) return s->dtype;
    return s->dtype == QC_I4 ? QC_I2 : QC_U2;
}

/* Left out they are 0. But where ONNX Runtime rewrites int8 weights (export/formats/unshared.c), it adds one zero point
 * alone to those that have none, and refuses that beside blocks (1.31). */
static bool has_zero_point_input(const struct qc_qparams *s, enum qc_dtype stored)
{
    return stored == QC_I8 || lower_has_zero_points(s);
}

/* The first returns true if a zero point is not 0; the second adds all of them as an initializer. */
static qc_id lower_zero_points(struct qc_lowering *x, const struct qc_qparams *s, enum qc_dtype dtype,
                               const struct qc_shape *shape, struct qc_status *st)
{
    QC_FREED int8_t *zero = malloc(s->count);
    if (!zero) return qc_fail_memory(st, s->count);
    for (size_t i = 0; i < s->count; i++) zero[i] = (int8_t)s->zero_point[i]; /* the same byte for unsigned 8 bits */
    return qc_lower_constant(x, dtype, shape, zero, s->name, "zero_point", st);
}

qc_id qc_lower_in_blocks(const struct qc_graph *g, const struct qc_node *dequantize)
{
    const qc_id v = dequantize && dequantize->op == QC_OP_Dequantize ? dequantize->inputs[0] : 0;
    if (!v || !qc_constant_of(g, v)) return 0;
    const struct qc_type *t = &g->values[v].type;
    return g->qparams_of[t->qparams].block && t->shape.rank == 2 ? v : 0;
}

/* Adds the scales of blocks. A format with a scale of scales stores them as E4M3 and dequantizes them by it. */
static qc_id lower_scales(struct qc_lowering *x, const struct qc_qparams *s, const struct qc_shape *shape,
                          struct qc_status *st)
{
    if (!s->format || s->format->scale != QC_SCALE_FLOAT8)
        return qc_lower_constant(x, QC_F32, shape, s->scale, s->name, "scale", st);
    float largest = 0;
    QC_FREED uint8_t *codes = malloc(s->count);
    if (!codes) return qc_fail_memory(st, s->count);
    for (size_t i = 0; i < s->count; i++) largest = s->scale[i] > largest ? s->scale[i] : largest;
    const float over = fmaxf(largest / (float)qc_dtype_info(QC_F8E4M3)->hi, FLT_MIN); /* as qc_scale_over */
    for (size_t i = 0; i < s->count; i++)
        codes[i] = qc_float_to_small(QC_F8E4M3, (double)(s->scale[i] / over), QC_SMALL_SATURATES, QC_SMALL_NEAREST);
    const qc_id scale = qc_lower_constant(x, QC_F8E4M3, shape, codes, s->name, "scale", st),
                scalar = qc_lower_constant(x, QC_F32, &QC_SCALAR, &over, s->name, "scale_over", st);
    return qc_lower_add(x, *QC_NODE(QC_OP_DequantizeLinear, QC_INPUTS(scale, scalar)), s->name, "scale_dequantized",
                        st);
}

qc_id qc_lower_blocks(struct qc_lowering *x, qc_id v, struct qc_status *st)
{
    const struct qc_type *type = &x->from->values[v].type;
    const struct qc_qparams *s = &x->from->qparams_of[type->qparams];
    const struct qc_shape shape = qc_scale_shape(s, &type->shape, type->axis);
    const enum qc_dtype dtype = type_in_file(x, s, &type->shape);
    const char *base = qc_lower_base(x, v);
    struct qc_tensor *levels = qc_tensor_levels(s->dtype, x->from->values[v].constant, st); /* one byte per element in
                                                                                              memory */
    if (!levels) return 0;
    qc_id inputs[3] = {qc_lower_constant(x, dtype, &type->shape, levels->data, base, "quantized", st),
                       lower_scales(x, s, &shape, st), QC_ABSENT};
    qc_tensor_unref(levels);
    const bool zeros = has_zero_point_input(s, dtype);
    if (zeros) inputs[2] = lower_zero_points(x, s, dtype, &shape, st);
    return qc_lower_add(x,
                        *QC_NODE(QC_OP_DequantizeLinear, .input_count = zeros ? 3 : 2, .inputs = inputs,
                                 QC_ATTRS(QC_INT("axis", type->axis), QC_INT("block_size", s->block))),
                        base, "dequantized", st);
}

size_t qc_export_weight_bytes(const struct qc_qparams *s, const struct qc_shape *shape)
{
    const enum qc_dtype stored = s->block ? type_in_file(NULL, s, shape) : s->dtype;
    const size_t bits = qc_dtype_info(stored)->bits;
    size_t count = 0;
    if (!qc_shape_count(&count, shape)) return 0;
    const size_t scale = s->format && s->format->scale == QC_SCALE_FLOAT8 ? 1 : sizeof *s->scale;
    const size_t zeros = !s->block ? s->count : has_zero_point_input(s, stored) ? (s->count * bits + 7) / 8 : 0;
    return count / 8 * bits + (count % 8 * bits + 7) / 8 + s->count * scale + zeros;
}

/* The bias of a product of more than two dimensions. ONNX Runtime (1.32) fuses a MatMul of fixed shapes and an Add
   of [N] or [1,N] to a float Gemm, which dequantizes the weight in every run. It does not fuse a bias of three
   dimensions, and the product becomes MatMulIntegerToFloat. If the sum is stored, the Gemm becomes a QGemm that stores
   it, which is faster still. */

bool qc_lower_is_bias(const struct qc_lowering *x, const struct qc_node *n, unsigned input)
{
    const struct qc_graph *g = x->from;
    const qc_id reader = n->op == QC_OP_Add ? qc_only_reader(&x->uses, n->outputs) : 0;
    if (n->op != QC_OP_Add || (reader && g->nodes[reader].op == QC_OP_Quantize)) return false;
    const struct qc_tensor *bias = qc_constant_of(g, n->inputs[input]);
    const struct qc_node *d = qc_node_of(g, n->inputs[1 - input]),
                         *product = d && d->op == QC_OP_Dequantize ? qc_node_of(g, d->inputs[0]) : NULL;
    if (!bias || !product || product->op != QC_OP_MatMul || g->values[n->inputs[input]].type.qparams != QC_REAL)
        return false;
    const struct qc_shape *left = &g->values[product->inputs[0]].type.shape,
                          *right = &g->values[product->inputs[1]].type.shape;
    return left->rank > 2 && right->rank == 2 && qc_shape_fixed(left) && bias->shape.rank > 0 && bias->shape.rank < 3 &&
           (int64_t)bias->count == right->dim[1] && bias->shape.dim[bias->shape.rank - 1] == right->dim[1];
}

/* Rows of a weight table that a Gather reads. The integers are gathered first, then dequantized: DequantizeLinear of
   the whole table takes ONNX Runtime (1.31) 600 times as long.

     one scale        DequantizeLinear(Gather(q))
     scale per row    DequantizeLinear(Gather(q), 1, z) * Gather(scales)
                      (DequantizeLinear(Gather(q), 1) - Gather(z)) * Gather(scales) if zero points differ
     blocks           DequantizeLinear(Gather(q), Gather(scales), Gather(z)) with block_size */

static qc_id table_behind(const struct qc_graph *g, const struct qc_node *dequantize)
{
    const qc_id v = dequantize && dequantize->op == QC_OP_Dequantize ? dequantize->inputs[0] : 0;
    const bool table = v && qc_constant_of(g, v) && g->values[v].type.shape.rank == 2;
    return table && !g->qparams_of[g->values[v].type.qparams].at_load ? v : 0;
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

static bool takes_rows(const struct qc_lowering *x, const struct qc_node *n)
{
    return qc_lower_table_of(x, n) != 0;
}

bool qc_lower_all_read(const struct qc_lowering *x, const struct qc_node *n,
                       bool (*reads)(const struct qc_lowering *x, const struct qc_node *reader))
{
    const struct qc_use_list readers = qc_readers(&x->uses, n->outputs);
    size_t i = 0;
    while (i < readers.count && readers.of[i].node && reads(x, &x->from->nodes[readers.of[i].node])) i++;
    return i && i == readers.count;
}

static qc_id add_gathered(struct qc_lowering *x, enum qc_op op, unsigned count, const qc_id *in, const char *base,
                          const char *what, struct qc_status *st)
{
    return qc_lower_add(x, (struct qc_node_def){.op = op, .input_count = count, .inputs = in}, base, what, st);
}

/* Gathers from a constant. */
static qc_id take(struct qc_lowering *x, const struct qc_node *n, qc_id constant, struct qc_status *st)
{
    const qc_id in[2] = {constant, qc_lower_real(x, n->inputs[1], st)};
    return add_gathered(x, QC_OP_Gather, 2, in, x->to->values[constant].name, "rows", st);
}

bool qc_lower_zero_points_differ(const struct qc_qparams *s)
{
    for (size_t i = 1; i < s->count; i++)
        if (s->zero_point[i] != s->zero_point[0]) return true;
    return false;
}

static void by_rows(struct qc_lowering *x, const struct qc_node *n, qc_id table, qc_id rows, struct qc_status *st)
{
    const struct qc_qparams *s = &x->from->qparams_of[x->from->values[table].type.qparams];
    const struct qc_shape column = QC_SHAPE((int64_t)s->count, 1), scalar = QC_SCALAR;
    const enum qc_dtype type = qc_lower_type(s);
    const int32_t common = qc_lower_zero_points_differ(s) ? 0 : s->zero_point[0];
    const float one = 1;
    const char *base = qc_lower_base(x, n->outputs), *name = qc_lower_inner_name(x, n->outputs, st);
    const qc_id in[3] = {rows, qc_lower_constant(x, QC_F32, &scalar, &one, s->name, "unit", st),
                         qc_lower_constant(x, type, &scalar, &common, s->name, "zero_point", st)},
                scales = qc_lower_constant(x, QC_F32, &column, s->scale, s->name, "scale", st);
    qc_id y[2] = {add_gathered(x, QC_OP_DequantizeLinear, 3, in, base, "dequantized", st), 0};
    if (qc_lower_zero_points_differ(s)) {
        QC_FREED float *zero = malloc(s->count * sizeof *zero);
        if (!zero) qc_fail_memory(st, s->count * sizeof *zero);
        for (size_t i = 0; zero && i < s->count; i++) zero[i] = (float)s->zero_point[i];
        y[1] = take(x, n, zero ? qc_lower_constant(x, QC_F32, &column, zero, s->name, "zero_points", st) : 0, st);
        y[0] = add_gathered(x, QC_OP_Sub, 2, y, base, "shifted", st);
    }
    y[1] = take(x, n, scales, st);
    x->real[n->outputs] =
        qc_lower_add(x, *QC_NODE(QC_OP_Mul, QC_INPUTS(y[0], y[1]), QC_RESULT(name)), base, "scaled", st);
}

bool qc_lower_rows(struct qc_lowering *x, const struct qc_node *n, struct qc_status *st)
{
    const struct qc_graph *g = x->from;
    const qc_id qparams = n->op == QC_OP_Gather ? g->values[n->outputs].type.qparams : 0;
    /* The rows of a table with one scale have the same qparams. */
    const bool moves = qparams && g->qparams_of[qparams].is_weight && g->qparams_of[qparams].count == 1 &&
                       g->values[n->inputs[0]].constant;
    const qc_id table = moves ? n->inputs[0] : qc_lower_table_of(x, n);
    if (!table) return table_behind(g, n) && qc_lower_all_read(x, n, takes_rows); /* Nothing is made of it alone. */
    qc_lower_integer(x, table, st);
    /* Gather the integers, with the node itself. */
    const char *name, *node;
    const qc_id from[2] = {x->integer[table], qc_lower_real(x, n->inputs[1], st)};
    qc_lower_fresh_names(&name, &node, x, n->op, qc_lower_base(x, n->outputs), "rows", st);
    const struct qc_node_def with = {.inputs = from, .output_names = &name};
    const qc_id rows = qc_graph_add_like(x->to, x->from, n, &with, st);
    if (moves)
        x->integer[n->outputs] = rows;
    else if (g->qparams_of[g->values[table].type.qparams].block) {
        const struct qc_type *type = &x->from->values[table].type;
        const struct qc_qparams *s = &x->from->qparams_of[type->qparams];
        const struct qc_shape shape = qc_scale_shape(s, &type->shape, type->axis);
        const bool zeros = lower_has_zero_points(s);
        const enum qc_dtype stored = qc_lower_type(s); /* the file has the integers in it */
        const qc_id scales = qc_lower_constant(x, QC_F32, &shape, s->scale, s->name, "scale", st);
        qc_id zero = zeros ? lower_zero_points(x, s, s->dtype, &shape, st) : QC_ABSENT;
        if (zero && stored != s->dtype)
            zero =
                qc_lower_add(x,
                             *QC_NODE(QC_OP_Cast, QC_INPUTS(zero), QC_ATTRS(QC_INT("to", qc_dtype_info(stored)->onnx))),
                             x->to->values[zero].name, "widened", st);
        qc_id in[3] = {rows, take(x, n, scales, st), zeros ? take(x, n, zero, st) : QC_ABSENT};
        x->real[n->outputs] = qc_lower_add(x,
                                           *QC_NODE(QC_OP_DequantizeLinear, .input_count = zeros ? 3 : 2, .inputs = in,
                                                    QC_ATTRS(QC_INT("axis", -1), QC_INT("block_size", s->block)),
                                                    QC_RESULT(qc_lower_inner_name(x, n->outputs, st))),
                                           qc_lower_base(x, n->outputs), "dequantized", st);
    } else
        by_rows(x, n, table, rows, st);
    return true;
}

/* A shuffle of stored channels: Reshape, Transpose, Reshape. ONNX Runtime (1.32) computes integer convolutions with
   channels last. It merges the Transpose after them with that of the shuffle if height and width are separate
   dimensions; the result moves single bytes in five dimensions, 10 times as slow as the two. If these dimensions, which
   the shuffle does not move, are one, both stay and move whole rows. */

static const struct qc_node *only_reader(const struct qc_lowering *x, const struct qc_node *n, enum qc_op op)
{
    const qc_id reader = qc_only_reader(&x->uses, n->outputs);
    const struct qc_node *to = reader ? &x->from->nodes[reader] : NULL;
    return to && to->op == op && to->inputs[0] == n->outputs ? to : NULL;
}

/* Returns the shape input of a Reshape if all of it is known, else NULL. */
static const struct qc_tensor *shape_of(const struct qc_lowering *x, const struct qc_node *n)
{
    const struct qc_tensor *t = qc_constant_of(x->from, n->inputs[1]);
    return t && t->dtype == QC_I64 && t->shape.rank == 1 ? t : NULL;
}

/* Returns the first of two or more last axes that this shuffle does not move, from its first Reshape on; 0: none. */
static size_t merged_axis(const struct qc_lowering *x, const struct qc_node *first)
{
    const int64_t *perm;
    const struct qc_node *turn = only_reader(x, first, QC_OP_Transpose),
                         *last = turn ? only_reader(x, turn, QC_OP_Reshape) : NULL;
    const struct qc_tensor *apart = shape_of(x, first), *joined = last ? shape_of(x, last) : NULL;
    const struct qc_qparams *s = qc_graph_parameters(x->from, first->outputs);
    if (!apart || !joined || turn->attr_count != 1 || !s || s->kind != QC_QPARAMS_QUANTIZER || s->count != 1) return 0;
    const size_t rank = qc_attr_ints(turn, "perm", &perm);
    size_t axis = rank;
    if (rank != apart->count) return 0;
    while (axis > 0 && perm[axis - 1] == (int64_t)axis - 1) axis--;
    if (axis == 0 || axis + 2 > rank) return 0;
    const int64_t *dim = apart->data, *to = joined->data;
    int64_t image = 1;
    for (size_t i = axis; i < rank; i++)
        if (dim[i] <= 0 || !qc_mul_i64(&image, image, dim[i])) return 0;
    for (size_t i = axis; i < joined->count; i++)
        if (to[i] == 0) return 0; /* 0 copies a dimension of the Transpose's result */
    return axis;
}

const struct qc_node *qc_lower_shuffle(struct qc_shuffled *s, struct qc_lowering *x, const struct qc_node *n,
                                       struct qc_status *st)
{
    const struct qc_node *made = n->input_count ? qc_node_of(x->from, n->inputs[0]) : NULL;
    size_t axis = 0;
    s->shape = 0;
    if (n->op == QC_OP_Reshape && (axis = merged_axis(x, n))) {
        const struct qc_tensor *apart = qc_constant_of(x->from, n->inputs[1]);
        const int64_t *from = apart->data;
        int64_t dim[QC_RANK_MAX] = {0};
        for (size_t i = 0; i <= axis; i++) dim[i] = from[i];
        for (size_t i = axis + 1; i < apart->count; i++) dim[axis] *= from[i];
        const struct qc_shape shape = QC_SHAPE((int64_t)axis + 1);
        s->shape = qc_lower_constant(x, QC_I64, &shape, dim, qc_lower_base(x, n->outputs), "shape", st);
        return n;
    }
    if (n->op != QC_OP_Transpose || !made || made->op != QC_OP_Reshape || !(axis = merged_axis(x, made))) return n;
    const int64_t *perm;
    qc_attr_ints(n, "perm", &perm);
    s->node = *n;
    s->attr = QC_INTS("perm", axis + 1, perm);
    s->node.attrs = &s->attr;
    return &s->node;
}
