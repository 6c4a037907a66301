// SPDX-License-Identifier: Apache-2.0
/* Forms of layers: operators whose meaning or attributes changed between opsets. */
#include <float.h>
#include <string.h>

#include "graph/types/number_format.h"
#include "onnx/read/importing.h"

/* kernel_shape repeats the weight's shape. */
static bool form_conv(struct qc_node_import *w, struct qc_status *st)
{
    struct qc_shape s = qc_import_shape(w, strcmp(w->op, "QLinearConv") == 0 ? 3 : 1);
    const struct qc_attr *kernel = qc_import_attr(w, "kernel_shape");
    struct qc_attr dropped;
    if (kernel && s.rank > 2 && qc_shape_fixed(&s) && kernel->count == (size_t)s.rank - 2 &&
        memcmp(kernel->ints, s.dim + 2, kernel->count * sizeof *kernel->ints) == 0)
        qc_import_take_attr(&dropped, w, "kernel_shape");
    return qc_import_finish(w, qc_op_from_onnx(w->op), st);
}

/* Dilations of 1 are the default, and operators on integers have no dilations. */
static bool form_average_pool(struct qc_node_import *w, struct qc_status *st)
{
    const struct qc_attr *dilations = qc_import_attr(w, "dilations");
    bool ones = dilations != NULL;
    struct qc_attr dropped;
    for (size_t i = 0; ones && i < dilations->count; i++) ones = dilations->ints[i] == 1;
    if (ones) qc_import_take_attr(&dropped, w, "dilations");
    return qc_import_finish(w, QC_OP_AveragePool, st);
}

/* A constant C of shape [1,N] or of one element becomes [N], which means the same in Gemm and is the form of a bias.
   Without C, beta has no effect. */
static bool form_gemm(struct qc_node_import *w, struct qc_status *st)
{
    struct qc_attr dropped;
    if (!qc_import_has(w, 2)) qc_import_take_attr(&dropped, w, "beta");
    const struct qc_tensor *c = qc_import_constant(w, 2, st), *weight = qc_import_constant(w, 1, st);
    const struct qc_attr *turned = qc_import_attr(w, "transB");
    const bool matrix = weight && weight->shape.rank == 2 && weight->count > 0;
    const int64_t n = matrix ? weight->shape.dim[!(turned && turned->i)] : 0;
    const bool one = c && c->count == 1 && c->shape.rank <= 2 && n > 1;
    if (one || (c && c->shape.rank == 2 && c->shape.dim[0] == 1)) {
        const struct qc_shape shape = QC_SHAPE(one ? n : c->shape.dim[1]);
        const size_t size = qc_dtype_size(c->dtype);
        const struct qc_onnx_name *from = w->inputs[2].name;
        const bool only = from && from->uses == 1 && !from->id;
        struct qc_tensor *bias =
            one ? qc_tensor_new(c->dtype, &shape, st) : qc_tensor_of(c->dtype, &shape, c->data, st);
        for (int64_t i = 0; one && bias && i < n; i++) memcpy((char *)bias->data + (size_t)i * size, c->data, size);
        if (qc_import_set_tensor(w, 2, "bias", bias, st) && only)
            w->inputs[2].name->as = from->as; /* no other value has the name */
    }
    return qc_import_finish(w, QC_OP_Gemm, st);
}

static bool form_batch_norm(struct qc_node_import *w, struct qc_status *st)
{
    if (qc_import_attr(w, "spatial"))
        return qc_fail(st, QC_UNSUPPORTED, "spatial=0 (statistics per element) is not handled");
    if (qc_import_attr(w, "training_mode"))
        return qc_fail(st, QC_UNSUPPORTED, "is in training mode; export the model for inference");
    return qc_import_finish(w, QC_OP_BatchNormalization, st);
}

