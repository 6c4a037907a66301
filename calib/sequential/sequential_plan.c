// SPDX-License-Identifier: Apache-2.0
#include "calib/sequential/sequential.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "calib/sequential/sequential_parts.h"
#include "calib/statistics/collection.h"
#include "calib/statistics/stream.h"

/* Limits of qc_round_sequentially: units that run (at least QC_SOME_UNITS), and bytes kept. KEPT_EACH: bytes in memory
   for each element of the largest layer input: its float and its stored form, and those of the layer before. */
enum { UNITS_MOST = 128, KEPT_BYTES = 256 << 20, KEPT_EACH = 12 };

/* Arrays are by id of the graph and change with every part, so that all parts together take work in proportion to the
   graph. */
struct planning {
    struct qc_propagation *p;
    double rounding_seconds;
    size_t quantizer_count, at; /* quantizers in order, and the number chosen so far */
    qc_id *quantizers;
    bool *final;           /* [value_count + 1]: nothing still to be bound or rounded can change it */
    uint32_t *wanted;      /* [value_count + 1]: how often later runs read or observe it */
    uint32_t *observed;    /* [value_count + 1]: how often this or a later run observes it */
    bool *expanded;        /* [node_count + 1]: later runs compute it */
    qc_id *stack, *begins; /* [value_count + 1]: scratch */
    struct qc_segment part;
};

static void add_id(struct qc_id_set *s, qc_id id)
{
    if (s->has[id]) return;
    s->has[id] = true;
    s->of[s->count++] = id;
}

static void clear_ids(struct qc_id_set *s)
{
    for (size_t i = 0; i < s->count; i++) s->has[s->of[i]] = false;
    s->count = 0;
}

static void need(struct planning *s, qc_id v)
{
    const struct qc_value *value = &s->p->g->values[v];
    if (v && (qc_activation_cache_has(s->p->frontier, v) || value->kind == QC_VALUE_INPUT))
        add_id(&s->part.inputs, v);
    else if (v && value->kind == QC_VALUE_RESULT)
        add_id(&s->part.nodes, value->node);
}

/* Finds the nodes between kept values and observed ones. */
static void find_needed(struct planning *s)
{
    const struct qc_graph *g = s->p->g;
    struct qc_segment *part = &s->part;
    clear_ids(&part->inputs);
    clear_ids(&part->nodes);
    for (size_t i = 0; i < part->observed_count; i++) need(s, part->observed[i].value);
    for (size_t at = 0; at < part->nodes.count; at++) {
        const struct qc_node *n = &g->nodes[part->nodes.of[at]];
        for (unsigned i = 0; i < n->input_count; i++) need(s, n->inputs[i]);
    }
    qsort(part->inputs.of, part->inputs.count, sizeof *part->inputs.of, qc_order_u32);
    qsort(part->nodes.of, part->nodes.count, sizeof *part->nodes.of, qc_order_u32);
    /* Which values of the part are final? All that it reads from outside are. */
    const struct qc_weight_rounder *r = s->p->options->weight_rounder;
    for (size_t at = 0; at < s->part.nodes.count; at++) {
        const struct qc_node *n = &g->nodes[s->part.nodes.of[at]];
        bool ok = !r || !qc_weight_rounder_waits(r, s->part.nodes.of[at]);
        for (unsigned i = 0; i < n->input_count; i++) ok = ok && (!n->inputs[i] || s->final[n->inputs[i]]);
        for (unsigned k = 0; k < n->output_count; k++) {
            const qc_id qparams = g->values[n->outputs + k].type.qparams;
            s->final[n->outputs + k] = ok && (!qparams || g->qparams_of[qparams].state != QC_QPARAMS_UNBOUND);
        }
    }
}

/* Returns true for qparams whose integers can be kept: those of a quantizer with one scale. */
static bool has_kept_integers(const struct qc_qparams *qparams)
{
    return qparams && qparams->kind == QC_QPARAMS_QUANTIZER && qparams->count == 1;
}

/* Returns true for real values, except those that dequantize kept integers, and for integers that an operator computes
   from integers. Integers of real values are kept for these values. */
