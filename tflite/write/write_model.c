// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "base/words.h"
#include "graph/core/rebuild.h"
#include "graph/core/recurrent.h"
#include "tflite/write/tflite_export.h"
#include "tflite/write/tflite_writing.h"

const struct qc_tfl_write_row *qc_tfl_write_row(enum qc_op op)
{
    static const struct qc_tfl_write_row table[QC_OP_COUNT] = {
        [QC_OP_Conv] = {.writes = qc_tfl_write_product, .order = QC_TFL_LAST_ONLY},
        [QC_OP_ConvTranspose] = {.writes = qc_tfl_write_product, .order = QC_TFL_LAST_ONLY},
        [QC_OP_Gemm] = {.writes = qc_tfl_write_product},
        [QC_OP_MatMul] = {.writes = qc_tfl_write_product},
        [QC_OP_MatMulInteger] = {.writes = qc_tfl_write_dynamic},
        [QC_OP_DynamicQuantizeLinear] = {.writes = qc_tfl_write_nothing},
        [QC_OP_Requantize] = {.writes = qc_tfl_write_requantize, .order = QC_TFL_ANY},
        [QC_OP_Quantize] = {.writes = qc_tfl_write_convert, .order = QC_TFL_ANY},
        [QC_OP_Dequantize] = {.writes = qc_tfl_write_convert, .order = QC_TFL_ANY},
        [QC_OP_QuantizeLinear] = {.writes = qc_tfl_write_linear, .order = QC_TFL_ANY},
        [QC_OP_DequantizeLinear] = {.writes = qc_tfl_write_linear, .order = QC_TFL_ANY},
        [QC_OP_Relu] = {.writes = qc_tfl_write_clamp, .order = QC_TFL_ANY},
        [QC_OP_Clip] = {.writes = qc_tfl_write_clamp, .order = QC_TFL_ANY},
        [QC_OP_MaxPool] = {.writes = qc_tfl_write_pool, .order = QC_TFL_LAST_ONLY},
        [QC_OP_AveragePool] = {.writes = qc_tfl_write_pool, .order = QC_TFL_LAST_ONLY},
        [QC_OP_GlobalAveragePool] = {.writes = qc_tfl_write_pool, .order = QC_TFL_LAST_ONLY},
        [QC_OP_GlobalMaxPool] = {.writes = qc_tfl_write_pool, .order = QC_TFL_LAST_ONLY},
        [QC_OP_ReduceMean] = {.writes = qc_tfl_write_mean, .code = QC_TFL_OP_MEAN},
        [QC_OP_ReduceMax] = {.writes = qc_tfl_write_mean, .code = QC_TFL_OP_REDUCE_MAX},
        [QC_OP_ReduceSum] = {.writes = qc_tfl_write_mean, .code = QC_TFL_OP_SUM},
        [QC_OP_Add] = {.writes = qc_tfl_write_binary, .order = QC_TFL_ANY, .code = QC_TFL_OP_ADD, .integers = true},
        [QC_OP_Sub] = {.writes = qc_tfl_write_binary, .order = QC_TFL_ANY, .code = QC_TFL_OP_SUB, .integers = true},
        [QC_OP_Mul] = {.writes = qc_tfl_write_binary, .order = QC_TFL_ANY, .code = QC_TFL_OP_MUL, .integers = true},
        [QC_OP_Div] = {.writes = qc_tfl_write_binary, .order = QC_TFL_ANY, .code = QC_TFL_OP_DIV},
        [QC_OP_Pow] = {.writes = qc_tfl_write_binary, .order = QC_TFL_ANY, .code = QC_TFL_OP_POW},
        [QC_OP_Max] = {.writes = qc_tfl_write_binary, .order = QC_TFL_ANY, .code = QC_TFL_OP_MAXIMUM},
        [QC_OP_Min] = {.writes = qc_tfl_write_binary, .order = QC_TFL_ANY, .code = QC_TFL_OP_MINIMUM},
        [QC_OP_PRelu] = {.writes = qc_tfl_write_binary, .order = QC_TFL_ANY, .code = QC_TFL_OP_PRELU},
        [QC_OP_LeakyRelu] = {.writes = qc_tfl_write_unary, .code = QC_TFL_OP_LEAKY_RELU, .integers = true},
        [QC_OP_Sigmoid] = {.writes = qc_tfl_write_unary, .code = QC_TFL_OP_LOGISTIC},
        [QC_OP_Tanh] = {.writes = qc_tfl_write_unary, .code = QC_TFL_OP_TANH},
        [QC_OP_HardSwish] = {.writes = qc_tfl_write_unary, .code = QC_TFL_OP_HARD_SWISH, .integers = true},
        [QC_OP_Elu] = {.writes = qc_tfl_write_unary, .code = QC_TFL_OP_ELU},
        [QC_OP_Exp] = {.writes = qc_tfl_write_unary, .code = QC_TFL_OP_EXP},
        [QC_OP_Log] = {.writes = qc_tfl_write_unary, .code = QC_TFL_OP_LOG},
        [QC_OP_Sqrt] = {.writes = qc_tfl_write_unary, .code = QC_TFL_OP_SQRT},
        [QC_OP_Sin] = {.writes = qc_tfl_write_unary, .code = QC_TFL_OP_SIN},
        [QC_OP_Cos] = {.writes = qc_tfl_write_unary, .code = QC_TFL_OP_COS},
        [QC_OP_Floor] = {.writes = qc_tfl_write_unary, .code = QC_TFL_OP_FLOOR},
        [QC_OP_Ceil] = {.writes = qc_tfl_write_unary, .code = QC_TFL_OP_CEIL},
        [QC_OP_Round] = {.writes = qc_tfl_write_unary, .code = QC_TFL_OP_ROUND},
        [QC_OP_Abs] = {.writes = qc_tfl_write_unary, .order = QC_TFL_ANY, .code = QC_TFL_OP_ABS},
        [QC_OP_Neg] = {.writes = qc_tfl_write_unary, .order = QC_TFL_ANY, .code = QC_TFL_OP_NEG},
        [QC_OP_Gelu] = {.writes = qc_tfl_write_unary, .order = QC_TFL_ANY, .code = QC_TFL_OP_GELU},
        [QC_OP_Erf] = {.writes = qc_tfl_write_erf},
        [QC_OP_LayerNormalization] = {.writes = qc_tfl_write_layer_norm},
        [QC_OP_InstanceNormalization] = {.writes = qc_tfl_write_instance_norm, .order = QC_TFL_ANY},
        [QC_OP_BatchNormalization] = {.writes = qc_tfl_write_batch_norm, .order = QC_TFL_ANY},
        [QC_OP_Reciprocal] = {.writes = qc_tfl_write_composed},
        [QC_OP_IsNaN] = {.writes = qc_tfl_write_composed, .order = QC_TFL_ANY},
        [QC_OP_HardSigmoid] = {.writes = qc_tfl_write_composed},
        [QC_OP_Softplus] = {.writes = qc_tfl_write_composed},
        [QC_OP_Shape] = {.writes = qc_tfl_write_sizes},
        [QC_OP_ConstantOfShape] = {.writes = qc_tfl_write_fill},
        [QC_OP_Expand] = {.writes = qc_tfl_write_repeat, .order = QC_TFL_ANY},
        [QC_OP_Tile] = {.writes = qc_tfl_write_repeat, .order = QC_TFL_ANY},
        [QC_OP_ReduceMin] = {.writes = qc_tfl_write_mean, .code = QC_TFL_OP_REDUCE_MIN},
        [QC_OP_ReduceProd] = {.writes = qc_tfl_write_mean, .code = QC_TFL_OP_REDUCE_PROD},
        [QC_OP_Sign] = {.writes = qc_tfl_write_unary, .order = QC_TFL_ANY, .code = QC_TFL_OP_SIGN},
        [QC_OP_Equal] = {.writes = qc_tfl_write_compare, .order = QC_TFL_ANY, .code = QC_TFL_OP_EQUAL},
        [QC_OP_Greater] = {.writes = qc_tfl_write_compare, .order = QC_TFL_ANY, .code = QC_TFL_OP_GREATER},
        [QC_OP_GreaterOrEqual] = {.writes = qc_tfl_write_compare, .order = QC_TFL_ANY, .code = QC_TFL_OP_GREATER_EQUAL},
        [QC_OP_Less] = {.writes = qc_tfl_write_compare, .order = QC_TFL_ANY, .code = QC_TFL_OP_LESS},
        [QC_OP_LessOrEqual] = {.writes = qc_tfl_write_compare, .order = QC_TFL_ANY, .code = QC_TFL_OP_LESS_EQUAL},
        [QC_OP_And] = {.writes = qc_tfl_write_compare, .order = QC_TFL_ANY, .code = QC_TFL_OP_LOGICAL_AND},
        [QC_OP_Or] = {.writes = qc_tfl_write_compare, .order = QC_TFL_ANY, .code = QC_TFL_OP_LOGICAL_OR},
        [QC_OP_Not] = {.writes = qc_tfl_write_compare, .order = QC_TFL_ANY, .code = QC_TFL_OP_LOGICAL_NOT},
        [QC_OP_Where] = {.writes = qc_tfl_write_compare, .order = QC_TFL_ANY, .code = QC_TFL_OP_SELECT_V2},
        [QC_OP_Cast] = {.writes = qc_tfl_write_cast, .order = QC_TFL_ANY},
        [QC_OP_Gather] = {.writes = qc_tfl_write_gather},
        [QC_OP_Softmax] = {.writes = qc_tfl_write_softmax, .code = QC_TFL_OP_SOFTMAX},
        [QC_OP_LogSoftmax] = {.writes = qc_tfl_write_softmax, .code = QC_TFL_OP_LOG_SOFTMAX},
        [QC_OP_ReduceL1] = {.writes = qc_tfl_write_reduced},
        [QC_OP_ReduceL2] = {.writes = qc_tfl_write_reduced},
        [QC_OP_ReduceSumSquare] = {.writes = qc_tfl_write_reduced},
        [QC_OP_ReduceLogSumExp] = {.writes = qc_tfl_write_reduced},
        [QC_OP_LpNormalization] = {.writes = qc_tfl_write_reduced},
        [QC_OP_ArgMax] = {.writes = qc_tfl_write_arg, .code = QC_TFL_OP_ARG_MAX},
        [QC_OP_ArgMin] = {.writes = qc_tfl_write_arg, .code = QC_TFL_OP_ARG_MIN},
        [QC_OP_TopK] = {.writes = qc_tfl_write_topk},
        [QC_OP_GatherElements] = {.writes = qc_tfl_write_gather_elements},
        [QC_OP_Concat] = {.writes = qc_tfl_write_concat, .order = QC_TFL_ANY},
        [QC_OP_Reshape] = {.writes = qc_tfl_write_shape},
        [QC_OP_Flatten] = {.writes = qc_tfl_write_shape},
        [QC_OP_Squeeze] = {.writes = qc_tfl_write_shape},
        [QC_OP_Unsqueeze] = {.writes = qc_tfl_write_shape},
        [QC_OP_Transpose] = {.writes = qc_tfl_write_transpose},
        [QC_OP_Slice] = {.writes = qc_tfl_write_slice, .order = QC_TFL_ANY},
        [QC_OP_Split] = {.writes = qc_tfl_write_split, .order = QC_TFL_ANY},
        [QC_OP_Pad] = {.writes = qc_tfl_write_pad, .order = QC_TFL_ANY},
        [QC_OP_Resize] = {.writes = qc_tfl_write_resize, .order = QC_TFL_LAST_ONLY},
        [QC_OP_DepthToSpace] = {.writes = qc_tfl_write_depth, .order = QC_TFL_LAST_ONLY},
        [QC_OP_SpaceToDepth] = {.writes = qc_tfl_write_depth, .order = QC_TFL_LAST_ONLY},
    };
    return &table[op];
}

