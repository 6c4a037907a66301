// SPDX-License-Identifier: Apache-2.0
#include "quantize/pipeline.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/resident.h"
#include "calib/weights/rounded_layers.h"
#include "graph/core/verify.h"
#include "quantize/options/option_value.h"
#include "quantize/options/scheme_options.h"
#include "quantize/scaling/scale_channels.h"
#include "quantize/stages/stage_list.h"
#include "quantize/trials/auto_method.h"
#include "quantize/trials/propagate_check.h"
#include "quantize/trials/trial_graph.h"

static bool check_graph(const struct qc_pipeline *p, const struct qc_stage *s, struct qc_op_counts *heavy,
                        bool *counted, struct qc_status *st)
{
    const struct qc_graph *g = s->graph ? s->graph(p) : NULL;
    if (!g) return true;
    if (!qc_graph_verify(g, st) || (*counted && !qc_graph_verify_heavy(g, heavy, s->name, st)))
        return qc_where(st, "after pass '%s'", s->name);
    qc_graph_count_ops(heavy, g);
    *counted = strcmp(s->name, "import") != 0; /* constants are folded once: heavy ops may vanish, never appear */
    return true;
}

/* Fails if the memory limit has no room for another graph as large as the last one. */
static bool has_room_for_next(const struct qc_pipeline *p, const struct qc_graph *last, struct qc_status *st)
{
    const struct qc_budget budget = {.memory_limit = (size_t)p->options->memory_limit};
    return !budget.memory_limit || !last || qc_budget_hold(&budget, qc_graph_bytes(last), st);
}

static bool tell_stage(const struct qc_pipeline *p, const struct qc_stage *s, struct qc_status *st)
{
    return !p->stage_done || p->stage_done(p->stage_user, p, s, st);
}

bool qc_pipeline_run(struct qc_pipeline *p, struct qc_status *st)
{
    struct qc_op_counts heavy;
    const struct qc_graph *last = NULL;
    bool counted = false, repeated = false;
    for (size_t i = 0; i < qc_stage_count(); i++) {
        const struct qc_stage *s = qc_stage_at(i);
        if (s->repeated && !repeated) p->warnings_from = qc_warnings_count(p->warnings);
        repeated = s->repeated;
        if (!has_room_for_next(p, last, st)) return qc_where(st, "before pass '%s'", s->name);
        if (!s->run(p, st) || !check_graph(p, s, &heavy, &counted, st) || !tell_stage(p, s, st) ||
            !qc_progress_check(p->progress, st))
            return false;
        if (s->graph && s->graph(p)) last = s->graph(p);
    }
    p->warnings_to = qc_warnings_count(p->warnings);
    return true;
}

/* Clears all results of the repeated stages, without freeing them. */
static void forget_repeated(struct qc_pipeline *p)
{
    p->with_bodies = p->dynamic = NULL;
    p->narrowed = p->produced = p->folded = p->expanded = p->rounded = p->simulated = p->joined = NULL;
    p->uncorrected = NULL;
    p->calibration = NULL;
    p->auto_method = NULL;
    p->unpropagated = NULL;
    p->partition = NULL;
    p->weight_rounding = NULL;
    p->weight_rounder = NULL;
    p->crossed = (struct qc_crossed_rounding){0};
    p->output_bias = (struct qc_output_correction){0};
}

static void free_again(struct qc_pipeline *p)
{
    for (size_t i = 0; p->lowered && i < p->from->lowered_count; i++) {
        qc_graph_free(p->lowered[i]);
        p->lowered[i] = NULL;
    }
    qc_calibration_free(p->calibration);
    qc_auto_method_free(p->auto_method);
    qc_plain_free(p->unpropagated);
    qc_partition_free(p->partition);
    qc_graph_free(p->narrowed);
    qc_graph_free(p->produced);
    qc_graph_free(p->folded);
    qc_graph_free(p->expanded);
    qc_graph_free(p->dynamic);
    qc_graph_free(p->with_bodies);
    qc_graph_free(p->rounded);
    qc_graph_free(p->uncorrected);
    qc_weight_rounding_free(p->weight_rounding);
    qc_weight_rounder_free(p->weight_rounder);
    qc_graph_free(p->simulated);
    qc_graph_free(p->joined);
    forget_repeated(p);
}

