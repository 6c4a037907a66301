// SPDX-License-Identifier: Apache-2.0
/* Conv, ConvTranspose, Gemm and MatMul in integers. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/core/pair_order.h"
#include "graph/types/tensor.h"
#include "simq/core/integer.h"
#include "simq/core/kernel_util.h"
#include "simq/kernels/integer/int_mac.h"

/* A matrix product as batches of [M,K] by [K,N]. Each is a convolution over a line of M pixels. */
struct product {
    struct qc_view a, b, out; /* of rank 2 or more, batch dimensions broadcast */
    bool one;                 /* all batches are rows of one product */
};

struct state {
    struct qc_int_mac *mac;
    size_t channels; /* of the result */
    int batch_rank;  /* of a matrix product */
    int64_t batch[QC_RANK_MAX], a_step[QC_RANK_MAX], b_step[QC_RANK_MAX], out_step[QC_RANK_MAX];
};

static bool is_conv(const struct qc_node *n)
{
    return n->op == QC_OP_Conv || n->op == QC_OP_ConvTranspose;
}

/* ------------------------------------------------- shapes */

static bool conv_def(struct qc_int_def *d, const struct qc_graph *g, const struct qc_node *n, const struct qc_view *x,
                     const struct qc_view *w, const struct qc_view *y, struct qc_status *st)
{
    struct qc_window win;
    struct qc_int_shape *s = &d->shape;
    if (!qc_window_of(&win, g, n, st)) return false;
    const int missing = 3 - win.spatial, transposed = n->op == QC_OP_ConvTranspose;
    s->transposed = transposed;
    s->batch = x->dim[0];
    s->groups = qc_attr_int(n, "group", 1);
    s->inputs = x->dim[1] / s->groups;
    s->outputs = y->dim[1] / s->groups;
    d->data_stride[0] = x->stride[0];
    d->data_stride[1] = x->stride[1];
    d->out_stride[0] = y->stride[0];
    d->out_stride[1] = y->stride[1];
    /* [M, C/groups, ...]; transposed: [C, M/groups, ...] */
    d->weight_stride[0] = w->stride[transposed ? 1 : 0];
    d->weight_stride[1] = w->stride[0] * (w->dim[0] / s->groups);
    d->weight_stride[2] = w->stride[transposed ? 0 : 1];
    for (int i = 0; i < 3; i++) {
        const int k = i - missing;
        const bool there = k >= 0;
        s->in[i] = there ? win.in[k] : 1;
        s->out[i] = there ? win.out[k] : 1;
        s->kernel[i] = there ? win.kernel[k] : 1;
        s->stride[i] = there ? win.stride[k] : 1;
        s->dilation[i] = there ? win.dilation[k] : 1;
        s->begin[i] = there ? win.pad_begin[k] : 0;
        d->data_stride[2 + i] = there ? x->stride[2 + k] : 0;
        d->out_stride[2 + i] = there ? y->stride[2 + k] : 0;
        d->weight_stride[3 + i] = there ? w->stride[2 + k] : 0;
    }
    return true;
}

/* Prepends dimensions of size 1 up to the rank of `to`, and broadcasts the batch dimensions to those of `to`. */
static struct qc_view raised_to(const struct qc_view *v, const struct qc_view *to)
{
    struct qc_view r = *v;
    while (r.rank < to->rank) r = qc_view_with_one(&r, 0);
    for (int i = 0; i + 2 < to->rank; i++) {
        if (r.dim[i] == 1) r.stride[i] = 0;
        r.dim[i] = to->dim[i];
    }
    return r;
}

