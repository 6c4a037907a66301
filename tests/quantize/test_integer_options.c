// SPDX-License-Identifier: Apache-2.0
#include "quantize/options/option_value.h"
#include "tests/check.h"

struct given {
    const char *accumulator;
    unsigned bits; /* 0: refused */
    enum qc_overflow overflow;
};

static const struct given given[] = {
    {"14", 14, QC_OVERFLOW_WRAP},        {"14:wrap", 14, QC_OVERFLOW_WRAP}, {"2:saturate", 2, QC_OVERFLOW_SATURATE},
    {"32", 32, QC_OVERFLOW_WRAP},        {"1", 0, QC_OVERFLOW_WRAP},        {"33", 0, QC_OVERFLOW_WRAP},
    {"14:", 0, QC_OVERFLOW_WRAP},        {"14:clip", 0, QC_OVERFLOW_WRAP},  {"-14", 0, QC_OVERFLOW_WRAP},
    {" 14", 0, QC_OVERFLOW_WRAP},        {"x", 0, QC_OVERFLOW_WRAP},        {"4294967310", 0, QC_OVERFLOW_WRAP},
    {"14saturate", 0, QC_OVERFLOW_WRAP},
};

Test(integer_options, accumulator)
{
    for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
        struct qc_settings s;
        const struct qc_options o = {.types.accumulator = given[i].accumulator};
        const bool ok = qc_settings_of(&s, &o, NULL, ST);
        cr_expect_eq(ok, given[i].bits != 0, "%s", given[i].accumulator);
        if (ok)
            cr_expect(s.plan.accumulator.bits == given[i].bits && s.plan.accumulator.overflow == given[i].overflow,
                      "%s", given[i].accumulator);
        else
            cr_expect(failure.code == QC_USAGE && strstr(failure.message, "--accumulator"), "%s: %s",
                      given[i].accumulator, failure.message);
    }
}

Test(integer_options, lowering)
{
    struct qc_settings s;
    cr_assert(qc_settings_of(&s, &(struct qc_options){0}, NULL, ST) && s.plan.lowering == QC_LOWERING_INT8);
    cr_assert(qc_settings_of(&s, &(struct qc_options){.graph.lowering = QC_LOWERING_INT16}, NULL, ST) &&
              s.plan.lowering == QC_LOWERING_INT16);
}

/* One place decides whether biases are corrected: not those that are added after the accumulator is narrowed. */
Test(integer_options, corrected_biases)
{
    for (int k = 0; k < 4; k++) {
        struct qc_settings s;
        const struct qc_options o = {.method.bias_correction = k & 1,
                                     .graph.bias = k & 2 ? QC_BIAS_NARROWED : QC_BIAS_ACCUMULATOR};
        MUST(qc_settings_of(&s, &o, NULL, ST));
        cr_expect_eq(s.correct_bias, k == 1);
        cr_expect_eq(qc_rounds_weights(&s), k == 1);
    }
}

Test(integer_options, rounding_by_name_and_alias)
{
    struct qc_settings s;
    cr_assert(qc_settings_of(&s, &(struct qc_options){0}, NULL, ST) && s.plan.rounding == QC_CONTRACT_ONNX &&
              s.plan.accumulator.bits == 0);
    cr_assert(qc_settings_of(&s, &(struct qc_options){.graph.rounding = "qnn-upward"}, NULL, ST) &&
              s.plan.rounding == QC_CONTRACT_TFLITE_SINGLE);
    cr_assert(!qc_settings_of(&s, &(struct qc_options){.graph.rounding = "up"}, NULL, ST) && failure.code == QC_USAGE &&
              strstr(failure.message, "--rounding"));
}
