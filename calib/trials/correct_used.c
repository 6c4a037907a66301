// SPDX-License-Identifier: Apache-2.0
#include "calib/trials/correct_used.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "calib/ranges/quantizer_channels.h"
#include "calib/trials/used_points.h"

enum { MEANS_BYTES = 32 << 20 };
/* A function that is flat for most of its values is not made up for by a large bias. */
static const double SLOPE_LEAST = 0.25;

/* In the float graph, and in the quantized one as others read it and as it was computed. */
enum form { REAL, STORED, RAW, FORMS };

/* What is observed in a graph: which watched value, in which form. */
struct observed {
    size_t count;
    qc_id *values;
    size_t *watched;
    enum form *forms;
};

struct correcting {
    const struct qc_graph *g, *real;
    const struct qc_dataset *data;
    const struct qc_trials *trials;
    const struct qc_trial_options *options;
    struct qc_arena *arena;
    struct qc_used_points points;
    struct observed see[2];
    bool *ends_step;      /* [watched]: a function's result */
    bool *begins_step;    /* [watched]: what a function reads */
    size_t *means[FORMS]; /* [watched]: place of the channels' means among the numbers of a unit; in each form */
    size_t *products;     /* [steps]: place of the means of the slope, or of x x and x y, of each channel */
    size_t numbers, units;
    size_t *place_of;         /* [units of the data]: place among those that are run + 1, or 0 */
    float *sums;              /* [units][numbers] */
    double **local, **shifts; /* [points][channels]: what the way adds to the mean; what the bias gets */
    struct worker {
        float *row;
        size_t room;
        float **kept; /* [watched]: real values that functions read, row-major, until their results are there */
    } * workers;
};

static bool make_row(struct worker *w, size_t n, struct qc_status *st)
{
    if (w->row && w->room >= n) return true;
    float *more = realloc(w->row, (n + 1) * sizeof *more);
    if (!more) return qc_fail_memory(st, n * sizeof *more);
    w->row = more;
    w->room = n;
    return true;
}

struct channels {
    size_t outer, count, inner;
};

static struct channels channels_of(const struct qc_view *v, int axis)
{
    struct channels c = {.outer = 1, .count = (size_t)v->dim[axis], .inner = 1};
    for (int i = 0; i < axis; i++) c.outer *= (size_t)v->dim[i];
    for (int i = axis + 1; i < v->rank; i++) c.inner *= (size_t)v->dim[i];
    return c;
}

/* Means over all but the channels of x y; y NULL: of x. */
static void take_means(float *to, const float *x, const float *y, struct channels c)
{
    const double n = (double)(c.outer * c.inner);
    for (size_t k = 0; k < c.count; k++) {
        double sum = 0;
        for (size_t o = 0; o < c.outer; o++) {
            const size_t from = (o * c.count + k) * c.inner;
            for (size_t i = from; i < from + c.inner; i++) sum += (double)x[i] * (y ? (double)y[i] : 1);
        }
        to[k] = n > 0 ? (float)(sum / n) : 0;
    }
}

static float slope_at(float x, float y, enum qc_used_slope slope)
{
    const bool same = !(x < y || x > y);
    if (same) return 1;
    return slope == QC_SLOPE_CLAMP || !(fabsf(x) > 0) ? 0 : y / x;
}

/* The functions that value `watched` is the result of. */
static void take_slopes(struct correcting *c, struct worker *w, float *unit, size_t watched, struct channels ch)
{
    for (size_t i = 0; i < c->points.step_count; i++) {
        const struct qc_used_step *s = &c->points.steps[i];
        if (s->joins || s->out != watched || !w->kept[s->in]) continue;
        float *x = w->kept[s->in];
        if (s->slope == QC_SLOPE_REGRESSION) {
            take_means(unit + c->products[i], x, x, ch);
            take_means(unit + c->products[i] + ch.count, x, w->row, ch);
        } else {
            for (size_t k = 0; k < ch.outer * ch.count * ch.inner; k++) x[k] = slope_at(x[k], w->row[k], s->slope);
            take_means(unit + c->products[i], x, NULL, ch);
        }
        free(x);
        w->kept[s->in] = NULL;
    }
}