static struct product product_of(const struct qc_node *n, const struct qc_view *x, const struct qc_view *w,
                                 const struct qc_view *y)
{
    struct product p = {.a = *x, .b = *w, .out = *y};
    if (n->op == QC_OP_Gemm) {
        p.a = qc_view_turned(x, qc_attr_int(n, "transA", 0) != 0);
        p.b = qc_view_turned(w, qc_attr_int(n, "transB", 0) != 0);
        p.one = true;
        return p;
    }
    if (w->rank == 1) {
        p.b = qc_view_with_one(w, 1);
        p.out = qc_view_with_one(&p.out, p.out.rank);
    }
    if (x->rank == 1) {
        p.a = qc_view_with_one(x, 0);
        p.out = qc_view_with_one(&p.out, p.out.rank - 1);
    }
    /* One matrix for all batches, and contiguous rows. */
    p.one = p.b.rank == 2 && (p.a.rank == 2 || (qc_view_row_major(&p.a) && qc_view_row_major(&p.out)));
    if (p.one && p.a.rank > 2) {
        const int64_t rows = (int64_t)qc_view_count(&p.out) / p.out.dim[p.out.rank - 1];
        struct qc_view *const both[] = {&p.a, &p.out};
        for (int i = 0; i < 2; i++) {
            struct qc_view *v = both[i];
            const int64_t width = v->dim[v->rank - 1];
            *v = (struct qc_view){
                .dtype = v->dtype, .rank = 2, .dim = {rows, width}, .stride = {width, 1}, .data = v->data};
        }
    }
    p.a = raised_to(&p.a, &p.out);
    p.b = raised_to(&p.b, &p.out);
    return p;
}

static void product_def(struct qc_int_def *d, struct state *s, const struct product *p)
{
    const int r = p->out.rank;
    const int64_t k = p->a.dim[r - 1];
    d->shape = (struct qc_int_shape){.batch = 1,
                                     .groups = 1,
                                     .inputs = k,
                                     .outputs = p->out.dim[r - 1],
                                     .in = {1, 1, p->out.dim[r - 2]},
                                     .out = {1, 1, p->out.dim[r - 2]},
                                     .kernel = {1, 1, 1},
                                     .stride = {1, 1, 1},
                                     .dilation = {1, 1, 1}};
    const int64_t data[5] = {0, p->a.stride[r - 1], 0, 0, p->a.stride[r - 2]},
                  out[5] = {0, 1, 0, 0, p->out.stride[r - 2]},
                  weight[6] = {p->b.stride[r - 1], 0, p->b.stride[r - 2], 0, 0, 0};
    memcpy(d->data_stride, data, sizeof data);
    memcpy(d->out_stride, out, sizeof out);
    memcpy(d->weight_stride, weight, sizeof weight);
    s->batch_rank = r - 2;
    for (int i = 0; i < r - 2; i++) {
        s->batch[i] = p->out.dim[i];
        s->a_step[i] = p->a.stride[i];
        s->b_step[i] = p->b.stride[i];
        s->out_step[i] = p->out.stride[i];
    }
}

/* ------------------------------------------------- what can be done */

static int64_t channels_of(const struct qc_int_node *n)
{
    const struct qc_shape *s = &qc_value(n->graph, n->node->outputs)->type.shape;
    return is_conv(n->node) ? s->dim[1] : s->rank ? s->dim[s->rank - 1] : 1;
}

static bool is_bias(const struct qc_int_node *n)
{
    if (n->input_count < 3 || n->in[2].rank < 0) return true;
    const struct qc_view *b = &n->in[2];
    return b->data && (b->dtype == QC_I32 || b->dtype == QC_F32) && qc_view_row_major(b) &&
           qc_view_count(b) == (size_t)channels_of(n) && (b->rank == 0 || b->dim[b->rank - 1] == channels_of(n));
}

/* Returns the dimension of the weights that holds the channels of the result, or -1. */
static int channel_axis(const struct qc_int_node *n)
{
    if (n->node->op == QC_OP_Conv) return 0;
    if (n->node->op == QC_OP_ConvTranspose) return 1;
    const int rank = n->in[1].rank;
    return rank < 2 ? -1 : n->node->op == QC_OP_Gemm && qc_attr_int(n->node, "transB", 0) ? 0 : rank - 1;
}

/* Returns whether the weights have one scale, or one per channel of the result. */
static bool fits_channels(const struct qc_int_node *n)
{
    const struct qc_scales *w = &n->in_scales[1];
    return w->count == 1 || (w->count == (size_t)channels_of(n) && w->axis == channel_axis(n));
}

static bool is_operand(const struct qc_view *v, const struct qc_scales *s)
{
    return !s->identity && s->rounds && !s->product && (v->dtype == QC_F32 || qc_is_level_type(v->dtype)) &&
           v->dtype != QC_I32 && (int64_t)s->levels.hi - s->levels.lo <= 65535;
}

