// SPDX-License-Identifier: Apache-2.0
#include "graph/numerics.h"

#include <assert.h>
#include <float.h>
#include <string.h>

#include "graph/dtype.h"

struct qc_levels qc_levels_of(enum qc_dtype dtype, bool restricted)
{
    const struct qc_dtype_info *t = qc_dtype_info(dtype);
    return (struct qc_levels){.lo = restricted && t->is_signed ? -t->hi : t->lo, .hi = t->hi};
}

static float usable_scale(double s)
{
    if (!(s > 0)) return 1.0f;
    if (s < (double)QC_SCALE_MIN) return QC_SCALE_MIN;
    if (s > (double)FLT_MAX) return FLT_MAX;
    return (float)s;
}

static int32_t clamp_level(double z, struct qc_levels levels)
{
    if (!(z > levels.lo)) return levels.lo;
    return z < levels.hi ? (int32_t)z : levels.hi;
}

struct qc_affine qc_affine_from_range(double lo, double hi, struct qc_levels levels, enum qc_symmetry symmetry)
{
    lo = lo < 0 ? lo : 0;
    hi = hi > 0 ? hi : 0;
    double steps = (double)levels.hi - (double)levels.lo;
    if (lo == 0 && hi == 0) return (struct qc_affine){.scale = 1.0f, .zero_point = clamp_level(0, levels)};
    switch (symmetry) {
    case QC_SYMMETRIC: {
        double top = -lo > hi ? -lo : hi;
        if (levels.lo < 0) return (struct qc_affine){.scale = usable_scale(top / levels.hi), .zero_point = 0};
        if (lo < 0) {
            int32_t middle = levels.hi / 2 + 1;
            return (struct qc_affine){.scale = usable_scale(top / (levels.hi - middle)), .zero_point = middle};
        }
        return (struct qc_affine){.scale = usable_scale(top / levels.hi), .zero_point = levels.lo};
    }
    case QC_ASYMMETRIC: break;
    }
    float scale = usable_scale((hi - lo) / steps);
    return (struct qc_affine){.scale = scale,
                              .zero_point = clamp_level(nearbyint(levels.lo - lo / (double)scale), levels)};
}

static const struct qc_contract_info contracts[QC_CONTRACT_COUNT] = {
#define QC_ROUNDING(constant, text, other, quantized, requantized, about)                                              \
    [QC_CONTRACT_##constant] = {.name = (text),                                                                        \
                                .alias = (other),                                                                      \
                                .quantize = QC_QUANTIZE_##quantized,                                                   \
                                .requantize = QC_REQUANTIZE_##requantized,                                             \
                                .summary = (about)},
#include "graph/roundings.def"
};
_Static_assert(sizeof contracts / sizeof *contracts == QC_CONTRACT_COUNT, "a row per contract");

const struct qc_contract_info *qc_contract_info(enum qc_contract c)
{
    return &contracts[c];
}

bool qc_contract_from_name(enum qc_contract *out, const char *name, struct qc_status *st)
{
    static const char names[] = ""
#define QC_ROUNDING(constant, text, other, quantized, requantized, about) " " text
#include "graph/roundings.def"
        ;
    for (unsigned i = 0; i < QC_CONTRACT_COUNT; i++) {
        const struct qc_contract_info *c = &contracts[i];
        if (strcmp(name, c->name) != 0 && (!*c->alias || strcmp(name, c->alias) != 0)) continue;
        *out = (enum qc_contract)i;
        return true;
    }
    return qc_fail(st, QC_USAGE, "no rounding is named '%s'; there is%s", name, names);
}

static int32_t saturate(int64_t x, struct qc_levels levels)
{
    if (x < levels.lo) return levels.lo;
    return x > levels.hi ? levels.hi : (int32_t)x;
}

/* round(clamp(v, lo - zp, hi - zp)) + zp; the bounds are integers, so that it does not matter whether they come before or behind
   the rounding. NaN: the lowest level. */
static int32_t round_level(float v, int32_t zero_point, struct qc_levels levels, enum qc_quantize_rule rule)
{
    const double lo = (double)levels.lo - zero_point, hi = (double)levels.hi - zero_point;
    if (!((double)v > lo)) return levels.lo;
    if ((double)v >= hi) return levels.hi;
    float r = v;
    switch (rule) {
    case QC_QUANTIZE_EVEN: r = nearbyintf(v); break;
    case QC_QUANTIZE_AWAY: r = roundf(v); break;
    }
    return saturate((int64_t)r + zero_point, levels);
}

