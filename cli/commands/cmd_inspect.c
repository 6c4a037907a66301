// SPDX-License-Identifier: Apache-2.0
/* qcalib inspect FILE: the kind of file is known by its content. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "calib/statistics/statistics.h"
#include "cli/commands/cmd.h"
#include "cli/commands/inspect.h"
#include "cli/terminal/screen.h"
#include "datasets/samples/dataset.h"

static struct qc_json *dims_json(const struct qc_data_entry *e)
{
    struct qc_json *dims = qc_json_array();
    for (unsigned d = 0; d < e->rank; d++)
        qc_json_add(dims, e->dims[d] < 0 ? qc_json_null() : qc_json_integer(e->dims[d]));
    return dims;
}

static bool data_json(const char *path, const struct qc_data_list *list, struct qc_status *st)
{
    struct qc_json *root = qc_json_object(), *sets = qc_json_array();
    for (size_t i = 0; i < list->count; i++) {
        const struct qc_data_entry *e = &list->entries[i];
        struct qc_json *one = qc_json_object(), *attributes = qc_json_object();
        for (size_t k = 0; k < e->attribute_count; k++)
            qc_json_set(attributes, e->attributes[k].name, qc_json_string(e->attributes[k].text));
        qc_json_set(one, "name", qc_json_string(e->name));
        qc_json_set(one, "type", qc_json_string(e->type));
        qc_json_set(one, "shape", dims_json(e));
        qc_json_set(one, "storage", qc_json_string(e->storage));
        qc_json_set(one, "attributes", attributes);
        qc_json_add(sets, one);
    }
    qc_json_set(root, "file", qc_json_string(path));
    qc_json_set(root, "kind", qc_json_string("data"));
    qc_json_set(root, "datasets", sets);
    return qc_print_json(root, st);
}

/* Attributes that change what a model gets or how it is judged; -v shows the others too. */
static bool preprocesses(const char *name)
{
    static const char *const names[] = {"scale", "mean", "std", "peak"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], name) == 0) return true;
    return false;
}

static void data_text(const struct qc_data_list *list, bool all)
{
    enum { LISTED = 4 };
    for (size_t i = 0; i < list->count && (all || i < LISTED); i++) {
        const struct qc_data_entry *e = &list->entries[i];
        qc_say("%s  %s [", e->name, e->type);
        for (unsigned d = 0; d < e->rank; d++)
            e->dims[d] < 0 ? qc_say("%s?", d ? "," : "") : qc_say("%s%lld", d ? "," : "", (long long)e->dims[d]);
        qc_say("]  %s\n", e->storage);
        for (size_t k = 0; k < e->attribute_count; k++) {
            if (!all && !preprocesses(e->attributes[k].name)) continue;
            qc_say("    %s = %s\n", e->attributes[k].name, e->attributes[k].text);
        }
    }
    if (!all && list->count > LISTED) qc_say("and %zu more data sets; -v lists them\n", list->count - LISTED);
}

bool qc_inspect_data(const char *path, const struct qc_cli_options *o, struct qc_status *st)
{
    struct qc_data_list list;
    if (!qc_data_list(&list, path, qc_options_follow(&o->job), o->job.arena, st)) return false;
    if (o->json) return data_json(path, &list, st);
    qc_say("file     %s: %s%zu data set%s\n", path, qc_data_is_hdf5(path) ? "HDF5, " : "", list.count,
           list.count == 1 ? "" : "s");
    data_text(&list, o->verbose);
    return true;
}

/* Members of an object, whatever the file holds. */
static const char *text_of(const struct qc_json *v, const char *key)
{
    const struct qc_json *member = qc_json_get(v, key);
    return member ? qc_json_text(member) : NULL;
}

static size_t size_of(const struct qc_json *v, const char *key)
{
    const struct qc_json *member = qc_json_get(v, key);
    return member ? qc_json_size(member) : 0;
}

static double number_of(const struct qc_json *v, const char *key)
{
    const struct qc_json *member = qc_json_get(v, key);
    return member ? qc_json_value(member) : (double)NAN;
}

/* A member that is a text or number, for the head of a report. */
static void print_member(const char *label, const struct qc_json *v)
{
    char *text = v ? qc_json_print(v, 0) : NULL;
    if (text) {
        size_t n = strlen(text);
        bool quotes = n >= 2 && text[0] == '"';
        if (quotes) text[n - 1] = '\0';
        qc_say("%-9s%s\n", label, text + quotes);
    }
    free(text);
}

