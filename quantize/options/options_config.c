// SPDX-License-Identifier: Apache-2.0
/* Options as JSON: read from --config, written into the report. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/words.h"
#include "quantize/options/options.h"

enum { TEXT = 1024 };

static bool expected(const char *file, const char *key, const char *what, struct qc_status *st)
{
    return qc_fail(st, QC_USAGE, "%s: \"%s\" must be %s", file, key, what);
}

static bool takes_whole(enum qc_option_kind kind)
{
    return kind == QC_KIND_COUNT || kind == QC_KIND_WHOLE || kind == QC_KIND_BYTES;
}

/* Converts a JSON number with a point or an exponent, such as 100.0 or 1e3, to the digits of a whole number. Returns
   false if it is not whole, or has more digits than an option can hold. */
static bool whole_digits(char text[TEXT], const char *number)
{
    enum { DIGITS = 20 };
    char digits[DIGITS + 1];
    int count = 0;
    long power = 0; /* of ten: factor of the digits */
    bool point = false, fits = true;
    for (; *number && !strchr("eE", *number); number++) {
        if (*number == '.')
            point = true;
        else if (*number < '0' || *number > '9')
            return false;
        else {
            power -= point;
            if (count == DIGITS && *number != '0') fits = false;
            if (count == DIGITS)
                power++;
            else if (count || *number != '0')
                digits[count++] = *number;
        }
    }
    if (!count) return qc_text(text, TEXT, "0");
    errno = 0;
    if (*number) {
        const long exponent = strtol(number + 1, NULL, 10);
        if (errno || exponent > TEXT || exponent < -TEXT) return false;
        power += exponent;
    }
    for (; count > 1 && digits[count - 1] == '0'; count--) power++;
    if (!fits || power < 0 || count + power > DIGITS) return false;
    digits[count] = '\0';
    qc_text(text, TEXT, "%s%.*s", digits, (int)power, "00000000000000000000");
    return true;
}

/* Converts the value of a key to a command-line argument; a number keeps its digits. Returns false if it is neither
   text nor number, or too long. */
static bool as_text(char text[TEXT], const struct qc_json *v, enum qc_option_kind kind)
{
    const char *s = qc_json_text(v);
    if (!s && !(s = qc_json_digits(v))) return false;
    if (!qc_json_text(v) && takes_whole(kind) && strpbrk(s, ".eE") && whole_digits(text, s)) return true;
    return strlen(s) < TEXT && qc_text(text, TEXT, "%s", s);
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
        if (!as_text(text, qc_json_at(v, k), i->kind)) return expected(file, i->name, "an array of strings", st);
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
    if (!as_text(text, v, i->kind))
        return expected(file, i->name, many ? "a string or an array of strings" : "a string or a number", st);
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

/* Returns true for null and empty lists, which the options in a report have. */
static bool is_empty(const struct qc_json *v)
{
    return qc_json_kind(v) == QC_JSON_NULL || (qc_json_kind(v) == QC_JSON_ARRAY && !qc_json_size(v));
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
        if (o->info(option)->loads_code && !is_empty(qc_json_at(config, k)))
            return qc_fail(st, QC_USAGE, "%s: \"%s\" loads code, which a configuration must not; give --%s itself",
                           file, key, key);
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
    case QC_KIND_COUNT: return *(const uint64_t *)field ? qc_json_whole(*(const uint64_t *)field) : qc_json_null();
    case QC_KIND_WHOLE:
    case QC_KIND_BYTES: return o->given[option] ? qc_json_whole(*(const uint64_t *)field) : qc_json_null();
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
        if (!decides || !(i->commands & 1u << o->command) || (i->where_given && !o->given[k])) continue;
        qc_json_set(all, i->name, value_json(o, (enum qc_option)k));
    }
    return all;
}
