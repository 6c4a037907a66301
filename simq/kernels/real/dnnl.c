// SPDX-License-Identifier: Apache-2.0
#include "simq/kernels/real/dnnl.h"

#include <math.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdlib.h>
#include <string.h>

#include "base/pool.h"

/* A primitive with four operands (src, weights, bias, dst) and, for weights that come at run time, the reorder before
 * it. */
struct qc_dnnl {
    dnnl_engine_t engine;
    dnnl_primitive_t primitive, reorder;
    struct desc *src, *weights, *given_weights, *bias, *dst, *pad, *reorder_pad;
    void *packed, *packed_bias; /* NULL: given at run time */
    struct qc_packed *packs;    /* that `packed` is in; NULL: its own */
    size_t packed_bytes, pad_bytes, weights_bytes;
    char name[64];
};

enum { ARGUMENTS = 5 };

struct qc_dnnl_bound {
    const struct qc_dnnl *d;
    dnnl_stream_t stream;
    dnnl_memory_t memory[ARGUMENTS], reorder_memory[3];
    int count, reorder_count;
    dnnl_exec_arg_t argument[ARGUMENTS], reorder_argument[3];
};

/* ------------------------------------------------- the difference between v2 and v3: memory descriptors and operation
 * descriptors */

struct desc {
    dnnl_memory_desc_t md; /* v2: the descriptor itself; v3: a handle that is owned */
};

struct operation {
    bool transposed;
    const dnnl_dim_t *strides, *dilations, *pad_begin, *pad_end; /* of a convolution; NULL: a matrix product */
    const char *passed_over; /* begin of the name of an implementation that gives way to the next one; NULL: none */
};

static bool is_named(const_dnnl_primitive_desc_t pd, const char *begin)
{
    const char *name = NULL;
    return dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name) == dnnl_success &&
           strncmp(name, begin, strlen(begin)) == 0;
}

#if DNNL_VERSION_MAJOR < 3

typedef const dnnl_memory_desc_t *md_ref;

static md_ref ref(const struct desc *m)
{
    return m ? &m->md : NULL;
}

static void desc_free(struct desc *m)
{
    free(m);
}

/* strides NULL: any format. */
static dnnl_status_t desc_fill(struct desc *m, int rank, const dnnl_dim_t *dims, const dnnl_dim_t *strides)
{
    return strides ? dnnl_memory_desc_init_by_strides(&m->md, rank, dims, dnnl_f32, strides)
                   : dnnl_memory_desc_init_by_tag(&m->md, rank, dims, dnnl_f32, dnnl_format_tag_any);
}

static struct desc *desc_query(const_dnnl_primitive_desc_t pd, dnnl_query_t what)
{
    const dnnl_memory_desc_t *md = dnnl_primitive_desc_query_md(pd, what, 0);
    struct desc *m = md ? calloc(1, sizeof *m) : NULL;
    if (m) m->md = *md;
    return m;
}

static dnnl_status_t append_sum(dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_sum(ops, 1.0f);
}

static dnnl_status_t append_eltwise(dnnl_post_ops_t ops, dnnl_alg_kind_t alg, float alpha, float beta)
{
    return dnnl_post_ops_append_eltwise(ops, 1.0f, alg, alpha, beta);
}

/* The next implementation where the first is passed over, unless the next is not compiled for the shape. */
static dnnl_status_t pd_choose(dnnl_primitive_desc_t *pd, const void *d, const char *passed_over, dnnl_engine_t engine,
                               dnnl_primitive_attr_t attr)
{
    dnnl_primitive_desc_iterator_t i = NULL;
    dnnl_status_t s = dnnl_primitive_desc_iterator_create(&i, d, attr, engine, NULL);
    if (s != dnnl_success) return s;
    *pd = dnnl_primitive_desc_iterator_fetch(i);
    if (!*pd) s = dnnl_out_of_memory;
    if (*pd && passed_over && is_named(*pd, passed_over) && dnnl_primitive_desc_iterator_next(i) == dnnl_success) {
        dnnl_primitive_desc_t next = dnnl_primitive_desc_iterator_fetch(i);
        const bool better = is_named(next, "jit");
        dnnl_primitive_desc_destroy(better ? *pd : next);
        if (better) *pd = next;
    }
    dnnl_primitive_desc_iterator_destroy(i);
    return s;
}

