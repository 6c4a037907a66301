// SPDX-License-Identifier: Apache-2.0
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "arith/float_level.h"
#include "base/array.h"
#include "base/pool.h"
#include "base/scope.h"
#include "calib/ranges/calibrate_parts.h"
#include "calib/weights/compensation.h"
#include "calib/weights/round_weights.h"
#include "graph/core/parameters.h"
#include "graph/core/recurrent.h"
#include "graph/types/number_format.h"
#include "observers/observer.h"

/* Largest bias magnitude allowed in an accumulator: half of the int32 range; products may use the other half. */
static const double BIAS_MAX = 1073741824.0;

/* A constant that a Quantize node stores in a quantizer. */
struct constant_use {
    const struct qc_tensor *tensor; /* NULL: none */
    int axis;
    size_t readers; /* number of node inputs in this quantizer */
    qc_id layer;    /* node whose second input (the weight) is in this quantizer; 0: none */
    qc_id product;  /* the only node that multiplies with the dequantized constant; 0: none, or several */
    size_t products;
    const struct qc_second_moments_layer *recurrent; /* input of this weight of an RNN, GRU or LSTM; NULL: none */
    qc_id first_product,
        first_bias; /* qparams of products with this weight; Quantize nodes of biases for such a product */
};

/* Channels gathered together: if channels interleave, gathering each alone would read the whole tensor each time. */
enum { TOGETHER = 64 };

/* Distance of gathered channels: one cache line more than their size. Channels a large power of two apart would evict
   each other from the L1 cache. */
static size_t gathered_step(size_t each)
{
    return each + 16;
}

/* Values of channels first .. first + count along the axis, gathered: [count][gathered_step(t->count / channels)]. */
static void gather_weights(float *to, const struct qc_tensor *t, int axis, size_t channels, size_t first, size_t count)
{
    size_t inner = 1;
    for (int i = axis + 1; i < t->shape.rank; i++) inner *= (size_t)t->shape.dim[i];
    const size_t each = t->count / channels, outer = each / inner, step = gathered_step(each);
    const float *x = t->data;
    for (size_t o = 0; o < outer; o++)
        for (size_t c = 0; c < count; c++)
            for (size_t i = 0; i < inner; i++) to[c * step + o * inner + i] = x[(o * channels + first + c) * inner + i];
}

/* The channel of element i. */
static size_t channel_at(const struct qc_tensor *t, int axis, size_t channels, size_t i)
{
    size_t inner = 1;
    for (int k = axis + 1; k < t->shape.rank; k++) inner *= (size_t)t->shape.dim[k];
    return channels == 1 ? 0 : i / inner % channels;
}

struct channels {
    size_t count;
    float *scale; /* [count] */
    int32_t *zero_point;
};

/* A quantizer of constants. Quantizers are solved in parallel and bound one after the other. */
struct constant_quantizer {
    qc_id id;
    struct constant_use use;
    const struct qc_observer *observer;
    struct channels channels;
    size_t paired; /* rows with a coarser scale because of pairs */
};

struct solving {
    struct qc_calibration *c;
    struct qc_graph *g;
    struct qc_uses uses; /* of g */
    const struct qc_calibration_options *options;
    size_t count;
    struct constant_quantizer *quantizers; /* [count] */
    struct constant_use *of_quantizer;     /* [qparams_count + 1] */
    qc_id *next_product, *next_bias; /* [qparams_count + 1], [node_count + 1]: lists that continue first_product and
                                        first_bias, ascending */
};

