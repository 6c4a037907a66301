// SPDX-License-Identifier: Apache-2.0
/* ONNX Runtime's QLinearAdd, QLinearMul, QLinearConcat, QLinearWhere, QLinearLeakyRelu, QLinearSigmoid, QLinearSoftmax, and ONNX's
   DynamicQuantizeLinear-11, with the steps of docs/numerics.md. */
#include "simq/kernel_qlinear.h"

#include <math.h>
#include <string.h>

#include "simq/rounding.h"
#include "simq/unary.h"

struct qc_qlinear_operand qc_qlinear_at(const struct qc_run *r, const struct qc_qlinear_places *p)
{
    static const struct qc_view absent = {.dtype = QC_NONE, .rank = -1};
    return (struct qc_qlinear_operand){.value = p->value >= 0 ? &r->in[p->value] : &absent,
                                       .scale = p->scale >= 0 ? &r->in[p->scale] : &absent,
                                       .zero_point = p->zero_point >= 0 ? &r->in[p->zero_point] : &absent};
}

float qc_qlinear_scale(const struct qc_view *v, size_t c)
{
    if (v->rank < 0) return 1;
    const size_t i = qc_view_count(v) > 1 ? c : 0;
    return v->dtype == QC_F16 ? qc_half_to_float(((const uint16_t *)v->data)[i]) : ((const float *)v->data)[i];
}

int32_t qc_qlinear_zero(const struct qc_view *v, size_t c)
{
    return v->rank < 0 ? 0 : qc_byte_at(v, qc_view_count(v) > 1 ? c : 0);
}

void qc_qlinear_ramp(float x[256], enum qc_dtype t, float scale, int32_t zero_point)
{
    for (int b = 0; b < 256; b++) x[b] = (float)((t == QC_I8 ? (int)(int8_t)b : b) - zero_point) * scale;
}

void qc_qlinear_bytes(uint8_t table[256], const float x[256], enum qc_dtype t, float scale, int32_t zero_point)
{
    const struct qc_dtype_info *info = qc_dtype_info(t);
    const float lo = (float)(info->lo - zero_point), hi = (float)(info->hi - zero_point);
    for (int b = 0; b < 256; b++) table[b] = qc_byte_of(nearbyintf(qc_clamp(x[b] / scale, lo, hi)) + (float)zero_point);
}

static void look_up(uint8_t *y, const uint8_t *x, size_t n, const uint8_t table[256])
{
    for (size_t i = 0; i < n; i++) y[i] = table[x[i]];
}

/* --- Two operands --- */

struct binary {
    bool add;
    struct qc_qlinear_places a, b, c;
};

static bool prepare_binary(struct qc_prepare *p, struct qc_status *st)
{
    struct binary *s = QC_NEW(p->arena, struct binary, st);
    if (!s) return false;
    *s = (struct binary){.add = p->node->op == QC_OP_QLinearAdd,
                         .a = qc_qlinear_places(p->node, 0),
                         .b = qc_qlinear_places(p->node, 1),
                         .c = qc_qlinear_places(p->node, QC_QLINEAR_RESULT)};
    p->state = s;
    return true;
}

struct pair {
    bool add, is_signed;
    float ra, rb, k, za, zb, zc, m, lo, hi;
};

/* Add: RNE(fma(qa, ra, fma(qb, rb, k))); Mul: RNE(f(f(product * m) + zc)). */
static void pair_run(void *user, int64_t n, void *const data[], const int64_t stride[])
{
    const struct pair *s = user;
    uint8_t *y = data[0];
    const uint8_t *a = data[1], *b = data[2];
    for (int64_t i = 0; i < n; i++) {
        const uint8_t ba = a[i * stride[1]], bb = b[i * stride[2]];
        const float qa = s->is_signed ? (float)(int8_t)ba : (float)ba,
                    qb = s->is_signed ? (float)(int8_t)bb : (float)bb;
        const float q = s->add ? fmaf(qa, s->ra, fmaf(qb, s->rb, s->k)) : (qa - s->za) * (qb - s->zb) * s->m + s->zc;
        y[i * stride[0]] = qc_byte_of(qc_clamp(nearbyintf(q), s->lo, s->hi));
    }
}

