// SPDX-License-Identifier: Apache-2.0
/* A selection of samples for a part of the job is reset after it, also if it failed. */
#include "quantize/job.h"
#include "quantize/search/attempts.h"
#include "tests/check.h"
#include "tests/quantize/made_network.h"

#define MODEL QC_TEST_SOURCE "/datasets/digits_cnn.onnx"
#define DATA QC_TEST_SOURCE "/datasets/digits_calib.h5"

enum { SAMPLES = 40 };

/* Stops at one of the calls from the beginning of a phase on. */
struct stopper {
    const char *phase;
    bool begun;
    int calls, stop_at;
};

static bool tell(void *user, const char *phase, size_t done, size_t count)
{
    struct stopper *s = user;
    s->begun = s->begun || (phase && strcmp(phase, s->phase) == 0);
    return !s->begun || ++s->calls < s->stop_at;
}

static void set_options(struct qc_options *o, struct qc_arena *a)
{
    MUST(qc_options_init(o, QC_COMMAND_quantize, a, ST) && qc_options_set(o, QC_OPTION_SAMPLES, "40", ST) &&
         qc_options_set(o, QC_OPTION_THREADS, "1", ST) && qc_options_set(o, QC_OPTION_ADVICE, "on", ST) &&
         qc_options_set(o, QC_OPTION_METHOD, "minmax", ST) && qc_options_set(o, QC_OPTION_WEIGHT_TYPE, "int4", ST));
}

Test(chosen_samples, of_sensitivity_that_fails)
{
    struct qc_status st = QC_STATUS_INIT;
    const struct qc_job_inputs in = {.model = {.file = MODEL}, .data = {.file = DATA}};
    struct stopper stop = {.phase = "sensitivity", .stop_at = 3};
    struct qc_progress progress = {.tell = tell, .user = &stop};
    MADE_NETWORK m;
    struct qc_sensitivity *s = NULL;
    struct qc_options o;
    set_options(&o, test_arena());
    cr_assert(make_network(&m, &o, &in, &progress, &st), "%s", st.message);
    cr_assert_eq(qc_dataset_samples(m.setup->data), SAMPLES);
    cr_expect(!qc_measure_sensitivity(&s, m.c->network, NULL, 2, NULL, &st));
    cr_expect_eq(st.code, QC_INTERRUPTED, "%s", st.message);
    cr_expect_eq(qc_dataset_samples(m.setup->data), SAMPLES);
}

Test(chosen_samples, of_advice_that_fails)
{
    const struct qc_job_inputs in = {.model = {.file = MODEL}, .data = {.file = DATA}};
    struct stopper stop = {.phase = "trying advice", .stop_at = 1 << 30};
    struct qc_progress progress = {.tell = tell, .user = &stop};
    const struct qc_job_listener listener = {.progress = &progress};
    struct qc_options o;
    const int stops = 40 / (int)test_one_of(4, 40);
    int calls = 1, ended = 0;
    set_options(&o, test_arena());
    for (int at = 1 << 30; at > 1; at = at == 1 << 30 ? calls - 1 : at - (calls / stops + 1)) {
        OWN(qc_job) *j = NULL;
        stop.stop_at = at;
        stop.calls = 0;
        stop.begun = false;
        const bool ok = qc_job_new(&j, &o, &in, &listener, ST) && qc_job_run(j, ST);
        if (at == 1 << 30) calls = stop.calls;
        cr_assert(ok || failure.code == QC_INTERRUPTED, "%s", failure.message);
        ended += !ok;
        cr_expect_eq(qc_dataset_samples(qc_job_setup(j)->data), SAMPLES, "stopped at call %d of %d", at, calls);
    }
    cr_expect_gt(ended, stops / 4, "%d calls", calls);
}
