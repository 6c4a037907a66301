// SPDX-License-Identifier: Apache-2.0
/* libFuzzer target: calls of the C interface in any order, on a small model. Two bytes of the input are a call: which
   one, and which of the objects of each kind it uses, which may be NULL. Some calls read a text that follows, up to a
   newline. Every call returns a code of the interface, with a message if it failed. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define QCALIB_EXPERIMENTAL
#include "include/qcalib/qcalib.h"

enum { SLOTS = 2, CALLS = 40, JOBS = 4, PIXELS = 64, SAMPLES = 2, TEXT = 200 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const float pixels[SAMPLES * PIXELS] = {1, -1, 0.5f, 3};
static const int64_t labels[SAMPLES] = {1, 2};

struct objects {
    qcalib_model *model[SLOTS];
    qcalib_data *data[SLOTS];
    qcalib_options *options[SLOTS];
    qcalib_result *result[SLOTS];
    qcalib_statistics *statistics[SLOTS];
    qcalib_comparison *comparison[SLOTS];
    unsigned jobs; /* begun; further ones are left out, since they are slow */
};

struct input {
    const uint8_t *at, *end;
    unsigned call, a, b, c; /* objects: 0 or 1 of a kind; c: a small number */
    char text[TEXT];
};

static void check(int code, const struct qcalib_error *error)
{
    if (code != error->code || (code == QCALIB_OK) != !*error->message) abort();
    if ((code < QCALIB_OK || code > QCALIB_MACHINE) && code != QCALIB_INTERRUPTED) abort();
}

static const char *text(struct input *in)
{
    size_t n = 0;
    while (in->at < in->end && *in->at != '\n' && n < TEXT - 1) in->text[n++] = (char)*in->at++;
    in->at += in->at < in->end;
    in->text[n] = '\0';
    return in->text;
}

static int draw(void *user, void *const *rows)
{
    unsigned *left = user;
    if (!*left) return 0;
    --*left;
    memcpy(rows[0], pixels, sizeof *pixels * PIXELS);
    return 1;
}

static int progress(void *user, const char *phase, size_t done, size_t total)
{
    (void)phase, (void)total;
    return done > *(unsigned *)user;
}

static void message(void *user, const char *said)
{
    if (!*said) abort();
}

static int output(void *user, uint64_t sample, const struct qcalib_output *outputs, size_t count)
{
    (void)outputs, (void)count;
    return sample > *(unsigned *)user;
}

static void make(struct objects *o, struct input *in, struct qcalib_error *e)
{
    const unsigned a = in->a;
    switch (in->call % 6) {
    case 0:
        qcalib_model_free(o->model[a]);
        o->model[a] = NULL;
        check(qcalib_model_open(&o->model[a], in->c == 7 ? text(in) : QC_TEST_SOURCE "/datasets/digits_cnn.onnx", e),
              e);
        break;
    case 1:
        qcalib_data_free(o->data[a]);
        o->data[a] = NULL;
        check(in->c == 7 ? qcalib_data_open(&o->data[a], text(in), e) : qcalib_data_new(&o->data[a], NULL, e), e);
        break;
    case 2:
        qcalib_options_free(o->options[a]);
        o->options[a] = NULL;
        check(qcalib_options_new(&o->options[a], e), e);
        break;
    case 3:
        qcalib_result_free(o->result[a]);
        o->result[a] = NULL;
        break;
    case 4:
        qcalib_statistics_free(o->statistics[a]);
        o->statistics[a] = NULL;
        break;
    default:
        qcalib_comparison_free(o->comparison[a]); /* whose models have no other users */
        o->comparison[a] = NULL;
    }
}

static void add(struct objects *o, struct input *in, struct qcalib_error *e)
{
    const int64_t shape[] = {in->c & 4 ? SAMPLES - 1 : SAMPLES, 1, 8, 8};
    struct qcalib_array array = {
        .size = sizeof array, .name = "input", .type = QCALIB_FLOAT32, .rank = 4, .shape = shape};
    struct qcalib_array named = {
        .size = sizeof named, .name = "labels", .type = QCALIB_INT64, .rank = 1, .shape = shape};
    unsigned left = in->c;
    array.values = in->c & 1 ? pixels : NULL;
    array.preprocess = in->c == 3 ? text(in) : NULL;
    named.values = labels;
    check(qcalib_data_add(o->data[in->a], in->c & 2 ? &named : &array, e), e);
    if (!(in->c & 3)) check(qcalib_data_draw(o->data[in->a], draw, &left, 0, e), e);
}

static void set(struct objects *o, struct input *in, struct qcalib_error *e)
{
    const char *json = text(in);
    if (*json == '{') {
        check(qcalib_options_set_json(o->options[in->a], json, strlen(json), e), e);
        return;
    }
    char name[TEXT];
    memcpy(name, json, sizeof name);
    char *value = strchr(name, '=');
    if (value) *value++ = '\0';
    check(qcalib_options_set(o->options[in->a], name, value, e), e);
}

