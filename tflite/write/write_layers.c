// SPDX-License-Identifier: Apache-2.0
/* Convolutions, dense layers, products of two activations, pools and means. */
#include <string.h>

#include "graph/core/infer.h"
#include "graph/core/parameters.h"
#include "tflite/write/tflite_writing.h"

static const int AS_IT_IS[QC_RANK_MAX] = {0, 1, 2, 3, 4, 5, 6, 7};

/* A window in two dimensions; a one-dimensional window has height 1. */
struct window {
    int64_t kernel[2], stride[2], dilation[2], begin[2], end[2], in[2], out[2];
};

static bool window_of(struct window *w, const struct qc_graph *g, const struct qc_node *n, struct qc_status *st)
{
    struct qc_window v;
    if (!qc_window_of(&v, g, n, st)) return false;
    *w = (struct window){{1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, {1, 1}, {1, 1}};
    for (int i = 0; i < v.spatial && i < 2; i++) {
        const int to = v.spatial == 1 ? 1 : i;
        w->kernel[to] = v.kernel[i];
        w->stride[to] = v.stride[i];
        w->dilation[to] = v.dilation[i];
        w->begin[to] = v.pad_begin[i];
        w->end[to] = v.pad_end[i];
        w->in[to] = v.in[i];
        w->out[to] = v.out[i];
    }
    return true;
}

/* True if the padding is that of SAME. */
static bool is_same(const struct window *w)
{
    for (int i = 0; i < 2; i++) {
        if (w->in[i] == QC_FREE) return false;
        const int64_t out = (w->in[i] + w->stride[i] - 1) / w->stride[i],
                      reach = (w->kernel[i] - 1) * w->dilation[i] + 1,
                      total = (out - 1) * w->stride[i] + reach - w->in[i], pad = total > 0 ? total : 0;
        if (w->out[i] != out || w->begin[i] != pad / 2 || w->end[i] != pad - pad / 2) return false;
    }
    return true;
}

static bool is_valid(const struct window *w)
{
    return !w->begin[0] && !w->begin[1] && !w->end[0] && !w->end[1];
}

/* Returns the tensor of v with four axes, channels last. */
static int image_of(struct qc_tfl_writer *w, qc_id v)
{
    const int x = qc_tfl_out_tensor_of(w, v, QC_TFL_LAST);
    if (w->tensors[x].shape.rank != 3) return x;
    const struct qc_shape s = w->tensors[x].shape, whole = QC_SHAPE(s.dim[0], 1, s.dim[1], s.dim[2]);
    const int flat = qc_tfl_out_like(w, v, &whole, "_2d");
    qc_tfl_out_reshape(w, x, flat);
    return flat;
}

/* Returns the tensor of v with four axes, channels last. Padding that the operator does not have itself is added by an
   operator before it. fill: padding value; NULL: 0. */
static int windowed(enum qc_tfl_padding *padding, struct qc_tfl_writer *w, qc_id v, const struct window *win,
                    const float *fill)
{
    const int x = image_of(w, v);
    struct qc_shape s = w->tensors[x].shape;
    *padding = QC_TFL_PADDING_VALID;
    if (is_valid(win)) return x;
    if (is_same(win)) {
        *padding = QC_TFL_PADDING_SAME;
        return x;
    }
    const int64_t pads[] = {0, 0, win->begin[0], win->end[0], win->begin[1], win->end[1], 0, 0};
    for (int i = 0; i < 2; i++)
        if (s.dim[1 + i] != QC_FREE) s.dim[1 + i] += win->begin[i] + win->end[i];
    const int to = qc_tfl_out_like(w, v, &s, "_padded");
    int inputs[] = {x, qc_tfl_out_int_table(w, pads, 4, 2, "pads"), QC_TFL_NO_TENSOR};
    if (fill) { /* the lowest number of the type does not change a maximum */
        struct qc_tfl_tensor t = w->tensors[to];
        void *data = qc_arena_get(w->arena, 1, sizeof *fill, w->st);
        if (!data) return QC_TFL_NO_TENSOR;
        const int32_t lowest = qc_dtype_info(t.dtype)->lo;
        if (t.dtype == QC_F32)
            memcpy(data, fill, sizeof *fill);
        else
            memcpy(data, &lowest, qc_dtype_size(t.dtype)); /* little-endian */
        t.data = data;
        t.shape = QC_SCALAR;
        t.name = "lowest";
        inputs[2] = qc_tfl_out_add_tensor(w, &t);
    }
    qc_tfl_out_add_node(w, fill ? QC_TFL_OP_PADV2 : QC_TFL_OP_PAD, fill ? 3 : 2, inputs, to, NULL);
    return to;
}

/* Returns the tensor that a two-dimensional operator writes to; `*given` is the tensor of the value, which may have
   three axes. */
static int window_result(int *given, struct qc_tfl_writer *w, qc_id v)
{
    *given = qc_tfl_out_result(w, v);
    if (w->tensors[*given].shape.rank != 3) return *given;
    const struct qc_shape s = w->tensors[*given].shape;
    const struct qc_shape flat = QC_SHAPE(s.dim[0], 1, s.dim[1], s.dim[2]);
    return qc_tfl_out_like(w, v, &flat, "_2d");
}

static bool settle(struct qc_tfl_writer *w, int made, int given)
{
    return made == given || qc_tfl_out_reshape(w, made, given);
}

/* --- Weights and biases --- */

/* Returns the stored integers of a weight that a float layer dequantizes, otherwise the weight itself. */
static qc_id stored_weight(bool *dequantized, const struct qc_graph *g, qc_id v)
{
    const struct qc_node *from = qc_node_of(g, v);
    *dequantized = from && from->op == QC_OP_Dequantize && qc_constant_of(g, from->inputs[0]);
    return *dequantized ? from->inputs[0] : v;
}

/* Returns true if a weight in blocks has the form that LiteRT reads: FULLY_CONNECTED of floats, 4 bits, whole blocks of
   a multiple of 32 along the inputs, scales of half precision. XNNPACK takes no other ones, and
   LiteRT 2.3 computes other numbers without it. */
static bool blocks_fit(const struct qc_tfl_writer *w, const struct qc_node *n, qc_id v)
{
    const struct qc_type *type = &w->g->values[v].type;
    const struct qc_qparams *s = &w->g->qparams_of[type->qparams];
    const int inputs = n->op == QC_OP_Gemm && qc_attr_int(n, "transB", 0) ? 1 : 0;
    if ((n->op != QC_OP_MatMul && n->op != QC_OP_Gemm) || s->block % 32 || s->dtype != QC_I4 || type->shape.rank != 2 ||
        type->axis != inputs || type->shape.dim[inputs] % s->block || qc_graph_parameters(w->g, n->inputs[0]) ||
        w->flat[n->inputs[0]])
        return false;
    for (size_t i = 0; i < s->count; i++)
        if (!(s->scale[i] >= 6.1e-5f && s->scale[i] <= 65504.0f)) return false;
    return true;
}

/* Returns the tensor [out, in] of a weight in blocks. */
static int weight_in_blocks(struct qc_tfl_writer *w, qc_id v, bool out_first)
{
    static const int swapped[] = {1, 0};
    const struct qc_type *type = &w->g->values[v].type;
    const struct qc_qparams *s = &w->g->qparams_of[type->qparams];
    const struct qc_scale_layout layout = qc_scale_layout_of(s, &type->shape, type->axis);
    const size_t out = (size_t)type->shape.dim[!out_first], in = (size_t)type->shape.dim[out_first],
                 size = (size_t)s->block, blocks = in / size;
    uint16_t *half = QC_NEW_ARRAY(w->arena, uint16_t, out * blocks, w->st);
    if (!half) return QC_TFL_NO_TENSOR;
    for (size_t o = 0; o < out; o++)
        for (size_t b = 0; b < blocks; b++) {
            const size_t element = out_first ? o * in + b * size : b * size * out + o;
            half[o * blocks + b] = qc_float_to_half(s->scale[qc_scale_at(&layout, element)]);
        }
    const struct qc_tfl_tensor scales = {.name = "scales",
                                         .dtype = QC_F16,
                                         .shape = QC_SHAPE((int64_t)out, (int64_t)blocks),
                                         .data = half};
    const int at = qc_tfl_out_add_tensor(w, &scales),
              have = qc_tfl_out_constant(w, v, &type->shape, out_first ? AS_IT_IS : swapped, 0);
    struct qc_tfl_tensor *t = &w->tensors[have];
    t->scale_count = 0;
    t->scales = at;
    t->block = (int)s->block;
    return have;
}

static bool weight_fits(struct qc_tfl_writer *w, const struct qc_node *n, qc_id v)
{
    const struct qc_qparams *s = qc_graph_parameters(w->g, v);
    char label[QC_LABEL];
    const char *name = qc_value_label(label, w->g, v);
    const size_t refused = w->refused_count;
    if (!qc_constant_of(w->g, v)) return qc_tfl_out_refuse(w, n, "its weight '%s' is computed", name) && false;
    if (!s) return true;
    if (s->dtype != QC_I8 && s->dtype != QC_I4) {
        qc_tfl_out_refuse(w, n, "its weight '%s' is %s: --weight-type int8 or int4", name,
                          qc_dtype_long_name(s->dtype));
    } else if (s->block && !blocks_fit(w, n, v)) {
        qc_tfl_out_refuse(w, n, "its weight '%s' has blocks of scales that have no form: --weight-block none", name);
    } else {
        for (size_t i = 0; i < s->count; i++)
            if (s->zero_point[i] != 0) {
                qc_tfl_out_refuse(w, n, "its weight '%s' has a zero point: --symmetric=weights", name);
                break;
            }
    }
    return w->refused_count == refused;
}

static int weight_of(struct qc_tfl_writer *w, qc_id v, const struct qc_shape *view, const int *perm, int axis)
{
    bool dequantized;
    const qc_id stored = stored_weight(&dequantized, w->g, v);
    const int have = qc_tfl_out_constant(w, stored, view, perm, axis);
    if (!dequantized) return have;
    const int to = qc_tfl_out_like(w, v, &w->tensors[have].shape, "_float");
    const bool many = w->tensors[have].scale_count > 1, narrow = w->tensors[have].dtype == QC_I4;
    qc_tfl_out_add_versioned(w, QC_TFL_OP_DEQUANTIZE, narrow ? 6 : many ? 5 : 0, 1, &have, to, NULL);
    return to;
}

/* Returns the tensor of the bias; without a bias, zeros in the accumulator's qparams. x: tensor of the input. With
   16-bit data the bias has 64 bits. */
static int bias_of(struct qc_tfl_writer *w, const struct qc_node *n, int64_t channels, int x)
{
    const qc_id v = n->input_count > 2 ? n->inputs[2] : QC_ABSENT;
    const struct qc_tensor *c = qc_constant_of(w->g, v);
    const struct qc_qparams *acc = qc_graph_parameters(w->g, n->outputs);
    struct qc_tfl_tensor t = {.dtype = QC_F32, .shape = QC_SHAPE(channels)};
    if (c && c->count != (size_t)channels && c->count != 1) {
        qc_tfl_out_refuse(w, n, "its bias is not one number for each channel");
        c = NULL;
    }
    if (v && !c) qc_tfl_out_refuse(w, n, "its bias is computed");
    if (acc) {
        t.dtype = w->tensors[x].dtype == QC_I16 ? QC_I64 : QC_I32;
        t.scale_count = acc->count;
        t.scale = acc->scale;
        t.zero_point = acc->zero_point;
    }
    const size_t size = qc_dtype_size(t.dtype);
    unsigned char *data = qc_arena_get(w->arena, (size_t)channels, size, w->st);
    char label[QC_LABEL];
    t.name = c && qc_value(w->g, v)->name
                 ? qc_value(w->g, v)->name
                 : qc_arena_printf(w->arena, w->st, "%s_bias", qc_value_label(label, w->g, n->outputs));
    if (!data || !t.name) return QC_TFL_NO_TENSOR;
    for (size_t i = 0; c && i < (size_t)channels; i++) {
        const size_t k = c->count == 1 ? 0 : i;
        if (t.dtype == QC_F32)
            memcpy(data + i * size, &(float){(float)qc_tensor_float(c, k)}, size);
        else
            memcpy(data + i * size, &(int64_t){qc_tensor_int(c, k)}, size); /* little-endian */
    }
    t.data = data;
    return qc_tfl_out_add_tensor(w, &t);
}

/* --- Products --- */

/* CONV_3D has float kernels only. Padding is a PAD before it. */
static bool write_conv_3d(struct qc_tfl_writer *w, const struct qc_node *n, qc_id result,
                          enum qc_tfl_activation activation)
{
    static const int dhwio[] = {2, 3, 4, 1, 0};
    const struct qc_graph *g = w->g;
    const struct qc_shape *s = &g->values[n->inputs[1]].type.shape;
    struct qc_window v;
    if (qc_graph_parameters(g, n->inputs[0]) || !qc_constant_of(g, n->inputs[1]) ||
        qc_graph_parameters(g, n->inputs[1]))
        return qc_tfl_out_refuse(w, n, "CONV_3D computes in float: give --skip for it");
    if (!qc_window_of(&v, g, n, w->st)) return false;
    if (qc_attr_int(n, "group", 1) != 1 || v.dilation[0] != 1 || v.dilation[1] != 1 || v.dilation[2] != 1)
        return qc_tfl_out_refuse(w, n, "CONV_3D has neither groups nor dilations");
    int x = qc_tfl_out_tensor_of(w, n->inputs[0], QC_TFL_LAST);
    int64_t pads[10] = {0};
    bool padded = false;
    struct qc_shape shape = w->tensors[x].shape;
    for (int i = 0; i < 3; i++) {
        pads[2 * i + 2] = v.pad_begin[i];
        pads[2 * i + 3] = v.pad_end[i];
        if (shape.dim[1 + i] != QC_FREE) shape.dim[1 + i] += v.pad_begin[i] + v.pad_end[i];
        padded = padded || v.pad_begin[i] || v.pad_end[i];
    }
    if (padded) {
        const int from[] = {x, qc_tfl_out_int_table(w, pads, 5, 2, "pads")};
        x = qc_tfl_out_like(w, n->inputs[0], &shape, "_padded");
        if (!qc_tfl_out_add_node(w, QC_TFL_OP_PAD, 2, from, x, NULL)) return false;
    }
    const int inputs[] = {x, qc_tfl_out_constant(w, n->inputs[1], s, dhwio, 0), bias_of(w, n, s->dim[0], x)};
    struct qc_fb_object *o = qc_tfl_out_options(w, QC_TFL_OP_CONV_3D);
    qc_fb_set_int(o, QC_TFL_Conv3DOptions_padding, QC_TFL_PADDING_VALID);
    qc_fb_set_int(o, QC_TFL_Conv3DOptions_stride_d, v.stride[0]);
    qc_fb_set_int(o, QC_TFL_Conv3DOptions_stride_h, v.stride[1]);
    qc_fb_set_int(o, QC_TFL_Conv3DOptions_stride_w, v.stride[2]);
    qc_fb_set_int(o, QC_TFL_Conv3DOptions_fused_activation_function, activation);
    return qc_tfl_out_add_node(w, QC_TFL_OP_CONV_3D, 3, inputs, qc_tfl_out_result(w, result), o);
}

static bool write_conv(struct qc_tfl_writer *w, const struct qc_node *n, qc_id result,
                       enum qc_tfl_activation activation)
{
    if (w->g->values[n->inputs[1]].type.shape.rank == 5) return write_conv_3d(w, n, result, activation);
    const struct qc_graph *g = w->g;
    bool dequantized;
    const struct qc_shape *s = &g->values[n->inputs[1]].type.shape, *xs = &g->values[n->inputs[0]].type.shape;
    if (s->rank < 3 || s->rank > 4) return qc_tfl_out_refuse(w, n, "convolutions have one to three spatial dimensions");
    if (!weight_fits(w, n, stored_weight(&dequantized, g, n->inputs[1]))) return w->st->code == QC_OK;
    struct window win;
    enum qc_tfl_padding padding;
    if (!window_of(&win, g, n, w->st)) return false;
    const int64_t groups = qc_attr_int(n, "group", 1), out = s->dim[0], in = s->dim[1];
    const bool depthwise = groups > 1 && in == 1 && groups == xs->dim[1];
    const struct qc_shape view = QC_SHAPE(out, in, win.kernel[0], win.kernel[1]);
    static const int ohwi[] = {0, 2, 3, 1}, one_hwo[] = {1, 2, 3, 0};
    const int x = windowed(&padding, w, n->inputs[0], &win, NULL);
    const int weight = weight_of(w, n->inputs[1], &view, depthwise ? one_hwo : ohwi, depthwise ? 3 : 0);
    int given;
    const int inputs[] = {x, weight, bias_of(w, n, out, x)}, made = window_result(&given, w, result);
    struct qc_fb_object *o;
    if (depthwise) {
        o = qc_tfl_out_options(w, QC_TFL_OP_DEPTHWISE_CONV_2D);
        qc_fb_set_int(o, QC_TFL_DepthwiseConv2DOptions_padding, padding);
        qc_fb_set_int(o, QC_TFL_DepthwiseConv2DOptions_stride_h, win.stride[0]);
        qc_fb_set_int(o, QC_TFL_DepthwiseConv2DOptions_stride_w, win.stride[1]);
        qc_fb_set_int(o, QC_TFL_DepthwiseConv2DOptions_depth_multiplier, out / groups);
        qc_fb_set_int(o, QC_TFL_DepthwiseConv2DOptions_fused_activation_function, activation);
        qc_fb_set_int(o, QC_TFL_DepthwiseConv2DOptions_dilation_h_factor, win.dilation[0]);
        qc_fb_set_int(o, QC_TFL_DepthwiseConv2DOptions_dilation_w_factor, win.dilation[1]);
    } else {
        o = qc_tfl_out_options(w, QC_TFL_OP_CONV_2D);
        qc_fb_set_int(o, QC_TFL_Conv2DOptions_padding, padding);
        qc_fb_set_int(o, QC_TFL_Conv2DOptions_stride_h, win.stride[0]);
        qc_fb_set_int(o, QC_TFL_Conv2DOptions_stride_w, win.stride[1]);
        qc_fb_set_int(o, QC_TFL_Conv2DOptions_fused_activation_function, activation);
        qc_fb_set_int(o, QC_TFL_Conv2DOptions_dilation_h_factor, win.dilation[0]);
        qc_fb_set_int(o, QC_TFL_Conv2DOptions_dilation_w_factor, win.dilation[1]);
    }
    const int grouped = groups > 1 && !depthwise ? 6 : 0;
    return qc_tfl_out_add_versioned(w, depthwise ? QC_TFL_OP_DEPTHWISE_CONV_2D : QC_TFL_OP_CONV_2D, grouped, 3, inputs,
                                    made, o) &&
           settle(w, made, given);
}

/* The shape of the result of TRANSPOSE_CONV; where its batch is free, from that of x. */
static int result_sizes(struct qc_tfl_writer *w, int x, const struct qc_shape *s)
{
    static const int64_t first[] = {0}, second[] = {1}, one[] = {1};
    if (s->dim[0] != QC_FREE) return qc_tfl_out_ints(w, s->dim, 4, "sizes");
    struct qc_tfl_tensor t = {.name = "shape", .dtype = QC_I32, .shape = QC_SHAPE(4)};
    const int shape = qc_tfl_out_add_tensor(w, &t);
    t = (struct qc_tfl_tensor){.name = "batch", .dtype = QC_I32, .shape = QC_SHAPE(1)};
    const int parts[] = {qc_tfl_out_add_tensor(w, &t), qc_tfl_out_ints(w, s->dim + 1, 3, "size")};
    t = (struct qc_tfl_tensor){.name = "sizes", .dtype = QC_I32, .shape = QC_SHAPE(4)};
    const int sizes = qc_tfl_out_add_tensor(w, &t);
    struct qc_fb_object *o = qc_tfl_out_options(w, QC_TFL_OP_SHAPE);
    qc_fb_set_int(o, QC_TFL_ShapeOptions_out_type, qc_tfl_type_of(QC_I32));
    qc_tfl_out_add_node(w, QC_TFL_OP_SHAPE, 1, &x, shape, o);
    qc_tfl_out_slice(w, shape, parts[0], first, second, one, 0);
    qc_tfl_out_add_node(w, QC_TFL_OP_CONCATENATION, 2, parts, sizes, NULL);
    return sizes;
}

/* TRANSPOSE_CONV pads nothing, or as SAME of the convolution that goes the other way; else the border is cut off
   behind it. */
static bool write_conv_transpose(struct qc_tfl_writer *w, const struct qc_node *n, qc_id result)
{
    const struct qc_graph *g = w->g;
    bool dequantized, same = true, cuts = false;
    const struct qc_shape *s = &g->values[n->inputs[1]].type.shape;
    if (s->rank < 3 || s->rank > 4) return qc_tfl_out_refuse(w, n, "convolutions have one or two spatial dimensions");
    if (qc_attr_int(n, "group", 1) != 1) return qc_tfl_out_refuse(w, n, "TRANSPOSE_CONV has no groups");
    if (!weight_fits(w, n, stored_weight(&dequantized, g, n->inputs[1]))) return w->st->code == QC_OK;
    struct window win;
    if (!window_of(&win, g, n, w->st)) return false;
    if (win.dilation[0] != 1 || win.dilation[1] != 1) return qc_tfl_out_refuse(w, n, "TRANSPOSE_CONV has no dilations");
    if (win.in[0] == QC_FREE || win.in[1] == QC_FREE || win.out[0] == QC_FREE || win.out[1] == QC_FREE)
        return qc_tfl_out_refuse(w, n, "the size of its result is not known");
    const int x = image_of(w, n->inputs[0]);
    int given;
    const int made = window_result(&given, w, result);
    for (int i = 0; i < 2; i++) {
        const int64_t count = (win.out[i] + win.stride[i] - 1) / win.stride[i],
                      total = (count - 1) * win.stride[i] + win.kernel[i] - win.out[i];
        same = same && count == win.in[i] && win.begin[i] == (total > 0 ? total / 2 : 0);
    }
    /* VALID makes the whole result: LiteRT refuses a size that does not give back that of the image. */
    struct qc_shape whole = w->tensors[made].shape;
    for (int i = 0; !same && i < 2; i++) {
        const int64_t most = (win.in[i] - 1) * win.stride[i] + win.kernel[i], least = win.begin[i] + win.out[i];
        whole.dim[1 + i] = most > least ? most : least;
        cuts = cuts || whole.dim[1 + i] != win.out[i];
    }
    const int full = cuts ? qc_tfl_out_like(w, result, &whole, "_whole") : made;
    const struct qc_shape view = QC_SHAPE(s->dim[0], s->dim[1], win.kernel[0], win.kernel[1]);
    static const int ohwi[] = {1, 2, 3, 0};
    const int inputs[] = {result_sizes(w, x, &whole), weight_of(w, n->inputs[1], &view, ohwi, 0), x,
                          bias_of(w, n, s->dim[1], x)};
    struct qc_fb_object *o = qc_tfl_out_options(w, QC_TFL_OP_TRANSPOSE_CONV);
    qc_fb_set_int(o, QC_TFL_TransposeConvOptions_padding, same ? QC_TFL_PADDING_SAME : QC_TFL_PADDING_VALID);
    qc_fb_set_int(o, QC_TFL_TransposeConvOptions_stride_h, win.stride[0]);
    qc_fb_set_int(o, QC_TFL_TransposeConvOptions_stride_w, win.stride[1]);
    qc_tfl_out_add_node(w, QC_TFL_OP_TRANSPOSE_CONV, 4, inputs, full, o);
    const int64_t begin[] = {0, win.begin[0], win.begin[1], 0}, step[] = {1, 1, 1, 1},
                  end[] = {0, win.begin[0] + win.out[0], win.begin[1] + win.out[1], 0};
    return (!cuts || qc_tfl_out_slice(w, full, made, begin, end, step, 9)) && settle(w, made, given);
}

/* Adds a product, which computes the value `result` in plain order. version 0: follows from the types. */
static bool add_product(struct qc_tfl_writer *w, enum qc_tfl_operator code, int version, unsigned input_count,
                        const int *inputs, qc_id result, struct qc_fb_object *o)
{
    const int to = qc_tfl_out_result(w, result);
    if (w->order[result] != QC_TFL_LAST) return qc_tfl_out_add_versioned(w, code, version, input_count, inputs, to, o);
    const int plain = qc_tfl_out_like(w, result, &w->g->values[result].type.shape, "_nchw");
    return qc_tfl_out_add_versioned(w, code, version, input_count, inputs, plain, o) &&
           qc_tfl_out_permute_last(w, plain, to);
}

/* Writes Gemm and MatMul with a constant weight as FULLY_CONNECTED. */
static bool write_dense(struct qc_tfl_writer *w, const struct qc_node *n, qc_id result,
                        enum qc_tfl_activation activation)
{
    const struct qc_graph *g = w->g;
    const qc_id xv = n->inputs[0];
    bool dequantized;
    const qc_id stored = stored_weight(&dequantized, g, n->inputs[1]);
    const struct qc_shape *s = &g->values[n->inputs[1]].type.shape, *xs = &g->values[xv].type.shape;
    if (s->rank != 2) return qc_tfl_out_refuse(w, n, "its weight has %d dimensions, not 2", s->rank);
    if (!weight_fits(w, n, stored)) return w->st->code == QC_OK;
    if (qc_attr_int(n, "transA", 0) || qc_attr_float(n, "alpha", 1) != 1 ||
        (n->input_count > 2 && n->inputs[2] && qc_attr_float(n, "beta", 1) != 1))
        return qc_tfl_out_refuse(w, n, "transA, alpha and beta other than 1 have no form");
    const bool out_first = n->op == QC_OP_Gemm && qc_attr_int(n, "transB", 0);
    const int64_t out = s->dim[out_first ? 0 : 1], in = s->dim[out_first ? 1 : 0];
    const int x = qc_tfl_out_tensor_of(w, xv, QC_TFL_PLAIN);
    const struct qc_qparams *q = qc_graph_parameters(g, stored);
    const bool blocks = q && q->block;
    int weight;
    if (blocks) {
        weight = weight_in_blocks(w, stored, out_first);
    } else if (w->flat[xv]) { /* permute columns for a tensor with channels last: [.., C, H, W] -> [.., H, W, C] */
        const struct qc_shape *from = &g->values[qc_node_of(g, xv)->inputs[0]].type.shape;
        const int64_t inner = in / from->dim[1];
        const struct qc_shape view =
            out_first ? QC_SHAPE(out, from->dim[1], inner) : QC_SHAPE(from->dim[1], inner, out);
        static const int first[] = {0, 2, 1}, second[] = {2, 1, 0};
        weight = weight_of(w, n->inputs[1], &view, out_first ? first : second, 0);
        w->tensors[weight].shape = QC_SHAPE(out, in);
    } else {
        static const int swapped[] = {1, 0};
        weight = weight_of(w, n->inputs[1], s, out_first ? AS_IT_IS : swapped, 0);
    }
    const int inputs[] = {x, weight, bias_of(w, n, out, x)};
    struct qc_fb_object *o = qc_tfl_out_options(w, QC_TFL_OP_FULLY_CONNECTED);
    const bool keep = xs->rank != 2;
    qc_fb_set_int(o, QC_TFL_FullyConnectedOptions_fused_activation_function, activation);
    qc_fb_set_int(o, QC_TFL_FullyConnectedOptions_keep_num_dims, keep);
    if (blocks) qc_fb_set_int(o, QC_TFL_FullyConnectedOptions_asymmetric_quantize_inputs, 1);
    /* Runtimes that refuse 14 do not read blocks. */
    const int version = blocks ? 14 : keep && w->tensors[x].dtype != QC_I16 ? 5 : 0;
    return add_product(w, QC_TFL_OP_FULLY_CONNECTED, version, 3, inputs, result, o);
}

bool qc_tfl_write_accumulator(struct qc_tfl_writer *w, const struct qc_node *n, qc_id result)
{
    bool dequantized;
    const enum qc_tfl_activation none = QC_TFL_ACTIVATION_NONE;
    const bool constant = qc_constant_of(w->g, stored_weight(&dequantized, w->g, n->inputs[1])) != NULL;
    if (n->op == QC_OP_ConvTranspose) return write_conv_transpose(w, n, result);
    if (n->op == QC_OP_MatMul && !constant) {
        const int inputs[] = {qc_tfl_out_tensor_of(w, n->inputs[0], QC_TFL_PLAIN),
                              qc_tfl_out_tensor_of(w, n->inputs[1], QC_TFL_PLAIN)};
        if (w->tensors[inputs[0]].shape.rank < 2 || w->tensors[inputs[1]].shape.rank < 2)
            return qc_tfl_out_refuse(w, n, "a product with a vector has no form");
        return add_product(w, QC_TFL_OP_BATCH_MATMUL, 0, 2, inputs, result, NULL);
    }
    const enum qc_tfl_activation a = qc_tfl_out_take_clamp(&result, w);
    if (n->op == QC_OP_Conv) return write_conv(w, n, result, a == none ? none : a);
    return write_dense(w, n, result, a);
}

/* Writes a product with a real result. An accumulator is written with its requantization. */
bool qc_tfl_write_product(struct qc_tfl_writer *w, const struct qc_node *n)
{
    if (!qc_graph_parameters(w->g, n->outputs)) return qc_tfl_write_accumulator(w, n, n->outputs);
    const struct qc_use_list uses = qc_all_uses(&w->uses, n->outputs);
    for (size_t i = 0; i < uses.count; i++)
        if (!uses.of[i].node || w->g->nodes[uses.of[i].node].op != QC_OP_Requantize)
            return qc_tfl_out_refuse(w, n,
                                     "its accumulator is read in float, but every result has to be stored: a pattern "
                                     "with 'result quantized'");
    return true;
}

/* A product of integers that are rounded while the model runs: FULLY_CONNECTED of floats with integer weights, which
   rounds its rows in the same way. */
bool qc_tfl_write_dynamic(struct qc_tfl_writer *w, const struct qc_node *n)
{
    static const int swapped[] = {1, 0};
    const struct qc_graph *g = w->g;
    const struct qc_node *from = qc_node_of(g, n->inputs[0]);
    const qc_id cast = qc_only_reader(&w->uses, n->outputs),
                scaled = cast && g->nodes[cast].op == QC_OP_Cast ? qc_only_reader(&w->uses, g->nodes[cast].outputs) : 0,
                factor = scaled ? qc_tfl_out_other_factor(&g->nodes[scaled], g->nodes[cast].outputs) : 0;
    const struct qc_node *scales = factor ? qc_node_of(g, factor) : NULL;
    const struct qc_tensor *weight = qc_constant_of(g, n->inputs[1]);
    if (!from || from->op != QC_OP_DynamicQuantizeLinear || !scales || !weight || weight->dtype != QC_I8 ||
        weight->shape.rank != 2 || (n->input_count > 3 && n->inputs[3]))
        return qc_tfl_out_refuse(w, n, "only products of rows with a constant matrix of int8 are written");
    const qc_id by = qc_tfl_out_other_factor(scales, from->outputs + 1);
    const struct qc_tensor *units = by ? qc_constant_of(g, by) : NULL;
    const int64_t out = weight->shape.dim[1];
    if (!units || units->dtype != QC_F32 || (units->count != 1 && units->count != (size_t)out))
        return qc_tfl_out_refuse(w, n, "the scales of its weight are not constant");
    int32_t *zeros = QC_NEW_ARRAY(w->arena, int32_t, units->count, w->st);
    const int have = qc_tfl_out_constant(w, n->inputs[1], &weight->shape, swapped, 0),
              inputs[] = {qc_tfl_out_tensor_of(w, from->inputs[0], QC_TFL_PLAIN), have};
    if (!zeros) return false;
    struct qc_tfl_tensor *t = &w->tensors[have];
    const int8_t *levels = weight->data;
    bool four = true, any = false; /* levels of 4 bits; in those of 8 bits some number has more */
    for (size_t i = 0; i < weight->count; i++) {
        four = four && levels[i] >= -8 && levels[i] <= 7;
        any = any || levels[i];
    }
    if (four && any) t->dtype = QC_I4;
    t->scale_count = units->count;
    t->scale = units->data;
    t->zero_point = zeros;
    w->done[cast] = w->done[scaled] = true;
    struct qc_fb_object *o = qc_tfl_out_options(w, QC_TFL_OP_FULLY_CONNECTED);
    qc_fb_set_int(o, QC_TFL_FullyConnectedOptions_keep_num_dims, w->tensors[inputs[0]].shape.rank != 2);
    qc_fb_set_int(o, QC_TFL_FullyConnectedOptions_asymmetric_quantize_inputs, 1);
    /* Earlier versions read only the first of several scales. */
    return add_product(w, QC_TFL_OP_FULLY_CONNECTED, units->count > 1 ? 12 : 9, 2, inputs, g->nodes[scaled].outputs, o);
}

/* DynamicQuantizeLinear: the products that read it round its input. */
bool qc_tfl_write_nothing(struct qc_tfl_writer *w, const struct qc_node *n)
{
    (void)n;
    return w->st->code == QC_OK;
}

/* --- Pools --- */

static bool same_parameters(const struct qc_tfl_writer *w, qc_id a, qc_id b)
{
    const struct qc_qparams *p = qc_graph_parameters(w->g, a), *q = qc_graph_parameters(w->g, b);
    return p == q || (p && q && p->count == 1 && q->count == 1 && p->dtype == q->dtype && p->scale[0] == q->scale[0] &&
                      p->zero_point[0] == q->zero_point[0]);
}

static bool pool(struct qc_tfl_writer *w, const struct qc_node *n, const struct window *win, bool maximum)
{
    static const float lowest = -3.40282347e38f;
    enum qc_tfl_padding padding;
    int given;
    const int x = windowed(&padding, w, n->inputs[0], win, maximum ? &lowest : NULL);
    qc_id result = n->outputs;
    const enum qc_tfl_activation a = qc_tfl_out_take_clamp(&result, w);
    const int made = window_result(&given, w, result);
    const enum qc_tfl_operator code = maximum ? QC_TFL_OP_MAX_POOL_2D : QC_TFL_OP_AVERAGE_POOL_2D;
    struct qc_fb_object *o = qc_tfl_out_options(w, code);
    qc_fb_set_int(o, QC_TFL_Pool2DOptions_padding, padding);
    qc_fb_set_int(o, QC_TFL_Pool2DOptions_stride_h, win->stride[0]);
    qc_fb_set_int(o, QC_TFL_Pool2DOptions_stride_w, win->stride[1]);
    qc_fb_set_int(o, QC_TFL_Pool2DOptions_filter_height, win->kernel[0]);
    qc_fb_set_int(o, QC_TFL_Pool2DOptions_filter_width, win->kernel[1]);
    qc_fb_set_int(o, QC_TFL_Pool2DOptions_fused_activation_function, a);
    return qc_tfl_out_add_node(w, code, 1, &x, made, o) && settle(w, made, given);
}

static bool reduce(struct qc_tfl_writer *w, const struct qc_node *n, enum qc_tfl_operator code, const int64_t *axes,
                   size_t count, bool keep, enum qc_tfl_order order)
{
    const int rank = w->g->values[n->inputs[0]].type.shape.rank;
    int64_t in_file[QC_RANK_MAX];
    bool plain = false;
    for (size_t i = 0; i < count; i++) plain = plain || (!keep && order == QC_TFL_LAST && axes[i] < 2);
    if (plain) order = QC_TFL_PLAIN; /* without batch or channels the other axes have another order */
    for (size_t i = 0; i < count; i++) in_file[i] = qc_tfl_out_axis((int)axes[i], rank, order);
    const int x = qc_tfl_out_tensor_of(w, n->inputs[0], order),
              to = plain ? qc_tfl_out_like(w, n->outputs, &w->g->values[n->outputs].type.shape, "_plain")
                         : qc_tfl_out_result(w, n->outputs);
    const int inputs[] = {x, qc_tfl_out_ints(w, in_file, count, "axes")};
    struct qc_fb_object *o = qc_tfl_out_options(w, code);
    qc_fb_set_int(o, QC_TFL_ReducerOptions_keep_dims, keep);
    return qc_tfl_out_add_node(w, code, 2, inputs, to, o) && (!plain || qc_tfl_out_put_plain(w, n->outputs, to));
}

bool qc_tfl_write_pool(struct qc_tfl_writer *w, const struct qc_node *n)
{
    const struct qc_shape *s = &w->g->values[n->inputs[0]].type.shape;
    const bool global = n->op == QC_OP_GlobalAveragePool || n->op == QC_OP_GlobalMaxPool,
               maximum = n->op == QC_OP_MaxPool || n->op == QC_OP_GlobalMaxPool,
               affine = qc_graph_parameters(w->g, n->outputs) != NULL, solid = global && !affine && s->rank == 5;
    if (s->rank < 3 || (s->rank > 4 && !solid))
        return qc_tfl_out_refuse(w, n, "pools have one or two spatial dimensions");
    struct window win = {{1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, {1, 1}, {1, 1}};
    bool whole = global, inner = true;
    if (global) {
        for (int i = 2; i < s->rank && !solid; i++) {
            const int to = s->rank == 3 ? 1 : i - 2;
            win.kernel[to] = win.in[to] = s->dim[i];
            inner = inner && s->dim[i] != QC_FREE;
        }
    } else {
        struct qc_window v;
        if (!window_of(&win, w->g, n, w->st) || !qc_window_of(&v, w->g, n, w->st)) return false;
        if (win.dilation[0] != 1 || win.dilation[1] != 1) return qc_tfl_out_refuse(w, n, "pools have no dilations");
        /* Sizes rounded up: the window leaves the image at its end, which no average counts. */
        for (int i = 0; v.ceil_mode && !maximum && !is_same(&win) && i < 2; i++) {
            const int64_t over = (win.out[i] - 1) * win.stride[i] + win.kernel[i] - win.in[i] - win.begin[i];
            if (over <= win.end[i] || win.in[i] == QC_FREE) continue;
            if (v.count_include_pad && !is_valid(&win))
                return qc_tfl_out_refuse(w, n, "averages that count their padding have no form");
            win.end[i] = over;
            v.count_include_pad = false;
        }
        if (!maximum && !v.count_include_pad && !is_valid(&win) && !is_same(&win))
            return qc_tfl_out_refuse(w, n, "averages with this padding have no form");
        if (!maximum && v.count_include_pad && is_same(&win) && !is_valid(&win))
            return qc_tfl_out_refuse(w, n, "averages that count their padding have no form");
        whole = is_valid(&win) && win.kernel[0] == win.in[0] && win.kernel[1] == win.in[1];
        if (v.ceil_mode && !is_same(&win)) {
            for (int i = 0; i < 2; i++) {
                const int64_t over = (win.out[i] - 1) * win.stride[i] + win.kernel[i] - win.in[i] - win.begin[i];
                if (over > win.end[i] && !maximum)
                    return qc_tfl_out_refuse(w, n, "averages that round sizes up have no form");
                if (over > win.end[i]) win.end[i] = over;
            }
        }
    }
    const bool keeps = same_parameters(w, n->inputs[0], n->outputs);
    static const int64_t axes[] = {2, 3, 4};
    if (maximum && global)
        return reduce(w, n, QC_TFL_OP_REDUCE_MAX, axes, (size_t)s->rank - 2, true, w->order[n->inputs[0]]);
    /* AVERAGE_POOL_2D keeps the qparams; MEAN can change them. */
    if (!maximum && whole && (!affine || !keeps || !inner))
        return reduce(w, n, QC_TFL_OP_MEAN, axes, (size_t)s->rank - 2, true, w->order[n->inputs[0]]);
    if (!maximum && affine && !keeps)
        return qc_tfl_out_refuse(w, n, "its scale and zero point have to be those of its input");
    return pool(w, n, &win, maximum);
}

bool qc_tfl_write_mean(struct qc_tfl_writer *w, const struct qc_node *n)
{
    const int rank = w->g->values[n->inputs[0]].type.shape.rank;
    const int64_t *given;
    int64_t axes[QC_RANK_MAX];
    size_t count = qc_attr_ints(n, "axes", &given);
    if (n->input_count > 1 && n->inputs[1]) return qc_tfl_out_refuse(w, n, "its axes are computed");
    if (!count)
        for (int i = 0; i < rank; i++) axes[count++] = i;
    else
        for (size_t i = 0; i < count; i++) axes[i] = given[i] < 0 ? given[i] + rank : given[i];
    if (qc_graph_parameters(w->g, n->outputs) && same_parameters(w, n->inputs[0], n->outputs))
        return qc_tfl_out_refuse(w, n, "a mean with its input's scale has other arithmetic in TensorFlow Lite");
    return reduce(w, n, qc_tfl_write_row(n->op)->code, axes, count, qc_attr_int(n, "keepdims", 1) != 0,
                  w->order[n->outputs]);
}
