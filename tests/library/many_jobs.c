// SPDX-License-Identifier: Apache-2.0
/* Many jobs in one process: memory, descriptors and processes must not grow.
     many_jobs JOBS THREADS     prints what is held after a tenth and after nine tenths of the jobs
   Jobs take turns: samples in memory, in an HDF5 file, in an image, a refused option, and statistics. */
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "include/qcalib/qcalib.h"

enum { SAMPLES = 16, PIXELS = 64, GROWTH_KIB = 16 << 10 };
enum { IN_MEMORY, IN_FILE, IMAGE, REFUSED, STATISTICS, KINDS };

struct held {
    long kib;
    int descriptors;
};

static struct held held(void)
{
    struct held h = {0, 0};
    char line[200];
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, "VmRSS:", 6) == 0) h.kib = strtol(line + 6, NULL, 10);
    if (f) fclose(f);
    DIR *d = opendir("/proc/self/fd");
    while (d && readdir(d)) h.descriptors++;
    if (d) closedir(d);
    return h;
}

static atomic_long next, finished, failed;
static long count;
static struct held early, late; /* while all threads work */
static const float pixels[SAMPLES][PIXELS];

static int run_job(long kind, struct qcalib_error *error)
{
    static const char *const data_files[KINDS] = {[IN_FILE] = "/datasets/digits_calib.h5",
                                                  [STATISTICS] = "/datasets/digits_calib.h5",
                                                  [IMAGE] = "/tests/datasets/corpus_images/rgb.png"};
    const int64_t shape[] = {SAMPLES, 1, 8, 8};
    const struct qcalib_array input = {
        .size = sizeof input, .name = "input", .type = QCALIB_FLOAT32, .rank = 4, .shape = shape, .values = pixels};
    char file[1000] = "";
    qcalib_model *model = NULL;
    qcalib_data *data = NULL;
    qcalib_options *options = NULL;
    qcalib_result *result = NULL;
    qcalib_statistics *statistics = NULL;
    if (data_files[kind]) snprintf(file, sizeof file, "%s%s", QC_TEST_SOURCE, data_files[kind]);
    int code = qcalib_model_open(&model, QC_TEST_SOURCE "/datasets/digits_cnn.onnx", error);
    if (!code) code = *file ? qcalib_data_open(&data, file, error) : qcalib_data_new(&data, "pixels", error);
    if (!code && !*file) code = qcalib_data_add(data, &input, error);
    if (!code) code = qcalib_options_new(&options, error);
    if (!code) code = qcalib_options_set(options, "threads", "1", error);
    if (!code) code = qcalib_options_set(options, "samples", kind == IMAGE ? "1" : "16", error);
    if (!code && kind != STATISTICS)
        code = qcalib_options_set(options, "method", kind == REFUSED ? "no such method" : "mse", error);
    if (!code && kind != STATISTICS) code = qcalib_options_set(options, "advice", "off", error);
    const struct qcalib_job job = {.size = sizeof job, .options = options, .data = data};
    if (!code)
        code = kind == STATISTICS ? qcalib_collect(&statistics, model, &job, error)
                                  : qcalib_quantize(&result, model, &job, error);
    qcalib_statistics_free(statistics);
    qcalib_result_free(result);
    qcalib_options_free(options);
    qcalib_data_free(data);
    qcalib_model_free(model);
    return code;
}

static void *work(void *user)
{
    for (long k; (k = next++) < count;) {
        struct qcalib_error error = {0};
        const int code = run_job(k % KINDS, &error);
        const bool refused = k % KINDS == REFUSED;
        if (refused != (code != 0)) {
            fprintf(stderr, "job of kind %ld: code %d %s\n", k % KINDS, code, error.message);
            failed++;
        }
        const long done = ++finished;
        if (done == count / 10 || done == count * 9 / 10) *(done == count / 10 ? &early : &late) = held();
    }
    return NULL;
}

int main(int argc, char **argv)
{
    count = argc > 1 ? atol(argv[1]) : 100;
    const int threads = argc > 2 ? atoi(argv[2]) : 8;
    if (count < 10 || threads < 1 || threads > 64) return 2;
    pthread_t team[64];
    const int descriptors = held().descriptors;
    for (int i = 0; i < threads; i++)
        if (pthread_create(&team[i], NULL, work, NULL)) return 2;
    for (int i = 0; i < threads; i++) pthread_join(team[i], NULL);
    const int after = held().descriptors;
    printf("%d threads: %.1f MiB after %ld jobs, %.1f MiB after %ld; %d descriptors before, %d after\n", threads,
           (double)early.kib / 1024, count / 10, (double)late.kib / 1024, count * 9 / 10, descriptors, after);
    const bool process_left = waitpid(-1, NULL, WNOHANG) >= 0 || errno != ECHILD;
    if (process_left) fputs("a process is left\n", stderr);
    return failed || process_left || late.kib > early.kib + GROWTH_KIB || after > descriptors;
}