int32_t qc_quantize_by(enum qc_contract c, float x, struct qc_affine p, struct qc_levels levels)
{
    return round_level(x / p.scale, p.zero_point, levels, contracts[c].quantize);
}

struct qc_fixed qc_fixed_of(double m)
{
    int shift;
    double multiplier = round(frexp(m, &shift) * 0x1p31);
    if (multiplier == 0x1p31) {
        multiplier = 0x1p30;
        shift++;
    }
    if (shift < -31) return (struct qc_fixed){0};
    return (struct qc_fixed){.multiplier = (int32_t)multiplier, .shift = shift};
}

int32_t qc_high_mul(int32_t a, int32_t b)
{
    if (a == INT32_MIN && b == INT32_MIN) return INT32_MAX;
    const int64_t ab = (int64_t)a * b, nudge = ab >= 0 ? INT64_C(1) << 30 : 1 - (INT64_C(1) << 30);
    return (int32_t)((ab + nudge) / (INT64_C(1) << 31));
}

int32_t qc_divide_by_pot(int32_t x, int n)
{
    assert(n >= 0 && n <= 31);
    const int64_t one = INT64_C(1) << n, remainder = x & (one - 1), threshold = ((one - 1) >> 1) + (x < 0);
    return (int32_t)((x - remainder) / one + (remainder > threshold));
}

/* round(x * m), where only the very last step rounds. */
static int32_t multiply_once(int32_t x, struct qc_fixed m, bool away)
{
    const int64_t product = (int64_t)x * m.multiplier; /* below 2^62 */
    const int right = 31 - m.shift;
    if (right <= 0) {
        const int64_t most = INT64_MAX >> -right;
        if (product > most) return INT32_MAX;
        if (product < -most) return INT32_MIN;
        return saturate(product * (INT64_C(1) << -right), (struct qc_levels){.lo = INT32_MIN, .hi = INT32_MAX});
    }
    const int64_t half = INT64_C(1) << (right - 1), one_less = away && product < 0;
    const uint64_t sum = (uint64_t)product + (uint64_t)half - (uint64_t)one_less; /* below 2^63: right <= 62 */
    const int64_t s = (int64_t)sum, floored = s >= 0 ? s >> right : -((-s - 1) >> right) - 1;
    return saturate(floored, (struct qc_levels){.lo = INT32_MIN, .hi = INT32_MAX});
}

int32_t qc_fixed_multiply(enum qc_requantize_rule rule, int32_t x, struct qc_fixed m)
{
    switch (rule) {
    case QC_REQUANTIZE_FLOAT: break;
    case QC_REQUANTIZE_DOUBLE: {
        const int32_t shifted = m.shift > 0 ? (int32_t)((uint32_t)x << m.shift) : x;
        return qc_divide_by_pot(qc_high_mul(shifted, m.multiplier), m.shift < 0 ? -m.shift : 0);
    }
    case QC_REQUANTIZE_UPWARD: return multiply_once(x, m, false);
    case QC_REQUANTIZE_NEAREST: return multiply_once(x, m, true);
    }
    assert(rule != QC_REQUANTIZE_FLOAT);
    return 0;
}

static bool usable(float scale, const char *what, struct qc_status *st)
{
    if (scale > 0 && scale <= FLT_MAX) return true;
    return qc_fail(st, QC_BAD_INPUT, "scale of the %s is %g: it must be positive and finite", what, (double)scale);
}

static bool fixed_ratio(struct qc_fixed *out, double m, struct qc_status *st)
{
    if (m < 0x1p30) {
        *out = qc_fixed_of(m);
        return true;
    }
    return qc_fail(st, QC_BAD_INPUT, "scale of the input is %g times that of the result: fixed point ends at 2^30", m);
}

/* tflite: mean = sum * (multiplier * 2^k / n) * 2^(shift - k), the quotient truncated, k = floor(log2 n) at most 32 and 31 + shift. */
static struct qc_fixed tflite_mean(struct qc_fixed m, int64_t n)
{
    int k = 0;
    while (k < 32 && (n >> (k + 1)) > 0) k++;
    if (k > 31 + m.shift) k = 31 + m.shift;
    return (struct qc_fixed){.multiplier = (int32_t)((((int64_t)m.multiplier) << k) / n), .shift = m.shift - k};
}

