// SPDX-License-Identifier: Apache-2.0
/* qcalib inspect FILE: the kind of file is known by its content. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands/cmd.h"
#include "cli/commands/inspect.h"
#include "cli/terminal/print_warnings.h"
#include "cli/terminal/screen.h"
#include "datasets/samples/dataset.h"
#include "evaluate/describe.h"

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

/* Errors: as qc_data_list. */
static bool inspect_data(const char *path, const struct qc_cli_options *o, struct qc_status *st)
{
    struct qc_data_list list;
    if (!qc_data_list(&list, path, qc_options_follow(&o->job), o->job.arena, st)) return false;
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
        qc_say("accuracy %s %.6g %s, %.6g int8\n", metric, number_of(accuracy, "fp32"),
               qc_json_get(r, "reference") ? "reference" : "float", number_of(accuracy, "int8"));
    }
    qc_say("layers   %zu quantized values, %zu ops in float, %zu warnings\n", size_of(r, "layers"),
           size_of(r, "float_ops"), size_of(r, "warnings"));
}

/* Errors: as qc_report_read. */
static bool inspect_report(const char *path, const struct qc_cli_options *o, struct qc_status *st)
{
    struct qc_json *r = NULL;
    const bool ok = qc_report_read(&r, path, o->job.arena, st);
    if (ok) report_text(path, r);
    qc_json_free(r);
    return ok;
}

static bool inspect_json(const struct qc_cli_options *o, struct qc_status *st)
{
    struct qc_json *all = NULL;
    struct qc_warnings *w = NULL;
    const bool ok = qc_warnings_new(&w, st) &&
                    qc_describe_file(&all, o->operands.items[0], &o->job, o->verbose, w, st) && qc_print_json(all, st);
    if (ok) qc_warnings_print(w, o->verbose ? QC_WARNINGS_ALL : QC_WARNINGS_SOME);
    qc_warnings_free(w);
    return ok;
}

bool qc_cmd_inspect(const struct qc_cli_options *o, struct qc_status *st)
{
    const char *path = o->operands.items[0];
    enum qc_inspected kind;
    if (o->json) return inspect_json(o, st);
    if (!qc_inspected_kind(&kind, &path, o->job.arena, st)) return false;
    switch (kind) {
    case QC_INSPECTED_MODEL: return qc_inspect_model(path, o, st);
    case QC_INSPECTED_DATA: return inspect_data(path, o, st);
    case QC_INSPECTED_STATISTICS: return qc_inspect_statistics(path, o, st);
    case QC_INSPECTED_REPORT: return inspect_report(path, o, st);
    }
    return false;
}
