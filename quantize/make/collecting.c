// SPDX-License-Identifier: Apache-2.0
#include "base/sha256.h"
#include "quantize/make/evidence.h"
#include "quantize/make/make.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/resident.h"
#include "base/scope.h"
#include "calib/metrics/accuracy.h"
#include "calib/metrics/measure.h"
#include "calib/metrics/sensitivity.h"
#include "calib/sequential/sequential.h"
#include "calib/statistics/statistics.h"
#include "calib/weights/round_weights.h"
#include "calib/weights/rounded_layers.h"
#include "graph/core/parameters.h"
#include "graph/core/rebuild.h"
#include "graph/core/uses.h"

/* The graphs of the stages to come, made without the limit: one error reports the sum of all needs. */
struct rehearsal {
    struct qc_budget budget; /* without the limit */
    struct qc_graph *bound, *expanded, *folded, *produced;
    struct qc_graph **lowered; /* [p->setup->format_count] */
};

/* Fails if the limit has no room for `times` copies of g. The job makes the same graphs, so it would fail later. */
static bool has_room_for_copies(const struct qc_network *net, const struct qc_graph *g, size_t times,
                                struct qc_status *st)
{
    const struct qc_budget limit = {.memory_limit = (size_t)net->scheme.options->run.memory_limit};
    return qc_budget_hold(&limit, times * qc_graph_bytes(g), st) || qc_where(st, "planning memory");
}

/* Two plans exist at a time. Steps, storages and packed weights of a plan take about as much as its graph, and half of
   it more while the plan is made. */
enum { PLANS = 6 };

/* Binds scales that differ between quantizers, since quantizers with equal parameters are merged. */
static bool bind(struct qc_graph *g, struct qc_status *st)
{
    struct qc_stored_values stored;
    QC_ARENA_SCOPE *a = qc_arena_new();
    bool ok = a ? qc_stored_values_of(&stored, g, a, st) : qc_fail_memory(st, 1);
    for (qc_id s = 1; ok && s <= g->qparams_count; s++) {
        if (g->qparams_of[s].kind != QC_QPARAMS_QUANTIZER) continue;
        /* The number of scales follows from the shape and axis of one of the values. */
        size_t n = 1, i = g->qparams_of[s].per_channel ? stored.first[s] : stored.first[s + 1];
        for (bool found = false; !found && i < stored.first[s + 1]; i++) {
            const struct qc_type *t = &g->values[stored.value[i]].type;
            found = t->axis >= 0 && t->axis < t->shape.rank;
            if (found) n = qc_scale_layout_of(&g->qparams_of[s], &t->shape, t->axis).count;
        }
        float *scale = malloc(n * sizeof *scale);
        int32_t *zero = calloc(n, sizeof *zero);
        for (size_t k = 0; scale && k < n; k++) scale[k] = 0.01f + 1e-5f * (float)s;
        ok = scale && zero ? qc_graph_bind_quantizer(g, s, n, scale, zero, st) : qc_fail_memory(st, n * sizeof *scale);
        free(scale);
        free(zero);
    }
    return ok;
}

/* Lowering makes two larger graphs at a time: scales and zero points are nodes, and operators share no weights.
   Measured on 8,000 convolutions with the same weights. */
enum { LOWERED = 7 };

enum counting { ALL, HELD /* in memory */ };

static size_t constant_bytes(const struct qc_graph *g, enum counting which)
{
    size_t bytes = 0;
    for (qc_id v = 1; g && v <= g->value_count; v++) {
        const struct qc_tensor *t = qc_constant_of(g, v);
        if (t) bytes += which == ALL ? t->bytes : qc_graph_held_bytes(g, t->bytes);
    }
    return bytes;
}

static void at_least(size_t *most, size_t bytes)
{
    if (bytes > *most) *most = bytes;
}