static bool run_binary(const struct qc_run *r, struct qc_status *st)
{
    const struct binary *s = r->state;
    const struct qc_qlinear_operand a = qc_qlinear_at(r, &s->a), b = qc_qlinear_at(r, &s->b),
                                    c = qc_qlinear_at(r, &s->c);
    const float sa = qc_qlinear_scale(a.scale, 0), sb = qc_qlinear_scale(b.scale, 0), sc = qc_qlinear_scale(c.scale, 0);
    const struct qc_dtype_info *t = qc_dtype_info(r->out[0].dtype);
    struct pair f = {.add = s->add, .is_signed = t->is_signed, .lo = (float)t->lo, .hi = (float)t->hi};
    (void)st;
    f.za = (float)qc_qlinear_zero(a.zero_point, 0);
    f.zb = (float)qc_qlinear_zero(b.zero_point, 0);
    f.zc = (float)qc_qlinear_zero(c.zero_point, 0);
    f.ra = sa / sc;
    f.rb = sb / sc;
    f.k = f.zc - fmaf(f.ra, f.za, f.rb * f.zb);
    f.m = sa * sb / sc;
    const struct qc_view va = qc_view_broadcast(a.value, &r->out[0]), vb = qc_view_broadcast(b.value, &r->out[0]);
    const struct qc_view *const views[] = {&r->out[0], &va, &vb};
    qc_view_each(3, views, pair_run, &f);
    return true;
}

const struct qc_kernel qc_kernel_qlinear_binary = {.name = "qlinear_binary",
                                                   .order = QC_ORDER_ROW,
                                                   .prepare = prepare_binary,
                                                   .run = run_binary};

/* --- Tables: LeakyRelu, Sigmoid --- */

struct table {
    struct qc_qlinear_places x, y;
    struct qc_unary f;
};

static bool prepare_unary(struct qc_prepare *p, struct qc_status *st)
{
    struct table *s = QC_NEW(p->arena, struct table, st);
    struct qc_qlinear q;
    qc_id inputs[2];
    if (!s) return false;
    qc_qlinear_of(&q, p->node);
    const struct qc_node real = qc_qlinear_real(inputs, &q, p->node);
    s->x = qc_qlinear_places(p->node, 0);
    s->y = qc_qlinear_places(p->node, QC_QLINEAR_RESULT);
    p->state = s;
    return qc_unary_of(&s->f, &real, st);
}

static bool run_unary(const struct qc_run *r, struct qc_status *st)
{
    const struct table *s = r->state;
    const struct qc_qlinear_operand x = qc_qlinear_at(r, &s->x), y = qc_qlinear_at(r, &s->y);
    float ramp[256];
    uint8_t bytes[256];
    (void)st;
    qc_qlinear_ramp(ramp, x.value->dtype, qc_qlinear_scale(x.scale, 0), qc_qlinear_zero(x.zero_point, 0));
    s->f.fn(ramp, ramp, 256, s->f.a, s->f.b);
    qc_qlinear_bytes(bytes, ramp, r->out[0].dtype, qc_qlinear_scale(y.scale, 0), qc_qlinear_zero(y.zero_point, 0));
    look_up(r->out[0].data, x.value->data, qc_view_count(x.value), bytes);
    return true;
}

const struct qc_kernel qc_kernel_qlinear_unary = {.name = "qlinear_unary",
                                                  .order = QC_ORDER_ROW,
                                                  .prepare = prepare_unary,
                                                  .run = run_unary};

/* --- Concat and Where: every operand is requantized --- */

struct join {
    int axis, condition;
    unsigned count;
    struct qc_qlinear_places *operand, result;
};

static bool prepare_join(struct qc_prepare *p, struct qc_status *st)
{
    struct join *s = QC_NEW(p->arena, struct join, st);
    struct qc_qlinear q;
    if (!s) return false;
    qc_qlinear_of(&q, p->node);
    s->count = q.operands;
    s->condition = qc_qlinear_extra_place(p->node);
    s->result = qc_qlinear_places(p->node, QC_QLINEAR_RESULT);
    if (!(s->operand = QC_NEW_ARRAY(p->arena, struct qc_qlinear_places, s->count, st))) return false;
    for (unsigned i = 0; i < s->count; i++) s->operand[i] = qc_qlinear_places(p->node, (int)i);
    p->state = s;
    return p->node->op != QC_OP_QLinearConcat ||
           qc_axis_of(&s->axis, qc_attr_int(p->node, "axis", 0), p->out[0].rank, st);
}

