// SPDX-License-Identifier: Apache-2.0
/* Explains why the layers with the largest effect on the outputs add error. The causes follow from measurements: the
   loss of the value's own parameters, that of the op's weights, and the spread of the input channels. Each cause has
   remedies in order of preference. The first one whose option is not in use becomes an idea, which is tried before it
   is reported (quantize/search/advice.c). */
#include "quantize/report/quantize_suggest.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "calib/trials/trials.h"
#include "quantize/report/command_text.h"
#include "quantize/report/job_report.h"
#include "quantize/report/record.h"

/* An op that adds noise. */
struct qc_noise_point {
    qc_id node;           /* of the folded graph */
    size_t layer;         /* of its result in the report; QC_NO_INDEX for a float output of the graph */
    double before, after; /* N of its inputs (0: exact) and of its result */
};

struct qc_noise_points {
    size_t count;
    struct qc_noise_point *points; /* sorted by the noise added, most first */
    /* [value_count + 1]: the layer where the noise of a value was measured, its own or an earlier one; or QC_NO_INDEX
     */
    size_t *source;
};

struct look {
    const struct qc_graph *g;
    const struct qc_measurement *m;
    const struct qc_report *r;
    double *ratio;  /* [value_count + 1]: N */
    double *signal; /* sum of squares; 0: unknown */
    bool *measured;
    size_t *source;
};

/* Returns noise / signal for an SQNR in dB; NaN for NaN. */
static double noise_ratio(double db)
{
    return isnan(db) ? (double)NAN : pow(10, -db / 10);
}

/* Returns the weight of input k for the noise of an op: relative to its signal, or absolute for sums and Concat. */
static double noise_by(const struct look *f, const struct qc_node *n, unsigned k)
{
    const qc_id v = n->inputs[k];
    bool sum = n->op == QC_OP_Add || n->op == QC_OP_Sub || n->op == QC_OP_Concat;
    for (unsigned i = 0; i < n->input_count; i++) sum = sum && f->signal[n->inputs[i]] > 0;
    return f->ratio[v] * (sum ? f->signal[v] : 1);
}

static double ratio_behind(const struct look *f, qc_id v, size_t *source)
{
    const struct qc_node *n = qc_node_of(f->g, v);
    double most = 0;
    for (unsigned k = 0; n && k < n->input_count; k++) {
        if (!(f->ratio[n->inputs[k]] > most)) continue;
        most = f->ratio[n->inputs[k]];
        *source = f->source[n->inputs[k]];
    }
    return most;
}

static bool begin_noise(struct look *f, struct qc_arena *a, struct qc_status *st)
{
    const size_t n = f->g->value_count + 1;
    f->ratio = QC_NEW_ARRAY(a, double, n, st);
    f->signal = QC_NEW_ARRAY(a, double, n, st);
    f->measured = QC_NEW_ARRAY(a, bool, n, st);
    f->source = QC_NEW_ARRAY(a, size_t, n, st);
    return f->ratio && f->signal && f->measured && f->source;
}

/* Computes N for all values. weights: NULL, or the noise of each weight quantizer, which counts as measured. */
static void forward(struct look *f, const double *weights)
{
    f->source[0] = QC_NO_INDEX;
    for (qc_id v = 1; v <= f->g->value_count; v++) {
        f->source[v] = QC_NO_INDEX;
        const qc_id q = f->g->values[v].type.qparams;
        const bool data = q && f->g->qparams_of[q].kind == QC_QPARAMS_QUANTIZER && !f->g->qparams_of[q].is_weight;
        const size_t i = data && f->m->quantizers[q].count ? qc_layer_of(f->r, f->g, q) : QC_NO_INDEX;
        /* The measurement of a value itself. Not if its range was chosen by the error after a function: the result of
           the function shows that error, this value does not. */
        if (i != QC_NO_INDEX && !isnan(f->r->layers[i].sqnr_db) && !f->r->layers[i].choice->behind) {
            f->source[v] = i;
            f->measured[v] = true;
            f->ratio[v] = noise_ratio(f->r->layers[i].sqnr_db);
            f->signal[v] = f->m->quantizers[q].signal;
        }
        if (weights && q && f->g->qparams_of[q].is_weight) {
            f->ratio[v] = weights[q];
            f->measured[v] = weights[q] > 0;
        }
        if (!f->measured[v]) f->ratio[v] = ratio_behind(f, v, &f->source[v]);
    }
}

