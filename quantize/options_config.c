// SPDX-License-Identifier: Apache-2.0
/* Options as JSON: read from --config, written into the report. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/closest.h"
#include "quantize/options.h"

enum { TEXT = 1024 };

static bool expected(const char *file, const char *key, const char *what, struct qc_status *st)
{
    return qc_fail(st, QC_USAGE, "%s: \"%s\" must be %s", file, key, what);
}

/* Value of a key as the word of a command line; false when it is neither text nor number. */
static bool as_text(char text[TEXT], const struct qc_json *v)
{
    const char *s = qc_json_text(v);
    if (s) return strlen(s) < TEXT && qc_text(text, TEXT, "%s", s);
    if (qc_json_kind(v) != QC_JSON_NUMBER) return false;
    double d = qc_json_value(v);
    qc_text(text, TEXT, fabs(d) < 9e15 && d == floor(d) ? "%.0f" : "%.17g", d);
    return true;
}

static bool set_flag(const struct qc_option_set *o, unsigned option, const struct qc_json *v, const char *file,
                     struct qc_status *st)
{
    const struct qc_option_info *i = o->info(option);
    if (qc_json_kind(v) != QC_JSON_BOOL) return expected(file, i->name, "true or false", st);
    return qc_json_value(v) == 0 || o->set(o->user, option, NULL, st);
}

static bool set_list(const struct qc_option_set *o, unsigned option, const struct qc_json *v, const char *file,
                     struct qc_status *st)
{
    const struct qc_option_info *i = o->info(option);
    char text[TEXT], joined[TEXT];
    size_t n = qc_json_size(v), used = 0;
    for (size_t k = 0; k < n; k++) {
        if (!as_text(text, qc_json_at(v, k))) return expected(file, i->name, "an array of texts", st);
        if (i->kind != QC_KIND_CHOICES && !o->set(o->user, option, text, st)) return qc_where(st, "%s", file);
        if (i->kind != QC_KIND_CHOICES) continue;
        if (used + strlen(text) + 2 > TEXT) return expected(file, i->name, "shorter", st);
        qc_text(joined + used, (unsigned)(TEXT - used), "%s%s", k ? "," : "", text);
        used = strlen(joined);
    }
    if (i->kind == QC_KIND_CHOICES && n && !o->set(o->user, option, joined, st)) return qc_where(st, "%s", file);
    return true;
}

static bool set_one(const struct qc_option_set *o, unsigned option, const struct qc_json *v, const char *file,
                    struct qc_status *st)
{
    const struct qc_option_info *i = o->info(option);
    char text[TEXT];
    if (qc_json_kind(v) == QC_JSON_NULL) return true;
    if (!i->argument || (i->bare && qc_json_kind(v) == QC_JSON_BOOL)) return set_flag(o, option, v, file, st);
    bool many = i->kind == QC_KIND_LIST || i->kind == QC_KIND_CHOICES || i->kind == QC_KIND_BY_NAME;
    if (many && qc_json_kind(v) == QC_JSON_ARRAY) return set_list(o, option, v, file, st);
    if (!as_text(text, v))
        return expected(file, i->name, many ? "a text or an array of texts" : "a text or a number", st);
    return o->set(o->user, option, text, st) || qc_where(st, "%s", file);
}

static bool unknown_key(const struct qc_option_set *o, const char *key, const char *file, struct qc_status *st)
{
    struct qc_arena *a = qc_arena_new();
    const char **names = a ? QC_NEW_ARRAY(a, const char *, o->count, st) : NULL, *meant = NULL;
    for (unsigned k = 0; names && k < o->count; k++) names[k] = o->info(k)->name;
    if (names) meant = qc_closest(key, names, o->count);
    qc_fail(st, QC_USAGE,
            "%s: unknown key \"%s\"%s%s%s; keys are option names without the dashes, see 'qcalib help quantize'", file,
            key, meant ? "; did you mean \"" : "", meant ? meant : "", meant ? "\"?" : "");
    qc_arena_free(a);
    return false;
}

bool qc_option_set_configure(const struct qc_option_set *o, const struct qc_json *config, const char *file,
                             struct qc_status *st)
{
    if (qc_json_kind(config) != QC_JSON_OBJECT)
        return qc_fail(st, QC_USAGE, "%s: a configuration is a JSON object of options", file);
    for (size_t k = 0; k < qc_json_size(config); k++) {
        const char *key = qc_json_key(config, k);
        unsigned option = 0;
        while (option < o->count && strcmp(o->info(option)->name, key) != 0) option++;
        if (option == o->count) return unknown_key(o, key, file, st);
        if (o->info(option)->not_in_file)
            return qc_fail(st, QC_USAGE, "%s: \"%s\" has no place in a configuration", file, key);
        if (o->takes(o->user, option) && !set_one(o, option, qc_json_at(config, k), file, st)) return false;
    }
    return true;
}

static const struct qc_option_info *info(unsigned option)
{
    return qc_option_info((enum qc_option)option);
}

static bool takes(const void *user, unsigned option)
{
    const struct qc_options *o = user;
    return info(option)->commands & 1u << o->command;
}

static bool set(void *user, unsigned option, const char *value, struct qc_status *st)
{
    return qc_options_set(user, (enum qc_option)option, value, st);
}

bool qc_options_configure(struct qc_options *o, const struct qc_json *config, const char *file, struct qc_status *st)
{
    const struct qc_option_set all = {.count = QC_OPTION_COUNT, .info = info, .takes = takes, .set = set, .user = o};
    return qc_option_set_configure(&all, config, file, st);
}

static struct qc_json *list_json(const struct qc_text_list *list)
{
    struct qc_json *v = qc_json_array();
    for (size_t k = 0; k < list->count; k++) qc_json_add(v, qc_json_string(list->items[k]));
    return v;
}

static struct qc_json *value_json(const struct qc_options *o, enum qc_option option)
{
    const struct qc_option_info *i = qc_option_info(option);
    const void *field = (const char *)o + i->field;
    switch (i->kind) {
    case QC_KIND_FLAG: return qc_json_bool(*(const bool *)field);
    case QC_KIND_SET: return NULL;
    case QC_KIND_TEXT:
    case QC_KIND_SPEC:
    case QC_KIND_CHOICE: return qc_json_string(*(const char *const *)field);
    case QC_KIND_LIST:
    case QC_KIND_CHOICES: return list_json(field);
    case QC_KIND_BY_NAME: {
        const struct qc_text_list *list = field;
        return list->count == 1 ? qc_json_string(list->items[0]) : list_json(list);
    }
    case QC_KIND_COUNT:
        return *(const uint64_t *)field ? qc_json_integer((int64_t) * (const uint64_t *)field) : qc_json_null();
    case QC_KIND_WHOLE:
    case QC_KIND_BYTES: return o->given[option] ? qc_json_integer((int64_t) * (const uint64_t *)field) : qc_json_null();
    case QC_KIND_NUMBER: return qc_json_number(*(const double *)field);
    }
    return NULL;
}

struct qc_json *qc_options_json(const struct qc_options *o)
{
    struct qc_json *all = qc_json_object();
    for (unsigned k = 0; k < QC_OPTION_COUNT; k++) {
        const struct qc_option_info *i = qc_option_info((enum qc_option)k);
        bool decides = i->group == QC_GROUP_DATA || i->group == QC_GROUP_METHOD || i->group == QC_GROUP_GRAPH;
        if (!decides || !(i->commands & 1u << o->command)) continue;
        qc_json_set(all, i->name, value_json(o, (enum qc_option)k));
    }
    return all;
}