static dnnl_status_t pd_new(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, const struct operation *o, md_ref src,
                            md_ref weights, md_ref bias, md_ref dst, dnnl_primitive_attr_t attr)
{
    dnnl_status_t s;
    if (!o->strides) {
        dnnl_matmul_desc_t d;
        s = dnnl_matmul_desc_init(&d, src, weights, bias, dst);
        return s == dnnl_success ? dnnl_primitive_desc_create(pd, &d, attr, engine, NULL) : s;
    }
    if (o->transposed) {
        dnnl_deconvolution_desc_t d;
        s = dnnl_dilated_deconvolution_forward_desc_init(&d, dnnl_forward_inference, dnnl_deconvolution_direct, src,
                                                         weights, bias, dst, o->strides, o->dilations, o->pad_begin,
                                                         o->pad_end);
        return s == dnnl_success ? dnnl_primitive_desc_create(pd, &d, attr, engine, NULL) : s;
    }
    dnnl_convolution_desc_t d;
    s = dnnl_dilated_convolution_forward_desc_init(&d, dnnl_forward_inference, dnnl_convolution_direct, src, weights,
                                                   bias, dst, o->strides, o->dilations, o->pad_begin, o->pad_end);
    return s == dnnl_success ? pd_choose(pd, &d, o->passed_over, engine, attr) : s;
}

#else

typedef const_dnnl_memory_desc_t md_ref;

static md_ref ref(const struct desc *m)
{
    return m ? m->md : NULL;
}

static void desc_free(struct desc *m)
{
    if (m) dnnl_memory_desc_destroy(m->md);
    free(m);
}

static dnnl_status_t desc_fill(struct desc *m, int rank, const dnnl_dim_t *dims, const dnnl_dim_t *strides)
{
    return strides ? dnnl_memory_desc_create_with_strides(&m->md, rank, dims, dnnl_f32, strides)
                   : dnnl_memory_desc_create_with_tag(&m->md, rank, dims, dnnl_f32, dnnl_format_tag_any);
}

static struct desc *desc_query(const_dnnl_primitive_desc_t pd, dnnl_query_t what)
{
    const_dnnl_memory_desc_t md = dnnl_primitive_desc_query_md(pd, what, 0);
    struct desc *m = md ? calloc(1, sizeof *m) : NULL;
    if (!m || dnnl_memory_desc_clone(&m->md, md) == dnnl_success) return m;
    free(m);
    return NULL;
}

static dnnl_status_t append_sum(dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_sum(ops, 1.0f, 0, dnnl_data_type_undef);
}

static dnnl_status_t append_eltwise(dnnl_post_ops_t ops, dnnl_alg_kind_t alg, float alpha, float beta)
{
    return dnnl_post_ops_append_eltwise(ops, alg, alpha, beta);
}

static dnnl_status_t pd_new(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, const struct operation *o, md_ref src,
                            md_ref weights, md_ref bias, md_ref dst, dnnl_primitive_attr_t attr)
{
    if (!o->strides) return dnnl_matmul_primitive_desc_create(pd, engine, src, weights, bias, dst, attr);
    if (o->transposed)
        return dnnl_deconvolution_forward_primitive_desc_create(pd, engine, dnnl_forward_inference,
                                                                dnnl_deconvolution_direct, src, weights, bias, dst,
                                                                o->strides, o->dilations, o->pad_begin, o->pad_end,
                                                                attr);
    dnnl_status_t s =
        dnnl_convolution_forward_primitive_desc_create(pd, engine, dnnl_forward_inference, dnnl_convolution_direct, src,
                                                       weights, bias, dst, o->strides, o->dilations, o->pad_begin,
                                                       o->pad_end, attr);
    dnnl_primitive_desc_t next = NULL;
    if (s != dnnl_success || !o->passed_over || !is_named(*pd, o->passed_over) ||
        dnnl_primitive_desc_clone(&next, *pd) != dnnl_success)
        return s;
    const bool better = dnnl_primitive_desc_next_impl(next) == dnnl_success && is_named(next, "jit");
    dnnl_primitive_desc_destroy(better ? *pd : next);
    if (better) *pd = next;
    return s;
}

