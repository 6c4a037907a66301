// SPDX-License-Identifier: Apache-2.0
/* An idea for free changes (quantize/search/free_ideas.c): operators that stay in float at no loss of latency.

   Their bits differ between processors. If the outputs have QC_FREE_GOOD_DB, or if the network takes less than
   QC_FREE_LEAST_TIME, operators stay in float only if that lowers the latency and the file is no larger. */
#include "quantize/search/searches.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/index.h"
#include "calib/metrics/sensitivity.h"
#include "quantize/make/evidence.h"
#include "quantize/report/record.h"
#include "quantize/search/attempts.h"
#include "quantize/search/cost.h"

/* The operators of the produced graph that could be in float, by name. */
struct operators {
    const struct qc_graph *made; /* the produced graph ... */
    struct qc_graph *sized;      /* ... or if sizes are free, a copy for those of the largest sample; else NULL */
    const double *more;          /* estimated latency that each adds in float */
    bool must_save;
    struct qc_texts names;
};

static bool list_operators(struct operators *out, const struct qc_network *net, struct qc_arena *a,
                           struct qc_status *st)
{
    double *more, time;
    *out = (struct operators){.made = net->produced};
    if (!qc_evidence_sized_graph(&out->sized, net->evidence, net->produced, st)) return false;
    if (out->sized) out->made = out->sized;
    if (!qc_latency_in_float(&more, &time, net, out->made, a, st)) return false;
    out->more = more;
    out->must_save = qc_outputs_are_good(net) || time < QC_FREE_LEAST_TIME;
    for (qc_id id = 1; id <= out->made->node_count; id++) {
        const struct qc_node *n = &out->made->nodes[id];
        const char *own = n->name && *n->name ? n->name : out->made->values[n->outputs].name;
        if (isfinite(more[id]) && own && !qc_texts_set(&out->names, own, id, a, st)) return false;
    }
    return true;
}

/* Returns the operator of this name and kind if it costs next to nothing in float; else 0. name: of qc_layer_name. */
static qc_id operator_named(const struct operators *o, const char *name, const char *op)
{
    const qc_id id = *name ? (qc_id)qc_texts_find(&o->names, name) : 0;
    if (!id || strcmp(qc_op_info(o->made->nodes[id].op)->name, op) != 0) return 0;
    const bool product = qc_op_info(o->made->nodes[id].op)->affine == QC_AFFINE_PRODUCT;
    if (o->must_save) return o->more[id] < 0 ? id : 0;
    return o->more[id] <= (product ? QC_FREE_PRODUCT_LATENCY : QC_FREE_LATENCY) ? id : 0;
}

/* Returns the bytes that constants of 8 bits gain in float. */
static double more_bytes(const struct qc_graph *made, qc_id id)
{
    const struct qc_node *n = &made->nodes[id];
    double elements = 0;
    for (unsigned i = 0; i < n->input_count; i++) {
        const struct qc_tensor *t = n->inputs[i] ? qc_constant_of(made, n->inputs[i]) : NULL;
        if (t) elements += (double)t->count;
    }
    return elements * 3;
}

/* An operator with its price. */
struct bargain {
    const struct qc_layer_effect *effect;
    qc_id made;
    double latency, worth; /* worth: noise per latency */
};

static int by_worth(const void *a, const void *b)
{
    const struct bargain *x = a, *y = b;
    return x->worth < y->worth ? 1 : x->worth > y->worth ? -1 : strcmp(x->effect->name, y->effect->name);
}

/* Takes the operators with most noise for their latency, while their sum costs no more than a free change may. None if
   the outputs could hardly gain. */
static bool take_operators(struct qc_float_operators *out, const struct qc_candidate *c, struct qc_sensitivity *s,
                           const struct operators *o, struct qc_status *st)
{
    const struct qc_graph *made = o->made;
    struct bargain *list = QC_NEW_ARRAY(c->arena, struct bargain, s->count, st);
    struct qc_cost cost;
    double latency = 0, bytes = 0, noise = 0;
    size_t count = 0;
    if (!list || !qc_cost_of(&cost, c->network, st)) return false;
    for (size_t i = 0; i < s->count; i++) {
        const struct qc_layer_effect *e = &s->layers[i];
        const qc_id id = operator_named(o, e->name, e->op);
        if (!id || !(e->noise > 0)) continue;
        list[count++] = (struct bargain){e, id, o->more[id], e->noise / fmax(o->more[id], QC_FREE_LATENCY / 10)};
    }
    qsort(list, count, sizeof *list, by_worth);
    for (size_t i = 0; i < count && out->count < QC_FLOAT_OPERATORS; i++) {
        if (latency + list[i].latency > QC_FREE_LATENCY ||
            bytes + more_bytes(made, list[i].made) > QC_FREE_BYTES * (double)cost.bytes)
            continue;
        latency += list[i].latency;
        bytes += more_bytes(made, list[i].made);
        noise += list[i].effect->noise;
        if (!(out->globs[out->count++] = qc_glob_of_name(list[i].effect->name, c->arena, st))) return false;
    }
    /* The noise of the outputs as --method auto has measured it; NaN without. */
    const struct qc_report_trial *t = qc_auto_method_chosen(c->network->auto_method);
    const double all = t ? pow(10, -t->sqnr_db / 10) : (double)NAN;
    if (isfinite(all) && !(noise > all * (1 - pow(10, -2 * QC_FREE_GAIN_DB / 10)))) out->count = 0;
    return true;
}