static bool run_repeated(struct qc_pipeline *p, struct qc_status *st)
{
    struct qc_op_counts heavy;
    bool counted = true, ok = true;
    qc_graph_count_ops(&heavy, p->real);
    for (size_t i = 0; ok && i < qc_stage_count(); i++) {
        const struct qc_stage *s = qc_stage_at(i);
        if (s->repeated)
            ok = s->run(p, st) && check_graph(p, s, &heavy, &counted, st) && qc_progress_check(p->progress, st) &&
                 (!s->reuse || s->reuse(p, st));
        qc_resident_give_back();
    }
    qc_second_moments_free(p->second_moments);
    p->second_moments = NULL;
    return ok;
}

bool qc_pipeline_again(struct qc_pipeline *p, struct qc_status *st)
{
    free_again(p);
    if (p->shared) qc_folded_constants_trim(p->shared, 0);
    qc_warnings_drop(p->warnings, p->warnings_from, p->warnings_to);
    const size_t before = p->warnings_from = qc_warnings_count(p->warnings);
    const bool ok = run_repeated(p, st);
    p->warnings_from = before;
    p->warnings_to = qc_warnings_count(p->warnings);
    if (!ok) free_again(p);
    return ok;
}

bool qc_pipeline_tell_again(const struct qc_pipeline *p, struct qc_status *st)
{
    for (size_t i = 0; i < qc_stage_count(); i++)
        if (qc_stage_at(i)->repeated && !tell_stage(p, qc_stage_at(i), st)) return false;
    return true;
}

static bool read_rules(struct qc_pipeline *p, struct qc_status *st)
{
    const struct qc_options *o = p->options;
    if (!(p->from->rules = qc_rules_new(st)) || !(p->from->fold_rules = qc_rules_new(st))) return false;
    if (!qc_rules_add_builtin(p->from->rules, "normalise.rules", st) ||
        !qc_rules_add_builtin(p->from->rules, "patterns.rules", st) ||
        !qc_rules_add_builtin(p->from->rules, "islands.rules", st) ||
        !qc_rules_add_builtin(p->from->rules, "costs.rules", st) ||
        !qc_rules_add_builtin(p->from->rules, "allow.rules", st) ||
        !qc_rules_add_builtin(p->from->fold_rules, "requantize.rules", st) ||
        !qc_rules_add_builtin(p->from->fold_rules, "requantize_once.rules", st) ||
        (qc_narrows_bias(o) && !qc_rules_add_builtin(p->from->rules, "bias_narrowed.rules", st)))
        return false;
    if (!qc_rules_take_target(p->from->rules, o->runs_on, st)) return false;
    for (size_t i = 0; i < o->rules.count; i++)
        if (!qc_rules_add_file(p->from->rules, o->rules.items[i], st)) return false;
    return true;
}

