// SPDX-License-Identifier: Apache-2.0
#include "quantize/make/make.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/resident.h"
#include "graph/core/verify.h"
#include "onnx/write/emit.h"
#include "quantize/make/bodies.h"
#include "quantize/options/partition_options.h"
#include "quantize/setup/setup.h"
#include "rewrite/passes/dynamic.h"
#include "rewrite/passes/float_types.h"
#include "rewrite/passes/integer_ports.h"
#include "rewrite/passes/unfold.h"
#include "simq/plan/plan.h"

/* ---- After a pass ---- */

bool qc_network_passed(const struct qc_network *net, enum qc_pass pass, const struct qc_graph *from,
                       const struct qc_graph *to, struct qc_status *st)
{
    const struct qc_budget budget = {.memory_limit = (size_t)net->scheme.options->run.memory_limit};
    struct qc_op_counts heavy;
    if (to) {
        qc_graph_count_ops(&heavy, from);
        if (!qc_graph_verify(to, st) || !qc_graph_verify_heavy(to, &heavy, qc_pass_name(pass), st))
            return qc_where(st, "after pass '%s'", qc_pass_name(pass));
    }
    if (!qc_pass_done(net->listener, pass, to, net->partition, st) || !qc_progress_check(net->setup->progress, st))
        return false;
    if (net->evidence->memory_planned) qc_resident_give_back();
    /* the next pass makes a graph as large as this one */
    return !budget.memory_limit || !to || qc_budget_hold(&budget, qc_graph_bytes(to), st) ||
           qc_where(st, "after pass '%s'", qc_pass_name(pass));
}

/* ---- Passes "dynamic" to "export" ---- */

static bool fails_on_empty(const struct qc_network *net, struct qc_status *st)
{
    const struct qc_partition *p = net->partition;
    return net->with_bodies || p->matches.count || p->weight_only_count || p->cache_count || net->scheme.may_be_float ||
           qc_fail(st, QC_UNSUPPORTED,
                   "nothing to quantize: no pattern of 'qcalib list rules' matches, neither in the graph nor in its "
                   "bodies");
}

bool qc_network_realise(struct qc_graph **out, const struct qc_network *net, const struct qc_graph *bound,
                        struct qc_status *st)
{
    struct qc_graph *expanded = NULL, *folded = NULL;
    const bool ok = qc_propagate_qdq(&expanded, bound, net->setup->rules, net->scheme.partition.one_scale_joins, st) &&
                    qc_fold(&folded, expanded, net->setup->fold_rules, st) &&
                    qc_to_integer(out, folded, qc_evaluate, st);
    qc_graph_free(folded);
    qc_graph_free(expanded);
    return ok;
}

/* Fails if the target does not read the opset of the file. */
static bool check_opset(const struct qc_network *net, size_t form, struct qc_status *st)
{
    const struct qc_target *t = net->scheme.options->graph.runs_on;
    const struct qc_onnx_emit_options emit = QC_ONNX_EMIT_DEFAULTS;
    const int opset = t->opset && net->lowered[form] ? qc_onnx_emit_opset(net->lowered[form], &emit) : 0;
    return opset <= t->opset || qc_fail(st, QC_UNSUPPORTED, "the file needs opset %d, and target '%s' reads up to %d",
                                        opset, t->name, t->opset);
}

/* Fills the preprocessing of an image, in the arena: that of the data, or of --preprocess for statistics. */
static bool find_pixels(const struct qc_port_pixels **out, const struct qc_network *net, const char *input,
                        struct qc_arena *a, struct qc_status *st)
{
    const char *given = net->scheme.options->data.preprocess;
    struct qc_preprocess parsed = {.bgr = false};
    const struct qc_preprocess *p = net->setup->data ? qc_dataset_preprocess(net->setup->data, input) : NULL;
    if (!p && !given)
        return qc_fail(st, QC_USAGE,
                       "--io-type pixels: without --data it needs --preprocess ('none': the pixels as "
                       "they are)");
    if (!p && !qc_preprocess_parse(&parsed, given, a, st)) return false;
    if (!p) p = &parsed;
    struct qc_port_pixels *made = QC_NEW_ARRAY(a, struct qc_port_pixels, 1, st);
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    if (!made || !f) return qc_fail_memory(st, 1);
    qc_preprocess_print(f, p);
    const bool whole = fclose(f) == 0;
    *made =
        (struct qc_port_pixels){.step = {{p->scale, p->scale_count}, {p->mean, p->mean_count}, {p->std, p->std_count}},
                                .text = whole ? qc_arena_strdup(a, text + (*text == ' '), st) : NULL};
    free(text);
    *out = made;
    return made->text || qc_fail_memory(st, 1);
}

