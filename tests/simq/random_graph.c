// SPDX-License-Identifier: Apache-2.0
#include "random_graph.h"

#include "graph/core/infer.h"
#include "tests/check.h"

enum { POOL = 12, ELEMENTS = 4096 };

struct maker {
    struct random_source random;
    struct qc_graph *g;
    struct qc_status *st;
    qc_id pool[POOL]; /* affine values of quantizers */
    unsigned count, quantizers;
    bool channels; /* quantizers of activations may have a scale per channel */
};

uint64_t random_bits(struct random_source *r)
{
    return test_random(&r->state);
}

int64_t random_int(struct random_source *r, int64_t lo, int64_t hi)
{
    return lo + (int64_t)(random_bits(r) % (uint64_t)(hi - lo + 1));
}

float random_real(struct random_source *r)
{
    return (float)(int32_t)(random_bits(r) >> 40) * 0x1p-23f - 1;
}

static bool chance(struct maker *m, int percent)
{
    return random_int(&m->random, 0, 99) < percent;
}

static const struct qc_shape *shape_of(const struct maker *m, qc_id v)
{
    return &qc_value(m->g, v)->type.shape;
}

/* A scale that now and then makes ties: a power of two. */
static float scale(struct maker *m, float about)
{
    if (chance(m, 40)) return about > 0.1f ? 0.25f : 0x1p-7f;
    return about * (0.5f + (random_real(&m->random) + 1));
}

static qc_id quantizer(struct maker *m, enum qc_dtype t, bool weight, size_t channels, float about)
{
    char name[32];
    QC_FREED float *scales = calloc(channels, sizeof *scales);
    QC_FREED int32_t *zeros = calloc(channels, sizeof *zeros);
    struct qc_qparams def =
        FIELDS(.dtype = t, .is_weight = weight, .per_channel = channels > 1, .restricted = weight && chance(m, 50));
    def.name = qc_text(name, sizeof name, "s%u", m->quantizers++);
    qc_id id = qc_graph_add_quantizer(m->g, &def, m->st);
    if (id && scales && zeros) {
        const struct qc_levels l = qc_qparams_levels(&m->g->qparams_of[id]);
        const bool symmetric =
            weight ? t == QC_I16 || chance(m, 70) : chance(m, 20); /* weights of 17 bits have no integer form */
        for (size_t i = 0; i < channels; i++) {
            scales[i] = scale(m, about);
            zeros[i] = symmetric ? (l.lo < 0 ? 0 : (l.hi + 1) / 2) : (int32_t)random_int(&m->random, l.lo, l.hi);
        }
        if (!qc_graph_bind_quantizer(m->g, id, channels, scales, zeros, m->st)) id = 0;
    }
    return id;
}

static qc_id data_quantizer(struct maker *m)
{
    static const enum qc_dtype types[] = {QC_U8, QC_U8, QC_U8, QC_I8, QC_I8, QC_U16, QC_I16, QC_U4, QC_I4};
    const enum qc_dtype t = types[random_int(&m->random, 0, 8)];
    const unsigned bits = qc_dtype_info(t)->bits;
    return quantizer(m, t, false, 1, bits == 16 ? 2e-4f : bits == 4 ? 0.4f : 0.03f);
}

/* A quantizer for a value of a shape: of one scale, or now and then one for each channel along *axis, which is `along`
 * where that is not negative. */
static qc_id result_quantizer(struct maker *m, const struct qc_shape *shape, int along, int *axis)
{
    *axis = 0;
    if (!m->channels || !chance(m, 60)) return data_quantizer(m);
    const int at = along >= 0 ? along : (int)random_int(&m->random, 1, shape->rank - 1);
    if (at >= shape->rank || shape->dim[at] < 2) return data_quantizer(m);
    *axis = at;
    return quantizer(m, chance(m, 70) ? QC_U8 : QC_I8, false, (size_t)shape->dim[at], 0.03f);
}

/* The axis of the channels of a value whose quantizer has a scale for each, or -1. */
static int channel_axis(const struct maker *m, qc_id v)
{
    const struct qc_type *t = &qc_value(m->g, v)->type;
    return t->qparams && m->g->qparams_of[t->qparams].count > 1 ? t->axis : -1;
}

static qc_id add(struct maker *m, enum qc_op op, unsigned count, const qc_id *in, unsigned attr_count,
                 const struct qc_attr *attrs, qc_id qparams, int axis)
{
    const struct qc_node_def d = FIELDS(.op = op, .input_count = count, .inputs = in, .attr_count = attr_count,
                                        .attrs = attrs, .qparams = qparams, .axis = axis);
    return qc_graph_add(m->g, &d, m->st);
}