static bool can_keep(const struct qc_graph *g, qc_id v)
{
    const struct qc_type *t = &g->values[v].type;
    const struct qc_node *n = qc_node_of(g, v),
                         *under = n && n->op == QC_OP_Dequantize ? qc_node_of(g, n->inputs[0]) : NULL;
    if (t->qparams) return n && n->op != QC_OP_Quantize && has_kept_integers(qc_graph_parameters(g, v));
    return t->dtype == QC_F32 && !(under && under->op == QC_OP_Quantize);
}

static struct qc_segment_observed *look_at_value(struct planning *s, qc_id value)
{
    struct qc_segment *part = &s->part;
    for (size_t i = 0; i < part->observed_count; i++)
        if (part->observed[i].value == value) return &part->observed[i];
    part->observed[part->observed_count] = (struct qc_segment_observed){.value = value};
    return &part->observed[part->observed_count++];
}

/* Returns the quantized form of a real value if later runs need only its integers, of bound qparams with one scale, and
   this run computes them. Else returns 0. */
static qc_id quantized_form(const struct planning *s, qc_id v)
{
    const struct qc_graph *g = s->p->g;
    qc_id found = 0;
    if (s->observed[v] || g->values[v].type.qparams) return 0;
    const struct qc_use_list readers = qc_readers(&s->p->uses, v);
    for (size_t i = 0; i < readers.count; i++) {
        const qc_id id = readers.of[i].node;
        if (!s->expanded[id]) continue;
        const struct qc_node *n = &g->nodes[id];
        const struct qc_qparams *qparams = n->op == QC_OP_Quantize ? qc_graph_parameters(g, n->outputs) : NULL;
        if (!has_kept_integers(qparams) || !s->part.nodes.has[id] || (found && found != n->outputs)) return 0;
        found = n->outputs;
    }
    return found;
}

/* Returns true if later runs begin with v instead of computing it: it is kept, or can be kept in this run. */
static bool is_begin(const struct planning *s, qc_id v)
{
    return qc_activation_cache_has(s->p->frontier, v) ||
           (s->part.nodes.has[s->p->g->values[v].node] && s->final[v] && can_keep(s->p->g, v));
}

/* Drops nodes from those that later runs compute if none of their outputs is needed, beginning with this one. */
static void settle_sequential(struct planning *s, qc_id node)
{
    const struct qc_graph *g = s->p->g;
    size_t count = 0;
    for (s->stack[count++] = node; count;) {
        const qc_id id = s->stack[--count];
        const struct qc_node *n = &g->nodes[id];
        bool needed = !s->expanded[id];
        for (unsigned k = 0; !needed && k < n->output_count; k++)
            needed = s->wanted[n->outputs + k] && !is_begin(s, n->outputs + k);
        if (needed) continue;
        s->expanded[id] = false;
        for (unsigned i = 0; i < n->input_count; i++) {
            const qc_id v = n->inputs[i];
            if (!v || --s->wanted[v] || g->values[v].kind != QC_VALUE_RESULT) continue;
            if (qc_activation_cache_has(s->p->frontier, v)) add_id(&s->part.leaves, v);
            s->stack[count++] = g->values[v].node;
        }
    }
}

/* One run fewer observes v. */
static void let_go_value(struct planning *s, qc_id v)
{
    if (--s->wanted[v] || s->p->g->values[v].kind != QC_VALUE_RESULT) return;
    if (qc_activation_cache_has(s->p->frontier, v)) add_id(&s->part.leaves, v);
    settle_sequential(s, s->p->g->values[v].node);
}

/* Counts what is still to be observed, and how often each value is read for it. */
static void count_wanted(struct planning *s)
{
    const struct qc_propagation *p = s->p;
    const struct qc_graph *g = p->g;
    for (qc_id v = 1; v <= g->value_count; v++) s->final[v] = g->values[v].kind != QC_VALUE_RESULT;
    for (size_t k = 0; k < s->quantizer_count; k++) {
        const struct qc_qparams *quantizer = &g->qparams_of[s->quantizers[k]];
        for (size_t i = 0; i < quantizer->observed_count; i++) s->observed[quantizer->observed[i]]++;
    }
    for (qc_id id = 1; p->means && id <= g->node_count; id++)
        if (qc_weight_rounder_expects(p->options->weight_rounder, id)) {
            const qc_id input = g->nodes[id].inputs[0], beside = p->floats ? p->floats[input] : 0;
            s->observed[input]++;
            if (beside) s->observed[beside]++;
        }
    memcpy(s->wanted, s->observed, (g->value_count + 1) * sizeof *s->wanted);
    for (qc_id id = (qc_id)g->node_count; id >= 1; id--) {
        const struct qc_node *n = &g->nodes[id];
        for (unsigned k = 0; k < n->output_count; k++) s->expanded[id] = s->expanded[id] || s->wanted[n->outputs + k];
        for (unsigned i = 0; s->expanded[id] && i < n->input_count; i++)
            if (n->inputs[i]) s->wanted[n->inputs[i]]++;
    }
}

