// SPDX-License-Identifier: Apache-2.0
/* Products, window operators and image operators. */
#include "tflite/read/tflite_reading.h"

/* Returns the real value of image input i, channels first; its height and width may be free. */
static qc_id open_image(struct qc_tfl_node *n, size_t i, struct qc_status *st)
{
    struct qc_tfl_value *v = qc_tfl_input(n, i, st);
    if (!v) return 0;
    if (v->shape.rank != 4) return qc_fail(st, QC_BAD_INPUT, "input %zu has %d axes, expected 4", i, v->shape.rank);
    const qc_id id = qc_tfl_real(n, v, QC_TFL_CHANNELS_FIRST, st);
    const struct qc_shape *s = qc_tfl_shape(n, id);
    if (s->rank == 4 && s->dim[1] > 0) return id;
    return qc_fail(st, QC_UNSUPPORTED, "the channels of its image are not known before it runs");
}

/* The same for an image of known size. */
static qc_id image(struct qc_tfl_node *n, size_t i, struct qc_status *st)
{
    const qc_id id = open_image(n, i, st);
    const struct qc_shape *s = id ? qc_tfl_shape(n, id) : NULL;
    if (!id || (s->dim[2] > 0 && s->dim[3] > 0)) return id;
    return qc_fail(st, QC_UNSUPPORTED, "the size of its image is not known before it runs");
}

/* --- Windows --- */

enum { AXES_MAX = 3 };

struct window {
    int axes; /* 2: height, width; 3: depth before them */
    int64_t kernel[AXES_MAX], strides[AXES_MAX], dilations[AXES_MAX], pads[2 * AXES_MAX];
    bool same; /* SAME of a size that is not known: pads are 0 */
};

static bool positive(const int64_t *v, size_t count, const char *what, struct qc_status *st)
{
    for (size_t i = 0; i < count; i++)
        if (v[i] < 1) return qc_fail(st, QC_BAD_INPUT, "its %s is %lld", what, (long long)v[i]);
    return true;
}

/* Reads strides and dilations and computes TensorFlow's pads. SAME gives ceil(size / stride) results; if the padding is
 * odd, the extra element is at the end, as with SAME_UPPER. size: of the axes of the window; with a stride of 1 it does
 * not matter. */
static bool read_window(struct window *w, struct qc_tfl_node *n, const int64_t *size, struct qc_status *st)
{
    static const char *const stride[] = {"stride_d", "stride_h", "stride_w"}, *const dilation[] = {"dilation_d_factor",
                                                                                                   "dilation_h_factor",
                                                                                                   "dilation_w_factor"};
    const bool pools = n->info->options == QC_TFL_TABLE_Pool2DOptions;
    const int64_t padding = qc_tfl_option(n, "padding");
    const size_t axes = (size_t)w->axes;
    for (size_t i = 0; i < axes; i++) {
        w->strides[i] = qc_tfl_option(n, stride[AXES_MAX - axes + i]);
        w->dilations[i] = pools ? 1 : qc_tfl_option(n, dilation[AXES_MAX - axes + i]);
    }
    if (!positive(w->strides, axes, "stride", st) || !positive(w->dilations, axes, "dilation", st) ||
        !positive(w->kernel, axes, "window", st))
        return false;
    if (padding != QC_TFL_PADDING_SAME && padding != QC_TFL_PADDING_VALID)
        return qc_fail(st, QC_UNSUPPORTED, "its padding %lld is not handled", (long long)padding);
    for (size_t i = 0; i < axes; i++)
        w->same = w->same || (padding == QC_TFL_PADDING_SAME && size[i] < 1 && w->strides[i] > 1);
    for (size_t i = 0; i < axes && !w->same; i++) {
        const int64_t results = (size[i] - 1) / w->strides[i] + 1;
        const int64_t total = (results - 1) * w->strides[i] + (w->kernel[i] - 1) * w->dilations[i] + 1 - size[i];
        w->pads[i] = padding == QC_TFL_PADDING_SAME && total > 0 ? total / 2 : 0;
        w->pads[axes + i] = padding == QC_TFL_PADDING_SAME && total > 0 ? total - total / 2 : 0;
    }
    return true;
}

