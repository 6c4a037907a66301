// SPDX-License-Identifier: Apache-2.0
/* Operators of ONNX that are several of TensorFlow Lite's, in float. */
#include <math.h>
#include <string.h>

#include "tflite/write/tflite_writing.h"

/* A chain of operators that ends in the result of a node. */
struct chain {
    struct qc_tfl_writer *w;
    const struct qc_node *n;
    enum qc_tfl_order order;
    int rank, result, count;
};

static struct chain begin(struct qc_tfl_writer *w, const struct qc_node *n)
{
    return (struct chain){.w = w,
                          .n = n,
                          .order = w->order[n->outputs],
                          .rank = w->g->values[n->outputs].type.shape.rank,
                          .result = qc_tfl_out_result(w, n->outputs)};
}

/* Adds an operator; b: QC_TFL_NO_TENSOR if it has one operand. Returns `to`, or a new float tensor of shape s if `to`
   is QC_TFL_NO_TENSOR. */
static int step(struct chain *c, enum qc_tfl_operator code, int a, int b, const struct qc_shape *s, int to)
{
    const int inputs[] = {a, b};
    char suffix[16];
    qc_text(suffix, sizeof suffix, "_%d", c->count++);
    if (to == QC_TFL_NO_TENSOR) {
        to = qc_tfl_out_like(c->w, c->n->outputs, s, suffix);
        c->w->tensors[to].dtype = QC_F32;
        c->w->tensors[to].scale_count = 0;
    }
    struct qc_fb_object *o = qc_tfl_out_options(c->w, code);
    if (code == QC_TFL_OP_MEAN) qc_fb_set_int(o, QC_TFL_ReducerOptions_keep_dims, 1);
    qc_tfl_out_add_node(c->w, code, b == QC_TFL_NO_TENSOR ? 1 : 2, inputs, to, o);
    return to;
}

static int number(struct qc_tfl_writer *w, float v)
{
    float *data = QC_NEW(w->arena, float, w->st);
    if (!data) return QC_TFL_NO_TENSOR;
    *data = v;
    const struct qc_tfl_tensor t = {.name = "number", .dtype = QC_F32, .shape = QC_SCALAR, .data = data};
    return qc_tfl_out_add_tensor(w, &t);
}

/* One number for each channel, which broadcasts to an image of the chain. data: kept. */
static int per_channel(struct chain *c, const float *data, int64_t channels, const char *suffix)
{
    struct qc_shape s = {.rank = c->rank};
    char label[QC_LABEL];
    for (int i = 0; i < c->rank; i++) s.dim[i] = i == 1 ? channels : 1;
    const struct qc_tfl_tensor t = {.name = qc_arena_printf(c->w->arena, c->w->st, "%s_%s",
                                                            qc_value_label(label, c->w->g, c->n->outputs), suffix),
                                    .dtype = QC_F32,
                                    .shape = qc_tfl_out_shape(&s, c->order),
                                    .data = data};
    return qc_tfl_out_add_tensor(c->w, &t);
}

/* (x - mean) / sqrt(variance + epsilon) along axes of the file. */
static int normalised(struct chain *c, int x, const int64_t *axes, size_t count, float epsilon)
{
    const struct qc_shape whole = c->w->tensors[x].shape;
    struct qc_shape one = whole;
    for (size_t i = 0; i < count; i++) one.dim[axes[i]] = 1;
    const int list = qc_tfl_out_ints(c->w, axes, count, "axes"), none = QC_TFL_NO_TENSOR;
    const int mean = step(c, QC_TFL_OP_MEAN, x, list, &one, none);
    const int centred = step(c, QC_TFL_OP_SUB, x, mean, &whole, none);
    const int square = step(c, QC_TFL_OP_MUL, centred, centred, &whole, none);
    const int variance = step(c, QC_TFL_OP_MEAN, square, list, &one, none);
    const int shifted = step(c, QC_TFL_OP_ADD, variance, number(c->w, epsilon), &one, none);
    const int factor = step(c, QC_TFL_OP_RSQRT, shifted, none, &one, none);
    return step(c, QC_TFL_OP_MUL, centred, factor, &whole, none);
}

/* x * scale + bias into the result; bias may be absent (QC_TFL_NO_TENSOR). */
static bool scaled(struct chain *c, int x, int scale, int bias)
{
    const struct qc_shape s = c->w->tensors[c->result].shape;
    const int none = QC_TFL_NO_TENSOR, product = step(c, QC_TFL_OP_MUL, x, scale, &s, bias == none ? c->result : none);
    if (bias != none) step(c, QC_TFL_OP_ADD, product, bias, &s, c->result);
    return c->w->st->code == QC_OK;
}

bool qc_tfl_write_layer_norm(struct qc_tfl_writer *w, const struct qc_node *n)
{
    int64_t axes[QC_RANK_MAX], axis = qc_attr_int(n, "axis", -1);
    size_t count = 0;
    struct chain c = begin(w, n);
    if (axis < 0) axis += c.rank;
    for (; axis < c.rank; axis++) axes[count++] = qc_tfl_out_axis((int)axis, c.rank, c.order);
    const int x = qc_tfl_out_tensor_of(w, n->inputs[0], c.order);
    const bool has_bias = n->input_count > 2 && n->inputs[2];
    const int scale = qc_tfl_out_operand(w, n->inputs[1], c.rank, c.order),
              bias = has_bias ? qc_tfl_out_operand(w, n->inputs[2], c.rank, c.order) : QC_TFL_NO_TENSOR;
    return scaled(&c, normalised(&c, x, axes, count, qc_attr_float(n, "epsilon", 1e-5f)), scale, bias);
}