static bool run_part(struct planning *s, struct qc_status *st)
{
    find_needed(s);
    /* Find the values that later runs begin with: those kept, or that can be kept in this run, of all that is still to
       be observed. Only what this run observes or computes can change them. */
    struct qc_propagation *p = s->p;
    const struct qc_graph *g = p->g;
    const struct qc_segment *part = &s->part;
    clear_ids(&s->part.leaves);
    if (part->counts) { /* later runs need only the integers of what is chosen by this run */
        const struct qc_qparams *quantizer = &g->qparams_of[s->quantizers[s->at]];
        for (size_t i = 0; i < quantizer->observed_count; i++) let_go_value(s, quantizer->observed[i]);
    }
    for (size_t i = 0; i < part->layers.count; i++) {
        const qc_id input = g->nodes[part->layers.of[i]].inputs[0], beside = p->floats ? p->floats[input] : 0;
        s->observed[input]--;
        let_go_value(s, input);
        if (!beside) continue;
        s->observed[beside]--;
        let_go_value(s, beside);
    }
    for (size_t i = part->nodes.count; i-- > 0;) settle_sequential(s, part->nodes.of[i]);
    size_t count = 0;
    for (size_t i = 0; i < part->inputs.count; i++)
        if (s->wanted[part->inputs.of[i]] && qc_activation_cache_has(p->frontier, part->inputs.of[i]))
            s->begins[count++] = part->inputs.of[i];
    for (size_t i = 0; i < part->nodes.count; i++) {
        const struct qc_node *n = &g->nodes[part->nodes.of[i]];
        for (qc_id v = n->outputs; v < n->outputs + n->output_count; v++)
            if (s->wanted[v] && !qc_activation_cache_has(p->frontier, v) && is_begin(s, v)) s->begins[count++] = v;
    }
    qsort(s->begins, count, sizeof *s->begins, qc_order_u32);
    for (size_t i = 0; i < count; i++) {
        const qc_id v = s->begins[i];
        const bool there = qc_activation_cache_has(p->frontier, v);
        const qc_id integers = there && qc_activation_cache_form(p->frontier, v)->qparams ? 0 : quantized_form(s, v);
        if (there && !integers) continue;
        if (there) add_id(&s->part.leaves, v);
        look_at_value(s, integers ? integers : v)->keep = v;
    }
    return qc_segment_run(s->p, &s->part, st);
}

static void begin_part(struct planning *s)
{
    s->part.observed_count = 0;
    s->part.counts = false;
    clear_ids(&s->part.layers);
}

/* Solves the waiting layers that read `input`, which is final: collects their moments, then computes their new
   constants. */
static bool solve_layers_of(struct planning *s, qc_id input, struct qc_status *st)
{
    struct qc_propagation *p = s->p;
    struct qc_weight_rounder *r = p->options->weight_rounder;
    const struct qc_id_set *layers = &s->part.layers;
    const struct qc_use_list readers = qc_readers(&p->uses, input);
    begin_part(s);
    for (size_t i = 0; i < readers.count; i++)
        if (readers.of[i].input == 0 && qc_weight_rounder_waits(r, readers.of[i].node))
            add_id(&s->part.layers, readers.of[i].node);
    if (p->means) {
        look_at_value(s, input)->means = true;
        if (p->floats && p->floats[input]) {
            look_at_value(s, input)->paired = true;
            look_at_value(s, p->floats[input])->beside = input;
        }
        if (!run_part(s, st) || !qc_second_moments_end_layers(p->means, layers->count, layers->of, st)) return false;
    }
    const double t0 = qc_seconds();
    bool ok = true;
    for (size_t i = 0; ok && i < layers->count; i++) {
        ok = qc_weight_rounder_solve(r, layers->of[i], p->means, st);
        if (p->floats) qc_second_moments_forget(p->means, layers->of[i]);
    }
    s->rounding_seconds += qc_seconds() - t0;
    return ok;
}

