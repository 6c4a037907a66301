// SPDX-License-Identifier: Apache-2.0
#include "export/report/report_difference.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/report/report.h"

/* Smaller changes of an SQNR count as none. */
static const double same_db = 0.01;

/* ---- Members of a file with unchecked content ---- */

static const char *text_or(const struct qc_json *v, const char *key, const char *other)
{
    const char *s = qc_json_find_text(v, key);
    return s ? s : other;
}

static const char *printed(struct qc_arena *a, const struct qc_json *v, struct qc_status *st)
{
    if (!v) return "";
    char *s = qc_json_print(v, 0), *kept = s ? qc_arena_strdup(a, s, st) : NULL;
    if (!s) qc_fail_memory(st, 1);
    free(s);
    return kept;
}

static bool equal(const struct qc_json *x, const struct qc_json *y)
{
    if (!x || !y) return x == y;
    if (qc_json_kind(x) != qc_json_kind(y) || qc_json_size(x) != qc_json_size(y)) return false;
    switch (qc_json_kind(x)) {
    case QC_JSON_NULL: return true;
    case QC_JSON_BOOL: return qc_json_value(x) == qc_json_value(y);
    case QC_JSON_NUMBER: return strcmp(qc_json_digits(x), qc_json_digits(y)) == 0;
    case QC_JSON_STRING: return strcmp(qc_json_text(x), qc_json_text(y)) == 0;
    case QC_JSON_ARRAY:
    case QC_JSON_OBJECT:
        for (size_t i = 0; i < qc_json_size(x); i++) {
            const char *key = qc_json_key(x, i), *other = qc_json_key(y, i);
            if ((key && strcmp(key, other) != 0) || !equal(qc_json_at(x, i), qc_json_at(y, i))) return false;
        }
        return true;
    }
    return false;
}

/* ---- Are these two reports of one model? ---- */

static bool check_members(const struct qc_report_source *s, struct qc_status *st)
{
    static const struct {
        const char *name;
        enum qc_json_kind kind;
    } needed[] = {{"version", QC_JSON_STRING},       {"model", QC_JSON_OBJECT},  {"options", QC_JSON_OBJECT},
                  {"outputs", QC_JSON_ARRAY},        {"files", QC_JSON_ARRAY},   {"float_ops", QC_JSON_ARRAY},
                  {"quantized_ops", QC_JSON_NUMBER}, {"ranking", QC_JSON_ARRAY}, {"layers", QC_JSON_ARRAY}};
    const char *version = text_or(s->report, "version", "unknown");
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        const struct qc_json *m = qc_json_find(s->report, needed[i].name);
        if (!m || qc_json_kind(m) != needed[i].kind)
            return qc_fail(st, QC_BAD_INPUT,
                           "%s: the report has no usable \"%s\"; it was written by qcalib %s. Write it anew with this "
                           "version",
                           s->file, needed[i].name, version);
    }
    if (!qc_json_find_text(qc_json_find(s->report, "model"), "sha256"))
        return qc_fail(st, QC_BAD_INPUT, "%s: the report does not name its model by SHA-256 (\"model\": \"sha256\")",
                       s->file);
    const struct qc_json *layers = qc_json_find(s->report, "layers");
    for (size_t i = 0; i < qc_json_size(layers); i++) {
        const struct qc_json *l = qc_json_at(layers, i);
        if (!qc_json_find_text(l, "name") || !qc_json_find_text(l, "op") || !qc_json_find_text(l, "kind") ||
            !qc_json_find_text(l, "type"))
            return qc_fail(st, QC_BAD_INPUT,
                           "%s: number %zu of \"layers\" has no name, op, kind or type; it was written by qcalib %s. "
                           "Write it anew with this version",
                           s->file, i + 1, version);
    }
    return true;
}

