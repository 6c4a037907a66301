// SPDX-License-Identifier: Apache-2.0
#include "quantize/search/searches.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "calib/ablation.h"
#include "calib/statistics/stream.h"
#include "graph/core/graph.h"
#include "graph/core/parameters.h"
#include "graph/core/rebuild.h"
#include "graph/core/uses.h"
#include "quantize/make/make.h"
#include "quantize/search/least.h"
#include "rewrite/passes/channels.h"

/* What may be scaled. */
enum qc_scale_kinds {
    QC_SCALE_FEW = 1,     /* weights of at most 4 bits */
    QC_SCALE_DYNAMIC = 2, /* weights whose input is quantized at run time */
    QC_SCALE_STATIC = 4   /* weights whose input has a calibrated range */
};

struct qc_scale_search {
    unsigned kinds;
    const struct qc_graph *simulated;
    const bool *dynamic; /* [node_count + 1 of simulated]: products whose input is quantized at run time */
    struct qc_second_moments *second_moments; /* of simulated */
    const struct qc_calibration_options *calibration;
    struct qc_round_weights_options rounding;
    const bool *busy;              /* [value_count + 1 of the real graph]: values with ranges in the statistics */
    const struct qc_dataset *data; /* NULL: groups with quantized inputs or ranges are not scaled */
    const uint64_t *keys;          /* of its units (struct qc_evidence), or NULL */
    bool tables_apart;             /* a tied table is stored twice; else its product is not scaled */
    bool may_collect;              /* statistics can be collected again; else groups with busy values are not scaled */
    struct qc_arena *arena;
    qc_pool_progress_fn *progress;
    void *progress_user;
};

/* The exponents a and b that are tried: of a channel's magnitude, and of its weights' root mean square. */
static const struct {
    double activation, weight;
} tried[] = {{0, 0.5},    {0, 1},     {0.25, 0.25}, {0.25, 0.5}, {0.25, 0.75},
             {0.5, 0.25}, {0.5, 0.5}, {0.5, 0},     {0.75, 0.25}};
enum { TRIED = sizeof tried / sizeof *tried };
_Static_assert((size_t)TRIED <= QC_LEAST_MOST, "all can be compared");

static const double *one_group(const struct qc_channels *c, qc_id value, const double *scale)
{
    return scale + c->layout[value].offset;
}

/* Divides the second moments of the readers by these scales of the group, which are copied into the arena; NULL:
   removes the division. */
static bool scale_moments(struct qc_second_moments *second_moments, const struct qc_channels *c,
                          const struct qc_scaled_group *group, const double *scale, struct qc_arena *a,
                          struct qc_status *st)
{
    for (size_t i = 0; i < group->reader_count; i++) {
        struct qc_second_moments_layer *l = qc_second_moments_of(second_moments, NULL, group->readers[i].simulated);
        const qc_id x = c->graph->nodes[group->readers[i].node].inputs[0];
        double *own = NULL;
        if (scale && !(own = QC_NEW_ARRAY(a, double, l->channels, st))) return false;
        if (scale) memcpy(own, one_group(c, x, scale), l->channels * sizeof *own);
        l->divisor = own;
    }
    return true;
}

/* ---- Candidates ---- */

/* Computes the mean square of each channel that a reader reads, summed over the taps of its kernel. */
static bool squares_read(double *sum, const struct qc_second_moments_layer *l, struct qc_status *st)
{
    const size_t each = l->channels / l->groups;
    double *diagonal = malloc(l->block * sizeof *diagonal);
    if (!diagonal) return qc_fail_memory(st, l->block * sizeof *diagonal);
    memset(sum, 0, l->channels * sizeof *sum);
    for (size_t k = 0; k < l->groups * l->blocks; k++) {
        const size_t b = k % l->blocks, width = qc_second_moments_width(l, b);
        qc_second_moments_read_diagonal(diagonal, l, ~0u, k / l->blocks, b);
        for (size_t i = 0; i < width; i++) sum[k / l->blocks * each + (b * l->block + i) % each] += diagonal[i];
    }
    free(diagonal);
    return true;
}

/* Takes the maximum of `activation` and the squared magnitude of each channel: the mean square, or the square of the
   largest value if the input is quantized. */
static bool measure_activation(double *activation, const struct qc_scale_search *s, const struct qc_channels *c,
                               const struct qc_scaled_reader *r, struct qc_status *st)
{
    const struct qc_second_moments_layer *l = qc_second_moments_of(s->second_moments, NULL, r->simulated);
    double *own = activation + c->layout[c->graph->nodes[r->node].inputs[0]].offset;
    for (size_t i = 0; r->seen && i < r->seen->units * l->channels; i++) {
        const double top = fmax(-(double)r->seen->lo[i], (double)r->seen->hi[i]);
        own[i % l->channels] = fmax(own[i % l->channels], top * top);
    }
    if (r->seen) return true;
    double *sum = malloc(l->channels * sizeof *sum);
    const bool ok = sum ? squares_read(sum, l, st) : qc_fail_memory(st, l->channels * sizeof *sum);
    for (size_t i = 0; ok && i < l->channels; i++) own[i] = fmax(own[i], sum[i]);
    free(sum);
    return ok;
}

