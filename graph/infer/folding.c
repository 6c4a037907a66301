// SPDX-License-Identifier: Apache-2.0
#include "graph/infer/folding.h"

#include "base/checked.h"
#include "graph/core/body.h"
#include "graph/core/infer.h"
#include "graph/core/recurrent.h"

/* Cost of reading or writing an element, in multiply-adds. */
enum { ELEMENT = 4 };

static size_t elements(const struct qc_graph *g, qc_id v)
{
    size_t n;
    if (!v) return 0;
    return qc_shape_count(&n, &g->values[v].type.shape) ? n : SIZE_MAX;
}

static size_t times(size_t a, size_t b)
{
    size_t r;
    return qc_mul_size(&r, a, b) ? r : SIZE_MAX;
}

/* Returns the number of elements in a pool's window. */
static size_t window(const struct qc_graph *g, const struct qc_node *n)
{
    struct qc_status ignored = QC_STATUS_INIT; /* errors are reported when the node is computed */
    struct qc_window w;
    size_t taps = 1;
    if (!qc_window_of(&w, g, n, &ignored)) return 1;
    for (int i = 0; i < w.spatial; i++) taps = times(taps, w.kernel[i] > 0 ? (size_t)w.kernel[i] : 1);
    return taps;
}

/* Returns the elements of a weight divided by its last dimension: for a recurrent op, about the products for one
   element of the result. */
static size_t row_elements(const struct qc_graph *g, qc_id w)
{
    const struct qc_shape *s = &g->values[w].type.shape;
    const size_t all = elements(g, w);
    return s->rank == 3 && all != SIZE_MAX && s->dim[2] > 0 ? all / (size_t)s->dim[2] : all;
}

/* Returns the number of additions for each element of the result: for products with weights, at most the number of
 * weights of one output. */
static size_t depth(const struct qc_graph *g, const struct qc_node *n)
{
    const struct qc_op_info *info = qc_op_info(n->op);
    const bool pool = n->op == QC_OP_MaxPool || n->op == QC_OP_AveragePool || n->op == QC_OP_QLinearAveragePool;
    if (pool) return window(g, n);
    if (n->op == QC_OP_Resize) return 16; /* cubic, in two dimensions */
    if (qc_is_recurrent(n->op)) return qc_sum_at_most(row_elements(g, n->inputs[1]), row_elements(g, n->inputs[2]));
    if (n->op == QC_OP_LRN) return (size_t)qc_attr_int(n, "size", 1);
    const bool quantized = n->op == QC_OP_QLinearConv || n->op == QC_OP_QLinearMatMul || n->op == QC_OP_ConvInteger ||
                           n->op == QC_OP_MatMulInteger || n->op == QC_OP_QGemm;
    if (info->affine != QC_AFFINE_PRODUCT && !quantized) return 0;
    const unsigned at = n->op == QC_OP_QLinearConv || n->op == QC_OP_QLinearMatMul || n->op == QC_OP_QGemm ? 3 : 1;
    const struct qc_shape *w = &g->values[n->inputs[at]].type.shape;
    const size_t all = elements(g, n->inputs[at]);
    if (w->rank < 1 || all == 0 || all == SIZE_MAX) return all;
    const bool convolution = n->op == QC_OP_Conv || n->op == QC_OP_QLinearConv || n->op == QC_OP_ConvInteger;
    if (convolution) return all / (size_t)w->dim[0];
    if (n->op == QC_OP_ConvTranspose) return all; /* an upper bound: with a stride there are fewer */
    const bool gemm = n->op == QC_OP_Gemm || n->op == QC_OP_QGemm;
    return (size_t)w->dim[w->rank < 2 ? 0 : gemm && qc_attr_int(n, "transB", 0) ? w->rank - 1 : w->rank - 2];
}

void qc_node_cost(size_t *bytes, uint64_t *work, const struct qc_graph *g, const struct qc_node *n)
{
    const bool measures = n->op == QC_OP_Shape || n->op == QC_OP_Size;
    size_t out = 0, touched = 0;
    *bytes = 0;
    *work = UINT64_MAX;
    if (qc_op_has_bodies(n->op)) return; /* a loop may be long */
    for (unsigned k = 0; k < n->output_count; k++) {
        const size_t count = elements(g, n->outputs + k);
        out = qc_sum_at_most(out, count);
        *bytes = qc_sum_at_most(*bytes, times(count, qc_dtype_size(g->values[n->outputs + k].type.dtype)));
    }
    for (unsigned i = 0; !measures && i < n->input_count; i++)
        touched = qc_sum_at_most(touched, elements(g, n->inputs[i]));
    *work = qc_sum_at_most(times(ELEMENT, qc_sum_at_most(touched, out)), times(out, depth(g, n)));
}

bool qc_folding_node(bool *fits, struct qc_folding *f, const struct qc_graph *g, const struct qc_node *n,
                     struct qc_status *st)
{
    size_t bytes;
    uint64_t work;
    qc_node_cost(&bytes, &work, g, n);
    *fits = qc_folding_take(f, bytes, work);
    return !*fits || qc_budget_hold(f->budget, bytes, st) ||
           qc_where(st, "%s '%s', computed ahead", qc_op_info(n->op)->name, QC_NODE_LABEL(g, n));
}