static bool check_models(const struct qc_report_source s[2], struct qc_status *st)
{
    const struct qc_json *model[2] = {qc_json_find(s[0].report, "model"), qc_json_find(s[1].report, "model")};
    const char *sha[2] = {qc_json_find_text(model[0], "sha256"), qc_json_find_text(model[1], "sha256")};
    if (strcmp(sha[0], sha[1]) == 0) return true;
    return qc_fail(st, QC_BAD_INPUT,
                   "the reports are of different models: %s of '%s' (sha256 %.12s), %s of '%s' (sha256 %.12s)",
                   s[0].file, text_or(model[0], "file", "?"), sha[0], s[1].file, text_or(model[1], "file", "?"),
                   sha[1]);
}

/* ---- Figures ---- */

static double worst_output(const struct qc_json *r)
{
    const struct qc_json *outputs = qc_json_find(r, "outputs");
    double worst = (double)NAN;
    for (size_t i = 0; i < qc_json_size(outputs); i++)
        worst = fmin(worst, qc_json_find_number(qc_json_at(outputs, i), "sqnr_db"));
    return worst;
}

static double file_bytes(const struct qc_json *r)
{
    const struct qc_json *files = qc_json_find(r, "files");
    return qc_json_size(files) ? qc_json_find_number(qc_json_at(files, 0), "bytes") : (double)NAN;
}

static double milliseconds(const struct qc_json *r)
{
    return qc_json_find_number(r, "timing.benchmark.best_ms");
}

/* Adds a figure that at least one report has. */
static void add_figure(struct qc_report_difference *d, const char *name, enum qc_figure_unit unit, int better,
                       double first, double second)
{
    if (isnan(first) && isnan(second)) return;
    d->figures[d->figure_count++] =
        (struct qc_figure){.name = name, .unit = unit, .better = better, .value = {first, second}};
}

static void figures(struct qc_report_difference *d)
{
    const struct qc_json *x = d->from[0].report, *y = d->from[1].report, *score = qc_json_find(x, "accuracy"),
                         *other = qc_json_find(y, "accuracy");
    const char *metric = text_or(score, "metric", text_or(other, "metric", ""));
    const bool decibels = strcmp(metric, "psnr") == 0, own = strcmp(metric, "metric") == 0;
    const enum qc_figure_unit unit = decibels ? QC_FIGURE_DB : own ? QC_FIGURE_NUMBER : QC_FIGURE_PERCENT;
    const int better = qc_json_find(score ? score : other, "lower_is_better") ? -1 : 1;
    add_figure(d,
               decibels ? "PSNR, float"
               : own    ? "metric, float"
                        : "top-1 accuracy, float",
               unit, better, qc_json_find_number(score, "fp32"), qc_json_find_number(other, "fp32"));
    add_figure(d,
               decibels ? "PSNR, quantized"
               : own    ? "metric, quantized"
                        : "top-1 accuracy, quantized",
               unit, better, qc_json_find_number(score, "int8"), qc_json_find_number(other, "int8"));
    add_figure(d, "negative log-likelihood, quantized", QC_FIGURE_NATS, -1, qc_json_find_number(score, "int8_nll"),
               qc_json_find_number(other, "int8_nll"));
    add_figure(d, "worst output, SQNR", QC_FIGURE_DB, 1, worst_output(x), worst_output(y));
    add_figure(d, "model file", QC_FIGURE_BYTES, -1, file_bytes(x), file_bytes(y));
    add_figure(d, "multiply-adds in integers", QC_FIGURE_PERCENT, 1, qc_json_find_number(x, "integer_share"),
               qc_json_find_number(y, "integer_share"));
    add_figure(d, "multiply-adds in 8 bits or fewer", QC_FIGURE_PERCENT, 1, qc_json_find_number(x, "int8_share"),
               qc_json_find_number(y, "int8_share"));
    add_figure(d, "operators in integers", QC_FIGURE_COUNT, 0, qc_json_find_number(x, "quantized_ops"),
               qc_json_find_number(y, "quantized_ops"));
    add_figure(d, "latency", QC_FIGURE_MS, -1, milliseconds(x), milliseconds(y));
}

