// SPDX-License-Identifier: Apache-2.0
#include "export/formats/lowering.h"
#include "graph/core/scale_layout.h"

static bool has_zero_points(const struct qc_qparams *s)
{
    for (size_t i = 0; i < s->count; i++)
        if (s->zero_point[i]) return true;
    return false;
}

/* The integers as they are in memory, in the type of the file. */
static qc_id integers(struct qc_lowering *x, qc_id v, struct qc_status *st)
{
    const struct qc_tensor *t = x->from->values[v].constant;
    const struct qc_qparams *s = &x->from->qparams_of[x->from->values[v].type.qparams];
    return qc_lower_constant(x, qc_lower_type(s), &t->shape, t->data, qc_lower_base(x, v), "quantized", st);
}

qc_id qc_lower_blocks(struct qc_lowering *x, qc_id v, struct qc_status *st)
{
    const struct qc_type *type = &x->from->values[v].type;
    const struct qc_qparams *s = &x->from->qparams_of[type->qparams];
    const struct qc_shape shape = qc_scale_shape(s, &type->shape, type->axis);
    const char *name, *node;
    qc_id inputs[3] = {integers(x, v, st)}, p[2];
    if (!inputs[0] || !qc_lower_parameters_shaped(p, x, s, &shape, st) ||
        !qc_lower_fresh_names(&name, &node, x, QC_OP_DequantizeLinear, qc_lower_base(x, v), "dequantized", st))
        return 0;
    const bool zeros = has_zero_points(s); /* left out they are 0 */
    inputs[1] = p[0];
    inputs[2] = zeros ? p[1] : QC_ABSENT;
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