/* Chooses ranges by the error of the layer's outputs; *ranges stays NULL if that is unknown. */
static bool ranges_by_output(struct qc_range **ranges, const struct solving *s,
                             const struct constant_quantizer *quantizer, struct qc_status *st)
{
    const struct qc_graph *g = s->g;
    const struct qc_calibration_options *o = s->options;
    const struct constant_use *use = &quantizer->use;
    const size_t channels = quantizer->channels.count;
    const qc_id id = quantizer->id;
    if (!o->second_moments)
        return qc_fail(st, QC_USAGE,
                       "the weight method '%s' needs second moments, which the statistics do not hold "
                       "(--second-moments off); collect again",
                       o->weight->name);
    const struct qc_tensor *t = use->tensor;
    const float *x = t->data;
    struct qc_output_error e = {
        .g = g, .weight = t, .qparams = &g->qparams_of[id], .channels = channels, .settings = o->settings};
    e.node = use->readers == 1 ? use->layer : 0;
    e.layer = e.node ? qc_output_layer(o->second_moments, e.node) : NULL;
    if (!e.layer) return true;
    struct qc_range *r = QC_NEW_ARRAY(s->c->arena, struct qc_range, channels, st);
    if (!r) return false;
    e.centred = o->settings->correct_bias && (qc_round_weights_biased_op(g, &g->nodes[e.node]) != QC_OP_MatMul ||
                                              qc_bias_after_matmul(&s->uses, e.node, false));
    for (size_t i = 0; i < t->count; i++) {
        const size_t c = channel_at(t, use->axis, channels, i);
        r[c].lo = fmin(r[c].lo, (double)x[i]);
        r[c].hi = fmax(r[c].hi, (double)x[i]);
    }
    if (!qc_output_ranges(r, &e, st)) return qc_where(st, "weight '%s'", g->qparams_of[id].name);
    const struct qc_levels levels = qc_levels_around_zero(e.qparams);
    double lo = 0, hi = 0;
    for (size_t i = 0, last = channels; i < t->count; i++) {
        const size_t c = channel_at(t, use->axis, channels, i);
        if (c != last)
            qc_affine_reach(&lo, &hi, qc_affine_from_range(r[c].lo, r[c].hi, levels, e.qparams->symmetry), levels);
        last = c;
        r[c].clipped_fraction += ((double)x[i] < lo || (double)x[i] > hi) * (double)channels / (double)t->count;
    }
    *ranges = r;
    return true;
}

static bool solve_channels(struct constant_quantizer *quantizer, struct qc_choice *choice, const struct qc_graph *g,
                           const struct qc_range *ranges, const struct qc_calibration_options *o, struct qc_status *st)
{
    const struct qc_tensor *t = quantizer->use.tensor;
    const struct qc_qparams *s = &g->qparams_of[quantizer->id];
    const struct qc_observer_values *values = s->is_weight ? &o->weight_values : &o->activation_values;
    const struct channels *out = &quantizer->channels;
    struct qc_solve request = QC_SOLVE_INIT(qc_levels_around_zero(s), s->symmetry);
    const int32_t offset = qc_qparams_levels(s).lo - request.levels.lo;
    const size_t n = t->count / out->count, together = out->count < TOGETHER ? out->count : TOGETHER;
    const size_t step = gathered_step(n);
    float *gathered = out->count > 1 ? malloc(together * step * sizeof *gathered) : NULL;
    if (out->count > 1 && !gathered) return qc_fail_memory(st, together * step * sizeof *gathered);
    bool ok = true;
    for (size_t c = 0; ok && c < out->count; c++) {
        struct qc_range r = {0};
        const float *x = gathered ? gathered + c % together * step : t->data;
        if (gathered && !ranges && c % together == 0)
            gather_weights(gathered, t, quantizer->use.axis, out->count, c,
                           out->count - c < together ? out->count - c : together);
        if (ranges)
            r = ranges[c];
        else
            ok = qc_observer_solve_values(&r, quantizer->observer, values, x, n, &request, st);
        if (!ok) break;
        struct qc_affine p = qc_affine_from_range(r.lo, r.hi, request.levels, s->symmetry);
        out->scale[c] = r.lo == 0 && r.hi == 0 ? 0 : p.scale; /* 0: an empty channel, for finish_scales */
        out->zero_point[c] = p.zero_point + offset;
        if (r.lo < choice->range.lo) choice->range.lo = r.lo;
        if (r.hi > choice->range.hi) choice->range.hi = r.hi;
        choice->range.clipped_fraction += r.clipped_fraction / (double)out->count;
    }
    free(gathered);
    return ok || qc_where(st, "weight '%s'", s->name);
}