const char *qc_figure_text(char buf[QC_CHANGE_TEXT], enum qc_figure_unit unit, double v)
{
    if (isnan(v)) return "–";
    switch (unit) {
    case QC_FIGURE_PERCENT: snprintf(buf, QC_CHANGE_TEXT, "%.2f %%", 100 * v); break;
    case QC_FIGURE_DB: snprintf(buf, QC_CHANGE_TEXT, "%.2f dB", v); break;
    case QC_FIGURE_NATS: snprintf(buf, QC_CHANGE_TEXT, "%.4f nats", v); break;
    case QC_FIGURE_MS: snprintf(buf, QC_CHANGE_TEXT, "%.3g ms", v); break;
    case QC_FIGURE_COUNT: snprintf(buf, QC_CHANGE_TEXT, "%.0f", v); break;
    case QC_FIGURE_NUMBER: snprintf(buf, QC_CHANGE_TEXT, "%.6g", v); break;
    case QC_FIGURE_BYTES:
        if (v < 1024)
            snprintf(buf, QC_CHANGE_TEXT, "%.0f bytes", v);
        else if (v < 1024 * 1024)
            snprintf(buf, QC_CHANGE_TEXT, "%.1f KB", v / 1024);
        else
            snprintf(buf, QC_CHANGE_TEXT, "%.2f MB", v / 1024 / 1024);
        break;
    }
    return buf;
}

const char *qc_figure_change(char buf[QC_CHANGE_TEXT], const struct qc_figure *f, const char *minus)
{
    const double by = f->value[1] - f->value[0];
    const char *sign = by < 0 ? minus : "+";
    if (isnan(by)) return "–";
    if (by == 0) return "same";
    switch (f->unit) {
    case QC_FIGURE_PERCENT: snprintf(buf, QC_CHANGE_TEXT, "%s%.2f points", sign, 100 * fabs(by)); break;
    case QC_FIGURE_DB: snprintf(buf, QC_CHANGE_TEXT, "%s%.2f dB", sign, fabs(by)); break;
    case QC_FIGURE_NATS: snprintf(buf, QC_CHANGE_TEXT, "%s%.4f nats", sign, fabs(by)); break;
    case QC_FIGURE_COUNT: snprintf(buf, QC_CHANGE_TEXT, "%s%.0f", sign, fabs(by)); break;
    case QC_FIGURE_NUMBER: snprintf(buf, QC_CHANGE_TEXT, "%s%.3g", sign, fabs(by)); break;
    case QC_FIGURE_BYTES:
    case QC_FIGURE_MS:
        if (!(f->value[0] > 0)) return "–";
        snprintf(buf, QC_CHANGE_TEXT, "%s%.1f %%", sign, 100 * fabs(by) / f->value[0]);
        break;
    }
    return buf;
}

/* ---- Options and notes ---- */

static bool add_option(struct qc_differing_option *list, size_t *count, const char *name, const struct qc_json *x,
                       const struct qc_json *y, struct qc_arena *a, struct qc_status *st)
{
    if (equal(x, y)) return true;
    struct qc_differing_option *o = &list[(*count)++];
    o->name = name;
    return (o->value[0] = printed(a, x, st)) && (o->value[1] = printed(a, y, st));
}

static bool options(struct qc_report_difference *d, struct qc_arena *a, struct qc_status *st)
{
    const struct qc_json *x = qc_json_find(d->from[0].report, "options"),
                         *y = qc_json_find(d->from[1].report, "options");
    struct qc_differing_option *list =
        QC_NEW_ARRAY(a, struct qc_differing_option, qc_json_size(x) + qc_json_size(y), st);
    if (!list) return false;
    for (size_t i = 0; i < qc_json_size(x); i++) {
        const char *key = qc_json_key(x, i);
        if (!add_option(list, &d->option_count, key, qc_json_at(x, i), qc_json_get(y, key), a, st)) return false;
    }
    for (size_t i = 0; i < qc_json_size(y); i++) {
        const char *key = qc_json_key(y, i);
        if (!qc_json_get(x, key) && !add_option(list, &d->option_count, key, NULL, qc_json_at(y, i), a, st))
            return false;
    }
    d->options = list;
    return true;
}

