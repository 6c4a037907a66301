// SPDX-License-Identifier: Apache-2.0
#include "quantize/search/cost.h"

#include <math.h>
#include <stdlib.h>

#include "graph/core/multiply_adds.h"
#include "graph/core/recurrent.h"
#include "graph/core/uses.h"
#include "quantize/make/evidence.h"
#include "rewrite/passes/simulate.h"
#include "simq/plan/plan.h"

/* Functions that take several times as long as an addition. All others count as light. */
static const bool heavy[QC_OP_COUNT] = {
    [QC_OP_Sigmoid] = true,   [QC_OP_Tanh] = true,       [QC_OP_Elu] = true,
    [QC_OP_Selu] = true,      [QC_OP_Celu] = true,       [QC_OP_Softplus] = true,
    [QC_OP_Mish] = true,      [QC_OP_Erf] = true,        [QC_OP_Exp] = true,
    [QC_OP_Log] = true,       [QC_OP_Gelu] = true,       [QC_OP_Pow] = true,
    [QC_OP_Sin] = true,       [QC_OP_Cos] = true,        [QC_OP_Softmax] = true,
    [QC_OP_Table] = true,     [QC_OP_LogSoftmax] = true, [QC_OP_LayerNormalization] = true,
    [QC_OP_LRN] = true,       [QC_OP_Resize] = true,     [QC_OP_InstanceNormalization] = true,
    [QC_OP_GridSample] = true};

/* Operators that change only the shape. */
static const bool views[QC_OP_COUNT] = {[QC_OP_Reshape] = true,   [QC_OP_Flatten] = true, [QC_OP_Squeeze] = true,
                                        [QC_OP_Unsqueeze] = true, [QC_OP_Shape] = true,   [QC_OP_Size] = true};

struct counting {
    const struct qc_graph *g;
    struct qc_uses uses;
    bool wide_is_float;
    double *amount;
    bool unknown; /* the shape of a product is */
};

