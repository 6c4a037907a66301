// SPDX-License-Identifier: Apache-2.0
#include "quantize/options/options.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/pool.h"
#include "base/words.h"
#include "graph/types/number_format.h"
#include "quantize/interface/warnings.h"

/* Stores a value as qc_options_set does, without marking it as given. */
typedef bool qc_option_set_fn(struct qc_options *o, enum qc_option option, const char *value, struct qc_status *st);

/* --target: the options of a target, which hold unless given. */

/* The options that a target may set. */
static const enum qc_option settable[] = {QC_OPTION_ACTIVATION_TYPE, QC_OPTION_WEIGHT_TYPE,    QC_OPTION_PER_CHANNEL,
                                          QC_OPTION_SYMMETRIC,       QC_OPTION_RANGE,          QC_OPTION_OVERFLOW_FIX,
                                          QC_OPTION_ROUNDING,        QC_OPTION_ACCUMULATOR,    QC_OPTION_BIAS,
                                          QC_OPTION_FORMAT,          QC_OPTION_PREFER,         QC_OPTION_WEIGHT_BLOCK,
                                          QC_OPTION_EQUALIZE,        QC_OPTION_BIAS_CORRECTION};
enum { SETTABLE = sizeof settable / sizeof *settable, VALUES = QC_TARGET_OPTIONS + 5 };

struct value {
    enum qc_option option;
    const char *text;
};

static struct value *add_config_option(struct value *list, size_t *n, enum qc_option option, const char *text)
{
    list[*n] = (struct value){.option = option, .text = text};
    return &list[(*n)++];
}

/* Returns "activations,weights", one of both, or "none". */
static const char *sides(bool activations, bool weights)
{
    return activations ? weights ? "activations,weights" : "activations" : weights ? "weights" : "none";
}

static bool values_of(struct value list[VALUES], size_t *n, const struct qc_target *t, struct qc_status *st)
{
    *n = 0;
    /* Add the clauses `scheme` as options. If only one clause sets a property, the other has the default. */
    const struct qc_scheme_clause *a = &t->activation, *w = &t->weight;
    if (a->dtype != QC_NONE) add_config_option(list, n, QC_OPTION_ACTIVATION_TYPE, qc_dtype_long_name(a->dtype));
    if (w->dtype != QC_NONE) add_config_option(list, n, QC_OPTION_WEIGHT_TYPE, qc_dtype_long_name(w->dtype));
    if (a->symmetry_given || w->symmetry_given)
        add_config_option(list, n, QC_OPTION_SYMMETRIC,
                          sides(a->symmetry_given && a->symmetry == QC_SYMMETRIC,
                                !w->symmetry_given || w->symmetry == QC_SYMMETRIC));
    if (a->per_channel_given || w->per_channel_given)
        add_config_option(list, n, QC_OPTION_PER_CHANNEL,
                          sides(a->per_channel_given && a->per_channel, !w->per_channel_given || w->per_channel));
    if (w->restricted_given) add_config_option(list, n, QC_OPTION_RANGE, w->restricted ? "restricted" : "full");
    for (unsigned i = 0; i < t->option_count; i++) {
        size_t k = 0;
        while (k < SETTABLE && strcmp(qc_option_info(settable[k])->name, t->options[i].name) != 0) k++;
        if (k == SETTABLE)
            return qc_fail(st, QC_BAD_INPUT, "target '%s': 'option %s' is none that a target decides", t->name,
                           t->options[i].name);
        add_config_option(list, n, settable[k], t->options[i].value);
    }
    return true;
}

/* Returns true if the option is given. A type given only by name leaves the type of other nodes to the target. */
static bool is_given(const struct qc_options *o, enum qc_option option)
{
    if (qc_option_info(option)->kind == QC_KIND_BY_NAME) return o->given[option] && o->own_base[option];
    return o->given[option] || (option == QC_OPTION_PER_CHANNEL && o->given[QC_OPTION_PER_TENSOR]);
}

/* Loads o->target and sets its options unless they are given; options of an earlier target return to their defaults.
   Errors: as qc_target_load; QC_BAD_INPUT for an option that no target may set. */
static bool options_take_target(struct qc_options *o, qc_option_set_fn *set_one, struct qc_status *st)
{
    struct value list[VALUES];
    size_t n;
    if (!qc_target_load(&o->graph.runs_on, o->graph.target, o->arena, st) || !values_of(list, &n, o->graph.runs_on, st))
        return false;
    for (size_t i = 0; i < SETTABLE; i++) {
        const enum qc_option option = settable[i];
        const struct qc_option_info *info = qc_option_info(option);
        if (!o->by_target[option]) continue;
        o->by_target[option] = false;
        if (is_given(o, option)) continue;
        if (!qc_option_has_default(info))
            *(const char **)((char *)o + info->field) = NULL;
        else if (!set_one(o, option, info->preset, st))
            return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (is_given(o, list[i].option)) continue;
        if (!set_one(o, list[i].option, list[i].text, st)) return qc_where(st, "target '%s'", o->graph.runs_on->name);
        o->by_target[list[i].option] = true;
    }
    return true;
}

