// SPDX-License-Identifier: Apache-2.0
#include "arith/qbinary.h"

#include "arith/real_steps.h"

/* ------------------------------------------------- preparation */

/* The largest |q - zero point|. */
static int64_t reach(struct qc_levels levels, int32_t zero_point)
{
    const int64_t above = (int64_t)levels.hi - zero_point, below = (int64_t)zero_point - levels.lo;
    return above > below ? above : below;
}

static bool is_byte(struct qc_levels levels)
{
    return levels.lo >= -128 && levels.hi <= 255;
}

/* TFLite has left shifts for three 8-bit types (20) and three 16-bit types without zero points (15). Other types take
   the largest shift that keeps the sum within 32 bits. */
static bool fill_tflite_sum(struct qc_qbinary *m, const struct qc_affine p[3], const struct qc_levels levels[3],
                            struct qc_status *st)
{
    const double sa = (double)p[0].scale, sb = (double)p[1].scale, twice = 2 * (sa > sb ? sa : sb);
    if (is_byte(levels[0]) && is_byte(levels[1]) && is_byte(levels[2]))
        m->left_shift = 20;
    else
        m->left_shift = reach(levels[0], m->za) <= 32768 && reach(levels[1], m->zb) <= 32768 ? 15 : 14;
    return qc_fixed_ratio(&m->a, sa / twice, st) && qc_fixed_ratio(&m->b, sb / twice, st) &&
           qc_fixed_ratio(&m->c, twice / ((double)(1 << m->left_shift) * (double)p[2].scale), st);
}

/* Returns whether XNNPACK computes the operator, and prepares its constants. */
static bool fill_xnnpack(struct qc_qbinary *m, const struct qc_affine p[3], const struct qc_levels levels[3])
{
    const float ra = p[0].scale / p[2].scale, rb = p[1].scale / p[2].scale;
    int exponent;
    if (!is_byte(levels[0]) || !is_byte(levels[1]) || !is_byte(levels[2])) return false;
    if (m->op == QC_QBINARY_MUL) return m->m >= 0x1p-16f && m->m < 0x1p8f;
    if (ra < 0x1p-10f || ra >= 0x1p8f || rb < 0x1p-10f || rb >= 0x1p8f) return false;
    (void)frexpf(ra > rb ? ra : rb, &exponent);
    m->left_shift = 21 - exponent;
    m->a.multiplier = (int32_t)lrint(ldexp((double)ra, m->left_shift));
    m->b.multiplier = (int32_t)lrint(ldexp((double)rb, m->left_shift));
    return true;
}

struct qc_qbinary qc_qbinary_onnx(enum qc_qbinary_op op, const struct qc_affine p[3], struct qc_levels result)
{
    const float sa = p[0].scale, sb = p[1].scale, sc = p[2].scale;
    struct qc_qbinary m = {.op = op,
                           .rule = QC_REQUANTIZE_FLOAT,
                           .za = p[0].zero_point,
                           .zb = p[1].zero_point,
                           .zc = p[2].zero_point,
                           .levels = result};
    m.fza = (float)m.za;
    m.fzb = (float)m.zb;
    m.fzc = (float)m.zc;
    switch (op) {
    case QC_QBINARY_ADD:
        m.ra = sa / sc;
        m.rb = sb / sc;
        m.k = m.fzc - fmaf(m.ra, m.fza, m.rb * m.fzb);
        break;
    case QC_QBINARY_SUB:
        m.ra = sa;
        m.rb = sb;
        m.k = sc;
        break;
    case QC_QBINARY_MUL: m.m = sa * sb / sc; break;
    }
    return m;
}

