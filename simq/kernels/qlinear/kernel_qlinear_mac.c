// SPDX-License-Identifier: Apache-2.0
/* QLinearConv-10, QLinearMatMul-21, ConvInteger-10, MatMulInteger-10, and ONNX Runtime's QGemm and QLinear pools.
   - product: m = f(f(sx*sw)/sy), RNE(clamp(f(f(acc)*m))) + zy; Gemm: sx is f(alpha*sx)
   - QGemm without a result scale: f(f(acc) * f(f(alpha*sx)*sw))
   - global average: m = f(sx / f(sy*n)), same form
   - average: RNE(f(f(avg/sy) + zy)) of a float32 sum in order
   Accumulators are int32 and wrap. */

#include "arith/contract.h"
#include "arith/real_steps.h"
#include "arith/requantize.h"
#include "simq/kernels/qlinear/kernel_qlinear.h"

/* Rows of x times columns of w: for each matrix of the batch and each of `groups` groups, R rows and N columns of K
   numbers. */
struct product {
    struct qc_qlinear_places x, w, y;
    int bias;
    enum qc_op real;
    struct qc_window window;
    int64_t groups, batch, rows, columns, inner; /* columns and inner: per group */
    bool turned_x, turned_w;                     /* Gemm: transA, transB */
    float alpha;
    bool pairs;                      /* pairs of products saturate, in the order of graph/core/pair_order.h */
    struct qc_view batch_x, batch_w; /* MatMul: strides of the batch dimensions, broadcast */
};

/* Returns the batch dimensions of a matrix operand, broadcast to those of the result; strides count matrices. */
static struct qc_view batches(const struct qc_view *v, const struct qc_view *out, int drop)
{
    struct qc_view to = {.rank = out->rank - drop}, from = {.rank = v->rank > 2 ? v->rank - 2 : 0};
    int64_t stride = 1;
    for (int i = 0; i < to.rank; i++) to.dim[i] = out->dim[i];
    for (int i = from.rank - 1; i >= 0; i--) {
        from.dim[i] = v->dim[i];
        from.stride[i] = stride;
        stride *= v->dim[i];
    }
    return qc_view_broadcast(&from, &to);
}

static bool one_zero_point(const struct qc_view *zero_point)
{
    for (size_t c = 1; zero_point->data && c < qc_view_count(zero_point); c++)
        if (qc_qlinear_zero(zero_point, c) != qc_qlinear_zero(zero_point, 0)) return false;
    return true;
}

/* Returns whether pairs of products saturate: ONNX Runtime multiplies uint8 by int8. ConvInteger takes the weights
   as the left operand and the data of a window as the right one; all others take the data first. A depthwise
   QLinearConv whose channels share a zero point has an exact kernel. */
static bool saturates(const struct product *s, const struct qc_prepare *p)
{
    const enum qc_dtype x = p->in[s->x.value].dtype, w = p->in[s->w.value].dtype;
    if (qc_contract_info(p->contract)->products != QC_PRODUCTS_PAIRS) return false;
    if (p->node->op == QC_OP_ConvInteger) return x == QC_I8 && w == QC_U8;
    if (s->real == QC_OP_Conv && s->groups > 1 && s->columns == 1 && p->in[s->w.value].dim[1] == 1 &&
        one_zero_point(&p->in[s->w.zero_point]))
        return false;
    return x == QC_U8 && w == QC_I8;
}

static bool prepare_product(struct qc_prepare *p, struct qc_status *st)
{
    struct product *s = QC_NEW_STATE(p, struct product, st);
    struct qc_qlinear q;
    qc_id inputs[3];
    if (!s) return false;
    qc_qlinear_of(&q, p->node);
    const struct qc_node real = qc_qlinear_real(inputs, &q, p->node);
    *s = (struct product){.x = qc_qlinear_places(p->node, 0),
                          .w = qc_qlinear_places(p->node, 1),
                          .y = qc_qlinear_places(p->node, QC_QLINEAR_RESULT),
                          .bias = qc_qlinear_extra_place(p->node),
                          .real = q.op,
                          .alpha = 1};
    if (q.op == QC_OP_Conv) {
        if (!qc_window_of(&s->window, p->graph, &real, st)) return false;
        const struct qc_view *w = &p->in[s->w.value];
        s->groups = qc_attr_int(p->node, "group", 1);
        s->batch = p->out[0].dim[0];
        s->rows = s->inner = 1;
        for (int i = 0; i < s->window.spatial; i++) s->rows *= s->window.out[i];
        for (int i = 1; i < w->rank; i++) s->inner *= w->dim[i];
        s->columns = w->dim[0] / s->groups;
    } else if (q.op == QC_OP_Gemm) {
        s->turned_x = qc_attr_int(p->node, "transA", 0) != 0;
        s->turned_w = qc_attr_int(p->node, "transB", 0) != 0;
        s->groups = s->batch = 1;
        s->rows = p->out[0].dim[0];
        s->columns = p->out[0].dim[1];
        s->inner = p->in[s->x.value].dim[!s->turned_x];
        s->alpha = qc_attr_float(p->node, "alpha", 1.0f);
    } else {
        const struct qc_view *a = &p->in[s->x.value], *b = &p->in[s->w.value];
        const int drop = (a->rank > 1) + (b->rank > 1);
        s->groups = 1;
        s->inner = a->dim[a->rank - 1];
        s->rows = a->rank > 1 ? a->dim[a->rank - 2] : 1;
        s->columns = b->rank > 1 ? b->dim[b->rank - 1] : 1;
        s->batch_x = batches(a, &p->out[0], drop);
        s->batch_w = batches(b, &p->out[0], drop);
        s->batch = 1;
        for (int i = 0; i < s->batch_x.rank; i++) s->batch *= s->batch_x.dim[i];
    }
    s->pairs = saturates(s, p);
    p->scratch = sizeof(int16_t) * (size_t)(s->inner * (s->columns * s->groups + 1)) + 64;
    p->detail = "int32";
    return true;
}