/* Sets the importance of each weight in blocks along the summed axis: the second moment of its input, whose groups are
   the directions of a recurrent operator. It stays NULL if that is unknown. */
static bool importance_of(struct qc_block_search *search, const struct solving *s, const struct constant_use *use,
                          struct qc_status *st)
{
    const struct qc_second_moments *m = s->options->second_moments;
    const struct qc_second_moments_layer *l = use->recurrent      ? use->recurrent
                                              : m && use->product ? qc_output_layer(m, use->product)
                                                                  : NULL;
    if (!l || (!use->recurrent && l->groups != 1) || !l->product_count ||
        l->columns != (size_t)use->tensor->shape.dim[use->axis])
        return true;
    double *h = QC_NEW_ARRAY(s->c->arena, double, l->groups * l->columns, st);
    if (!h) return false;
    for (size_t g = 0; g < l->groups; g++) {
        double *of = h + g * l->columns, sum = 0;
        for (size_t b = 0; b < l->blocks; b++)
            qc_second_moments_read_diagonal(of + b * l->block, l, 1U << QC_MOMENTS_FIT | 1U << QC_MOMENTS_HELD, g, b);
        for (size_t i = 0; i < l->columns; i++) sum += of[i];
        for (size_t i = 0; i < l->columns; i++)
            of[i] += QC_DAMPING * sum / (double)l->columns; /* a floor: no weight is without importance */
        if (!(sum > 0) || !isfinite(sum)) return true;
    }
    search->importance = h;
    search->groups = l->groups;
    return true;
}

/* Returns true if scales of outputs that are not judged can be left out: each output has its own ones, and no common
   second scale. */
static bool judges_some(const struct solving *s, const struct constant_quantizer *quantizer,
                        const struct qc_block_search *search)
{
    const struct qc_scale_layout *of = &search->layout;
    const struct qc_calibration_options *o = s->options;
    const size_t rows = of->count / of->blocks / of->inner, outputs = of->inner > 1 ? of->inner : rows;
    if (!o->judged || !o->second_moments || !quantizer->use.product || search->scale == QC_SCALE_FLOAT8 ||
        (of->inner > 1 && rows > 1))
        return false;
    const struct qc_second_moments_layer *l = qc_output_layer(o->second_moments, quantizer->use.product);
    return l && l->groups == 1 && l->outputs == outputs;
}

/* Chooses the scales of a weight in blocks. */
static bool solve_blocks(const struct solving *s, struct constant_quantizer *quantizer, struct qc_status *st)
{
    const struct qc_qparams *q = &s->g->qparams_of[quantizer->id];
    const struct qc_calibration_options *o = s->options;
    const bool by_error = o->blocks_by_error || quantizer->observer->of_output;
    struct qc_choice *choice = &s->c->choices[quantizer->id];
    struct qc_block_search search = {.tensor = quantizer->use.tensor,
                                     .layout =
                                         qc_scale_layout_of(q, &quantizer->use.tensor->shape, quantizer->use.axis),
                                     .levels = qc_qparams_levels(q),
                                     .symmetry = q->symmetry,
                                     .scale = q->format ? q->format->scale : QC_SCALE_FLOAT,
                                     .observer = by_error ? NULL : quantizer->observer,
                                     .values = &o->weight_values,
                                     .workers = o->settings->workers};
    if (by_error && !importance_of(&search, s, &quantizer->use, st)) return false;
    search.judged = judges_some(s, quantizer, &search) ? o->judged : 0;
    if (o->blocks_by_error) choice->method = "mse";
    return qc_block_scales(quantizer->channels.scale, quantizer->channels.zero_point, &choice->range, &search, st) ||
           qc_where(st, "weight '%s'", q->name);
}

/* Returns the least power of two that is not below `scale`. */
static float power_above(float scale)
{
    int exponent;
    return frexpf(scale, &exponent) > 0.5f ? ldexpf(1.0f, exponent) : scale;
}

