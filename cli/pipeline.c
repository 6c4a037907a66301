// SPDX-License-Identifier: Apache-2.0
#include "cli/pipeline.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "calib/collect_channels.h"
#include "calib/propagate.h"
#include "calib/site_channels.h"
#include "calib/spread.h"
#include "cli/collecting.h"
#include "cli/interrupt.h"
#include "cli/integer_options.h"
#include "cli/memory_plan.h"
#include "cli/options_agree.h"
#include "cli/scheme_options.h"
#include "graph/text.h"
#include "graph/verify.h"
#include "rewrite/canonical.h"
#include "rewrite/functions.h"

static bool stage_import(struct qc_pipeline *p, struct qc_status *st)
{
    const struct qc_cli_options *o = p->options;
    double t0 = qc_seconds();
    if (!qc_model_open(&p->model, o->operands.items[0], o, p->warnings, st) || !qc_model_check_types(&p->model, st)) return false;
    if (o->data && !qc_model_data(&p->data, p->model.graph, o->data, QC_USE_INPUTS, QC_CHOOSE_SAMPLES, o, p->warnings, st)) return false;
    if (o->eval && !qc_model_data(&p->eval, p->model.graph, o->eval, QC_USE_TRUTH, QC_CHOOSE_ALL, o, p->warnings, st)) return false;
    if (o->stats && !qc_collecting_load(&p->seen, p->data, o, st)) return false;
    p->import_seconds = qc_seconds() - t0;
    return true;
}

/* Values that a rule has made get names, by which statistics of this graph are found again in a graph that is made from it. */
static bool name_values(struct qc_graph *g, struct qc_status *st)
{
    char name[QC_LABEL];
    for (qc_id v = 1; v <= g->value_count; v++) {
        const struct qc_node *n = qc_node_of(g, v);
        if (!n || g->values[v].name || g->values[v].type.dtype != QC_F32) continue;
        if (n->name && *n->name) qc_text(name, sizeof name, "%.200s_output", n->name);
        else qc_text(name, sizeof name, "%s_%u_output", qc_op_info(n->op)->name, g->values[v].node);
        if (!qc_graph_name_value(g, v, name, st)) return false;
    }
    return true;
}

static bool narrows_bias(const struct qc_cli_options *o)
{
    return strcmp(o->bias, "narrowed") == 0;
}

/* Biases become ops of their own: only when all rules that join them are through. */
static bool set_bias_apart(struct qc_pipeline *p, struct qc_status *st)
{
    struct qc_rules *rules = qc_rules_new(st);
    struct qc_graph *apart = NULL;
    bool ok = rules && qc_rules_add_builtin(rules, "bias_apart.rules", st) && qc_normalise(&apart, p->normalised, rules, qc_evaluate, st);
    qc_rules_free(rules);
    if (ok) qc_graph_free(p->normalised);
    if (ok) p->normalised = apart;
    return ok;
}

static bool stage_normalise(struct qc_pipeline *p, struct qc_status *st)
{
    return qc_normalise(&p->normalised, p->model.graph, p->rules, qc_evaluate, st) && (!narrows_bias(p->options) || set_bias_apart(p, st)) &&
           name_values(p->normalised, st);
}

static bool stage_equalize(struct qc_pipeline *p, struct qc_status *st)
{
    const char *when = p->options->equalize;
    const bool on = strcmp(when, "on") == 0 || (strcmp(when, "auto") == 0 && p->options->per_tensor && !p->options->stats);
    if (!on && p->options->stats && p->options->per_tensor && strcmp(when, "auto") == 0)
        qc_warn(p->warnings, "channels are not evened out, as --per-tensor does with --data: statistics are of the model as it is; take --data, or --per-channel");
    if (on && p->options->stats) return qc_fail(st, QC_USAGE, "--equalize on needs --data alone: what --stats has was seen before equalization");
    p->real = p->normalised;
    if (!on) return true;
    if (!qc_equalize(&p->equalized, &p->equalization, p->normalised, st)) return false;
    p->real = p->equalized;
    return true;
}

static bool stage_functions(struct qc_pipeline *p, struct qc_status *st)
{
    return qc_join_functions(&p->joined, p->real, p->rules, &p->scheme, st);
}