static qc_id reals(struct maker *m, const struct qc_shape *shape, float range)
{
    struct qc_tensor *t = qc_tensor_new(QC_F32, shape, m->st);
    if (!t) return 0;
    for (size_t i = 0; i < t->count; i++) ((float *)t->data)[i] = random_real(&m->random) * range;
    const qc_id v = qc_graph_add_constant(m->g, NULL, t, m->st);
    qc_tensor_unref(t);
    return v;
}

static qc_id ints(struct maker *m, size_t count, const int64_t *values)
{
    const struct qc_shape shape = qc_shape_of(1, (const int64_t[]){(int64_t)count});
    OWN(qc_tensor) *t = qc_tensor_of(QC_I64, &shape, values, m->st);
    const qc_id v = t ? qc_graph_add_constant(m->g, NULL, t, m->st) : 0;
    return v;
}

static qc_id scalar(struct maker *m, float value)
{
    const struct qc_shape shape = QC_SCALAR;
    OWN(qc_tensor) *t = qc_tensor_of(QC_F32, &shape, &value, m->st);
    const qc_id v = t ? qc_graph_add_constant(m->g, NULL, t, m->st) : 0;
    return v;
}

/* From an accumulator to a quantizer, by one of the ways that rewriting makes. */
static qc_id narrow(struct maker *m, qc_id acc)
{
    if (chance(m, 20)) acc = add(m, QC_OP_Relu, 1, &acc, 0, NULL, 0, 0);
    int axis;
    const qc_id to = result_quantizer(m, shape_of(m, acc), channel_axis(m, acc), &axis);
    if (chance(m, 80)) return add(m, QC_OP_Requantize, 1, &acc, 0, NULL, to, axis);
    qc_id real = add(m, QC_OP_Dequantize, 1, &acc, 0, NULL, 0, 0);
    if (chance(m, 50)) real = add(m, QC_OP_Relu, 1, &real, 0, NULL, 0, 0);
    return add(m, QC_OP_Quantize, 1, &real, 0, NULL, to, axis);
}

static enum qc_dtype weight_type(struct maker *m)
{
    static const enum qc_dtype types[] = {QC_I8, QC_I8, QC_I8, QC_U8, QC_I4, QC_I16};
    return types[random_int(&m->random, 0, 5)];
}

/* A constant that is integers already, as in an imported quantized model. */
static qc_id stored(struct maker *m, qc_id real, qc_id qparams, int axis)
{
    const struct qc_tensor *w = qc_constant_of(m->g, real);
    const struct qc_qparams *s = &m->g->qparams_of[qparams];
    struct qc_tensor *t = qc_tensor_new(s->dtype, &w->shape, m->st);
    size_t inner = 1;
    if (!t) return 0;
    for (int i = axis + 1; i < w->shape.rank; i++) inner *= (size_t)w->shape.dim[i];
    for (size_t i = 0; i < t->count; i++) {
        const size_t c = s->count > 1 ? i / inner % s->count : 0;
        const struct qc_affine p = {.scale = s->scale[c], .zero_point = s->zero_point[c]};
        const int32_t q = qc_quantize_one(((const float *)w->data)[i], p, qc_qparams_levels(s));
        if (qc_dtype_size(t->dtype) == 1)
            ((uint8_t *)t->data)[i] = (uint8_t)q;
        else
            ((uint16_t *)t->data)[i] = (uint16_t)q;
    }
    const qc_id v = qc_graph_add_affine_constant(m->g, NULL, t, qparams, axis, m->st);
    qc_tensor_unref(t);
    return v;
}

static qc_id weights(struct maker *m, const struct qc_shape *shape, int axis, qc_id *qparams)
{
    const enum qc_dtype t = weight_type(m);
    const size_t channels = chance(m, 60) ? (size_t)shape->dim[axis] : 1;
    const qc_id w = reals(m, shape, 1);
    *qparams = quantizer(m, t, true, channels,
                         qc_dtype_info(t)->bits == 16  ? 3e-4f
                         : qc_dtype_info(t)->bits == 4 ? 0.15f
                                                       : 0.01f);
    if (!w || !*qparams) return 0;
    return chance(m, 30) ? stored(m, w, *qparams, axis) : add(m, QC_OP_Quantize, 1, &w, 0, NULL, *qparams, axis);
}