/* Replaces each scale by the power of two below or above it, whichever has less error; with `cover` always above. */
static bool take_powers_of_two(const struct channels *c, const struct constant_use *use, const struct qc_qparams *s,
                               bool cover, struct qc_arena *a, struct qc_status *st)
{
    const struct qc_levels levels = qc_qparams_levels(s);
    const struct qc_tensor *t = use->tensor;
    const float *x = t->data;
    double *gain = QC_NEW_ARRAY(a, double, c->count, st); /* squared error above minus that below */
    if (!gain) return false;
    for (size_t i = 0; !cover && i < t->count; i++) {
        const size_t k = c->count > 1 ? channel_at(t, use->axis, c->count, i) : 0;
        const float above = power_above(c->scale[k]);
        for (int below = 0; below < 2; below++) {
            const struct qc_affine p = {.scale = below ? above / 2 : above, .zero_point = c->zero_point[k]};
            const double e = (double)x[i] - (double)qc_dequantize_one(qc_quantize_one(x[i], p, levels), p);
            gain[k] += below ? -e * e : e * e;
        }
    }
    for (size_t k = 0; k < c->count; k++) {
        const float above = power_above(c->scale[k]);
        const bool exact = !(above > c->scale[k]);
        c->scale[k] = !exact && gain[k] > 0 ? above / 2 : above;
    }
    return true;
}

/* Least step of an accumulator: a smaller one could leave float32's normal range in later products. */
static const double STEP_MIN = 7.9e-31; /* 2^-100 */

/* Raises scales until no accumulator step is too small for a float32 multiplier. */
static void fit_step(const struct channels *c, const struct solving *s, const struct constant_use *use)
{
    const struct qc_graph *g = s->g;
    for (qc_id id = use->first_product; id; id = s->next_product[id]) {
        const struct qc_qparams *a = &g->qparams_of[g->qparams_of[id].a];
        if (a->state != QC_QPARAMS_BOUND) continue;
        for (size_t k = 0; k < c->count; k++)
            for (size_t i = 0; i < a->count; i++) {
                const float least = (float)(STEP_MIN / (double)a->scale[i]);
                if (a->count == 1 || c->count == 1 || i == k) c->scale[k] = c->scale[k] < least ? least : c->scale[k];
            }
    }
}

/* Raises scales until the bias fits, in steps of input scale x weight scale. Returns how many were raised. */
static size_t fit_bias(const struct channels *c, const struct solving *s, const struct constant_use *use)
{
    const struct qc_graph *g = s->g;
    size_t raised = 0;
    for (qc_id id = use->first_bias; id; id = s->next_bias[id]) {
        const struct qc_node *n = &g->nodes[id];
        const struct qc_tensor *bias = qc_constant_of(g, n->inputs[0]);
        const struct qc_qparams *a = &g->qparams_of[g->qparams_of[g->values[n->outputs].type.qparams].a];
        if (a->state != QC_QPARAMS_BOUND) continue;
        for (size_t i = 0; i < bias->count; i++) {
            size_t k = c->count == 1 ? 0 : i;
            const double input = (double)a->scale[a->count == 1 ? 0 : i];
            double least = fabs((double)((const float *)bias->data)[i]) / (input * BIAS_MAX);
            if (k >= c->count || !((double)c->scale[k] < least)) continue;
            c->scale[k] = nextafterf((float)least, INFINITY);
            raised++;
        }
    }
    return raised;
}

static bool is_by_output(const struct solving *s, const struct constant_quantizer *quantizer)
{
    const struct qc_qparams *q = &s->g->qparams_of[quantizer->id];
    return q->is_weight && quantizer->observer->of_output && !q->given && !q->block;
}

/* Fails with the node that reads a constant. */
static bool not_finite(const struct solving *s, const struct constant_use *use, const char *what, const char *name,
                       struct qc_status *st)
{
    char label[QC_LABEL];
    const qc_id id = use->layer ? use->layer : use->product;
    const struct qc_node *n = id ? &s->g->nodes[id] : NULL;
    qc_fail(st, QC_BAD_INPUT, "%s '%s' holds NaN or infinity; the model is damaged", what, name);
    return n ? qc_where(st, "node '%s' (%s)", qc_node_label(label, s->g, n), qc_op_info(n->op)->name) : false;
}

