// SPDX-License-Identifier: Apache-2.0
#include "quantize/command_text.h"

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

static void put_option(FILE *f, const char *name, const struct qc_json *v)
{
    switch (qc_json_kind(v)) {
    case QC_JSON_ARRAY:
        for (size_t i = 0; i < qc_json_size(v); i++) put_option(f, name, qc_json_at(v, i));
        return;
    case QC_JSON_STRING:
        fprintf(f, " --%s=", name);
        quoted(f, qc_json_text(v));
        return;
    case QC_JSON_NUMBER: fprintf(f, " --%s=%s", name, qc_json_digits(v)); return;
    case QC_JSON_BOOL: fprintf(f, " --%s", name); return;
    case QC_JSON_NULL:
    case QC_JSON_OBJECT: return;
    }
}

bool qc_command_text(const char **out, struct qc_arena *a, const struct qc_options *o, const char *const *operands,
                     size_t operand_count, const struct qc_command_change *change, struct qc_status *st)
{
    struct qc_json *all = qc_options_json(o);
    char *text = NULL;
    size_t size;
    FILE *f = qc_json_is_whole(all) ? open_memstream(&text, &size) : NULL;
    if (!f) {
        qc_json_free(all);
        return qc_fail_memory(st, 1);
    }
    fprintf(f, "qcalib %s", qc_command_name(o->command));
    for (unsigned i = 0; i < QC_OPTION_COUNT; i++) {
        const struct qc_option_info *info = qc_option_info((enum qc_option)i);
        const struct qc_json *v = qc_json_get(all, info->name);
        if (change && change->without && strcmp(change->without, info->name) == 0) continue;
        if (change && change->met && (i == QC_OPTION_MAX_DROP || i == QC_OPTION_MIN_SQNR || i == QC_OPTION_MAX_NLL))
            continue;
        if (o->given[i] && info->group <= QC_GROUP_GRAPH && v) put_option(f, info->name, v);
    }
    for (size_t i = 0; change && i < change->count; i++) {
        fprintf(f, change->value[i] ? " --%s=" : " --%s", change->name[i]);
        if (change->value[i]) quoted(f, change->value[i]);
    }
    for (size_t i = 0; i < operand_count; i++) {
        fputc(' ', f);
        quoted(f, operands[i]);
    }
    bool ok = fclose(f) == 0 && (*out = qc_arena_strdup(a, text, st));
    free(text);
    qc_json_free(all);
    return ok || qc_fail_memory(st, 1);
}

bool qc_pipeline_command(const char **out, const struct qc_pipeline *p, const struct qc_command_change *change,
                         struct qc_status *st)
{
    const char *model = p->in->model.file ? p->in->model.file : "MODEL";
    return qc_command_text(out, p->arena, p->options, &model, 1, change, st);
}