static qc_id bias(struct maker *m, int64_t channels, qc_id product)
{
    const struct qc_shape shape = qc_shape_of(1, &channels);
    const qc_id b = reals(m, &shape, 0.3f);
    return b ? add(m, QC_OP_Quantize, 1, &b, 0, NULL, product, 0) : 0;
}

static qc_id convolve(struct maker *m, qc_id x)
{
    const struct qc_shape *s = shape_of(m, x);
    const int spatial = s->rank - 2;
    const int64_t c = s->dim[1];
    struct random_source *r = &m->random;
    const bool each = channel_axis(m, x) >= 0, transposed = !each && chance(m, 20), depthwise = each || chance(m, 25);
    int64_t groups = depthwise ? c : chance(m, 20) && c % 2 == 0 ? 2 : 1, per_group = random_int(r, 1, 5);
    if (depthwise && chance(m, 80)) per_group = 1;
    if (each) per_group = 1;
    if (!each && chance(m, 20)) per_group *= 17; /* more than a block of channels */
    if (transposed) groups = chance(m, 20) && c % 2 == 0 ? 2 : 1;
    int64_t kernel[3], stride[3], dilation[3], pads[6];
    struct qc_shape w = {.rank = s->rank};
    for (int i = 0; i < spatial; i++) {
        kernel[i] = random_int(r, 1, 3);
        stride[i] = random_int(r, 1, 2);
        dilation[i] = random_int(r, 1, 2);
        pads[i] = random_int(r, 0, 2);
        pads[spatial + i] = random_int(r, 0, 2);
        const int64_t reach = (kernel[i] - 1) * dilation[i] + 1;
        if (transposed) {
            const int64_t size = (s->dim[2 + i] - 1) * stride[i] + reach;
            if (size <= pads[i] + pads[spatial + i] || size > 40) return x;
        } else if (s->dim[2 + i] + pads[i] + pads[spatial + i] < reach) {
            return x;
        }
        w.dim[2 + i] = kernel[i];
    }
    w.dim[0] = transposed ? c : groups * per_group;
    w.dim[1] = transposed ? per_group : c / groups;
    qc_id qparams, in[3] = {x};
    in[1] = weights(m, &w, transposed ? 1 : 0, &qparams);
    if (!in[1]) return 0;
    if (transposed && groups > 1 && m->g->qparams_of[qparams].count > 1)
        return x; /* scales repeat: not a form of ours */
    const qc_id product = qc_graph_add_product(m->g, qc_value(m->g, x)->type.qparams, qparams, m->st);
    const bool given = chance(m, 60);
    if (given) in[2] = bias(m, groups * per_group, product);
    const struct qc_attr attrs[] = {QC_INTS("kernel_shape", (size_t)spatial, kernel),
                                    QC_INTS("strides", (size_t)spatial, stride),
                                    QC_INTS("dilations", (size_t)spatial, dilation),
                                    QC_INTS("pads", 2 * (size_t)spatial, pads), QC_INT("group", groups)};
    const qc_id acc =
        product ? add(m, transposed ? QC_OP_ConvTranspose : QC_OP_Conv, given ? 3 : 2, in, 5, attrs, product, 0) : 0;
    return acc ? narrow(m, acc) : 0;
}

static qc_id reshape(struct maker *m, qc_id x, int rank, const int64_t *dims)
{
    qc_id in[2] = {x, ints(m, (size_t)rank, dims)};
    return in[1] ? add(m, QC_OP_Reshape, 2, in, 0, NULL, 0, 0) : 0;
}