static bool look_at_constant(const struct solving *s, const struct constant_quantizer *quantizer, struct qc_status *st)
{
    const struct qc_qparams *q = &s->g->qparams_of[quantizer->id];
    struct qc_choice *choice = &s->c->choices[quantizer->id];
    struct qc_scan *scan = NULL;
    struct qc_histogram seen = {.tally = {.first_bad_sample = QC_NO_SAMPLE}};
    if (!qc_scan_new(&scan, QC_NEED_EXTREMES, st)) return false;
    const bool ok = qc_scan_values(scan, quantizer->use.tensor->data, quantizer->use.tensor->count, st) &&
                    qc_histogram_add_scan(&seen, scan, st);
    if (ok) choice->seen = seen.tally;
    choice->seen.samples = 1;
    qc_scan_free(scan);
    if (!ok) return false;
    if (choice->seen.nan || choice->seen.pos_inf || choice->seen.neg_inf)
        return not_finite(s, &quantizer->use, q->is_weight ? "weight" : "constant", q->name, st);
    choice->method = quantizer->observer->name;
    return true;
}

/* Gives a channel of zeros the widest scale of the others, or 1 if there is none: any scale represents zeros exactly,
   but the accumulator and its bias are counted in steps of it. Denormal scales become the least normal number. Raises
   the scales of weights whose pairs exceed their limit. */
static bool finish_scales(const struct solving *s, struct constant_quantizer *quantizer, struct qc_status *st)
{
    const struct constant_use *use = &quantizer->use;
    const struct qc_pair_fit fit = {.g = s->g,
                                    .quantizer = quantizer->id,
                                    .node = use->layer ? use->layer : use->product,
                                    .weights = use->tensor,
                                    .axis = use->axis};
    const struct channels *c = &quantizer->channels;
    float widest = 0;
    for (size_t i = 0; i < c->count; i++) widest = c->scale[i] > widest ? c->scale[i] : widest;
    for (size_t i = 0; i < c->count; i++) {
        if (c->scale[i] == 0) c->scale[i] = widest > 0 ? widest : 1;
        if (c->scale[i] < FLT_MIN) c->scale[i] = FLT_MIN;
    }
    return !s->g->qparams_of[quantizer->id].pair_limit ||
           qc_fit_pairs(&quantizer->paired, c->scale, c->zero_point, &fit, st);
}

/* Work item. Layers judged by their outputs come later: each uses all workers. */
static bool solve_constant(void *user, size_t item, unsigned worker, struct qc_status *st)
{
    struct solving *s = user;
    struct constant_quantizer *quantizer = &s->quantizers[item];
    const struct qc_qparams *qparams = &s->g->qparams_of[quantizer->id];
    if (qparams->given) {
        if (quantizer->channels.count != qparams->given->count)
            return qc_fail(st, QC_BAD_INPUT, "weight '%s' has %zu channels, but %zu scales in the model", qparams->name,
                           quantizer->channels.count, qparams->given->count);
        if (!look_at_constant(s, quantizer, st)) return false;
        memcpy(quantizer->channels.scale, qparams->given->scale, qparams->given->count * sizeof(float));
        memcpy(quantizer->channels.zero_point, qparams->given->zero_point, qparams->given->count * sizeof(int32_t));
        qc_choice_of_given(&s->c->choices[quantizer->id], qparams);
        return true;
    }
    return look_at_constant(s, quantizer, st) &&
           (is_by_output(s, quantizer) || qparams->block ||
            (solve_channels(quantizer, &s->c->choices[quantizer->id], s->g, NULL, s->options, st) &&
             finish_scales(s, quantizer, st)));
}