/* Gathers the columns of all groups, K centred numbers each: the weights of an output channel, or a column of a
   matrix. */
static void gather_columns(int16_t *to, const struct product *s, const struct qc_qlinear_operand *w, int64_t matrix)
{
    const int64_t columns = s->columns * s->groups, at = matrix * columns * s->inner;
    const bool rows_first = s->real == QC_OP_Conv || s->turned_w; /* [N,K] in memory */
    for (int64_t n = 0; n < columns; n++) {
        const int32_t zero = qc_qlinear_zero(w->zero_point, (size_t)n);
        for (int64_t k = 0; k < s->inner; k++)
            to[n * s->inner + k] =
                (int16_t)(qc_byte_at(w->value, (size_t)(at + (rows_first ? n * s->inner + k : k * columns + n))) -
                          zero);
    }
}

/* Gathers the window of a convolution at output pixel `row` of image b, group g, as centred numbers; padding is
   zero. */
static void gather_window(int16_t *to, const struct product *s, const struct qc_qlinear_operand *x, int64_t b,
                          int64_t g, int64_t row)
{
    const struct qc_window *w = &s->window;
    const int32_t zero = qc_qlinear_zero(x->zero_point, 0);
    int64_t o[3] = {0}, dim[3] = {1, 1, 1}, kernel[3] = {1, 1, 1}, step[3] = {1, 1, 1}, taps = 1;
    for (int i = w->spatial - 1, at = 2; i >= 0; i--, at--) {
        o[at] = row % w->out[i] * w->stride[i] - w->pad_begin[i];
        row /= w->out[i];
        dim[at] = w->in[i];
        kernel[at] = w->kernel[i];
        step[at] = w->dilation[i];
        taps *= w->kernel[i];
    }
    const int64_t channels = s->inner / taps, plane = dim[0] * dim[1] * dim[2];
    const int64_t image = (b * channels * s->groups + g * channels) * plane;
    for (int64_t c = 0; c < channels; c++)
        for (int64_t i = 0; i < kernel[0]; i++)
            for (int64_t j = 0; j < kernel[1]; j++)
                for (int64_t k = 0; k < kernel[2]; k++) {
                    const int64_t z = o[0] + i * step[0], y = o[1] + j * step[1], u = o[2] + k * step[2];
                    const bool inside = z >= 0 && z < dim[0] && y >= 0 && y < dim[1] && u >= 0 && u < dim[2];
                    const size_t at = (size_t)(image + c * plane + (z * dim[1] + y) * dim[2] + u);
                    *to++ = inside ? (int16_t)(qc_byte_at(x->value, at) - zero) : 0;
                }
}

static void gather_row(int16_t *to, const struct product *s, const struct qc_qlinear_operand *x, int64_t matrix,
                       int64_t row)
{
    const int32_t zero = qc_qlinear_zero(x->zero_point, 0);
    const int64_t at = matrix * s->rows * s->inner;
    for (int64_t k = 0; k < s->inner; k++)
        to[k] = (int16_t)(qc_byte_at(x->value, (size_t)(at + (s->turned_x ? k * s->rows + row : row * s->inner + k))) -
                          zero);
}

static int32_t dot(const int16_t *a, const int16_t *b, int64_t n)
{
    uint32_t sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (uint32_t)(a[i] * b[i]);
    return (int32_t)sum;
}

/* Returns what saturation adds to the sum. Pairs are neighbours in a row of a matrix, or neighbouring channels at
   each of `taps` window positions, whose numbers are stored channel by channel. */