static void window_attrs(struct qc_tfl_node *n, const struct window *w, struct qc_status *st)
{
    const size_t axes = (size_t)w->axes;
    qc_tfl_attr_ints(n, "strides", axes, w->strides, 1, st);
    qc_tfl_attr_ints(n, "dilations", axes, w->dilations, 1, st);
    if (w->same)
        qc_tfl_attr(n, QC_STRING("auto_pad", "SAME_UPPER"));
    else
        qc_tfl_attr_ints(n, "pads", 2 * axes, w->pads, 0, st);
}

static bool pool(struct qc_tfl_node *n, struct qc_status *st)
{
    const qc_id x = open_image(n, 0, st);
    struct window w = {.axes = 2, .kernel = {qc_tfl_option(n, "filter_height"), qc_tfl_option(n, "filter_width")}};
    if (!x || !read_window(&w, n, &qc_tfl_shape(n, x)->dim[2], st)) return false;
    window_attrs(n, &w, st);
    qc_tfl_attr_ints(n, "kernel_shape", 2, w.kernel, 0, st);
    return qc_tfl_finish(n, qc_tfl_add(n, n->op, 1, &x, n->name, st), QC_TFL_CHANNELS_FIRST, st);
}

/* --- Products --- */

/* Returns weight i, which has `rank` axes; perm as for qc_tfl_constant. Returns 0 with a status on failure. */
static qc_id weight(struct qc_tfl_node *n, size_t i, int rank, const int64_t *perm, struct qc_status *st)
{
    struct qc_tfl_value *w = qc_tfl_input(n, i, st);
    if (!w) return 0;
    if (w->shape.rank != rank)
        return qc_fail(st, QC_BAD_INPUT, "its weights have %d axes, expected %d", w->shape.rank, rank);
    if (w->data && w->dtype != QC_NONE) return qc_tfl_constant(n, w, &w->shape, perm, NULL, st);
    const qc_id id = qc_tfl_real(n, w, QC_TFL_IN_FILE, st);
    return perm ? qc_tfl_transpose(n, id, (size_t)rank, perm, NULL, st) : id;
}

/* Returns bias i of `channels` numbers, or 0 if there is none. An integer bias has the scale of the accumulator,
   f(input scale * weight scale): TFLite's kernels use this scale and ignore the one in the file. */
static qc_id bias(struct qc_tfl_node *n, size_t i, const struct qc_tfl_value *x, const struct qc_tfl_value *w,
                  int64_t channels, struct qc_status *st)
{
    struct qc_tfl_value *b = qc_tfl_has_input(n, i) ? n->inputs[i] : NULL;
    size_t count;
    if (!b) return QC_ABSENT;
    if (!b->data) return qc_tfl_real(n, b, QC_TFL_IN_FILE, st);
    if (b->dtype == QC_NONE || !qc_shape_count(&count, &b->shape) || (int64_t)count != channels)
        return qc_fail(st, QC_BAD_INPUT, "its bias does not have %lld numbers", (long long)channels);
    const struct qc_shape shape = QC_SHAPE(channels);
    if (b->dtype != QC_I32 && b->dtype != QC_I64) return qc_tfl_constant(n, b, &shape, NULL, NULL, st);
    if (!x->quantized || !w->quantized || x->scales.count != 1 || (w->scales.count > 1 && w->scales.count != count))
        return qc_fail(st, QC_BAD_INPUT, "its bias has integers, but its input or weights have no scales that fit");
    float *scale = QC_NEW_ARRAY(n->r->arena, float, w->scales.count, st);
    for (size_t k = 0; scale && k < w->scales.count; k++)
        scale[k] = qc_fb_vector_float(&x->scales, 0) * qc_fb_vector_float(&w->scales, k);
    const struct qc_tfl_scales own = {.count = w->scales.count, .scale = scale};
    return scale ? qc_tfl_constant(n, b, &shape, NULL, &own, st) : 0;
}