/* --- Unsupported types and operators --- */

static bool check_type(struct qc_tfl_writer *w, const struct qc_node *n, qc_id v)
{
    const struct qc_qparams *s = qc_graph_parameters(w->g, v);
    char label[QC_LABEL];
    const char *name = qc_value_label(label, w->g, v);
    const enum qc_dtype type = w->g->values[v].type.dtype;
    if (s && s->kind == QC_QPARAMS_PRODUCT) return true;
    if (s && type != QC_I8 && type != QC_I16)
        return qc_tfl_out_refuse(w, n, "'%s' is stored as %s: --activation-type int8", name, qc_dtype_long_name(type));
    if (s && s->count > 1 && w->g->values[v].kind != QC_VALUE_CONSTANT)
        return qc_tfl_out_refuse(w, n, "'%s' has a scale per channel: --per-channel=weights", name);
    if (s && type == QC_I16 && s->count == 1 && s->zero_point[0] != 0)
        return qc_tfl_out_refuse(w, n, "'%s' has 16 bits and a zero point: --symmetric", name);
    if (!s && (qc_tfl_type_of(type) < 0 || (qc_dtype_info(type)->is_float && type != QC_F32)))
        return qc_tfl_out_refuse(w, n, "'%s' has the type %s", name, qc_dtype_long_name(type));
    if (w->g->values[v].type.shape.rank < 0) return qc_tfl_out_refuse(w, n, "'%s' has no fixed rank", name);
    return true;
}

