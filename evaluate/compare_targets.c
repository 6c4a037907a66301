// SPDX-License-Identifier: Apache-2.0
#include "evaluate/evaluate.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file_map.h"
#include "quantize/job.h"

/* Returns the effective options, the target's traits, and how much is in integers. */
static struct qc_json *conventions(const char *name, const struct qc_options *q, const struct qc_json *record,
                                   struct qc_status *st)
{
    static const char *const keys[] = {"activation-type", "weight-type",  "symmetric", "per-channel",
                                       "range",           "overflow-fix", "rounding",  "prefer"};
    static const char *const biases[] = {[QC_BIAS_INT32] = "int32", [QC_BIAS_FLOAT] = "float", [QC_BIAS_INT8] = "int8"};
    const struct qc_target *t = q->graph.runs_on;
    struct qc_json *options = qc_options_json(q), *o = QC_JSON("target %s", name);
    char count[2][32];
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const struct qc_json *v = qc_json_get(options, keys[i]);
        const char *text = qc_json_text(v) ? qc_json_text(v) : "";
        for (size_t k = 0; text && k < qc_json_size(v); k++) /* a list: its elements with commas */
            text = qc_arena_printf(q->arena, st, "%s%s%s", text, k ? "," : "", qc_json_text(qc_json_at(v, k)));
        qc_json_set(o, keys[i], qc_json_string(text && !*text && strcmp(keys[i], "rounding") == 0 ? "onnx" : text));
    }
    qc_json_free(options);
    qc_json_put(o, "scales %s results %s biases %s", t->power_of_two ? "powers of two" : "any",
                t->float_results ? "float unless read as integers" : "stored", biases[t->bias]);
    snprintf(count[0], sizeof count[0], "%.0f", qc_json_find_number(record, "quantized_ops"));
    snprintf(count[1], sizeof count[1], "%zu", qc_json_size(qc_json_find(record, "float_ops")));
    qc_json_set(o, "operators in integers", qc_json_string(count[0]));
    qc_json_set(o, "operators in float", qc_json_string(count[1]));
    return o;
}

bool qc_quantize_for_targets(struct qc_target_pair *out, const char *model, const struct qc_options *o,
                             struct qc_progress *progress, struct qc_warnings *w, struct qc_status *st)
{
    static const enum qc_option same[] = {QC_OPTION_INPUT, QC_OPTION_STATE,   QC_OPTION_PREPROCESS,
                                          QC_OPTION_IMAGE, QC_OPTION_SAMPLES, QC_OPTION_SEED};
    *out = (struct qc_target_pair){.rounding = NULL};
    const char *comma = strchr(o->graph.target, ',');
    if (!comma || comma == o->graph.target || !comma[1] || strchr(comma + 1, ','))
        return qc_fail(st, QC_USAGE, "compare --target takes two targets, as in --target ort,tensorrt, and one MODEL");
    const char *const name[] = {qc_arena_strndup(o->arena, o->graph.target, (size_t)(comma - o->graph.target), st),
                                comma + 1};
    if (!name[0]) return false;
    for (int side = 0; side < 2; side++) {
        const struct qc_job_listener listener = {.progress = progress};
        struct qc_options q;
        struct qc_job *j = NULL;
        if (!qc_options_init(&q, QC_COMMAND_quantize, o->arena, st) ||
            !qc_options_set(&q, QC_OPTION_TARGET, name[side], st) || !qc_options_set(&q, QC_OPTION_ADVICE, "off", st) ||
            !qc_options_set(&q, QC_OPTION_FORMAT, "qdq", st) ||
            (o->data.stats && !qc_options_set(&q, QC_OPTION_METHOD, "mse", st)))
            return false;
        q.data = o->data;
        if (o->data.stats) q.data.file = NULL; /* the samples are for the comparison */
        for (size_t i = 0; i < sizeof same / sizeof *same; i++) q.given[same[i]] = o->given[same[i]];
        q.run = o->run;
        q.graph.kernels = o->graph.kernels;
        const struct qc_job_inputs in = qc_job_inputs_of(&q, model);
        bool ok = qc_job_new(&j, &q, &in, &listener, st) && qc_job_run(j, st) &&
                  qc_temporary_file(&out->file[side], o->arena, st) && qc_job_write(j, 0, out->file[side], st);
        if (ok) out->of[side] = conventions(name[side], &q, qc_job_report(j)->record, st);
        if (ok) ok = st->code == QC_OK && (qc_json_is_whole(out->of[side]) || qc_fail_memory(st, 1));
        const struct qc_warnings *said = j ? qc_job_warnings(j) : NULL;
        for (size_t i = 0; said && i < qc_warnings_count(said); i++)
            qc_warn(w, "%s: %s", name[side], qc_warnings_text(said, i));
        qc_job_free(j);
        if (!ok) return qc_where(st, "--target %s", name[side]);
    }
    out->rounding = qc_arena_printf(o->arena, st, "%s,%s", qc_json_find_text(out->of[0], "rounding"),
                                    qc_json_find_text(out->of[1], "rounding"));
    return out->rounding != NULL;
}

void qc_target_pair_close(struct qc_target_pair *p)
{
    for (int side = 0; side < 2; side++) {
        if (p->file[side]) unlink(p->file[side]);
        qc_json_free(p->of[side]);
    }
}
