// SPDX-License-Identifier: Apache-2.0
#include "quantize/collect/collecting.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "calib/statistics/statistics.h"
#include "calib/weights/round_weights.h"
#include "calib/weights/rounded_file.h"

enum { SAVE_SECONDS = 30 };
/* The file of rounded layers, beside the checkpoint. */
#define LAYERS "%s.layers"

static bool save(void *user, const struct qc_collection *c, struct qc_status *st)
{
    const struct qc_options *o = user;
    return qc_statistics_save(o->checkpoint, c, st) || qc_where(st, "--checkpoint");
}

/* Rank 0 merges all statistics. The other ranks send theirs and return false without an error. */
static bool unite(struct qc_collection **all, const struct qc_team *team, struct qc_status *st)
{
    void *bytes = NULL;
    size_t size = 0;
    bool ok = true;
    if (team->rank) {
        ok = qc_statistics_encode(&bytes, &size, *all, st) && team->send(bytes, size, st);
        free(bytes);
        return ok && false;
    }
    for (unsigned k = 1; ok && k < team->size; k++) {
        struct qc_collection *c = NULL;
        bytes = NULL;
        ok = team->receive(&bytes, &size, k, st) && qc_statistics_decode(&c, bytes, size, st) &&
             qc_collection_merge(*all, c, st);
        if (!ok) qc_where(st, "statistics of rank %u", k);
        qc_collection_free(c);
        free(bytes);
    }
    return ok && qc_collection_check_whole(*all, st);
}

struct qc_known_outputs *qc_outputs_known(const struct qc_pipeline *p)
{
    return p->known_of == p->real ? p->known : NULL;
}

bool qc_collecting_run(struct qc_collection **out, struct qc_collect_cost *cost, const struct qc_pipeline *p,
                       const struct qc_collecting *what, struct qc_status *st)
{
    const struct qc_options *o = p->options;
    const struct qc_team *team = p->in->team;
    const struct qc_calibration_options *chooser = what->chooser;
    char model[65] = "", sha[65] = "", where[1200];
    bool named = team || o->checkpoint || o->command == QC_COMMAND_collect; /* else save the time of hashing */
    struct qc_collect_options how = {.model_sha256 = model,
                                     .data_sha256 = sha,
                                     .need = chooser ? qc_need_of_scan(chooser->activation->need) : QC_NEED_HISTOGRAM,
                                     .observer = chooser ? chooser->activation : NULL,
                                     .observer_values = chooser ? &chooser->activation_values : NULL,
                                     .extremes = !chooser || chooser->few,
                                     .series = chooser && chooser->unseen,
                                     .moments = chooser ? chooser->moments : strcmp(o->second_moments, "on") == 0,
                                     .channel_axes = what->channel_axes,
                                     .layers = chooser ? QC_MOMENTS_QUANTIZED : QC_MOMENTS_ALL,
                                     .keys = p->from->keys,
                                     .known = p->from->given.count
                                                  ? NULL
                                                  : qc_outputs_known(p), /* a partly quantized model is not float */
                                     .later_bytes = chooser ? chooser->later_bytes : 0,
                                     .later_with = chooser ? qc_round_weights_bytes_of_all : NULL,
                                     .run = qc_run_options_of(o, p->progress)};
    if (team && chooser && chooser->activation->need == QC_NEED_VALUES)
        return qc_fail(st, QC_USAGE,
                       "observer '%s' is a plugin, which needs every sample in one run; MPI splits them: use qcalib",
                       chooser->activation->name);
    if (!(how.inputs = qc_dataset_inputs(p->from->data, p->arena, st))) return false;
    if (named && (!qc_model_sha256(model, &p->in->model, st) || !qc_data_sha256(sha, &p->in->data, p->from->data, st)))
        return false;
    if (o->checkpoint) {
        qc_progress_saves(p->progress);
        how.save = save;
        how.save_user = (void *)(uintptr_t)o;
        how.save_seconds = SAVE_SECONDS;
        how.so_far_name = qc_text(where, sizeof where, "--checkpoint %s", o->checkpoint);
        const struct qc_budget budget = {.memory_limit = (size_t)o->memory_limit};
        if (access(o->checkpoint, F_OK) == 0 &&
            (!qc_budget_file(&budget, o->checkpoint, 2, st) || !qc_statistics_load(&how.so_far, o->checkpoint, st)))
            return qc_where(st, "--checkpoint");
        if (!qc_output_check(o->checkpoint, st)) return false;
    }
    struct qc_collection *c = NULL;
    if (!qc_collect(&c, cost, what->graph, what->count, what->values, what->names, p->from->data, &how, st))
        return false;
    bool ok = !team || (unite(&c, team, st) && qc_model_select(p->from->data, o, NULL, st));
    if (ok)
        *out = c;
    else
        qc_collection_free(c);
    return ok;
}

