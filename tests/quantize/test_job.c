// SPDX-License-Identifier: Apache-2.0
/* The job without a command line: from statistics, interrupted, two at once. Uses the example network of datasets/. */
#include <pthread.h>

#include "graph/text/text.h"
#include "quantize/job.h"
#include "tests/check.h"

#define MODEL QC_TEST_SOURCE "/datasets/digits_cnn.onnx"
#define DATA QC_TEST_SOURCE "/datasets/digits_calib.h5"

struct setting {
    enum qc_option option;
    const char *value;
};

static void set_options(struct qc_options *o, enum qc_command command, const struct setting *s, size_t count,
                        struct qc_arena *a)
{
    cr_assert(qc_options_init(o, command, a, ST) && qc_options_set(o, QC_OPTION_SAMPLES, "24", ST) &&
              qc_options_set(o, QC_OPTION_THREADS, "1", ST));
    for (size_t i = 0; i < count; i++) MUST(qc_options_set(o, s[i].option, s[i].value, ST));
}

/* The produced graph with all constants, as text: owned by the caller. NULL: the job failed. */
static char *produced(const struct qc_options *o, const struct qc_job_inputs *in, struct qc_progress *progress,
                      struct qc_status *st)
{
    const struct qc_job_listener listener = {.progress = progress};
    const struct qc_text_options all = QC_TEXT_ALL;
    OWN(qc_job) *j = NULL;
    char *text = NULL;
    if (qc_job_new(&j, o, in, &listener, st) && qc_job_run(j, st))
        text = qc_graph_print(qc_job_network(j)->produced, &all, st);
    return text;
}

static struct qc_job_inputs files(void)
{
    return (struct qc_job_inputs){.model = {.file = MODEL}, .data = {.file = DATA}};
}

Test(job, from_statistics_at_hand)
{
    QC_ARENA_SCOPE *a = qc_arena_new();
    struct qc_options o;
    struct qc_job_inputs in = files();
    OWN(qc_job) *j = NULL;
    struct qc_collect_result r;
    const struct setting mse = {QC_OPTION_METHOD, "mse"}; /* auto runs the data */
    set_options(&o, QC_COMMAND_quantize, &mse, 1, a);
    char *want = produced(&o, &in, NULL, ST);
    MUST(want);
    set_options(&o, QC_COMMAND_collect, NULL, 0, a);
    MUST(qc_job_new(&j, &o, &in, NULL, ST) && qc_job_collect(&r, j, ST));
    cr_assert_eq(qc_collection_samples(r.statistics), 24);
    set_options(&o, QC_COMMAND_quantize, &mse, 1, a);
    in.data.file = NULL;
    in.statistics.collection = r.statistics;
    for (int turn = 0; turn < 2; turn++) { /* a job takes nothing of them away */
        QC_FREED char *got = produced(&o, &in, NULL, ST);
        MUST(got);
        cr_assert_str_eq(got, want);
    }
    struct qc_job *again = NULL;
    struct qc_json *json = NULL;
    MUST(qc_job_new(&again, &o, &in, NULL, ST) && qc_job_run(again, ST));
    MUST(qc_job_record(&json, again, ST));
    const struct qc_json *data = qc_json_get(json, "data");
    cr_expect_eq(qc_json_value(qc_json_get(data, "samples")), 24);
    cr_expect_eq(qc_json_kind(qc_json_get(data, "sha256")), QC_JSON_NULL, "nobody hashed what is in memory");
    qc_json_free(json);
    qc_job_free(again);
    free(want);
    qc_collection_free(r.statistics);
}

/* Says stop at the nth call. */
struct stopper {
    int calls, stop_at;
};

static bool tell(void *user, const char *phase, size_t done, size_t count)
{
    struct stopper *s = user;
    cr_assert(done <= count && (phase || !count));
    return ++s->calls < s->stop_at;
}

Test(job, stops_wherever_it_is_told_to)
{
    struct qc_options o;
    const struct qc_job_inputs in = files();
    struct stopper all = {.stop_at = 1 << 30};
    struct qc_progress progress = {.tell = tell, .user = &all};
    set_options(&o, QC_COMMAND_quantize, NULL, 0, test_arena());
    char *text = produced(&o, &in, &progress, ST);
    cr_assert(text && all.calls > 20, "%d: %s", all.calls, failure.message);
    free(text);
    const int step = all.calls / (12 / (int)test_one_of(1, 2)) + 1;
    for (int at = 1; at < all.calls; at += step) {
        struct stopper s = {.stop_at = at};
        progress.user = &s;
        cr_expect_null(produced(&o, &in, &progress, ST), "%d", at);
        cr_expect_eq(failure.code, QC_INTERRUPTED, "%d: %s", at, failure.message);
    }
}

struct worker {
    const struct setting *settings;
    size_t count;
    char *text;
};

static void *work(void *user)
{
    struct worker *w = user;
    QC_ARENA_SCOPE *a = qc_arena_new();
    struct qc_options o;
    const struct qc_job_inputs in = files();
    set_options(&o, QC_COMMAND_quantize, w->settings, w->count, a);
    w->text = produced(&o, &in, NULL, ST);
    return NULL;
}

Test(job, two_at_once_are_independent)
{
    static const struct setting first[] = {{QC_OPTION_METHOD, "percentile:p=99"}, {QC_OPTION_BIAS, "narrowed"}},
                                second[] = {{QC_OPTION_ACTIVATION_TYPE, "uint16"}, {QC_OPTION_PER_TENSOR, NULL}};
    struct worker alone[] = {{first, 2, NULL}, {second, 2, NULL}}, together[] = {{first, 2, NULL}, {second, 2, NULL}};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) work(&alone[i]);
    for (int i = 0; i < 2; i++) cr_assert_eq(pthread_create(&threads[i], NULL, work, &together[i]), 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < 2; i++) {
        cr_assert(alone[i].text && together[i].text);
        cr_expect_str_eq(alone[i].text, together[i].text);
    }
    cr_expect_str_neq(alone[0].text, alone[1].text);
    for (int i = 0; i < 2; i++) {
        free(alone[i].text);
        free(together[i].text);
    }
}

Test(job, refuses_what_does_not_go_together)
{
    static const struct {
        struct setting setting;
        bool data;
        const char *part;
    } cases[] = {
        {{QC_OPTION_METHOD, "kl"}, false, "needs --data FILE"},
        {{QC_OPTION_METHOD, "kl"}, false, "--activation-type dynamic"},
        {{QC_OPTION_MAX_DROP, "1"}, true, "--max-drop needs --eval"},
        {{QC_OPTION_METHOD, "nothing"}, true, "--method"},
        {{QC_OPTION_ACCUMULATOR, "1"}, true, "--accumulator"},
        {{QC_OPTION_ROUNDING, "up"}, true, "--rounding"},
        {{QC_OPTION_PLUGIN, "/nonexistent/observer.so"}, true, "--plugin"},
        {{QC_OPTION_RULES, "/nonexistent/my.rules"}, true, "my.rules"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct qc_options o;
        struct qc_job_inputs in = files();
        struct qc_job *j = NULL;
        if (!cases[i].data) in.data.file = NULL;
        set_options(&o, QC_COMMAND_quantize, &cases[i].setting, 1, test_arena());
        cr_expect(!qc_job_new(&j, &o, &in, NULL, ST) && !j && strstr(failure.message, cases[i].part), "%s: %s",
                  cases[i].part, failure.message);
    }
}
