// SPDX-License-Identifier: Apache-2.0
/* QOperator: integers between operators, with those of ONNX Runtime's CPU provider (1.16 to 1.31, each tested with u8
   and i8):
     Conv, MatMul -> Requantize   QLinearConv, QLinearMatMul        Gemm -> Requantize | Dequantize   QGemm
     Add, Mul, LeakyRelu, Sigmoid, AveragePool, GlobalAveragePool   QLinear...
     Concat                       QLinearConcat if an operand is requantized for it, else Concat of integers
     MatMul, Gemm of a weight in blocks   MatMulNBits     Gather of a table in blocks   GatherBlockQuantized
     LSTM, MatMul, Gemm of --activation-type dynamic    DynamicQuantizeLSTM, DynamicQuantizeMatMul,
                                  MatMulIntegerToFloat
     Relu, Clip                   Clip between integers
     MaxPool, Reshape, Flatten, Squeeze, Unsqueeze, Transpose, Slice, Split, Gather, Expand, Tile, Pad   on integers
   Other operators, types and per-channel forms are lowered as in QDQ. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/scope.h"
#include "export/formats/lowering.h"
#include "graph/core/parameters.h"
#include "graph/core/rebuild.h"

static const struct qc_qparams *quantizer_of(const struct qc_lowering *x, qc_id v)
{
    const struct qc_parameters p = qc_value_parameters(x->from, v);
    return p.affine && p.kind == QC_QPARAMS_QUANTIZER ? &x->from->qparams_of[p.qparams] : NULL;
}

/* Returns true for a value in u8 or i8 in the file with one scale. */
static bool is_plain(const struct qc_lowering *x, qc_id v)
{
    const struct qc_qparams *s = quantizer_of(x, v);
    return s && s->count == 1 && (qc_lower_type(s) == QC_U8 || qc_lower_type(s) == QC_I8);
}

static bool is_plain_like(const struct qc_lowering *x, qc_id v, qc_id like)
{
    return is_plain(x, v) && is_plain(x, like) &&
           qc_lower_type(quantizer_of(x, v)) == qc_lower_type(quantizer_of(x, like));
}

/* Returns the integers of a value, and adds them if necessary. */
static qc_id integers(struct qc_lowering *x, qc_id v, struct qc_status *st)
{
    if (!x->integer[v] && x->from->values[v].constant && !qc_lower_integer(x, v, st)) return 0;
    if (!x->integer[v])
        return qc_fail(st, QC_BAD_INPUT, "the integers of '%s' are used before they are made", qc_lower_base(x, v));
    return x->integer[v];
}

/* *in: integers, scale and zero point of a value. channels: parameters are vectors if there are several. */
static bool operand(qc_id in[3], struct qc_lowering *x, qc_id v, bool channels, struct qc_status *st)
{
    const struct qc_qparams *s = quantizer_of(x, v);
    return (in[0] = integers(x, v, st)) && qc_lower_parameters(in + 1, x, s, channels && s->count > 1, st);
}

static bool result(qc_id in[2], struct qc_lowering *x, qc_id v, struct qc_status *st)
{
    return qc_lower_parameters(in, x, quantizer_of(x, v), false, st);
}

/* Adds a node whose results are the integers of n's results, named after `value`. */
static bool add(struct qc_lowering *x, enum qc_op op, const struct qc_node *n, unsigned count, const qc_id *in,
                qc_id value, struct qc_status *st)
{
    QC_FREED const char **names = calloc(n->output_count, sizeof *names);
    bool ok = names ? true : qc_fail_memory(st, n->output_count * sizeof *names);
    for (unsigned k = 0; ok && k < n->output_count; k++) {
        const char *base = qc_lower_base(x, n->output_count > 1 ? value + k : value);
        if (qc_op_info(n->op)->affine == QC_AFFINE_PRODUCT) base = qc_lower_base(x, n->outputs);
        ok = (names[k] = qc_lower_integer_name(x, n->output_count > 1 ? value + k : value, base, st));
    }
    qc_id first = 0;
    if (ok) {
        const struct qc_node_def with = {.op = op, .input_count = count, .inputs = in, .output_names = names};
        first = qc_graph_add_like(x->to, x->from, n, &with, st);
    }
    bool done = first != 0;
    for (unsigned k = 0; done && k < n->output_count; k++) {
        const qc_id v = value + k, integer = first + k;
        const bool rounds = op != n->op; /* an op that moves integers keeps them within their levels */
        x->integer[v] = rounds ? qc_lower_cut(x, integer, quantizer_of(x, v), qc_lower_base(x, v), st) : integer;
        done = x->integer[v] != 0;
    }
    return done;
}

