// SPDX-License-Identifier: Apache-2.0
/* Whole jobs through the public library. The reference for samples in memory is the same samples in a file; that a file
   gives what the command line gives follows from their one code, and tests/e2e looks at it. */
#include "digits.h"

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static struct qcalib_error error;
static qcalib_model *model;

static void set_up(void)
{
    digits_read();
    model = digits_model();
}

static void tear_down(void)
{
    qcalib_model_free(model);
}

TestSuite(public_quantize, .init = set_up, .fini = tear_down);

struct bytes {
    void *data;
    size_t size;
};

static struct bytes model_of(const qcalib_result *r, size_t i)
{
    struct bytes b;
    cr_assert_eq(qcalib_result_model(&b.data, &b.size, r, i, &error), QCALIB_OK, "%s", error.message);
    return b;
}

static qcalib_result *quantize(const struct qcalib_job *job)
{
    qcalib_result *r = NULL;
    cr_assert_eq(qcalib_quantize(&r, model, job, &error), QCALIB_OK, "%s", error.message);
    return r;
}

static struct bytes quantized(const struct qcalib_job *job)
{
    OWN(qcalib_result) *r = quantize(job);
    struct bytes b = model_of(r, 0);
    return b;
}

static void expect_equal(struct bytes a, struct bytes b, const char *what)
{
    cr_expect(a.size == b.size && memcmp(a.data, b.data, a.size) == 0, "%s", what);
    qcalib_bytes_free(b.data);
}

Test(public_quantize, samples_in_memory_give_the_model_that_a_file_gives)
{
    qcalib_data *all[5] = {NULL, digits_data(DIGITS_SAMPLES), digits_drawn(0, false), digits_drawn(1, false),
                           digits_drawn(0, true)};
    static const char *const names[] = {"file", "arrays", "drawn, in memory", "drawn, in a file", "of any size"};
    struct bytes first = {0};
    cr_assert_eq(qcalib_data_open(&all[0], DIGITS_CALIB, &error), QCALIB_OK);
    for (int i = 0; i < 5; i++) {
        const struct qcalib_job job = {.size = sizeof job, .data = all[i]};
        struct bytes b = quantized(&job);
        if (i)
            expect_equal(first, b, names[i]);
        else
            first = b;
        qcalib_data_free(all[i]);
    }
    qcalib_bytes_free(first.data);
}

/* The pixels as numpy.save writes them. */
static void write_npy(const char *path)
{
    static const char header[] =
        "\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, 'shape': (300, 1, 8, 8), }";
    FILE *f = fopen(path, "wb");
    cr_assert(f);
    cr_assert_eq(fwrite(header, 1, sizeof header - 1, f), sizeof header - 1);
    for (size_t i = sizeof header - 1; i < 127; i++) cr_assert_neq(fputc(' ', f), EOF);
    cr_assert_neq(fputc('\n', f), EOF);
    cr_assert_eq(fwrite(digits_pixels, sizeof digits_pixels, 1, f), 1);
    cr_assert_eq(fclose(f), 0);
}

