// SPDX-License-Identifier: Apache-2.0
#include "graph/core/multiply_adds.h"

#include <math.h>

#include "base/checked.h"
#include "graph/core/recurrent.h"
#include "graph/types/number_format.h"

/* Counts the elements of a value, with a free batch as 1. Returns false if another dimension is free. */
static bool element_count(uint64_t *out, const struct qc_shape *s)
{
    int64_t n = 1;
    if (s->rank < 0) return false;
    for (int i = 0; i < s->rank; i++) {
        if (s->dim[i] < 0 && i > 0) return false;
        if (s->dim[i] >= 0 && !qc_mul_i64(&n, n, s->dim[i])) return false;
    }
    *out = (uint64_t)n;
    return true;
}

bool qc_multiplies(enum qc_op op)
{
    return qc_op_info(op)->affine == QC_AFFINE_PRODUCT || qc_is_recurrent(op) || op == QC_OP_MatMulInteger;
}

bool qc_multiply_adds(uint64_t *out, const struct qc_graph *g, qc_id node)
{
    const struct qc_node *n = &g->nodes[node];
    if (qc_is_recurrent(n->op)) {
        /* A free batch counts as 1. */
        struct qc_status unknown = QC_STATUS_INIT;
        struct qc_recurrent r;
        if (!qc_recurrent_of(&r, g, n, &unknown) || r.steps < 0 || r.input < 0 || r.hidden < 0) return false;
        int64_t product = r.batch < 0 ? 1 : r.batch, depth;
        const int64_t factors[] = {r.steps, r.directions, r.gates, r.hidden};
        for (size_t i = 0; i < sizeof factors / sizeof *factors; i++)
            if (!qc_mul_i64(&product, product, factors[i])) return false;
        if (!qc_add_i64(&depth, r.input, r.hidden) || !qc_mul_i64(&product, product, depth)) return false;
        *out = (uint64_t)product;
        return true;
    }
    const struct qc_shape *x = &qc_value(g, n->inputs[0])->type.shape, *w = &qc_value(g, n->inputs[1])->type.shape;
    bool transposed = n->op == QC_OP_ConvTranspose;
    uint64_t y, all;
    int64_t depth;
    if (!element_count(&y, transposed ? x : &qc_value(g, n->outputs)->type.shape) || !element_count(&all, w) ||
        w->rank < 1)
        return false;
    if (n->op == QC_OP_Conv || transposed) {
        depth = w->dim[0] > 0 ? (int64_t)all / w->dim[0] : 0;
    } else if (n->op == QC_OP_Gemm) {
        depth = w->rank == 2 ? w->dim[qc_attr_int(n, "transB", 0) ? 1 : 0] : -1;
    } else {
        depth = w->dim[w->rank > 1 ? w->rank - 2 : 0];
    }
    size_t product;
    if (depth < 0 || !qc_mul_size(&product, (size_t)y, (size_t)depth)) return false;
    *out = product;
    return true;
}

/* Returns whether the value is stored in integers of at most `bits` bits. */
static bool narrow(const struct qc_graph *g, qc_id value, unsigned bits)
{
    const struct qc_type *t = &qc_value(g, value)->type;
    return t->qparams != QC_REAL && g->qparams_of[t->qparams].kind == QC_QPARAMS_QUANTIZER &&
           qc_dtype_info(g->qparams_of[t->qparams].dtype)->bits <= bits;
}

bool qc_is_stored_wide(const struct qc_graph *g, qc_id product)
{
    const struct qc_type *t = &qc_value(g, g->nodes[product].outputs)->type;
    qc_id sum = g->nodes[product].outputs;
    if (t->qparams == QC_REAL || g->qparams_of[t->qparams].kind != QC_QPARAMS_PRODUCT) return false;
    for (qc_id id = product + 1; id <= g->node_count; id++) { /* nodes are in order */
        const struct qc_node *n = &g->nodes[id];
        bool reads = false;
        for (unsigned i = 0; i < n->input_count; i++) reads = reads || n->inputs[i] == sum;
        if (!reads) continue;
        const struct qc_type *y = &qc_value(g, n->outputs)->type;
        if (y->qparams != t->qparams) return y->qparams != QC_REAL && !narrow(g, n->outputs, 8);
        sum = n->outputs;
    }
    return false;
}

/* Returns whether the value is a float of at most 8 bits, dequantized just before or moved since. */
static bool small_float(const struct qc_graph *g, qc_id value)
{
    const struct qc_node *n = qc_node_of(g, value);
    while (n && n->op != QC_OP_Dequantize && qc_op_info(n->op)->affine == QC_AFFINE_KEEP) {
        value = n->inputs[0];
        n = qc_node_of(g, value);
    }
    if (n && n->op == QC_OP_Dequantize) value = n->inputs[0];
    const struct qc_type *t = &qc_value(g, value)->type;
    return t->qparams != QC_REAL && qc_is_small_float(g->qparams_of[t->qparams].dtype);
}

double qc_product_share(const struct qc_graph *g, enum qc_product_kind kind)
{
    const unsigned bits = kind == QC_PRODUCT_INTEGERS ? 32 : 8;
    uint64_t all = 0, counted = 0;
    for (qc_id id = 1; id <= g->node_count; id++) {
        const struct qc_node *n = &g->nodes[id];
        uint64_t one;
        if (!qc_multiplies(n->op)) continue;
        if (!qc_multiply_adds(&one, g, id) || __builtin_add_overflow(all, one, &all)) return (double)NAN;
        const struct qc_node *from = qc_node_of(g, n->inputs[0]);
        bool counts;
        if (kind == QC_PRODUCT_BLOCKS)
            counts = from && from->op == QC_OP_RoundInBlocks;
        else if (kind == QC_PRODUCT_SMALL_FLOATS)
            counts = small_float(g, n->inputs[0]) && small_float(g, n->inputs[1]);
        else
            counts = n->op == QC_OP_MatMulInteger || (narrow(g, n->inputs[0], bits) && narrow(g, n->inputs[1], bits) &&
                                                      !(kind == QC_PRODUCT_INT8_STORED && qc_is_stored_wide(g, id)));
        if (counts) counted += one;
    }
    return all ? (double)counted / (double)all : (double)NAN;
}