bool qc_collecting_layers(struct qc_rounded_file **out, const struct qc_pipeline *p, struct qc_status *st)
{
    const struct qc_options *o = p->options;
    const char *path = qc_arena_printf(p->arena, st, LAYERS, o->checkpoint);
    char model[65], data[65], job[65];
    struct qc_json *options = qc_options_json(o);
    char *text = qc_json_is_whole(options) ? qc_json_print(options, 0) : NULL;
    qc_json_free(options);
    if (!text) return qc_fail_memory(st, 1);
    bool ok =
        path && qc_model_sha256(model, &p->in->model, st) && qc_data_sha256(data, &p->in->data, p->from->data, st);
    const char *all = ok ? qc_arena_printf(p->arena, st, "%s\n%s\n%s\n%s", QC_VERSION, model, data, text) : NULL;
    free(text);
    return all && qc_sha256(job, all, strlen(all), st) && qc_rounded_file_open(out, path, job, st);
}

void qc_collecting_end(const struct qc_options *o)
{
    char path[4096];
    if (!o->checkpoint) return;
    unlink(o->checkpoint);
    if (snprintf(path, sizeof path, LAYERS, o->checkpoint) < (int)sizeof path) unlink(path);
}

/* Copies given statistics, because a pipeline modifies its own. */
static bool copy(struct qc_collection **out, const struct qc_collection *c, struct qc_status *st)
{
    void *bytes = NULL;
    size_t size = 0;
    const bool ok = qc_statistics_encode(&bytes, &size, c, st) && qc_statistics_decode(out, bytes, size, st);
    free(bytes);
    return ok;
}

static bool check(const struct qc_collection *c, const struct qc_dataset *data, const struct qc_job_inputs *in,
                  struct qc_status *st)
{
    struct qc_arena *a = qc_arena_new();
    char model[65];
    if (!a) return qc_fail_memory(st, 1);
    const char *inputs = data ? qc_dataset_inputs(data, a, st) : c->inputs;
    bool ok = inputs && qc_model_sha256(model, &in->model, st);
    if (ok && strcmp(model, c->model_sha256) != 0)
        ok = qc_fail(st, QC_BAD_INPUT, "is of another model (SHA-256 %s, %s has %s); collect statistics of this one",
                     c->model_sha256, in->model.file ? in->model.file : "the model", model);
    if (ok && strcmp(inputs, c->inputs) != 0) {
        const char *here = inputs, *there = c->inputs;
        qc_collection_inputs_differ(&here, &there);
        ok = qc_fail(st, QC_BAD_INPUT,
                     "was made from other inputs or with another preprocessing ('%.*s') than --data here ('%.*s')",
                     (int)strcspn(there, "\n"), there, (int)strcspn(here, "\n"), here);
    }
    qc_arena_free(a);
    return ok && qc_collection_check_whole(c, st);
}

bool qc_collecting_load(struct qc_collection **out, const struct qc_dataset *data, const struct qc_job_inputs *in,
                        struct qc_status *st)
{
    const struct qc_statistics_source *from = &in->statistics;
    struct qc_collection *c = NULL;
    if (!(from->collection ? copy(&c, from->collection, st) : qc_statistics_load(&c, from->file, st))) return false;
    if (check(c, data, in, st)) {
        *out = c;
        return true;
    }
    qc_collection_free(c);
    return qc_where(st, "%s", qc_statistics_name(in));
}