/* Takes the measurements of float outputs, which are not layers. */
static void look_at_outputs(struct look *f)
{
    for (size_t k = 0; k < f->g->output_count; k++) {
        double n = f->m->outputs[k].count ? noise_ratio(qc_error_sqnr_db(&f->m->outputs[k])) : 0;
        qc_id v = f->g->outputs[k].value;
        if (f->measured[v] || f->g->values[v].type.qparams != QC_REAL || !isfinite(n) || !(n > 0)) continue;
        f->measured[v] = true;
        f->ratio[v] = n;
        f->source[v] = QC_NO_INDEX;
    }
}

static int by_added(const void *a, const void *b)
{
    const struct qc_noise_point *x = a, *y = b;
    double dx = x->after - x->before, dy = y->after - y->before;
    return dx > dy ? -1 : dx < dy ? 1 : x->node < y->node ? -1 : x->node > y->node;
}

/* Returns noise / signal of a weight's rounding. If the layer's error is known from second moments, it is multiplied by
   the ratio of that error to the one of nearest rounding, at most 1. */
static double noise_of_weight(const struct qc_layer *l)
{
    const struct qc_rounded_weights *r = l->rounding;
    const double left = r && !r->reason && r->error_nearest > 0 ? fmin(1, r->error / r->error_nearest) : 1;
    return left * noise_ratio(l->alone_db);
}

bool qc_noise_believed(double **out, const struct qc_graph *g, const struct qc_measurement *m,
                       const struct qc_report *r, struct qc_arena *a, struct qc_status *st)
{
    struct look f = {.g = g, .m = m, .r = r};
    double *own = QC_NEW_ARRAY(a, double, g->qparams_count + 1, st),
           *share = QC_NEW_ARRAY(a, double, g->value_count + 1, st);
    *out = QC_NEW_ARRAY(a, double, g->qparams_count + 1, st);
    if (!own || !share || !*out || !begin_noise(&f, a, st)) return false;
    for (qc_id s = 1; s <= g->qparams_count; s++) {
        const size_t i = g->qparams_of[s].kind == QC_QPARAMS_QUANTIZER ? qc_layer_of(r, g, s) : QC_NO_INDEX;
        const double noise = i == QC_NO_INDEX ? 0 : noise_of_weight(&r->layers[i]);
        own[s] = isnan(noise) ? 0 : noise;
    }
    forward(&f, own);
    look_at_outputs(&f);
    /* Distribute the output noise from the outputs back to the quantizers. The noise of a value that its own rounding
       does not explain comes from the inputs of its op, in proportion to their noise. */
    for (size_t k = 0; k < g->output_count; k++) share[g->outputs[k].value] += 1 / (double)g->output_count;
    for (qc_id v = (qc_id)g->value_count; v >= 1; v--) {
        const qc_id s = f.measured[v] ? g->values[v].type.qparams : 0;
        const struct qc_node *n = qc_node_of(g, v);
        double all = 0, left = share[v];
        for (unsigned k = 0; n && k < n->input_count; k++) all += noise_by(&f, n, k);
        if (s) {
            const double mine = all > 0 ? left * fmin(1, own[s] / f.ratio[v]) : left;
            (*out)[s] += mine;
            left -= mine;
        }
        for (unsigned k = 0; all > 0 && k < n->input_count; k++) share[n->inputs[k]] += left * noise_by(&f, n, k) / all;
    }
    return true;
}

/* ---- Ranking ---- */

static void add_rank(struct qc_json *to, const struct qc_layer_effect *e, double noise, bool measured)
{
    qc_json_add(to, QC_JSON("node %s op %s output_sqnr_db %g measured %hhd", e->name, e->op, qc_effect_sqnr_db(noise),
                            measured));
}

