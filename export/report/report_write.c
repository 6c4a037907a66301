// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/scope.h"
#include "base/shown.h"
#include "export/report/page.h"
#include "export/report/report.h"

/* Returns true if a spreadsheet would read the text as a formula, also in full-width forms. */
static bool begins_formula(const char *s)
{
    static const char *const marks[] = {"=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20"};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (strncmp(s, marks[i], strlen(marks[i])) == 0) return true;
    return false;
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

static void csv_number(FILE *f, double v)
{
    fputc(',', f);
    if (isfinite(v)) fprintf(f, "%.9g", v);
}

static void widest(float *low, float *high, const struct qc_layer *l)
{
    *low = *high = l->scale[0];
    for (size_t i = 1; i < l->count; i++) {
        if (l->scale[i] < *low) *low = l->scale[i];
        if (l->scale[i] > *high) *high = l->scale[i];
    }
}

static void csv_row(FILE *f, const struct qc_layer *l)
{
    float low, high;
    widest(&low, &high, l);
    field(f, l->name);
    fputc(',', f);
    field(f, l->op);
    fprintf(f, ",%s,%s,%zu", l->kind, l->type, l->count);
    csv_number(f, (double)low);
    csv_number(f, (double)high);
    fprintf(f, ",%" PRId32, l->zero_point[0]);
    if (l->axis < 0)
        fputs(",", f);
    else
        fprintf(f, ",%d", l->axis);
    fputc(',', f);
    field(f, l->method);
    csv_number(f, l->observed_min);
    csv_number(f, l->observed_max);
    fprintf(f, ",%" PRIu64 ",%" PRIu64 ",%" PRIu64, l->observed_count, l->observed_nan, l->observed_inf);
    csv_number(f, l->chosen_min);
    csv_number(f, l->chosen_max);
    csv_number(f, l->clipped_fraction);
    csv_number(f, l->sqnr_db);
    csv_number(f, l->cosine);
    csv_number(f, l->max_abs);
    csv_number(f, l->saturated_fraction);
    csv_number(f, l->accumulator_bits ? (double)l->accumulator_bits : (double)NAN);
    csv_number(f, l->accumulator_bits_seen ? (double)l->accumulator_bits_seen : (double)NAN);
    csv_number(f, l->accumulator_overflows);
    csv_number(f, l->isolated_db);
    csv_number(f, l->isolated_metric);
    csv_number(f, l->isolated_lost);
    fputs("\r\n", f);
}

/* Returns the table, or NULL if memory runs out. */
static char *csv(size_t *size, const struct qc_report *r)
{
    char *text = NULL;
    FILE *f = open_memstream(&text, size);
    if (!f) return NULL;
    fputs("name,op,kind,type,scales,scale_min,scale_max,zero_point,axis,method,observed_min,observed_max,observed_"
          "count,observed_nan,"
          "observed_inf,chosen_min,chosen_max,clipped_fraction,sqnr_db,cosine,max_abs,saturated_fraction,accumulator_"
          "bits,"
          "accumulator_bits_seen,accumulator_overflows,isolated_sqnr_db,isolated_accuracy,isolated_drop\r\n",
          f);
    for (size_t i = 0; i < r->layer_count; i++) csv_row(f, &r->layers[i]);
    if (fclose(f) == 0) return text;
    free(text);
    return NULL;
}

enum { FILES = 3 };

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

/* Returns the length of the part of the path that exists. */
static size_t there_already(char *path)
{
    struct stat info;
    size_t n = strlen(path);
    while (n) {
        const char end = path[n];
        path[n] = '\0';
        const bool there = stat(path, &info) == 0;
        path[n] = end;
        if (there) break;
        while (n && path[n - 1] != '/') n--;
        while (n && path[n - 1] == '/') n--;
    }
    return n;
}

static void remove_empty(char *path, size_t keep)
{
    for (size_t n = strlen(path); n > keep && rmdir(path) == 0; path[n] = '\0') {
        while (n && path[n - 1] == '/') n--;
        while (n && path[n - 1] != '/') n--;
        while (n && path[n - 1] == '/') n--;
    }
}

static bool write_folder(const struct part *parts, const char *folder, struct qc_status *st)
{
    QC_FREED char *path = strdup(folder);
    if (!path) return qc_fail_memory(st, strlen(folder) + 1);
    const size_t keep = there_already(path);
    const bool ok = qc_make_folder(folder, st) && write_parts(parts, folder, st);
    if (!ok) remove_empty(path, keep);
    return ok;
}

bool qc_report_write(const struct qc_report *r, const struct qc_json *json, const char *folder, struct qc_status *st)
{
    size_t csv_size = 0, page_size = 0;
    QC_FREED char *text = qc_json_print(json, 1), *table = text ? csv(&csv_size, r) : NULL,
                  *page = table ? qc_page(&page_size, json, st) : NULL;
    const struct part parts[FILES] = {{"report.json", text, text ? strlen(text) : 0},
                                      {"layers.csv", table, csv_size},
                                      {"report.html", page, page_size}};
    return page ? write_folder(parts, folder, st) : qc_fail_memory(st, 1);
}