/* The rank may be unknown. */
static bool flat_softmax(struct qc_node_import *w, enum qc_op op, const struct qc_shape *s, int64_t axis,
                         struct qc_status *st)
{
    const struct qc_attr flatten = QC_INT("axis", axis);
    const qc_id x = qc_import_input(w, 0, st),
                flat = qc_import_beside(w, QC_OP_Flatten, "flat", 1, &x, axis != 1, &flatten, st),
                soft = qc_import_beside(w, op, "soft", 1, &flat, 0, NULL, st);
    /* Reshape's shape is a constant if at most one dimension is free, else a node computes it. */
    const struct qc_shape shape = QC_SHAPE(s->rank);
    int64_t dims[QC_RANK_MAX];
    int free_dims = s->rank < 0 ? 2 : 0;
    for (int i = 0; i < s->rank; i++) {
        dims[i] = s->dim[i]; /* QC_FREE is Reshape's -1 */
        free_dims += s->dim[i] == QC_FREE;
        if (s->dim[i] == 0) free_dims = 2; /* 0 would copy a dimension; beside -1 it is ambiguous */
    }
    const qc_id of_x = free_dims > 1
                           ? qc_import_beside(w, QC_OP_Shape, "shape", 1, &x, 0, NULL, st)
                           : qc_graph_add_made_constant(w->im->g, qc_import_fresh_name(w->im, w->label, "shape", st),
                                                        qc_tensor_of(QC_I64, &shape, dims, st), st);
    const qc_id pair[2] = {soft, of_x};
    return qc_import_become(w, qc_import_beside(w, QC_OP_Reshape, NULL, 2, pair, 0, NULL, st));
}

static bool form_softmax(struct qc_node_import *w, struct qc_status *st)
{
    const enum qc_op op = qc_op_from_onnx(w->op);
    const bool flat = w->im->opset < 13;
    struct qc_attr a;
    const struct qc_shape s = qc_import_shape(w, 0);
    int64_t axis = qc_import_take_attr(&a, w, "axis") ? a.i : flat ? 1 : -1;
    if (s.rank < 0) {
        if (flat && axis != -1 && qc_import_has(w, 0)) return flat_softmax(w, op, &s, axis, st);
        if (axis != -1) qc_import_put_attr(w, QC_INT("axis", axis));
        return qc_import_finish(w, op, st);
    }
    /* Flattening allows axis == rank: vectors of one element. */
    if (axis < -s.rank || axis > s.rank || (axis == s.rank && !(flat && s.rank > 0)))
        return qc_fail(st, QC_BAD_INPUT, "axis %lld is outside an input of %d dimensions", (long long)axis, s.rank);
    if (axis < 0) axis += s.rank;
    if (flat) {
        int wide = (int)axis, wider = 0; /* the last dimension that is not 1, and the number of such dimensions */
        for (int i = (int)axis; i < s.rank; i++) {
            if (s.dim[i] == 1) continue;
            wide = i;
            wider++;
        }
        if (wider > 1 || axis == s.rank) return flat_softmax(w, op, &s, axis, st);
        axis = wide;
    }
    if (axis != s.rank - 1) qc_import_put_attr(w, QC_INT("axis", axis));
    return qc_import_finish(w, op, st);
}

/* --- Clip --- */

static bool bound_of(struct qc_node_import *w, const char *name, size_t i, float none, struct qc_status *st)
{
    struct qc_attr a;
    if (!qc_import_take_attr(&a, w, name)) return true;
    if (w->im->opset >= 11)
        return qc_fail(st, QC_BAD_INPUT, "attribute '%s' does not exist in opset %d", name, w->im->opset);
    if (memcmp(&a.f, &none, sizeof none) == 0) return true;
    return qc_import_set_scalar(w, i, name, a.f, st);
}

/* A constant bound of one element and shape [1] becomes a scalar. */
static void squeeze_bound(struct qc_node_import *w, size_t i, const char *name, struct qc_status *st)
{
    const struct qc_tensor *t = qc_import_constant(w, i, st);
    if (t && t->count == 1 && t->shape.rank)
        qc_import_set_tensor(w, i, name, qc_tensor_of(t->dtype, &QC_SCALAR, t->data, st), st);
}

