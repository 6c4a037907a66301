// SPDX-License-Identifier: Apache-2.0
/* Operators of ONNX that are several of TensorFlow Lite's, in float. */
#include <math.h>

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
    if (code == QC_TFL_OP_MEAN || code == QC_TFL_OP_SUM || code == QC_TFL_OP_REDUCE_MAX)
        qc_fb_set_int(o, QC_TFL_ReducerOptions_keep_dims, 1);
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

/* --- Reductions and choices along axes --- */

static int64_t axis_of(const struct qc_node *n, int64_t otherwise, int rank)
{
    const int64_t axis = qc_attr_int(n, "axis", otherwise);
    return axis < 0 ? axis + rank : axis;
}

/* Norms, sums of squares, logarithms of sums of powers; with LpNormalization the quotient by a norm. */
bool qc_tfl_write_reduced(struct qc_tfl_writer *w, const struct qc_node *n)
{
    const bool divides = n->op == QC_OP_LpNormalization, keep = divides || qc_attr_int(n, "keepdims", 1);
    const int rank = w->g->values[n->inputs[0]].type.shape.rank, none = QC_TFL_NO_TENSOR;
    const int64_t *given = NULL, own = axis_of(n, -1, rank);
    int64_t axes[QC_RANK_MAX];
    size_t count = divides ? 1 : qc_attr_ints(n, "axes", &given);
    struct chain c = begin(w, n);
    if (!keep) c.order = QC_TFL_PLAIN;
    if (n->input_count > 1 && n->inputs[1]) return qc_tfl_out_refuse(w, n, "its axes are computed");
    if (w->g->values[n->inputs[0]].type.dtype != QC_F32)
        return qc_tfl_out_refuse(w, n, "it is written in float32 alone");
    if (!count && qc_attr_int(n, "noop_with_empty_axes", 0)) return qc_tfl_out_refuse(w, n, "it reduces no axis");
    for (size_t i = 0; i < count; i++) axes[i] = divides ? own : given[i] < 0 ? given[i] + rank : given[i];
    for (int i = 0, all = !count; all && i < rank; i++) axes[count++] = i;
    const int x = qc_tfl_out_tensor_of(w, n->inputs[0], c.order);
    const struct qc_shape whole = w->tensors[x].shape;
    struct qc_shape one = whole;
    for (size_t i = 0; i < count; i++) {
        axes[i] = qc_tfl_out_axis((int)axes[i], rank, c.order);
        one.dim[axes[i]] = 1;
    }
    const int list = qc_tfl_out_ints(w, axes, count, "axes"), end = keep && !divides ? c.result : none;
    int last = none;
    if (n->op == QC_OP_ReduceLogSumExp) {
        const int most = step(&c, QC_TFL_OP_REDUCE_MAX, x, list, &one, none);
        const int powers = step(&c, QC_TFL_OP_EXP, step(&c, QC_TFL_OP_SUB, x, most, &whole, none), none, &whole, none);
        const int sum = step(&c, QC_TFL_OP_SUM, powers, list, &one, none);
        last = step(&c, QC_TFL_OP_ADD, step(&c, QC_TFL_OP_LOG, sum, none, &one, none), most, &one, end);
    } else {
        const bool absolute = n->op == QC_OP_ReduceL1 || (divides && qc_attr_int(n, "p", 2) == 1),
                   root = n->op == QC_OP_ReduceL2 || (divides && !absolute);
        const int part =
            absolute ? step(&c, QC_TFL_OP_ABS, x, none, &whole, none) : step(&c, QC_TFL_OP_MUL, x, x, &whole, none);
        last = step(&c, QC_TFL_OP_SUM, part, list, &one, root ? none : end);
        if (root) last = step(&c, QC_TFL_OP_SQRT, last, none, &one, end);
    }
    /* The quotient of zeros is 0. */
    if (divides)
        step(&c, QC_TFL_OP_DIV, x, step(&c, QC_TFL_OP_MAXIMUM, last, number(w, 1.17549435e-38f), &one, none), &whole,
             c.result);
    return keep ? w->st->code == QC_OK : qc_tfl_out_put_plain(w, n->outputs, last);
}

/* ARG_MAX and ARG_MIN have no axis in their result. */
bool qc_tfl_write_arg(struct qc_tfl_writer *w, const struct qc_node *n)
{
    const enum qc_tfl_operator code = qc_tfl_write_row(n->op)->code;
    const struct qc_shape *s = &w->g->values[n->inputs[0]].type.shape;
    const int64_t axis = axis_of(n, 0, s->rank);
    struct qc_shape rest = {.rank = s->rank - 1};
    if (qc_attr_int(n, "select_last_index", 0)) return qc_tfl_out_refuse(w, n, "it takes the last of equal numbers");
    for (int i = 0; i < rest.rank; i++) rest.dim[i] = s->dim[i < axis ? i : i + 1];
    const int inputs[] = {qc_tfl_out_tensor_of(w, n->inputs[0], QC_TFL_PLAIN), qc_tfl_out_ints(w, &axis, 1, "axis")},
              to = qc_tfl_out_like(w, n->outputs, &rest, "_index");
    struct qc_fb_object *o = qc_tfl_out_options(w, code);
    qc_fb_set_int(o, code == QC_TFL_OP_ARG_MAX ? QC_TFL_ArgMaxOptions_output_type : QC_TFL_ArgMinOptions_output_type,
                  qc_tfl_type_of(QC_I64));
    return qc_tfl_out_add_node(w, code, 2, inputs, to, o) && qc_tfl_out_put_plain(w, n->outputs, to);
}

