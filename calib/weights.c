// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdlib.h>

#include "calib/calibrate.h"
#include "calib/output_error.h"
#include "calib/reweigh.h"

/* Largest bias magnitude allowed in an accumulator: half of int32, the other half is left to the products. */
static const double BIAS_MAX = 1073741824.0;

/* A constant that a Quantize node takes into a site. */
struct constant_use {
    const struct qc_tensor *tensor;
    int axis;
};

static bool find_use(struct constant_use *out, const struct qc_graph *g, qc_id site)
{
    for (qc_id id = 1; id <= g->node_count; id++) {
        const struct qc_node *n = &g->nodes[id];
        if (n->op != QC_OP_Quantize || g->values[n->outputs].type.space != site || !qc_constant_of(g, n->inputs[0])) continue;
        *out = (struct constant_use){.tensor = qc_constant_of(g, n->inputs[0]), .axis = g->values[n->outputs].type.axis};
        return true;
    }
    return false;
}

/* Values of channel c along the axis, gathered. */
static size_t gather(float *to, const struct qc_tensor *t, int axis, size_t channels, size_t c)
{
    size_t inner = 1, n = 0;
    for (int i = axis + 1; i < t->shape.rank; i++) inner *= (size_t)t->shape.dim[i];
    size_t outer = t->count / (inner * channels);
    const float *x = t->data;
    for (size_t o = 0; o < outer; o++)
        for (size_t i = 0; i < inner; i++) to[n++] = x[(o * channels + c) * inner + i];
    return n;
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
    float *scale;
    int32_t *zero_point;
};

/* By the error of the layer's outputs; *ranges stays NULL where that is not known. */
static bool ranges_by_output(struct qc_range **ranges, size_t channels, const struct qc_graph *g, qc_id id, const struct constant_use *use,
                             const struct qc_calibration_options *o, struct qc_arena *a, struct qc_status *st)
{
    if (!o->gram) return qc_fail(st, QC_USAGE, "the weight method '%s' needs second moments, which the statistics do not hold (--second-moments off); collect again", o->weight->name);
    const struct qc_tensor *t = use->tensor;
    const float *x = t->data;
    struct qc_output_error e = {.g = g, .weight = t, .space = &g->spaces[id], .compensate = o->compensate, .channels = channels,
                                .workers = o->workers, .memory_limit = o->memory_limit};
    if (!(e.layer = qc_output_layer(&e.node, o->gram, g, id))) return true;
    struct qc_range *r = QC_NEW_ARRAY(a, struct qc_range, channels, st);
    if (!r) return false;
    e.centred = o->correct_bias && (qc_reweigh_biased_op(g, &g->nodes[e.node]) != QC_OP_MatMul || qc_reweigh_behind(g, e.node, false));
    for (size_t i = 0; i < t->count; i++) {
        const size_t c = channel_at(t, use->axis, channels, i);
        r[c].lo = fmin(r[c].lo, (double)x[i]);
        r[c].hi = fmax(r[c].hi, (double)x[i]);
    }
    if (!qc_output_ranges(r, &e, st)) return qc_where(st, "weight '%s'", g->spaces[id].name);
    for (size_t i = 0; i < t->count; i++) {
        const size_t c = channel_at(t, use->axis, channels, i);
        r[c].clipped_fraction += ((double)x[i] < r[c].lo || (double)x[i] > r[c].hi) * (double)channels / (double)t->count;
    }
    *ranges = r;
    return true;
}