Test(public_quantize, arrays_of_numpy_and_folders_of_them_are_files_too)
{
    char folder[] = "/tmp/qcalib-test-XXXXXX", path[64];
    struct bytes first = {0};
    cr_assert(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/x.npy", folder);
    write_npy(path);
    const char *const files[] = {DIGITS_CALIB, path, folder};
    for (int i = 0; i < 3; i++) {
        OWN(qcalib_data) *d = NULL;
        cr_assert_eq(qcalib_data_open(&d, files[i], &error), QCALIB_OK);
        const struct qcalib_job job = {.size = sizeof job, .data = d};
        struct bytes b = quantized(&job);
        if (i)
            expect_equal(first, b, files[i]);
        else
            first = b;
    }
    qcalib_bytes_free(first.data);
    unlink(path);
    rmdir(folder);
}

Test(public_quantize, results_outlive_what_they_were_made_from)
{
    qcalib_options *o = digits_options(WORDS("format", "qdq,qoperator,annotated", "method", "minmax"));
    qcalib_data *d = digits_data(64);
    const struct qcalib_job job = {.size = sizeof job, .options = o, .data = d};
    OWN(qcalib_result) *r = quantize(&job);
    qcalib_options_free(o);
    qcalib_data_free(d);
    qcalib_model_free(model);
    model = NULL;
    cr_assert_eq(qcalib_result_model_count(r), 3);
    cr_expect_str_eq(qcalib_result_format(r, 1), "qoperator");
    cr_expect_null(qcalib_result_format(r, 3));
    for (size_t i = 0; i < 3; i++) { /* as bytes and as a file */
        struct bytes b = model_of(r, i), file = {0};
        char path[] = "/tmp/qcalib-test-XXXXXX";
        cr_assert_geq(close(mkstemp(path)), 0);
        cr_assert_eq(qcalib_result_write_model(r, i, path, &error), QCALIB_OK, "%s", error.message);
        FILE *f = fopen(path, "rb");
        file.data = malloc(b.size + 1);
        file.size = fread(file.data, 1, b.size + 1, f);
        fclose(f);
        unlink(path);
        expect_equal(b, file, qcalib_result_format(r, i));
        qcalib_bytes_free(b.data);
    }
    struct qcalib_layer l = {.size = sizeof l};
    cr_assert_eq(qcalib_result_layer_count(r), 16);
    cr_assert_eq(qcalib_result_layer(&l, r, 0, &error), QCALIB_OK);
    HOLD(strcmp(l.name, "input") == 0, l.type == QCALIB_UINT8, l.axis == -1, l.count == 1);
    cr_expect_gt(l.scale[0], 0);
    cr_expect_gt(l.sqnr_db, 20);
    cr_expect_eq(qcalib_result_layer(&l, r, 16, &error), QCALIB_USAGE);
    cr_expect(strstr(qcalib_result_report(r), "\"method\": \"minmax\""));
    cr_expect(strstr(qcalib_result_report(r), "\"digits\""), "data are called what the program calls them");
}

Test(public_quantize, options_have_the_messages_of_the_command_line)
{
    static const struct {
        const char *name, *value, *message;
    } rows[] = {
        {"metod", "kl", "unknown option --metod (did you mean '--method'?)"},
        {"weight-rounding", "neerest", "--weight-rounding: unknown value 'neerest' (did you mean 'nearest'?)"},
        {"samples", "0", "--samples: '0' is not a positive integer"},
        {"per-tensor", "x", "--per-tensor takes no value, but got 'x'"},
        {"method", NULL, "--method needs a value: NAME[:key=value,..]"},
        {"data", "x.h5", "--data is not an option of the library: set the member `data` of struct qcalib_job"},
    };
    OWN(qcalib_options) *o = digits_options(WORDS("method", "minmax"));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cr_expect_eq(qcalib_options_set(o, rows[i].name, rows[i].value, &error), QCALIB_USAGE);
        cr_expect_eq(strncmp(error.message, rows[i].message, strlen(rows[i].message)), 0, "%s", error.message);
    }
    static const char json[] = "{\"method\": \"kl\", \"samples\": 12, \"tolerance\": 1}",
                      wrong[] = "{\"samples\": true}";
    cr_expect_eq(qcalib_options_set_json(o, wrong, sizeof wrong - 1, &error), QCALIB_USAGE);
    cr_expect_eq(qcalib_options_set_json(o, "{", 1, &error), QCALIB_BAD_INPUT);
    cr_expect_eq(qcalib_options_set_json(o, json, sizeof json - 1, &error), QCALIB_OK, "%s", error.message);
    OWN(qcalib_data) *d = digits_data(64);
    const struct qcalib_job job = {.size = sizeof job, .options = o, .data = d};
    OWN(qcalib_result) *r = quantize(&job);
    cr_expect(strstr(qcalib_result_report(r), "\"samples\": 12"));
    cr_expect(strstr(qcalib_result_report(r), "\"method\": \"kl\""), "what is set twice counts the second time");
}

Test(public_quantize, demands_that_are_not_met_give_a_report_without_a_model)
{
    OWN(qcalib_options) *o = digits_options(WORDS("samples", "1", "per-tensor", NULL, "method", "percentile:p=90",
                                                  "max-drop", "1", "require-integer", NULL));
    OWN(qcalib_data) *d = digits_data(DIGITS_SAMPLES), *eval = NULL;
    OWN(qcalib_result) *r = NULL;
    cr_assert_eq(qcalib_data_open(&eval, DIGITS_TEST, &error), QCALIB_OK);
    const struct qcalib_job job = {.size = sizeof job, .options = o, .data = d, .eval = eval};
    cr_expect_eq(qcalib_quantize(&r, model, &job, &error), QCALIB_DEMAND, "%s", error.message);
    cr_assert(r);
    cr_expect_eq(qcalib_result_model_count(r), 0);
    cr_expect(strstr(qcalib_result_report(r), "\"fallback\""));
    void *bytes = NULL;
    size_t size;
    cr_expect_eq(qcalib_result_model(&bytes, &size, r, 0, &error), QCALIB_USAGE);
    cr_expect_null(bytes);
}

