// SPDX-License-Identifier: Apache-2.0
/* QuantizeLinear and DequantizeLinear of ONNX (13 to 23: blocks, output_dtype), and qcalib's quantizing ops. */
#include <inttypes.h>

#include "graph/infer/infer_help.h"
#include "graph/types/small_float.h"

/* Fails unless there is one scale, one per element of the axis or, with block_size b, scales in the shape of x with
 * ceil(size / b) at the axis. */
static bool check_scales(const struct qc_infer *c, struct qc_status *st)
{
    const struct qc_shape *x = &qc_in(c, 0)->shape, *s = &qc_in(c, 1)->shape;
    int64_t block = qc_attr_int(c->node, "block_size", 0), met;
    char a[QC_SHAPE_TEXT], b[QC_SHAPE_TEXT];
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
            return qc_fail(st, QC_BAD_INPUT, "zero points %s and scales %s differ in shape", qc_shape_text(a, z),
                           qc_shape_text(b, s));
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
                       qc_shape_text(a, s), axis, qc_shape_text(b, x), block);
    return true;
}

static bool is_quantized(enum qc_dtype t)
{
    return t == QC_U8 || t == QC_I8 || t == QC_U16 || t == QC_I16 || t == QC_U4 || t == QC_I4 || t == QC_U2 ||
           t == QC_I2 || qc_is_small_float(t);
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
