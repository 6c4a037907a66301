// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/scope.h"
#include "calib/ablation.h"
#include "calib/ranges/calibrate_parts.h"
#include "calib/ranges/quantizer_channels.h"
#include "calib/statistics/collection.h"
#include "graph/core/bounds.h"
#include "graph/core/function.h"
#include "graph/core/graph.h"
#include "rewrite/passes/centre.h"
#include "simq/kernels/real/unary.h"

struct evaluator {
    struct qc_composed *f;
    float *scratch;
};

static void evaluate_quantizer(void *user, double *y, const double *x, size_t n)
{
    const struct evaluator *e = user;
    float block[QC_COMPOSED_BLOCK];
    for (size_t first = 0; first < n; first += QC_COMPOSED_BLOCK) {
        const size_t count = n - first < QC_COMPOSED_BLOCK ? n - first : QC_COMPOSED_BLOCK;
        for (size_t i = 0; i < count; i++) block[i] = (float)x[first + i];
        qc_composed_run(e->f, block, block, (int64_t)count, e->scratch);
        for (size_t i = 0; i < count; i++) y[first + i] = (double)block[i];
    }
}

/* Computes *out: [qparams_count + 1], by qparams of the simulated graph g, in the arena. Fails if memory is out, or
   with QC_UNSUPPORTED on an attribute that is not handled. */
static bool look_through_functions(struct qc_look **out, const struct qc_graph *g, struct qc_arena *a,
                                   struct qc_status *st)
{
    struct qc_uses uses;
    const char **texts;
    struct qc_look *looks = QC_NEW_ARRAY(a, struct qc_look, g->qparams_count + 1, st);
    if (!looks || !qc_uses_of(&uses, g, a, st) || !qc_output_functions(&texts, g, &uses, a, st)) return false;
    for (qc_id s = 1; s <= g->qparams_count; s++) {
        looks[s].text = texts[s] && !qc_ablated("look_through") ? texts[s] : NULL;
        if (!looks[s].text) continue;
        const struct qc_attr f = QC_STRING("f", looks[s].text);
        const struct qc_node table = {.op = QC_OP_Table, .attr_count = 1, .attrs = &f};
        struct evaluator *e = QC_NEW(a, struct evaluator, st);
        if (!e || !qc_composed_of(&e->f, &table, a, st) ||
            !(e->scratch = QC_NEW_ARRAY(a, float, qc_composed_scratch(e->f), st)))
            return qc_where(st, "quantizer '%s'", g->qparams_of[s].name);
        looks[s].behind = (struct qc_output_function){.run = evaluate_quantizer, .user = e};
    }
    *out = looks;
    return true;
}

struct solving_methods {
    struct qc_chooser *chooser;
    const struct qc_method *methods;
    size_t count;
    struct qc_affine *params;
};

/* Returns the parameters of a range of the quantizer's observed values. With floating-point levels a range that is too
   wide costs nothing, so that of x minus a constant per channel covers all differences. */
static struct qc_affine quantizer_affine(const struct qc_chooser *k, qc_id id, struct qc_range range)
{
    const struct qc_qparams *s = &k->g->qparams_of[id];
    double lo = 0, hi = 0;
    for (size_t i = 0; i < s->observed_count; i++) {
        const struct qc_centred c = qc_centred_of(k->g, s->observed[i], id);
        if (!c.value) continue;
        lo = fmin(lo, -c.hi);
        hi = fmax(hi, -c.lo);
    }
    return qc_affine_from_range(range.lo + lo, range.hi + hi, qc_qparams_levels(s), s->symmetry);
}

static bool solve_methods(void *user, size_t item, unsigned worker, struct qc_status *st)
{
    const struct solving_methods *s = user;
    const struct qc_chooser *k = s->chooser;
    const qc_id id = (qc_id)item + 1;
    const struct qc_qparams *q = &k->g->qparams_of[id];
    const struct qc_histogram *h = k->histograms[id];
    if (!h || k->channels[id].seen || q->given || h->tally.count <= h->tally.zeros) return true;
    for (size_t m = 0; m < s->count; m++) {
        struct qc_range range;
        const struct qc_statistics seen = qc_statistics_of(h);
        struct qc_solve request = QC_SOLVE_INIT(qc_qparams_levels(q), q->symmetry);
        request.known_lo = k->c->choices[id].known_lo;
        request.known_hi = k->c->choices[id].known_hi;
        if (k->looks && k->looks[id].text) request.behind = &k->looks[id].behind;
        if (!qc_observer_solve(&range, s->methods[m].observer, &s->methods[m].values, &seen, &request, st))
            return qc_where(st, "quantizer '%s'", q->name);
        if (!qc_chooser_unseen(&range, k, id, &s->methods[m], st)) return false;
        s->params[m * (k->g->qparams_count + 1) + id] = quantizer_affine(k, id, range);
    }
    return true;
}