bool qc_qbinary_of(struct qc_qbinary *out, enum qc_contract contract, enum qc_qbinary_op op,
                   const struct qc_affine p[3], const struct qc_levels levels[3], struct qc_status *st)
{
    static const char *const what[] = {"first operand", "second operand", "result"};
    struct qc_qbinary m = qc_qbinary_onnx(op, p, levels[2]);
    const double sa = (double)p[0].scale, sb = (double)p[1].scale, sc = (double)p[2].scale;
    for (int i = 0; i < 3; i++) {
        if (!qc_scale_usable(p[i].scale, what[i], st)) return false;
        if (levels[i].lo < -32768 || levels[i].hi > 65535)
            return qc_fail(st, QC_UNSUPPORTED, "levels %d to %d of the %s: 16 bits at most", levels[i].lo, levels[i].hi,
                           what[i]);
    }
    m.rule = qc_contract_info(contract)->requantize;
    m.wide = reach(levels[0], m.za) * reach(levels[1], m.zb) > INT32_MAX;
    m.copies_a = p[0].scale == p[2].scale;
    m.copies_b = p[1].scale == p[2].scale;
    bool ok = true;
    if (m.rule == QC_REQUANTIZE_XNNPACK && !fill_xnnpack(&m, p, levels)) m.rule = QC_REQUANTIZE_DOUBLE;
    switch (m.rule) {
    case QC_REQUANTIZE_FLOAT:
    case QC_REQUANTIZE_XNNPACK: break;
    case QC_REQUANTIZE_DOUBLE:
        ok = op == QC_QBINARY_MUL ? qc_fixed_ratio(&m.c, (double)m.m, st) : fill_tflite_sum(&m, p, levels, st);
        break;
    case QC_REQUANTIZE_UPWARD:
    case QC_REQUANTIZE_NEAREST:
        if (op == QC_QBINARY_MUL)
            ok = qc_fixed_ratio(&m.c, sa * sb / sc, st);
        else
            ok = qc_fixed_ratio(&m.a, sa / sc, st) && qc_fixed_ratio(&m.b, sb / sc, st);
        break;
    }
    if (ok) *out = m;
    return ok;
}

/* ------------------------------------------------- float32 steps */

/* Returns the level in float32. qa and qb are the stored numbers, va and vb the same minus their zero points. */
static QC_INLINE float float_level(const enum qc_qbinary_op op, const struct qc_qbinary *m, float qa, float qb,
                                   float va, float vb, const bool native)
{
    const float lo = (float)m->levels.lo, hi = (float)m->levels.hi, zc = m->fzc;
    if (op == QC_QBINARY_ADD) return qc_clamp(qc_round_even(fmaf(qa, m->ra, fmaf(qb, m->rb, m->k)), native), lo, hi);
    if (op == QC_QBINARY_MUL) return qc_clamp(qc_round_even(va * vb * m->m + zc, native), lo, hi);
    return qc_clamp(qc_round_even((va * m->ra - vb * m->rb) / m->k, native), lo - zc, hi - zc) + zc;
}

/* T is the stored type. STORED and LESS give element x in float32, as stored and minus its zero point z. RESULT gives
   the element of level q. */
#define QC_FLOAT_FORM(NAME, T, STORED, LESS, RESULT)                                                                   \
    static QC_INLINE void NAME##_each(const bool native, const enum qc_qbinary_op op, const struct qc_qbinary *binary, \
                                      T *y, const T *a, const T *b, size_t n, const int64_t *step)                     \
    {                                                                                                                  \
        const struct qc_qbinary m = *binary;                                                                           \
        const int64_t count = (int64_t)n, ys = step[0], as = step[1], bs = step[2];                                    \
        QC_IVDEP                                                                                                       \
        for (int64_t i = 0; i < count; i++) {                                                                          \
            const T xa = a[i * as], xb = b[i * bs];                                                                    \
            const float q =                                                                                            \
                float_level(op, &m, STORED(xa, m.fza), STORED(xb, m.fzb), LESS(xa, m.fza), LESS(xb, m.fzb), native);   \
            y[i * ys] = RESULT(T, q);                                                                                  \
        }                                                                                                              \
    }                                                                                                                  \
    static QC_INLINE void NAME##_op(const bool native, const enum qc_qbinary_op op, const struct qc_qbinary *m, T *y,  \
                                    const T *a, const T *b, size_t n, const int64_t *step)                             \
    {                                                                                                                  \
        if (step[0] == 1 && step[1] == 1 && step[2] == 1)                                                              \
            NAME##_each(native, op, m, y, a, b, n, (const int64_t[]){1, 1, 1});                                        \
        else                                                                                                           \
            NAME##_each(native, op, m, y, a, b, n, step);                                                              \
    }                                                                                                                  \
    static QC_INLINE void NAME##_form_body(const bool native, const struct qc_qbinary *m, T *y, const T *a,            \
                                           const T *b, size_t n, const int64_t *step)                                  \
    {                                                                                                                  \
        switch (m->op) {                                                                                               \
        case QC_QBINARY_ADD: NAME##_op(native, QC_QBINARY_ADD, m, y, a, b, n, step); break;                            \
        case QC_QBINARY_SUB: NAME##_op(native, QC_QBINARY_SUB, m, y, a, b, n, step); break;                            \
        case QC_QBINARY_MUL: NAME##_op(native, QC_QBINARY_MUL, m, y, a, b, n, step); break;                            \
        }                                                                                                              \
    }                                                                                                                  \
    QC_SIMD_ROUND(NAME##_form,                                                                                         \
                  (const struct qc_qbinary *m, T *y, const T *a, const T *b, size_t n, const int64_t *step),           \
                  (m, y, a, b, n, step))

