// SPDX-License-Identifier: Apache-2.0
/* report.json and layers.csv as users' scripts read them. For report.html see test_page.c. */
#include <criterion/criterion.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "export/formats/exporter.h"
#include "export/report/report.h"

static const float one_scale[1] = {0.1f}, scales[3] = {0.1f, 0.2f, 1e-30f};
static const int32_t one_zero[1] = {128}, zeros[3] = {0, 0, 0};

/* A report with everything in it, and with every number that is none. */
static struct qc_report example(void)
{
    static const struct qc_float_op ops[2] = {{.name = "soft,max", .op = "Softmax", .reason = "has no integer form"},
                                              {.name = "b", .op = "Add", .reason = "left in float by --skip"}};
    static const char *const warnings[1] = {"first \"warning\"\n"};
    static const struct qc_report_output outputs[1] = {
        {.name = "y", .sqnr_db = (double)INFINITY, .cosine = 1, .max_abs = 0}};
    static const char *const files[1] = {"out.onnx"};
    static const size_t bytes[1] = {1234};
    static const struct qc_layer_tried tried[3] = {{.min = -1.5, .max = 2.5, .objective = 0.002},
                                                   {.min = -1.25, .max = 2.25, .objective = (double)INFINITY},
                                                   {.min = -1, .max = 2, .objective = 1e-90}};
    static const struct qc_layer layers[3] = {
        {.name = "conv1, \"the first\"",
         .op = "Conv",
         .node = "conv1",
         .type = "u8",
         .kind = "activation",
         .axis = -1,
         .count = 1,
         .scale = one_scale,
         .zero_point = one_zero,
         .method = "mse",
         .observed_min = -1.5,
         .observed_max = 2.5,
         .observed_count = 1000,
         .observed_nan = 1,
         .observed_inf = 2,
         .chosen_min = -1.25,
         .chosen_max = 2.25,
         .clipped_fraction = 0.001,
         .solver = {.objective = 0.001,
                    .objective_minmax = (double)NAN,
                    .candidates = 77,
                    .known_min = -(double)INFINITY,
                    .known_max = 6,
                    .curve_count = 2,
                    .curve = tried,
                    .runner_up = &tried[2]},
         .sqnr_db = 31.5,
         .alone_db = 33.25,
         .cosine = 0.9996,
         .max_abs = 0.41,
         .saturated_fraction = 0.002,
         .accumulator_bits = 18,
         .accumulator_bits_seen = 15,
         .accumulator_of = "conv1"},
        {.name = "w\r\nline",
         .op = "Conv",
         .type = "i8",
         .kind = "weight",
         .axis = 0,
         .count = 3,
         .scale = scales,
         .zero_point = zeros,
         .method = "minmax",
         .observed_min = -(double)INFINITY,
         .sqnr_db = (double)NAN,
         .cosine = (double)NAN,
         .max_abs = (double)INFINITY,
         .saturated_fraction = (double)NAN},
        {.name = "",
         .op = "Input",
         .type = "u8",
         .kind = "activation",
         .axis = -1,
         .count = 1,
         .scale = one_scale,
         .zero_point = one_zero,
         .method = NULL,
         .sqnr_db = -(double)INFINITY},
    };
    static const struct qc_report_effect effects[2] = {{.node = "other", .op = "Conv", .sqnr_db = 1},
                                                       {.node = "conv1",
                                                        .op = "Conv",
                                                        .sqnr_db = 40.5,
                                                        .weights_sqnr_db = (double)NAN,
                                                        .metric = 0.75,
                                                        .lost = -0.25}};
    static const struct qc_report_overflow overflow = {.name = "conv1", .bits = 20, .overflows = 7, .results = 100};
    static const struct qc_report_accumulator accumulator = {
        .bits = 16, .overflow = "wrap", .bound = "auto", .samples = 4, .layer_count = 1, .layers = &overflow};
    return (struct qc_report){.version = "1.2.3",
                              .effect_count = 2,
                              .effects = effects,
                              .accumulator = &accumulator,
                              .command = "qcalib quantize model.onnx",
                              .model_file = "model.onnx",
                              .model_sha256 = "00ff",
                              .model_bytes = 99,
                              .data_file = "calib.h5",
                              .data_sha256 = "ee",
                              .data_samples = 10,
                              .data_total = 11,
                              .data_dropped = 1,
                              .metric = "top1",
                              .eval_file = "test.h5",
                              .fp32 = 0.9173,
                              .int8 = 0.91,
                              .fp32_low = 0.9,
                              .fp32_high = 0.95,
                              .int8_low = (double)NAN,
                              .int8_high = (double)NAN,
                              .fp32_top5 = (double)NAN,
                              .int8_top5 = 0.99,
                              .eval_samples = 100,
                              .quantized_ops = 7,
                              .float_op_count = 2,
                              .float_ops = ops,
                              .warning_count = 1,
                              .warnings = warnings,
                              .layer_count = 3,
                              .layers = layers,
                              .measured_samples = 4,
                              .output_count = 1,
                              .outputs = outputs,
                              .file_count = 1,
                              .files = files,
                              .file_bytes = bytes,
                              .total_seconds = 1.5,
                              .workers = 2};
}