static bool conv(struct qc_tfl_node *n, struct qc_status *st)
{
    static const int64_t dense_order[] = {0, 3, 1, 2}, depthwise_order[] = {3, 0, 1, 2};
    const bool depthwise = n->info->code == QC_TFL_OP_DEPTHWISE_CONV_2D;
    qc_id in[3] = {open_image(n, 0, st), weight(n, 1, 4, depthwise ? depthwise_order : dense_order, st)};
    if (st->code != QC_OK) return false;
    const struct qc_shape x = *qc_tfl_shape(n, in[0]), k = *qc_tfl_shape(n, in[1]);
    struct window w = {.axes = 2, .kernel = {k.dim[2], k.dim[3]}};
    const int64_t group = k.dim[1] > 0 ? x.dim[1] / k.dim[1] : 0;
    if (group < 1 || group * k.dim[1] != x.dim[1] || k.dim[0] % group)
        return qc_fail(st, QC_BAD_INPUT, "weights of %lld channels do not fit an image of %lld", (long long)k.dim[1],
                       (long long)x.dim[1]);
    in[2] = bias(n, 2, n->inputs[0], n->inputs[1], k.dim[0], st);
    if (!read_window(&w, n, &x.dim[2], st)) return false;
    window_attrs(n, &w, st);
    if (group > 1) qc_tfl_attr(n, QC_INT("group", group));
    return qc_tfl_finish(n, qc_tfl_add(n, QC_OP_Conv, in[2] ? 3 : 2, in, n->name, st), QC_TFL_CHANNELS_FIRST, st);
}

/* Inputs: volume [N,D,H,W,I], weights [D,H,W,I,O], bias. */
static bool conv_of_volumes(struct qc_tfl_node *n, struct qc_status *st)
{
    static const int64_t first[] = {0, 4, 1, 2, 3}, last[] = {0, 2, 3, 4, 1}, order[] = {4, 3, 0, 1, 2};
    struct qc_tfl_value *v = qc_tfl_input(n, 0, st);
    if (!v) return false;
    if (v->shape.rank != 5) return qc_fail(st, QC_BAD_INPUT, "input 0 has %d axes, expected 5", v->shape.rank);
    qc_id in[3] = {qc_tfl_transpose(n, qc_tfl_real(n, v, QC_TFL_IN_FILE, st), 5, first, NULL, st),
                   weight(n, 1, 5, order, st)};
    if (st->code != QC_OK) return false;
    const struct qc_shape x = *qc_tfl_shape(n, in[0]), k = *qc_tfl_shape(n, in[1]);
    struct window w = {.axes = 3, .kernel = {k.dim[2], k.dim[3], k.dim[4]}};
    if (x.dim[1] != k.dim[1])
        return qc_fail(st, QC_BAD_INPUT, "weights of %lld channels do not fit a volume of %lld", (long long)k.dim[1],
                       (long long)x.dim[1]);
    for (int i = 2; i < 5; i++)
        if (x.dim[i] < 1) return qc_fail(st, QC_UNSUPPORTED, "the size of its volume is not known before it runs");
    in[2] = bias(n, 2, v, n->inputs[1], k.dim[0], st);
    if (!read_window(&w, n, &x.dim[2], st)) return false;
    window_attrs(n, &w, st);
    const qc_id y = qc_tfl_add(n, QC_OP_Conv, in[2] ? 3 : 2, in, n->name, st);
    return qc_tfl_finish(n, qc_tfl_transpose(n, y, 5, last, NULL, st), QC_TFL_IN_FILE, st);
}

