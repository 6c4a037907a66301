// SPDX-License-Identifier: Apache-2.0
/* Convolutions and pools: sizes by the formulas of ONNX Conv-11, ConvTranspose-11, MaxPool-12 and AveragePool-11;
   ceil_mode by AveragePool-19 and later, which drop a window that would start in the right padding. */
#include <inttypes.h>
#include <string.h>

#include "base/checked.h"
#include "graph/core/infer.h"
#include "graph/infer/infer_help.h"

enum padding { PAD_EXPLICIT, PAD_VALID, PAD_SAME_UPPER, PAD_SAME_LOWER };

/* Larger spatial sizes are refused. Up to this limit, with attributes of 31 bits, no formula of this file overflows. */
#define SIZE_LIMIT ((int64_t)1 << 40)

/* Reads an attribute with one number per spatial dimension, each in [lowest, 2^31). If it is absent, all are
   `otherwise`. */
static bool spatial_ints(int64_t *out, const struct qc_node *n, const char *name, size_t count, int64_t otherwise,
                         int64_t lowest, struct qc_status *st)
{
    const int64_t *v;
    size_t got = qc_attr_ints(n, name, &v);
    if (got && got != count)
        return qc_fail(st, QC_BAD_INPUT, "attribute %s has %zu numbers, expected %zu", name, got, count);
    for (size_t i = 0; i < count; i++) {
        out[i] = got ? v[i] : otherwise;
        if (got && (v[i] < lowest || v[i] > INT32_MAX))
            return qc_fail(st, QC_BAD_INPUT, "attribute %s[%zu] is %" PRId64 ", expected %" PRId64 " to %" PRId32, name,
                           i, v[i], lowest, INT32_MAX);
    }
    return true;
}

static bool has_weights(enum qc_op op)
{
    return op == QC_OP_Conv || op == QC_OP_ConvTranspose || op == QC_OP_DeformConv;
}

/* Gives the number of spatial dimensions, or 0 if it is unknown. */
static bool spatial_of(int *out, const struct qc_infer *c, struct qc_status *st)
{
    const struct qc_shape *x = &qc_in(c, 0)->shape, *w = has_weights(c->node->op) ? &qc_in(c, 1)->shape : x;
    const int64_t *kernel;
    size_t given = qc_attr_ints(c->node, "kernel_shape", &kernel);
    int rank = x->rank >= 0 ? x->rank : w->rank;
    if (x->rank >= 0 && w->rank >= 0 && x->rank != w->rank)
        return qc_fail(st, QC_BAD_INPUT, "input %s and weights %s differ in rank", QC_SHAPE_STR(x), QC_SHAPE_STR(w));
    if (rank < 0 && given) rank = given > 3 ? 6 : (int)given + 2;
    if (rank < 0) {
        *out = 0;
        return true;
    }
    if (rank < 3)
        return qc_fail(st, QC_BAD_INPUT, "expected [N,C,spatial...], got %s", QC_SHAPE_STR(x->rank >= 0 ? x : w));
    if (rank > 5) return qc_fail(st, QC_UNSUPPORTED, "%d spatial dimensions are not handled, at most 3 are", rank - 2);
    *out = rank - 2;
    return true;
}

static bool kernel_of(struct qc_window *w, const struct qc_infer *c, struct qc_status *st)
{
    const struct qc_shape *weights = has_weights(c->node->op) ? &qc_in(c, 1)->shape : NULL;
    bool given = qc_attr_find(c->node, "kernel_shape") != NULL;
    if (!given && !weights) return qc_fail(st, QC_BAD_INPUT, "attribute kernel_shape is missing");
    if (!spatial_ints(w->kernel, c->node, "kernel_shape", (size_t)w->spatial, QC_FREE, 1, st)) return false;
    for (int i = 0; i < w->spatial; i++) {
        int64_t k = weights && weights->rank > 0 ? weights->dim[2 + i] : QC_FREE;
        if (!qc_dim_meet(&w->kernel[i], w->kernel[i], k))
            return qc_fail(st, QC_BAD_INPUT, "kernel_shape[%d] is %" PRId64 " but the weights are %s", i, w->kernel[i],
                           QC_SHAPE_STR(weights));
        if (w->kernel[i] == 0 || w->kernel[i] > INT32_MAX || (w->kernel[i] == QC_FREE && !weights))
            return qc_fail(st, QC_BAD_INPUT, "kernel size %" PRId64 " in spatial dimension %d is not possible",
                           w->kernel[i], i);
    }
    return true;
}