static int32_t lost(const int16_t *a, int32_t a_zero, const int16_t *b, int32_t b_zero, int64_t n, int64_t taps)
{
    const int64_t channels = n / taps;
    uint32_t sum = 0;
    for (int64_t i = 0; i + 1 < n; i += 2) {
        const int64_t at = i % channels * taps + i / channels, next = (i + 1) % channels * taps + (i + 1) / channels;
        const int32_t a0 = a[at] + a_zero, a1 = a[next] + a_zero, b0 = b[at] + b_zero, b1 = b[next] + b_zero;
        sum += (uint32_t)(qc_pair_product(a0, b0, a1, b1) - (a0 * b0 + a1 * b1));
    }
    return (int32_t)sum;
}

struct ending {
    const struct qc_qlinear_operand *x, *w, *y;
    struct qc_view bias; /* rank -1: none; broadcast to the result for Gemm */
    float alpha, zero, lo, hi;
};

static void store_qlinear_mac(const struct qc_view *out, size_t at, const struct ending *e, int32_t acc, size_t channel)
{
    float m = qc_qlinear_scale(e->x->scale, 0) * qc_qlinear_scale(e->w->scale, channel);
    if (out->dtype == QC_I32) {
        ((int32_t *)out->data)[at] = acc;
        return;
    }
    if (e->alpha != 1) m = e->alpha * qc_qlinear_scale(e->x->scale, 0) * qc_qlinear_scale(e->w->scale, channel);
    if (out->dtype == QC_F32) {
        ((float *)out->data)[at] = (float)acc * m;
        return;
    }
    m /= qc_qlinear_scale(e->y->scale, 0);
    ((uint8_t *)out->data)[at] = qc_byte_of(qc_level_of_product((float)acc, m, e->lo, e->hi, true) + e->zero);
}

static int32_t bias_at(const struct ending *e, bool matrix, int64_t row, int64_t column)
{
    if (e->bias.rank < 0) return 0;
    const int64_t at = matrix ? row * e->bias.stride[0] + column * e->bias.stride[1] : column;
    return ((const int32_t *)e->bias.data)[at];
}

static int64_t matrix_at(const struct qc_view *batch, int64_t index)
{
    int64_t at = 0;
    for (int i = batch->rank - 1; i >= 0; i--) {
        at += index % batch->dim[i] * batch->stride[i];
        index /= batch->dim[i];
    }
    return at;
}

static bool run_product(const struct qc_run *r, struct qc_status *st)
{
    const struct product *s = r->state;
    const struct qc_qlinear_operand x = qc_qlinear_at(r, &s->x), w = qc_qlinear_at(r, &s->w),
                                    y = qc_qlinear_at(r, &s->y);
    const struct qc_view *out = &r->out[0];
    struct ending e = {.x = &x, .w = &w, .y = &y, .bias = {.rank = -1}, .alpha = s->alpha};
    int16_t *columns = r->scratch, *line = columns + s->inner * s->columns * s->groups;
    const int32_t zero = qc_qlinear_zero(y.zero_point, 0), x_zero = qc_qlinear_zero(x.zero_point, 0);
    const int64_t taps = s->real == QC_OP_Conv && r->out[0].dtype != QC_I32 ? s->inner / w.value->dim[1] : 1;
    if (s->bias >= 0) e.bias = s->real == QC_OP_Gemm ? qc_view_broadcast(&r->in[s->bias], out) : r->in[s->bias];
    e.zero = (float)zero;
    e.lo = (float)(qc_dtype_info(out->dtype)->lo - zero);
    e.hi = (float)(qc_dtype_info(out->dtype)->hi - zero);
    if (s->real == QC_OP_Conv || s->real == QC_OP_Gemm) gather_columns(columns, s, &w, 0);
    for (int64_t b = 0; b < s->batch; b++) {
        if (s->real == QC_OP_MatMul) gather_columns(columns, s, &w, matrix_at(&s->batch_w, b));
        for (int64_t g = 0; g < s->groups; g++)
            for (int64_t i = 0; i < s->rows; i++) {
                if (s->real == QC_OP_Conv)
                    gather_window(line, s, &x, b, g, i);
                else
                    gather_row(line, s, &x, s->real == QC_OP_MatMul ? matrix_at(&s->batch_x, b) : 0, i);
                for (int64_t k = 0; k < s->columns; k++) {
                    const int64_t n = g * s->columns + k;
                    const int32_t acc = dot(line, columns + n * s->inner, s->inner);
                    const int32_t change = s->pairs ? lost(line, x_zero, columns + n * s->inner,
                                                           qc_qlinear_zero(w.zero_point, (size_t)n), s->inner, taps)
                                                    : 0;
                    const uint32_t sum =
                        (uint32_t)acc + (uint32_t)change + (uint32_t)bias_at(&e, s->real == QC_OP_Gemm, i, n);
                    const int64_t at = s->real == QC_OP_Conv ? (b * s->columns * s->groups + n) * s->rows + i
                                                             : (b * s->rows + i) * s->columns + n;
                    store_qlinear_mac(out, (size_t)at, &e, (int32_t)sum, (size_t)n);
                }
            }
    }
    return true;
}