#define QC_SAME(x, z) (float)(x)
#define QC_MINUS(x, z) ((float)(x) - (z))
#define QC_PLUS(x, z) ((x) + (z))
#define QC_BARE(x, z) (x)
#define QC_STORE(T, q) (T)(int32_t)(q)
#define QC_CENTRE(T, q) (q) - m.fzc
QC_FLOAT_FORM(u8, uint8_t, QC_SAME, QC_MINUS, QC_STORE)
QC_FLOAT_FORM(i8, int8_t, QC_SAME, QC_MINUS, QC_STORE)
QC_FLOAT_FORM(i32, int32_t, QC_SAME, QC_MINUS, QC_STORE)
QC_FLOAT_FORM(centred, float, QC_PLUS, QC_BARE, QC_CENTRE)

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

/* Adds contiguous bytes, 64 at a time, and returns the number of elements done. Packing saturates, so the clamping may
   follow the rounding. NaN and numbers below the int32 range become INT32_MIN, which clamps to the lowest level. */
QC_TARGET_AVX512 static QC_INLINE size_t sums_body(const struct qc_qbinary *m, uint8_t *y, const uint8_t *a,
                                                   const uint8_t *b, size_t n, const bool is_signed)
{
    enum { LANES = 16, FULL = 64 };
    const __m512 ra = _mm512_set1_ps(m->ra), rb = _mm512_set1_ps(m->rb), k = _mm512_set1_ps(m->k),
                 most = _mm512_set1_ps(INT16_MAX);
    const __m512i lo = _mm512_set1_epi8((char)m->levels.lo), hi = _mm512_set1_epi8((char)m->levels.hi),
                  order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    size_t i = 0;
    for (; i + FULL <= n; i += FULL) {
        __m512i q[4];
        for (size_t v = 0; v < 4; v++) {
            const __m128i xa = _mm_loadu_si128((const void *)(a + i + v * LANES)),
                          xb = _mm_loadu_si128((const void *)(b + i + v * LANES));
            const __m512 fa = _mm512_cvtepi32_ps(is_signed ? _mm512_cvtepi8_epi32(xa) : _mm512_cvtepu8_epi32(xa)),
                         fb = _mm512_cvtepi32_ps(is_signed ? _mm512_cvtepi8_epi32(xb) : _mm512_cvtepu8_epi32(xb));
            q[v] = _mm512_cvtps_epi32(_mm512_min_ps(most, _mm512_fmadd_ps(fa, ra, _mm512_fmadd_ps(fb, rb, k))));
        }
        const __m512i low = _mm512_packs_epi32(q[0], q[1]), high = _mm512_packs_epi32(q[2], q[3]);
        if (is_signed) {
            const __m512i r = _mm512_permutexvar_epi32(order, _mm512_packs_epi16(low, high));
            _mm512_storeu_si512(y + i, _mm512_min_epi8(_mm512_max_epi8(r, lo), hi));
        } else {
            const __m512i r = _mm512_permutexvar_epi32(order, _mm512_packus_epi16(low, high));
            _mm512_storeu_si512(y + i, _mm512_min_epu8(_mm512_max_epu8(r, lo), hi));
        }
    }
    return i;
}

QC_TARGET_AVX512 static size_t sums_u8(const struct qc_qbinary *m, void *y, const void *a, const void *b, size_t n)
{
    return sums_body(m, y, a, b, n, false);
}

QC_TARGET_AVX512 static size_t sums_i8(const struct qc_qbinary *m, void *y, const void *a, const void *b, size_t n)
{
    return sums_body(m, y, a, b, n, true);
}

static size_t sums(const struct qc_qbinary *m, void *y, const void *a, const void *b, size_t n, const int64_t step[3],
                   bool is_signed)
{
    if (m->op != QC_QBINARY_ADD || step[0] != 1 || step[1] != 1 || step[2] != 1 || !QC_HAS_AVX512()) return 0;
    return is_signed ? sums_i8(m, y, a, b, n) : sums_u8(m, y, a, b, n);
}
#else
static size_t sums(const struct qc_qbinary *m, void *y, const void *a, const void *b, size_t n, const int64_t step[3],
                   bool is_signed)
{
    (void)m, (void)y, (void)a, (void)b, (void)n, (void)step, (void)is_signed;
    return 0;
}
#endif

