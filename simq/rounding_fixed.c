// SPDX-License-Identifier: Apache-2.0
/* Why these forms are the scalar ones (graph/numerics.c):
   - high_mul rounds half upward for either sign, so that it is (ab + 2^30) >> 31, and the low 32 bits of a logical shift are those of an
     arithmetic one. INT32_MIN * INT32_MIN cannot happen: multipliers are positive.
   - A 64-bit arithmetic shift (which AVX2 lacks) is a logical one of the number plus 2^62, less 2^62 >> shift.
   - Rounding half away once is rounding half upward of the product less one where it is negative.
   - Where the shift is to the left, numbers outside [-limit - 1, limit], limit = 2^(31 - shift) - 1, give at least 2^29,
     so that they may be cut off there. */
#include "simq/rounding_fixed.h"

#include <math.h>

#include "base/simd.h"

bool qc_requantize_loop_of(struct qc_requantize_loop *out, const struct qc_requantizer *r, struct qc_arena *a,
                           struct qc_status *st)
{
    struct qc_requantize_loop loop = {.rule = r->rule,
                                      .divides = r->divides,
                                      .copies = r->copies,
                                      .count = r->count,
                                      .factor = r->factor,
                                      .divisor = r->divisor,
                                      .multiplier = r->multiplier,
                                      .input_zero_point = r->input_zero_point,
                                      .zero_point = r->zero_point,
                                      .levels = r->levels};
    if (r->levels.lo < -65536 || r->levels.hi > 65536)
        return qc_fail(st, QC_UNSUPPORTED, "levels %d to %d under a rounding of 16 bits and less", r->levels.lo,
                       r->levels.hi);
    if (r->rule != QC_REQUANTIZE_FLOAT) {
        int32_t *narrow = QC_NEW_ARRAY(a, int32_t, 3 * r->count, st);
        uint64_t *wide = QC_NEW_ARRAY(a, uint64_t, 3 * r->count, st);
        if (!narrow || !wide) return false;
        for (size_t c = 0; c < r->count; c++) {
            const int32_t s = r->shift[c], right = 31 - s;
            narrow[c] = s > 0 ? s : 0;
            narrow[r->count + c] = s < 0 ? -s : 0;
            narrow[2 * r->count + c] = s > 0 ? (int32_t)((UINT32_C(1) << (31 - s)) - 1) : INT32_MAX;
            wide[c] = (UINT64_C(1) << 62) + (UINT64_C(1) << (right - 1));
            wide[r->count + c] = (uint64_t)right;
            wide[2 * r->count + c] = (UINT64_C(1) << 62) >> right;
        }
        loop.left = narrow;
        loop.right = narrow + r->count;
        loop.limit = narrow + 2 * r->count;
        loop.bias = wide;
        loop.shift = wide + r->count;
        loop.offset = wide + 2 * r->count;
    }
    *out = loop;
    return true;
}

static QC_INLINE int32_t clamp_int(int32_t x, int32_t lo, int32_t hi)
{
    x = x > lo ? x : lo;
    return x < hi ? x : hi;
}

static QC_INLINE float clamp_float(float x, float lo, float hi)
{
    x = x > lo ? x : lo;
    return x < hi ? x : hi;
}

static QC_INLINE int32_t multiply_twice(int32_t x, int32_t multiplier, int32_t left, int32_t right)
{
    const int32_t v = (int32_t)((uint32_t)x << left);
    const uint64_t product = (uint64_t)((int64_t)v * multiplier) + (UINT64_C(1) << 30);
    const int32_t high = (int32_t)(uint32_t)(product >> 31);
    const int32_t mask = (int32_t)((UINT32_C(1) << right) - 1), remainder = high & mask,
                  threshold = (mask >> 1) + (high < 0);
    return (high >> right) + (remainder > threshold);
}