struct listening {
    size_t calls, stop_at;
    char last[64];
    size_t messages;
};

static int listen_and_stop(void *user, const char *phase, size_t done, size_t total)
{
    struct listening *l = user;
    cr_expect_leq(done, total);
    snprintf(l->last, sizeof l->last, "%s", phase);
    return ++l->calls == l->stop_at;
}

static void hear(void *user, const char *text)
{
    struct listening *l = user;
    cr_expect(text && *text);
    l->messages++;
}

/* Wherever a job is stopped, it says so and loses nothing (the address sanitizer looks). */
Test(public_quantize, progress_stops_a_job_anywhere)
{
    OWN(qcalib_options) *o = digits_options(WORDS("samples", "8", "threads", "2"));
    OWN(qcalib_data) *d = digits_data(DIGITS_SAMPLES);
    struct listening l = {.stop_at = 0};
    struct qcalib_job job = {
        .size = sizeof job, .options = o, .data = d, .progress = listen_and_stop, .message = hear, .user = &l};
    qcalib_result *r = quantize(&job);
    qcalib_result_free(r);
    const size_t all = l.calls, stops = 16 / test_one_of(1, 2);
    cr_assert_gt(all, 20);
    size_t stopped = 0;
    for (size_t at = 1; at <= all; at += 1 + all / stops) {
        l = (struct listening){.stop_at = at};
        r = NULL;
        const int code = qcalib_quantize(&r, model, &job, &error);
        cr_expect(code == QCALIB_INTERRUPTED ? !r : code == QCALIB_OK && r, "call %zu: %d %s", at, code, error.message);
        stopped += code == QCALIB_INTERRUPTED;
        qcalib_result_free(r);
    }
    cr_expect_gt(stopped, stops / 2, "%zu of %zu calls", stopped,
                 all); /* a phase that begins asks again with its first step */
}

/* ---- Statistics ---- */

static qcalib_statistics *collect(const qcalib_data *d, const char *shard)
{
    OWN(qcalib_options) *o = digits_options(WORDS("shard", shard));
    const struct qcalib_job job = {.size = sizeof job, .options = o, .data = d};
    qcalib_statistics *s = NULL;
    cr_assert_eq(qcalib_collect(&s, model, &job, &error), QCALIB_OK, "%s", error.message);
    return s;
}

Test(public_quantize, statistics_of_parts_are_those_of_the_whole)
{
    OWN(qcalib_data) *d = digits_data(DIGITS_SAMPLES);
    OWN(qcalib_statistics) *even = collect(d, "0/2"), *odd = collect(d, "1/2"), *loaded = NULL;
    char path[] = "/tmp/qcalib-test-XXXXXX";
    cr_expect_eq(qcalib_statistics_samples(even), 150);
    cr_expect_geq(qcalib_statistics_tensors(even), 10);
    OWN(qcalib_options) *o = digits_options(WORDS("method", "mse")); /* auto runs the data */
    struct qcalib_job job = {.size = sizeof job, .options = o, .statistics = even};
    qcalib_result *r = NULL;
    cr_expect_eq(qcalib_quantize(&r, model, &job, &error), QCALIB_BAD_INPUT, "half of the samples are missing");
    cr_expect_eq(qcalib_statistics_merge(even, even, &error), QCALIB_USAGE);
    cr_assert_eq(qcalib_statistics_merge(even, odd, &error), QCALIB_OK, "%s", error.message);
    cr_expect_eq(qcalib_statistics_samples(even), 300);
    cr_assert_geq(close(mkstemp(path)), 0);
    cr_assert_eq(qcalib_statistics_save(even, path, &error), QCALIB_OK, "%s", error.message);
    cr_assert_eq(qcalib_statistics_load(&loaded, path, &error), QCALIB_OK, "%s", error.message);
    unlink(path);
    struct bytes of_statistics = quantized(&job);
    job.statistics = loaded;
    expect_equal(of_statistics, quantized(&job), "loaded");
    job.statistics = NULL;
    job.data = d;
    expect_equal(of_statistics, quantized(&job), "data");
    qcalib_bytes_free(of_statistics.data);
    qcalib_statistics_free(NULL);
}

