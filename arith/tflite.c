// SPDX-License-Identifier: Apache-2.0
#include "arith/tflite.h"

#include <float.h>

static int32_t saturate16(int32_t x)
{
    if (x < INT16_MIN) return INT16_MIN;
    return x > INT16_MAX ? INT16_MAX : x;
}

/* 16-bit forms of qc_high_mul: this one rounds half upward, the next one truncates. */
static int32_t high_mul16(int32_t a, int32_t b)
{
    if (a == INT16_MIN && b == INT16_MIN) return INT16_MAX;
    const int32_t ab = a * b, nudge = ab >= 0 ? 1 << 14 : 1 - (1 << 14);
    return (ab + nudge) / (1 << 15);
}

static int32_t high_mul16_truncated(int32_t a, int32_t b)
{
    if (a == INT16_MIN && b == INT16_MIN) return INT16_MAX;
    return a * b / (1 << 15);
}

/* Returns the upper 16 bits of a multiplier, rounded half upward. */
static int32_t multiplier16(int32_t m)
{
    return m >= INT32_MAX - (1 << 15) ? INT16_MAX : (m + (1 << 15)) >> 16;
}

/* x * relu6(x + 3) / 6, with relu6(x + 3) / 6 in Q0.15. */
static int32_t hard_swish(const struct qc_tflite_unary *u, int32_t q)
{
    const int32_t fine = (q - u->input.zero_point) * (1 << 7), exponent = u->negative.shift;
    const int32_t scaled = high_mul16(fine, multiplier16(u->identity.multiplier));
    int32_t factor = fine;
    if (exponent > 0)
        factor = saturate16(exponent - 1 > 16 ? qc_fixed_raise(factor, 16) : qc_fixed_raise(factor, exponent - 1));
    factor = high_mul16(factor, multiplier16(u->negative.multiplier));
    if (exponent > 0) factor = saturate16(factor * 2);
    if (exponent < 0) factor = qc_divide_by_pot(factor, -exponent);
    factor = (factor + (1 << 15)) >> 1;
    const int32_t product = high_mul16_truncated(factor, scaled);
    return qc_divide_by_pot(product, -u->identity.shift) + u->output.zero_point;
}

/* Multiplier and right shift that bring an input of 16 bits to 1/12288, in which +-2^17 is +-10.7. A power of two is
   multiplied by 3 * 2^k alone; most: the largest k. */
static struct qc_fixed input16(float scale, int most)
{
    int exponent;
    const bool power = frexpf(scale, &exponent) == 0.5f;
    const int k = exponent - 1 + 12;
    if (power && k >= 0 && k <= most) return (struct qc_fixed){.multiplier = 3 * (1 << k), .shift = 0};
    double m = (double)scale * 4096.0 * 3.0;
    int shift = 0;
    for (; m <= 32767.0 / 2.0 && shift <= 30; shift++) m *= 2;
    return (struct qc_fixed){.multiplier = (int32_t)(m < 0x1p31 - 1.0 ? m : 0x1p31 - 1.0), .shift = shift};
}

/* sigmoid(x / 24) in Q0.16. */
static double sigmoid24(double x)
{
    return 65536.0 / (1 + exp(-x / 24));
}

/* On the line from entry x / 2^bits to the next one, in Q0.(16 + bits). */
static uint32_t interpolated(const uint16_t y[256], uint32_t x, int bits)
{
    const uint32_t i = x >> bits, rest = x & ((UINT32_C(1) << bits) - 1), a = y[i], b = y[i + 1];
    return (a << bits) + rest * (b - a);
}