static QC_INLINE int32_t multiply_once(int32_t x, int32_t multiplier, int32_t limit, uint64_t bias, uint64_t shift,
                                       uint64_t offset, const bool away)
{
    const int32_t v = clamp_int(x, -limit - 1, limit);
    const uint64_t less = away ? (uint64_t)(uint32_t)(v < 0) : 0;
    return (int32_t)(uint32_t)((((uint64_t)((int64_t)v * multiplier) + bias - less) >> shift) - offset);
}

/* The loops: parameters walk along with `step` 1 or stand still with 0, so that the compiler sees which. */
static QC_INLINE void requantize_body(const bool native, const struct qc_requantize_loop *r, size_t first, int32_t *y,
                                      const int32_t *x, size_t n, const size_t step)
{
    const int32_t zx = r->input_zero_point, zy = r->zero_point, lo = r->levels.lo - zy, hi = r->levels.hi - zy;
    const float low = (float)lo, high = (float)hi, divisor = r->divisor;
    const float *const factor = r->factor;
    const int32_t *const m = r->multiplier, *const left = r->left, *const right = r->right, *const limit = r->limit;
    const uint64_t *const bias = r->bias, *const shift = r->shift, *const offset = r->offset;
#define QC_LOOP(expression)                                                                                            \
    {                                                                                                                  \
        QC_IVDEP                                                                                                       \
        for (size_t i = 0; i < n; i++) {                                                                               \
            const size_t c = first + i * step;                                                                         \
            const int32_t v = (int32_t)((uint32_t)x[i] - (uint32_t)zx);                                                \
            (void)c;                                                                                                   \
            y[i] = clamp_int((expression), lo, hi) + zy;                                                               \
        }                                                                                                              \
        return;                                                                                                        \
    }
    if (r->copies) QC_LOOP(v)
    switch (r->rule) {
    case QC_REQUANTIZE_FLOAT:
        if (r->divides) QC_LOOP((int32_t)qc_round_even(clamp_float((float)v * factor[c] / divisor, low, high), native))
        QC_LOOP((int32_t)qc_round_even(clamp_float((float)v * factor[c], low, high), native))
    case QC_REQUANTIZE_DOUBLE: QC_LOOP(multiply_twice(v, m[c], left[c], right[c]))
    case QC_REQUANTIZE_UPWARD: QC_LOOP(multiply_once(v, m[c], limit[c], bias[c], shift[c], offset[c], false))
    case QC_REQUANTIZE_NEAREST: QC_LOOP(multiply_once(v, m[c], limit[c], bias[c], shift[c], offset[c], true))
    }
#undef QC_LOOP
}

static QC_INLINE void run_body(const bool native, const struct qc_requantize_loop *r, size_t first, int32_t *y,
                               const int32_t *x, size_t n)
{
    if (r->count == 1)
        requantize_body(native, r, 0, y, x, n, 0);
    else
        requantize_body(native, r, first, y, x, n, 1);
}
QC_SIMD_ROUND(run, (const struct qc_requantize_loop *r, size_t first, int32_t *y, const int32_t *x, size_t n),
              (r, first, y, x, n))

void qc_requantize_run(const struct qc_requantize_loop *r, size_t first, int32_t *y, const int32_t *x, size_t n)
{
    run(r, first, y, x, n);
}

static QC_INLINE int32_t twice(int32_t x, struct qc_fixed m)
{
    return multiply_twice(x, m.multiplier, m.shift > 0 ? m.shift : 0, m.shift < 0 ? -m.shift : 0);
}

static QC_INLINE int32_t once(int32_t x, struct qc_fixed m, bool away)
{
    const uint64_t right = (uint64_t)(31 - m.shift), one = UINT64_C(1) << 62;
    const int32_t limit = m.shift > 0 ? (int32_t)((UINT32_C(1) << (31 - m.shift)) - 1) : INT32_MAX;
    return multiply_once(x, m.multiplier, limit, one + (UINT64_C(1) << (right - 1)), right, one >> right, away);
}

