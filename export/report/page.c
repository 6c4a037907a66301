// SPDX-License-Identifier: Apache-2.0
/* viewer/report.html is a template: {{>FILE}} is a file of the viewer, {{record}} the record as JSON, {{a.b}} a member
   as text, and {{#list}}...{{/list}} is repeated with each element in place of the record. */
#include "export/report/report.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/scope.h"
#include "base/shown.h"
#include "export/report_assets.h"

static const struct qc_embedded *asset(const char *name, size_t length)
{
    for (size_t i = 0; i < qc_report_assets_count; i++)
        if (strlen(qc_report_assets[i].name) == length && strncmp(qc_report_assets[i].name, name, length) == 0)
            return &qc_report_assets[i];
    return NULL;
}

/* Writes a value in a table: a number with two decimals if it is not whole, "a → b" for a list. */
static void shown_value(FILE *f, const struct qc_json *v)
{
    const double number = v ? qc_json_value(v) : (double)NAN;
    if (v && qc_json_text(v)) {
        /* Write text with references for the characters that have a meaning in HTML. */
        const char *s = qc_json_text(v);
        char piece[QC_SHOWN];
        bool escaped;
        while (*s) {
            s += qc_shown(piece, &escaped, s);
            if (strchr("&<>\"'", *piece))
                fprintf(f, "&#%d;", *piece);
            else
                fputs(piece, f);
        }
    } else if (v && qc_json_kind(v) == QC_JSON_ARRAY)
        for (size_t i = 0; i < qc_json_size(v); i++) {
            if (i) fputs(" → ", f);
            shown_value(f, qc_json_at(v, i));
        }
    else if (isnan(number))
        fputs("–", f);
    else
        fprintf(f, number == floor(number) ? "%.0f" : "%.2f", number);
}

/* Writes JSON that cannot end the script element around it. */
static bool json_text(FILE *f, const struct qc_json *v, struct qc_status *st)
{
    QC_FREED char *text = qc_json_print(v, 0);
    if (!text) return qc_fail_memory(st, 1);
    for (const char *s = text, *next; *s; s = next) {
        next = s + strcspn(s, "<");
        fwrite(s, 1, (size_t)(next - s), f);
        if (*next) next += fprintf(f, "\\u003c") > 0;
    }
    return true;
}

/* Writes the template from `at` to `end` with the members of v. */
static bool fill_template(FILE *f, const char *at, const char *end, const struct qc_json *v, struct qc_status *st)
{
    for (const char *mark; at < end && (mark = strstr(at, "{{")) && mark < end;) {
        fwrite(at, 1, (size_t)(mark - at), f);
        const char *name = mark + 2 + (strchr("#>", mark[2]) != NULL), *close = strstr(name, "}}");
        const size_t length = (size_t)(close - name);
        char path[64];
        snprintf(path, sizeof path, "%.*s", (int)length, name);
        at = close + 2;
        if (mark[2] == '>') {
            const struct qc_embedded *a = asset(name, length);
            fwrite(a->text, 1, a->size, f);
        } else if (mark[2] == '#') {
            char ending[80];
            snprintf(ending, sizeof ending, "{{/%s}}", path);
            const char *stop = strstr(at, ending);
            const struct qc_json *list = qc_json_find(v, path);
            for (size_t i = 0; list && i < qc_json_size(list); i++)
                if (!fill_template(f, at, stop, qc_json_at(list, i), st)) return false;
            at = stop + strlen(ending);
        } else if (strcmp(path, "record") == 0) {
            /* Write the record, of its times only those of --benchmark. */
            bool ok = true;
            for (size_t i = 0; ok && i < qc_json_size(v); i++) {
                struct qc_json *key = qc_json_string(qc_json_key(v, i));
                const struct qc_json *member = qc_json_at(v, i), *benchmark = qc_json_get(member, "benchmark");
                const bool timing = strcmp(qc_json_key(v, i), "timing") == 0;
                fputs(i ? ",\n" : "{", f);
                ok = json_text(f, key, st);
                qc_json_free(key);
                fputs(!timing ? ":" : benchmark ? ":{\"benchmark\":" : ":{}", f);
                ok = ok && (timing && !benchmark ? true : json_text(f, timing ? benchmark : member, st));
                if (timing && benchmark) fputc('}', f);
            }
            fputs(qc_json_size(v) ? "}\n" : "{}\n", f);
            if (!ok) return false;
        } else
            shown_value(f, qc_json_find(v, path));
    }
    fwrite(at, 1, (size_t)(end - at), f);
    return true;
}

char *qc_page(size_t *size, const struct qc_json *record, struct qc_status *st)
{
    const struct qc_embedded *frame = asset("report.html", strlen("report.html"));
    char *text = NULL;
    FILE *f = open_memstream(&text, size);
    const bool ok = f && fill_template(f, frame->text, frame->text + frame->size, record, st);
    if (f && fclose(f) == 0 && ok) return text;
    free(text);
    qc_fail_memory(st, 1);
    return NULL;
}