static bool read_methods(struct qc_pipeline *p, struct qc_status *st)
{
    const struct qc_options *o = p->options;
    struct qc_calibration_options *c = &p->calibration_options;
    if (!qc_plugins_new(&p->plugins, st)) return false;
    for (size_t i = 0; i < o->plugins.count; i++)
        if (!qc_plugins_load(p->plugins, o->plugins.items[i], st)) return qc_where(st, "--plugin");
    if (!qc_observer_parse_among(&c->activation, &c->activation_values, o->method ? o->method : "auto", p->plugins, st))
        return qc_where(st, "--method");
    if (!qc_observer_parse_among(&c->weight, &c->weight_values, o->weight_method ? o->weight_method : "minmax",
                                 p->plugins, st))
        return qc_where(st, "--weight-method");
    if (c->weight->of_network)
        return qc_fail(st, QC_USAGE,
                       "--weight-method auto: ranges of weights are not chosen by runs of the network; give minmax, "
                       "mse or output");
    c->run = qc_run_options_of(o, p->progress);
    c->compensate = strcmp(o->weight_rounding, "compensated") == 0;
    c->correct_bias = qc_corrects_bias(o);
    c->blocks_by_error = !o->given[QC_OPTION_WEIGHT_METHOD];
    c->moments = c->weight->of_output || qc_rounds_weights(o) || qc_options_scale(o);
    c->look_through = strcmp(o->look_through, "on") == 0;
    c->nonfinite_error = o->nonfinite && strcmp(o->nonfinite, "error") == 0;
    return true;
}

static bool open_pipeline(struct qc_pipeline *p, const struct qc_options *o, const struct qc_job_inputs *in,
                          struct qc_status *st)
{
    p->options = o;
    p->in = in;
    p->arena = qc_arena_new();
    if (!(p->from = calloc(1, sizeof *p->from))) return qc_fail_memory(st, sizeof *p->from);
    p->from->holders = 1;
    p->from->arena = qc_arena_new();
    return p->arena && p->from->arena ? qc_warnings_new(&p->warnings, st) : qc_fail_memory(st, 1);
}

/* True if advice may be tried, as far as is known at the beginning. */
static bool wants_advice(const struct qc_pipeline *p)
{
    return strcmp(p->options->advice, "off") != 0 && qc_has_data(&p->in->data) && !p->in->team &&
           !p->options->propagate && !p->options->size;
}

bool qc_pipeline_begin(struct qc_pipeline *p, const struct qc_options *o, const struct qc_job_inputs *in,
                       struct qc_status *st)
{
    if (!qc_options_agree(o, in, st)) return false;
    if (!open_pipeline(p, o, in, st) || !read_rules(p, st) || !read_methods(p, st) ||
        !qc_integer_options(&p->how, o, st))
        return false;
    if (!qc_scheme_options(&p->scheme, o, p->arena, st) || !qc_warn_target_options(o, p->warnings, st)) return false;
    if (p->scheme.weight_block && o->runs_on->no_blocks) {
        p->scheme.weight_block = 0;
        qc_warn(p->warnings,
                "--weight-block is ignored and weights have a scale per channel: --target %s is for hardware whose "
                "integer sums have no blocks",
                o->runs_on->name);
    }
    if (qc_has_data(&in->data) &&
        !qc_folded_constants_new(&p->shared, o->memory_limit ? QC_FORMS_NOT_KEPT : QC_FORMS_KEPT, st))
        return false;
    if (wants_advice(p) && !qc_rounded_layers_new(&p->rounded_layers, st)) return false;
    p->from->lowered_count = o->formats.count;
    p->from->exporters = QC_NEW_ARRAY(p->from->arena, const struct qc_exporter *, p->from->lowered_count, st);
    p->lowered = QC_NEW_ARRAY(p->arena, struct qc_graph *, p->from->lowered_count, st);
    if (!p->from->exporters || !p->lowered) return false;
    for (size_t i = 0; i < p->from->lowered_count; i++)
        if (!(p->from->exporters[i] = qc_exporter_find(o->formats.items[i])))
            return qc_fail(st, QC_USAGE, "--format %s: there is no such format; see 'qcalib list formats'",
                           o->formats.items[i]);
    return true;
}

bool qc_pipeline_begin_collect(struct qc_pipeline *p, const struct qc_options *o, const struct qc_job_inputs *in,
                               struct qc_status *st)
{
    if (!qc_has_data(&in->data))
        return qc_fail(st, QC_USAGE,
                       "collect needs --data FILE with samples of what the model is used on: HDF5, .npz, .npy, or a "
                       "folder of images");
    return open_pipeline(p, o, in, st) && read_rules(p, st);
}

