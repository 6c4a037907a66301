// SPDX-License-Identifier: Apache-2.0
#include "arith/requantize.h"

#include "arith/real_steps.h"
#include "base/simd.h"

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
    case QC_FROM_QUANTIZER:
        factor[0] = sx;
        r->divides = true;
        r->divisor = sy;
        break;
    case QC_FROM_SUM: factor[0] = qc_mean_factor(sx, sy, (float)d->divisor); break;
    }
    return true;
}

/* xnnpack: the sum of the stored integers times the factor, plus the zero points. */
static bool fill_xnnpack_mean(struct qc_requantizer *r, const struct qc_requantize_def *d, struct qc_arena *a,
                              struct qc_status *st)
{
    float *factor = QC_NEW(a, float, st);
    if (!factor) return false;
    const int64_t zeros = d->divisor * d->input_zero_point;
    if (zeros <= INT32_MIN || zeros > INT32_MAX)
        return qc_fail(st, QC_UNSUPPORTED, "the sum of a mean does not fit in 32 bits");
    *factor = d->input_scale / d->output.scale * (1 / (float)d->divisor);
    r->factor = factor;
    r->addend = (float)d->output.zero_point - (float)zeros * *factor;
    r->input_zero_point = -(int32_t)zeros;
    r->zero_point = 0;
    return true;
}

static bool is_xnnpack(const struct qc_requantize_def *d)
{
    return qc_contract_info(d->contract)->requantize == QC_REQUANTIZE_XNNPACK;
}

/* The runtime leaves to TensorFlow Lite's kernels what XNNPACK does not compute. */
static enum qc_requantize_rule rule_of(const struct qc_requantize_def *d)
{
    const float ratio = d->input_scale / d->output.scale;
    if (!is_xnnpack(d)) return qc_contract_info(d->contract)->requantize;
    if (d->wide && d->source == QC_FROM_DENSE) return QC_REQUANTIZE_NEAREST; /* LiteRT's FULLY_CONNECTED */
    if (d->source != QC_FROM_QUANTIZER) return d->wide || d->weight_zero ? QC_REQUANTIZE_DOUBLE : QC_REQUANTIZE_FLOAT;
    return ratio >= 0x1p-8f && ratio <= 0x1p7f ? QC_REQUANTIZE_UPWARD : QC_REQUANTIZE_DOUBLE;
}

/* Returns the input scale divided by the output scale, in double. */
static double ratio_of(const struct qc_requantize_def *d, size_t c, bool tflite)
{
    const double sx = (double)d->input_scale, sy = (double)d->output.scale;
    switch (d->source) {
    case QC_FROM_PRODUCT: return sx * (double)d->weight_scale[c] / sy;
    case QC_FROM_DENSE:
        if (tflite && d->count == 1) return (double)(d->input_scale * d->weight_scale[c]) / sy;
        return sx * (double)d->weight_scale[c] / sy;
    case QC_FROM_QUANTIZER:
        if (!tflite && is_xnnpack(d)) return nearbyint(256 * (double)(d->input_scale / d->output.scale)) / 256;
        break;
    case QC_FROM_SUM:
        if (!tflite) return sx / (sy * (double)d->divisor);
        break;
    }
    return sx / sy;
}

static bool fill_fixed(struct qc_requantizer *r, const struct qc_requantize_def *d, struct qc_arena *a,
                       struct qc_status *st)
{
    struct qc_fixed *all = QC_NEW_ARRAY(a, struct qc_fixed, r->count, st);
    if (!all) return false;
    const bool twice = r->rule == QC_REQUANTIZE_DOUBLE, wide = twice && d->wide;
    r->fixed = all;
    if (wide) r->rule = QC_REQUANTIZE_UPWARD;
    r->copies = d->source == QC_FROM_QUANTIZER && d->input_scale == d->output.scale;
    for (size_t c = 0; c < r->count; c++) {
        struct qc_fixed m = {0};
        if (!qc_fixed_ratio(&m, ratio_of(d, c, twice), st)) return false;
        /* tflite: mean = sum * (multiplier * 2^k / n) * 2^(shift - k). The quotient is truncated. k = floor(log2 n), at
           most 32 and at most 31 + shift. */
        if (d->source == QC_FROM_SUM && twice) {
            int k = 0;
            while (k < 32 && (d->divisor >> (k + 1)) > 0) k++;
            if (k > 31 + m.shift) k = 31 + m.shift;
            m.multiplier = (int32_t)((((int64_t)m.multiplier) << k) / d->divisor);
            m.shift -= k;
        }
        /* tflite, 64-bit accumulators: the multiplier has 16 bits, and the product is rounded once, half upward. */
        if (wide) m.multiplier = (m.multiplier < 0x7FFF0000 ? (m.multiplier + (1 << 15)) >> 16 : 0x7FFF) * (1 << 16);
        all[c] = m;
    }
    return true;
}

bool qc_requantizer_of(struct qc_requantizer *out, const struct qc_requantize_def *def, struct qc_arena *a,
                       struct qc_status *st)
{
    const bool product = def->source == QC_FROM_PRODUCT || def->source == QC_FROM_DENSE;
    struct qc_requantizer r = {.rule = rule_of(def),
                               .count = product ? def->count : 1,
                               .input_zero_point = def->source == QC_FROM_QUANTIZER ? def->input_zero_point : 0,
                               .zero_point = def->output.zero_point,
                               .levels = def->levels};
    if (!qc_scale_usable(def->input_scale, "input", st) || !qc_scale_usable(def->output.scale, "result", st))
        return false;
    for (size_t c = 0; product && c < def->count; c++)
        if (!qc_scale_usable(def->weight_scale[c], "weight", st)) return false;
    if (def->source == QC_FROM_SUM && def->divisor < 1)
        return qc_fail(st, QC_BAD_INPUT, "a mean of %lld numbers", (long long)def->divisor);
    if (def->source == QC_FROM_SUM && is_xnnpack(def) ? !fill_xnnpack_mean(&r, def, a, st)
        : r.rule == QC_REQUANTIZE_FLOAT               ? !fill_float(&r, def, a, st)
                                                      : !fill_fixed(&r, def, a, st))
        return false;
    *out = r;
    return true;
}

