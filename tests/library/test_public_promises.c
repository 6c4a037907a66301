// SPDX-License-Identifier: Apache-2.0
/* Promises of include/qcalib/qcalib.h that the address sanitizer watches: how long objects and pointers are valid,
   calls that are repeated or follow a failed one, structs of an older or a later header, and what a call leaves behind.
 */
#include <dirent.h>
#include <errno.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#define QCALIB_EXPERIMENTAL
#include "digits.h"

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define QUICK "samples", "8", "method", "minmax", "advice", "off"

static struct qcalib_error error;
static char folder[32];

static void set_up(void)
{
    digits_read();
    strcpy(folder, "/tmp/qcalib-test-XXXXXX"); /* anew for each case: they may share a process */
    cr_assert(mkdtemp(folder));
}

static void remove_all(const char *path)
{
    char inner[512];
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        snprintf(inner, sizeof inner, "%s/%s", path, e->d_name);
        if (unlink(inner)) remove_all(inner);
    }
    if (d) closedir(d);
    rmdir(path);
}

static void tear_down(void)
{
    remove_all(folder);
}

TestSuite(public_promises, .init = set_up, .fini = tear_down);

/* A path in the test's folder. */
static const char *in_folder(const char *name)
{
    static char paths[4][256];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

/* Returns the text of a file, owned by the caller. */
static char *text_of(const char *path)
{
    FILE *f = fopen(path, "rb");
    cr_assert(f, "%s", path);
    char *text = calloc(1, 1 << 20);
    cr_assert_lt(fread(text, 1, (1 << 20) - 1, f), (1 << 20) - 1);
    fclose(f);
    return text;
}

static size_t count_in(const char *text, const char *part)
{
    size_t n = 0;
    for (; (text = strstr(text, part)); text++) n++;
    return n;
}

static qcalib_result *quick_result(qcalib_model *m, const char *const *words)
{
    OWN(qcalib_options) *o = digits_options(words);
    OWN(qcalib_data) *d = digits_data(8);
    const struct qcalib_job job = {.size = sizeof job, .options = o, .data = d};
    qcalib_result *r = NULL;
    cr_assert_eq(qcalib_quantize(&r, m, &job, &error), QCALIB_OK, "%s", error.message);
    return r;
}

/* ---- Lifetimes ---- */

struct draw {
    int64_t left;
};

static int next_row(void *user, void *const *rows)
{
    struct draw *d = user;
    if (!d->left) return 0;
    memcpy(rows[0], digits_pixels[--d->left], sizeof digits_pixels[0]);
    return 1;
}

/* Data whose texts and shape are gone when the array has been added. keep_bytes: of drawn samples; 0: not drawn. */
static qcalib_data *data_of(size_t keep_bytes)
{
    qcalib_data *d = NULL;
    struct draw draw = {.left = 8};
    int64_t *shape = malloc(4 * sizeof *shape);
    char *name = strdup("pixels"), *input = strdup("input"), *preprocess = strdup("scale=1");
    memcpy(shape, (const int64_t[]){8, 1, 8, 8}, 4 * sizeof *shape);
    const struct qcalib_array a =
        FIELDS(.size = sizeof a, .name = input, .type = QCALIB_FLOAT32, .rank = 4, .shape = shape,
               .preprocess = preprocess, .values = keep_bytes ? NULL : digits_pixels);
    cr_assert_eq(qcalib_data_new(&d, name, &error), QCALIB_OK);
    cr_assert_eq(qcalib_data_add(d, &a, &error), QCALIB_OK, "%s", error.message);
    free(name);
    free(input);
    free(preprocess);
    free(shape);
    if (keep_bytes)
        cr_assert_eq(qcalib_data_draw(d, next_row, &draw, keep_bytes, &error), QCALIB_OK, "%s", error.message);
    return d;
}

static void expect_all_is_written(qcalib_result *r, const char *data_name)
{
    const char *const report = qcalib_result_report(r);
    struct qcalib_layer first = {.size = sizeof first}, again = first;
    cr_assert_eq(qcalib_result_layer(&first, r, 0, &error), QCALIB_OK);
    for (int turn = 0; turn < 2; turn++) {
        cr_assert_eq(qcalib_result_write_report(r, in_folder("report"), &error), QCALIB_OK, "%s", error.message);
        for (size_t i = 0; i < qcalib_result_model_count(r); i++) {
            void *bytes = NULL;
            size_t size;
            cr_assert_eq(qcalib_result_model(&bytes, &size, r, i, &error), QCALIB_OK, "%s", error.message);
            qcalib_bytes_free(bytes);
            cr_assert_eq(qcalib_result_write_model(r, i, in_folder("m.onnx"), &error), QCALIB_OK, "%s", error.message);
        }
    }
    char *json = text_of(in_folder("report/report.json"));
    cr_expect(strstr(json, DIGITS_MODEL), "%s", json);
    cr_expect(strstr(json, data_name));
    free(json);
    cr_expect_eq(qcalib_result_report(r), report, "a pointer is valid as long as its object");
    cr_assert_eq(qcalib_result_layer(&again, r, 0, &error), QCALIB_OK);
    cr_expect(again.name == first.name && again.scale == first.scale && again.scale[0] > 0);
    for (size_t i = 0; i < qcalib_result_warning_count(r); i++) cr_expect(*qcalib_result_warning(r, i));
}

Test(public_promises, a_result_needs_no_other_object)
{
    static const size_t keep[] = {0, 1, 1 << 20};
    for (size_t k = 0; k < sizeof keep / sizeof *keep; k++) {
        qcalib_model *m = digits_model();
        qcalib_options *o = digits_options(WORDS(QUICK, "format", "qdq,qoperator", "skip", "logits*"));
        qcalib_data *d = data_of(keep[k]);
        struct qcalib_job *job = calloc(1, sizeof *job);
        OWN(qcalib_result) *r = NULL;
        *job = (struct qcalib_job){.size = sizeof *job, .options = o, .data = d};
        cr_assert_eq(qcalib_quantize(&r, m, job, &error), QCALIB_OK, "%s", error.message);
        free(job);
        qcalib_model_free(m);
        qcalib_options_free(o);
        qcalib_data_free(d);
        expect_all_is_written(r, "\"pixels\"");
    }
}

Test(public_promises, statistics_and_their_results_need_no_other_object)
{
    qcalib_model *m = digits_model();
    qcalib_data *d = digits_data(8);
    struct qcalib_job job = {.size = sizeof job, .data = d};
    qcalib_statistics *s = NULL, *saved = NULL;
    qcalib_result *r = NULL;
    cr_assert_eq(qcalib_collect(&s, m, &job, &error), QCALIB_OK, "%s", error.message);
    qcalib_data_free(d);
    qcalib_model_free(m);
    cr_assert_eq(qcalib_statistics_save(s, in_folder("s.h5"), &error), QCALIB_OK, "%s", error.message);
    cr_assert_eq(qcalib_statistics_load(&saved, in_folder("s.h5"), &error), QCALIB_OK, "%s", error.message);
    m = digits_model();
    qcalib_statistics *const both[] = {s, saved};
    for (int i = 0; i < 2; i++) {
        job = (struct qcalib_job){.size = sizeof job, .statistics = both[i]};
        cr_assert_eq(qcalib_quantize(&r, m, &job, &error), QCALIB_OK, "%s", error.message);
        if (i) qcalib_model_free(m);
        qcalib_statistics_free(both[i]);
        expect_all_is_written(r, "\"samples\": 8");
        qcalib_result_free(r);
    }
}

Test(public_promises, other_objects_outlive_what_made_them)
{
    qcalib_model *m = digits_model(), *own = NULL;
    qcalib_data *d = digits_data(8);
    qcalib_options *o = digits_options(WORDS("threads", "1"));
    const struct qcalib_job job = {.size = sizeof job, .data = d, .options = o};
    qcalib_comparison *c = NULL;
    struct qcalib_difference x = {.size = sizeof x};
    cr_assert_eq(qcalib_compare(&c, m, m, &job, &error), QCALIB_OK, "%s", error.message);
    qcalib_options_free(o);
    qcalib_data_free(d);
    for (size_t i = 0; i < qcalib_comparison_layer_count(c); i++)
        cr_expect_eq(qcalib_comparison_layer(&x, c, i, &error), QCALIB_OK);
    cr_expect_eq(qcalib_comparison_output(&x, c, 0, &error), QCALIB_OK);
    cr_expect_str_eq(x.name, "logits");
    qcalib_comparison_free(c);
    qcalib_model_free(m);
    struct qcalib_option row = {.size = sizeof row};
    cr_assert_eq(qcalib_option_at(&row, 0, &error), QCALIB_OK);
    char *bytes = text_of(DIGITS_MODEL), *name = strdup("of bytes"); /* larger than the file: 0 follows */
    cr_assert_eq(qcalib_model_from_memory(&own, bytes, 1 << 19, name, &error), QCALIB_BAD_INPUT);
    cr_expect(strstr(error.message, "of bytes"));
    free(name);
    free(bytes);
    cr_expect_null(own);
}

/* ---- Repeated calls ---- */

Test(public_promises, a_model_is_written_any_number_of_times)
{
    OWN(qcalib_model) *m = digits_model();
    OWN(qcalib_result) *r = quick_result(m, WORDS(QUICK));
    char spelled[256];
    snprintf(spelled, sizeof spelled, "%s/./a.onnx", folder);
    for (int i = 0; i < 9; i++) {
        cr_assert_eq(qcalib_result_write_model(r, 0, in_folder("a.onnx"), &error), QCALIB_OK, "%s", error.message);
        cr_assert_eq(qcalib_result_write_model(r, 0, spelled, &error), QCALIB_OK, "%s", error.message);
        cr_expect_eq(qcalib_result_write_model(r, 0, "/dev/null/a.onnx", &error), QCALIB_MACHINE);
        cr_expect_eq(qcalib_result_write_model(r, 1, in_folder("b.onnx"), &error), QCALIB_USAGE);
    }
    for (int i = 0; i < 9; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d.onnx", i);
        cr_assert_eq(qcalib_result_write_model(r, 0, in_folder(name), &error), QCALIB_OK, "%s", error.message);
    }
    cr_assert_eq(qcalib_result_write_report(r, in_folder("report"), &error), QCALIB_OK, "%s", error.message);
    QC_FREED char *json = text_of(in_folder("report/report.json"));
    cr_expect_eq(count_in(json, "/a.onnx\""), 1, "%s", json);
    cr_expect_eq(count_in(json, folder), 10, "each file once");
    cr_expect_eq(count_in(json, "nowhere"), 0);
}

/* ---- Structs by their size ---- */

/* Returns the first bytes of a struct on the heap, where the sanitizer sees a read or write behind them. */
static void *shortened(const void *whole, size_t size)
{
    char *s = malloc(size);
    memcpy(s, whole, size);
    memcpy(s, &size, sizeof size);
    return s;
}

static int take_outputs(void *user, uint64_t sample, const struct qcalib_output *outputs, size_t count)
{
    (void)sample, (void)outputs, (void)count;
    ++*(int *)user;
    return 0;
}

/* Runs every job with this struct. Returns how many failed. */
static int run_every_job(const qcalib_model *m, const struct qcalib_job *job, int expected)
{
    OWN(qcalib_result) *r = NULL;
    OWN(qcalib_statistics) *s = NULL;
    OWN(qcalib_comparison) *c = NULL;
    struct qcalib_metric metric = {.size = sizeof metric};
    int units = 0;
    const int codes[] = {qcalib_quantize(&r, m, job, &error), qcalib_collect(&s, m, job, &error),
                         qcalib_run(m, job, take_outputs, &units, &error), qcalib_evaluate(&metric, m, job, &error),
                         qcalib_compare(&c, m, m, job, &error)};
    int wrong = 0;
    for (int i = 0; i < 5; i++) wrong += codes[i] != expected;
    return wrong;
}

static qcalib_data *labelled(void)
{
    static const uint8_t labels[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    static const int64_t eight[1] = {8};
    qcalib_data *d = digits_data(8);
    const struct qcalib_array a = {
        .size = sizeof a, .name = "labels", .type = QCALIB_UINT8, .rank = 1, .shape = eight, .values = labels};
    cr_assert_eq(qcalib_data_add(d, &a, &error), QCALIB_OK, "%s", error.message);
    return d;
}

Test(public_promises, jobs_of_an_older_header)
{
    static const size_t sizes[] = {offsetof(struct qcalib_job, eval),     offsetof(struct qcalib_job, statistics),
                                   offsetof(struct qcalib_job, progress), offsetof(struct qcalib_job, message),
                                   offsetof(struct qcalib_job, user),     offsetof(struct qcalib_job, outputs)};
    OWN(qcalib_model) *m = digits_model();
    OWN(qcalib_data) *d = labelled();
    OWN(qcalib_options) *o = digits_options(WORDS("threads", "1"));
    const struct qcalib_job whole = {.size = sizeof whole, .data = d, .options = o};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        QC_FREED struct qcalib_job *job = shortened(&whole, sizes[i]);
        cr_expect_eq(run_every_job(m, job, QCALIB_OK), 0, "%zu bytes: %s", sizes[i], error.message);
    }
    struct qcalib_job *job = shortened(&whole, offsetof(struct qcalib_job, data)); /* no samples in it */
    cr_expect_eq(run_every_job(m, job, QCALIB_USAGE), 0, "%s", error.message);
    free(job);
    job = shortened(&whole, sizeof job->size);
    cr_expect_eq(run_every_job(m, job, QCALIB_USAGE), 0, "%s", error.message);
    job->size = sizeof job->size - 1;
    cr_expect_eq(run_every_job(m, job, QCALIB_USAGE), 0, "%s", error.message);
    free(job);
    cr_expect_eq(run_every_job(m, NULL, QCALIB_USAGE), 0);
}

Test(public_promises, jobs_of_a_later_header)
{
    struct {
        struct qcalib_job job;
        void *later;
    } longer = {.job = {.size = sizeof longer}};
    OWN(qcalib_model) *m = digits_model();
    OWN(qcalib_data) *d = labelled();
    longer.job.data = d;
    cr_expect_eq(run_every_job(m, &longer.job, QCALIB_OK), 0, "%s", error.message);
    longer.later = d;
    cr_expect_eq(run_every_job(m, &longer.job, QCALIB_USAGE), 0);
    cr_expect(strstr(error.message, "struct qcalib_job has members that qcalib"), "%s", error.message);
}

enum { OUT_STRUCTS = 7 };

/* Fills one of the structs that begin with their size. */
static int fill(int which, void *out, const qcalib_model *m, const qcalib_result *r, const qcalib_comparison *c,
                const struct qcalib_job *job)
{
    switch (which) {
    case 0: return qcalib_model_input(out, m, 0, &error);
    case 1: return qcalib_model_output(out, m, 0, &error);
    case 2: return qcalib_result_layer(out, r, 0, &error);
    case 3: return qcalib_comparison_output(out, c, 0, &error);
    case 4: return qcalib_comparison_layer(out, c, 0, &error);
    case 5: return qcalib_option_at(out, 0, &error);
    default: return qcalib_evaluate(out, m, job, &error);
    }
}

Test(public_promises, results_for_an_older_or_later_header)
{
    static const size_t sizes[OUT_STRUCTS] = {sizeof(struct qcalib_tensor),     sizeof(struct qcalib_tensor),
                                              sizeof(struct qcalib_layer),      sizeof(struct qcalib_difference),
                                              sizeof(struct qcalib_difference), sizeof(struct qcalib_option),
                                              sizeof(struct qcalib_metric)};
    OWN(qcalib_model) *m = digits_model();
    OWN(qcalib_result) *r = quick_result(m, WORDS(QUICK));
    OWN(qcalib_comparison) *c = NULL;
    OWN(qcalib_data) *d = labelled();
    const struct qcalib_job job = {.size = sizeof job, .data = d};
    cr_assert_eq(qcalib_compare(&c, m, m, &job, &error), QCALIB_OK, "%s", error.message);
    for (int i = 0; i < OUT_STRUCTS; i++) {
        char whole[256] = {0};
        memcpy(whole, &sizes[i], sizeof sizes[i]);
        cr_assert_eq(fill(i, whole, m, r, c, &job), QCALIB_OK, "%s", error.message);
        for (size_t size = sizeof size; size <= sizes[i] + 16; size += 8) {
            QC_FREED unsigned char *out = malloc(size);
            memset(out, 0xa5, size);
            memcpy(out, &size, sizeof size);
            cr_expect_eq(fill(i, out, m, r, c, &job), QCALIB_OK, "%s", error.message);
            const size_t shared = size < sizes[i] ? size : sizes[i];
            if (i < OUT_STRUCTS - 1) /* the metric has times */
                cr_expect_arr_eq(out + sizeof size, whole + sizeof size, shared - sizeof size, "%d, %zu", i, size);
            for (size_t k = sizes[i]; k < size; k++) cr_expect_eq(out[k], 0, "unknown members are 0");
        }
        size_t none = 0;
        cr_expect_eq(fill(i, &none, m, r, c, &job), QCALIB_USAGE);
        cr_expect_eq(fill(i, NULL, m, r, c, &job), QCALIB_USAGE);
    }
}

/* ---- Failed calls ---- */

static int stop_at_once(void *user, uint64_t sample, const struct qcalib_output *outputs, size_t count)
{
    (void)user, (void)sample, (void)outputs, (void)count;
    return 1;
}

static int give_up(void *user, void *const *rows)
{
    struct draw *d = user;
    memcpy(rows[0], digits_pixels[0], sizeof digits_pixels[0]);
    return d->left-- > 4 ? 1 : -1;
}

/* An output that failed calls leave alone. */
#define UNTOUCHED ((void *)folder)

Test(public_promises, failed_calls_leave_outputs_alone_and_objects_usable)
{
    OWN(qcalib_model) *m = UNTOUCHED;
    OWN(qcalib_statistics) *s = UNTOUCHED;
    OWN(qcalib_result) *r = UNTOUCHED;
    qcalib_comparison *c = UNTOUCHED;
    char *json = UNTOUCHED;
    size_t size = 77;
    int units = 0;
    cr_expect_eq(qcalib_model_open(&m, "/nowhere.onnx", &error), QCALIB_BAD_INPUT);
    cr_expect_eq(qcalib_model_open(&m, DIGITS_CALIB, NULL), QCALIB_BAD_INPUT);
    cr_expect_eq(qcalib_model_from_memory(&m, "x", 1, NULL, &error), QCALIB_BAD_INPUT);
    cr_expect_eq(qcalib_statistics_load(&s, DIGITS_MODEL, &error), QCALIB_BAD_INPUT);
    cr_expect_eq(qcalib_inspect_file(&json, &size, "/nowhere.onnx", &error), QCALIB_BAD_INPUT);
    cr_expect(m == UNTOUCHED && s == UNTOUCHED && json == UNTOUCHED && size == 77);
    m = digits_model();
    OWN(qcalib_data) *d = digits_data(8), *missing = NULL;
    OWN(qcalib_options) *o = digits_options(WORDS(QUICK));
    cr_assert_eq(qcalib_data_open(&missing, "/nowhere.h5", &error), QCALIB_OK);
    cr_expect_eq(qcalib_options_set(o, "weight-rounding", "none of them", &error), QCALIB_USAGE);
    cr_expect_eq(qcalib_options_set(o, "samples", "0", &error), QCALIB_USAGE);
    cr_expect_eq(qcalib_options_set_json(o, "{\"method\": \"kl\", \"samples\": true}", 33, &error), QCALIB_USAGE);
    struct qcalib_job job = {.size = sizeof job, .options = o, .data = missing};
    cr_expect_eq(qcalib_quantize(&r, m, &job, &error), QCALIB_BAD_INPUT);
    cr_expect_eq(qcalib_collect(&s, m, &job, &error), QCALIB_BAD_INPUT);
    cr_expect_eq(qcalib_compare(&c, m, m, &job, &error), QCALIB_BAD_INPUT);
    cr_expect_eq(qcalib_run(m, &job, take_outputs, &units, &error), QCALIB_BAD_INPUT);
    job.data = d;
    cr_expect_eq(qcalib_run(m, &job, stop_at_once, NULL, &error), QCALIB_INTERRUPTED);
    cr_expect(r == UNTOUCHED && s == UNTOUCHED && c == UNTOUCHED && units == 0);
    cr_expect_eq(qcalib_run(m, &job, take_outputs, &units, &error), QCALIB_OK, "%s", error.message);
    cr_expect_eq(units, 8);
    cr_expect_eq(qcalib_quantize(&r, m, &job, &error), QCALIB_OK, "%s", error.message);
    cr_expect(strstr(qcalib_result_report(r), "\"method\": \"minmax\""));
    cr_expect_eq(qcalib_result_write_report(r, "/dev/null/report", &error), QCALIB_MACHINE);
    cr_expect_eq(qcalib_result_write_report(r, in_folder("report"), &error), QCALIB_OK, "%s", error.message);
    cr_expect_eq(qcalib_collect(&s, m, &job, &error), QCALIB_OK, "%s", error.message);
    cr_expect_eq(qcalib_statistics_save(s, "/dev/null/s.h5", &error), QCALIB_MACHINE);
    cr_expect_eq(qcalib_statistics_save(s, in_folder("s.h5"), NULL), QCALIB_OK);
    OWN(qcalib_statistics) *again = NULL;
    cr_expect_eq(qcalib_statistics_load(&again, in_folder("s.h5"), &error), QCALIB_OK);
    cr_expect_eq(qcalib_statistics_merge(again, s, &error), QCALIB_BAD_INPUT, "samples are in both");
}

Test(public_promises, no_job_takes_data_that_are_not_drawn)
{
    static const int64_t shape[4] = {8, 1, 8, 8};
    OWN(qcalib_model) *m = digits_model();
    OWN(qcalib_data) *d = NULL;
    struct draw draw = {.left = 8};
    const struct qcalib_array a = {
        .size = sizeof a, .name = "input", .type = QCALIB_FLOAT32, .rank = 4, .shape = shape};
    int units = 0;
    cr_assert_eq(qcalib_data_new(&d, NULL, &error), QCALIB_OK);
    const struct qcalib_job job = {.size = sizeof job, .data = d};
    cr_expect_eq(qcalib_run(m, &job, take_outputs, &units, &error), QCALIB_BAD_INPUT, "there are no arrays");
    cr_assert_eq(qcalib_data_add(d, &a, &error), QCALIB_OK);
    cr_expect_eq(qcalib_run(m, &job, take_outputs, &units, &error), QCALIB_USAGE, "nothing is drawn yet");
    cr_expect_eq(qcalib_data_draw(d, give_up, &draw, 0, &error), QCALIB_BAD_INPUT);
    cr_expect_eq(qcalib_data_draw(d, next_row, &draw, 0, &error), QCALIB_USAGE, "no array waits");
    cr_expect_eq(qcalib_run(m, &job, take_outputs, &units, &error), QCALIB_BAD_INPUT, "the draw has failed");
    cr_expect_eq(units, 0);
}

/* ---- Side effects ---- */

static size_t count_descriptors(void)
{
    size_t n = 0;
    DIR *d = opendir("/proc/self/fd");
    cr_assert(d);
    while (readdir(d)) n++;
    closedir(d);
    return n;
}

struct heard {
    pthread_t caller;
    locale_t locale; /* of the caller */
    int inside, calls, texts;
};

static int hear_progress(void *user, const char *phase, size_t done, size_t total)
{
    struct heard *h = user;
    (void)phase, (void)done, (void)total;
    cr_expect_eq(h->inside++, 0, "one call at a time");
    h->calls++;
    h->inside--;
    return 0;
}

static void hear_message(void *user, const char *text)
{
    struct heard *h = user;
    cr_expect(*text);
    cr_expect(pthread_equal(pthread_self(), h->caller), "messages come in the caller's thread");
    cr_expect_neq(uselocale((locale_t)0), h->locale, "in the C locale");
    h->texts++;
}

Test(public_promises, calls_leave_nothing_behind)
{
    enum { SIGNALS = 32 };
    struct sigaction before[SIGNALS], after;
    qcalib_model *m = digits_model();
    qcalib_data *d = NULL;
    qcalib_result *r = NULL;
    qcalib_options *o = digits_options(WORDS(QUICK, "threads", "2", "samples", "1"));
    const locale_t own = newlocale(LC_ALL_MASK, "C.UTF-8", (locale_t)0);
    struct heard h = {.caller = pthread_self(), .locale = own ? own : LC_GLOBAL_LOCALE};
    uselocale(h.locale);
    cr_assert_eq(qcalib_data_open(&d, DIGITS_CALIB, &error), QCALIB_OK);
    const struct qcalib_job job = {
        .size = sizeof job, .options = o, .data = d, .progress = hear_progress, .message = hear_message, .user = &h};
    for (int s = 1; s < SIGNALS; s++) sigaction(s, NULL, &before[s]);
    const size_t descriptors = count_descriptors();
    cr_assert_eq(qcalib_quantize(&r, m, &job, &error), QCALIB_OK, "%s", error.message);
    cr_expect_gt(h.calls, 0);
    cr_expect_gt(h.texts, 0, "one sample is too few");
    cr_expect_eq((size_t)h.texts, qcalib_result_warning_count(r));
    for (size_t i = 0; i < qcalib_result_warning_count(r); i++)
        for (size_t k = 0; k < i; k++) cr_expect_str_neq(qcalib_result_warning(r, i), qcalib_result_warning(r, k));
    cr_assert_eq(qcalib_result_write_report(r, in_folder("report"), &error), QCALIB_OK, "%s", error.message);
    qcalib_result_free(r);
    qcalib_data_free(d);
    qcalib_options_free(o);
    qcalib_model_free(m);
    cr_expect_eq(count_descriptors(), descriptors);
    cr_expect(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD, "no process is left");
    for (int s = 1; s < SIGNALS; s++)
        cr_expect(sigaction(s, NULL, &after) != 0 || after.sa_handler == before[s].sa_handler, "signal %d", s);
    cr_expect_eq(uselocale((locale_t)0), h.locale);
    uselocale(LC_GLOBAL_LOCALE);
    if (own) freelocale(own);
}