/* Sets the members that a branch shares with p. */
static void take_from(struct qc_pipeline *t, const struct qc_pipeline *p, bool anew)
{
    p->from->holders++;
    *t = (struct qc_pipeline){.in = p->in,
                              .progress = p->progress,
                              .from = p->from,
                              .is_branch = true,
                              .real = p->from->normalised,
                              .quantize_body = p->quantize_body,
                              .of_body = p->of_body,
                              .body_count = p->body_count,
                              .bodies = p->bodies,
                              .sized = p->sized,
                              .may_be_float = p->may_be_float,
                              .run_bytes = p->run_bytes,
                              .memory_planned = p->memory_planned,
                              .collected = p->collected};
    if (anew) return;
    t->seen = qc_collection_ref(p->seen);
    t->moments_dropped = p->moments_dropped;
    t->known = qc_known_outputs_ref(p->known);
    t->known_of = p->known_of;
    t->equalized = p->equalized ? qc_graph_ref(p->equalized) : NULL;
    t->real = t->equalized ? t->equalized : p->from->normalised;
    t->rounded_layers = p->rounded_layers;
    t->shared = p->shared;
    t->shared_before = p->shared ? qc_folded_constants_count(p->shared) : 0;
}

bool qc_pipeline_branch(struct qc_pipeline *t, const struct qc_pipeline *p, const struct qc_options *o, bool anew,
                        struct qc_status *st)
{
    take_from(t, p, anew);
    t->options = o;
    if (!(t->arena = qc_arena_new()) || !qc_warnings_new(&t->warnings, st)) return qc_fail_memory(st, 1);
    t->lowered = QC_NEW_ARRAY(t->arena, struct qc_graph *, t->from->lowered_count, st);
    if (!t->lowered || !read_methods(t, st) || !qc_integer_options(&t->how, o, st) ||
        !qc_scheme_options(&t->scheme, o, t->arena, st))
        return false;
    t->calibration_options.ranges_alone = true; /* a branch has no report */
    if (!p->options->propagate)
        t->calibration_options.solved = (struct qc_solved){.graph = p->simulated,
                                                           .seen = p->seen,
                                                           .options = &p->calibration_options,
                                                           .calibration = p->calibration};
    return (!anew || qc_stage_find("equalize")->run(t, st)) && run_repeated(t, st);
}

bool qc_pipeline_normalise(struct qc_pipeline *p, struct qc_status *st)
{
    return qc_stage_import(p, st) && qc_stage_normalise(p, st) && qc_graph_verify(p->from->normalised, st);
}

static void let_go(struct qc_prepared *from)
{
    if (!from || --from->holders) return;
    qc_graph_free(from->normalised);
    qc_graph_free(from->plain);
    qc_dataset_free(from->eval);
    qc_dataset_free(from->data);
    qc_model_close(&from->model);
    qc_rules_free(from->rules);
    qc_rules_free(from->fold_rules);
    qc_arena_free(from->arena);
    free(from);
}

void qc_pipeline_end(struct qc_pipeline *p)
{
    free_again(p);
    if (p->is_branch && p->shared) qc_folded_constants_trim(p->shared, p->shared_before);
    if (!p->is_branch) {
        qc_folded_constants_free(p->shared);
        qc_rounded_layers_free(p->rounded_layers);
    }
    qc_rounded_file_close(p->rounded_file);
    qc_known_outputs_free(p->known);
    qc_collection_free(p->seen);
    qc_graph_free(p->centred);
    qc_graph_free(p->scaled);
    qc_graph_free(p->equalized);
    let_go(p->from);
    qc_plugins_free(p->plugins); /* after the calibration, which points to their observers */
    qc_warnings_free(p->warnings);
    qc_arena_free(p->arena);
}