void qc_qbinary_u8(const struct qc_qbinary *m, uint8_t *y, const uint8_t *a, const uint8_t *b, size_t n,
                   const int64_t step[3])
{
    const size_t done = sums(m, y, a, b, n, step, false);
    if (done < n) u8_form(m, y + done, a + done, b + done, n - done, step);
}

void qc_qbinary_i8(const struct qc_qbinary *m, int8_t *y, const int8_t *a, const int8_t *b, size_t n,
                   const int64_t step[3])
{
    const size_t done = sums(m, y, a, b, n, step, true);
    if (done < n) i8_form(m, y + done, a + done, b + done, n - done, step);
}

void qc_qbinary_centred(const struct qc_qbinary *m, float *y, const float *a, const float *b, size_t n,
                        const int64_t step[3])
{
    centred_form(m, y, a, b, n, step);
}

/* ------------------------------------------------- fixed point */

static int64_t xnnpack_result(const struct qc_qbinary *m, int32_t va, int32_t vb)
{
    if (m->op == QC_QBINARY_MUL) return (int64_t)nearbyintf((float)(va * vb) * m->m);
    const int64_t b = (int64_t)vb * m->b.multiplier, one = INT64_C(1) << m->left_shift,
                  sum = (int64_t)va * m->a.multiplier + (m->op == QC_QBINARY_SUB ? -b : b) + one / 2;
    return (sum - (sum & (one - 1))) / one;
}

static int64_t fixed_result(const struct qc_qbinary *m, int32_t va, int32_t vb)
{
    if (m->rule == QC_REQUANTIZE_XNNPACK) return xnnpack_result(m, va, vb);
    if (m->op == QC_QBINARY_MUL) return qc_fixed_multiply_wide(m->rule, (int64_t)va * vb, m->c);
    const int64_t sign = m->op == QC_QBINARY_SUB ? -1 : 1;
    if (m->rule == QC_REQUANTIZE_DOUBLE) {
        const int64_t one = INT64_C(1) << m->left_shift, ra = qc_fixed_multiply_wide(m->rule, va * one, m->a),
                      rb = qc_fixed_multiply_wide(m->rule, vb * one, m->b);
        return qc_fixed_multiply_wide(m->rule, ra + sign * rb, m->c);
    }
    const int64_t ra = m->copies_a ? va : qc_fixed_multiply_wide(m->rule, va, m->a),
                  rb = m->copies_b ? vb : qc_fixed_multiply_wide(m->rule, vb, m->b);
    return ra + sign * rb;
}

int32_t qc_qbinary_one(const struct qc_qbinary *m, int32_t a, int32_t b)
{
    if (m->rule != QC_REQUANTIZE_FLOAT) return qc_saturate(fixed_result(m, a - m->za, b - m->zb) + m->zc, m->levels);
    return (int32_t)float_level(m->op, m, (float)a, (float)b, (float)(a - m->za), (float)(b - m->zb), true);
}

static QC_INLINE int32_t twice(int32_t x, const struct qc_fixed_steps *m)
{
    return qc_multiply_twice(qc_raise_left(x, m->left, m->limit), m->multiplier, m->right);
}

static QC_INLINE int32_t once(int32_t x, const struct qc_fixed_steps *m, const bool away)
{
    return qc_multiply_once(x, m->multiplier, m->limit, m->bias, m->shift, m->offset, away);
}

/* Constants for products of up to 33 bits, held as a magnitude of 32 bits and a sign. Magnitudes are rounded half away,
   or half upward: 1 is subtracted first if the product is negative. The first rounding is half upward unless `away`.
   With a left shift, magnitudes above `limit` saturate anyway. */
struct wide_steps {
    uint32_t limit;
    uint64_t multiplier, half, shift, second_half, second_shift;
    bool away;
};

static struct wide_steps wide_steps_of(enum qc_requantize_rule rule, struct qc_fixed m)
{
    const bool twice = rule == QC_REQUANTIZE_DOUBLE && m.shift < 0;
    const int right = twice ? 31 : 31 - m.shift;
    return (struct wide_steps){.limit = m.shift > 0 ? UINT32_C(1) << (31 - m.shift) : UINT32_MAX,
                               .multiplier = (uint64_t)m.multiplier,
                               .half = right > 0 ? UINT64_C(1) << (right - 1) : 0,
                               .shift = (uint64_t)right,
                               .second_half = twice ? UINT64_C(1) << (-m.shift - 1) : 0,
                               .second_shift = twice ? (uint64_t)-m.shift : 0,
                               .away = rule == QC_REQUANTIZE_NEAREST || right == 0};
}