#endif

/* *out is NULL unless this succeeds. */
static dnnl_status_t desc_new(struct desc **out, int rank, const dnnl_dim_t *dims, const dnnl_dim_t *strides)
{
    struct desc *m = *out = calloc(1, sizeof *m);
    const dnnl_status_t s = m ? desc_fill(m, rank, dims, strides) : dnnl_out_of_memory;
    if (s == dnnl_success) return s;
    free(m);
    *out = NULL;
    return s;
}

/* ------------------------------------------------- making */

static bool refused(dnnl_status_t s, const char *what, struct qc_status *st)
{
    if (s == dnnl_out_of_memory) return qc_fail(st, QC_MACHINE, "out of memory in the compute library (%s)", what);
    return qc_fail(st, QC_UNSUPPORTED, "the compute library cannot do this %s (oneDNN status %d)", what, (int)s);
}

static struct desc *new_desc(int rank, const int64_t *dims, const int64_t *strides, struct qc_status *st)
{
    dnnl_dim_t d[DNNL_MAX_NDIMS], s[DNNL_MAX_NDIMS];
    for (int i = 0; i < rank; i++) {
        d[i] = dims[i];
        s[i] = strides ? strides[i] : 0;
    }
    struct desc *m;
    if (desc_new(&m, rank, d, strides ? s : NULL) != dnnl_out_of_memory) {
        if (!m) qc_fail(st, QC_UNSUPPORTED, "the compute library does not take this shape and memory order");
    } else {
        qc_fail_memory(st, sizeof *m);
    }
    return m;
}

/* Strides of dimensions of one element say nothing, but the library compares them with those of its formats. */
static struct qc_view canonical(const struct qc_view *v)
{
    struct qc_shape shape = qc_shape_of(v->rank, v->dim);
    struct qc_view last = qc_view_of(v->dtype, &shape, QC_LAYOUT_LAST, v->data),
                   row = qc_view_of(v->dtype, &shape, QC_LAYOUT_ROW, v->data);
    if (qc_view_same_order(v, &last)) return last;
    return qc_view_same_order(v, &row) ? row : *v;
}

static dnnl_status_t make_attr(dnnl_primitive_attr_t *out, const struct qc_dnnl_tail *tail)
{
    dnnl_primitive_attr_t attr = NULL;
    dnnl_post_ops_t ops = NULL;
    dnnl_status_t s = dnnl_primitive_attr_create(&attr);
    if (s != dnnl_success) return s;
    s = dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
    if (s == dnnl_success) s = dnnl_primitive_attr_set_fpmath_mode(attr, dnnl_fpmath_mode_strict);
    if (s == dnnl_success && tail && (tail->sum || tail->lo > -INFINITY || tail->hi < INFINITY)) {
        s = dnnl_post_ops_create(&ops);
        if (s == dnnl_success) {
            if (tail->sum) s = append_sum(ops);
            if (s == dnnl_success && tail->lo == 0 && tail->hi == INFINITY)
                s = append_eltwise(ops, dnnl_eltwise_relu, 0, 0);
            else if (s == dnnl_success && (tail->lo > -INFINITY || tail->hi < INFINITY))
                s = append_eltwise(ops, dnnl_eltwise_clip, tail->lo, tail->hi);
            if (s == dnnl_success) s = dnnl_primitive_attr_set_post_ops(attr, ops);
            dnnl_post_ops_destroy(ops);
        }
    }
    if (s == dnnl_success)
        *out = attr;
    else
        dnnl_primitive_attr_destroy(attr);
    return s;
}