/* Begins the part that chooses a quantizer, which may have to wait for layers. */
static void look_at_quantizer(struct planning *s, qc_id quantizer)
{
    const struct qc_qparams *qparams = &s->p->g->qparams_of[quantizer];
    begin_part(s);
    for (size_t i = 0; i < qparams->observed_count; i++)
        if (!qc_constant_of(s->p->g, qparams->observed[i])) look_at_value(s, qparams->observed[i])->scan = true;
    s->part.counts = true;
    find_needed(s);
}

static bool is_ready(const struct planning *s, qc_id layer)
{
    const struct qc_weight_rounder *r = s->p->options->weight_rounder;
    return r && qc_weight_rounder_waits(r, layer) && s->final[s->p->g->nodes[layer].inputs[0]];
}

static bool advance(struct planning *s, struct qc_status *st)
{
    const struct qc_graph *g = s->p->g;
    const qc_id quantizer = s->quantizers[s->at];
    look_at_quantizer(s, quantizer);
    for (size_t i = 0; i < s->part.nodes.count;) {
        const qc_id layer = s->part.nodes.of[i++];
        if (!is_ready(s, layer)) continue;
        if (!solve_layers_of(s, g->nodes[layer].inputs[0], st)) return false;
        look_at_quantizer(s, quantizer);
        i = 0;
    }
    if (!run_part(s, st)) return false;
    for (size_t i = 0; i < g->qparams_of[quantizer].observed_count; i++)
        s->observed[g->qparams_of[quantizer].observed[i]]--;
    return qc_chooser_quantizer(s->p->chooser, quantizer, st) && qc_chooser_weights(s->p->chooser, st);
}

/* Orders quantizers by the last of the values that determine them; chooses those of constants alone at once. */
static bool order_quantizers(struct planning *s, struct qc_status *st)
{
    struct qc_propagation *p = s->p;
    const struct qc_graph *g = p->g;
    qc_id *last = QC_NEW_ARRAY(p->arena, qc_id, g->qparams_count + 1, st);
    if (!last || !(s->quantizers = QC_NEW_ARRAY(p->arena, qc_id, g->qparams_count + 1, st))) return false;
    for (qc_id id = 1; id <= g->qparams_count; id++) {
        const struct qc_qparams *qparams = &g->qparams_of[id];
        for (size_t i = 0; i < qparams->observed_count; i++)
            if (!qc_constant_of(g, qparams->observed[i]))
                last[id] = qparams->observed[i] > last[id] ? qparams->observed[i] : last[id];
        if (qparams->observed_count && !last[id] && !qc_chooser_quantizer(p->chooser, id, st)) return false;
        if (!last[id]) continue;
        size_t k = s->quantizer_count++;
        for (; k && last[s->quantizers[k - 1]] > last[id]; k--) s->quantizers[k] = s->quantizers[k - 1];
        s->quantizers[k] = id;
    }
    return qc_chooser_weights(p->chooser, st);
}

static bool new_set(struct qc_id_set *out, size_t count, struct qc_arena *a, struct qc_status *st)
{
    return (out->has = QC_NEW_ARRAY(a, bool, count, st)) && (out->of = QC_NEW_ARRAY(a, qc_id, count, st));
}

static bool make_planning(struct planning *s, struct qc_status *st)
{
    const size_t values = s->p->g->value_count + 1, nodes = s->p->g->node_count + 1;
    struct qc_arena *a = s->p->arena;
    return (s->final = QC_NEW_ARRAY(a, bool, values, st)) && (s->wanted = QC_NEW_ARRAY(a, uint32_t, values, st)) &&
           (s->observed = QC_NEW_ARRAY(a, uint32_t, values, st)) && (s->expanded = QC_NEW_ARRAY(a, bool, nodes, st)) &&
           (s->stack = QC_NEW_ARRAY(a, qc_id, values, st)) && (s->begins = QC_NEW_ARRAY(a, qc_id, values, st)) &&
           new_set(&s->part.nodes, nodes, a, st) && new_set(&s->part.inputs, values, a, st) &&
           new_set(&s->part.leaves, values, a, st) && new_set(&s->part.layers, nodes, a, st) &&
           (s->part.observed = QC_NEW_ARRAY(a, struct qc_segment_observed, 2 * values, st)) &&
           qc_rebuild_room_new(&s->p->room, s->p->g, a, st);
}