static bool stage_partition(struct qc_pipeline *p, struct qc_status *st)
{
    if (!qc_partition_new(&p->partition, p->joined, p->rules, &p->scheme, st)) return false;
    for (size_t i = 0; i < p->partition->warning_count; i++) qc_warn(p->warnings, "%s", p->partition->warnings[i]);
    if (p->partition->matches.count || p->partition->weight_only_count) return true;
    if (qc_is_quantized(p->model.graph))
        return qc_fail(st, QC_UNSUPPORTED, "%s is quantized already; give the float model it was made from ('qcalib convert' brings one quantized form into another, 'qcalib run' and 'qcalib compare' take it as it is)", p->model.path);
    const bool fewer = p->scheme.only_count || p->scheme.skip_count || p->scheme.weight.dtype == QC_NONE || p->scheme.activation.dtype == QC_NONE;
    return qc_fail(st, QC_UNSUPPORTED, "nothing to quantize: no pattern of 'qcalib list rules' matches%s",
                   fewer ? " what --only, --skip and types of none leave" : "");
}

/* One scale for channels of very different sizes leaves the small ones next to nothing. After equalization those that are small still are so in what reads
   them too. */
static bool warn_spread(struct qc_pipeline *p, struct qc_status *st)
{
    struct qc_spread s;
    char label[QC_LABEL];
    if (p->equalized) return true;
    if (!qc_weight_spread(&s, p->simulated, st) || !s.layers) return st->code == QC_OK;
    const struct qc_node *n = &p->simulated->nodes[s.worst];
    qc_warn(p->warnings, "one scale per weight is too coarse for %zu layer%s: in '%s' %zu of %zu output channels stay below 1/100 of the largest weight; use --equalize on, or --per-channel", s.layers,
            s.layers == 1 ? "" : "s", n->name && *n->name ? n->name : qc_value_label(label, p->simulated, n->outputs), s.small, s.channels);
    return true;
}

static bool stage_simulate(struct qc_pipeline *p, struct qc_status *st)
{
    struct qc_calibration_options *c = &p->calibration_options;
    if (!qc_simulate(&p->simulated, p->partition, st)) return false;
    const bool channels = qc_sites_have_channels(p->simulated);
    c->channels = channels || c->activation->of_output;
    if (channels && (c->activation->need == QC_NEED_SERIES || c->activation->need == QC_NEED_VALUES))
        return qc_fail(st, QC_USAGE, "--method %s looks at samples of whole tensors, not of channels; take another method, or leave out --per-channel=activations", c->activation->name);
    return warn_spread(p, st);
}

/* Accumulators of few bits; with statistics alone there are no data to look at their sums. */
static bool fit_accumulators(struct qc_pipeline *p, struct qc_status *st)
{
    struct qc_fit_options o = {.accumulator = p->how.accumulator,
                               .bound = qc_accumulator_bound(p->options),
                               .workers = (unsigned)p->options->threads,
                               .memory_limit = (size_t)p->options->memory_limit,
                               .progress = qc_progress_step,
                               .progress_user = p->progress};
    if (!o.accumulator.bits || o.accumulator.bits == 32) return true;
    qc_progress_phase(p->progress, "fitting accumulators");
    bool ok = qc_fit_accumulators(p->calibration, p->simulated, p->data, &o, st);
    qc_progress_end(p->progress);
    return ok;
}

/* With --propagate second moments of the float network alone: sites see another one. */
static bool collect(struct qc_pipeline *p, struct qc_collect_cost *cost, struct qc_status *st)
{
    size_t count = 0;
    qc_id *values = NULL;
    const char **names = NULL;
    const int *axes = NULL;
    if (!p->options->propagate && (!qc_observed_values(&count, &values, &names, p->simulated, p->arena, st) ||
                                   (p->calibration_options.channels && !qc_named_channel_axes(&axes, count, names, p->normalised, p->arena, st)))) /* as `collect` finds them */
        return false;
    qc_progress_phase(p->progress, p->options->propagate ? "taking second moments" : "calibrating");
    const bool ok = qc_collecting_run(&p->seen, cost, p->simulated, count, values, names, axes, p->data, &p->calibration_options, p->options, p->progress, st);
    qc_progress_end(p->progress);
    return ok;
}

