// SPDX-License-Identifier: Apache-2.0
/* The loops of arith/ against their scalar functions: random qparams, sums, channels and lengths. */
#include "arith/qbinary.h"
#include "arith/requantize.h"
#include "tests/check.h"

enum { ROUNDS = 1000, LENGTH = 150 };

static int32_t between(uint64_t *state, int32_t lo, int32_t hi)
{
    return (int32_t)(lo + (int64_t)(test_random(state) % (uint64_t)((int64_t)hi - lo + 1)));
}

/* 2^e times 1 (every fourth) or something in [1, 2), lo <= e <= hi. */
static float random_scale(uint64_t *state, int lo, int hi)
{
    const float base = ldexpf(1, between(state, lo, hi));
    return test_random(state) % 4 == 0 ? base : base * (1 + (float)(test_random(state) >> 41) * 0x1p-23f);
}

static struct qc_levels random_levels(uint64_t *state)
{
    static const struct qc_levels all[] = {{.lo = -128, .hi = 127},     {.lo = 0, .hi = 255},   {.lo = -127, .hi = 127},
                                           {.lo = -32768, .hi = 32767}, {.lo = 0, .hi = 65535}, {.lo = -8, .hi = 7}};
    return all[test_random(state) % 6];
}

Test(arith_loops, requantize_loops_give_the_bits_of_the_scalar_function)
{
    struct qc_status st = QC_STATUS_INIT;
    uint64_t state = 3;
    for (int round = 0; round < ROUNDS; round++) {
        QC_ARENA_SCOPE *a = qc_arena_new();
        float weights[LENGTH];
        int32_t x[LENGTH], y[LENGTH + 1];
        const struct qc_levels levels = random_levels(&state);
        struct qc_requantize_def d =
            FIELDS(.contract = (enum qc_contract)(round % QC_CONTRACT_COUNT),
                   .source = (enum qc_requantize_source)(test_random(&state) % 4),
                   .input_scale = random_scale(&state, -12, 4), .count = test_random(&state) % 2 ? 1 : LENGTH,
                   .weight_scale = weights, .divisor = between(&state, 1, 100),
                   .output = {.scale = random_scale(&state, -6, 4),
                              .zero_point = between(&state, levels.lo, levels.hi)},
                   .levels = levels);
        const bool product = d.source == QC_FROM_PRODUCT || d.source == QC_FROM_DENSE;
        for (int i = 0; i < LENGTH; i++) weights[i] = random_scale(&state, -30, 8);
        if (d.source == QC_FROM_QUANTIZER) {
            d.input_zero_point = between(&state, -128, 127);
            if (test_random(&state) % 4 == 0) d.input_scale = d.output.scale;
            /* Halves of a step, where two float32 steps and one factor fall differently. */
            if (test_random(&state) % 4 == 0) d.input_scale = d.output.scale * (0.5f + (float)between(&state, 0, 9));
        }
        for (int i = 0; i < LENGTH; i++) {
            const uint64_t u = test_random(&state);
            x[i] = (int32_t)(uint32_t)u >> (u >> 32) % 32;
            if (product && u % 64 == 0) x[i] = u & 64 ? INT32_MIN : INT32_MAX;
            if (d.source == QC_FROM_QUANTIZER) x[i] = between(&state, -32768, 65535);
        }
        struct qc_requantizer r;
        struct qc_requantize_loop loop;
        cr_assert(qc_requantizer_of(&r, &d, a, &st) && qc_requantize_loop_of(&loop, &r, a, &st));
        const size_t first = r.count > 1 ? (size_t)between(&state, 0, 40) : 0,
                     n = (size_t)between(&state, 0, (int32_t)(LENGTH - first));
        memset(y, 0x55, sizeof y);
        qc_requantize_run(&loop, first, y, x, n);
        for (size_t i = 0; i < n; i++) {
            const int32_t want = qc_requantize_one(&r, first + i, x[i]);
            cr_assert_eq(y[i], want, "contract %u source %u x %d: %d, expected %d", d.contract, d.source, x[i], y[i],
                         want);
        }
        cr_assert_eq(y[n], 0x55555555, "wrote behind the end");
        qc_requantize_run(&loop, first, x, x, n);
        cr_assert_eq(memcmp(x, y, n * sizeof *x), 0, "in place");
    }
}