static void requantize_table(uint8_t bytes[256], const struct qc_run *r, const struct qc_qlinear_operand *x,
                             const struct qc_qlinear_places *result)
{
    const struct qc_qlinear_operand y = qc_qlinear_at(r, result);
    float ramp[256];
    qc_qlinear_ramp(ramp, x->value->dtype, qc_qlinear_scale(x->scale, 0), qc_qlinear_zero(x->zero_point, 0));
    qc_qlinear_bytes(bytes, ramp, r->out[0].dtype, qc_qlinear_scale(y.scale, 0), qc_qlinear_zero(y.zero_point, 0));
}

static bool run_concat(const struct qc_run *r, struct qc_status *st)
{
    const struct join *s = r->state;
    const struct qc_view *to = &r->out[0];
    size_t outer = 1, inner = 1, at = 0;
    (void)st;
    for (int i = 0; i < s->axis; i++) outer *= (size_t)to->dim[i];
    for (int i = s->axis; i < to->rank; i++) inner *= (size_t)to->dim[i];
    for (unsigned k = 0; k < s->count; k++) {
        const struct qc_qlinear_operand x = qc_qlinear_at(r, &s->operand[k]);
        const size_t run = qc_view_count(x.value) / (outer ? outer : 1);
        uint8_t bytes[256];
        requantize_table(bytes, r, &x, &s->result);
        for (size_t o = 0; run && o < outer; o++)
            look_up((uint8_t *)to->data + o * inner + at, (const uint8_t *)x.value->data + o * run, run, bytes);
        at += run;
    }
    return true;
}

struct choice {
    uint8_t x[256], y[256];
};

static void choose_run(void *user, int64_t n, void *const data[], const int64_t stride[])
{
    const struct choice *s = user;
    uint8_t *o = data[0];
    const uint8_t *c = data[1], *x = data[2], *y = data[3];
    for (int64_t i = 0; i < n; i++)
        o[i * stride[0]] = c[i * stride[1]] ? s->x[x[i * stride[2]]] : s->y[y[i * stride[3]]];
}

static bool run_where(const struct qc_run *r, struct qc_status *st)
{
    const struct join *s = r->state;
    const struct qc_qlinear_operand x = qc_qlinear_at(r, &s->operand[0]), y = qc_qlinear_at(r, &s->operand[1]);
    const struct qc_view *to = &r->out[0];
    const struct qc_view vc = qc_view_broadcast(&r->in[s->condition], to), vx = qc_view_broadcast(x.value, to),
                         vy = qc_view_broadcast(y.value, to);
    const struct qc_view *const views[] = {to, &vc, &vx, &vy};
    struct choice f;
    (void)st;
    requantize_table(f.x, r, &x, &s->result);
    requantize_table(f.y, r, &y, &s->result);
    qc_view_each(4, views, choose_run, &f);
    return true;
}

const struct qc_kernel qc_kernel_qlinear_concat = {.name = "qlinear_concat",
                                                   .order = QC_ORDER_ROW,
                                                   .prepare = prepare_join,
                                                   .run = run_concat};
const struct qc_kernel qc_kernel_qlinear_where = {.name = "qlinear_where",
                                                  .order = QC_ORDER_ROW,
                                                  .prepare = prepare_join,
                                                  .run = run_where};

/* --- Softmax --- */

struct softmax {
    struct qc_qlinear_places x, y;
    size_t outer, n, inner;
};

static bool prepare_softmax(struct qc_prepare *p, struct qc_status *st)
{
    struct softmax *s = QC_NEW(p->arena, struct softmax, st);
    const struct qc_view *x = &p->in[0];
    int axis;
    if (!s || !qc_axis_of(&axis, qc_attr_int(p->node, "axis", -1), x->rank, st)) return false;
    const bool flattens = qc_attr_int(p->node, "opset", 13) < 13; /* before 13: over all dimensions from the axis on */
    s->outer = s->n = s->inner = 1;
    for (int i = 0; i < x->rank; i++)
        *(i < axis ? &s->outer : i == axis || flattens ? &s->n : &s->inner) *= (size_t)x->dim[i];
    s->x = qc_qlinear_places(p->node, 0);
    s->y = qc_qlinear_places(p->node, QC_QLINEAR_RESULT);
    p->state = s;
    return true;
}