static bool fill_float(struct qc_requantizer *r, const struct qc_requantize_def *d, struct qc_arena *a,
                       struct qc_status *st)
{
    float *factor = QC_NEW_ARRAY(a, float, r->count, st);
    if (!factor) return false;
    const float sx = d->input_scale, sy = d->output.scale;
    r->factor = factor;
    switch (d->source) {
    case QC_FROM_PRODUCT:
    case QC_FROM_DENSE:
        for (size_t c = 0; c < r->count; c++) factor[c] = sx * d->weight_scale[c] / sy;
        break;
    case QC_FROM_SITE:
        factor[0] = sx;
        r->divides = true;
        r->divisor = sy;
        break;
    case QC_FROM_SUM: factor[0] = sx / (sy * (float)d->divisor); break;
    }
    return true;
}

/* Input over output scale, in double. */
static double ratio_of(const struct qc_requantize_def *d, size_t c, bool tflite)
{
    const double sx = (double)d->input_scale, sy = (double)d->output.scale;
    switch (d->source) {
    case QC_FROM_PRODUCT: return sx * (double)d->weight_scale[c] / sy;
    case QC_FROM_DENSE:
        if (tflite && d->count == 1) return (double)(d->input_scale * d->weight_scale[c]) / sy;
        return sx * (double)d->weight_scale[c] / sy;
    case QC_FROM_SITE: break;
    case QC_FROM_SUM:
        if (!tflite) return sx / (sy * (double)d->divisor);
        break;
    }
    return sx / sy;
}

static bool fill_fixed(struct qc_requantizer *r, const struct qc_requantize_def *d, struct qc_arena *a,
                       struct qc_status *st)
{
    int32_t *all = QC_NEW_ARRAY(a, int32_t, 2 * r->count, st);
    if (!all) return false;
    const bool twice = r->rule == QC_REQUANTIZE_DOUBLE;
    r->multiplier = all;
    r->shift = all + r->count;
    r->copies = d->source == QC_FROM_SITE && d->input_scale == d->output.scale;
    for (size_t c = 0; c < r->count; c++) {
        struct qc_fixed m = {0};
        if (!fixed_ratio(&m, ratio_of(d, c, twice), st)) return false;
        if (d->source == QC_FROM_SUM && twice) m = tflite_mean(m, d->divisor);
        all[c] = m.multiplier;
        all[r->count + c] = m.shift;
    }
    return true;
}

bool qc_requantizer_of(struct qc_requantizer *out, const struct qc_requantize_def *def, struct qc_arena *a,
                       struct qc_status *st)
{
    const bool product = def->source == QC_FROM_PRODUCT || def->source == QC_FROM_DENSE;
    struct qc_requantizer r = {.rule = contracts[def->contract].requantize,
                               .count = product ? def->count : 1,
                               .input_zero_point = def->source == QC_FROM_SITE ? def->input_zero_point : 0,
                               .zero_point = def->output.zero_point,
                               .levels = def->levels};
    if (!usable(def->input_scale, "input", st) || !usable(def->output.scale, "result", st)) return false;
    for (size_t c = 0; product && c < def->count; c++)
        if (!usable(def->weight_scale[c], "weight", st)) return false;
    if (def->source == QC_FROM_SUM && def->divisor < 1)
        return qc_fail(st, QC_BAD_INPUT, "a mean of %lld numbers", (long long)def->divisor);
    if (r.rule == QC_REQUANTIZE_FLOAT ? !fill_float(&r, def, a, st) : !fill_fixed(&r, def, a, st)) return false;
    *out = r;
    return true;
}

int32_t qc_requantize_one(const struct qc_requantizer *r, size_t channel, int64_t acc)
{
    const size_t c = r->count > 1 ? channel : 0;
    const int64_t x = acc - r->input_zero_point;
    if (r->rule == QC_REQUANTIZE_FLOAT) {
        const float v = (float)x * r->factor[c];
        return round_level(r->divides ? v / r->divisor : v, r->zero_point, r->levels, QC_QUANTIZE_EVEN);
    }
    const int32_t narrow = saturate(x, (struct qc_levels){.lo = INT32_MIN, .hi = INT32_MAX});
    const struct qc_fixed m = {.multiplier = r->multiplier[c], .shift = r->shift[c]};
    return saturate((int64_t)(r->copies ? narrow : qc_fixed_multiply(r->rule, narrow, m)) + r->zero_point, r->levels);
}

static bool fill_tflite_sum(struct qc_merger *m, struct qc_affine a, struct qc_affine b, struct qc_affine c,
                            struct qc_status *st)
{
    const double twice = 2 * (double)(a.scale > b.scale ? a.scale : b.scale);
    const bool wide = m->levels.hi > 255 || m->levels.lo < -128;
    m->left_shift = !wide ? 20 : a.zero_point == 0 && b.zero_point == 0 && m->levels.lo < 0 ? 15 : 14;
    return fixed_ratio(&m->a, (double)a.scale / twice, st) && fixed_ratio(&m->b, (double)b.scale / twice, st) &&
           fixed_ratio(&m->c, twice / ((double)(1 << m->left_shift) * (double)c.scale), st);
}