/* From one quantizer into another with onnx, x * sx / sy: sx is sy times an odd multiple of a half, so that odd x meet
   halves of a step, on which two float32 steps and one factor fall differently. */
Test(arith_loops, quantizers_are_requantized_in_two_float_steps)
{
    uint64_t state = 5;
    size_t apart = 0;
    for (int round = 0; round < 100; round++) {
        QC_ARENA_SCOPE *a = qc_arena_new();
        int32_t x[LENGTH], y[LENGTH];
        const float sy = random_scale(&state, -6, 4), sx = sy * (0.5f + (float)between(&state, 0, 2));
        const struct qc_requantize_def d =
            FIELDS(.contract = QC_CONTRACT_ONNX, .source = QC_FROM_QUANTIZER, .input_scale = sx, .count = 1,
                   .output = {.scale = sy}, .levels = {-32768, 32767});
        struct qc_requantizer r;
        struct qc_requantize_loop loop;
        cr_assert(qc_requantizer_of(&r, &d, a, ST) && qc_requantize_loop_of(&loop, &r, a, ST));
        for (int i = 0; i < LENGTH; i++) x[i] = between(&state, -10000, 10000);
        qc_requantize_run(&loop, 0, y, x, LENGTH);
        for (int i = 0; i < LENGTH; i++) {
            const float product = (float)x[i] * sx, factor = sx / sy;
            const int32_t want = (int32_t)nearbyintf(product / sy);
            apart += want != (int32_t)nearbyintf((float)x[i] * factor);
            cr_assert_eq(y[i], want, "x %d times %a by %a: %d, expected %d", x[i], (double)sx, (double)sy, y[i], want);
        }
    }
    cr_expect_gt(apart, 0); /* else nothing told them apart */
}

Test(arith_loops, binary_loops_give_the_bits_of_the_scalar_function)
{
    uint64_t state = 4;
    for (int round = 0; round < ROUNDS; round++) {
        int32_t a[LENGTH], b[LENGTH], y[LENGTH];
        struct qc_affine p[3];
        struct qc_levels levels[3];
        for (int i = 0; i < 3; i++) {
            levels[i] = round % 2 && i ? levels[0] : random_levels(&state);
            p[i] = (struct qc_affine){random_scale(&state, -8, 8), between(&state, levels[i].lo, levels[i].hi)};
        }
        if (test_random(&state) % 4 == 0) p[test_random(&state) % 2].scale = p[2].scale;
        const enum qc_contract contract = (enum qc_contract)(round % QC_CONTRACT_COUNT);
        for (int op = QC_QBINARY_ADD; op <= QC_QBINARY_MUL; op++) {
            struct qc_qbinary m;
            MUST(qc_qbinary_of(&m, contract, (enum qc_qbinary_op)op, p, levels, ST));
            for (int i = 0; i < LENGTH; i++) {
                a[i] = between(&state, levels[0].lo, levels[0].hi);
                b[i] = between(&state, levels[1].lo, levels[1].hi);
            }
            qc_qbinary_run(&m, y, a, b, LENGTH);
            for (int i = 0; i < LENGTH; i++) {
                const int32_t want = qc_qbinary_one(&m, a[i], b[i]);
                cr_assert_eq(y[i], want, "contract %u op %d %d %d: %d, expected %d", contract, op, a[i], b[i], y[i],
                             want);
            }
        }
    }
}