bool qc_solve_methods(struct qc_affine *params, struct qc_graph *g, const struct qc_collection *seen,
                      const char *source, const struct qc_method *methods, size_t count,
                      const struct qc_calibration_options *options, struct qc_status *st)
{
    struct solving_methods s = {.methods = methods, .count = count, .params = params};
    const struct qc_pool_options pool = {.workers = options->settings->workers ? options->settings->workers : 1};
    if (!qc_chooser_new(&s.chooser, g, seen, source, options, st)) return false;
    for (size_t i = 0; i < count * (g->qparams_count + 1); i++) params[i] = (struct qc_affine){.scale = 0};
    bool ok = true;
    for (qc_id id = 1; ok && id <= g->qparams_count; id++) ok = qc_chooser_merge(s.chooser, id, st);
    ok = ok && qc_pool_run(g->qparams_count, solve_methods, &s, &pool, st);
    qc_chooser_free(s.chooser);
    return ok;
}

bool qc_bind_params(struct qc_calibration **out, struct qc_graph *g, const struct qc_collection *seen,
                    const char *source, const struct qc_affine *params, const struct qc_calibration_options *options,
                    struct qc_status *st)
{
    struct qc_chooser *k = NULL;
    bool ok = qc_chooser_new(&k, g, seen, source, options, st);
    for (qc_id id = 1; ok && id <= g->qparams_count; id++) {
        const struct qc_qparams *q = &g->qparams_of[id];
        if (q->kind != QC_QPARAMS_QUANTIZER || !q->observed_count) continue;
        ok = params[id].scale > 0 ? qc_graph_bind_quantizer(g, id, 1, &params[id].scale, &params[id].zero_point, st)
                                  : qc_chooser_quantizer(k, id, st);
    }
    if (ok) return qc_chooser_finish(out, k, st);
    qc_chooser_free(k);
    return false;
}

/* Histograms of quantizers whose values are weighted by the effect of their errors on the layers after (--method
   output). A range that minimizes the squared error of such a histogram minimizes the error of those layers' outputs,
   if errors of elements are independent. */

/* One value of a quantizer. */
struct weighted_part {
    const struct qc_histogram *histogram;        /* with counts */
    const struct qc_channel_histogram *channels; /* NULL: unknown */
    const struct qc_channel_gain *gain;          /* NULL: unknown */
};

static bool weighs(const struct weighted_part *p)
{
    return p->channels && p->gain && p->gain->gain && p->gain->axis == p->channels->axis &&
           p->gain->channels == p->channels->channels;
}

/* Merges the histograms of the parts into *out, owned by the caller. Each value is weighted by the gain of its channel;
   the largest gain of all parts counts QC_CHANNEL_UNIT. A part without gains, or whose gains have other channels,
   counts with the mean gain. *out is NULL if no part has gains: then all values count equally. Fails if memory is out.
 */
static bool weigh_by_output(struct qc_histogram **out, const struct weighted_part *parts, size_t count,
                            struct qc_status *st)
{
    double most = 0, sum = 0;
    size_t channels = 0;
    *out = NULL;
    for (size_t i = 0; i < count; i++) {
        for (size_t c = 0; weighs(&parts[i]) && c < parts[i].channels->channels; c++) {
            const double gain = parts[i].gain->gain[c];
            most = gain > most ? gain : most;
            sum += gain;
            channels++;
        }
    }
    if (!channels || !(most > 0)) return true;
    const double mean = sum / (double)channels / most;
    struct qc_histogram *h = NULL;
    bool ok = qc_histogram_new(&h, QC_NEED_HISTOGRAM, st);
    for (size_t i = 0; ok && i < count; i++) {
        const struct weighted_part *p = &parts[i];
        const size_t n = weighs(p) ? p->channels->channels : 1;
        double *gain = malloc(n * sizeof *gain);
        if (!gain) {
            ok = qc_fail_memory(st, n * sizeof *gain);
            break;
        }
        for (size_t c = 0; c < n; c++) gain[c] = weighs(p) ? p->gain->gain[c] / most : mean;
        ok = qc_channel_histogram_weigh(h, p->histogram, weighs(p) ? p->channels : NULL, gain, st);
        free(gain);
    }
    return QC_HAND_OVER(ok, out, h, qc_histogram_free);
}

