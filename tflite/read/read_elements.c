// SPDX-License-Identifier: Apache-2.0
/* Elementwise operators. They are computed in the layout that the inputs have. */
#include "tflite/read/tflite_reading.h"

enum { OPERANDS_MAX = 64 };

/* Gives the real values of all inputs, with axes aligned for broadcasting. */
static bool operands(qc_id in[OPERANDS_MAX], struct qc_tfl_node *n, size_t least, enum qc_tfl_layout layout,
                     struct qc_status *st)
{
    if (n->input_count < least || n->input_count > OPERANDS_MAX)
        return qc_fail(st, QC_BAD_INPUT, "has %zu inputs", n->input_count);
    for (size_t i = 0; i < n->input_count; i++) in[i] = qc_tfl_operand(n, i, layout, st);
    return st->code == QC_OK;
}

static bool variadic(struct qc_tfl_node *n, struct qc_status *st)
{
    qc_id in[OPERANDS_MAX];
    const enum qc_tfl_layout layout = qc_tfl_layout_of(n);
    return operands(in, n, n->op == QC_OP_Where ? 3 : 1, layout, st) &&
           qc_tfl_finish(n, qc_tfl_add(n, n->op, (unsigned)n->input_count, in, n->name, st), layout, st);
}

static bool binary(struct qc_tfl_node *n, struct qc_status *st)
{
    if (n->input_count != 2) return qc_fail(st, QC_BAD_INPUT, "has %zu inputs, expected 2", n->input_count);
    return variadic(n, st);
}

static bool unary(struct qc_tfl_node *n, struct qc_status *st)
{
    if (n->input_count != 1) return qc_fail(st, QC_BAD_INPUT, "has %zu inputs, expected 1", n->input_count);
    return variadic(n, st);
}

/* Adds two operators: the second takes the result of the first, as both inputs in a square. */
static bool two_steps(struct qc_tfl_node *n, struct qc_status *st)
{
    qc_id in[OPERANDS_MAX];
    const enum qc_tfl_layout layout = qc_tfl_layout_of(n);
    const bool square = n->info->code == QC_TFL_OP_SQUARED_DIFFERENCE, root = n->info->code == QC_TFL_OP_RSQRT;
    const unsigned inputs = root ? 1 : 2;
    if (!operands(in, n, inputs, layout, st)) return false;
    in[0] = in[1] = qc_tfl_add(n, root ? QC_OP_Sqrt : n->op, inputs, in, NULL, st);
    const enum qc_op second = root ? QC_OP_Reciprocal : square ? QC_OP_Mul : QC_OP_Not;
    return qc_tfl_define_real(n, 0, qc_tfl_add(n, second, square ? 2 : 1, in, n->name, st), layout, st);
}

/* floor(x / y), and what is left: the result has the sign of y. */
static bool floor_divide(struct qc_tfl_node *n, struct qc_status *st)
{
    const bool rest = n->info->code == QC_TFL_OP_FLOOR_MOD;
    const enum qc_tfl_layout layout = qc_tfl_layout_of(n);
    qc_id in[OPERANDS_MAX], part[2];
    if (n->outputs[0]->quantized) return qc_fail(st, QC_UNSUPPORTED, "its result is quantized");
    if (!operands(in, n, 2, layout, st)) return false;
    const qc_id x = in[0], y = in[1];
    if (qc_dtype_info(n->outputs[0]->dtype)->is_float) { /* x - floor(x / y) * y */
        part[0] = qc_tfl_add(n, QC_OP_Div, 2, in, NULL, st);
        part[0] = qc_tfl_add(n, QC_OP_Floor, 1, part, rest ? NULL : n->name, st);
        if (!rest) return qc_tfl_define_real(n, 0, part[0], layout, st);
        part[1] = y;
        part[1] = qc_tfl_add(n, QC_OP_Mul, 2, part, NULL, st);
        part[0] = x;
        return qc_tfl_define_real(n, 0, qc_tfl_add(n, QC_OP_Sub, 2, part, n->name, st), layout, st);
    }
    part[1] = qc_tfl_add(n, QC_OP_Mod, 2, in, rest ? n->name : NULL, st);
    if (rest) return qc_tfl_define_real(n, 0, part[1], layout, st);
    part[0] = x; /* (x - rest) / y leaves nothing to round */
    in[0] = qc_tfl_add(n, QC_OP_Sub, 2, part, NULL, st);
    return qc_tfl_define_real(n, 0, qc_tfl_add(n, QC_OP_Div, 2, in, n->name, st), layout, st);
}

