// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/scope.h"
#include "base/sha256.h"
#include "evaluate/evaluate.h"
#include "library/public.h"
#include "rewrite/language/expansion.h"
#include "tflite/read/tflite_import.h"

/* Imports a file, or bytes in memory if path is NULL. */
static bool import(struct qcalib_model *m, const char *path, const void *bytes, size_t size, struct qc_status *st)
{
    if (path ? qc_is_tflite_file(path) : qc_is_tflite(bytes, size))
        return path ? qc_tflite_import(&m->graph, &m->info, path, 0, st)
                    : qc_tflite_import_memory(&m->graph, &m->info, bytes, size, 0, st);
    struct qc_rules *rules = qc_rules_new(st);
    bool ok = rules && qc_rules_add_builtin(rules, "functions.rules", st) &&
              qc_rules_add_builtin(rules, "functions_ml.rules", st);
    if (ok) {
        const struct qc_expander expander = qc_rules_expander(rules);
        const struct qc_import_options o = {.expander = &expander, .unknown = QC_UNKNOWN_CARRIED};
        ok = path ? qc_onnx_import_with(&m->graph, &m->info, path, &o, st)
                  : qc_onnx_import_memory_with(&m->graph, &m->info, bytes, size, NULL, &o, st);
    }
    qc_rules_free(rules);
    return ok;
}

static bool make_model(struct qcalib_model **out, const char *name, struct qc_status *st)
{
    struct qcalib_model *m = calloc(1, sizeof *m);
    if (!m || !(m->name = strdup(name))) {
        free(m);
        return qc_fail_memory(st, sizeof *m);
    }
    *out = m;
    return true;
}

int qcalib_model_open(qcalib_model **out, const char *path, struct qcalib_error *error)
{
    struct qc_public_call call = qc_public_begin_call();
    struct qcalib_model *m = NULL;
    struct stat s;
    bool ok = qc_public_there(out, "out", &call.st) && qc_public_there(path, "path", &call.st) &&
              make_model(&m, path, &call.st);
    if (ok && qc_data_is_hdf5(path)) ok = qc_fail(&call.st, QC_BAD_INPUT, "%s: is an HDF5 file, not a model", path);
    ok = ok && import(m, path, NULL, 0, &call.st) && qc_sha256_file(m->sha256, path, &call.st);
    if (ok && !(m->file = realpath(path, NULL)))
        ok = qc_fail(&call.st, qc_code_of_errno(errno), "%s: %s", path, strerror(errno));
    if (ok) m->bytes = stat(path, &s) == 0 ? (size_t)s.st_size : 0;
    return qc_public_end(QC_HAND_OVER(ok, out, m, qcalib_model_free), &call, error);
}

int qcalib_model_from_memory(qcalib_model **out, const void *bytes, size_t size, const char *name,
                             struct qcalib_error *error)
{
    struct qc_public_call call = qc_public_begin_call();
    struct qcalib_model *m = NULL;
    const char *called = name && *name ? name : "model";
    bool ok = qc_public_there(out, "out", &call.st) && qc_public_there(bytes, "bytes", &call.st) &&
              make_model(&m, called, &call.st);
    ok = ok && (import(m, NULL, bytes, size, &call.st) || qc_where(&call.st, "%s", called));
    if (ok) {
        qc_sha256(m->sha256, bytes, size);
        m->bytes = size;
    }
    return qc_public_end(QC_HAND_OVER(ok, out, m, qcalib_model_free), &call, error);
}

void qcalib_model_free(qcalib_model *model)
{
    if (!model) return;
    qc_graph_free(model->graph);
    free(model->name);
    free(model->file);
    free(model);
}

static bool describe_model(struct qcalib_tensor *out, const struct qc_port *port, const struct qc_graph *g,
                           struct qc_status *st)
{
    const struct qc_type *t = &qc_value(g, port->value)->type;
    struct qcalib_tensor own = {.name = port->name, .type = qc_dtype_info(t->dtype)->onnx, .rank = t->shape.rank};
    _Static_assert((int)QCALIB_RANK_MAX == (int)QC_RANK_MAX, "shapes are as long as inside");
    for (int i = 0; i < own.rank; i++) own.shape[i] = t->shape.dim[i] < 0 ? -1 : t->shape.dim[i];
    return qc_public_give(out, &own, sizeof own, "qcalib_tensor", st);
}

size_t qcalib_model_input_count(const qcalib_model *model)
{
    return model ? model->graph->input_count : 0;
}

size_t qcalib_model_output_count(const qcalib_model *model)
{
    if (!model) return 0;
    return model->graph->carried ? model->graph->carried->output_count : model->graph->output_count;
}

int qcalib_model_input(struct qcalib_tensor *out, const qcalib_model *model, size_t i, struct qcalib_error *error)
{
    struct qc_public_call call = qc_public_begin_call();
    const bool ok = qc_public_index(i, qcalib_model_input_count(model), "input", &call.st) &&
                    describe_model(out, &model->graph->inputs[i], model->graph, &call.st);
    return qc_public_end(ok, &call, error);
}

int qcalib_model_output(struct qcalib_tensor *out, const qcalib_model *model, size_t i, struct qcalib_error *error)
{
    struct qc_public_call call = qc_public_begin_call();
    const bool ok = qc_public_index(i, qcalib_model_output_count(model), "output", &call.st) &&
                    describe_model(out, &model->graph->outputs[i], model->graph, &call.st);
    return qc_public_end(ok, &call, error);
}

/* Frees the object. */
static bool print(char **json, size_t *size, struct qc_json *all, struct qc_status *st)
{
    char *text = qc_json_print(all, 0);
    qc_json_free(all);
    if (!text) return qc_fail_memory(st, 1);
    *size = strlen(text);
    *json = text;
    return true;
}

static bool there(char **json, const size_t *size, struct qc_status *st)
{
    return qc_public_there(json, "json", st) && qc_public_there(size, "size", st);
}

int qcalib_inspect_file(char **json, size_t *size, const char *path, struct qcalib_error *error)
{
    struct qc_public_call call = qc_public_begin_call();
    QC_ARENA_SCOPE *a = qc_arena_new();
    struct qc_options o;
    struct qc_json *all = NULL;
    const bool ok = there(json, size, &call.st) && qc_public_there(path, "path", &call.st) &&
                    (a || qc_fail_memory(&call.st, 1)) && qc_options_init(&o, QC_COMMAND_run, a, &call.st) &&
                    qc_describe_file(&all, path, &o, 0, NULL, &call.st) && print(json, size, all, &call.st);
    return qc_public_end(ok, &call, error);
}

int qcalib_inspect_model(char **json, size_t *size, const qcalib_model *model, struct qcalib_error *error)
{
    struct qc_public_call call = qc_public_begin_call();
    QC_ARENA_SCOPE *a = qc_arena_new();
    struct qc_options o;
    struct qc_model m = {0};
    struct qc_json *all = NULL;
    struct qc_model_source source;
    struct qc_model_at_hand at_hand;
    bool ok =
        there(json, size, &call.st) && qc_public_there(model, "model", &call.st) && (a || qc_fail_memory(&call.st, 1));
    if (ok) {
        qc_public_source(&source, &at_hand, model);
        ok = qc_options_init(&o, QC_COMMAND_run, a, &call.st) && qc_model_open(&m, &source, &o, NULL, &call.st) &&
             qc_describe_model(&all, &m, 0, a, &call.st) && print(json, size, all, &call.st);
        qc_model_close(&m);
    }
    return qc_public_end(ok, &call, error);
}