void qc_choice_of_given(struct qc_choice *c, const struct qc_qparams *s)
{
    const struct qc_levels levels = qc_qparams_levels(s);
    c->method = QC_METHOD_GIVEN;
    c->range = (struct qc_range){.lo = 0, .hi = 0};
    for (size_t i = 0; i < s->given->count; i++) {
        const double scale = (double)s->given->scale[i];
        c->range.lo = fmin(c->range.lo, scale * (levels.lo - s->given->zero_point[i]));
        c->range.hi = fmax(c->range.hi, scale * (levels.hi - s->given->zero_point[i]));
    }
}

/* Returns the value whose statistics determine a quantizer: the i-th it observes, or x if that is x minus a constant
   per channel (rewrite/passes/centre.h). */
static qc_id observed_value(const struct qc_graph *g, qc_id quantizer, size_t i)
{
    const qc_id v = g->qparams_of[quantizer].observed[i];
    const struct qc_centred c = qc_centred_of(g, v, quantizer);
    return c.value ? qc_unmoved(g, c.value) : v;
}

bool qc_observed_values(struct qc_named_values *out, const struct qc_graph *g, struct qc_arena *a, struct qc_status *st)
{
    bool *taken = QC_NEW_ARRAY(a, bool, g->value_count + 1, st);
    *out = (struct qc_named_values){.ids = QC_NEW_ARRAY(a, qc_id, g->value_count, st),
                                    .names = QC_NEW_ARRAY(a, const char *, g->value_count, st)};
    if (!taken || !out->ids || !out->names) return false;
    for (qc_id s = 1; s <= g->qparams_count; s++)
        for (size_t i = 0; i < g->qparams_of[s].observed_count; i++) {
            const qc_id v = observed_value(g, s, i);
            if (taken[v] || qc_constant_of(g, v)) continue;
            taken[v] = true;
            out->ids[out->count] = v;
            if (!(out->names[out->count++] = qc_value_name(g, v, a, st))) return false;
        }
    return true;
}

/* Adds the values of a constant: the table of an embedding, the constant operand of an addition. */
static bool add_constant(struct qc_histogram *h, struct qc_scan *scan, const struct qc_tensor *t, const char *quantizer,
                         struct qc_status *st)
{
    if (t->dtype != QC_F32)
        return qc_fail(st, QC_UNSUPPORTED, "constant '%s' is %s, not float32", quantizer,
                       qc_dtype_info(t->dtype)->name);
    qc_scan_reset(scan);
    return qc_scan_values(scan, t->data, t->count, st) && qc_histogram_add_scan(h, scan, st);
}

/* For observers with of_output: weights each value of the quantizer by the gains of its own channels. */
static bool weigh_quantizer(struct qc_chooser *k, qc_id id, struct qc_status *st)
{
    const struct qc_qparams *s = &k->g->qparams_of[id];
    struct qc_arena *a = k->c->arena;
    if (!k->gains || !s->observed_count) return true;
    struct weighted_part *parts = QC_NEW_ARRAY(a, struct weighted_part, s->observed_count, st);
    struct qc_histogram **constants = QC_NEW_ARRAY(a, struct qc_histogram *, s->observed_count, st);
    bool ok = parts && constants;
    for (size_t i = 0; ok && i < s->observed_count; i++) {
        const qc_id v = observed_value(k->g, id, i);
        const struct qc_tensor *t = qc_constant_of(k->g, v);
        if (t) {
            ok = qc_histogram_new(&constants[i], k->seen->need, st) &&
                 add_constant(constants[i], k->scan, t, s->name, st);
            parts[i] = (struct weighted_part){.histogram = constants[i]};
            continue;
        }
        const char *name = qc_value_name(k->g, v, a, st);
        const struct qc_collected *seen = name ? qc_collection_value(k->seen, name) : NULL;
        ok = seen != NULL;
        if (ok)
            parts[i] =
                (struct weighted_part){.histogram = seen->histogram, .channels = seen->channels, .gain = &k->gains[v]};
    }
    ok = ok && weigh_by_output(&k->weighted[id], parts, s->observed_count, st);
    for (size_t i = 0; constants && i < s->observed_count; i++) qc_histogram_free(constants[i]);
    return ok;
}

/* Merges the channel statistics of a quantizer with a scale per channel. Without them the quantizer gets one scale and
   a warning. */
