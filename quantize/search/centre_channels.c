// SPDX-License-Identifier: Apache-2.0
/* Centres inputs of products with floating-point levels (rewrite/passes/centre.h). The error of a level is in
   proportion to the value, so that of an output is in proportion to the sum of w^2 (x - c)^2. The means of the second
   moments give the c of least sum for each channel; an input is centred if the sum of all its products falls by
   LEAST_GAIN. */
#include "quantize/search/searches.h"

#include "base/json.h"
#include "calib/ablation.h"
#include "calib/trials/trials.h"
#include "quantize/make/make.h"
#include "rewrite/passes/centre.h"

/* Sums over all products that read one value. */
struct sums {
    size_t channels, layers;
    double *weight, *first, *second; /* [channels]: of w^2, of w^2 E x, of w^2 E x^2 over outputs and taps */
    bool left;                       /* a product of it has other levels, no second moments, or needs an Add */
    bool stored;                     /* a quantizer rounds it, whose range must be known */
};

/* Returns the node of the simulated graph for a product of the real one; 0: its input has neither floating-point levels
   nor blocks. *real: it is not rounded at all. */
static qc_id simulated_product(bool *stored, bool *real, const struct qc_network *net, qc_id node)
{
    const struct qc_graph *from = net->real, *g = net->simulated;
    const char *name = from->values[from->nodes[node].outputs].name;
    const qc_id result = name ? qc_graph_find_value(g, name) : 0;
    const qc_id product = result ? g->values[qc_source_of(g, result)].node : 0;
    *stored = *real = false;
    if (!product || g->nodes[product].op != from->nodes[node].op) return 0;
    const struct qc_node *q = qc_small_float_input(g, &g->nodes[product]);
    const qc_id input = g->nodes[product].inputs[0];
    const struct qc_node *maker = qc_node_of(g, input);
    *stored = q != NULL;
    /* True if the input of a product, given by the name of its result, is rounded in blocks at run time. */
    const struct qc_partition *p = net->partition;
    const qc_id v = qc_graph_find_value(p->graph, name);
    if (!q && (v && p->graph->values[v].node && p->input_format[p->graph->values[v].node])) return product;
    *real = g->values[input].type.qparams == QC_REAL && (!maker || maker->op != QC_OP_Dequantize);
    if (!q) return 0;
    return !g->qparams_of[g->values[q->outputs].type.qparams].given ? product : 0;
}

/* Squared weights of an input channel of a tap, summed over the outputs. */
static double squared_weight(const struct qc_centre_product *w, int64_t channel, int64_t tap)
{
    const float *x = w->weight->data;
    const int64_t each = w->channels / w->groups, of_group = w->outputs / w->groups, group = channel / each;
    double sum = 0;
    for (int64_t o = group * of_group; o < (group + 1) * of_group; o++) {
        const double v = (double)x[w->rows ? (o * each + channel % each) * w->taps + tap : channel * w->outputs + o];
        sum += v * v;
    }
    return sum;
}

/* Sums over the products of each value of p->real. products: [node_count + 1], set for those that are in a sum.
   Products that read the value in float do not count. */
static bool find_sums(struct sums *of, bool *products, const struct qc_network *net, bool adds, struct qc_arena *a,
                      struct qc_status *st)
{
    const struct qc_graph *g = net->real;
    struct qc_uses uses;
    if (!qc_uses_of(&uses, g, a, st)) return false;
    const struct qc_second_moments *m = qc_network_moments(net);
    for (qc_id id = 1; id <= g->node_count; id++) {
        struct qc_centre_product w;
        const char *reason;
        bool stored, real;
        if (!qc_centre_product_of(&w, g, id)) continue;
        struct sums *s = &of[g->nodes[id].inputs[0]];
        const qc_id product = simulated_product(&stored, &real, net, id);
        if (real) continue;
        struct qc_second_moments_layer *l = product ? qc_second_moments_of(m, &reason, product) : NULL;
        s->stored = s->stored || (product && stored);
        const bool fits = l && l->product_count && !l->centre && qc_second_moments_rows(l, ~0u) &&
                          l->channels == (size_t)w.channels && l->groups == (size_t)w.groups &&
                          l->taps == (size_t)w.taps && (adds || !qc_centre_adds(g, &uses, id)) &&
                          (!s->channels || s->channels == l->channels);
        if (!fits) {
            s->left = true;
            continue;
        }
        const size_t channels = (size_t)w.channels, each = channels / (size_t)w.groups, columns = l->columns;
        if (!s->weight && (!(s->weight = QC_NEW_ARRAY(a, double, channels, st)) ||
                           !(s->first = QC_NEW_ARRAY(a, double, channels, st)) ||
                           !(s->second = QC_NEW_ARRAY(a, double, channels, st))))
            return false;
        double *mean = QC_NEW_ARRAY(a, double, columns, st), *square = QC_NEW_ARRAY(a, double, columns, st);
        if (!mean || !square) return false;
        s->channels = channels;
        s->layers++;
        for (size_t group = 0; group < l->groups; group++) {
            qc_second_moments_read_mean(mean, l, ~0u, group, 0, columns);
            for (size_t b = 0; b < l->blocks; b++)
                qc_second_moments_read_diagonal(square + b * l->block, l, ~0u, group, b);
            for (size_t i = 0; i < columns; i++) {
                const size_t channel = group * each + i % each;
                const double weight = squared_weight(&w, (int64_t)channel, (int64_t)(i / each));
                s->weight[channel] += weight;
                s->first[channel] += weight * mean[i];
                s->second[channel] += weight * square[i];
            }
        }
        products[id] = true;
    }
    return true;
}

