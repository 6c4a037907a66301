// SPDX-License-Identifier: Apache-2.0
/* Integer inputs that represent real numbers. */
#include "calib/statistics/stream.h"
#include "graph/core/uses.h"

/* Gives the scale and zero point of a dequantizing node. Returns false unless it has one known scale and zero point. */
static bool constant_parameters(float *scale, int32_t *zero_point, const struct qc_graph *g, const struct qc_node *n)
{
    if (n->op == QC_OP_Dequantize) {
        const struct qc_qparams *s = qc_graph_parameters(g, n->inputs[0]);
        if (!s || s->kind != QC_QPARAMS_QUANTIZER || s->count != 1) return false;
        *scale = s->scale[0];
        *zero_point = s->zero_point[0];
        return true;
    }
    const struct qc_tensor *by = qc_constant_of(g, n->inputs[1]), *zero = NULL;
    const bool has_zero = n->input_count > 2 && n->inputs[2];
    if (has_zero) zero = qc_constant_of(g, n->inputs[2]);
    if (!by || by->count != 1 || by->dtype != QC_F32 || (has_zero && (!zero || zero->count != 1))) return false;
    *scale = (float)qc_tensor_float(by, 0);
    *zero_point = zero ? (int32_t)qc_tensor_int(zero, 0) : 0;
    return true;
}

static bool moves_elements(enum qc_op op)
{
    return op == QC_OP_Transpose || op == QC_OP_Reshape || op == QC_OP_Flatten || op == QC_OP_Squeeze ||
           op == QC_OP_Unsqueeze;
}

/* Returns true if all readers of v dequantize it with the same scale and zero point. *scale is 0 before the first
   reader. */
static bool read_as_real(float *scale, int32_t *zero_point, const struct qc_uses *u, qc_id v)
{
    const struct qc_graph *g = u->graph;
    const struct qc_use_list readers = qc_readers(u, v);
    for (size_t i = 0; i < readers.count; i++) {
        const struct qc_node *n = &g->nodes[readers.of[i].node];
        float s;
        int32_t z;
        if (readers.of[i].input != 0) return false;
        if (moves_elements(n->op)) {
            if (!read_as_real(scale, zero_point, u, n->outputs)) return false;
            continue;
        }
        if ((n->op != QC_OP_DequantizeLinear && n->op != QC_OP_Dequantize) || !constant_parameters(&s, &z, g, n) ||
            !(s > 0) || (*scale > 0 && (s != *scale || z != *zero_point)))
            return false;
        *scale = s;
        *zero_point = z;
    }
    return readers.count > 0;
}

bool qc_stream_levels(struct qc_input_spec *specs, const struct qc_graph *g, struct qc_arena *a, struct qc_status *st)
{
    struct qc_uses uses;
    if (!qc_uses_of(&uses, g, a, st)) return false;
    for (size_t i = 0; i < g->input_count; i++) {
        const enum qc_dtype t = specs[i].dtype;
        float scale = 0;
        int32_t zero_point = 0;
        const bool narrow = t == QC_I8 || t == QC_U8 || t == QC_I16 || t == QC_U16;
        if (!narrow || !read_as_real(&scale, &zero_point, &uses, g->inputs[i].value)) continue;
        specs[i].scale = scale;
        specs[i].zero_point = zero_point;
    }
    return true;
}