static bool merge_channels(struct qc_chooser *k, qc_id id, struct qc_status *st)
{
    const struct qc_qparams *s = &k->g->qparams_of[id];
    struct qc_arena *a = k->c->arena;
    struct seen_channels *to = &k->channels[id];
    if (!s->per_channel || s->is_weight || !s->observed_count) return true;
    for (size_t i = 0; i < s->observed_count; i++) {
        const qc_id v = s->observed[i];
        const char *name = qc_value_name(k->g, v, a, st);
        if (!name) return false;
        const struct qc_collected *seen = qc_collection_value(k->seen, name);
        const struct qc_channel_histogram *h = seen ? seen->channels : NULL;
        if (h && h->axis == qc_quantizer_axis(&k->uses, id, v) && (!to->seen || to->seen->channels == h->channels)) {
            if (!to->seen && !qc_channel_histogram_new(&to->seen, h->axis, h->channels, st)) return false;
            qc_channel_histogram_add(to->seen, h);
            continue;
        }
        qc_channel_histogram_free(to->seen);
        to->seen = NULL;
        return qc_lines_add(&k->c->warnings, k->c->arena, st,
                            "tensor '%s' gets one scale: its channels have no statistics, or there are more than %d",
                            s->name, (int)QC_CHANNELS_MAX);
    }
    to->chosen = (struct qc_quantizer_channels){.count = to->seen->channels,
                                                .scale = QC_NEW_ARRAY(a, float, to->seen->channels, st),
                                                .zero_point = QC_NEW_ARRAY(a, int32_t, to->seen->channels, st)};
    return to->chosen.scale && to->chosen.zero_point;
}

bool qc_chooser_merge(struct qc_chooser *k, qc_id id, struct qc_status *st)
{
    const struct qc_graph *g = k->g;
    const struct qc_qparams *s = &g->qparams_of[id];
    struct qc_histogram **h = &k->merged[id];
    const bool several = s->observed_count > 1 || (s->observed_count && qc_constant_of(g, s->observed[0]));
    if (several && !qc_histogram_new(h, k->seen->need, st)) return false;
    k->histograms[id] = *h;
    for (size_t i = 0; i < s->observed_count; i++) {
        const qc_id v = observed_value(g, id, i);
        const struct qc_tensor *t = qc_constant_of(g, v);
        if (t && !add_constant(*h, k->scan, t, s->name, st)) return false;
        if (t) continue;
        const char *name = qc_value_name(g, v, k->c->arena, st);
        const struct qc_histogram *seen = name ? qc_collection_find(k->seen, name) : NULL;
        if (!name) return false;
        if (!seen)
            return qc_fail(
                st, QC_BAD_INPUT,
                "%s: has no statistics of tensor '%s'; collect again with the same model, --rules and --target",
                k->source, name);
        if (!several) k->histograms[id] = seen;
        if (several && !qc_histogram_add(*h, seen, st)) return false;
        if (!qc_collection_join(&k->samples[id], k->seen, name, st)) return qc_where(st, "quantizer '%s'", s->name);
    }
    for (size_t i = 0; i < s->observed_count; i++) {
        const struct qc_tensor *t = qc_constant_of(g, s->observed[i]);
        if (t && ((k->seen->extremes && !qc_series_add_constant(&k->samples[id].series, t->data, t->count, st)) ||
                  !qc_per_sample_add_constant(&k->samples[id], k->seen->samples, t->data, t->count, st)))
            return qc_where(st, "quantizer '%s'", s->name);
    }
    return weigh_quantizer(k, id, st) && merge_channels(k, id, st);
}

/* Finds the bounds that the graph guarantees for each quantizer's values. */
static bool find_known(struct qc_chooser *k, struct qc_status *st)
{
    const struct qc_graph *g = k->g;
    const struct qc_bounds *b = qc_graph_bounds(g, k->c->arena, st);
    for (qc_id id = 1; b && id <= g->qparams_count; id++) {
        const struct qc_qparams *s = &g->qparams_of[id];
        double lo = (double)INFINITY, hi = -(double)INFINITY;
        for (size_t i = 0; i < s->observed_count; i++) {
            const qc_id v = observed_value(g, id, i);
            lo = fmin(lo, b[v].lo);
            hi = fmax(hi, b[v].hi);
        }
        if (!s->observed_count) continue;
        k->c->choices[id].known_lo = lo;
        k->c->choices[id].known_hi = hi;
    }
    return b != NULL;
}

/* Computes scale and zero point of a range. With power_of_two it takes, of the two powers around the scale, the one of
   less error on the histogram. */
static bool parameters_of(struct qc_affine *out, const struct qc_chooser *k, qc_id id, const struct qc_range *range,
                          struct qc_status *st)
{
    const struct qc_qparams *s = &k->g->qparams_of[id];
    const struct qc_levels levels = qc_qparams_levels(s);
    const struct qc_histogram *h = k->histograms[id];
    struct qc_loss loss[2];
    *out = quantizer_affine(k, id, *range);
    if (!s->power_of_two) return true;
    struct qc_affine of[2];
    for (int i = 0; i < 2; i++) of[i] = qc_affine_power_of_two(range->lo, range->hi, levels, s->symmetry, i == 1);
    *out = of[1];
    if (!h || !h->binned) return true;
    for (int i = 0; i < 2; i++)
        if (!qc_loss_of(&loss[i], h, &of[i], levels, st)) return false;
    if (loss[0].rounding + loss[0].clipping < loss[1].rounding + loss[1].clipping) *out = of[0];
    return true;
}

