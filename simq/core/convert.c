// SPDX-License-Identifier: Apache-2.0
#include "simq/core/convert.h"

#include <math.h>
#include <string.h>

#include "base/pool.h"

enum { BLOCK = 256 };

/* ------------------------------------------------- making */

static const int32_t *zeros_of(enum qc_dtype t, const struct qc_scales *s, size_t count, struct qc_arena *a,
                               struct qc_status *st)
{
    int32_t *z = QC_NEW_ARRAY(a, int32_t, count, st);
    for (size_t i = 0; z && i < count; i++) z[i] = qc_dtype_info(t)->is_float ? 0 : s->zero_point[s->count > 1 ? i : 0];
    return z;
}

static int32_t bound(float centred, int32_t zero, int32_t level)
{
    return fabsf(centred) < 1048576 ? (int32_t)centred + zero : level; /* levels have at most 16 bits */
}

static bool fixed_loop(struct qc_requantize_loop *out, const struct qc_scales *from, const struct qc_scales *to,
                       float lo, float hi, const struct qc_convert_how *how, struct qc_arena *a, struct qc_status *st)
{
    struct qc_requantize_def d = {.contract = how->contract,
                                  .source = how->divisor    ? QC_FROM_SUM
                                            : from->product ? how->product
                                                            : QC_FROM_QUANTIZER,
                                  .input_scale = from->scale[0],
                                  .input_zero_point = from->zero_point[0],
                                  .count = 1,
                                  .divisor = how->divisor,
                                  .output = {.scale = to->scale[0], .zero_point = to->zero_point[0]},
                                  .levels = to->levels};
    struct qc_requantizer r;
    if (to->count != 1 || (from->count != 1 && !from->product))
        return qc_fail(st, QC_UNSUPPORTED, "rounding contract %s: channels of their own are not handled here",
                       qc_contract_info(how->contract)->name);
    const int32_t low = bound(lo, to->zero_point[0], to->levels.lo), high = bound(hi, to->zero_point[0], to->levels.hi);
    if (low > d.levels.lo) d.levels.lo = low;
    if (high < d.levels.hi) d.levels.hi = high;
    if (from->product && !how->divisor) {
        const struct qc_qparams *s = &how->graph->qparams_of[from->qparams], *x = &how->graph->qparams_of[s->a],
                                *w = &how->graph->qparams_of[s->b];
        d.input_scale = x->scale[0];
        d.weight_scale = w->scale;
        d.count = w->count;
        d.wide = x->dtype == QC_I16;
        for (size_t i = 0; i < w->count; i++) d.weight_zero = d.weight_zero || w->zero_point[i] != 0;
    }
    return qc_requantizer_of(&r, &d, a, st) && qc_requantize_loop_of(out, &r, a, st);
}

/* Rounds real numbers by the contract's rule. */
static bool set_quantize(struct qc_rounding *r, enum qc_contract contract, struct qc_arena *a, struct qc_status *st)
{
    float *factor;
    switch (qc_contract_info(contract)->quantize) {
    case QC_QUANTIZE_EVEN: break;
    case QC_QUANTIZE_AWAY: r->kind = QC_ROUNDING_AWAY; break;
    case QC_QUANTIZE_RECIPROCAL:
        if (!(factor = QC_NEW_ARRAY(a, float, r->count, st))) return false;
        for (size_t i = 0; i < r->count; i++) factor[i] = 1 / r->b[i];
        r->kind = QC_ROUNDING_REQUANTIZE;
        r->a = factor;
        break;
    }
    return true;
}