static bool has_rows(const struct qc_int_node *n)
{
    for (unsigned i = 0; i < 2; i++)
        if (n->in[i].rank < 1 || qc_view_count(&n->in[i]) == 0) return false;
    return true;
}

/* Returns element i of a bias, whose zero point is 0. */
static double level_at_int_mac(const struct qc_view *v, size_t i)
{
    struct qc_tensor one = {.dtype = v->dtype, .count = 1, .data = (char *)v->data + i * qc_dtype_size(v->dtype)};
    return v->dtype == QC_F32 ? (double)*(const float *)one.data : (double)qc_tensor_int(&one, 0);
}

/* Returns the constant of the weights if it caches other forms of them, else NULL. */
static const struct qc_tensor *keeper_of(const struct qc_graph *g, const struct qc_node *n, const struct qc_view *w)
{
    const struct qc_tensor *t = w->data ? qc_constant_of(g, n->inputs[1]) : NULL;
    return t && t->forms && t->data == w->data && t->dtype == w->dtype ? t : NULL;
}

/* Returns the sums of the weights above and below the zero points, [channels] each. They are cached with the
   constant, or allocated in *own for the caller to free. Returns NULL if out of memory. */
static const int64_t *parts_of(int64_t **own, const struct qc_tensor *keeper, const struct qc_tensor *weights,
                               size_t channels, size_t inner, const int32_t *zero, size_t zero_count,
                               struct qc_status *st)
{
    const uint64_t of[] = {UINT64_MAX, channels, inner,
                           zero_count}; /* UINT64_MAX distinguishes it from keys of packed weights */
    const size_t zeros = zero_count * sizeof *zero, bytes = sizeof of + zeros;
    char *key = keeper ? malloc(bytes) : NULL;
    *own = NULL;
    if (key) {
        memcpy(key, of, sizeof of);
        memcpy(key + sizeof of, zero, zeros);
    }
    const void *parts = key ? qc_tensor_form(keeper, key, bytes) : NULL;
    if (!parts && !(*own = malloc(2 * channels * sizeof **own))) {
        qc_fail_memory(st, 2 * channels * sizeof **own);
    } else if (!parts) {
        qc_tensor_parts(*own, *own + channels, weights, channels, inner, zero, zero_count);
        parts = *own;
        if (key) {
            if (!qc_tensor_add_form(&parts, keeper, key, bytes, *own, st)) parts = NULL;
            *own = NULL;
        }
    }
    free(key);
    return parts;
}

/* Sets *out to the largest magnitude, over the channels, of the sum of all positive or all negative products. Constant
   weights must be dense row-major. */
static bool channel_bound(double *out, const struct qc_int_node *n, const struct qc_view *bias, struct qc_status *st)
{
    const struct qc_view *w = &n->in[1];
    const struct qc_scales *s = &n->in_scales[1], *x = &n->in_scales[0];
    const int axis = channel_axis(n);
    const size_t count = qc_view_count(w), channels = axis < 0 ? 1 : (size_t)w->dim[axis];
    const struct qc_tensor weights = {.dtype = w->dtype, .count = count, .data = w->data};
    const int32_t none = 0;
    const double hi = (double)x->levels.hi - x->zero_point[0], lo = (double)x->levels.lo - x->zero_point[0];
    double most = 0;
    size_t inner = 1;
    for (int i = axis + 1; axis >= 0 && i < w->rank; i++) inner *= (size_t)w->dim[i];
    if (axis < 0) inner = count;
    const bool centred = w->dtype == QC_F32;
    int64_t *own;
    const int64_t *up = parts_of(&own, keeper_of(n->graph, n->node, w), &weights, channels, inner,
                                 centred ? &none : s->zero_point, centred ? 1 : s->count, st);
    if (!up) return false;
    const int64_t *down = up + channels;
    for (size_t c = 0; c < channels; c++) {
        /* lo <= hi, so positive weights contribute most with hi. All are integers far below 2^53. */
        const double above = (double)up[c] * hi + (double)down[c] * lo,
                     below = -((double)up[c] * lo + (double)down[c] * hi);
        most = fmax(most, fmax(above, below));
        /* Each sum belongs to every `channels`-th bias. */
        for (size_t b = c; bias && b < qc_view_count(bias); b += channels) {
            const double v = level_at_int_mac(bias, b);
            most = fmax(most, fmax(above + fmax(v, 0), below + fmax(-v, 0)));
        }
    }
    free(own);
    *out = most;
    return true;
}

