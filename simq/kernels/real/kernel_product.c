// SPDX-License-Identifier: Apache-2.0
/* Conv and ConvTranspose, 1 to 3 spatial dimensions. On centred integers the result is the accumulator sum((qa - za)
 * (qw - zw)), exact if every partial sum stays below 2^24. */
#include <math.h>

#include "simq/core/convert.h"
#include "simq/core/kernel_util.h"
#include "simq/kernels/real/product.h"

/* The frame of multiply-accumulate kernels: a product, followed by the fused operations. */

struct qc_mac {
    struct qc_product *product;
    bool packed_weights, packed_bias, bias;
    bool scaled; /* y = alpha*y + beta*c, c = input 2 broadcast to the result (Gemm) */
    float alpha, beta;
    bool rounded; /* the accumulator is rounded from its qparams to those of the result */
    int axis;     /* channel axis of `rounding` in the result */
    struct qc_rounding rounding;
};

/* Makes the state in p->arena and sets p->state, so that release frees it. *tail: the tail for the product. scaled:
   see struct qc_mac. */
static struct qc_mac *qc_mac_new(struct qc_product_tail *tail, struct qc_prepare *p, bool scaled, struct qc_status *st)
{
    const struct qc_fusion *f = p->fusion;
    struct qc_mac *m = QC_NEW_STATE(p, struct qc_mac, st);
    *tail = (struct qc_product_tail){.lo = -INFINITY, .hi = INFINITY};
    if (!m) return NULL;
    m->scaled = scaled;
    if (!f) return m;
    const bool moved =
        f->from->qparams != p->out_scales[0].qparams && !(f->from->identity && p->out_scales[0].identity);
    m->rounded = moved || (scaled && (f->lo > -INFINITY || f->hi < INFINITY));
    if (!m->rounded) {
        *tail = (struct qc_product_tail){.sum = f->residual, .lo = f->lo, .hi = f->hi};
        return m;
    }
    const struct qc_scales *to = &p->out_scales[0];
    const struct qc_scales real = {.identity = true,
                                   .count = 1,
                                   .scale = (const float[]){1},
                                   .zero_point = (const int32_t[]){0}};
    m->axis = f->from->count > 1 ? f->from->axis : to->axis;
    return qc_rounding_of(&m->rounding, moved ? f->from : &real, moved ? to : &real, f->lo, f->hi, p->arena, st) ? m
                                                                                                                 : NULL;
}

/* Call after the product is made: sets scratch and packed inputs. */
static void qc_mac_finish(struct qc_mac *m, struct qc_prepare *p, bool bias)
{
    const struct qc_product_facts facts = qc_product_facts(m->product);
    m->bias = bias;
    m->packed_weights = facts.is_packed;
    m->packed_bias = bias && p->in[2].data;
    p->packed = (m->packed_weights ? 2U : 0U) | (m->packed_bias ? 4U : 0U);
    p->scratch = facts.scratch;
    p->constant_bytes = facts.bytes;
    p->detail = facts.name;
}

/* Views: result and accumulator (the same memory), c. */
static void scale_run(void *user, int64_t n, void *const data[], const int64_t stride[])
{
    const struct qc_mac *m = user;
    float *y = data[0];
    const float *c = data[1];
    for (int64_t i = 0; i < n; i++) {
        float *at = y + i * stride[0];
        *at = m->alpha * *at + m->beta * c[i * stride[1]];
    }
}

static bool qc_mac_run(const struct qc_run *r, struct qc_status *st)
{
    struct qc_mac m = *(const struct qc_mac *)r->state;
    const struct qc_product_memory memory = {.src = r->in[0].data,
                                             .weights = m.packed_weights ? NULL : r->in[1].data,
                                             .bias = m.bias && !m.packed_bias ? r->in[2].data : NULL,
                                             .dst = r->out[0].data,
                                             .scratch = r->scratch};
    qc_product_run(m.product, &memory);
    if (m.scaled) {
        static const float zero = 0;
        const bool given = r->input_count > 2 && r->in[2].rank >= 0;
        struct qc_view none = {.dtype = QC_F32, .data = (void *)(uintptr_t)&zero};
        struct qc_view c = qc_view_broadcast(given ? &r->in[2] : &none, &r->out[0]);
        qc_view_each(2, QC_VIEWS(&r->out[0], &c), scale_run, &m);
    }
    if (m.rounded) qc_rounding_view(&m.rounding, m.axis, &r->out[0], &r->out[0]);
    return true;
}