/* s = r^a / m^b, divided by the geometric mean. */
static void set_scales(double *scale, const double *activation, const double *weight, size_t which,
                       const struct qc_channel_group *q)
{
    double top[2] = {0, 0}, sum = 0;
    size_t free_channels = 0;
    for (int64_t i = 0; i < q->count; i++) {
        top[0] = fmax(top[0], activation[i]);
        top[1] = fmax(top[1], weight[i]);
    }
    for (int64_t i = 0; i < q->count; i++) {
        const double r = top[0] > 0 ? fmax(sqrt(activation[i] / top[0]), QC_SCALE_FLOOR) : 1,
                     m = top[1] > 0 ? fmax(sqrt(weight[i] / top[1]), QC_SCALE_FLOOR) : 1;
        scale[i] = q->held[i] ? 1 : pow(r, tried[which].activation) / pow(m, tried[which].weight);
        if (q->held[i]) continue;
        sum += log(scale[i]);
        free_channels++;
    }
    const double middle = free_channels ? exp(sum / (double)free_channels) : 1;
    for (int64_t i = 0; i < q->count; i++)
        if (!q->held[i]) scale[i] /= middle;
}

/* ---- Trials ---- */

/* Returns the quantizer of a reader's weight. */
static qc_id quantizer_of(const struct qc_graph *g, qc_id node)
{
    return g->values[qc_second_moments_weight(g, &g->nodes[node])].type.qparams;
}

/* Returns the mean output noise from rounding the scaled input: step^2 / 12 times the sum of the squared weights.
   scale: of the reader's channels; NULL: 1. */
static double input_noise(const struct qc_scaled_reader *r, const double *scale)
{
    const struct qc_channel_extremes *e = r->seen;
    double sum = 0, steps = 0, lo_all = 0, hi_all = 0;
    if (!e) return 0;
    for (size_t i = 0; i < e->channels; i++) sum += r->squares[i] * (scale ? scale[i] * scale[i] : 1);
    for (size_t u = 0; u < e->units; u++) {
        double lo = 0, hi = 0;
        for (size_t i = 0; i < e->channels; i++) {
            lo = fmin(lo, (double)e->lo[u * e->channels + i] / (scale ? scale[i] : 1));
            hi = fmax(hi, (double)e->hi[u * e->channels + i] / (scale ? scale[i] : 1));
        }
        steps += (hi - lo) * (hi - lo) / (double)e->units;
        lo_all = fmin(lo_all, lo);
        hi_all = fmax(hi_all, hi);
    }
    if (!r->dynamic) steps = (hi_all - lo_all) * (hi_all - lo_all);
    return steps / (r->steps * r->steps) / 12 * sum;
}

/* Scales of one group that are tried. The error of an attempt is the mean over the readers of the ratio of their errors
   to those without scales; readers without an error before do not count. */
struct attempt {
    const struct qc_scaled_group *group;
    const double *scale;  /* NULL: 1 */
    const double *noise;  /* [readers of the group]: noise from rounding the input */
    const double *before; /* [readers of the group]: errors without scales; NULL: not known yet */
    double limit;         /* the result is known to be of no use as soon as it must exceed this */
    double *errors;       /* [readers of the group]: results; less than the error if the limit is exceeded */
};

static double error_of(const struct attempt *a)
{
    double sum = 0;
    size_t judged = 0;
    for (size_t r = 0; r < a->group->reader_count; r++) {
        if (!(a->before[r] > 0)) continue;
        sum += a->errors[r] / a->before[r];
        judged++;
    }
    return judged ? sum / (double)judged : 1;
}

/* Adds the weight rounding errors of the readers to their noise. Errors are not negative, so noise alone is a lower
   bound: an attempt ends as soon as it exceeds its limit. */