/* Counts one worker with the whole graph, the histograms of all values, and the buffers of a temporary file. */
bool qc_sequential_bytes(size_t *out, const struct qc_graph *g, const struct qc_dataset *data,
                         const struct qc_calibration_options *options, const struct qc_budget *budget,
                         struct qc_status *st)
{
    enum { FILE_RESERVE = 4 << 20 };
    const enum qc_need need = qc_need_of_scan(options->activation->need);
    struct qc_plan *plan = NULL;
    QC_ARENA_SCOPE *a = qc_arena_new();
    size_t largest = 0, histograms = 0;
    struct qc_named_values values = {0};
    bool ok = a && qc_stream_one_size(data, "--propagate", st) && qc_observed_values(&values, g, a, st);
    const struct qc_plan_options how = {.observed_count = values.count, .observed = values.ids, .budget = budget};
    ok = ok && qc_stream_plan(&plan, g, data, &how, st);
    if (ok && !qc_plan_shapes_known(plan))
        ok = qc_fail(st, QC_UNSUPPORTED,
                     "shapes in this model depend on data, which --propagate does not support; leave it out");
    for (size_t i = 0; ok && i < values.count; i++) {
        const size_t elements = qc_plan_observed_elements(plan, i), seen = elements * qc_dataset_units(data),
                     bytes = elements * sizeof(float) + qc_scan_bytes(need, seen);
        histograms += qc_histogram_bytes(need, seen);
        largest = bytes > largest ? bytes : largest;
    }
    if (ok) *out = FILE_RESERVE + qc_plan_runner_bytes(plan) + largest + histograms;
    qc_plan_free(plan);
    return ok || st->code != QC_OK || qc_fail_memory(st, 1);
}

/* Fails before the run if memory_limit is too low. */
static bool check_memory(const struct qc_propagation *p, struct qc_status *st)
{
    const struct qc_calibration_options *c = p->options->calibration;
    unsigned workers;
    size_t bytes;
    return !c->settings->memory_limit ||
           (qc_sequential_bytes(&bytes, p->g, p->data, c, NULL, st) &&
            qc_stream_workers(&workers, 1, c->settings->memory_limit, qc_stream_held_bytes(c->settings->memory_limit),
                              bytes, st));
}

/* Returns the bytes of values kept in memory: the size of the model, at least 12 MiB; less would not lower the peak of
   a small model. */
static size_t in_memory(const struct qc_graph *g)
{
    static const size_t least = (size_t)12 << 20;
    return g->budget.model_bytes > least ? g->budget.model_bytes : least;
}

static bool keep_extremes(struct qc_propagation *p, size_t count, struct qc_status *st)
{
    if (!qc_extremes_table_new(&p->seen->extremes, count, p->units, st)) return false;
    for (size_t u = 0; u < p->units; u++)
        p->seen->extremes->samples[u] = QC_SAMPLE_ID(0, qc_dataset_first_sample(p->data, u));
    return true;
}

static bool keep_channels(struct qc_propagation *p, const struct qc_named_values *values, struct qc_status *st)
{
    const int *axes;
    if (!qc_named_channel_axes(&axes, values, p->g, p->arena, st) ||
        !qc_channel_locks_new(&p->locks, values->count, st))
        return false;
    p->seen->channels = true;
    for (size_t i = 0; i < values->count; i++)
        if (axes[i] >= 0 &&
            !qc_collection_add_channels(p->seen, i, axes[i], p->g->values[values->ids[i]].type.shape.dim[axes[i]], st))
            return false;
    return true;
}

/* Finds the keys of all units. */
static bool find_keys(struct qc_keyed_unit **keyed, struct qc_propagation *p, struct qc_status *st)
{
    p->keys = QC_NEW_ARRAY(p->arena, uint64_t, p->units, st);
    if (!p->keys || !qc_keyed_units(keyed, p->data, p->g->input_count, p->options->keys, p->workers, p->arena, st))
        return false;
    for (size_t i = 0; i < p->units; i++) p->keys[(*keyed)[i].unit] = (*keyed)[i].key;
    return true;
}