/* What the text says, not what was built. */
static struct qc_json *printed(const struct qc_report *r)
{
    struct qc_status st = QC_STATUS_INIT;
    struct qc_json *built = qc_report_json(r), *read = NULL;
    char *text = qc_json_print(built, 1);
    cr_assert(text && qc_json_parse(&read, text, strlen(text), &st), "%s", st.message);
    free(text);
    qc_json_free(built);
    return read;
}

/* "a.b" */
static const struct qc_json *at(const struct qc_json *v, const char *path)
{
    char key[64];
    while (v && *path) {
        size_t n = strcspn(path, ".");
        v = qc_json_get(v, qc_text(key, sizeof key, "%.*s", (int)n, path));
        path += n + (path[n] == '.');
    }
    return v;
}

Test(report, has_every_key_that_scripts_rely_on)
{
    static const char *const keys[] = {"tool",      "version",      "command",     "model.file", "model.sha256",
                                       "data.file", "data.samples", "data.sha256", "options",    "accuracy",
                                       "float_ops", "groups",       "warnings",    "layers",     "timing"};
    static const char *const layer_keys[] = {"name",
                                             "op",
                                             "type",
                                             "scale",
                                             "zero_point",
                                             "axis",
                                             "method",
                                             "observed.min",
                                             "observed.max",
                                             "observed.count",
                                             "observed.nan",
                                             "observed.inf",
                                             "chosen.min",
                                             "chosen.max",
                                             "clipped_fraction",
                                             "solver.objective",
                                             "solver.objective_minmax",
                                             "solver.candidates",
                                             "solver.known.min",
                                             "solver.curve",
                                             "solver.runner_up",
                                             "sqnr_db",
                                             "cosine",
                                             "max_abs",
                                             "saturated_fraction",
                                             "accumulator_bits"};
    struct qc_report full = example(), bare = {.version = "1"};
    const struct qc_report *reports[] = {&full, &bare};
    for (int k = 0; k < 2; k++) {
        struct qc_json *j = printed(reports[k]);
        for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) cr_expect(at(j, keys[i]), "no key '%s'", keys[i]);
        for (size_t l = 0; l < reports[k]->layer_count; l++)
            for (size_t i = 0; i < sizeof layer_keys / sizeof *layer_keys; i++)
                cr_expect(at(qc_json_at(qc_json_get(j, "layers"), l), layer_keys[i]), "layer %zu: no key '%s'", l,
                          layer_keys[i]);
        cr_expect_str_eq(qc_json_text(at(j, "tool")), "qcalib");
        qc_json_free(j);
    }
}