static bool judge_attempts(const struct attempt *attempts, size_t count, const struct qc_scale_search *s,
                           struct qc_graph *g, struct qc_status *st)
{
    struct qc_round_weights_options o = s->rounding;
    struct qc_settings quiet = *o.settings;
    struct qc_calibration_options choosing = *s->calibration;
    struct qc_calibration c = {.arena = qc_arena_new(), .qparams_count = g->qparams_count};
    struct qc_weight_rounder *rounder = NULL;
    if (!c.arena) return qc_fail_memory(st, 1);
    o.known = NULL;
    quiet.progress = NULL;
    o.settings = &quiet;
    o.judged = QC_SCALE_JUDGED;
    choosing.second_moments = s->second_moments;
    choosing.judged = QC_SCALE_JUDGED;
    bool *wanted = QC_NEW_ARRAY(c.arena, bool, g->qparams_count + 1, st);
    c.choices = QC_NEW_ARRAY(c.arena, struct qc_choice, g->qparams_count + 1, st);
    bool ok = wanted && c.choices;
    for (size_t i = 0; ok && i < count; i++)
        for (size_t r = 0; r < attempts[i].group->reader_count; r++)
            wanted[quantizer_of(g, attempts[i].group->readers[r].simulated)] = true;
    ok = ok && qc_choose_some_weights(&c, g, wanted, &choosing, st) &&
         qc_weight_rounder_new(&rounder, g, s->second_moments, &o, st);
    for (size_t i = 0; ok && i < count; i++) {
        const struct attempt *a = &attempts[i];
        for (size_t r = 0; ok && r < a->group->reader_count && !(a->before && error_of(a) > a->limit); r++) {
            const qc_id node = a->group->readers[r].simulated;
            if (!qc_weight_rounder_waits(rounder, node)) continue;
            ok = qc_weight_rounder_solve(rounder, node, NULL, st);
            if (ok) a->errors[r] += qc_weight_rounder_result(rounder, node)->error;
        }
    }
    qc_weight_rounder_free(rounder);
    qc_arena_free(c.arena);
    return ok;
}

/* Fills the errors of attempts on different groups. */
static bool try_scales(const struct attempt *attempts, size_t count, const struct qc_scale_search *s,
                       const struct qc_channels *c, struct qc_status *st)
{
    struct qc_graph *g = NULL;
    /* Copy the simulated graph with the weights of the readers multiplied by scales; nodes keep their ids. The
       producers of the groups are not divided: the error of the readers' weights does not depend on them. */
    const struct qc_graph *from = s->simulated;
    struct qc_rebuild b;
    bool ok = qc_rebuild_begin(&b, from, st);
    for (size_t i = 0; ok && i < count; i++)
        for (size_t r = 0; ok && attempts[i].scale && r < attempts[i].group->reader_count; r++) {
            const struct qc_scaled_reader *of = &attempts[i].group->readers[r];
            const qc_id x = c->graph->nodes[of->node].inputs[0],
                        w = qc_quantized_constant(from, qc_second_moments_weight(from, &from->nodes[of->simulated]));
            struct qc_tensor *t = NULL;
            ok = qc_channels_scaled_weight(&t, c, of->node, one_group(c, x, attempts[i].scale), NULL, st) &&
                 (b.map[w] = qc_graph_add_constant(b.to, from->values[w].name, t, st));
            qc_tensor_unref(t);
        }
    for (qc_id id = 1; ok && id <= from->node_count; id++) ok = qc_rebuild_node(&b, id, st) != 0;
    ok = ok && qc_rebuild_finish(&g, &b, st);
    qc_rebuild_free(&b);
    for (size_t i = 0; ok && i < count; i++) {
        memcpy(attempts[i].errors, attempts[i].noise, attempts[i].group->reader_count * sizeof *attempts[i].errors);
        ok = scale_moments(s->second_moments, c, attempts[i].group, attempts[i].scale, s->arena, st);
    }
    ok = ok && judge_attempts(attempts, count, s, g, st);
    for (size_t i = 0; i < count; i++) {
        struct qc_status ignored = QC_STATUS_INIT;
        scale_moments(s->second_moments, c, attempts[i].group, NULL, s->arena, &ignored);
    }
    qc_graph_free(g);
    return ok;
}

struct taking {
    struct qc_channel_extremes *of;
    size_t *units; /* of the data set; those that run */
};

static size_t place_of(const struct taking *t, size_t unit)
{
    size_t i = 0;
    while (t->units[i] != unit) i++;
    return i;
}

static bool observe(void *user, const struct qc_unit *at, size_t index, const struct qc_view *v, struct qc_status *st)
{
    const struct taking *t = user;
    const struct qc_channel_extremes *e = &t->of[index];
    if (e->axis >= v->rank || (size_t)v->dim[e->axis] != e->channels)
        return qc_fail(st, QC_BAD_INPUT, "has other channels than the model says (%zu along axis %d)", e->channels,
                       e->axis);
    float *lo = e->lo + place_of(t, at->unit) * e->channels, *hi = e->hi + place_of(t, at->unit) * e->channels;
    const size_t count = qc_view_count(v);
    int64_t index_of[QC_RANK_MAX] = {0}, from = 0;
    for (size_t k = 0; k < count; k++) {
        const float x = ((const float *)v->data)[from];
        const int64_t c = index_of[e->axis];
        if (x < lo[c]) lo[c] = x;
        if (x > hi[c]) hi[c] = x;
        for (int d = v->rank - 1; d >= 0; d--) {
            from += v->stride[d];
            if (++index_of[d] < v->dim[d]) break;
            from -= v->stride[d] * v->dim[d];
            index_of[d] = 0;
        }
    }
    return true;
}

