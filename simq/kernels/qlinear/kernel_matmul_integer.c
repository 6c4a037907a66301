// SPDX-License-Identifier: Apache-2.0
/* MatMulInteger-10. If the second operand is a constant matrix, it is packed once and data are multiplied as stored.
   Their zero point is known only at run time; it is subtracted with the column sums of the matrix, modulo 2^32 like
   the sums. Other cases use kernel_qlinear_mac.c. */
#include <math.h>

#include "simq/kernels/integer/int_mac.h"
#include "simq/kernels/qlinear/kernel_qlinear.h"

struct state {
    void *plain;            /* state of qc_kernel_qlinear_product */
    struct qc_int_mac *mac; /* NULL: qc_kernel_qlinear_product runs instead */
    size_t rows, columns;
    int32_t *column_sums; /* [columns] */
};

enum { A, B, A_ZERO, B_ZERO };

static bool is_absent(const struct qc_prepare *p, unsigned i)
{
    return i >= p->input_count || p->in[i].rank < 0;
}

/* Returns whether the second operand is a constant matrix whose sums of byte products fit in int32. */
static bool is_constant_matrix(const struct qc_prepare *p)
{
    const struct qc_view *a = &p->in[A], *b = &p->in[B];
    if (!b->data || b->rank != 2 || !qc_view_row_major(b) || a->rank < 1 || !qc_view_count(a) || !qc_view_count(b))
        return false;
    if (p->accumulator.bits && p->accumulator.bits < 32) return false;
    return b->dim[0] < INT32_MAX / (255 * 255) && (is_absent(p, B_ZERO) || p->in[B_ZERO].data);
}

static struct qc_scales scales_of(enum qc_dtype t, size_t count, const float *ones, const int32_t *zero_point)
{
    const struct qc_dtype_info *info = qc_dtype_info(t);
    return (struct qc_scales){.rounds = true,
                              .count = count,
                              .axis = 1,
                              .scale = ones,
                              .zero_point = zero_point,
                              .levels = {.lo = (int32_t)info->lo, .hi = (int32_t)info->hi}};
}

static bool pack_matmul_integer(struct state *s, struct qc_prepare *p, struct qc_status *st)
{
    const struct qc_view *a = &p->in[A], *b = &p->in[B], *zero = is_absent(p, B_ZERO) ? NULL : &p->in[B_ZERO];
    const int64_t inner = b->dim[0], columns = b->dim[1];
    s->rows = qc_view_count(a) / (size_t)inner;
    s->columns = (size_t)columns;
    float *ones = QC_NEW_ARRAY(p->arena, float, s->columns, st);
    int32_t *zeros = QC_NEW_ARRAY(p->arena, int32_t, s->columns, st);
    const int32_t *none = QC_NEW_ARRAY(p->arena, int32_t, 1, st);
    if (!ones || !zeros || !none || !(s->column_sums = QC_NEW_ARRAY(p->arena, int32_t, s->columns, st))) return false;
    for (size_t n = 0; n < s->columns; n++) {
        ones[n] = 1;
        zeros[n] = zero ? qc_qlinear_zero(zero, n) : 0;
        for (size_t k = 0; k < (size_t)inner; k++) s->column_sums[n] += qc_byte_at(b, k * s->columns + n) - zeros[n];
    }
    const struct qc_scales data = scales_of(a->dtype, 1, ones, none),
                           weights = scales_of(b->dtype, zero && qc_view_count(zero) > 1 ? s->columns : 1, ones, zeros);
    const struct qc_scales same = {.identity = true, .count = 1, .scale = ones, .zero_point = none};
    const int64_t rows = (int64_t)s->rows;
    struct qc_int_def d = {.shape = {.batch = 1,
                                     .groups = 1,
                                     .inputs = inner,
                                     .outputs = columns,
                                     .in = {1, 1, rows},
                                     .out = {1, 1, rows},
                                     .kernel = {1, 1, 1},
                                     .stride = {1, 1, 1},
                                     .dilation = {1, 1, 1}},
                           .isa = p->isa,
                           .wide = p->int16,
                           .pairs = qc_contract_info(p->contract)->products == QC_PRODUCTS_PAIRS && a->dtype == QC_U8 &&
                                    b->dtype == QC_I8,
                           .data_type = a->dtype,
                           .weight_type = b->dtype,
                           .data_stride = {0, 1, 0, 0, inner},
                           .weight_stride = {1, 0, columns, 0, 0, 0},
                           .out_stride = {0, 1, 0, 0, columns},
                           .weights = b->data,
                           .data_scales = &data,
                           .weight_scales = &weights,
                           .narrow_sums = true};
    const struct qc_convert_end sums = {QC_I32, &same};
    return qc_convert_of(&d.finish, sums, sums, -INFINITY, INFINITY, NULL, p->arena, st) &&
           qc_int_mac_new(&s->mac, &p->scratch, &d, st);
}

static bool prepare_matmul_integer(struct qc_prepare *p, struct qc_status *st)
{
    struct state *s = QC_NEW(p->arena, struct state, st);
    if (!s) return false;
    if (!is_constant_matrix(p)) {
        const bool ok = qc_kernel_qlinear_product.prepare(p, st);
        s->plain = p->state;
        p->state = s;
        return ok;
    }
    p->state = s;
    if (!pack_matmul_integer(s, p, st)) return false;
    p->packed = 1U << B | (is_absent(p, B_ZERO) ? 0U : 1U << B_ZERO);
    const struct qc_int_facts facts = qc_int_mac_facts(s->mac);
    p->constant_bytes = facts.bytes;
    p->detail = facts.name;
    return true;
}

static bool run_matmul_integer(const struct qc_run *r, struct qc_status *st)
{
    const struct state *s = r->state;
    if (!s->mac) {
        struct qc_run plain = *r;
        plain.state = s->plain;
        return qc_kernel_qlinear_product.run(&plain, st);
    }
    const uint32_t zero =
        r->input_count > A_ZERO && r->in[A_ZERO].rank >= 0 ? (uint32_t)qc_qlinear_zero(&r->in[A_ZERO], 0) : 0;
    int32_t *y = r->out[0].data;
    qc_int_mac_run(s->mac, y, r->in[A].data, NULL, r->scratch, NULL);
    for (size_t i = 0; zero && i < s->rows; i++, y += s->columns)
        for (size_t n = 0; n < s->columns; n++) y[n] = (int32_t)((uint32_t)y[n] - zero * (uint32_t)s->column_sums[n]);
    return true;
}

static void release_matmul_integer(void *state)
{
    struct state *s = state;
    qc_int_mac_free(s->mac);
    s->mac = NULL;
}

QC_KERNEL(matmul_integer, .order = QC_ORDER_ROW, .prepare = prepare_matmul_integer, .run = run_matmul_integer,
          .release = release_matmul_integer);