Test(report, says_what_was_put_in)
{
    struct qc_report r = example();
    struct qc_json *j = printed(&r);
    const struct qc_json *layers = at(j, "layers"), *first = qc_json_at(layers, 0), *weight = qc_json_at(layers, 1),
                         *last = qc_json_at(layers, 2);
    cr_assert_eq(qc_json_size(layers), 3);
    cr_expect_str_eq(qc_json_text(at(first, "name")), "conv1, \"the first\"");
    cr_expect_eq((float)qc_json_value(at(first, "scale")), 0.1f);
    cr_expect_eq(qc_json_value(at(first, "zero_point")), 128);
    cr_expect_eq(qc_json_kind(at(first, "axis")), QC_JSON_NULL);
    cr_expect(qc_json_value(at(first, "observed.min")) == -1.5 && qc_json_value(at(first, "observed.max")) == 2.5 &&
              qc_json_value(at(first, "observed.count")) == 1000 && qc_json_value(at(first, "observed.nan")) == 1 &&
              qc_json_value(at(first, "observed.inf")) == 2);
    cr_expect(qc_json_value(at(first, "chosen.min")) == -1.25 && qc_json_value(at(first, "chosen.max")) == 2.25);
    const struct qc_json *curve = at(first, "solver.curve");
    cr_assert_eq(qc_json_size(curve), 2);
    cr_expect(qc_json_value(qc_json_at(qc_json_at(curve, 0), 0)) == 2.5 &&
              qc_json_kind(qc_json_at(qc_json_at(curve, 1), 1)) == QC_JSON_NULL);
    cr_expect((float)qc_json_value(qc_json_at(qc_json_at(curve, 0), 1)) == 0.002f &&
              qc_json_value(at(first, "solver.candidates")) == 77);
    cr_expect(qc_json_kind(at(first, "solver.objective_minmax")) == QC_JSON_NULL &&
              qc_json_kind(at(first, "solver.known.min")) == QC_JSON_NULL);
    cr_expect(qc_json_value(at(first, "solver.known.max")) == 6 &&
              qc_json_value(at(first, "solver.runner_up.objective")) == 1e-90);
    cr_expect(qc_json_kind(at(weight, "solver.curve")) == QC_JSON_NULL &&
              qc_json_kind(at(weight, "solver.runner_up")) == QC_JSON_NULL);
    cr_expect(qc_json_value(at(first, "sqnr_db")) == 31.5 && qc_json_value(at(first, "accumulator_bits")) == 18);
    cr_expect(qc_json_value(at(first, "sqnr_alone_db")) == 33.25 &&
              qc_json_value(at(first, "clipped_fraction")) == 0.001 &&
              qc_json_value(at(first, "saturated_fraction")) == 0.002);
    cr_expect_eq(qc_json_size(at(weight, "scale")), 3);
    cr_expect_eq((float)qc_json_value(qc_json_at(at(weight, "scale"), 2)), 1e-30f);
    cr_expect_eq(qc_json_size(at(weight, "zero_point")), 3);
    cr_expect_eq(qc_json_value(at(weight, "axis")), 0);
    static const char *const none[] = {"observed.min",       "sqnr_db",         "cosine", "max_abs",
                                       "saturated_fraction", "accumulator_bits"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        cr_expect_eq(qc_json_kind(at(weight, none[i])), QC_JSON_NULL, "%s", none[i]);
    cr_expect_eq(qc_json_kind(at(last, "sqnr_db")), QC_JSON_NULL);
    cr_expect_eq(qc_json_kind(at(last, "method")), QC_JSON_NULL);
    cr_expect(qc_json_value(at(j, "accuracy.fp32")) == 0.9173 && qc_json_value(at(j, "accuracy.int8")) == 0.91);
    cr_expect_eq(qc_json_size(at(j, "accuracy.fp32_interval")), 2);
    cr_expect_eq(qc_json_kind(at(j, "accuracy.int8_interval")), QC_JSON_NULL);
    cr_expect_eq(qc_json_kind(at(j, "accuracy.fp32_top5")), QC_JSON_NULL);
    cr_expect_eq(qc_json_size(at(j, "float_ops")), 2);
    cr_expect_str_eq(qc_json_text(at(qc_json_at(at(j, "float_ops"), 0), "reason")), "has no integer form");
    cr_expect_str_eq(qc_json_text(qc_json_at(at(j, "warnings"), 0)), "first \"warning\"\n");
    cr_expect_eq(qc_json_kind(at(qc_json_at(at(j, "outputs"), 0), "sqnr_db")), QC_JSON_NULL);
    qc_json_free(j);

    r.metric = NULL;
    j = printed(&r);
    cr_expect_eq(qc_json_kind(at(j, "accuracy")), QC_JSON_NULL);
    qc_json_free(j);
}

static char *text_without_timing(const struct qc_report *r)
{
    struct qc_json *j = qc_report_json(r);
    qc_json_set(j, "timing", qc_json_null());
    char *text = qc_json_print(j, 1);
    qc_json_free(j);
    return text;
}

Test(report, only_timing_knows_seconds_and_workers)
{
    struct qc_report r = example(), later = example();
    later.total_seconds = 77;
    later.import_seconds = later.collect_seconds = later.solve_seconds = later.measure_seconds = later.eval_seconds =
        later.export_seconds = 3;
    later.workers = 8;
    char *a = text_without_timing(&r), *b = text_without_timing(&later);
    cr_expect_str_eq(a, b);
    free(a);
    free(b);
}

/* ---- CSV ---- */

enum { FIELDS = 32 };

/* One record of RFC 4180, unquoted in place; returns what follows, or NULL at the end. */
static char *record(char *text, char *fields[FIELDS], size_t *count)
{
    char *to = text;
    *count = 0;
    if (!*text) return NULL;
    for (;;) {
        cr_assert_lt(*count, FIELDS);
        fields[(*count)++] = to;
        if (*text == '"') {
            for (text++; *text != '"' || text[1] == '"'; *to++ = *text++) {
                cr_assert(*text, "a quote is not closed");
                if (*text == '"') text++;
            }
            text++;
        } else {
            while (*text && !strchr(",\r\n", *text)) {
                cr_assert_neq(*text, '"');
                *to++ = *text++;
            }
        }
        char end = *text;
        cr_assert(end == ',' || (end == '\r' && text[1] == '\n'), "a record ends in CRLF");
        text += end == ',' ? 1 : 2;
        *to++ = '\0';
        if (end != ',') return text;
    }
}

static size_t column(char *header[FIELDS], size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(header[i], name) == 0) return i;
    cr_assert_fail("layers.csv has no column '%s'", name);
    return 0;
}