/* Fills of[count], whose value, axis and channels are given; memory from the arena. NaN is ignored. The result does not
   depend on the number of workers. Fails if a value has another number of channels than the model declares, or if a run
   fails. */
static bool channel_extremes_take(struct qc_channel_extremes *of, size_t count, const struct qc_graph *g,
                                  const struct qc_dataset *data, const uint64_t *keys, unsigned workers,
                                  struct qc_arena *a, struct qc_status *st)
{
    const size_t all = qc_dataset_units(data), units = all < QC_SCALE_EXTREMES_UNITS ? all : QC_SCALE_EXTREMES_UNITS;
    struct qc_plan *plan = NULL;
    struct taking t = {.of = of, .units = QC_NEW_ARRAY(a, size_t, units, st)};
    qc_id *values = QC_NEW_ARRAY(a, qc_id, count, st);
    uint64_t chosen[QC_SCALE_EXTREMES_UNITS];
    if (!t.units || !values || !qc_select_units(chosen, units, all, &(struct qc_selection){.keys = keys}, st))
        return false;
    for (size_t i = 0; i < units; i++) t.units[i] = (size_t)chosen[i];
    for (size_t i = 0; i < count; i++) {
        values[i] = of[i].value;
        of[i].units = units;
        of[i].lo = QC_NEW_ARRAY(a, float, units *of[i].channels, st);
        of[i].hi = QC_NEW_ARRAY(a, float, units *of[i].channels, st);
        if (!of[i].lo || !of[i].hi) return false;
    }
    const struct qc_plan_options how = {.observed_count = count, .observed = values};
    if (!qc_stream_plan(&plan, g, data, &how, st)) return false;
    const struct qc_stream stream = {.data = data,
                                     .input_count = g->input_count,
                                     .plan_count = 1,
                                     .plans = {plan},
                                     .units = t.units,
                                     .unit_count = units,
                                     .workers = workers,
                                     .observe = observe,
                                     .user = &t};
    const bool ok = qc_stream_run(&stream, st);
    qc_plan_free(plan);
    return ok;
}

/* The search for the scales of one group. */
struct group_search {
    struct attempt attempts[TRIED]; /* by place in tried[] */
    struct qc_least errors;
    size_t now; /* the attempt that runs */
    bool ended;
};

/* Prepares all attempts. */
static bool begin_group(struct group_search *search, const struct qc_scaled_group *g, const struct qc_channels *c,
                        const double *activation, const double *weight, double *before, struct qc_arena *a,
                        struct qc_status *st)
{
    const struct qc_channel_group *q = &c->groups[g->group];
    qc_least_begin(&search->errors, g->error);
    for (size_t k = 0; k < TRIED; k++) {
        double *scale = QC_NEW_ARRAY(a, double, q->count, st), *noise = QC_NEW_ARRAY(a, double, g->reader_count, st),
               *errors = QC_NEW_ARRAY(a, double, g->reader_count, st);
        if (!scale || !noise || !errors) return false;
        set_scales(scale, activation, weight, k, q);
        for (size_t r = 0; r < g->reader_count; r++) {
            const qc_id x = c->graph->nodes[g->readers[r].node].inputs[0];
            errors[r] = noise[r] = input_noise(&g->readers[r], one_group(c, x, scale));
        }
        search->attempts[k] =
            (struct attempt){.group = g, .scale = scale, .noise = noise, .before = before, .errors = errors};
        qc_least_add(&search->errors, error_of(&search->attempts[k]));
    }
    return true;
}

/* Takes the result of the attempt that has run. */
static void end_attempt(struct group_search *search, struct qc_scaled_group *g, const struct qc_channels *c)
{
    const struct attempt *a = &search->attempts[search->now];
    qc_least_take(&search->errors, search->now, error_of(a));
    if (search->errors.which != search->now) return;
    g->error = search->errors.best;
    g->kind = g->few ? "awq" : "smooth";
    g->activation_power = tried[search->now].activation;
    g->weight_power = tried[search->now].weight;
    memcpy(g->best, a->scale, (size_t)c->groups[g->group].count * sizeof *g->best);
}

