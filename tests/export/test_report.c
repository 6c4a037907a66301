// SPDX-License-Identifier: Apache-2.0
/* The files of a report, as users' scripts read them. For report.html see test_page.c, for the record
   tests/quantize/test_record.c. */
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/file.h"
#include "export/formats/exporter.h"
#include "export/report/report.h"
#include "tests/check.h"

/* Layers as a record has them: names that a CSV file must quote, and numbers that there are none of. */
static const char layers[] =
    "[{\"name\": \"conv1, \\\"the first\\\"\", \"op\": \"Conv\", \"kind\": \"activation\", \"type\": \"u8\", "
    "\"scale\": 0.1,"
    " \"zero_point\": 128, \"axis\": null, \"method\": \"mse\", \"observed\": {\"min\": -1.5, \"max\": 2.5, \"count\": "
    "1000,"
    " \"nan\": 1, \"inf\": 2}, \"chosen\": {\"min\": -1.25, \"max\": 2.25}, \"clipped_fraction\": 0.001, \"sqnr_db\": "
    "31.5,"
    " \"cosine\": 0.9996, \"max_abs\": 0.41, \"saturated_fraction\": 0.002, \"accumulator_bits\": 18,"
    " \"accumulator_overflows\": 7, \"isolated_sqnr_db\": 40.5, \"isolated_value\": 0.75, \"isolated_drop\": -0.25},"
    " {\"name\": \"w\\r\\nline\", \"op\": \"Conv\", \"kind\": \"weight\", \"type\": \"i8\", \"scale\": [0.1, 0.2, "
    "1e-30],"
    " \"zero_point\": [0, 0, 0], \"axis\": 0, \"method\": \"minmax\", \"observed\": {\"min\": null}, \"sqnr_db\": "
    "null},"
    " {\"name\": \"\", \"op\": \"Input\", \"kind\": \"activation\", \"type\": \"u8\", \"scale\": {\"count\": 99, "
    "\"min\": 0.1,"
    " \"max\": 0.1}, \"zero_point\": {\"count\": 99, \"min\": 128, \"max\": 130}, \"axis\": null, \"method\": null}]";

static struct qc_json *example(void)
{
    struct qc_json *record = QC_JSON("tool %s version %s", "qcalib", "1.2.3"), *list = NULL;
    MUST(qc_json_parse(&list, layers, strlen(layers), ST));
    qc_json_set(record, "layers", list);
    return record;
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
    char path[512];
    void *text = NULL;
    size_t size;
    qc_text(path, sizeof path, "%s/%s", folder, name);
    MUST(qc_file_read(&text, &size, path, a, ST));
    cr_expect_eq(unlink(path), 0);
    return text;
}

Test(report, layers_csv_is_the_same_table)
{
    struct qc_arena *a = qc_arena_new();
    struct qc_json *json = example(), *read = NULL;
    char folder[64], *header[FIELDS], *row[FIELDS];
    size_t columns, count;
    qc_text(folder, sizeof folder, "report_%ld/inner", (long)getpid());
    MUST(qc_report_write(json, folder, ST));
    char *text = written(folder, "report.json", a), *csv = written(folder, "layers.csv", a);
    SHOULD(qc_json_parse(&read, text, strlen(text), ST));
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
                             *const overflows[] = {"7", "", ""}, *const zero_point[] = {"128", "0", "128"},
                             *const count_of_scales[] = {"1", "3", "99"},
                             *const isolated[3][3] = {{"40.5", "0.75", "-0.25"}, {"", "", ""}, {"", "", ""}};
    for (size_t l = 0; l < 3; l++) {
        cr_assert(rest = record(rest, row, &count));
        cr_expect_eq(count, columns, "row %zu has %zu fields of %zu", l, count, columns);
        HOLD(strcmp(row[column(header, columns, "name")], names[l]) == 0,
             strcmp(row[column(header, columns, "sqnr_db")], sqnr[l]) == 0,
             strcmp(row[column(header, columns, "axis")], axis[l]) == 0,
             strcmp(row[column(header, columns, "accumulator_bits")], bits[l]) == 0,
             strcmp(row[column(header, columns, "accumulator_overflows")], overflows[l]) == 0,
             strcmp(row[column(header, columns, "isolated_sqnr_db")], isolated[l][0]) == 0,
             strcmp(row[column(header, columns, "isolated_accuracy")], isolated[l][1]) == 0,
             strcmp(row[column(header, columns, "isolated_drop")], isolated[l][2]) == 0);
        cr_expect_eq(strtof(row[column(header, columns, "scale_max")], NULL), strtof(scale_max[l], NULL), "%s",
                     row[column(header, columns, "scale_max")]);
        cr_expect_str_eq(row[column(header, columns, "zero_point")], zero_point[l]);
        cr_expect_str_eq(row[column(header, columns, "scales")], count_of_scales[l]);
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
    OWN(qc_json) *json = example();
    REFUSES(qc_report_write(json, "/dev/null/report", ST), QC_MACHINE, "/dev/null");
}

/* A limit on the size of files stands for a full disk. */
Test(report, of_a_report_that_cannot_be_written_nothing_is_left)
{
    OWN(qc_json) *json = example();
    struct rlimit limit;
    char top[] = "report_XXXXXX", folder[64];
    cr_assert_not_null(mkdtemp(top));
    cr_assert_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = 100;
    signal(SIGXFSZ, SIG_IGN);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    cr_expect(!qc_report_write(json, qc_text(folder, sizeof folder, "%s/a//b/c/", top), ST));
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_FSIZE, &limit);
    cr_expect(failure.code == QC_MACHINE && strstr(failure.message, "report.json"), "%s", failure.message);
    cr_expect_eq(rmdir(top), 0, "something is left in the folder");
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