bool qc_convert_of(struct qc_convert *out, struct qc_convert_end of, struct qc_convert_end as, float lo, float hi,
                   const struct qc_convert_how *how, struct qc_arena *a, struct qc_status *st)
{
    const enum qc_dtype from_type = of.type, to_type = as.type;
    const struct qc_scales *from = of.scales, *to = as.scales;
    struct qc_convert c = {.from = from_type, .to = to_type};
    const bool onnx = !how || qc_contract_is_float(how->contract);
    c.axis = from->count > 1 ? from->axis : to->axis;
    if ((from_type != QC_F32 && !qc_is_level_type(from_type)) || (to_type != QC_F32 && !qc_is_level_type(to_type)))
        return qc_fail(st, QC_UNSUPPORTED, "%s as %s is not handled", qc_dtype_info(from_type)->name,
                       qc_dtype_info(to_type)->name);
    if (!qc_rounding_of(&c.rounding, from, to, lo, hi, a, st)) return false;
    const bool same = from->identity ? to->identity : from->qparams != 0 && from->qparams == to->qparams;
    if (same) c.rounding.kind = QC_ROUNDING_COPY;
    if (!onnx && c.rounding.kind == QC_ROUNDING_QUANTIZE && !set_quantize(&c.rounding, how->contract, a, st))
        return false;
    c.fixed = !onnx && !from->identity && to->rounds && !same &&
              (c.rounding.kind == QC_ROUNDING_REQUANTIZE || c.rounding.kind == QC_ROUNDING_RESCALE);
    if (c.fixed && !fixed_loop(&c.loop, from, to, lo, hi, how, a, st)) return false;
    /* The rounding of accumulators in float32 steps is this loop too, with rows of its own. */
    c.fixed = c.fixed && (c.loop.rule != QC_REQUANTIZE_FLOAT || how->divisor);
    c.from_zero = zeros_of(from_type, from, c.rounding.count, a, st);
    c.to_zero = zeros_of(to_type, to, c.rounding.count, a, st);
    if (!c.from_zero || !c.to_zero) return false;
    c.rows = (struct qc_convert_rows){.usable = !c.fixed && c.rounding.kind == QC_ROUNDING_REQUANTIZE &&
                                                from_type == QC_I32 && qc_dtype_in_byte(to_type),
                                      .is_signed = to_type == QC_I8 || to_type == QC_I4,
                                      .rounding = c.rounding,
                                      .zeros = c.to_zero};
    if (c.rows.usable) qc_convert_rows_of(&c.rows);
    if (qc_dtype_in_byte(from_type) && qc_dtype_in_byte(to_type) && c.rounding.count == 1) {
        uint8_t ramp[256], *table = QC_NEW_ARRAY(a, uint8_t, 256, st);
        if (!table) return false;
        for (int i = 0; i < 256; i++) ramp[i] = (uint8_t)i;
        qc_convert_run(&c, 0, table, ramp, 256);
        c.table = table;
    }
    *out = c;
    return true;
}

/* ------------------------------------------------- loads and stores */

#define QC_CONVERT_TYPES(X) X(U8, uint8_t) X(I8, int8_t) X(U16, uint16_t) X(I16, int16_t) X(I32, int32_t)

#define QC_LOAD_STORE(NAME, T)                                                                                         \
    static QC_INLINE void load_##NAME##_body(float *restrict y, const T *restrict x, size_t n, const int32_t *zero,    \
                                             const bool channels)                                                      \
    {                                                                                                                  \
        if (channels)                                                                                                  \
            for (size_t i = 0; i < n; i++) y[i] = (float)(x[i] - zero[i]);                                             \
        else                                                                                                           \
            for (size_t i = 0; i < n; i++) y[i] = (float)(x[i] - *zero);                                               \
    }                                                                                                                  \
    QC_SIMD(load_##NAME, (float *restrict y, const T *restrict x, size_t n, const int32_t *zero, bool channels),       \
            (y, x, n, zero, channels))                                                                                 \
    static QC_INLINE void store_##NAME##_body(T *restrict y, const float *restrict x, size_t n, const int32_t *zero,   \
                                              const bool channels)                                                     \
    {                                                                                                                  \
        if (channels)                                                                                                  \
            for (size_t i = 0; i < n; i++) y[i] = (T)((int32_t)x[i] + zero[i]);                                        \
        else                                                                                                           \
            for (size_t i = 0; i < n; i++) y[i] = (T)((int32_t)x[i] + *zero);                                          \
    }                                                                                                                  \
    QC_SIMD(store_##NAME, (T *restrict y, const float *restrict x, size_t n, const int32_t *zero, bool channels),      \
            (y, x, n, zero, channels))
QC_CONVERT_TYPES(QC_LOAD_STORE)

