// SPDX-License-Identifier: Apache-2.0
#include "rewrite/passes/operator_times.h"

#include "graph/core/multiply_adds.h"

enum { BLOCK = 16, FEW = 8, CACHED = 32768 };

enum kind {
    NONE,
#define QC_TIME(name, node, multiply_add, window, weight, result, position, what) QC_TIME_##name,
#include "rewrite/passes/operator_times.def"
#undef QC_TIME
    QC_TIMES
};

struct work {
    int64_t multiply_adds, window, weights, results, positions;
};

static const struct rate {
    double node, multiply_add, window, weight, result, position;
} rates[QC_TIMES] = {
#define QC_TIME(name, node, multiply_add, window, weight, result, position, what)                                      \
    [QC_TIME_##name] = {node, multiply_add, window, weight, result, position},
#include "rewrite/passes/operator_times.def"
#undef QC_TIME
};

static int64_t time_of(enum kind kind, struct work w)
{
    const struct rate *r = &rates[kind];
    return (int64_t)(r->node + (r->multiply_add * (double)w.multiply_adds + r->window * (double)w.window +
                                r->weight * (double)w.weights + r->result * (double)w.results +
                                r->position * (double)w.positions) /
                                   1000);
}

int64_t qc_elements_of_one(const struct qc_graph *g, qc_id value)
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

static void times_of_conv(struct qc_operator_times *out, const struct qc_graph *g, const struct qc_node *n,
                          int64_t results)
{
    const struct qc_shape *w = &qc_value(g, n->inputs[1])->type.shape;
    const int64_t made = w->dim[0], read = w->dim[1], groups = qc_attr_int(n, "group", 1), positions = results / made;
    const bool image = w->rank == 4, odd = made % BLOCK != 0;
    int64_t taps = 1;
    for (int i = 2; i < w->rank; i++) taps *= w->dim[i];
    const int64_t window = taps > 1 ? read * taps * positions * groups : 0;
    const struct work plain = {.multiply_adds = made * read * taps * positions,
                               .window = window,
                               .results = results,
                               .positions = taps * positions * groups},
                      blocks = {.multiply_adds = in_blocks(made, BLOCK) * read * taps * positions,
                                .results = in_blocks(made, BLOCK) * positions},
                      packed = {.multiply_adds = in_blocks(made, BLOCK) * in_blocks(read * taps, 4) * positions,
                                .results = results,
                                .positions = taps * positions},
                      once = {.positions = positions};
    if (groups > 1 && read == 1 && made == groups) {
        out->real = time_of(image ? QC_TIME_FLOAT_DEPTHWISE : QC_TIME_FLOAT_GROUPS, image ? blocks : plain);
        out->integer = time_of(QC_TIME_INT_DEPTHWISE, packed);
    } else if (groups > 1) {
        const bool whole = image && read % BLOCK == 0 && made / groups % BLOCK == 0;
        out->real = time_of(whole ? QC_TIME_FLOAT_CONV : QC_TIME_FLOAT_GROUPS, plain);
        out->integer = time_of(QC_TIME_INT_GROUPS, plain);
        return;
    } else {
        out->real = image && !odd ? time_of(QC_TIME_FLOAT_CONV, blocks) +
                                        (read < BLOCK ? time_of(QC_TIME_FLOAT_CONV_FEW, blocks) : 0)
                                  : time_of(image ? QC_TIME_FLOAT_CONV_ODD : QC_TIME_FLOAT_CONV_PLAIN, plain);
        out->integer = time_of(QC_TIME_INT_CONV, packed) + (read < FEW ? time_of(QC_TIME_INT_CONV_FEW, plain) : 0);
    }
    if (odd) out->integer += time_of(QC_TIME_INT_CONV_ODD, once);
}

static bool times_of_product(struct qc_operator_times *out, const struct qc_graph *g, const struct qc_node *n)
{
    const struct qc_shape *s = &qc_value(g, n->outputs)->type.shape;
    const int64_t results = qc_elements_of_one(g, n->outputs), weights = qc_elements_of_one(g, n->inputs[1]);
    if (results <= 0 || weights <= 0) return false;
    if (n->op == QC_OP_Conv) {
        times_of_conv(out, g, n, results);
        return true;
    }
    const int64_t columns = s->rank > 0 && s->dim[s->rank - 1] > 0 ? s->dim[s->rank - 1] : 1;
    const struct work w = {.multiply_adds = results / columns * weights,
                           .weights = weights,
                           .results = results,
                           .positions = results / columns},
                      beyond = {.weights = weights > CACHED ? weights - CACHED : 0};
    out->real = time_of(n->op == QC_OP_Gemm ? QC_TIME_FLOAT_DENSE : QC_TIME_FLOAT_MATMUL, w) +
                time_of(QC_TIME_FLOAT_LARGE, beyond);
    out->integer = time_of(n->op == QC_OP_Gemm ? QC_TIME_INT_DENSE : QC_TIME_INT_MATMUL, w);
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

/* Returns true if the runtime computes the node together with the float convolution or Gemm before it. */
static bool joins_product(const struct qc_uses *uses, const struct qc_node *n)
{
    const bool sum = n->op == QC_OP_Add;
    if (!sum && n->op != QC_OP_Sigmoid && n->op != QC_OP_Tanh && n->op != QC_OP_LeakyRelu && n->op != QC_OP_HardSigmoid)
        return false;
    for (unsigned i = 0; i < n->input_count; i++) {
        const struct qc_node *of = qc_node_of(uses->graph, n->inputs[i]);
        if (of && qc_only_reader(uses, n->inputs[i]) &&
            (of->op == QC_OP_Conv ? !sum || qc_value(uses->graph, n->outputs)->type.shape.rank == 4
                                  : !sum && of->op == QC_OP_Gemm))
            return true;
    }
    return false;
}

/* The kinds of operators that are no products. Others are functions of one value that integers do not have: the runtime
   dequantizes, computes in float and quantizes. */
static const struct pair {
    enum kind real, integer;
    bool converts; /* the kernel is that of floats, between conversions */
} others[QC_OP_COUNT] = {
    [QC_OP_Add] = {QC_TIME_FLOAT_ADD, QC_TIME_INT_ADD, false},
    [QC_OP_Sub] = {QC_TIME_FLOAT_ADD, QC_TIME_FLOAT_ADD, true},
    [QC_OP_Mul] = {QC_TIME_FLOAT_ADD, QC_TIME_INT_MUL, false},
    [QC_OP_AveragePool] = {QC_TIME_FLOAT_POOL, QC_TIME_INT_AVERAGE, false},
    [QC_OP_GlobalAveragePool] = {QC_TIME_FLOAT_MEAN, QC_TIME_INT_MEAN, false},
    [QC_OP_ReduceMean] = {QC_TIME_FLOAT_MEAN, QC_TIME_INT_MEAN, false},
    [QC_OP_Resize] = {QC_TIME_RESIZE, QC_TIME_RESIZE, false},
    [QC_OP_Table] = {QC_TIME_FLOAT_TABLE, QC_TIME_INT_TABLE, false},
    [QC_OP_Sigmoid] = {QC_TIME_FLOAT_UNARY, QC_TIME_INT_UNARY, false},
    [QC_OP_LeakyRelu] = {QC_TIME_FLOAT_UNARY, QC_TIME_INT_UNARY, false},
};

static bool times_of_other(struct qc_operator_times *out, const struct qc_uses *uses, const struct qc_node *n)
{
    const struct qc_graph *g = uses->graph;
    const struct pair function = {QC_TIME_FLOAT_UNARY, QC_TIME_FLOAT_UNARY, true},
                      *kind = others[n->op].real ? &others[n->op] : &function;
    const int64_t results = qc_elements_of_one(g, n->outputs), read = qc_elements_of_one(g, n->inputs[0]);
    if (!results || !read) return false;
    const struct work w = {.results = results,
                           .window = n->op == QC_OP_AveragePool ? pooled_elements(n, results) : read};
    out->real = time_of(joins_product(uses, n) ? QC_TIME_FLOAT_FUSED : kind->real, w);
    out->integer = time_of(kind->integer, w);
    if (kind->converts) out->integer += time_of(QC_TIME_QUANTIZE, w) + time_of(QC_TIME_DEQUANTIZE, w);
    return true;
}

bool qc_times_of_match(struct qc_operator_times *out, const struct qc_uses *uses, const struct qc_match *m)
{
    const struct qc_graph *g = uses->graph;
    for (unsigned i = 0; i < m->node_count; i++)
        if (qc_multiplies(g->nodes[m->nodes[i]].op)) return times_of_product(out, g, &g->nodes[m->nodes[i]]);
    return times_of_other(out, uses, &g->nodes[m->nodes[0]]);
}

static bool is_view(const struct qc_node *n)
{
    return n->op == QC_OP_Reshape || n->op == QC_OP_Flatten || n->op == QC_OP_Squeeze || n->op == QC_OP_Unsqueeze;
}

int64_t qc_time_of_float(const struct qc_graph *g, qc_id node)
{
    const struct qc_node *n = &g->nodes[node];
    bool data = false;
    for (unsigned i = 0; i < n->input_count; i++) data = data || (n->inputs[i] && !qc_constant_of(g, n->inputs[i]));
    if (!data || qc_value(g, n->outputs)->type.dtype != QC_F32 || qc_node_affine(n) == QC_AFFINE_BOUND) return 0;
    struct work w = {.results = is_view(n) ? 0 : qc_elements_of_one(g, n->outputs)};
    uint64_t all;
    if (qc_multiplies(n->op) && qc_multiply_adds(&all, g, node)) w.multiply_adds = (int64_t)all;
    return time_of(qc_multiplies(n->op) ? QC_TIME_FLOAT_MATMUL : QC_TIME_FLOAT_OTHER, w);
}

bool qc_times_of_move(struct qc_operator_times *out, const struct qc_graph *g, const struct qc_node *n)
{
    const int64_t results = qc_elements_of_one(g, n->outputs);
    const struct work w = {.results = results};
    *out = (struct qc_operator_times){0};
    if (is_view(n) || qc_node_affine(n) == QC_AFFINE_BOUND) return true; /* a bound of the operator before it */
    if (!results) return false;
    if (n->op == QC_OP_MaxPool) {
        const int64_t read = pooled_elements(n, results), channels = qc_value(g, n->outputs)->type.shape.dim[1];
        const struct work pool = {.window = read, .positions = channels > 0 ? read / channels : read};
        *out = (struct qc_operator_times){time_of(QC_TIME_FLOAT_POOL, pool), time_of(QC_TIME_INT_MAX, pool)};
    } else {
        *out = (struct qc_operator_times){time_of(QC_TIME_FLOAT_MOVE, w), time_of(QC_TIME_INT_MOVE, w)};
    }
    return true;
}

int64_t qc_time_to_convert(const struct qc_graph *g, qc_id value, bool quantize, bool layout)
{
    const struct work w = {.results = qc_elements_of_one(g, value)};
    return time_of(quantize ? QC_TIME_QUANTIZE : QC_TIME_DEQUANTIZE, w) + (layout ? time_of(QC_TIME_LAYOUT, w) : 0);
}
