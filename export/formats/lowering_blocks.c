// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>

#include "export/formats/lowering.h"
#include "graph/core/scale_layout.h"

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
    for (size_t i = 0; i < s->count; i++)
        zero[i] = (int8_t)s->zero_point[i]; /* of 8 bits without a sign the same byte */
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

qc_id qc_lower_blocks(struct qc_lowering *x, qc_id v, struct qc_status *st)
{
    const struct qc_type *type = &x->from->values[v].type;
    const struct qc_qparams *s = &x->from->qparams_of[type->qparams];
    const struct qc_shape shape = qc_scale_shape(s, &type->shape, type->axis);
    const char *name, *node;
    const enum qc_dtype dtype = type_of(s, &type->shape);
    const char *base = qc_lower_base(x, v);
    const void *integers = x->from->values[v].constant->data; /* a byte each in memory, whatever the type */
    qc_id inputs[3] = {qc_lower_constant(x, dtype, &type->shape, integers, base, "quantized", st),
                       qc_lower_constant(x, QC_F32, &shape, s->scale, s->name, "scale", st), QC_ABSENT};
    const bool zeros = has_zero_point_input(s, dtype);
    if (!inputs[0] || !inputs[1] || (zeros && !(inputs[2] = qc_lower_zero_points(x, s, dtype, &shape, st))) ||
        !qc_lower_fresh_names(&name, &node, x, QC_OP_DequantizeLinear, base, "dequantized", st))
        return 0;
    const struct qc_attr attrs[] = {QC_INT("axis", type->axis), QC_INT("block_size", s->block)};
    const struct qc_node_def def = {.op = QC_OP_DequantizeLinear,
                                    .name = node,
                                    .input_count = zeros ? 3 : 2,
                                    .inputs = inputs,
                                    .attr_count = 2,
                                    .attrs = attrs,
                                    .output_names = &name};
    return qc_graph_add(x->to, &def, st);
}

size_t qc_export_weight_bytes(const struct qc_qparams *s, const struct qc_shape *shape)
{
    const enum qc_dtype stored = s->block ? type_of(s, shape) : s->dtype;
    const size_t bits = qc_dtype_info(stored)->bits;
    size_t count = 0;
    if (!qc_shape_count(&count, shape)) return 0;
    const size_t zeros = !s->block ? s->count : has_zero_point_input(s, stored) ? (s->count * bits + 7) / 8 : 0;
    return count / 8 * bits + (count % 8 * bits + 7) / 8 + s->count * sizeof *s->scale + zeros;
}