/* The type whose bytes an element has. */
static enum qc_dtype held_as(enum qc_dtype t)
{
    return t == QC_U4 ? QC_U8 : t == QC_I4 ? QC_I8 : t;
}

void qc_load_centred(float *y, enum qc_dtype t, const void *x, size_t n, const int32_t *zero, bool channels)
{
#define QC_LOAD(NAME, T)                                                                                               \
    case QC_##NAME: load_##NAME(y, x, n, zero, channels); break;
    switch ((int)held_as(t)) {
        QC_CONVERT_TYPES(QC_LOAD)
    default: memcpy(y, x, n * sizeof *y);
    }
#undef QC_LOAD
}

void qc_store_centred(enum qc_dtype t, void *y, const float *x, size_t n, const int32_t *zero, bool channels)
{
#define QC_STORE(NAME, T)                                                                                              \
    case QC_##NAME: store_##NAME(y, x, n, zero, channels); break;
    switch ((int)held_as(t)) {
        QC_CONVERT_TYPES(QC_STORE)
    default: memcpy(y, x, n * sizeof *x);
    }
#undef QC_STORE
}

/* ------------------------------------------------- rows in one pass: the pairs that are common */

/* Parameters of a row, starting at its first channel. */
struct row {
    const float *a, *b, *lo, *hi;
    const int32_t *from_zero, *to_zero;
};

#define QC_REQUANTIZED (int32_t) qc_level_of_product(v, a[k], lo[k], hi[k], native) + zero[k]
#define QC_QUANTIZED (int32_t) qc_level_of_real(v, b[k], lo[k], hi[k], native) + zero[k]

