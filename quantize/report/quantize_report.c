// SPDX-License-Identifier: Apache-2.0
#include "quantize/report/quantize_report.h"

#include <math.h>

#include "base/index.h"
#include "graph/core/parameters.h"
#include "graph/core/uses.h"
#include "quantize/report/layer_detail.h"

static void fill_parameters(struct qc_layer *l, const struct qc_network *net, const struct qc_graph *g, qc_id value)
{
    l->stored = qc_value_parameters(g, value);
    l->name = l->stored.quantizer;
    l->choice = &net->calibration->choices[l->stored.qparams];
    if (net->auto_method && net->auto_method->methods[l->stored.qparams])
        l->tried = &net->auto_method->choices[l->stored.qparams];
    l->sqnr_db = l->alone_db = l->clipping_share = l->lost_fraction = (double)NAN;
}

static const char *one_scale(const struct qc_network *net, const char *quantizer)
{
    const qc_id v = qc_graph_find_value(net->joined, quantizer);
    return v ? net->partition->one_scale[net->partition->class_of[v]] : NULL;
}

static bool fill_activation(struct qc_layer *l, const struct qc_network *net, const struct qc_measurement *m,
                            qc_id quantizer, qc_id stored, struct qc_status *st)
{
    const struct qc_graph *g = net->folded;
    qc_id made = qc_maker(g, stored);
    fill_parameters(l, net, g, stored);
    l->one_scale = one_scale(net, l->name);
    l->op = made ? qc_op_info(g->nodes[made].op)->name : "Input";
    if (!qc_layer_activation(l, net, m, quantizer, made, st)) return false;
    if (made && !qc_accumulator_bits(&l->accumulator_bits, g, made, st)) return false;
    if (l->accumulator_bits && !(l->accumulator_of = qc_node_name(g, &g->nodes[made], net->arena, st))) return false;
    if (!m || !m->quantizers[quantizer].count) return true;
    l->error = &m->quantizers[quantizer];
    l->sqnr_db = qc_error_sqnr_db(l->error);
    const struct qc_layer_overflow *of = made ? qc_overflow_of(&m->overflows, made) : NULL;
    if (of) {
        l->accumulator_bits_seen = of->bits;
    } else if (l->accumulator_bits) {
        double seen = m->accumulator_max[g->values[g->nodes[made].outputs].type.qparams];
        if (seen > 0) l->accumulator_bits_seen = qc_bits_for(seen);
    }
    return true;
}

/* Tables for the lookup of single layers. */
struct lookup {
    struct qc_stored_values simulated;
    size_t *rounded; /* [qparams_count + 1 of p->simulated]: index + 1 of the first rounded layer, or 0 */
    const struct qc_tensor **stored; /* [qparams_count + 1 of p->produced]: the first constant, or NULL */
};

static bool look_up(struct lookup *u, const struct qc_network *net, struct qc_status *st)
{
    const struct qc_weight_rounding *w = net->weight_rounding;
    const size_t most = net->simulated->qparams_count;
    u->rounded = QC_NEW_ARRAY(net->arena, size_t, most + 1, st);
    u->stored = QC_NEW_ARRAY(net->arena, const struct qc_tensor *, net->produced->qparams_count + 1, st);
    if (!u->rounded || !u->stored || !qc_stored_values_of(&u->simulated, net->simulated, net->arena, st)) return false;
    for (size_t i = w ? w->count : 0; i-- > 0;)
        if (w->layers[i].quantizer <= most) u->rounded[w->layers[i].quantizer] = i + 1;
    for (qc_id v = (qc_id)net->produced->value_count; v >= 1; v--)
        if (qc_constant_of(net->produced, v))
            u->stored[net->produced->values[v].type.qparams] = qc_constant_of(net->produced, v);
    return true;
}

/* uses: of net->folded; for products that quantize their input at run time, of the graph before they were made. */
static bool fill_weight(struct qc_weight_look *look, struct qc_layer *l, const struct qc_network *net,
                        const struct qc_uses *uses, const struct lookup *u, qc_id value, struct qc_status *st)
{
    const struct qc_graph *g = uses->graph;
    const qc_id quantizer = g->values[value].type.qparams;
    fill_parameters(l, net, g, value);
    l->is_weight = true;
    l->op = "Constant";
    const struct qc_use_list readers = qc_readers(uses, value);
    const qc_id reader = readers.count ? readers.of[0].node : 0;
    if (reader) l->op = qc_op_info(g->nodes[reader].op)->name;
    const size_t rounded = quantizer <= net->simulated->qparams_count ? u->rounded[quantizer] : 0;
    if (rounded) l->rounding = &net->weight_rounding->layers[rounded - 1];
    return qc_layer_weight(look, l, net, g, &u->simulated, quantizer, value,
                           qc_constant_of(g, value) ? qc_constant_of(g, value) : u->stored[quantizer], reader,
                           l->rounding && !l->rounding->reason, st);
}

/* Adds weights whose integers are constants of net->folded. */
static bool fill_dynamic(struct qc_layer *layers, struct qc_weight_look *looks, size_t *count, bool *done,
                         const struct qc_network *net, const struct lookup *u, struct qc_status *st)
{
    const struct qc_graph *g = qc_network_with_bodies(net);
    struct qc_uses uses;
    if (!net->dynamic) return true;
    if (!qc_uses_of(&uses, g, net->arena, st)) return false;
    for (qc_id v = 1; v <= g->value_count; v++) {
        const qc_id s = g->values[v].type.qparams;
        if (s == QC_REAL || !qc_constant_of(g, v) || done[s]) continue;
        struct qc_layer *l = &layers[*count];
        done[s] = true;
        if (!fill_weight(&looks[(*count)++], l, net, &uses, u, v, st)) return false;
    }
    return true;
}

bool qc_fill_layers(struct qc_report *r, const struct qc_network *net, const struct qc_measurement *m,
                    struct qc_status *st)
{
    const struct qc_graph *g = net->folded;
    struct qc_layer *layers = QC_NEW_ARRAY(net->arena, struct qc_layer, g->qparams_count, st);
    struct qc_weight_look *looks = QC_NEW_ARRAY(net->arena, struct qc_weight_look, g->qparams_count, st);
    bool *done = QC_NEW_ARRAY(net->arena, bool, g->qparams_count + 1, st);
    size_t count = 0;
    struct qc_uses uses;
    struct lookup u;
    if (!layers || !looks || !done || !qc_uses_of(&uses, g, net->arena, st) || !look_up(&u, net, st)) return false;
    for (qc_id v = 1; v <= g->value_count; v++) {
        qc_id s = g->values[v].type.qparams;
        if (!s || done[s] || g->qparams_of[s].kind != QC_QPARAMS_QUANTIZER || !net->calibration->choices[s].chosen)
            continue;
        done[s] = true;
        struct qc_layer *l = &layers[count];
        struct qc_weight_look *look = &looks[count++];
        if (!(qc_quantized_constant(g, v) ? fill_weight(look, l, net, &uses, &u, v, st)
                                          : fill_activation(l, net, m, s, v, st)))
            return false;
    }
    if (!fill_dynamic(layers, looks, &count, done, net, &u, st) ||
        !qc_layer_weights_look(looks, count, (unsigned)net->scheme.options->threads, st))
        return false;
    r->layers = layers;
    r->layer_count = count;
    return qc_layers_index(r, net->arena, st);
}