/* Gemm, MatMul with a constant, or MatMul of two activations, on the last dimension or two. */
static qc_id multiply_matrices(struct maker *m, qc_id x)
{
    const struct qc_shape *s = shape_of(m, x);
    const int64_t k = s->dim[s->rank - 1], n = random_int(&m->random, 1, 20);
    const qc_id a = qc_value(m->g, x)->type.qparams;
    qc_id in[3] = {x}, qparams, product, acc;
    if (chance(m, 30) &&
        qc_dtype_info(m->g->qparams_of[a].dtype)->bits <= 8) { /* centred numbers of 17 bits have no integer form */
        const struct qc_attr swap = QC_INTS("perm", (size_t)s->rank, ((const int64_t[]){0, 1, 2, 3, 4}));
        int64_t perm[5] = {0, 1, 2, 3, 4};
        struct qc_attr attr = swap;
        perm[s->rank - 1] = s->rank - 2;
        perm[s->rank - 2] = s->rank - 1;
        attr.ints = perm;
        in[1] = add(m, QC_OP_Transpose, 1, &x, 1, &attr, 0, 0);
        product = qc_graph_add_product(m->g, a, a, m->st);
        acc = in[1] && product ? add(m, QC_OP_MatMul, 2, in, 0, NULL, product, 0) : 0;
        return acc ? narrow(m, acc) : 0;
    }
    const bool gemm = chance(m, 50), turned = gemm && chance(m, 50);
    const struct qc_shape w = qc_shape_of(2, turned ? (const int64_t[]){n, k} : (const int64_t[]){k, n});
    in[1] = weights(m, &w, turned ? 0 : 1, &qparams);
    product = in[1] ? qc_graph_add_product(m->g, a, qparams, m->st) : 0;
    if (!product) return 0;
    if (!gemm) {
        acc = add(m, QC_OP_MatMul, 2, in, 0, NULL, product, 0);
        return acc ? narrow(m, acc) : 0;
    }
    const int64_t flat[2] = {(int64_t)qc_shape_elements(s) / k, k};
    in[0] = reshape(m, x, 2, flat);
    const bool given = chance(m, 60);
    if (given) in[2] = bias(m, n, product);
    const struct qc_attr attr = QC_INT("transB", turned);
    acc = in[0] ? add(m, QC_OP_Gemm, given ? 3 : 2, in, 1, &attr, product, 0) : 0;
    return acc ? narrow(m, acc) : 0;
}

static qc_id any(struct maker *m)
{
    return m->pool[random_int(&m->random, 0, (int64_t)m->count - 1)];
}

/* Two values of one shape, or one and a constant that broadcasts. */
/* An op of graph/types/ops.def with this type rule that rounds once to the qparams of its result. */
static enum qc_op merging(struct maker *m, qc_infer_fn *rule)
{
    enum qc_op ops[QC_OP_COUNT];
    int64_t count = 0;
    for (enum qc_op op = 0; op < QC_OP_COUNT; op++)
        if (qc_op_info(op)->affine == QC_AFFINE_MERGE && qc_op_info(op)->infer == rule) ops[count++] = op;
    return ops[random_int(&m->random, 0, count - 1)];
}

static qc_id merge_two(struct maker *m, qc_id x)
{
    const struct qc_shape *s = shape_of(m, x);
    qc_id in[2] = {x, any(m)};
    if (!qc_shape_equal(shape_of(m, in[1]), s)) {
        struct qc_shape part = *s;
        for (int i = 0; i < part.rank; i++)
            if (chance(m, 50)) part.dim[i] = 1;
        const qc_id c = reals(m, &part, 1), to = data_quantizer(m);
        in[1] = c && to ? add(m, QC_OP_Quantize, 1, &c, 0, NULL, to, 0) : 0;
    }
    if (chance(m, 50)) {
        const qc_id other = in[0];
        in[0] = in[1];
        in[1] = other;
    }
    int axis;
    const qc_id to = result_quantizer(m, s, -1, &axis);
    return in[0] && in[1] && to ? add(m, merging(m, qc_infer_broadcast), 2, in, 0, NULL, to, axis) : 0;
}

static qc_id pool(struct maker *m, qc_id x)
{
    const struct qc_shape *s = shape_of(m, x);
    const int spatial = s->rank - 2;
    int64_t kernel[3], stride[3], pads[6];
    if (chance(m, 25)) return add(m, QC_OP_GlobalAveragePool, 1, &x, 0, NULL, data_quantizer(m), 0);
    if (chance(m, 10)) return add(m, QC_OP_GlobalMaxPool, 1, &x, 0, NULL, 0, 0);
    for (int i = 0; i < spatial; i++) {
        kernel[i] = random_int(&m->random, 1, 3);
        stride[i] = random_int(&m->random, 1, 2);
        pads[i] = random_int(&m->random, 0, kernel[i] - 1);
        pads[spatial + i] = random_int(&m->random, 0, kernel[i] - 1);
        if (s->dim[2 + i] + pads[i] + pads[spatial + i] < kernel[i]) return x;
    }
    const struct qc_attr attrs[] = {QC_INTS("kernel_shape", (size_t)spatial, kernel),
                                    QC_INTS("strides", (size_t)spatial, stride),
                                    QC_INTS("pads", 2 * (size_t)spatial, pads),
                                    QC_INT("count_include_pad", chance(m, 50))};
    if (chance(m, 50)) return add(m, QC_OP_MaxPool, 1, &x, 3, attrs, 0, 0);
    return add(m, QC_OP_AveragePool, 1, &x, 4, attrs, data_quantizer(m), 0);
}