static void run_job(struct objects *o, struct input *in, struct qcalib_error *e)
{
    unsigned steps = in->c * in->c;
    struct qcalib_metric metric = {.size = sizeof metric};
    /* of this header or an older one, on the heap, where the sanitizer sees reads behind its end */
    static const size_t sizes[] = {sizeof(struct qcalib_job), offsetof(struct qcalib_job, outputs),
                                   offsetof(struct qcalib_job, progress), offsetof(struct qcalib_job, statistics)};
    const struct qcalib_job whole = {.size = sizes[in->call / 5 % 4],
                                     .options = o->options[in->b],
                                     .data = o->data[in->b],
                                     .statistics = in->c & 1 ? o->statistics[in->a] : NULL,
                                     .progress = progress,
                                     .message = message,
                                     .user = &steps};
    if (o->jobs++ >= JOBS) return;
    struct qcalib_job *job = malloc(whole.size), collect = whole;
    if (!job) return;
    memcpy(job, &whole, whole.size);
    switch (in->call % 5) {
    case 0:
        qcalib_result_free(o->result[in->a]);
        o->result[in->a] = NULL;
        check(qcalib_quantize(&o->result[in->a], o->model[in->a], job, e), e);
        break;
    case 1:
        qcalib_statistics_free(o->statistics[in->b]);
        o->statistics[in->b] = NULL;
        collect.statistics = NULL;
        memcpy(job, &collect, whole.size);
        check(qcalib_collect(&o->statistics[in->b], o->model[in->a], job, e), e);
        break;
    case 2: check(qcalib_run(o->model[in->a], job, output, &steps, e), e); break;
    case 3: check(qcalib_evaluate(&metric, o->model[in->a], job, e), e); break;
    default:
        qcalib_comparison_free(o->comparison[in->a]);
        o->comparison[in->a] = NULL;
        check(qcalib_compare(&o->comparison[in->a], o->model[0], o->model[1], job, e), e);
        qcalib_comparison_free(o->comparison[in->a]); /* before its models can be freed */
        o->comparison[in->a] = NULL;
    }
    free(job);
}

static void look(struct objects *o, struct input *in, struct qcalib_error *e)
{
    struct qcalib_tensor tensor = {.size = sizeof tensor};
    struct qcalib_layer layer = {.size = sizeof layer};
    struct qcalib_option option = {.size = sizeof option};
    void *bytes = NULL;
    char *json = NULL;
    size_t size;
    const qcalib_result *r = o->result[in->a];
    const qcalib_model *m = o->model[in->a];
    switch (in->call % 8) {
    case 0: check(qcalib_model_input(&tensor, m, in->c, e), e); break;
    case 1: check(qcalib_model_output(&tensor, m, in->c, e), e); break;
    case 2: check(qcalib_inspect_model(&json, &size, m, e), e); break;
    case 3: check(qcalib_option_at(&option, in->c * 20, e), e); break;
    case 4: check(qcalib_result_layer(&layer, r, in->c, e), e); break;
    case 5: {
        const int bad = qcalib_result_model(&bytes, &size, r, in->c & 1, e);
        check(bad, e);
        if (bad) break;
        qcalib_model_free(o->model[in->b]);
        o->model[in->b] = NULL;
        check(qcalib_model_from_memory(&o->model[in->b], bytes, size, NULL, e), e);
        break;
    }
    case 6: check(qcalib_statistics_merge(o->statistics[0], o->statistics[in->a], e), e); break;
    default:
        if (r && (!qcalib_result_report(r) || qcalib_result_warning(r, qcalib_result_warning_count(r)))) abort();
    }
    qcalib_bytes_free(bytes);
    qcalib_bytes_free(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const kinds[])(struct objects *, struct input *, struct qcalib_error *) = {make, add, set, run_job,
                                                                                             look};
    struct objects o = {0};
    struct input in = {.at = data, .end = data + size};
    for (int i = 0; i < CALLS && in.end - in.at >= 2; i++) {
        struct qcalib_error error;
        const unsigned first = *in.at++, second = *in.at++;
        in.call = first / 5;
        in.a = second & 1;
        in.b = second >> 1 & 1;
        in.c = second >> 2 & 7;
        kinds[first % 5](&o, &in, &error);
    }
    for (int i = 0; i < SLOTS; i++) {
        qcalib_comparison_free(o.comparison[i]);
        qcalib_statistics_free(o.statistics[i]);
        qcalib_result_free(o.result[i]);
        qcalib_options_free(o.options[i]);
        qcalib_data_free(o.data[i]);
        qcalib_model_free(o.model[i]);
    }
    return 0;
}