static bool bind_constant(const struct solving *s, const struct constant_quantizer *quantizer, struct qc_status *st)
{
    const struct channels *channels = &quantizer->channels;
    const bool given = s->g->qparams_of[quantizer->id].given != NULL;
    s->c->paired += quantizer->paired;
    const struct qc_qparams *q = &s->g->qparams_of[quantizer->id];
    const bool powers = !given && q->power_of_two;
    for (qc_id id = quantizer->use.first_bias; id; id = s->next_bias[id]) {
        const qc_id v = s->g->nodes[id].inputs[0];
        const struct qc_tensor *bias = qc_constant_of(s->g, v);
        char label[QC_LABEL];
        for (size_t i = 0; i < bias->count; i++)
            if (!isfinite(((const float *)bias->data)[i]))
                return not_finite(s, &quantizer->use, "bias", qc_value_label(label, s->g, v), st);
    }
    if (powers && !take_powers_of_two(channels, &quantizer->use, q, false, s->c->arena, st)) return false;
    if (!given && q->is_weight) {
        fit_step(channels, s, &quantizer->use);
        s->c->raised += fit_bias(channels, s, &quantizer->use);
        if (powers && !take_powers_of_two(channels, &quantizer->use, q, true, s->c->arena, st)) return false;
    }
    s->c->choices[quantizer->id].chosen = true;
    return qc_graph_bind_quantizer(s->g, quantizer->id, channels->count, channels->scale, channels->zero_point, st);
}

static bool add_constant_quantizer(struct solving *s, qc_id id, const struct constant_use *use, struct qc_status *st)
{
    const struct qc_qparams *qparams = &s->g->qparams_of[id];
    const struct qc_tensor *t = use->tensor;
    struct constant_quantizer *quantizer = &s->quantizers[s->count++];
    struct channels *c = &quantizer->channels;
    *quantizer =
        (struct constant_quantizer){.id = id,
                                    .use = *use,
                                    .observer = qparams->is_weight ? s->options->weight : s->options->activation};
    if (t->dtype != QC_F32)
        return qc_fail(st, QC_UNSUPPORTED, "constant '%s' is %s, not float32", qparams->name,
                       qc_dtype_info(t->dtype)->name);
    c->count = qc_scale_layout_of(qparams, &t->shape, use->axis).count;
    if (!c->count || !t->count) return qc_fail(st, QC_BAD_INPUT, "constant '%s' is empty", qparams->name);
    c->scale = QC_NEW_ARRAY(s->c->arena, float, c->count, st);
    c->zero_point = QC_NEW_ARRAY(s->c->arena, int32_t, c->count, st);
    return c->scale && c->zero_point;
}

/* Finds the uses of all constants; of several constants of one quantizer the first counts. */
static bool index_constants(struct solving *s, struct qc_arena *a, struct qc_status *st)
{
    const struct qc_graph *g = s->g;
    const bool ok = (s->of_quantizer = QC_NEW_ARRAY(a, struct constant_use, g->qparams_count + 1, st)) &&
                    qc_uses_of(&s->uses, g, a, st) &&
                    (s->next_product = QC_NEW_ARRAY(a, qc_id, g->qparams_count + 1, st)) &&
                    (s->next_bias = QC_NEW_ARRAY(a, qc_id, g->node_count + 1, st));
    if (!ok) return false;
    struct constant_use *uses = s->of_quantizer;
    const struct qc_second_moments *m = s->options->second_moments;
    for (qc_id id = (qc_id)g->node_count; id >= 1; id--) {
        const struct qc_node *n = &g->nodes[id];
        for (unsigned i = 0; i < n->input_count; i++) {
            struct constant_use *use = &uses[n->inputs[i] ? g->values[n->inputs[i]].type.qparams : QC_REAL];
            use->readers++;
            if (i == 1 && !use->layer) use->layer = id;
        }
        /* Find the inputs of the weights of an RNN, GRU or LSTM */
        for (int k = 0; m && qc_is_recurrent(g->nodes[id].op) && k < QC_MOMENTS_RECURRENT; k++) {
            const enum qc_second_moments_recurrent which = (enum qc_second_moments_recurrent)k;
            const qc_id w = qc_second_moments_recurrent_weight(g, &g->nodes[id], which);
            if (w) uses[g->values[w].type.qparams].recurrent = qc_second_moments_of_recurrent(m, id, which);
        }
        const struct qc_node *real = n->input_count > 1 ? qc_node_of(g, n->inputs[1]) : NULL;
        if (real && real->op == QC_OP_Dequantize) {
            struct constant_use *use = &uses[g->values[real->inputs[0]].type.qparams];
            use->product = use->products++ ? 0 : id;
        }
        const struct qc_tensor *t = n->op == QC_OP_Quantize ? qc_constant_of(g, n->inputs[0]) : NULL;
        if (!t) continue;
        const struct qc_type *type = &g->values[n->outputs].type;
        uses[type->qparams].tensor = t;
        uses[type->qparams].axis = type->axis;
    }
    /* Build the lists from last to first, so that they ascend. */
    for (qc_id id = (qc_id)g->qparams_count; id >= 1; id--) {
        if (g->qparams_of[id].kind != QC_QPARAMS_PRODUCT) continue;
        struct constant_use *use = &uses[g->qparams_of[id].b];
        s->next_product[id] = use->first_product;
        use->first_product = id;
    }
    for (qc_id id = (qc_id)g->node_count; id >= 1; id--) {
        const struct qc_node *n = &g->nodes[id];
        const struct qc_tensor *bias = n->op == QC_OP_Quantize ? qc_constant_of(g, n->inputs[0]) : NULL;
        if (!bias || bias->dtype != QC_F32) continue;
        const struct qc_qparams *p = &g->qparams_of[g->values[n->outputs].type.qparams];
        if (p->kind != QC_QPARAMS_PRODUCT) continue;
        s->next_bias[id] = uses[p->b].first_bias;
        uses[p->b].first_bias = id;
    }
    return true;
}

