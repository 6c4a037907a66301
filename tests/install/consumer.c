// SPDX-License-Identifier: Apache-2.0
/* A program outside the project. `consumer MODEL LOCALE` quantizes twice, the second time in a locale whose numbers
   have a comma: a library cannot choose the locale of its program. */
#include <locale.h>
#include <qcalib/qcalib.h>
#include <stdio.h>
#include <string.h>

static float pixels[16][64];

static int quantize(void **bytes, size_t *size, const char *path, struct qcalib_error *error)
{
    const int64_t shape[] = {16, 1, 8, 8};
    const struct qcalib_array input = {.size = sizeof input,
                                       .name = "input",
                                       .type = QCALIB_FLOAT32,
                                       .rank = 4,
                                       .shape = shape,
                                       .values = pixels,
                                       .preprocess = "scale=0.125 mean=.5"};
    qcalib_model *model = NULL;
    qcalib_data *data = NULL;
    qcalib_options *options = NULL;
    qcalib_result *result = NULL;
    struct qcalib_job job = {.size = sizeof job};
    int code = qcalib_model_open(&model, path, error);
    if (!code) code = qcalib_data_new(&data, "pixels", error);
    if (!code) code = qcalib_data_add(data, &input, error);
    if (!code) code = qcalib_options_new(&options, error);
    if (!code) code = qcalib_options_set(options, "method", "percentile:p=99.5", error);
    job.data = data;
    job.options = options;
    if (!code) code = qcalib_quantize(&result, model, &job, error);
    if (!code) code = qcalib_result_model(bytes, size, result, 0, error);
    if (!code && !strstr(qcalib_result_report(result), "\"method\": \"percentile:p=99.5\"")) code = -1;
    qcalib_result_free(result);
    qcalib_options_free(options);
    qcalib_data_free(data);
    qcalib_model_free(model);
    return code;
}

static int in_both_locales(const char *path, const char *name)
{
    struct qcalib_error error = {0};
    void *bytes[2] = {NULL, NULL};
    size_t size[2] = {0, 0};
    for (int i = 0; i < 16 * 64; i++) pixels[i / 64][i % 64] = (float)(i * 37 % 101);
    int code = quantize(&bytes[0], &size[0], path, &error);
    if (!setlocale(LC_ALL, name) || localeconv()->decimal_point[0] != ',') {
        fprintf(stderr, "no locale '%s' with a comma\n", name);
        return 1;
    }
    if (!code) code = quantize(&bytes[1], &size[1], path, &error);
    if (!code && (size[0] != size[1] || memcmp(bytes[0], bytes[1], size[0]) != 0)) code = -2;
    if (code) fprintf(stderr, "%d %s\n", code, error.message);
    if (localeconv()->decimal_point[0] != ',') code = -3; /* the program's own stays */
    qcalib_bytes_free(bytes[0]);
    qcalib_bytes_free(bytes[1]);
    return code != 0;
}

int main(int argc, char **argv)
{
    struct qcalib_error error;
    qcalib_model *model = NULL;
    if (argc > 2) return in_both_locales(argv[1], argv[2]);
    const int code = qcalib_model_from_memory(&model, "nothing", 7, "nothing", &error);
    qcalib_model_free(model);
    return strcmp(qcalib_version(), "0.1.0") == 0 && code == QCALIB_BAD_INPUT && error.message[0] ? 0 : 1;
}