/* Products of 16-bit operands that lie on k + 1/2: 2^16 times an odd number, divided by 2^17; many leave 32 bits. */
Test(arith_loops, wide_products_on_ties)
{
    static const struct qc_levels levels[] = {{.lo = -32768, .hi = 32767},
                                              {.lo = -32768, .hi = 32767},
                                              {.lo = -32768, .hi = 32767}};
    static const struct qc_affine p[] = {{1, 32767}, {1, -32768}, {0x1p17f, 0}};
    uint64_t state = 8;
    for (int c = QC_CONTRACT_TFLITE; c < QC_CONTRACT_COUNT; c++) {
        int32_t a[LENGTH], b[LENGTH], y[LENGTH];
        struct qc_qbinary m;
        cr_assert(qc_qbinary_of(&m, (enum qc_contract)c, QC_QBINARY_MUL, p, levels, ST) && m.wide);
        for (int i = 0; i < LENGTH; i++) {
            a[i] = p[0].zero_point - 256 * (2 * between(&state, 0, 127) + 1); /* va < 0 < vb */
            b[i] = p[1].zero_point + 256 * (2 * between(&state, 0, 127) + 1);
        }
        qc_qbinary_run(&m, y, a, b, LENGTH);
        for (int i = 0; i < LENGTH; i++) {
            const int64_t product = (int64_t)(a[i] - p[0].zero_point) * (b[i] - p[1].zero_point);
            const int64_t twice = product / 65536; /* odd, negative */
            const int64_t want = c == QC_CONTRACT_TFLITE_SINGLE ? (twice + 1) / 2 : (twice - 1) / 2;
            cr_assert_eq(y[i], want < -32768 ? -32768 : want, "contract %d, %d times %d: %d", c, a[i], b[i], y[i]);
        }
    }
}

/* Bytes and centred float32 numbers, side by side and with steps. */
Test(arith_loops, float_steps_are_the_same_in_every_storage)
{
    uint64_t state = 6;
    for (int round = 0; round < ROUNDS; round++) {
        static const struct qc_levels bytes[] = {{.lo = 0, .hi = 255}, {.lo = -128, .hi = 127}};
        const bool is_signed = round % 2;
        const struct qc_levels levels[] = {bytes[is_signed], bytes[is_signed], bytes[is_signed]};
        const int64_t steps[] = {1 + round / 2 % 2, round / 4 % 3, 1 + round / 8 % 2};
        struct qc_affine p[3];
        struct qc_qbinary m;
        uint8_t a[2 * LENGTH], b[2 * LENGTH], y[2 * LENGTH];
        float fa[2 * LENGTH], fb[2 * LENGTH], fy[2 * LENGTH];
        for (int i = 0; i < 3; i++)
            p[i] = (struct qc_affine){random_scale(&state, -3, 0), between(&state, levels[i].lo, levels[i].hi)};
        if (round % 7 == 0) p[2].scale = 0x1p-60f; /* results beyond all integers */
        MUST(qc_qbinary_of(&m, QC_CONTRACT_ONNX, (enum qc_qbinary_op)(test_random(&state) % 3), p, levels, ST));
        for (int i = 0; i < 2 * LENGTH; i++) {
            a[i] = (uint8_t)test_random(&state);
            b[i] = (uint8_t)test_random(&state);
            fa[i] = (float)((is_signed ? (int8_t)a[i] : a[i]) - p[0].zero_point);
            fb[i] = (float)((is_signed ? (int8_t)b[i] : b[i]) - p[1].zero_point);
        }
        if (is_signed)
            qc_qbinary_i8(&m, (int8_t *)y, (const int8_t *)a, (const int8_t *)b, LENGTH, steps);
        else
            qc_qbinary_u8(&m, y, a, b, LENGTH, steps);
        qc_qbinary_centred(&m, fy, fa, fb, LENGTH, steps);
        for (int64_t i = 0; i < LENGTH; i++) {
            const uint8_t xa = a[i * steps[1]], xb = b[i * steps[2]], xy = y[i * steps[0]];
            const int32_t want = is_signed ? qc_qbinary_one(&m, (int8_t)xa, (int8_t)xb) : qc_qbinary_one(&m, xa, xb);
            cr_assert_eq(is_signed ? (int8_t)xy : xy, want, "bytes, op %d", (int)m.op);
            cr_assert_eq((int32_t)fy[i * steps[0]] + m.zc, want, "centred, op %d", (int)m.op);
        }
    }
}

Test(arith_loops, levels_of_32_bits_are_refused)
{
    const struct qc_requantize_def d =
        FIELDS(.contract = QC_CONTRACT_TFLITE, .source = QC_FROM_QUANTIZER, .input_scale = 1, .count = 1,
               .output = {.scale = 0.5f}, .levels = {.lo = INT32_MIN, .hi = INT32_MAX});
    struct qc_requantizer r;
    struct qc_requantize_loop loop;
    cr_assert(qc_requantizer_of(&r, &d, test_arena(), ST) && !qc_requantize_loop_of(&loop, &r, test_arena(), ST));
    cr_assert_eq(failure.code, QC_UNSUPPORTED);
}