static char *written(const char *folder, const char *name, struct qc_arena *a)
{
    struct qc_status st = QC_STATUS_INIT;
    char path[512];
    void *text = NULL;
    size_t size;
    qc_text(path, sizeof path, "%s/%s", folder, name);
    cr_assert(qc_file_read(&text, &size, path, a, &st), "%s", st.message);
    cr_expect_eq(unlink(path), 0);
    return text;
}

Test(report, scales_in_the_millions_are_not_listed)
{
    enum { MANY = 16385 };
    static float scale[MANY];
    static int32_t zero[MANY];
    struct qc_report r = example();
    struct qc_layer layer = r.layers[1];
    for (size_t i = 0; i < MANY; i++) scale[i] = 1 + (float)(i * 7919 % MANY), zero[i] = (int32_t)(i % 16);
    layer.scale = scale;
    layer.zero_point = zero;
    r.layers = &layer;
    r.layer_count = 1;
    for (layer.count = MANY - 1; layer.count <= MANY; layer.count++) {
        struct qc_json *j = printed(&r);
        const struct qc_json *one = qc_json_at(at(j, "layers"), 0);
        if (layer.count < MANY) {
            cr_expect_eq(qc_json_size(at(one, "scale")), layer.count);
        } else {
            cr_expect(qc_json_value(at(one, "scale.count")) == MANY && qc_json_value(at(one, "scale.min")) == 1 &&
                      qc_json_value(at(one, "scale.max")) == MANY);
            cr_expect(qc_json_value(at(one, "zero_point.min")) == 0 && qc_json_value(at(one, "zero_point.max")) == 15);
        }
        qc_json_free(j);
    }
}

