// SPDX-License-Identifier: Apache-2.0
/* Jobs in several threads of one process: each gives the same result as alone. The thread sanitizer checks the rest. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

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
    qcalib_options *o =
        digits_options((const char *const[]){"method", w->method, "samples", "32", "threads", "2", NULL});
    const struct qcalib_job job = {.size = sizeof job, .options = o, .data = w->data};
    qcalib_result *r = NULL;
    w->code = qcalib_quantize(&r, w->model, &job, &own);
    if (!w->code) w->code = qcalib_result_model(&w->bytes, &w->size, r, 0, &own);
    qcalib_result_free(r);
    qcalib_options_free(o);
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
    qcalib_model *model = digits_model();
    qcalib_data *data = digits_data(DIGITS_SAMPLES);
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
    qcalib_data_free(data);
    qcalib_model_free(model);
}

/* An error in one is no error in the other. */
static void *fail_often(void *user)
{
    int *wrong = user;
    for (int i = 0; i < 50; i++) {
        struct qcalib_error own;
        qcalib_model *m = NULL;
        const char *name = i % 2 ? "odd" : "even";
        *wrong += qcalib_model_from_memory(&m, "nonsense", 8, name, &own) != QCALIB_BAD_INPUT ||
                  strncmp(own.message, name, strlen(name)) != 0;
        qcalib_model_free(m);
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
    (void)error;
}