/* Makes the graph with centred inputs, if there are any. adds: a MatMul without a bias may get an Add. */
static bool find_centres(bool *found_any, struct qc_network *net, bool adds, struct qc_status *st)
{
    const struct qc_graph *g = net->real;
    struct qc_arena *const kept = net->form->arena;
    struct qc_graph *centred = NULL;
    *found_any = false;
    QC_ARENA_SCOPE *a = qc_arena_new();
    if (!a) return qc_fail_memory(st, 1);
    struct sums *of = QC_NEW_ARRAY(a, struct sums, g->value_count + 1, st);
    const float **centre = QC_NEW_ARRAY(a, const float *, g->value_count + 1, st);
    bool *products = QC_NEW_ARRAY(a, bool, g->node_count + 1, st);
    struct qc_channel_centring *found = QC_NEW(kept, struct qc_channel_centring, st);
    bool ok = of && centre && products && found && find_sums(of, products, net, adds, a, st) &&
              (found->of = QC_NEW_ARRAY(kept, struct qc_centred_input, g->value_count, st));
    for (qc_id v = 1; ok && v <= g->value_count; v++) {
        /* True if the statistics have the value whose range that of v - c follows from, or v - c needs no range. */
        const char *name = net->real->values[qc_unmoved(net->real, v)].name;
        const bool known = !of[v].stored ? net->real->values[v].name != NULL
                                         : net->real->values[v].name && name && net->evidence->statistics &&
                                               qc_collection_find(net->evidence->statistics, name);
        if (!of[v].layers || of[v].left || !known) continue;
        /* Take the centres if they lower the error enough. */
        double before = 0, after = 0;
        float *mean = QC_NEW_ARRAY(a, float, of[v].channels, st);
        for (size_t c = 0; mean && c < of[v].channels; c++) {
            mean[c] = of[v].weight[c] > 0 ? (float)(of[v].first[c] / of[v].weight[c]) : 0;
            before += of[v].second[c];
            after += of[v].second[c] - (double)mean[c] * of[v].first[c];
        }
        const double error = before > 0 ? after / before : 1;
        ok = mean != NULL;
        if (!ok || !(error <= 1 - QC_CENTRE_LEAST_GAIN)) continue;
        centre[v] = mean;
        struct qc_centred_input *to = &found->of[found->count++];
        *to = (struct qc_centred_input){.channels = of[v].channels, .layers = of[v].layers, .error = error};
        ok = (to->name = qc_arena_strdup(kept, g->values[v].name, st)) != NULL;
    }
    if (ok && found->count) ok = *found_any = qc_centre(&centred, g, centre, products, st);
    if (ok) qc_float_form_centre(net->form, found, centred, net->setup);
    return ok;
}

static bool simulate_anew(struct qc_network *net, struct qc_status *st)
{
    qc_warnings_drop(net->listener->warnings, net->warnings_from, qc_warnings_count(net->listener->warnings));
    return qc_network_simulate(net, st);
}

bool qc_centre_channels(struct qc_network *net, struct qc_status *st)
{
    bool any, all = true;
    if (net->form->centring || !qc_network_moments(net) || net->scheme.options->method.propagate ||
        qc_ablated("centre"))
        return true;
    if (!find_centres(&any, net, true, st)) return false;
    if (any && !simulate_anew(net, st)) return false;
    if (any) {
        /* all: the statistics have every observed value. */
        struct qc_named_values values;
        if (!qc_observed_values(&values, net->simulated, net->arena, st)) return false;
        all = true;
        for (size_t i = 0; i < values.count; i++)
            all = all && qc_collection_find(net->evidence->statistics, values.names[i]);
    }
    if (any && !all) { /* leave products as they are whose bias is an Add that the target quantizes */
        qc_float_form_centre(net->form, NULL, NULL, net->setup);
        if (!simulate_anew(net, st) || !find_centres(&any, net, false, st) || (any && !simulate_anew(net, st)))
            return false;
    }
    return true;
}

void qc_record_centred(struct qc_json *record, const struct qc_network *net)
{
    const size_t count = net->form->centring ? net->form->centring->count : 0;
    if (!count) return;
    struct qc_json *all = qc_json_array();
    for (size_t i = 0; i < count; i++) {
        const struct qc_centred_input *c = &net->form->centring->of[i];
        qc_json_add(all, QC_JSON("name %s channels %zu layers %zu error_ratio %g", c->name, c->channels, c->layers,
                                 c->error));
    }
    qc_json_set(record, "centred_inputs", all);
}
