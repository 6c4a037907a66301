// SPDX-License-Identifier: Apache-2.0
/* The layers in the record. */
#include <inttypes.h>
#include <math.h>

#include "base/index.h"
#include "quantize/report/record.h"

enum { PARAMETERS_LISTED = 16384 }; /* of a layer with more scales, only their number, minimum and maximum */

/* Writes the number with a float's digits if it is a float. */
static struct qc_json *brief(double v)
{
    float f = (float)v;
    return isnormal(f) || v == 0 ? qc_json_float(f) : qc_json_number(v);
}

static struct qc_json *parameters(const struct qc_parameters *p, bool zero_point)
{
    if (p->axis < 0) return zero_point ? qc_json_integer(p->zero_point[0]) : qc_json_float(p->scale[0]);
    if (p->count > PARAMETERS_LISTED) {
        /* Embedding tables and large weights in blocks have millions of scales, which are in the model file. */
        double low = (double)INFINITY, high = -low;
        for (size_t i = 0; i < p->count; i++) {
            const double v = zero_point ? p->zero_point[i] : (double)p->scale[i];
            low = fmin(low, v);
            high = fmax(high, v);
        }
        struct qc_json *o = QC_JSON("count %zu", p->count);
        qc_json_set(o, "min", brief(low));
        qc_json_set(o, "max", brief(high));
        return o;
    }
    struct qc_json *a = qc_json_array();
    for (size_t i = 0; i < p->count; i++)
        qc_json_add(a, zero_point ? qc_json_integer(p->zero_point[i]) : qc_json_float(p->scale[i]));
    return a;
}

/* Returns how the range of an activation was found. Weights have a solution for each channel, so there is no single
   one. */
static struct qc_json *solver_json(const struct qc_choice *c, bool is_weight)
{
    const double none = (double)NAN;
    const struct qc_curve *curve = is_weight || !c->curve || !c->curve->count ? NULL : c->curve;
    struct qc_json *o = qc_json_object(), *points = curve ? qc_json_array() : qc_json_null(),
                   *refused = qc_json_array();
    qc_json_set(o, "known", QC_JSON("min %f max %f", is_weight ? none : c->known_lo, is_weight ? none : c->known_hi));
    qc_json_set(o, "behind", qc_json_string(is_weight ? NULL : c->behind));
    qc_json_set(o, "objective", brief(is_weight ? none : c->range.objective));
    qc_json_set(o, "objective_minmax", brief(is_weight ? none : c->range.objective_minmax));
    qc_json_set(o, "candidates",
                !is_weight && c->range.candidates ? qc_json_integer(c->range.candidates) : qc_json_null());
    for (size_t i = 0; curve && i < curve->count; i++) { /* thresholds and their objectives; null: not admitted */
        const struct qc_tried *t = &curve->points[i];
        const double threshold = fmax(-t->lo, t->hi);
        qc_json_add(points, qc_json_pair(brief(threshold), brief(t->objective)));
        if (isfinite(t->refused)) qc_json_add(refused, qc_json_pair(brief(threshold), brief(t->refused)));
    }
    qc_json_set(o, "curve", points);
    qc_json_set_some(o, "refused", refused);
    const bool has_other = curve && curve->has_runner_up;
    struct qc_json *other =
        has_other ? QC_JSON("min %f max %f", curve->runner_up.lo, curve->runner_up.hi) : qc_json_null();
    if (has_other) qc_json_set(other, "objective", brief(curve->runner_up.objective));
    qc_json_set(o, "runner_up", other);
    return o;
}

static struct qc_json *histogram(const struct qc_outline *h)
{
    if (!h) return qc_json_null();
    struct qc_json *o = qc_json_object(), *bars = qc_json_array();
    for (size_t i = 0; i < QC_OUTLINE_BARS; i++) qc_json_add(bars, qc_json_integer((int64_t)h->bars[i]));
    qc_json_put(o, "min %f max %f zeros %" PRIu64, h->lo, h->hi, h->zeros);
    qc_json_set(o, "counts", bars);
    return o;
}