/* Chooses and binds those of `count` quantizers that are of constants and unbound. */
static bool choose_listed(struct solving *s, size_t count, const qc_id *quantizers, struct qc_status *st)
{
    const struct qc_graph *g = s->g;
    const struct qc_pool_options pool = {.workers = s->options->settings->workers};
    QC_ARENA_SCOPE *a = qc_arena_new();
    s->count = 0;
    bool ok =
        a ? (s->quantizers = QC_NEW_ARRAY(a, struct constant_quantizer, count + 1, st)) != NULL : qc_fail_memory(st, 1);
    for (size_t i = 0; ok && i < count; i++) {
        const struct qc_qparams *qparams = &g->qparams_of[quantizers[i]];
        const struct constant_use *use = &s->of_quantizer[quantizers[i]];
        if (qparams->kind == QC_QPARAMS_QUANTIZER && qparams->state == QC_QPARAMS_UNBOUND && use->tensor)
            ok = add_constant_quantizer(s, quantizers[i], use, st);
    }
    ok = ok && qc_pool_run(s->count, solve_constant, s, &pool, st);
    for (size_t i = 0; ok && i < s->count; i++) {
        struct constant_quantizer *q = &s->quantizers[i];
        const struct qc_qparams *qparams = &g->qparams_of[q->id];
        struct qc_range *ranges = NULL;
        if (is_by_output(s, q))
            ok = ranges_by_output(&ranges, s, q, st) &&
                 solve_channels(q, &s->c->choices[q->id], g, ranges, s->options, st) && finish_scales(s, q, st);
        if (qparams->block) ok = solve_blocks(s, q, st) && (qparams->given || finish_scales(s, q, st));
        ok = ok && bind_constant(s, q, st);
    }
    s->quantizers = NULL;
    return ok;
}

bool qc_choose_some_weights(struct qc_calibration *c, struct qc_graph *g, const bool *wanted,
                            const struct qc_calibration_options *options, struct qc_status *st)
{
    struct solving s = {.c = c, .g = g, .options = options};
    QC_ARENA_SCOPE *a = qc_arena_new();
    if (!a) return qc_fail_memory(st, 1);
    qc_id *listed = QC_NEW_ARRAY(a, qc_id, g->qparams_count + 1, st);
    size_t count = 0;
    for (qc_id id = 1; listed && id <= g->qparams_count; id++)
        if (!wanted || wanted[id]) listed[count++] = id;
    return listed && index_constants(&s, a, st) && choose_listed(&s, count, listed, st);
}