/* An accumulator that takes no bias takes no correction either. */
static bool corrects_bias(const struct qc_cli_options *o)
{
    return strcmp(o->bias_correction, "on") == 0 && !narrows_bias(o);
}

static bool reweighs(const struct qc_cli_options *o)
{
    return strcmp(o->weight_rounding, "compensated") == 0 || corrects_bias(o);
}

static struct qc_reweigh_options reweigh_options(struct qc_pipeline *p)
{
    const struct qc_cli_options *o = p->options;
    return (struct qc_reweigh_options){.compensate = strcmp(o->weight_rounding, "compensated") == 0,
                                       .correct_bias = corrects_bias(o),
                                       .add_ops = !o->require_integer,
                                       .accumulator_bits = p->how.accumulator.bits,
                                       .workers = (unsigned)o->threads,
                                       .memory_limit = (size_t)o->memory_limit,
                                       .progress = qc_progress_step,
                                       .progress_user = p->progress};
}

/* The folder of the output, where there has to be room anyhow. */
static const char *output_folder(struct qc_pipeline *p, struct qc_status *st)
{
    const char *path = p->options->output, *slash = path ? strrchr(path, '/') : NULL;
    return slash ? qc_arena_strndup(p->arena, path, (size_t)(slash - path) + 1, st) : ".";
}

/* Those of the simulated graph at hand; NULL: none. */
static const struct qc_gram *moments(const struct qc_pipeline *p)
{
    return p->gram ? p->gram : p->seen ? p->seen->gram : NULL;
}

static bool propagate(struct qc_pipeline *p, struct qc_status *st)
{
    const struct qc_reweigh_options r = reweigh_options(p);
    const double t0 = qc_seconds();
    if (p->calibration_options.moments && !p->seen) {
        if (!collect(p, &p->cost, st)) return false;
        p->collect_seconds = qc_seconds() - t0;
    }
    if (reweighs(p->options) && !qc_reweigher_new(&p->reweigher, p->simulated, moments(p), &r, st)) return false;
    p->calibration_options.gram = moments(p);
    const struct qc_propagate_options o = {.calibration = &p->calibration_options,
                                           .reweigher = p->reweigher,
                                           .correct_bias = r.correct_bias,
                                           .folder = getenv("TMPDIR") ? NULL : output_folder(p, st)};
    if (st->code != QC_OK) return false;
    qc_progress_phase(p->progress, "calibrating");
    const bool ok = qc_propagate(&p->calibration, p->simulated, p->data, &o, st);
    qc_progress_end(p->progress);
    if (!ok) return false;
    const struct qc_collect_cost *cost = &p->calibration->cost;
    if (cost->statistics_bytes + cost->runner_bytes > p->cost.statistics_bytes + p->cost.runner_bytes) p->cost = *cost;
    p->collect_seconds += p->calibration->collect_seconds;
    return true;
}

static bool calibrate(struct qc_pipeline *p, struct qc_status *st)
{
    const double t0 = qc_seconds();
    const char *source = p->options->stats ? p->options->stats : qc_dataset_file(p->data);
    if (!p->seen) {
        if (!collect(p, &p->cost, st)) return false;
        p->collect_seconds = qc_seconds() - t0;
    }
    if (p->options->stats && p->calibration_options.moments && !p->gram && p->seen->gram && !qc_gram_bind(&p->seen->gram, p->seen->gram, p->simulated, source, st)) return false;
    p->calibration_options.gram = moments(p);
    return qc_choose(&p->calibration, p->simulated, p->seen, source, &p->calibration_options, st) && fit_accumulators(p, st);
}

static bool stage_calibrate(struct qc_pipeline *p, struct qc_status *st)
{
    if (!p->memory_planned && !qc_memory_plan(p, st)) return false;
    p->memory_planned = true;
    if (!(p->options->propagate ? propagate(p, st) : calibrate(p, st))) return false;
    for (size_t i = 0; i < p->calibration->warning_count; i++) qc_warn(p->warnings, "%s", p->calibration->warnings[i]);
    return true;
}

