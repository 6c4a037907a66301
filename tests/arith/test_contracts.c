// SPDX-License-Identifier: Apache-2.0
/* Properties of the rounding contracts, on random numbers and edge cases. Rounded results are checked against the
   definition: no level is nearer, and ties are resolved by the rule. */
#include <float.h>

#include "arith/qbinary.h"
#include "arith/real_steps.h"
#include "arith/requantize.h"
#include "arith/tflite.h"
#include "tests/check.h"

enum { CASES = 100000 };

/* Any magnitude is as likely as any other; the edges come often. */
static int32_t random_int(uint64_t *state)
{
    static const int32_t edges[] = {0, 1, -1, INT32_MAX, INT32_MIN, INT32_MIN + 1, 1 << 30, -(1 << 30)};
    const uint64_t u = test_random(state);
    if (u % 16 == 0) return edges[(u >> 8) % 8];
    return (int32_t)(uint32_t)(u >> 32) >> (u % 31);
}

static int32_t random_multiplier(uint64_t *state)
{
    const uint64_t u = test_random(state);
    if (u % 8 == 0) return 1 << 30;
    return (int32_t)((UINT32_C(1) << 30) | (uint32_t)(u >> 34));
}

enum tie { TIE_UP, TIE_AWAY };

/* Is q = round(p / 2^n), 0 <= n <= 62? */
static bool is_rounded(int64_t q, int64_t p, int n, enum tie tie)
{
    if (n == 0) return q == p;
    const int64_t whole = p >> n, rest = p - whole * (INT64_C(1) << n), half = INT64_C(1) << (n - 1);
    if (rest < half) return q == whole;
    if (rest > half) return q == whole + 1;
    return q == (tie == TIE_UP || p >= 0 ? whole + 1 : whole);
}

Test(numerics, high_mul_and_divide_by_pot_round_as_gemmlowp_defines)
{
    uint64_t state = 1;
    for (int i = 0; i < CASES; i++) {
        const int32_t a = random_int(&state), b = random_int(&state);
        if (a == INT32_MIN && b == INT32_MIN) continue;
        const int32_t q = qc_high_mul(a, b);
        cr_assert(is_rounded(q, (int64_t)a * b, 31, TIE_UP), "%d * %d: %d", a, b, q);
        const int n = (int)(test_random(&state) % 32);
        cr_assert(is_rounded(qc_divide_by_pot(a, n), a, n, TIE_AWAY), "%d >> %d", a, n);
    }
    MUST_HOLD(qc_high_mul(INT32_MIN, INT32_MIN) == INT32_MAX, qc_divide_by_pot(INT32_MIN, 31) == -1,
              qc_divide_by_pot(INT32_MAX, 31) == 1, qc_divide_by_pot(-(1 << 30), 31) == -1, qc_divide_by_pot(3, 1) == 2,
              qc_divide_by_pot(-3, 1) == -2);
}

Test(numerics, rounding_once_is_the_nearest_and_rounding_twice_at_most_one_off)
{
    uint64_t state = 2;
    int apart = 0;
    for (int i = 0; i < CASES; i++) {
        const int32_t x = random_int(&state);
        const struct qc_fixed m = {.multiplier = random_multiplier(&state),
                                   .shift = -(int32_t)(test_random(&state) % 32)};
        const int64_t p = (int64_t)x * m.multiplier;
        const int32_t up = qc_fixed_multiply(QC_REQUANTIZE_UPWARD, x, m),
                      near = qc_fixed_multiply(QC_REQUANTIZE_NEAREST, x, m);
        const int32_t twice = qc_fixed_multiply(QC_REQUANTIZE_DOUBLE, x, m);
        cr_assert(is_rounded(up, p, 31 - m.shift, TIE_UP), "%d * %d, %d: %d", x, m.multiplier, m.shift, up);
        cr_assert(is_rounded(near, p, 31 - m.shift, TIE_AWAY), "%d * %d, %d: %d", x, m.multiplier, m.shift, near);
        cr_assert(twice - near <= 1 && near - twice <= 1);
        apart += twice != near;
    }
    cr_assert_gt(apart, CASES / 100, "rounding twice is not rounding once");
}