static bool form_clip(struct qc_node_import *w, struct qc_status *st)
{
    if (!bound_of(w, "min", 1, -FLT_MAX, st) || !bound_of(w, "max", 2, FLT_MAX, st)) return false;
    squeeze_bound(w, 1, "min", st);
    squeeze_bound(w, 2, "max", st);
    if (!qc_import_has(w, 1) && !qc_import_has(w, 2)) return qc_import_alias(w, 0, st);
    return qc_import_finish(w, QC_OP_Clip, st);
}

/* --- Resize --- */

/* Upsample and Resize of opset 10: pixel i is read from i / scale, rounded down (up where ONNX Runtime shrinks). */
static bool old_resize(struct qc_node_import *w, struct qc_status *st)
{
    struct qc_attr a;
    const char *nearest = "floor";
    if (qc_import_take_attr(&a, w, "scales")) {
        const struct qc_shape shape = QC_SHAPE((int64_t)a.count);
        qc_import_set_tensor(w, 1, "scales", qc_tensor_of(QC_F32, &shape, a.floats, st), st);
    }
    const struct qc_tensor *scales = qc_import_constant(w, 1, st);
    for (size_t i = 0; scales && i < scales->count; i++)
        if (qc_tensor_float(scales, i) < 1) nearest = "ceil";
    if (!qc_import_has(w, 1)) return qc_fail(st, QC_BAD_INPUT, "has no scales");
    w->inputs[2] = w->inputs[1]; /* within capacity: QC_OPERANDS_EXTRA */
    w->inputs[1] = (struct qc_operand){.name = NULL};
    w->input_count = 3;
    const struct qc_attr *mode = qc_import_attr(w, "mode");
    qc_import_put_attr(w, QC_STRING("coordinate_transformation_mode", "asymmetric"));
    if (!mode)
        qc_import_put_attr(w, QC_STRING("nearest_mode", nearest));
    else if (strcmp(mode->s, "bilinear") == 0)
        qc_import_put_attr(w, QC_STRING("mode", "linear"));
    return qc_import_finish(w, QC_OP_Resize, st);
}

/* Extends scales or sizes of some axes (opset 18) to all axes. */
static bool spread_resize(struct qc_node_import *w, size_t i, const struct qc_attr *axes, struct qc_status *st)
{
    const struct qc_tensor *t = qc_import_constant(w, i, st);
    const struct qc_shape s = qc_import_shape(w, 0);
    if (!qc_import_has(w, i)) return true;
    if (!t || s.rank < 0)
        return qc_fail(st, QC_UNSUPPORTED,
                       "axes are handled with constant scales or sizes and an input of known rank only");
    if (t->count != axes->count || t->shape.rank != 1)
        return qc_fail(st, QC_BAD_INPUT, "has %zu axes but %zu scales or sizes", axes->count, t->count);
    const struct qc_shape shape = QC_SHAPE(s.rank);
    struct qc_tensor *all = qc_tensor_new(t->dtype, &shape, st);
    if (!all) return false;
    for (int k = 0; k < s.rank; k++) {
        if (t->dtype == QC_F32)
            ((float *)all->data)[k] = 1;
        else if (t->dtype == QC_I64)
            ((int64_t *)all->data)[k] = s.dim[k];
    }
    for (size_t k = 0; k < axes->count; k++) {
        int64_t at = axes->ints[k] < 0 ? axes->ints[k] + s.rank : axes->ints[k];
        bool known = at >= 0 && at < s.rank;
        if (known && t->dtype == QC_F32)
            ((float *)all->data)[at] = ((const float *)t->data)[k];
        else if (known && t->dtype == QC_I64)
            ((int64_t *)all->data)[at] = ((const int64_t *)t->data)[k];
        else {
            qc_tensor_unref(all);
            return qc_fail(st, QC_BAD_INPUT, "axis %lld, or the type of scales or sizes, is wrong",
                           (long long)axes->ints[k]);
        }
    }
    for (int k = 0; t->dtype == QC_I64 && k < s.rank; k++) {
        if (((const int64_t *)all->data)[k] >= 0) continue;
        qc_tensor_unref(all);
        return qc_fail(st, QC_UNSUPPORTED, "sizes of some axes are not handled when another dimension is free");
    }
    return qc_import_set_tensor(w, i, t->dtype == QC_F32 ? "scales" : "sizes", all, st);
}