#define QC_PAIR(name, S, T, expression)                                                                                \
    static QC_INLINE void name##_rows_body(const bool native, const struct row *p, T *y, const S *x, size_t n,         \
                                           const bool channels)                                                        \
    {                                                                                                                  \
        const float *restrict a = p->a, *restrict b = p->b, *restrict lo = p->lo, *restrict hi = p->hi;                \
        const int32_t *restrict zero = p->to_zero;                                                                     \
        (void)native;                                                                                                  \
        (void)zero;                                                                                                    \
        (void)a;                                                                                                       \
        (void)b;                                                                                                       \
        if (channels) QC_IVDEP                                                                                         \
        for (size_t i = 0; i < n; i++) {                                                                               \
            const size_t k = i;                                                                                        \
            const float v = (float)x[i];                                                                               \
            y[i] = (T)(expression);                                                                                    \
        }                                                                                                              \
        else QC_IVDEP for (size_t i = 0; i < n; i++)                                                                   \
        {                                                                                                              \
            const size_t k = 0;                                                                                        \
            const float v = (float)x[i];                                                                               \
            y[i] = (T)(expression);                                                                                    \
        }                                                                                                              \
    }                                                                                                                  \
    QC_SIMD_ROUND(name##_rows, (const struct row *p, T *y, const S *x, size_t n, bool channels), (p, y, x, n, channels))
QC_PAIR(i32_u8, int32_t, uint8_t, QC_REQUANTIZED)
QC_PAIR(i32_i8, int32_t, int8_t, QC_REQUANTIZED)
QC_PAIR(f32_u8, float, uint8_t, QC_QUANTIZED)
QC_PAIR(f32_i8, float, int8_t, QC_QUANTIZED)
QC_PAIR(i32_f32, int32_t, float, qc_clamp_real(v *a[k], lo[k], hi[k]))

/* Returns true if a specialised loop converted the row. */
static bool run_pair(const struct qc_convert *c, const struct row *p, void *y, const void *x, size_t n, bool channels)
{
    const bool u8 = c->to == QC_U8 || c->to == QC_U4, i8 = c->to == QC_I8 || c->to == QC_I4;
    if (c->rounding.kind == QC_ROUNDING_REQUANTIZE && c->from == QC_I32 && u8)
        i32_u8_rows(p, y, x, n, channels);
    else if (c->rounding.kind == QC_ROUNDING_REQUANTIZE && c->from == QC_I32 && i8)
        i32_i8_rows(p, y, x, n, channels);
    else if (c->rounding.kind == QC_ROUNDING_QUANTIZE && c->from == QC_F32 && u8)
        f32_u8_rows(p, y, x, n, channels);
    else if (c->rounding.kind == QC_ROUNDING_QUANTIZE && c->from == QC_F32 && i8)
        f32_i8_rows(p, y, x, n, channels);
    else if (c->rounding.kind == QC_ROUNDING_DEQUANTIZE && c->from == QC_I32 && c->to == QC_F32)
        i32_f32_rows(p, y, x, n, channels);
    else
        return false;
    return true;
}

/* Copies accumulators without rounding and clamps them to lo and hi. */
static void copy_i32(const struct row *p, int32_t *y, const int32_t *x, size_t n, bool channels)
{
    for (size_t i = 0; i < n; i++) {
        const float lo = p->lo[channels ? i : 0], hi = p->hi[channels ? i : 0];
        int32_t v = x[i];
        if (lo > -0x1p31f && v < (int32_t)lo) v = (int32_t)lo;
        if (hi < 0x1p30f && v > (int32_t)hi) v = (int32_t)hi;
        y[i] = v;
    }
}

void qc_load_levels(int32_t *y, enum qc_dtype t, const void *x, size_t n)
{
#define QC_LOAD(NAME, T)                                                                                               \
    case QC_##NAME:                                                                                                    \
        for (size_t i = 0; i < n; i++) y[i] = (int32_t)((const T *)x)[i];                                              \
        break;
    switch ((int)held_as(t)) {
        QC_CONVERT_TYPES(QC_LOAD)
    default: memcpy(y, x, n * sizeof *y);
    }
#undef QC_LOAD
}

void qc_store_levels(enum qc_dtype t, void *y, const int32_t *x, size_t n)
{
#define QC_STORE(NAME, T)                                                                                              \
    case QC_##NAME:                                                                                                    \
        for (size_t i = 0; i < n; i++) ((T *)y)[i] = (T)x[i];                                                          \
        break;
    switch ((int)held_as(t)) {
        QC_CONVERT_TYPES(QC_STORE)
    default: memcpy(y, x, n * sizeof *x);
    }
#undef QC_STORE
}

static void run_fixed(const struct qc_convert *c, size_t first, void *y, const void *x, size_t n)
{
    const size_t to_size = qc_dtype_size(c->to), from_size = qc_dtype_size(c->from);
    int32_t level[BLOCK];
    for (size_t i = 0; i < n; i += BLOCK) {
        const size_t count = n - i < BLOCK ? n - i : BLOCK;
        qc_load_levels(level, c->from, (const char *)x + i * from_size, count);
        qc_requantize_run(&c->loop, first + i, level, level, count);
        qc_store_levels(c->to, (char *)y + i * to_size, level, count);
    }
}

void qc_convert_run(const struct qc_convert *c, size_t first, void *y, const void *x, size_t n)
{
    const bool channels = c->rounding.count > 1;
    const size_t to_size = qc_dtype_size(c->to), from_size = qc_dtype_size(c->from);
    const struct row p = {.a = c->rounding.a + (channels ? first : 0),
                          .b = c->rounding.b + (channels ? first : 0),
                          .lo = c->rounding.lo + (channels ? first : 0),
                          .hi = c->rounding.hi + (channels ? first : 0),
                          .from_zero = c->from_zero + (channels ? first : 0),
                          .to_zero = c->to_zero + (channels ? first : 0)};
    float block[BLOCK];
    if (c->fixed && !c->table) {
        run_fixed(c, first, y, x, n);
        return;
    }
    if (c->table) {
        qc_table_run(c->table, y, x, n);
        return;
    }
    if (c->from == QC_I32 && c->to == QC_I32 && c->rounding.kind == QC_ROUNDING_COPY) {
        copy_i32(&p, y, x, n, channels);
        return;
    }
    if (run_pair(c, &p, y, x, n, channels)) return;
    for (size_t i = 0; i < n; i += BLOCK) {
        const size_t count = n - i < BLOCK ? n - i : BLOCK, at = channels ? i : 0;
        struct qc_rounding r = c->rounding;
        r.a = p.a + at;
        r.b = p.b + at;
        r.lo = p.lo + at;
        r.hi = p.hi + at;
        if (channels) r.count = count;
        qc_load_centred(block, c->from, (const char *)x + i * from_size, count, p.from_zero + at, channels);
        qc_rounding_run(&r, block, block, count);
        qc_store_centred(c->to, (char *)y + i * to_size, block, count, p.to_zero + at, channels);
    }
}

void qc_convert_rows(const struct qc_convert *c, size_t first, void *y, ptrdiff_t y_step, const int32_t *x,
                     size_t x_step, size_t rows, size_t n)
{
    const ptrdiff_t size = (ptrdiff_t)qc_dtype_size(c->to);
    if (c->rows.usable && qc_convert_rows_run(&c->rows, first, y, y_step, x, x_step, rows, n)) return;
    for (size_t r = 0; r < rows; r++)
        qc_convert_run(c, first, (char *)y + (ptrdiff_t)r * y_step * size, x + r * x_step, n);
}

/* ------------------------------------------------- views */

static void strided_convert(void *user, int64_t n, void *const data[], const int64_t stride[])
{
    const struct qc_convert *c = user;
    const size_t to_size = qc_dtype_size(c->to), from_size = qc_dtype_size(c->from);
    if (stride[0] == 1 && stride[1] == 1) {
        qc_convert_run(c, 0, data[0], data[1], (size_t)n);
        return;
    }
    char x[BLOCK * 4], y[BLOCK * 4];
    for (int64_t i = 0; i < n; i += BLOCK) {
        const int64_t count = n - i < BLOCK ? n - i : BLOCK;
        const struct qc_view from = {.dtype = c->from,
                                     .rank = 1,
                                     .dim = {count},
                                     .stride = {stride[1]},
                                     .data = (char *)data[1] + i * stride[1] * (int64_t)from_size},
                             in = {.dtype = c->from, .rank = 1, .dim = {count}, .stride = {1}, .data = x},
                             out = {.dtype = c->to, .rank = 1, .dim = {count}, .stride = {1}, .data = y},
                             to = {.dtype = c->to,
                                   .rank = 1,
                                   .dim = {count},
                                   .stride = {stride[0]},
                                   .data = (char *)data[0] + i * stride[0] * (int64_t)to_size};
        qc_view_copy(&in, &from);
        qc_convert_run(c, 0, y, x, (size_t)count);
        qc_view_copy(&to, &out);
    }
}

struct by_channel {
    const struct qc_convert *c;
    const struct qc_view *y, *x;
};

static void convert_channel(void *user, size_t i)
{
    const struct by_channel *of = user;
    const int axis = of->c->axis;
    struct qc_convert own = *of->c;
    own.rounding = qc_rounding_channel(&of->c->rounding, i);
    own.from_zero += i;
    own.to_zero += i;
    struct qc_view y = *of->y, x = *of->x;
    y.dim[axis] = x.dim[axis] = 1;
    y.data = (char *)y.data + (int64_t)i * y.stride[axis] * (int64_t)qc_dtype_size(own.to);
    x.data = (char *)x.data + (int64_t)i * x.stride[axis] * (int64_t)qc_dtype_size(own.from);
    qc_view_each(2, QC_VIEWS(&y, &x), strided_convert, &own);
}

void qc_convert_view(const struct qc_convert *c, const struct qc_view *y, const struct qc_view *x)
{
    enum { SHARED_LEAST = 1 << 18 }; /* elements: smaller views convert faster on one thread */
    const size_t count = c->rounding.count, n = qc_view_count(y);
    struct qc_convert own = *c;
    if (count == 1) {
        qc_view_each(2, QC_VIEWS(y, x), strided_convert, &own);
        return;
    }
    if (qc_view_same_order(y, x) && y->stride[c->axis] == 1) {
        for (size_t i = 0; i < n; i += count)
            qc_convert_run(c, 0, (char *)y->data + i * qc_dtype_size(c->to),
                           (const char *)x->data + i * qc_dtype_size(c->from), count);
        return;
    }
    struct by_channel of = {.c = c, .y = y, .x = x};
    if (n >= SHARED_LEAST)
        qc_pool_loop(count, convert_channel, &of);
    else
        for (size_t i = 0; i < count; i++) convert_channel(&of, i);
}