/* Blocks and weights left alone are said once, not layer by layer; the report has each. */
static void warn_of_blocks(struct qc_pipeline *p)
{
    size_t count = 0;
    const char *first = NULL;
    for (size_t i = 0; i < p->reweighing->count; i++) {
        if (p->reweighing->layers[i].blocks < 2) continue;
        first = first ? first : p->reweighing->layers[i].name;
        count++;
    }
    if (first) qc_warn(p->warnings, "second moments of %zu layer%s ('%s' first) were taken in blocks of columns: they are too wide, or --memory-limit too low; errors are "
                       "not made good from block to block", count, count == 1 ? "" : "s", first);
}

static void warn_of_bounds(struct qc_pipeline *p)
{
    size_t outputs = 0, bounded = 0;
    for (size_t i = 0; i < p->reweighing->count; i++) {
        outputs += p->reweighing->layers[i].outputs;
        bounded += p->reweighing->layers[i].bounded;
    }
    if (bounded) qc_warn(p->warnings, "%zu of %zu output channels of weights are rounded to nearest, or their biases corrected in part: more could overflow accumulators of %u bits",
                         bounded, outputs, p->how.accumulator.bits);
}

static bool stage_round(struct qc_pipeline *p, struct qc_status *st)
{
    if (!reweighs(p->options)) return true;
    if (!p->seen->gram) {
        qc_warn(p->warnings, "weights are rounded to nearest and biases left alone: %s holds no second moments (--second-moments off); collect again", p->options->stats);
        return true;
    }
    const struct qc_reweigh_options r = reweigh_options(p);
    qc_progress_phase(p->progress, "rounding weights");
    bool ok = p->reweigher ? qc_reweigher_finish(&p->reweighing, &p->reweighed, p->reweigher, st)
                           : qc_reweigh(&p->reweighing, &p->reweighed, p->simulated, moments(p), &r, st);
    qc_progress_end(p->progress);
    if (ok) {
        warn_of_blocks(p);
        warn_of_bounds(p);
    }
    return ok;
}

static const struct qc_graph *graph_round(const struct qc_pipeline *p)
{
    return p->reweighed ? p->reweighed : p->simulated;
}

static bool stage_expand(struct qc_pipeline *p, struct qc_status *st)
{
    return qc_expand(&p->expanded, graph_round(p), p->rules, st);
}

static bool stage_fold(struct qc_pipeline *p, struct qc_status *st)
{
    return qc_fold(&p->folded, p->expanded, p->fold_rules, st);
}

static bool stage_realise(struct qc_pipeline *p, struct qc_status *st)
{
    return qc_realise(&p->produced, p->folded, qc_evaluate, st);
}

static bool stage_export(struct qc_pipeline *p, struct qc_status *st)
{
    double t0 = qc_seconds();
    for (size_t i = 0; i < p->lowered_count; i++)
        if (p->exporters[i]->lower && !p->exporters[i]->lower(&p->lowered[i], p->produced, st)) return qc_where(st, "format %s", p->exporters[i]->name);
    p->export_seconds += qc_seconds() - t0;
    return true;
}

static const struct qc_graph *graph_import(const struct qc_pipeline *p) { return p->model.graph; }
static const struct qc_graph *graph_normalise(const struct qc_pipeline *p) { return p->normalised; }
static const struct qc_graph *graph_equalize(const struct qc_pipeline *p) { return p->real; }
static const struct qc_graph *graph_functions(const struct qc_pipeline *p) { return p->joined; }
static const struct qc_graph *graph_simulate(const struct qc_pipeline *p) { return p->simulated; }
static const struct qc_graph *graph_expand(const struct qc_pipeline *p) { return p->expanded; }
static const struct qc_graph *graph_fold(const struct qc_pipeline *p) { return p->folded; }
static const struct qc_graph *graph_realise(const struct qc_pipeline *p) { return p->produced; }
static const struct qc_graph *graph_export(const struct qc_pipeline *p) { return p->lowered[0] ? p->lowered[0] : p->produced; }