bool qc_fill_ranking(struct qc_report *r, const struct qc_network *net, const struct qc_measurement *m,
                     const struct qc_sensitivity *effects, struct qc_status *st)
{
    struct qc_sensitivity *all;
    double *believed;
    struct qc_json *ranks = qc_json_array();
    qc_json_set(r->record, "ranking", ranks);
    if (!m) return true;
    if (!qc_noise_believed(&believed, net->folded, m, r, net->arena, st) ||
        !qc_sensitivity_believed(&all, net->simulated, believed, st))
        return false;
    const size_t first = effects ? effects->count : 0;
    /* The estimate is a share of the output noise; times this noise it is comparable with the measured effects. */
    const double noise = qc_trials_noise(m->outputs, net->real->output_count, 0, 1, 1);
    bool *done =
        QC_NEW_ARRAY(net->arena, bool, all->count + 1, st); /* by place: nodes of a graph of fixed shapes differ */
    for (size_t i = 0; done && i < first; i++) {
        const struct qc_layer_effect *e = &effects->layers[i];
        if (e->place < all->count) done[e->place] = true;
        add_rank(ranks, e, e->noise, true);
    }
    for (size_t i = 0; done && i < all->count; i++)
        if (!done[all->layers[i].place]) add_rank(ranks, &all->layers[i], all->layers[i].noise * noise, false);
    qc_sensitivity_free(all);
    return done != NULL;
}

/* ---- Suggestions ---- */

enum { SHOWN = 3, CAUSES = 2, LOOKED_AT = 12, SKIPS = 4 };

/* A cause must explain at least half of the added noise. Channels are unlike if the widest is 8 times the median. A
   scale is too coarse if 15 % of the non-zero values round to zero (a normal distribution over its whole range loses
   about 3 %). */
static const double explains = 0.5, unlike = 8, coarse = 0.15;

struct finder {
    const struct qc_network *net;
    const struct qc_graph *g; /* folded */
    const struct qc_report *r;
    struct qc_noise_points noise;
    struct qc_status *st;
};

/* ---- Causes ---- */

/* Returns the width of the widest channel relative to the median; 1 if unknown. */
static double spread(const struct finder *f, const struct qc_layer *l, size_t *widest)
{
    double *all = l->channel_count > 2 ? QC_NEW_ARRAY(f->net->arena, double, l->channel_count, f->st) : NULL;
    *widest = 0;
    if (!all) return 1;
    for (size_t k = 0; k < l->channel_count; k++) {
        all[k] = fmax(-(double)l->channel_low[k], (double)l->channel_high[k]);
        if (all[k] > all[*widest]) *widest = k;
    }
    double most = all[*widest];
    qsort(all, l->channel_count, sizeof *all, qc_order_double);
    double median = all[l->channel_count / 2];
    return median > 0 ? most / median : 1;
}

static const struct qc_layer *weight_layer(const struct finder *f, const struct qc_node *n)
{
    for (unsigned k = 0; n && k < n->input_count; k++) {
        qc_id s = f->g->values[n->inputs[k]].type.qparams;
        size_t i = s && f->g->qparams_of[s].is_weight ? qc_layer_of(f->r, f->g, s) : QC_NO_INDEX;
        if (i != QC_NO_INDEX) return &f->r->layers[i];
    }
    return NULL;
}

/* Returns the noisiest activation that a node reads, also through float ops; *value: the input that it reaches the node
   by. */
static const struct qc_layer *noisiest_input(const struct finder *f, const struct qc_node *n, qc_id *value)
{
    const struct qc_layer *found = NULL;
    for (unsigned k = 0; k < n->input_count; k++) {
        size_t i = f->noise.source[n->inputs[k]];
        if (i == QC_NO_INDEX || (found && !(f->r->layers[i].sqnr_db < found->sqnr_db))) continue;
        found = &f->r->layers[i];
        *value = n->inputs[k];
    }
    return found;
}

/* ---- Remedies ---- */

/* Returns the glob of --skip for a node, from its name or that of its result; NULL if it has neither. */
static const char *skip_word(const struct finder *f, qc_id node)
{
    const struct qc_node *n = &f->g->nodes[node];
    const char *name = n->name && *n->name ? n->name : f->g->values[n->outputs].name;
    return name ? qc_glob_of_name(name, f->net->arena, f->st) : NULL;
}