static int32_t function16(const struct qc_tflite_unary *u, int32_t q)
{
    const int shift = u->identity.shift;
    const int64_t half = shift > 0 ? INT64_C(1) << (shift - 1) : 0,
                  x = (q * (int64_t)u->identity.multiplier + half) >> shift;
    const uint64_t distance = (uint64_t)(x < 0 ? -x : x);
    if (u->kind == QC_TFLITE_SIGMOID_16) {
        const uint32_t y =
            distance >> 9 >= 255 ? UINT32_C(0x7FFF) << 10 : interpolated(u->sigmoid, (uint32_t)distance, 9);
        return (int32_t)((x >= 0 ? y + (1 << 9) : (UINT32_C(1) << 25) - y + (1 << 9) - 1) >> 10);
    }
    const int32_t y = distance >> 8 >= 255 ? 0xFFFF << 8 : (int32_t)interpolated(u->sigmoid, (uint32_t)distance, 8);
    return (x >= 0 ? y - (1 << 23) + (1 << 7) : -y + (1 << 23) + (1 << 7) - 1) >> 8;
}

static bool fixed_ratio(struct qc_fixed *out, float m, float most, struct qc_status *st)
{
    if (!(m > 0) || !(m < most))
        return qc_fail(st, QC_BAD_INPUT, "ratio %g of two scales is not in (0, %g)", (double)m, (double)most);
    *out = qc_fixed_of((double)m);
    return true;
}

bool qc_tflite_unary_of(struct qc_tflite_unary *u, struct qc_status *st)
{
    const float si = u->input.scale, so = u->output.scale;
    if (!(si > 0 && si <= FLT_MAX && so > 0 && so <= FLT_MAX))
        return qc_fail(st, QC_BAD_INPUT, "scales %g and %g: they must be positive and finite", (double)si, (double)so);
    if (u->kind == QC_TFLITE_HARD_SWISH) {
        const float fine = (1.0f / 128.0f) * si;
        return fixed_ratio(&u->identity, fine / so, 1.0f, st) &&
               fixed_ratio(&u->negative, fine / (3.0f / 32768.0f), 0x1p30f, st);
    }
    if (u->kind == QC_TFLITE_SIGMOID_16 || u->kind == QC_TFLITE_TANH_16) {
        u->identity = input16(si, u->kind == QC_TFLITE_TANH_16);
        /* Each less half the error of the line to the next one in its middle; the last one stands for 1. */
        for (int i = 0; i < 255; i++) {
            const double line = (sigmoid24(i) + sigmoid24(i + 1)) / 2;
            u->sigmoid[i] = (uint16_t)round(sigmoid24(i) - (line - sigmoid24(i + 0.5)) / 2);
        }
        u->sigmoid[255] = UINT16_MAX;
    }
    if (u->kind == QC_TFLITE_LEAKY_RELU) {
        u->negative = (struct qc_fixed){0};
        if (!fixed_ratio(&u->identity, si / so, 0x1p22f, st)) return false;
        if (u->alpha == 0) return true;
        const float m = si * u->alpha / so;
        if (!fixed_ratio(&u->negative, fabsf(m), 0x1p22f, st)) return false;
        if (m < 0) u->negative.multiplier = -u->negative.multiplier;
    }
    return true;
}

int32_t qc_tflite_unary_one(const struct qc_tflite_unary *u, int32_t q)
{
    const int32_t v = q - u->input.zero_point, zo = u->output.zero_point;
    if (u->kind == QC_TFLITE_HARD_SWISH) return qc_saturate(hard_swish(u, q), u->levels);
    if (u->kind == QC_TFLITE_SIGMOID_16 || u->kind == QC_TFLITE_TANH_16)
        return qc_saturate(function16(u, v), u->levels);
    if (u->kind == QC_TFLITE_LEAKY_RELU)
        return qc_saturate((int64_t)qc_fixed_multiply(QC_REQUANTIZE_DOUBLE, v, v >= 0 ? u->identity : u->negative) + zo,
                           u->levels);
    const float inverse = 1.0f / u->output.scale,
                y = roundf(u->function(u->input.scale * (float)v, u->context) * inverse);
    if (!(y > (float)(u->levels.lo - zo))) return u->levels.lo;
    return y < (float)(u->levels.hi - zo) ? (int32_t)y + zo : u->levels.hi;
}

/* Qm.n below: a fixed-point number of m integer bits and n = 31 - m fractional bits in an int32. */

