// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/file_map.h"
#include "export/formats/exporter.h"
#include "library/public.h"
#include "onnx/write/emit.h"
#include "quantize/make/make.h"

struct qcalib_result {
    struct qc_public_job public;
    struct qc_job *job;
    const struct qc_report *r; /* of the job */
    char *report;
    bool models; /* --max-drop was met */
};

int qcalib_quantize(qcalib_result **out, const qcalib_model *model, const struct qcalib_job *job,
                    struct qcalib_error *error)
{
    struct qc_public_call call = qc_public_begin_call();
    struct qcalib_result *r = NULL;
    if (!qc_public_there(out, "out", &call.st) || !(r = calloc(1, sizeof *r))) {
        qc_fail_memory(&call.st, sizeof *r); /* unless out is NULL */
        return qc_public_end(false, &call, error);
    }
    struct qc_public_job *p = &r->public;
    struct qc_json *json = NULL;
    bool made = qc_public_begin(p, QC_COMMAND_quantize, model, job, &call.st);
    const struct qc_job_listener listener = {.progress = p->call.progress ? &p->progress : NULL};
    made = made && qc_job_new(&r->job, &p->options, &p->in, &listener, &call.st) && qc_job_run(r->job, &call.st) &&
           qc_job_record(&json, r->job, &call.st);
    r->r = r->job ? qc_job_report(r->job) : NULL;
    if (made && !(r->report = qc_json_print(json, 2))) made = qc_fail_memory(&call.st, 1);
    qc_json_free(json);
    if (made) qc_job_done(r->job);
    if (r->job) qc_public_warn(p, qc_job_warnings(r->job));
    p->progress.tell = NULL; /* the callbacks are valid only during the call */
    if (made) qc_job_check_demand(&r->models, r->job, &call.st);
    if (made)
        *out = r;
    else
        qcalib_result_free(r);
    return qc_public_end(made && call.st.code == QC_OK, &call, error);
}

void qcalib_result_free(qcalib_result *result)
{
    if (!result) return;
    qc_job_free(result->job);
    qc_public_done(&result->public);
    free(result->report);
    free(result);
}

/* ---- Models ---- */

size_t qcalib_result_model_count(const qcalib_result *result)
{
    return result && result->models ? qc_job_setup(result->job)->format_count : 0;
}

const char *qcalib_result_format(const qcalib_result *result, size_t i)
{
    return i < qcalib_result_model_count(result) ? qc_exporter_name(qc_job_setup(result->job)->exporters[i]) : NULL;
}

/* A format that is only exported to a file uses a temporary one. */
static bool bytes_of_file(void **bytes, size_t *size, const struct qc_exporter *e,
                          const struct qc_export_source *source, struct qc_status *st)
{
    QC_ARENA_SCOPE *a = qc_arena_new();
    if (!a) return qc_fail_memory(st, 1);
    const char *path;
    void *data = NULL;
    if (!qc_temporary_file(&path, a, st)) return false;
    bool ok = qc_export_file(NULL, path, e, source, NULL, st) && qc_file_read(&data, size, path, a, st);
    unlink(path);
    if (ok && !(*bytes = malloc(*size ? *size : 1))) ok = qc_fail_memory(st, *size);
    if (ok) memcpy(*bytes, data, *size);
    return ok;
}

int qcalib_result_model(void **bytes, size_t *size, const qcalib_result *result, size_t i, struct qcalib_error *error)
{
    struct qc_public_call call = qc_public_begin_call();
    void *made = NULL;
    size_t length = 0;
    bool ok = qc_public_there(bytes, "bytes", &call.st) && qc_public_there(size, "size", &call.st) &&
              qc_public_index(i, qcalib_result_model_count(result), "model", &call.st);
    if (ok) {
        const struct qc_network *net = qc_job_network(result->job);
        const struct qc_exporter *e = net->setup->exporters[i];
        const struct qc_export_source source = {.produced = qc_network_written(net), .expanded = net->expanded};
        ok = e->write ? bytes_of_file(&made, &length, e, &source, &call.st)
                      : qc_onnx_emit(&made, &length, net->lowered[i], NULL, &call.st) ||
                            qc_where(&call.st, "format %s", qc_exporter_name(e));
    }
    if (ok) {
        *bytes = made;
        *size = length;
    }
    return qc_public_end(ok, &call, error);
}

int qcalib_result_write_model(qcalib_result *result, size_t i, const char *path, struct qcalib_error *error)
{
    struct qc_public_call call = qc_public_begin_call();
    const bool ok = qc_public_there(path, "path", &call.st) &&
                    qc_public_index(i, qcalib_result_model_count(result), "model", &call.st) &&
                    qc_job_write(result->job, i, path, &call.st);
    return qc_public_end(ok, &call, error);
}