/* --io-type: replaces net->narrowed by the graph with integers at its inputs and outputs. */
static bool make_ports_integer(struct qc_network *net, struct qc_status *st)
{
    const struct qc_options *o = net->scheme.options;
    const struct qc_graph *g = qc_network_written(net);
    const size_t count = g->input_count + g->output_count;
    struct qc_graph *made = NULL;
    QC_ARENA_SCOPE *a = qc_arena_new();
    if (net->setup->of_body ||
        (o->types.io.count == 1 && qc_type_choice_of(o->types.io.items[0], QC_OPTION_IO_TYPE).dtype == QC_F32))
        return true;
    if (!a) return qc_fail_memory(st, 1);
    struct qc_port_choice *choices = QC_NEW_ARRAY(a, struct qc_port_choice, count, st);
    bool *named = QC_NEW_ARRAY(a, bool, count, st), *done = QC_NEW_ARRAY(a, bool, count, st);
    if (!choices || !named || !done) return false;
    for (size_t i = 0; i < count; i++) {
        const char *name = i < g->input_count ? g->inputs[i].name : g->outputs[i - g->input_count].name;
        choices[i] = qc_io_type_of(&named[i], o, name);
        if (choices[i].image && i < g->input_count && !find_pixels(&choices[i].pixels, net, name, a, st)) return false;
    }
    if (!qc_integer_ports(&made, done, g, choices, choices + g->input_count, st)) return false;
    bool ok = true;
    for (size_t i = 0; ok && i < count; i++) {
        const bool input = i < g->input_count;
        const char *name = input ? g->inputs[i].name : g->outputs[i - g->input_count].name;
        const bool image = choices[i].image && (input || named[i]);
        const char *what = input ? "input" : "output",
                   *why = image ? "pixels are an input with four axes and 1, 3 or 4 channels"
                                : "no quantizer of this width with one scale is next to it";
        if (done[i] || (!choices[i].integer && !image)) continue;
        if (named[i])
            ok = qc_fail(st, QC_UNSUPPORTED, "--io-type: %s '%s' cannot be integers: %s", what, name, why);
        else
            qc_warn(net->listener->warnings, "--io-type: %s '%s' stays float: %s", what, name, why);
    }
    qc_graph_free(net->narrowed);
    net->narrowed = made;
    return ok;
}

/* Makes net->narrowed, if the file has other outputs or float types than the job. */
static bool narrow(struct qc_network *net, struct qc_status *st)
{
    const struct qc_setup *s = net->setup;
    struct qc_graph *own = NULL, view = *net->produced;
    /* The model's outputs alone, if there are others. */
    view.output_count = 0;
    while (view.output_count < net->produced->output_count && view.outputs[view.output_count].judging != QC_ONLY_JUDGED)
        view.output_count++;
    if (view.output_count < net->produced->output_count && !qc_graph_copy(&own, &view, st)) return false;
    if (!s->model.widened) {
        net->narrowed = own;
        return true;
    }
    const bool ok = qc_narrow_floats(&net->narrowed, own ? own : net->produced, s->model.imported, st);
    qc_graph_free(own);
    return ok;
}

/* Writes constants in smaller forms if the file would be larger than the model. */
static bool shrink(struct qc_network *net, size_t form, struct qc_status *st)
{
    const struct qc_model *m = &net->setup->model;
    const struct qc_exporter *e = net->setup->exporters[form];
    size_t bytes;
    if (!net->lowered[form] || e->write || net->setup->of_body) return true;
    return qc_export_bytes(&bytes, e, net->lowered[form], st) &&
           (bytes <= m->graph->budget.model_bytes ||
            qc_unfold_constants(&net->lowered[form], m->imported ? m->imported : m->graph, qc_evaluate, st));
}

