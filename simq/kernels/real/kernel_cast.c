// SPDX-License-Identifier: Apache-2.0
/* Cast-25 between all element types. Floats are truncated to integers and saturate; NaN gives 0. ONNX leaves both
   open, except for 4-bit integers, which its tests take modulo 16. Integers convert to narrower ones modulo 2^bits;
   numbers convert to bool as x != 0; floats round half to even. */
#include <math.h>
#include <string.h>

#include "graph/types/number_format.h"
#include "simq/core/kernel_util.h"

enum { BLOCK = 256 };

/* Numbers are converted through the widest type of their kind. */
enum kind { SIGNED, UNSIGNED, FLOAT };

struct wide {
    enum kind kind;
    union {
        int64_t i[BLOCK];
        uint64_t u[BLOCK];
        double f[BLOCK];
    } as;
};

struct cast {
    enum qc_dtype from, to;
    enum qc_small_overflow overflow; /* for floats of at most 8 bits */
    enum qc_small_rounding rounding;
};

/* Rounds v to float; if v lies between two floats, returns the one with an odd last bit. A further rounding to fewer
   bits is then correct. */
static float to_odd(double v)
{
    float f = (float)v;
    if (v != v || (double)f == v || isinf(v)) return f;
    uint32_t bits;
    if (isinf(f)) f = nextafterf(f, 0.0f);
    memcpy(&bits, &f, sizeof bits);
    if (bits & 1) return f;
    return nextafterf(f, (double)f < v ? INFINITY : -INFINITY);
}

static void load(struct wide *w, enum qc_dtype t, const void *data, int64_t n, int64_t stride)
{
#define QC_LOAD(MEMBER, T)                                                                                             \
    for (int64_t i = 0; i < n; i++) w->as.MEMBER[i] = ((const T *)data)[i * stride]
    const struct qc_dtype_info *info = qc_dtype_info(t);
    w->kind = info->is_float ? FLOAT : info->is_signed ? SIGNED : UNSIGNED;
    switch (t) {
    case QC_F32:
        for (int64_t i = 0; i < n; i++) w->as.f[i] = (double)((const float *)data)[i * stride];
        break;
    case QC_F64: QC_LOAD(f, double); break;
    case QC_F16:
        for (int64_t i = 0; i < n; i++) w->as.f[i] = (double)qc_half_to_float(((const uint16_t *)data)[i * stride]);
        break;
    case QC_BF16:
        for (int64_t i = 0; i < n; i++) w->as.f[i] = (double)qc_bfloat_to_float(((const uint16_t *)data)[i * stride]);
        break;
    QC_CASE_SMALL_FLOATS:
        for (int64_t i = 0; i < n; i++) w->as.f[i] = (double)qc_small_to_float(t, ((const uint8_t *)data)[i * stride]);
        break;
    case QC_I8:
    case QC_I2:
    case QC_I4: QC_LOAD(i, int8_t); break;
    case QC_I16: QC_LOAD(i, int16_t); break;
    case QC_I32: QC_LOAD(i, int32_t); break;
    case QC_I64: QC_LOAD(i, int64_t); break;
    case QC_U8:
    case QC_U2:
    case QC_U4: QC_LOAD(u, uint8_t); break;
    case QC_BOOL:
        for (int64_t i = 0; i < n; i++) w->as.u[i] = ((const uint8_t *)data)[i * stride] != 0;
        break;
    case QC_U16: QC_LOAD(u, uint16_t); break;
    case QC_U32: QC_LOAD(u, uint32_t); break;
    case QC_U64: QC_LOAD(u, uint64_t); break;
    case QC_NONE:
    case QC_DTYPE_COUNT: break;
    }
#undef QC_LOAD
}

/* Float to integer: truncates and clamps to the type. */
static void truncate_all(struct wide *w, enum qc_dtype t, int64_t n)
{
    const struct qc_dtype_info *info = qc_dtype_info(t);
    for (int64_t i = 0; i < n; i++) {
        const double v = w->as.f[i] != w->as.f[i] ? 0 : trunc(w->as.f[i]);
        if (info->is_signed) {
            const int64_t most = (int64_t)((UINT64_C(1) << (info->bits - 1)) - 1), least = -most - 1;
            w->as.i[i] = v <= (double)least ? least : v >= (double)most ? most : (int64_t)v;
        } else {
            const uint64_t most = info->bits == 64 ? UINT64_MAX : (UINT64_C(1) << info->bits) - 1;
            w->as.u[i] = v <= 0 ? 0 : v >= (double)most ? most : (uint64_t)v;
        }
    }
    w->kind = info->is_signed ? SIGNED : UNSIGNED;
}