/* Sets the best scales of each group; no graph is changed. Fails with QC_INTERRUPTED if `progress` returns false. */
static bool search_scales(struct qc_scaled_group *g, size_t count, const struct qc_scale_search *s,
                          const struct qc_channels *c, struct qc_status *st)
{
    struct attempt *now = QC_NEW_ARRAY(s->arena, struct attempt, count, st);
    struct group_search *searches = QC_NEW_ARRAY(s->arena, struct group_search, count, st);
    size_t running = count;
    if (!now || !searches) return false;
    for (size_t i = 0; i < count; i++) {
        double *noise = QC_NEW_ARRAY(s->arena, double, g[i].reader_count, st),
               *errors = QC_NEW_ARRAY(s->arena, double, g[i].reader_count, st);
        if (!noise || !errors) return false;
        for (size_t r = 0; r < g[i].reader_count; r++) noise[r] = input_noise(&g[i].readers[r], NULL);
        now[i] = (struct attempt){.group = &g[i], .noise = noise, .errors = errors};
    }
    if (!try_scales(now, count, s, c, st)) return false;
    for (size_t i = 0; i < count; i++) {
        const size_t n = (size_t)c->groups[g[i].group].count;
        double *activation = QC_NEW_ARRAY(s->arena, double, n, st), *weight = QC_NEW_ARRAY(s->arena, double, n, st);
        if (!activation || !weight) return false;
        for (size_t r = 0; r < g[i].reader_count; r++) {
            /* Of the weights: squares relative to the sum over the channels, the maximum over several readers. */
            const struct qc_scaled_reader *reader = &g[i].readers[r];
            const struct qc_layer_weight *w = &c->weights[reader->node];
            const int64_t channels = w->inputs * w->conv_groups;
            double *own = weight + c->layout[c->graph->nodes[reader->node].inputs[0]].offset, sum = 0;
            for (int64_t k = 0; k < channels; k++) sum += reader->squares[k];
            for (int64_t k = 0; sum > 0 && k < channels; k++) own[k] = fmax(own[k], reader->squares[k] / sum);
            if (!measure_activation(activation, s, c, &g[i].readers[r], st)) return false;
        }
        if (!begin_group(&searches[i], &g[i], c, activation, weight, now[i].errors, s->arena, st)) return false;
    }
    for (size_t k = 0; k < TRIED && running; k++) {
        running = 0;
        for (size_t i = 0; i < count; i++) {
            struct group_search *search = &searches[i];
            search->ended = search->ended || !qc_least_next(&search->now, &search->errors);
            if (search->ended) continue;
            now[running] = search->attempts[search->now];
            now[running++].limit = search->errors.best;
        }
        if (running && !try_scales(now, running, s, c, st)) return false;
        for (size_t i = 0; i < count; i++)
            if (!searches[i].ended) end_attempt(&searches[i], &g[i], c);
        if (s->progress && !s->progress(s->progress_user, k + 1, TRIED))
            return qc_fail(st, QC_INTERRUPTED, "interrupted");
    }
    return true;
}

static bool has_few_levels(const struct qc_graph *g, qc_id node)
{
    return qc_qparams_are_few(&g->qparams_of[quantizer_of(g, node)]);
}

/* Returns true and fills *out if scaling can help this layer. Depthwise convolutions (l->lanes) have a weight scale for
   each channel that they read, so scaling changes nothing. */
static bool fill_reader(struct qc_scaled_reader *out, const struct qc_scale_search *s, qc_id simulated)
{
    const struct qc_graph *g = s->simulated;
    const struct qc_node *n = &g->nodes[simulated];
    const qc_id weight = qc_second_moments_weight(g, n);
    const struct qc_second_moments_layer *l = weight ? qc_second_moments_of(s->second_moments, NULL, simulated) : NULL;
    /* The qparams of the node's input, quantized or dequantized; NULL if it is real. */
    const struct qc_node *d = qc_node_of(g, n->inputs[0]);
    const qc_id read = d && d->op == QC_OP_Dequantize ? d->inputs[0] : n->inputs[0];
    const struct qc_qparams *q = weight ? &g->qparams_of[g->values[weight].type.qparams] : NULL,
                            *in = weight && g->values[read].type.qparams ? &g->qparams_of[g->values[read].type.qparams]
                                                                         : NULL;
    if (!l || l->divisor || l->lanes || !l->product_count || !qc_second_moments_rows(l, ~0u) || q->given ||
        !(q->per_channel || q->block) || (in && (in->given || in->kind != QC_QPARAMS_QUANTIZER)))
        return false;
    *out = (struct qc_scaled_reader){.simulated = simulated, .dynamic = s->dynamic[simulated]};
    if (out->dynamic)
        out->steps = 255;
    else if (in)
        out->steps = (double)(qc_qparams_levels(in).hi - qc_qparams_levels(in).lo);
    return ((s->kinds & QC_SCALE_FEW) && has_few_levels(g, simulated)) ||
           ((s->kinds & QC_SCALE_DYNAMIC) && out->dynamic) || ((s->kinds & QC_SCALE_STATIC) && in);
}

