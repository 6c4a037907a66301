// SPDX-License-Identifier: Apache-2.0
#include "calib/accumulator/fit_accumulator.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "calib/metrics/measure.h"
#include "calib/weights/sum_bound.h"
#include "graph/core/parameters.h"

/* Gives the integers of a quantized constant; *out is NULL, without an error, for another value. */
static bool integers(struct qc_tensor **out, const struct qc_graph *g, qc_id value, struct qc_status *st)
{
    const qc_id from = qc_quantized_constant(g, value);
    *out = from == value && from ? qc_tensor_ref(qc_constant_of(g, value)) : NULL;
    return from == value || !from || qc_evaluate(out, g, g->values[value].node, st);
}

bool qc_accumulator_bits(unsigned *bits, const struct qc_graph *g, qc_id node, struct qc_status *st)
{
    const struct qc_node *n = &g->nodes[node];
    struct qc_tensor *w = NULL, *b = NULL;
    int64_t *up = NULL; /* [2][channels]: sums of the positive and of the negative weights of a channel */
    double widest = 0;
    bool ok = false;
    *bits = 0;
    if (qc_op_info(n->op)->affine != QC_AFFINE_PRODUCT || n->op == QC_OP_ConvTranspose) return true;
    const struct qc_qparams *x = qc_graph_parameters(g, n->inputs[0]), *ws = qc_graph_parameters(g, n->inputs[1]);
    if (!x || !ws) return true;
    if (!integers(&w, g, n->inputs[1], st) ||
        (n->input_count > 2 && n->inputs[2] && !integers(&b, g, n->inputs[2], st)))
        goto out;
    ok = true;
    if (!w) goto out;
    const int axis = qc_sum_axis(g, n);
    size_t channels = (size_t)w->shape.dim[axis], inner = 1;
    for (int i = axis + 1; i < w->shape.rank; i++) inner *= (size_t)w->shape.dim[i];
    up = calloc(2 * channels + 1, sizeof *up);
    if (!up) {
        ok = qc_fail_memory(st, 2 * channels * sizeof *up);
        goto out;
    }
    struct qc_levels levels = qc_qparams_levels(x);
    const int64_t *down = up + channels;
    qc_tensor_parts(up, up + channels, w, channels, inner, ws->zero_point, ws->count);
    for (size_t c = 0; c < channels; c++) {
        const double zero = x->zero_point[x->count == 1 ? 0 : c], below = (double)levels.lo - zero,
                     above = (double)levels.hi - zero;
        const double most = (double)up[c] * above + (double)down[c] * below,
                     least = (double)up[c] * below + (double)down[c] * above;
        const double bias = b && c < b->count ? (double)qc_tensor_int(b, c) : 0;
        widest =
            fmax(widest, fmax(most + fmax(bias, 0), -least + fmax(-bias, 0))); /* the bias may be added first or last */
    }
    *bits = qc_bits_for(widest);
out:
    free(up);
    qc_tensor_unref(w);
    qc_tensor_unref(b);
    return ok;
}

static const double STEP = 1 + 1.0 / 64; /* ratio of one tried scale to the previous */
static const double PROOF_MAX = 2;       /* AUTO: largest factor of a scale that a proof may need */
static const double MARGIN = 1.25;       /* on sums seen: other data exceed them (decision 13) */
enum { PASSES = 4 };                     /* runs of the data at most: a raised scale changes the sums of later layers */

struct layer {
    struct qc_sum_layer sums;
    bool seen; /* bounded by the sums seen, not proven */
};

struct fit {
    struct qc_calibration *c;
    struct qc_graph *g;
    const struct qc_settings *settings;
    double limit; /* largest sum */
    size_t layer_count;
    struct layer *layers;
    float **scale;        /* [qparams_count + 1]: of weight quantizers, as raised so far */
    const float **before; /* the original ones */
};

/* ------------------------------------------------- proofs */

static double bound_accumulator(const struct layer *l, size_t channel, float scale)
{
    return qc_sum_bound(&l->sums, l->sums.weights, qc_sum_bias(&l->sums, channel), channel, scale);
}