static qc_id mean(struct maker *m, qc_id x)
{
    const int rank = shape_of(m, x)->rank;
    const int64_t axes[2] = {random_int(&m->random, 1, rank - 1), rank - 1};
    const struct qc_attr attrs[] = {QC_INTS("axes", axes[0] == rank - 1 ? 1U : (size_t)random_int(&m->random, 1, 2),
                                            axes),
                                    QC_INT("keepdims", 1)};
    return add(m, QC_OP_ReduceMean, 1, &x, 2, attrs, data_quantizer(m), 0);
}

static qc_id function(struct maker *m, qc_id x)
{
    int axis;
    const qc_id to = result_quantizer(m, shape_of(m, x), -1, &axis);
    return add(m, merging(m, qc_infer_float_unary), 1, &x, 0, NULL, to, axis);
}

static qc_id bound(struct maker *m, qc_id x)
{
    if (chance(m, 50)) return add(m, QC_OP_Relu, 1, &x, 0, NULL, 0, 0);
    const float lo = random_real(&m->random) - 0.5f;
    qc_id in[3] = {x, chance(m, 80) ? scalar(m, lo) : 0, scalar(m, lo + 1)};
    return add(m, QC_OP_Clip, 3, in, 0, NULL, 0, 0);
}

static qc_id move(struct maker *m, qc_id x)
{
    const struct qc_shape *s = shape_of(m, x);
    const int rank = s->rank;
    struct random_source *r = &m->random;
    const int axis = (int)random_int(r, 0, rank - 1);
    switch (random_int(r, 0, 3)) {
    case 0: {
        int64_t pads[2 * QC_RANK_MAX] = {0};
        for (int i = 2; i < rank; i++) {
            pads[i] = random_int(r, 0, 2);
            pads[rank + i] = random_int(r, 0, 2);
        }
        const qc_id in[3] = {x, ints(m, 2 * (size_t)rank, pads), scalar(m, chance(m, 50) ? 0 : random_real(r))};
        return add(m, QC_OP_Pad, 3, in, 0, NULL, 0, 0);
    }
    case 1: {
        const int64_t begin = random_int(r, 0, s->dim[axis] - 1), end = random_int(r, begin + 1, s->dim[axis]);
        const qc_id in[4] = {x, ints(m, 1, &begin), ints(m, 1, &end), ints(m, 1, (const int64_t[]){axis})};
        return add(m, QC_OP_Slice, 4, in, 0, NULL, 0, 0);
    }
    case 2: {
        int64_t perm[QC_RANK_MAX];
        for (int i = 0; i < rank; i++) perm[i] = i;
        const int other = (int)random_int(r, 1, rank - 1);
        const int64_t kept = perm[1];
        perm[1] = perm[other];
        perm[other] = kept;
        const struct qc_attr attr = QC_INTS("perm", (size_t)rank, perm);
        return add(m, QC_OP_Transpose, 1, &x, 1, &attr, 0, 0);
    }
    default: return add(m, QC_OP_Requantize, 1, &x, 0, NULL, data_quantizer(m), 0);
    }
}

/* Of a value with a scale per channel: what its parameters pass through, or reads each channel apart. */
static qc_id channel_step(struct maker *m, qc_id x, int axis)
{
    const struct qc_shape *s = shape_of(m, x);
    const int other = axis == s->rank - 1 ? 0 : s->rank - 1;
    const struct qc_attr join_axis = QC_INT("axis", other);
    const qc_id both[2] = {x, x};
    const int64_t which = random_int(&m->random, 0, 99);
    if (which < 35 && axis == 1 && s->rank >= 3) return convolve(m, x);
    if (which < 50) return merge_two(m, x);
    if (which < 60 && axis == 1 && s->rank >= 3) return pool(m, x);
    if (which < 65) return mean(m, x);
    if (which < 75) return function(m, x);
    if (which < 85) return bound(m, x);
    if (which < 88) return add(m, QC_OP_Concat, 2, both, 1, &join_axis, 0, 0);
    if (which < 92) {
        const qc_id in[4] = {x, ints(m, 1, (const int64_t[]){s->dim[other] > 1}), ints(m, 1, &s->dim[other]),
                             ints(m, 1, (const int64_t[]){other})};
        return add(m, QC_OP_Slice, 4, in, 0, NULL, 0, 0);
    }
    if (which < 96) {
        int64_t perm[QC_RANK_MAX];
        for (int i = 0; i < s->rank; i++) perm[i] = (i + 1) % s->rank;
        const struct qc_attr attr = QC_INTS("perm", (size_t)s->rank, perm);
        return add(m, QC_OP_Transpose, 1, &x, 1, &attr, 0, 0);
    }
    int to_axis;
    const qc_id to = result_quantizer(m, s, axis, &to_axis);
    return add(m, QC_OP_Requantize, 1, &x, 0, NULL, to, to_axis);
}