static void share_padding(struct qc_window *w, int i, int64_t total, bool more_at_end)
{
    int64_t small = total / 2;
    w->pad_begin[i] = more_at_end ? small : total - small;
    w->pad_end[i] = more_at_end ? total - small : small;
}

/* out = floor or ceil((in + pads - effective kernel) / stride) + 1; SAME: out = ceil(in / stride). A kernel shorter
   than the stride may need negative padding for that. Conv then pads nothing, in ONNX's reference and in ONNX Runtime.
   Pools have no agreed result: of MaxPool and AveragePool the reference crops or fails, and ONNX Runtime fails; of
   LpPool the reference pads nothing, and ONNX Runtime crops. */
static bool forward_size(struct qc_window *w, int i, enum padding mode, const struct qc_node *n, struct qc_status *st)
{
    bool same = mode == PAD_SAME_UPPER || mode == PAD_SAME_LOWER;
    int64_t in = w->in[i], stride = w->stride[i], reach = (w->kernel[i] - 1) * w->dilation[i] + 1;
    w->out[i] = QC_FREE;
    if (same) w->pad_begin[i] = w->pad_end[i] = QC_FREE;
    if (w->kernel[i] == QC_FREE) return true;
    if (same && (in != QC_FREE || stride == 1)) {
        int64_t rest = in == QC_FREE ? 0 : in % stride;
        int64_t total = reach - (rest ? rest : stride);
        if (total < 0 && (n->op == QC_OP_MaxPool || n->op == QC_OP_AveragePool || n->op == QC_OP_LpPool))
            return qc_fail(st, QC_UNSUPPORTED,
                           "auto_pad with a kernel of size %" PRId64 " and a stride of %" PRId64
                           " needs negative padding in spatial dimension %d, which runtimes handle differently; "
                           "give pads in place of auto_pad",
                           reach, stride, i);
        share_padding(w, i, total > 0 ? total : 0, mode == PAD_SAME_UPPER);
    }
    if (in == QC_FREE) return true;
    int64_t span = in + w->pad_begin[i] + w->pad_end[i] - reach;
    if ((span < 0 && !(w->ceil_mode && span > -stride)) || in == 0)
        return qc_fail(st, QC_BAD_INPUT,
                       "kernel of size %" PRId64 " does not fit into spatial dimension %d: %" PRId64
                       " elements and padding of %" PRId64 " and %" PRId64,
                       reach, i, in, w->pad_begin[i], w->pad_end[i]);
    int64_t steps = span / stride; /* 0 for a negative span, which is its ceiling */
    if (w->ceil_mode && span > 0 && span % stride && (steps + 1) * stride < in + w->pad_begin[i]) steps++;
    w->out[i] = steps + 1;
    return true;
}