static bool write_nodes(struct qc_tfl_writer *w)
{
    const struct qc_graph *g = w->g;
    if (g->carried) qc_tfl_out_refuse(w, NULL, "operators that qcalib carries through unchanged");
    QC_EACH_NODE(n, g) {
        const size_t refused = w->refused_count;
        for (unsigned k = 0; k < n->output_count; k++)
            if (!check_type(w, n, n->outputs + k)) return false;
        if (w->done[n->id] || refused != w->refused_count) continue;
        qc_tfl_writes *writes = qc_tfl_write_row(n->op)->writes;
        const char *why = qc_is_recurrent(n->op)
                              ? "only 1 to 256 known steps in float32 are written, without lengths, peepholes, clip, "
                                "input_forget, layout 1 and activations of its own"
                              : "this operator is not written";
        if (!(writes ? writes(w, n) : qc_tfl_out_refuse(w, n, "%s", why)) || w->st->code != QC_OK)
            return w->st->code == QC_OK ? qc_fail(w->st, QC_UNSUPPORTED, "%s", qc_op_info(n->op)->name) : false;
    }
    return true;
}

/* Fails with one message that lists as many refused nodes as fit. */
static bool report_refused(const struct qc_tfl_writer *w)
{
    enum { SHOWN = 1500 };
    char text[SHOWN] = "";
    size_t used = 0, shown = 0;
    if (!w->refused_count) return true;
    for (; shown < w->refused_count && used + strlen(w->refused[shown]) + 40 < SHOWN; shown++) {
        qc_text(text + used, (unsigned)(SHOWN - used), "%s%s", shown ? "; " : "", w->refused[shown]);
        used += strlen(text + used);
    }
    if (shown < w->refused_count)
        qc_text(text + used, (unsigned)(SHOWN - used), "; and %zu more", w->refused_count - shown);
    return qc_fail(w->st, QC_UNSUPPORTED, "TensorFlow Lite cannot hold %zu part%s of this graph: %s", w->refused_count,
                   qc_plural(w->refused_count), text);
}

