// SPDX-License-Identifier: Apache-2.0
#include "calib/trials/trials.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/scope.h"
#include "calib/moments/second_moments.h"
#include "calib/statistics/stream.h"

enum { STEPS_MAX = 4096, JOINS_MAX = 4 }; /* limits on the work for one output: nodes visited, nested joins */

static enum qc_probabilities made_by(const struct qc_graph *g, qc_id v, unsigned joins, unsigned *steps)
{
    for (const struct qc_node *n; (n = qc_node_of(g, v)) && ++*steps < STEPS_MAX; v = n->inputs[0]) {
        if (n->op == QC_OP_Softmax) return QC_PARTS_OF_ONE;
        if (n->op == QC_OP_Sigmoid) return QC_OF_TWO;
        if (qc_node_affine(n) == QC_AFFINE_KEEP) continue;
        if (qc_node_affine(n) != QC_AFFINE_JOIN || joins == JOINS_MAX) break;
        const enum qc_probabilities first = made_by(g, n->inputs[0], joins + 1, steps);
        for (unsigned i = 1; i < n->input_count; i++)
            if (made_by(g, n->inputs[i], joins + 1, steps) != first) return QC_NO_PROBABILITIES;
        return first;
    }
    return QC_NO_PROBABILITIES;
}

enum qc_probabilities qc_probabilities_of(const struct qc_graph *g, qc_id v)
{
    unsigned steps = 0;
    return made_by(g, v, 0, &steps);
}

static double apart(double p, double q)
{
    return p + q > 0 ? 2 * (p - q) * (p - q) / (p + q) : 0;
}

void qc_divergence_add(struct qc_error *e, enum qc_probabilities kind, const float *p, const float *q, size_t n)
{
    double signal = 0, noise = 0;
    for (size_t i = 0; i < n; i++) {
        const double x = (double)p[i], y = (double)q[i];
        signal += x;
        noise += apart(x, y) + (kind == QC_OF_TWO ? apart(1 - x, 1 - y) : 0);
    }
    e->count += n;
    e->signal += signal;
    e->noise += noise;
}

enum { HELD_LEAST = 8 }; /* with fewer, one sample dominates */

struct qc_trials {
    struct qc_arena *arena;
    const struct qc_graph *real;
    const struct qc_dataset *data;
    const struct qc_trial_options *options;
    size_t count;                   /* number of drawn units */
    size_t *units;                  /* [count], ordered by key */
    uint64_t *keys;                 /* [count]: hashes of their content */
    size_t *place_of;               /* [units of the data set]: index in `units` + 1, or 0 */
    struct qc_known_outputs *known; /* outputs of the float network; NULL: it runs in every pass */
    struct qc_known_outputs *own;   /* owned `known`, if the options have none */
    bool *judged;                   /* [outputs]: the output is float32 */
    bool looked;                    /* judged is final: no probe run is needed */
    struct qc_output_parts parts;   /* of `real` */
    enum qc_probabilities *kinds;   /* [parts] */
    qc_trial_look_fn *look;
    void *look_user;
};

/* Moves units held out of the second moments to the front, and limits the count to them. Changes nothing if there are
   fewer than HELD_LEAST. */
static void keep_held(struct qc_keyed_unit *units, size_t *count, size_t all)
{
    size_t held = 0;
    for (size_t i = 0; i < all; i++) held += units[i].key % QC_MOMENTS_HELD_ONE_IN == 0;
    if (held < HELD_LEAST) return;
    for (size_t i = 0, at = 0; i < all; i++)
        if (units[i].key % QC_MOMENTS_HELD_ONE_IN == 0) units[at++] = units[i];
    *count = held < *count ? held : *count;
}

static bool draw_trial_units(struct qc_trials *t, struct qc_status *st)
{
    const size_t all = qc_dataset_units(t->data);
    struct qc_keyed_unit *keyed = NULL;
    t->units = QC_NEW_ARRAY(t->arena, size_t, t->count, st);
    t->keys = QC_NEW_ARRAY(t->arena, uint64_t, t->count, st);
    t->place_of = QC_NEW_ARRAY(t->arena, size_t, all, st);
    if (!t->units || !t->keys || !t->place_of ||
        !qc_keyed_units(&keyed, t->data, t->real->input_count, t->options->keys,
                        t->options->settings->workers ? t->options->settings->workers : 1, t->arena, st))
        return false;
    if (t->options->held) keep_held(keyed, &t->count, all);
    for (size_t i = 0; i < t->count; i++) {
        t->units[i] = keyed[i].unit;
        t->keys[i] = keyed[i].key;
        t->place_of[t->units[i]] = i + 1;
    }
    return true;
}

