// SPDX-License-Identifier: Apache-2.0
#include "quantize/search/cost.h"

#include <math.h>

#include "graph/core/multiply_adds.h"
#include "graph/core/recurrent.h"
#include "graph/core/uses.h"
#include "quantize/make/evidence.h"
#include "quantize/search/searches.h"
#include "rewrite/passes/operator_times.h"
#include "rewrite/passes/simulate.h"
#include "simq/plan/plan.h"

/* Time of a product with kernels for 16 bits over that of 8. */
enum { WIDE = 2 };

/* A graph whose time is estimated. */
struct timed {
    const struct qc_graph *g;
    struct qc_uses uses;
    uint64_t weights; /* qc_count_weights */
    enum qc_processor on;
    bool wide_is_float; /* the runtime computes products of 16 bits in float */
};

static bool index_timed(struct timed *t, struct qc_arena *a, struct qc_status *st)
{
    return qc_uses_of(&t->uses, t->g, a, st) && qc_count_weights(&t->weights, t->g, st);
}

static bool is_stored(const struct qc_graph *g, qc_id value)
{
    return value && qc_value(g, value)->type.qparams != QC_REAL;
}

static unsigned stored_bits(const struct qc_graph *g, qc_id value)
{
    return qc_dtype_info(g->qparams_of[qc_value(g, value)->type.qparams].dtype)->bits;
}

static bool is_accumulator(const struct qc_graph *g, qc_id value)
{
    return is_stored(g, value) && g->qparams_of[qc_value(g, value)->type.qparams].kind == QC_QPARAMS_PRODUCT;
}

static bool is_wide(const struct qc_graph *g, qc_id value)
{
    return is_stored(g, value) && !is_accumulator(g, value) && stored_bits(g, value) > 8;
}

/* Returns true if the order of channels changes between the node that makes a value and one that reads it, behind
   conversions. */
static bool changes_layout(const struct timed *t, qc_id value)
{
    const struct qc_graph *g = t->g;
    const struct qc_node *maker = qc_node_of(g, value);
    while (maker && qc_op_is_conversion(maker->op)) maker = qc_node_of(g, maker->inputs[0]);
    const struct qc_use_list readers = qc_readers(&t->uses, value);
    for (size_t i = 0; i < readers.count; i++) {
        const struct qc_node *n = &g->nodes[readers.of[i].node];
        const qc_id next = qc_op_is_conversion(n->op) ? qc_only_reader(&t->uses, n->outputs) : 0;
        if (qc_changes_layout(g, value, maker, next ? &g->nodes[next] : n)) return true;
    }
    return false;
}

static int64_t time_of_product(const struct timed *t, const struct qc_node *n, const struct qc_operator_times *times,
                               qc_id id)
{
    const struct qc_graph *g = t->g;
    const qc_id x = n->inputs[0], w = n->inputs[1];
    const bool stored = is_stored(g, x) && is_stored(g, w) && !qc_is_recurrent(n->op),
               wide = stored && (is_wide(g, x) || is_wide(g, w) || qc_is_stored_wide(g, id));
    if (stored && !wide) return times->integer;
    if (wide && !t->wide_is_float) return WIDE * times->integer;
    int64_t time = times->real;
    if (is_stored(g, w)) time += qc_time_to_convert(t->on, g, w, QC_CONVERT_WEIGHT, false);
    if (stored) time += qc_time_to_convert(t->on, g, x, is_wide(g, x) ? QC_CONVERT_16 : QC_CONVERT_FROM_8, false);
    return time;
}

static bool takes_rows(const struct qc_node *n, qc_id table)
{
    return n->op == QC_OP_Gather && n->inputs[0] == table && qc_attr_int(n, "axis", 0) == 0;
}

/* Returns the time to dequantize a constant in a run: the rows that each Gather takes of a table, multiplied by their
   scales, and all of it for other readers. */
static int64_t time_of_constant(const struct timed *t, const struct qc_node *dequantize)
{
    const struct qc_graph *g = t->g;
    const struct qc_use_list readers = qc_readers(&t->uses, dequantize->outputs);
    const int64_t all = qc_time_to_convert(t->on, g, dequantize->inputs[0], QC_CONVERT_WEIGHT, false);
    int64_t time = 0;
    bool rows = true;
    for (size_t i = 0; all && i < readers.count; i++) {
        const struct qc_node *n = &g->nodes[readers.of[i].node];
        if (!takes_rows(n, dequantize->outputs))
            rows = false;
        else
            time += 2 * qc_time_to_convert(t->on, g, n->outputs, QC_CONVERT_FROM_8, false);
    }
    return rows ? time : time + all;
}

