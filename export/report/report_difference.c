// SPDX-License-Identifier: Apache-2.0
#include "export/report/report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/scope.h"
#include "base/words.h"
#include "graph/types/dtype.h"

/* Smaller changes of an SQNR count as none. */
static const double same_db = 0.01;

/* ---- Members of a file with unchecked content ---- */

static const char *text_or(const struct qc_json *v, const char *key, const char *other)
{
    const char *s = qc_json_find_text(v, key);
    return s ? s : other;
}

/* Returns true if both print the same. If memory is out they count as different. */
static bool equal(const struct qc_json *x, const struct qc_json *y)
{
    if (!x || !y) return x == y;
    if (qc_json_kind(x) != qc_json_kind(y) || qc_json_size(x) != qc_json_size(y)) return false;
    QC_FREED char *first = qc_json_print(x, 0), *second = first ? qc_json_print(y, 0) : NULL;
    return second && strcmp(first, second) == 0;
}

/* Returns the name of a type as options spell it: "uint8" for "u8"; `type` itself if it is unknown. */
static const char *type_word(const char *type)
{
    const enum qc_dtype t = qc_dtype_from_name(type);
    return t == QC_NONE ? type : qc_dtype_long_name(t);
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

static struct qc_json *numbers(double x, double y)
{
    return qc_json_pair(qc_json_number(x), qc_json_number(y));
}

static double at(const struct qc_json *v, const char *key, size_t k)
{
    const struct qc_json *list = qc_json_find(v, key);
    return list ? qc_json_value(qc_json_at(list, k)) : (double)NAN;
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
static void add_figure(struct qc_json *list, const char *name, const char *unit, int better, double first,
                       double second)
{
    if (isnan(first) && isnan(second)) return;
    struct qc_json *o = QC_JSON("name %s unit %s better %d", name, unit, better);
    qc_json_set(o, "values", numbers(first, second));
    qc_json_add(list, qc_json_put(o, "change %g", second - first));
}

static struct qc_json *figures(const struct qc_report_source from[2])
{
    static const struct {
        const char *name, *unit, *path;
        int better;
        double (*value)(const struct qc_json *r);
    } all[] = {{"negative log-likelihood, quantized", "nats", "accuracy.int8_nll", -1, NULL},
               {"worst output, SQNR", "dB", NULL, 1, worst_output},
               {"model file", "bytes", NULL, -1, file_bytes},
               {"multiply-adds in integers", "share", "integer_share", 1, NULL},
               {"multiply-adds in 8 bits or fewer", "share", "int8_share", 1, NULL},
               {"operators in integers", "", "quantized_ops", 0, NULL},
               {"estimated time, relative to float", "share", "cost.latency", -1, NULL},
               {"latency", "ms", NULL, -1, milliseconds}};
    const struct qc_json *x = from[0].report, *y = from[1].report;
    struct qc_json *list = qc_json_array();
    const char *metric = text_or(x, "accuracy.metric", text_or(y, "accuracy.metric", ""));
    const bool psnr = strcmp(metric, "psnr") == 0, own = strcmp(metric, "metric") == 0,
               less = qc_json_find_number(x, "accuracy.lower_is_better") > 0 ||
                      qc_json_find_number(y, "accuracy.lower_is_better") > 0;
    for (int k = 0; k < 2; k++) {
        const char *path = k ? "accuracy.int8" : "accuracy.fp32";
        char name[64];
        snprintf(name, sizeof name, "%s, %s",
                 psnr  ? "PSNR"
                 : own ? "metric"
                       : "top-1 accuracy",
                 k ? "quantized" : "float");
        add_figure(list, name,
                   psnr  ? "dB"
                   : own ? "number"
                         : "share",
                   less ? -1 : 1, qc_json_find_number(x, path), qc_json_find_number(y, path));
    }
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        add_figure(list, all[i].name, all[i].unit, all[i].better,
                   all[i].value ? all[i].value(x) : qc_json_find_number(x, all[i].path),
                   all[i].value ? all[i].value(y) : qc_json_find_number(y, all[i].path));
    return list;
}

/* How the figures of a unit are written. change: NULL is in percent of the first value. */
static const struct unit {
    const char *name, *value, *change;
    int decimals; /* negative: so many digits */
    double factor;
} units[] = {{"share", " %", " points", 2, 100},
             {"dB", " dB", " dB", 2, 1},
             {"nats", " nats", " nats", 4, 1},
             {"number", "", "", -6, 1},
             {"bytes", NULL, NULL, 0, 1},
             {"ms", " ms", NULL, -3, 1},
             {"", "", "", 0, 1}};

static const struct unit *unit_of(const struct qc_json *figure)
{
    const struct unit *u = units;
    while (*u->name && strcmp(text_or(figure, "unit", ""), u->name) != 0) u++;
    return u;
}

const char *qc_figure_text(char buf[QC_CHANGE_TEXT], const struct qc_json *figure, size_t k)
{
    const double v = at(figure, "values", k);
    const struct unit *u = unit_of(figure);
    if (isnan(v)) return "–";
    if (!u->value)
        qc_bytes_text(buf, v > 0 ? (uint64_t)v : 0);
    else
        snprintf(buf, QC_CHANGE_TEXT, u->decimals < 0 ? "%.*g%s" : "%.*f%s", abs(u->decimals), u->factor * v, u->value);
    return buf;
}

const char *qc_figure_change(char buf[QC_CHANGE_TEXT], const struct qc_json *figure, const char *minus)
{
    const double by = qc_json_find_number(figure, "change"), from = at(figure, "values", 0);
    const struct unit *u = unit_of(figure);
    const char *sign = by < 0 ? minus : "+";
    if (by == 0) return "same";
    if (isnan(by) || (!u->change && !(from > 0))) return "–";
    if (u->change)
        snprintf(buf, QC_CHANGE_TEXT, u->decimals < 0 ? "%s%.*g%s" : "%s%.*f%s", sign, abs(u->decimals),
                 u->factor * fabs(by), u->change);
    else
        snprintf(buf, QC_CHANGE_TEXT, "%s%.1f %%", sign, 100 * fabs(by) / from);
    return buf;
}

/* ---- Options and notes ---- */

static void add_option(struct qc_json *list, const char *name, const struct qc_json *x, const struct qc_json *y)
{
    if (equal(x, y)) return;
    struct qc_json *o = QC_JSON("name %s", name);
    qc_json_set(o, "values", qc_json_pair(qc_json_copy(x), qc_json_copy(y)));
    qc_json_add(list, o);
}

static bool same(const struct qc_report_source from[2], const char *path)
{
    return equal(qc_json_find(from[0].report, path), qc_json_find(from[1].report, path));
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

/* SQNR of the tensor, or of its own rounding if only that was measured. */
static double sqnr(const struct qc_json *l)
{
    const double all = qc_json_find_number(l, "sqnr_db");
    return isnan(all) ? qc_json_find_number(l, "sqnr_alone_db") : all;
}

/* SQNR of the outputs with only the operator of the tensor quantized. */
static double effect(const struct qc_json *l)
{
    return qc_json_find_number(l, "output_sqnr_db");
}

/* Two layers of one name and how they differ. */
struct differing {
    const struct named *x, *y;
    double by;    /* change of their effects, dB; NaN: not measured */
    double noise; /* the same of noise / signal, by which layers are ordered: 20 dB of 60 matter less than 2 dB of 20 */
    bool type, method, parameters, rounding;
};

/* Returns true if the layers differ; *out then says how. */
static bool differ(struct differing *out, const struct named *x, const struct named *y)
{
    const struct qc_json *l = x->layer, *m = y->layer;
    const struct qc_report_source both[2] = {{NULL, l}, {NULL, m}};
    *out = (struct differing){
        .x = x,
        .y = y,
        .by = effect(m) - effect(l),
        .noise = fabs(pow(10, -effect(m) / 10) - pow(10, -effect(l) / 10)),
        .type = !same(both, "type"),
        .method = strcmp(text_or(l, "method", "?"), text_or(m, "method", "?")) != 0,
        .parameters = !same(both, "scale") || !same(both, "zero_point"),
        .rounding = strcmp(text_or(l, "weight_rounding.method", "nearest"),
                           text_or(m, "weight_rounding.method", "nearest")) != 0,
    };
    return out->type || out->method || out->parameters || out->rounding || isnan(sqnr(l)) != isnan(sqnr(m)) ||
           fabs(sqnr(m) - sqnr(l)) >= same_db;
}

static int by_change(const void *p, const void *q)
{
    const struct differing *x = p, *y = q;
    const double a = x->noise, b = y->noise;
    if (isnan(a) != isnan(b)) return isnan(a) ? 1 : -1;
    if (!isnan(a) && a != b) return a < b ? 1 : -1;
    return compare(x->x, y->x);
}

/* Adds "layers_in_both", "layers", "only_in_first" and "only_in_second". */
static bool add_layers(struct qc_json *to, const struct qc_report_source from[2], struct qc_arena *a,
                       struct qc_status *st)
{
    size_t count[2], i = 0, k = 0, both = 0, differing = 0;
    struct named *x = sorted(&count[0], from[0].report, a, st), *y = sorted(&count[1], from[1].report, a, st);
    struct differing *list = QC_NEW_ARRAY(a, struct differing, count[0] + 1, st);
    if (!x || !y || !list) return false;
    struct qc_json *layers = qc_json_array(), *only[2] = {qc_json_array(), qc_json_array()};
    while (i < count[0] || k < count[1]) {
        int by = i == count[0] ? 1 : k == count[1] ? -1 : strcmp(x[i].kind, y[k].kind);
        if (!by) by = strcmp(x[i].name, y[k].name);
        if (by < 0)
            qc_json_add(only[0], qc_json_string(x[i++].name));
        else if (by > 0)
            qc_json_add(only[1], qc_json_string(y[k++].name));
        else {
            both++;
            differing += differ(&list[differing], &x[i++], &y[k++]);
        }
    }
    qsort(list, differing, sizeof *list, by_change);
    for (size_t n = 0; n < differing; n++) {
        const struct differing *d = &list[n];
        const struct qc_json *l = d->x->layer, *m = d->y->layer;
        struct qc_json *o = QC_JSON("name %s op %s kind %s", d->x->name, qc_json_find_text(m, "op"), d->x->kind),
                       *what = qc_json_array();
        qc_json_set(o, "output_sqnr_db", numbers(effect(l), effect(m)));
        qc_json_set(o, "sqnr_db", numbers(sqnr(l), sqnr(m)));
        qc_json_put(o, "change_db %g", d->by);
        qc_json_set(o, "type",
                    qc_json_pair(qc_json_string(type_word(qc_json_find_text(l, "type"))),
                                 qc_json_string(type_word(qc_json_find_text(m, "type")))));
        qc_json_set(o, "method",
                    qc_json_pair(qc_json_string(text_or(l, "method", "?")), qc_json_string(text_or(m, "method", "?"))));
        qc_json_set(o, "min", numbers(qc_json_find_number(l, "chosen.min"), qc_json_find_number(m, "chosen.min")));
        qc_json_set(o, "max", numbers(qc_json_find_number(l, "chosen.max"), qc_json_find_number(m, "chosen.max")));
        if (d->type) qc_json_add(what, qc_json_string("type"));
        if (d->method) qc_json_add(what, qc_json_string("method"));
        if (d->parameters) qc_json_add(what, qc_json_string("parameters"));
        if (d->rounding) qc_json_add(what, qc_json_string("rounding"));
        qc_json_set(o, "changed", what);
        qc_json_add(layers, o);
    }
    qc_json_put(to, "layers_in_both %zu", both);
    qc_json_set(to, "layers", layers);
    qc_json_set(to, "only_in_first", only[0]);
    qc_json_set(to, "only_in_second", only[1]);
    return true;
}

static const char *listed(const struct qc_json *v, const char *key, size_t k)
{
    return qc_json_text(qc_json_at(qc_json_find(v, key), k));
}

const char *qc_layer_change(struct qc_arena *a, const struct qc_json *layer, struct qc_status *st)
{
    const struct qc_json *changed = qc_json_find(layer, "changed");
    const char *words = "";
    bool type = false;
    for (size_t i = 0; words && i < qc_json_size(changed); i++) {
        const char *what = listed(layer, "changed", i), *between = *words ? ", " : "";
        const bool is_type = strcmp(what, "type") == 0;
        type = type || is_type;
        if (is_type || strcmp(what, "method") == 0)
            words = qc_arena_printf(a, st, "%s%s%s %s -> %s", words, between, what, listed(layer, what, 0),
                                    listed(layer, what, 1));
        else if (strcmp(what, "parameters") != 0)
            words = qc_arena_printf(a, st, "%s%s%s", words, between, what);
        else if (!type)
            words = qc_arena_printf(a, st, "%s%sscale or zero point", words, between);
    }
    return words && !*words ? "only its input or weight values" : words;
}

/* ---- Verdict ---- */

/* "Accuracy +0.33 points, file −12.0 %; 14 of 42 layers differ." */
static const char *verdict(const struct qc_json *d, struct qc_arena *a, struct qc_status *st)
{
    static const struct {
        const char *part, *words;
    } named[] = {{"accuracy, quantized", "Accuracy"},
                 {"PSNR, quantized", "PSNR"},
                 {"worst output", "Output SQNR"},
                 {"model file", "File size"},
                 {"latency", "Latency"}};
    const struct qc_json *all = qc_json_find(d, "figures");
    const char *words = "";
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        for (size_t k = 0; words && k < qc_json_size(all); k++) {
            const struct qc_json *f = qc_json_at(all, k);
            char buf[QC_CHANGE_TEXT];
            if (!strstr(qc_json_find_text(f, "name"), named[i].part) || !qc_json_find(f, "change")) continue;
            words = qc_arena_printf(a, st, "%s%s%s: %s", words, *words ? "; " : "", named[i].words,
                                    qc_figure_change(buf, f, "−"));
        }
    const size_t single =
        qc_json_size(qc_json_find(d, "only_in_first")) + qc_json_size(qc_json_find(d, "only_in_second"));
    if (words)
        words = qc_arena_printf(a, st, "%s%s%zu of %.0f layers differ", words, *words ? ". " : "",
                                qc_json_size(qc_json_find(d, "layers")), qc_json_find_number(d, "layers_in_both"));
    if (words && single)
        words = qc_arena_printf(a, st, "%s, and %zu %s quantized in one of the reports only", words, single,
                                single == 1 ? "is" : "are");
    return words ? qc_arena_printf(a, st, "%s.", words) : NULL;
}

bool qc_report_difference(struct qc_json **out, const struct qc_report_source from[2], struct qc_arena *a,
                          struct qc_status *st)
{
    if (!check_members(&from[0], st) || !check_members(&from[1], st)) return false;
    const struct qc_json *model[2] = {qc_json_find(from[0].report, "model"), qc_json_find(from[1].report, "model")};
    const char *sha[2] = {qc_json_find_text(model[0], "sha256"), qc_json_find_text(model[1], "sha256")};
    if (strcmp(sha[0], sha[1]) != 0)
        return qc_fail(st, QC_BAD_INPUT,
                       "the reports are of different models: %s of '%s' (sha256 %.12s), %s of '%s' (sha256 %.12s)",
                       from[0].file, text_or(model[0], "file", "?"), sha[0], from[1].file,
                       text_or(model[1], "file", "?"), sha[1]);
    struct qc_json *d = qc_json_object();
    qc_json_set(d, "reports",
                qc_json_pair(QC_JSON("file %s version %s", from[0].file, qc_json_find_text(from[0].report, "version")),
                             QC_JSON("file %s version %s", from[1].file,
                                     qc_json_find_text(from[1].report, "version"))));
    qc_json_put(d, "model %s verdict %s", text_or(from[1].report, "model.file", "?"), "");
    qc_json_set(d, "figures", figures(from));
    const struct qc_json *x = qc_json_find(from[0].report, "options"), *y = qc_json_find(from[1].report, "options");
    struct qc_json *options = qc_json_array();
    for (size_t i = 0; i < qc_json_size(x); i++)
        add_option(options, qc_json_key(x, i), qc_json_at(x, i), qc_json_get(y, qc_json_key(x, i)));
    for (size_t i = 0; i < qc_json_size(y); i++)
        if (!qc_json_get(x, qc_json_key(y, i))) add_option(options, qc_json_key(y, i), NULL, qc_json_at(y, i));
    qc_json_set(d, "options", options);
    const char *words = add_layers(d, from, a, st) && qc_json_is_whole(d) ? verdict(d, a, st) : NULL;
    if (words) qc_json_set(d, "verdict", qc_json_string(words));
    x = from[0].report;
    y = from[1].report;
    const bool first = qc_json_find_text(x, "accuracy.metric"), second = qc_json_find_text(y, "accuracy.metric");
    const struct {
        bool differs;
        const char *words;
    } all[] = {
        {!same(from, "version"), "The reports were written by different versions of qcalib."},
        {!same(from, "data.sha256"), "The calibration data differ, so SQNR was measured on different samples."},
        {!same(from, "measured_samples"), "SQNR was measured on different numbers of samples."},
        {first != second, "Only one of the reports has accuracy (--eval)."},
        {first && second &&
             !(same(from, "accuracy.metric") && same(from, "accuracy.fp32") && same(from, "accuracy.samples")),
         "Accuracy was measured on different labelled data."},
        {isnan(milliseconds(x)) != isnan(milliseconds(y)), "Only one of the reports has a latency (--benchmark)."},
    };
    struct qc_json *notes = qc_json_array();
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].differs) qc_json_add(notes, qc_json_string(all[i].words));
    qc_json_set(d, "notes", notes);
    if (!words || !qc_json_is_whole(d)) {
        qc_json_free(d);
        return qc_fail_memory(st, 1); /* unless a reason is given already */
    }
    *out = d;
    return true;
}

void qc_report_difference_record(struct qc_json *d, const struct qc_report_source from[2], const char *command,
                                 const char *version)
{
    struct qc_json *model = QC_JSON("file %s", qc_json_find_text(d, "model")),
                   *words = QC_JSON("text %s", qc_json_find_text(d, "verdict"));
    qc_json_put(d, "kind %s command %s version %s", "difference", command, version);
    qc_json_set(d, "model", model);
    qc_json_set(d, "verdict", words);
    qc_json_set(d, "records", qc_json_pair(qc_json_copy(from[0].report), qc_json_copy(from[1].report)));
}
