// SPDX-License-Identifier: Apache-2.0
/* Matrix products: ONNX Gemm-13 and MatMul-13. */
#include <string.h>

#include "base/checked.h"
#include "graph/core/infer.h"
#include "graph/core/recurrent.h"
#include "graph/infer/infer_help.h"

static bool matrix_of(int64_t *rows, int64_t *columns, const struct qc_infer *c, unsigned i, const char *transpose,
                      struct qc_status *st)
{
    const struct qc_shape *s = &qc_in(c, i)->shape;
    *rows = *columns = QC_FREE;
    if (s->rank < 0) return true;
    if (s->rank != 2) return qc_fail(st, QC_BAD_INPUT, "input %u must be a matrix, got shape %s", i, QC_SHAPE_STR(s));
    bool turned = qc_attr_int(c->node, transpose, 0) != 0;
    *rows = s->dim[turned];
    *columns = s->dim[!turned];
    return true;
}

bool qc_infer_gemm_result(struct qc_infer *c, enum qc_dtype result, struct qc_status *st)
{
    int64_t m, n, inner, other;
    if (!matrix_of(&m, &inner, c, 0, "transA", st) || !matrix_of(&other, &n, c, 1, "transB", st)) return false;
    if (!qc_dim_meet(&inner, inner, other))
        return qc_fail(st, QC_BAD_INPUT, "inner dimensions of %s (transA %d) and %s (transB %d) differ",
                       QC_SHAPE_STR(&qc_in(c, 0)->shape), qc_attr_int(c->node, "transA", 0) != 0,
                       QC_SHAPE_STR(&qc_in(c, 1)->shape), qc_attr_int(c->node, "transB", 0) != 0);
    struct qc_shape s = QC_SHAPE(m, n), both;
    if (qc_has_in(c, 2)) {
        const struct qc_shape *bias = &qc_in(c, 2)->shape;
        bool fits = qc_shape_broadcast(&both, &s, bias) && both.rank <= 2;
        for (int i = 0; fits && both.rank == 2 && i < 2; i++) fits = s.dim[i] == QC_FREE || both.dim[i] == s.dim[i];
        if (!fits)
            return qc_fail(st, QC_BAD_INPUT, "bias of shape %s does not broadcast to %s", QC_SHAPE_STR(bias),
                           QC_SHAPE_STR(&s));
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
    struct qc_shape s = QC_SHAPE_UNKNOWN;
    if (a->rank < 0 || b->rank < 0) return qc_infer_set(c, 0, result, &s, st);
    if (a->rank == 0 || b->rank == 0)
        return qc_fail(st, QC_BAD_INPUT, "vectors or matrices expected, got %s and %s", QC_SHAPE_STR(a),
                       QC_SHAPE_STR(b));
    /* A vector on the left is a row, on the right a column; the added dimension is removed from the result. */
    struct qc_shape batch_a = {.rank = a->rank > 2 ? a->rank - 2 : 0},
                    batch_b = {.rank = b->rank > 2 ? b->rank - 2 : 0};
    for (int i = 0; i < batch_a.rank; i++) batch_a.dim[i] = a->dim[i];
    for (int i = 0; i < batch_b.rank; i++) batch_b.dim[i] = b->dim[i];
    int64_t inner;
    if (!qc_dim_meet(&inner, a->dim[a->rank - 1], b->rank == 1 ? b->dim[0] : b->dim[b->rank - 2]) ||
        !qc_shape_broadcast(&s, &batch_a, &batch_b))
        return qc_fail(st, QC_BAD_INPUT, "shapes %s and %s cannot be multiplied", QC_SHAPE_STR(a), QC_SHAPE_STR(b));
    if (a->rank > 1) s.dim[s.rank++] = a->dim[a->rank - 2];
    if (b->rank > 1) s.dim[s.rank++] = b->dim[b->rank - 1];
    return qc_infer_set(c, 0, result, &s, st);
}

/* Products with a packed weight [N,K], whose sizes are attributes. */
bool qc_infer_matmul_nbits(struct qc_infer *c, struct qc_status *st)
{
    const struct qc_type *a = qc_in(c, 0);
    const int64_t sums = qc_attr_int(c->node, "K", 0), outputs = qc_attr_int(c->node, "N", 0);
    struct qc_shape s = a->shape;
    int64_t met;
    if (!qc_dtype_info(a->dtype)->is_float || sums < 1 || outputs < 1)
        return qc_fail(st, QC_BAD_INPUT, "takes floats and a matrix, not %s and [%lld,%lld]",
                       qc_dtype_info(a->dtype)->name, (long long)outputs, (long long)sums);
    if (s.rank == 0 || (s.rank > 0 && !qc_dim_meet(&met, s.dim[s.rank - 1], sums)))
        return qc_fail(st, QC_BAD_INPUT, "shape %s, %lld columns expected", QC_SHAPE_STR(&s), (long long)sums);
    if (s.rank > 0) s.dim[s.rank - 1] = outputs;
    return qc_infer_set(c, 0, a->dtype, &s, st);
}

/* Gathers rows of a packed table [N, bytes]; the scales have the type of the result. */
bool qc_infer_gather_block_quantized(struct qc_infer *c, struct qc_status *st)
{
    const struct qc_shape *data = &qc_in(c, 0)->shape, *i = &qc_in(c, 1)->shape;
    const int64_t bits = qc_attr_int(c->node, "bits", 4);
    struct qc_shape s = *i;
    if (data->rank != 2 || data->dim[1] == QC_FREE || (bits != 2 && bits != 4 && bits != 8))
        return qc_fail(st, QC_BAD_INPUT, "takes a matrix of 2, 4 or 8 bits, not %s of %lld", QC_SHAPE_STR(data),
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

enum { LETTERS = 52, UNUSED = -2 };

static int letter(char c)
{
    return c >= 'A' && c <= 'Z' ? c - 'A' : c >= 'a' && c <= 'z' ? c - 'a' + 26 : -1;
}

/* Reads a term up to `end`, with `wide` dimensions for "...". Returns false if it has more than QC_RANK_MAX dimensions
   or invalid characters. */
static bool read_term(uint8_t label[QC_RANK_MAX], int *rank, const char *s, const char *end, int wide)
{
    bool dots = false;
    *rank = 0;
    while (s < end) {
        int n = 1, first = letter(*s);
        if (*s == ' ') {
            s++;
            continue;
        }
        if (end - s >= 3 && strncmp(s, "...", 3) == 0 && !dots) {
            dots = true;
            first = LETTERS + QC_RANK_MAX - wide;
            n = wide;
            s += 2;
        } else if (first < 0) {
            return false;
        }
        s++;
        for (int i = 0; i < n; i++) {
            if (*rank == QC_RANK_MAX) return false;
            label[(*rank)++] = (uint8_t)(first + i);
        }
    }
    return true;
}

/* Returns the number of dimensions of "..." in a term of an input of this rank. */
static int width_of(const char *s, const char *end, int rank)
{
    int letters = 0;
    if (s >= end || !memchr(s, '.', (size_t)(end - s))) return 0;
    for (; s < end; s++) letters += letter(*s) >= 0;
    return rank - letters;
}

/* The result of an equation without "->": "...", then the letters that occur once, in alphabetical order. */
static bool implicit(struct qc_einsum *e, int wide)
{
    int seen[QC_EINSUM_LABELS] = {0};
    for (unsigned i = 0; i < e->input_count; i++)
        for (int d = 0; d < e->rank[i]; d++) seen[e->label[i][d]]++;
    for (int k = 0; k < wide; k++) e->result[e->result_rank++] = (uint8_t)(LETTERS + QC_RANK_MAX - wide + k);
    for (int k = 0; k < LETTERS; k++) {
        if (seen[k] != 1) continue;
        if (e->result_rank == QC_RANK_MAX) return false;
        e->result[e->result_rank++] = (uint8_t)k;
    }
    return true;
}

bool qc_einsum_of(struct qc_einsum *out, const struct qc_graph *g, const struct qc_node *n, struct qc_status *st)
{
    const struct qc_infer c = {.graph = g, .node = n};
    const char *equation = qc_attr_string(n, "equation", ""), *arrow = strstr(equation, "->");
    const char *const left = arrow ? arrow : equation + strlen(equation);
    struct qc_einsum e = {.input_count = n->input_count};
    int wide = 0;
    bool ok = n->input_count <= QC_EINSUM_INPUTS;
    const char *s = equation;
    for (unsigned i = 0; ok && i < n->input_count;
         i++) { /* finds the width first: fewer dimensions are aligned with the last ones */
        const char *comma = memchr(s, ',', (size_t)(left - s)), *end = comma ? comma : left;
        const int width = width_of(s, end, qc_in(&c, i)->shape.rank);
        ok = width >= 0 && (comma != NULL) == (i + 1 < n->input_count);
        wide = width > wide ? width : wide;
        s = comma ? comma + 1 : left;
    }
    s = equation;
    for (unsigned i = 0; ok && i < n->input_count; i++) {
        const char *comma = memchr(s, ',', (size_t)(left - s)), *end = comma ? comma : left;
        ok = read_term(e.label[i], &e.rank[i], s, end, width_of(s, end, qc_in(&c, i)->shape.rank));
        s = comma ? comma + 1 : left;
    }
    ok = ok &&
         (arrow ? read_term(e.result, &e.result_rank, arrow + 2, arrow + strlen(arrow), wide) : implicit(&e, wide));
    if (!ok) return qc_fail(st, QC_BAD_INPUT, "the equation \"%.80s\" does not fit the inputs", equation);
    for (int k = 0; k < QC_EINSUM_LABELS; k++) e.size[k] = UNUSED;
    for (unsigned i = 0; i < e.input_count; i++) {
        const struct qc_shape *x = &qc_in(&c, i)->shape;
        bool fits = x->rank == e.rank[i];
        for (int d = 0; fits && d < x->rank; d++) {
            int64_t *size = &e.size[e.label[i][d]];
            const bool known = *size != UNUSED && *size != QC_FREE && *size != 1;
            if (*size == UNUSED || (*size == 1 && x->dim[d] != QC_FREE) || (*size == QC_FREE && x->dim[d] > 1))
                *size = x->dim[d];
            else
                fits = !known || x->dim[d] == *size || x->dim[d] == 1 || x->dim[d] == QC_FREE;
        }
        if (!fits)
            return qc_fail(st, QC_BAD_INPUT, "input %u of shape %s does not fit the equation", i, QC_SHAPE_STR(x));
    }
    for (int d = 0; d < e.result_rank; d++) {
        bool twice = false;
        for (int k = 0; k < d; k++) twice = twice || e.result[k] == e.result[d];
        if (twice || e.size[e.result[d]] == UNUSED)
            return qc_fail(st, QC_BAD_INPUT, "the result of the equation \"%.80s\" cannot be", equation);
    }
    *out = e;
    return true;
}

bool qc_infer_einsum(struct qc_infer *c, struct qc_status *st)
{
    struct qc_einsum e;
    struct qc_shape s = QC_SHAPE_UNKNOWN;
    bool ranked = true;
    if (!qc_infer_same_dtype(c, 0, c->node->input_count, st)) return false;
    for (unsigned i = 0; i < c->node->input_count; i++) {
        if (!qc_has_in(c, i)) return qc_fail(st, QC_BAD_INPUT, "input %u is missing", i);
        ranked = ranked && qc_in(c, i)->shape.rank >= 0;
    }
    if (ranked) {
        if (!qc_einsum_of(&e, c->graph, c->node, st)) return false;
        s = (struct qc_shape){.rank = e.result_rank};
        for (int d = 0; d < s.rank; d++) s.dim[d] = e.size[e.result[d]];
    }
    return qc_infer_set(c, 0, qc_in(c, 0)->dtype, &s, st);
}

/* RNN, GRU, LSTM (opsets 7 to 22): Y [steps, directions, batch, hidden] or, with layout 1, [batch, steps, directions,
   hidden]; Y_h and Y_c [directions, batch, hidden] or [batch, directions, hidden]. */

bool qc_infer_recurrent(struct qc_infer *c, struct qc_status *st)
{
    struct qc_recurrent r;
    const enum qc_dtype x = qc_in(c, 0)->dtype;
    if (!qc_recurrent_of(&r, c->graph, c->node, st)) return false;
    const struct qc_shape y = r.batchwise ? QC_SHAPE(r.batch, r.steps, r.directions, r.hidden)
                                          : QC_SHAPE(r.steps, r.directions, r.batch, r.hidden);
    const struct qc_shape last =
        r.batchwise ? QC_SHAPE(r.batch, r.directions, r.hidden) : QC_SHAPE(r.directions, r.batch, r.hidden);
    for (unsigned k = 0; k < c->node->output_count; k++)
        if (!qc_infer_set(c, k, x, k ? &last : &y, st)) return false;
    return true;
}

/* DynamicQuantizeLSTM has integer weights [directions, input, 4 * hidden]. */
bool qc_infer_dynamic_lstm(struct qc_infer *c, struct qc_status *st)
{
    const struct qc_shape *x = &qc_in(c, 0)->shape, *r = &qc_in(c, 2)->shape;
    if (x->rank != 3 || r->rank != 3)
        return qc_fail(st, QC_BAD_INPUT, "X of shape %s and R of shape %s, expected rank 3", QC_SHAPE_STR(x),
                       QC_SHAPE_STR(r));
    const struct qc_shape y = QC_SHAPE(x->dim[0], r->dim[0], x->dim[1], r->dim[1]),
                          last = QC_SHAPE(r->dim[0], x->dim[1], r->dim[1]);
    for (unsigned k = 0; k < c->node->output_count; k++)
        if (!qc_infer_set(c, k, QC_F32, k ? &last : &y, st)) return false;
    return true;
}
