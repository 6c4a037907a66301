// SPDX-License-Identifier: Apache-2.0
#include "quantize/stages/stages.h"
#include "onnx/write/emit.h"

#include <string.h>

#include "base/clock.h"
#include "quantize/stages/stage_bodies.h"
#include "quantize/stages/stage_list.h"
#include "quantize/trials/target_limits.h"
#include "rewrite/passes/dynamic.h"
#include "rewrite/passes/float_types.h"

static bool stage_dynamic(struct qc_pipeline *p, struct qc_status *st)
{
    return qc_make_dynamic(&p->dynamic, qc_graph_with_bodies(p), p->partition, st);
}

static bool stage_expand(struct qc_pipeline *p, struct qc_status *st)
{
    const struct qc_graph *g = p->dynamic ? p->dynamic : qc_graph_with_bodies(p);
    return qc_propagate_qdq(&p->expanded, g, p->from->rules, p->scheme.one_scale_joins, st);
}

static bool stage_fold(struct qc_pipeline *p, struct qc_status *st)
{
    return qc_fold(&p->folded, p->expanded, p->from->fold_rules, st);
}

static bool stage_realise(struct qc_pipeline *p, struct qc_status *st)
{
    return qc_to_integer_shared(&p->produced, p->shared, p->folded, qc_evaluate, st);
}

const struct qc_graph *qc_graph_written(const struct qc_pipeline *p)
{
    return p->narrowed ? p->narrowed : p->produced;
}

/* Fails if the target does not read the opset of the file. */
static bool check_opset(const struct qc_pipeline *p, size_t form, struct qc_status *st)
{
    const struct qc_target *t = p->options->runs_on;
    const struct qc_onnx_emit_options emit = QC_ONNX_EMIT_DEFAULTS;
    const int opset = t->opset && p->lowered[form] ? qc_onnx_emit_opset(p->lowered[form], &emit) : 0;
    return opset <= t->opset || qc_fail(st, QC_UNSUPPORTED, "the file needs opset %d, and target '%s' reads up to %d",
                                        opset, t->name, t->opset);
}

static bool stage_export(struct qc_pipeline *p, struct qc_status *st)
{
    const struct qc_lower_options o = {.accuracy_level = p->options->accuracy_level[0] - '0',
                                       .float_bias = p->options->runs_on->bias == QC_BIAS_FLOAT,
                                       .short_bias = p->options->runs_on->bias == QC_BIAS_INT8,
                                       .real = p->from->normalised,
                                       .own = p->from->model.widened ? p->from->model.imported : NULL,
                                       .caches = p->scheme.cache != QC_NONE,
                                       .tables_apart = !p->options->runs_on->onnxruntime};
    double t0 = qc_seconds();
    if (p->options->runs_on->onnxruntime && !qc_check_runtime_limits(p->produced, st)) return false;
    if (p->from->model.widened && !qc_narrow_floats(&p->narrowed, p->produced, p->from->model.imported, st))
        return false;
    for (size_t i = 0; i < p->from->lowered_count; i++)
        if (p->from->exporters[i]->lower && !p->from->exporters[i]->lower(&p->lowered[i], qc_graph_written(p), &o, st))
            return qc_where(st, "format %s", p->from->exporters[i]->name);
    for (size_t i = 0; i < p->from->lowered_count; i++)
        if (p->lowered[i] && !qc_lower_bodies(&p->lowered[i], p, p->from->exporters[i], &o, st))
            return qc_where(st, "format %s", p->from->exporters[i]->name);
    for (size_t i = 0; i < p->from->lowered_count; i++)
        if (!check_opset(p, i, st)) return qc_where(st, "format %s", p->from->exporters[i]->name);
    p->export_seconds += qc_seconds() - t0;
    return true;
}

/* The results of the stages. */
#define QC_RESULT(name, graph)                                                                                         \
    static const struct qc_graph *name(const struct qc_pipeline *p)                                                    \
    {                                                                                                                  \
        return graph;                                                                                                  \
    }