/* --- Products --- */

static bool zero_points_equal(const struct qc_qparams *s)
{
    for (size_t i = 1; i < s->count; i++)
        if (s->zero_point[i] != s->zero_point[0]) return false;
    return true;
}

/* Returns true if there is an operator for this product and the op that reads its accumulator. */
static bool has_product(const struct qc_lowering *x, const struct qc_node *n, const struct qc_node *taker)
{
    if (n->op != QC_OP_Conv && n->op != QC_OP_MatMul && n->op != QC_OP_Gemm) return false;
    const struct qc_qparams *a = quantizer_of(x, n->inputs[0]), *w = quantizer_of(x, n->inputs[1]);
    const bool floats = taker->op == QC_OP_Dequantize;
    const enum qc_dtype t = w ? qc_lower_type(w) : QC_NONE;
    if (!w || !is_plain(x, n->inputs[0]) || (t != QC_I8 && !(t == QC_U8 && qc_lower_type(a) == QC_U8))) return false;
    if (floats ? n->op != QC_OP_Gemm : taker->op != QC_OP_Requantize || !is_plain_like(x, taker->outputs, n->inputs[0]))
        return false;
    if (n->op == QC_OP_MatMul && w->count > 1 && x->from->values[n->inputs[1]].type.shape.rank != 2) return false;
    return n->op != QC_OP_Conv || zero_points_equal(w);
}

/* *in: weights of QLinearConv, which have scales per channel but one zero point. */
static bool conv_weights(qc_id in[3], struct qc_lowering *x, qc_id w, struct qc_status *st)
{
    const struct qc_qparams *s = quantizer_of(x, w);
    if (!operand(in, x, w, true, st)) return false;
    if (s->count == 1) return true;
    const uint8_t byte = (uint8_t)s->zero_point[0];
    const struct qc_shape scalar = QC_SCALAR;
    return (in[2] = qc_lower_constant(x, qc_lower_type(s), &scalar, &byte, s->name, "zero_point", st));
}

static bool lower_product(struct qc_lowering *x, const struct qc_node *n, const struct qc_node *taker,
                          struct qc_status *st)
{
    qc_id in[9] = {QC_ABSENT}, y[2] = {QC_ABSENT, QC_ABSENT};
    const bool floats = taker->op == QC_OP_Dequantize;
    const qc_id bias = n->input_count > 2 ? n->inputs[2] : QC_ABSENT;
    if (!operand(in, x, n->inputs[0], false, st)) return false;
    if (!(n->op == QC_OP_Conv ? conv_weights(in + 3, x, n->inputs[1], st) : operand(in + 3, x, n->inputs[1], true, st)))
        return false;
    if (!floats && !result(y, x, taker->outputs, st)) return false;
    const qc_id b = bias ? integers(x, bias, st) : QC_ABSENT;
    if (bias && !b) return false;
    if (n->op != QC_OP_Gemm) {
        in[6] = y[0];
        in[7] = y[1];
        in[8] = b;
        return add(x, n->op == QC_OP_Conv ? QC_OP_QLinearConv : QC_OP_QLinearMatMul, n, b ? 9 : 8, in, taker->outputs,
                   st);
    }
    in[6] = b;
    in[7] = y[0];
    in[8] = y[1];
    if (!floats) return add(x, QC_OP_QGemm, n, 9, in, taker->outputs, st);
    const struct qc_node_def with = {.op = QC_OP_QGemm, .input_count = b ? 7 : 6, .inputs = in};
    return (x->real[taker->outputs] = qc_graph_add_like(x->to, x->from, n, &with, st));
}

/* Returns true if the node is written together with its reader: a product whose accumulator has one reader, or a
   requantize for one Concat. */
static bool is_deferred(const struct qc_lowering *x, const struct qc_node *n)
{
    const qc_id reader = n ? qc_only_reader(&x->uses, n->outputs) : 0;
    if (!reader) return false;
    if (n->op == QC_OP_Requantize)
        return x->from->nodes[reader].op == QC_OP_Concat && is_plain_like(x, n->inputs[0], n->outputs);
    return x->from->values[n->outputs].type.qparams != QC_REAL && has_product(x, n, &x->from->nodes[reader]);
}