static const struct qc_stage stages[] = {
    {.name = "import", .summary = "the model in canonical form", .run = stage_import, .graph = graph_import},
    {.name = "normalise", .summary = "constants and batch norm folded: normalise.rules", .run = stage_normalise, .graph = graph_normalise},
    {.name = "equalize", .summary = "channels evened out across layers (--equalize)", .run = stage_equalize, .graph = graph_equalize},
    {.name = "functions", .summary = "chains of unary functions joined into tables: allow.rules", .run = stage_functions, .graph = graph_functions},
    {.name = "partition", .summary = "what is quantized, and why the rest is not: patterns.rules", .run = stage_partition},
    {.name = "simulate", .summary = "simulated quantize and dequantize with unbound parameters", .run = stage_simulate, .graph = graph_simulate},
    {.name = "calibrate", .summary = "the same with parameters chosen from the data", .run = stage_calibrate, .graph = graph_simulate},
    {.name = "round", .summary = "weights rounded and biases corrected by the moments of their inputs", .run = stage_round, .graph = graph_round},
    {.name = "expand", .summary = "quantize pushed up, dequantize pushed down: allow.rules", .run = stage_expand, .graph = graph_expand},
    {.name = "fold", .summary = "dequantize and quantize folded into requantize: requantize.rules", .run = stage_fold, .graph = graph_fold},
    {.name = "realise", .summary = "the same graph in integers", .run = stage_realise, .graph = graph_realise},
    {.name = "export", .summary = "operators of the file format", .run = stage_export, .graph = graph_export},
};

size_t qc_stage_count(void)
{
    return sizeof stages / sizeof *stages;
}

const struct qc_stage *qc_stage_at(size_t i)
{
    return &stages[i];
}

static bool write_text(const char *path, const char *text, struct qc_status *st)
{
    struct qc_output *f = NULL;
    bool ok = qc_output_open(&f, path, st) && qc_output_write(f, text, strlen(text), st) && qc_output_commit(f, st);
    qc_output_free(f);
    return ok;
}

/* --dump STAGE prints to standard output, --dump STAGE=FILE writes the text with all constants, so that it parses back. */
static bool dump(const struct qc_pipeline *p, const struct qc_stage *s, struct qc_status *st)
{
    size_t length = strlen(s->name);
    for (size_t i = 0; i < p->options->dump.count; i++) {
        const char *wish = p->options->dump.items[i];
        if (strncmp(wish, s->name, length) != 0 || (wish[length] && wish[length] != '=')) continue;
        bool to_file = wish[length] == '=';
        struct qc_text_options all = QC_TEXT_ALL, some = QC_TEXT_SHORT;
        char *text = s->graph ? qc_graph_print(s->graph(p), to_file ? &all : &some, st) : qc_partition_print(p->partition, st);
        bool ok = text && (to_file ? write_text(wish + length + 1, text, st) : fputs(text, stdout) >= 0);
        free(text);
        if (!ok) return false;
    }
    return true;
}

static bool check_graph(const struct qc_pipeline *p, const struct qc_stage *s, struct qc_op_counts *heavy, bool *counted, struct qc_status *st)
{
    const struct qc_graph *g = s->graph ? s->graph(p) : NULL;
    if (!g) return true;
    if (!qc_graph_verify(g, st) || (*counted && !qc_graph_verify_heavy(g, heavy, s->name, st))) return qc_where(st, "after pass '%s'", s->name);
    qc_graph_count_ops(heavy, g);
    *counted = strcmp(s->name, "import") != 0; /* constants are folded once: heavy ops may go, never come */
    return true;
}

/* The first stage that depends on what is quantized and how. */
enum { AGAIN = 3 };

bool qc_pipeline_run(struct qc_pipeline *p, struct qc_status *st)
{
    struct qc_op_counts heavy;
    bool counted = false;
    for (size_t i = 0; i < qc_stage_count(); i++) {
        if (i == AGAIN) p->warnings_from = qc_warnings_count(p->warnings);
        if (!stages[i].run(p, st) || !check_graph(p, &stages[i], &heavy, &counted, st) || !dump(p, &stages[i], st) || !qc_interrupt_check(st))
            return false;
    }
    p->warnings_to = qc_warnings_count(p->warnings);
    return true;
}

static void free_again(struct qc_pipeline *p)
{
    for (size_t i = 0; p->lowered && i < p->lowered_count; i++) {
        qc_graph_free(p->lowered[i]);
        p->lowered[i] = NULL;
    }
    qc_calibration_free(p->calibration);
    qc_partition_free(p->partition);
    qc_graph_free(p->produced);
    qc_graph_free(p->folded);
    qc_graph_free(p->expanded);
    qc_graph_free(p->reweighed);
    qc_reweighing_free(p->reweighing);
    qc_reweigher_free(p->reweigher);
    qc_graph_free(p->simulated);
    qc_graph_free(p->joined);
    p->produced = p->folded = p->expanded = p->reweighed = p->simulated = p->joined = NULL;
    p->calibration = NULL;
    p->partition = NULL;
    p->reweighing = NULL;
    p->reweigher = NULL;
}