/* Sums the squares of a layer's weights for each channel that it reads, divided by the number of outputs. */
static bool sum_squares(struct qc_scaled_reader *r, const struct qc_channels *c, struct qc_arena *a,
                        struct qc_status *st)
{
    const struct qc_node *n = &c->graph->nodes[r->node];
    const struct qc_tensor *t = qc_constant_of(c->graph, n->inputs[1]);
    const struct qc_layer_weight *w = &c->weights[r->node];
    const bool rows = n->op == QC_OP_Conv || qc_attr_int(n, "transB", 0);
    const int64_t window = (int64_t)t->count / (w->outputs * w->inputs);
    const float *x = t->data;
    if (!(r->squares = QC_NEW_ARRAY(a, double, w->inputs * w->conv_groups, st))) return false;
    const int64_t slow = rows ? w->outputs : w->inputs, fast = rows ? w->inputs : w->outputs; /* in order of memory */
    for (int64_t p = 0; p < slow; p++)
        for (int64_t q = 0; q < fast; q++, x += window) {
            double sum = 0;
            for (int64_t k = 0; k < window; k++) sum += (double)x[k] * (double)x[k];
            r->squares[qc_weight_channel(w, rows ? p : q, rows ? q : p)] += sum / (double)w->outputs;
        }
    return true;
}

/* *wanted is false if there is nothing to scale in the group. */
static bool fill_group(bool *wanted, struct qc_scaled_group *out, const struct qc_scale_search *s,
                       const struct qc_channels *c, qc_id group, struct qc_status *st)
{
    size_t count = 0;
    for (qc_id id = c->first_reader[group]; id; id = c->next_reader[id]) count++;
    *out = (struct qc_scaled_group){.group = group,
                                    .channels = (size_t)c->groups[group].count,
                                    .name = qc_value_name(c->graph, group, s->arena, st),
                                    .few = true,
                                    .readers = QC_NEW_ARRAY(s->arena, struct qc_scaled_reader, count, st),
                                    .best = QC_NEW_ARRAY(s->arena, double, c->groups[group].count, st),
                                    .error = 1};
    if (!out->name || !out->readers || !out->best) return false;
    for (qc_id v = 1; v <= c->graph->value_count; v++) out->seen = out->seen || (c->group[v] == group && s->busy[v]);
    bool rounded = out->seen, tied = false; /* tied: a scaled matrix would differ from its table */
    for (qc_id id = c->first_reader[group]; id; id = c->next_reader[id]) {
        struct qc_scaled_reader r;
        const struct qc_node *n = &c->graph->nodes[id];
        if (c->role[id] != QC_CHANNELS_LAYER) continue;
        const struct qc_tensor *weight = qc_constant_of(c->graph, n->inputs[1]);
        tied = tied || (!s->tables_apart && weight && qc_next_tied_table(c->graph, weight, 0));
        /* The node of the simulated graph that multiplies with this weight (graphs share constants): just one. */
        qc_id simulated = 0;
        size_t found = 0;
        for (qc_id k = 1; found < 2 && k <= s->simulated->node_count; k++) {
            const qc_id w = qc_second_moments_weight(s->simulated, &s->simulated->nodes[k]);
            if (!w || qc_constant_of(s->simulated, qc_quantized_constant(s->simulated, w)) != weight) continue;
            simulated = k;
            found++;
        }
        if (found != 1 || !fill_reader(&r, s, simulated)) continue;
        r.node = id;
        r.name = n->name && *n->name ? n->name : qc_value_name(c->graph, n->outputs, s->arena, st);
        if (!r.name || !sum_squares(&r, c, s->arena, st)) return false;
        rounded = rounded || r.steps > 0;
        out->few = out->few && has_few_levels(s->simulated, simulated);
        out->readers[out->reader_count++] = r;
    }
    *wanted = out->reader_count && !tied && (!rounded || s->data) && (!out->seen || s->may_collect);
    return true;
}

/* Finds the groups of c, channels of the real graph, that could be scaled. */
static bool list_groups(struct qc_scaled_group **groups, size_t *count, const struct qc_scale_search *s,
                        const struct qc_channels *c, struct qc_status *st)
{
    struct qc_scaled_group *g = QC_NEW_ARRAY(s->arena, struct qc_scaled_group, c->graph->value_count + 1, st);
    if (!g) return false;
    *count = 0;
    for (qc_id v = 1; v <= c->graph->value_count; v++) {
        bool wanted;
        if (c->group[v] != v || c->groups[v].fixed) continue;
        if (!fill_group(&wanted, &g[*count], s, c, v, st)) return false;
        *count += wanted;
    }
    *groups = g;
    return true;
}

/* Computes the minima and maxima of the channels of the readers' quantized inputs, once for each value. Fails if a run
   fails. */