static double elements_of(const struct qc_graph *g, qc_id value)
{
    const struct qc_shape *s = &qc_value(g, value)->type.shape;
    double n = 1;
    for (int i = 0; i < s->rank; i++) n *= s->dim[i] >= 0 ? (double)s->dim[i] : 1;
    return n;
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

/* Returns true if runtimes compute the node together with the product that makes its first input. */
static bool joins_product(const struct counting *c, const struct qc_node *n)
{
    const struct qc_graph *g = c->g;
    const struct qc_node *of = qc_node_of(g, n->inputs[0]);
    while (of && of->op == QC_OP_Dequantize && is_accumulator(g, of->inputs[0])) of = qc_node_of(g, of->inputs[0]);
    if (!of || qc_op_info(of->op)->affine != QC_AFFINE_PRODUCT || !qc_only_reader(&c->uses, n->inputs[0])) return false;
    return n->op == QC_OP_Relu || n->op == QC_OP_Clip || (n->op == QC_OP_Add && qc_constant_of(g, n->inputs[1]));
}

/* Counts a product; in_float: as if its types were float. */
static void count_product(struct counting *c, qc_id id, bool in_float)
{
    const struct qc_graph *g = c->g;
    const struct qc_node *n = &g->nodes[id];
    const struct qc_shape *w = &qc_value(g, n->inputs[1])->type.shape;
    const double results = elements_of(g, n->outputs), weights = elements_of(g, n->inputs[1]);
    const bool conv = n->op == QC_OP_Conv || n->op == QC_OP_ConvTranspose,
               depthwise = conv && w->dim[1] == 1 && qc_attr_int(n, "group", 1) > 1,
               stored =
                   !in_float && is_stored(g, n->inputs[0]) && is_stored(g, n->inputs[1]) && !qc_is_recurrent(n->op),
               wide_input = stored && stored_bits(g, n->inputs[0]) > 8,
               wide = stored && (wide_input || stored_bits(g, n->inputs[1]) > 8 || qc_is_stored_wide(g, id)),
               integers = stored && !(wide && c->wide_is_float),
               unpacked = !integers && !in_float && is_stored(g, n->inputs[1]);
    double *a = c->amount;
    uint64_t products = 0;
    if (!qc_multiply_adds(&products, g, id)) c->unknown = true;
    const double all = (double)products, channels = conv ? (double)w->dim[0] : 1,
                 window = conv && channels > 0 ? weights / channels : 0;
    const bool row = !conv && all <= weights;
    if (unpacked && stored) {
        a[wide_input ? QC_WORK_ROUNDED_WIDE : QC_WORK_ROUNDED] += elements_of(g, n->inputs[0]);
        a[QC_WORK_UNPACKED] += weights;
    }
    if (integers) {
        a[wide        ? QC_WORK_WIDE_PRODUCT
          : depthwise ? QC_WORK_INT_DEPTHWISE
          : row       ? QC_WORK_INT_ROW
                      : QC_WORK_INT_PRODUCT] += all;
        if (conv && window > (double)w->dim[1] && !depthwise)
            a[QC_WORK_INT_WINDOW] += results / channels * window * (double)qc_attr_int(n, "group", 1);
    } else {
        const double block = conv && channels > 0 ? 16 * ceil(channels / 16) / channels : 1; /* blocks of 16 channels */
        a[depthwise  ? QC_WORK_FLOAT_DEPTHWISE
          : row      ? QC_WORK_FLOAT_ROW
          : unpacked ? QC_WORK_FLOAT_UNPACKED
                     : QC_WORK_FLOAT_PRODUCT] += all * block;
    }
    a[integers ? QC_WORK_INT_RESULT : QC_WORK_FLOAT_RESULT] += results;
    a[QC_WORK_NODE]++;
}

/* Counts a node that is no product. */
static void count_other(const struct counting *c, const struct qc_node *n)
{
    const struct qc_graph *g = c->g;
    const struct qc_op_info *op = qc_op_info(n->op);
    const qc_id x = n->inputs[0], y = n->outputs;
    double *a = c->amount, results = 0;
    for (unsigned i = 0; i < n->output_count; i++) results += elements_of(g, n->outputs + i);
    if (views[n->op] || joins_product(c, n)) return;
    if (n->op == QC_OP_Quantize || n->op == QC_OP_Dequantize || n->op == QC_OP_Requantize) {
        const bool wide = (is_stored(g, x) && !is_accumulator(g, x) && stored_bits(g, x) > 8) ||
                          (is_stored(g, y) && stored_bits(g, y) > 8);
        if (is_accumulator(g, x) && !wide) return; /* the product gives this */
        a[qc_constant_of(g, x) ? QC_WORK_UNPACKED
          : wide               ? QC_WORK_ROUNDED_WIDE
                 : QC_WORK_ROUNDED] += n->op == QC_OP_Requantize && !is_accumulator(g, x) ? 2 * results : results;
        if (qc_value(g, x)->type.shape.rank == 4 && !qc_constant_of(g, x)) a[QC_WORK_RELAID] += results;
    } else if (op->affine == QC_AFFINE_BOUND && is_stored(g, y)) {
        return; /* the bounds of the integers */
    } else if (op->affine == QC_AFFINE_KEEP || op->affine == QC_AFFINE_JOIN || n->op == QC_OP_Cast) {
        a[QC_WORK_MOVED] += results * (is_stored(g, y) ? 1 : 4);
    } else if (is_stored(g, y)) {
        a[QC_WORK_INT_LIGHT] += fmax(results, elements_of(g, x));
    } else {
        a[heavy[n->op] ? QC_WORK_FLOAT_HEAVY : QC_WORK_FLOAT_LIGHT] += fmax(results, elements_of(g, x));
    }
    a[QC_WORK_NODE]++;
}

/* Returns true if the node runs: its inputs are not all constants, and it is no arithmetic of shapes. */
static bool runs(const struct qc_graph *g, const struct qc_node *n)
{
    bool data = false;
    for (unsigned i = 0; i < n->input_count; i++) data = data || (n->inputs[i] && !qc_constant_of(g, n->inputs[i]));
    return data && n->output_count && n->input_count && n->inputs[0] && qc_value(g, n->outputs)->type.dtype != QC_I64;
}

bool qc_count_work(double amount[QC_WORKS], const struct qc_graph *g, bool wide_is_float, struct qc_status *st)
{
    struct counting c = {.g = g, .wide_is_float = wide_is_float, .amount = amount};
    struct qc_arena *a = qc_arena_new();
    if (!a) return qc_fail_memory(st, 1);
    const bool ok = qc_uses_of(&c.uses, g, a, st);
    for (qc_id id = 1; ok && id <= g->node_count; id++) {
        if (!runs(g, &g->nodes[id])) continue;
        if (qc_multiplies(g->nodes[id].op))
            count_product(&c, id, false);
        else
            count_other(&c, &g->nodes[id]);
    }
    qc_arena_free(a);
    if (c.unknown) amount[QC_WORK_NODE] = (double)NAN;
    return ok;
}

static bool is_free(const struct qc_graph *g)
{
    for (qc_id v = 1; v <= g->value_count; v++) {
        const struct qc_shape *s = &g->values[v].type.shape;
        if (s->rank < 0) return true;
        for (int i = 1; i < s->rank; i++)
            if (s->dim[i] < 0) return true;
    }
    return false;
}

/* Makes g for the shapes of the first unit of data. *out is NULL if g has no free dimension but the batch, or if the
   shapes do not fit. */
static bool graph_of_unit(struct qc_graph **out, const struct qc_graph *g, const struct qc_dataset *data,
                          struct qc_status *st)
{
    struct qc_status unknown = QC_STATUS_INIT;
    int64_t dims[QC_DATA_RANK_MAX];
    *out = NULL;
    if (!data || !is_free(g)) return true;
    struct qc_shape *shapes = calloc(g->input_count + 1, sizeof *shapes);
    if (!shapes) return qc_fail_memory(st, g->input_count * sizeof *shapes);
    for (size_t i = 0; i < g->input_count; i++) {
        const unsigned rank = qc_dataset_unit_dims(dims, data, i, 0);
        shapes[i] = qc_shape_of((int)rank, dims);
    }
    if (!qc_fix_shapes(out, g, shapes, qc_evaluate, &unknown)) *out = NULL;
    free(shapes);
    return true;
}

static const double rates[QC_WORKS] = {
#define QC_WORK(name, time, what) [QC_WORK_##name] = (time),
#include "quantize/search/cost_rates.def"
#undef QC_WORK
};

static double total(const double amount[QC_WORKS])
{
    double time = 0;
    for (int i = 0; i < QC_WORKS; i++) time += rates[i] * amount[i];
    return time;
}

bool qc_estimate_time(double *time, const struct qc_graph *g, bool wide_is_float, struct qc_status *st)
{
    double amount[QC_WORKS] = {0};
    const bool ok = qc_count_work(amount, g, wide_is_float, st);
    *time = total(amount);
    return ok;
}

/* Sets *time to the estimated time of a graph, in float multiply-adds. */
static bool time_of(double *time, const struct qc_graph *g, const struct qc_network *net, struct qc_status *st)
{
    const struct qc_dataset *data = net->setup->data ? net->setup->data : net->setup->eval;
    struct qc_graph *fixed = NULL;
    const bool ok = graph_of_unit(&fixed, g, data, st) &&
                    qc_estimate_time(time, fixed ? fixed : g, net->scheme.options->runs_on->wide_is_float, st);
    qc_graph_free(fixed);
    return ok;
}

/* Sets *time to the estimated time of the float model, which is the same for all networks of a job. */
static bool float_time(double *time, const struct qc_network *net, struct qc_status *st)
{
    struct qc_evidence *e = net->evidence;
    if (e->float_time <= 0 && !time_of(&e->float_time, net->setup->normalised, net, st)) return false;
    *time = e->float_time;
    return true;
}

bool qc_cost_of(struct qc_report_cost *out, const struct qc_network *net, struct qc_status *st)
{
    double real, made;
    *out = (struct qc_report_cost){0};
    for (size_t i = 0; i < net->setup->format_count; i++) {
        size_t bytes = 0;
        if (net->lowered[i] && !qc_export_bytes(&bytes, net->setup->exporters[i], net->lowered[i], st)) return false;
        out->bytes = bytes > out->bytes ? bytes : out->bytes;
    }
    if (!float_time(&real, net, st) || !time_of(&made, net->produced, net, st)) return false;
    out->latency = made / real;
    return true;
}

/* ---- Single operators in float ---- */

/* Returns the time of rounding a value between integers and float. */
static double rounding_time(const struct qc_graph *g, qc_id value)
{
    const bool image = qc_value(g, value)->type.shape.rank == 4;
    return elements_of(g, value) * (rates[QC_WORK_ROUNDED] + (image ? rates[QC_WORK_RELAID] : 0)) + rates[QC_WORK_NODE];
}

/* Returns the time that reading an input in float adds: its producer may quantize it for this reader alone. */
static double input_time(const struct counting *c, qc_id value)
{
    const struct qc_node *maker = qc_node_of(c->g, value);
    if (!value || qc_constant_of(c->g, value) || !is_stored(c->g, value)) return 0;
    if (!maker || maker->op != QC_OP_Quantize) return rounding_time(c->g, value);
    return qc_only_reader(&c->uses, value) ? -rounding_time(c->g, value) : 0;
}

/* Returns the time that a float result adds: it is quantized for readers of integers, and not dequantized for others.
 */
static double result_time(const struct counting *c, qc_id value)
{
    const struct qc_graph *g = c->g;
    for (qc_id reader; is_accumulator(g, value) && (reader = qc_only_reader(&c->uses, value));)
        value = g->nodes[reader].outputs;
    if (!is_stored(g, value)) return 0;
    const struct qc_use_list readers = qc_readers(&c->uses, value);
    bool real = true;
    for (size_t i = 0; i < readers.count; i++) real = real && g->nodes[readers.of[i].node].op == QC_OP_Dequantize;
    return real ? -rounding_time(g, value) : rounding_time(g, value);
}

/* Returns the time of the operator alone, in integers or, with float types, in float. */
static double own_time(struct counting *c, qc_id id, bool in_float)
{
    const struct qc_node *n = &c->g->nodes[id];
    double amount[QC_WORKS] = {0};
    c->amount = amount;
    if (qc_multiplies(n->op))
        count_product(c, id, in_float);
    else
        amount[!in_float      ? QC_WORK_INT_LIGHT
               : heavy[n->op] ? QC_WORK_FLOAT_HEAVY
                              : QC_WORK_FLOAT_LIGHT] =
            fmax(elements_of(c->g, n->outputs), elements_of(c->g, n->inputs[0]));
    return total(amount);
}

bool qc_latency_in_float(double **more, const struct qc_network *net, struct qc_arena *a, struct qc_status *st)
{
    struct counting c = {.g = net->produced, .wide_is_float = net->scheme.options->runs_on->wide_is_float};
    double real;
    if (!float_time(&real, net, st) || !qc_uses_of(&c.uses, c.g, a, st) ||
        !(*more = QC_NEW_ARRAY(a, double, c.g->node_count + 1, st)))
        return false;
    for (qc_id id = 1; id <= c.g->node_count; id++) {
        const struct qc_node *n = &c.g->nodes[id];
        const enum qc_affine_behaviour affine = qc_node_affine(n);
        (*more)[id] = (double)INFINITY;
        if (!runs(c.g, n) || !is_stored(c.g, n->inputs[0]) || !is_stored(c.g, n->outputs) ||
            (affine != QC_AFFINE_PRODUCT && affine != QC_AFFINE_MERGE))
            continue;
        double time = own_time(&c, id, true) - own_time(&c, id, false) + result_time(&c, n->outputs);
        for (unsigned i = 0; i < n->input_count; i++) time += input_time(&c, n->inputs[i]);
        (*more)[id] = time / real;
    }
    return true;
}
