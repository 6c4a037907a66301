// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "rewrite/language/expression.h"
#include "rewrite/language/match.h"

static const struct qc_shape *shape_at(const struct qc_asked *call, unsigned i)
{
    return &call->frame->graph->values[call->args[i].id].type.shape;
}

static const struct qc_qparams *qparams_at(const struct qc_asked *call, unsigned i)
{
    return &call->frame->graph->qparams_of[call->args[i].id];
}

static double value_rank(const struct qc_asked *call)
{
    return call->args[0].id ? (double)shape_at(call, 0)->rank : (double)NAN;
}

static double value_elements(const struct qc_asked *call)
{
    size_t n;
    return call->args[0].id && qc_shape_count(&n, shape_at(call, 0)) ? (double)n : (double)NAN;
}

/* Returns true if the constant has one element per index of `axis` (from the front) of a value of `rank` dimensions and
   its other dimensions are 1. */
static bool along(const struct qc_shape *c, int rank, int axis, int64_t size)
{
    if (rank < 1 || axis < 0 || axis >= rank || c->rank > rank || rank - c->rank > axis) return false;
    for (int i = 0; i < c->rank; i++)
        if (c->dim[i] != (rank - c->rank + i == axis ? size : 1)) return false;
    return true;
}

/* The weight's first dimension is the number of channels of the result, which has the weight's rank. */
static double is_per_channel(const struct qc_asked *call)
{
    const struct qc_shape *w = shape_at(call, 1);
    return w->rank >= 3 && along(shape_at(call, 0), w->rank, 1, w->dim[0]);
}

static double per_last(const struct qc_asked *call)
{
    const struct qc_shape *c = shape_at(call, 0), *w = shape_at(call, 1);
    if (w->rank != 2 || c->rank < 1 || c->rank > 2) return 0;
    return c->dim[c->rank - 1] == w->dim[1] && (c->rank == 1 || c->dim[0] == 1);
}

static double single_use(const struct qc_asked *call)
{
    return call->args[0].id && call->frame->uses[call->args[0].id] == 1;
}

static double is_float_real(const struct qc_asked *call)
{
    const struct qc_type *t = &call->frame->graph->values[call->args[0].id].type;
    return call->args[0].id && t->qparams == QC_REAL && t->dtype == QC_F32;
}

static double is_made_in_float(const struct qc_asked *call)
{
    const struct qc_node *n = is_float_real(call) > 0 ? qc_node_of(call->frame->graph, call->args[0].id) : NULL;
    return n && n->op != QC_OP_Dequantize && n->op != QC_OP_DequantizeLinear;
}

static double is_activation(const struct qc_asked *call)
{
    return call->args[0].id && !qc_constant_of(call->frame->graph, call->args[0].id);
}

/* Returns the value of a constant whose elements are all equal. */
static double value_of(const struct qc_asked *call)
{
    const struct qc_tensor *t = qc_constant_of(call->frame->graph, call->args[0].id);
    if (!t || !t->count) return (double)NAN;
    double v = qc_tensor_float(t, 0);
    for (size_t i = 1; i < t->count; i++)
        if (qc_tensor_float(t, i) != v) return (double)NAN;
    return v;
}

static double is_quantizer(const struct qc_asked *call)
{
    return call->args[0].id && qparams_at(call, 0)->kind == QC_QPARAMS_QUANTIZER;
}

static bool is_bound_quantizer(const struct qc_qparams *s)
{
    return s->state == QC_QPARAMS_BOUND && s->kind == QC_QPARAMS_QUANTIZER;
}

static double at_floor(const struct qc_asked *call)
{
    const struct qc_qparams *s = qparams_at(call, 0);
    if (!is_bound_quantizer(s)) return 0;
    for (size_t c = 0; c < s->count; c++)
        if (s->zero_point[c] != qc_qparams_levels(s).lo) return 0;
    return 1;
}

/* Returns true if every element of a bound is quantized to the last level, so that saturation does what the clamp
   does. */
