// SPDX-License-Identifier: Apache-2.0
/* Scales of weights in blocks: the same bits on every instruction set, and with only some outputs. */
#include "base/simd.h"
#include "calib/ranges/calibrate_parts.h"
#include "calib/weights/round_weights.h"
#include "calib_case.h"

enum { SIZE = 72, OUTPUTS = 300, BLOCK = 32, BLOCKS = 3, COUNT = BLOCKS * OUTPUTS };

struct scales {
    float scale[COUNT];
    int32_t zero_point[COUNT];
};

static struct scales search(const struct qc_tensor *t, struct qc_levels levels, enum qc_symmetry symmetry,
                            size_t judged, unsigned workers)
{
    struct scales s;
    struct qc_range widest = {0};
    double importance[SIZE];
    for (size_t i = 0; i < SIZE; i++) importance[i] = 1 + (double)(i % 5);
    const struct qc_block_search how = {
        .tensor = t,
        .layout = {.count = COUNT, .size = SIZE, .inner = OUTPUTS, .block = BLOCK, .blocks = BLOCKS},
        .levels = levels,
        .symmetry = symmetry,
        .importance = importance,
        .groups = 1,
        .workers = workers,
        .judged = judged};
    MUST(qc_block_scales(s.scale, s.zero_point, &widest, &how, ST));
    return s;
}

/* Every other output has multiples of 1/16: many of their quotients are half-way between two levels. */
static struct qc_tensor *weights(void)
{
    const struct qc_shape shape = QC_SHAPE(SIZE, OUTPUTS);
    struct qc_tensor *t = qc_tensor_new(QC_F32, &shape, ST);
    uint64_t seed = 7;
    cr_assert(t);
    for (size_t i = 0; i < t->count; i++) {
        const float x = case_normal(&seed);
        ((float *)t->data)[i] = i % 2 ? x : (float)(int)(16 * x) / 16;
    }
    return t;
}

Test(block_scales, are_the_same_bits_on_every_instruction_set)
{
    static const struct qc_levels levels[] = {{.lo = -8, .hi = 7},
                                              {.lo = -2, .hi = 1},
                                              {.lo = -128, .hi = 127},
                                              {.lo = -6, .hi = 6, .mantissa = 1, .least = 0}};
    const int widest = qc_simd_bits;
    OWN(qc_tensor) *t = weights();
    for (size_t k = 0; k < sizeof levels / sizeof *levels; k++)
        for (int symmetric = levels[k].mantissa != 0; symmetric < 2; symmetric++) {
            const enum qc_symmetry how = symmetric ? QC_SYMMETRIC : QC_ASYMMETRIC;
            qc_simd_bits = 128;
            const struct scales plain = search(t, levels[k], how, 0, 1);
            for (qc_simd_bits = 256; qc_simd_bits <= widest; qc_simd_bits *= 2) {
                const struct scales s = search(t, levels[k], how, 0, 2);
                cr_expect_arr_eq(s.scale, plain.scale, sizeof s.scale);
                cr_expect_arr_eq(s.zero_point, plain.zero_point, sizeof s.zero_point);
            }
        }
    qc_simd_bits = widest;
}

Test(block_scales, of_judged_outputs_do_not_depend_on_the_others)
{
    enum { JUDGED = 64 };
    const struct qc_levels levels = {.lo = -8, .hi = 7};
    OWN(qc_tensor) *t = weights();
    const struct scales all = search(t, levels, QC_ASYMMETRIC, 0, 1),
                        some = search(t, levels, QC_ASYMMETRIC, JUDGED, 1);
    size_t judged = 0;
    for (size_t k = 0; k < COUNT; k++) {
        const bool wanted = qc_round_weights_is_judged(k % OUTPUTS, OUTPUTS, JUDGED);
        judged += wanted;
        cr_expect_arr_eq(&some.scale[k], wanted ? &all.scale[k] : &(float){0}, sizeof(float));
        cr_expect_eq(some.zero_point[k], wanted ? all.zero_point[k] : 0);
    }
    cr_expect(judged >= JUDGED * BLOCKS && judged < COUNT / 2, "%zu of %d blocks", judged, COUNT);
}