/* Returns the ranges of a weight's channels: of neighbours together if there are more than CHANNELS_LISTED. */
static struct qc_json *channels(const struct qc_layer *l)
{
    enum { CHANNELS_LISTED = 256 };
    const size_t each = (l->channel_count + CHANNELS_LISTED - 1) / CHANNELS_LISTED;
    struct qc_json *o = QC_JSON("count %zu", l->channel_count), *low = qc_json_array(), *high = qc_json_array();
    for (size_t first = 0; first < l->channel_count; first += each) {
        float least = l->channel_low[first], most = l->channel_high[first];
        for (size_t k = first + 1; k < first + each && k < l->channel_count; k++) {
            least = fminf(least, l->channel_low[k]);
            most = fmaxf(most, l->channel_high[k]);
        }
        qc_json_add(low, qc_json_float(least));
        qc_json_add(high, qc_json_float(most));
    }
    qc_json_set(o, "min", low);
    qc_json_set(o, "max", high);
    return o;
}

static struct qc_json *positive(double v)
{
    return v > 0 ? qc_json_number(v) : qc_json_null();
}

static struct qc_json *layer(const struct qc_layer *l)
{
    const struct qc_choice *c = l->choice;
    const struct qc_tally *seen = &c->seen;
    const struct qc_error *e = l->error;
    const double none = (double)NAN;
    struct qc_json *o = QC_JSON("name %s op %s node %s kind %s type %s", l->name, l->op, l->node,
                                l->is_weight ? "weight" : "activation", qc_dtype_info(l->stored.dtype)->name);
    if (qc_layer_bits(l)) qc_json_put(o, "bits %u", qc_layer_bits(l));
    qc_json_set(o, "scale", parameters(&l->stored, false));
    qc_json_set(o, "zero_point", parameters(&l->stored, true));
    qc_json_set(o, "axis", l->stored.axis < 0 ? qc_json_null() : qc_json_integer(l->stored.axis));
    if (l->stored.block) qc_json_set(o, "block", qc_json_integer(l->stored.block));
    qc_json_put(o, "one_scale %s method %s", l->one_scale, c->method);
    const struct qc_report_trial *t = l->tried ? l->tried->trial : NULL;
    if (l->tried)
        qc_json_set(o, "choice",
                    QC_JSON("taken_for %s gain_db %g worth_db %g", l->tried->steps ? "steps" : "network",
                            t ? t->gain_db : none, t ? t->worth_db : none));
    qc_json_set(o, "observed",
                QC_JSON("min %f max %f count %" PRIu64 " nan %" PRIu64 " inf %" PRIu64, (double)seen->min,
                        (double)seen->max, seen->count, seen->nan, seen->pos_inf + seen->neg_inf));
    qc_json_set(o, "chosen", QC_JSON("min %g max %g", c->range.lo, c->range.hi));
    qc_json_put(o, "clipped_fraction %g", c->range.clipped_fraction);
    qc_json_set(o, "solver", solver_json(c, l->is_weight));
    qc_json_put(o, "sqnr_db %g sqnr_alone_db %g cosine %g max_abs %g saturated_fraction %g", l->sqnr_db, l->alone_db,
                e ? qc_error_cosine(e) : none, e ? e->max_abs : none,
                e ? (double)e->saturated / (double)e->count : none);
    const struct qc_rounded_weights *w = l->rounding;
    /* Null for activations and other constants. Errors are known if the moments rounded the weights. */
    struct qc_json *rounding =
        w ? QC_JSON("method %s reason %s", w->compensated ? "compensated" : "nearest", w->reason) : qc_json_null();
    if (w) {
        qc_json_set(rounding, "judged_on", w->reason ? qc_json_null() : qc_json_string(w->held ? "held back" : "all"));
        qc_json_put(rounding, "error_nearest %g error %g outputs %zu outputs_nearest %zu blocks %zu",
                    w->reason ? none : w->error_nearest, w->reason ? none : w->error, w->outputs, w->nearest,
                    w->blocks);
    }
    qc_json_set(o, "weight_rounding", rounding);
    qc_json_set(o, "bias_correction",
                w && w->bias_corrected ? QC_JSON("rms %g max %g", w->bias_rms, w->bias_max) : qc_json_null());
    qc_json_set(o, "accumulator_bits", positive(l->accumulator_bits));
    qc_json_set(o, "accumulator_bits_seen", positive(l->accumulator_bits_seen));
    qc_json_put(o, "lost_fraction %g", l->lost_fraction);
    qc_json_set(o, "histogram", histogram(l->histogram));
    const bool fitted = l->is_weight && c->raise_max > 0;
    qc_json_set(o, "scales_raised", fitted ? qc_json_whole(c->raised) : qc_json_null());
    qc_json_set(o, "scale_raise_max", fitted ? qc_json_number(c->raise_max) : qc_json_null());
    qc_json_put(o, "clipping_share %g in_body %hhd", l->clipping_share, l->in_body);
    if (l->accumulator_of) qc_json_set(o, "accumulator_of", qc_json_string(l->accumulator_of));
    if (l->channel_count > 1) qc_json_set(o, "channels", channels(l));
    return o;
}