static void add_note(struct qc_report_difference *d, bool differs, const char *words)
{
    if (differs) d->notes[d->note_count++] = words;
}

static void notes(struct qc_report_difference *d)
{
    const struct qc_json *r[2] = {d->from[0].report, d->from[1].report};
    const struct qc_json *data[2] = {qc_json_find(r[0], "data"), qc_json_find(r[1], "data")};
    const struct qc_json *accuracy[2] = {qc_json_find(r[0], "accuracy"), qc_json_find(r[1], "accuracy")};
    const bool scored = qc_json_find_text(accuracy[0], "metric") && qc_json_find_text(accuracy[1], "metric");
    add_note(d, strcmp(d->version[0], d->version[1]) != 0, "The reports were written by different versions of qcalib.");
    add_note(d, !equal(qc_json_find(data[0], "sha256"), qc_json_find(data[1], "sha256")),
             "The calibration data differ, so SQNR was measured on different samples.");
    add_note(d, !equal(qc_json_find(r[0], "measured_samples"), qc_json_find(r[1], "measured_samples")),
             "SQNR was measured on different numbers of samples.");
    add_note(d, !qc_json_find_text(accuracy[0], "metric") != !qc_json_find_text(accuracy[1], "metric"),
             "Only one of the reports has accuracy (--eval).");
    add_note(d,
             scored && (!equal(qc_json_find(accuracy[0], "metric"), qc_json_find(accuracy[1], "metric")) ||
                        !equal(qc_json_find(accuracy[0], "fp32"), qc_json_find(accuracy[1], "fp32")) ||
                        !equal(qc_json_find(accuracy[0], "samples"), qc_json_find(accuracy[1], "samples"))),
             "Accuracy was measured on different labelled data.");
    add_note(d, isnan(milliseconds(r[0])) != isnan(milliseconds(r[1])),
             "Only one of the reports has a latency (--benchmark).");
}

/* ---- Layers ---- */

struct named {
    const char *name, *kind;
    size_t at;
    const struct qc_json *layer;
};

/* Orders by kind and name, then by position, so that the k-th layers of one name are compared. */
static int compare(const void *p, const void *q)
{
    const struct named *x = p, *y = q;
    int by = strcmp(x->kind, y->kind);
    if (!by) by = strcmp(x->name, y->name);
    return by ? by : (x->at > y->at) - (x->at < y->at);
}

static struct named *sorted(size_t *count, const struct qc_json *report, struct qc_arena *a, struct qc_status *st)
{
    const struct qc_json *layers = qc_json_find(report, "layers");
    struct named *list = QC_NEW_ARRAY(a, struct named, qc_json_size(layers) + 1, st);
    *count = qc_json_size(layers);
    for (size_t i = 0; list && i < *count; i++) {
        const struct qc_json *l = qc_json_at(layers, i);
        list[i] = (struct named){.name = qc_json_find_text(l, "name"),
                                 .kind = qc_json_find_text(l, "kind"),
                                 .at = i,
                                 .layer = l};
    }
    if (list) qsort(list, *count, sizeof *list, compare);
    return list;
}

static double sqnr(const struct qc_json *l)
{
    const double all = qc_json_find_number(l, "sqnr_db");
    return isnan(all) ? qc_json_find_number(l, "sqnr_alone_db") : all;
}