static bool make_reorder(struct qc_dnnl *d, struct qc_status *st)
{
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_status_t s = make_attr(&attr, NULL);
    if (s == dnnl_success)
        s = dnnl_reorder_primitive_desc_create(&pd, ref(d->given_weights), d->engine, ref(d->weights), d->engine, attr);
    if (s == dnnl_success) s = dnnl_primitive_create(&d->reorder, pd);
    if (s == dnnl_success && !(d->reorder_pad = desc_query(pd, dnnl_query_scratchpad_md))) s = dnnl_out_of_memory;
    if (pd) dnnl_primitive_desc_destroy(pd);
    if (attr) dnnl_primitive_attr_destroy(attr);
    if (s != dnnl_success) return refused(s, "packing of weights", st);
    size_t bytes = dnnl_memory_desc_get_size(ref(d->reorder_pad));
    if (bytes > d->pad_bytes) d->pad_bytes = bytes;
    return true;
}

static size_t padded(size_t bytes)
{
    return (bytes + 127) / 64 * 64;
}

static void *new_memory(size_t bytes, struct qc_status *st)
{
    void *p = aligned_alloc(64, padded(bytes));
    if (p)
        memset(p, 0, padded(bytes));
    else
        qc_fail_memory(st, bytes);
    return p;
}

/* Runs the reorder once, over a scratchpad of its own. */
static bool pack(struct qc_dnnl *d, void *given, struct qc_packed *packs, struct qc_status *st)
{
    dnnl_memory_t m[3] = {NULL};
    dnnl_stream_t stream = NULL;
    dnnl_status_t s;
    void *pad = new_memory(d->pad_bytes, st);
    d->packed = new_memory(d->weights_bytes, st);
    if (!pad || !d->packed) {
        free(pad);
        return false;
    }
    s = dnnl_memory_create(&m[0], ref(d->given_weights), d->engine, given);
    if (s == dnnl_success) s = dnnl_memory_create(&m[1], ref(d->weights), d->engine, d->packed);
    if (s == dnnl_success) s = dnnl_memory_create(&m[2], ref(d->reorder_pad), d->engine, pad);
    if (s == dnnl_success) s = dnnl_stream_create(&stream, d->engine, dnnl_stream_default_flags);
    const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_FROM, m[0]}, {DNNL_ARG_TO, m[1]}, {DNNL_ARG_SCRATCHPAD, m[2]}};
    if (s == dnnl_success) s = dnnl_primitive_execute(d->reorder, stream, 3, arguments);
    if (s == dnnl_success) s = dnnl_stream_wait(stream);
    for (int i = 0; i < 3; i++)
        if (m[i]) dnnl_memory_destroy(m[i]);
    if (stream) dnnl_stream_destroy(stream);
    free(pad);
    if (s != dnnl_success) return refused(s, "packing of weights", st);
    size_t added = d->weights_bytes;
    if (packs) {
        void *own = d->packed;
        d->packed = NULL;
        d->packs = packs;
        if (!qc_packed_take(&d->packed, &added, packs, given, own, d->weights_bytes, st)) return false;
    }
    d->packed_bytes += added;
    return true;
}

/* The rest of making, when descriptors of src, given weights, bias and dst are there; `any` is the weights' without a
 * format. */