/* --- Ops that round once --- */

static enum qc_op merged(enum qc_op op)
{
    switch ((int)op) {
    case QC_OP_Add: return QC_OP_QLinearAdd;
    case QC_OP_Mul: return QC_OP_QLinearMul;
    case QC_OP_LeakyRelu: return QC_OP_QLinearLeakyRelu;
    case QC_OP_Sigmoid: return QC_OP_QLinearSigmoid;
    case QC_OP_AveragePool: return QC_OP_QLinearAveragePool;
    case QC_OP_GlobalAveragePool: return QC_OP_QLinearGlobalAveragePool;
    default: return QC_OP_INVALID;
    }
}

static bool has_merge(const struct qc_lowering *x, const struct qc_node *n)
{
    if (merged(n->op) == QC_OP_INVALID || !is_plain(x, n->outputs) || qc_attr_find(n, "dilations")) return false;
    for (unsigned i = 0; i < n->input_count; i++)
        if (!is_plain_like(x, n->inputs[i], n->outputs)) return false;
    return true;
}

static bool lower_merge(struct qc_lowering *x, const struct qc_node *n, struct qc_status *st)
{
    qc_id in[8];
    for (unsigned i = 0; i < n->input_count; i++)
        if (!operand(in + 3 * (size_t)i, x, n->inputs[i], false, st)) return false;
    return result(in + 3 * (size_t)n->input_count, x, n->outputs, st) &&
           add(x, merged(n->op), n, 3 * n->input_count + 2, in, n->outputs, st);
}

/* --- Ops that move integers --- */

static bool lower_concat(struct qc_lowering *x, const struct qc_node *n, struct qc_status *st)
{
    qc_id *in = calloc(3 * (size_t)n->input_count + 2, sizeof *in);
    bool ok = in ? true : qc_fail_memory(st, n->input_count), requantizes = false;
    for (unsigned i = 0; i < n->input_count; i++) {
        requantizes = requantizes || is_deferred(x, qc_node_of(x->from, n->inputs[i]));
    }
    if (requantizes) ok = ok && result(in, x, n->outputs, st);
    for (unsigned i = 0; ok && i < n->input_count; i++) {
        const struct qc_node *from = qc_node_of(x->from, n->inputs[i]);
        const bool takes = is_deferred(x, from);
        if (requantizes)
            ok = operand(in + 2 + 3 * (size_t)i, x, takes ? from->inputs[0] : n->inputs[i], false, st);
        else
            ok = (in[i] = integers(x, n->inputs[i], st));
    }
    ok = ok && add(x, requantizes ? QC_OP_QLinearConcat : QC_OP_Concat, n,
                   requantizes ? 3 * n->input_count + 2 : n->input_count, in, n->outputs, st);
    free(in);
    return ok;
}

/* Returns a level as a scalar of the qparams' type. */
static qc_id level(struct qc_lowering *x, const struct qc_qparams *s, int32_t q, const char *what, struct qc_status *st)
{
    const uint8_t byte = (uint8_t)q;
    const struct qc_shape scalar = QC_SCALAR;
    return qc_lower_constant(x, qc_lower_type(s), &scalar, &byte, s->name, what, st);
}

/* *q: the level of a constant number; unchanged if the input is absent. Returns false if the input is computed. */
static bool level_of(int32_t *q, const struct qc_lowering *x, const struct qc_node *n, unsigned i,
                     const struct qc_qparams *s)
{
    if (i >= n->input_count || !n->inputs[i]) return true;
    const struct qc_tensor *t = qc_constant_of(x->from, n->inputs[i]);
    if (!t || t->count != 1 || x->from->values[n->inputs[i]].type.qparams != QC_REAL) return false;
    *q =
        qc_quantize_one((float)qc_tensor_float(t, 0),
                        (struct qc_affine){.scale = s->scale[0], .zero_point = s->zero_point[0]}, qc_qparams_levels(s));
    return true;
}

static bool has_constants(const struct qc_lowering *x, const struct qc_node *n)
{
    const struct qc_qparams *s = quantizer_of(x, n->outputs);
    int32_t q;
    if (n->op == QC_OP_Clip) return level_of(&q, x, n, 1, s) && level_of(&q, x, n, 2, s);
    return n->op != QC_OP_Pad || level_of(&q, x, n, 2, s);
}