static bool run_bytes(size_t *most, struct rehearsal *r, const struct qc_network *net, struct qc_status *st)
{
    const struct qc_options *o = net->scheme.options;
    const struct qc_dataset *data = net->setup->data ? net->setup->data : net->setup->eval;
    const struct qc_settings *settings = net->scheme.settings;
    size_t bytes;
    if (!data) return true;
    if (!has_room_for_copies(net, r->folded, PLANS, st)) return false;
    if (net->setup->data && !qc_measure_bytes(&bytes, net->real, r->folded, data, settings, &r->budget, st))
        return false;
    if (net->setup->data) at_least(most, bytes);
    if (net->setup->eval) {
        const struct qc_graph *graphs[2] = {net->setup->normalised, r->produced};
        for (int i = 0; i < 2; i++) {
            struct qc_plan_options how = i ? settings->plan : (struct qc_plan_options){0};
            how.budget = &r->budget;
            if (!qc_evaluate_bytes(&bytes, graphs[i], net->setup->eval, &how, st)) return false;
            at_least(most, bytes);
        }
    }
    if (net->setup->data && settings->plan.accumulator.bits % 32) { /* for fitting accumulators */
        if (!qc_evaluate_bytes(&bytes, r->bound, data, &settings->plan, st)) return false;
        at_least(most, bytes);
    }
    if (!o->method.sensitivity && !qc_options_repeats(o)) return true;
    if (!qc_sensitivity_bytes(&bytes, r->bound, data, &(struct qc_sensitivity_options){.settings = settings}, st))
        return false;
    at_least(most, bytes);
    return true;
}

/* Memory that the stages after collecting keep uncounted, including pages of code: 1.9 MiB measured on superres. */
enum { LATER_RESERVE = 2 << 20 };

bool qc_memory_plan(struct qc_network *net, struct qc_status *st)
{
    struct rehearsal r = {.budget = {.model_bytes = net->simulated->budget.model_bytes}};
    const size_t limit = (size_t)net->scheme.options->run.memory_limit, before = qc_resident_bytes();
    size_t most = 0, propagating = 0, written = 0;
    unsigned workers;
    if (!limit) return true;
    bool ok = has_room_for_copies(net, net->simulated, 1, st) && qc_graph_copy(&r.bound, net->simulated, st);
    if (ok) r.bound->budget = r.budget; /* graphs made from it inherit the budget */
    ok = ok && bind(r.bound, st) && has_room_for_copies(net, r.bound, 1, st) &&
         qc_propagate_qdq(&r.expanded, r.bound, net->setup->rules, net->scheme.partition.one_scale_joins, st) &&
         has_room_for_copies(net, r.expanded, 1, st) && qc_fold(&r.folded, r.expanded, net->setup->fold_rules, st) &&
         has_room_for_copies(net, r.folded, 1, st) && qc_to_integer(&r.produced, r.folded, qc_evaluate, st) &&
         (r.lowered = QC_NEW_ARRAY(net->arena, struct qc_graph *, net->setup->format_count, st)) != NULL;
    for (size_t i = 0; ok && i < net->setup->format_count; i++)
        ok = !net->setup->exporters[i]->lower || (has_room_for_copies(net, r.produced, LOWERED, st) &&
                                                  net->setup->exporters[i]->lower(&r.lowered[i], r.produced, NULL, st));
    ok = ok && run_bytes(&most, &r, net, st) &&
         (!net->scheme.options->method.propagate ||
          qc_sequential_bytes(&propagating, net->simulated, net->setup->data, &net->scheme.calibration, &r.budget, st));
    const size_t after = qc_resident_bytes(), weights = constant_bytes(net->simulated, HELD);
    for (size_t i = 0; ok && i < net->setup->format_count; i++) { /* files are made in memory, but external weights */
        const struct qc_graph *g = r.lowered[i] ? r.lowered[i] : r.produced;
        at_least(&written, constant_bytes(g, HELD) + (g->external_data ? 0 : constant_bytes(g, ALL)));
    }
    for (size_t i = 0; r.lowered && i < net->setup->format_count; i++) qc_graph_free(r.lowered[i]);
    qc_graph_free(r.produced);
    qc_graph_free(r.folded);
    qc_graph_free(r.expanded);
    qc_graph_free(r.bound);
    if (!ok) return false;
    net->evidence->run_bytes = most > propagating ? most : propagating;
    at_least(&most, written);
    /* Copies of the weights: rounded ones, those of a rounder, and with --propagate those of the job without it. Memory
       that the rehearsal touched stays resident and is counted, in addition to the reserve. */
    const bool network = net->scheme.calibration.activation->of_network,
               propagate = net->scheme.options->method.propagate,
               both = propagate && (network || net->scheme.calibration.moments);
    const size_t copies = 1 + (size_t)(propagate || network) + (size_t)both;
    net->evidence->later_bytes = QC_STREAM_RESERVE + LATER_RESERVE + (after > before ? after - before : 0) +
                                 copies * weights + (most > propagating ? most : propagating);
    const bool collects = net->setup->data && !qc_has_statistics(net->setup->in) && (!propagate || both);
    const struct qc_second_moments *second_moments =
        net->evidence->statistics ? net->evidence->statistics->second_moments : NULL; /* loaded from --stats */
    const size_t solving = second_moments ? qc_round_weights_bytes_of_all(second_moments) : 0;
    return collects ||
           qc_stream_workers(&workers, 1, limit, qc_stream_held_bytes(limit), net->evidence->later_bytes + solving, st);
}

