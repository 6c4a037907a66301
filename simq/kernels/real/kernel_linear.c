// SPDX-License-Identifier: Apache-2.0
/* QuantizeLinear and DequantizeLinear of model files (ONNX 10 to 23: per tensor, per axis, blocks), in float32:
   - QuantizeLinear: saturate(RNE(f(x / scale)) + zero point); NaN becomes the lowest level
   - DequantizeLinear: f(float(q - zero point) * scale), rounded again if the result is a 16-bit float */
#include <string.h>

#include "graph/types/number_format.h"
#include "simq/core/convert.h"
#include "simq/core/kernel_util.h"
#include "simq/plan/plan_parts.h"

enum { BLOCK = 256 };

struct linear {
    bool quantize;
    enum qc_small_overflow overflow; /* for results that are floats of at most 8 bits */
    int axis;                        /* of scales per axis and of blocks */
    int64_t block;                   /* 0: none */
    float lo, hi;                    /* levels of the result */
};

/* Load n elements: of any type as float32; of integers of up to 32 bits as int32. */
static void load_float(float *to, enum qc_dtype t, const void *from, int64_t n, int64_t stride)
{
    if (t == QC_F32 && stride == 1) {
        memcpy(to, from, (size_t)n * sizeof *to);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        const int64_t k = i * stride;
        float v = 0;
        if (t == QC_F32)
            v = ((const float *)from)[k];
        else if (t == QC_F16)
            v = qc_half_to_float(((const uint16_t *)from)[k]);
        else if (t == QC_BF16)
            v = qc_bfloat_to_float(((const uint16_t *)from)[k]);
        else if (t == QC_F64)
            v = (float)((const double *)from)[k];
        else if (t == QC_I32)
            v = (float)((const int32_t *)from)[k];
        else if (qc_is_small_float(t))
            v = qc_small_to_float(t, ((const uint8_t *)from)[k]);
        to[i] = v;
    }
}

#define QC_LINEAR_LEVELS(X)                                                                                            \
    X(U8, uint8_t)                                                                                                     \
    X(I8, int8_t)                                                                                                      \
    X(U16, uint16_t) X(I16, int16_t) X(I32, int32_t) X(U4, uint8_t) X(I4, int8_t) X(U2, uint8_t) X(I2, int8_t)

#define QC_LEVEL(NAME, T)                                                                                              \
    static void load_##NAME(int32_t *to, const T *from, int64_t n, int64_t stride)                                     \
    {                                                                                                                  \
        if (stride == 1)                                                                                               \
            for (int64_t i = 0; i < n; i++) to[i] = from[i];                                                           \
        else                                                                                                           \
            for (int64_t i = 0; i < n; i++) to[i] = from[i * stride];                                                  \
    }                                                                                                                  \
    static void store_##NAME(T *to, const int32_t *from, int64_t n, int64_t stride)                                    \
    {                                                                                                                  \
        if (stride == 1)                                                                                               \
            for (int64_t i = 0; i < n; i++) to[i] = (T)from[i];                                                        \
        else                                                                                                           \
            for (int64_t i = 0; i < n; i++) to[i * stride] = (T)from[i];                                               \
    }
QC_LINEAR_LEVELS(QC_LEVEL)