/* Inputs: shape of the result, weights [O,H,W,I], image, bias. */
static bool conv_transpose(struct qc_tfl_node *n, struct qc_status *st)
{
    static const int64_t order[] = {3, 0, 1, 2};
    int64_t size[2], pads[4] = {0}, more[2] = {0};
    qc_id in[3] = {image(n, 2, st), weight(n, 1, 4, order, st)};
    if (st->code != QC_OK || !qc_tfl_image_size(size, n, 0, 1, st)) return false;
    const struct qc_shape x = *qc_tfl_shape(n, in[0]), k = *qc_tfl_shape(n, in[1]);
    const int64_t strides[2] = {qc_tfl_option(n, "stride_h"), qc_tfl_option(n, "stride_w")};
    if (!positive(strides, 2, "stride", st) || !positive(&k.dim[2], 2, "window", st)) return false;
    if (k.dim[0] != x.dim[1]) return qc_fail(st, QC_BAD_INPUT, "its weights do not fit the channels of its image");
    const bool same = qc_tfl_option(n, "padding") == QC_TFL_PADDING_SAME;
    for (int i = 0; i < 2; i++) {
        const int64_t cut = (x.dim[2 + i] - 1) * strides[i] + k.dim[2 + i] - size[i];
        if (cut < 0 && -cut >= strides[i])
            return qc_fail(st, QC_BAD_INPUT, "the size of its result does not follow from its image");
        pads[i] = cut > 0 && same ? cut / 2 : 0;
        pads[2 + i] = cut > 0 ? cut - pads[i] : 0;
        more[i] = cut < 0 ? -cut : 0;
    }
    in[2] = bias(n, 3, n->inputs[2], n->inputs[1], k.dim[1], st);
    qc_tfl_attr_ints(n, "strides", 2, strides, 1, st);
    qc_tfl_attr_ints(n, "pads", 4, pads, 0, st);
    qc_tfl_attr_ints(n, "output_padding", 2, more, 0, st);
    return qc_tfl_finish(n, qc_tfl_add(n, QC_OP_ConvTranspose, in[2] ? 3 : 2, in, n->name, st), QC_TFL_CHANNELS_FIRST,
                         st);
}

/* Returns the stored input, reshaped to rows of `columns` numbers, as a new value with the same qparams. */
static struct qc_tfl_value *as_rows(struct qc_tfl_node *n, struct qc_tfl_value *x, int64_t columns,
                                    struct qc_status *st)
{
    struct qc_tfl_value *v = qc_arena_dup(n->r->arena, x, 1, sizeof *x, st);
    if (!v) return NULL;
    v->real[0] = v->real[1] = v->stored[1] = 0;
    const int64_t dims[2] = {-1, columns};
    const qc_id first = x->stored[QC_TFL_CHANNELS_FIRST];
    const struct qc_shape *s = first ? qc_tfl_shape(n, first) : NULL;
    /* The layout does not matter if at most one of channels, height and width is longer than 1. */
    const bool flat =
        s && !x->stored[QC_TFL_IN_FILE] && s->rank == 4 && (s->dim[1] == 1 || (s->dim[2] == 1 && s->dim[3] == 1));
    qc_id id = flat ? first : qc_tfl_stored(n, x, QC_TFL_IN_FILE, st);
    s = id ? qc_tfl_shape(n, id) : NULL;
    if (s && (s->rank != 2 || s->dim[1] != columns)) id = qc_tfl_reshape(n, id, 2, dims, st);
    v->stored[QC_TFL_IN_FILE] = id;
    if (id == x->stored[QC_TFL_IN_FILE]) return x;
    return id ? v : NULL;
}

