// SPDX-License-Identifier: Apache-2.0
#include "evaluate/evaluate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file_map.h"
#include "quantize/job.h"

static bool options_of(struct qc_options *q, const struct qc_options *o, const char *target, struct qc_status *st)
{
    static const enum qc_option same[] = {QC_OPTION_INPUT, QC_OPTION_STATE,   QC_OPTION_PREPROCESS,
                                          QC_OPTION_IMAGE, QC_OPTION_SAMPLES, QC_OPTION_SEED};
    if (!qc_options_init(q, QC_COMMAND_quantize, o->arena, st) || !qc_options_set(q, QC_OPTION_TARGET, target, st) ||
        !qc_options_set(q, QC_OPTION_ADVICE, "off", st) || !qc_options_set(q, QC_OPTION_FORMAT, "qdq", st))
        return false;
    if (o->stats && !qc_options_set(q, QC_OPTION_METHOD, "mse", st)) return false; /* o->data is for the comparison */
    q->stats = o->stats;
    q->data = o->stats ? NULL : o->data;
    q->inputs = o->inputs;
    q->states = o->states;
    q->preprocess = o->preprocess;
    q->image = o->image;
    q->samples = o->samples;
    q->seed = o->seed;
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) q->given[same[i]] = o->given[same[i]];
    q->threads = o->threads;
    q->memory_limit = o->memory_limit;
    q->follow_links = o->follow_links;
    q->kernels = o->kernels;
    q->strict = o->strict;
    return true;
}

static const char *text_of_target(const struct qc_json *options, const char *key, struct qc_arena *a,
                                  struct qc_status *st)
{
    const struct qc_json *v = qc_json_get(options, key);
    if (qc_json_text(v)) return qc_arena_strdup(a, qc_json_text(v), st);
    const char *text = "";
    for (size_t i = 0; text && i < qc_json_size(v); i++)
        text = qc_arena_printf(a, st, "%s%s%s", text, i ? "," : "", qc_json_text(qc_json_at(v, i)));
    return text;
}

static bool set_row(struct qc_target_pair *p, size_t *row, int side, const char *what, const char *value)
{
    p->rows[*row].what = what;
    p->rows[*row].value[side] = value;
    ++*row;
    return value != NULL;
}

/* Rows of the effective options, the target's traits, and the integer share. */
static bool fill_rows(struct qc_target_pair *p, int side, const struct qc_options *q, const struct qc_report *r,
                      struct qc_status *st)
{
    static const char *const keys[] = {"activation-type", "weight-type",  "symmetric", "per-channel",
                                       "range",           "overflow-fix", "rounding",  "prefer"};
    static const char *const biases[] = {[QC_BIAS_INT32] = "int32", [QC_BIAS_FLOAT] = "float", [QC_BIAS_INT8] = "int8"};
    const struct qc_target *t = q->runs_on;
    struct qc_json *options = qc_options_json(q);
    bool ok = qc_json_is_whole(options) || qc_fail_memory(st, 1);
    size_t n = 0;
    for (size_t i = 0; ok && i < sizeof keys / sizeof *keys; i++) {
        const char *value = text_of_target(options, keys[i], q->arena, st);
        if (value && !*value && strcmp(keys[i], "rounding") == 0) value = "onnx";
        ok = set_row(p, &n, side, keys[i], value);
    }
    qc_json_free(options);
    ok = ok && set_row(p, &n, side, "scales", t->power_of_two ? "powers of two" : "any") &&
         set_row(p, &n, side, "results", t->float_results ? "float unless read as integers" : "stored") &&
         set_row(p, &n, side, "biases", biases[t->bias]) &&
         set_row(p, &n, side, "operators in integers",
                 qc_arena_printf(q->arena, st, "%.0f", qc_json_find_number(r->record, "quantized_ops"))) &&
         set_row(p, &n, side, "operators in float",
                 qc_arena_printf(q->arena, st, "%zu", qc_json_size(qc_json_find(r->record, "float_ops"))));
    p->row_count = n;
    return ok;
}

bool qc_quantize_for_targets(struct qc_target_pair *out, const char *model, const struct qc_options *o,
                             struct qc_progress *progress, struct qc_warnings *w, struct qc_status *st)
{
    *out = (struct qc_target_pair){.row_count = 0};
    const char *comma = strchr(o->target, ',');
    if (!comma || comma == o->target || !comma[1] || strchr(comma + 1, ','))
        return qc_fail(st, QC_USAGE, "compare --target takes two targets, as in --target ort,tensorrt, and one MODEL");
    out->name[0] = qc_arena_strndup(o->arena, o->target, (size_t)(comma - o->target), st);
    out->name[1] = comma + 1;
    if (!out->name[0]) return false;
    for (int side = 0; side < 2; side++) {
        const struct qc_job_listener listener = {.progress = progress};
        struct qc_options q;
        struct qc_job *j = NULL;
        if (!options_of(&q, o, out->name[side], st)) return false;
        const struct qc_job_inputs in = qc_job_inputs_of(&q, model);
        bool ok = qc_job_new(&j, &q, &in, &listener, st) && qc_job_run(j, st) &&
                  qc_temporary_file(&out->file[side], o->arena, st) && qc_job_write(j, 0, out->file[side], st) &&
                  fill_rows(out, side, &q, qc_job_report(j), st);
        const struct qc_warnings *said = j ? qc_job_warnings(j) : NULL;
        for (size_t i = 0; said && i < qc_warnings_count(said); i++)
            qc_warn(w, "%s: %s", out->name[side], qc_warnings_text(said, i));
        qc_job_free(j);
        if (!ok) return qc_where(st, "--target %s", out->name[side]);
    }
    for (size_t i = 0; i < out->row_count; i++)
        if (strcmp(out->rows[i].what, "rounding") == 0)
            out->rounding = qc_arena_printf(o->arena, st, "%s,%s", out->rows[i].value[0], out->rows[i].value[1]);
    return out->rounding != NULL;
}

void qc_target_pair_close(struct qc_target_pair *p)
{
    for (int side = 0; side < 2; side++)
        if (p->file[side]) unlink(p->file[side]);
}