static bool observe(void *user, const struct qc_unit *at, size_t index, const struct qc_view *v, struct qc_status *st)
{
    struct correcting *c = user;
    const struct observed *see = &c->see[at->plan];
    const enum form form = see->forms[index];
    const size_t watched = see->watched[index], n = qc_view_count(v);
    const struct qc_watched *x = &c->points.watched[watched];
    struct worker *w = &c->workers[at->worker];
    float *unit = c->sums + (c->place_of[at->unit] - 1) * c->numbers;
    struct qc_shape shape = qc_shape_of(v->rank, v->dim);
    if (!make_row(w, n, st)) return false;
    const struct qc_view row = qc_view_of(QC_F32, &shape, QC_LAYOUT_ROW, w->row);
    qc_view_copy(&row, v);
    const struct channels ch = channels_of(&row, x->axis);
    if (ch.count != x->channels) return qc_fail(st, QC_BAD_INPUT, "a value has not the channels that it was to have");
    const qc_id value = see->values[index];
    const struct qc_qparams *s = form == REAL ? NULL : qc_graph_parameters(c->g, value);
    if (s && s->count > 1) qc_quantizer_channels_real(&row, s, qc_value(c->g, value)->type.axis, false, NULL);
    take_means(unit + c->means[form][watched], w->row, NULL, ch);
    for (size_t k = 0; s && s->count == 1 && k < ch.count; k++) unit[c->means[form][watched] + k] *= s->scale[0];
    if (form != REAL) return true;
    if (c->ends_step[watched]) take_slopes(c, w, unit, watched, ch);
    if (!c->begins_step[watched]) return true;
    free(w->kept[watched]);
    w->kept[watched] = malloc((n + 1) * sizeof(float));
    if (!w->kept[watched]) return qc_fail_memory(st, n * sizeof(float));
    memcpy(w->kept[watched], w->row, n * sizeof(float));
    return true;
}

/* Which values are looked at in which graph, and where their numbers are. */
static bool lay_out(struct correcting *c, struct qc_status *st)
{
    const struct qc_used_points *p = &c->points;
    bool *wanted[FORMS];
    for (int k = 0; k < 2; k++) {
        c->see[k] = (struct observed){.values = QC_NEW_ARRAY(c->arena, qc_id, 2 * p->watched_count + 1, st),
                                      .watched = QC_NEW_ARRAY(c->arena, size_t, 2 * p->watched_count + 1, st),
                                      .forms = QC_NEW_ARRAY(c->arena, enum form, 2 * p->watched_count + 1, st)};
        if (!c->see[k].values || !c->see[k].watched || !c->see[k].forms) return false;
    }
    for (int k = 0; k < FORMS; k++) {
        wanted[k] = QC_NEW_ARRAY(c->arena, bool, p->watched_count + 1, st);
        c->means[k] = QC_NEW_ARRAY(c->arena, size_t, p->watched_count + 1, st);
        if (!wanted[k] || !c->means[k]) return false;
    }
    c->ends_step = QC_NEW_ARRAY(c->arena, bool, p->watched_count + 1, st);
    c->begins_step = QC_NEW_ARRAY(c->arena, bool, p->watched_count + 1, st);
    c->products = QC_NEW_ARRAY(c->arena, size_t, p->step_count + 1, st);
    if (!c->ends_step || !c->begins_step || !c->products) return false;
    for (size_t i = 0; i < p->count; i++) {
        wanted[STORED][p->of[i].used] = true;
        if (p->of[i].goes) wanted[RAW][p->of[i].own] = true;
    }
    for (size_t i = 0; i < p->step_count; i++) {
        const struct qc_used_step *s = &p->steps[i];
        if (s->joins && s->other) wanted[STORED][s->other - 1] = true;
        if (s->joins) continue;
        c->begins_step[s->in] = c->ends_step[s->out] = wanted[REAL][s->in] = wanted[REAL][s->out] = true;
        c->products[i] = c->numbers;
        c->numbers += 2 * p->watched[s->in].channels;
    }
    for (size_t w = 0; w < p->watched_count; w++) {
        const struct qc_watched *x = &p->watched[w];
        const qc_id values[FORMS] = {[REAL] = x->real, [STORED] = x->stored, [RAW] = x->source};
        wanted[REAL][w] = wanted[REAL][w] || wanted[STORED][w] || wanted[RAW][w];
        for (int k = 0; k < FORMS; k++) {
            struct observed *see = &c->see[k != REAL];
            if (!wanted[k][w]) continue;
            if (k == RAW && wanted[STORED][w] && x->stored == x->source) {
                c->means[RAW][w] = c->means[STORED][w];
                continue;
            }
            see->values[see->count] = values[k];
            see->watched[see->count] = w;
            see->forms[see->count++] = (enum form)k;
            c->means[k][w] = c->numbers;
            c->numbers += x->channels;
        }
    }
    return true;
}

