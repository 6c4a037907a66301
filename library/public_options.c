// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#define QCALIB_EXPERIMENTAL
#include "library/public.h"

/* One call of qcalib_options_set or, with name NULL, of qcalib_options_set_json. */
struct word {
    char *name, *value;
    size_t size; /* of JSON */
};

/* Words are kept as given, and every job parses them itself. So options serve several jobs in several threads. */
struct qcalib_options {
    size_t count;
    struct word *words;
};

static const enum qc_command jobs[] = {QC_COMMAND_quantize, QC_COMMAND_collect, QC_COMMAND_run, QC_COMMAND_eval,
                                       QC_COMMAND_compare};
enum { JOBS = sizeof jobs / sizeof *jobs };

/* Options given as objects, which cannot also be given as text. */
static const struct {
    enum qc_option option;
    const char *member;
} objects[] = {{QC_OPTION_DATA, "data"}, {QC_OPTION_EVAL, "eval"}, {QC_OPTION_STATS, "statistics"}};
enum { OBJECTS = sizeof objects / sizeof *objects };

int qcalib_options_new(qcalib_options **out, struct qcalib_error *error)
{
    struct qc_public_call call = qc_public_begin_call();
    bool ok = qc_public_there(out, "out", &call.st);
    struct qcalib_options *o = ok ? calloc(1, sizeof *o) : NULL;
    if (ok && !o) ok = qc_fail_memory(&call.st, sizeof *o);
    if (ok) *out = o;
    return qc_public_end(ok, &call, error);
}

static void forget_word(struct word *w)
{
    free(w->name);
    free(w->value);
}

void qcalib_options_free(qcalib_options *options)
{
    if (!options) return;
    for (size_t i = 0; i < options->count; i++) forget_word(&options->words[i]);
    free(options->words);
    free(options);
}

/* Applies a word; *taken: the command has this option. */
static bool read_word(bool *taken, struct qc_options *o, const struct word *w, struct qc_status *st)
{
    enum qc_option option;
    struct qc_status ignored = QC_STATUS_INIT;
    *taken = !w->name || qc_options_find(&option, o, w->name, &ignored);
    if (!*taken) return true;
    struct qc_json *json = NULL;
    const bool ok = w->name
                        ? qc_options_set(o, option, w->value, st)
                        : qc_json_parse(&json, w->value, w->size, st) && qc_options_configure(o, json, "options", st);
    qc_json_free(json);
    if (!ok) return false;
    for (size_t i = 0; i < OBJECTS; i++)
        if (o->given[objects[i].option])
            return qc_fail(st, QC_USAGE,
                           "--%s is not an option of the library: set the member `%s` of struct qcalib_job",
                           qc_option_info(objects[i].option)->name, objects[i].member);
    return true;
}

/* Adds a word, which is checked on its own for every job that takes it. */
static bool add_word(struct qcalib_options *to, struct word *w, struct qc_status *st)
{
    QC_ARENA_SCOPE *a = qc_arena_new();
    bool any = false, ok = a || qc_fail_memory(st, 1);
    enum qc_option option;
    struct qc_options o;
    for (size_t k = 0; ok && k < JOBS; k++) {
        bool taken = false;
        ok = qc_options_init(&o, jobs[k], a, st) && read_word(&taken, &o, w, st);
        any = any || taken;
    }
    if (!ok || (!any && !(qc_options_init(&o, jobs[0], a, st) && qc_options_find(&option, &o, w->name, st))))
        return false;
    struct word *more = realloc(to->words, (to->count + 1) * sizeof *more);
    if (!more) return qc_fail_memory(st, (to->count + 1) * sizeof *more);
    to->words = more;
    more[to->count++] = *w;
    *w = (struct word){0};
    return true;
}

int qcalib_options_set(qcalib_options *options, const char *name, const char *value, struct qcalib_error *error)
{
    struct qc_public_call call = qc_public_begin_call();
    struct word w = {0};
    bool ok = qc_public_there(options, "options", &call.st) && qc_public_there(name, "name", &call.st);
    if (ok && (!(w.name = strdup(name)) || (value && !(w.value = strdup(value)))))
        ok = qc_fail_memory(&call.st, strlen(name));
    ok = ok && add_word(options, &w, &call.st);
    forget_word(&w);
    return qc_public_end(ok, &call, error);
}