/* Returns true if the layers differ; *out then says how. */
static bool differ(struct qc_differing_layer *out, const struct named *x, const struct named *y)
{
    const struct qc_json *l[2] = {x->layer, y->layer};
    *out = (struct qc_differing_layer){.name = x->name, .kind = x->kind, .op = qc_json_find_text(l[1], "op")};
    for (int k = 0; k < 2; k++) {
        const struct qc_json *chosen = qc_json_find(l[k], "chosen");
        out->type[k] = qc_type_word(qc_json_find_text(l[k], "type"));
        out->method[k] = text_or(l[k], "method", "?");
        out->db[k] = sqnr(l[k]);
        out->low[k] = qc_json_find_number(chosen, "min");
        out->high[k] = qc_json_find_number(chosen, "max");
    }
    out->type_changed = strcmp(out->type[0], out->type[1]) != 0;
    out->method_changed = strcmp(out->method[0], out->method[1]) != 0;
    out->parameters_changed = !equal(qc_json_find(l[0], "scale"), qc_json_find(l[1], "scale")) ||
                              !equal(qc_json_find(l[0], "zero_point"), qc_json_find(l[1], "zero_point"));
    out->rounding_changed = strcmp(text_or(qc_json_find(l[0], "weight_rounding"), "method", "nearest"),
                                   text_or(qc_json_find(l[1], "weight_rounding"), "method", "nearest")) != 0;
    const double by = fabs(out->db[1] - out->db[0]);
    return out->type_changed || out->method_changed || out->parameters_changed || out->rounding_changed ||
           isnan(out->db[0]) != isnan(out->db[1]) || by >= same_db;
}

static int by_change(const void *p, const void *q)
{
    const struct qc_differing_layer *x = p, *y = q;
    const double a = fabs(x->db[1] - x->db[0]), b = fabs(y->db[1] - y->db[0]);
    if (isnan(a) != isnan(b)) return isnan(a) ? 1 : -1;
    if (!isnan(a) && a != b) return a < b ? 1 : -1;
    const int kind = strcmp(x->kind, y->kind);
    return kind ? kind : strcmp(x->name, y->name);
}

static void add_single(struct qc_single_layer *list, size_t *count, const struct named *n)
{
    list[(*count)++] = (struct qc_single_layer){.name = n->name,
                                                .op = qc_json_find_text(n->layer, "op"),
                                                .kind = n->kind,
                                                .type = qc_type_word(qc_json_find_text(n->layer, "type"))};
}

static bool layers(struct qc_report_difference *d, struct qc_arena *a, struct qc_status *st)
{
    size_t count[2], i = 0, k = 0;
    struct named *x = sorted(&count[0], d->from[0].report, a, st), *y = sorted(&count[1], d->from[1].report, a, st);
    struct qc_single_layer *single[2] = {QC_NEW_ARRAY(a, struct qc_single_layer, count[0] + 1, st),
                                         QC_NEW_ARRAY(a, struct qc_single_layer, count[1] + 1, st)};
    struct qc_differing_layer *list = QC_NEW_ARRAY(a, struct qc_differing_layer, count[0] + 1, st);
    if (!x || !y || !single[0] || !single[1] || !list) return false;
    while (i < count[0] || k < count[1]) {
        int by = i == count[0] ? 1 : k == count[1] ? -1 : strcmp(x[i].kind, y[k].kind);
        if (!by) by = strcmp(x[i].name, y[k].name);
        if (by < 0)
            add_single(single[0], &d->single_count[0], &x[i++]);
        else if (by > 0)
            add_single(single[1], &d->single_count[1], &y[k++]);
        else {
            d->layer_count++;
            d->differing_count += differ(&list[d->differing_count], &x[i++], &y[k++]);
        }
    }
    qsort(list, d->differing_count, sizeof *list, by_change);
    d->differing = list;
    for (int n = 0; n < 2; n++) d->single[n] = single[n];
    return true;
}