static int by_number(const void *x, const void *y)
{
    const size_t *a = x, *b = y;
    return (*a > *b) - (*a < *b);
}

static bool run(struct correcting *c, struct qc_status *st)
{
    const struct qc_trial_options *o = c->options;
    const struct qc_plan_options as_is = {.observed_count = c->see[0].count,
                                          .observed = c->see[0].values,
                                          .rounding = QC_CONTRACT_ONNX},
                                 quantized = {.observed_count = c->see[1].count,
                                              .observed = c->see[1].values,
                                              .rounding = QC_CONTRACT_ONNX};
    struct qc_plan *plans[2] = {NULL, NULL};
    size_t *units = QC_NEW_ARRAY(c->arena, size_t, c->units, st);
    c->place_of = QC_NEW_ARRAY(c->arena, size_t, qc_dataset_units(c->data), st);
    c->sums = QC_NEW_ARRAY(c->arena, float, c->units * c->numbers, st);
    bool ok = units && c->place_of && c->sums && qc_stream_plan(&plans[0], c->real, c->data, &as_is, st) &&
              qc_stream_plan(&plans[1], c->g, c->data, &quantized, st);
    struct qc_stream stream = {.data = c->data,
                               .input_count = c->real->input_count,
                               .plan_count = 2,
                               .plans = {plans[0], plans[1]},
                               .units = units,
                               .unit_count = c->units,
                               .observe = observe,
                               .user = c,
                               .progress = o->progress,
                               .progress_user = o->progress_user};
    for (size_t i = 0; ok && i < c->units; i++) {
        units[i] = qc_trials_drawn(c->trials)[i];
        c->place_of[units[i]] = i + 1;
    }
    if (ok) qsort(units, c->units, sizeof *units, by_number);
    const size_t each = ok ? 2 * qc_plan_runner_bytes(plans[0]) + qc_plan_runner_bytes(plans[1]) : 0;
    ok = ok && qc_stream_fit(&stream.workers, o->workers, o->memory_limit, c->data, each, st) &&
         (c->workers = QC_NEW_ARRAY(c->arena, struct worker, stream.workers, st));
    for (unsigned w = 0; ok && w < stream.workers; w++)
        ok = (c->workers[w].kept = QC_NEW_ARRAY(c->arena, float *, c->points.watched_count + 1, st)) != NULL;
    ok = ok && qc_stream_run(&stream, st);
    for (unsigned w = 0; c->workers && w < stream.workers; w++) {
        for (size_t i = 0; c->workers[w].kept && i < c->points.watched_count; i++) free(c->workers[w].kept[i]);
        free(c->workers[w].row);
    }
    for (size_t k = 0; k < 2; k++) qc_plan_free(plans[k]);
    return ok;
}

/* The mean over units of a number. */
static double mean(const struct correcting *c, size_t number)
{
    double sum = 0;
    for (size_t u = 0; u < c->units; u++) sum += (double)c->sums[u * c->numbers + number];
    return sum / (double)c->units;
}

static double error_of(const struct correcting *c, enum form form, size_t watched, size_t channel)
{
    return mean(c, c->means[form][watched] + channel) - mean(c, c->means[REAL][watched] + channel);
}

/* Of a function; of its regression: cov(x, y) / var(x). */
static double slope_of(const struct correcting *c, size_t step, size_t channel)
{
    const struct qc_used_step *s = &c->points.steps[step];
    const size_t channels = c->points.watched[s->in].channels;
    if (s->slope != QC_SLOPE_REGRESSION) return mean(c, c->products[step] + channel);
    const double x = mean(c, c->means[REAL][s->in] + channel), y = mean(c, c->means[REAL][s->out] + channel),
                 xx = mean(c, c->products[step] + channel), xy = mean(c, c->products[step] + channels + channel);
    const double variance = xx - x * x;
    return variance > 1e-6 * xx ? (xy - x * y) / variance : 0;
}