static bool finish(struct qc_dnnl *d, const struct operation *o, const struct desc *any,
                   const struct qc_dnnl_tail *tail, const struct qc_view *weights, const struct qc_view *bias,
                   struct qc_packed *packs, struct qc_status *st)
{
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t pd = NULL;
    const char *name = NULL;
    dnnl_status_t s = make_attr(&attr, tail);
    if (s == dnnl_success) s = pd_new(&pd, d->engine, o, ref(d->src), ref(any), ref(d->bias), ref(d->dst), attr);
    if (s == dnnl_success) s = dnnl_primitive_create(&d->primitive, pd);
    if (s == dnnl_success) {
        d->weights = desc_query(pd, dnnl_query_weights_md);
        d->pad = desc_query(pd, dnnl_query_scratchpad_md);
        if (!d->weights || !d->pad) s = dnnl_out_of_memory;
        dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name);
        qc_text(d->name, sizeof d->name, "%s", name ? name : "?");
    }
    if (pd) dnnl_primitive_desc_destroy(pd);
    if (attr) dnnl_primitive_attr_destroy(attr);
    if (s != dnnl_success) return refused(s, o->strides ? "convolution" : "matrix product", st);
    d->pad_bytes = dnnl_memory_desc_get_size(ref(d->pad));
    d->weights_bytes = dnnl_memory_desc_get_size(ref(d->weights));
    if ((weights->data || !dnnl_memory_desc_equal(ref(d->weights), ref(d->given_weights))) && !make_reorder(d, st))
        return false;
    if (weights->data && !pack(d, weights->data, packs, st)) return false;
    if (weights->data) {
        dnnl_primitive_destroy(d->reorder);
        d->reorder = NULL;
    }
    if (bias && bias->data) {
        size_t count = qc_view_count(bias);
        d->packed_bytes += count * sizeof(float);
        if (!(d->packed_bias = new_memory(count * sizeof(float), st))) return false;
        memcpy(d->packed_bias, bias->data, count * sizeof(float));
    }
    return true;
}

static struct qc_dnnl *start(struct qc_status *st)
{
    struct qc_dnnl *d = calloc(1, sizeof *d);
    if (!d) {
        qc_fail_memory(st, sizeof *d);
        return NULL;
    }
    dnnl_status_t s = dnnl_engine_create(&d->engine, dnnl_cpu, 0);
    if (s == dnnl_success) return d;
    refused(s, "engine", st);
    free(d);
    return NULL;
}

static bool check_operand(const struct qc_view *v, const char *what, struct qc_status *st)
{
    if (v->dtype != QC_F32)
        return qc_fail(st, QC_UNSUPPORTED, "%s of type %s, only f32 is handled", what, qc_dtype_info(v->dtype)->name);
    return qc_view_count(v) > 0 || qc_fail(st, QC_UNSUPPORTED, "%s without elements", what);
}

/* ONNX weights as the library counts them: [groups, out/groups, in/groups, spatial...], the first only with groups > 1.
 */
static int weights_dims(int64_t *dims, int64_t *strides, const struct qc_dnnl_conv *c)
{
    const struct qc_view *w = c->weights;
    const int out = c->transposed ? 1 : 0, in = 1 - out;
    const int64_t groups = c->groups;
    int n = 0;
    if (groups > 1) {
        dims[n] = groups;
        strides[n++] = w->stride[0] * (w->dim[0] / groups);
    }
    dims[n] = c->transposed ? w->dim[out] : w->dim[out] / groups;
    strides[n++] = w->stride[out];
    dims[n] = c->transposed ? w->dim[in] / groups : w->dim[in];
    strides[n++] = w->stride[in];
    for (int i = 2; i < w->rank; i++) {
        dims[n] = w->dim[i];
        strides[n++] = w->stride[i];
    }
    return n;
}

/* What the library would take, but does worse than what it has next: at depthwise convolutions, and where there are
   fewer input channels than a vector has lanes (docs/decisions/0021-which-convolution.md). By shape, so that results
   are those of every run. */
static const char *slower(const struct qc_dnnl_conv *c)
{
    enum { LANES = 16 };
    if (c->transposed) return NULL;
    if (c->groups == c->src->dim[1] && c->groups > 1) return "brdgmm_dw";
    return c->groups == 1 && c->src->dim[1] < LANES ? "brgconv" : NULL;
}

