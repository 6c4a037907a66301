// SPDX-License-Identifier: Apache-2.0
/* Files of a caller: no call overwrites what its objects were made from, under whatever name; and a program without
   standard descriptors reads its data. */
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

#include "digits.h"

static struct qcalib_error error;
static char folder[32], was[PATH_MAX];

static void copy(const char *to, const char *from)
{
    char buffer[1 << 16];
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    cr_assert(in && out, "%s", from);
    for (size_t n; (n = fread(buffer, 1, sizeof buffer, in)) > 0;) cr_assert_eq(fwrite(buffer, 1, n, out), n);
    fclose(in);
    cr_assert_eq(fclose(out), 0);
}

/* The inputs of a job in a folder of their own, which becomes the current one. */
static void set_up(void)
{
    strcpy(folder, "/tmp/qcalib-test-XXXXXX"); /* anew for each case: they may share a process */
    cr_assert(getcwd(was, sizeof was) && mkdtemp(folder) && chdir(folder) == 0);
    copy("m.onnx", DIGITS_MODEL);
    copy("c.h5", DIGITS_CALIB);
    copy("e.h5", DIGITS_TEST);
    FILE *f = fopen("own.rules", "w");
    cr_assert(f);
    fputs("", f);
    cr_assert_eq(fclose(f), 0);
    cr_assert(mkdir("out", 0700) == 0 && symlink("../m.onnx", "out/link.onnx") == 0 &&
              link("c.h5", "out/hard.h5") == 0);
}

static void tear_down(void)
{
    static const char *const names[] = {"m.onnx",        "c.h5",        "e.h5",     "own.rules",   "s.h5",
                                        "out/link.onnx", "out/hard.h5", "new.onnx", "out/new.onnx"};
    cr_assert_eq(chdir(folder), 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) unlink(names[i]);
    rmdir("out");
    cr_assert_eq(chdir(was), 0);
    rmdir(folder);
}

TestSuite(public_files, .init = set_up, .fini = tear_down);

/* Other names of the inputs. */
static const char *const taken[] = {"m.onnx", "./out/../m.onnx", "out/link.onnx", "c.h5", "out/hard.h5",
                                    "e.h5",   "own.rules"};
enum { TAKEN = sizeof taken / sizeof *taken };

struct inputs {
    qcalib_model *model;
    qcalib_data *data, *eval;
    qcalib_options *options;
    struct qcalib_job job;
};

static struct inputs open_all(void)
{
    struct inputs in = {.options = digits_options((const char *const[]){"samples", "8", "method", "minmax", "advice",
                                                                        "off", "rules", "own.rules", NULL})};
    cr_assert_eq(qcalib_model_open(&in.model, "m.onnx", &error), QCALIB_OK, "%s", error.message);
    cr_assert_eq(qcalib_data_open(&in.data, "c.h5:input", &error), QCALIB_OK);
    cr_assert_eq(qcalib_data_open(&in.eval, "e.h5", &error), QCALIB_OK);
    in.job = (struct qcalib_job){.size = sizeof in.job, .options = in.options, .data = in.data, .eval = in.eval};
    return in;
}

static void close_all(struct inputs *in)
{
    qcalib_model_free(in->model);
    qcalib_data_free(in->data);
    qcalib_data_free(in->eval);
    qcalib_options_free(in->options);
}

static void expect_unchanged(void)
{
    static const char *const pairs[][2] = {{"m.onnx", DIGITS_MODEL}, {"c.h5", DIGITS_CALIB}, {"e.h5", DIGITS_TEST}};
    for (size_t i = 0; i < 3; i++) {
        struct stat own, original;
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s/%s", folder, pairs[i][0]);
        cr_assert(stat(path, &own) == 0 && stat(pairs[i][1], &original) == 0);
        cr_expect_eq(own.st_size, original.st_size, "%s", path);
    }
}

static void expect_refused(int code, const char *what)
{
    cr_expect(code == QCALIB_USAGE && strstr(error.message, "would overwrite"), "%s: %d %s", what, code, error.message);
}

Test(public_files, a_result_overwrites_no_input)
{
    struct inputs in = open_all();
    OWN(qcalib_result) *r = NULL;
    cr_assert_eq(qcalib_quantize(&r, in.model, &in.job, &error), QCALIB_OK, "%s", error.message);
    close_all(&in); /* names and files are remembered */
    for (size_t i = 0; i < TAKEN; i++) expect_refused(qcalib_result_write_model(r, 0, taken[i], &error), taken[i]);
    cr_assert(mkdir("out/e.report", 0700) == 0 && rename("e.h5", "out/e.report/report.json") == 0 &&
              symlink("out/e.report/report.json", "e.h5") == 0);
    expect_refused(qcalib_result_write_report(r, "out/e.report", &error), "the report");
    cr_assert(unlink("e.h5") == 0 && rename("out/e.report/report.json", "e.h5") == 0 && rmdir("out/e.report") == 0);
    cr_assert_eq(chdir("out"), 0); /* relative names are those of the job */
    expect_refused(qcalib_result_write_model(r, 0, "../m.onnx", &error), "../m.onnx");
    cr_expect_eq(qcalib_result_write_model(r, 0, "new.onnx", &error), QCALIB_OK, "%s", error.message);
    cr_expect_eq(chdir(".."), 0);
    cr_expect_eq(qcalib_result_write_model(r, 0, "new.onnx", &error), QCALIB_OK, "%s", error.message);
    expect_unchanged();
}