/* Weights that wait for the activations they are multiplied with. Arrays are by qparams. */
struct qc_ready_weights {
    struct solving solving;
    struct qc_arena *arena;
    size_t *unbound;           /* products of the weight with an unbound activation */
    qc_id *first_of, *next_of; /* such products by their activation; 0: none */
    size_t bound_count, ready_count;
    qc_id *bound, *ready; /* bound since the last call; weights whose activations are all bound */
};

void qc_ready_weights_free(struct qc_ready_weights *r)
{
    if (r) qc_arena_free(r->arena);
    free(r);
}

bool qc_ready_weights_new(struct qc_ready_weights **out, struct qc_calibration *c, struct qc_graph *g,
                          const struct qc_calibration_options *options, struct qc_status *st)
{
    struct qc_ready_weights *r;
    if (!QC_NEW_OWNER(r, st)) return false;
    r->solving = (struct solving){.c = c, .g = g, .options = options};
    const size_t count = g->qparams_count + 1;
    if (!index_constants(&r->solving, r->arena, st) || !(r->unbound = QC_NEW_ARRAY(r->arena, size_t, count, st)) ||
        !(r->first_of = QC_NEW_ARRAY(r->arena, qc_id, count, st)) ||
        !(r->next_of = QC_NEW_ARRAY(r->arena, qc_id, count, st)) ||
        !(r->bound = QC_NEW_ARRAY(r->arena, qc_id, 2 * count, st)) ||
        !(r->ready = QC_NEW_ARRAY(r->arena, qc_id, count, st))) {
        qc_ready_weights_free(r);
        return false;
    }
    for (qc_id id = 1; id <= g->qparams_count; id++) {
        const struct qc_qparams *p = &g->qparams_of[id];
        if (p->kind != QC_QPARAMS_PRODUCT || g->qparams_of[p->a].state != QC_QPARAMS_UNBOUND) continue;
        r->unbound[p->b]++;
        r->next_of[id] = r->first_of[p->a];
        r->first_of[p->a] = id;
    }
    for (qc_id id = 1; id <= g->qparams_count; id++)
        if (g->qparams_of[id].is_weight && !r->unbound[id]) r->ready[r->ready_count++] = id;
    *out = r;
    return true;
}

void qc_ready_weights_bound(struct qc_ready_weights *r, qc_id quantizer)
{
    r->bound[r->bound_count++] = quantizer;
}

bool qc_ready_weights_choose(struct qc_ready_weights *r, struct qc_status *st)
{
    const struct qc_graph *g = r->solving.g;
    for (size_t i = 0; i < r->bound_count; i++) {
        const qc_id activation = r->bound[i];
        if (g->qparams_of[activation].state == QC_QPARAMS_UNBOUND) continue;
        for (qc_id id = r->first_of[activation]; id; id = r->next_of[id]) {
            const qc_id weight = g->qparams_of[id].b;
            if (--r->unbound[weight] == 0 && g->qparams_of[weight].is_weight) r->ready[r->ready_count++] = weight;
        }
        r->first_of[activation] = 0;
    }
    r->bound_count = 0;
    if (!r->ready_count) return true;
    qsort(r->ready, r->ready_count, sizeof *r->ready, qc_order_u32);
    const bool ok = choose_listed(&r->solving, r->ready_count, r->ready, st);
    for (size_t i = 0; i < r->ready_count; i++)
        if (r->first_of[r->ready[i]]) qc_ready_weights_bound(r, r->ready[i]);
    r->ready_count = 0;
    return ok;
}

bool qc_choose_weights(struct qc_calibration *c, struct qc_graph *g, const struct qc_calibration_options *options,
                       struct qc_status *st)
{
    if (!qc_choose_some_weights(c, g, NULL, options, st)) return false;
    if (!c->raised) return true;
    return qc_lines_add(&c->warnings, c->arena, st,
                        "%zu channel%s of weights got a coarser scale so that the bias fits into the 32-bit "
                        "accumulator; such channels are nearly constant",
                        c->raised, c->raised == 1 ? "" : "s");
}