static struct qc_lower_options lower_options(const struct qc_network *net)
{
    const struct qc_setup *s = net->setup;
    const struct qc_options *options = net->scheme.options;
    return (struct qc_lower_options){.accuracy_level = (int)options->graph.accuracy_level,
                                     .target = options->graph.runs_on,
                                     .real = s->normalised,
                                     .own = s->model.widened ? s->model.imported : NULL,
                                     .caches = net->scheme.partition.cache != QC_NONE};
}

bool qc_network_lower_other(struct qc_graph **produced, struct qc_graph **lowered, const struct qc_network *net,
                            const struct qc_graph *bound, struct qc_status *st)
{
    const struct qc_exporter *e = net->setup->exporters[0];
    const struct qc_lower_options o = lower_options(net);
    struct qc_network other = *net;
    other.produced = other.narrowed = NULL;
    *lowered = NULL;
    const bool ok =
        qc_network_realise(&other.produced, net, bound, st) && narrow(&other, st) &&
        (!e->lower || (e->lower(lowered, qc_network_written(&other), &o, st) && qc_lower_functions(lowered, st)));
    if (other.narrowed) qc_graph_free(other.produced);
    *produced = other.narrowed ? other.narrowed : other.produced;
    return ok;
}

static bool lower(struct qc_network *net, struct qc_status *st)
{
    const struct qc_setup *s = net->setup;
    const struct qc_options *options = net->scheme.options;
    const struct qc_lower_options o = lower_options(net);
    const double t0 = qc_seconds();
    if (options->graph.runs_on->onnxruntime && !qc_check_runtime_limits(net->produced, st)) return false;
    if (!narrow(net, st) || !make_ports_integer(net, st)) return false;
    for (size_t i = 0; i < s->format_count; i++) {
        const struct qc_exporter *e = s->exporters[i];
        struct qc_graph **to = &net->lowered[i];
        if ((e->lower && !e->lower(to, qc_network_written(net), &o, st)) ||
            (*to && (!qc_body_set_lower(to, net->bodies, e, &o, st) || !qc_lower_functions(to, st))) ||
            !shrink(net, i, st) || !check_opset(net, i, st))
            return qc_where(st, "format %s", qc_exporter_name(e));
    }
    net->export_seconds += qc_seconds() - t0;
    return true;
}

bool qc_network_finish(struct qc_network *net, struct qc_status *st)
{
    const struct qc_setup *s = net->setup;
    const struct qc_graph *rounded = net->rounded, *whole, *last;
    net->bodies = net->evidence->bodies;
    bool ok = qc_body_set_apply(&net->with_bodies, net->bodies, rounded, st) && fails_on_empty(net, st) &&
              qc_network_passed(net, QC_PASS_bodies, rounded, whole = qc_network_with_bodies(net), st) &&
              qc_make_dynamic(&net->dynamic, whole, net->partition, st) &&
              qc_network_passed(net, QC_PASS_dynamic, whole, last = qc_network_graph(net, QC_PASS_dynamic), st) &&
              qc_propagate_qdq(&net->expanded, last, s->rules, net->scheme.partition.one_scale_joins, st) &&
              qc_network_passed(net, QC_PASS_expand, last, net->expanded, st) &&
              qc_fold(&net->folded, net->expanded, s->fold_rules, st) &&
              qc_network_passed(net, QC_PASS_fold, net->expanded, net->folded, st) &&
              qc_to_integer(&net->produced, net->folded, qc_evaluate, st) &&
              qc_network_passed(net, QC_PASS_realise, net->folded, net->produced, st) && lower(net, st) &&
              qc_network_passed(net, QC_PASS_export, net->produced, qc_network_graph(net, QC_PASS_export), st);
    qc_second_moments_free(net->moments);
    net->moments = NULL;
    return ok;
}