QC_KERNEL(qlinear_product, .order = QC_ORDER_ROW, .prepare = prepare_product, .run = run_product);

/* --- Pools --- */

struct pool {
    struct qc_qlinear_function at;
    struct qc_window window;
    bool global;
};

static bool prepare_qlinear_pool(struct qc_prepare *p, struct qc_status *st)
{
    struct pool *s = QC_NEW_STATE(p, struct pool, st);
    qc_id inputs[2];
    if (!s) return false;
    const struct qc_node real = qc_qlinear_function(&s->at, inputs, p);
    s->global = real.op == QC_OP_GlobalAveragePool;
    return qc_window_of(&s->window, p->graph, &real, st);
}

/* Returns the sum, in order, of the window of output pixel `row`. *hits: number of positions inside the data;
 *padded: number inside the padded input. */
static float window_sum(int64_t *hits, int64_t *padded, const struct qc_window *w, const uint8_t *plane,
                        const float ramp[256], int64_t row)
{
    int64_t o[3] = {0}, dim[3] = {1, 1, 1}, kernel[3] = {1, 1, 1}, end[3] = {1, 1, 1}, step[3] = {1, 1, 1};
    float sum = 0;
    *hits = *padded = 0;
    for (int i = w->spatial - 1, at = 2; i >= 0; i--, at--) {
        o[at] = row % w->out[i] * w->stride[i] - w->pad_begin[i];
        row /= w->out[i];
        dim[at] = w->in[i];
        end[at] = w->in[i] + w->pad_end[i];
        kernel[at] = w->kernel[i];
        step[at] = w->dilation[i];
    }
    for (int64_t i = 0; i < kernel[0]; i++)
        for (int64_t j = 0; j < kernel[1]; j++)
            for (int64_t k = 0; k < kernel[2]; k++) {
                const int64_t z = o[0] + i * step[0], y = o[1] + j * step[1], u = o[2] + k * step[2];
                if (z < end[0] && y < end[1] && u < end[2]) ++*padded;
                if (z < 0 || z >= dim[0] || y < 0 || y >= dim[1] || u < 0 || u >= dim[2]) continue;
                sum += ramp[plane[(z * dim[1] + y) * dim[2] + u]];
                ++*hits;
            }
    return sum;
}

static bool run_qlinear_pool(const struct qc_run *r, struct qc_status *st)
{
    const struct pool *s = r->state;
    const struct qc_qlinear_operand x = qc_qlinear_at(r, &s->at.x), y = qc_qlinear_at(r, &s->at.y);
    const struct qc_affine px = qc_qlinear_affine(&x, 0), py = qc_qlinear_affine(&y, 0);
    const struct qc_dtype_info *t = qc_dtype_info(r->out[0].dtype);
    const float lo = (float)t->lo, hi = (float)t->hi, zero = (float)py.zero_point;
    int64_t in = 1, out = 1;
    float ramp[256];
    for (int i = 0; i < s->window.spatial; i++) {
        in *= s->window.in[i];
        out *= s->window.out[i];
    }
    const int64_t planes = x.value->dim[0] * x.value->dim[1];
    qc_table_ramp(ramp, x.value->dtype == QC_I8, px);
    for (int64_t p = 0; p < planes; p++) {
        const uint8_t *from = (const uint8_t *)x.value->data + p * in;
        uint8_t *to = (uint8_t *)r->out[0].data + p * out;
        if (s->global) {
            int64_t sum = 0;
            for (int64_t i = 0; i < in; i++) sum += qc_byte_at(x.value, (size_t)(p * in + i)) - px.zero_point;
            const float m = qc_mean_factor(px.scale, py.scale, (float)in);
            to[0] = qc_byte_of(qc_level_of_product((float)sum, m, lo - zero, hi - zero, true) + zero);
            continue;
        }
        for (int64_t i = 0; i < out; i++) {
            int64_t hits, padded;
            const float sum = window_sum(&hits, &padded, &s->window, from, ramp, i);
            const float count = (float)(s->window.count_include_pad ? padded : hits);
            to[i] = qc_byte_of(qc_average_level(sum, count, py.scale, zero, lo, hi, true));
        }
    }
    return true;
}

QC_KERNEL(qlinear_pool, .order = QC_ORDER_ROW, .prepare = prepare_qlinear_pool, .run = run_qlinear_pool);