static void qc_mac_release(void *state)
{
    struct qc_mac *m = state;
    qc_product_free(m->product);
    m->product = NULL;
}

static bool prepare_any(struct qc_prepare *p, bool transposed, struct qc_status *st)
{
    const bool bias = p->input_count > 2 && p->in[2].rank >= 0;
    struct qc_product_conv c = {.transposed = transposed,
                                .groups = qc_attr_int(p->node, "group", 1),
                                .src = &p->in[0],
                                .weights = &p->in[1],
                                .bias = bias ? &p->in[2] : NULL,
                                .dst = &p->out[0],
                                .packs = p->packs,
                                .isa = p->isa};
    if (!qc_window_of(&c.window, p->graph, p->node, st)) return false;
    struct qc_mac *m = qc_mac_new(&c.tail, p, false, st);
    if (!m || !qc_product_conv_new(&m->product, &c, st)) return false;
    qc_mac_finish(m, p, bias);
    return true;
}

static bool prepare_conv(struct qc_prepare *p, struct qc_status *st)
{
    return prepare_any(p, false, st);
}

static bool prepare_transposed(struct qc_prepare *p, struct qc_status *st)
{
    return prepare_any(p, true, st);
}

QC_KERNEL(conv, .order = QC_ORDER_LAST, .fuses = true, .takes_any = true, .prepare = prepare_conv, .run = qc_mac_run,
          .release = qc_mac_release);
QC_KERNEL(conv_transpose, .order = QC_ORDER_LAST, .fuses = true, .takes_any = true, .prepare = prepare_transposed,
          .run = qc_mac_run, .release = qc_mac_release);

/* Gemm and MatMul. On centred integers the result is the accumulator, exact if every partial sum stays below 2^24. */

static bool make_product(struct qc_prepare *p, const struct qc_view *a, const struct qc_view *b,
                         const struct qc_view *bias, const struct qc_view *dst, bool scaled, struct qc_mac **out,
                         struct qc_status *st)
{
    struct qc_view weights = *b;
    const bool in_file = qc_kernel_packs_in_file(p, b);
    if (!in_file && qc_kernel_is_large(p->graph, b)) weights.data = NULL;
    struct qc_product_matrix d = {
        .a = a, .b = &weights, .bias = bias, .dst = dst, .packs = p->packs, .in_file = in_file, .isa = p->isa};
    struct qc_mac *m = qc_mac_new(&d.tail, p, scaled, st);
    if (!m || !qc_product_matrix_new(&m->product, &d, st)) return false;
    qc_mac_finish(m, p, bias != NULL);
    *out = m;
    return true;
}

/* Returns whether v has one number per column of a result with n columns, equal for all rows; *out is that vector. */
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
    if (!make_product(p, &a, &b, vector ? &bias : NULL, &p->out[0], (given && !vector) || alpha != 1, &m, st))
        return false;
    m->alpha = alpha;
    m->beta = beta;
    return true;
}

/* Prepends dimensions of size 1 up to `rank`. */
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

/* Merges all dimensions except the last; the view must be row-major. */
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
    return make_product(p, &a, &b, given ? &bias : NULL, &dst, false, &m, st);
}

QC_KERNEL(gemm, .in_double = &qc_kernel_gemm_double, .order = QC_ORDER_MATRIX, .fuses = true, .takes_any = true,
          .prepare = prepare_gemm, .run = qc_mac_run, .release = qc_mac_release);
QC_KERNEL(matmul, .in_double = &qc_kernel_gemm_double, .order = QC_ORDER_MATRIX, .fuses = true, .takes_any = true,
          .prepare = prepare_matmul, .run = qc_mac_run, .release = qc_mac_release);