/* For the report: the outline of the histogram, and the error of the parameters. */
static bool outline(const struct qc_chooser *k, qc_id id, struct qc_status *st)
{
    const struct qc_histogram *h = k->histograms[id];
    const struct qc_qparams *qparams = &k->g->qparams_of[id];
    struct qc_choice *choice = &k->c->choices[id];
    struct qc_affine p;
    if (!h->binned || k->options->ranges_alone) return true;
    if (!parameters_of(&p, k, id, &choice->range, st)) return false;
    choice->outline = &k->outlines[id - 1];
    if (!qc_outline_of(&k->outlines[id - 1], h, st)) return false;
    return k->channels[id].seen || qc_loss_of(&choice->loss, h, &p, qc_qparams_levels(qparams), st);
}

static struct qc_method method_of(const struct qc_calibration_options *o, qc_id quantizer)
{
    if (o->methods && o->methods[quantizer]) return *o->methods[quantizer];
    return (struct qc_method){.name = o->activation->name, .observer = o->activation, .values = o->activation_values};
}

static bool same_method(const struct qc_method *a, const struct qc_method *b)
{
    bool same = a->observer == b->observer;
    for (size_t i = 0; same && i < a->observer->option_count; i++)
        same = !(a->values.v[i] < b->values.v[i] || a->values.v[i] > b->values.v[i]);
    return same;
}

/* Returns the name under which any graph of the model has statistics of this value; NULL without a name, and for
   constants. */
static const char *name_of_quantizer(const struct qc_graph *g, qc_id v)
{
    const qc_id named = qc_value_named(g, v);
    return qc_constant_of(g, named) ? NULL : g->values[named].name;
}

static bool same_value(const struct qc_graph *a, qc_id x, const struct qc_graph *b, qc_id y)
{
    const char *p = name_of_quantizer(a, x), *q = name_of_quantizer(b, y);
    return p && q && strcmp(p, q) == 0;
}

/* Returns the function that the quantizer's values go through; NULL: none. */
static const char *text_behind(const struct qc_chooser *k, qc_id id)
{
    return k->looks ? k->looks[id].text : NULL;
}

/* Returns the choice of a quantizer of options->solved with the same values, method, levels and function; NULL: none.
 */
static const struct qc_choice *solved_before(const struct qc_chooser *k, qc_id id, const struct qc_method *by)
{
    const struct qc_solved *from = &k->options->solved;
    const struct qc_qparams *s = &k->g->qparams_of[id], *other;
    const char *const text = text_behind(k, id);
    if (!from->calibration || from->seen != k->seen || k->weighted[id] || !s->observed_count) return NULL;
    const char *const name = name_of_quantizer(k->g, s->observed[0]);
    size_t slot = SIZE_MAX;
    for (qc_id o; name && (o = qc_index_next(&k->solved, qc_hash_text(name), &slot));) {
        const struct qc_choice *c = &from->calibration->choices[o];
        other = &from->graph->qparams_of[o];
        if (!c->chosen || other->observed_count != s->observed_count ||
            !same_value(k->g, s->observed[0], from->graph, other->observed[0]))
            continue;
        const struct qc_method method = method_of(from->options, o);
        bool same = same_method(&method, by) && c->solved.candidates &&
                    (text ? c->behind && strcmp(text, c->behind) == 0 : !c->behind) && other->dtype == s->dtype &&
                    other->symmetry == s->symmetry && qc_qparams_levels(other).lo == qc_qparams_levels(s).lo &&
                    qc_qparams_levels(other).hi == qc_qparams_levels(s).hi &&
                    !(c->known_lo < k->c->choices[id].known_lo || c->known_lo > k->c->choices[id].known_lo) &&
                    !(c->known_hi < k->c->choices[id].known_hi || c->known_hi > k->c->choices[id].known_hi);
        for (size_t i = 1; same && i < s->observed_count; i++)
            same = same_value(k->g, s->observed[i], from->graph, other->observed[i]);
        if (same) return c;
    }
    return NULL;
}

/* Sets the share of the quantizer's values that its range clips. */
static bool clip_quantizer(struct qc_range *range, const struct qc_chooser *k, qc_id id,
                           const struct qc_statistics *seen, struct qc_status *st)
{
    const struct qc_qparams *s = &k->g->qparams_of[id];
    return qc_clipped_share(&range->clipped_fraction, seen, range->lo, range->hi, qc_qparams_levels(s), s->symmetry,
                            st);
}