static int64_t time_of_conversion(const struct timed *t, const struct qc_node *n)
{
    const struct qc_graph *g = t->g;
    const qc_id x = n->inputs[0], y = n->outputs;
    const bool wide = is_wide(g, x) || is_wide(g, y);
    if (is_accumulator(g, x) && !wide) return 0; /* the product gives this */
    if (qc_constant_of(g, x)) return time_of_constant(t, n);
    const bool layout = n->op != QC_OP_Requantize && (changes_layout(t, y) || changes_layout(t, x));
    int64_t time = 0;
    if (n->op != QC_OP_Dequantize)
        time += qc_time_to_convert(t->on, g, y, wide ? QC_CONVERT_16 : QC_CONVERT_TO_8, layout);
    if (n->op != QC_OP_Quantize && !is_accumulator(g, x))
        time += qc_time_to_convert(t->on, g, y, wide ? QC_CONVERT_16 : QC_CONVERT_FROM_8, layout);
    return time;
}

/* Sets *time to that of a node in nanoseconds. Returns false if a shape is unknown. */
static bool time_of_node(int64_t *time, const struct timed *t, qc_id id)
{
    const struct qc_node *n = &t->g->nodes[id];
    struct qc_operator_times times;
    if (!qc_times_of_node(&times, t->on, &t->uses, t->weights, id)) return false;
    *time = qc_op_is_conversion(n->op)    ? time_of_conversion(t, n)
            : qc_multiplies(n->op)        ? time_of_product(t, n, &times, id)
            : is_stored(t->g, n->outputs) ? times.integer
                                          : times.real;
    return true;
}

bool qc_estimate_time(double *time, enum qc_processor on, const struct qc_graph *g, bool wide_is_float,
                      struct qc_status *st)
{
    struct timed t = {.g = g, .on = on, .wide_is_float = wide_is_float};
    QC_ARENA_SCOPE *a = qc_arena_new();
    if (!a) return qc_fail_memory(st, 1);
    bool *integer = QC_NEW_ARRAY(a, bool, g->node_count + 1, st);
    if (!integer || !index_timed(&t, a, st)) return false;
    for (qc_id id = 1; id <= g->node_count; id++)
        integer[id] = is_stored(g, g->nodes[id].outputs) && g->nodes[id].op != QC_OP_Quantize;
    const int64_t layout = qc_time_of_layout(on, g, integer, a, st);
    if (layout < 0) return false;
    *time = (double)(qc_time_of_run(on, g) + layout);
    for (qc_id id = 1; id <= g->node_count; id++) {
        int64_t one = 0;
        if (time_of_node(&one, &t, id))
            *time += (double)one;
        else if (qc_multiplies(g->nodes[id].op))
            *time = (double)NAN;
    }
    return true;
}

/* Sets times[QC_PROCESSORS] to the estimated times of a graph. */
static bool times_of(double *times, const struct qc_graph *g, const struct qc_network *net, struct qc_status *st)
{
    struct qc_graph *fixed = NULL;
    bool ok = qc_evidence_sized_graph(&fixed, net->evidence, g, st);
    for (int i = 0; ok && i < QC_PROCESSORS; i++)
        ok = qc_estimate_time(&times[i], (enum qc_processor)i, fixed ? fixed : g,
                              net->scheme.options->graph.runs_on->wide_is_float, st);
    qc_graph_free(fixed);
    return ok;
}

/* Adds the times of what the file of the model has in slower forms. */
static bool add_forms(double *times, const struct qc_network *net, struct qc_status *st)
{
    struct qc_graph *fixed = NULL;
    const struct qc_graph *g = net->setup->normalised;
    struct qc_uses uses;
    QC_ARENA_SCOPE *a = qc_arena_new();
    if (!a) return qc_fail_memory(st, 1);
    const bool ok =
        qc_evidence_sized_graph(&fixed, net->evidence, g, st) && qc_uses_of(&uses, fixed ? fixed : g, a, st);
    for (int i = 0; ok && i < QC_PROCESSORS; i++)
        times[i] += (double)qc_time_of_forms((enum qc_processor)i, &uses, net->setup->model.graph);
    qc_graph_free(fixed);
    return ok;
}

/* Adds the times of operators that compute with shapes. */
static bool add_shapes(double *times, const struct qc_graph *g, struct qc_status *st)
{
    QC_ARENA_SCOPE *a = qc_arena_new();
    if (!a) return qc_fail_memory(st, 1);
    for (int i = 0; i < QC_PROCESSORS; i++) {
        const int64_t time = qc_time_of_shapes((enum qc_processor)i, g, a, st);
        if (time < 0) return false;
        times[i] += (double)time;
    }
    return true;
}