Test(report, layers_csv_is_the_same_table)
{
    struct qc_status st = QC_STATUS_INIT;
    struct qc_report r = example();
    struct qc_arena *a = qc_arena_new();
    struct qc_json *json = qc_report_json(&r), *read = NULL;
    char folder[64], *header[FIELDS], *row[FIELDS];
    size_t columns, count;
    qc_text(folder, sizeof folder, "report_%ld/inner", (long)getpid());
    cr_assert(qc_report_write(json, folder, &st), "%s", st.message);
    char *text = written(folder, "report.json", a), *csv = written(folder, "layers.csv", a);
    cr_expect(qc_json_parse(&read, text, strlen(text), &st), "%s", st.message);
    qc_json_free(read);

    char *rest = record(csv, header, &columns);
    static const char *const keys[] = {"name",
                                       "op",
                                       "type",
                                       "zero_point",
                                       "axis",
                                       "method",
                                       "observed_min",
                                       "observed_max",
                                       "observed_count",
                                       "observed_nan",
                                       "observed_inf",
                                       "chosen_min",
                                       "chosen_max",
                                       "clipped_fraction",
                                       "sqnr_db",
                                       "cosine",
                                       "max_abs",
                                       "saturated_fraction",
                                       "accumulator_bits"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) column(header, columns, keys[i]);
    static const char *const names[] = {"conv1, \"the first\"", "w\\x0d\\x0aline", ""};
    static const char *const sqnr[] = {"31.5", "", ""}, *const scale_max[] = {"0.1", "0.2", "0.1"},
                             *const axis[] = {"", "0", ""}, *const bits[] = {"18", "", ""},
                             *const overflows[] = {"7", "", ""},
                             *const isolated[3][3] = {{"40.5", "0.75", "-0.25"}, {"", "", ""}, {"", "", ""}};
    for (size_t l = 0; l < 3; l++) {
        cr_assert(rest = record(rest, row, &count));
        cr_expect_eq(count, columns, "row %zu has %zu fields of %zu", l, count, columns);
        cr_expect_str_eq(row[column(header, columns, "name")], names[l]);
        cr_expect_str_eq(row[column(header, columns, "sqnr_db")], sqnr[l]);
        cr_expect_str_eq(row[column(header, columns, "axis")], axis[l]);
        cr_expect_str_eq(row[column(header, columns, "accumulator_bits")], bits[l]);
        cr_expect_str_eq(row[column(header, columns, "accumulator_overflows")], overflows[l]);
        cr_expect_str_eq(row[column(header, columns, "isolated_sqnr_db")], isolated[l][0]);
        cr_expect_str_eq(row[column(header, columns, "isolated_accuracy")], isolated[l][1]);
        cr_expect_str_eq(row[column(header, columns, "isolated_drop")], isolated[l][2]);
        cr_expect_eq(strtof(row[column(header, columns, "scale_max")], NULL), strtof(scale_max[l], NULL), "%s",
                     row[column(header, columns, "scale_max")]);
        cr_expect_eq(atoi(row[column(header, columns, "zero_point")]), r.layers[l].zero_point[0]);
        for (size_t i = 0; i < count; i++)
            cr_expect(!strstr(row[i], "nan") && !strstr(row[i], "inf"), "%s is '%s'", header[i], row[i]);
    }
    cr_expect_null(record(rest, row, &count));
    char *html = written(folder, "report.html", a);
    cr_expect(strncmp(html, "<!DOCTYPE html>", 15) == 0 && strstr(html, "</html>"));
    qc_json_free(json);
    qc_arena_free(a);
    cr_expect_eq(rmdir(folder), 0, "something else is in the folder");
    *strchr(folder, '/') = '\0';
    cr_expect_eq(rmdir(folder), 0);
}

Test(report, a_folder_that_cannot_be_made_is_an_error)
{
    struct qc_status st = QC_STATUS_INIT;
    struct qc_report r = example();
    struct qc_json *json = qc_report_json(&r);
    cr_expect(!qc_report_write(json, "/dev/null/report", &st));
    cr_expect(st.code == QC_MACHINE && strstr(st.message, "/dev/null"), "%s", st.message);
    qc_json_free(json);
}

/* A limit on the size of files stands for a full disk. */
Test(report, of_a_report_that_cannot_be_written_nothing_is_left)
{
    struct qc_status st = QC_STATUS_INIT;
    struct qc_report r = example();
    struct qc_json *json = qc_report_json(&r);
    struct rlimit limit;
    char top[] = "report_XXXXXX", folder[64];
    cr_assert_not_null(mkdtemp(top));
    cr_assert_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = 100;
    signal(SIGXFSZ, SIG_IGN);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    cr_expect(!qc_report_write(json, qc_text(folder, sizeof folder, "%s/a//b/c/", top), &st));
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_FSIZE, &limit);
    cr_expect(st.code == QC_MACHINE && strstr(st.message, "report.json"), "%s", st.message);
    cr_expect_eq(rmdir(top), 0, "something is left in the folder");
    qc_json_free(json);
}

/* ---- The registry ---- */

Test(exporters, are_found_by_name)
{
    cr_assert_geq(qc_exporter_count(), 1);
    for (size_t i = 0; i < qc_exporter_count(); i++) {
        const struct qc_exporter *e = qc_exporter_at(i);
        cr_expect(e->summary && *e->summary && e->suffix && *e->suffix && (e->lower || e->write));
        cr_expect_eq(qc_exporter_find(qc_exporter_name(e)), e, "'%s' is there twice", qc_exporter_name(e));
    }
    cr_expect_not_null(qc_exporter_find("qdq"));
    cr_expect_null(qc_exporter_find("QDQ"));
    cr_expect_null(qc_exporter_find(""));
}