static bool covers(const struct qc_graph *g, qc_id bound, const struct qc_qparams *s, bool upper)
{
    struct qc_levels levels = qc_qparams_levels(s);
    const struct qc_tensor *t = qc_constant_of(g, bound);
    if (!bound) return true;
    if (t && t->count > 1 && s->count > 1) return false; /* Pairs of elements and scales are not compared. */
    for (size_t c = 0; t && c < s->count; c++)
        for (size_t i = 0; i < t->count; i++)
            if (qc_quantize_one((float)qc_tensor_float(t, i),
                                (struct qc_affine){.scale = s->scale[c], .zero_point = s->zero_point[c]},
                                levels) != (upper ? levels.hi : levels.lo))
                return false;
    return t && t->count;
}

static double covered(const struct qc_asked *call)
{
    const struct qc_qparams *s = qparams_at(call, 1);
    return call->args[0].id && is_bound_quantizer(s) && covers(call->frame->graph, call->args[0].id, s, call->upper);
}

static double clip_covers(const struct qc_asked *call)
{
    const struct qc_qparams *s = qparams_at(call, 2);
    return is_bound_quantizer(s) && covers(call->frame->graph, call->args[0].id, s, false) &&
           covers(call->frame->graph, call->args[1].id, s, true);
}

static double along_axis_1(const struct qc_asked *call)
{
    const struct qc_shape *x = shape_at(call, 1);
    return x->rank > 1 && x->dim[1] != QC_FREE && along(shape_at(call, 0), x->rank, 1, x->dim[1]);
}

static double same_qparams(const struct qc_asked *call)
{
    return call->args[0].id && call->frame->graph->values[call->args[0].id].type.qparams == call->args[1].id;
}

/* ---- Weights ---- */

/* Returns the matched node whose second input is w. */
static const struct qc_node *taker_of(const struct qc_asked *call, qc_id w)
{
    for (unsigned i = 0; w && i < call->frame->match->node_count; i++) {
        const struct qc_node *n = &call->frame->graph->nodes[call->frame->match->nodes[i]];
        if (n->input_count > 1 && n->inputs[1] == w) return n;
    }
    return NULL;
}

static double groups(const struct qc_asked *call)
{
    const struct qc_node *n = taker_of(call, call->args[0].id);
    return n ? (double)qc_attr_int(n, "group", 1) : (double)NAN;
}

/* Returns the number of output channels of a weight: Conv [M, C/group, ...], ConvTranspose [C, M/group, ...], MatMul
   and Gemm [K, N] ([N, K] with transB). */
static double channels(const struct qc_asked *call)
{
    const struct qc_node *n = taker_of(call, call->args[0].id);
    const struct qc_shape *s = shape_at(call, 0);
    if (!n || s->rank < 2) return (double)NAN;
    if (n->op == QC_OP_Conv) return (double)s->dim[0];
    if (n->op == QC_OP_ConvTranspose) return (double)s->dim[1] * (double)qc_attr_int(n, "group", 1);
    if (n->op == QC_OP_Gemm && qc_attr_int(n, "transB", 0)) return (double)s->dim[0];
    return (double)s->dim[s->rank - 1];
}

static double pointwise(const struct qc_asked *call)
{
    const struct qc_shape *s = shape_at(call, 0);
    bool one = s->rank > 2;
    for (int i = 2; i < s->rank; i++) one = one && s->dim[i] == 1;
    return one && taker_of(call, call->args[0].id) != NULL;
}

/* Returns 1 for a convolution with several groups of one input channel each, else 0. */
static double depthwise(const struct qc_asked *call)
{
    const struct qc_node *n = taker_of(call, call->args[0].id);
    const struct qc_shape *s = shape_at(call, 0);
    int64_t group = n ? qc_attr_int(n, "group", 1) : 1;
    if (!n || s->rank < 3 || group < 2) return 0;
    return n->op == QC_OP_ConvTranspose ? s->dim[0] == group : n->op == QC_OP_Conv && s->dim[1] == 1;
}

/* Returns 1 for a convolution with a stride along its last axis whose result has a length of 1 there, else 0. One of
   two dimensions has several rows and no stride along them. */