/* Returns exp(a) in Q0.31 for a in Q0.31, -1/4 <= a < 0: Taylor polynomial of degree 4 around -1/8. */
static int32_t exp_of_quarter(int32_t a)
{
    const int32_t at_center = 1895147668 /* exp(-1/8) */, third = 715827883;
    const int32_t x = a + (1 << 28), x2 = qc_high_mul(x, x), x3 = qc_high_mul(x2, x), x4 = qc_high_mul(x2, x2);
    const int32_t high = qc_divide_by_pot(qc_high_mul(qc_divide_by_pot(x4, 2) + x3, third) + x2, 1);
    return at_center + qc_high_mul(at_center, x + high);
}

/* Returns 1 / (1 + a) in Q0.31 for a in Q0.31, 0 <= a < 1: three Newton steps in Q2.29. */
static int32_t inverse_of_one_plus(int32_t a)
{
    const int64_t sum = (int64_t)a + INT32_MAX;
    const int32_t half = (int32_t)((sum + 1) / 2);
    int32_t x = 1515870810 /* 48/17 */ + qc_high_mul(half, -1010580540 /* -32/17 */);
    for (int i = 0; i < 3; i++) x += qc_fixed_raise(qc_high_mul(x, (1 << 29) - qc_high_mul(half, x)), 2);
    return qc_fixed_raise(x, 1);
}

struct qc_tflite_softmax qc_tflite_softmax_of(float input_scale, float beta)
{
    const double real = (double)beta * (double)input_scale * (double)(1 << 26), most = 0x1p31 - 1.0;
    const struct qc_fixed m = qc_fixed_of(real < most ? real : most);
    const double radius = floor(31.0 * (double)(1 << 26) / (double)(INT64_C(1) << (m.shift > 0 ? m.shift : 0)));
    return (struct qc_tflite_softmax){.multiplier = m.multiplier,
                                      .left_shift = m.shift > 0 ? m.shift : 0,
                                      .diff_min = -qc_saturate32((int64_t)radius)};
}

/* Returns exp(a) in Q0.31: the polynomial for the part below 1/4, a factor for each higher bit. */
static int32_t exp_of_difference(const struct qc_tflite_softmax *s, int32_t difference)
{
    const int32_t a = qc_high_mul((int32_t)((uint32_t)difference << s->left_shift), s->multiplier); /* in Q5.26 */
    static const int32_t factor[] = {1672461947, 1302514674, 790015084, 290630308,
                                     39332535,   720401,     242}; /* exp(-2^(i-2)) */
    const int32_t quarter = 1 << 24, low = (a & (quarter - 1)) - quarter;
    const uint32_t rest = (uint32_t)low - (uint32_t)a;
    if (a == 0) return INT32_MAX;
    int32_t result = exp_of_quarter(qc_fixed_raise(low, 5));
    for (int i = 0; i < 7; i++)
        if (rest & (UINT32_C(1) << (24 + i))) result = qc_high_mul(result, factor[i]);
    return result;
}

void qc_tflite_softmax_row(const struct qc_tflite_softmax *s, int32_t *y, const int32_t *x, size_t n, int32_t lowest)
{
    int32_t largest = INT32_MIN, sum = 0; /* Q12.19 */
    for (size_t i = 0; i < n; i++) largest = x[i] > largest ? x[i] : largest;
    for (size_t i = 0; i < n; i++)
        if (x[i] - largest >= s->diff_min)
            sum = qc_saturate32((int64_t)sum + qc_divide_by_pot(exp_of_difference(s, x[i] - largest), 12));
    int headroom = 0;
    while (headroom < 31 && !((uint32_t)sum & (UINT32_C(0x80000000) >> headroom))) headroom++;
    const int32_t inverse = inverse_of_one_plus((int32_t)(((uint32_t)sum << headroom) - UINT32_C(0x80000000)));
    const int right = 12 - headroom + 31 - 8;
    for (size_t i = 0; i < n; i++) {
        const int32_t difference = x[i] - largest;
        int32_t level = 0;
        if (difference >= s->diff_min && right <= 31)
            level = qc_divide_by_pot(qc_high_mul(inverse, exp_of_difference(s, difference)), right);
        y[i] = lowest + (level < 0 ? 0 : level > 255 ? 255 : level);
    }
}