static bool solve_channels(struct channels *out, struct qc_choice *choice, const struct qc_graph *g, qc_id id, const struct constant_use *use,
                           const struct qc_calibration_options *o, struct qc_arena *a, struct qc_status *st)
{
    const struct qc_tensor *t = use->tensor;
    const struct qc_space *s = &g->spaces[id];
    const struct qc_observer *observer = s->is_weight ? o->weight : o->activation;
    const struct qc_observer_values *values = s->is_weight ? &o->weight_values : &o->activation_values;
    struct qc_solve request = QC_SOLVE_INIT(qc_space_levels(s), s->symmetry);
    out->count = s->per_channel && t->shape.rank > use->axis ? (size_t)t->shape.dim[use->axis] : 1;
    if (!out->count || !t->count) return qc_fail(st, QC_BAD_INPUT, "constant '%s' is empty", s->name);
    out->scale = QC_NEW_ARRAY(a, float, out->count, st);
    out->zero_point = QC_NEW_ARRAY(a, int32_t, out->count, st);
    float *channel = malloc((t->count / out->count) * sizeof *channel);
    if (!out->scale || !out->zero_point || !channel) {
        free(channel);
        return qc_fail_memory(st, t->count * sizeof *channel);
    }
    struct qc_range *ranges = NULL;
    bool ok = !s->is_weight || !observer->of_output || ranges_by_output(&ranges, out->count, g, id, use, o, a, st);
    choice->method = observer->name;
    for (size_t c = 0; ok && c < out->count; c++) {
        struct qc_range r = {0};
        const float *x = t->data;
        size_t n = out->count == 1 ? t->count : gather(channel, t, use->axis, out->count, c);
        if (ranges) r = ranges[c];
        else ok = qc_observer_solve_values(&r, observer, values, out->count == 1 ? x : channel, n, &request, st);
        if (!ok) break;
        struct qc_affine p = qc_affine_from_range(r.lo, r.hi, request.levels, s->symmetry);
        out->scale[c] = r.lo == 0 && r.hi == 0 ? 0 : p.scale; /* 0: an empty channel, mended by the caller */
        out->zero_point[c] = p.zero_point;
        if (r.lo < choice->range.lo) choice->range.lo = r.lo;
        if (r.hi > choice->range.hi) choice->range.hi = r.hi;
        choice->range.clipped_fraction += r.clipped_fraction / (double)out->count;
    }
    free(channel);
    return ok;
}

/* A channel of zeros takes the widest scale of the others (1 when there is none): any scale is exact for it, but the
   accumulator, and with it the bias, is counted in steps of it. */
static void mend_empty(const struct channels *c)
{
    float widest = 0;
    for (size_t i = 0; i < c->count; i++) widest = c->scale[i] > widest ? c->scale[i] : widest;
    for (size_t i = 0; i < c->count; i++)
        if (c->scale[i] == 0) c->scale[i] = widest > 0 ? widest : 1;
}

/* Weights whose products could not matter: a step of the accumulator below this is a denormal before long. */
static const double STEP_MIN = 7.9e-31; /* 2^-100 */

/* Raises scales until no step of an accumulator is too small for a float32 multiplier. */
static void fit_step(const struct channels *c, const struct qc_graph *g, qc_id site)
{
    for (qc_id id = 1; id <= g->space_count; id++) {
        const struct qc_space *p = &g->spaces[id];
        if (p->kind != QC_SPACE_PRODUCT || p->b != site || g->spaces[p->a].state != QC_SPACE_BOUND) continue;
        const struct qc_space *a = &g->spaces[p->a];
        for (size_t k = 0; k < c->count; k++)
            for (size_t i = 0; i < a->count; i++) {
                const float least = (float)(STEP_MIN / (double)a->scale[i]);
                if (a->count == 1 || c->count == 1 || i == k) c->scale[k] = c->scale[k] < least ? least : c->scale[k];
            }
    }
}