static double largest_level(const struct qc_scales *s)
{
    double most = 0;
    for (size_t c = 0; c < s->count; c++)
        most = fmax(most, fmax((double)s->levels.hi - s->zero_point[c], (double)s->zero_point[c] - s->levels.lo));
    return most;
}

bool qc_int_product_bound(double *out, const struct qc_int_node *n, struct qc_status *st)
{
    const struct qc_view *w = &n->in[1];
    *out = (double)INFINITY;
    if (!is_operand(&n->in[0], &n->in_scales[0]) || !is_operand(w, &n->in_scales[1]) || !fits_channels(n) ||
        !has_rows(n) || !is_bias(n))
        return true;
    const struct qc_view *bias = n->input_count > 2 && n->in[2].rank >= 0 ? &n->in[2] : NULL;
    if (w->data && qc_view_row_major(w) && n->in_scales[0].count == 1 && n->node->op != QC_OP_ConvTranspose)
        return channel_bound(out, n, bias, st);
    /* Bound: the products of all weights meet in one sum. */
    const double sum = largest_level(&n->in_scales[1]) *
                       (double)(is_conv(n->node) ? (int64_t)qc_view_count(w) : n->in[0].dim[n->in[0].rank - 1]);
    double most = 0;
    for (size_t c = 0; bias && c < qc_view_count(bias); c++) most = fmax(most, fabs(level_at_int_mac(bias, c)));
    *out = largest_level(&n->in_scales[0]) * sum + most;
    return true;
}

/* ------------------------------------------------- the kernels */

static bool prepare_int_mac(struct qc_prepare *p, struct qc_status *st)
{
    const struct qc_node *n = p->node;
    const bool bias = p->input_count > 2 && p->in[2].rank >= 0;
    const struct qc_scales *from = p->fusion ? p->fusion->from : &p->out_scales[0];
    const struct qc_int_node node = {.graph = p->graph,
                                     .node = n,
                                     .input_count = p->input_count,
                                     .in = p->in,
                                     .in_scales = p->in_scales,
                                     .result = from};
    struct state *s = QC_NEW_STATE(p, struct state, st);
    struct qc_int_def d = {.isa = p->isa,
                           .wide = p->int16,
                           .pairs = qc_contract_info(p->contract)->products == QC_PRODUCTS_PAIRS &&
                                    qc_saturates_in_pairs(p->uses, n),
                           .data_type = p->in[0].dtype,
                           .weight_type = p->in[1].dtype,
                           .packs = p->packs,
                           .in_file = qc_kernel_packs_in_file(p, &p->in[1]),
                           .bias = bias ? &p->in[2] : NULL,
                           .data_scales = &p->in_scales[0],
                           .weight_scales = &p->in_scales[1]};
    if (!s) return false;
    bool shared = true; /* all batches have the same weights */
    if (is_conv(n)) {
        if (!conv_def(&d, p->graph, n, &p->in[0], &p->in[1], &p->out[0], st)) return false;
    } else {
        const struct product m = product_of(n, &p->in[0], &p->in[1], &p->out[0]);
        product_def(&d, s, &m);
        for (int i = 0; i < s->batch_rank; i++) shared = shared && s->b_step[i] == 0;
    }
    if (shared) d.weights = p->in[1].data;
    d.constant = shared ? keeper_of(p->graph, n, &p->in[1]) : NULL;
    const struct qc_convert_how how = {.contract = p->contract,
                                       .graph = p->graph,
                                       .product = is_conv(n) ? QC_FROM_PRODUCT : QC_FROM_DENSE};
    double bound = 0;
    if (p->accumulator.bits && !qc_int_product_bound(&bound, &node, st)) return false;
    const bool overflows = p->accumulator.bits && bound >= ldexp(1, (int)p->accumulator.bits - 1);
    d.narrow_sums = bound < 0x1p31;
    if (overflows) d.accumulator = p->accumulator; /* otherwise no sum wraps or saturates */
    if (!qc_convert_of(&d.finish, (struct qc_convert_end){QC_I32, from},
                       (struct qc_convert_end){p->out[0].dtype, &p->out_scales[0]},
                       p->fusion ? p->fusion->lo : -INFINITY, p->fusion ? p->fusion->hi : INFINITY, &how, p->arena,
                       st) ||
        !qc_int_mac_new(&s->mac, &p->scratch, &d, st))
        return false;
    s->channels = (size_t)(d.shape.groups * d.shape.outputs);
    p->overflow_channels = overflows ? s->channels : 0;
    const struct qc_int_facts facts = qc_int_mac_facts(s->mac);
    p->packed = (facts.is_packed ? 2U : 0U) | (bias ? 4U : 0U);
    p->constant_bytes = facts.bytes;
    p->detail = facts.name;
    return true;
}