/* ---- The network ---- */

const struct qc_graph *qc_network_with_bodies(const struct qc_network *net)
{
    return net->with_bodies ? net->with_bodies : net->rounded;
}

const struct qc_graph *qc_network_written(const struct qc_network *net)
{
    return net->narrowed ? net->narrowed : net->produced;
}

const struct qc_graph *qc_network_graph(const struct qc_network *net, enum qc_pass pass)
{
    switch (pass) {
    case QC_PASS_import: return net->setup->model.graph;
    case QC_PASS_normalise: return net->setup->normalised;
    case QC_PASS_equalize: return net->real;
    case QC_PASS_functions: return net->joined;
    case QC_PASS_simulate:
    case QC_PASS_collect:
    case QC_PASS_scale:
    case QC_PASS_choose:
    case QC_PASS_bind: return net->simulated;
    case QC_PASS_round:
    case QC_PASS_refine:
    case QC_PASS_correct: return net->rounded;
    case QC_PASS_bodies: return qc_network_with_bodies(net);
    case QC_PASS_dynamic: return net->dynamic ? net->dynamic : qc_network_with_bodies(net);
    case QC_PASS_expand: return net->expanded;
    case QC_PASS_fold: return net->folded;
    case QC_PASS_realise: return net->produced;
    case QC_PASS_export: return net->lowered[0] ? net->lowered[0] : net->produced;
    case QC_PASS_partition:
    case QC_PASS_COUNT: break;
    }
    return NULL;
}

bool qc_network_weights_alone(const struct qc_network *net)
{
    const struct qc_graph *g = net->simulated;
    bool alone = !net->scheme.partition.dynamic;
    for (qc_id s = 1; alone && s <= g->qparams_count; s++)
        alone = g->qparams_of[s].kind != QC_QPARAMS_QUANTIZER || g->qparams_of[s].is_weight;
    return alone;
}

const struct qc_second_moments *qc_network_moments(const struct qc_network *net)
{
    const struct qc_collection *c = net->evidence->statistics;
    return net->moments ? net->moments : c ? c->second_moments : NULL;
}

struct qc_round_weights_options qc_network_rounding(const struct qc_network *net)
{
    return (struct qc_round_weights_options){.settings = net->scheme.settings,
                                             .known = net->evidence->layers,
                                             .file = net->evidence->layer_file};
}

const struct qc_report_trial *qc_auto_method_chosen(const struct qc_auto_method *m)
{
    for (size_t i = 0; m && i < m->trial_count; i++)
        if (m->trials[i].chosen) return &m->trials[i];
    return NULL;
}

void qc_network_free(struct qc_network *net)
{
    if (!net) return;
    for (size_t i = 0; net->lowered && i < net->setup->format_count; i++) qc_graph_free(net->lowered[i]);
    qc_calibration_free(net->calibration);
    struct qc_auto_method *m = net->auto_method;
    if (m) {
        qc_weight_rounding_free(m->rounding);
        qc_graph_free(m->rounded);
        qc_arena_free(m->arena);
        free(m);
    }
    if (net->unpropagated) {
        qc_calibration_free(net->unpropagated->calibration);
        qc_weight_rounding_free(net->unpropagated->weight_rounding);
        qc_graph_free(net->unpropagated->rounded);
        qc_graph_free(net->unpropagated->simulated);
        free(net->unpropagated);
    }
    qc_partition_free(net->partition);
    qc_graph_free(net->narrowed);
    qc_graph_free(net->produced);
    qc_graph_free(net->folded);
    qc_graph_free(net->expanded);
    qc_graph_free(net->dynamic);
    qc_graph_free(net->with_bodies);
    qc_graph_free(net->rounded);
    qc_graph_free(net->uncorrected);
    qc_weight_rounding_free(net->weight_rounding);
    qc_weight_rounder_free(net->weight_rounder);
    qc_graph_free(net->simulated);
    qc_graph_free(net->joined);
    qc_second_moments_free(net->moments);
    qc_float_form_free(net->form);
    qc_arena_free(net->arena);
    free(net);
}