static void load_level(int32_t *to, enum qc_dtype t, const void *from, int64_t n, int64_t stride)
{
#define QC_IF(NAME, T)                                                                                                 \
    if (t == QC_##NAME) load_##NAME(to, from, n, stride);
    QC_LINEAR_LEVELS(QC_IF)
#undef QC_IF
}

static void store_level(enum qc_dtype t, void *to, const int32_t *from, int64_t n, int64_t stride)
{
#define QC_IF(NAME, T)                                                                                                 \
    if (t == QC_##NAME) store_##NAME(to, from, n, stride);
    QC_LINEAR_LEVELS(QC_IF)
#undef QC_IF
}

static void store_float(enum qc_dtype t, void *to, const float *from, enum qc_small_overflow overflow, int64_t n,
                        int64_t stride)
{
    for (int64_t i = 0; i < n; i++) {
        if (t == QC_F32)
            ((float *)to)[i * stride] = from[i];
        else if (t == QC_F16)
            ((uint16_t *)to)[i * stride] = qc_float_to_half(from[i]);
        else if (qc_is_small_float(t))
            ((uint8_t *)to)[i * stride] = qc_float_to_small(t, (double)from[i], overflow, QC_SMALL_NEAREST);
        else
            ((uint16_t *)to)[i * stride] = qc_float_to_bfloat(from[i]);
    }
}

QC_VECTOR_ROUND(linear_quantize,
                (int32_t * y, const float *x, const float *s, const int32_t *z, int64_t n, float lo, float hi),
                (y, x, s, z, n, lo, hi))
{
    for (int64_t i = 0; i < n; i++) {
        const float zero = (float)z[i];
        y[i] = (int32_t)qc_level_of_real(x[i], s[i], lo - zero, hi - zero, native) + z[i];
    }
}

/* For types of up to 16 bits, the difference fits in int32; for wider types the zero point is 0. */
QC_VECTOR(linear_dequantize, (float *y, const int32_t *x, const float *s, const int32_t *z, int64_t n), (y, x, s, z, n))
{
    for (int64_t i = 0; i < n; i++) y[i] = (float)(x[i] - z[i]) * s[i];
}

struct call {
    const struct linear *l;
    enum qc_dtype y, x, s, z;
};

static void linear_run(void *user, int64_t n, void *const data[], const int64_t stride[])
{
    const struct call *c = user;
    float s[BLOCK] = {0}, real[BLOCK] = {0};
    int32_t z[BLOCK] = {0}, level[BLOCK] = {0};
    for (int64_t i = 0; i < n; i += BLOCK) {
        const int64_t count = n - i < BLOCK ? n - i : BLOCK;
        const bool more = i > 0 && stride[2] == 0 && stride[3] == 0; /* the same parameters as in the previous block */
        char *y = (char *)data[0] + i * stride[0] * (int64_t)qc_dtype_size(c->y);
        const char *x = (const char *)data[1] + i * stride[1] * (int64_t)qc_dtype_size(c->x);
        if (!more) {
            load_float(s, c->s, (const char *)data[2] + i * stride[2] * (int64_t)qc_dtype_size(c->s), count, stride[2]);
            load_level(z, c->z, (const char *)data[3] + i * stride[3] * (int64_t)qc_dtype_size(c->z), count, stride[3]);
        }
        if (qc_is_small_float(c->l->quantize ? c->y : c->x)) { /* floats of at most 8 bits have zero point 0 */
            load_float(real, c->x, x, count, stride[1]);
            for (int64_t k = 0; k < count; k++) real[k] = c->l->quantize ? real[k] / s[k] : real[k] * s[k];
            store_float(c->y, y, real, c->l->overflow, count, stride[0]);
        } else if (c->l->quantize) {
            load_float(real, c->x, x, count, stride[1]);
            linear_quantize(level, real, s, z, count, c->l->lo, c->l->hi);
            store_level(c->y, y, level, count, stride[0]);
        } else {
            load_level(level, c->x, x, count, stride[1]);
            if (c->x == QC_I32)
                for (int64_t k = 0; k < count; k++) real[k] = (float)((int64_t)level[k] - z[k]) * s[k];
            else
                linear_dequantize(real, level, s, z, count);
            store_float(c->y, y, real, c->l->overflow, count, stride[0]);
        }
    }
}

static bool prepare_linear(struct qc_prepare *p, struct qc_status *st)
{
    struct linear *l = QC_NEW_STATE(p, struct linear, st);
    if (!l) return false;
    l->quantize = p->node->op == QC_OP_QuantizeLinear;
    l->overflow = qc_attr_int(p->node, "saturate", 1) ? QC_SMALL_SATURATES : QC_SMALL_OVERFLOWS;
    l->block = qc_attr_int(p->node, "block_size", 0);
    if (p->in[1].rank > 0 && (l->block || qc_view_count(&p->in[1]) != 1) && !qc_kernel_axis(&l->axis, p, 1, st))
        return false;
    if (l->block && p->in[0].rank + 1 > QC_RANK_MAX)
        return qc_fail(st, QC_UNSUPPORTED, "blocks of a tensor of rank %d", p->in[0].rank);
    const struct qc_dtype_info *t = qc_dtype_info(p->out[0].dtype);
    l->lo = (float)t->lo;
    l->hi = (float)t->hi;
    return true;
}

/* Returns the parameters as a view over x: one, or one per element of the axis. */
static struct qc_view along(const struct qc_view *v, const struct qc_view *x, int axis)
{
    struct qc_view r = *x;
    r.dtype = v->dtype;
    r.data = v->data;
    for (int i = 0; i < r.rank; i++) r.stride[i] = 0;
    if (qc_view_count(v) > 1) r.stride[axis] = v->stride[0];
    return r;
}

/* Restricts dimension `axis` to [begin, begin + blocks * block) and splits it in two: blocks, and elements of a
   block. */
static struct qc_view split_linear(const struct qc_view *v, int axis, int64_t begin, int64_t blocks, int64_t block)
{
    struct qc_view r = qc_view_part(v, axis, begin, blocks);
    for (int i = r.rank++; i > axis + 1; i--) {
        r.dim[i] = r.dim[i - 1];
        r.stride[i] = r.stride[i - 1];
    }
    r.dim[axis + 1] = block;
    r.stride[axis + 1] = v->stride[axis];
    r.stride[axis] = v->stride[axis] * block;
    return r;
}

/* The same for parameters: one entry per block. */
static struct qc_view split_parameters(const struct qc_view *v, int axis, int64_t first, int64_t blocks, int64_t block)
{
    struct qc_view r = split_linear(v, axis, first, blocks, block);
    r.stride[axis] = v->stride[axis];
    r.stride[axis + 1] = 0;
    return r;
}

static bool run_linear(const struct qc_run *r, struct qc_status *st)
{
    static const int32_t zero = 0;
    const struct linear *l = r->state;
    const struct qc_view *x = &r->in[0], *y = &r->out[0], *s = &r->in[1];
    const bool given = r->input_count > 2 && r->in[2].rank >= 0;
    struct qc_view none = *s;
    if (!given) {
        none.dtype = QC_I32;
        none.data = (void *)(uintptr_t)&zero;
        for (int i = 0; i < none.rank; i++) none.stride[i] = 0;
    }
    const struct qc_view *z = given ? &r->in[2] : &none;
    struct call c = {.l = l, .y = y->dtype, .x = x->dtype, .s = s->dtype, .z = z->dtype};
    if (!l->block) {
        const struct qc_view vs = along(s, x, l->axis), vz = along(z, x, l->axis);
        const struct qc_view *const views[] = {y, x, &vs, &vz};
        qc_view_each(4, views, linear_run, &c);
        return true;
    }
    const int64_t size = x->dim[l->axis], whole = size / l->block, rest = size % l->block;
    for (int part = 0; part < 2; part++) {
        const int64_t begin = part ? whole * l->block : 0, first = part ? whole : 0, blocks = part ? 1 : whole,
                      block = part ? rest : l->block;
        if (blocks == 0 || block == 0) continue;
        const struct qc_view vy = split_linear(y, l->axis, begin, blocks, block),
                             vx = split_linear(x, l->axis, begin, blocks, block),
                             vs = split_parameters(s, l->axis, first, blocks, block),
                             vz = split_parameters(z, l->axis, first, blocks, block);
        const struct qc_view *const views[] = {&vy, &vx, &vs, &vz};
        qc_view_each(4, views, linear_run, &c);
    }
    return true;
}

/* QuantizeLinear and DequantizeLinear with the same parameters as one step, if nothing else reads the integers. */
struct fake {
    float scale, lo, hi; /* levels minus the zero point */
    int mantissa, least; /* of floating-point levels (struct qc_levels) */
};

static bool prepare_fake(struct qc_prepare *p, struct qc_status *st)
{
    struct fake *f = QC_NEW_STATE(p, struct fake, st);
    int32_t zero = 0;
    if (!f) return false;
    load_float(&f->scale, p->in[1].dtype, p->in[1].data, 1, 1);
    if (qc_kernel_has(p, 2)) load_level(&zero, p->in[2].dtype, p->in[2].data, 1, 1);
    const struct qc_levels levels = qc_levels_of(qc_value(p->graph, p->node->outputs)->type.dtype, false);
    f->lo = (float)(levels.lo - zero);
    f->hi = (float)(levels.hi - zero);
    f->mantissa = levels.mantissa;
    f->least = levels.least;
    return true;
}

QC_VECTOR_ROUND(fake, (float *y, const float *x, int64_t n, const struct fake *f), (y, x, n, f))
{
    const float scale = f->scale, lo = f->lo, hi = f->hi;
    const int mantissa = f->mantissa, least = f->least;
    if (mantissa)
        for (int64_t i = 0; i < n; i++) y[i] = qc_float_level(x[i] / scale, lo, hi, mantissa, least) * scale;
    else
        QC_IVDEP
    for (int64_t i = 0; i < n; i++) y[i] = qc_level_of_real(x[i], scale, lo, hi, native) * scale;
}

static void fake_run(void *user, int64_t n, void *const data[], const int64_t stride[])
{
    const struct fake *f = user;
    float *y = data[0];
    const float *x = data[1];
    if (stride[0] == 1 && stride[1] == 1)
        fake(y, x, n, f);
    else
        for (int64_t i = 0; i < n; i++) fake(y + i * stride[0], x + i * stride[1], 1, f);
}

static bool run_fake(const struct qc_run *r, struct qc_status *st)
{
    return qc_kernel_map(r, fake_run, r->state);
}

QC_KERNEL(fake_quantize, .order = QC_ORDER_ANY, .in_place = 1, .prepare = prepare_fake, .run = run_fake);
QC_KERNEL(quantize_linear, .halves = true, .order = QC_ORDER_ANY, .prepare = prepare_linear, .run = run_linear);
QC_KERNEL(dequantize_linear, .halves = true, .order = QC_ORDER_ANY, .prepare = prepare_linear, .run = run_linear);