/* As ONNX Runtime: exp((i - 255) * sx) as integers of up to 23 bits (fewer where the sum of n would not fit 32), shifted so that the largest
   element meets the last entry; q = (e * floor(1/sy) + sum/2) / sum + zy, saturated. */
static bool run_softmax(const struct qc_run *r, struct qc_status *st)
{
    const struct softmax *s = r->state;
    const struct qc_qlinear_operand x = qc_qlinear_at(r, &s->x), y = qc_qlinear_at(r, &s->y);
    const float sx = qc_qlinear_scale(x.scale, 0), inverse = floorf(1.0f / qc_qlinear_scale(y.scale, 0));
    const int flip = x.value->dtype == QC_I8 ? 128 : 0;
    const struct qc_dtype_info *t = qc_dtype_info(r->out[0].dtype);
    const int32_t zero = qc_qlinear_zero(y.zero_point, 0);
    const double most = fmin((double)UINT32_MAX / (double)s->n, 0x7fffff);
    uint32_t e[256];
    if (!(inverse >= 0 && inverse <= 0x1p23f)) return qc_fail(st, QC_BAD_INPUT, "the result's scale is not handled");
    for (int i = 0; i < 256; i++) e[i] = (uint32_t)lrint(most * exp((double)(i - 255) * (double)sx));
    for (size_t row = 0; row < s->outer * s->inner; row++) {
        const size_t at = row / s->inner * s->n * s->inner + row % s->inner;
        int highest = 0;
        uint64_t sum = 0;
        for (size_t i = 0; i < s->n; i++) {
            const int q = (int)qc_byte_at(x.value, at + i * s->inner) + flip;
            highest = q > highest ? q : highest;
        }
        const int shift = 255 - highest;
        for (size_t i = 0; i < s->n; i++) sum += e[(int)qc_byte_at(x.value, at + i * s->inner) + flip + shift];
        for (size_t i = 0; i < s->n; i++) {
            const uint64_t v = e[(int)qc_byte_at(x.value, at + i * s->inner) + flip + shift];
            const int64_t q = (int64_t)((v * (uint64_t)inverse + (sum >> 1)) / sum) + zero;
            ((uint8_t *)r->out[0].data)[at + i * s->inner] = (uint8_t)(q > t->hi ? t->hi : q);
        }
    }
    return true;
}

const struct qc_kernel qc_kernel_qlinear_softmax = {.name = "qlinear_softmax",
                                                    .order = QC_ORDER_ROW,
                                                    .prepare = prepare_softmax,
                                                    .run = run_softmax};

/* --- DynamicQuantizeLinear --- */

static bool run_dynamic(const struct qc_run *r, struct qc_status *st)
{
    const size_t n = qc_view_count(&r->in[0]);
    const float *x = r->in[0].data;
    uint8_t *y = r->out[0].data;
    float lo = 0, hi = 0;
    (void)st;
    for (size_t i = 0; i < n; i++) {
        lo = x[i] < lo ? x[i] : lo;
        hi = x[i] > hi ? x[i] : hi;
    }
    const float scale = hi == lo ? 1.0f : (hi - lo) / 255.0f;
    const float zero = nearbyintf(qc_clamp(-lo / scale, 0, 255));
    for (size_t i = 0; i < n; i++) y[i] = qc_byte_of(qc_clamp(nearbyintf(x[i] / scale) + zero, 0, 255));
    if (r->output_count > 1) *(float *)r->out[1].data = scale;
    if (r->output_count > 2) *(uint8_t *)r->out[2].data = qc_byte_of(zero);
    return true;
}

const struct qc_kernel qc_kernel_dynamic_quantize = {.name = "dynamic_quantize",
                                                     .order = QC_ORDER_ROW,
                                                     .run = run_dynamic};