/* Of the first version of SELECT the condition has the shape of the others, or chooses rows. */
static bool select(struct qc_tfl_node *n, struct qc_status *st)
{
    if (n->input_count == 3 && n->inputs[0] && n->inputs[1] && n->inputs[0]->shape.rank != n->inputs[1]->shape.rank &&
        n->inputs[0]->shape.rank)
        return qc_fail(st, QC_UNSUPPORTED, "its condition chooses rows");
    return variadic(n, st);
}

static bool square(struct qc_tfl_node *n, struct qc_status *st)
{
    const enum qc_tfl_layout layout = qc_tfl_layout_of(n);
    const qc_id x = qc_tfl_operand(n, 0, layout, st), in[2] = {x, x};
    return qc_tfl_define_real(n, 0, qc_tfl_add(n, QC_OP_Mul, 2, in, n->name, st), layout, st);
}

static bool leaky_relu_or_gelu(struct qc_tfl_node *n, struct qc_status *st)
{
    const float alpha = n->op == QC_OP_LeakyRelu ? qc_tfl_option_float(n, "alpha") : 0.01F;
    const enum qc_tfl_layout layout = qc_tfl_layout_of(n);
    const qc_id x = qc_tfl_operand(n, 0, layout, st);
    if (alpha < 0.01F || alpha > 0.01F) qc_tfl_attr(n, QC_FLOAT("alpha", alpha));
    if (n->op == QC_OP_Gelu && qc_tfl_option(n, "approximate")) qc_tfl_attr(n, QC_STRING("approximate", "tanh"));
    return qc_tfl_define_real(n, 0, qc_tfl_add(n, n->op, 1, &x, n->name, st), layout, st);
}

static bool clip(struct qc_tfl_node *n, struct qc_status *st)
{
    const int code = n->info->code;
    const enum qc_tfl_layout layout = qc_tfl_layout_of(n);
    const qc_id in[3] = {qc_tfl_operand(n, 0, layout, st),
                         qc_tfl_number(n, code == QC_TFL_OP_RELU_N1_TO_1 ? -1 : 0, st),
                         qc_tfl_number(n, code == QC_TFL_OP_RELU6 ? 6 : 1, st)};
    return qc_tfl_define_real(n, 0, qc_tfl_add(n, QC_OP_Clip, 3, in, n->name, st), layout, st);
}

/* QUANTIZE and DEQUANTIZE: the qparams of the tensors define the operation. DENSIFY: its constant is dense already.
 */
static bool convert(struct qc_tfl_node *n, struct qc_status *st)
{
    struct qc_tfl_value *x = qc_tfl_input(n, 0, st);
    const enum qc_tfl_layout layout = qc_tfl_layout_of(n);
    if (!x) return false;
    if (n->info->code == QC_TFL_OP_DENSIFY && !x->data) return qc_fail(st, QC_UNSUPPORTED, "what it takes is computed");
    if (n->info->code == QC_TFL_OP_DEQUANTIZE && !x->quantized && x->dtype != QC_F16 && x->dtype != QC_F32)
        return qc_fail(st, QC_BAD_INPUT, "tensor '%.200s' has no scale", x->name);
    /* A constant that is dequantized or densified stays a constant, so that weights are transposed on import. */
    if (n->info->code != QC_TFL_OP_QUANTIZE && x->data && x->dtype != QC_NONE) return qc_tfl_alias(n, x, st);
    qc_id id = qc_tfl_real(n, x, layout, st);
    if (!n->outputs[0]->quantized) id = qc_tfl_cast(n, id, n->outputs[0]->dtype, st);
    return qc_tfl_define_real(n, 0, id, layout, st);
}

static bool cast(struct qc_tfl_node *n, struct qc_status *st)
{
    struct qc_tfl_value *x = qc_tfl_input(n, 0, st);
    if (x && (x->complex || n->outputs[0]->complex)) {
        n->op = QC_OP_Gather;
        return qc_tfl_complex_part(n, st);
    }
    const enum qc_tfl_layout layout = qc_tfl_layout_of(n);
    const qc_id id = qc_tfl_stored(n, x, layout, st);
    if (n->outputs[0]->dtype == QC_NONE)
        return qc_fail(st, QC_UNSUPPORTED, "its result has a type that is not handled");
    return qc_tfl_define_stored(n, 0, qc_tfl_cast(n, id, n->outputs[0]->dtype, st), layout, st);
}

