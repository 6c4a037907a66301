// SPDX-License-Identifier: Apache-2.0
/* QuantizeLinear and DequantizeLinear of ONNX (13 to 23: blocks, output_dtype), and qcalib's quantizing ops. */
#include <inttypes.h>
#include <stdlib.h>

#include "graph/core/qlinear.h"
#include "graph/infer/infer_help.h"
#include "graph/types/number_format.h"

/* Fails unless there is one scale, one per element of the axis or, with block_size b, scales in the shape of x with
 * ceil(size / b) at the axis. */
static bool check_scales(const struct qc_infer *c, struct qc_status *st)
{
    const struct qc_shape *x = &qc_in(c, 0)->shape, *s = &qc_in(c, 1)->shape;
    int64_t block = qc_attr_int(c->node, "block_size", 0), met;
    int axis = 0;
    if (block < 0) return qc_fail(st, QC_BAD_INPUT, "block_size is %" PRId64, block);
    if (qc_has_in(c, 2)) {
        const struct qc_shape *z = &qc_in(c, 2)->shape;
        /* ONNX's own tests pair a scalar scale with a zero point of shape [1], as runtimes do. */
        const bool one =
            (z->rank == 0 && s->rank == 1 && s->dim[0] == 1) || (s->rank == 0 && z->rank == 1 && z->dim[0] == 1);
        bool fits = z->rank < 0 || s->rank < 0 || z->rank == s->rank || one;
        for (int i = 0; fits && !one && i < z->rank && s->rank >= 0; i++)
            fits = qc_dim_meet(&met, z->dim[i], s->dim[i]);
        if (!fits)
            return qc_fail(st, QC_BAD_INPUT, "zero points %s and scales %s differ in shape", QC_SHAPE_STR(z),
                           QC_SHAPE_STR(s));
    }
    if (s->rank <= 0 || x->rank < 0) return true;
    if (block == 0 && s->rank == 1 && s->dim[0] == 1) return true;
    if (!qc_axis_of(&axis, qc_attr_int(c->node, "axis", 1), x->rank, st)) return false;
    bool fits = block ? s->rank == x->rank : s->rank == 1;
    if (fits && !block) fits = qc_dim_meet(&met, s->dim[0], x->dim[axis]);
    for (int i = 0; fits && block && i < x->rank; i++) {
        int64_t d = x->dim[i];
        if (i == axis && d != QC_FREE) d = d / block + (d % block != 0);
        fits = qc_dim_meet(&met, s->dim[i], d);
    }
    if (!fits)
        return qc_fail(st, QC_BAD_INPUT, "scales %s do not fit axis %d of the input %s (block size %" PRId64 ")",
                       QC_SHAPE_STR(s), axis, QC_SHAPE_STR(x), block);
    return true;
}

static bool is_quantized(enum qc_dtype t)
{
    return qc_dtype_is_affine(t) || t == QC_U2 || t == QC_I2 || qc_is_small_float(t);
}

bool qc_infer_quantize_linear(struct qc_infer *c, struct qc_status *st)
{
    const struct qc_type *x = qc_in(c, 0);
    int64_t wanted = qc_attr_int(c->node, "output_dtype", 0);
    enum qc_dtype t = qc_has_in(c, 2) ? qc_in(c, 2)->dtype : QC_U8;
    if (!qc_dtype_info(x->dtype)->is_float && x->dtype != QC_I32)
        return qc_fail(st, QC_BAD_INPUT, "floating-point input expected, got %s", qc_dtype_info(x->dtype)->name);
    if (wanted) {
        enum qc_dtype u = wanted > 0 && wanted < 1000 ? qc_dtype_from_onnx((int)wanted) : QC_NONE;
        if (u == QC_NONE) return qc_fail(st, QC_UNSUPPORTED, "output_dtype %" PRId64 " is not handled", wanted);
        if (qc_has_in(c, 2) && u != t)
            return qc_fail(st, QC_BAD_INPUT, "output_dtype is %s but the zero point is %s", qc_dtype_info(u)->name,
                           qc_dtype_info(t)->name);
        t = u;
    }
    if (!is_quantized(t)) return qc_fail(st, QC_UNSUPPORTED, "quantizing to %s is not handled", qc_dtype_info(t)->name);
    if (!qc_dtype_info(qc_in(c, 1)->dtype)->is_float)
        return qc_fail(st, QC_BAD_INPUT, "the scale must be a float, got %s", qc_dtype_info(qc_in(c, 1)->dtype)->name);
    return check_scales(c, st) && qc_infer_scales(c, c->node->inputs[1], false, st) &&
           qc_infer_set(c, 0, t, &x->shape, st);
}