/* Keeps of the statistics what the simulated graph needs; when something is missing all of it goes, to be collected again. */
static bool reuse_statistics(struct qc_pipeline *p, struct qc_status *st)
{
    size_t count;
    qc_id *values;
    const char **names;
    struct qc_gram *gram = NULL;
    if (!p->seen) return true; /* --propagate without second moments */
    if (!qc_observed_values(&count, &values, &names, p->simulated, p->arena, st)) return false;
    bool there = p->options->propagate || !p->calibration_options.channels || p->seen->channels;
    /* Values without a name are told apart by their numbers, which are others in each graph. */
    for (size_t i = 0; there && !p->options->propagate && i < count; i++) there = *names[i] != '%' && qc_collection_find(p->seen, names[i]);
    if (there && p->seen->gram) {
        if (!qc_gram_for(&gram, p->seen->gram, p->simulated, st)) return false;
        there = gram != NULL;
    }
    if (there) {
        p->gram = gram;
        return true;
    }
    if (p->options->stats || p->options->team) return qc_fail(st, QC_UNSUPPORTED, "the statistics lack values that become inputs or results of quantized ops");
    qc_collection_free(p->seen);
    p->seen = NULL;
    return true;
}

bool qc_pipeline_again(struct qc_pipeline *p, struct qc_status *st)
{
    struct qc_op_counts heavy;
    bool counted = true, ok = true;
    qc_graph_count_ops(&heavy, p->real);
    free_again(p);
    qc_warnings_drop(p->warnings, p->warnings_from, p->warnings_to);
    const size_t before = p->warnings_from = qc_warnings_count(p->warnings);
    for (size_t i = AGAIN; ok && i < qc_stage_count(); i++) {
        ok = stages[i].run(p, st) && check_graph(p, &stages[i], &heavy, &counted, st) && qc_interrupt_check(st);
        if (ok && stages[i].run == stage_simulate) ok = reuse_statistics(p, st);
    }
    qc_gram_free(p->gram);
    p->gram = NULL;
    p->warnings_from = before;
    p->warnings_to = qc_warnings_count(p->warnings);
    if (!ok) free_again(p);
    return ok;
}

bool qc_pipeline_dump_again(const struct qc_pipeline *p, struct qc_status *st)
{
    for (size_t i = AGAIN; i < qc_stage_count(); i++)
        if (!dump(p, &stages[i], st)) return false;
    return true;
}

static bool check_dumps(const struct qc_cli_options *o, struct qc_status *st)
{
    const char *names[sizeof stages / sizeof *stages];
    for (size_t i = 0; i < qc_stage_count(); i++) names[i] = stages[i].name;
    for (size_t i = 0; i < o->dump.count; i++) {
        char name[64];
        const char *end = strchr(o->dump.items[i], '=');
        qc_text(name, sizeof name, "%.*s", end ? (int)(end - o->dump.items[i]) : 63, o->dump.items[i]);
        bool known = false;
        for (size_t k = 0; k < qc_stage_count(); k++) known = known || strcmp(names[k], name) == 0;
        if (known) continue;
        const char *meant = qc_closest(name, names, qc_stage_count());
        return qc_fail(st, QC_USAGE, "--dump %s: there is no such pass%s%s%s; see 'qcalib list passes'", name, meant ? "; did you mean '" : "",
                       meant ? meant : "", meant ? "'?" : "");
    }
    return true;
}