const char *qc_options_text(const struct qc_options *o, enum qc_option option)
{
    return qc_option_choice_text(o, qc_option_info(option));
}

/* Returns the value of an option as text; for QC_KIND_BY_NAME entry 0. */
static const char *text_of(const struct qc_options *o, enum qc_option option, struct qc_status *st)
{
    const struct qc_option_info *i = qc_option_info(option);
    const void *field = (const char *)o + i->field;
    const struct qc_text_list *list = field;
    const char *text = "";
    if (i->kind == QC_KIND_CHOICE || i->kind == QC_KIND_SWITCH) return qc_option_choice_text(o, i);
    if (i->kind == QC_KIND_BY_NAME) return list->items[0];
    if (i->kind != QC_KIND_CHOICES) return *(const char *const *)field ? *(const char *const *)field : "";
    for (size_t k = 0; text && k < list->count; k++)
        text = qc_arena_printf(o->arena, st, "%s%s%s", text, k ? "," : "", list->items[k]);
    return text;
}

bool qc_warn_target_options(const struct qc_options *o, struct qc_warnings *w, struct qc_status *st)
{
    struct value list[VALUES];
    size_t n;
    if (!values_of(list, &n, o->graph.runs_on, st)) return false;
    for (size_t i = 0; i < n; i++) {
        const char *text = text_of(o, list[i].option, st);
        if (!text) return false;
        if (is_given(o, list[i].option) && strcmp(text, list[i].text) != 0)
            qc_warn(w, "--%s %s holds, though target '%s' has %s", qc_option_info(list[i].option)->name, text,
                    o->graph.runs_on->name, list[i].text);
    }
    const char *type = o->types.weights.items[0];
    const struct qc_number_format *format = qc_number_format_named(type);
    if (o->graph.runs_on->onnxruntime && (format ? format->dtype : qc_dtype_from_name(type)) == QC_F4E2M1)
        qc_warn(w,
                "--weight-type %s: ONNX Runtime's CPU kernels do not read FLOAT4E2M1, so it does not load the file; "
                "OpenVINO "
                "2026 does",
                type);
    return true;
}

#define QC_FIELD(name) .field = offsetof(struct qc_options, name)
static const struct qc_option_info infos[QC_OPTION_COUNT] = {
#define QC_OPTION(id, ...) [QC_OPTION_##id] = {__VA_ARGS__},
#include "quantize/options/options.def"
#undef QC_OPTION
};

static const char *const commands[QC_COMMAND_COUNT] = {
    [QC_COMMAND_quantize] = "quantize", [QC_COMMAND_collect] = "collect", [QC_COMMAND_merge] = "merge",
    [QC_COMMAND_run] = "run",           [QC_COMMAND_eval] = "eval",       [QC_COMMAND_compare] = "compare",
    [QC_COMMAND_convert] = "convert",   [QC_COMMAND_pack] = "pack",       [QC_COMMAND_check] = "check",
};

const char *qc_command_name(enum qc_command c)
{
    return commands[c];
}

const struct qc_option_info *qc_option_info(enum qc_option o)
{
    return &infos[o];
}

/* More than THREADS_PER_CORE threads for each core only take memory. THREADS_LEAST are always allowed. */
enum { THREADS_PER_CORE = 4, THREADS_LEAST = 64 };

static uint64_t most_threads(void)
{
    const uint64_t most = (uint64_t)THREADS_PER_CORE * qc_pool_cores();
    return most > THREADS_LEAST ? most : THREADS_LEAST;
}

/* Reads a list of activations, weights or none. */
static bool both(bool *activations, bool *weights, const struct qc_text_list *list, const char *name,
                 struct qc_status *st)
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