/* Measures the noise of the operators that cost next to nothing in float, and takes the best. */
static bool choose_operators(struct qc_float_operators *out, const struct qc_candidate *c, const struct operators *o,
                             struct qc_status *st)
{
    const struct qc_network *net = c->network;
    struct qc_sensitivity *s = NULL;
    struct qc_status why = QC_STATUS_INIT;
    struct qc_uses uses;
    double *marked = QC_NEW_ARRAY(c->arena, double, net->simulated->qparams_count + 1, st);
    if (!marked || !qc_uses_of(&uses, net->simulated, c->arena, st)) return false;
    /* Mark the quantizers that such operators read. */
    const struct qc_graph *g = net->simulated;
    size_t count = 0;
    for (qc_id id = 1; id <= g->node_count; id++) {
        const struct qc_node *n = &g->nodes[id];
        const char *name = qc_layer_name(&uses, id);
        if (!operator_named(o, name, qc_op_info(n->op)->name)) continue;
        count++;
        for (unsigned i = 0; i < n->input_count; i++) {
            const qc_id q = n->inputs[i] ? g->values[n->inputs[i]].type.qparams : QC_REAL;
            if (q != QC_REAL && g->qparams_of[q].kind == QC_QPARAMS_QUANTIZER) marked[q] = 1;
        }
    }
    if (!count) return true;
    const struct qc_sensitivity_options which = {.most = count < QC_FREE_OPERATORS ? count : QC_FREE_OPERATORS,
                                                 .weights_of = 1,
                                                 .believed = marked};
    /* Unsupported: shapes depend on data. */
    if (!qc_measure_sensitivity(&s, net, NULL, QC_FREE_OPERATOR_BATCHES, &which, &why))
        return why.code == QC_UNSUPPORTED || qc_fail(st, why.code, "%s", why.message);
    const bool ok = take_operators(out, c, s, o, st);
    qc_sensitivity_free(s);
    return ok;
}

bool qc_find_float_operators(struct qc_float_operators *out, const struct qc_candidate *c, struct qc_status *st)
{
    struct operators o;
    *out = (struct qc_float_operators){0};
    /* The estimates are those of ONNX Runtime, which computes in float as well. Options that place single operators or
       give them types are not overruled. */
    const struct qc_partition_options *p = &c->scheme.partition;
    const struct qc_options *options = c->scheme.options;
    const bool placed = options->given[QC_OPTION_SKIP] || options->given[QC_OPTION_ONLY] || p->activation_type_count ||
                        p->weight_type_count;
    const bool may = !placed && p->prefer == QC_PREFER_SPEED && !options->graph.require_integer &&
                     options->graph.runs_on->onnxruntime && p->activation.dtype != QC_NONE &&
                     qc_dtype_info(p->activation.dtype)->bits == 8 && !qc_is_small_float(p->activation.dtype) &&
                     !p->dynamic && !c->setup->given.count && !c->setup->in->team;
    if (!may) return true;
    const bool ok = list_operators(&o, c->network, c->arena, st) && choose_operators(out, c, &o, st);
    out->must_save = o.must_save;
    qc_graph_free(o.sized);
    return ok;
}

bool qc_costs_nothing(bool *out, const struct qc_network *is, const struct qc_network *was, bool must_save,
                      struct qc_status *st)
{
    struct qc_cost now, before;
    if (!qc_cost_of(&now, is, st) || !qc_cost_of(&before, was, st)) return false;
    *out = now.latency < before.latency * (1 - QC_FREE_LATENCY) && now.bytes <= before.bytes;
    if (must_save) return true;
    const bool slower = now.latency > before.latency * (1 + QC_FREE_LATENCY);
    *out = (!slower || is->scheme.partition.prefer == QC_PREFER_SIZE) &&
           (double)now.bytes <= (double)before.bytes * (1 + QC_FREE_BYTES);
    return true;
}