/* A checkpoint is saved when SAVE_SECONDS, and SAVE_TIMES the duration of the last save, have passed since that. */
enum { SAVE_SECONDS = 30, SAVE_TIMES = 9 };
/* The file of rounded layers, beside the checkpoint. */
#define LAYERS "%s.layers"

static bool save(void *user, const struct qc_collection *c, struct qc_status *st)
{
    const struct qc_options *o = user;
    return qc_statistics_save(o->run.checkpoint, c, st) || qc_where(st, "--checkpoint");
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

bool qc_collecting_run(struct qc_collection **out, struct qc_collect_cost *cost, const struct qc_setup *s,
                       const struct qc_collecting *what, struct qc_arena *a, struct qc_status *st)
{
    const struct qc_options *o = what->options;
    const char *checkpoint = what->again ? NULL : o->run.checkpoint;
    const struct qc_team *team = s->in->team;
    const struct qc_calibration_options *chooser = what->chooser;
    char model[65] = "", sha[65] = "", where[1200];
    bool named = team || checkpoint || o->command == QC_COMMAND_collect; /* else save the time of hashing */
    struct qc_collect_options how = {.model_sha256 = model,
                                     .data_sha256 = sha,
                                     .need = chooser ? qc_need_of_scan(chooser->activation->need) : QC_NEED_HISTOGRAM,
                                     .observer = chooser ? chooser->activation : NULL,
                                     .observer_values = chooser ? &chooser->activation_values : NULL,
                                     .extremes = !chooser || chooser->few,
                                     .series = chooser && chooser->unseen,
                                     .sends = team != NULL,
                                     .moments = chooser ? chooser->moments : o->data.second_moments,
                                     .channel_axes = what->channel_axes,
                                     .layers = chooser ? QC_MOMENTS_QUANTIZED : QC_MOMENTS_ALL,
                                     .keys = what->keys,
                                     .known = s->given.count ? NULL
                                                             : what->known, /* a partly quantized model is not float */
                                     .later_bytes = chooser ? chooser->later_bytes : 0,
                                     .later_with = chooser ? qc_round_weights_bytes_of_all : NULL,
                                     .settings = what->settings};
    if (team && chooser && chooser->activation->need == QC_NEED_VALUES)
        return qc_fail(st, QC_USAGE,
                       "observer '%s' is a plugin, which needs every sample in one run; MPI splits them: use qcalib",
                       chooser->activation->name);
    if (!(how.inputs = qc_dataset_inputs(s->data, a, st))) return false;
    if (named && (!qc_model_sha256(model, &s->in->model, st) || !qc_data_sha256(sha, &s->in->data, s->data, st)))
        return false;
    if (checkpoint) {
        if (s->progress && s->progress->saves) s->progress->saves(s->progress->user);
        how.save = save;
        how.save_user = (void *)(uintptr_t)o;
        how.save_seconds = SAVE_SECONDS;
        how.save_times = SAVE_TIMES;
        how.so_far_name = qc_text(where, sizeof where, "--checkpoint %s", checkpoint);
        const struct qc_budget budget = {.memory_limit = (size_t)o->run.memory_limit};
        if (access(checkpoint, F_OK) == 0) {
            const size_t before = qc_resident_bytes();
            if (!qc_budget_file(&budget, checkpoint, 2, st) || !qc_statistics_load(&how.so_far, checkpoint, st))
                return qc_where(st, "--checkpoint");
            const size_t after = qc_resident_bytes();
            how.so_far_bytes = after > before ? after - before : 0;
        }
        if (!qc_output_check(checkpoint, st)) return false;
    }
    struct qc_collection *c = NULL;
    if (!qc_collect(&c, cost, what->graph, &what->values, s->data, &how, st)) return false;
    bool ok = !team || (unite(&c, team, st) && qc_model_select(s->data, o, NULL, st));
    return QC_HAND_OVER(ok, out, c, qc_collection_free);
}

bool qc_collecting_layers(struct qc_rounded_file **out, const struct qc_network *net, struct qc_status *st)
{
    const struct qc_options *o = net->scheme.options;
    const char *path = qc_arena_printf(net->arena, st, LAYERS, o->run.checkpoint);
    char model[65], data[65], job[65];
    struct qc_json *options = qc_options_json(o);
    char *text = qc_json_is_whole(options) ? qc_json_print(options, 0) : NULL;
    qc_json_free(options);
    if (!text) return qc_fail_memory(st, 1);
    bool ok = path && qc_model_sha256(model, &net->setup->in->model, st) &&
              qc_data_sha256(data, &net->setup->in->data, net->setup->data, st);
    const char *all = ok ? qc_arena_printf(net->arena, st, "%s\n%s\n%s\n%s", QC_VERSION, model, data, text) : NULL;
    free(text);
    if (all) qc_sha256(job, all, strlen(all));
    return all && qc_rounded_file_open(out, path, job, st);
}

void qc_collecting_end(const struct qc_options *o)
{
    char path[4096];
    if (!o->run.checkpoint) return;
    unlink(o->run.checkpoint);
    if (snprintf(path, sizeof path, LAYERS, o->run.checkpoint) < (int)sizeof path) unlink(path);
}

/* Memory of the program itself, statistics and what a run of one worker holds, MiB; and how many copies of weights and
   second moments the stages hold: a rounder and a graph for each of two networks, with packed weights for their runs.
 */
enum { AMPLE_MIB = 64, WEIGHTS_HELD = 12, MOMENTS_HELD = 4 };

bool qc_memory_ample(const struct qc_network *net)
{
    const size_t limit = (size_t)net->scheme.options->run.memory_limit;
    const struct qc_second_moments *m = net->moments                ? net->moments
                                        : net->evidence->statistics ? net->evidence->statistics->second_moments
                                                                    : NULL;
    if (!limit) return true;
    const double held = (double)((size_t)AMPLE_MIB << 20) + WEIGHTS_HELD * (double)constant_bytes(net->simulated, ALL) +
                        MOMENTS_HELD * (double)(m ? qc_second_moments_bytes(m) : 0) +
                        2 * (double)net->evidence->run_bytes;
    return (double)limit >= held;
}
