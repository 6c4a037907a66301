// SPDX-License-Identifier: Apache-2.0
/* Refines rounded weights: layer by layer they compensate for the error of the layer's quantized input
   (docs/decisions/0045-rounding-on-what-is-read.md). */
#include "quantize/search/searches.h"

#include <stdlib.h>

#include "base/clock.h"
#include "calib/ablation.h"
#include "calib/sequential/sequential.h"
#include "calib/trials/trials.h"
#include "quantize/make/make.h"
#include "quantize/search/race.h"

/* The simulated graph, and beside it the part of the float graph that computes the inputs of the layers to refine. */
struct beside {
    struct qc_graph *graph;
    qc_id *floats; /* [value_count + 1] of graph */
};

static bool copy_beside(struct beside *b, const struct qc_graph *g, const struct qc_graph *real,
                        const struct qc_weight_rounder *r, struct qc_status *st)
{
    struct qc_rebuild own, other = {.from = real, .map = calloc(real->value_count + 1, sizeof(qc_id))};
    qc_id *floats = calloc(g->value_count + 1, sizeof *floats); /* by value of g */
    bool ok = qc_rebuild_begin(&own, g, st) && (other.map && floats ? true : qc_fail_memory(st, sizeof *floats));
    for (qc_id id = 1; ok && id <= g->node_count; id++) ok = qc_rebuild_node(&own, id, st) != 0;
    ok = ok && (own.to->node_count == g->node_count || qc_fail(st, QC_BAD_INPUT, "a node of the graph is there twice"));
    other.to = own.to;
    for (size_t i = 0; ok && i < g->input_count; i++) other.map[real->inputs[i].value] = own.map[g->inputs[i].value];
    for (qc_id id = 1; ok && id <= g->node_count; id++) {
        if (!qc_weight_rounder_can_cross(r, id, 1)) continue;
        /* The value of the float graph with the name of the layer's input, if it has the same shape. */
        const struct qc_value *v = qc_value(g, qc_source_of(g, g->nodes[id].inputs[0]));
        const qc_id found = v->name && v->kind == QC_VALUE_RESULT ? qc_graph_find_value(real, v->name) : 0;
        const struct qc_value *f = found ? qc_value(real, found) : NULL;
        if (f && f->kind == QC_VALUE_RESULT && f->type.dtype == QC_F32 &&
            qc_shape_equal(&f->type.shape, &v->type.shape))
            ok = (floats[g->nodes[id].inputs[0]] = qc_rebuild_value(&other, found, st)) != 0;
    }
    ok = ok && qc_rebuild_finish(&b->graph, &own, st) &&
         ((b->floats = calloc(b->graph->value_count + 1, sizeof *b->floats)) || qc_fail_memory(st, sizeof *b->floats));
    for (qc_id v = 1; ok && v <= g->value_count; v++)
        if (floats[v] != own.map[v]) b->floats[own.map[v]] = floats[v]; /* equal nodes are one: without an error */
    free(floats);
    free(other.map);
    qc_rebuild_free(&own);
    return ok;
}

static bool any_crosses(const struct qc_weight_rounder *r, const struct qc_graph *g)
{
    bool any = false;
    for (qc_id id = 1; id <= g->node_count; id++) any = any || qc_weight_rounder_can_cross(r, id, 1);
    return any;
}

/* Returns true if 8-bit weights are refined: the outputs lose much, or all they lose comes from weights. */
static bool refines_all(const struct qc_network *net)
{
    const struct qc_report_trial *t = qc_auto_method_chosen(net->auto_method);
    return qc_network_weights_alone(net) || (t && t->sqnr_db < QC_CROSS_ALL_BELOW_DB);
}

static bool is_few(enum qc_dtype t)
{
    return t != QC_NONE && qc_dtype_info(t)->bits < 8;
}