bool qc_dnnl_conv_new(struct qc_dnnl **out, const struct qc_dnnl_conv *c, struct qc_status *st)
{
    const struct qc_view src = canonical(c->src), dst = canonical(c->dst);
    const struct qc_window *w = &c->window;
    dnnl_dim_t strides[3], dilations[3], begin[3], end[3];
    int64_t dims[6], steps[6];
    if (!check_operand(&src, "data", st) || !check_operand(c->weights, "weights", st) ||
        !check_operand(&dst, "result", st))
        return false;
    if (c->bias && (!check_operand(c->bias, "bias", st) || !qc_view_row_major(c->bias)))
        return qc_fail(st, QC_UNSUPPORTED, "bias is not dense");
    for (int i = 0; i < w->spatial; i++) {
        const int64_t extent = (w->kernel[i] - 1) * w->dilation[i] + 1;
        strides[i] = w->stride[i];
        dilations[i] = w->dilation[i] - 1;
        begin[i] = w->pad_begin[i];
        /* The library wants the end pad that fits the sizes exactly; rests that no window covers make it smaller. */
        end[i] = c->transposed ? (src.dim[i + 2] - 1) * w->stride[i] + extent - begin[i] - dst.dim[i + 2]
                               : (dst.dim[i + 2] - 1) * w->stride[i] + extent - src.dim[i + 2] - begin[i];
    }
    const struct operation o = {.transposed = c->transposed,
                                .strides = strides,
                                .dilations = dilations,
                                .pad_begin = begin,
                                .pad_end = end,
                                .passed_over = slower(c)};
    int before = qc_pool_hold();
    struct qc_dnnl *d = start(st);
    const int rank = weights_dims(dims, steps, c);
    struct desc *any = new_desc(rank, dims, NULL, st);
    bool ok = d && any && (d->src = new_desc(src.rank, src.dim, src.stride, st)) &&
              (d->dst = new_desc(dst.rank, dst.dim, dst.stride, st)) &&
              (d->given_weights = new_desc(rank, dims, steps, st)) &&
              (!c->bias || (d->bias = new_desc(1, &dst.dim[1], (const int64_t[]){1}, st))) &&
              finish(d, &o, any, &c->tail, c->weights, c->bias, c->packs, st);
    desc_free(any);
    qc_pool_release(before);
    if (ok)
        *out = d;
    else
        qc_dnnl_free(d);
    return ok;
}

bool qc_dnnl_matmul_new(struct qc_dnnl **out, const struct qc_dnnl_matmul *m, struct qc_status *st)
{
    const struct qc_view *a = m->a, *b = m->b, *dst = m->dst;
    int64_t bias_dims[QC_RANK_MAX], bias_steps[QC_RANK_MAX];
    if (!check_operand(a, "matrix", st) || !check_operand(b, "matrix", st) || !check_operand(dst, "result", st))
        return false;
    if (m->bias && (!check_operand(m->bias, "bias", st) || !qc_view_row_major(m->bias)))
        return qc_fail(st, QC_UNSUPPORTED, "bias is not dense");
    for (int i = 0; i < dst->rank; i++) {
        bias_dims[i] = i + 1 == dst->rank ? dst->dim[i] : 1;
        bias_steps[i] = i + 1 == dst->rank ? 1 : dst->dim[dst->rank - 1];
    }
    const struct operation o = {.strides = NULL};
    int before = qc_pool_hold();
    struct qc_dnnl *d = start(st);
    /* Only constants are packed: for others the library takes the matrix as it lies. */
    struct desc *any = new_desc(b->rank, b->dim, b->data ? NULL : b->stride, st);
    bool ok = d && any && (d->src = new_desc(a->rank, a->dim, a->stride, st)) &&
              (d->dst = new_desc(dst->rank, dst->dim, dst->stride, st)) &&
              (d->given_weights = new_desc(b->rank, b->dim, b->stride, st)) &&
              (!m->bias || (d->bias = new_desc(dst->rank, bias_dims, bias_steps, st))) &&
              finish(d, &o, any, &m->tail, b, m->bias, m->packs, st);
    desc_free(any);
    qc_pool_release(before);
    if (ok)
        *out = d;
    else
        qc_dnnl_free(d);
    return ok;
}

void qc_dnnl_free(struct qc_dnnl *d)
{
    if (!d) return;
    struct desc *descs[] = {d->src, d->weights, d->given_weights, d->bias, d->dst, d->pad, d->reorder_pad};
    for (size_t i = 0; i < sizeof descs / sizeof *descs; i++) desc_free(descs[i]);
    if (d->primitive) dnnl_primitive_destroy(d->primitive);
    if (d->reorder) dnnl_primitive_destroy(d->reorder);
    if (d->engine) dnnl_engine_destroy(d->engine);
    if (!d->packs) free(d->packed);
    free(d->packed_bias);
    free(d);
}