const struct qc_tfl_row qc_tfl_element_rows[] = {
    {QC_TFL_OP_ADD, binary, QC_OP_Add},
    {QC_TFL_OP_SUB, binary, QC_OP_Sub},
    {QC_TFL_OP_MUL, binary, QC_OP_Mul},
    {QC_TFL_OP_DIV, binary, QC_OP_Div},
    {QC_TFL_OP_POW, binary, QC_OP_Pow},
    {QC_TFL_OP_MAXIMUM, binary, QC_OP_Max},
    {QC_TFL_OP_MINIMUM, binary, QC_OP_Min},
    {QC_TFL_OP_PRELU, binary, QC_OP_PRelu},
    {QC_TFL_OP_LOGICAL_AND, binary, QC_OP_And},
    {QC_TFL_OP_LOGICAL_OR, binary, QC_OP_Or},
    {QC_TFL_OP_EQUAL, binary, QC_OP_Equal},
    {QC_TFL_OP_GREATER, binary, QC_OP_Greater},
    {QC_TFL_OP_GREATER_EQUAL, binary, QC_OP_GreaterOrEqual},
    {QC_TFL_OP_LESS, binary, QC_OP_Less},
    {QC_TFL_OP_LESS_EQUAL, binary, QC_OP_LessOrEqual},
    {QC_TFL_OP_NOT_EQUAL, two_steps, QC_OP_Equal},
    {QC_TFL_OP_ADD_N, variadic, QC_OP_Sum},
    {QC_TFL_OP_SELECT, select, QC_OP_Where},
    {QC_TFL_OP_SELECT_V2, variadic, QC_OP_Where},
    {QC_TFL_OP_FLOOR_DIV, floor_divide, QC_OP_Div},
    {QC_TFL_OP_FLOOR_MOD, floor_divide, QC_OP_Mod},
    {QC_TFL_OP_SQUARED_DIFFERENCE, two_steps, QC_OP_Sub},
    {QC_TFL_OP_SQUARE, square, QC_OP_Mul},
    {QC_TFL_OP_ABS, unary, QC_OP_Abs},
    {QC_TFL_OP_NEG, unary, QC_OP_Neg},
    {QC_TFL_OP_SIGN, unary, QC_OP_Sign},
    {QC_TFL_OP_EXP, unary, QC_OP_Exp},
    {QC_TFL_OP_LOG, unary, QC_OP_Log},
    {QC_TFL_OP_SQRT, unary, QC_OP_Sqrt},
    {QC_TFL_OP_RSQRT, two_steps, QC_OP_Reciprocal},
    {QC_TFL_OP_SIN, unary, QC_OP_Sin},
    {QC_TFL_OP_COS, unary, QC_OP_Cos},
    {QC_TFL_OP_FLOOR, unary, QC_OP_Floor},
    {QC_TFL_OP_CEIL, unary, QC_OP_Ceil},
    {QC_TFL_OP_ROUND, unary, QC_OP_Round},
    {QC_TFL_OP_ELU, unary, QC_OP_Elu},
    {QC_TFL_OP_LOGISTIC, unary, QC_OP_Sigmoid},
    {QC_TFL_OP_TANH, unary, QC_OP_Tanh},
    {QC_TFL_OP_HARD_SWISH, unary, QC_OP_HardSwish},
    {QC_TFL_OP_LOGICAL_NOT, unary, QC_OP_Not},
    {QC_TFL_OP_LEAKY_RELU, leaky_relu_or_gelu, QC_OP_LeakyRelu},
    {QC_TFL_OP_GELU, leaky_relu_or_gelu, QC_OP_Gelu},
    {QC_TFL_OP_RELU, unary, QC_OP_Relu},
    {QC_TFL_OP_RELU6, clip, QC_OP_Clip},
    {QC_TFL_OP_RELU_N1_TO_1, clip, QC_OP_Clip},
    {QC_TFL_OP_RELU_0_TO_1, clip, QC_OP_Clip},
    {QC_TFL_OP_QUANTIZE, convert, QC_OP_QuantizeLinear},
    {QC_TFL_OP_DEQUANTIZE, convert, QC_OP_DequantizeLinear},
    {QC_TFL_OP_DENSIFY, convert, QC_OP_DequantizeLinear},
    {QC_TFL_OP_CAST, cast, QC_OP_Cast},
    {.form = NULL},
};