static qc_id step(struct maker *m, qc_id x)
{
    const bool spatial = shape_of(m, x)->rank >= 3;
    if (channel_axis(m, x) >= 0) return channel_step(m, x, channel_axis(m, x));
    const int64_t which = random_int(&m->random, 0, 99);
    if (which < 35) return spatial ? convolve(m, x) : multiply_matrices(m, x);
    if (which < 45) return multiply_matrices(m, x);
    if (which < 60) return merge_two(m, x);
    if (which < 65) {
        const struct qc_shape *s = shape_of(m, x);
        const int64_t axis = random_int(&m->random, 0, s->rank - 1);
        qc_id in[2] = {x, any(m)};
        if (channel_axis(m, in[1]) >= 0) in[1] = x;
        const struct qc_shape *t = shape_of(m, in[1]);
        bool fits = s->rank == t->rank;
        for (int i = 0; fits && i < s->rank; i++) fits = i == axis || s->dim[i] == t->dim[i];
        if (!fits) in[1] = x;
        const qc_id qparams = qc_value(m->g, x)->type.qparams;
        if (qc_value(m->g, in[1])->type.qparams != qparams)
            in[1] = add(m, QC_OP_Requantize, 1, &in[1], 0, NULL, qparams, 0);
        const struct qc_attr attr = QC_INT("axis", axis);
        return in[1] ? add(m, QC_OP_Concat, 2, in, 1, &attr, 0, 0) : 0;
    }
    if (which < 75) return spatial ? pool(m, x) : mean(m, x);
    if (which < 78) return mean(m, x);
    if (which < 86) return function(m, x);
    if (which < 91) return bound(m, x);
    return move(m, x);
}

static struct qc_graph *make(uint64_t seed, bool simulated, bool channels, struct qc_status *st)
{
    struct maker m = {.random = {seed}, .g = qc_graph_new(st), .st = st, .channels = channels};
    struct qc_shape shape = {.rank = (int)random_int(&m.random, 3, 5)};
    if (!m.g) return NULL;
    m.g->simulated = simulated;
    shape.dim[0] = random_int(&m.random, 1, 2);
    shape.dim[1] = chance(&m, 20) ? random_int(&m.random, 33, 70) : random_int(&m.random, 1, 8);
    for (int i = 2; i < shape.rank; i++)
        shape.dim[i] = random_int(&m.random, 1, shape.rank == 3 ? 24 : shape.rank == 4 ? 11 : 5);
    int axis;
    const qc_id x = qc_graph_add_input(m.g, "x", QC_F32, &shape, st), first = result_quantizer(&m, &shape, -1, &axis);
    m.pool[m.count++] = x && first ? add(&m, QC_OP_Quantize, 1, &x, 0, NULL, first, axis) : 0;
    const int64_t steps = random_int(&m.random, 1, 7);
    bool ok = m.pool[0] != 0;
    for (int64_t i = 0; ok && i < steps; i++) {
        const qc_id from = chance(&m, 70) ? m.pool[m.count - 1] : any(&m), to = step(&m, from);
        ok = to != 0;
        if (ok && to != from && m.count < POOL && qc_shape_elements(shape_of(&m, to)) <= ELEMENTS)
            m.pool[m.count++] = to;
    }
    for (unsigned i = 0; ok && i < m.count; i++) {
        char name[16];
        qc_id out = m.pool[i];
        if (i + 1 < m.count && chance(&m, 60)) continue;
        if (chance(&m, 40)) out = add(&m, QC_OP_Dequantize, 1, &out, 0, NULL, 0, 0);
        ok = out && qc_graph_add_output(m.g, qc_text(name, sizeof name, "y%u", i), out, st);
    }
    if (ok) return m.g;
    qc_graph_free(m.g);
    return NULL;
}

struct qc_graph *random_graph(uint64_t seed, bool simulated, struct qc_status *st)
{
    return make(seed, simulated, false, st);
}

struct qc_graph *random_channel_graph(uint64_t seed, bool simulated, struct qc_status *st)
{
    return make(seed, simulated, true, st);
}