static double one_column(const struct qc_asked *call)
{
    const struct qc_node *n = taker_of(call, call->args[0].id);
    const struct qc_shape *result = n ? &call->frame->graph->values[n->outputs].type.shape : NULL;
    const int64_t *strides;
    const size_t count = n ? qc_attr_ints(n, "strides", &strides) : 0;
    if (count < 2 || strides[count - 1] == 1 || result->dim[result->rank - 1] != 1) return 0;
    return count > 2 || (strides[0] == 1 && result->dim[2] != 1);
}

/* ---- Any value ---- */

static bool has_one_row(const struct qc_shape *s)
{
    for (int i = 0; i + 1 < s->rank; i++)
        if (s->dim[i] != 1 && (i || s->dim[i] != QC_FREE)) return false;
    return s->rank > 1;
}

/* Goes up to an input, through ops that compute from one value and constants. */
static double of_one_row(const struct qc_asked *call)
{
    const struct qc_graph *g = call->frame->graph;
    qc_id v = call->args[0].id;
    while (v && has_one_row(&g->values[v].type.shape)) {
        const struct qc_node *n = qc_node_of(g, v);
        if (!n) return g->values[v].kind == QC_VALUE_INPUT;
        unsigned activations = 0;
        for (unsigned i = 0; i < n->input_count; i++) {
            if (!n->inputs[i] || qc_constant_of(g, n->inputs[i])) continue;
            v = n->inputs[i];
            activations++;
        }
        if (activations != 1) return 0;
    }
    return 0;
}

static double value_type(const struct qc_asked *call)
{
    const struct qc_type *t = &call->frame->graph->values[call->args[0].id].type;
    if (!call->args[0].id) return (double)NAN;
    return (double)qc_dtype_info(t->qparams ? call->frame->graph->qparams_of[t->qparams].dtype : t->dtype)->onnx;
}

static double dim_of(const struct qc_asked *call)
{
    const struct qc_shape *s = shape_at(call, 0);
    double axis = call->args[1].kind == QC_FVALUE_NUMBER ? qc_number_double(call->args[1].number) : (double)NAN;
    if (axis < 0) axis += s->rank;
    if (!call->args[0].id || !(axis >= 0 && axis < s->rank) || s->dim[(int)axis] == QC_FREE) return (double)NAN;
    return (double)s->dim[(int)axis];
}

static double extreme_element(const struct qc_asked *call)
{
    const struct qc_tensor *t = qc_constant_of(call->frame->graph, call->args[0].id);
    double best = (double)NAN;
    for (size_t i = 0; t && i < t->count; i++) {
        double v = qc_tensor_float(t, i);
        if (!(v == v)) return (double)NAN;
        if (i == 0 || (call->upper ? v > best : v < best)) best = v;
    }
    return best;
}

static double whole(const struct qc_asked *call)
{
    const struct qc_tensor *t = qc_constant_of(call->frame->graph, call->args[0].id);
    if (!call->args[0].id) return 1;
    for (size_t i = 0; t && i < t->count; i++)
        if (qc_tensor_float(t, i) != floor(qc_tensor_float(t, i))) return 0;
    return t && t->count;
}

/* Returns 1 for a matrix whose columns are sines of the row's number i, of any frequency, amplitude and phase, not all
   of them constant: then t[i + 1] + t[i - 1] = 2 cos(frequency) t[i]. Tables of 16 bits are near enough. */
static double waves(const struct qc_asked *call)
{
    enum { ROWS = 32 };
    const struct qc_tensor *t = qc_constant_of(call->frame->graph, call->args[0].id);
    if (!t || t->shape.rank != 2 || t->shape.dim[0] < 5) return 0;
    const size_t columns = (size_t)t->shape.dim[1], rows = t->shape.dim[0] < ROWS ? (size_t)t->shape.dim[0] : ROWS;
    bool some = false;
    for (size_t c = 0; c < columns; c++) {
        double x[ROWS], product = 0, square = 0, largest = 0;
        bool varies = false;
        for (size_t i = 0; i < rows; i++) {
            x[i] = qc_tensor_float(t, i * columns + c);
            if (fabs(x[i]) > largest) largest = fabs(x[i]);
            varies = varies || x[i] != x[0];
        }
        for (size_t i = 1; i + 1 < rows; i++) {
            product += x[i] * (x[i - 1] + x[i + 1]);
            square += x[i] * x[i];
        }
        const double factor = square > 0 ? product / square : 0;
        for (size_t i = 1; i + 1 < rows; i++)
            if (!(fabs(x[i - 1] + x[i + 1] - factor * x[i]) <= largest / 64)) return 0;
        some = some || varies;
    }
    return some;
}