static bool is_judged(const struct qc_trials *t, size_t output, enum qc_dtype dtype)
{
    return dtype == QC_F32 && t->real->outputs[output].judging != QC_NOT_JUDGED;
}

bool qc_trials_new(struct qc_trials **out, const struct qc_graph *real, const struct qc_dataset *data, size_t wanted,
                   const struct qc_trial_options *options, struct qc_status *st)
{
    const size_t all = qc_dataset_units(data);
    struct qc_trials *t = calloc(1, sizeof *t);
    if (!t) return qc_fail_memory(st, sizeof *t);
    *t = (struct qc_trials){
        .arena = qc_arena_new(), .real = real, .data = data, .options = options, .count = all < wanted ? all : wanted};
    const bool ok = (t->arena || qc_fail_memory(st, 1)) &&
                    (options->known || options->settings->memory_limit ||
                     qc_known_outputs_new(&t->own, real->output_count, QC_KNOWN_IN_MEMORY, NULL, st)) &&
                    (t->judged = QC_NEW_ARRAY(t->arena, bool, real->output_count, st)) &&
                    qc_output_parts_of(&t->parts, real, t->arena, st) &&
                    (t->kinds = QC_NEW_ARRAY(t->arena, enum qc_probabilities, t->parts.count, st)) &&
                    draw_trial_units(t, st);
    t->known = options->known ? options->known : t->own;
    t->looked = ok;
    for (size_t o = 0; ok && o < real->output_count; o++) {
        const struct qc_type *is = &real->values[real->outputs[o].value].type;
        t->judged[o] = is_judged(t, o, is->dtype);
        t->looked = t->looked && qc_shape_fixed(&is->shape);
    }
    for (size_t i = 0; ok && i < t->parts.count; i++) t->kinds[i] = qc_probabilities_of(real, t->parts.of[i].value);
    return QC_HAND_OVER(ok, out, t, qc_trials_free);
}

void qc_trials_free(struct qc_trials *t)
{
    if (!t) return;
    qc_known_outputs_free(t->own);
    qc_arena_free(t->arena);
    free(t);
}

size_t qc_trials_units(const struct qc_trials *t)
{
    return t->count;
}

const struct qc_output_parts *qc_trials_parts(const struct qc_trials *t)
{
    return &t->parts;
}

bool qc_trials_have_probabilities(const struct qc_trials *t)
{
    for (size_t i = 0; i < t->parts.count; i++)
        if (t->kinds[i]) return true;
    return false;
}

void qc_trials_look(struct qc_trials *t, qc_trial_look_fn *look, void *user)
{
    t->look = look;
    t->look_user = user;
}

/* One pass over units: the float network's plan if it runs, then some plans. */
struct pass {
    struct qc_trials *t;
    struct qc_error *const *errors; /* of the first plan after the float network's */
    struct qc_error *const *other;  /* NULL, or as `judged` of qc_trials_run */
    size_t real;                    /* plans of the float network: 0 or 1 */
    size_t plan_count;
    const struct qc_plan *plans[QC_STREAM_PLANS];
};

static const struct qc_known *known_of(const struct qc_trials *t, size_t place)
{
    return qc_known_outputs_find(t->known, t->keys[place]);
}

static bool skips_known_plan(void *user, const struct qc_unit *at)
{
    const struct pass *p = user;
    return at->plan < p->real && known_of(p->t, p->t->place_of[at->unit] - 1);
}

static void add_noise(void *error, const float *wanted, const float *x, size_t n)
{
    qc_error_compare_noise(error, wanted, x, n);
}

struct divergence {
    struct qc_error *error;
    enum qc_probabilities kind;
};

static void add_divergence(void *user, const float *wanted, const float *x, size_t n)
{
    const struct divergence *d = user;
    if (d->kind)
        qc_divergence_add(d->error, d->kind, wanted, x, n);
    else
        qc_error_compare_noise(d->error, wanted, x, n);
}