/* ---- The report ---- */

const char *qcalib_result_report(const qcalib_result *result)
{
    return result ? result->report : NULL;
}

int qcalib_result_write_report(qcalib_result *result, const char *folder, struct qcalib_error *error)
{
    struct qc_public_call call = qc_public_begin_call();
    struct qc_json *json = NULL;
    const bool ok = qc_public_there(result, "result", &call.st) && qc_public_there(folder, "folder", &call.st) &&
                    qc_job_record(&json, result->job, &call.st) &&
                    qc_job_write_report(result->job, json, folder, &call.st);
    qc_json_free(json);
    return qc_public_end(ok, &call, error);
}

size_t qcalib_result_layer_count(const qcalib_result *result)
{
    return result ? result->r->layer_count : 0;
}

int qcalib_result_layer(struct qcalib_layer *out, const qcalib_result *result, size_t i, struct qcalib_error *error)
{
    struct qc_public_call call = qc_public_begin_call();
    bool ok = qc_public_index(i, qcalib_result_layer_count(result), "layer", &call.st);
    if (ok) {
        const struct qc_layer *l = &result->r->layers[i];
        const struct qcalib_layer own = {.name = l->name,
                                         .op = l->op,
                                         .type = qc_dtype_info(l->stored.dtype)->onnx,
                                         .axis = l->stored.axis,
                                         .count = l->stored.count,
                                         .scale = l->stored.scale,
                                         .zero_point = l->stored.zero_point,
                                         .sqnr_db = l->sqnr_db};
        ok = qc_public_give(out, &own, sizeof own, "qcalib_layer", &call.st);
    }
    return qc_public_end(ok, &call, error);
}

size_t qcalib_result_warning_count(const qcalib_result *result)
{
    return result ? qc_warnings_count(qc_job_warnings(result->job)) : 0;
}

const char *qcalib_result_warning(const qcalib_result *result, size_t i)
{
    return i < qcalib_result_warning_count(result) ? qc_warnings_text(qc_job_warnings(result->job), i) : NULL;
}

static bool tell_progress(void *user, const char *phase, size_t done, size_t count)
{
    const struct qc_public_job *j = user;
    return j->call.progress(j->call.user, phase ? phase : "", done, count) == 0;
}

static bool take_data(struct qc_data_source *out, const struct qcalib_data *d, struct qc_arena *a, struct qc_status *st)
{
    if (!d) return true;
    if (d->waiting)
        return qc_fail(st, QC_USAGE, "%s: array '%s' has no samples yet: call qcalib_data_draw",
                       qc_memory_data_name(d->memory), d->arrays[0].name);
    *out = (struct qc_data_source){.memory = d->memory};
    return d->memory || (out->file = qc_arena_strdup(a, d->file, st));
}

void qc_public_source(struct qc_model_source *out, struct qc_model_at_hand *at_hand, const struct qcalib_model *model)
{
    *at_hand = (struct qc_model_at_hand){.graph = model->graph,
                                         .file = model->file,
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
    if (call->progress) out->progress = (struct qc_progress){.tell = tell_progress, .user = out};
    qc_public_source(&out->in.model, &out->model, model);
    if (!(out->in.model.file = qc_arena_strdup(out->arena, model->name, st))) return false;
    if (call->statistics) {
        out->in.statistics.collection = call->statistics->collection;
        out->in.files = call->statistics->files.items;
        out->in.file_count = call->statistics->files.count;
    }
    if (!take_data(&out->in.data, call->data, out->arena, st) ||
        !take_data(&out->in.eval, call->eval, out->arena, st) ||
        !qc_public_options(&out->options, command, call->options, out->arena, st))
        return false;
    /* the outputs that the caller names */
    struct qc_file_list inputs = {.arena = out->arena};
    out->outputs.arena = out->arena;
    for (size_t i = 0; i < call->output_count; i++)
        if (!qc_public_there(call->outputs, "outputs", st) || !qc_public_there(call->outputs[i], "outputs[i]", st) ||
            !qc_file_list_add_model(&out->outputs, call->outputs[i], st) || !qc_output_check(call->outputs[i], st))
            return false;
    out->in.model.outputs = out->outputs.items;
    out->in.model.output_count = out->outputs.count;
    return !call->output_count || (qc_file_list_add_inputs(&inputs, &out->in, &out->options, st) &&
                                   qc_file_list_apart(&out->outputs, &inputs, st));
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