static bool dense(struct qc_tfl_node *n, struct qc_status *st)
{
    struct qc_tfl_value *x = qc_tfl_input(n, 0, st), *out = n->outputs[0];
    qc_id in[3] = {QC_ABSENT, x ? weight(n, 1, 2, NULL, st) : 0};
    if (!in[1]) return false;
    if (qc_tfl_option(n, "weights_format")) return qc_fail(st, QC_UNSUPPORTED, "its weights are shuffled");
    const struct qc_shape k = *qc_tfl_shape(n, in[1]);
    struct qc_tfl_value *data = as_rows(n, x, k.dim[1], st);
    in[0] = qc_tfl_real(n, data, QC_TFL_IN_FILE, st);
    in[2] = bias(n, 2, x, n->inputs[1], k.dim[0], st);
    qc_tfl_attr(n, QC_INT("transB", 1));
    const qc_id id = qc_tfl_add(n, QC_OP_Gemm, in[2] ? 3 : 2, in, n->name, st);
    const bool keeps = qc_tfl_option(n, "keep_num_dims") && x->shape.rank > 2;
    if (!keeps) return qc_tfl_finish(n, id, QC_TFL_IN_FILE, st);
    /* The stored result gets the leading axes of the input. */
    int64_t dims[QC_RANK_MAX];
    for (int i = 0; i < x->shape.rank; i++) dims[i] = x->shape.dim[i] == QC_FREE ? -1 : x->shape.dim[i];
    dims[x->shape.rank - 1] = k.dim[0];
    struct qc_tfl_value own = *out, *list[1] = {&own};
    struct qc_tfl_node flat = *n;
    flat.outputs = list;
    flat.output_count = 1;
    own.stale_shape = true;
    qc_tfl_finish(&flat, id, QC_TFL_IN_FILE, st);
    return qc_tfl_define_stored(n, 0, qc_tfl_reshape(n, own.stored[QC_TFL_IN_FILE], (size_t)x->shape.rank, dims, st),
                                QC_TFL_IN_FILE, st);
}

/* Returns input i, with its last two axes swapped if `turn`. */
static qc_id turned(struct qc_tfl_node *n, size_t i, bool turn, struct qc_status *st)
{
    int64_t *perm = QC_NEW_ARRAY(n->r->arena, int64_t, QC_RANK_MAX, st);
    struct qc_tfl_value *v = perm ? qc_tfl_input(n, i, st) : NULL;
    if (!v) return 0;
    const int rank = v->shape.rank;
    if (rank < 2) return qc_fail(st, QC_BAD_INPUT, "input %zu has %d axes, expected 2 or more", i, rank);
    for (int k = 0; k < rank; k++) perm[k] = k;
    perm[rank - 2] = rank - 1;
    perm[rank - 1] = rank - 2;
    if (turn && v->data && v->dtype != QC_NONE) return qc_tfl_constant(n, v, &v->shape, perm, NULL, st);
    const qc_id id = qc_tfl_real(n, v, QC_TFL_IN_FILE, st);
    return turn ? qc_tfl_transpose(n, id, (size_t)rank, perm, NULL, st) : id;
}

static bool matmul(struct qc_tfl_node *n, struct qc_status *st)
{
    const qc_id in[2] = {turned(n, 0, qc_tfl_option(n, "adj_x") != 0, st),
                         turned(n, 1, qc_tfl_option(n, "adj_y") != 0, st)};
    return qc_tfl_define_real(n, 0, qc_tfl_add(n, QC_OP_MatMul, 2, in, n->name, st), QC_TFL_IN_FILE, st);
}

/* --- Images --- */

static bool resize(struct qc_tfl_node *n, struct qc_status *st)
{
    static const int64_t axes[] = {2, 3};
    const bool nearest = n->op == QC_OP_Resize && n->info->code == QC_TFL_OP_RESIZE_NEAREST_NEIGHBOR;
    const bool corners = qc_tfl_option(n, "align_corners") != 0, half = qc_tfl_option(n, "half_pixel_centers") != 0;
    int64_t size[2];
    qc_id in[4] = {image(n, 0, st)};
    if (!in[0] || !qc_tfl_image_size(size, n, 1, 0, st)) return false;
    const struct qc_shape *s = qc_tfl_shape(n, in[0]);
    const int64_t all[4] = {s->dim[0], s->dim[1], size[0], size[1]};
    const bool fixed = s->dim[0] > 0;
    in[3] = qc_tfl_int_list(n, fixed ? 4 : 2, fixed ? all : size, st);
    if (!fixed) qc_tfl_attr(n, QC_INTS("axes", 2, axes));
    if (!nearest) qc_tfl_attr(n, QC_STRING("mode", "linear"));
    if (nearest) qc_tfl_attr(n, QC_STRING("nearest_mode", corners || half ? "round_prefer_ceil" : "floor"));
    if (corners || !half)
        qc_tfl_attr(n, QC_STRING("coordinate_transformation_mode", corners ? "align_corners" : "asymmetric"));
    return qc_tfl_define_real(n, 0, qc_tfl_add(n, QC_OP_Resize, 4, in, n->name, st), QC_TFL_CHANNELS_FIRST, st);
}