/* Returns the tensor in plain order with its axis last; *perm: the permutation, which is its own inverse. */
static int axis_last(int perm[QC_RANK_MAX], struct qc_tfl_writer *w, qc_id v, int64_t axis)
{
    const int x = qc_tfl_out_tensor_of(w, v, QC_TFL_PLAIN), rank = w->tensors[x].shape.rank;
    struct qc_shape turned = w->tensors[x].shape;
    for (int i = 0; i < rank; i++) perm[i] = i == axis ? rank - 1 : i == rank - 1 ? (int)axis : i;
    if (axis == rank - 1) return x;
    for (int i = 0; i < rank; i++) turned.dim[i] = w->tensors[x].shape.dim[perm[i]];
    const int to = qc_tfl_out_like(w, v, &turned, "_axis_last");
    qc_tfl_out_permute(w, x, perm, to);
    return to;
}

/* Writes a tensor with its axis last into value v. */
static bool put_axis(struct qc_tfl_writer *w, qc_id v, int from, const int perm[QC_RANK_MAX])
{
    const struct qc_shape plain = w->g->values[v].type.shape;
    const int last = plain.rank - 1, to = perm[last] == last ? from : qc_tfl_out_like(w, v, &plain, "_plain");
    return (to == from || qc_tfl_out_permute(w, from, perm, to)) && qc_tfl_out_put_plain(w, v, to);
}

/* TOPK_V2 takes the largest along the last axis. */
bool qc_tfl_write_topk(struct qc_tfl_writer *w, const struct qc_node *n)
{
    const struct qc_tensor *k = qc_constant_of(w->g, n->inputs[1]);
    const int rank = w->g->values[n->inputs[0]].type.shape.rank, none = QC_TFL_NO_TENSOR;
    const bool largest = qc_attr_int(n, "largest", 1);
    int perm[QC_RANK_MAX];
    if (!k) return qc_tfl_out_refuse(w, n, "how many it takes is computed");
    struct chain c = begin(w, n);
    int x = axis_last(perm, w, n->inputs[0], axis_of(n, -1, rank));
    if (x == none) return false;
    const struct qc_shape whole = w->tensors[x].shape;
    struct qc_shape few = whole;
    few.dim[rank - 1] = qc_tensor_int(k, 0);
    if (!largest) x = step(&c, QC_TFL_OP_NEG, x, none, &whole, none);
    const int inputs[] = {x, qc_tfl_out_ints(w, &few.dim[rank - 1], 1, "k")};
    int values = qc_tfl_out_like(w, n->outputs, &few, "_largest");
    struct qc_tfl_tensor t = {.name = "indices", .dtype = QC_I32, .shape = few};
    const int indices = qc_tfl_out_add_tensor(w, &t);
    if (!qc_tfl_out_add_node(w, QC_TFL_OP_TOPK_V2, 2, inputs, values, NULL) || !qc_tfl_out_add_output(w, indices))
        return false;
    if (!largest) values = step(&c, QC_TFL_OP_NEG, values, none, &few, none);
    return put_axis(w, n->outputs, values, perm) &&
           (n->output_count < 2 || put_axis(w, n->outputs + 1, qc_tfl_out_cast(w, indices, QC_I64), perm));
}

/* GATHER along the last axis, with all others as batches. */
bool qc_tfl_write_gather_elements(struct qc_tfl_writer *w, const struct qc_node *n)
{
    const struct qc_shape *s = &w->g->values[n->inputs[0]].type.shape, *at = &w->g->values[n->inputs[1]].type.shape;
    const int64_t axis = axis_of(n, 0, s->rank);
    int perm[QC_RANK_MAX];
    for (int i = 0; i < s->rank; i++)
        if (i != axis && s->dim[i] != at->dim[i])
            return qc_tfl_out_refuse(w, n, "its indices have another size than its input along axis %d", i);
    if (s->dim[axis] == QC_FREE) return qc_tfl_out_refuse(w, n, "it takes elements of a free dimension");
    const int x = axis_last(perm, w, n->inputs[0], axis),
              chosen = qc_tfl_out_cast(w, axis_last(perm, w, n->inputs[1], axis), QC_I32);
    struct qc_tfl_tensor t = w->tensors[chosen];
    t.name = "from_the_start";
    t.data = NULL;
    const int size = qc_tfl_out_ints(w, &s->dim[axis], 1, "size"), indices = qc_tfl_out_add_tensor(w, &t),
              both[] = {chosen, size}, inputs[] = {x, indices};
    struct qc_shape shape = w->tensors[chosen].shape;
    const int to = qc_tfl_out_like(w, n->outputs, &shape, "_axis");
    struct qc_fb_object *o = qc_tfl_out_options(w, QC_TFL_OP_GATHER);
    qc_fb_set_int(o, QC_TFL_GatherOptions_axis, s->rank - 1);
    qc_fb_set_int(o, QC_TFL_GatherOptions_batch_dims, s->rank - 1);
    /* Negative indices count from the end. */
    return qc_tfl_out_add_node(w, QC_TFL_OP_FLOOR_MOD, 2, both, indices, NULL) &&
           qc_tfl_out_add_versioned(w, QC_TFL_OP_GATHER, 5, 2, inputs, to, o) && put_axis(w, n->outputs, to, perm);
}