static bool form_resize(struct qc_node_import *w, struct qc_status *st)
{
    if (w->im->opset < 11) return old_resize(w, st);
    struct qc_attr a;
    const struct qc_tensor *dropped;
    const struct qc_attr *coordinates = qc_import_attr(w, "coordinate_transformation_mode"),
                         *mode = qc_import_attr(w, "mode");
    if (coordinates && strcmp(coordinates->s, "tf_half_pixel_for_nn") == 0)
        return qc_fail(st, QC_UNSUPPORTED,
                       "coordinate_transformation_mode tf_half_pixel_for_nn is gone since opset 13 and not handled");
    if (!coordinates || strcmp(coordinates->s, "tf_crop_and_resize") != 0) qc_import_set(w, 1, QC_ABSENT);
    const bool cubic = mode && strcmp(mode->s, "cubic") == 0, nearest = !mode;
    for (size_t i = 1; i < w->input_count && i < 4; i++)
        if ((dropped = qc_import_constant(w, i, st)) && dropped->count == 0) qc_import_set(w, i, QC_ABSENT);
    const struct qc_tensor *scales = qc_import_constant(w, 2, st), *sizes = qc_import_constant(w, 3, st);
    /* Parameters of some axes are extended to all axes, if these are known; crops and proportions need the axes
       themselves. */
    const bool plain = (scales || sizes) && qc_import_shape(w, 0).rank >= 0 && !qc_import_has(w, 1) &&
                       !qc_import_attr(w, "keep_aspect_ratio_policy");
    if (plain && qc_import_take_attr(&a, w, "axes"))
        if (!spread_resize(w, 2, &a, st) || !spread_resize(w, 3, &a, st)) return false;
    if (!nearest) qc_import_take_attr(&a, w, "nearest_mode");
    if (!cubic) qc_import_take_attr(&a, w, "cubic_coeff_a");
    return qc_import_finish(w, QC_OP_Resize, st);
}

/* --- Quantization operators --- */

static bool form_quantize(struct qc_node_import *w, struct qc_status *st)
{
    struct qc_attr a;
    char text[QC_TYPE_TEXT];
    const struct qc_shape scale = qc_import_shape(w, 1);
    if (scale.rank == 0) qc_import_take_attr(&a, w, "axis");
    if (qc_import_take_attr(&a, w, "precision") && a.i != qc_dtype_info(QC_F32)->onnx)
        return qc_fail(st, QC_UNSUPPORTED, "precision %s is not handled",
                       qc_import_type_text(text, a.i < 0 || a.i > 99 ? -1 : (int)a.i));
    if (qc_import_take_attr(&a, w, "output_dtype")) {
        enum qc_dtype dtype = a.i < 0 || a.i > 99 ? QC_NONE : qc_dtype_from_onnx((int)a.i);
        if (dtype == QC_NONE)
            return qc_fail(st, QC_UNSUPPORTED, "output_dtype %s is not handled",
                           qc_import_type_text(text, a.i < 0 || a.i > 99 ? -1 : (int)a.i));
        if (qc_import_has(w, 2)) {
            if (qc_import_dtype(w, 2) != dtype)
                return qc_fail(st, QC_BAD_INPUT, "output_dtype and the type of the zero point differ");
        } else {
            if (!qc_shape_fixed(&scale))
                return qc_fail(st, QC_UNSUPPORTED, "output_dtype is handled with a scale of known shape only");
            qc_import_set_tensor(w, 2, "zero_point", qc_tensor_new(dtype, &scale, st), st);
        }
    }
    return qc_import_finish(w, QC_OP_QuantizeLinear, st);
}