bool qc_merger_of(struct qc_merger *out, enum qc_contract contract, enum qc_merge_op op, struct qc_affine a,
                  struct qc_affine b, struct qc_affine c, struct qc_levels levels, struct qc_status *st)
{
    struct qc_merger m = {.op = op,
                          .rule = contracts[contract].requantize,
                          .za = a.zero_point,
                          .zb = b.zero_point,
                          .zc = c.zero_point,
                          .levels = levels};
    if (!usable(a.scale, "first operand", st) || !usable(b.scale, "second operand", st) ||
        !usable(c.scale, "result", st))
        return false;
    bool ok = true;
    switch (m.rule) {
    case QC_REQUANTIZE_FLOAT:
        m.ra = a.scale / c.scale;
        m.rb = b.scale / c.scale;
        m.k = (float)m.zc - fmaf(m.ra, (float)m.za, m.rb * (float)m.zb);
        m.m = a.scale * b.scale / c.scale;
        if (op == QC_MERGE_SUB) {
            m.ra = a.scale;
            m.rb = b.scale;
            m.k = c.scale;
        }
        break;
    case QC_REQUANTIZE_DOUBLE:
        ok = op == QC_MERGE_MUL ? fixed_ratio(&m.c, (double)(a.scale * b.scale / c.scale), st)
                                : fill_tflite_sum(&m, a, b, c, st);
        break;
    case QC_REQUANTIZE_UPWARD:
    case QC_REQUANTIZE_NEAREST:
        m.copies_a = a.scale == c.scale;
        m.copies_b = b.scale == c.scale;
        if (op == QC_MERGE_MUL)
            ok = fixed_ratio(&m.c, (double)a.scale * (double)b.scale / (double)c.scale, st);
        else
            ok = fixed_ratio(&m.a, (double)a.scale / (double)c.scale, st) &&
                 fixed_ratio(&m.b, (double)b.scale / (double)c.scale, st);
        break;
    }
    if (ok) *out = m;
    return ok;
}

static int32_t merge_float(const struct qc_merger *m, int32_t a, int32_t b)
{
    const float va = (float)(a - m->za), vb = (float)(b - m->zb);
    switch (m->op) {
    case QC_MERGE_ADD:
        return round_level(fmaf((float)a, m->ra, fmaf((float)b, m->rb, m->k)), 0, m->levels, QC_QUANTIZE_EVEN);
    case QC_MERGE_SUB: return round_level((va * m->ra - vb * m->rb) / m->k, m->zc, m->levels, QC_QUANTIZE_EVEN);
    case QC_MERGE_MUL: return round_level(va * vb * m->m + (float)m->zc, 0, m->levels, QC_QUANTIZE_EVEN);
    }
    return 0;
}

int32_t qc_merge_one(const struct qc_merger *m, int32_t a, int32_t b)
{
    if (m->rule == QC_REQUANTIZE_FLOAT) return merge_float(m, a, b);
    const int32_t va = a - m->za, vb = b - m->zb;
    int64_t sum = 0;
    if (m->op == QC_MERGE_MUL) {
        sum = qc_fixed_multiply(m->rule, (int32_t)((uint32_t)va * (uint32_t)vb), m->c);
    } else if (m->rule == QC_REQUANTIZE_DOUBLE) {
        const int32_t ra = qc_fixed_multiply(m->rule, va * (1 << m->left_shift), m->a);
        const int32_t rb = qc_fixed_multiply(m->rule, vb * (1 << m->left_shift), m->b);
        sum = qc_fixed_multiply(m->rule, m->op == QC_MERGE_ADD ? ra + rb : ra - rb, m->c);
    } else {
        const int64_t ra = m->copies_a ? va : qc_fixed_multiply(m->rule, va, m->a);
        const int64_t rb = m->copies_b ? vb : qc_fixed_multiply(m->rule, vb, m->b);
        sum = m->op == QC_MERGE_ADD ? ra + rb : ra - rb;
    }
    return saturate(sum + m->zc, m->levels);
}

int32_t qc_average_away(int64_t sum, int64_t n)
{
    assert(n > 0);
    return (int32_t)((sum >= 0 ? sum + n / 2 : sum - n / 2) / n);
}