/* Widens the range toward unseen samples and updates the clipped share. */
static bool widen_quantizer(struct qc_range *range, const struct qc_chooser *k, qc_id id, const struct qc_method *by,
                            struct qc_status *st)
{
    const struct qc_statistics seen = qc_statistics_of(k->histograms[id]);
    if (!qc_chooser_unseen(range, k, id, by, st)) return false;
    return (!k->options->few && !k->options->unseen) || clip_quantizer(range, k, id, &seen, st);
}

static bool solve_quantizer(void *user, size_t item, unsigned worker, struct qc_status *st)
{
    struct qc_chooser *k = user;
    const struct qc_graph *g = k->g;
    qc_id id = (qc_id)item + 1;
    const struct qc_histogram *h = k->histograms[id];
    if (!h) return true;
    const struct qc_calibration_options *o = k->options;
    struct qc_statistics statistics = qc_statistics_of(h);
    struct qc_solve request = QC_SOLVE_INIT(qc_qparams_levels(&g->qparams_of[id]), g->qparams_of[id].symmetry);
    struct qc_choice *choice = &k->c->choices[id];
    if (k->seen->extremes) statistics.series = &k->samples[id].series;
    if (k->seen->samples) statistics.state = &k->samples[id].state;
    request.known_lo = choice->known_lo;
    request.known_hi = choice->known_hi;
    request.curve = o->ranges_alone ? NULL : &k->curves[id];
    if (text_behind(k, id)) request.behind = &k->looks[id].behind;
    const struct qc_method by = method_of(o, id);
    choice->seen = h->tally;
    choice->chosen = true;
    choice->method = by.name;
    if (g->qparams_of[id].given) {
        qc_choice_of_given(choice, &g->qparams_of[id]);
        return outline(k, id, st);
    }
    if (k->channels[id].seen) {
        request.curve = NULL;
        if (!qc_quantizer_channels_solve(&k->channels[id].chosen, &choice->range, &choice->loss, k->channels[id].seen,
                                         &g->qparams_of[id], by.observer, &by.values, &request, st))
            return qc_where(st, "quantizer '%s'", g->qparams_of[id].name);
        if (choice->range.behind) choice->behind = text_behind(k, id);
        return outline(k, id, st);
    }
    choice->curve = request.curve;
    const struct qc_choice *before = solved_before(k, id, &by);
    if (before) {
        choice->range = choice->solved = before->solved;
        choice->behind = before->behind;
        return widen_quantizer(&choice->range, k, id, &by, st) && outline(k, id, st);
    }
    const struct qc_statistics all = statistics;
    if (k->weighted[id]) statistics = qc_statistics_of(k->weighted[id]);
    if (!qc_observer_solve(&choice->range, by.observer, &by.values, &statistics, &request, st) ||
        (k->weighted[id] && !clip_quantizer(&choice->range, k, id, &all, st)))
        return qc_where(st, "quantizer '%s'", g->qparams_of[id].name);
    if (choice->range.behind) choice->behind = text_behind(k, id);
    choice->solved = choice->range;
    return widen_quantizer(&choice->range, k, id, &by, st) && outline(k, id, st);
}

static void add_found(struct qc_found *f, qc_id id)
{
    if (!f->first) f->first = id;
    f->count++;
}

/* Formats `what`, then "3 more tensors (...)"; empty if there is only one. */
static const char *others(char text[96], const struct qc_found *f, const char *what)
{
    text[0] = 0;
    if (f->count > 1)
        snprintf(text, 96, "%s%zu more tensor%s (--json and the report have each)", what, f->count - 1,
                 f->count == 2 ? "" : "s");
    return text;
}

static bool warn_found(struct qc_chooser *k, struct qc_status *st)
{
    const struct qc_tally *t = &k->c->choices[k->nonfinite.first].seen;
    char more[96];
    if (k->numberless.first) { /* has a weight between it and the inputs whose NaN may be the cause */
        t = &k->c->choices[k->numberless.first].seen;
        return qc_fail(st, QC_BAD_INPUT,
                       "%s: tensor '%s' has no finite value in any sample: %llu NaN and %llu infinite values, first in "
                       "sample %llu; correct the data",
                       k->source, k->g->qparams_of[k->numberless.first].name, (unsigned long long)t->nan,
                       (unsigned long long)t->pos_inf + t->neg_inf,
                       (unsigned long long)QC_SAMPLE_NUMBER(t->first_bad_sample));
    }
    const struct {
        const struct qc_found *found;
        const char *what;
    } unknown[] = {{&k->zero, "is zero in every"}, {&k->empty, "has no elements in any"}};
    for (size_t i = 0; i < 2; i++)
        if (unknown[i].found->first &&
            !qc_lines_add(&k->c->warnings, k->c->arena, st, "tensor '%s' %s sample; it gets scale 1, zero point 0%s",
                          k->g->qparams_of[unknown[i].found->first].name, unknown[i].what,
                          others(more, unknown[i].found, ", and so do ")))
            return false;
    if (!k->nonfinite.first) return true;
    return qc_lines_add(&k->c->warnings, k->c->arena, st,
                        "%s: tensor '%s': %llu NaN and %llu infinite values left out, first in sample %llu%s",
                        k->source, k->g->qparams_of[k->nonfinite.first].name, (unsigned long long)t->nan,
                        (unsigned long long)t->pos_inf + t->neg_inf,
                        (unsigned long long)QC_SAMPLE_NUMBER(t->first_bad_sample),
                        others(more, &k->nonfinite, ", and values of "));
}