const char *qc_layer_change(struct qc_arena *a, const struct qc_differing_layer *l, const char *arrow,
                            struct qc_status *st)
{
    const char *type = l->type_changed ? qc_arena_printf(a, st, "type %s%s%s", l->type[0], arrow, l->type[1]) : "";
    const char *method =
        l->method_changed ? qc_arena_printf(a, st, "method %s%s%s", l->method[0], arrow, l->method[1]) : "";
    if (!type || !method) return NULL;
    const bool any = *type || *method || l->parameters_changed || l->rounding_changed;
    const bool range = l->parameters_changed && !l->type_changed;
    return qc_arena_printf(a, st, "%s%s%s%s%s%s%s%s", type, *type && *method ? ", " : "", method,
                           range && (*type || *method) ? ", " : "", range ? "scale or zero point" : "",
                           l->rounding_changed && (*type || *method || range) ? ", " : "",
                           l->rounding_changed ? "rounding" : "", any ? "" : "only its input or weight values");
}

/* ---- Verdict ---- */

static const struct qc_figure *figure(const struct qc_report_difference *d, const char *part)
{
    for (size_t i = 0; i < d->figure_count; i++)
        if (strstr(d->figures[i].name, part) && !isnan(d->figures[i].value[1] - d->figures[i].value[0]))
            return &d->figures[i];
    return NULL;
}

/* "Accuracy +0.33 points, file −12.0 %; 14 of 42 layers differ." */
static bool verdict(struct qc_report_difference *d, struct qc_arena *a, struct qc_status *st)
{
    static const struct {
        const char *part, *words;
    } named[] = {{"accuracy, quantized", "Accuracy"},
                 {"PSNR, quantized", "PSNR"},
                 {"worst output", "Output SQNR"},
                 {"model file", "File size"},
                 {"latency", "Latency"}};
    const char *words = "";
    for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
        const struct qc_figure *f = figure(d, named[i].part);
        char buf[QC_CHANGE_TEXT];
        if (!f) continue;
        words = qc_arena_printf(a, st, "%s%s%s: %s", words, *words ? "; " : "", named[i].words,
                                qc_figure_change(buf, f, "−"));
        if (!words) return false;
    }
    const size_t single = d->single_count[0] + d->single_count[1];
    words = qc_arena_printf(a, st, "%s%s%zu of %zu layers differ", words, *words ? ". " : "", d->differing_count,
                            d->layer_count);
    if (words && single)
        words = qc_arena_printf(a, st, "%s, and %zu %s quantized in one of the reports only", words, single,
                                single == 1 ? "is" : "are");
    d->verdict = words ? qc_arena_printf(a, st, "%s.", words) : NULL;
    return d->verdict != NULL;
}

bool qc_report_difference(struct qc_report_difference *out, const struct qc_report_source from[2], struct qc_arena *a,
                          struct qc_status *st)
{
    struct qc_report_difference d = {.from = {from[0], from[1]}};
    if (!check_members(&from[0], st) || !check_members(&from[1], st) || !check_models(from, st)) return false;
    for (int k = 0; k < 2; k++) d.version[k] = qc_json_find_text(from[k].report, "version");
    d.model = text_or(qc_json_find(from[1].report, "model"), "file", "?");
    figures(&d);
    notes(&d);
    if (!options(&d, a, st) || !layers(&d, a, st) || !verdict(&d, a, st)) return false;
    *out = d;
    return true;
}

/* ---- JSON ---- */

static struct qc_json *pair(struct qc_json *x, struct qc_json *y)
{
    struct qc_json *list = qc_json_array();
    qc_json_add(list, x);
    qc_json_add(list, y);
    return list;
}