/* ---- Run, evaluate, compare ---- */

struct scores {
    size_t units;
    float best[DIGITS_SAMPLES];
    int stop;
};

static int take_scores(void *user, uint64_t sample, const struct qcalib_output *outputs, size_t count)
{
    struct scores *s = user;
    cr_assert_eq(count, 1);
    HOLD(strcmp(outputs[0].name, "logits") == 0, outputs[0].type == QCALIB_FLOAT32, outputs[0].rank == 2,
         outputs[0].shape[1] == 10);
    const float *x = outputs[0].values;
    int best = 0;
    for (int k = 1; k < 10; k++) best = x[k] > x[best] ? k : best;
    s->best[sample] = (float)best;
    s->units++;
    return s->stop;
}

/* Accuracy from outputs that were counted by hand is what evaluate says, with labels from memory. */
Test(public_quantize, run_and_evaluate_agree)
{
    static struct scores s;
    static uint8_t labels[DIGITS_SAMPLES];
    OWN(qcalib_data) *d = digits_data(DIGITS_SAMPLES);
    struct qcalib_job job = {.size = sizeof job, .data = d};
    struct qcalib_metric m = {.size = sizeof m};
    cr_assert_eq(qcalib_run(model, &job, take_scores, &s, &error), QCALIB_OK, "%s", error.message);
    cr_assert_eq(s.units, DIGITS_SAMPLES);
    cr_expect_eq(qcalib_evaluate(&m, model, &job, &error), QCALIB_BAD_INPUT, "there are no labels");
    for (int i = 0; i < DIGITS_SAMPLES; i++) labels[i] = (uint8_t)(i % 4 ? s.best[i] : 9 - s.best[i]);
    const int64_t shape[1] = {DIGITS_SAMPLES};
    const struct qcalib_array truth = {
        .size = sizeof truth, .name = "labels", .type = QCALIB_UINT8, .rank = 1, .shape = shape, .values = labels};
    cr_assert_eq(qcalib_data_add(d, &truth, &error), QCALIB_OK, "%s", error.message);
    cr_assert_eq(qcalib_evaluate(&m, model, &job, &error), QCALIB_OK, "%s", error.message);
    HOLD(strcmp(m.name, "top1") == 0, m.value == 0.75, m.samples == DIGITS_SAMPLES, m.low < 0.75 && m.high > 0.75);
    s.stop = 1;
    cr_expect_eq(qcalib_run(model, &job, take_scores, &s, &error), QCALIB_INTERRUPTED);
}

Test(public_quantize, compare_tells_a_model_from_its_quantized_form)
{
    OWN(qcalib_data) *d = digits_data(64);
    const struct qcalib_job job = {.size = sizeof job, .data = d};
    struct bytes b = quantized(&job);
    OWN(qcalib_model) *small = NULL;
    qcalib_comparison *c = NULL;
    struct qcalib_difference x = {.size = sizeof x};
    cr_assert_eq(qcalib_model_from_memory(&small, b.data, b.size, "small", &error), QCALIB_OK, "%s", error.message);
    qcalib_bytes_free(b.data);
    cr_assert_eq(qcalib_compare(&c, model, small, &job, &error), QCALIB_OK, "%s", error.message);
    cr_assert_eq(qcalib_comparison_output_count(c), 1);
    cr_assert_eq(qcalib_comparison_output(&x, c, 0, &error), QCALIB_OK);
    cr_expect_str_eq(x.name, "logits");
    cr_expect(x.sqnr_db > 20 && x.sqnr_db < 60 && x.cosine > 0.99 && x.max_abs > 0, "%g", x.sqnr_db);
    cr_expect_gt(qcalib_comparison_layer_count(c), 5);
    cr_assert_eq(qcalib_comparison_layer(&x, c, 0, &error), QCALIB_OK);
    cr_expect(x.name);
    qcalib_comparison_free(c);
    cr_assert_eq(qcalib_compare(&c, model, model, &job, &error), QCALIB_OK, "%s", error.message);
    cr_assert_eq(qcalib_comparison_output(&x, c, 0, &error), QCALIB_OK);
    cr_expect(isinf(x.sqnr_db));
    qcalib_comparison_free(c);
}