int qcalib_options_set_json(qcalib_options *options, const char *json, size_t size, struct qcalib_error *error)
{
    struct qc_public_call call = qc_public_begin_call();
    struct word w = {.size = size};
    bool ok = qc_public_there(options, "options", &call.st) && qc_public_there(json, "json", &call.st);
    if (ok && !(w.value = strndup(json, size))) ok = qc_fail_memory(&call.st, size);
    ok = ok && add_word(options, &w, &call.st);
    forget_word(&w);
    return qc_public_end(ok, &call, error);
}

bool qc_public_options(struct qc_options *out, enum qc_command command, const struct qcalib_options *options,
                       struct qc_arena *a, struct qc_status *st)
{
    bool taken, ok = qc_options_init(out, command, a, st);
    for (size_t i = 0; ok && options && i < options->count; i++) ok = read_word(&taken, out, &options->words[i], st);
    return ok;
}

/* ---- The table ---- */

static enum qcalib_value value_of(enum qc_option_kind kind)
{
    switch (kind) {
    case QC_KIND_FLAG: return QCALIB_VALUE_NONE;
    case QC_KIND_SET: return QCALIB_VALUE_NONE;
    case QC_KIND_TEXT: return QCALIB_VALUE_TEXT;
    case QC_KIND_SPEC: return QCALIB_VALUE_TEXT;
    case QC_KIND_LIST: return QCALIB_VALUE_TEXTS;
    case QC_KIND_CHOICE: return QCALIB_VALUE_CHOICE;
    case QC_KIND_SWITCH: return QCALIB_VALUE_CHOICE;
    case QC_KIND_CHOICES: return QCALIB_VALUE_CHOICES;
    case QC_KIND_BY_NAME: return QCALIB_VALUE_BY_NAME;
    case QC_KIND_COUNT: return QCALIB_VALUE_COUNT;
    case QC_KIND_WHOLE: return QCALIB_VALUE_INTEGER;
    case QC_KIND_BYTES: return QCALIB_VALUE_BYTES;
    case QC_KIND_NUMBER: return QCALIB_VALUE_NUMBER;
    }
    return QCALIB_VALUE_TEXT;
}

static unsigned jobs_of(enum qc_option option)
{
    static const unsigned bits[] = {QCALIB_JOB_QUANTIZE, QCALIB_JOB_COLLECT, QCALIB_JOB_RUN, QCALIB_JOB_EVALUATE,
                                    QCALIB_JOB_COMPARE};
    _Static_assert(sizeof bits / sizeof *bits == JOBS, "a bit for each job");
    unsigned all = 0;
    for (size_t i = 0; i < OBJECTS; i++)
        if (objects[i].option == option) return 0;
    for (size_t k = 0; k < JOBS; k++)
        if (qc_option_info(option)->commands & (1u << jobs[k])) all |= bits[k];
    /* A program quantizes for both targets itself and compares the results. */
    return option == QC_OPTION_TARGET ? all & ~(unsigned)QCALIB_JOB_COMPARE : all;
}

size_t qcalib_option_count(void)
{
    return QC_OPTION_COUNT;
}

int qcalib_option_at(struct qcalib_option *out, size_t i, struct qcalib_error *error)
{
    struct qc_public_call call = qc_public_begin_call();
    bool ok = qc_public_index(i, QC_OPTION_COUNT, "option", &call.st);
    if (ok) {
        const struct qc_option_info *info = qc_option_info((enum qc_option)i);
        const struct qcalib_option own = {.name = info->name,
                                          .argument = info->argument,
                                          .preset = info->preset,
                                          .choices = info->choices,
                                          .help = info->help,
                                          .value = (int)value_of(info->kind),
                                          .jobs = jobs_of((enum qc_option)i)};
        ok = qc_public_give(out, &own, sizeof own, "qcalib_option", &call.st);
    }
    return qc_public_end(ok, &call, error);
}
