// SPDX-License-Identifier: Apache-2.0
#include "rewrite/passes/operator_times.h"

#include <math.h>
#include <string.h>

#include "base/scope.h"
#include "graph/core/multiply_adds.h"
#include "graph/core/recurrent.h"

const char *const qc_processor_names[QC_PROCESSORS] = {
    [QC_PROCESSOR_AVX512_VNNI] = "avx512-vnni", [QC_PROCESSOR_AVX2] = "avx2", [QC_PROCESSOR_AMX] = "amx"};

enum { BLOCK = 16 };

/* SkipLayerNormalization takes less time than Sum and LayerNormalization up to so many results, and so many more of
   each row: the former takes longer for each result, the latter for each row and operator. */
enum { FUSED_RESULTS = 150, FUSED_RESULTS_OF_ROW = 5 };

enum kind {
    NONE,
#define QC_TIME(name, node, multiply_add, window, weight, result, position, what) QC_TIME_##name,
#include "rewrite/passes/operator_times_avx512_vnni.def"
#undef QC_TIME
    QC_TIMES
};

struct work {
    int64_t multiply_adds, window, weights, results, positions;
};

/* Channels that float convolutions compute together. */
static const int64_t block_of[QC_PROCESSORS] = {
    [QC_PROCESSOR_AVX512_VNNI] = 16, [QC_PROCESSOR_AVX2] = 8, [QC_PROCESSOR_AMX] = 16};

/* Integer convolutions of at least BLOCK channels read windows where they lie, if they make a multiple of so many and
   read a multiple of READ_TOGETHER; others copy them first, in the same time up to LONG_ROW elements of a row. */
enum { READ_TOGETHER = 4, LONG_ROW = 64 };
static const int64_t made_together[QC_PROCESSORS] = {
    [QC_PROCESSOR_AVX512_VNNI] = 4, [QC_PROCESSOR_AVX2] = 8, [QC_PROCESSOR_AMX] = 4};

/* Bytes of the cache that holds weights from one run to the next: the second level. */
static const double cache_of[QC_PROCESSORS] = {
    [QC_PROCESSOR_AVX512_VNNI] = 1.25e6, [QC_PROCESSOR_AVX2] = 1.25e6, [QC_PROCESSOR_AMX] = 2e6};

struct rate {
    double node, multiply_add, window, weight, result, position;
};

