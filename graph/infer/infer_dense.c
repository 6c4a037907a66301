// SPDX-License-Identifier: Apache-2.0
/* Matrix products: ONNX Gemm-13 and MatMul-13. */
#include "base/checked.h"
#include "graph/infer/infer_help.h"

static bool matrix_of(int64_t *rows, int64_t *columns, const struct qc_infer *c, unsigned i, const char *transpose,
                      struct qc_status *st)
{
    const struct qc_shape *s = &qc_in(c, i)->shape;
    char text[QC_SHAPE_TEXT];
    *rows = *columns = QC_FREE;
    if (s->rank < 0) return true;
    if (s->rank != 2)
        return qc_fail(st, QC_BAD_INPUT, "input %u must be a matrix, got shape %s", i, qc_shape_text(text, s));
    bool turned = qc_attr_int(c->node, transpose, 0) != 0;
    *rows = s->dim[turned];
    *columns = s->dim[!turned];
    return true;
}

bool qc_infer_gemm_result(struct qc_infer *c, enum qc_dtype result, struct qc_status *st)
{
    char a[QC_SHAPE_TEXT], b[QC_SHAPE_TEXT];
    int64_t m, n, inner, other;
    if (!matrix_of(&m, &inner, c, 0, "transA", st) || !matrix_of(&other, &n, c, 1, "transB", st)) return false;
    if (!qc_dim_meet(&inner, inner, other))
        return qc_fail(st, QC_BAD_INPUT, "inner dimensions of %s (transA %d) and %s (transB %d) differ",
                       qc_shape_text(a, &qc_in(c, 0)->shape), qc_attr_int(c->node, "transA", 0) != 0,
                       qc_shape_text(b, &qc_in(c, 1)->shape), qc_attr_int(c->node, "transB", 0) != 0);
    struct qc_shape s = QC_SHAPE(m, n), both;
    if (qc_has_in(c, 2)) {
        const struct qc_shape *bias = &qc_in(c, 2)->shape;
        bool fits = qc_shape_broadcast(&both, &s, bias) && both.rank <= 2;
        for (int i = 0; fits && both.rank == 2 && i < 2; i++) fits = s.dim[i] == QC_FREE || both.dim[i] == s.dim[i];
        if (!fits)
            return qc_fail(st, QC_BAD_INPUT, "bias of shape %s does not broadcast to %s", qc_shape_text(a, bias),
                           qc_shape_text(b, &s));
    }
    return qc_infer_set(c, 0, result, &s, st);
}

bool qc_infer_gemm(struct qc_infer *c, struct qc_status *st)
{
    return qc_infer_same_float(c, 0, c->node->input_count, st) &&
           qc_infer_gemm_result(c, qc_float_type_of(qc_in(c, 0)->dtype), st);
}

bool qc_infer_matmul_result(struct qc_infer *c, enum qc_dtype result, struct qc_status *st)
{
    const struct qc_shape *a = &qc_in(c, 0)->shape, *b = &qc_in(c, 1)->shape;
    char at[QC_SHAPE_TEXT], bt[QC_SHAPE_TEXT];
    struct qc_shape s = QC_SHAPE_UNKNOWN;
    if (a->rank < 0 || b->rank < 0) return qc_infer_set(c, 0, result, &s, st);
    if (a->rank == 0 || b->rank == 0)
        return qc_fail(st, QC_BAD_INPUT, "vectors or matrices expected, got %s and %s", qc_shape_text(at, a),
                       qc_shape_text(bt, b));
    /* A vector on the left is a row, on the right a column; the added dimension is removed from the result. */
    struct qc_shape batch_a = {.rank = a->rank > 2 ? a->rank - 2 : 0},
                    batch_b = {.rank = b->rank > 2 ? b->rank - 2 : 0};
    for (int i = 0; i < batch_a.rank; i++) batch_a.dim[i] = a->dim[i];
    for (int i = 0; i < batch_b.rank; i++) batch_b.dim[i] = b->dim[i];
    int64_t inner;
    if (!qc_dim_meet(&inner, a->dim[a->rank - 1], b->rank == 1 ? b->dim[0] : b->dim[b->rank - 2]) ||
        !qc_shape_broadcast(&s, &batch_a, &batch_b))
        return qc_fail(st, QC_BAD_INPUT, "shapes %s and %s cannot be multiplied", qc_shape_text(at, a),
                       qc_shape_text(bt, b));
    if (a->rank > 1) s.dim[s.rank++] = a->dim[a->rank - 2];
    if (b->rank > 1) s.dim[s.rank++] = b->dim[b->rank - 1];
    return qc_infer_set(c, 0, result, &s, st);
}

/* Products with a packed weight [N,K], whose sizes are attributes. */
bool qc_infer_matmul_nbits(struct qc_infer *c, struct qc_status *st)
{
    const struct qc_type *a = qc_in(c, 0);
    const int64_t sums = qc_attr_int(c->node, "K", 0), outputs = qc_attr_int(c->node, "N", 0);
    char text[QC_SHAPE_TEXT];
    struct qc_shape s = a->shape;
    int64_t met;
    if (!qc_dtype_info(a->dtype)->is_float || sums < 1 || outputs < 1)
        return qc_fail(st, QC_BAD_INPUT, "takes floats and a matrix, not %s and [%lld,%lld]",
                       qc_dtype_info(a->dtype)->name, (long long)outputs, (long long)sums);
    if (s.rank == 0 || (s.rank > 0 && !qc_dim_meet(&met, s.dim[s.rank - 1], sums)))
        return qc_fail(st, QC_BAD_INPUT, "shape %s, %lld columns expected", qc_shape_text(text, &s), (long long)sums);
    if (s.rank > 0) s.dim[s.rank - 1] = outputs;
    return qc_infer_set(c, 0, a->dtype, &s, st);
}

/* Gathers rows of a packed table [N, bytes]; the scales have the type of the result. */
bool qc_infer_gather_block_quantized(struct qc_infer *c, struct qc_status *st)
{
    const struct qc_shape *data = &qc_in(c, 0)->shape, *i = &qc_in(c, 1)->shape;
    const int64_t bits = qc_attr_int(c->node, "bits", 4);
    char text[QC_SHAPE_TEXT];
    struct qc_shape s = *i;
    if (data->rank != 2 || data->dim[1] == QC_FREE || (bits != 2 && bits != 4 && bits != 8))
        return qc_fail(st, QC_BAD_INPUT, "takes a matrix of 2, 4 or 8 bits, not %s of %lld", qc_shape_text(text, data),
                       (long long)bits);
    if (s.rank >= QC_RANK_MAX) return qc_fail(st, QC_UNSUPPORTED, "indices of rank %d", s.rank);
    if (s.rank >= 0 && !qc_mul_i64(&s.dim[s.rank++], data->dim[1], 8 / bits))
        return qc_fail(st, QC_BAD_INPUT, "rows of %lld bytes are too large", (long long)data->dim[1]);
    return qc_infer_set(c, 0, qc_in(c, 2)->dtype, &s, st);
}

/* Products of a float or integer input and an integer matrix: ONNX Runtime's operators for dynamic quantization. */
bool qc_infer_float_product(struct qc_infer *c, struct qc_status *st)
{
    return qc_infer_matmul_result(c, QC_F32, st);
}

bool qc_infer_matmul(struct qc_infer *c, struct qc_status *st)
{
    const enum qc_dtype t = qc_in(c, 0)->dtype;
    return qc_infer_same_dtype(c, 0, 2, st) &&
           qc_infer_matmul_result(c, qc_infer_affine(c) ? qc_float_type_of(t) : t, st);
}
