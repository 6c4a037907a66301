// SPDX-License-Identifier: Apache-2.0
/* Most kernels do not support 16-bit floats. This kernel wraps one of them: it passes float32 copies and rounds the
   results to their own type. */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/scope.h"
#include "simq/core/kernel_util.h"

struct halves {
    const struct qc_kernel *inner;
    void *state; /* of the inner kernel */
    unsigned input_count, output_count;
    struct qc_view *in, *out; /* as passed to the inner kernel; data is set for constants */
    size_t *in_at, *out_at;   /* offsets of the copies in the scratch; SIZE_MAX: no copy */
    size_t views_at, inner_at;
    float **owned; /* [input_count]: copies of constants */
};

static bool is_half(const struct qc_view *v)
{
    return v->rank >= 0 && (v->dtype == QC_F16 || v->dtype == QC_BF16);
}

#define QC_WIDEN(NAME, FUNCTION)                                                                                       \
    static void NAME(void *user, int64_t n, void *const data[], const int64_t stride[])                                \
    {                                                                                                                  \
        float *y = data[0];                                                                                            \
        const uint16_t *x = data[1];                                                                                   \
        for (int64_t i = 0; i < n; i++) y[i * stride[0]] = FUNCTION(x[i * stride[1]]);                                 \
    }
#define QC_NARROW(NAME, FUNCTION)                                                                                      \
    static void NAME(void *user, int64_t n, void *const data[], const int64_t stride[])                                \
    {                                                                                                                  \
        uint16_t *y = data[0];                                                                                         \
        const float *x = data[1];                                                                                      \
        for (int64_t i = 0; i < n; i++) y[i * stride[0]] = FUNCTION(x[i * stride[1]]);                                 \
    }
QC_WIDEN(widen_half, qc_half_to_float)
QC_WIDEN(widen_bfloat, qc_bfloat_to_float)
QC_NARROW(narrow_half, qc_float_to_half)
QC_NARROW(narrow_bfloat, qc_float_to_bfloat)

static void convert_halves(const struct qc_view *to, const struct qc_view *from)
{
    qc_view_each(2, QC_VIEWS(to, from),
                 from->dtype == QC_F16    ? widen_half
                 : from->dtype == QC_BF16 ? widen_bfloat
                 : to->dtype == QC_F16    ? narrow_half
                                          : narrow_bfloat,
                 NULL);
}

/* A dense float32 view of the same dims. The order is kept if v is dense, else it is row-major. */
static struct qc_view widened(const struct qc_view *v)
{
    const struct qc_shape shape = qc_shape_of(v->rank, v->dim);
    struct qc_view w = qc_view_of(QC_F32, &shape, QC_LAYOUT_ROW, NULL);
    if (qc_view_dense(v)) memcpy(w.stride, v->stride, sizeof w.stride);
    for (int d = 0; qc_view_dense(v) && d < v->rank; d++)
        if (w.stride[d] < 0) return qc_view_of(QC_F32, &shape, QC_LAYOUT_ROW, NULL);
    return w;
}

/* Reserves scratch for n elements of `size`; sets *at to its offset. Fails if the size overflows. */
static bool reserve_scratch(size_t *at, size_t *end, size_t n, size_t size, struct qc_status *st)
{
    size_t bytes;
    *at = *end;
    if (!qc_mul_size(&bytes, n, size) || !qc_add_size(end, *end, bytes) || *end > SIZE_MAX / 2)
        return qc_fail(st, QC_BAD_INPUT, "its operands do not fit in memory");
    *end = (*end + 63) / 64 * 64;
    return true;
}

static void drop_constant(struct halves *h, unsigned i)
{
    free(h->owned[i]);
    h->owned[i] = NULL;
}

static bool prepare_inner(struct halves *h, struct qc_prepare *p, struct qc_status *st)
{
    size_t end = 0;
    if (!reserve_scratch(&h->views_at, &end, p->input_count + p->output_count, sizeof(struct qc_view), st))
        return false;
    for (unsigned i = 0; i < p->input_count; i++) {
        h->in[i] = p->in[i];
        h->in_at[i] = SIZE_MAX;
        if (!is_half(&p->in[i])) continue;
        h->in[i] = widened(&p->in[i]);
        if (p->in[i].data && qc_view_count(&p->in[i])) {
            const size_t n = qc_view_count(&p->in[i]);
            h->owned[i] = aligned_alloc(64, (n * sizeof(float) + 127) / 64 * 64);
            if (!h->owned[i]) return qc_fail_memory(st, n * sizeof(float));
            h->in[i].data = h->owned[i];
            convert_halves(&h->in[i], &p->in[i]);
        } else if (!reserve_scratch(&h->in_at[i], &end, qc_view_count(&h->in[i]), sizeof(float), st)) {
            return false;
        }
    }
    for (unsigned i = 0; i < p->output_count; i++) {
        h->out[i] = p->out[i];
        h->out_at[i] = SIZE_MAX;
        if (!is_half(&p->out[i])) continue;
        h->out[i] = widened(&p->out[i]);
        if (!reserve_scratch(&h->out_at[i], &end, qc_view_count(&h->out[i]), sizeof(float), st)) return false;
    }
    struct qc_prepare inner = *p;
    inner.in = h->in;
    inner.out = h->out;
    inner.state = NULL;
    const bool ok = !h->inner->prepare || h->inner->prepare(&inner, st);
    h->state = inner.state;
    if (!ok) return false;
    h->inner_at = end;
    p->scratch = end + inner.scratch;
    p->detail = inner.detail;
    p->constant_bytes = inner.constant_bytes;
    p->packed = inner.packed;
    for (unsigned i = 0; i < p->input_count; i++) {
        if (i < 64 && inner.packed >> i & 1) {
            drop_constant(h, i);
            h->in[i].data = NULL;
        } else if (h->owned[i]) {
            p->constant_bytes += qc_view_count(&h->in[i]) * sizeof(float);
            if (i < 64) p->packed |= UINT64_C(1) << i;
        }
    }
    return true;
}