static void report_text(const char *path, const struct qc_json *r)
{
    const struct qc_json *model = qc_json_get(r, "model"), *data = qc_json_get(r, "data"),
                         *options = qc_json_get(r, "options");
    qc_say("file     %s: report of qcalib %s\n", path, text_of(r, "version") ? text_of(r, "version") : "?");
    print_member("command", qc_json_get(r, "command"));
    print_member("model", model ? qc_json_get(model, "file") : NULL);
    print_member("data", data ? qc_json_get(data, "file") : NULL);
    print_member("samples", data ? qc_json_get(data, "samples") : NULL);
    print_member("method", options ? qc_json_get(options, "method") : NULL);
    const struct qc_json *accuracy = qc_json_get(r, "accuracy");
    const char *metric = accuracy ? text_of(accuracy, "metric") : NULL;
    if (metric) {
        qc_say("accuracy %s %.6g float, %.6g int8\n", metric, number_of(accuracy, "fp32"), number_of(accuracy, "int8"));
    }
    qc_say("layers   %zu quantized values, %zu ops in float, %zu warnings\n", size_of(r, "layers"),
           size_of(r, "float_ops"), size_of(r, "warnings"));
}

/* Does the file's text begin with '{'? A file that cannot be read does not: the import says why. */
static bool begins_object(const char *path)
{
    struct stat about;
    FILE *f = stat(path, &about) == 0 && S_ISREG(about.st_mode) ? fopen(path, "rb")
                                                                : NULL; /* opening a pipe waits for a writer */
    int c = 0;
    while (f && (c = fgetc(f)) != EOF && strchr(" \t\r\n", c) && c) continue;
    if (f) fclose(f);
    return f && c == '{';
}

bool qc_inspect_report(bool *is_report, const char *path, const struct qc_cli_options *o, struct qc_status *st)
{
    static const char *const head[] = {"tool", "version", "command", "model", "data", "options", "accuracy"};
    void *bytes;
    size_t size;
    struct qc_json *r = NULL;
    *is_report = false;
    if (!begins_object(path)) return true;
    if (!qc_file_read(&bytes, &size, path, o->job.arena, st)) return false;
    if (!qc_json_parse(&r, bytes, size, st)) return qc_where(st, "%s", path);
    const char *tool = text_of(r, "tool");
    bool ok = tool && strcmp(tool, "qcalib") == 0;
    *is_report = ok;
    if (!ok) {
        qc_fail(st, QC_BAD_INPUT, "%s: JSON, but no report of qcalib (\"tool\" is not \"qcalib\")", path);
    } else if (o->json) {
        struct qc_json *root = qc_json_object();
        qc_json_set(root, "file", qc_json_string(path));
        qc_json_set(root, "kind", qc_json_string("report"));
        for (size_t k = 0; k < sizeof head / sizeof *head; k++)
            qc_json_set(root, head[k], qc_json_copy(qc_json_get(r, head[k])));
        qc_json_set(root, "layers", qc_json_integer((int64_t)size_of(r, "layers")));
        qc_json_set(root, "float_ops", qc_json_integer((int64_t)size_of(r, "float_ops")));
        ok = qc_print_json(root, st);
    } else {
        report_text(path, r);
    }
    qc_json_free(r);
    return ok;
}

bool qc_cmd_inspect(const struct qc_cli_options *o, struct qc_status *st)
{
    const char *path = o->operands.items[0];
    struct stat about;
    bool statistics, report;
    if (stat(path, &about) == 0 && S_ISDIR(about.st_mode)) {
        const char *inside = qc_arena_printf(o->job.arena, st, "%s/report.json", path);
        if (!inside) return false;
        if (stat(inside, &about) != 0 && qc_data_is_known(path)) return qc_inspect_data(path, o, st);
        path = inside; /* that of a report */
    }
    if (!qc_statistics_is(&statistics, path, st)) return false;
    if (statistics) return qc_inspect_statistics(path, o, st);
    if (qc_data_is_known(path)) return qc_inspect_data(path, o, st);
    if (!qc_inspect_report(&report, path, o, st)) return false;
    return report || qc_inspect_model(path, o, st);
}