static void *moved(const struct qc_view *v, int64_t elements)
{
    return v->data ? (char *)v->data + elements * (int64_t)qc_dtype_size(v->dtype) : NULL;
}

static bool run_int_mac(const struct qc_run *r, struct qc_status *st)
{
    const struct state *s = r->state;
    int64_t index[QC_RANK_MAX] = {0}, a = 0, b = 0, out = 0;
    for (;;) {
        qc_int_mac_run(s->mac, moved(&r->out[0], out), moved(&r->in[0], a), moved(&r->in[1], b), r->scratch, r->local);
        int d = s->batch_rank;
        while (d-- > 0) {
            const bool more = ++index[d] < s->batch[d];
            const int64_t steps = more ? 1 : 1 - s->batch[d];
            a += steps * s->a_step[d];
            b += steps * s->b_step[d];
            out += steps * s->out_step[d];
            if (more) break;
            index[d] = 0;
        }
        if (d < 0) return true;
    }
}

static bool open_sums(void **local, const struct qc_run *r, struct qc_status *st)
{
    const size_t n = ((const struct state *)r->state)->channels;
    struct qc_sums *s = calloc(1, sizeof *s + 2 * n * sizeof(int64_t));
    if (!s) return qc_fail_memory(st, n * sizeof(int64_t));
    s->channels = n;
    s->lowest = (int64_t *)(void *)(s + 1);
    s->highest = s->lowest + n;
    *local = s;
    return true;
}

static const struct qc_sums *sums(const void *local)
{
    return local;
}

static void release_int_mac(void *state)
{
    struct state *s = state;
    qc_int_mac_free(s->mac);
    s->mac = NULL;
}

#define QC_INT_KERNEL(name_, order_)                                                                                   \
    {                                                                                                                  \
        .name = (name_), .order = (order_), .fuses = true, .prepare = prepare_int_mac, .run = run_int_mac,             \
        .release = release_int_mac, .open = open_sums, .close = free, .sums = sums                                     \
    }
static const struct qc_kernel int_conv = QC_INT_KERNEL("int_conv", QC_ORDER_LAST);
static const struct qc_kernel int_product = QC_INT_KERNEL("int_product", QC_ORDER_ROW);

const struct qc_kernel *qc_int_product_kernel(const struct qc_int_node *n)
{
    if (qc_op_info(n->node->op)->affine != QC_AFFINE_PRODUCT || !n->result->rounds) return NULL;
    /* Each output must read data of a single scale. */
    const size_t count = n->in_scales[0].count;
    const bool one_scale = count == 1 || (n->node->op == QC_OP_Conv && n->in_scales[0].axis == 1 && n->in[1].rank > 1 &&
                                          n->in[1].dim[1] == 1 && (size_t)qc_attr_int(n->node, "group", 1) == count);
    if (!one_scale || !is_operand(&n->in[0], &n->in_scales[0]) || !is_operand(&n->in[1], &n->in_scales[1]) ||
        !fits_channels(n) || !is_bias(n) || !has_rows(n) || !qc_int_levels_fit(&n->in_scales[1], INT16_MIN, INT16_MAX))
        return NULL;
    if (n->node->op == QC_OP_Gemm) {
        const bool given = n->input_count > 2 && n->in[2].rank >= 0;
        if (qc_attr_float(n->node, "alpha", 1) != 1 || (given && qc_attr_float(n->node, "beta", 1) != 1)) return NULL;
    }
    return is_conv(n->node) ? &int_conv : &int_product;
}