/* Numbers of constant input i, one for each channel. NULL: it is computed, which is refused, or memory is out. */
static float *channel_numbers(struct qc_tfl_writer *w, const struct qc_node *n, unsigned i)
{
    const struct qc_tensor *t = qc_constant_of(w->g, n->inputs[i]);
    if (!t || qc_graph_parameters(w->g, n->inputs[i])) {
        qc_tfl_out_refuse(w, n, "its scale, bias, mean or variance is computed");
        return NULL;
    }
    float *data = QC_NEW_ARRAY(w->arena, float, t->count, w->st);
    for (size_t k = 0; data && k < t->count; k++) data[k] = (float)qc_tensor_float(t, k);
    return data;
}

bool qc_tfl_write_instance_norm(struct qc_tfl_writer *w, const struct qc_node *n)
{
    int64_t axes[QC_RANK_MAX];
    size_t count = 0;
    float *scale = channel_numbers(w, n, 1), *bias = channel_numbers(w, n, 2);
    if (!scale || !bias) return w->st->code == QC_OK;
    struct chain c = begin(w, n);
    for (int i = 2; i < c.rank; i++) axes[count++] = qc_tfl_out_axis(i, c.rank, c.order);
    const int64_t channels = (int64_t)qc_constant_of(w->g, n->inputs[1])->count;
    const int x = qc_tfl_out_tensor_of(w, n->inputs[0], c.order);
    const int y = normalised(&c, x, axes, count, qc_attr_float(n, "epsilon", 1e-5f));
    return scaled(&c, y, per_channel(&c, scale, channels, "scale"), per_channel(&c, bias, channels, "bias"));
}

bool qc_tfl_write_batch_norm(struct qc_tfl_writer *w, const struct qc_node *n)
{
    float *given[4];
    for (unsigned i = 0; i < 4; i++)
        if (!(given[i] = channel_numbers(w, n, 1 + i))) return w->st->code == QC_OK;
    float *scale = given[0], *bias = given[1];
    const size_t channels = qc_constant_of(w->g, n->inputs[1])->count;
    const double epsilon = (double)qc_attr_float(n, "epsilon", 1e-5f);
    struct chain c = begin(w, n);
    for (size_t i = 0; i < channels; i++) {
        const double factor = (double)scale[i] / sqrt((double)given[3][i] + epsilon);
        scale[i] = (float)factor;
        bias[i] = (float)((double)bias[i] - (double)given[2][i] * factor);
    }
    return scaled(&c, qc_tfl_out_tensor_of(w, n->inputs[0], c.order),
                  per_channel(&c, scale, (int64_t)channels, "scale"), per_channel(&c, bias, (int64_t)channels, "bias"));
}

/* Functions of one number; of integers between DEQUANTIZE and QUANTIZE. */
bool qc_tfl_write_composed(struct qc_tfl_writer *w, const struct qc_node *n)
{
    struct chain c = begin(w, n);
    const int none = QC_TFL_NO_TENSOR, stored = c.result;
    const bool quantized = w->tensors[stored].scale_count != 0;
    int x = qc_tfl_out_tensor_of(w, n->inputs[0], c.order);
    if (x == none) return false;
    const struct qc_shape s = w->tensors[x].shape;
    if (w->tensors[x].scale_count) x = step(&c, QC_TFL_OP_DEQUANTIZE, x, none, &s, none);
    if (quantized) c.result = none;
    int last = none;
    switch ((int)n->op) {
    case QC_OP_Reciprocal: last = step(&c, QC_TFL_OP_DIV, number(w, 1), x, &s, c.result); break;
    case QC_OP_IsNaN: last = step(&c, QC_TFL_OP_NOT_EQUAL, x, x, &s, c.result); break;
    case QC_OP_HardSigmoid: {
        const int line = step(&c, QC_TFL_OP_MUL, x, number(w, qc_attr_float(n, "alpha", 0.2f)), &s, none);
        const int shifted = step(&c, QC_TFL_OP_ADD, line, number(w, qc_attr_float(n, "beta", 0.5f)), &s, none);
        const int above = step(&c, QC_TFL_OP_MAXIMUM, shifted, number(w, 0), &s, none);
        last = step(&c, QC_TFL_OP_MINIMUM, above, number(w, 1), &s, c.result);
        break;
    }
    case QC_OP_Softplus: { /* max(x, 0) + log(1 + exp(-|x|)): no overflow */
        const int far = step(&c, QC_TFL_OP_NEG, step(&c, QC_TFL_OP_ABS, x, none, &s, none), none, &s, none);
        const int power = step(&c, QC_TFL_OP_EXP, far, none, &s, none);
        const int sum = step(&c, QC_TFL_OP_ADD, power, number(w, 1), &s, none);
        const int rest = step(&c, QC_TFL_OP_LOG, sum, none, &s, none);
        last = step(&c, QC_TFL_OP_ADD, step(&c, QC_TFL_OP_RELU, x, none, &s, none), rest, &s, c.result);
        break;
    }
    }
    return last != none && (!quantized || step(&c, QC_TFL_OP_QUANTIZE, last, none, &s, stored) != none);
}
