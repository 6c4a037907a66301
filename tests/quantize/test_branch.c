// SPDX-License-Identifier: Apache-2.0
/* A branch of a pipeline has its own warnings, independent of earlier ones. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "quantize/interface/warnings.h"
#include "quantize/pipeline.h"
#include "quantize/scaling/scale_channels.h"

#define MODEL QC_TEST_SOURCE "/datasets/digits_cnn.onnx"
#define DATA QC_TEST_SOURCE "/datasets/digits_calib.h5"

enum { BEFORE = 40 };

/* Weights of few bits alone, so that channels are scaled. */
static void set_options(struct qc_options *o, struct qc_arena *a)
{
    static const struct {
        enum qc_option option;
        const char *value;
    } set[] = {{QC_OPTION_SAMPLES, "24"},
               {QC_OPTION_THREADS, "1"},
               {QC_OPTION_ACTIVATION_TYPE, "none"},
               {QC_OPTION_WEIGHT_TYPE, "int4"}};
    struct qc_status st = QC_STATUS_INIT;
    cr_assert(qc_options_init(o, QC_COMMAND_quantize, a, &st));
    for (size_t i = 0; i < sizeof set / sizeof *set; i++)
        cr_assert(qc_options_set(o, set[i].option, set[i].value, &st), "%s", st.message);
}

Test(branch, of_a_pipeline_with_warnings_before_it)
{
    struct qc_status st = QC_STATUS_INIT;
    struct qc_arena *a = qc_arena_new();
    const struct qc_job_inputs in = {.model = {.file = MODEL}, .data = {.file = DATA}};
    struct qc_pipeline p = {.options = NULL}, *t = calloc(2, sizeof *t);
    struct qc_options o;
    set_options(&o, a);
    cr_assert(t && qc_pipeline_begin(&p, &o, &in, &st), "%s", st.message);
    for (int i = 0; i < BEFORE; i++) qc_warn(p.warnings, "before the stages: %d", i);
    cr_assert(qc_pipeline_run(&p, &st), "%s", st.message);
    cr_assert_geq(p.warnings_from, BEFORE);
    const size_t count = qc_warnings_count(p.warnings);
    for (int anew = 0; anew < 2; anew++) {
        cr_assert(qc_pipeline_branch(&t[anew], &p, &o, anew, &st), "%s", st.message);
        bool scaled = false;
        for (size_t i = 0; t[anew].scaling && i < t[anew].scaling->group_count; i++)
            scaled = scaled || t[anew].scaling->groups[i].kind;
        cr_assert(scaled, "scaling drops the warnings of the stages before it");
        cr_expect_leq(t[anew].warnings_from, qc_warnings_count(t[anew].warnings));
        for (size_t i = 0; i < qc_warnings_count(t[anew].warnings); i++)
            cr_expect_neq(qc_warnings_text(t[anew].warnings, i)[0], 'b');
        qc_pipeline_end(&t[anew]);
    }
    cr_expect_eq(qc_warnings_count(p.warnings), count);
    cr_expect_str_eq(qc_warnings_text(p.warnings, BEFORE - 1), "before the stages: 39");
    free(t);
    qc_pipeline_end(&p);
    qc_arena_free(a);
}