static bool set(struct qc_options *o, enum qc_option option, const char *value, struct qc_status *st)
{
    if (!qc_option_store(o, &infos[option], value, o->arena, st)) return false;
    if (!value) value = infos[option].bare;
    /* Set the fields that depend on an option, other than its own. */
    if (option == QC_OPTION_SYMMETRIC)
        return both(&o->types.symmetric_activations, &o->types.symmetric_weights, &o->types.symmetric, "symmetric", st);
    if (option == QC_OPTION_PER_CHANNEL) {
        bool weights;
        if (!both(&o->types.per_channel_activations, &weights, &o->types.per_channel, "per-channel", st)) return false;
        o->types.per_tensor = !weights;
    }
    if (option == QC_OPTION_PER_TENSOR && o->types.per_tensor) { /* keep --per-channel consistent */
        struct qc_text_list list = {0};
        if (!qc_text_list_add(&list, o->types.per_channel_activations ? "activations" : "none", o->arena, st))
            return false;
        o->types.per_channel = list;
    }
    if (option == QC_OPTION_THREADS) {
        o->run.threads_refused = o->run.threads > most_threads() ? o->run.threads : 0;
        if (o->run.threads_refused) o->run.threads = most_threads();
    }
    if (option == QC_OPTION_SIZE) {
        o->demand.size_bytes = 0;
        if (!qc_option_percent(&o->demand.size_percent, value) && !qc_option_bytes(&o->demand.size_bytes, value))
            return qc_option_wrong(&infos[option], value, "a size such as 300K, or a share of the model such as 20%",
                                   st);
    }
    if (option == QC_OPTION_INPUT || option == QC_OPTION_STATE) {
        const char *equals = strchr(value, '=');
        if (!equals || equals == value || !equals[1])
            return qc_option_wrong(&infos[option], value,
                                   option == QC_OPTION_INPUT ? "of the form NAME=DATASET" : "of the form INPUT=OUTPUT",
                                   st);
    }
    return true;
}

bool qc_options_write(const struct qc_options *o, const char *format)
{
    for (size_t i = 0; i < o->graph.formats.count; i++)
        if (strcmp(o->graph.formats.items[i], format) == 0) return true;
    return false;
}

bool qc_options_write_integers(const struct qc_options *o)
{
    return qc_options_write(o, "qdq") || qc_options_write(o, "qoperator");
}

bool qc_options_set(struct qc_options *o, enum qc_option option, const char *value, struct qc_status *st)
{
    if (!set(o, option, value, st)) return false;
    o->given[option] = true;
    if (value && !strchr(value, ':')) o->own_base[option] = true;
    if (option == QC_OPTION_FORMAT) {
        /* --format tflite implies --target tflite, unless a target is given. */
        const char *wanted = qc_options_write(o, "tflite") ? "tflite" : infos[QC_OPTION_TARGET].preset;
        if (o->command != QC_COMMAND_quantize || o->given[QC_OPTION_TARGET] || strcmp(o->graph.target, wanted) == 0)
            return true;
        return set(o, QC_OPTION_TARGET, wanted, st) && options_take_target(o, set, st);
    }
    return option != QC_OPTION_TARGET || o->command == QC_COMMAND_compare || options_take_target(o, set, st);
}

bool qc_options_init(struct qc_options *out, enum qc_command command, struct qc_arena *a, struct qc_status *st)
{
    *out = (struct qc_options){.arena = a,
                               .command = command,
                               .demand.max_drop = (double)NAN,
                               .demand.min_sqnr = (double)NAN,
                               .demand.max_nll = (double)NAN,
                               .demand.tolerance = (double)NAN,
                               .run.threads = qc_pool_cores()};
    for (unsigned o = 0; o < QC_OPTION_COUNT; o++)
        if (qc_option_has_default(&infos[o]) && !set(out, (enum qc_option)o, infos[o].preset, st)) return false;
    return options_take_target(out, set, st);
}

bool qc_options_find(enum qc_option *out, const struct qc_options *o, const char *name, struct qc_status *st)
{
    const char *names[QC_OPTION_COUNT];
    for (unsigned k = 0; k < QC_OPTION_COUNT; k++) {
        names[k] = infos[k].name;
        if (strcmp(name, names[k]) != 0) continue;
        *out = (enum qc_option)k;
        return (infos[k].commands & 1u << o->command) ||
               qc_fail(st, QC_USAGE, "%s has no option --%s", commands[o->command], name);
    }
    return qc_option_unknown(name, names, QC_OPTION_COUNT, st);
}

/* Options as JSON: read from --config, written into the report. */

enum { TEXT = 1024 };

static bool expected(const char *file, const char *key, const char *what, struct qc_status *st)
{
    return qc_fail(st, QC_USAGE, "%s: \"%s\" must be %s", file, key, what);
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
    const bool whole = kind == QC_KIND_COUNT || kind == QC_KIND_WHOLE || kind == QC_KIND_BYTES;
    if (!qc_json_text(v) && whole && strpbrk(s, ".eE") && whole_digits(text, s)) return true;
    return strlen(s) < TEXT && qc_text(text, TEXT, "%s", s);
}