/* What the way of a layer adds to the mean of a channel, and the slope of it. */
static double local_error(double *slope, const struct correcting *c, const struct qc_used_point *p, size_t o)
{
    const struct qc_used_points *all = &c->points;
    double u = p->goes ? error_of(c, RAW, p->own, o) : 0;
    *slope = 1;
    for (size_t k = p->first_step; k < p->first_step + p->step_count; k++) {
        const struct qc_used_step *s = &all->steps[k];
        if (s->joins) {
            u += s->other ? s->sign * error_of(c, STORED, s->other - 1, o) : 0;
            continue;
        }
        const double by = slope_of(c, k, o);
        u *= by;
        *slope *= by;
    }
    return error_of(c, STORED, p->used, o) - u;
}

/* What the biases of all layers get: c->local and c->shifts. before: NULL, or the pass before, whose shifts are in the
   graph. Values that lie close together between two steps of a quantizer move by a whole step or not at all: where the
   error became larger, or of the other sign, the root is sought between the two. */
static bool solve(struct correcting *c, const struct correcting *before, struct qc_status *st)
{
    for (size_t i = 0; i < c->points.count; i++) {
        const struct qc_used_point *p = &c->points.of[i];
        const size_t channels = c->points.watched[p->own].channels;
        c->local[i] = QC_NEW_ARRAY(c->arena, double, channels, st);
        c->shifts[i] = QC_NEW_ARRAY(c->arena, double, channels, st);
        if (!c->local[i] || !c->shifts[i]) return false;
        for (size_t o = 0; o < channels; o++) {
            double slope, x;
            const double n = c->local[i][o] = local_error(&slope, c, p, o);
            if (before) {
                const double was = before->local[i][o];
                const double part = (n > 0) != (was > 0) ? was / (was - n) : fabs(n) < fabs(was) ? 1 : 0;
                x = (part - 1) * before->shifts[i][o];
            } else {
                x = fabs(slope) > 0 ? -n / (fabs(slope) > SLOPE_LEAST ? slope : copysign(SLOPE_LEAST, slope)) : 0;
            }
            c->shifts[i][o] = isfinite(x) ? x : 0;
        }
    }
    return true;
}

static bool rebuild(struct qc_graph **out, size_t *layers, const struct correcting *c, struct qc_status *st)
{
    struct qc_bias_shift *shifts = QC_NEW_ARRAY(c->arena, struct qc_bias_shift, c->points.count + 1, st);
    for (size_t i = 0; shifts && i < c->points.count; i++)
        shifts[i] = (struct qc_bias_shift){.of = c->points.of[i].of, .shift = c->shifts[i]};
    return shifts && qc_shift_biases(out, layers, c->g, shifts, c->points.count, st);
}

static bool begin(struct correcting *c, size_t wanted, struct qc_status *st)
{
    const size_t limit = c->options->memory_limit / 2, bytes = limit && limit < MEANS_BYTES ? limit : MEANS_BYTES;
    c->arena = qc_arena_new();
    if (!c->arena) return qc_fail_memory(st, 1);
    if (!qc_used_points_find(&c->points, c->g, c->real, c->arena, st) || !lay_out(c, st)) return false;
    c->local = QC_NEW_ARRAY(c->arena, double *, c->points.count + 1, st);
    c->shifts = QC_NEW_ARRAY(c->arena, double *, c->points.count + 1, st);
    if (c->points.count && c->numbers) {
        const size_t room = bytes / sizeof(float) / c->numbers, drawn = qc_trials_units(c->trials);
        c->units = drawn < wanted ? drawn : wanted;
        c->units = room < c->units ? room : c->units;
    }
    return c->local && c->shifts;
}

bool qc_correct_used(struct qc_graph **out, struct qc_used_correction *done, const struct qc_graph *g,
                     const struct qc_graph *real, const struct qc_dataset *data, const struct qc_trials *trials,
                     size_t wanted, const struct qc_trial_options *options, struct qc_status *st)
{
    struct correcting first = {.g = g, .real = real, .data = data, .trials = trials, .options = options},
                      second = first;
    struct qc_graph *once = NULL;
    size_t again = 0;
    *done = (struct qc_used_correction){0};
    bool ok = begin(&first, wanted, st);
    if (ok && first.units) {
        ok = run(&first, st) && solve(&first, NULL, st) && rebuild(&once, &done->layers, &first, st);
        second.g = once;
        ok = ok && begin(&second, wanted, st);
        if (ok && second.points.count == first.points.count)
            ok = run(&second, st) && solve(&second, &first, st) && rebuild(out, &again, &second, st);
        done->units = first.units;
    }
    qc_graph_free(once);
    qc_arena_free(first.arena);
    qc_arena_free(second.arena);
    return ok;
}