/* Raises scales until the bias, counted in steps of input scale x weight scale, fits. Returns how many were raised. */
static size_t fit_bias(const struct channels *c, const struct qc_graph *g, qc_id site)
{
    size_t raised = 0;
    for (qc_id id = 1; id <= g->node_count; id++) {
        const struct qc_node *n = &g->nodes[id];
        if (n->op != QC_OP_Quantize) continue;
        const struct qc_space *p = &g->spaces[g->values[n->outputs].type.space];
        const struct qc_tensor *bias = qc_constant_of(g, n->inputs[0]);
        if (p->kind != QC_SPACE_PRODUCT || p->b != site || !bias || bias->dtype != QC_F32 || g->spaces[p->a].state != QC_SPACE_BOUND) continue;
        const struct qc_space *a = &g->spaces[p->a];
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

static bool tally(struct qc_tally *t, const struct qc_tensor *x, struct qc_status *st)
{
    struct qc_scan *scan = NULL;
    struct qc_histogram seen = {.tally = {.first_bad_sample = QC_NO_SAMPLE}};
    if (!qc_scan_new(&scan, QC_NEED_EXTREMES, st)) return false;
    const bool ok = qc_scan_values(scan, x->data, x->count, st);
    if (ok) qc_histogram_add_scan(&seen, scan);
    if (ok) *t = seen.tally;
    t->samples = 1;
    qc_scan_free(scan);
    return ok;
}

static bool choose(size_t *raised, struct qc_calibration *c, struct qc_graph *g, qc_id id, const struct constant_use *use,
                   const struct qc_calibration_options *o, struct qc_status *st)
{
    const struct qc_space *s = &g->spaces[id];
    struct qc_choice *choice = &c->choices[id];
    struct channels channels = {0};
    if (use->tensor->dtype != QC_F32) return qc_fail(st, QC_UNSUPPORTED, "constant '%s' is %s, not float32", s->name, qc_dtype_info(use->tensor->dtype)->name);
    if (!tally(&choice->seen, use->tensor, st)) return false;
    if (choice->seen.nan || choice->seen.pos_inf || choice->seen.neg_inf)
        return qc_fail(st, QC_BAD_INPUT, "weight '%s' holds NaN or infinity; the model is damaged", s->name);
    if (!solve_channels(&channels, choice, g, id, use, o, c->arena, st)) return false;
    mend_empty(&channels);
    if (s->is_weight) {
        fit_step(&channels, g, id);
        *raised += fit_bias(&channels, g, id);
    }
    choice->chosen = true;
    return qc_graph_bind_site(g, id, channels.count, channels.scale, channels.zero_point, st);
}

/* Is every activation that is multiplied with a weight bound? */
static bool ready(const struct qc_graph *g, qc_id site)
{
    for (qc_id id = 1; id <= g->space_count; id++) {
        const struct qc_space *p = &g->spaces[id];
        if (p->kind == QC_SPACE_PRODUCT && p->b == site && g->spaces[p->a].state == QC_SPACE_UNBOUND) return false;
    }
    return true;
}

static bool choose_all(struct qc_calibration *c, struct qc_graph *g, bool only_ready, const struct qc_calibration_options *options, struct qc_status *st)
{
    for (qc_id id = 1; id <= g->space_count; id++) {
        struct constant_use use;
        if (g->spaces[id].kind != QC_SPACE_SITE || g->spaces[id].state != QC_SPACE_UNBOUND || (only_ready && !(g->spaces[id].is_weight && ready(g, id))) || !find_use(&use, g, id))
            continue;
        if (!choose(&c->raised, c, g, id, &use, options, st)) return false;
    }
    return true;
}

bool qc_choose_ready_weights(struct qc_calibration *c, struct qc_graph *g, const struct qc_calibration_options *options, struct qc_status *st)
{
    return choose_all(c, g, true, options, st);
}

bool qc_choose_weights(struct qc_calibration *c, struct qc_graph *g, const struct qc_calibration_options *options, struct qc_status *st)
{
    if (!choose_all(c, g, false, options, st)) return false;
    if (!c->raised) return true;
    return qc_calibration_warn(c, st, "%zu channel%s of weights got a coarser scale so that the bias fits into the 32-bit accumulator; such channels are nearly constant",
                               c->raised, c->raised == 1 ? "" : "s");
}