static bool read_rules(struct qc_pipeline *p, struct qc_status *st)
{
    const struct qc_cli_options *o = p->options;
    if (!(p->rules = qc_rules_new(st)) || !(p->fold_rules = qc_rules_new(st))) return false;
    if (!qc_rules_add_builtin(p->rules, "normalise.rules", st) || !qc_rules_add_builtin(p->rules, "patterns.rules", st) ||
        !qc_rules_add_builtin(p->rules, "islands.rules", st) ||
        !qc_rules_add_builtin(p->rules, "allow.rules", st) || !qc_rules_add_builtin(p->fold_rules, "requantize.rules", st) ||
        (narrows_bias(o) && !qc_rules_add_builtin(p->rules, "bias_narrowed.rules", st)))
        return false;
    if (!qc_rules_choose_target(p->rules, o->target, st)) return false;
    for (size_t i = 0; i < o->rules.count; i++) {
        void *text;
        size_t size;
        if (!qc_file_read(&text, &size, o->rules.items[i], p->arena, st) || !qc_rules_parse(p->rules, o->rules.items[i], text, size, st)) return false;
    }
    return true;
}

static bool read_methods(struct qc_pipeline *p, struct qc_status *st)
{
    const struct qc_cli_options *o = p->options;
    struct qc_calibration_options *c = &p->calibration_options;
    if (!qc_plugins_new(&p->plugins, st)) return false;
    for (size_t i = 0; i < o->plugins.count; i++)
        if (!qc_plugins_load(p->plugins, o->plugins.items[i], st)) return qc_where(st, "--plugin");
    if (!qc_observer_parse_among(&c->activation, &c->activation_values, o->method ? o->method : "kl", p->plugins, st)) return qc_where(st, "--method");
    if (!qc_observer_parse_among(&c->weight, &c->weight_values, o->weight_method ? o->weight_method : "minmax", p->plugins, st))
        return qc_where(st, "--weight-method");
    c->workers = (unsigned)o->threads;
    c->memory_limit = (size_t)o->memory_limit;
    c->compensate = strcmp(o->weight_rounding, "compensated") == 0;
    c->correct_bias = corrects_bias(o);
    c->moments = c->weight->of_output || reweighs(o);
    c->look_through = strcmp(o->look_through, "on") == 0;
    c->nonfinite_error = o->nonfinite && strcmp(o->nonfinite, "error") == 0;
    c->progress = qc_progress_step;
    c->progress_user = p->progress;
    return true;
}

bool qc_pipeline_begin(struct qc_pipeline *p, const struct qc_cli_options *o, struct qc_status *st)
{
    p->options = o;
    p->arena = o->arena;
    if (!qc_options_agree(o, st)) return false;
    if (!check_dumps(o, st) || !qc_warnings_new(&p->warnings, st) || !qc_progress_new(&p->progress, o, st) || !read_rules(p, st) || !read_methods(p, st) ||
        !qc_integer_options(&p->how, o, st))
        return false;
    if (!qc_scheme_options(&p->scheme, o, p->arena, st)) return false;
    p->lowered_count = o->formats.count;
    p->exporters = QC_NEW_ARRAY(p->arena, const struct qc_exporter *, p->lowered_count, st);
    p->lowered = QC_NEW_ARRAY(p->arena, struct qc_graph *, p->lowered_count, st);
    if (!p->exporters || !p->lowered) return false;
    for (size_t i = 0; i < p->lowered_count; i++)
        if (!(p->exporters[i] = qc_exporter_find(o->formats.items[i])))
            return qc_fail(st, QC_USAGE, "--format %s: there is no such format; see 'qcalib list formats'", o->formats.items[i]);
    return true;
}

bool qc_pipeline_normalise(struct qc_pipeline *p, const struct qc_cli_options *o, struct qc_status *st)
{
    p->options = o;
    p->arena = o->arena;
    return qc_warnings_new(&p->warnings, st) && qc_progress_new(&p->progress, o, st) && read_rules(p, st) && stage_import(p, st) &&
           stage_normalise(p, st) && qc_graph_verify(p->normalised, st);
}

void qc_pipeline_end(struct qc_pipeline *p)
{
    free_again(p);
    qc_collection_free(p->seen);
    qc_graph_free(p->equalized);
    qc_graph_free(p->normalised);
    qc_dataset_free(p->eval);
    qc_dataset_free(p->data);
    qc_model_close(&p->model);
    qc_rules_free(p->rules);
    qc_rules_free(p->fold_rules);
    qc_plugins_free(p->plugins); /* behind the calibration, which names their observers */
    qc_progress_free(p->progress);
    qc_warnings_free(p->warnings);
}