static bool depth_space(struct qc_tfl_node *n, struct qc_status *st)
{
    const qc_id x = image(n, 0, st);
    const int64_t block = qc_tfl_option(n, "block_size");
    if (!x || !positive(&block, 1, "block", st)) return false;
    qc_tfl_attr(n, QC_INT("blocksize", block));
    return qc_tfl_define_real(n, 0, qc_tfl_add(n, n->op, 1, &x, n->name, st), QC_TFL_CHANNELS_FIRST, st);
}

/* Computes x / (bias + alpha * sum of squares)^beta. ONNX divides alpha by the number of channels in the sum. */
static bool lrn(struct qc_tfl_node *n, struct qc_status *st)
{
    enum { RADIUS_MAX = 1 << 20 };
    const qc_id x = image(n, 0, st);
    const int64_t radius = qc_tfl_option(n, "radius"), size = 2 * radius + 1;
    if (!x) return false;
    if (radius < 0 || radius > RADIUS_MAX) return qc_fail(st, QC_BAD_INPUT, "its radius is %lld", (long long)radius);
    qc_tfl_attr(n, QC_INT("size", size));
    qc_tfl_attr(n, QC_FLOAT("alpha", qc_tfl_option_float(n, "alpha") * (float)size));
    qc_tfl_attr(n, QC_FLOAT("beta", qc_tfl_option_float(n, "beta")));
    qc_tfl_attr(n, QC_FLOAT("bias", qc_tfl_option_float(n, "bias")));
    return qc_tfl_define_real(n, 0, qc_tfl_add(n, QC_OP_LRN, 1, &x, n->name, st), QC_TFL_CHANNELS_FIRST, st);
}

const struct qc_tfl_row qc_tfl_layer_rows[] = {
    {QC_TFL_OP_CONV_2D, conv, QC_OP_Conv},
    {QC_TFL_OP_DEPTHWISE_CONV_2D, conv, QC_OP_Conv},
    {QC_TFL_OP_CONV_3D, conv_of_volumes, QC_OP_Conv},
    {QC_TFL_OP_TRANSPOSE_CONV, conv_transpose, QC_OP_ConvTranspose},
    {QC_TFL_OP_FULLY_CONNECTED, dense, QC_OP_Gemm},
    {QC_TFL_OP_BATCH_MATMUL, matmul, QC_OP_MatMul},
    {QC_TFL_OP_AVERAGE_POOL_2D, pool, QC_OP_AveragePool},
    {QC_TFL_OP_MAX_POOL_2D, pool, QC_OP_MaxPool},
    {QC_TFL_OP_RESIZE_BILINEAR, resize, QC_OP_Resize},
    {QC_TFL_OP_RESIZE_NEAREST_NEIGHBOR, resize, QC_OP_Resize},
    {QC_TFL_OP_DEPTH_TO_SPACE, depth_space, QC_OP_DepthToSpace},
    {QC_TFL_OP_SPACE_TO_DEPTH, depth_space, QC_OP_SpaceToDepth},
    {QC_TFL_OP_LOCAL_RESPONSE_NORMALIZATION, lrn, QC_OP_LRN},
    {.form = NULL},
};
