// SPDX-License-Identifier: Apache-2.0
/* The layers of a finished network: their parameters, errors, histograms and channels. */
#include "quantize/report/record.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "arith/float_level.h"
#include "base/pool.h"
#include "base/simd.h"
#include "graph/core/uses.h"
#include "quantize/make/bodies.h"

static bool index_layers(struct qc_report *r, struct qc_arena *a, struct qc_status *st)
{
    r->layers_by_name = (struct qc_texts){.count = 0};
    for (size_t i = r->layer_count; i-- > 0;)
        if (!qc_texts_set(&r->layers_by_name, r->layers[i].name, i + 1, a, st)) return false;
    return true;
}

size_t qc_layer_of(const struct qc_report *r, const struct qc_graph *g, qc_id qparams)
{
    const size_t number = qparams ? qc_texts_find(&r->layers_by_name, g->qparams_of[qparams].name) : 0;
    return number ? number - 1 : QC_NO_INDEX;
}

unsigned qc_layer_bits(const struct qc_layer *l)
{
    const struct qc_dtype_info *type = qc_dtype_info(l->stored.dtype);
    const struct qc_levels levels = l->stored.levels;
    const unsigned bits = (unsigned)ceil(log2((double)levels.hi - (double)levels.lo + 1));
    return type->is_float || levels.mantissa || bits >= type->bits ? 0 : bits;
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

QC_VECTOR(find_terms, (struct terms *restrict t, const float *restrict x, size_t n, double lo, double hi),
          (t, x, n, lo, hi))
{
    for (size_t i = 0; i < n; i++)
        set_term(t, i, x[i], __builtin_nearbyint((double)x[i] / t->scale[i]) + t->zero[i], lo, hi);
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
        if (levels.mantissa) {
            for (size_t j = 0; j < n; j++)
                set_term(&terms, j, x[i + j],
                         qc_float_level_double((double)x[i + j] / terms.scale[j], -DBL_MAX, DBL_MAX, levels.mantissa,
                                               levels.least),
                         lo, hi);
        } else {
            find_terms(&terms, x + i, n, lo, hi);
        }
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

/* ---- One layer ---- */

static void take_loss(struct qc_layer *l, const struct qc_loss *loss)
{
    double noise = loss->rounding + loss->clipping;
    l->alone_db = qc_loss_db(loss);
    l->clipping_share = noise > 0 ? loss->clipping / noise : 0;
    l->lost_fraction = loss->lost;
}

static void fill_parameters(struct qc_layer *l, const struct qc_network *net, const struct qc_graph *g, qc_id value)
{
    l->stored = qc_value_parameters(g, value);
    l->name = l->stored.quantizer;
    l->choice = &net->calibration->choices[l->stored.qparams];
    if (net->auto_method && net->auto_method->methods[l->stored.qparams])
        l->tried = &net->auto_method->choices[l->stored.qparams];
    l->sqnr_db = l->alone_db = l->clipping_share = l->lost_fraction = (double)NAN;
}

static bool fill_activation(struct qc_layer *l, const struct qc_network *net, const struct qc_measurement *m,
                            qc_id quantizer, qc_id stored, struct qc_status *st)
{
    const struct qc_graph *g = net->folded;
    const struct qc_choice *c = &net->calibration->choices[quantizer];
    const struct qc_error *e = m && m->quantizers[quantizer].count ? &m->quantizers[quantizer] : NULL;
    const qc_id made = qc_maker(g, stored);
    fill_parameters(l, net, g, stored);
    const qc_id v = qc_graph_find_value(net->joined, l->name);
    l->one_scale = v ? net->partition->one_scale[net->partition->class_of[v]] : NULL;
    l->op = made ? qc_op_info(g->nodes[made].op)->name : "Input";
    if (made && !(l->node = qc_node_name(g, &g->nodes[made], net->arena, st))) return false;
    l->histogram = c->outline;
    if (c->outline) {
        take_loss(l, &c->loss);
    } else if (e && e->signal > 0) { /* assume no clipping, and a rounding error of scale^2 / 12 for each value */
        double noise = 0;
        for (size_t k = 0; k < l->stored.count; k++) {
            const double scale = (double)l->stored.scale[k];
            noise += scale * scale / 12 * (double)e->count / (double)l->stored.count;
        }
        l->alone_db = 10 * log10(e->signal / noise);
        l->clipping_share = 0;
    }
    if (made && !qc_accumulator_bits(&l->accumulator_bits, g, made, st)) return false;
    if (l->accumulator_bits) l->accumulator_of = l->node;
    if (!e) return true;
    l->error = e;
    l->sqnr_db = qc_error_sqnr_db(e);
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

/* A weight to scan: all are scanned in parallel. */
struct weight_look {
    struct qc_layer *layer; /* NULL: nothing to scan */
    const struct qc_tensor *was, *stored;
    bool chosen; /* the integers were chosen by the moments */
    const struct qc_qparams *qparams;
    int axis;
    struct channels channels;
    struct qc_outline *outline;
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
    struct qc_loss loss = {0};
    scan(&w->channels, &loss, w->was, w->stored, w->chosen, w->qparams, w->axis);
    take_loss(w->layer, &loss);
    const bool ok = qc_scan_new(&s, QC_NEED_HISTOGRAM, st) && qc_histogram_new(&h, QC_NEED_HISTOGRAM, st) &&
                    qc_scan_values(s, w->was->data, w->was->count, st) && qc_histogram_add_scan(h, s, st) &&
                    qc_outline_of(w->outline, h, st);
    if (ok) w->layer->histogram = w->outline;
    qc_histogram_free(h);
    qc_scan_free(s);
    return ok;
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
static bool fill_weight(struct weight_look *look, struct qc_layer *l, const struct qc_network *net,
                        const struct qc_uses *uses, const struct lookup *u, qc_id value, struct qc_status *st)
{
    const struct qc_graph *g = uses->graph;
    const struct qc_type *type = &g->values[value].type;
    const qc_id quantizer = type->qparams;
    fill_parameters(l, net, g, value);
    l->is_weight = true;
    l->op = "Constant";
    const qc_id reader = computes_with(uses, value);
    if (reader) l->op = qc_op_info(g->nodes[reader].op)->name;
    if (reader && !(l->node = qc_node_name(g, &g->nodes[reader], net->arena, st))) return false;
    const size_t rounded = quantizer <= net->simulated->qparams_count ? u->rounded[quantizer] : 0;
    if (rounded) l->rounding = &net->weight_rounding->layers[rounded - 1];
    const struct qc_tensor *own = qc_constant_of(g, value), *stored = own ? own : u->stored[quantizer],
                           *t = NULL; /* the numbers that these integers were rounded from */
    const bool known = stored && quantizer <= net->simulated->qparams_count;
    for (size_t i = known ? u->simulated.first[quantizer] : 0; known && !t && i < u->simulated.first[quantizer + 1];
         i++) {
        const qc_id from = qc_quantized_constant(net->simulated, u->simulated.value[i]);
        const struct qc_tensor *was = from ? qc_constant_of(net->simulated, from) : NULL;
        if (was && was->dtype == QC_F32 && was->count == stored->count) t = was;
    }
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
    c.low = QC_NEW_ARRAY(net->arena, float, c.count, st);
    c.high = QC_NEW_ARRAY(net->arena, float, c.count, st);
    l->channel_count = c.count;
    l->channel_low = c.low;
    l->channel_high = c.high;
    *look = (struct weight_look){.layer = l,
                                 .was = t,
                                 .stored = stored,
                                 .chosen = l->rounding && !l->rounding->reason,
                                 .qparams = &g->qparams_of[quantizer],
                                 .axis = type->axis,
                                 .channels = c,
                                 .outline = QC_NEW(net->arena, struct qc_outline, st)};
    return c.low && c.high && look->outline;
}

bool qc_fill_layers(struct qc_report *r, const struct qc_network *net, const struct qc_measurement *m,
                    struct qc_status *st)
{
    const struct qc_graph *g = net->folded;
    struct qc_layer *layers = QC_NEW_ARRAY(net->arena, struct qc_layer, g->qparams_count, st);
    struct weight_look *looks = QC_NEW_ARRAY(net->arena, struct weight_look, g->qparams_count, st);
    bool *done = QC_NEW_ARRAY(net->arena, bool, g->qparams_count + 1, st);
    const unsigned threads = (unsigned)net->scheme.options->run.threads;
    const struct qc_pool_options pool = {.workers = threads ? threads : 1};
    size_t count = 0;
    struct qc_uses uses;
    struct lookup u;
    if (!layers || !looks || !done || !qc_uses_of(&uses, g, net->arena, st)) return false;
    const struct qc_weight_rounding *w = net->weight_rounding;
    const size_t most = net->simulated->qparams_count;
    u.rounded = QC_NEW_ARRAY(net->arena, size_t, most + 1, st);
    u.stored = QC_NEW_ARRAY(net->arena, const struct qc_tensor *, net->produced->qparams_count + 1, st);
    if (!u.rounded || !u.stored || !qc_stored_values_of(&u.simulated, net->simulated, net->arena, st)) return false;
    for (size_t i = w ? w->count : 0; i-- > 0;)
        if (w->layers[i].quantizer <= most) u.rounded[w->layers[i].quantizer] = i + 1;
    for (qc_id v = (qc_id)net->produced->value_count; v >= 1; v--)
        if (qc_constant_of(net->produced, v))
            u.stored[net->produced->values[v].type.qparams] = qc_constant_of(net->produced, v);
    for (qc_id v = 1; v <= g->value_count; v++) {
        qc_id s = g->values[v].type.qparams;
        if (!s || done[s] || g->qparams_of[s].kind != QC_QPARAMS_QUANTIZER || !net->calibration->choices[s].chosen)
            continue;
        done[s] = true;
        struct qc_layer *l = &layers[count];
        struct weight_look *look = &looks[count++];
        if (!(qc_quantized_constant(g, v) ? fill_weight(look, l, net, &uses, &u, v, st)
                                          : fill_activation(l, net, m, s, v, st)))
            return false;
    }
    /* Add weights whose integers are constants of net->folded. */
    const struct qc_graph *own = qc_network_with_bodies(net);
    struct qc_uses own_uses;
    if (net->dynamic) {
        if (!qc_uses_of(&own_uses, own, net->arena, st)) return false;
        for (qc_id v = 1; v <= own->value_count; v++) {
            const qc_id s = own->values[v].type.qparams;
            if (s == QC_REAL || !qc_constant_of(own, v) || done[s]) continue;
            struct qc_layer *l = &layers[count];
            done[s] = true;
            if (!fill_weight(&looks[count++], l, net, &own_uses, &u, v, st)) return false;
        }
    }
    if (!qc_pool_run(count, look_at, looks, &pool, st)) return false;
    r->layers = layers;
    r->layer_count = count;
    return index_layers(r, net->arena, st);
}

static const char *inside(const struct qc_network *net, const struct qc_body *b, const char *name, struct qc_status *st)
{
    return name ? qc_arena_printf(net->arena, st, "%s/%s", b->name, name) : NULL;
}

bool qc_body_layers(struct qc_report *r, const struct qc_network *net, struct qc_status *st)
{
    const struct qc_body_set *set = net->bodies;
    for (size_t i = 0; set && i < set->count; i++) {
        const struct qc_body *b = &set->of[i];
        struct qc_report own = {0};
        if (!b->network) continue;
        if (!qc_fill_layers(&own, b->network, b->measurement, st) || !qc_body_layers(&own, b->network, st))
            return false;
        struct qc_layer *all = QC_NEW_ARRAY(net->arena, struct qc_layer, r->layer_count + own.layer_count, st);
        if (!all) return false;
        if (r->layer_count) memcpy(all, r->layers, r->layer_count * sizeof *all);
        for (size_t k = 0; k < own.layer_count; k++) {
            struct qc_layer *l = &all[r->layer_count + k];
            *l = own.layers[k];
            l->in_body = true;
            l->name = inside(net, b, l->name, st);
            l->node = inside(net, b, l->node, st);
            l->accumulator_of = inside(net, b, l->accumulator_of, st);
            if (st->code != QC_OK) return false;
        }
        r->layers = all;
        r->layer_count += own.layer_count;
    }
    return !set || !set->count || index_layers(r, net->arena, st);
}