bool qc_infer_dequantize_linear(struct qc_infer *c, struct qc_status *st)
{
    const struct qc_type *x = qc_in(c, 0);
    enum qc_dtype t = qc_in(c, 1)->dtype;
    if (!is_quantized(x->dtype) && x->dtype != QC_I32)
        return qc_fail(st, QC_UNSUPPORTED, "dequantizing %s is not handled", qc_dtype_info(x->dtype)->name);
    if (t != QC_F32 && t != QC_F16 && t != QC_BF16)
        return qc_fail(st, QC_BAD_INPUT, "the scale must be a float, got %s", qc_dtype_info(t)->name);
    if (qc_has_in(c, 2) && qc_in(c, 2)->dtype != x->dtype)
        return qc_fail(st, QC_BAD_INPUT, "the zero point is %s but the input is %s",
                       qc_dtype_info(qc_in(c, 2)->dtype)->name, qc_dtype_info(x->dtype)->name);
    return check_scales(c, st) && qc_infer_scales(c, c->node->inputs[1], x->dtype == QC_I32, st) &&
           qc_infer_set(c, 0, t, &x->shape, st);
}

/* The caller sets qparams and storage type of the result. */
bool qc_infer_quantize(struct qc_infer *c, struct qc_status *st)
{
    const struct qc_type *x = qc_in(c, 0);
    return qc_infer_set(c, 0, qc_float_type_of(x->dtype), &x->shape, st);
}

bool qc_infer_dequantize(struct qc_infer *c, struct qc_status *st)
{
    return qc_infer_set(c, 0, QC_F32, &qc_in(c, 0)->shape, st);
}

/* Quantized operators of ONNX and of ONNX Runtime (graph/core/qlinear.h), DynamicQuantizeLinear-11 and RoundInBlocks.
 */

static bool is_byte(enum qc_dtype t)
{
    return t == QC_U8 || t == QC_I8;
}

static const struct qc_type *operand_type(const struct qc_infer *c, qc_id v)
{
    return &c->graph->values[v].type;
}

/* Fails unless the parameter has one number or `channels` numbers (free: any number). A scale is float; a zero point
   has the operand's type. */
static bool check_parameter(const struct qc_infer *c, qc_id v, enum qc_dtype wanted, int64_t channels, const char *what,
                            struct qc_status *st)
{
    int64_t met;
    if (!v) return true;
    const struct qc_type *t = operand_type(c, v);
    if (wanted == QC_F32 ? t->dtype != QC_F32 && t->dtype != QC_F16 : t->dtype != wanted)
        return qc_fail(st, QC_BAD_INPUT, "the %s is %s, expected %s", what, qc_dtype_info(t->dtype)->name,
                       qc_dtype_info(wanted)->name);
    if (wanted == QC_F32 && !qc_infer_scales(c, v, false, st)) return false;
    const struct qc_shape *s = &t->shape;
    if (s->rank <= 0 || (s->rank == 1 && (s->dim[0] == 1 || s->dim[0] == QC_FREE))) return true;
    if (channels != 0 && s->rank == 1 && qc_dim_meet(&met, s->dim[0], channels)) return true;
    return qc_fail(st, QC_UNSUPPORTED, "%s of shape %s is not handled", what, QC_SHAPE_STR(s));
}

/* Returns the channels of the second operand of a product, which may each have a scale; 0: only one scale is allowed.
 */
static bool shape_of(struct qc_infer *real, enum qc_op op, enum qc_dtype t, struct qc_status *st)
{
    switch ((int)op) {
    case QC_OP_Conv: return qc_infer_conv_result(real, false, t, st);
    case QC_OP_MatMul: return qc_infer_matmul_result(real, t, st);
    case QC_OP_Gemm: return qc_infer_gemm_result(real, t, st);
    case QC_OP_AveragePool:
    case QC_OP_GlobalAveragePool: return qc_infer_pool_result(real, st);
    case QC_OP_Concat: return qc_infer_concat(real, st);
    case QC_OP_Where: return qc_infer_where(real, st);
    case QC_OP_Add:
    case QC_OP_Mul: return qc_infer_broadcast(real, st);
    default: return qc_infer_set(real, 0, t, &qc_in(real, 0)->shape, st);
    }
}