/* ------------------------------------------------- running */

size_t qc_dnnl_scratch(const struct qc_dnnl *d)
{
    return padded(d->pad_bytes) + (d->reorder ? padded(d->weights_bytes) : 0);
}

size_t qc_dnnl_bytes(const struct qc_dnnl *d)
{
    return d->packed_bytes;
}

const char *qc_dnnl_name(const struct qc_dnnl *d)
{
    return d->name;
}

static dnnl_status_t add(dnnl_memory_t *memory, dnnl_exec_arg_t *argument, int *count, int name, const struct desc *m,
                         const struct qc_dnnl *d, void *data)
{
    dnnl_status_t s = dnnl_memory_create(&memory[*count], ref(m), d->engine, data);
    if (s != dnnl_success) return s;
    argument[*count] = (dnnl_exec_arg_t){.arg = name, .memory = memory[*count]};
    ++*count;
    return s;
}

bool qc_dnnl_open(struct qc_dnnl_bound **out, const struct qc_dnnl *d, const struct qc_dnnl_memory *m,
                  struct qc_status *st)
{
    struct qc_dnnl_bound *b = calloc(1, sizeof *b);
    if (!b) return qc_fail_memory(st, sizeof *b);
    b->d = d;
    void *weights = d->packed ? d->packed : m->weights;
    dnnl_status_t s = dnnl_stream_create(&b->stream, d->engine, dnnl_stream_default_flags);
    if (d->reorder) {
        weights = (char *)m->scratch + padded(d->pad_bytes);
        if (s == dnnl_success)
            s = add(b->reorder_memory, b->reorder_argument, &b->reorder_count, DNNL_ARG_FROM, d->given_weights, d,
                    m->weights);
        if (s == dnnl_success)
            s = add(b->reorder_memory, b->reorder_argument, &b->reorder_count, DNNL_ARG_TO, d->weights, d, weights);
        if (s == dnnl_success)
            s = add(b->reorder_memory, b->reorder_argument, &b->reorder_count, DNNL_ARG_SCRATCHPAD, d->reorder_pad, d,
                    m->scratch);
    }
    if (s == dnnl_success) s = add(b->memory, b->argument, &b->count, DNNL_ARG_SRC, d->src, d, m->src);
    if (s == dnnl_success) s = add(b->memory, b->argument, &b->count, DNNL_ARG_WEIGHTS, d->weights, d, weights);
    if (s == dnnl_success && d->bias)
        s = add(b->memory, b->argument, &b->count, DNNL_ARG_BIAS, d->bias, d,
                d->packed_bias ? d->packed_bias : m->bias);
    if (s == dnnl_success) s = add(b->memory, b->argument, &b->count, DNNL_ARG_DST, d->dst, d, m->dst);
    if (s == dnnl_success) s = add(b->memory, b->argument, &b->count, DNNL_ARG_SCRATCHPAD, d->pad, d, m->scratch);
    if (s != dnnl_success) {
        qc_dnnl_close(b);
        return refused(s, "memory", st);
    }
    *out = b;
    return true;
}

void qc_dnnl_close(struct qc_dnnl_bound *b)
{
    if (!b) return;
    for (int i = 0; i < b->count; i++) dnnl_memory_destroy(b->memory[i]);
    for (int i = 0; i < b->reorder_count; i++) dnnl_memory_destroy(b->reorder_memory[i]);
    if (b->stream) dnnl_stream_destroy(b->stream);
    free(b);
}

bool qc_dnnl_run(const struct qc_dnnl_bound *b, struct qc_status *st)
{
    dnnl_status_t s = dnnl_success;
    if (b->d->reorder) s = dnnl_primitive_execute(b->d->reorder, b->stream, b->reorder_count, b->reorder_argument);
    if (s == dnnl_success) s = dnnl_primitive_execute(b->d->primitive, b->stream, b->count, b->argument);
    return s == dnnl_success || refused(s, "step", st);
}