void qc_litert_softmax_of(struct qc_litert_softmax *out, float input_scale, float beta)
{
    for (int i = 0; i < 256; i++) out->exponential[i] = expf(-input_scale * beta * (float)i);
}

void qc_litert_softmax_row(const struct qc_litert_softmax *s, int32_t *y, const int32_t *x, size_t n, int32_t lowest)
{
    int32_t largest = INT32_MIN;
    float sum = 0;
    for (size_t i = 0; i < n; i++) largest = x[i] > largest ? x[i] : largest;
    for (size_t i = 0; i < n; i++) sum += s->exponential[largest - x[i]];
    const float inverse = 1 / (sum * 0x1p-8f);
    for (size_t i = 0; i < n; i++) {
        const int32_t level = (int32_t)roundf(s->exponential[largest - x[i]] * inverse);
        y[i] = lowest + (level > 255 ? 255 : level);
    }
}

/* ------------------------------------------------- softmax of 16 bits */

/* f at 512 steps from `first` to `last`, in Q0.15, each less half the error of the line in the middle of its step. */
static void fill_lines(int16_t line[513], double (*f)(double), double first, double last)
{
    const double step = (last - first) / 512, unit = 65536 / (2.0 / 65535 * 32767 - 2.0 / 65535 * -32768);
    for (int i = 0; i <= 512; i++) {
        const double at = i < 512 ? first + i * step : last, y = round(f(at) * unit),
                     middle = round((f(first + (i + 1) * step) * unit + y) / 2) - round(f(at + step / 2) * unit);
        line[i] = (int16_t)saturate16((int32_t)(i < 512 ? y - round(middle / 2) : y));
    }
}

static double inverse_of_sum(double x)
{
    return 1 / (1 + x);
}

static int32_t on_line(const int16_t line[513], int32_t x)
{
    const int16_t *at = line + 256 + (x >> 7);
    return (int16_t)(at[0] + (((at[1] - at[0]) * (x & 127) + 64) >> 7));
}

void qc_tflite_softmax16_of(struct qc_tflite_softmax16 *out, float input_scale, float beta)
{
    out->input = qc_fixed_of((double)input_scale * (double)beta / (10.0 / 65535.0));
    fill_lines(out->exponential, exp, -10, 0);
    fill_lines(out->inverse, inverse_of_sum, 0, 1);
}

void qc_tflite_softmax16_row(const struct qc_tflite_softmax16 *s, int32_t *y, const int32_t *x, size_t n)
{
    int32_t largest = INT32_MIN, sum = 0; /* Q16.15 */
    for (size_t i = 0; i < n; i++) largest = x[i] > largest ? x[i] : largest;
    for (size_t i = 0; i < n; i++) {
        const int64_t scaled = qc_fixed_multiply(QC_REQUANTIZE_DOUBLE, x[i] - largest, s->input);
        y[i] = on_line(s->exponential, saturate16(qc_saturate32(scaled + 32767)));
        sum = qc_saturate32((int64_t)sum + y[i]);
    }
    int headroom = 1; /* bits above the first one of the sum, and one more */
    while (headroom < 31 && !((uint32_t)sum & (UINT32_C(0x80000000) >> headroom))) headroom++;
    const int64_t shifted = (((int64_t)sum << (headroom - 1)) + (1 << 13)) >> 14;
    const int32_t inverse = on_line(s->inverse, saturate16((int32_t)shifted - (1 << 15) - (1 << 16)));
    const int right = 31 - headroom;
    for (size_t i = 0; i < n; i++) {
        const int64_t level = right > 0 ? ((int64_t)y[i] * inverse + (INT64_C(1) << (right - 1))) >> right : 0;
        y[i] = level < 0 ? 0 : saturate16(qc_saturate32(level));
    }
}