/* True if the node computes in integers by a pattern that --skip can leave out. */
static bool computes(const struct finder *f, const struct qc_node *n)
{
    enum qc_affine_behaviour b = qc_node_affine(n);
    return f->g->values[n->outputs].type.qparams != QC_REAL && (b == QC_AFFINE_PRODUCT || b == QC_AFFINE_MERGE);
}

/* True if the result of the node is stored in integers even if nothing reads integers. */
static bool stores(const struct finder *f, const struct qc_node *n)
{
    const struct qc_partition *p = f->net->partition;
    if (qc_node_affine(n) == QC_AFFINE_MERGE) return true;
    for (qc_id id = 1; id <= p->graph->node_count; id++) {
        const struct qc_match *m = p->matches.at[id];
        for (unsigned k = 0; m && m->rule->result_quantized && k < m->node_count; k++) {
            const char *a = p->graph->values[p->graph->nodes[m->nodes[k]].outputs].name,
                       *b = f->g->values[n->outputs].name;
            if (a && b && strcmp(a, b) == 0) return true;
        }
    }
    return false;
}

/* Returns the number of ops that must stay in float so that the value of a layer is not stored in integers; the first
   SKIPS of them are in out. */
static size_t touching(qc_id out[SKIPS], const struct finder *f, const struct qc_layer *l)
{
    size_t count = 0;
    for (qc_id id = 1; id <= f->g->node_count; id++) {
        const struct qc_node *n = &f->g->nodes[id];
        bool touches = l->node && n->name && strcmp(l->node, n->name) == 0 && stores(f, n);
        for (unsigned k = 0; k < n->input_count; k++) {
            qc_id s = f->g->values[n->inputs[k]].type.qparams;
            touches = touches || (s && f->g->qparams_of[s].kind == QC_QPARAMS_QUANTIZER &&
                                  strcmp(f->g->qparams_of[s].name, l->name) == 0);
        }
        if (!touches || !computes(f, n)) continue;
        if (count < SKIPS) out[count] = id;
        count++;
    }
    return count;
}

static bool add_option(struct qc_idea *to, const struct finder *f, const char *name, const char *value)
{
    return qc_change_add(&to->change, name, value, f->net->arena, f->st);
}

/* Leaves the ops that touch the value `stored` in float, or without one the op itself. */
static bool skip(struct qc_idea *out, const struct finder *f, const struct qc_noise_point *pt,
                 const struct qc_layer *stored)
{
    qc_id nodes[SKIPS];
    size_t count = stored ? touching(nodes, f, stored) : 0;
    if (count > SKIPS) count = 0;
    if (!count && computes(f, &f->g->nodes[pt->node])) nodes[count++] = pt->node;
    for (size_t i = 0; i < count; i++) {
        const char *word = skip_word(f, nodes[i]);
        if (word && !add_option(out, f, "skip", word)) return false;
    }
    const bool several = out->change.count > 1;
    out->action = several ? "Keep the ops around this tensor in float" : "Keep in float";
    if (several && stored) out->node = stored->node ? stored->node : stored->name;
    return out->change.count > 0;
}

/* True if one of these types is stored in 16 bits: products of two such factors are not supported. */
static bool has_wide(const struct qc_type_scheme *all, const struct qc_type_choice *named, size_t count)
{
    bool wide = qc_dtype_info(all->dtype)->bits == 16;
    for (size_t i = 0; i < count; i++) wide = wide || qc_dtype_info(named[i].dtype)->bits == 16;
    return wide;
}

/* Gives one value 16 bits: the first op that stores or reads it in integers decides its type, and that of its inputs.
 */
static bool wide(struct qc_idea *out, const struct finder *f, const struct qc_layer *l)
{
    const struct qc_partition_options *p = &f->net->scheme.partition;
    qc_id nodes[SKIPS];
    const struct qc_dtype_info *type_now = l ? qc_dtype_info(l->stored.dtype) : NULL;
    if (!l || l->is_weight || type_now->bits == 16 || type_now->is_float ||
        has_wide(&p->weight, p->weight_types, p->weight_type_count) || !touching(nodes, f, l))
        return false;
    const char *word = skip_word(f, nodes[0]);
    if (!word) return false;
    const char *type = qc_arena_printf(f->net->arena, f->st, "%sint16:%s", *type_now->name == 'u' ? "u" : "", word);
    *out = (struct qc_idea){.action = "Use 16-bit activations", .node = l->node ? l->node : l->name};
    return add_option(out, f, "activation-type", type);
}