static double is_joined(const struct qc_asked *call)
{
    const struct qc_node *made = call->args[0].id ? qc_node_of(call->frame->graph, call->args[0].id) : NULL;
    return made && made->op == QC_OP_Concat;
}

/* Returns 1 for the mean of each channel of an image, else 0. A mean of squares is a variance, which 8 bits do not
   hold. */
static double pooled(const struct qc_asked *call)
{
    const struct qc_graph *g = call->frame->graph;
    const qc_id x = call->args[0].id;
    const struct qc_node *n = qc_match_node(call->frame->match, g, QC_OP_ReduceMean),
                         *made = x ? qc_node_of(g, x) : NULL;
    const int rank = x ? g->values[x].type.shape.rank : -1;
    const struct qc_attr *axes = n ? qc_attr_find(n, "axes") : NULL;
    if (!axes || n->inputs[0] != x || rank < 4 || rank > 5 || axes->count != (size_t)rank - 2) return 0;
    if (made && (made->op == QC_OP_Pow || (made->op == QC_OP_Mul && made->inputs[0] == made->inputs[1]))) return 0;
    unsigned seen = 0;
    for (size_t i = 0; i < axes->count; i++) {
        const int64_t axis = axes->ints[i] < 0 ? axes->ints[i] + rank : axes->ints[i];
        if (axis < 2 || axis >= rank || (seen & 1U << axis)) return 0;
        seen |= 1U << axis;
    }
    return 1;
}

/* Returns 1 if an AveragePool has both ceil_mode and count_include_pad. */
static double rounds_up(const struct qc_asked *call)
{
    const struct qc_node *n = qc_match_node(call->frame->match, call->frame->graph, QC_OP_AveragePool);
    return n && qc_attr_int(n, "ceil_mode", 0) != 0 && qc_attr_int(n, "count_include_pad", 0) != 0;
}

/* Returns 1 if the pads of a Pad add elements, and only to the axes of an image or a sequence. */
static double pads_image(const struct qc_asked *call)
{
    const struct qc_tensor *t = qc_constant_of(call->frame->graph, call->args[0].id);
    if (!t || t->dtype != QC_I64 || t->count < 6 || t->count % 2) return 0;
    const int64_t *pads = t->data;
    for (size_t i = 0; i < t->count; i++)
        if (pads[i] < 0 || (pads[i] > 0 && i % (t->count / 2) < 2)) return 0;
    return 1;
}

/* ---- Qparams ---- */

/* Returns 1 if the range of T lies inside the range of S, so that S clips nothing that T can hold; else 0. */
static double within(const struct qc_asked *call)
{
    const struct qc_qparams *t = qparams_at(call, 0), *s = qparams_at(call, 1);
    if (!is_bound_quantizer(t) || !is_bound_quantizer(s) || t->count != 1 || s->count != 1) return 0;
    struct qc_levels lt = qc_qparams_levels(t), ls = qc_qparams_levels(s);
    const struct qc_affine pt = {.scale = t->scale[0], .zero_point = t->zero_point[0]},
                           ps = {.scale = s->scale[0], .zero_point = s->zero_point[0]};
    return qc_dequantize_one(ls.lo, ps) <= qc_dequantize_one(lt.lo, pt) &&
           qc_dequantize_one(lt.hi, pt) <= qc_dequantize_one(ls.hi, ps);
}