static void store_cast(const struct cast *c, struct wide *w, void *data, int64_t n, int64_t stride)
{
    const enum qc_dtype t = c->to;
#define QC_EACH(T, EXPRESSION)                                                                                         \
    for (int64_t i = 0; i < n; i++) ((T *)data)[i * stride] = (T)(EXPRESSION)
#define QC_CONVERT(T, FUNCTION)                                                                                        \
    switch (w->kind) {                                                                                                 \
    case SIGNED: QC_EACH(T, FUNCTION(w->as.i[i])); break;                                                              \
    case UNSIGNED: QC_EACH(T, FUNCTION(w->as.u[i])); break;                                                            \
    case FLOAT: QC_EACH(T, FUNCTION(w->as.f[i])); break;                                                               \
    }                                                                                                                  \
    break
#define QC_HALF(v) qc_float_to_half(to_odd((double)(v)))
#define QC_BFLOAT(v) qc_float_to_bfloat(to_odd((double)(v)))
#define QC_SMALL(v) qc_float_to_small(t, (double)(v), c->overflow, c->rounding)
    const struct qc_dtype_info *info = qc_dtype_info(t);
    if (t == QC_BOOL && w->kind == FLOAT) {
        QC_EACH(uint8_t, w->as.f[i] != 0);
        return;
    }
    if (!info->is_float && w->kind == FLOAT) truncate_all(w, info->bits < 8 ? QC_I64 : t, n);
    switch (t) {
    case QC_F32: QC_CONVERT(float, (float));
    case QC_F64: QC_CONVERT(double, (double));
    case QC_F16: QC_CONVERT(uint16_t, QC_HALF);
    case QC_BF16:
        QC_CONVERT(uint16_t, QC_BFLOAT);
    QC_CASE_SMALL_FLOATS:
        QC_CONVERT(uint8_t, QC_SMALL);
    case QC_I8: QC_EACH(int8_t, w->as.u[i]); break; /* modulo: i and u have the same bits */
    case QC_I16: QC_EACH(int16_t, w->as.u[i]); break;
    case QC_I32: QC_EACH(int32_t, w->as.u[i]); break;
    case QC_I64: QC_EACH(int64_t, w->as.u[i]); break;
    case QC_U8: QC_EACH(uint8_t, w->as.u[i]); break;
    case QC_U16: QC_EACH(uint16_t, w->as.u[i]); break;
    case QC_U32: QC_EACH(uint32_t, w->as.u[i]); break;
    case QC_U64: QC_EACH(uint64_t, w->as.u[i]); break;
    case QC_I4: QC_EACH(int8_t, (int)((w->as.u[i] & 15) ^ 8) - 8); break;
    case QC_U4: QC_EACH(uint8_t, w->as.u[i] & 15); break;
    case QC_I2: QC_EACH(int8_t, (int)((w->as.u[i] & 3) ^ 2) - 2); break;
    case QC_U2: QC_EACH(uint8_t, w->as.u[i] & 3); break;
    case QC_BOOL: QC_EACH(uint8_t, w->as.u[i] != 0); break;
    case QC_NONE:
    case QC_DTYPE_COUNT: break;
    }
#undef QC_EACH
#undef QC_CONVERT
#undef QC_HALF
#undef QC_BFLOAT
#undef QC_SMALL
}

static void convert_cast(void *user, int64_t n, void *const data[], const int64_t stride[])
{
    const struct cast *c = user;
    const int64_t to_size = (int64_t)qc_dtype_size(c->to), from_size = (int64_t)qc_dtype_size(c->from);
    struct wide w;
    for (int64_t i = 0; i < n; i += BLOCK) {
        const int64_t count = n - i < BLOCK ? n - i : BLOCK;
        load(&w, c->from, (const char *)data[1] + i * stride[1] * from_size, count, stride[1]);
        store_cast(c, &w, (char *)data[0] + i * stride[0] * to_size, count, stride[0]);
    }
}

static bool prepare_cast(struct qc_prepare *p, struct qc_status *st)
{
    const char *mode = qc_attr_string(p->node, "round_mode", "up");
    struct cast *c = QC_NEW_STATE(p, struct cast, st);
    if (!c) return false;
    *c = (struct cast){.from = p->in[0].dtype,
                       .to = p->out[0].dtype,
                       .overflow = qc_attr_int(p->node, "saturate", 1) ? QC_SMALL_SATURATES : QC_SMALL_OVERFLOWS,
                       .rounding = strcmp(mode, "down") == 0      ? QC_SMALL_DOWN
                                   : strcmp(mode, "nearest") == 0 ? QC_SMALL_NEAREST
                                                                  : QC_SMALL_UP};
    return true;
}

static bool run_cast(const struct qc_run *r, struct qc_status *st)
{
    const struct cast *c = r->state;
    if (c->from != c->to) return qc_kernel_map(r, convert_cast, c);
    qc_view_copy(&r->out[0], &r->in[0]);
    return true;
}

QC_KERNEL(cast, .halves = true, .order = QC_ORDER_ANY, .prepare = prepare_cast, .run = run_cast);

static void narrow(void *user, int64_t n, void *const data[], const int64_t stride[])
{
    const struct qc_dtype_info *info = user;
    const unsigned most = (1U << info->bits) - 1, sign = 1U << (info->bits - 1);
    uint8_t *y = data[0];
    for (int64_t i = 0; i < n; i++) {
        const unsigned v = y[i * stride[0]] & most;
        y[i * stride[0]] = (uint8_t)(info->is_signed && !info->is_float && v & sign ? v - most - 1 : v);
    }
}

/* Copies the bits. An element of 2 or 4 bits, stored in a byte, is sign-extended only if its type is signed. */
static bool run_bits(const struct qc_run *r, struct qc_status *st)
{
    struct qc_view from = r->in[0];
    const struct qc_dtype_info *info = qc_dtype_info(r->out[0].dtype);
    from.dtype = r->out[0].dtype;
    qc_view_copy(&r->out[0], &from);
    if (info->bits >= 8) return true;
    qc_view_each(1, QC_VIEWS(&r->out[0]), narrow, (void *)(uintptr_t)info);
    return true;
}

QC_KERNEL(bit_cast, .halves = true, .order = QC_ORDER_ANY, .run = run_bits);