/* Compensates the weights of a node, or gives them 16 bits. */
static bool finer_weights(struct qc_idea *out, const struct finder *f, const struct qc_noise_point *pt,
                          const struct qc_layer *weight)
{
    const struct qc_options *o = f->net->scheme.options;
    if (o->method.weight_rounding == QC_WEIGHTS_NEAREST && !qc_has_statistics(f->net->setup->in)) {
        *out = (struct qc_idea){.change = {.without = "weight-rounding"},
                                .anew = true,
                                .action = "Compensate the errors of rounded weights"};
        return add_option(out, f, "weight-rounding", "compensated");
    }
    const char *word = skip_word(f, pt->node);
    const struct qc_partition_options *p = &f->net->scheme.partition;
    const bool wide_input = has_wide(&p->activation, p->activation_types, p->activation_type_count);
    if (!word || wide_input || qc_dtype_info(weight->stored.dtype)->bits == 16 || !computes(f, &f->g->nodes[pt->node]))
        return false;
    const char *type = qc_arena_printf(f->net->arena, f->st, "int16:%s", word);
    *out = (struct qc_idea){.action = "Use 16-bit weights"};
    return add_option(out, f, "weight-type", type);
}

/* Equalizes channels. Needs samples: statistics of --stats are from before equalization. */
static bool equalize(struct qc_idea *out, const struct finder *f)
{
    if (f->net->form->equalized || qc_has_statistics(f->net->setup->in)) return false;
    *out = (struct qc_idea){.change = {.without = "equalize"},
                            .anew = true,
                            .mends = true,
                            .action = "Equalize the channels"};
    return add_option(out, f, "equalize", "on");
}

static bool per_channel(struct qc_idea *out, const struct finder *f)
{
    if (!f->net->scheme.options->types.per_tensor) return false;
    *out = (struct qc_idea){.change = {.without = "per-tensor"},
                            .anew = true,
                            .mends = true,
                            .action = "Use a scale for each channel of the weights"};
    return true;
}

static bool other_method(struct qc_idea *out, const struct finder *f)
{
    const struct qc_observer *now = f->net->scheme.calibration.activation;
    if (now->of_network || strcmp(now->name, "mse") == 0) return false; /* --method auto has tried mse */
    *out = (struct qc_idea){.change = {.without = "method"}, .action = "Choose ranges by the squared error"};
    return add_option(out, f, "method", "mse");
}

/* Returns the type of a layer in texts: "int8", or "2 bits" if only some levels of the type are used. */
static const char *type_text(const struct finder *f, const struct qc_layer *l)
{
    const unsigned bits = qc_layer_bits(l);
    return bits ? qc_arena_printf(f->net->arena, f->st, "%u bits", bits) : qc_dtype_long_name(l->stored.dtype);
}