static bool set_one(const struct qc_option_set *o, unsigned option, const struct qc_json *v, const char *file,
                    struct qc_status *st)
{
    const struct qc_option_info *i = o->info(option);
    char text[TEXT];
    if (qc_json_kind(v) == QC_JSON_NULL) return true;
    if (!i->argument || (i->bare && qc_json_kind(v) == QC_JSON_BOOL)) {
        if (qc_json_kind(v) != QC_JSON_BOOL) return expected(file, i->name, "true or false", st);
        return qc_json_value(v) == 0 || o->set(o->user, option, NULL, st);
    }
    bool many = i->kind == QC_KIND_LIST || i->kind == QC_KIND_CHOICES || i->kind == QC_KIND_BY_NAME;
    if (many && qc_json_kind(v) == QC_JSON_ARRAY) {
        char word[TEXT], joined[TEXT];
        size_t n = qc_json_size(v), used = 0;
        for (size_t k = 0; k < n; k++) {
            if (!as_text(word, qc_json_at(v, k), i->kind)) return expected(file, i->name, "an array of strings", st);
            if (i->kind != QC_KIND_CHOICES && !o->set(o->user, option, word, st)) return qc_where(st, "%s", file);
            if (i->kind != QC_KIND_CHOICES) continue;
            if (used + strlen(word) + 2 > TEXT) return expected(file, i->name, "shorter", st);
            qc_text(joined + used, (unsigned)(TEXT - used), "%s%s", k ? "," : "", word);
            used = strlen(joined);
        }
        if (i->kind == QC_KIND_CHOICES && n && !o->set(o->user, option, joined, st)) return qc_where(st, "%s", file);
        return true;
    }
    if (!as_text(text, v, i->kind))
        return expected(file, i->name, many ? "a string or an array of strings" : "a string or a number", st);
    return o->set(o->user, option, text, st) || qc_where(st, "%s", file);
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
        if (option == o->count) {
            QC_ARENA_SCOPE *a = qc_arena_new();
            const char **names = a ? QC_NEW_ARRAY(a, const char *, o->count, st) : NULL, *meant = NULL;
            for (unsigned i = 0; names && i < o->count; i++) names[i] = o->info(i)->name;
            if (names) meant = qc_closest(key, names, o->count);
            qc_fail(st, QC_USAGE,
                    "%s: unknown key \"%s\"%s; keys are option names without the dashes, see 'qcalib help quantize'",
                    file, key, QC_MEANT("", meant));
            return false;
        }
        if (o->info(option)->not_in_file)
            return qc_fail(st, QC_USAGE, "%s: \"%s\" has no place in a configuration", file, key);
        /* The options in a report have null and empty lists. */
        const struct qc_json *v = qc_json_at(config, k);
        const bool list = qc_json_kind(v) == QC_JSON_ARRAY;
        if (o->info(option)->loads_code && qc_json_kind(v) != QC_JSON_NULL && (!list || qc_json_size(v)))
            return qc_fail(st, QC_USAGE, "%s: \"%s\" loads code, which a configuration must not; give --%s itself",
                           file, key, key);
        if (o->takes(o->user, option) && !set_one(o, option, v, file, st)) return false;
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

static bool set_from_config(void *user, unsigned option, const char *value, struct qc_status *st)
{
    return qc_options_set(user, (enum qc_option)option, value, st);
}

bool qc_options_configure(struct qc_options *o, const struct qc_json *config, const char *file, struct qc_status *st)
{
    const struct qc_option_set all = {
        .count = QC_OPTION_COUNT, .info = info, .takes = takes, .set = set_from_config, .user = o};
    return qc_option_set_configure(&all, config, file, st);
}

static struct qc_json *value_json(const struct qc_options *o, enum qc_option option)
{
    const struct qc_option_info *i = qc_option_info(option);
    const void *field = (const char *)o + i->field;
    const struct qc_text_list *list = field;
    switch (i->kind) {
    case QC_KIND_FLAG: return qc_json_bool(*(const bool *)field);
    case QC_KIND_SET: return NULL;
    case QC_KIND_TEXT:
    case QC_KIND_SPEC: return qc_json_string(*(const char *const *)field);
    case QC_KIND_CHOICE:
    case QC_KIND_SWITCH: return qc_json_string(qc_option_choice_text(o, i));
    case QC_KIND_LIST:
    case QC_KIND_CHOICES: return qc_json_strings(list->items, list->count);
    case QC_KIND_BY_NAME:
        return list->count == 1 ? qc_json_string(list->items[0]) : qc_json_strings(list->items, list->count);
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