static QC_INLINE void merge_body(const bool native, const struct qc_merger *merger, int32_t *y, const int32_t *a,
                                 const int32_t *b, size_t n)
{
    const struct qc_merger m = *merger;
    const int32_t lo = m.levels.lo - m.zc, hi = m.levels.hi - m.zc, sign = m.op == QC_MERGE_SUB ? -1 : 1;
    const float flo = (float)m.levels.lo, fhi = (float)m.levels.hi, zc = (float)m.zc;
#define QC_LOOP(expression)                                                                                            \
    {                                                                                                                  \
        QC_IVDEP                                                                                                       \
        for (size_t i = 0; i < n; i++) {                                                                               \
            const int32_t va = a[i] - m.za, vb = b[i] - m.zb;                                                          \
            y[i] = clamp_int((expression), lo, hi) + m.zc;                                                             \
        }                                                                                                              \
        return;                                                                                                        \
    }
#define QC_FLOAT_LOOP(expression, below, above, add)                                                                   \
    {                                                                                                                  \
        QC_IVDEP                                                                                                       \
        for (size_t i = 0; i < n; i++) {                                                                               \
            const int32_t qa = a[i], qb = b[i];                                                                        \
            const float va = (float)(qa - m.za), vb = (float)(qb - m.zb), fa = (float)qa, fb = (float)qb;              \
            (void)va, (void)vb, (void)fa, (void)fb;                                                                    \
            y[i] = (int32_t)qc_round_even(clamp_float((expression), (below), (above)), native) + (add);                \
        }                                                                                                              \
        return;                                                                                                        \
    }
    switch (m.rule) {
    case QC_REQUANTIZE_FLOAT:
        if (m.op == QC_MERGE_ADD) QC_FLOAT_LOOP(fmaf(fa, m.ra, fmaf(fb, m.rb, m.k)), flo, fhi, 0)
        if (m.op == QC_MERGE_MUL) QC_FLOAT_LOOP(va * vb * m.m + zc, flo, fhi, 0)
        QC_FLOAT_LOOP((va * m.ra - vb * m.rb) / m.k, (float)lo, (float)hi, m.zc)
    case QC_REQUANTIZE_DOUBLE:
        if (m.op == QC_MERGE_MUL) QC_LOOP(twice((int32_t)((uint32_t)va * (uint32_t)vb), m.c))
        QC_LOOP(twice(twice(va * (1 << m.left_shift), m.a) + sign * twice(vb * (1 << m.left_shift), m.b), m.c))
    case QC_REQUANTIZE_UPWARD:
    case QC_REQUANTIZE_NEAREST: {
        const bool away = m.rule == QC_REQUANTIZE_NEAREST;
        if (m.op == QC_MERGE_MUL) QC_LOOP(once((int32_t)((uint32_t)va * (uint32_t)vb), m.c, away))
        if (m.copies_a && m.copies_b) QC_LOOP(va + sign * vb)
        if (m.copies_a) QC_LOOP(va + sign * once(vb, m.b, away))
        if (m.copies_b) QC_LOOP(once(va, m.a, away) + sign * vb)
        QC_LOOP(once(va, m.a, away) + sign * once(vb, m.b, away))
    }
    }
#undef QC_LOOP
#undef QC_FLOAT_LOOP
}
QC_SIMD_ROUND(merge, (const struct qc_merger *m, int32_t *y, const int32_t *a, const int32_t *b, size_t n),
              (m, y, a, b, n))

void qc_merge_run(const struct qc_merger *m, int32_t *y, const int32_t *a, const int32_t *b, size_t n)
{
    /* Below a ratio of 2^13 the sum of two rescaled operands of at most 17 bits stays inside 32. */
    if (m->rule != QC_REQUANTIZE_FLOAT && (m->a.shift > 13 || m->b.shift > 13)) {
        for (size_t i = 0; i < n; i++) y[i] = qc_merge_one(m, a[i], b[i]);
        return;
    }
    merge(m, y, a, b, n);
}