/* Sets *why, and *fix if there is a remedy (returns true). *known is false if no cause stands out. */
static bool explain(const char **why, struct qc_idea *fix, const struct finder *f, const struct qc_noise_point *pt,
                    bool *known)
{
    struct qc_arena *a = f->net->arena;
    const struct qc_node *n = &f->g->nodes[pt->node];
    const double added = pt->after - pt->before;
    qc_id value = 0;
    size_t at = 0, widest = 0;
    const struct qc_layer *own = pt->layer == QC_NO_INDEX ? NULL : &f->r->layers[pt->layer],
                          *weight = weight_layer(f, n), *input = noisiest_input(f, n, &value), *maker_weight = NULL;
    const bool own_noise = own && noise_ratio(own->alone_db) >= explains * added,
               weight_noise = weight && noise_of_weight(weight) >= explains * added;
    const double widths = weight ? spread(f, weight, &at) : 1;
    const qc_id maker = value ? qc_maker(f->g, value) : 0;
    if (maker && input->lost_fraction > coarse) maker_weight = weight_layer(f, &f->g->nodes[maker]);
    const double times = maker_weight ? spread(f, maker_weight, &widest) : 1;
    *known = true;
    if (own_noise && own->clipping_share > 0.5) {
        *why =
            qc_arena_printf(a, f->st, "the chosen range cuts off %.3g %% of its values, and most of its error is there",
                            100 * own->choice->range.clipped_fraction);
        return other_method(fix, f) || wide(fix, f, own) || skip(fix, f, pt, own);
    }
    if (weight && weight->stored.count == 1 && widths >= unlike && (weight_noise || weight->lost_fraction > coarse)) {
        *why = qc_arena_printf(a, f->st,
                               "its weights share one scale, but channel %zu is %.0f times as wide as the median "
                               "channel; %.0f %% of the weights become zero",
                               at, widths, 100 * weight->lost_fraction);
        return per_channel(fix, f) || skip(fix, f, pt, NULL);
    }
    if (times >= unlike) {
        *why = qc_arena_printf(a, f->st,
                               "outlier channel: channel %zu of what it reads, made by '%s', has weights %.0f times as "
                               "wide as the median channel, and %.0f %% of the non-zero values there "
                               "are below half a step and become zero",
                               widest, maker_weight->node ? maker_weight->node : maker_weight->name, times,
                               100 * input->lost_fraction);
        return equalize(fix, f) || skip(fix, f, pt, input);
    }
    if (own_noise && own->lost_fraction > coarse) {
        *why = qc_arena_printf(
            a, f->st,
            "few large values set its range: %.3g %% of its non-zero values are below half a step and become zero",
            100 * own->lost_fraction);
        return other_method(fix, f) || wide(fix, f, own) || skip(fix, f, pt, own);
    }
    if (weight_noise) {
        *why = qc_arena_printf(a, f->st, "its weights lose most: %.1f dB SQNR in %s", weight->alone_db,
                               type_text(f, weight));
        return finer_weights(fix, f, pt, weight) || skip(fix, f, pt, NULL);
    }
    if (own_noise) {
        *why = qc_arena_printf(a, f->st, "most of its error is the rounding of its result, %.1f dB alone in %s",
                               own->alone_db, type_text(f, own));
        return wide(fix, f, own) || skip(fix, f, pt, own);
    }
    if (input && input->lost_fraction > coarse) {
        *why = qc_arena_printf(
            a, f->st, "%.3g %% of the non-zero values that it reads are below half a step of '%s' and become zero",
            100 * input->lost_fraction, input->name);
        return wide(fix, f, input) || skip(fix, f, pt, input);
    }
    if (!computes(f, &f->g->nodes[pt->node]) && input) {
        *why = qc_arena_printf(a, f->st, "computed in float, it magnifies the error of '%s', %.1f dB", input->name,
                               input->sqnr_db);
        return wide(fix, f, input) || skip(fix, f, pt, input);
    }
    *known = false;
    *why = weight ? "rounding of its input and its weights adds up; neither stands out"
                  : "rounding of its inputs and its result adds up; neither stands out";
    return false;
}

/* Returns a member of "suggestions" of the record. before, after: SQNR of the inputs and of the result. */
static struct qc_json *suggestion(const struct finder *f, qc_id node, double before, double after, const char *why,
                                  size_t layer)
{
    const struct qc_node *n = &f->g->nodes[node];
    struct qc_json *o =
        QC_JSON("name %s op %s sqnr_db_before %g sqnr_db_after %g why %s", qc_node_name(f->g, n, f->net->arena, f->st),
                qc_op_info(n->op)->name, before, after, why);
    qc_json_set(o, "layer", layer == QC_NO_INDEX ? qc_json_null() : qc_json_whole(layer));
    return o;
}

/* Explains a layer. If it adds no noise, its effect is that of its inputs: then returns NULL if none is quantized.
 *known is false if no cause stands out. */