/* Returns the smallest scale, in steps, with which the channel fits. It is searched, since coarse weights round to 0
   together: the bound is not linear in the scale. */
static float proven_scale(const struct fit *f, const struct layer *l, size_t channel, float scale)
{
    const double now = bound_accumulator(l, channel, scale);
    if (now <= f->limit) return scale;
    double try = (double)scale * fmax(1, 0.5 * now / f->limit);
    while (try < (double)FLT_MAX && bound_accumulator(l, channel, (float)try) > f->limit) try *= STEP;
    return (float)try;
}

/* ------------------------------------------------- sums seen */

/* Returns the place of a channel's scale. */
static float *scale_of(const struct fit *f, const struct layer *l, size_t channel)
{
    const size_t count = f->g->qparams_of[l->sums.quantizer].count;
    return &f->scale[l->sums.quantizer][count > 1 ? channel % count : 0];
}

/* Raises the scales of channels whose sums seen, times `margin`, exceed the range. Returns the number of these
   channels. */
static size_t raise_seen(struct fit *f, const struct qc_overflows *seen, double margin)
{
    size_t raised = 0;
    for (size_t i = 0; i < f->layer_count; i++) {
        const struct layer *l = &f->layers[i];
        const struct qc_layer_overflow *of = l->seen ? qc_overflow_of(seen, l->sums.node) : NULL;
        const struct qc_qparams *s = &f->g->qparams_of[l->sums.quantizer];
        for (size_t c = 0; of && c < of->sums.channels; c++) {
            const double most = fmax((double)of->sums.highest[c], -(double)of->sums.lowest[c]);
            if (most * margin <= f->limit) continue;
            float *scale = scale_of(f, l, c);
            *scale =
                fmaxf(*scale, (float)((double)s->scale[s->count > 1 ? c % s->count : 0] * MARGIN * most / f->limit));
            raised++;
        }
    }
    return raised;
}

static bool bind_accumulator(struct fit *f, struct qc_status *st)
{
    /* Raise scales until every layer to prove is proven. Repeats because a larger scale may round another layer or
       channel that shares it up. */
    for (bool again = true; again;) {
        again = false;
        for (size_t i = 0; i < f->layer_count; i++) {
            const struct layer *l = &f->layers[i];
            for (size_t c = 0; !l->seen && c < l->sums.channels; c++) {
                float *scale = scale_of(f, l, c);
                const float proven = proven_scale(f, l, c, *scale);
                again = again || proven > *scale;
                *scale = fmaxf(*scale, proven);
            }
        }
    }
    for (qc_id id = 1; id <= f->g->qparams_count; id++) {
        const struct qc_qparams *s = &f->g->qparams_of[id];
        if (f->scale[id] && !qc_graph_bind_quantizer(f->g, id, s->count, f->scale[id], s->zero_point, st)) return false;
    }
    return true;
}

/* ------------------------------------------------- warnings */

static bool tell_accumulator(struct fit *f, const struct qc_overflows *left, struct qc_status *st)
{
    size_t scales = 0, quantizers = 0, seen = 0;
    double most = 1;
    for (qc_id id = 1; id <= f->g->qparams_count; id++) {
        struct qc_choice *choice = &f->c->choices[id];
        if (!f->scale[id]) continue;
        choice->raise_max = 1;
        for (size_t i = 0; i < f->g->qparams_of[id].count; i++) {
            double factor = (double)f->scale[id][i] / (double)f->before[id][i];
            choice->raised += factor > 1;
            choice->raise_max = fmax(choice->raise_max, factor);
        }
        scales += choice->raised;
        quantizers += choice->raised > 0;
        most = fmax(most, choice->raise_max);
    }
    for (size_t i = 0; i < f->layer_count; i++) seen += f->layers[i].seen;
    if (scales && !qc_lines_add(&f->c->warnings, f->c->arena, st,
                                "%zu scale%s of %zu weight%s raised, by a factor of up to %.3g, so that "
                                "accumulators of %u bits do not overflow; "
                                "%zu of %zu layers are proven, the others fit the sums seen in the data",
                                scales, scales == 1 ? "" : "s", quantizers, quantizers == 1 ? " was" : "s were", most,
                                f->settings->plan.accumulator.bits, f->layer_count - seen, f->layer_count))
        return false;
    for (size_t k = 0; k < left->count; k++) {
        const struct qc_layer_overflow *l = &left->layers[k];
        struct qc_sum_layer weights;
        if (!l->sums.overflows) continue;
        if (!qc_lines_add(&f->c->warnings, f->c->arena, st,
                          "'%s' overflows an accumulator of %u bits in %llu of %llu results of the data; it needs %u%s",
                          l->name, f->settings->plan.accumulator.bits, (unsigned long long)l->sums.overflows,
                          (unsigned long long)l->sums.results, l->bits,
                          qc_sum_layer_of(&weights, f->g, l->node)
                              ? ""
                              : ", and both operands come from the data, so no scale was raised"))
            return false;
    }
    return true;
}