static bool take_extremes(struct qc_scaled_group *g, size_t count, const struct qc_scale_search *s,
                          const struct qc_channels *c, struct qc_status *st)
{
    struct qc_channel_extremes *of = QC_NEW_ARRAY(s->arena, struct qc_channel_extremes, c->graph->node_count, st);
    size_t values = 0;
    if (!of) return false;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < g[i].reader_count; k++) {
            struct qc_scaled_reader *r = &g[i].readers[k];
            const qc_id x = c->graph->nodes[r->node].inputs[0];
            size_t at = 0;
            if (r->steps == 0) continue;
            while (at < values && of[at].value != x) at++;
            r->seen = &of[at];
            if (at < values) continue;
            of[values++] = (struct qc_channel_extremes){.value = x,
                                                        .axis = qc_channel_axis(c, x),
                                                        .channels = (size_t)qc_channel_count(c, x)};
        }
    return !values || channel_extremes_take(of, values, c->graph, s->data, s->keys, s->calibration->settings->workers,
                                            s->arena, st);
}

/* Makes the scaled graph. Second moments are divided by the scales and stay; the statistics are dropped if a range
   changed. */
static bool apply_scales(struct qc_network *net, struct qc_channels *c, struct qc_second_moments *moments,
                         struct qc_channel_scaling *found, struct qc_status *st)
{
    struct qc_equalized info;
    struct qc_graph *scaled = NULL;
    bool seen = false;
    for (size_t i = 0; i < found->group_count; i++) {
        const struct qc_scaled_group *group = &found->groups[i];
        struct qc_channel_group *q = &c->groups[group->group];
        if (!group->kind) continue;
        seen = seen || group->seen;
        memcpy(q->scale, group->best, (size_t)q->count * sizeof *q->scale);
        if (!scale_moments(moments, c, group, group->best, net->form->arena, st)) return false;
    }
    if (!qc_channels_apply(&scaled, &info, c, st)) return false;
    qc_float_form_scale(net->form, found, scaled);
    if (seen) {
        qc_evidence_set_statistics(net->evidence, NULL);
        qc_second_moments_free(net->moments);
        net->moments = NULL;
    }
    qc_warnings_drop(net->listener->warnings, net->warnings_from, qc_warnings_count(net->listener->warnings));
    return qc_network_simulate(net, st) && qc_network_collect(net, st);
}

/* Sets *search for a network; its arrays are from a, what outlives the search from `kept`. */
static bool begin_scale_search(struct qc_scale_search *search, struct qc_network *net, unsigned kinds, bool may_collect,
                               struct qc_arena *a, struct qc_arena *kept, struct qc_status *st)
{
    const struct qc_setup *s = net->setup;
    const struct qc_graph *from = net->joined, *g = net->simulated;
    bool *busy = QC_NEW_ARRAY(a, bool, net->real->value_count + 1, st),
         *dynamic = QC_NEW_ARRAY(a, bool, g->node_count + 1, st);
    struct qc_named_values values;
    if (!busy || !dynamic || !qc_observed_values(&values, g, a, st)) return false;
    /* Scaling would change the values whose ranges are in the statistics. */
    for (size_t i = 0; i < values.count; i++) {
        const qc_id v = qc_graph_find_value(net->real, values.names[i]);
        if (v) busy[v] = true;
    }
    for (qc_id id = 1; id <= from->node_count; id++) {
        const char *name = net->partition->dynamic[id] ? from->values[from->nodes[id].outputs].name : NULL;
        const qc_id v = name ? qc_graph_find_value(g, name) : 0;
        if (v) dynamic[g->values[v].node] = true;
    }
    *search =
        (struct qc_scale_search){.kinds = kinds,
                                 .simulated = net->simulated,
                                 .dynamic = dynamic,
                                 .second_moments =
                                     net->moments ? net->moments : net->evidence->statistics->second_moments,
                                 .calibration = &net->scheme.calibration,
                                 .rounding = qc_network_rounding(net),
                                 .busy = busy,
                                 .data = s->data,
                                 .keys = net->evidence->keys,
                                 .tables_apart = !net->scheme.options->graph.runs_on->onnxruntime,
                                 .may_collect = may_collect && s->data && !qc_has_statistics(s->in) && !s->in->team,
                                 .arena = kept,
                                 .progress = qc_progress_step,
                                 .progress_user = s->progress};
    return true;
}

