// SPDX-License-Identifier: Apache-2.0
#include "quantize/report/command_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void quoted(FILE *f, const char *s)
{
    if (*s && !strpbrk(s, " \t\n'\"\\$`*?[]{}()<>|&;#!~")) {
        fputs(s, f);
        return;
    }
    fputc('\'', f);
    for (; *s; s++) {
        if (*s == '\'')
            fputs("'\\''", f);
        else
            fputc(*s, f);
    }
    fputc('\'', f);
}

static const char *option_text(const struct qc_option_text *o, struct qc_arena *a, struct qc_status *st)
{
    return o->value ? qc_arena_printf(a, st, "--%s=%s", o->name, o->value) : qc_arena_printf(a, st, "--%s", o->name);
}

static bool add_word(struct qc_text_list *words, const char *name, const char *value, struct qc_arena *a,
                     struct qc_status *st)
{
    const struct qc_option_text o = {name, value};
    const char *word = option_text(&o, a, st);
    return word && qc_text_list_add(words, word, a, st);
}

static bool add_option(struct qc_text_list *words, struct qc_arena *a, const char *name, const struct qc_json *v,
                       struct qc_status *st)
{
    bool ok = true;
    switch (qc_json_kind(v)) {
    case QC_JSON_ARRAY:
        for (size_t i = 0; ok && i < qc_json_size(v); i++) ok = add_option(words, a, name, qc_json_at(v, i), st);
        return ok;
    case QC_JSON_STRING: return add_word(words, name, qc_json_text(v), a, st);
    case QC_JSON_NUMBER: return add_word(words, name, qc_json_digits(v), a, st);
    case QC_JSON_BOOL: return add_word(words, name, NULL, a, st);
    case QC_JSON_NULL:
    case QC_JSON_OBJECT: break;
    }
    return true;
}

bool qc_command_words(struct qc_text_list *out, struct qc_arena *a, const struct qc_options *o,
                      const char *const *operands, size_t operand_count, const struct qc_change *change,
                      struct qc_status *st)
{
    struct qc_json *all = qc_options_json(o);
    if (!qc_json_is_whole(all)) {
        qc_json_free(all);
        return qc_fail_memory(st, 1);
    }
    *out = (struct qc_text_list){.count = 0};
    bool ok = qc_text_list_add(out, "qcalib", a, st) && qc_text_list_add(out, qc_command_name(o->command), a, st);
    for (unsigned i = 0; ok && i < QC_OPTION_COUNT; i++) {
        const struct qc_option_info *info = qc_option_info((enum qc_option)i);
        const struct qc_json *v = qc_json_get(all, info->name);
        if (change && change->without && strcmp(change->without, info->name) == 0) continue;
        if (change && change->met && (i == QC_OPTION_MAX_DROP || i == QC_OPTION_MIN_SQNR || i == QC_OPTION_MAX_NLL))
            continue;
        if (o->given[i] && info->group <= QC_GROUP_GRAPH && v) ok = add_option(out, a, info->name, v, st);
    }
    if (ok && o->data.metric) ok = add_word(out, "metric", o->data.metric, a, st); /* it decides what a demand means */
    for (size_t i = 0; ok && change && i < change->count; i++)
        ok = add_word(out, change->options[i].name, change->options[i].value, a, st);
    for (size_t i = 0; ok && i < operand_count; i++) ok = qc_text_list_add(out, operands[i], a, st);
    qc_json_free(all);
    return ok;
}

bool qc_words_text(const char **out, struct qc_arena *a, const struct qc_text_list *words, struct qc_status *st)
{
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    if (!f) return qc_fail_memory(st, 1);
    for (size_t i = 0; i < words->count; i++) {
        if (i) fputc(' ', f);
        /* of "--name=value" only the value is quoted */
        const char *word = words->items[i];
        const char *value = strncmp(word, "--", 2) == 0 ? strchr(word, '=') : NULL;
        if (!value) {
            quoted(f, word);
            continue;
        }
        fprintf(f, "%.*s", (int)(value + 1 - word), word);
        quoted(f, value + 1);
    }
    bool ok = fclose(f) == 0 && (*out = qc_arena_strdup(a, text, st));
    free(text);
    return ok || qc_fail_memory(st, 1);
}

bool qc_command_text(const char **out, struct qc_arena *a, const struct qc_options *o, const char *const *operands,
                     size_t operand_count, const struct qc_change *change, struct qc_status *st)
{
    struct qc_text_list words;
    return qc_command_words(&words, a, o, operands, operand_count, change, st) && qc_words_text(out, a, &words, st);
}

bool qc_job_words(struct qc_text_list *out, const struct qc_job_inputs *in, const struct qc_options *o,
                  const struct qc_change *change, struct qc_arena *a, struct qc_status *st)
{
    const char *model = in->model.file ? in->model.file : "MODEL";
    bool ok = qc_command_words(out, a, o, NULL, 0, change, st);
    for (size_t i = 0; ok && change && i < in->word_count; i++) ok = qc_text_list_add(out, in->words[i], a, st);
    return ok && qc_text_list_add(out, model, a, st);
}

bool qc_job_command(const char **out, const struct qc_job_inputs *in, const struct qc_options *o,
                    const struct qc_change *change, struct qc_arena *a, struct qc_status *st)
{
    struct qc_text_list words;
    return qc_job_words(&words, in, o, change, a, st) && qc_words_text(out, a, &words, st);
}

struct qc_json *qc_change_json(const struct qc_change *change, struct qc_arena *a, struct qc_status *st)
{
    struct qc_json *list = qc_json_array();
    for (size_t i = 0; i < change->count; i++)
        qc_json_add(list, qc_json_string(option_text(&change->options[i], a, st)));
    return list;
}