static bool form_dequantize(struct qc_node_import *w, struct qc_status *st)
{
    struct qc_attr a;
    if (qc_import_shape(w, 1).rank == 0) qc_import_take_attr(&a, w, "axis");
    if (qc_import_take_attr(&a, w, "output_dtype") && a.i != qc_dtype_info(qc_import_dtype(w, 1))->onnx)
        return qc_fail(st, QC_UNSUPPORTED, "an output_dtype other than the type of the scale is not handled");
    return qc_import_finish(w, QC_OP_DequantizeLinear, st);
}

/* --- Operators expressed by others --- */

static bool form_identity(struct qc_node_import *w, struct qc_status *st)
{
    return qc_import_alias(w, 0, st);
}

static bool form_dropout(struct qc_node_import *w, struct qc_status *st)
{
    const struct qc_tensor *training = qc_import_constant(w, 2, st);
    if (qc_import_has(w, 2) && (!training || training->count != 1 || qc_tensor_int(training, 0)))
        return qc_fail(st, QC_UNSUPPORTED, "may be in training mode; export the model for inference");
    return qc_import_alias(w, 0, st);
}

static bool form_variadic(struct qc_node_import *w, struct qc_status *st)
{
    return w->input_count == 1 ? qc_import_alias(w, 0, st) : qc_import_finish(w, qc_op_from_onnx(w->op), st);
}

static bool form_cast_like(struct qc_node_import *w, struct qc_status *st)
{
    const enum qc_dtype dtype = qc_import_dtype(w, 1);
    if (dtype == QC_NONE) return qc_fail(st, QC_BAD_INPUT, "the type of its second input is not known");
    qc_import_put_attr(w, QC_INT("to", qc_dtype_info(dtype)->onnx));
    w->input_count = 1;
    return qc_import_finish(w, QC_OP_Cast, st);
}

/* x * Sigmoid(alpha * x) */
static bool form_swish(struct qc_node_import *w, struct qc_status *st)
{
    struct qc_attr alpha;
    qc_id x = qc_import_input(w, 0, st), s = x;
    if (!x) return !qc_import_has(w, 0) ? qc_fail(st, QC_BAD_INPUT, "input 0 is missing") : false;
    if (qc_import_take_attr(&alpha, w, "alpha")) {
        qc_import_set_scalar(w, 1, "alpha", alpha.f, st);
        const qc_id in[2] = {x, qc_import_input(w, 1, st)};
        s = qc_import_beside(w, QC_OP_Mul, "scaled", 2, in, 0, NULL, st);
    }
    qc_import_set(w, 1, qc_import_beside(w, QC_OP_Sigmoid, "sigmoid", 1, &s, 0, NULL, st));
    return qc_import_finish(w, QC_OP_Mul, st);
}

/* A call of qcalib::mxfp4, or of another number format in blocks. */
static bool form_blocks(struct qc_node_import *w, struct qc_status *st)
{
    qc_import_put_attr(w, QC_STRING("format", strchr(w->op, ':') + 2));
    return qc_import_finish(w, QC_OP_RoundInBlocks, st);
}

const struct qc_import_row qc_import_layer_forms[] = {
#define QC_FORMAT_CALL(c, name, ...) {"qcalib::" name, form_blocks},
    QC_NUMBER_FORMATS(QC_FORMAT_CALL, )
#undef QC_FORMAT_CALL
        {"BatchNormalization", form_batch_norm},
    {"CastLike", form_cast_like},
    {"Clip", form_clip},
    {"Conv", form_conv},
    {"QLinearConv", form_conv},
    {"ConvInteger", form_conv},
    {"ConvTranspose", form_conv},
    {"DequantizeLinear", form_dequantize},
    {"Dropout", form_dropout},
    {"Gemm", form_gemm},
    {"AveragePool", form_average_pool},
    {"Hardmax", form_softmax},
    {"Identity", form_identity},
    {"LogSoftmax", form_softmax},
    {"Max", form_variadic},
    {"Mean", form_variadic},
    {"Min", form_variadic},
    {"QuantizeLinear", form_quantize},
    {"Resize", form_resize},
    {"Softmax", form_softmax},
    {"Sum", form_variadic},
    {"Swish", form_swish},
    {"Upsample", old_resize},
    {.op = NULL},
};