Test(numerics, left_shifts_never_wrap)
{
    static const enum qc_requantize_rule rules[] = {QC_REQUANTIZE_DOUBLE, QC_REQUANTIZE_UPWARD, QC_REQUANTIZE_NEAREST};
    const struct qc_fixed m = {.multiplier = 1 << 30, .shift = 10};    /* 512 */
    const struct qc_fixed most = {.multiplier = 1 << 30, .shift = 31}; /* 2^30: what a ratio just below it becomes */
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(qc_fixed_multiply(rules[i], 1 << 25, m), INT32_MAX);
        cr_assert_eq(qc_fixed_multiply(rules[i], -(1 << 25), m), INT32_MIN);
        cr_assert_eq(qc_fixed_multiply_wide(rules[i], -(1 << 25), m), -(INT64_C(1) << 34));
        MUST_HOLD(qc_fixed_multiply(rules[i], 3, m) == 1536, qc_fixed_multiply(rules[i], 1, most) == 1 << 30,
                  qc_fixed_multiply(rules[i], 2, most) == INT32_MAX, qc_fixed_multiply(rules[i], -3, most) == INT32_MIN,
                  qc_fixed_multiply(rules[i], 0, most) == 0);
    }
}

Test(numerics, multipliers_of_known_ratios)
{
    static const struct {
        double m;
        int32_t multiplier, shift;
    } cases[] = {
        {0.01, 1374389535, -6}, /* TFLite's LeakyRelu with alpha 0.01 */
        {0.5, 1 << 30, 0},
        {1.0, 1 << 30, 1},
        {0x1.fffffffffffffp-1, 1 << 30, 1}, /* the significand rounds to 2^31 */
        {0x1p-32, 1 << 30, -31},
        {0x1.ffffffffp-33, 1 << 30, -31}, /* as well, and so just enough */
        {0x1p-33, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct qc_fixed m = qc_fixed_of(cases[i].m);
        cr_assert(m.multiplier == cases[i].multiplier && m.shift == cases[i].shift, "%a: %d %d", cases[i].m,
                  m.multiplier, m.shift);
    }
}

Test(numerics, contracts_are_known_by_name_and_alias)
{
    static const char *const names[] = {"onnx", "onnx-avx2", "tflite", "tflite-single", "qnn-tonearest", "xnnpack"};
    enum qc_contract c;
    for (unsigned i = 0; i < QC_CONTRACT_COUNT; i++) {
        MUST(qc_contract_from_name(&c, names[i], ST));
        MUST_HOLD((unsigned)c == i, strcmp(qc_contract_info(c)->name, names[i]) == 0);
    }
    cr_assert(qc_contract_from_name(&c, "qnn-upward", ST) && c == QC_CONTRACT_TFLITE_SINGLE);
    c = QC_CONTRACT_QNN_TONEAREST;
    cr_assert(!qc_contract_from_name(&c, "", ST));
    MUST_HOLD(c == QC_CONTRACT_QNN_TONEAREST, failure.code == QC_USAGE);
}

Test(numerics, reals_are_quantized_half_to_even_or_half_away_before_the_zero_point)
{
    const struct qc_affine p = {.scale = 0.5f, .zero_point = 3};
    const struct qc_levels levels = {.lo = -128, .hi = 127};
    static const struct {
        float x;
        int32_t even, away;
    } cases[] = {{0.25f, 3, 4},           {0.75f, 5, 5},      {-0.25f, 3, 2},    {1.25f, 5, 6},
                 {-1.25f, 1, 0},          {61.75f, 127, 127}, {-70, -128, -128}, {INFINITY, 127, 127},
                 {-INFINITY, -128, -128}, {NAN, -128, -128}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_assert_eq(qc_quantize_by(QC_CONTRACT_ONNX, cases[i].x, p, levels), cases[i].even, "%g", (double)cases[i].x);
        cr_assert_eq(qc_quantize_one(cases[i].x, p, levels), cases[i].even, "%g", (double)cases[i].x);
        for (int c = 0; c < QC_CONTRACT_COUNT; c++) {
            const bool away = qc_contract_info((enum qc_contract)c)->quantize == QC_QUANTIZE_AWAY;
            cr_assert_eq(qc_quantize_by((enum qc_contract)c, cases[i].x, p, levels),
                         away ? cases[i].away : cases[i].even, "contract %d, %g", c, (double)cases[i].x);
        }
    }
}

Test(numerics, equal_qparams_change_nothing_under_any_contract)
{
    for (int c = 0; c < QC_CONTRACT_COUNT; c++) {
        const struct qc_requantize_def d =
            FIELDS(.contract = (enum qc_contract)c, .source = QC_FROM_QUANTIZER, .input_scale = 0.1f,
                   .input_zero_point = 7, .count = 1, .output = {.scale = 0.1f, .zero_point = 7},
                   .levels = {.lo = 0, .hi = 255});
        struct qc_requantizer r;
        MUST(qc_requantizer_of(&r, &d, test_arena(), ST));
        for (int q = 0; q < 256; q++) cr_assert_eq(qc_requantize_one(&r, 0, q), q, "contract %d, %d", c, q);
    }
}

Test(numerics, each_channel_has_its_own_multiplier_and_wide_sums_saturate)
{
    const float weights[] = {0.5f, 0.25f, 2.0f};
    for (int c = 0; c < QC_CONTRACT_COUNT; c++) {
        const struct qc_requantize_def d =
            FIELDS(.contract = (enum qc_contract)c, .source = QC_FROM_PRODUCT, .input_scale = 0.5f, .count = 3,
                   .weight_scale = weights, .output = {.scale = 1.0f, .zero_point = -5},
                   .levels = {.lo = -128, .hi = 127});
        struct qc_requantizer r;
        MUST(qc_requantizer_of(&r, &d, test_arena(), ST));
        cr_assert_eq(qc_requantize_one(&r, 0, 40), 5);
        cr_assert_eq(qc_requantize_one(&r, 1, 40), 0);
        cr_assert_eq(qc_requantize_one(&r, 2, 40), 35);
        cr_assert_eq(qc_requantize_one(&r, 0, INT64_C(1) << 40), 127);
        cr_assert_eq(qc_requantize_one(&r, 1, -(INT64_C(1) << 40)), -128);
    }
}

Test(numerics, parameters_that_cannot_be_are_refused)
{
    const float weight = 1;
    const struct qc_requantize_def good =
        FIELDS(.contract = QC_CONTRACT_TFLITE, .source = QC_FROM_PRODUCT, .input_scale = 0.5f, .count = 1,
               .weight_scale = &weight, .output = {.scale = 1.0f}, .levels = {.lo = -128, .hi = 127});
    const float bad[] = {0, -1, NAN, INFINITY};
    for (int i = 0; i < 8; i++) {
        struct qc_requantize_def d = good;
        struct qc_requantizer r;
        MUST(qc_requantizer_of(&r, &d, test_arena(), ST));
        if (i < 4) d.input_scale = bad[i];
        if (i >= 4) d.weight_scale = &bad[i - 4];
        REFUSES(qc_requantizer_of(&r, &d, test_arena(), ST), QC_BAD_INPUT, "");
        struct qc_status st2 = QC_STATUS_INIT;
        struct qc_qbinary m;
        struct qc_affine p[] = {{.scale = 1}, {.scale = 1}, {.scale = 1}};
        const struct qc_levels levels[] = {good.levels, good.levels, good.levels};
        p[i % 3].scale = bad[i % 4];
        cr_assert(!qc_qbinary_of(&m, QC_CONTRACT_ONNX, QC_QBINARY_ADD, p, levels, &st2));
        cr_assert_eq(st2.code, QC_BAD_INPUT);
    }
    struct qc_requantize_def d = good;
    struct qc_requantizer r;
    d.output.scale = 1e-12f;
    cr_assert(!qc_requantizer_of(&r, &d, test_arena(), ST));
    d.contract = QC_CONTRACT_ONNX;
    struct qc_status st2 = QC_STATUS_INIT;
    cr_assert(qc_requantizer_of(&r, &d, test_arena(), &st2), "float32 steps have no such limit");
    d.source = QC_FROM_SUM;
    cr_assert(!qc_requantizer_of(&r, &d, test_arena(), &st2), "a mean of no numbers");
}

Test(numerics, means_of_the_same_qparams_round_half_away)
{
    static const int64_t cases[][3] = {{5, 2, 3}, {-5, 2, -3},          {4, 3, 1}, {-4, 3, -1}, {0, 9, 0},
                                       {7, 2, 4}, {-128 * 49, 49, -128}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_assert_eq(qc_average_away(cases[i][0], cases[i][1]), cases[i][2], "%d", (int)i);
}

/* Near the real functions; bit for bit against TFLite itself in tests/tflite. */
Test(numerics, tflite_softmax_and_hard_swish_are_near_the_real_functions)
{
    const struct qc_tflite_softmax s = qc_tflite_softmax_of(0.1f, 1.0f);
    const int32_t x[] = {10, 20, -30, 127, 120, 100};
    int32_t y[6];
    qc_tflite_softmax_row(&s, y, x, 6, 0);
    for (int i = 0; i < 6; i++) {
        double sum = 0;
        for (int k = 0; k < 6; k++) sum += exp(0.1 * (x[k] - x[i]));
        cr_assert_lt(fabs(y[i] - 256 / sum), 0.6, "%d: %d", i, y[i]);
    }
    int32_t many[1000];
    for (int i = 0; i < 1000; i++) many[i] = 5;
    qc_tflite_softmax_row(&s, many, many, 1000, -128);
    for (int i = 0; i < 1000; i++) cr_assert_eq(many[i], -128);
    struct qc_tflite_unary u =
        FIELDS(.kind = QC_TFLITE_HARD_SWISH, .input = {.scale = 0.1f, .zero_point = 3},
               .output = {.scale = 0.08f, .zero_point = -100}, .levels = {.lo = -128, .hi = 127});
    MUST(qc_tflite_unary_of(&u, ST));
    for (int q = -128; q < 128; q++) {
        const double v = 0.1 * (q - 3), real = v * fmax(0, fmin(6, v + 3)) / 6 / 0.08 - 100,
                     want = fmin(127, fmax(-128, real));
        cr_assert_lt(fabs(qc_tflite_unary_one(&u, q) - want), 1.1, "%d: %d", q, qc_tflite_unary_one(&u, q));
    }
    u.output.scale = 0.0005f;
    cr_assert(!qc_tflite_unary_of(&u, ST), "the result's steps may not be finer than 1/128 of the input's");
}

static float absolute(float x, const void *context)
{
    return fabsf(x);
}

/* TensorFlow Lite's LUTPopulate: TfLiteRound, which is std::round. */
Test(numerics, tflite_rounds_functions_half_away)
{
    struct qc_tflite_unary u =
        FIELDS(.kind = QC_TFLITE_TABLE, .input = {.scale = 0.5f, .zero_point = 3},
               .output = {.scale = 1, .zero_point = -2}, .levels = {.lo = -128, .hi = 127}, .function = absolute);
    MUST(qc_tflite_unary_of(&u, ST));
    for (int32_t q = -128; q <= 127; q++) {
        const int32_t twice = q < 3 ? 3 - q : q - 3;
        cr_assert_eq(qc_tflite_unary_one(&u, q), (twice + 1) / 2 - 2, "%d", q);
    }
}

/* TensorFlow Lite's AddParams: 20 for 8 bits, 15 for int16, which has no zero points there. Of others what leaves room
   for the wider operand. */
Test(numerics, tflite_sums_have_room_for_their_types)
{
    static const struct qc_levels u8 = {.lo = 0, .hi = 255}, i8 = {.lo = -128, .hi = 127}, u16 = {.lo = 0, .hi = 65535},
                                  i16 = {.lo = -32768, .hi = 32767};
    const struct {
        struct qc_levels levels[3];
        int32_t zero; /* of the operands */
        int left_shift;
    } cases[] = {{{i8, i8, i8}, 0, 20},      {{u8, u8, u8}, 9, 20},    {{i16, i16, i16}, 0, 15},
                 {{i16, i16, i16}, 9, 14},   {{u16, u16, u16}, 0, 14}, {{i16, i8, i8}, 0, 15},
                 {{i8, i16, i8}, 9, 14},     {{u16, u8, u8}, 0, 14},   {{u8, u8, i16}, 128, 15},
                 {{u16, u16, u8}, 32768, 15}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct qc_affine a = {.scale = 0.5f, .zero_point = cases[i].zero}, p[] = {a, a, {.scale = 0.75f}};
        struct qc_qbinary m;
        MUST(qc_qbinary_of(&m, QC_CONTRACT_TFLITE, QC_QBINARY_ADD, p, cases[i].levels, ST));
        cr_assert_eq(m.left_shift, cases[i].left_shift, "%zu: %d", i, m.left_shift);
    }
}

Test(numerics, tflite_leaky_relu_multiplies_by_alpha)
{
    struct qc_tflite_unary u =
        FIELDS(.kind = QC_TFLITE_LEAKY_RELU, .input = {.scale = 0.5f, .zero_point = 0},
               .output = {.scale = 0.5f, .zero_point = 10}, .levels = {.lo = -128, .hi = 127}, .alpha = 0.01f);
    MUST(qc_tflite_unary_of(&u, ST));
    cr_assert(u.negative.shift == -6 && u.identity.multiplier == 1 << 30 && u.identity.shift == 1);
    cr_assert_eq(qc_tflite_unary_one(&u, 55), 65);
    cr_assert_eq(qc_tflite_unary_one(&u, -49), 10);
    cr_assert_eq(qc_tflite_unary_one(&u, -100), 9);
    cr_assert_eq(qc_tflite_unary_one(&u, 127), 127);
    u.alpha = -0.5f;
    MUST(qc_tflite_unary_of(&u, ST));
    cr_assert_eq(qc_tflite_unary_one(&u, -101), 61, "101 / 2 + 10, half upward");
}
