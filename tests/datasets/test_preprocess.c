// SPDX-License-Identifier: Apache-2.0
#include "datasets/samples/preprocess.h"
#include "tests/check.h"

Test(preprocess, reads_numbers_and_fractions)
{
    struct qc_preprocess p;
    MUST(qc_preprocess_parse(&p, " scale=1/255  mean=.485,.456,406e-3 std=.229,2/8,+1. ", test_arena(), ST));
    cr_assert_eq(p.scale_count, 1);
    cr_assert_eq(p.scale[0], 0.003921569f); /* numpy: np.float32(1 / 255) */
    MUST_HOLD(p.mean_count == 3, p.mean[0] == 0.485f && p.mean[1] == 0.456f && p.mean[2] == 0.406f, p.std_count == 3,
              p.std[0] == 0.229f && p.std[1] == 0.25f && p.std[2] == 1.0f);
    cr_assert_not(qc_preprocess_is_none(&p));
}

Test(preprocess, each_word_alone_and_none)
{
    struct qc_preprocess p;
    MUST(qc_preprocess_parse(&p, "mean=-128", test_arena(), ST));
    cr_assert(p.scale_count == 0 && p.std_count == 0 && p.mean_count == 1 && p.mean[0] == -128.0f);
    MUST(qc_preprocess_parse(&p, "none", test_arena(), ST));
    cr_assert(qc_preprocess_is_none(&p));
}

Test(preprocess, refuses_and_names_the_word)
{
    static const struct {
        const char *text, *named;
    } cases[] = {
        {"", "nothing"},
        {"   ", "nothing"},
        {"scale", "'scale'"},
        {"scale=", "'scale='"},
        {"scale=x", "=x'"},
        {"scale=1/0", "=1/0'"},
        {"scale=1/", "=1/'"},
        {"mean=1,,2", "=1,,2'"},
        {"mean=1,", "=1,'"},
        {"mean=,1", "=,1'"},
        {"mean=1 2", "'2'"},
        {"std=0", "std"},
        {"std=1,0,1", "std"},
        {"scale=nan", "=nan'"},
        {"scale=inf", "=inf'"},
        {"scale=0x10", "=0x10'"},
        {"scale=1e999", "1e999"},
        {"scale=1e39", "1e39"},
        {"none mean=1", "cannot be combined"},
        {"scale=1 scale=2", "twice"},
        {"median=3", "'median=3'"},
        {"scale=1/3/5", "=1/3/5'"},
        {"scale=--1", "=--1'"},
        {"scale=1;2", "=1;2'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct qc_preprocess p = {.scale_count = 77};
        cr_expect_not(qc_preprocess_parse(&p, cases[i].text, test_arena(), ST), "'%s' is taken", cases[i].text);
        cr_expect_eq(failure.code, QC_USAGE);
        cr_expect(strstr(failure.message, cases[i].named), "'%s': %s", cases[i].text, failure.message);
        cr_expect_eq(p.scale_count, 77, "the result is set only on success");
    }
}
