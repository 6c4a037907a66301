// SPDX-License-Identifier: Apache-2.0
/* ONNX Runtime's QLinearAdd, QLinearMul, QLinearConcat, QLinearWhere, QLinearLeakyRelu, QLinearSigmoid,
   QLinearSoftmax, and ONNX's DynamicQuantizeLinear-11, computed as in docs/numerics.md. */
#include "simq/kernels/qlinear/kernel_qlinear.h"

#include <math.h>

#include "arith/params.h"
#include "arith/qbinary.h"
#include "arith/requantize.h"
#include "simq/kernels/real/unary.h"

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

struct qc_affine qc_qlinear_affine(const struct qc_qlinear_operand *o, size_t c)
{
    return (struct qc_affine){.scale = qc_qlinear_scale(o->scale, c), .zero_point = qc_qlinear_zero(o->zero_point, c)};
}

struct qc_node qc_qlinear_function(struct qc_qlinear_function *out, qc_id inputs[2], const struct qc_prepare *p)
{
    struct qc_qlinear q;
    qc_qlinear_of(&q, p->node);
    *out = (struct qc_qlinear_function){.x = qc_qlinear_places(p->node, 0),
                                        .y = qc_qlinear_places(p->node, QC_QLINEAR_RESULT)};
    return qc_qlinear_real(inputs, &q, p->node);
}

/* Fills a table with the result levels for the 256 real numbers in x. */
static void bytes_of_qlinear(uint8_t table[256], const float x[256], const struct qc_run *r,
                             const struct qc_qlinear_operand *y)
{
    qc_table_quantize(table, x, QC_CONTRACT_ONNX, qc_qlinear_affine(y, 0), qc_levels_of(r->out[0].dtype, false));
}

/* --- Two operands --- */

struct binary {
    enum qc_qbinary_op op;
    struct qc_qlinear_places a, b, c;
};

static bool prepare_qlinear_binary(struct qc_prepare *p, struct qc_status *st)
{
    struct binary *s = QC_NEW_STATE(p, struct binary, st);
    if (!s) return false;
    *s = (struct binary){.op = p->node->op == QC_OP_QLinearAdd ? QC_QBINARY_ADD : QC_QBINARY_MUL,
                         .a = qc_qlinear_places(p->node, 0),
                         .b = qc_qlinear_places(p->node, 1),
                         .c = qc_qlinear_places(p->node, QC_QLINEAR_RESULT)};
    return true;
}

static void unsigned_run(void *user, int64_t n, void *const data[], const int64_t stride[])
{
    qc_qbinary_u8(user, data[0], data[1], data[2], (size_t)n, stride);
}

static void signed_run(void *user, int64_t n, void *const data[], const int64_t stride[])
{
    qc_qbinary_i8(user, data[0], data[1], data[2], (size_t)n, stride);
}

static bool run_qlinear_binary(const struct qc_run *r, struct qc_status *st)
{
    const struct binary *s = r->state;
    const struct qc_qlinear_operand a = qc_qlinear_at(r, &s->a), b = qc_qlinear_at(r, &s->b),
                                    c = qc_qlinear_at(r, &s->c);
    const struct qc_affine parameters[] = {qc_qlinear_affine(&a, 0), qc_qlinear_affine(&b, 0),
                                           qc_qlinear_affine(&c, 0)};
    const enum qc_dtype t = r->out[0].dtype;
    struct qc_qbinary f = qc_qbinary_onnx(s->op, parameters, qc_levels_of(t, false));
    const struct qc_view va = qc_view_broadcast(a.value, &r->out[0]), vb = qc_view_broadcast(b.value, &r->out[0]);
    qc_view_each(3, QC_VIEWS(&r->out[0], &va, &vb), qc_dtype_info(t)->is_signed ? signed_run : unsigned_run, &f);
    return true;
}

QC_KERNEL(qlinear_binary, .order = QC_ORDER_ROW, .prepare = prepare_qlinear_binary, .run = run_qlinear_binary);

/* --- Tables: LeakyRelu, Sigmoid --- */

struct table {
    struct qc_qlinear_function at;
    struct qc_unary f;
};

static bool prepare_qlinear_unary(struct qc_prepare *p, struct qc_status *st)
{
    struct table *s = QC_NEW_STATE(p, struct table, st);
    qc_id inputs[2];
    if (!s) return false;
    const struct qc_node real = qc_qlinear_function(&s->at, inputs, p);
    return qc_unary_of(&s->f, &real, st);
}

/* x[b]: the real number of byte b. */
static void ramp_of(float x[256], const struct qc_qlinear_operand *o)
{
    qc_table_ramp(x, o->value->dtype == QC_I8, qc_qlinear_affine(o, 0));
}

static bool run_qlinear_unary(const struct qc_run *r, struct qc_status *st)
{
    const struct table *s = r->state;
    const struct qc_qlinear_operand x = qc_qlinear_at(r, &s->at.x), y = qc_qlinear_at(r, &s->at.y);
    float ramp[256];
    uint8_t bytes[256];
    ramp_of(ramp, &x);
    s->f.fn(ramp, ramp, 256, s->f.a, s->f.b);
    bytes_of_qlinear(bytes, ramp, r, &y);
    qc_table_run(bytes, r->out[0].data, x.value->data, qc_view_count(x.value));
    return true;
}

QC_KERNEL(qlinear_unary, .order = QC_ORDER_ROW, .prepare = prepare_qlinear_unary, .run = run_qlinear_unary);

/* --- Concat and Where: every operand is requantized --- */

struct join {
    int axis, condition;
    unsigned count;
    struct qc_qlinear_places *operand, result;
};