/* out = stride * (in - 1) + output_padding + effective kernel - pads. */
static bool backward_size(struct qc_window *w, int i, enum padding mode, int64_t extra, int64_t wanted,
                          struct qc_status *st)
{
    bool same = mode == PAD_SAME_UPPER || mode == PAD_SAME_LOWER;
    int64_t in = w->in[i], full;
    w->out[i] = QC_FREE;
    if (extra >= w->stride[i] && extra >= w->dilation[i] && extra > 0)
        return qc_fail(st, QC_BAD_INPUT,
                       "output_padding[%d] is %" PRId64 ", expected less than the stride %" PRId64
                       " or the dilation %" PRId64,
                       i, extra, w->stride[i], w->dilation[i]);
    if (same || wanted != QC_FREE) w->pad_begin[i] = w->pad_end[i] = QC_FREE;
    if (in == QC_FREE || w->kernel[i] == QC_FREE) {
        w->out[i] = wanted;
        return true;
    }
    if (in == 0 || !qc_mul_i64(&full, w->stride[i], in - 1) ||
        !qc_add_i64(&full, full, extra + (w->kernel[i] - 1) * w->dilation[i] + 1))
        return qc_fail(st, QC_BAD_INPUT,
                       "spatial dimension %d of size %" PRId64 " with stride %" PRId64 " gives no possible size", i, in,
                       w->stride[i]);
    if (full > SIZE_LIMIT)
        return qc_fail(st, QC_BAD_INPUT, "spatial dimension %d would grow to %" PRId64 ", which is too large", i, full);
    /* SAME: in * stride, but at most what the kernel reaches, as in ONNX Runtime. */
    if (same && wanted == QC_FREE) wanted = full < in * w->stride[i] ? full : in * w->stride[i];
    if (wanted != QC_FREE) {
        int64_t total = full - wanted;
        if (wanted > SIZE_LIMIT)
            return qc_fail(st, QC_BAD_INPUT, "output size %" PRId64 " in spatial dimension %d is too large", wanted, i);
        share_padding(w, i, total > 0 ? total : 0, mode == PAD_SAME_UPPER);
        if (total < 0) w->pad_end[i] = total; /* no input reaches the last elements: they get the bias alone */
    }
    w->out[i] = full - w->pad_begin[i] - w->pad_end[i];
    if (w->out[i] < 1)
        return qc_fail(st, QC_BAD_INPUT,
                       "padding of %" PRId64 " and %" PRId64 " leaves nothing of %" PRId64 " in spatial dimension %d",
                       w->pad_begin[i], w->pad_end[i], full, i);
    return true;
}

bool qc_window_of(struct qc_window *out, const struct qc_graph *g, const struct qc_node *n, struct qc_status *st)
{
    struct qc_infer c = {.graph = g, .node = n};
    struct qc_window w = {.ceil_mode = qc_attr_int(n, "ceil_mode", 0) != 0,
                          .count_include_pad = qc_attr_int(n, "count_include_pad", 0) != 0};
    static const char *const names[] = {"NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"};
    const char *name = qc_attr_string(n, "auto_pad", "NOTSET");
    unsigned padding = 0;
    while (padding < 4 && strcmp(name, names[padding]) != 0) padding++;
    const enum padding mode = (enum padding)padding;
    const struct qc_shape *x = &qc_in(&c, 0)->shape;
    if (!spatial_of(&w.spatial, &c, st)) return false;
    if (padding == 4)
        return qc_fail(st, QC_BAD_INPUT, "auto_pad must be NOTSET, VALID, SAME_UPPER or SAME_LOWER, got \"%.40s\"",
                       name);
    size_t k = (size_t)w.spatial;
    for (int i = 0; i < w.spatial; i++) {
        w.in[i] = x->rank > 0 ? x->dim[2 + i] : QC_FREE;
        if (w.in[i] > SIZE_LIMIT)
            return qc_fail(st, QC_BAD_INPUT, "spatial dimension %d of size %" PRId64 " is too large", i, w.in[i]);
    }
    if (n->op == QC_OP_GlobalAveragePool || n->op == QC_OP_GlobalMaxPool || n->op == QC_OP_GlobalLpPool) {
        for (int i = 0; i < w.spatial; i++) {
            w.kernel[i] = w.in[i];
            w.stride[i] = w.dilation[i] = w.out[i] = 1;
        }
        *out = w;
        return true;
    }
    int64_t extra[3] = {0}, wanted[3] = {QC_FREE, QC_FREE, QC_FREE};
    if (!kernel_of(&w, &c, st) || !spatial_ints(w.stride, n, "strides", k, 1, 1, st) ||
        !spatial_ints(w.dilation, n, "dilations", k, 1, 1, st))
        return false;
    int64_t pads[6] = {0};
    bool pool = !has_weights(n->op);
    if (!spatial_ints(pads, n, "pads", 2 * k, 0, 0, st)) return false;
    for (int i = 0; i < w.spatial; i++) {
        w.pad_begin[i] = mode == PAD_EXPLICIT ? pads[i] : 0;
        w.pad_end[i] = mode == PAD_EXPLICIT ? pads[w.spatial + i] : 0;
        int64_t reach = (w.kernel[i] - 1) * w.dilation[i] + 1;
        if (pool && (w.pad_begin[i] >= reach || w.pad_end[i] >= reach))
            return qc_fail(st, QC_BAD_INPUT,
                           "padding of %" PRId64 " and %" PRId64
                           " in spatial dimension %d: expected less than the kernel's size %" PRId64,
                           w.pad_begin[i], w.pad_end[i], i, reach);
    }
    bool backward = n->op == QC_OP_ConvTranspose;
    if (backward && (!spatial_ints(extra, n, "output_padding", k, 0, 0, st) ||
                     !spatial_ints(wanted, n, "output_shape", k, QC_FREE, 1, st)))
        return false;
    for (int i = 0; i < w.spatial; i++)
        if (!(backward ? backward_size(&w, i, mode, extra[i], wanted[i], st) : forward_size(&w, i, mode, n, st)))
            return false;
    *out = w;
    return true;
}