static bool bind_quantizer(struct qc_chooser *k, qc_id id, struct qc_status *st)
{
    const struct qc_choice *choice = &k->c->choices[id];
    const struct qc_qparams *s = &k->g->qparams_of[id];
    if (!choice->chosen) return true;
    const struct qc_tally *seen = &choice->seen;
    const unsigned long long nan = seen->nan, inf = seen->pos_inf + seen->neg_inf;
    if ((nan || inf) && k->options->settings->nonfinite_error)
        return qc_fail(st, QC_BAD_INPUT,
                       "%s: tensor '%s' has %llu NaN and %llu infinite values, first in sample %llu; correct the data "
                       "or drop --nonfinite error",
                       k->source, s->name, nan, inf, (unsigned long long)QC_SAMPLE_NUMBER(seen->first_bad_sample));
    /* NaN or infinity spreads to most of the following tensors: the warning names the first quantizer and counts the
       others. */
    if (nan && !seen->count) add_found(&k->numberless, id);
    if (nan || inf) add_found(&k->nonfinite, id);
    if (s->given) return qc_graph_bind_quantizer(k->g, id, s->given->count, s->given->scale, s->given->zero_point, st);
    if (seen->count == seen->zeros) add_found(seen->count || nan || inf ? &k->zero : &k->empty, id);
    const struct qc_quantizer_channels *channels = &k->channels[id].chosen;
    if (k->channels[id].seen)
        return qc_graph_bind_quantizer(k->g, id, channels->count, channels->scale, channels->zero_point, st);
    struct qc_affine p;
    if (!parameters_of(&p, k, id, &choice->range, st)) return false;
    return qc_graph_bind_quantizer(k->g, id, 1, &p.scale, &p.zero_point, st);
}

bool qc_chooser_new(struct qc_chooser **out, struct qc_graph *g, const struct qc_collection *seen, const char *source,
                    const struct qc_calibration_options *options, struct qc_status *st)
{
    struct qc_chooser *k = calloc(1, sizeof *k);
    if (!k) return qc_fail_memory(st, sizeof *k);
    *k = (struct qc_chooser){.c = calloc(1, sizeof *k->c), .g = g, .source = source, .seen = seen, .options = options};
    struct qc_arena *a = k->c ? k->c->arena = qc_arena_new() : NULL;
    bool ok = a || qc_fail_memory(st, sizeof *k->c);
    if (ok) k->c->qparams_count = g->qparams_count;
    if (ok && options->channels && !seen->channels)
        ok = qc_fail(st, QC_USAGE,
                     "%s: holds no statistics of channels, which --method output and --per-channel=activations need; "
                     "collect again with --channel-statistics on",
                     source);
    ok = ok && qc_uses_of(&k->uses, g, a, st) &&
         (k->c->choices = QC_NEW_ARRAY(a, struct qc_choice, g->qparams_count + 1, st)) &&
         (k->samples = QC_NEW_ARRAY(a, struct qc_quantizer_samples, g->qparams_count + 1, st)) &&
         (k->curves = QC_NEW_ARRAY(a, struct qc_curve, g->qparams_count + 1, st)) &&
         (k->outlines = QC_NEW_ARRAY(a, struct qc_outline, g->qparams_count + 1, st)) &&
         (k->histograms = QC_NEW_ARRAY(a, const struct qc_histogram *, g->qparams_count + 1, st)) &&
         (k->merged = QC_NEW_ARRAY(a, struct qc_histogram *, g->qparams_count + 1, st)) &&
         qc_scan_new(&k->scan, seen->need, st) && find_known(k, st) &&
         (k->weighted = QC_NEW_ARRAY(a, struct qc_histogram *, g->qparams_count + 1, st)) &&
         (k->channels = QC_NEW_ARRAY(a, struct seen_channels, g->qparams_count + 1, st)) &&
         (!options->activation->of_output || qc_channel_gains(&k->gains, g, a, st)) &&
         (!options->settings->look_through || look_through_functions(&k->looks, g, a, st));
    /* the quantizers of options->solved by the first value they observe */
    const struct qc_solved *from = &options->solved;
    const bool solved = from->calibration && from->seen == seen;
    for (qc_id o = 1; ok && solved && o <= from->graph->qparams_count; o++) {
        const struct qc_qparams *s = &from->graph->qparams_of[o];
        const char *name = s->observed_count ? name_of_quantizer(from->graph, s->observed[0]) : NULL;
        ok = !name || qc_index_add(&k->solved, qc_hash_text(name), o, st);
    }
    return QC_HAND_OVER(ok, out, k, qc_chooser_free);
}