/* Numbers, from 1 on, of a layer's rank, effect and overflows by name. */
struct names {
    struct qc_texts ranks, effects, overflows;
};

static size_t number_of(const struct qc_texts *t, const char *name)
{
    return name && *name ? qc_texts_find(t, name) : 0;
}

bool qc_record_layers(struct qc_report *r, const struct qc_network *net, const struct qc_overflows *overflows,
                      struct qc_status *st)
{
    const struct qc_json *ranks = qc_json_get(r->record, "ranking"), *effects = qc_json_get(r->record, "sensitivity");
    struct names names;
    names = (struct names){.ranks = {.count = 0}};
    for (size_t i = qc_json_size(ranks); i-- > 0;)
        if (!qc_texts_set(&names.ranks, qc_json_find_text(qc_json_at(ranks, i), "node"), i + 1, net->arena, st))
            return false;
    for (size_t i = qc_json_size(effects); i-- > 0;)
        if (!qc_texts_set(&names.effects, qc_json_find_text(qc_json_at(effects, i), "node"), i + 1, net->arena, st))
            return false;
    for (size_t i = overflows ? overflows->count : 0; i-- > 0;)
        if (!qc_texts_set(&names.overflows, overflows->layers[i].name, i + 1, net->arena, st)) return false;
    struct qc_json *list = qc_json_array();
    for (size_t i = 0; i < r->layer_count; i++) {
        const struct qc_layer *l = &r->layers[i];
        struct qc_json *o = layer(l);
        const size_t rank = number_of(&names.ranks, l->node), effect = number_of(&names.effects, l->node),
                     overflow = number_of(&names.overflows, l->accumulator_of);
        qc_json_put(o, "output_sqnr_db %g",
                    rank ? qc_json_find_number(qc_json_at(ranks, rank - 1), "output_sqnr_db") : (double)NAN);
        const struct qc_json *e = effect ? qc_json_at(effects, effect - 1) : NULL;
        if (e)
            qc_json_put(o, "isolated_sqnr_db %g isolated_value %g isolated_drop %g", qc_json_find_number(e, "sqnr_db"),
                        qc_json_find_number(e, "value"), qc_json_find_number(e, "drop"));
        qc_json_put(o, "accumulator_overflows %g",
                    !overflows || !l->accumulator_of || l->in_body ? (double)NAN
                    : !overflow                                    ? 0
                                : (double)overflows->layers[overflow - 1].sums.overflows);
        qc_json_add(list, o);
    }
    qc_json_set(r->record, "layers", list);
    return true;
}