static QC_INLINE int32_t wide_product(int32_t va, int32_t vb, const struct wide_steps *s)
{
    const bool negative = (va ^ vb) < 0;
    uint32_t p = (uint32_t)(va < 0 ? -va : va) * (uint32_t)(vb < 0 ? -vb : vb);
    p = p < s->limit ? p : s->limit;
    const uint64_t less = s->away ? 0 : (uint64_t)(uint32_t)negative;
    uint64_t q = (p * s->multiplier + s->half - less) >> s->shift;
    q = (q + s->second_half) >> s->second_shift;
    const uint32_t narrow = (uint32_t)q < INT32_MAX ? (uint32_t)q : INT32_MAX;
    return negative ? -(int32_t)narrow : (int32_t)narrow;
}

QC_VECTOR(fixed, (const struct qc_qbinary *binary, int32_t *y, const int32_t *a, const int32_t *b, size_t n),
          (binary, y, a, b, n))
{
    const struct qc_qbinary m = *binary;
    const struct qc_fixed_steps ma = qc_fixed_steps_of(m.a), mb = qc_fixed_steps_of(m.b), mc = qc_fixed_steps_of(m.c);
    const struct wide_steps product = wide_steps_of(m.rule, m.c);
    const int32_t lo = m.levels.lo - m.zc, hi = m.levels.hi - m.zc, sign = m.op == QC_QBINARY_SUB ? -1 : 1,
                  one = 1 << m.left_shift;
    const bool away = m.rule == QC_REQUANTIZE_NEAREST, doubled = m.rule == QC_REQUANTIZE_DOUBLE;
#define QC_LOOP(expression)                                                                                            \
    {                                                                                                                  \
        QC_IVDEP                                                                                                       \
        for (size_t i = 0; i < n; i++) {                                                                               \
            const int32_t va = a[i] - m.za, vb = b[i] - m.zb;                                                          \
            y[i] = qc_clamp_int((expression), lo, hi) + m.zc;                                                          \
        }                                                                                                              \
        return;                                                                                                        \
    }
    if (m.op == QC_QBINARY_MUL) {
        if (m.wide) QC_LOOP(wide_product(va, vb, &product))
        if (doubled && mc.left > 0) QC_LOOP(twice(va * vb, &mc))
        if (doubled) QC_LOOP(qc_multiply_twice(va * vb, mc.multiplier, mc.right))
        QC_LOOP(once(va * vb, &mc, away))
    }
    if (doubled && mc.left > 0)
        QC_LOOP(twice(qc_multiply_twice(va * one, ma.multiplier, ma.right) +
                          sign * qc_multiply_twice(vb * one, mb.multiplier, mb.right),
                      &mc))
    if (doubled)
        QC_LOOP(qc_multiply_twice(qc_multiply_twice(va * one, ma.multiplier, ma.right) +
                                      sign * qc_multiply_twice(vb * one, mb.multiplier, mb.right),
                                  mc.multiplier, mc.right))
    if (m.copies_a && m.copies_b) QC_LOOP(va + sign * vb)
    if (m.copies_a) QC_LOOP(va + sign * once(vb, &mb, away))
    if (m.copies_b) QC_LOOP(once(va, &ma, away) + sign * vb)
    QC_LOOP(once(va, &ma, away) + sign * once(vb, &mb, away))
#undef QC_LOOP
}

void qc_qbinary_run(const struct qc_qbinary *m, int32_t *y, const int32_t *a, const int32_t *b, size_t n)
{
    /* With ratios below 2^13 the sum of two rescaled operands of at most 17 bits fits 32 bits. */
    if (m->rule == QC_REQUANTIZE_FLOAT)
        i32_form(m, y, a, b, n, (const int64_t[]){1, 1, 1});
    else if (m->rule == QC_REQUANTIZE_XNNPACK || (m->op != QC_QBINARY_MUL && (m->a.shift > 13 || m->b.shift > 13)))
        for (size_t i = 0; i < n; i++) y[i] = qc_qbinary_one(m, a[i], b[i]);
    else
        fixed(m, y, a, b, n);
}
