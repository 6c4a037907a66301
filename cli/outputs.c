// SPDX-License-Identifier: Apache-2.0
#include "cli/outputs.h"

#include <string.h>

#include "base/arena.h"
#include "quantize/job.h"

const char *qc_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

char *qc_stem(struct qc_arena *a, const char *path, struct qc_status *st)
{
    const char *base = qc_base_name(path), *dot = strrchr(base, '.');
    return qc_arena_strndup(a, base, dot && dot > base ? (size_t)(dot - base) : strlen(base), st);
}

char *qc_weight_type_word(struct qc_arena *a, const char *type, struct qc_status *st)
{
    const bool has_sign = *type == 'u';
    const char *word = strncmp(type, "float8", strlen("float8")) == 0   ? "fp8"
                       : strncmp(type, "float4", strlen("float4")) == 0 ? "fp4"
                       : strcmp(type, "none") == 0                      ? "int8"
                                                                        : type + has_sign;
    return qc_arena_strndup(a, word, strcspn(word, ":"), st);
}

char *qc_exported_name(struct qc_arena *a, const char *stem, const char *word, const struct qc_exporter *e,
                       struct qc_status *st)
{
    static const char usual[] = ".int8.";
    const size_t n = sizeof usual - 2; /* without the dot of the extension */
    return strncmp(e->suffix, usual, n + 1) == 0 ? qc_arena_printf(a, st, "%s.%s%s", stem, word, e->suffix + n)
                                                 : qc_arena_printf(a, st, "%s%s", stem, e->suffix);
}

bool qc_quantized_stem(const char **stem, const char **word, struct qc_arena *a, const char *path, struct qc_status *st)
{
    char *all = qc_stem(a, path, st), *last = all ? strrchr(all, '.') : NULL;
    *stem = all;
    *word = "int8";
    if (!last || last == all) return all != NULL;
    for (const struct qc_option_choice *c = qc_option_info(QC_OPTION_WEIGHT_TYPE)->values; c->text; c++) {
        const char *type = qc_weight_type_word(a, c->text, st);
        if (!type) return false;
        if (strcmp(last + 1, type) != 0) continue;
        *word = type;
        *last = '\0';
        return true;
    }
    for (size_t i = 0; i < qc_exporter_count(); i++) {
        const char *suffix = qc_exporter_at(i)->suffix;
        const size_t n = strlen(last);
        if (strncmp(suffix, last, n) != 0 || suffix[n] != '.') continue;
        *last = '\0';
        break;
    }
    return true;
}

char *qc_placement_file(struct qc_arena *a, const char *model, struct qc_status *st)
{
    const char *base = qc_base_name(model), *dot = strrchr(base, '.');
    const size_t length = dot && dot > base ? (size_t)(dot - model) : strlen(model);
    return qc_arena_printf(a, st, "%.*s.placement.json", (int)length, model);
}

bool qc_outputs_apart(struct qc_file_list *out, const char *const *paths, size_t count, const char *report,
                      const struct qc_cli_options *o, struct qc_status *st)
{
    const bool models = o->command == QC_COMMAND_quantize || o->command == QC_COMMAND_convert;
    struct qc_file_list inputs = {.arena = o->job.arena};
    *out = (struct qc_file_list){.arena = o->job.arena};
    /* everything that the command reads */
    const struct qc_job_inputs in = qc_job_inputs_of(&o->job, NULL);
    bool ok =
        qc_file_list_add_inputs(&inputs, &in, &o->job, st) && qc_file_list_add(&inputs, "--config", o->config, st) &&
        qc_file_list_add(&inputs, "--model", o->model, st) && qc_file_list_add(&inputs, "--labels", o->labels, st);
    for (size_t i = 0; ok && i < o->operands.count; i++)
        ok = qc_file_list_add(&inputs, "the input", o->operands.items[i], st);
    for (size_t i = 0; ok && i < count; i++)
        ok = models ? qc_file_list_add_model(out, paths[i], st) : qc_file_list_add(out, "the output", paths[i], st);
    ok = ok && qc_file_list_add(out, "--html", o->html, st) && qc_file_list_add_checkpoint(out, &o->job, st);
    if (ok && o->job.demand.benchmark) {
        const char *placement = qc_placement_file(o->job.arena, paths[0], st);
        ok = placement && qc_file_list_add(out, "the placement", placement, st);
    }
    for (size_t i = 0; ok && i < o->dump.count; i++) {
        const char *file = strchr(o->dump.items[i], '=');
        ok = qc_file_list_add(out, "--dump", file ? file + 1 : NULL, st);
    }
    ok = ok && (!report || qc_file_list_add_report(out, report, st)) && qc_file_list_apart(out, &inputs, st);
    for (size_t i = 0; ok && i < count; i++) {
        const char *suffix = paths[i] ? strrchr(paths[i], '.') : NULL;
        if (suffix && (strcmp(suffix, ".npy") == 0 || strcmp(suffix, ".npz") == 0))
            ok = qc_fail(st, QC_USAGE,
                         "%s: qcalib writes no NumPy files; give a name with another suffix, such as .h5 for data",
                         paths[i]);
    }
    return ok;
}
