// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "rewrite/language/match.h"

static const struct qc_shape *shape_at(const struct qc_guard_call *call, unsigned i)
{
    return &call->graph->values[call->ids[i]].type.shape;
}

static const struct qc_qparams *qparams_at(const struct qc_guard_call *call, unsigned i)
{
    return &call->graph->qparams_of[call->ids[i]];
}

static double value_rank(const struct qc_guard_call *call)
{
    return call->ids[0] ? (double)shape_at(call, 0)->rank : (double)NAN;
}

static double value_elements(const struct qc_guard_call *call)
{
    size_t n;
    return call->ids[0] && qc_shape_count(&n, shape_at(call, 0)) ? (double)n : (double)NAN;
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
static double is_per_channel(const struct qc_guard_call *call)
{
    const struct qc_shape *w = shape_at(call, 1);
    return w->rank >= 3 && along(shape_at(call, 0), w->rank, 1, w->dim[0]);
}

static double per_last(const struct qc_guard_call *call)
{
    const struct qc_shape *c = shape_at(call, 0), *w = shape_at(call, 1);
    if (w->rank != 2 || c->rank < 1 || c->rank > 2) return 0;
    return c->dim[c->rank - 1] == w->dim[1] && (c->rank == 1 || c->dim[0] == 1);
}

static double single_use(const struct qc_guard_call *call)
{
    return call->ids[0] && call->uses[call->ids[0]] == 1;
}

static double is_float_real(const struct qc_guard_call *call)
{
    const struct qc_type *t = &call->graph->values[call->ids[0]].type;
    return call->ids[0] && t->qparams == QC_REAL && t->dtype == QC_F32;
}

static double is_made_in_float(const struct qc_guard_call *call)
{
    const struct qc_node *n = is_float_real(call) > 0 ? qc_node_of(call->graph, call->ids[0]) : NULL;
    return n && n->op != QC_OP_Dequantize && n->op != QC_OP_DequantizeLinear;
}

static double is_activation(const struct qc_guard_call *call)
{
    return call->ids[0] && !qc_constant_of(call->graph, call->ids[0]);
}

/* Returns the value of a constant whose elements are all equal. */
static double value_of(const struct qc_guard_call *call)
{
    const struct qc_tensor *t = qc_constant_of(call->graph, call->ids[0]);
    if (!t || !t->count) return (double)NAN;
    double v = qc_tensor_float(t, 0);
    for (size_t i = 1; i < t->count; i++)
        if (qc_tensor_float(t, i) != v) return (double)NAN;
    return v;
}

static double is_quantizer(const struct qc_guard_call *call)
{
    return call->ids[0] && qparams_at(call, 0)->kind == QC_QPARAMS_QUANTIZER;
}

static bool is_bound_quantizer(const struct qc_qparams *s)
{
    return s->state == QC_QPARAMS_BOUND && s->kind == QC_QPARAMS_QUANTIZER;
}

static double at_floor(const struct qc_guard_call *call)
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

static double covered_above(const struct qc_guard_call *call)
{
    const struct qc_qparams *s = qparams_at(call, 1);
    return call->ids[0] && is_bound_quantizer(s) && covers(call->graph, call->ids[0], s, true);
}

static double covered_below(const struct qc_guard_call *call)
{
    const struct qc_qparams *s = qparams_at(call, 1);
    return call->ids[0] && is_bound_quantizer(s) && covers(call->graph, call->ids[0], s, false);
}

static double clip_covers(const struct qc_guard_call *call)
{
    const struct qc_qparams *s = qparams_at(call, 2);
    return is_bound_quantizer(s) && covers(call->graph, call->ids[0], s, false) &&
           covers(call->graph, call->ids[1], s, true);
}

static double along_axis_1(const struct qc_guard_call *call)
{
    const struct qc_shape *x = shape_at(call, 1);
    return x->rank > 1 && x->dim[1] != QC_FREE && along(shape_at(call, 0), x->rank, 1, x->dim[1]);
}

static double same_qparams(const struct qc_guard_call *call)
{
    return call->ids[0] && call->graph->values[call->ids[0]].type.qparams == call->ids[1];
}

/* ---- Weights ---- */

/* Returns the matched node whose second input is w. */
static const struct qc_node *taker_of(const struct qc_guard_call *call, qc_id w)
{
    for (unsigned i = 0; w && i < call->match->node_count; i++) {
        const struct qc_node *n = &call->graph->nodes[call->match->nodes[i]];
        if (n->input_count > 1 && n->inputs[1] == w) return n;
    }
    return NULL;
}

static double groups(const struct qc_guard_call *call)
{
    const struct qc_node *n = taker_of(call, call->ids[0]);
    return n ? (double)qc_attr_int(n, "group", 1) : (double)NAN;
}

/* Returns the number of output channels of a weight: Conv [M, C/group, ...], ConvTranspose [C, M/group, ...], MatMul
   and Gemm [K, N] ([N, K] with transB). */
static double channels(const struct qc_guard_call *call)
{
    const struct qc_node *n = taker_of(call, call->ids[0]);
    const struct qc_shape *s = shape_at(call, 0);
    if (!n || s->rank < 2) return (double)NAN;
    if (n->op == QC_OP_Conv) return (double)s->dim[0];
    if (n->op == QC_OP_ConvTranspose) return (double)s->dim[1] * (double)qc_attr_int(n, "group", 1);
    if (n->op == QC_OP_Gemm && qc_attr_int(n, "transB", 0)) return (double)s->dim[0];
    return (double)s->dim[s->rank - 1];
}

static double pointwise(const struct qc_guard_call *call)
{
    const struct qc_shape *s = shape_at(call, 0);
    bool one = s->rank > 2;
    for (int i = 2; i < s->rank; i++) one = one && s->dim[i] == 1;
    return one && taker_of(call, call->ids[0]) != NULL;
}

/* Returns 1 for a convolution with several groups of one input channel each, else 0. */
static double depthwise(const struct qc_guard_call *call)
{
    const struct qc_node *n = taker_of(call, call->ids[0]);
    const struct qc_shape *s = shape_at(call, 0);
    int64_t group = n ? qc_attr_int(n, "group", 1) : 1;
    if (!n || s->rank < 3 || group < 2) return 0;
    return n->op == QC_OP_ConvTranspose ? s->dim[0] == group : n->op == QC_OP_Conv && s->dim[1] == 1;
}

/* ---- Any value ---- */

static bool has_one_row(const struct qc_shape *s)
{
    for (int i = 0; i + 1 < s->rank; i++)
        if (s->dim[i] != 1 && (i || s->dim[i] != QC_FREE)) return false;
    return s->rank > 1;
}

/* Goes up to an input, through ops that compute from one value and constants. */
static double of_one_row(const struct qc_guard_call *call)
{
    const struct qc_graph *g = call->graph;
    qc_id v = call->ids[0];
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

static double value_type(const struct qc_guard_call *call)
{
    const struct qc_type *t = &call->graph->values[call->ids[0]].type;
    if (!call->ids[0]) return (double)NAN;
    return (double)(t->qparams ? call->graph->qparams_of[t->qparams].dtype : t->dtype);
}

static double dim_of(const struct qc_guard_call *call)
{
    const struct qc_shape *s = shape_at(call, 0);
    double axis = call->numbers[1] < 0 ? call->numbers[1] + s->rank : call->numbers[1];
    if (!call->ids[0] || !(axis >= 0 && axis < s->rank) || s->dim[(int)axis] == QC_FREE) return (double)NAN;
    return (double)s->dim[(int)axis];
}

static double extreme_element(const struct qc_guard_call *call, bool greatest)
{
    const struct qc_tensor *t = qc_constant_of(call->graph, call->ids[0]);
    double best = (double)NAN;
    for (size_t i = 0; t && i < t->count; i++) {
        double v = qc_tensor_float(t, i);
        if (!(v == v)) return (double)NAN;
        if (i == 0 || (greatest ? v > best : v < best)) best = v;
    }
    return best;
}

static double least(const struct qc_guard_call *call)
{
    return extreme_element(call, false);
}
static double greatest(const struct qc_guard_call *call)
{
    return extreme_element(call, true);
}

static double whole(const struct qc_guard_call *call)
{
    const struct qc_tensor *t = qc_constant_of(call->graph, call->ids[0]);
    if (!call->ids[0]) return 1;
    for (size_t i = 0; t && i < t->count; i++)
        if (qc_tensor_float(t, i) != floor(qc_tensor_float(t, i))) return 0;
    return t && t->count;
}

/* Returns 1 for a matrix whose columns are sines of the row's number i, of any frequency, amplitude and phase, not all
   of them constant: then t[i + 1] + t[i - 1] = 2 cos(frequency) t[i]. Tables of 16 bits are near enough. */
static double waves(const struct qc_guard_call *call)
{
    enum { ROWS = 32 };
    const struct qc_tensor *t = qc_constant_of(call->graph, call->ids[0]);
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

static double is_joined(const struct qc_guard_call *call)
{
    const struct qc_node *made = call->ids[0] ? qc_node_of(call->graph, call->ids[0]) : NULL;
    return made && made->op == QC_OP_Concat;
}

/* Returns 1 for the mean of each channel of an image, else 0. A mean of squares is a variance, which 8 bits do not
   hold. */
static double pooled(const struct qc_guard_call *call)
{
    const struct qc_graph *g = call->graph;
    const qc_id x = call->ids[0];
    const struct qc_node *n = qc_match_node(call->match, g, QC_OP_ReduceMean), *made = x ? qc_node_of(g, x) : NULL;
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
static double rounds_up(const struct qc_guard_call *call)
{
    const struct qc_node *n = qc_match_node(call->match, call->graph, QC_OP_AveragePool);
    return n && qc_attr_int(n, "ceil_mode", 0) != 0 && qc_attr_int(n, "count_include_pad", 0) != 0;
}

/* ---- Qparams ---- */

/* Returns 1 if the range of T lies inside the range of S, so that S clips nothing that T can hold; else 0. */
static double within(const struct qc_guard_call *call)
{
    const struct qc_qparams *t = qparams_at(call, 0), *s = qparams_at(call, 1);
    if (!is_bound_quantizer(t) || !is_bound_quantizer(s) || t->count != 1 || s->count != 1) return 0;
    struct qc_levels lt = qc_qparams_levels(t), ls = qc_qparams_levels(s);
    const struct qc_affine pt = {.scale = t->scale[0], .zero_point = t->zero_point[0]},
                           ps = {.scale = s->scale[0], .zero_point = s->zero_point[0]};
    return qc_dequantize_one(ls.lo, ps) <= qc_dequantize_one(lt.lo, pt) &&
           qc_dequantize_one(lt.hi, pt) <= qc_dequantize_one(ls.hi, ps);
}

/* A guard: its name, its arguments (values, numbers, qparams) and its help. */
#define QC_GUARD(name_, function, count, help_, ...)                                                                   \
    {                                                                                                                  \
        .name = name_, .help = help_, .arg_count = count, .args = {__VA_ARGS__}, .value = function                     \
    }
#define V QC_GUARD_VALUE
#define N QC_GUARD_NUMBER
#define Q QC_GUARD_QPARAMS

static const struct qc_guard_info guards[] = {
    QC_GUARD("rank", value_rank, 1, "rank(x): number of dimensions, -1 when unknown", V),
    QC_GUARD("dim", dim_of, 2, "dim(x, 1): a dimension of x that is fixed; -1 is the last", V, N),
    QC_GUARD("elements", value_elements, 1, "elements(x): number of elements of a fixed shape", V),
    QC_GUARD("type", value_type, 1, "type(x): the stored type, to compare with f32, u8, int8, ...", V),
    QC_GUARD("value", value_of, 1, "value(c): the value of a constant whose elements are all equal", V),
    QC_GUARD("least", least, 1, "least(c): the smallest element of a constant", V),
    QC_GUARD("greatest", greatest, 1, "greatest(c): the largest element of a constant", V),
    QC_GUARD("whole", whole, 1, "whole(c): the elements of a constant are whole numbers; so is an absent one", V),
    QC_GUARD("waves", waves, 1,
             "waves(c): the columns of a matrix are sines of the row's number, as of rotary embeddings", V),
    QC_GUARD("activation", is_activation, 1, "activation(x): x is not a constant", V),
    QC_GUARD("real", is_float_real, 1, "real(x): x is a float32 value that is not quantized", V),
    QC_GUARD("made_in_float", is_made_in_float, 1, "made_in_float(x): a float op makes x, not a dequantize", V),
    QC_GUARD("single_use", single_use, 1, "single_use(x): one node or output uses x", V),
    QC_GUARD("groups", groups, 1, "groups(w): of the convolution that takes the weight w", V),
    QC_GUARD("channels", channels, 1, "channels(w): output channels of the op that takes the weight w", V),
    QC_GUARD("pointwise", pointwise, 1, "pointwise(w): w is the weight of a convolution with a kernel of one element",
             V),
    QC_GUARD("depthwise", depthwise, 1,
             "depthwise(w): w is the weight of a convolution with one input channel in each of its groups", V),
    QC_GUARD("per_channel", is_per_channel, 2,
             "per_channel(b, w): b has one element per output channel of a convolution with weight w, as [C,1,1] or "
             "[1,C,1,1]",
             V, V),
    QC_GUARD("per_last", per_last, 2, "per_last(b, w): b is [N] or [1,N] beside a matrix w of [K,N]", V, V),
    QC_GUARD("along_channels", along_axis_1, 2, "along_channels(b, x): b has one element per index of axis 1 of x", V,
             V),
    QC_GUARD("one_row", of_one_row, 1,
             "one_row(x): x has one row, a free batch counts as one, and so has all that it is computed from, with "
             "constants, up to an input",
             V),
    QC_GUARD("joined", is_joined, 1, "joined(x): x is made by Concat", V),
    QC_GUARD(
        "pooled", pooled, 1,
        "pooled(x): the matched ReduceMean is over all dimensions of an image x but the first two, and x is no square",
        V),
    QC_GUARD("rounds_up", rounds_up, 1, "rounds_up(x): the matched AveragePool has ceil_mode and count_include_pad", V),
    QC_GUARD("site", is_quantizer, 1, "site(S): S are the parameters of a stored value, not of an accumulator", Q),
    QC_GUARD("in_space", same_qparams, 2, "in_space(x, S): x is stored in S", V, Q),
    QC_GUARD("within", within, 2, "within(T, S): T, one scale, stands for no number that S, one scale, saturates", Q,
             Q),
    QC_GUARD("at_floor", at_floor, 1, "at_floor(S): the zero point of S is its lowest level", Q),
    QC_GUARD("clip_covers", clip_covers, 3,
             "clip_covers(lo, hi, S): saturation to the levels of S clips at least as much as lo and hi do", V, V, Q),
    QC_GUARD("covered_above", covered_above, 2, "covered_above(c, S): no element of c is below the highest level of S",
             V, Q),
    QC_GUARD("covered_below", covered_below, 2, "covered_below(c, S): no element of c is above the lowest level of S",
             V, Q),
};

const struct qc_guard_info *qc_guard_find(const char *name)
{
    for (size_t i = 0; i < sizeof guards / sizeof *guards; i++)
        if (strcmp(guards[i].name, name) == 0) return &guards[i];
    return NULL;
}