const struct qc_builtin qc_guards[] = {
    {"rank", "rank(x): number of dimensions, -1 when unknown", 1, 1, "v", .value = value_rank},
    {"dim", "dim(x, 1): a dimension of x that is fixed; -1 is the last", 2, 2, "ve", .value = dim_of},
    {"elements", "elements(x): number of elements of a fixed shape", 1, 1, "v", .value = value_elements},
    {"type", "type(x): the stored type, to compare with f32, u8, int8, ...", 1, 1, "v", .value = value_type},
    {"value", "value(c): the value of a constant whose elements are all equal", 1, 1, "v", .value = value_of},
    {"least", "least(c): the smallest element of a constant", 1, 1, "v", .value = extreme_element},
    {"greatest", "greatest(c): the largest element of a constant", 1, 1, "v", .value = extreme_element, .upper = true},
    {"whole", "whole(c): the elements of a constant are whole numbers; so is an absent one", 1, 1, "v", .value = whole},
    {"waves", "waves(c): the columns of a matrix are sines of the row's number, as of rotary embeddings", 1, 1, "v",
     .value = waves},
    {"activation", "activation(x): x is not a constant", 1, 1, "v", .value = is_activation},
    {"real", "real(x): x is a float32 value that is not quantized", 1, 1, "v", .value = is_float_real},
    {"made_in_float", "made_in_float(x): a float op makes x, not a dequantize", 1, 1, "v", .value = is_made_in_float},
    {"single_use", "single_use(x): one node or output uses x", 1, 1, "v", .value = single_use},
    {"groups", "groups(w): of the convolution that takes the weight w", 1, 1, "v", .value = groups},
    {"channels", "channels(w): output channels of the op that takes the weight w", 1, 1, "v", .value = channels},
    {"pointwise", "pointwise(w): w is the weight of a convolution with a kernel of one element", 1, 1, "v",
     .value = pointwise},
    {"depthwise", "depthwise(w): w is the weight of a convolution with one input channel in each of its groups", 1, 1,
     "v", .value = depthwise},
    {"one_column",
     "one_column(w): the convolution that takes the weight w has a stride along its last axis and a result of length 1 "
     "there",
     1, 1, "v", .value = one_column},
    {"per_channel",
     "per_channel(b, w): b has one element per output channel of a convolution with weight w, as [C,1,1] or [1,C,1,1]",
     2, 2, "vv", .value = is_per_channel},
    {"per_last", "per_last(b, w): b is [N] or [1,N] beside a matrix w of [K,N]", 2, 2, "vv", .value = per_last},
    {"along_channels", "along_channels(b, x): b has one element per index of axis 1 of x", 2, 2, "vv",
     .value = along_axis_1},
    {"one_row",
     "one_row(x): x has one row, a free batch counts as one, and so has all that it is computed from, with constants, "
     "up to an input",
     1, 1, "v", .value = of_one_row},
    {"joined", "joined(x): x is made by Concat", 1, 1, "v", .value = is_joined},
    {"pooled",
     "pooled(x): the matched ReduceMean is over all dimensions of an image x but the first two, and x is no square", 1,
     1, "v", .value = pooled},
    {"pads_image", "pads_image(p): the pads of a Pad add elements, to none of the first two axes", 1, 1, "v",
     .value = pads_image},
    {"rounds_up", "rounds_up(x): the matched AveragePool has ceil_mode and count_include_pad", 1, 1, "v",
     .value = rounds_up},
    {"site", "site(S): S are the parameters of a stored value, not of an accumulator", 1, 1, "q",
     .value = is_quantizer},
    {"in_space", "in_space(x, S): x is stored in S", 2, 2, "vq", .value = same_qparams},
    {"within", "within(T, S): T, one scale, stands for no number that S, one scale, saturates", 2, 2, "qq",
     .value = within},
    {"at_floor", "at_floor(S): the zero point of S is its lowest level", 1, 1, "q", .value = at_floor},
    {"clip_covers", "clip_covers(lo, hi, S): saturation to the levels of S clips at least as much as lo and hi do", 3,
     3, "vvq", .value = clip_covers},
    {"covered_above", "covered_above(c, S): no element of c is below the highest level of S", 2, 2, "vq",
     .value = covered, .upper = true},
    {"covered_below", "covered_below(c, S): no element of c is above the lowest level of S", 2, 2, "vq",
     .value = covered},
    {.name = NULL},
};