/* Weights are [M, C/group, kernel...]; those of ConvTranspose are [C, M/group, kernel...]. */
bool qc_infer_conv_result(struct qc_infer *c, bool transposed, enum qc_dtype result, struct qc_status *st)
{
    const struct qc_shape *x = &qc_in(c, 0)->shape, *k = &qc_in(c, 1)->shape;
    int64_t group = qc_attr_int(c->node, "group", 1), channels, outputs, whole, met;
    struct qc_window w;
    struct qc_shape s;
    if (!qc_window_of(&w, c->graph, c->node, st)) return false;
    if (group < 1 || group > INT32_MAX)
        return qc_fail(st, QC_BAD_INPUT, "attribute group is %" PRId64 ", expected 1 or more", group);
    channels = outputs = QC_FREE;
    if (k->rank > 0) {
        bool fits = qc_dim_times(&whole, k->dim[1], group);
        fits = fits && (k->dim[0] == QC_FREE || (k->dim[0] % group == 0 && k->dim[0] > 0)) && k->dim[1] != 0;
        if (!fits)
            return qc_fail(st, QC_BAD_INPUT, "weights %s do not divide into %" PRId64 " groups", QC_SHAPE_STR(k),
                           group);
        channels = transposed ? k->dim[0] : whole;
        outputs = transposed ? whole : k->dim[0];
    }
    if (x->rank > 0 && !qc_dim_meet(&channels, channels, x->dim[1]))
        return qc_fail(st, QC_BAD_INPUT,
                       "weights %s with group %" PRId64 " take %" PRId64 " input channels, got input %s",
                       QC_SHAPE_STR(k), group, channels, QC_SHAPE_STR(x));
    const unsigned at = c->node->op == QC_OP_DeformConv ? 3 : 2;
    const struct qc_shape *bias = qc_has_in(c, at) ? &qc_in(c, at)->shape : NULL;
    if (bias && bias->rank >= 0 && (bias->rank != 1 || !qc_dim_meet(&met, bias->dim[0], outputs)))
        return qc_fail(st, QC_BAD_INPUT,
                       "bias must have one value for each of %" PRId64 " output channels, got shape %s", outputs,
                       QC_SHAPE_STR(bias));
    if (!qc_shape_free(&s, w.spatial ? w.spatial + 2 : -1, st)) return false;
    if (s.rank > 0) {
        s.dim[0] = x->rank > 0 ? x->dim[0] : QC_FREE;
        s.dim[1] = outputs;
        for (int i = 0; i < w.spatial; i++) s.dim[2 + i] = w.out[i];
    }
    return qc_infer_set(c, 0, result, &s, st);
}

bool qc_infer_conv(struct qc_infer *c, struct qc_status *st)
{
    return qc_infer_same_float(c, 0, c->node->input_count, st) &&
           qc_infer_conv_result(c, false, qc_float_type_of(qc_in(c, 0)->dtype), st);
}

bool qc_infer_conv_transpose(struct qc_infer *c, struct qc_status *st)
{
    return qc_infer_same_float(c, 0, c->node->input_count, st) &&
           qc_infer_conv_result(c, true, qc_float_type_of(qc_in(c, 0)->dtype), st);
}

