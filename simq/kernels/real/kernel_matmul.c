// SPDX-License-Identifier: Apache-2.0
/* Gemm and MatMul. On centred integers the result is the accumulator, exact as long as every partial sum stays below
 * 2^24. */
#include "simq/kernels/real/mac.h"

/* Of a large model, constants from this size on are read where they lie, which is in files: packed they would be in
   memory, and that once for each plan. Sums have one order either way. */
enum { PACKED_LESS = 4 << 20 };

static bool make(struct qc_prepare *p, const struct qc_view *a, const struct qc_view *b, const struct qc_view *bias,
                 const struct qc_view *dst, bool scaled, struct qc_mac **out, struct qc_status *st)
{
    struct qc_view weights = *b;
    if (p->graph->spills && qc_view_count(b) * sizeof(float) >= PACKED_LESS) weights.data = NULL;
    struct qc_product_matrix d = {.a = a, .b = &weights, .bias = bias, .dst = dst, .packs = p->packs, .isa = p->isa};
    struct qc_mac *m = qc_mac_new(&d.tail, p, scaled, st);
    if (!m || !qc_product_matrix_new(&m->product, &d, st)) return false;
    qc_mac_finish(m, p, weights.data != NULL, bias != NULL);
    *out = m;
    return true;
}

/* Is v one number per column of a result with n columns, the same in all rows? Then *out is that vector. */
static bool row_vector(struct qc_view *out, const struct qc_view *v, int64_t n)
{
    if (qc_view_count(v) != (size_t)n || (v->rank > 0 && v->dim[v->rank - 1] != n) || !qc_view_dense(v)) return false;
    *out = (struct qc_view){.dtype = v->dtype, .rank = 1, .dim = {n}, .stride = {1}, .data = v->data};
    return true;
}

/* Gemm-13: alpha * A' B' + beta * C. */
static bool prepare_gemm(struct qc_prepare *p, struct qc_status *st)
{
    const struct qc_view a = qc_view_turned(&p->in[0], qc_attr_int(p->node, "transA", 0) != 0),
                         b = qc_view_turned(&p->in[1], qc_attr_int(p->node, "transB", 0) != 0);
    const bool given = p->input_count > 2 && p->in[2].rank >= 0;
    const float alpha = qc_attr_float(p->node, "alpha", 1), beta = given ? qc_attr_float(p->node, "beta", 1) : 1;
    struct qc_view bias;
    if (p->affine && (alpha != 1 || beta != 1))
        return qc_fail(st, QC_UNSUPPORTED, "alpha %g and beta %g are not handled on quantized values", (double)alpha,
                       (double)beta);
    const bool vector = given && row_vector(&bias, &p->in[2], p->out[0].dim[1]) && alpha == 1 && beta == 1;
    struct qc_mac *m;
    if (!make(p, &a, &b, vector ? &bias : NULL, &p->out[0], (given && !vector) || alpha != 1, &m, st)) return false;
    m->alpha = alpha;
    m->beta = beta;
    return true;
}

/* v with ones put before its dimensions up to `rank`. */
static struct qc_view raised(const struct qc_view *v, int rank)
{
    struct qc_view r = *v;
    const int shift = rank - v->rank;
    r.rank = rank;
    for (int i = rank; i-- > 0;) {
        r.dim[i] = i < shift ? 1 : v->dim[i - shift];
        r.stride[i] = i < shift ? r.dim[i + 1] * r.stride[i + 1] : v->stride[i - shift];
    }
    return r;
}

/* All dimensions but the last as one; the view is row-major. */
static struct qc_view as_matrix(const struct qc_view *v)
{
    struct qc_view r = *v;
    const int64_t n = v->dim[v->rank - 1];
    r.rank = 2;
    r.dim[0] = (int64_t)qc_view_count(v) / (n ? n : 1);
    r.dim[1] = n;
    r.stride[0] = n;
    r.stride[1] = 1;
    return r;
}

static bool prepare_matmul(struct qc_prepare *p, struct qc_status *st)
{
    struct qc_view a = p->in[0], b = p->in[1], dst = p->out[0], bias;
    const bool given = p->input_count > 2 && p->in[2].rank >= 0;
    if (given && !row_vector(&bias, &p->in[2], dst.rank ? dst.dim[dst.rank - 1] : 1))
        return qc_fail(st, QC_UNSUPPORTED, "bias is not a row");
    const bool row = a.rank == 1, column = b.rank == 1;
    if (column) b = qc_view_with_one(&b, 1);
    if (row) {
        a = qc_view_with_one(&a, 0);
        dst = qc_view_with_one(&dst, dst.rank - !column);
    }
    if (column) dst = qc_view_with_one(&dst, dst.rank);
    if (b.rank == 2 && qc_view_row_major(&a) && qc_view_row_major(&dst)) {
        a = as_matrix(&a);
        dst = as_matrix(&dst);
    }
    const int rank = a.rank > b.rank ? a.rank : b.rank;
    a = raised(&a, rank);
    b = raised(&b, rank);
    struct qc_mac *m;
    return make(p, &a, &b, given ? &bias : NULL, &dst, false, &m, st);
}

QC_KERNEL(gemm, .in_double = &qc_kernel_gemm_double, .order = QC_ORDER_MATRIX, .fuses = true, .prepare = prepare_gemm,
          .run = qc_mac_run, .release = qc_mac_release);
QC_KERNEL(matmul, .in_double = &qc_kernel_gemm_double, .order = QC_ORDER_MATRIX, .fuses = true,
          .prepare = prepare_matmul, .run = qc_mac_run, .release = qc_mac_release);