/* --- The file --- */

static struct qc_fb_object *quantization(struct qc_tfl_writer *w, const struct qc_tfl_tensor *t)
{
    struct qc_fb_object *q = qc_fb_make(w->builder, QC_TFL_TABLE_QuantizationParameters);
    if (t->block) {
        struct qc_fb_object *b = qc_fb_make(w->builder, QC_TFL_TABLE_BlockwiseQuantization);
        qc_fb_set_int(b, QC_TFL_BlockwiseQuantization_scales, t->scales);
        qc_fb_set_int(b, QC_TFL_BlockwiseQuantization_zero_points, -1);
        qc_fb_set_int(b, QC_TFL_BlockwiseQuantization_block_size, t->block);
        qc_fb_set_child(q, QC_TFL_QuantizationParameters_details, b);
        return q;
    }
    int64_t *zero = QC_NEW_ARRAY(w->arena, int64_t, t->scale_count, w->st);
    if (!zero) return NULL;
    for (size_t i = 0; i < t->scale_count; i++) zero[i] = t->zero_point[i];
    qc_fb_set_vector(q, QC_TFL_QuantizationParameters_scale, t->scale, t->scale_count, 4);
    qc_fb_set_vector(q, QC_TFL_QuantizationParameters_zero_point, zero, t->scale_count, 8);
    qc_fb_set_int(q, QC_TFL_QuantizationParameters_quantized_dimension, t->axis);
    return q;
}