bool qc_infer_pool_result(struct qc_infer *c, struct qc_status *st)
{
    const struct qc_type *x = qc_in(c, 0);
    struct qc_window w;
    struct qc_shape s = x->shape;
    if (!qc_window_of(&w, c->graph, c->node, st)) return false;
    if (s.rank < 0 && !qc_shape_free(&s, w.spatial ? w.spatial + 2 : -1, st)) return false;
    for (int i = 0; i < w.spatial; i++) s.dim[2 + i] = w.out[i];
    return qc_infer_set(c, 0, x->dtype, &s, st);
}

bool qc_infer_pool(struct qc_infer *c, struct qc_status *st)
{
    const bool indices = c->node->op == QC_OP_MaxPoolIndices && c->node->output_count > 1;
    return (c->node->op == QC_OP_MaxPool || indices || qc_infer_same_float(c, 0, 1, st)) &&
           qc_infer_pool_result(c, st) && (!indices || qc_infer_set(c, 1, QC_I64, &c->out[0].shape, st));
}

bool qc_infer_global_pool(struct qc_infer *c, struct qc_status *st)
{
    return qc_infer_same_float(c, 0, 1, st) && qc_infer_pool_result(c, st);
}

enum { LARGEST = 1 << 30 };

static bool read(int64_t out[QC_RANK_MAX], const struct qc_node *n, const char *name, int count, int64_t otherwise,
                 int64_t least, struct qc_status *st)
{
    const int64_t *given = NULL;
    const size_t have = qc_attr_ints(n, name, &given);
    bool fits = !have || have == (size_t)count;
    for (int i = 0; i < count && fits; i++) {
        out[i] = have ? given[i] : otherwise;
        fits = out[i] >= least && out[i] <= LARGEST;
    }
    return fits || qc_fail(st, QC_BAD_INPUT, "attribute %s does not fit", name);
}

bool qc_blocks_of(struct qc_blocks *out, const struct qc_graph *g, const struct qc_node *n, struct qc_status *st)
{
    const struct qc_infer c = {.graph = g, .node = n};
    struct qc_blocks b = {.points = 1, .blocks = 1};
    struct qc_list image, block;
    int64_t pads[2 * QC_RANK_MAX] = {0};
    if (!qc_infer_list(&image, &c, 1, "the image's shape", st) ||
        !qc_infer_list(&block, &c, 2, "the block's shape", st))
        return false;
    if (!image.known || !block.known) return qc_fail(st, QC_UNSUPPORTED, "shapes of image and block must be constants");
    if (image.count != block.count || image.count < 1 || image.count > QC_RANK_MAX - 2)
        return qc_fail(st, QC_BAD_INPUT, "shapes of image and block do not fit");
    b.spatial = (int)image.count;
    if (!read(b.stride, n, "strides", b.spatial, 1, 1, st) || !read(b.dilation, n, "dilations", b.spatial, 1, 1, st) ||
        !read(pads, n, "pads", 2 * b.spatial, 0, 0, st))
        return false;
    for (int d = 0; d < b.spatial; d++) {
        const int64_t size = image.value[d], points = block.value[d];
        b.image[d] = size;
        b.block[d] = points;
        b.pad_begin[d] = pads[d];
        if (size < 1 || size > LARGEST || points < 1 || points > LARGEST)
            return qc_fail(st, QC_BAD_INPUT, "an image of size %lld, blocks of %lld", (long long)size,
                           (long long)points);
        const int64_t span = size + pads[d] + pads[b.spatial + d] - b.dilation[d] * (points - 1) - 1;
        if (span < 0) return qc_fail(st, QC_BAD_INPUT, "a block does not fit into the image");
        b.steps[d] = span / b.stride[d] + 1;
        if (!qc_mul_i64(&b.points, b.points, points) || !qc_mul_i64(&b.blocks, b.blocks, b.steps[d]))
            return qc_fail(st, QC_BAD_INPUT, "the image is too large");
    }
    *out = b;
    return true;
}