/* Rounds the weights again, layer by layer. *out and *rounding stay NULL if no layer can be refined. */
static bool round_again(struct qc_weight_rounding **rounding, struct qc_graph **out, struct qc_network *net,
                        struct qc_status *st)
{
    const struct qc_graph *g = net->simulated;
    struct qc_round_weights_options how = qc_network_rounding(net);
    struct qc_sequential_options o = {.calibration = &net->scheme.calibration, .keys = net->evidence->keys};
    struct qc_weight_rounder *first = NULL;
    struct qc_second_moments *m = NULL;
    struct beside b = {0};
    bool done = false;
    how.file = NULL;
    bool ok = qc_weight_rounder_new(&first, g, qc_network_moments(net), &how, st);
    if (ok && !any_crosses(first, g) && refines_all(net) && !qc_ablated("cross_all")) {
        qc_weight_rounder_free(first);
        first = NULL;
        how.cross_all = net->crossed.all = true;
        o.units = qc_network_weights_alone(net) ? 0 : QC_CROSS_ALL_UNITS;
        ok = qc_weight_rounder_new(&first, g, qc_network_moments(net), &how, st);
    }
    if (ok && any_crosses(first, g)) {
        how.nodes = g->node_count;
        ok = copy_beside(&b, g, net->real, first, st) &&
             qc_second_moments_for(&m, qc_network_moments(net), b.graph, st) &&
             (!m || qc_weight_rounder_new(&o.weight_rounder, b.graph, m, &how, st)) &&
             (!m || qc_round_sequentially(&done, b.graph, b.floats, net->setup->data, &o, st)) &&
             (!done || qc_weight_rounder_finish(rounding, out, o.weight_rounder, st));
    }
    qc_weight_rounder_free(o.weight_rounder);
    qc_weight_rounder_free(first);
    qc_second_moments_free(m);
    qc_graph_free(b.graph);
    free(b.floats);
    return ok;
}

bool qc_round_crossed(struct qc_network *net, struct qc_status *st)
{
    struct qc_weight_rounding *rounding = NULL;
    struct qc_graph *crossed = NULL;
    const struct qc_settings *s = net->scheme.settings;
    if (net->scheme.sketch || !net->setup->data || !net->weight_rounding || !qc_network_moments(net) ||
        !s->compensate || !s->correct_bias || s->plan.accumulator.bits % 32 != 0 || net->setup->of_body ||
        (net->scheme.options->demand.size && !net->scheme.sized) || qc_dataset_varies(net->setup->data))
        return true;
    if (!qc_memory_ample(net)) {
        const struct qc_partition_options *scheme = &net->scheme.partition;
        bool few = is_few(scheme->weight.dtype);
        for (size_t i = 0; i < scheme->weight_type_count; i++) few = few || is_few(scheme->weight_types[i].dtype);
        if (few || refines_all(net))
            qc_warn(net->listener->warnings,
                    "weights are not refined: --memory-limit leaves too little memory for a second rounding");
        return true;
    }
    const double t0 = qc_seconds(), before = net->weight_rounding->seconds;
    qc_progress_phase(net->setup->progress, "refining weights");
    bool ok = round_again(&rounding, &crossed, net, st);
    qc_progress_end(net->setup->progress);
    bool gains = false;
    if (ok && crossed) {
        const size_t share = qc_dataset_units(net->setup->data) / QC_CROSS_SHARE;
        const struct qc_race_terms terms = {.units = share < QC_CROSS_UNITS_MIN   ? QC_CROSS_UNITS_MIN
                                                     : share > QC_CROSS_UNITS_MAX ? QC_CROSS_UNITS_MAX
                                                                                  : share,
                                            .held = true,
                                            .least_db = net->crossed.all ? QC_CROSS_ALL_GAIN_DB : QC_CROSS_GAIN_DB,
                                            .expected = true};
        const struct qc_graph *const graphs[2] = {net->rounded, crossed};
        struct qc_race_result g = {0};
        net->crossed.tried = ok = qc_race_of_graphs(&g, &gains, net, graphs, &terms, st);
        net->crossed.gain_db = g.gain;
    }
    if (gains) {
        struct qc_weight_rounding *was = net->weight_rounding;
        net->crossed.kept = true;
        net->uncorrected = net->rounded;
        net->rounded = crossed;
        net->weight_rounding = rounding;
        rounding = was;
        crossed = NULL;
    }
    net->weight_rounding->seconds = before + qc_seconds() - t0;
    qc_weight_rounding_free(rounding);
    qc_graph_free(crossed);
    return ok;
}