Test(public_files, a_job_refuses_at_once_to_overwrite_an_input)
{
    struct inputs in = open_all();
    struct qcalib_metric metric = {.size = sizeof metric};
    qcalib_result *r = NULL;
    qcalib_statistics *s = NULL;
    in.job.output_count = 1;
    for (size_t i = 0; i < TAKEN; i++) {
        in.job.outputs = &taken[i];
        expect_refused(qcalib_quantize(&r, in.model, &in.job, &error), taken[i]);
        if (strcmp(taken[i], "e.h5") == 0 || strcmp(taken[i], "own.rules") == 0) continue;
        in.job.eval = NULL;
        expect_refused(qcalib_collect(&s, in.model, &in.job, &error), taken[i]);
        expect_refused(qcalib_evaluate(&metric, in.model, &in.job, &error), taken[i]);
        in.job.eval = in.eval;
    }
    in.job.outputs = (const char *const[]){"/dev/null/m.onnx"};
    cr_expect_eq(qcalib_quantize(&r, in.model, &in.job, &error), QCALIB_MACHINE, "%s", error.message);
    in.job.outputs = NULL;
    cr_expect_eq(qcalib_quantize(&r, in.model, &in.job, &error), QCALIB_USAGE);
    cr_expect(!r && !s);
    expect_unchanged();
    close_all(&in);
}

Test(public_files, statistics_overwrite_nothing_that_they_come_from)
{
    struct inputs in = open_all();
    qcalib_statistics *even = NULL, *odd = NULL, *loaded = NULL;
    qcalib_result *r = NULL;
    in.job.eval = NULL;
    in.job.options = NULL;
    qcalib_options *first = digits_options((const char *const[]){"shard", "0/2", NULL}),
                   *second = digits_options((const char *const[]){"shard", "1/2", NULL});
    in.job.options = first;
    cr_assert_eq(qcalib_collect(&even, in.model, &in.job, &error), QCALIB_OK, "%s", error.message);
    in.job.options = second;
    cr_assert_eq(qcalib_collect(&odd, in.model, &in.job, &error), QCALIB_OK, "%s", error.message);
    for (size_t i = 0; i < 5; i++) expect_refused(qcalib_statistics_save(even, taken[i], &error), taken[i]);
    cr_assert_eq(qcalib_statistics_save(odd, "s.h5", &error), QCALIB_OK, "%s", error.message);
    cr_assert_eq(qcalib_statistics_save(odd, "s.h5", &error), QCALIB_OK, "its own file, again: %s", error.message);
    cr_assert_eq(qcalib_statistics_load(&loaded, "s.h5", &error), QCALIB_OK, "%s", error.message);
    cr_assert_eq(qcalib_statistics_merge(even, loaded, &error), QCALIB_OK, "%s", error.message);
    expect_refused(qcalib_statistics_save(even, "s.h5", &error), "a part");
    qcalib_statistics_free(loaded);
    loaded = NULL;
    cr_assert_eq(qcalib_statistics_load(&loaded, "s.h5", &error), QCALIB_OK, "%s", error.message);
    in.job = (struct qcalib_job){.size = sizeof in.job, .statistics = even, .options = in.options};
    cr_assert_eq(qcalib_quantize(&r, in.model, &in.job, &error), QCALIB_OK, "%s", error.message);
    expect_refused(qcalib_result_write_model(r, 0, "s.h5", &error), "the statistics");
    expect_refused(qcalib_result_write_model(r, 0, "c.h5", &error), "data of the statistics");
    expect_unchanged();
    qcalib_result_free(r);
    qcalib_statistics_free(even);
    qcalib_statistics_free(odd);
    qcalib_statistics_free(loaded);
    qcalib_options_free(first);
    qcalib_options_free(second);
    close_all(&in);
}

Test(public_files, a_checkpoint_is_no_input)
{
    struct inputs in = open_all();
    qcalib_result *r = NULL;
    for (size_t i = 0; i < TAKEN; i++) {
        OWN(qcalib_options) *o =
            digits_options((const char *const[]){"checkpoint", taken[i], "rules", "own.rules", "samples", "8", NULL});
        in.job.options = o;
        expect_refused(qcalib_quantize(&r, in.model, &in.job, &error), taken[i]);
    }
    expect_unchanged();
    close_all(&in);
}

/* As in a daemon. */
Test(public_files, data_are_read_without_standard_descriptors)
{
    int kept[3], failed = 0;
    struct inputs in = open_all();
    in.job.eval = NULL;
    for (int i = 0; i < 3; i++) cr_assert_geq(kept[i] = fcntl(i, F_DUPFD_CLOEXEC, 100), 100);
    for (int bits = 0; bits < 8; bits++) {
        OWN(qcalib_statistics) *s = NULL;
        for (int i = 0; i < 3; i++)
            if (bits >> i & 1) close(i);
        failed += qcalib_collect(&s, in.model, &in.job, &error) != QCALIB_OK;
        for (int i = 0; i < 3; i++)
            if (dup2(kept[i], i) < 0) failed++;
    }
    cr_expect_eq(failed, 0, "%d: %s", failed, error.message);
    for (int i = 0; i < 3; i++) close(kept[i]);
    close_all(&in);
}