/* Makes room for the statistics of every quantizer, the means, and the keys of the units. */
static bool begin_propagation(struct qc_propagation *p, struct qc_status *st)
{
    const struct qc_calibration_options *c = p->options->calibration;
    struct qc_named_values values;
    struct qc_keyed_unit *keyed;
    p->workers = c->settings->workers ? c->settings->workers : 1;
    p->units = qc_dataset_units(p->data);
    p->shapes = qc_stream_shapes(p->g, p->data, p->arena, st);
    p->watch = QC_NEW_ARRAY(p->arena, size_t, p->g->value_count + 1, st);
    if (!p->shapes || !p->watch || !qc_uses_of(&p->uses, p->g, p->arena, st) ||
        !qc_observed_values(&values, p->g, p->arena, st))
        return false;
    for (size_t i = 0; i < values.count; i++) p->watch[values.ids[i]] = i + 1;
    if (!qc_collection_new(&p->seen, values.count, values.names, qc_need_of_scan(c->activation->need), st) ||
        (c->activation->need == QC_NEED_VALUES &&
         !qc_per_sample_new(&p->seen->samples, c->activation, &c->activation_values, values.count, st)) ||
        ((c->few || c->unseen || c->activation->need == QC_NEED_SERIES) && !keep_extremes(p, values.count, st)) ||
        (c->channels && !keep_channels(p, &values, st)) ||
        !qc_activation_cache_new(&p->frontier, p->g, p->units, !c->settings->memory_limit, in_memory(p->g), st) ||
        !qc_chooser_new(&p->chooser, p->g, p->seen, qc_dataset_file(p->data), c, st) || !check_memory(p, st))
        return false;
    if (!p->options->weight_rounder || !c->settings->correct_bias) return true;
    return qc_second_moments_new_means(&p->means, p->g, st) && qc_second_moments_begin(p->means, p->workers, st) &&
           find_keys(&keyed, p, st);
}

/* Solves the layers after the last quantizer. */
static bool solve_rest(struct planning *s, struct qc_status *st)
{
    const struct qc_graph *g = s->p->g;
    const struct qc_weight_rounder *r = s->p->options->weight_rounder;
    for (qc_id layer = 1; r && layer <= g->node_count; layer++) {
        if (!qc_weight_rounder_waits(r, layer)) continue;
        begin_part(s);
        look_at_value(s, g->nodes[layer].inputs[0]);
        find_needed(s);
        if (is_ready(s, layer) && !solve_layers_of(s, g->nodes[layer].inputs[0], st)) return false;
    }
    return true;
}

bool qc_calibrate_sequentially(struct qc_calibration **out, struct qc_graph *g, const struct qc_dataset *data,
                               const struct qc_sequential_options *options, struct qc_status *st)
{
    struct qc_propagation p = {.options = options, .g = g, .data = data, .arena = qc_arena_new()};
    struct planning s = {.p = &p};
    const double t0 = qc_seconds();
    bool ok = p.arena ? begin_propagation(&p, st) && make_planning(&s, st) && order_quantizers(&s, st)
                      : qc_fail_memory(st, 1);
    p.total = s.quantizer_count * p.units;
    if (ok) count_wanted(&s);
    for (; ok && s.at < s.quantizer_count; s.at++) ok = advance(&s, st);
    ok = ok && solve_rest(&s, st);
    if (ok) {
        struct qc_chooser *chooser = p.chooser;
        p.chooser = NULL;
        ok = qc_chooser_finish(out, chooser, st);
    }
    if (ok) {
        (*out)->cost = p.cost;
        (*out)->collect_seconds = qc_seconds() - t0 - (*out)->solve_seconds -
                                  s.rounding_seconds; /* that part belongs to the weight_rounder */
    }
    qc_chooser_free(p.chooser);
    qc_activation_cache_free(p.frontier);
    qc_second_moments_free(p.means);
    qc_channel_locks_free(p.locks);
    qc_collection_free(p.seen);
    qc_arena_free(p.arena);
    return ok;
}

