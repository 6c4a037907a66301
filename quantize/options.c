// SPDX-License-Identifier: Apache-2.0
#include "quantize/options.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/pool.h"

static const struct qc_command_info commands[QC_COMMAND_COUNT] = {
#define QC_COMMAND(id, min, max, operand_text, text)                                                                   \
    [QC_COMMAND_##id] = {                                                                                              \
        .name = #id, .operands = (operand_text), .summary = (text), .operands_min = (min), .operands_max = (max)},
#include "cli/commands.def"
#undef QC_COMMAND
};

static const struct qc_option_info infos[QC_OPTION_COUNT] = {
#define QC_OPTION(id, ...) [QC_OPTION_##id] = {__VA_ARGS__},
#include "quantize/options.def"
#undef QC_OPTION
};

static const char *const group_names[QC_GROUP_COUNT] = {
    [QC_GROUP_DATA] = "Data",     [QC_GROUP_METHOD] = "Method", [QC_GROUP_GRAPH] = "Graph",
    [QC_GROUP_OUTPUT] = "Output", [QC_GROUP_RUN] = "Running",   [QC_GROUP_ABOUT] = "About",
};

const struct qc_command_info *qc_command_info(enum qc_command c)
{
    return &commands[c];
}

bool qc_command_find(enum qc_command *out, const char *name)
{
    for (unsigned c = 0; c < QC_COMMAND_COUNT; c++) {
        if (strcmp(commands[c].name, name) != 0) continue;
        *out = (enum qc_command)c;
        return true;
    }
    return false;
}

const struct qc_option_info *qc_option_info(enum qc_option o)
{
    return &infos[o];
}

const char *qc_option_group_name(enum qc_option_group g)
{
    return group_names[g];
}

enum { THREADS_MAX = 1024 };

bool qc_options_init(struct qc_cli_options *out, struct qc_arena *a, struct qc_status *st)
{
    *out = (struct qc_cli_options){.arena = a,
                                   .command = QC_COMMAND_help,
                                   .max_drop = (double)NAN,
                                   .tolerance = (double)NAN,
                                   .threads = qc_pool_cores()};
    for (unsigned o = 0; o < QC_OPTION_COUNT; o++) {
        bool choice = infos[o].kind == QC_KIND_SPEC || infos[o].kind == QC_KIND_CHOICE ||
                      infos[o].kind == QC_KIND_CHOICES || infos[o].kind == QC_KIND_BY_NAME;
        if (choice && infos[o].preset && !qc_options_set(out, (enum qc_option)o, infos[o].preset, st)) return false;
        out->given[o] = false;
    }
    return true;
}

static bool wrong(const struct qc_option_info *i, const char *value, const char *expected, struct qc_status *st)
{
    return qc_fail(st, QC_USAGE, "--%s: '%s' is not %s", i->name, value, expected);
}

static bool append(struct qc_cli_list *list, const char *text, struct qc_arena *a, struct qc_status *st)
{
    const char **items = QC_NEW_ARRAY(a, const char *, list->count + 1, st);
    if (!items) return false;
    if (list->count) memcpy(items, list->items, list->count * sizeof *items);
    items[list->count] = text;
    *list = (struct qc_cli_list){.count = list->count + 1, .items = items};
    return true;
}

/* The choice as it stands in the arena, or NULL and a status that lists what there is. */
static const char *choose(const struct qc_option_info *i, const char *value, size_t length, struct qc_arena *a,
                          struct qc_status *st)
{
    const char *names[16], *found = NULL;
    char text[256];
    size_t n = 0;
    char *all = qc_arena_strdup(a, i->choices, st), *given = qc_arena_strndup(a, value, length, st);
    if (!all || !given) return NULL;
    for (char *p = all, *bar; p && n < sizeof names / sizeof *names; p = bar) {
        bar = strchr(p, '|');
        if (bar) *bar++ = '\0';
        names[n++] = p;
        if (strcmp(p, given) == 0) found = p;
    }
    if (found) return found;
    size_t used = 0;
    for (size_t k = 0; k < n && used < sizeof text; k++) {
        qc_text(text + used, (unsigned)(sizeof text - used), "%s%s", k == 0 ? "" : k + 1 < n ? ", " : " or ", names[k]);
        used = strlen(text);
    }
    const char *meant = qc_closest(given, names, n);
    qc_fail(st, QC_USAGE, "--%s: unknown value '%s'%s%s%s; expected %s", i->name, given, meant ? "; did you mean " : "",
            meant ? meant : "", meant ? "?" : "", text);
    return NULL;
}

static bool choose_some(struct qc_cli_list *out, const struct qc_option_info *i, const char *value, struct qc_arena *a,
                        struct qc_status *st)
{
    struct qc_cli_list list = {.count = 0};
    for (const char *p = value; p;) {
        const char *comma = strchr(p, ',');
        const char *one = choose(i, p, comma ? (size_t)(comma - p) : strlen(p), a, st);
        if (!one || !append(&list, one, a, st)) return false;
        p = comma ? comma + 1 : NULL;
    }
    *out = list;
    return true;
}

/* A choice alone takes the place of the one before; with a glob it joins the list. */
static bool choose_by_name(struct qc_cli_list *list, const struct qc_option_info *i, const char *value,
                           struct qc_arena *a, struct qc_status *st)
{
    const char *colon = strchr(value, ':'),
               *one = choose(i, value, colon ? (size_t)(colon - value) : strlen(value), a, st);
    if (!one) return false;
    if (colon && !colon[1]) return wrong(i, value, "of the form TYPE or TYPE:NODE", st);
    if (colon) return append(list, value, a, st);
    if (!list->count) return append(list, one, a, st);
    list->items[0] = one;
    return true;
}

static bool read_whole(uint64_t *out, const char **end, const char *text)
{
    if (*text < '0' || *text > '9') return false;
    char *e;
    errno = 0;
    unsigned long long v = strtoull(text, &e, 10);
    *end = e;
    if (errno) return false;
    *out = v;
    return true;
}

static bool read_bytes(uint64_t *out, const char *text)
{
    static const char units[] = "KMGT";
    const char *end;
    uint64_t v;
    unsigned shift = 0;
    if (!read_whole(&v, &end, text)) return false;
    if (*end) {
        char c = (char)(*end >= 'a' && *end <= 'z' ? *end - 'a' + 'A' : *end);
        const char *unit = strchr(units, c);
        if (!unit) return false;
        shift = 10 * (unsigned)(unit - units + 1);
        end++;
        if (end[0] == 'i' && end[1]) end++;
        if (*end == 'B') end++;
    }
    if (*end || v == 0 || v > (UINT64_MAX >> shift)) return false;
    *out = v << shift;
    return true;
}

static bool read_number(double *out, const char *text)
{
    char *end;
    if (!((*text >= '0' && *text <= '9') || *text == '.')) return false;
    double v = strtod(text, &end);
    if (end == text || *end || !isfinite(v)) return false;
    *out = v;
    return true;
}

/* A list of activations, weights or none. */
static bool both(bool *activations, bool *weights, const struct qc_cli_list *list, const char *name, struct qc_status *st)
{
    bool none = false;
    *activations = *weights = false;
    for (size_t i = 0; i < list->count; i++) {
        const char *s = list->items[i];
        if (strcmp(s, "activations") == 0) *activations = true;
        if (strcmp(s, "weights") == 0) *weights = true;
        if (strcmp(s, "none") == 0) none = true;
    }
    return !none || list->count == 1 || qc_fail(st, QC_USAGE, "--%s: 'none' does not go with others", name);
}

/* What an option means beyond its own field. */
static bool derive(struct qc_cli_options *o, enum qc_option option, const char *value, struct qc_status *st)
{
    if (option == QC_OPTION_SYMMETRIC) return both(&o->symmetric_activations, &o->symmetric_weights, &o->symmetric, "symmetric", st);
    if (option == QC_OPTION_PER_CHANNEL) {
        bool weights;
        if (!both(&o->per_channel_activations, &weights, &o->per_channel, "per-channel", st)) return false;
        o->per_tensor = !weights;
    }
    if (option == QC_OPTION_PER_TENSOR && o->per_tensor) { /* the same, said otherwise */
        struct qc_cli_list list = {0};
        if (!append(&list, o->per_channel_activations ? "activations" : "none", o->arena, st)) return false;
        o->per_channel = list;
    }
    if (option == QC_OPTION_THREADS && o->threads > THREADS_MAX) {
        o->threads = THREADS_MAX;
        return wrong(&infos[option], value, "at most 1024", st);
    }
    if (option == QC_OPTION_INPUT) {
        const char *equals = strchr(value, '=');
        if (!equals || equals == value || !equals[1])
            return wrong(&infos[option], value, "of the form NAME=DATASET", st);
    }
    return true;
}

static bool takes_empty(enum qc_option_kind kind)
{
    return kind == QC_KIND_FLAG || kind == QC_KIND_SET;
}

bool qc_options_set(struct qc_cli_options *o, enum qc_option option, const char *value, struct qc_status *st)
{
    const struct qc_option_info *i = &infos[option];
    void *field = (char *)o + i->field;
    const char *end, *text = value ? value : i->bare;
    uint64_t whole;
    if (!text && i->argument) return qc_fail(st, QC_USAGE, "--%s needs a value: %s", i->name, i->argument);
    if (text && !*text && !takes_empty(i->kind))
        return qc_fail(st, QC_USAGE, "--%s needs a value that is not empty: %s", i->name, i->argument);
    if (value && !i->argument) return qc_fail(st, QC_USAGE, "--%s takes no value, but got '%s'", i->name, value);
    if (text && !(text = qc_arena_strdup(o->arena, text, st))) return false;
    switch (i->kind) {
    case QC_KIND_FLAG: *(bool *)field = true; break;
    case QC_KIND_SET:
    case QC_KIND_SPEC:
    case QC_KIND_TEXT: *(const char **)field = text; break;
    case QC_KIND_LIST:
        if (!append(field, text, o->arena, st)) return false;
        break;
    case QC_KIND_CHOICE:
        text = choose(i, text, strlen(text), o->arena, st);
        if (!text) return false;
        *(const char **)field = text;
        break;
    case QC_KIND_CHOICES:
        if (!choose_some(field, i, text, o->arena, st)) return false;
        break;
    case QC_KIND_BY_NAME:
        if (!choose_by_name(field, i, text, o->arena, st)) return false;
        break;
    case QC_KIND_COUNT:
    case QC_KIND_WHOLE:
        if (!read_whole(&whole, &end, text) || *end || (i->kind == QC_KIND_COUNT && whole == 0))
            return wrong(i, text, i->kind == QC_KIND_COUNT ? "a whole number from 1 on" : "a whole number from 0 on",
                         st);
        *(uint64_t *)field = whole;
        break;
    case QC_KIND_BYTES:
        if (!read_bytes(field, text)) return wrong(i, text, "a size such as 512M or 2G", st);
        break;
    case QC_KIND_NUMBER:
        if (!read_number(field, text)) return wrong(i, text, "a number from 0 on", st);
        break;
    }
    o->given[option] = true;
    return derive(o, option, text, st);
}