bool qc_fit_accumulators(struct qc_calibration *c, struct qc_graph *g, const struct qc_dataset *data,
                         const struct qc_settings *settings, struct qc_status *st)
{
    struct fit f = {.c = c, .g = g, .settings = settings, .limit = qc_sum_limit(settings->plan.accumulator.bits)};
    struct qc_overflows seen = {0};
    f.layers = QC_NEW_ARRAY(c->arena, struct layer, g->node_count, st);
    f.scale = QC_NEW_ARRAY(c->arena, float *, g->qparams_count + 1, st);
    f.before = QC_NEW_ARRAY(c->arena, const float *, g->qparams_count + 1, st);
    if (!f.layers || !f.scale || !f.before) return false;
    for (qc_id id = 1; id <= g->node_count; id++) {
        struct layer *l = &f.layers[f.layer_count];
        if (!qc_sum_layer_of(&l->sums, g, id)) continue;
        f.layer_count++;
        const qc_id quantizer = l->sums.quantizer;
        const struct qc_qparams *w = l->sums.qparams;
        if (f.scale[quantizer]) continue;
        f.before[quantizer] = qc_arena_dup(c->arena, w->scale, w->count, sizeof *w->scale, st);
        f.scale[quantizer] = qc_arena_dup(c->arena, w->scale, w->count, sizeof *w->scale, st);
        if (!f.scale[quantizer] || !f.before[quantizer]) return false;
    }
    for (size_t i = 0; i < f.layer_count; i++) { /* is it proven or bounded by the sums seen? */
        struct layer *l = &f.layers[i];
        l->seen = l->sums.axis < 0 || settings->bound == QC_BOUND_SEEN;
        for (size_t k = 0; settings->bound == QC_BOUND_AUTO && !l->seen && k < l->sums.channels; k++) {
            const float was = *scale_of(&f, l, k);
            l->seen = (double)proven_scale(&f, l, k, was) > PROOF_MAX * (double)was;
        }
    }
    if (!bind_accumulator(&f, st)) return false;
    for (int pass = 0; data && pass <= PASSES; pass++) {
        const struct qc_settings *o = f.settings;
        struct qc_plan_options how = {.accumulator = {.bits = o->plan.accumulator.bits, .overflow = QC_OVERFLOW_WATCH}};
        struct qc_plan *plan = NULL;
        struct qc_stream s = {.data = data,
                              .input_count = f.g->input_count,
                              .plan_count = 1,
                              .overflows = {&seen},
                              .progress = o->progress,
                              .progress_user = o->progress_user};
        bool ok = qc_stream_plan(&plan, f.g, data, &how, st) && qc_overflows_new(&seen, plan, f.g, f.c->arena, st) &&
                  qc_stream_fit(&s.workers, o, data, qc_plan_runner_bytes(plan), st);
        s.plans[0] = plan;
        ok = ok && (!seen.count || qc_stream_run(&s, st)); /* nothing to run if all layers are proven */
        qc_plan_free(plan);
        if (!ok) return false;
        if (pass == PASSES || !raise_seen(&f, &seen, pass ? 1 : MARGIN)) break;
        if (!bind_accumulator(&f, st)) return false;
    }
    return tell_accumulator(&f, &seen, st);
}