/* Compares a plan as soon as it has run: the next plan reuses its memory. */
static bool compare_plan(void *user, const struct qc_unit *at, struct qc_runner *const runners[],
                         struct qc_dataset_scratch *scratch, struct qc_status *st)
{
    const struct pass *p = user;
    struct qc_trials *t = p->t;
    const size_t place = t->place_of[at->unit] - 1, outputs = t->real->output_count, parts = t->parts.count,
                 k = at->plan - p->real;
    if (at->plan < p->real) return qc_known_outputs_keep(t->known, t->keys[place], runners[at->plan], st);
    const struct qc_known *known = known_of(t, place);
    for (size_t o = 0; o < outputs; o++) {
        const struct qc_view wanted = known ? qc_known_view(known, o) : qc_runner_output(runners[0], o);
        const size_t n = qc_view_count(&wanted);
        if (!t->judged[o] || wanted.dtype != QC_F32) continue;
        const struct qc_view x = qc_runner_output(runners[at->plan], o);
        if (x.dtype != QC_F32 || qc_view_count(&x) != n)
            return qc_fail(st, QC_BAD_INPUT, "output '%s' differs in type or size from that of the float network",
                           t->real->outputs[o].name);
        for (size_t i = t->parts.first[o]; i < t->parts.first[o + 1]; i++) {
            const struct qc_output_part *part = &t->parts.of[i];
            qc_compare_part(part, &wanted, &x, add_noise, &p->errors[k][place * parts + i]);
            struct divergence d = {.error = p->other ? &p->other[k][place * parts + i] : NULL, .kind = t->kinds[i]};
            if (p->other) qc_compare_part(part, &wanted, &x, add_divergence, &d);
        }
        if (!k && t->look) t->look(t->look_user, place, o, &wanted, &x);
    }
    return true;
}

static bool run_pass(struct pass *p, size_t first, size_t n, struct qc_status *st)
{
    const struct qc_trials *t = p->t;
    const struct qc_trial_options *o = t->options;
    size_t *units = malloc((n + 1) * sizeof *units);
    if (!units) return qc_fail_memory(st, n * sizeof *units);
    memcpy(units, t->units + first, n * sizeof *units);
    if (n) qsort(units, n, sizeof *units, qc_order_size);
    struct qc_stream stream = {.data = t->data,
                               .input_count = t->real->input_count,
                               .plan_count = p->plan_count,
                               .units = units,
                               .unit_count = n,
                               .skips = skips_known_plan,
                               .share_buffer = true,
                               .apart = p->real,
                               .ran = compare_plan,
                               .user = p};
    for (size_t k = 0; k < p->plan_count; k++) stream.plans[k] = p->plans[k];
    const size_t each = qc_stream_runner_bytes(&stream);
    const bool ok = qc_stream_fit(&stream.workers, o->settings, t->data, each, st) && qc_stream_run(&stream, st);
    free(units);
    return ok;
}

/* Sets the runner to the shapes of the largest unit. */
static bool take_largest(struct qc_runner *r, const struct qc_trials *t, struct qc_status *st)
{
    const size_t inputs = t->real->input_count;
    size_t *order = NULL;
    if (!t->count || !qc_dataset_varies(t->data)) return true;
    const bool ok = qc_order_by_size(&order, t->data, inputs, t->units, t->count, QC_ORDER_FREE, st) &&
                    qc_stream_unit_shapes(r, t->data, inputs, t->units[order[0]], st);
    free(order);
    return ok;
}

/* Finds the float32 outputs of the float network with a probe run. */
static bool look_at_outputs(struct qc_trials *t, const struct qc_plan *plan, struct qc_status *st)
{
    struct qc_runner *probe = NULL;
    if (!qc_runner_new(&probe, plan, st)) return false;
    const bool ok = take_largest(probe, t, st);
    for (size_t o = 0; ok && o < t->real->output_count; o++)
        t->judged[o] = is_judged(t, o, qc_runner_output(probe, o).dtype);
    qc_runner_free(probe);
    t->looked = ok;
    return ok;
}

static bool known_units(const struct qc_trials *t, size_t first, size_t n)
{
    for (size_t u = first; u < first + n; u++)
        if (!known_of(t, u)) return false;
    return true;
}

/* Plans the float network if it must run or its outputs were not examined yet. */
static bool plan_real(struct qc_plan **real, struct qc_trials *t, size_t first, size_t n, struct qc_status *st)
{
    const struct qc_plan_options as_is = {.rounding = QC_CONTRACT_ONNX, .many_runs = n >= QC_PLAN_MANY_RUNS};
    if (!t->looked) {
        if (t->count && qc_known_outputs_settled(t->known) && known_of(t, 0)) {
            for (size_t o = 0; o < t->real->output_count; o++)
                t->judged[o] = is_judged(t, o, qc_known_view(known_of(t, 0), o).dtype);
            t->looked = true;
        }
    }
    if (t->looked && known_units(t, first, n)) return true;
    return qc_stream_plan(real, t->real, t->data, &as_is, st) && (t->looked || look_at_outputs(t, *real, st));
}