static bool lower_clamp(struct qc_lowering *x, const struct qc_node *n, struct qc_status *st)
{
    const struct qc_qparams *s = quantizer_of(x, n->outputs);
    const struct qc_levels levels = qc_qparams_levels(s);
    int32_t lo = n->op == QC_OP_Relu ? s->zero_point[0] : levels.lo, hi = levels.hi;
    level_of(&lo, x, n, 1, s);
    level_of(&hi, x, n, 2, s);
    qc_id in[3] = {integers(x, n->inputs[0], st), level(x, s, lo, n->op == QC_OP_Relu ? "zero_point" : "lowest", st),
                   QC_ABSENT};
    if (!in[0] || !in[1] || (hi < levels.hi && !(in[2] = level(x, s, hi, "highest", st)))) return false;
    return add(x, QC_OP_Clip, n, in[2] ? 3 : 2, in, n->outputs, st);
}

static bool lower_moving(struct qc_lowering *x, const struct qc_node *n, struct qc_status *st)
{
    const struct qc_qparams *s = quantizer_of(x, n->outputs);
    const bool fills = n->op == QC_OP_Pad && strcmp(qc_attr_string(n, "mode", "constant"), "constant") == 0;
    struct qc_shuffled shuffled;
    if (!(n = qc_lower_shuffle(&shuffled, x, n, st))) return false;
    qc_id in[8] = {integers(x, n->inputs[0], st)};
    unsigned count = n->input_count;
    if (!in[0]) return false;
    for (unsigned i = 1; i < n->input_count; i++)
        if (n->inputs[i] && !(n->op == QC_OP_Pad && i == 2) && !(in[i] = qc_lower_real(x, n->inputs[i], st)))
            return false;
    if (shuffled.shape) in[1] = shuffled.shape;
    if (fills) {
        int32_t q = s->zero_point[0];
        level_of(&q, x, n, 2, s);
        if (!(in[2] = level(x, s, q, q == s->zero_point[0] ? "zero_point" : "padding", st))) return false;
        if (count < 3) count = 3;
    }
    return add(x, n->op, n, count, in, n->outputs, st);
}

/* Returns true if ONNX Runtime runs this op on 8-bit integers. DepthToSpace and SpaceToDepth do so only in the newest
   versions, not in 1.16. */
static bool moves_bytes(enum qc_op op)
{
    return qc_op_info(op)->affine == QC_AFFINE_KEEP && op != QC_OP_GlobalMaxPool && op != QC_OP_GatherElements &&
           op != QC_OP_DepthToSpace && op != QC_OP_SpaceToDepth;
}

static bool lower_node(struct qc_lowering *x, qc_id id, struct qc_status *st)
{
    const struct qc_node *n = &x->from->nodes[id], *from = n->input_count ? qc_node_of(x->from, n->inputs[0]) : NULL;
    if (is_deferred(x, n) || qc_lower_is_nbits_weight(x, n) || qc_lower_is_lstm_weight(x, n)) return true;
    if (qc_lower_has_lstm(x, n)) return qc_lower_lstm(x, n, st);
    bool done;
    if (!qc_lower_dynamic(&done, x, n, st) || done) return st->code == QC_OK;
    if (qc_lower_has_nbits(x, n)) return qc_lower_nbits(x, n, st);
    if ((n->op == QC_OP_Requantize || n->op == QC_OP_Dequantize) && is_deferred(x, from))
        return lower_product(x, from, n, st);
    if (has_merge(x, n)) return lower_merge(x, n, st);
    if (!is_plain(x, n->outputs)) return qc_lower_plain(x, id, st);
    if (n->op == QC_OP_Concat) return lower_concat(x, n, st);
    if ((n->op == QC_OP_Relu || n->op == QC_OP_Clip) && has_constants(x, n)) return lower_clamp(x, n, st);
    if (moves_bytes(n->op) && has_constants(x, n)) return lower_moving(x, n, st);
    return qc_lower_plain(x, id, st);
}

static bool lower(struct qc_graph **out, const struct qc_graph *g, const struct qc_lower_options *options,
                  struct qc_status *st)
{
    return qc_lower_graph(out, g, lower_node, options, st);
}

extern const struct qc_exporter qc_exporter_qoperator;
const struct qc_exporter qc_exporter_qoperator = {
    .name = "qoperator",
    .summary =
        "ONNX with operators on integers (QLinearConv, QLinearMatMul, and those of ONNX Runtime); opset 13 or later",
    .suffix = ".qoperator.onnx",
    .lower = lower,
};
