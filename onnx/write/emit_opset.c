// SPDX-License-Identifier: Apache-2.0
/* Finds the opset that has all operators, attributes and types of a graph. */
#include <string.h>

#include "graph/core/recurrent.h"
#include "graph/types/small_float.h"
#include "onnx/write/emit.h"

enum { LOWEST = 13 };

/* Operators newer than opset 13. */
static const struct {
    enum qc_op op;
    int opset;
} young[] = {
    {QC_OP_HardSwish, 14},
    {QC_OP_LayerNormalization, 17},
    {QC_OP_Mish, 18},
    {QC_OP_Gelu, 20},
    {QC_OP_BitCast, 26},
    {QC_OP_BitwiseAnd, 18},
    {QC_OP_BitwiseNot, 18},
    {QC_OP_BitwiseOr, 18},
    {QC_OP_BitwiseXor, 18},
    {QC_OP_Col2Im, 18},
    {QC_OP_CumProd, 26},
    {QC_OP_DeformConv, 19},
    {QC_OP_DFT, 20},
    {QC_OP_GridSample, 20},
    {QC_OP_MelWeightMatrix, 17},
    {QC_OP_RoiAlign, 16},
    {QC_OP_STFT, 17},
    {QC_OP_TensorScatter, 24},
    {QC_OP_RoundInBlocks, 21},
    {QC_OP_Trilu, 14},
};

static bool is_small_int(enum qc_dtype t)
{
    return t == QC_U8 || t == QC_I8 || t == QC_U16 || t == QC_I16;
}

static int larger(int a, int b)
{
    return a > b ? a : b;
}

static enum qc_dtype dtype_of(const struct qc_graph *g, qc_id v)
{
    return v ? g->values[v].type.dtype : QC_NONE;
}

static int reduction_opset(const struct qc_node *n)
{
    const char *reduction = qc_attr_string(n, "reduction", "none");
    if (strcmp(reduction, "none") == 0) return LOWEST;
    return strcmp(reduction, "add") == 0 || strcmp(reduction, "mul") == 0 ? 16 : 18;
}

/* Returns the opset that attributes and types of a node need, beyond the op itself. */
static int feature_opset(const struct qc_graph *g, const struct qc_node *n)
{
    int opset = LOWEST;
    const enum qc_dtype in = n->input_count ? dtype_of(g, n->inputs[0]) : QC_NONE, out = dtype_of(g, n->outputs);
    const bool integer = in != QC_NONE && !qc_dtype_info(in)->is_float;
    if (n->op == QC_OP_QuantizeLinear || n->op == QC_OP_DequantizeLinear) {
        const enum qc_dtype stored = n->op == QC_OP_QuantizeLinear ? out : in;
        if (stored == QC_U16 || stored == QC_I16 || qc_attr_int(n, "block_size", 0))
            opset = 21;
        else if (n->input_count > 1 && dtype_of(g, n->inputs[1]) != QC_F32)
            opset = 19;
    }
    const bool reduces = strncmp(qc_op_info(n->op)->name, "Reduce", 6) == 0 && n->op != QC_OP_ReduceSum;
    if (reduces && (n->input_count > 1 || qc_attr_int(n, "noop_with_empty_axes", 0))) opset = 18;
    if (n->op == QC_OP_Resize &&
        (qc_attr_find(n, "axes") || qc_attr_find(n, "antialias") || qc_attr_find(n, "keep_aspect_ratio_policy")))
        opset = 18;
    if (n->op == QC_OP_Relu && integer) opset = 14;
    if (n->op == QC_OP_ScatterElements || n->op == QC_OP_ScatterND) opset = reduction_opset(n);
    if (n->op == QC_OP_Mod && !integer && !qc_attr_int(n, "fmod", 0)) opset = 28;
    if (n->op == QC_OP_BitShift && qc_dtype_info(in)->is_signed) opset = 28;
    if ((n->op == QC_OP_Add || n->op == QC_OP_Sub || n->op == QC_OP_Mul || n->op == QC_OP_Div) && is_small_int(in))
        opset = 14;
    if (qc_is_recurrent(n->op) && qc_attr_int(n, "layout", 0)) opset = 14;
    if (n->op == QC_OP_Reshape && qc_attr_int(n, "allowzero", 0)) opset = 14;
    if (n->op == QC_OP_Pad && strcmp(qc_attr_string(n, "mode", ""), "wrap") == 0) opset = 19;
    if (n->op == QC_OP_AveragePool && qc_attr_find(n, "dilations")) opset = 19;
    if (n->op == QC_OP_Resize &&
        strcmp(qc_attr_string(n, "coordinate_transformation_mode", ""), "half_pixel_symmetric") == 0)
        opset = 19;
    if ((n->op == QC_OP_ReduceMax || n->op == QC_OP_ReduceMin) && in == QC_BOOL) opset = 20;
    if (n->op == QC_OP_QLinearMatMul && dtype_of(g, n->inputs[1]) != QC_F32) opset = 21;
    return opset;
}

/* Returns the first opset with the type. */
static int type_opset(enum qc_dtype t)
{
    if (t == QC_U2 || t == QC_I2) return 25;
    if (t == QC_F8E8M0) return 24;
    if (t == QC_F4E2M1) return 23;
    if (t == QC_U4 || t == QC_I4) return 21;
    return qc_is_small_float(t) ? 19 : LOWEST;
}

int qc_onnx_emit_opset(const struct qc_graph *g, const struct qc_onnx_emit_options *options)
{
    int opset = larger(LOWEST, g->opset);
    if (options) opset = larger(opset, options->opset_min);
    if (g->carried) opset = larger(opset, g->carried->opset);
    for (size_t i = 1; i <= g->node_count; i++) {
        const struct qc_node *n = &g->nodes[i];
        for (size_t k = 0; k < sizeof young / sizeof *young; k++)
            if (n->op == young[k].op) opset = larger(opset, young[k].opset);
        opset = larger(opset, feature_opset(g, n));
        for (unsigned k = 0; k < n->attr_count; k++) /* a body has the opset of the model that it came from */
            if (n->attrs[k].kind == QC_ATTR_GRAPH) opset = larger(opset, qc_onnx_emit_opset(n->attrs[k].graph, NULL));
    }
    for (size_t v = 1; v <= g->value_count; v++) opset = larger(opset, type_opset(g->values[v].type.dtype));
    return opset;
}