static struct qc_json *suggest(struct qc_idea *fix, bool *known, const struct finder *f, qc_id node)
{
    const struct qc_noise_point *pt = NULL; /* if its result has no more noise than its inputs */
    for (size_t i = 0; !pt && i < f->noise.count; i++)
        if (f->noise.points[i].node == node) pt = &f->noise.points[i];
    const struct qc_node *n = &f->g->nodes[node];
    qc_id value = 0;
    const struct qc_layer *input = pt ? NULL : noisiest_input(f, n, &value);
    const char *why;
    struct qc_json *o = NULL;
    bool mended = false;
    *fix = (struct qc_idea){0};
    *known = true;
    if (pt) {
        mended = explain(&why, fix, f, pt, known);
        o = suggestion(f, node, -10 * log10(pt->before), -10 * log10(pt->after), why, pt->layer);
    } else if (input) {
        const struct qc_noise_point at = {.node = node, .layer = (size_t)(input - f->r->layers)};
        mended = wide(fix, f, input) || skip(fix, f, &at, input);
        why = qc_arena_printf(f->net->arena, f->st, "most of its error comes from its input '%s', rounded to %s",
                              input->name, type_text(f, input));
        o = suggestion(f, node, input->sqnr_db, input->sqnr_db, why, at.layer);
    }
    if ((pt || input) && !o) qc_fail_memory(f->st, 1);
    if (!mended) fix->action = NULL;
    if (!fix->node && !fix->change.without) fix->node = qc_node_name(f->g, n, f->net->arena, f->st);
    return o;
}

bool qc_fill_suggestions(struct qc_report *r, struct qc_ideas *ideas, const struct qc_network *net,
                         const struct qc_measurement *m, struct qc_status *st)
{
    struct finder f = {.net = net, .g = net->folded, .r = r, .st = st};
    const struct qc_json *ranks = qc_json_get(r->record, "ranking");
    if (!m) return true;
    if (!qc_json_is_whole(ranks)) return qc_fail_memory(st, 1);
    /* Find the points of the folded graph. */
    size_t n = net->folded->value_count + 1, ignored;
    struct look look = {.g = net->folded, .m = m, .r = r};
    f.noise = (struct qc_noise_points){.points = QC_NEW_ARRAY(net->arena, struct qc_noise_point, n, st)};
    if (!f.noise.points || !begin_noise(&look, net->arena, st)) return false;
    f.noise.source = look.source;
    forward(&look, NULL);
    look_at_outputs(&look);
    for (qc_id v = 1; v <= net->folded->value_count; v++) {
        double before = ratio_behind(&look, v, &ignored);
        /* The noise is attributed to the op behind quantize, requantize and dequantize. */
        qc_id node = look.measured[v] && look.ratio[v] > before ? qc_maker(net->folded, v) : 0;
        while (node && net->folded->nodes[node].op == QC_OP_Dequantize)
            node = qc_maker(net->folded, net->folded->nodes[node].inputs[0]);
        if (node)
            f.noise.points[f.noise.count++] = (struct qc_noise_point){.node = node,
                                                                      .layer = look.source[v],
                                                                      .before = before,
                                                                      .after = look.ratio[v]};
    }
    qsort(f.noise.points, f.noise.count, sizeof *f.noise.points, by_added);
    struct qc_json *list = qc_json_array();
    for (size_t i = 0; i < qc_json_size(ranks) && i < LOOKED_AT && qc_json_size(list) < SHOWN; i++) {
        const struct qc_json *rank = qc_json_at(ranks, i);
        const bool noisy = isfinite(qc_json_find_number(rank, "output_sqnr_db"));
        const char *name = qc_json_find_text(rank, "node");
        qc_id node = 0; /* the op with the name that options use */
        for (qc_id id = 1; noisy && *name && !node && id <= f.g->node_count; id++) {
            const struct qc_node *at = &f.g->nodes[id];
            const char *own = at->name && *at->name ? at->name : f.g->values[at->outputs].name;
            if (own && strcmp(own, name) == 0 && at->op != QC_OP_Quantize && at->op != QC_OP_Dequantize) node = id;
        }
        struct qc_idea fix;
        bool known;
        struct qc_json *o = node ? suggest(&fix, &known, &f, node) : NULL;
        if (!o) continue;
        qc_json_add(list, o);
        if (known && fix.action && ideas->count < CAUSES) ideas->of[ideas->count++] = fix;
    }
    qc_json_set(r->record, "suggestions", list);
    return st->code == QC_OK;
}