bool qc_kernel_prepare(const struct qc_kernel **kernel, struct qc_prepare *p, struct qc_status *st)
{
    bool any = false;
    if (p->input_count && p->in[0].dtype == QC_F64 && (*kernel)->in_double) *kernel = (*kernel)->in_double;
    for (unsigned i = 0; i < p->input_count; i++) any = any || is_half(&p->in[i]);
    for (unsigned i = 0; i < p->output_count; i++) any = any || is_half(&p->out[i]);
    if (!any || (*kernel)->halves || p->affine || p->fusion) return !(*kernel)->prepare || (*kernel)->prepare(p, st);
    struct halves *h = QC_NEW(p->arena, struct halves, st);
    if (!h) return false;
    *h = (struct halves){.inner = *kernel, .input_count = p->input_count, .output_count = p->output_count};
    h->in = QC_NEW_ARRAY(p->arena, struct qc_view, p->input_count, st);
    h->out = QC_NEW_ARRAY(p->arena, struct qc_view, p->output_count, st);
    h->in_at = QC_NEW_ARRAY(p->arena, size_t, p->input_count, st);
    h->out_at = QC_NEW_ARRAY(p->arena, size_t, p->output_count, st);
    h->owned = QC_NEW_ARRAY(p->arena, float *, p->input_count, st);
    if (!h->in || !h->out || !h->in_at || !h->out_at || !h->owned) return false;
    p->state = h;
    *kernel = &qc_kernel_halves;
    return prepare_inner(h, p, st);
}

/* State of a runner. */
struct opened {
    const struct qc_kernel *inner;
    void *local;
};

/* Arguments of the inner kernel; its views are in the scratch. */
static struct qc_run inner_run(const struct halves *h, const struct qc_run *r)
{
    char *scratch = r->scratch;
    struct qc_view *views = (struct qc_view *)(void *)(scratch + h->views_at);
    struct qc_run inner = {.state = h->state,
                           .local = r->local ? ((const struct opened *)r->local)->local : NULL,
                           .input_count = r->input_count,
                           .output_count = r->output_count,
                           .in = views,
                           .out = views + r->input_count,
                           .scratch = scratch + h->inner_at};
    for (unsigned i = 0; i < r->input_count; i++) {
        views[i] = h->in[i];
        if (h->in_at[i] != SIZE_MAX)
            views[i].data = scratch + h->in_at[i];
        else if (!is_half(&r->in[i]))
            views[i].data = r->in[i].data;
    }
    for (unsigned i = 0; i < r->output_count; i++) {
        views[r->input_count + i] = h->out[i];
        views[r->input_count + i].data = h->out_at[i] != SIZE_MAX ? scratch + h->out_at[i] : r->out[i].data;
    }
    return inner;
}

static bool run_halves(const struct qc_run *r, struct qc_status *st)
{
    const struct halves *h = r->state;
    const struct qc_run inner = inner_run(h, r);
    for (unsigned i = 0; i < r->input_count; i++)
        if (h->in_at[i] != SIZE_MAX) convert_halves(&inner.in[i], &r->in[i]);
    if (!h->inner->run(&inner, st)) return false;
    for (unsigned i = 0; i < r->output_count; i++)
        if (h->out_at[i] != SIZE_MAX) convert_halves(&r->out[i], &inner.out[i]);
    return true;
}

static bool open_inner(void **local, const struct qc_run *r, struct qc_status *st)
{
    const struct halves *h = r->state;
    const struct qc_run inner = inner_run(h, r);
    struct opened *o = calloc(1, sizeof *o);
    if (!o) return qc_fail_memory(st, sizeof *o);
    o->inner = h->inner;
    return QC_HAND_OVER(!h->inner->open || h->inner->open(&o->local, &inner, st), local, o, free);
}

static void close_inner(void *local)
{
    struct opened *o = local;
    if (o && o->local && o->inner->close) o->inner->close(o->local);
    free(o);
}

static void release_halves(void *state)
{
    struct halves *h = state;
    if (h->state && h->inner->release) h->inner->release(h->state);
    for (unsigned i = 0; h->owned && i < h->input_count; i++) drop_constant(h, i);
}

QC_KERNEL(halves, .order = QC_ORDER_ANY, .halves = true, .run = run_halves, .release = release_halves,
          .open = open_inner, .close = close_inner);
