// SPDX-License-Identifier: Apache-2.0
#include "quantize/options/options.h"

#include <math.h>
#include <string.h>

#include "base/pool.h"

#define QC_FIELD(name) .field = offsetof(struct qc_options, name)
static const struct qc_option_info infos[QC_OPTION_COUNT] = {
#define QC_OPTION(id, ...) [QC_OPTION_##id] = {__VA_ARGS__},
#include "quantize/options/options.def"
#undef QC_OPTION
};

static const char *const commands[QC_COMMAND_COUNT] = {
    [QC_COMMAND_quantize] = "quantize", [QC_COMMAND_collect] = "collect", [QC_COMMAND_merge] = "merge",
    [QC_COMMAND_run] = "run",           [QC_COMMAND_eval] = "eval",       [QC_COMMAND_compare] = "compare",
    [QC_COMMAND_convert] = "convert",   [QC_COMMAND_pack] = "pack",
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

/* Sets the fields that depend on an option, other than its own. */
static bool derive(struct qc_options *o, enum qc_option option, const char *value, struct qc_status *st)
{
    if (option == QC_OPTION_SYMMETRIC)
        return both(&o->symmetric_activations, &o->symmetric_weights, &o->symmetric, "symmetric", st);
    if (option == QC_OPTION_PER_CHANNEL) {
        bool weights;
        if (!both(&o->per_channel_activations, &weights, &o->per_channel, "per-channel", st)) return false;
        o->per_tensor = !weights;
    }
    if (option == QC_OPTION_PER_TENSOR && o->per_tensor) { /* keep --per-channel consistent */
        struct qc_text_list list = {0};
        if (!qc_text_list_add(&list, o->per_channel_activations ? "activations" : "none", o->arena, st)) return false;
        o->per_channel = list;
    }
    if (option == QC_OPTION_THREADS) {
        o->threads_refused = o->threads > most_threads() ? o->threads : 0;
        if (o->threads_refused) o->threads = most_threads();
    }
    if (option == QC_OPTION_SIZE) {
        o->size_bytes = 0;
        if (!qc_option_percent(&o->size_percent, value) && !qc_option_bytes(&o->size_bytes, value))
            return qc_option_wrong(&infos[option], value, "a size such as 300K, or a share of the model such as 20%",
                                   st);
    }
    if (option == QC_OPTION_INPUT) {
        const char *equals = strchr(value, '=');
        if (!equals || equals == value || !equals[1])
            return qc_option_wrong(&infos[option], value, "of the form NAME=DATASET", st);
    }
    return true;
}

static bool set(struct qc_options *o, enum qc_option option, const char *value, struct qc_status *st)
{
    return qc_option_store(o, &infos[option], value, o->arena, st) &&
           derive(o, option, value ? value : infos[option].bare, st);
}

/* --format tflite implies --target tflite, unless a target is given. */
static bool take_format(struct qc_options *o, struct qc_status *st)
{
    const char *wanted = infos[QC_OPTION_TARGET].preset;
    for (size_t i = 0; i < o->formats.count; i++)
        if (strcmp(o->formats.items[i], "tflite") == 0) wanted = "tflite";
    if (o->command != QC_COMMAND_quantize || o->given[QC_OPTION_TARGET] || strcmp(o->target, wanted) == 0) return true;
    return set(o, QC_OPTION_TARGET, wanted, st) && qc_options_take_target(o, set, st);
}

bool qc_options_set(struct qc_options *o, enum qc_option option, const char *value, struct qc_status *st)
{
    if (!set(o, option, value, st)) return false;
    o->given[option] = true;
    if (value && !strchr(value, ':')) o->own_base[option] = true;
    if (option == QC_OPTION_FORMAT) return take_format(o, st);
    return option != QC_OPTION_TARGET || o->command == QC_COMMAND_compare || qc_options_take_target(o, set, st);
}

bool qc_options_init(struct qc_options *out, enum qc_command command, struct qc_arena *a, struct qc_status *st)
{
    *out = (struct qc_options){.arena = a,
                               .command = command,
                               .max_drop = (double)NAN,
                               .min_sqnr = (double)NAN,
                               .max_nll = (double)NAN,
                               .tolerance = (double)NAN,
                               .threads = qc_pool_cores()};
    for (unsigned o = 0; o < QC_OPTION_COUNT; o++)
        if (qc_option_has_default(&infos[o]) && !set(out, (enum qc_option)o, infos[o].preset, st)) return false;
    return qc_options_take_target(out, set, st);
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