static struct qc_fb_object *tensor_object(struct qc_tfl_writer *w, const struct qc_tfl_tensor *t, size_t buffer)
{
    struct qc_fb_object *o = qc_fb_make(w->builder, QC_TFL_TABLE_Tensor);
    int32_t *shape = QC_NEW_ARRAY(w->arena, int32_t, t->shape.rank, w->st),
            *signature = QC_NEW_ARRAY(w->arena, int32_t, t->shape.rank, w->st);
    if (!shape || !signature) return NULL;
    bool free_dimension = false;
    for (int i = 0; i < t->shape.rank; i++) {
        signature[i] = (int32_t)t->shape.dim[i];
        shape[i] = t->shape.dim[i] == QC_FREE ? 1 : signature[i];
        free_dimension = free_dimension || t->shape.dim[i] == QC_FREE;
    }
    qc_fb_set_vector(o, QC_TFL_Tensor_shape, shape, (size_t)t->shape.rank, 4);
    if (free_dimension) qc_fb_set_vector(o, QC_TFL_Tensor_shape_signature, signature, (size_t)t->shape.rank, 4);
    qc_fb_set_int(o, QC_TFL_Tensor_type, qc_tfl_type_of(t->dtype));
    qc_fb_set_int(o, QC_TFL_Tensor_buffer, (int64_t)buffer);
    qc_fb_set_string(o, QC_TFL_Tensor_name, t->name);
    if (t->scale_count || t->block) qc_fb_set_child(o, QC_TFL_Tensor_quantization, quantization(w, t));
    return o;
}

/* Packs 4-bit integers, the first of two in the low half of a byte. */
static const void *packed_nibbles(struct qc_tfl_writer *w, const void *data, size_t count)
{
    const uint8_t *from = data;
    uint8_t *to = QC_NEW_ARRAY(w->arena, uint8_t, count / 2 + 1, w->st);
    for (size_t i = 0; to && i < count; i++) to[i / 2] = (uint8_t)(to[i / 2] | (from[i] & 15) << (i % 2 * 4));
    return to;
}

static struct qc_fb_object *buffer_object(struct qc_tfl_writer *w, const void *data, size_t bytes)
{
    struct qc_fb_object *o = qc_fb_make(w->builder, QC_TFL_TABLE_Buffer);
    if (bytes) qc_fb_set_vector(o, QC_TFL_Buffer_data, data, bytes, 16);
    return o;
}

struct codes {
    size_t count;
    enum qc_tfl_operator code[QC_TFL_OPERANDS];
    int version[QC_TFL_OPERANDS];
};

static size_t code_index(struct codes *c, const struct qc_tfl_node_out *n)
{
    size_t i = 0;
    while (i < c->count && (c->code[i] != n->code || c->version[i] != n->version)) i++;
    if (i == c->count) {
        c->code[i] = n->code;
        c->version[i] = n->version;
        c->count++;
    }
    return i;
}

/* Compares versions: "1.14.0" is before "2.3.0". */
static bool is_before(const char *a, const char *b)
{
    for (int i = 0; i < 3; i++) {
        char *end_a, *end_b;
        const long x = strtol(a, &end_a, 10), y = strtol(b, &end_b, 10);
        if (x != y) return x < y;
        a = *end_a ? end_a + 1 : end_a;
        b = *end_b ? end_b + 1 : end_b;
    }
    return false;
}