void qc_chooser_free(struct qc_chooser *k)
{
    if (!k) return;
    for (size_t i = 0; k->merged && i <= k->g->qparams_count; i++) qc_histogram_free(k->merged[i]);
    for (size_t i = 0; k->weighted && i <= k->g->qparams_count; i++) qc_histogram_free(k->weighted[i]);
    for (size_t i = 0; k->channels && i <= k->g->qparams_count; i++) qc_channel_histogram_free(k->channels[i].seen);
    for (size_t i = 0; k->samples && i <= k->g->qparams_count; i++) qc_quantizer_samples_free(&k->samples[i]);
    qc_scan_free(k->scan);
    qc_index_free(&k->solved);
    qc_ready_weights_free(k->ready);
    qc_calibration_free(k->c);
    free(k);
}

bool qc_chooser_quantizer(struct qc_chooser *k, qc_id quantizer, struct qc_status *st)
{
    const double t0 = qc_seconds();
    const bool ok = qc_chooser_merge(k, quantizer, st) && solve_quantizer(k, quantizer - 1, 0, st) &&
                    bind_quantizer(k, quantizer, st);
    if (k->ready) qc_ready_weights_bound(k->ready, quantizer);
    qc_histogram_free(k->merged[quantizer]);
    qc_histogram_free(k->weighted[quantizer]);
    k->merged[quantizer] = k->weighted[quantizer] = NULL;
    k->histograms[quantizer] = NULL;
    qc_channel_histogram_free(k->channels[quantizer].seen);
    k->channels[quantizer].seen = NULL;
    k->seconds += qc_seconds() - t0;
    return ok;
}

bool qc_chooser_weights(struct qc_chooser *k, struct qc_status *st)
{
    const double t0 = qc_seconds();
    const bool ok = (k->ready || qc_ready_weights_new(&k->ready, k->c, k->g, k->options, st)) &&
                    qc_ready_weights_choose(k->ready, st);
    k->seconds += qc_seconds() - t0;
    return ok;
}

bool qc_chooser_finish(struct qc_calibration **out, struct qc_chooser *k, struct qc_status *st)
{
    const double t0 = qc_seconds();
    bool ok = qc_choose_weights(k->c, k->g, k->options, st);
    for (qc_id id = 1; ok && id <= k->g->qparams_count; id++) { /* nothing may stay in float silently */
        const struct qc_qparams *s = &k->g->qparams_of[id];
        if (s->kind == QC_QPARAMS_QUANTIZER && s->state == QC_QPARAMS_UNBOUND)
            ok = qc_fail(st, QC_BAD_INPUT,
                         "a pattern names tensor '%s', but no operator computes it; check the patterns of --rules",
                         s->name);
    }
    ok = ok && warn_found(k, st);
    if (ok) {
        k->c->solve_seconds = k->seconds + qc_seconds() - t0;
        *out = k->c;
        k->c = NULL;
    }
    qc_chooser_free(k);
    return ok;
}

bool qc_choose(struct qc_calibration **out, struct qc_graph *g, const struct qc_collection *seen, const char *source,
               const struct qc_calibration_options *options, struct qc_status *st)
{
    struct qc_chooser *k = NULL;
    struct qc_pool_options pool = {.workers = options->settings->workers ? options->settings->workers : 1};
    const double t0 = qc_seconds();
    if (!qc_chooser_new(&k, g, seen, source, options, st)) return false;
    bool ok = true;
    for (qc_id s = 1; ok && s <= g->qparams_count; s++) ok = qc_chooser_merge(k, s, st);
    ok = ok && qc_pool_run(g->qparams_count, solve_quantizer, k, &pool, st);
    for (qc_id s = 1; ok && s <= g->qparams_count; s++) ok = bind_quantizer(k, s, st);
    if (!ok) {
        qc_chooser_free(k);
        return false;
    }
    k->seconds = qc_seconds() - t0;
    return qc_chooser_finish(out, k, st);
}

void qc_calibration_free(struct qc_calibration *c)
{
    if (!c) return;
    qc_arena_free(c->arena);
    free(c);
}
