// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/scope.h"
#include "base/shown.h"
#include "export/report/report.h"

/* Returns true if a spreadsheet would read the text as a formula, also in full-width forms. */
static bool begins_formula(const char *s)
{
    static const char *const marks[] = {"=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20"};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (strncmp(s, marks[i], strlen(marks[i])) == 0) return true;
    return false;
}

/* Columns of layers.csv and where the record of a layer has them. A list of scales has its own columns. */
static const struct {
    const char *name, *path;
} columns[] = {{"name", "name"},
               {"op", "op"},
               {"kind", "kind"},
               {"type", "type"},
               {"scales", NULL},
               {"scale_min", NULL},
               {"scale_max", NULL},
               {"zero_point", NULL},
               {"axis", "axis"},
               {"method", "method"},
               {"observed_min", "observed.min"},
               {"observed_max", "observed.max"},
               {"observed_count", "observed.count"},
               {"observed_nan", "observed.nan"},
               {"observed_inf", "observed.inf"},
               {"chosen_min", "chosen.min"},
               {"chosen_max", "chosen.max"},
               {"clipped_fraction", "clipped_fraction"},
               {"sqnr_db", "sqnr_db"},
               {"cosine", "cosine"},
               {"max_abs", "max_abs"},
               {"saturated_fraction", "saturated_fraction"},
               {"accumulator_bits", "accumulator_bits"},
               {"accumulator_bits_seen", "accumulator_bits_seen"},
               {"accumulator_overflows", "accumulator_overflows"},
               {"isolated_sqnr_db", "isolated_sqnr_db"},
               {"isolated_accuracy", "isolated_value"},
               {"isolated_drop", "isolated_drop"}};

enum { COLUMNS = sizeof columns / sizeof *columns, FILES = 3 };

static void number_field(FILE *f, double v)
{
    if (isfinite(v)) fprintf(f, "%.9g", v);
}

/* Writes the number of scales, the smallest and the largest, or the first zero point: each is one number, a list, or
   {"count", "min", "max"} of very many. */
static void scales_field(FILE *f, const struct qc_json *layer, const char *column)
{
    const bool zero = strcmp(column, "zero_point") == 0;
    const struct qc_json *v = qc_json_find(layer, zero ? "zero_point" : "scale"), *one = v;
    double low = qc_json_find_number(v, "min"), high = qc_json_find_number(v, "max"),
           count = qc_json_find_number(v, "count");
    if (v && isnan(count)) {
        count = qc_json_kind(v) == QC_JSON_ARRAY ? (double)qc_json_size(v) : 1;
        for (size_t i = 0; i < (size_t)count; i++) {
            if (qc_json_kind(v) == QC_JSON_ARRAY) one = qc_json_at(v, i);
            low = zero && i ? low : fmin(low, qc_json_value(one));
            high = fmax(high, qc_json_value(one));
        }
    }
    number_field(f, strcmp(column, "scales") == 0 ? count : strcmp(column, "scale_max") == 0 ? high : low);
}

/* Writes a field of CSV (RFC 4180), quoted if necessary. Unprintable characters are made visible (base/shown.h). An
   apostrophe precedes a name that a spreadsheet would read as a formula. */
static void field(FILE *f, const char *s)
{
    char piece[QC_SHOWN];
    bool escaped;
    if (!s) s = "";
    const bool quoted = strpbrk(s, ",\"") != NULL;
    if (quoted) fputc('"', f);
    if (begins_formula(s)) fputc('\'', f);
    while (*s) {
        s += qc_shown(piece, &escaped, s);
        if (*piece == '"') fputc('"', f);
        fputs(piece, f);
    }
    if (quoted) fputc('"', f);
}

/* Returns the table, or NULL if memory runs out. */
static char *csv(size_t *size, const struct qc_json *record)
{
    const struct qc_json *layers = qc_json_find(record, "layers");
    char *text = NULL;
    FILE *f = open_memstream(&text, size);
    if (!f) return NULL;
    for (size_t c = 0; c < COLUMNS; c++) fprintf(f, "%s%s", c ? "," : "", columns[c].name);
    for (size_t i = 0; i < qc_json_size(layers); i++)
        for (size_t c = 0; c < COLUMNS; c++) {
            const struct qc_json *l = qc_json_at(layers, i),
                                 *v = columns[c].path ? qc_json_find(l, columns[c].path) : NULL;
            fputs(c ? "," : "\r\n", f);
            if (!columns[c].path)
                scales_field(f, l, columns[c].name);
            else if (v && qc_json_text(v))
                field(f, qc_json_text(v));
            else if (v)
                number_field(f, qc_json_value(v));
        }
    fputs("\r\n", f);
    if (fclose(f) == 0) return text;
    free(text);
    return NULL;
}

struct part {
    const char *name, *data;
    size_t size;
};

/* Writes all files or none: each is on disk under a temporary name before the first one is renamed. */
static bool write_parts(const struct part *parts, const char *folder, struct qc_status *st)
{
    struct qc_output *o[FILES] = {NULL};
    const size_t size = strlen(folder) + 32;
    QC_FREED char *path = malloc(size);
    bool ok = path || qc_fail_memory(st, size);
    for (size_t i = 0; ok && i < FILES; i++) {
        snprintf(path, size, "%s/%s", folder, parts[i].name);
        ok = qc_output_open(&o[i], path, st) && qc_output_write(o[i], parts[i].data, parts[i].size, st) &&
             qc_output_settle(o[i], st);
    }
    for (size_t i = 0; ok && i < FILES; i++) ok = qc_output_commit(o[i], st);
    for (size_t i = 0; i < FILES; i++) qc_output_free(o[i]);
    return ok;
}

bool qc_report_write(const struct qc_json *json, const char *folder, struct qc_status *st)
{
    size_t csv_size = 0, page_size = 0;
    QC_FREED char *text = qc_json_print(json, 1), *table = text ? csv(&csv_size, json) : NULL,
                  *page = table ? qc_page(&page_size, json, st) : NULL;
    const struct part parts[FILES] = {{"report.json", text, text ? strlen(text) : 0},
                                      {"layers.csv", table, csv_size},
                                      {"report.html", page, page_size}};
    QC_FREED char *path = strdup(folder);
    if (!page || !path) return qc_fail_memory(st, 1);
    /* The length of the part of the path that exists. */
    struct stat info;
    size_t keep = strlen(path);
    while (keep) {
        const char end = path[keep];
        path[keep] = '\0';
        const bool there = stat(path, &info) == 0;
        path[keep] = end;
        if (there) break;
        while (keep && path[keep - 1] != '/') keep--;
        while (keep && path[keep - 1] == '/') keep--;
    }
    const bool ok = qc_make_folder(folder, st) && write_parts(parts, folder, st);
    if (!ok) {
        for (size_t n = strlen(path); n > keep && rmdir(path) == 0; path[n] = '\0') {
            while (n && path[n - 1] == '/') n--;
            while (n && path[n - 1] != '/') n--;
            while (n && path[n - 1] == '/') n--;
        }
    }
    return ok;
}