bool qc_infer_qlinear(struct qc_infer *c, struct qc_status *st)
{
    struct qc_qlinear q;
    if (!qc_qlinear_of(&q, c->node)) return qc_fail(st, QC_BAD_INPUT, "is not a quantized operator");
    if (q.op == QC_OP_Concat && (c->node->input_count < 5 || (c->node->input_count - 2) % 3))
        return qc_fail(st, QC_BAD_INPUT, "has %u inputs, expected scale and zero point, then three for each operand",
                       c->node->input_count);
    if (qc_attr_int(c->node, "channels_last", 0)) return qc_fail(st, QC_UNSUPPORTED, "channels_last is not handled");
    const enum qc_dtype first = operand_type(c, qc_qlinear_operand(c->node, 0).value)->dtype;
    const bool product = q.op == QC_OP_Conv || q.op == QC_OP_MatMul || q.op == QC_OP_Gemm;
    for (unsigned i = 0; i < q.operands; i++) {
        const struct qc_qlinear_port p = qc_qlinear_operand(c->node, i);
        if (!p.value) return qc_fail(st, QC_BAD_INPUT, "operand %u is missing", i);
        const enum qc_dtype t = operand_type(c, p.value)->dtype;
        const struct qc_shape *w = &operand_type(c, p.value)->shape;
        const int64_t channels = i != 1 || w->rank == 0 ? 0
                                 : w->rank < 0          ? QC_FREE
                                 : q.op == QC_OP_Conv   ? w->dim[0]
                                 : q.op == QC_OP_MatMul ? w->dim[w->rank - 1]
                                 : q.op == QC_OP_Gemm && w->rank == 2
                                     ? w->dim[qc_attr_int(c->node, "transB", 0) ? 0 : 1]
                                     : 0;
        if (!is_byte(t))
            return qc_fail(st, QC_UNSUPPORTED, "operand %u is %s, only u8 and i8 are handled", i,
                           qc_dtype_info(t)->name);
        if (!product && t != first)
            return qc_fail(st, QC_BAD_INPUT, "operand %u is %s, the first %s", i, qc_dtype_info(t)->name,
                           qc_dtype_info(first)->name);
        if (!check_parameter(c, p.scale, QC_F32, channels, "scale", st) ||
            !check_parameter(c, p.zero_point, t, channels, "zero point", st))
            return false;
    }
    if (q.extra && product && operand_type(c, q.extra)->dtype != QC_I32)
        return qc_fail(st, QC_BAD_INPUT, "the bias is %s, expected i32",
                       qc_dtype_info(operand_type(c, q.extra)->dtype)->name);
    if (q.extra && q.op == QC_OP_Where && operand_type(c, q.extra)->dtype != QC_BOOL)
        return qc_fail(st, QC_BAD_INPUT, "the condition is not bool");
    /* The type of the result's zero point, else of the first operand. */
    const enum qc_dtype t = !q.result          ? (q.op == QC_OP_Gemm ? QC_F32 : QC_I32)
                            : q.out.zero_point ? operand_type(c, q.out.zero_point)->dtype
                                               : first;
    if (q.result && !is_byte(t))
        return qc_fail(st, QC_UNSUPPORTED, "a result of type %s is not handled", qc_dtype_info(t)->name);
    if (q.result && (!check_parameter(c, q.out.scale, QC_F32, 0, "result's scale", st) ||
                     !check_parameter(c, q.out.zero_point, t, 0, "result's zero point", st)))
        return false;
    qc_id *inputs = calloc(q.operands + 1, sizeof *inputs);
    if (!inputs) return qc_fail_memory(st, q.operands * sizeof *inputs);
    const struct qc_node real = qc_qlinear_real(inputs, &q, c->node);
    struct qc_infer inner = {.graph = c->graph, .node = &real, .out = c->out};
    const bool ok = shape_of(&inner, q.op, t, st);
    free(inputs);
    c->out[0].dtype = t;
    return ok;
}

bool qc_infer_dynamic_quantize(struct qc_infer *c, struct qc_status *st)
{
    const struct qc_type *x = qc_in(c, 0);
    const struct qc_shape scalar = QC_SCALAR;
    if (x->dtype != QC_F32)
        return qc_fail(st, QC_BAD_INPUT, "the input is %s, expected f32", qc_dtype_info(x->dtype)->name);
    return qc_infer_set(c, 0, QC_U8, &x->shape, st) &&
           (c->node->output_count < 2 || qc_infer_set(c, 1, QC_F32, &scalar, st)) &&
           (c->node->output_count < 3 || qc_infer_set(c, 2, QC_U8, &scalar, st));
}

/* Attributes: `format`, a number format in blocks; `axis`, along which they lie; `length`, its dimension. */
bool qc_infer_round_in_blocks(struct qc_infer *c, struct qc_status *st)
{
    const struct qc_type *x = qc_in(c, 0);
    const char *format = qc_attr_string(c->node, "format", "");
    const int64_t axis = qc_attr_int(c->node, "axis", -1);
    const struct qc_attr *length = qc_attr_find(c->node, "length");
    if (x->dtype != QC_F32)
        return qc_fail(st, QC_BAD_INPUT, "the input is %s, expected f32", qc_dtype_info(x->dtype)->name);
    if (!qc_number_format_named(format)) return qc_fail(st, QC_BAD_INPUT, "unknown number format '%.32s'", format);
    if (x->shape.rank >= 0 && (axis < -x->shape.rank || axis >= x->shape.rank))
        return qc_fail(st, QC_BAD_INPUT, "axis %lld is outside of rank %d", (long long)axis, x->shape.rank);
    if (!length || length->count != 1 || length->ints[0] < 1)
        return qc_fail(st, QC_BAD_INPUT, "the attribute 'length' is not one positive number");
    struct qc_shape y = x->shape;
    int64_t *along = y.rank >= 0 ? &y.dim[axis < 0 ? axis + y.rank : axis] : NULL;
    if (along && !qc_dim_meet(along, *along, length->ints[0]))
        return qc_fail(st, QC_BAD_INPUT, "axis %lld has dimension %lld, expected %lld", (long long)axis,
                       (long long)*along, (long long)length->ints[0]);
    return qc_infer_set(c, 0, QC_F32, &y, st);
}
