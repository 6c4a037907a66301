// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <string.h>

#include "quantize/options/option_value.h"

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
        struct qc_status st = QC_STATUS_INIT;
        struct qc_plan_options p;
        const struct qc_options o = {.accumulator = given[i].accumulator};
        const bool ok = qc_integer_options(&p, &o, &st);
        cr_expect_eq(ok, given[i].bits != 0, "%s", given[i].accumulator);
        if (ok)
            cr_expect(p.accumulator.bits == given[i].bits && p.accumulator.overflow == given[i].overflow, "%s",
                      given[i].accumulator);
        else
            cr_expect(st.code == QC_USAGE && strstr(st.message, "--accumulator"), "%s: %s", given[i].accumulator,
                      st.message);
    }
}

Test(integer_options, lowering)
{
    struct qc_status st = QC_STATUS_INIT;
    struct qc_plan_options p;
    cr_assert(qc_integer_options(&p, &(struct qc_options){0}, &st) && p.lowering == QC_LOWERING_INT8);
    cr_assert(qc_integer_options(&p, &(struct qc_options){.lowering = QC_LOWERING_INT16}, &st) &&
              p.lowering == QC_LOWERING_INT16);
}

Test(integer_options, rounding_by_name_and_alias)
{
    struct qc_status st = QC_STATUS_INIT;
    struct qc_plan_options p;
    cr_assert(qc_integer_options(&p, &(struct qc_options){0}, &st) && p.rounding == QC_CONTRACT_ONNX &&
              p.accumulator.bits == 0);
    cr_assert(qc_integer_options(&p, &(struct qc_options){.rounding = "qnn-upward"}, &st) &&
              p.rounding == QC_CONTRACT_TFLITE_SINGLE);
    cr_assert(!qc_integer_options(&p, &(struct qc_options){.rounding = "up"}, &st) && st.code == QC_USAGE &&
              strstr(st.message, "--rounding"));
}