/* Returns the times [QC_PROCESSORS] of the model file, whose arithmetic of shapes is not folded, or NULL on failure.
   They are the same for all networks of a job. */
static const double *times_of_model(const struct qc_network *net, struct qc_status *st)
{
    double *times = net->evidence->float_times;
    if (times[0] != 0) return times; /* NaN: shapes are unknown, then for all networks */
    const bool ok = times_of(times, net->setup->normalised, net, st) &&
                    add_shapes(times, net->setup->model.graph, st) && add_forms(times, net, st);
    return ok ? times : NULL;
}

/* Returns the processor whose latency counts. */
static enum qc_processor processor_of(const struct qc_network *net)
{
    const enum qc_processor p = net->scheme.partition.processor;
    return p == QC_PROCESSORS ? QC_PROCESSOR_AVX512_VNNI : p;
}

bool qc_cost_of(struct qc_cost *out, const struct qc_network *net, struct qc_status *st)
{
    double made[QC_PROCESSORS];
    const double *real = times_of_model(net, st);
    *out = (struct qc_cost){0};
    for (size_t i = 0; i < net->setup->format_count; i++) {
        size_t bytes = 0;
        if (net->lowered[i] && !qc_export_bytes(&bytes, net->setup->exporters[i], net->lowered[i], st)) return false;
        out->bytes = bytes > out->bytes ? bytes : out->bytes;
    }
    if (!real || !times_of(made, net->produced, net, st) || !add_shapes(made, net->produced, st)) return false;
    for (int i = 0; i < QC_PROCESSORS; i++) out->on[i] = made[i] / real[i];
    out->latency = out->on[processor_of(net)];
    return true;
}

struct qc_json *qc_cost_json(const struct qc_cost *c)
{
    struct qc_json *o = QC_JSON("latency %g bytes %zu", c->latency, c->bytes), *on = qc_json_object();
    for (int i = 0; i < QC_PROCESSORS; i++) qc_json_set(on, qc_processor_names[i], qc_json_number(c->on[i]));
    qc_json_set(o, "processors", on);
    return o;
}

/* ---- By type of operator ---- */

/* Adds the estimated time of each type of operator. Quantize, Requantize and Dequantize count as Quantize. */
static bool add_times(double times[QC_OP_COUNT], const struct qc_graph *g, const struct qc_network *net,
                      struct qc_arena *a, struct qc_status *st)
{
    struct timed t = {.on = processor_of(net), .wide_is_float = net->scheme.options->graph.runs_on->wide_is_float};
    struct qc_graph *fixed = NULL;
    bool ok = qc_evidence_sized_graph(&fixed, net->evidence, g, st);
    t.g = fixed ? fixed : g;
    ok = ok && index_timed(&t, a, st);
    for (qc_id id = 1; ok && id <= t.g->node_count; id++) {
        int64_t one;
        if (time_of_node(&one, &t, id))
            times[qc_op_is_conversion(t.g->nodes[id].op) ? QC_OP_Quantize : t.g->nodes[id].op] += (double)one;
    }
    qc_graph_free(fixed);
    return ok;
}

bool qc_record_cost(struct qc_json *record, const struct qc_network *net, struct qc_status *st)
{
    double real[QC_OP_COUNT] = {0}, made[QC_OP_COUNT] = {0}, rest[2];
    struct qc_cost cost;
    QC_ARENA_SCOPE *a = qc_arena_new();
    if (!a) return qc_fail_memory(st, 1);
    if (!qc_cost_of(&cost, net, st) || !add_times(real, net->setup->normalised, net, a, st) ||
        !add_times(made, net->produced, net, a, st))
        return false;
    const double all = net->evidence->float_times[processor_of(net)];
    struct qc_json *list = qc_json_array();
    qc_json_set(record, "cost", qc_cost_json(&cost));
    rest[0] = 1;
    rest[1] = cost.latency;
    for (int op = 0; isfinite(cost.latency) && op < QC_OP_COUNT; op++) {
        rest[0] -= real[op] / all;
        rest[1] -= made[op] / all;
        if (real[op] > 0 || made[op] > 0)
            qc_json_add(list, QC_JSON("op %s float %g quantized %g", qc_op_info((enum qc_op)op)->name, real[op] / all,
                                      made[op] / all));
    }
    if (isfinite(cost.latency)) /* of the run itself, and arithmetic of shapes */
        qc_json_add(list, QC_JSON("op %s float %g quantized %g", "rest", rest[0], rest[1]));
    qc_json_set(record, "latency_by_operator", list);
    return true;
}

/* ---- Single operators in float ---- */