bool qc_trials_run(struct qc_error *const *errors, struct qc_error *const *judged, struct qc_trials *t,
                   const struct qc_trial_graphs *of, size_t first, size_t n, struct qc_status *st)
{
    struct qc_plan *real = NULL, *plans[QC_STREAM_PLANS] = {NULL};
    struct qc_graph *graphs[QC_STREAM_PLANS] = {NULL};
    bool ok = plan_real(&real, t, first, n, st);
    for (size_t k = 0, done; ok && n && k < of->count; k += done) {
        const bool with_real = !known_units(t, first, n);
        struct pass p = {.t = t, .errors = errors + k, .other = judged ? judged + k : NULL, .real = with_real};
        if (with_real) p.plans[p.plan_count++] = real;
        const size_t room = t->options->settings->memory_limit ? 1 : QC_STREAM_PLANS - with_real;
        for (done = 0; ok && done < room && k + done < of->count; done++) {
            ok = of->make(of->user, &graphs[done], k + done, st) &&
                 qc_stream_plan(&plans[done], graphs[done], t->data, t->options->how, st);
            p.plans[p.plan_count++] = plans[done];
        }
        ok = ok && run_pass(&p, first, n, st);
        for (size_t i = 0; i < QC_STREAM_PLANS; i++) {
            qc_plan_free(plans[i]);
            qc_graph_free(graphs[i]);
            plans[i] = NULL;
            graphs[i] = NULL;
        }
        if (ok && t->options->settings->progress &&
            !t->options->settings->progress(t->options->settings->progress_user, k + done, of->count))
            ok = qc_fail(st, QC_INTERRUPTED, "interrupted after %zu of %zu trials", k + done, of->count);
    }
    qc_plan_free(real);
    return ok;
}

double qc_trials_noise(const struct qc_error *errors, size_t outputs, size_t first, size_t end, size_t step)
{
    double mean = 0;
    size_t counted = 0;
    for (size_t o = 0; o < outputs; o++) {
        struct qc_error e = {0};
        for (size_t u = first; u < end; u += step) qc_error_add(&e, &errors[u * outputs + o]);
        if (!e.count || !(e.signal > 0)) continue;
        mean += isnan(e.noise) ? (double)INFINITY : e.noise / e.signal;
        counted++;
    }
    return counted ? mean / (double)counted : 0;
}

double qc_trials_worst(size_t *output, const struct qc_error *errors, size_t outputs, size_t units)
{
    double worst = 0;
    *output = 0;
    for (size_t o = 0; o < outputs; o++) {
        struct qc_error e = {0};
        for (size_t u = 0; u < units; u++) qc_error_add(&e, &errors[u * outputs + o]);
        const double noise = isnan(e.noise) ? (double)INFINITY : e.noise > 0 ? e.noise / e.signal : 0;
        if (!(noise > worst)) continue;
        worst = noise;
        *output = o;
    }
    return worst;
}

double qc_trials_gain(double noise, double other)
{
    return noise > 0 || other > 0 ? 10 * log10(noise / other) : 0;
}

/* Returns the contribution of one unit to the sum that qc_trials_noise makes over all units. */
static double unit_share(const struct qc_error *errors, const double *signal, size_t outputs, size_t unit)
{
    double sum = 0;
    for (size_t o = 0; o < outputs; o++)
        if (signal[o] > 0) sum += errors[unit * outputs + o].noise / signal[o];
    return sum;
}

bool qc_trials_gain_error(double *error, double *without, const struct qc_error *errors, const struct qc_error *other,
                          size_t outputs, size_t units, struct qc_status *st)
{
    double noise[2] = {0}, most[2] = {0}, squares = 0, *signal = calloc(outputs + 1, sizeof *signal);
    if (!signal) return qc_fail_memory(st, outputs * sizeof *signal);
    for (size_t u = 0; u < units; u++)
        for (size_t o = 0; o < outputs; o++) signal[o] += errors[u * outputs + o].signal;
    for (size_t u = 0; u < units; u++) {
        noise[0] += unit_share(errors, signal, outputs, u);
        noise[1] += unit_share(other, signal, outputs, u);
    }
    /* Delta method: to first order, the logarithm of the ratio changes by the difference of a unit's shares in both
       sums. */
    for (size_t u = 0; u < units; u++) {
        const double x = unit_share(errors, signal, outputs, u), y = unit_share(other, signal, outputs, u),
                     d = x / noise[0] - y / noise[1];
        squares += d * d;
        if (d > most[0] / noise[0] - most[1] / noise[1]) {
            most[0] = x;
            most[1] = y;
        }
    }
    free(signal);
    const double found = 10 / log(10) * sqrt(squares * (double)units / ((double)units - 1));
    const bool known = units > 1 && isfinite(found);
    *error = known ? found : (double)INFINITY;
    if (without) *without = known ? qc_trials_gain(noise[0] - most[0], noise[1] - most[1]) : -(double)INFINITY;
    return true;
}
