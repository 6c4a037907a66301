// SPDX-License-Identifier: Apache-2.0
#include "library/public.h"

static bool tell(void *user, const char *phase, size_t done, size_t count)
{
    const struct qc_public_job *j = user;
    return j->call.progress(j->call.user, phase ? phase : "", done, count) == 0;
}

static bool open_memory(struct qc_dataset **out, const void *user, const struct qc_input_spec *inputs,
                        size_t input_count, const struct qc_dataset_options *options, struct qc_status *st)
{
    return qc_dataset_open_memory(out, user, inputs, input_count, options, st);
}

static bool sum_memory(char hex[65], const void *user, struct qc_status *st)
{
    return qc_memory_data_sha256(hex, user, st);
}

static bool take_data(struct qc_data_source *out, const struct qcalib_data *d, struct qc_status *st)
{
    if (!d) return true;
    if (d->waiting)
        return qc_fail(st, QC_USAGE, "%s: array '%s' has no samples yet: call qcalib_data_draw",
                       qc_memory_data_name(d->memory), d->arrays[0].name);
    if (d->memory)
        *out = (struct qc_data_source){.open = open_memory, .sha256 = sum_memory, .user = d->memory};
    else
        *out = (struct qc_data_source){.file = d->file};
    return true;
}

void qc_public_source(struct qc_model_source *out, struct qc_model_at_hand *at_hand, const struct qcalib_model *model)
{
    *at_hand = (struct qc_model_at_hand){.graph = model->graph,
                                         .from_file = model->from_file,
                                         .info = &model->info,
                                         .sha256 = model->sha256,
                                         .bytes = model->bytes};
    *out = (struct qc_model_source){.file = model->name, .at_hand = at_hand};
}

bool qc_public_begin(struct qc_public_job *out, enum qc_command command, const struct qcalib_model *model,
                     const struct qcalib_job *job, struct qc_status *st)
{
    if (!qc_public_there(model, "model", st) || !qc_public_take(&out->call, sizeof out->call, job, "qcalib_job", st))
        return false;
    if (!(out->arena = qc_arena_new())) return qc_fail_memory(st, 1);
    const struct qcalib_job *call = &out->call;
    if (call->progress) out->progress = (struct qc_progress){.tell = tell, .user = out};
    qc_public_source(&out->in.model, &out->model, model);
    if (call->statistics) out->in.statistics.collection = call->statistics->collection;
    return take_data(&out->in.data, call->data, st) && take_data(&out->in.eval, call->eval, st) &&
           qc_public_options(&out->options, command, call->options, out->arena, st);
}

void qc_public_done(struct qc_public_job *j)
{
    qc_arena_free(j->arena);
    j->arena = NULL;
}

void qc_public_warn(const struct qc_public_job *j, const struct qc_warnings *w)
{
    for (size_t i = 0; w && j->call.message && i < qc_warnings_count(w); i++)
        j->call.message(j->call.user, qc_warnings_text(w, i));
}