int32_t qc_requantize_one(const struct qc_requantizer *r, size_t channel, int64_t acc)
{
    const size_t c = r->count > 1 ? channel : 0;
    if (r->rule == QC_REQUANTIZE_FLOAT) {
        const float v = (float)(acc - r->input_zero_point) * r->factor[c];
        return qc_round_level(r->divides ? v / r->divisor : v + r->addend, r->zero_point, r->levels, QC_QUANTIZE_EVEN);
    }
    const int64_t x = (int64_t)qc_saturate32(acc) - r->input_zero_point;
    return qc_saturate((r->copies ? x : qc_fixed_multiply_wide(r->rule, x, r->fixed[c])) + r->zero_point, r->levels);
}

/* ------------------------------------------------- arrays */

bool qc_requantize_loop_of(struct qc_requantize_loop *out, const struct qc_requantizer *r, struct qc_arena *a,
                           struct qc_status *st)
{
    struct qc_requantize_loop loop = {.rule = r->rule,
                                      .divides = r->divides,
                                      .copies = r->copies,
                                      .count = r->count,
                                      .factor = r->factor,
                                      .addend = r->addend,
                                      .divisor = r->divisor,
                                      .input_zero_point = r->input_zero_point,
                                      .zero_point = r->zero_point,
                                      .levels = r->levels};
    if (r->levels.lo < -65536 || r->levels.hi > 65536)
        return qc_fail(st, QC_UNSUPPORTED, "levels %d to %d under a rounding of 16 bits and less", r->levels.lo,
                       r->levels.hi);
    if (r->rule == QC_REQUANTIZE_FLOAT) {
        *out = loop;
        return true;
    }
    const size_t count = r->count;
    int32_t *narrow = QC_NEW_ARRAY(a, int32_t, 4 * count, st);
    uint64_t *wide = QC_NEW_ARRAY(a, uint64_t, 3 * count, st);
    if (!narrow || !wide) return false;
    for (size_t c = 0; c < count; c++) {
        const struct qc_fixed_steps s = qc_fixed_steps_of(r->fixed[c]);
        narrow[c] = s.multiplier;
        narrow[count + c] = s.left;
        narrow[2 * count + c] = s.right;
        narrow[3 * count + c] = s.limit;
        wide[c] = s.bias;
        wide[count + c] = s.shift;
        wide[2 * count + c] = s.offset;
        loop.raises |= s.left > 0;
    }
    loop.multiplier = narrow;
    loop.left = narrow + count;
    loop.right = narrow + 2 * count;
    loop.limit = narrow + 3 * count;
    loop.bias = wide;
    loop.shift = wide + count;
    loop.offset = wide + 2 * count;
    *out = loop;
    return true;
}

/* The loops. `step` is a constant, 1 if each element has its own parameters and 0 if all share them, so the compiler
   makes a loop for each. */
static QC_INLINE void requantize_body(const bool native, const struct qc_requantize_loop *r, size_t first, int32_t *y,
                                      const int32_t *x, size_t n, const size_t step)
{
    const int32_t zx = r->input_zero_point, zy = r->zero_point, lo = r->levels.lo - zy, hi = r->levels.hi - zy;
    const float low = (float)lo, high = (float)hi, addend = r->addend, divisor = r->divisor;
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
            y[i] = qc_clamp_int((expression), lo, hi) + zy;                                                            \
        }                                                                                                              \
        return;                                                                                                        \
    }
    if (r->copies) QC_LOOP(v)
    switch (r->rule) {
    case QC_REQUANTIZE_FLOAT:
        if (r->divides) QC_LOOP((int32_t)qc_level_of_quantizer((float)v, factor[c], divisor, low, high, native))
        QC_LOOP((int32_t)qc_round_even(qc_clamp((float)v * factor[c] + addend, low, high), native))
    case QC_REQUANTIZE_DOUBLE:
        if (!r->raises) QC_LOOP(qc_multiply_twice(v, m[c], right[c]))
        QC_LOOP(qc_multiply_twice(qc_raise_left(v, left[c], limit[c]), m[c], right[c]))
    case QC_REQUANTIZE_XNNPACK: /* not a rule of a requantizer: rule_of() */
    case QC_REQUANTIZE_UPWARD: QC_LOOP(qc_multiply_once(v, m[c], limit[c], bias[c], shift[c], offset[c], false))
    case QC_REQUANTIZE_NEAREST: QC_LOOP(qc_multiply_once(v, m[c], limit[c], bias[c], shift[c], offset[c], true))
    }
#undef QC_LOOP
}

QC_VECTOR_ROUND_EXPORTED(qc_requantize_run,
                         (const struct qc_requantize_loop *r, size_t first, int32_t *y, const int32_t *x, size_t n),
                         (r, first, y, x, n))
{
    if (r->count == 1)
        requantize_body(native, r, 0, y, x, n, 0);
    else
        requantize_body(native, r, first, y, x, n, 1);
}
