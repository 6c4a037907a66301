// SPDX-License-Identifier: Apache-2.0
/* The layers of a finished network: their parameters, errors, histograms and channels. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "arith/float_level.h"
#include "base/pool.h"
#include "base/simd.h"
#include "graph/core/uses.h"
#include "quantize/make/bodies.h"
#include "quantize/report/record.h"

size_t qc_layer_of(const struct qc_report *r, const struct qc_graph *g, qc_id qparams)
{
    const size_t number = qparams ? qc_texts_find(&r->layers_by_name, g->qparams_of[qparams].name) : 0;
    return number ? number - 1 : QC_NO_INDEX;
}

enum { PARAMETERS_LISTED = 16384 }; /* of a layer with more scales, only their number, minimum and maximum */

/* Writes the number with a float's digits if it is a float. */
static struct qc_json *brief(double v)
{
    float f = (float)v;
    return isnormal(f) || v == 0 ? qc_json_float(f) : qc_json_number(v);
}

/* Embedding tables and large weights in blocks have millions of scales, which are in the model file. */
static struct qc_json *parameter_extent(const struct qc_parameters *p, bool zero_point)
{
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

struct qc_json *qc_parameters_json(const struct qc_parameters *p, bool zero_point)
{
    if (p->axis < 0) return zero_point ? qc_json_integer(p->zero_point[0]) : qc_json_float(p->scale[0]);
    if (p->count > PARAMETERS_LISTED) return parameter_extent(p, zero_point);
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

/* Returns null for activations and other constants. Errors are known if the moments rounded the weights. */
static struct qc_json *rounding_json(const struct qc_rounded_weights *r)
{
    if (!r) return qc_json_null();
    struct qc_json *o = QC_JSON("method %s reason %s", r->compensated ? "compensated" : "nearest", r->reason);
    qc_json_set(o, "judged_on", r->reason ? qc_json_null() : qc_json_string(r->held ? "held back" : "all"));
    return qc_json_put(o, "error_nearest %g error %g outputs %zu outputs_nearest %zu blocks %zu",
                       r->reason ? (double)NAN : r->error_nearest, r->reason ? (double)NAN : r->error, r->outputs,
                       r->nearest, r->blocks);
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

/* ---- The loss of a weight ---- */

struct channels {
    size_t count, inner; /* channels; elements after the channel axis */
    float *low, *high;
};

/* The loss of TERMS numbers. */
enum { TERMS = 256 };
struct terms {
    double scale[TERMS], zero[TERMS], level[TERMS];
    double signal[TERMS], rounding[TERMS], clipping[TERMS];
    double there[TERMS], gone[TERMS]; /* 1 or 0: the number is not 0; it is not 0 but stored as 0 */
};

/* Sets the loss of number i. wanted: its level without limits; it is clipped if that is outside of lo and hi. */
static QC_INLINE void set_term(struct terms *restrict t, size_t i, float x, double wanted, double lo, double hi)
{
    const bool clips = wanted < lo || wanted > hi;
    const double v = (double)x, off = v - t->scale[i] * (t->level[i] - t->zero[i]), square = off * off;
    t->signal[i] = v * v;
    t->rounding[i] = clips ? 0 : square;
    t->clipping[i] = clips ? square : 0;
    t->there[i] = x != 0 ? 1 : 0;
    t->gone[i] = t->level[i] == t->zero[i] ? t->there[i] : 0;
}

static QC_INLINE void find_terms_body(struct terms *restrict t, const float *restrict x, size_t n, double lo, double hi)
{
    for (size_t i = 0; i < n; i++)
        set_term(t, i, x[i], __builtin_nearbyint((double)x[i] / t->scale[i]) + t->zero[i], lo, hi);
}
QC_SIMD(find_terms, (struct terms * t, const float *x, size_t n, double lo, double hi), (t, x, n, lo, hi))

static void find_terms_of_floats(struct terms *t, const float *x, size_t n, struct qc_levels levels, double lo,
                                 double hi)
{
    for (size_t i = 0; i < n; i++)
        set_term(t, i, x[i],
                 qc_float_level_double((double)x[i] / t->scale[i], -DBL_MAX, DBL_MAX, levels.mantissa, levels.least),
                 lo, hi);
}

/* Returns the number of elements from i on whose scales are *first, *first + *step and so on. */
static size_t run_of_scales(size_t *first, size_t *step, const struct qc_scale_layout *l, size_t i)
{
    *first = qc_scale_at(l, i);
    *step = l->count > 1 && (l->inner > 1) == (l->block > 0);
    if (l->count == 1) return SIZE_MAX;
    if (l->inner > 1) return l->inner - i % l->inner;
    const size_t at = i % l->size, left = l->size - at, in_block = l->block ? l->block - at % l->block : left;
    return in_block < left ? in_block : left;
}

/* Loads the levels, scales and zero points of n elements from i on. */
static void load_terms(struct terms *t, const struct qc_tensor *stored, const struct qc_qparams *s,
                       const struct qc_scale_layout *l, size_t i, size_t n)
{
    int32_t level[TERMS];
    if (stored->dtype != QC_F32) qc_tensor_ints(level, stored, i, n);
    for (size_t k = 0; k < n; k++)
        t->level[k] = stored->dtype == QC_F32 ? (double)((const float *)stored->data)[i + k] : level[k];
    for (size_t k = 0, left, q, step; k < n; k += left) {
        left = run_of_scales(&q, &step, l, i + k);
        if (left > n - k) left = n - k;
        for (size_t j = 0; j < left; j++, q += step) {
            t->scale[k + j] = (double)s->scale[q];
            t->zero[k + j] = s->zero_point[q];
        }
    }
}

/* Computes the extremes of each channel and the exact loss of t. chosen: the integers were chosen by the moments, so
   none counts as clipped. Sums are in the order of the elements, so they do not depend on TERMS. */
static void scan(const struct channels *c, struct qc_loss *loss, const struct qc_tensor *t,
                 const struct qc_tensor *stored, bool chosen, const struct qc_qparams *s, int axis)
{
    const float *x = t->data;
    const struct qc_scale_layout layout = qc_scale_layout_of(s, &t->shape, axis);
    const struct qc_levels levels = qc_qparams_levels(s);
    const double lo = chosen ? -DBL_MAX : levels.lo, hi = chosen ? DBL_MAX : levels.hi;
    double lost = 0, count = 0;
    struct terms terms;
    for (size_t i = 0, k = 0, in = 0, n; i < t->count; i += n) { /* element i has index `in` within channel k */
        n = t->count - i < TERMS ? t->count - i : TERMS;
        load_terms(&terms, stored, s, &layout, i, n);
        if (levels.mantissa)
            find_terms_of_floats(&terms, x + i, n, levels, lo, hi);
        else
            find_terms(&terms, x + i, n, lo, hi);
        for (size_t j = 0; j < n; j++) {
            const float v = x[i + j];
            loss->signal += terms.signal[j];
            loss->rounding += terms.rounding[j];
            loss->clipping += terms.clipping[j];
            count += terms.there[j];
            lost += terms.gone[j];
            c->low[k] = v < c->low[k] ? v : c->low[k];
            c->high[k] = v > c->high[k] ? v : c->high[k];
            if (++in < c->inner) continue;
            in = 0;
            k = k + 1 < c->count ? k + 1 : 0;
        }
    }
    loss->lost = count > 0 ? lost / count : 0;
}

void qc_weight_loss(struct qc_loss *out, const struct qc_tensor *t, const struct qc_tensor *stored,
                    const struct qc_qparams *s, int axis)
{
    float low = FLT_MAX, high = -FLT_MAX;
    const struct channels all = {.count = 1, .inner = t->count, .low = &low, .high = &high};
    *out = (struct qc_loss){0};
    scan(&all, out, t, stored, false, s, axis);
}

/* Returns the ranges of a weight's channels: of neighbours together if there are more than CHANNELS_LISTED. */
static struct qc_json *channels_json(const struct channels *c)
{
    enum { CHANNELS_LISTED = 256 };
    const size_t each = (c->count + CHANNELS_LISTED - 1) / CHANNELS_LISTED;
    struct qc_json *o = QC_JSON("count %zu", c->count), *low = qc_json_array(), *high = qc_json_array();
    for (size_t first = 0; first < c->count; first += each) {
        float least = c->low[first], most = c->high[first];
        for (size_t k = first + 1; k < first + each && k < c->count; k++) {
            least = fminf(least, c->low[k]);
            most = fmaxf(most, c->high[k]);
        }
        qc_json_add(low, qc_json_float(least));
        qc_json_add(high, qc_json_float(most));
    }
    qc_json_set(o, "min", low);
    qc_json_set(o, "max", high);
    return o;
}

/* ---- One layer ---- */

static const char *one_scale(const struct qc_network *net, const char *quantizer)
{
    const qc_id v = qc_graph_find_value(net->joined, quantizer);
    return v ? net->partition->one_scale[net->partition->class_of[v]] : NULL;
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

/* The layers of a network, while they are found. */
struct filling {
    struct qc_report *r;
    const struct qc_network *net;
    const char *in; /* what names begin with: the body of If, Loop or Scan and a slash, or "" */
    struct lookup u;
    struct weight_look *looks; /* [qparams_count of net->folded] */
    size_t count;
    struct qc_layer *layers; /* the next `count` layers */
    bool *done;              /* [qparams_count + 1] */
};

/* Adds a layer with what is known of its value of graph g. node: the operator that computes it, or reads a weight; 0: a
   graph input. w: NULL for activations. Returns NULL if memory is out. */
static struct qc_layer *add_layer(struct filling *f, const struct qc_graph *g, qc_id value, qc_id node, bool is_weight,
                                  const struct qc_rounded_weights *w, struct qc_status *st)
{
    const struct qc_network *net = f->net;
    const double none = (double)NAN;
    struct qc_layer *l = &f->layers[f->count];
    *l = (struct qc_layer){.stored = qc_value_parameters(g, value),
                           .is_weight = is_weight,
                           .sqnr_db = none,
                           .alone_db = none};
    const struct qc_parameters *p = &l->stored;
    const struct qc_choice *c = &net->calibration->choices[p->qparams];
    const struct qc_report_choice *tried =
        net->auto_method && net->auto_method->methods[p->qparams] ? &net->auto_method->choices[p->qparams] : NULL;
    const struct qc_report_trial *t = tried ? tried->trial : NULL;
    const struct qc_dtype_info *type = qc_dtype_info(p->dtype);
    const unsigned bits = (unsigned)ceil(log2((double)p->levels.hi - (double)p->levels.lo + 1));
    const bool fitted = is_weight && c->raise_max > 0;
    l->name = qc_arena_printf(net->arena, st, "%s%s", f->in, p->quantizer);
    if (node && (l->node = qc_node_name(g, &g->nodes[node], net->arena, st)))
        l->node = qc_arena_printf(net->arena, st, "%s%s", f->in, l->node);
    if (st->code != QC_OK) return NULL;
    struct qc_json *o = QC_JSON("name %s op %s node %s kind %s type %s", l->name,
                                node        ? qc_op_info(g->nodes[node].op)->name
                                : is_weight ? "Constant"
                                            : "Input",
                                l->node, is_weight ? "weight" : "activation", type->name);
    if (!type->is_float && !p->levels.mantissa && bits < type->bits) qc_json_put(o, "bits %u", bits);
    qc_json_set(o, "scale", qc_parameters_json(p, false));
    qc_json_set(o, "zero_point", qc_parameters_json(p, true));
    qc_json_set(o, "axis", p->axis < 0 ? qc_json_null() : qc_json_integer(p->axis));
    if (p->block) qc_json_set(o, "block", qc_json_integer(p->block));
    qc_json_put(o, "one_scale %s method %s", is_weight ? NULL : one_scale(net, p->quantizer), c->method);
    if (tried)
        qc_json_set(o, "choice",
                    QC_JSON("taken_for %s gain_db %g worth_db %g", tried->steps ? "steps" : "network",
                            t ? t->gain_db : none, t ? t->worth_db : none));
    qc_json_set(o, "observed",
                QC_JSON("min %f max %f count %" PRIu64 " nan %" PRIu64 " inf %" PRIu64, (double)c->seen.min,
                        (double)c->seen.max, c->seen.count, c->seen.nan, c->seen.pos_inf + c->seen.neg_inf));
    qc_json_set(o, "chosen", QC_JSON("min %g max %g", c->range.lo, c->range.hi));
    qc_json_put(o, "clipped_fraction %g", c->range.clipped_fraction);
    qc_json_set(o, "solver", solver_json(c, is_weight));
    qc_json_put(o, "sqnr_db %g sqnr_alone_db %g cosine %g max_abs %g saturated_fraction %g", none, none, none, none,
                none);
    qc_json_set(o, "weight_rounding", rounding_json(w));
    qc_json_set(o, "bias_correction",
                w && w->bias_corrected ? QC_JSON("rms %g max %g", w->bias_rms, w->bias_max) : qc_json_null());
    qc_json_put(o, "accumulator_bits %g accumulator_bits_seen %g lost_fraction %g", none, none, none);
    qc_json_set(o, "histogram", qc_json_null());
    qc_json_set(o, "scales_raised", fitted ? qc_json_whole(c->raised) : qc_json_null());
    qc_json_set(o, "scale_raise_max", fitted ? qc_json_number(c->raise_max) : qc_json_null());
    qc_json_put(o, "clipping_share %g in_body %hhd", none, (bool)(*f->in != '\0'));
    qc_json_add(f->r->list, l->record = o);
    f->count++;
    if (qc_json_size(f->r->list) == f->r->layer_count + f->count) return l;
    qc_fail_memory(st, 1);
    return NULL;
}

/* Puts in the noise of rounding this value alone, with exact values before it. */
static void put_alone(struct qc_layer *l, double db, double clipping_share, double lost)
{
    l->alone_db = db;
    qc_json_put(l->record, "sqnr_alone_db %g clipping_share %g lost_fraction %g", db, clipping_share, lost);
}

static void put_loss(struct qc_layer *l, const struct qc_loss *loss)
{
    const double noise = loss->rounding + loss->clipping;
    put_alone(l, qc_loss_db(loss), noise > 0 ? loss->clipping / noise : 0, loss->lost);
}

static bool fill_activation(struct filling *f, const struct qc_measurement *m, qc_id quantizer, qc_id stored,
                            struct qc_status *st)
{
    const struct qc_graph *g = f->net->folded;
    const struct qc_choice *c = &f->net->calibration->choices[quantizer];
    const struct qc_error *e = m && m->quantizers[quantizer].count ? &m->quantizers[quantizer] : NULL;
    const qc_id made = qc_maker(g, stored);
    struct qc_layer *l = add_layer(f, g, stored, made, false, NULL, st);
    unsigned bits = 0;
    if (!l || (made && !qc_accumulator_bits(&bits, g, made, st))) return false;
    if (c->outline) {
        put_loss(l, &c->loss);
        qc_json_set(l->record, "histogram", histogram(c->outline));
    } else if (e && e->signal > 0) { /* assume no clipping, and a rounding error of scale^2 / 12 for each value */
        double noise = 0;
        for (size_t k = 0; k < l->stored.count; k++) {
            const double scale = (double)l->stored.scale[k];
            noise += scale * scale / 12 * (double)e->count / (double)l->stored.count;
        }
        put_alone(l, 10 * log10(e->signal / noise), 0, (double)NAN);
    }
    if (bits) qc_json_put(l->record, "accumulator_bits %u accumulator_of %s", bits, l->node);
    if (!e) return true;
    l->sqnr_db = qc_error_sqnr_db(e);
    qc_json_put(l->record, "sqnr_db %g cosine %g max_abs %g saturated_fraction %g", l->sqnr_db, qc_error_cosine(e),
                e->max_abs, (double)e->saturated / (double)e->count);
    const struct qc_layer_overflow *of = made ? qc_overflow_of(&m->overflows, made) : NULL;
    const double most = of || !bits ? 0 : m->accumulator_max[g->values[g->nodes[made].outputs].type.qparams];
    const unsigned seen = of ? of->bits : most > 0 ? qc_bits_for(most) : 0;
    if (seen) qc_json_put(l->record, "accumulator_bits_seen %u", seen);
    return true;
}

/* A weight to scan: all are scanned in parallel. */
struct weight_look {
    struct qc_layer *layer; /* NULL: nothing to scan */
    const struct qc_tensor *was, *stored;
    bool chosen; /* the integers were chosen by the moments */
    const struct qc_qparams *qparams;
    int axis;
    struct channels channels;
    struct qc_loss loss;
    struct qc_outline outline;
};

static bool look_at(void *user, size_t item, unsigned worker, struct qc_status *st)
{
    struct weight_look *w = &((struct weight_look *)user)[item];
    struct qc_scan *s = NULL;
    struct qc_histogram *h = NULL;
    if (!w->layer) return true;
    for (size_t k = 0; k < w->channels.count; k++) {
        w->channels.low[k] = FLT_MAX;
        w->channels.high[k] = -FLT_MAX;
    }
    scan(&w->channels, &w->loss, w->was, w->stored, w->chosen, w->qparams, w->axis);
    const bool ok = qc_scan_new(&s, QC_NEED_HISTOGRAM, st) && qc_histogram_new(&h, QC_NEED_HISTOGRAM, st) &&
                    qc_scan_values(s, w->was->data, w->was->count, st) && qc_histogram_add_scan(h, s, st) &&
                    qc_outline_of(&w->outline, h, st);
    qc_histogram_free(h);
    qc_scan_free(s);
    return ok;
}

/* Returns the numbers that these integers were rounded from; NULL if there are none. */
static const struct qc_tensor *before_rounding(const struct qc_network *net, const struct qc_stored_values *simulated,
                                               qc_id quantizer, const struct qc_tensor *t)
{
    const struct qc_graph *g = net->simulated;
    if (quantizer > g->qparams_count) return NULL;
    for (size_t i = simulated->first[quantizer]; i < simulated->first[quantizer + 1]; i++) {
        const qc_id from = qc_quantized_constant(g, simulated->value[i]);
        const struct qc_tensor *was = from ? qc_constant_of(g, from) : NULL;
        if (was && was->dtype == QC_F32 && was->count == t->count) return was;
    }
    return NULL;
}

/* Returns the node that computes with a constant: the first reader behind conversions and moves of its elements. */
static qc_id computes_with(const struct qc_uses *uses, qc_id value)
{
    const struct qc_graph *g = uses->graph;
    for (struct qc_use_list readers; (readers = qc_readers(uses, value)).count;
         value = g->nodes[readers.of[0].node].outputs) {
        const struct qc_node *n = &g->nodes[readers.of[0].node];
        bool only = true; /* the other inputs are constants */
        for (unsigned i = 0; i < n->input_count; i++)
            only = only && (n->inputs[i] == value || !n->inputs[i] || qc_constant_of(g, n->inputs[i]));
        const bool moves = only && qc_node_affine(n) == QC_AFFINE_KEEP && qc_readers(uses, n->outputs).count;
        if (n->op != QC_OP_Dequantize && !moves) return readers.of[0].node;
    }
    return 0;
}

/* uses: of net->folded; for products that quantize their input at run time, of the graph before they were made. */
static bool fill_weight(struct filling *f, const struct qc_uses *uses, qc_id value, struct qc_status *st)
{
    const struct qc_network *net = f->net;
    const struct qc_graph *g = uses->graph;
    const struct qc_type *type = &g->values[value].type;
    const qc_id quantizer = type->qparams;
    const size_t rounded = quantizer <= net->simulated->qparams_count ? f->u.rounded[quantizer] : 0;
    const struct qc_rounded_weights *w = rounded ? &net->weight_rounding->layers[rounded - 1] : NULL;
    struct weight_look *look = &f->looks[f->count];
    struct qc_layer *l = add_layer(f, g, value, computes_with(uses, value), true, w, st);
    if (!l) return false;
    const struct qc_tensor *own = qc_constant_of(g, value), *stored = own ? own : f->u.stored[quantizer],
                           *t = stored ? before_rounding(net, &f->u.simulated, quantizer, stored) : NULL;
    if (!t || !t->count) return true;
    struct channels c = {.count = 1, .inner = 1};
    /* Blocks are along the first axis, before that of the outputs, or along the last one of more than one element,
       after those of the outputs. */
    const bool block = g->qparams_of[quantizer].block > 0;
    const bool last = block && type->axis > 0;
    const int axis = block ? (last ? type->axis - 1 : 1) : type->axis;
    if (axis >= 0 && axis < t->shape.rank) c.count = (size_t)t->shape.dim[axis];
    for (int i = axis + 1; i > 0 && i < t->shape.rank; i++) c.inner *= (size_t)t->shape.dim[i];
    for (int i = 0; last && i < axis; i++) c.count *= (size_t)t->shape.dim[i];
    l->channel_count = c.count;
    l->channel_low = c.low = QC_NEW_ARRAY(net->arena, float, c.count, st);
    l->channel_high = c.high = QC_NEW_ARRAY(net->arena, float, c.count, st);
    *look = (struct weight_look){.layer = l,
                                 .was = t,
                                 .stored = stored,
                                 .chosen = w && !w->reason,
                                 .qparams = &g->qparams_of[quantizer],
                                 .axis = type->axis,
                                 .channels = c};
    return c.low && c.high;
}

/* Adds weights whose integers are constants of net->folded. */
static bool fill_dynamic(struct filling *f, struct qc_status *st)
{
    const struct qc_graph *g = qc_network_with_bodies(f->net);
    struct qc_uses uses;
    if (!f->net->dynamic) return true;
    if (!qc_uses_of(&uses, g, f->net->arena, st)) return false;
    for (qc_id v = 1; v <= g->value_count; v++) {
        const qc_id s = g->values[v].type.qparams;
        if (s == QC_REAL || !qc_constant_of(g, v) || f->done[s]) continue;
        f->done[s] = true;
        if (!fill_weight(f, &uses, v, st)) return false;
    }
    return true;
}

/* Adds the layers of a network in its order, then those of its bodies. */
static bool fill_layers(struct qc_report *r, const struct qc_network *net, const struct qc_measurement *m,
                        const char *in, struct qc_status *st)
{
    const struct qc_graph *g = net->folded;
    const size_t most = g->qparams_count;
    struct qc_layer *layers = QC_NEW_ARRAY(net->arena, struct qc_layer, r->layer_count + most, st);
    struct filling f = {.r = r,
                        .net = net,
                        .in = in,
                        .looks = QC_NEW_ARRAY(net->arena, struct weight_look, most, st),
                        .done = QC_NEW_ARRAY(net->arena, bool, most + 1, st)};
    const unsigned threads = (unsigned)net->scheme.options->threads;
    const struct qc_pool_options pool = {.workers = threads ? threads : 1};
    struct qc_uses uses;
    if (!layers || !f.looks || !f.done || !qc_uses_of(&uses, g, net->arena, st) || !look_up(&f.u, net, st))
        return false;
    if (r->layer_count) memcpy(layers, r->layers, r->layer_count * sizeof *layers);
    f.layers = layers + r->layer_count;
    for (qc_id v = 1; v <= g->value_count; v++) {
        qc_id s = g->values[v].type.qparams;
        if (!s || f.done[s] || g->qparams_of[s].kind != QC_QPARAMS_QUANTIZER || !net->calibration->choices[s].chosen)
            continue;
        f.done[s] = true;
        if (!(qc_quantized_constant(g, v) ? fill_weight(&f, &uses, v, st) : fill_activation(&f, m, s, v, st)))
            return false;
    }
    if (!fill_dynamic(&f, st) || !qc_pool_run(f.count, look_at, f.looks, &pool, st)) return false;
    for (size_t i = 0; i < f.count; i++) {
        struct weight_look *w = &f.looks[i];
        if (!w->layer) continue;
        put_loss(w->layer, &w->loss);
        qc_json_set(w->layer->record, "histogram", histogram(&w->outline));
        if (w->channels.count > 1) qc_json_set(w->layer->record, "channels", channels_json(&w->channels));
    }
    r->layers = layers;
    r->layer_count += f.count;
    return true;
}

bool qc_fill_layers(struct qc_report *r, const struct qc_network *net, const struct qc_measurement *m,
                    struct qc_status *st)
{
    qc_json_set(r->record, "layers", r->list = qc_json_array());
    if (!fill_layers(r, net, m, "", st)) return false;
    for (size_t i = r->layer_count; i-- > 0;)
        if (!qc_texts_set(&r->layers_by_name, r->layers[i].name, i + 1, net->arena, st)) return false;
    return true;
}

bool qc_body_layers(struct qc_report *r, const struct qc_network *net, const char *in, struct qc_status *st)
{
    const struct qc_body_set *set = net->bodies;
    for (size_t i = 0; set && i < set->count; i++) {
        const struct qc_body *b = &set->of[i];
        const char *inside = b->network ? qc_arena_printf(net->arena, st, "%s%s/", in, b->name) : NULL;
        if (b->network && (!inside || !fill_layers(r, b->network, b->measurement, inside, st) ||
                           !qc_body_layers(r, b->network, inside, st)))
            return false;
    }
    return true;
}

/* Numbers, from 1 on, of a layer's rank, effect and overflows by name. */
struct names {
    struct qc_texts ranks, effects, overflows;
};

static bool names_of(struct names *out, const struct qc_json *ranks, const struct qc_json *effects,
                     const struct qc_overflows *overflows, struct qc_arena *a, struct qc_status *st)
{
    *out = (struct names){.ranks = {.count = 0}};
    for (size_t i = qc_json_size(ranks); i-- > 0;)
        if (!qc_texts_set(&out->ranks, qc_json_find_text(qc_json_at(ranks, i), "node"), i + 1, a, st)) return false;
    for (size_t i = qc_json_size(effects); i-- > 0;)
        if (!qc_texts_set(&out->effects, qc_json_find_text(qc_json_at(effects, i), "node"), i + 1, a, st)) return false;
    for (size_t i = overflows ? overflows->count : 0; i-- > 0;)
        if (!qc_texts_set(&out->overflows, overflows->layers[i].name, i + 1, a, st)) return false;
    return true;
}

static size_t number_of(const struct qc_texts *t, const char *name)
{
    return name && *name ? qc_texts_find(t, name) : 0;
}

bool qc_record_layers(struct qc_report *r, const struct qc_network *net, const struct qc_overflows *overflows,
                      struct qc_status *st)
{
    const struct qc_json *ranks = qc_json_get(r->record, "ranking"), *effects = qc_json_get(r->record, "sensitivity");
    struct names names;
    if (!names_of(&names, ranks, effects, overflows, net->arena, st)) return false;
    for (size_t i = 0; i < r->layer_count; i++) {
        const struct qc_layer *l = &r->layers[i];
        struct qc_json *o = l->record;
        const char *sums = qc_json_find_text(o, "accumulator_of");
        const size_t rank = number_of(&names.ranks, l->node), effect = number_of(&names.effects, l->node),
                     overflow = number_of(&names.overflows, sums);
        qc_json_put(o, "output_sqnr_db %g",
                    rank ? qc_json_find_number(qc_json_at(ranks, rank - 1), "output_sqnr_db") : (double)NAN);
        const struct qc_json *e = effect ? qc_json_at(effects, effect - 1) : NULL;
        if (e)
            qc_json_put(o, "isolated_sqnr_db %g isolated_value %g isolated_drop %g", qc_json_find_number(e, "sqnr_db"),
                        qc_json_find_number(e, "value"), qc_json_find_number(e, "drop"));
        qc_json_put(o, "accumulator_overflows %g",
                    !overflows || !sums || qc_json_value(qc_json_get(o, "in_body")) != 0 ? (double)NAN
                    : !overflow                                                          ? 0
                                : (double)overflows->layers[overflow - 1].sums.overflows);
    }
    return true;
}
