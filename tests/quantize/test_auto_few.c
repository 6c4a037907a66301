// SPDX-License-Identifier: Apache-2.0
/* --method auto with few samples: which observers are tried, and on how many. */
#include "quantize/job.h"
#include "tests/check.h"

#define MODEL QC_TEST_SOURCE "/datasets/digits_cnn.onnx"
#define DATA QC_TEST_SOURCE "/datasets/digits_calib.h5"

struct trials {
    size_t count, samples;
    bool by_mse; /* all activations have ranges of mse, or the step of the input */
};

static struct trials run(const char *samples)
{
    struct qc_options o;
    const struct qc_job_inputs in = {.model = {.file = MODEL}, .data = {.file = DATA}};
    OWN(qc_job) *job = NULL;
    MUST(qc_options_init(&o, QC_COMMAND_quantize, test_arena(), ST) &&
         qc_options_set(&o, QC_OPTION_SAMPLES, samples, ST) && qc_options_set(&o, QC_OPTION_ADVICE, "off", ST) &&
         qc_options_set(&o, QC_OPTION_THREADS, "1", ST));
    MUST(qc_job_new(&job, &o, &in, NULL, ST) && qc_job_run(job, ST));
    const struct qc_report *r = qc_job_report(job);
    const struct qc_auto_method *m = qc_job_network(job)->auto_method;
    cr_assert(m && m->trial_count > 0);
    struct trials t = {.count = m->trial_count, .samples = m->trials[0].samples, .by_mse = true};
    cr_expect_str_eq(m->trials[0].method, "mse");
    for (size_t i = 0; i < r->layer_count; i++) {
        const struct qc_layer *l = &r->layers[i];
        if (!l->tried) continue;
        t.by_mse = t.by_mse && (l->tried->steps || strcmp(l->choice->method, "mse") == 0);
        cr_expect(l->tried->steps || l->tried->trial == &m->trials[0] || t.count > 1, "%s", l->name);
    }
    return t;
}

Test(auto_few, tries_others_from_8_samples_on)
{
    const struct trials few = run("7"), more = run("8"), most = run("32");
    HOLD(few.count == 1, few.by_mse);
    cr_expect_eq(few.samples, 7, "what mse loses is seen on all samples");
    cr_expect_gt(more.count, 1);
    cr_expect_eq(more.samples, 8);
    cr_expect_eq(most.count, more.count + 2, "mse:clip=3 and percentile are candidates");
    cr_expect_eq(most.samples, 32);
}
