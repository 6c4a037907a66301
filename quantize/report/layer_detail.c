// SPDX-License-Identifier: Apache-2.0
#include "quantize/report/layer_detail.h"

#include <float.h>
#include <math.h>

#include "arith/float_level.h"
#include "base/pool.h"
#include "base/simd.h"
#include "graph/core/parameters.h"
#include "observers/outline.h"

bool qc_layers_index(struct qc_report *r, struct qc_arena *a, struct qc_status *st)
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

static void take_loss(struct qc_layer *l, const struct qc_loss *loss)
{
    double noise = loss->rounding + loss->clipping;
    l->alone_db = qc_loss_db(loss);
    l->clipping_share = noise > 0 ? loss->clipping / noise : 0;
    l->lost_fraction = loss->lost;
}

bool qc_layer_activation(struct qc_layer *l, const struct qc_network *net, const struct qc_measurement *m,
                         qc_id quantizer, qc_id made, struct qc_status *st)
{
    const struct qc_choice *c = &net->calibration->choices[quantizer];
    if (made && !(l->node = qc_node_name(net->folded, &net->folded->nodes[made], net->arena, st))) return false;
    if (c->outline) {
        take_loss(l, &c->loss);
        l->histogram = c->outline;
        return true;
    }
    if (!m || !m->quantizers[quantizer].count || !(m->quantizers[quantizer].signal > 0)) return true;
    /* Without a histogram assume no clipping, and a rounding error of scale^2 / 12 for each value. */
    double noise = 0;
    const size_t count = l->stored.count;
    for (size_t k = 0; k < count; k++) {
        const double scale = (double)l->stored.scale[k];
        noise += scale * scale / 12 * (double)m->quantizers[quantizer].count / (double)count;
    }
    l->alone_db = 10 * log10(m->quantizers[quantizer].signal / noise);
    l->clipping_share = 0;
    return true;
}

struct channels {
    size_t count, inner; /* channels; elements after the channel axis */
    float *low, *high;
};

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

static bool outline_weight(struct qc_weight_look *w, struct qc_status *st)
{
    struct qc_scan *s = NULL;
    struct qc_histogram *h = NULL;
    bool ok = qc_scan_new(&s, QC_NEED_HISTOGRAM, st) && qc_histogram_new(&h, QC_NEED_HISTOGRAM, st) &&
              qc_scan_values(s, w->was->data, w->was->count, st) && qc_histogram_add_scan(h, s, st);
    ok = ok && qc_outline_of(w->outline, h, st);
    if (ok) w->layer->histogram = w->outline;
    qc_histogram_free(h);
    qc_scan_free(s);
    return ok;
}

bool qc_layer_weight(struct qc_weight_look *out, struct qc_layer *l, const struct qc_network *net,
                     const struct qc_graph *g, const struct qc_stored_values *simulated, qc_id quantizer, qc_id value,
                     const struct qc_tensor *stored, qc_id reader, bool chosen, struct qc_status *st)
{
    const struct qc_tensor *t = stored ? before_rounding(net, simulated, quantizer, stored) : NULL;
    const struct qc_type *type = &g->values[value].type;
    struct qc_weight_look w = {.was = t,
                               .stored = stored,
                               .chosen = chosen,
                               .qparams = &g->qparams_of[quantizer],
                               .axis = type->axis,
                               .inner = 1};
    if (reader && !(l->node = qc_node_name(g, &g->nodes[reader], net->arena, st))) return false;
    if (!t || !t->count) return true;
    w.layer = l;
    l->channel_count = 1;
    /* Blocks are along the first axis, before that of the outputs, or along the last one of more than one element,
       after those of the outputs. */
    const bool last = w.qparams->block && type->axis > 0;
    const int axis = w.qparams->block ? (last ? type->axis - 1 : 1) : type->axis;
    if (axis >= 0 && axis < t->shape.rank) l->channel_count = (size_t)t->shape.dim[axis];
    for (int i = axis + 1; i > 0 && i < t->shape.rank; i++) w.inner *= (size_t)t->shape.dim[i];
    for (int i = 0; last && i < axis; i++) l->channel_count *= (size_t)t->shape.dim[i];
    l->channel_low = w.low = QC_NEW_ARRAY(net->arena, float, l->channel_count, st);
    l->channel_high = w.high = QC_NEW_ARRAY(net->arena, float, l->channel_count, st);
    w.outline = QC_NEW(net->arena, struct qc_outline, st);
    *out = w;
    return w.low && w.high && w.outline;
}

static bool look_at(void *user, size_t item, unsigned worker, struct qc_status *st)
{
    struct qc_weight_look *w = &((struct qc_weight_look *)user)[item];
    struct qc_layer *l = w->layer;
    if (!l) return true;
    const struct channels c = {.count = l->channel_count, .inner = w->inner, .low = w->low, .high = w->high};
    for (size_t k = 0; k < c.count; k++) {
        c.low[k] = FLT_MAX;
        c.high[k] = -FLT_MAX;
    }
    struct qc_loss loss = {0};
    scan(&c, &loss, w->was, w->stored, w->chosen, w->qparams, w->axis);
    take_loss(l, &loss);
    return outline_weight(w, st);
}

bool qc_layer_weights_look(struct qc_weight_look *looks, size_t count, unsigned workers, struct qc_status *st)
{
    const struct qc_pool_options pool = {.workers = workers ? workers : 1};
    return qc_pool_run(count, look_at, looks, &pool, st);
}