static bool ports(int32_t **tensors, struct qc_tfl_writer *w, const struct qc_port *of, size_t count)
{
    if (!(*tensors = QC_NEW_ARRAY(w->arena, int32_t, count, w->st))) return false;
    for (size_t i = 0; i < count; i++) (*tensors)[i] = qc_tfl_out_tensor_of(w, of[i].value, w->order[of[i].value]);
    return w->st->code == QC_OK;
}

static struct qc_fb_object **port_maps(struct qc_tfl_writer *w, const int32_t *tensors, const struct qc_port *of,
                                       size_t count)
{
    struct qc_fb_object **maps = QC_NEW_ARRAY(w->arena, struct qc_fb_object *, count, w->st);
    for (size_t i = 0; maps && i < count; i++) {
        struct qc_fb_object *o = qc_fb_make(w->builder, QC_TFL_TABLE_TensorMap);
        qc_fb_set_string(o, QC_TFL_TensorMap_name, of[i].name);
        qc_fb_set_int(o, QC_TFL_TensorMap_tensor_index, tensors[i]);
        maps[i] = o;
    }
    return maps;
}

/* Removes nodes that no output depends on, such as a Dequantize whose reader computes in integers, and tensors that no
   node uses. */
static bool prune(struct qc_tfl_writer *w, int32_t *in, size_t in_count, int32_t *out, size_t out_count)
{
    int *place = QC_NEW_ARRAY(w->arena, int, w->tensor_count + 1, w->st); /* 0: unused; otherwise 1 + its new index */
    size_t nodes = 0, tensors = 0;
    if (!place) return false;
    for (size_t i = 0; i < in_count; i++) place[in[i]] = 1;
    for (size_t i = 0; i < out_count; i++) place[out[i]] = 1;
    for (size_t i = w->node_count; i-- > 0;) {
        const struct qc_tfl_node_out *n = &w->nodes[i];
        bool used = false;
        for (unsigned k = 0; k < n->output_count; k++) used = used || place[n->outputs[k]];
        for (unsigned k = 0; used && k < n->input_count + n->output_count; k++) place[n->ends[k]] = 1;
    }
    for (size_t i = 0; i < w->node_count; i++)
        if (place[w->nodes[i].outputs[0]]) w->nodes[nodes++] = w->nodes[i];
    for (size_t i = 0; i < w->tensor_count; i++)
        if (place[i] && w->tensors[i].block) place[w->tensors[i].scales] = 1;
    for (size_t i = 0; i < w->tensor_count; i++) {
        if (!place[i]) continue;
        w->tensors[tensors++] = w->tensors[i];
        place[i] = (int)tensors;
    }
    w->node_count = nodes;
    w->tensor_count = tensors;
    for (size_t i = 0; i < tensors; i++)
        if (w->tensors[i].block) w->tensors[i].scales = place[w->tensors[i].scales] - 1;
    for (size_t i = 0; i < in_count; i++) in[i] = place[in[i]] - 1;
    for (size_t i = 0; i < out_count; i++) out[i] = place[out[i]] - 1;
    for (size_t i = 0; i < nodes; i++)
        for (unsigned k = 0; k < w->nodes[i].input_count + w->nodes[i].output_count; k++)
            w->nodes[i].ends[k] = place[w->nodes[i].ends[k]] - 1;
    return true;
}

static struct qc_fb_object *operator_object(struct qc_tfl_writer *w, const struct qc_tfl_node_out *n, size_t code)
{
    struct qc_fb_object *o = qc_fb_make(w->builder, QC_TFL_TABLE_Operator);
    qc_fb_set_int(o, QC_TFL_Operator_opcode_index, (int64_t)code);
    qc_fb_set_vector(o, QC_TFL_Operator_inputs, n->inputs, n->input_count, 4);
    qc_fb_set_vector(o, QC_TFL_Operator_outputs, n->outputs, n->output_count, 4);
    if (n->options) qc_fb_set_child(o, QC_TFL_Operator_builtin_options, n->options);
    return o;
}