static struct qc_json *layer_json(const struct qc_differing_layer *l)
{
    struct qc_json *o = qc_json_object(), *what = qc_json_array();
    qc_json_put(o, "name %s op %s kind %s", l->name, l->op, l->kind);
    qc_json_set(o, "sqnr_db", pair(qc_json_number(l->db[0]), qc_json_number(l->db[1])));
    qc_json_set(o, "change_db", qc_json_number(l->db[1] - l->db[0]));
    qc_json_set(o, "type", pair(qc_json_string(l->type[0]), qc_json_string(l->type[1])));
    qc_json_set(o, "method", pair(qc_json_string(l->method[0]), qc_json_string(l->method[1])));
    qc_json_set(o, "min", pair(qc_json_number(l->low[0]), qc_json_number(l->low[1])));
    qc_json_set(o, "max", pair(qc_json_number(l->high[0]), qc_json_number(l->high[1])));
    if (l->type_changed) qc_json_add(what, qc_json_string("type"));
    if (l->method_changed) qc_json_add(what, qc_json_string("method"));
    if (l->parameters_changed) qc_json_add(what, qc_json_string("parameters"));
    if (l->rounding_changed) qc_json_add(what, qc_json_string("rounding"));
    qc_json_set(o, "changed", what);
    return o;
}

static const char *const units[] = {
    [QC_FIGURE_PERCENT] = "share", [QC_FIGURE_DB] = "dB",  [QC_FIGURE_NATS] = "nats", [QC_FIGURE_BYTES] = "bytes",
    [QC_FIGURE_MS] = "ms",         [QC_FIGURE_COUNT] = "", [QC_FIGURE_NUMBER] = "",
};

struct qc_json *qc_report_difference_json(const struct qc_report_difference *d)
{
    struct qc_json *root = qc_json_object(), *reports = qc_json_array(), *list = qc_json_array(), *o;
    for (int k = 0; k < 2; k++) qc_json_add(reports, QC_JSON("file %s version %s", d->from[k].file, d->version[k]));
    qc_json_set(root, "reports", reports);
    qc_json_put(root, "model %s verdict %s", d->model, d->verdict);
    for (size_t i = 0; i < d->figure_count; i++) {
        const struct qc_figure *f = &d->figures[i];
        qc_json_add(list, o = qc_json_object());
        qc_json_put(o, "name %s unit %s better %d", f->name, units[f->unit], f->better);
        qc_json_set(o, "values", pair(qc_json_number(f->value[0]), qc_json_number(f->value[1])));
        qc_json_set(o, "change", qc_json_number(f->value[1] - f->value[0]));
    }
    qc_json_set(root, "figures", list);
    list = qc_json_array();
    for (size_t i = 0; i < d->option_count; i++) {
        const struct qc_json *x = qc_json_get(qc_json_find(d->from[0].report, "options"), d->options[i].name),
                             *y = qc_json_get(qc_json_find(d->from[1].report, "options"), d->options[i].name);
        qc_json_add(list, o = qc_json_object());
        qc_json_set(o, "name", qc_json_string(d->options[i].name));
        qc_json_set(o, "values", pair(qc_json_copy(x), qc_json_copy(y)));
    }
    qc_json_set(root, "options", list);
    list = qc_json_array();
    for (size_t i = 0; i < d->differing_count; i++) qc_json_add(list, layer_json(&d->differing[i]));
    qc_json_set(root, "layers_in_both", qc_json_whole(d->layer_count));
    qc_json_set(root, "layers", list);
    for (int k = 0; k < 2; k++) {
        list = qc_json_array();
        for (size_t i = 0; i < d->single_count[k]; i++) qc_json_add(list, qc_json_string(d->single[k][i].name));
        qc_json_set(root, k ? "only_in_second" : "only_in_first", list);
    }
    qc_json_set(root, "notes", qc_json_strings(d->notes, d->note_count));
    return root;
}

struct qc_json *qc_report_difference_record(const struct qc_report_difference *d, const char *command,
                                            const char *version)
{
    struct qc_json *o = qc_report_difference_json(d), *records = qc_json_array();
    for (int k = 0; k < 2; k++) qc_json_add(records, qc_json_copy(d->from[k].report));
    qc_json_put(o, "kind %s command %s version %s", "difference", command, version);
    qc_json_set(o, "model", QC_JSON("file %s", d->model));
    qc_json_set(o, "verdict", QC_JSON("text %s", d->verdict));
    qc_json_set(o, "records", records);
    return o;
}