#define QC_TIME(name, node, multiply_add, window, weight, result, position, what)                                      \
    [QC_TIME_##name] = {node, multiply_add, window, weight, result, position},
static const struct rate rates_of[QC_PROCESSORS][QC_TIMES] = {
    [QC_PROCESSOR_AVX512_VNNI] =
        {
#include "rewrite/passes/operator_times_avx512_vnni.def"
        },
    [QC_PROCESSOR_AVX2] =
        {
#include "rewrite/passes/operator_times_avx2.def"
        },
    [QC_PROCESSOR_AMX] =
        {
#include "rewrite/passes/operator_times_amx.def"
        },
};
#undef QC_TIME

static int64_t time_of(const struct rate *rates, enum kind kind, struct work w)
{
    const struct rate *r = &rates[kind];
    return (int64_t)(r->node + (r->multiply_add * (double)w.multiply_adds + r->window * (double)w.window +
                                r->weight * (double)w.weights + r->result * (double)w.results +
                                r->position * (double)w.positions) /
                                   1000);
}

/* Returns the number of elements of a value; 0 if a dimension behind the first is free. */
static int64_t elements_of_one(const struct qc_graph *g, qc_id value)
{
    const struct qc_shape *s = &qc_value(g, value)->type.shape;
    int64_t n = s->rank < 0 ? 0 : 1;
    for (int i = 0; i < s->rank; i++) n *= s->dim[i] >= 0 ? s->dim[i] : i == 0;
    return n;
}

static int64_t in_blocks(int64_t n, int64_t block)
{
    return (n + block - 1) / block * block;
}

/* Returns the node that makes a value, before its conversions between types. */
static const struct qc_node *maker_of(const struct qc_graph *g, qc_id value)
{
    const struct qc_node *n = qc_node_of(g, value);
    while (n && (n->op == QC_OP_Dequantize || n->op == QC_OP_Requantize)) n = qc_node_of(g, n->inputs[0]);
    return n;
}

/* Returns true if the node adds a constant to a product, which has the time of both. */
static bool is_bias(const struct qc_graph *g, const struct qc_node *n)
{
    if (n->op != QC_OP_Add) return false;
    const bool left = qc_constant_of(g, n->inputs[0]) != NULL;
    const struct qc_node *of = maker_of(g, n->inputs[left]);
    return of && qc_multiplies(of->op) && qc_constant_of(g, n->inputs[!left]);
}

/* Returns true if a constant is added to the result of the product. */
static bool has_bias(const struct qc_uses *uses, const struct qc_node *n)
{
    const struct qc_graph *g = uses->graph;
    for (qc_id reader; (reader = qc_only_reader(uses, n->outputs)) != 0;) {
        n = &g->nodes[reader];
        if (n->op != QC_OP_Dequantize && n->op != QC_OP_Requantize) return is_bias(g, n);
    }
    return false;
}

static int on_of(const struct rate *r)
{
    int on = 0;
    while (rates_of[on] != r) on++;
    return on;
}

static int64_t block_for(const struct rate *r)
{
    return block_of[on_of(r)];
}

bool qc_count_weights(uint64_t *count, const struct qc_graph *g, struct qc_status *st)
{
    QC_FREED bool *counted = calloc(g->value_count + 1, sizeof *counted);
    if (!counted) return qc_fail_memory(st, g->value_count);
    *count = 0;
    QC_EACH_NODE(n, g) {
        if (!qc_multiplies(n->op) || n->input_count < 2 || !n->inputs[1]) continue;
        const struct qc_node *made_by = qc_node_of(g, n->inputs[1]);
        const bool converts = made_by && (made_by->op == QC_OP_Quantize || made_by->op == QC_OP_Dequantize);
        const qc_id weight = converts ? made_by->inputs[0] : n->inputs[1];
        const struct qc_tensor *t = qc_constant_of(g, weight);
        *count += t && !counted[weight] ? t->count : 0;
        counted[weight] = true;
    }
    return true;
}

/* Adds the time to read weights that the cache does not hold beside those of all other products. A chain of equal
   Gemms takes no longer up to three quarters of the cache, and as long as it can from 1.75 of it. */
static void add_reading(const struct rate *r, struct qc_operator_times *t, uint64_t all, int64_t weights)
{
    int64_t *const times[] = {&t->integer, &t->real};
    for (int real = 0; real < 2; real++) {
        const int bytes = real ? 4 : 1;
        const double missed = fmax(0, fmin(1, bytes * (double)all / cache_of[on_of(r)] - 0.75));
        const struct work w = {.weights = weights};
        *times[real] += (int64_t)(missed * bytes / 4 * (double)time_of(r, QC_TIME_FLOAT_LARGE, w));
    }
}

/* Returns the time to order the channels of a float convolution that do not fill blocks as others than convolutions
   read them, and back. */
static int64_t time_to_reorder(const struct rate *r, const struct qc_uses *uses, const struct qc_node *n)
{
    const struct qc_shape *s = &qc_value(uses->graph, n->outputs)->type.shape;
    const struct work w = {.results = elements_of_one(uses->graph, n->outputs)};
    if (s->rank != 4 || s->dim[1] % block_for(r) == 0) return 0;
    for (qc_id reader = qc_only_reader(uses, n->outputs); reader; reader = qc_only_reader(uses, n->outputs)) {
        n = &uses->graph->nodes[reader];
        if (n->op == QC_OP_Conv) return 0;
        if (qc_node_affine(n) != QC_AFFINE_BOUND) break;
    }
    return 2 * time_of(r, QC_TIME_REORDER, w);
}

/* Returns the work of an integer convolution that copies its windows, one row of elements after the other, or element
   by element if the last dimension is dilated: that takes 0.6 of a row's time. Long rows count in addition. */
static struct work copied_windows(const struct qc_node *n, const struct qc_shape *weight, int64_t taps,
                                  int64_t positions)
{
    const int64_t *dilations, columns = weight->dim[weight->rank - 1], read = weight->dim[1];
    const size_t rank = qc_attr_ints(n, "dilations", &dilations);
    const bool apart = rank > 0 && dilations[rank - 1] > 1;
    const int64_t pieces = taps == 1 ? 0 : apart ? taps : taps / columns, size = apart ? read : read * columns;
    return (struct work){.window = size > LONG_ROW ? (size - LONG_ROW) * pieces * positions : 0,
                         .positions = positions + (apart ? pieces * 3 / 5 : pieces) * positions};
}

/* The work of a float convolution that is not computed in blocks of channels. */
static struct work work_of_plain(const struct qc_graph *g, const struct qc_node *n)
{
    const struct qc_shape *w = &qc_value(g, n->inputs[1])->type.shape;
    const int64_t results = elements_of_one(g, n->outputs), of_one = elements_of_one(g, n->inputs[1]) / w->dim[0],
                  groups = qc_attr_int(n, "group", 1), positions = results / w->dim[0], taps = of_one / w->dim[1];
    return (struct work){.multiply_adds = results * of_one,
                         .window = taps > 1 ? of_one * positions * groups : 0,
                         .results = results,
                         .positions = taps * positions * groups};
}

static void times_of_conv(const struct rate *r, struct qc_operator_times *out, const struct qc_uses *uses,
                          const struct qc_node *n, int64_t results)
{
    const struct qc_graph *g = uses->graph;
    const struct qc_shape *w = &qc_value(g, n->inputs[1])->type.shape;
    const int64_t made = w->dim[0], read = w->dim[1], groups = qc_attr_int(n, "group", 1), positions = results / made;
    const int64_t block = block_for(r);
    const bool image = w->rank == 4, uneven = read > block && read % 4 != 0;
    const bool copied = made < BLOCK || made % made_together[on_of(r)] != 0 || read % READ_TOGETHER != 0;
    const int64_t rows = groups > 1 || read < block ? read : in_blocks(read, block);
    const struct work plain = work_of_plain(g, n);
    const int64_t taps = elements_of_one(g, n->inputs[1]) / (made * read);
    const struct work blocks = {.multiply_adds = in_blocks(made, block) * rows * taps * positions,
                                .window = rows * taps * positions * in_blocks(made, 4 * block) / (4 * block),
                                .results = in_blocks(made, block) * positions},
                      packed = {.multiply_adds = in_blocks(made, BLOCK) * in_blocks(read * taps, 4) * positions,
                                .results = results,
                                .positions = taps * positions},
                      once = {.positions = positions},
                      each = {.multiply_adds = plain.multiply_adds, .positions = groups},
                      few = {.window = blocks.window};
    struct work pieces = copied_windows(n, w, taps, positions);
    pieces.multiply_adds = packed.multiply_adds;
    pieces.results = results;
    const int64_t depthwise =
        time_of(r, QC_TIME_INT_DEPTHWISE, packed) + (made % BLOCK ? time_of(r, QC_TIME_INT_DEPTHWISE_ODD, once) : 0);
    if (groups > 1 && read == 1 && made == groups) {
        out->real = time_of(r, image ? QC_TIME_FLOAT_DEPTHWISE : QC_TIME_FLOAT_ROWS, image ? blocks : each);
        out->integer = depthwise;
    } else if (groups > 1) {
        const bool whole = image && read % block == 0 && made / groups % block == 0;
        out->real = time_of(r, whole ? QC_TIME_FLOAT_CONV : QC_TIME_FLOAT_GROUPS, plain);
        out->integer = time_of(r, QC_TIME_INT_GROUPS, plain);
    } else {
        const enum kind kind = !image                       ? QC_TIME_FLOAT_CONV_PLAIN
                               : uneven                     ? QC_TIME_FLOAT_CONV_ODD
                               : taps == 1 && read >= block ? QC_TIME_FLOAT_POINT
                                                            : QC_TIME_FLOAT_CONV;
        out->real = time_of(r, kind, !image || uneven ? plain : blocks) +
                    (image && read < block ? time_of(r, QC_TIME_FLOAT_CONV_FEW, few) : 0) +
                    (image && !uneven ? time_to_reorder(r, uses, n) : 0);
        out->integer = made == 1 && read == 1 ? depthwise
                       : copied               ? time_of(r, QC_TIME_INT_CONV_COPIED, pieces)
                                              : time_of(r, QC_TIME_INT_CONV, packed);
    }
}

static bool times_of_product(const struct rate *r, struct qc_operator_times *out, const struct qc_uses *uses,
                             uint64_t all_weights, qc_id node)
{
    const struct qc_graph *g = uses->graph;
    const struct qc_node *n = &g->nodes[node];
    const struct qc_shape *s = &qc_value(g, n->outputs)->type.shape;
    const int64_t results = elements_of_one(g, n->outputs), weights = elements_of_one(g, n->inputs[1]);
    uint64_t all = 0;
    if (results <= 0 || weights <= 0 || !qc_multiply_adds(&all, g, node)) return false;
    if (qc_is_recurrent(n->op)) {
        /* Recurrent operators: a step has a multiply-add for each weight. */
        const struct qc_shape *x = &qc_value(g, n->inputs[0])->type.shape;
        const struct work w = {.multiply_adds = (int64_t)all,
                               .positions = x->rank > 0 && x->dim[0] > 0 ? x->dim[0] : 1};
        out->real = out->integer = time_of(r, QC_TIME_FLOAT_STEPS, w);
    } else if (n->op == QC_OP_Conv) {
        times_of_conv(r, out, uses, n, results);
    } else {
        const int64_t columns = s->rank > 0 && s->dim[s->rank - 1] > 0 ? s->dim[s->rank - 1] : 1;
        const struct work w = {.multiply_adds = (int64_t)all,
                               .weights = weights,
                               .results = results,
                               .positions = results / columns};
        const bool dense = n->op == QC_OP_Gemm;
        out->real = time_of(r, dense ? QC_TIME_FLOAT_DENSE : QC_TIME_FLOAT_MATMUL, w);
        out->integer = time_of(r, dense ? QC_TIME_INT_DENSE : QC_TIME_INT_MATMUL, w);
        if (!dense && has_bias(uses, n)) {
            out->real += time_of(r, QC_TIME_FLOAT_GEMM_OF_MATMUL, w);
            out->integer += time_of(r, QC_TIME_FLOAT_ADD, w);
        }
    }
    if (!qc_is_recurrent(n->op)) add_reading(r, out, all_weights, weights);
    return true;
}

/* Returns the number of elements that a pool reads. */
static int64_t pooled_elements(const struct qc_node *n, int64_t results)
{
    const int64_t *kernel;
    const size_t rank = qc_attr_ints(n, "kernel_shape", &kernel);
    for (size_t i = 0; i < rank; i++) results *= kernel[i];
    return results;
}

/* Returns the float convolution or Gemm with which the runtime computes the node behind it, or 0. */
static qc_id joined_product(const struct rate *r, const struct qc_uses *uses, const struct qc_node *n)
{
    const struct qc_shape *s = &qc_value(uses->graph, n->outputs)->type.shape;
    const bool sum = n->op == QC_OP_Add, bound = qc_node_affine(n) == QC_AFFINE_BOUND,
               image = n->op == QC_OP_HardSwish; /* in blocks of channels alone */
    if (!sum && !bound && !image && n->op != QC_OP_Sigmoid && n->op != QC_OP_Tanh && n->op != QC_OP_LeakyRelu &&
        n->op != QC_OP_HardSigmoid)
        return 0;
    for (unsigned i = 0; i < n->input_count; i++) {
        const struct qc_value *v = qc_value(uses->graph, n->inputs[i]);
        const struct qc_node *of = qc_node_of(uses->graph, n->inputs[i]);
        if (!of || !qc_only_reader(uses, n->inputs[i])) continue;
        if (bound && of->op == QC_OP_Add) return joined_product(r, uses, of);
        if (of->op == QC_OP_Conv ? !(sum || image) || (s->rank == 4 && (image || s->dim[1] % block_for(r) == 0))
                                 : !sum && !image && of->op == QC_OP_Gemm)
            return v->node;
    }
    return 0;
}

/* The kinds of operators that are no products. */
static const struct pair {
    enum kind real, integer;
    bool converts; /* the kernel is that of floats, between conversions */
} others[QC_OP_COUNT] = {
    [QC_OP_Add] = {QC_TIME_FLOAT_ADD, QC_TIME_INT_ADD, false},
    [QC_OP_Sum] = {QC_TIME_FLOAT_ADD, QC_TIME_FLOAT_ADD, true},
    [QC_OP_Sub] = {QC_TIME_FLOAT_ADD, QC_TIME_FLOAT_ADD, true},
    [QC_OP_Div] = {QC_TIME_FLOAT_ADD, QC_TIME_FLOAT_ADD, true},
    [QC_OP_Max] = {QC_TIME_FLOAT_ADD, QC_TIME_FLOAT_ADD, true},
    [QC_OP_Min] = {QC_TIME_FLOAT_ADD, QC_TIME_FLOAT_ADD, true},
    [QC_OP_Mul] = {QC_TIME_FLOAT_ADD, QC_TIME_INT_MUL, false},
    [QC_OP_AveragePool] = {QC_TIME_FLOAT_POOL, QC_TIME_INT_AVERAGE, false},
    [QC_OP_MaxPool] = {QC_TIME_FLOAT_POOL, QC_TIME_INT_MAX, false},
    [QC_OP_GlobalAveragePool] = {QC_TIME_FLOAT_MEAN, QC_TIME_INT_MEAN, false},
    [QC_OP_ReduceMean] = {QC_TIME_FLOAT_MEAN, QC_TIME_INT_MEAN, false},
    [QC_OP_ReduceSum] = {QC_TIME_FLOAT_MEAN, QC_TIME_FLOAT_MEAN, true},
    [QC_OP_ReduceMax] = {QC_TIME_FLOAT_MEAN, QC_TIME_FLOAT_MEAN, true},
    [QC_OP_Table] = {QC_TIME_FLOAT_TABLE, QC_TIME_INT_TABLE, false},
    [QC_OP_Sigmoid] = {QC_TIME_FLOAT_UNARY, QC_TIME_INT_UNARY, false},
    [QC_OP_LeakyRelu] = {QC_TIME_FLOAT_LIGHT, QC_TIME_INT_UNARY, false},
    [QC_OP_Exp] = {QC_TIME_FLOAT_LIGHT, QC_TIME_FLOAT_LIGHT, true},
    [QC_OP_Sqrt] = {QC_TIME_FLOAT_LIGHT, QC_TIME_FLOAT_LIGHT, true},
    [QC_OP_Abs] = {QC_TIME_FLOAT_LIGHT, QC_TIME_FLOAT_LIGHT, true},
    [QC_OP_Neg] = {QC_TIME_FLOAT_LIGHT, QC_TIME_FLOAT_LIGHT, true},
    [QC_OP_Pow] = {QC_TIME_FLOAT_HEAVY, QC_TIME_FLOAT_HEAVY, true},
    [QC_OP_Sin] = {QC_TIME_FLOAT_HEAVY, QC_TIME_FLOAT_HEAVY, true},
    [QC_OP_Cos] = {QC_TIME_FLOAT_HEAVY, QC_TIME_FLOAT_HEAVY, true},
    [QC_OP_Elu] = {QC_TIME_FLOAT_HEAVY, QC_TIME_FLOAT_HEAVY, true},
    [QC_OP_Selu] = {QC_TIME_FLOAT_HEAVY, QC_TIME_FLOAT_HEAVY, true},
    [QC_OP_Celu] = {QC_TIME_FLOAT_HEAVY, QC_TIME_FLOAT_HEAVY, true},
    [QC_OP_Softplus] = {QC_TIME_FLOAT_SLOW, QC_TIME_FLOAT_SLOW, true},
    [QC_OP_Mish] = {QC_TIME_FLOAT_SLOW, QC_TIME_FLOAT_SLOW, true},
    [QC_OP_LRN] = {QC_TIME_FLOAT_SLOW, QC_TIME_FLOAT_SLOW, true},
    [QC_OP_Softmax] = {QC_TIME_FLOAT_SOFTMAX, QC_TIME_FLOAT_SOFTMAX, true},
    [QC_OP_LayerNormalization] = {QC_TIME_FLOAT_NORM, QC_TIME_FLOAT_NORM, true},
    [QC_OP_InstanceNormalization] = {QC_TIME_FLOAT_INSTANCE, QC_TIME_FLOAT_INSTANCE, true},
};

static bool is_view(const struct qc_node *n)
{
    return n->op == QC_OP_Reshape || n->op == QC_OP_Flatten || n->op == QC_OP_Squeeze || n->op == QC_OP_Unsqueeze ||
           n->op == QC_OP_Shape || n->op == QC_OP_Size;
}

static struct pair kinds_of(const struct qc_node *n)
{
    const enum qc_affine_behaviour affine = qc_node_affine(n);
    if (others[n->op].real) return others[n->op];
    if (n->op == QC_OP_Resize) {
        const bool nearest = strcmp(qc_attr_string(n, "mode", "nearest"), "nearest") == 0;
        return nearest ? (struct pair){QC_TIME_RESIZE_NEAREST, QC_TIME_INT_RESIZE_NEAREST, false}
                       : (struct pair){QC_TIME_RESIZE, QC_TIME_RESIZE, false};
    }
    if (affine == QC_AFFINE_KEEP || affine == QC_AFFINE_JOIN)
        return (struct pair){QC_TIME_FLOAT_MOVE, QC_TIME_INT_MOVE, false};
    if (qc_op_info(n->op)->unary) return (struct pair){QC_TIME_FLOAT_UNARY, QC_TIME_FLOAT_UNARY, true};
    return (struct pair){QC_TIME_FLOAT_OTHER, QC_TIME_FLOAT_OTHER, true};
}

/* Returns the part of the scores that a constant mask hides from a Softmax: numbers that are added, below -1000. Their
   exponentials underflow, which kernels with AVX-512 compute slowly. Counted in some rows, evenly spaced: estimates are
   asked for thousands of times, and a mask may have millions of numbers. */
static double hidden_part(const struct qc_graph *g, const struct qc_node *softmax)
{
    enum { HIDES = -1000, ROWS = 16 };
    const struct qc_node *sum = maker_of(g, softmax->inputs[0]);
    if (!sum || sum->op != QC_OP_Add) return 0;
    for (int i = 0; i < 2; i++) {
        const struct qc_tensor *mask = qc_constant_of(g, sum->inputs[i]);
        if (!mask || !mask->count || mask->shape.rank < 1) continue;
        const size_t columns = (size_t)mask->shape.dim[mask->shape.rank - 1], all = mask->count / columns,
                     rows = all < ROWS ? all : ROWS;
        size_t hidden = 0;
        for (size_t r = 0; r < rows; r++) {
            const size_t first = (2 * r + 1) * all / (2 * rows) * columns; /* of the row in the middle of its part */
            for (size_t k = 0; k < columns; k++) hidden += qc_tensor_float(mask, first + k) < HIDES;
        }
        if (hidden) return (double)hidden / (double)(rows * columns);
    }
    return 0;
}

static bool times_of_other(const struct rate *r, struct qc_operator_times *out, const struct qc_uses *uses,
                           const struct qc_node *n)
{
    const struct qc_graph *g = uses->graph;
    const struct pair kind = kinds_of(n);
    const int64_t results = elements_of_one(g, n->outputs), read = elements_of_one(g, n->inputs[0]);
    const bool pool = n->op == QC_OP_AveragePool || n->op == QC_OP_MaxPool;
    if (!results || !read) return false;
    struct work w = {.results = results, .window = pool ? pooled_elements(n, results) : read};
    const struct qc_shape *s = &qc_value(g, n->outputs)->type.shape;
    const int64_t last = s->rank > 0 ? s->dim[s->rank - 1] : 1;
    w.positions = results / (last > 0 ? last : 1);
    if (n->op == QC_OP_InstanceNormalization && s->rank > 1) w.positions = s->dim[1] > 0 ? s->dim[1] : 1;
    if (n->op == QC_OP_MaxPool) w.positions = s->dim[1] > 0 ? w.window / s->dim[1] : w.window;
    out->real = time_of(r, joined_product(r, uses, n) ? QC_TIME_FLOAT_FUSED : kind.real, w);
    out->integer = time_of(r, kind.integer, w);
    if (n->op == QC_OP_Softmax) {
        const struct work masked = {.results = (int64_t)(hidden_part(g, n) * (double)results)};
        out->real += time_of(r, QC_TIME_FLOAT_MASKED, masked);
        out->integer += time_of(r, QC_TIME_FLOAT_MASKED, masked);
    }
    if (kind.converts) out->integer += time_of(r, QC_TIME_QUANTIZE, w) + time_of(r, QC_TIME_DEQUANTIZE, w);
    return true;
}

bool qc_times_of_node(struct qc_operator_times *out, enum qc_processor on, const struct qc_uses *uses, uint64_t weights,
                      qc_id node)
{
    const struct rate *r = rates_of[on];
    const struct qc_graph *g = uses->graph;
    const struct qc_node *n = &g->nodes[node];
    bool data = false;
    *out = (struct qc_operator_times){0};
    for (unsigned i = 0; i < n->input_count; i++) data = data || (n->inputs[i] && !qc_constant_of(g, n->inputs[i]));
    if (!data || !n->inputs[0] || !n->output_count || qc_value(g, n->outputs)->type.dtype == QC_I64) return true;
    if (is_bias(g, n)) return true;
    if (is_view(n)) {
        const struct qc_node *of = maker_of(g, n->inputs[0]);
        if (!(of && is_view(of)) && n->op != QC_OP_Shape && n->op != QC_OP_Size)
            out->real = out->integer = time_of(r, QC_TIME_VIEW, (struct work){0});
        return true;
    }
    if (qc_node_affine(n) == QC_AFFINE_BOUND) {
        const struct work w = {.results = elements_of_one(g, n->outputs)};
        if (!joined_product(r, uses, n)) out->real = time_of(r, QC_TIME_FLOAT_LIGHT, w);
        return true;
    }
    return qc_multiplies(n->op) ? times_of_product(r, out, uses, weights, node) : times_of_other(r, out, uses, n);
}

int64_t qc_time_apart(qc_id *product, enum qc_processor on, const struct qc_uses *uses, qc_id node)
{
    const struct rate *r = rates_of[on];
    const struct qc_node *n = &uses->graph->nodes[node];
    *product = qc_op_info(n->op)->unary && n->output_count ? joined_product(r, uses, n) : 0;
    if (!*product || qc_node_affine(n) == QC_AFFINE_BOUND) return 0;
    const struct work w = {.results = elements_of_one(uses->graph, n->outputs)};
    const int64_t more = time_of(r, kinds_of(n).real, w) - time_of(r, QC_TIME_FLOAT_FUSED, w);
    return more > 0 ? more : 0;
}

int64_t qc_time_of_run(enum qc_processor on, const struct qc_graph *g)
{
    return time_of(rates_of[on], QC_TIME_RUN, (struct work){0}) +
           (int64_t)(g->input_count + g->output_count) * time_of(rates_of[on], QC_TIME_PORT, (struct work){0});
}

int64_t qc_time_of_shapes(enum qc_processor on, const struct qc_graph *g, struct qc_arena *a, struct qc_status *st)
{
    bool *of_shapes = QC_NEW_ARRAY(a, bool, g->value_count + 1, st);
    int64_t nodes = 0;
    if (!of_shapes) return -1;
    QC_EACH_NODE(n, g) {
        const bool measures = n->op == QC_OP_Shape || n->op == QC_OP_Size;
        bool runs = measures && !qc_shape_fixed(&qc_value(g, n->inputs[0])->type.shape), only = true;
        for (unsigned i = 0; i < n->input_count && !measures; i++) {
            runs = runs || of_shapes[n->inputs[i]];
            only = only && (of_shapes[n->inputs[i]] || !n->inputs[i] || qc_constant_of(g, n->inputs[i]));
        }
        for (unsigned k = 0; k < n->output_count; k++) of_shapes[n->outputs + k] = runs && only;
        nodes += runs && only;
    }
    return nodes * time_of(rates_of[on], QC_TIME_SHAPE, (struct work){0});
}

bool qc_is_slower_fused(const struct qc_uses *uses, const struct qc_node *n)
{
    const struct qc_graph *g = uses->graph;
    const qc_id reader = n->op == QC_OP_Add ? qc_only_reader(uses, n->outputs) : 0;
    const struct qc_shape *s = reader ? &qc_value(g, n->outputs)->type.shape : NULL;
    if (!reader || g->nodes[reader].op != QC_OP_LayerNormalization || g->nodes[reader].inputs[0] != n->outputs ||
        s->rank != 3 || qc_constant_of(g, n->inputs[0]) || qc_constant_of(g, n->inputs[1]))
        return false;
    const int64_t results = elements_of_one(g, n->outputs);
    return results == 0 || results > FUSED_RESULTS + FUSED_RESULTS_OF_ROW * (results / s->dim[2]);
}

/* Returns what a float convolution of images takes longer if its weights may be replaced: it is not computed in blocks
   of channels. */
static int64_t time_of_overridable(enum qc_processor on, const struct qc_uses *uses, const struct qc_node *n)
{
    const struct qc_graph *g = uses->graph;
    struct qc_operator_times times;
    if (n->op != QC_OP_Conv || qc_value(g, n->inputs[1])->type.shape.rank != 4 ||
        !qc_times_of_node(&times, on, uses, 0, n->id) || !times.real)
        return 0;
    const enum kind kind = qc_attr_int(n, "group", 1) > 1 ? QC_TIME_FLOAT_GROUPS : QC_TIME_FLOAT_CONV_PLAIN;
    const int64_t more = time_of(rates_of[on], kind, work_of_plain(g, n)) - times.real;
    return more > 0 ? more : 0;
}

/* Returns what HardSwish takes longer if the model has Add, Clip, Mul and Div in its place. */
static int64_t time_of_written_out(enum qc_processor on, const struct qc_uses *uses, const struct qc_graph *model,
                                   const struct qc_node *n)
{
    const struct qc_graph *g = uses->graph;
    const struct work w = {.results = elements_of_one(g, n->outputs)};
    const char *name = g->values[n->outputs].name;
    const qc_id v = name ? qc_graph_find_value(model, name) : 0;
    const struct qc_node *maker = v ? qc_node_of(model, v) : NULL;
    struct qc_operator_times times;
    if (!maker || maker->op == QC_OP_HardSwish || !qc_times_of_node(&times, on, uses, 0, n->id)) return 0;
    return 3 * time_of(rates_of[on], QC_TIME_FLOAT_ADD, w) + time_of(rates_of[on], QC_TIME_FLOAT_LIGHT, w) - times.real;
}

int64_t qc_time_of_forms(enum qc_processor on, const struct qc_uses *uses, const struct qc_graph *model)
{
    const struct qc_graph *g = uses->graph;
    int64_t time = 0;
    for (qc_id id = 1; id <= g->node_count; id++) {
        const struct work w = {.results = elements_of_one(g, g->nodes[id].outputs)};
        if (qc_is_slower_fused(uses, &g->nodes[id]) && !qc_node_is_of_call(g, &g->nodes[id]))
            time += time_of(rates_of[on], QC_TIME_FLOAT_SKIP, w);
        if (g->nodes[id].op == QC_OP_HardSwish) time += time_of_written_out(on, uses, model, &g->nodes[id]);
        if (model->overridable) time += time_of_overridable(on, uses, &g->nodes[id]);
    }
    for (qc_id id = 1; id <= model->node_count; id++) {
        const struct qc_node *n = &model->nodes[id];
        const char *name = n->op == QC_OP_PRelu ? model->values[n->outputs].name : NULL;
        const qc_id v = name ? qc_graph_find_value(g, name) : 0;
        if (v) time += time_of(rates_of[on], QC_TIME_FLOAT_PRELU, (struct work){.results = elements_of_one(g, v)});
    }
    return time;
}

bool qc_times_of_match(struct qc_operator_times *out, enum qc_processor on, const struct qc_uses *uses,
                       uint64_t weights, const struct qc_match *m)
{
    qc_id of = m->nodes[0];
    for (unsigned i = m->node_count; i-- > 0;)
        if (qc_multiplies(uses->graph->nodes[m->nodes[i]].op)) of = m->nodes[i];
    if (!qc_times_of_node(out, on, uses, weights, of)) return false;
    for (unsigned i = 0; i < m->node_count; i++) {
        struct qc_operator_times clamp;
        if (m->nodes[i] == of || qc_node_affine(&uses->graph->nodes[m->nodes[i]]) != QC_AFFINE_BOUND) continue;
        if (qc_times_of_node(&clamp, on, uses, weights, m->nodes[i])) out->real += clamp.real;
    }
    return true;
}

/* Returns true if the node computes element by element, so that it takes any order of channels. */
static bool takes_any_layout(const struct qc_node *n)
{
    return n && (qc_op_info(n->op)->unary || qc_op_info(n->op)->affine == QC_AFFINE_BOUND ||
                 qc_op_info(n->op)->affine == QC_AFFINE_MERGE);
}

/* Returns true for images of more than one pixel and rows of more than one element: others are the same in both orders
   of channels. */
static bool has_layout(const struct qc_graph *g, qc_id value)
{
    const struct qc_shape *s = &qc_value(g, value)->type.shape;
    return (s->rank == 3 && s->dim[2] != 1) || (s->rank == 4 && (s->dim[2] != 1 || s->dim[3] != 1));
}

/* Returns true if the node does not set the order of channels of a value that a convolution of integers makes or
   reads. In one dimension a sum in float does: all others of its operands have channels first. */
static bool leaves_layout(const struct qc_graph *g, qc_id value, const struct qc_node *n)
{
    return takes_any_layout(n) &&
           (qc_value(g, value)->type.shape.rank != 3 || qc_op_info(n->op)->affine != QC_AFFINE_MERGE);
}

bool qc_changes_layout(const struct qc_graph *g, qc_id value, const struct qc_node *one, const struct qc_node *other)
{
    const bool line = qc_value(g, value)->type.shape.rank == 3;
    while (line && one && qc_node_affine(one) == QC_AFFINE_BOUND) one = maker_of(g, one->inputs[0]);
    const bool conv[] = {one && one->op == QC_OP_Conv, other && other->op == QC_OP_Conv};
    return has_layout(g, value) &&
           ((conv[0] && !leaves_layout(g, value, other)) || (conv[1] && !leaves_layout(g, value, one)));
}

/* Returns true if the runtime moves the order of channels from an input to the result. */
static bool passes_layout(const struct qc_node *n)
{
    return takes_any_layout(n) || n->op == QC_OP_Table || n->op == QC_OP_MaxPool || n->op == QC_OP_AveragePool ||
           n->op == QC_OP_Pad || n->op == QC_OP_Concat || n->op == QC_OP_Resize || n->op == QC_OP_Slice ||
           n->op == QC_OP_Split || qc_op_is_conversion(n->op);
}

int64_t qc_time_of_layout(enum qc_processor on, const struct qc_graph *g, const bool *integer, struct qc_arena *a,
                          struct qc_status *st)
{
    const struct rate *r = rates_of[on];
    bool *last = QC_NEW_ARRAY(a, bool, g->value_count + 1, st);
    int64_t time = 0;
    if (!last) return -1;
    QC_EACH_NODE(n, g) {
        const bool conv = n->op == QC_OP_Conv;
        int64_t moved[2] = {0};
        unsigned count[2] = {0};
        bool stored = false; /* with channels first, by an operator of integers */
        for (unsigned i = 0; i < (conv ? 1 : n->input_count); i++) {
            const qc_id v = n->inputs[i], maker = v && g->values[v].kind == QC_VALUE_RESULT ? g->values[v].node : 0;
            if (!v || qc_constant_of(g, v) || !has_layout(g, v)) continue;
            moved[last[v]] += time_of(r, QC_TIME_LAYOUT, (struct work){.results = elements_of_one(g, v)});
            count[last[v]]++;
            stored = stored || (!last[v] && maker && integer[maker]);
        }
        const bool is_last = conv ? integer[n->id] : passes_layout(n) && count[1] > count[0];
        /* qc_time_to_convert counts values that float operators make for convolutions */
        if (integer[n->id] && (conv ? stored : passes_layout(n))) time += moved[!is_last];
        if (integer[n->id] && stored && n->op == QC_OP_MaxPool) {
            const struct work w = {.window = pooled_elements(n, elements_of_one(g, n->outputs))};
            time += time_of(r, QC_TIME_INT_MAX_FIRST, w);
        }
        for (unsigned k = 0; k < n->output_count; k++) last[n->outputs + k] = is_last;
    }
    return time;
}

int64_t qc_time_to_convert(enum qc_processor on, const struct qc_graph *g, qc_id value, enum qc_conversion what,
                           bool changes_layout)
{
    const struct rate *r = rates_of[on];
    static const enum kind kinds[] = {[QC_CONVERT_TO_8] = QC_TIME_QUANTIZE,
                                      [QC_CONVERT_FROM_8] = QC_TIME_DEQUANTIZE,
                                      [QC_CONVERT_16] = QC_TIME_ROUND_WIDE,
                                      [QC_CONVERT_WEIGHT] = QC_TIME_UNPACK};
    const struct work w = {.results = elements_of_one(g, value)};
    const qc_id qparams = qc_value(g, value)->type.qparams;
    if (what == QC_CONVERT_WEIGHT && qparams && g->qparams_of[qparams].at_load) return 0;
    return time_of(r, kinds[what], w) + (changes_layout ? time_of(r, QC_TIME_LAYOUT, w) : 0);
}