/* Returns the time of rounding a value between integers and float. */
static double rounding_time(const struct timed *t, qc_id value, bool quantize)
{
    return (double)qc_time_to_convert(t->on, t->g, value, quantize ? QC_CONVERT_TO_8 : QC_CONVERT_FROM_8,
                                      changes_layout(t, value));
}

/* Returns the time that reading an input in float adds: its producer may quantize it for this reader alone. */
static double input_time(const struct timed *t, qc_id value)
{
    const struct qc_node *maker = qc_node_of(t->g, value);
    if (!value || qc_constant_of(t->g, value) || !is_stored(t->g, value)) return 0;
    if (!maker || maker->op != QC_OP_Quantize) return rounding_time(t, value, false);
    return qc_only_reader(&t->uses, value) ? -rounding_time(t, value, true) : 0;
}

/* Returns the value that is stored for the result of a node: behind its accumulator. */
static qc_id stored_result(const struct timed *t, qc_id value)
{
    for (qc_id reader; is_accumulator(t->g, value) && (reader = qc_only_reader(&t->uses, value));)
        value = t->g->nodes[reader].outputs;
    return value;
}

/* Returns the sum that reads a value, or what a clamp makes of it, beside another operator, which begins a residual
   block; 0 if there is none. Sets *value to what the sum reads. */
static qc_id residual_sum(const struct timed *t, qc_id *value)
{
    const qc_id clamp = qc_only_reader(&t->uses, *value);
    if (clamp && qc_node_affine(&t->g->nodes[clamp]) == QC_AFFINE_BOUND) *value = t->g->nodes[clamp].outputs;
    const struct qc_use_list readers = qc_readers(&t->uses, *value);
    for (size_t i = 0; readers.count > 1 && i < readers.count; i++)
        if (qc_node_affine(&t->g->nodes[readers.of[i].node]) == QC_AFFINE_MERGE) return readers.of[i].node;
    return 0;
}

/* Returns the time that a convolution in float adds to the residual blocks that its result begins: ONNX Runtime orders
   the channels otherwise before and behind each of their sums. Such moves of a network of 20 layers took 4 % of its
   time. */
static double residual_time(const struct timed *t, const struct qc_node *n)
{
    double time = 0;
    qc_id value = stored_result(t, n->outputs);
    for (qc_id sum; n->op == QC_OP_Conv && (sum = residual_sum(t, &value));
         value = stored_result(t, t->g->nodes[sum].outputs))
        for (int moves = 0; moves < 2; moves++)
            time += (double)(qc_time_to_convert(t->on, t->g, value, QC_CONVERT_TO_8, true) -
                             qc_time_to_convert(t->on, t->g, value, QC_CONVERT_TO_8, false));
    return time;
}

/* Returns the time that a float result adds: it is quantized for readers of integers, and not dequantized for others.
 */
static double result_time(const struct timed *t, qc_id value)
{
    const struct qc_graph *g = t->g;
    value = stored_result(t, value);
    if (!is_stored(g, value)) return 0;
    const struct qc_use_list readers = qc_readers(&t->uses, value);
    bool real = true;
    for (size_t i = 0; i < readers.count; i++) real = real && g->nodes[readers.of[i].node].op == QC_OP_Dequantize;
    return real ? -rounding_time(t, value, false) : rounding_time(t, value, true);
}

bool qc_latency_in_float(double **more, double *time, const struct qc_network *net, const struct qc_graph *made,
                         struct qc_arena *a, struct qc_status *st)
{
    struct timed t = {.g = made, .on = processor_of(net)};
    struct qc_operator_times times;
    const double *real = times_of_model(net, st);
    if (!real || !index_timed(&t, a, st) || !(*more = QC_NEW_ARRAY(a, double, t.g->node_count + 1, st))) return false;
    *time = real[t.on];
    for (qc_id id = 1; id <= t.g->node_count; id++) {
        const struct qc_node *n = &t.g->nodes[id];
        const enum qc_affine_behaviour affine = qc_node_affine(n);
        (*more)[id] = (double)INFINITY;
        if (!n->input_count || !is_stored(t.g, n->inputs[0]) || !is_stored(t.g, n->outputs) ||
            (affine != QC_AFFINE_PRODUCT && affine != QC_AFFINE_MERGE) ||
            !qc_times_of_node(&times, t.on, &t.uses, t.weights, id))
            continue;
        double one = (double)(times.real - times.integer) + result_time(&t, n->outputs) + residual_time(&t, n);
        for (unsigned i = 0; i < n->input_count; i++) one += input_time(&t, n->inputs[i]);
        (*more)[id] = one / real[t.on];
    }
    return true;
}