static struct qc_fb_object *operator_code(struct qc_tfl_writer *w, enum qc_tfl_operator code, int version)
{
    struct qc_fb_object *o = qc_fb_make(w->builder, QC_TFL_TABLE_OperatorCode);
    qc_fb_set_int(o, QC_TFL_OperatorCode_deprecated_builtin_code,
                  (int)code < (int)QC_TFL_CODE_OLD_MAX ? (int64_t)code : (int64_t)QC_TFL_CODE_OLD_MAX);
    qc_fb_set_int(o, QC_TFL_OperatorCode_builtin_code, code);
    qc_fb_set_int(o, QC_TFL_OperatorCode_version, version);
    return o;
}

/* Returns the table of the model with all tensors and nodes. */
static struct qc_fb_object *model_object(struct qc_tfl_writer *w)
{
    const struct qc_graph *g = w->g;
    int32_t *in, *out;
    struct codes *codes = QC_NEW(w->arena, struct codes, w->st);
    if (!codes || !ports(&in, w, g->inputs, g->input_count) || !ports(&out, w, g->outputs, g->output_count) ||
        !prune(w, in, g->input_count, out, g->output_count))
        return NULL;
    struct qc_fb_object **in_maps = port_maps(w, in, g->inputs, g->input_count),
                        **out_maps = port_maps(w, out, g->outputs, g->output_count);
    struct qc_fb_object **tensors = QC_NEW_ARRAY(w->arena, struct qc_fb_object *, w->tensor_count, w->st),
                        **buffers = QC_NEW_ARRAY(w->arena, struct qc_fb_object *, w->tensor_count + 2, w->st),
                        **nodes = QC_NEW_ARRAY(w->arena, struct qc_fb_object *, w->node_count, w->st),
                        **operators = QC_NEW_ARRAY(w->arena, struct qc_fb_object *, QC_TFL_OPERANDS, w->st),
                        **one = QC_NEW_ARRAY(w->arena, struct qc_fb_object *, 3, w->st);
    char *runtime = QC_NEW_ARRAY(w->arena, char, 16, w->st);
    if (!in_maps || !out_maps || !tensors || !buffers || !nodes || !operators || !one || !runtime) return NULL;
    size_t buffer_count = 0;
    buffers[buffer_count++] = buffer_object(w, NULL, 0); /* buffer of tensors without data */
    for (size_t i = 0; i < w->tensor_count; i++) {
        const struct qc_tfl_tensor *t = &w->tensors[i];
        size_t count = 0;
        if (t->data && qc_shape_count(&count, &t->shape))
            buffers[buffer_count] = t->dtype == QC_I4
                                        ? buffer_object(w, packed_nibbles(w, t->data, count), (count + 1) / 2)
                                        : buffer_object(w, t->data, count * qc_dtype_size(t->dtype));
        if (!(tensors[i] = tensor_object(w, t, t->data ? buffer_count++ : 0))) return NULL;
    }
    strcpy(runtime, "1.5.0");
    for (size_t i = 0; i < w->node_count; i++) {
        nodes[i] = operator_object(w, &w->nodes[i], code_index(codes, &w->nodes[i]));
        const char *first = qc_tfl_out_runtime_of(w->nodes[i].code, w->nodes[i].version);
        if (is_before(runtime, first)) qc_text(runtime, 16, "%s", first);
    }
    for (size_t i = 0; i < codes->count; i++) operators[i] = operator_code(w, codes->code[i], codes->version[i]);
    const size_t runtime_buffer = buffer_count;
    buffers[buffer_count++] = buffer_object(w, runtime, 16);
    struct qc_fb_object *m = qc_fb_make(w->builder, QC_TFL_TABLE_Model),
                        *s = one[0] = qc_fb_make(w->builder, QC_TFL_TABLE_SubGraph),
                        *d = one[1] = qc_fb_make(w->builder, QC_TFL_TABLE_SignatureDef),
                        *about = one[2] = qc_fb_make(w->builder, QC_TFL_TABLE_Metadata);
    qc_fb_set_children(s, QC_TFL_SubGraph_tensors, tensors, w->tensor_count);
    qc_fb_set_vector(s, QC_TFL_SubGraph_inputs, in, g->input_count, 4);
    qc_fb_set_vector(s, QC_TFL_SubGraph_outputs, out, g->output_count, 4);
    qc_fb_set_children(s, QC_TFL_SubGraph_operators, nodes, w->node_count);
    qc_fb_set_string(s, QC_TFL_SubGraph_name, g->name ? g->name : "main");
    qc_fb_set_children(d, QC_TFL_SignatureDef_inputs, in_maps, g->input_count);
    qc_fb_set_children(d, QC_TFL_SignatureDef_outputs, out_maps, g->output_count);
    qc_fb_set_string(d, QC_TFL_SignatureDef_signature_key, "serving_default");
    qc_fb_set_string(about, QC_TFL_Metadata_name, "min_runtime_version");
    qc_fb_set_int(about, QC_TFL_Metadata_buffer, (int64_t)runtime_buffer);
    qc_fb_set_int(m, QC_TFL_Model_version, QC_TFL_VERSION);
    qc_fb_set_children(m, QC_TFL_Model_operator_codes, operators, codes->count);
    qc_fb_set_children(m, QC_TFL_Model_subgraphs, &one[0], 1);
    qc_fb_set_string(m, QC_TFL_Model_description, "qcalib");
    qc_fb_set_children(m, QC_TFL_Model_buffers, buffers, buffer_count);
    qc_fb_set_children(m, QC_TFL_Model_metadata, &one[2], 1);
    qc_fb_set_children(m, QC_TFL_Model_signature_defs, &one[1], 1);
    return m;
}