bool qc_scale_channels(struct qc_network *net, struct qc_status *st)
{
    const struct qc_options *o = net->scheme.options;
    const struct qc_setup *s = net->setup;
    struct qc_arena *const kept = net->form->arena;
    if (net->form->scaling || o->method.scale_channels == QC_CHANNELS_OFF || !qc_network_moments(net) ||
        s->given.count || o->method.propagate || qc_ablated("scale_channels"))
        return true;
    const bool automatic = o->method.scale_channels == QC_CHANNELS_AUTO;
    const unsigned kinds = o->method.scale_channels == QC_CHANNELS_AWQ ? QC_SCALE_FEW
                           : automatic                                 ? QC_SCALE_FEW | QC_SCALE_DYNAMIC
                                                                       : QC_SCALE_DYNAMIC | QC_SCALE_STATIC;
    QC_ARENA_SCOPE *a = qc_arena_new();
    struct qc_channel_scaling *found = QC_NEW(kept, struct qc_channel_scaling, st);
    struct qc_scale_search search;
    struct qc_channels c;
    struct qc_scaled_group *groups = NULL;
    size_t count = 0, taken = 0;
    if (!a || !found) return qc_fail_memory(st, 1);
    bool ok = begin_scale_search(&search, net, kinds, !automatic, a, kept, st);
    bool hopes = false; /* some weight could be scaled, whatever precedes it */
    for (qc_id id = 1; ok && !hopes && id <= search.simulated->node_count; id++) {
        struct qc_scaled_reader ignored;
        hopes = fill_reader(&ignored, &search, id) && (search.data || ignored.steps == 0);
    }
    if (hopes && automatic && !qc_memory_ample(net)) {
        qc_warn(net->listener->warnings,
                "channels are not scaled: --memory-limit leaves too little memory to look for scales");
        hopes = false;
    }
    ok = ok && (!hopes || qc_channels_find(&c, net->real, a, st));
    if (ok && hopes && o->method.scale_channels == QC_CHANNELS_FREE) qc_channels_leave_clips(&c);
    ok = ok &&
         (!hopes || (list_groups(&groups, &count, &search, &c, st) && take_extremes(groups, count, &search, &c, st)));
    if (ok && count) {
        qc_progress_phase(s->progress, "scaling channels");
        ok = search_scales(groups, count, &search, &c, st);
        qc_progress_end(s->progress);
    }
    for (size_t i = 0; ok && i < count; i++) {
        if (automatic && groups[i].error > 1 - QC_SCALE_AUTO_GAIN) groups[i].kind = NULL;
        taken += groups[i].kind != NULL;
    }
    *found = (struct qc_channel_scaling){.group_count = count, .groups = groups};
    if (ok && !taken) qc_float_form_scale(net->form, found, NULL);
    return ok && (!taken || apply_scales(net, &c, search.second_moments, found, st));
}

bool qc_scale_hope(double *db, struct qc_network *net, struct qc_status *st)
{
    QC_ARENA_SCOPE *a = qc_arena_new();
    struct qc_scale_search search;
    struct qc_channels c;
    struct qc_scaled_group *groups = NULL;
    size_t count = 0;
    *db = 0;
    if (!a) return qc_fail_memory(st, 1);
    if (!qc_network_moments(net) || net->form->scaled) return true;
    if (!begin_scale_search(&search, net, QC_SCALE_STATIC, true, a, a, st) || !qc_channels_find(&c, net->real, a, st))
        return false;
    qc_channels_leave_clips(&c);
    if (!list_groups(&groups, &count, &search, &c, st)) return false;
    /* With one step for all channels the noise of channel c counts m_c^2 R^2, with a step of its own m_c^2 r_c^2, which
       is in proportion to the reader's output. m: the weights that read it, r: its root mean square, R: the largest of
       all. The mean is over the readers, by the squares of their steps. */
    double sum = 0, all = 0;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < groups[i].reader_count; k++) {
            const struct qc_scaled_reader *r = &groups[i].readers[k];
            const struct qc_second_moments_layer *l = qc_second_moments_of(search.second_moments, NULL, r->simulated);
            double *squares = QC_NEW_ARRAY(a, double, l->channels, st), top = 0, weights = 0, own = 0;
            if (!squares || !squares_read(squares, l, st)) return false;
            for (size_t channel = 0; channel < l->channels; channel++) {
                top = fmax(top, squares[channel]);
                weights += r->squares[channel];
                own += r->squares[channel] * squares[channel];
            }
            if (!(own > 0)) continue;
            const double step = r->steps > 0 ? 1 / r->steps : 1;
            sum += step * step * weights * top / own;
            all += step * step;
        }
    if (all > 0) *db = 10 * log10(sum / all);
    return true;
}

void qc_record_scaled(struct qc_json *record, const struct qc_network *net)
{
    const size_t count = net->form->scaling ? net->form->scaling->group_count : 0;
    if (!count) return;
    struct qc_json *all = qc_json_array();
    for (size_t i = 0; i < count; i++) {
        const struct qc_scaled_group *g = &net->form->scaling->groups[i];
        struct qc_json *o = QC_JSON("name %s kind %s", g->name, g->kind), *nodes = qc_json_array();
        for (size_t k = 0; k < g->reader_count; k++) qc_json_add(nodes, qc_json_string(g->readers[k].name));
        qc_json_set(o, "layers", nodes);
        qc_json_add(all, qc_json_put(o, "channels %zu activation_power %g weight_power %g error_ratio %g", g->channels,
                                     g->kind ? g->activation_power : (double)NAN,
                                     g->kind ? g->weight_power : (double)NAN, g->error));
    }
    qc_json_set(record, "scaled_channels", all);
}
