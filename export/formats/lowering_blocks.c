// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>

#include "export/formats/lowering.h"
#include "graph/core/scale_layout.h"
#include "graph/types/small_float.h"

bool qc_lower_has_zero_points(const struct qc_qparams *s)
{
    for (size_t i = 0; i < s->count; i++)
        if (s->zero_point[i]) return true;
    return false;
}

/* The type of the file: of 2 bits int2. But ONNX Runtime (1.31) makes another matrix of one whose rows do not fill
   bytes, where it fuses product and weight; that stays in 4 bits. */
static enum qc_dtype type_of(const struct qc_qparams *s, const struct qc_shape *shape)
{
    if (s->bits != 2 || shape->dim[shape->rank - 1] % 4) return s->dtype;
    return s->dtype == QC_I4 ? QC_I2 : QC_U2;
}

/* Left out they are 0. But where ONNX Runtime rewrites int8 weights (export/formats/unshared.c), it adds one zero point
 * alone to those that have none, and refuses that beside blocks (1.31). */
static bool has_zero_point_input(const struct qc_qparams *s, enum qc_dtype stored)
{
    return stored == QC_I8 || qc_lower_has_zero_points(s);
}

qc_id qc_lower_zero_points(struct qc_lowering *x, const struct qc_qparams *s, enum qc_dtype dtype,
                           const struct qc_shape *shape, struct qc_status *st)
{
    int8_t *zero = malloc(s->count);
    if (!zero) return qc_fail_memory(st, s->count);
    for (size_t i = 0; i < s->count; i++) zero[i] = (int8_t)s->zero_point[i]; /* the same byte for unsigned 8 bits */
    const qc_id v = qc_lower_constant(x, dtype, shape, zero, s->name, "zero_point", st);
    free(zero);
    return v;
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
    const struct qc_shape scalar = QC_SCALAR;
    float largest = 0;
    uint8_t *codes = malloc(s->count);
    if (!codes) return qc_fail_memory(st, s->count);
    for (size_t i = 0; i < s->count; i++) largest = s->scale[i] > largest ? s->scale[i] : largest;
    const float over = largest / (float)qc_dtype_info(QC_F8E4M3)->hi;
    for (size_t i = 0; i < s->count; i++)
        codes[i] = qc_float_to_small(QC_F8E4M3, (double)(s->scale[i] / over), QC_SMALL_SATURATES, QC_SMALL_NEAREST);
    const qc_id inputs[] = {qc_lower_constant(x, QC_F8E4M3, shape, codes, s->name, "scale", st),
                            qc_lower_constant(x, QC_F32, &scalar, &over, s->name, "scale_over", st)};
    free(codes);
    if (!inputs[0] || !inputs[1]) return 0;
    const struct qc_node_def def = {.op = QC_OP_DequantizeLinear, .input_count = 2, .inputs = inputs};
    return qc_lower_add(x, def, s->name, "scale_dequantized", st);
}

qc_id qc_lower_blocks(struct qc_lowering *x, qc_id v, struct qc_status *st)
{
    const struct qc_type *type = &x->from->values[v].type;
    const struct qc_qparams *s = &x->from->qparams_of[type->qparams];
    const struct qc_shape shape = qc_scale_shape(s, &type->shape, type->axis);
    const enum qc_dtype dtype = type_of(s, &type->shape);
    const char *base = qc_lower_base(x, v);
    struct qc_tensor *levels = qc_lower_levels(s->dtype, x->from->values[v].constant, st); /* one byte per element in
                                                                                              memory */
    if (!levels) return 0;
    qc_id inputs[3] = {qc_lower_constant(x, dtype, &type->shape, levels->data, base, "quantized", st),
                       lower_scales(x, s, &shape, st), QC_ABSENT};
    qc_tensor_unref(levels);
    const bool zeros = has_zero_point_input(s, dtype);
    if (!inputs[0] || !inputs[1] || (zeros && !(inputs[2] = qc_lower_zero_points(x, s, dtype, &shape, st)))) return 0;
    const struct qc_attr attrs[] = {QC_INT("axis", type->axis), QC_INT("block_size", s->block)};
    const struct qc_node_def def = {
        .op = QC_OP_DequantizeLinear, .input_count = zeros ? 3 : 2, .inputs = inputs, .attr_count = 2, .attrs = attrs};
    return qc_lower_add(x, def, base, "dequantized", st);
}

size_t qc_export_weight_bytes(const struct qc_qparams *s, const struct qc_shape *shape)
{
    const enum qc_dtype stored = s->block ? type_of(s, shape) : s->dtype;
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

/* Returns the integer product whose dequantized result v is, or NULL. */
static const struct qc_node *product_behind(const struct qc_graph *g, qc_id v)
{
    const struct qc_node *d = qc_node_of(g, v),
                         *n = d && d->op == QC_OP_Dequantize ? qc_node_of(g, d->inputs[0]) : NULL;
    return n && n->op == QC_OP_MatMul ? n : NULL;
}

static bool is_stored(const struct qc_lowering *x, qc_id v)
{
    const qc_id reader = qc_only_reader(&x->uses, v);
    return reader && x->from->nodes[reader].op == QC_OP_Quantize;
}

bool qc_lower_is_bias(const struct qc_lowering *x, const struct qc_node *n, unsigned input)
{
    const struct qc_graph *g = x->from;
    if (n->op != QC_OP_Add || is_stored(x, n->outputs)) return false;
    const struct qc_tensor *bias = qc_constant_of(g, n->inputs[input]);
    const struct qc_node *product = product_behind(g, n->inputs[1 - input]);
    if (!bias || !product || g->values[n->inputs[input]].type.qparams != QC_REAL) return false;
    const struct qc_shape *left = &g->values[product->inputs[0]].type.shape,
                          *right = &g->values[product->inputs[1]].type.shape;
    return left->rank > 2 && right->rank == 2 && qc_shape_fixed(left) && bias->shape.rank > 0 && bias->shape.rank < 3 &&
           (int64_t)bias->count == right->dim[1] && bias->shape.dim[bias->shape.rank - 1] == right->dim[1];
}

qc_id qc_lower_bias(struct qc_lowering *x, qc_id v, struct qc_status *st)
{
    const struct qc_value *value = &x->from->values[v];
    const struct qc_shape shape = QC_SHAPE(1, 1, (int64_t)value->constant->count);
    struct qc_tensor *t = qc_tensor_of(value->constant->dtype, &shape, value->constant->data, st);
    const qc_id id = t ? qc_graph_add_constant(x->to, value->name, t, st) : 0;
    qc_tensor_unref(t);
    return id;
}