/* Draws at most `most` units by their content. */
static bool draw_units(struct qc_propagation *p, size_t most, struct qc_status *st)
{
    struct qc_keyed_unit *keyed = NULL;
    if (!find_keys(&keyed, p, st)) return false;
    if (p->units <= most) return true;
    size_t *units = QC_NEW_ARRAY(p->arena, size_t, most, st);
    if (!units) return false;
    for (size_t u = 0; u < most; u++) {
        units[u] = keyed[u].unit;
        p->keys[u] = keyed[u].key;
    }
    p->drawn = units;
    p->units = most;
    return true;
}

/* Computes how many units may be kept. 0: shapes depend on data, so parts of the graph cannot run separately. */
static bool units_of(size_t *out, const struct qc_propagation *p, const bool *pairs, struct qc_status *st)
{
    struct qc_plan *plan = NULL;
    qc_id *values = QC_NEW_ARRAY(p->arena, qc_id, p->g->node_count + 1, st);
    size_t count = 0, largest = 1;
    if (!values) return false;
    for (qc_id id = 1; id <= p->g->node_count; id++)
        if (pairs[id]) values[count++] = p->floats[p->g->nodes[id].inputs[0]];
    const struct qc_plan_options how = {.observed_count = count, .observed = values};
    if (!qc_stream_plan(&plan, p->g, p->data, &how, st)) return false;
    const bool known = qc_plan_shapes_known(plan);
    for (size_t i = 0; known && i < count; i++) {
        const size_t n = qc_plan_observed_elements(plan, i);
        largest = n > largest ? n : largest;
    }
    const size_t fit = KEPT_BYTES / KEPT_EACH / largest, most = p->options->units ? p->options->units : UNITS_MOST;
    *out = !known ? 0 : fit < QC_SOME_UNITS ? QC_SOME_UNITS : fit > most ? most : fit;
    qc_plan_free(plan);
    return true;
}

bool qc_round_sequentially(bool *done, struct qc_graph *g, const qc_id *floats, const struct qc_dataset *data,
                           const struct qc_sequential_options *options, struct qc_status *st)
{
    struct qc_propagation p = {.options = options,
                               .g = g,
                               .floats = floats,
                               .data = data,
                               .arena = qc_arena_new(),
                               .workers = options->calibration->settings->workers
                                              ? options->calibration->settings->workers
                                              : 1,
                               .units = qc_dataset_units(data)};
    struct planning s = {.p = &p};
    struct qc_weight_rounder *r = options->weight_rounder;
    bool ok = p.arena || qc_fail_memory(st, 1), *pairs = NULL;
    size_t most = 0;
    *done = false;
    ok = ok && (pairs = QC_NEW_ARRAY(p.arena, bool, g->node_count + 1, st));
    for (qc_id id = 1; ok && id <= g->node_count; id++)
        pairs[id] = qc_weight_rounder_can_cross(r, id, 1) && floats[g->nodes[id].inputs[0]];
    ok = ok && units_of(&most, &p, pairs, st);
    for (qc_id id = 1; ok && most < p.units && id <= g->node_count; id++)
        pairs[id] = pairs[id] && qc_weight_rounder_can_cross(r, id, (double)most / (double)p.units);
    if (ok && most) {
        ok = (p.shapes = qc_stream_shapes(g, data, p.arena, st)) && qc_uses_of(&p.uses, g, p.arena, st) &&
             make_planning(&s, st) && (s.quantizers = QC_NEW_ARRAY(p.arena, qc_id, 1, st)) &&
             draw_units(&p, most, st) && qc_activation_cache_new(&p.frontier, g, p.units, true, in_memory(g), st);
        /* Layers without pairs: their biases absorb only the rounding of their weights. */
        for (qc_id id = 1; ok && id <= g->node_count; id++)
            ok = pairs[id] || !qc_weight_rounder_waits(r, id) || qc_weight_rounder_solve(r, id, NULL, st);
        ok = ok && qc_second_moments_new_pairs(&p.means, g, pairs, st) &&
             qc_second_moments_begin(p.means, p.workers, st);
        if (ok) count_wanted(&s);
        ok = ok && solve_rest(&s, st);
        *done = ok;
    }
    qc_activation_cache_free(p.frontier);
    qc_second_moments_free(p.means);
    qc_arena_free(p.arena);
    return ok;
}
