// SPDX-License-Identifier: Apache-2.0
/* Jobs in several threads of one process: each gives the same result as alone. The thread sanitizer checks the rest. */
#include <pthread.h>

#include "digits.h"

static struct qcalib_error error;

struct work {
    const qcalib_model *model;
    const qcalib_data *data;
    const char *method;
    void *bytes;
    size_t size;
    int code;
};

static void *work(void *user)
{
    struct work *w = user;
    struct qcalib_error own;
    OWN(qcalib_options) *o =
        digits_options((const char *const[]){"method", w->method, "samples", "32", "threads", "2", NULL});
    const struct qcalib_job job = {.size = sizeof job, .options = o, .data = w->data};
    OWN(qcalib_result) *r = NULL;
    w->code = qcalib_quantize(&r, w->model, &job, &own);
    if (!w->code) w->code = qcalib_result_model(&w->bytes, &w->size, r, 0, &own);
    return NULL;
}

/* Model and data are shared, which jobs only read. */
Test(public_threads, two_jobs_at_once_are_independent)
{
    enum { JOBS = 3 };
    static const char *const methods[JOBS] = {"kl", "minmax", "mse"};
    struct work alone[JOBS], together[JOBS];
    pthread_t threads[JOBS];
    digits_read();
    OWN(qcalib_model) *model = digits_model();
    OWN(qcalib_data) *data = digits_data(DIGITS_SAMPLES);
    for (int i = 0; i < JOBS; i++) {
        alone[i] = together[i] = (struct work){.model = model, .data = data, .method = methods[i]};
        work(&alone[i]);
        cr_assert_eq(alone[i].code, QCALIB_OK);
    }
    for (int i = 0; i < JOBS; i++) cr_assert_eq(pthread_create(&threads[i], NULL, work, &together[i]), 0);
    for (int i = 0; i < JOBS; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < JOBS; i++) {
        cr_assert_eq(together[i].code, QCALIB_OK);
        cr_expect(together[i].size == alone[i].size && memcmp(together[i].bytes, alone[i].bytes, alone[i].size) == 0,
                  "%s", methods[i]);
        if (i)
            cr_expect(alone[i].size != alone[0].size || memcmp(alone[i].bytes, alone[0].bytes, alone[0].size) != 0,
                      "methods differ");
    }
    for (int i = 0; i < JOBS; i++) {
        qcalib_bytes_free(alone[i].bytes);
        qcalib_bytes_free(together[i].bytes);
    }
}

/* An error in one is no error in the other. */
static void *fail_often(void *user)
{
    int *wrong = user;
    for (int i = 0; i < 50; i++) {
        struct qcalib_error own;
        OWN(qcalib_model) *m = NULL;
        const char *name = i % 2 ? "odd" : "even";
        *wrong += qcalib_model_from_memory(&m, "nonsense", 8, name, &own) != QCALIB_BAD_INPUT ||
                  strncmp(own.message, name, strlen(name)) != 0;
    }
    return NULL;
}