static bool start(struct qc_tfl_writer *w)
{
    const struct qc_graph *g = w->g;
    w->builder = qc_fb_builder_new(&qc_tfl_schema, w->arena, w->st);
    w->order = QC_NEW_ARRAY(w->arena, unsigned char, g->value_count + 1, w->st);
    w->flat = QC_NEW_ARRAY(w->arena, bool, g->value_count + 1, w->st);
    w->done = QC_NEW_ARRAY(w->arena, bool, g->node_count + 1, w->st);
    for (int o = 0; o < QC_TFL_ORDERS; o++) w->made[o] = QC_NEW_ARRAY(w->arena, int, g->value_count + 1, w->st);
    qc_tfl_out_add_tensor(w, &(struct qc_tfl_tensor){.name = "none"}); /* NO_TENSOR */
    if (!w->builder || !w->order || !w->flat || !w->done || !w->made[0] || !w->made[1]) return false;
    if (!qc_uses_of(&w->uses, g, w->arena, w->st) || !qc_tfl_out_choose_orders(w)) return false;
    for (size_t i = 0; i < g->input_count; i++) {
        if (!check_type(w, NULL, g->inputs[i].value)) return false;
        qc_tfl_out_result(w, g->inputs[i].value);
    }
    return w->st->code == QC_OK;
}

bool qc_tfl_export(void **bytes, size_t *size, const struct qc_graph *g, struct qc_status *st)
{
    struct qc_graph *held = NULL;
    QC_REBUILD_SCOPE r = {0};
    struct qc_tfl_writer w = {.arena = qc_arena_new(), .st = st};
    if (!w.arena) return qc_fail_memory(st, 0);
    bool ok = qc_rebuild_begin(&r, g, st);
    QC_EACH_NODE(n, g)
        if (ok && n->op == QC_OP_Expect) /* which files do not have */
            ok = (r.map[n->outputs] = qc_rebuild_value(&r, n->inputs[0], st)) != 0;
    ok = ok && qc_rebuild_finish(&held, &r, st);
    w.g = held;
    ok = ok && start(&w) && write_nodes(&w) && report_refused(&w);
    const struct qc_fb_object *model = ok ? model_object(&w) : NULL;
    ok = model && qc_fb_finish(bytes, size, w.builder, model, QC_TFL_KIND, st);
    qc_arena_free(w.arena);
    qc_graph_free(held);
    return ok;
}