static bool prepare_join(struct qc_prepare *p, struct qc_status *st)
{
    struct join *s = QC_NEW_STATE(p, struct join, st);
    struct qc_qlinear q;
    if (!s) return false;
    qc_qlinear_of(&q, p->node);
    s->count = q.operands;
    s->condition = qc_qlinear_extra_place(p->node);
    s->result = qc_qlinear_places(p->node, QC_QLINEAR_RESULT);
    if (!(s->operand = QC_NEW_ARRAY(p->arena, struct qc_qlinear_places, s->count, st))) return false;
    for (unsigned i = 0; i < s->count; i++) s->operand[i] = qc_qlinear_places(p->node, (int)i);
    return p->node->op != QC_OP_QLinearConcat ||
           qc_axis_of(&s->axis, qc_attr_int(p->node, "axis", 0), p->out[0].rank, st);
}

static void requantize_table(uint8_t bytes[256], const struct qc_run *r, const struct qc_qlinear_operand *x,
                             const struct qc_qlinear_places *result)
{
    const struct qc_qlinear_operand y = qc_qlinear_at(r, result);
    float ramp[256];
    ramp_of(ramp, x);
    bytes_of_qlinear(bytes, ramp, r, &y);
}

static bool run_qlinear_concat(const struct qc_run *r, struct qc_status *st)
{
    const struct join *s = r->state;
    const struct qc_view *to = &r->out[0];
    size_t outer = 1, inner = 1, at = 0;
    for (int i = 0; i < s->axis; i++) outer *= (size_t)to->dim[i];
    for (int i = s->axis; i < to->rank; i++) inner *= (size_t)to->dim[i];
    for (unsigned k = 0; k < s->count; k++) {
        const struct qc_qlinear_operand x = qc_qlinear_at(r, &s->operand[k]);
        const size_t run = qc_view_count(x.value) / (outer ? outer : 1);
        uint8_t bytes[256];
        requantize_table(bytes, r, &x, &s->result);
        for (size_t o = 0; run && o < outer; o++)
            qc_table_run(bytes, (uint8_t *)to->data + o * inner + at, (const uint8_t *)x.value->data + o * run, run);
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

static bool run_qlinear_where(const struct qc_run *r, struct qc_status *st)
{
    const struct join *s = r->state;
    const struct qc_qlinear_operand x = qc_qlinear_at(r, &s->operand[0]), y = qc_qlinear_at(r, &s->operand[1]);
    const struct qc_view *to = &r->out[0];
    const struct qc_view vc = qc_view_broadcast(&r->in[s->condition], to), vx = qc_view_broadcast(x.value, to),
                         vy = qc_view_broadcast(y.value, to);
    struct choice f;
    requantize_table(f.x, r, &x, &s->result);
    requantize_table(f.y, r, &y, &s->result);
    qc_view_each(4, QC_VIEWS(to, &vc, &vx, &vy), choose_run, &f);
    return true;
}

QC_KERNEL(qlinear_concat, .order = QC_ORDER_ROW, .prepare = prepare_join, .run = run_qlinear_concat);
QC_KERNEL(qlinear_where, .order = QC_ORDER_ROW, .prepare = prepare_join, .run = run_qlinear_where);

/* --- Softmax --- */

struct softmax {
    struct qc_qlinear_function at;
    size_t outer, n, inner;
};

static bool prepare_qlinear_softmax(struct qc_prepare *p, struct qc_status *st)
{
    struct softmax *s = QC_NEW_STATE(p, struct softmax, st);
    const struct qc_view *x = &p->in[0];
    int axis;
    if (!s || !qc_axis_of(&axis, qc_attr_int(p->node, "axis", -1), x->rank, st)) return false;
    const bool flattens =
        qc_attr_int(p->node, "opset", 13) < 13; /* opsets before 13: over all dimensions from the axis on */
    s->outer = s->n = s->inner = 1;
    for (int i = 0; i < x->rank; i++)
        *(i < axis ? &s->outer : i == axis || flattens ? &s->n : &s->inner) *= (size_t)x->dim[i];
    qc_id inputs[2];
    qc_qlinear_function(&s->at, inputs, p);
    return true;
}

/* As ONNX Runtime: a table holds exp((i - 255) * sx) as integers of up to 23 bits (fewer if the sum of n would
   exceed 32 bits). The index is shifted so that the largest element uses the last entry. q = (e * floor(1/sy) +
   sum/2) / sum + zy, saturated. */
static bool run_qlinear_softmax(const struct qc_run *r, struct qc_status *st)
{
    const struct softmax *s = r->state;
    const struct qc_qlinear_operand x = qc_qlinear_at(r, &s->at.x), y = qc_qlinear_at(r, &s->at.y);
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

QC_KERNEL(qlinear_softmax, .order = QC_ORDER_ROW, .prepare = prepare_qlinear_softmax, .run = run_qlinear_softmax);

/* --- DynamicQuantizeLinear --- */

static bool run_dynamic(const struct qc_run *r, struct qc_status *st)
{
    const size_t n = qc_view_count(&r->in[0]);
    const float *x = r->in[0].data;
    uint8_t *y = r->out[0].data;
    const struct qc_affine p = qc_dynamic_parameters(x, n);
    for (size_t i = 0; i < n; i++) y[i] = (uint8_t)qc_quantize_one(x[i], p, (struct qc_levels){.lo = 0, .hi = 255});
    if (r->output_count > 1) *(float *)r->out[1].data = p.scale;
    if (r->output_count > 2) *(uint8_t *)r->out[2].data = (uint8_t)p.zero_point;
    return true;
}

QC_KERNEL(dynamic_quantize, .order = QC_ORDER_ROW, .run = run_dynamic);