QC_RESULT(graph_import, p->from->model.graph)
QC_RESULT(graph_normalise, p->from->normalised)
QC_RESULT(graph_equalize, p->real)
QC_RESULT(graph_functions, p->joined)
QC_RESULT(graph_simulate, p->simulated)
QC_RESULT(graph_round, p->rounded ? p->rounded : p->simulated)
QC_RESULT(graph_dynamic, p->dynamic ? p->dynamic : qc_graph_with_bodies(p))
QC_RESULT(graph_expand, p->expanded)
QC_RESULT(graph_fold, p->folded)
QC_RESULT(graph_realise, p->produced)
QC_RESULT(graph_export, p->lowered[0] ? p->lowered[0] : p->produced)
#undef QC_RESULT

static const struct qc_stage stages[] = {
    {.name = "import", .summary = "bring the model into canonical form", .run = qc_stage_import, .graph = graph_import},
    {.name = "normalise",
     .summary = "fold constants and batch norm: normalise.rules",
     .run = qc_stage_normalise,
     .graph = graph_normalise},
    {.name = "equalize",
     .summary = "equalize channels across layers (--equalize)",
     .run = qc_stage_equalize,
     .graph = graph_equalize},
    {.name = "functions",
     .summary = "join chains of unary functions into tables: allow.rules",
     .run = qc_stage_functions,
     .graph = graph_functions,
     .repeated = true},
    {.name = "partition",
     .summary = "find the operators to quantize: patterns.rules",
     .run = qc_stage_partition,
     .repeated = true},
    {.name = "simulate",
     .summary = "insert simulated quantizers with unbound parameters",
     .run = qc_stage_simulate,
     .graph = graph_simulate,
     .repeated = true,
     .reuse = qc_reuse_statistics},
    {.name = "collect",
     .summary = "run samples and collect statistics",
     .run = qc_stage_collect,
     .graph = graph_simulate,
     .repeated = true},
    {.name = "scale",
     .summary = "scale channels if that lowers errors (--scale-channels), then repeat the passes from functions on",
     .run = qc_stage_scale,
     .graph = graph_simulate,
     .repeated = true},
    {.name = "choose",
     .summary = "choose an observer for each quantizer by runs of the network (--method auto)",
     .run = qc_stage_choose,
     .graph = graph_simulate,
     .repeated = true},
    {.name = "bind",
     .summary = "choose the parameters of quantizers from the statistics",
     .run = qc_stage_bind,
     .graph = graph_simulate,
     .repeated = true},
    {.name = "round",
     .summary = "round weights and correct biases by the second moments of their inputs",
     .run = qc_stage_round,
     .graph = graph_round,
     .repeated = true},
    {.name = "refine",
     .summary = "refine weights for the inputs in the quantized network; keep or drop --propagate",
     .run = qc_stage_refine,
     .graph = graph_round,
     .repeated = true},
    {.name = "correct",
     .summary = "correct the mean error of the outputs in biases",
     .run = qc_stage_correct,
     .graph = graph_round,
     .repeated = true},
    {.name = "bodies",
     .summary = "quantize bodies of If, Loop and Scan, each as a separate model",
     .run = qc_stage_bodies,
     .graph = qc_graph_with_bodies,
     .repeated = true},
    {.name = "dynamic",
     .summary = "quantize inputs of products at run time (--activation-type dynamic)",
     .run = stage_dynamic,
     .graph = graph_dynamic,
     .repeated = true},
    {.name = "expand",
     .summary = "move quantize up and dequantize down: allow.rules",
     .run = stage_expand,
     .graph = graph_expand,
     .repeated = true},
    {.name = "fold",
     .summary = "fold dequantize and quantize into requantize: requantize.rules",
     .run = stage_fold,
     .graph = graph_fold,
     .repeated = true},
    {.name = "realise",
     .summary = "convert the graph to integers",
     .run = stage_realise,
     .graph = graph_realise,
     .repeated = true},
    {.name = "export",
     .summary = "convert to operators of the file format",
     .run = stage_export,
     .graph = graph_export,
     .repeated = true},
};

size_t qc_stage_count(void)
{
    return sizeof stages / sizeof *stages;
}

const struct qc_stage *qc_stage_at(size_t i)
{
    return &stages[i];
}

const struct qc_stage *qc_stage_find(const char *name)
{
    size_t i = 0;
    while (strcmp(stages[i].name, name) != 0) i++;
    return &stages[i];
}