Test(public_threads, errors_belong_to_their_caller)
{
    pthread_t threads[2];
    int wrong[2] = {0, 0};
    for (int i = 0; i < 2; i++) cr_assert_eq(pthread_create(&threads[i], NULL, fail_often, &wrong[i]), 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    cr_expect_eq(wrong[0] + wrong[1], 0);
}

/* ---- Shared objects ---- */

struct shared {
    const qcalib_model *model;
    const qcalib_data *data;
    const qcalib_options *options;
    const qcalib_statistics *statistics;
    const qcalib_result *result;
    char folder[32];
    int number, wrong; /* of this thread */
    void *bytes;
    size_t size;
};

/* Runs a job for data, for statistics or for both. */
static void *share_in_jobs(void *user)
{
    struct shared *s = user;
    struct qcalib_error own;
    const struct qcalib_job job =
        FIELDS(.size = sizeof job, .options = s->options, .data = s->number == 1 ? NULL : s->data,
               .statistics = s->number == 0 ? NULL : s->statistics);
    OWN(qcalib_result) *r = NULL;
    s->wrong += qcalib_quantize(&r, s->model, &job, &own) != QCALIB_OK ||
                qcalib_result_model(&s->bytes, &s->size, r, 0, &own) != QCALIB_OK;
    return NULL;
}

/* Calls everything that takes a const object. */
static void *read_shared(void *user)
{
    struct shared *s = user;
    struct qcalib_error own;
    struct qcalib_layer layer = {.size = sizeof layer};
    struct qcalib_tensor tensor = {.size = sizeof tensor};
    char *json = NULL, path[64];
    size_t size;
    snprintf(path, sizeof path, "%s/%d.h5", s->folder, s->number);
    for (size_t i = 0; i < qcalib_result_layer_count(s->result); i++)
        s->wrong += qcalib_result_layer(&layer, s->result, i, &own) != QCALIB_OK || !layer.scale[0];
    for (size_t i = 0; i < qcalib_result_warning_count(s->result); i++)
        s->wrong += !qcalib_result_warning(s->result, i);
    s->wrong += qcalib_model_input(&tensor, s->model, 0, &own) || qcalib_model_output(&tensor, s->model, 0, &own) ||
                !qcalib_result_report(s->result) || !qcalib_result_format(s->result, 0) ||
                qcalib_result_model(&s->bytes, &s->size, s->result, 0, &own) ||
                qcalib_inspect_model(&json, &size, s->model, &own) || !qcalib_statistics_tensors(s->statistics) ||
                !qcalib_statistics_samples(s->statistics) || qcalib_statistics_save(s->statistics, path, &own);
    qcalib_bytes_free(json);
    s->wrong += unlink(path) != 0;
    return NULL;
}

/* Runs a function in several threads. Returns how often it went wrong or gave other bytes than in the first. */
enum { THREADS = 3 };
static int wrong_in_threads(void *(*function)(void *), const struct shared *shared)
{
    struct shared each[THREADS];
    pthread_t threads[THREADS];
    int wrong = 0;
    for (int i = 0; i < THREADS; i++) {
        each[i] = *shared;
        each[i].number = i;
        cr_assert_eq(pthread_create(&threads[i], NULL, function, &each[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++)
        wrong +=
            each[i].wrong || each[i].size != each[0].size || memcmp(each[i].bytes, each[0].bytes, each[0].size) != 0;
    for (int i = 0; i < THREADS; i++) qcalib_bytes_free(each[i].bytes);
    return wrong;
}

Test(public_threads, objects_are_read_by_several_threads)
{
    struct shared s = {.folder = "/tmp/qcalib-test-XXXXXX"};
    digits_read();
    cr_assert(mkdtemp(s.folder));
    OWN(qcalib_model) *model = digits_model();
    /* Most samples are in a temporary file, whose position threads might share. */
    OWN(qcalib_data) *data = digits_drawn(1000, false);
    OWN(qcalib_options) *o =
        digits_options((const char *const[]){"method", "mse", "threads", "1", "advice", "off", NULL});
    OWN(qcalib_statistics) *statistics = NULL;
    OWN(qcalib_result) *result = NULL;
    const struct qcalib_job job = {.size = sizeof job, .options = o, .data = data};
    cr_assert_eq(qcalib_collect(&statistics, model, &job, &error), QCALIB_OK, "%s", error.message);
    cr_assert_eq(qcalib_quantize(&result, model, &job, &error), QCALIB_OK, "%s", error.message);
    s.model = model, s.data = data, s.options = o, s.statistics = statistics, s.result = result;
    cr_expect_eq(wrong_in_threads(share_in_jobs, &s), 0);
    cr_expect_eq(wrong_in_threads(read_shared, &s), 0);
    rmdir(s.folder);
}
