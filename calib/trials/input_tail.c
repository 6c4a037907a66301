// SPDX-License-Identifier: Apache-2.0
#include "calib/trials/input_tail.h"

#include <math.h>
#include <stdlib.h>

#include "base/pool.h"
#include "calib/ranges/few_samples.h"

static const double FEW = 2.5;

struct range {
    double lo, hi;
};

static double cut_off(const float *x, size_t n, struct range to)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        const double v = (double)x[i], over = v > to.hi ? v - to.hi : v < to.lo ? to.lo - v : 0;
        sum += over * over;
    }
    return sum;
}

struct looking {
    const struct qc_dataset *data;
    size_t input;
    struct qc_levels levels;
    enum qc_symmetry symmetry;
    struct range usual;
    double *of;                   /* [units]: cut off to the usual range */
    struct qc_extremes *extremes; /* [units] */
};

static bool read(float **x, size_t *n, const struct looking *l, size_t unit, struct qc_status *st)
{
    const size_t bytes = qc_dataset_unit_bytes(l->data, l->input, unit);
    struct qc_dataset_scratch *scratch = NULL;
    *n = qc_dataset_unit_elements(l->data, l->input, unit);
    const bool ok = ((*x = malloc(bytes + 1)) || qc_fail_memory(st, bytes)) && qc_dataset_scratch_new(&scratch, st) &&
                    qc_dataset_read(*x, l->data, l->input, unit, scratch, st);
    qc_dataset_scratch_free(scratch);
    return ok;
}

static bool look_at_unit(void *user, size_t unit, unsigned worker, struct qc_status *st)
{
    const struct looking *l = user;
    float *x = NULL;
    size_t n;
    (void)worker;
    const bool ok = read(&x, &n, l, unit, st);
    if (ok) {
        l->of[unit] = cut_off(x, n, l->usual);
        l->extremes[unit] = qc_extremes_of(x, n, unit);
    }
    free(x);
    return ok;
}

/* The extremes of all units, 0 among them, but for one (SIZE_MAX: of all). */
static struct range extremes_but(const struct looking *l, size_t units, size_t but)
{
    struct range r = {0, 0};
    for (size_t u = 0; u < units; u++) {
        if (u == but || l->extremes[u].min > l->extremes[u].max) continue;
        r.lo = fmin(r.lo, (double)l->extremes[u].min);
        r.hi = fmax(r.hi, (double)l->extremes[u].max);
    }
    return r;
}

/* Of a value: what storing it in such a range does; and the range as it is stored. */
static double step_error(struct range *r, const struct looking *l)
{
    const struct qc_affine a = qc_affine_from_range(r->lo, r->hi, l->levels, l->symmetry);
    const double scale = (double)a.scale;
    *r = (struct range){scale * (l->levels.lo - a.zero_point), scale * (l->levels.hi - a.zero_point)};
    return scale * scale / 12;
}

/* So that it does not depend on the order of the samples. */
static double coarse(double times)
{
    return rint(times * 0x1p20) / 0x1p20;
}

/* Adds to the errors of all ranges what they do to one unit, from the extremes of the others. */
static bool leave_out(double error[3], const struct looking *l, size_t units, size_t unit, const struct range times[3],
                      struct qc_status *st)
{
    float *x = NULL;
    size_t n;
    const struct range others = extremes_but(l, units, unit);
    const bool ok = read(&x, &n, l, unit, st);
    for (int k = 0; ok && k < 3; k++) {
        struct range r = {others.lo * times[k].lo, others.hi * times[k].hi};
        error[k] += (double)n * step_error(&r, l) + cut_off(x, n, r);
    }
    free(x);
    return ok;
}

static bool judge(struct qc_input_tail *t, const struct looking *l, size_t units, struct qc_status *st)
{
    const struct qc_series series = {units, l->extremes};
    const struct range all = extremes_but(l, units, SIZE_MAX);
    t->lo = all.lo;
    t->hi = all.hi;
    t->lo_times = coarse(qc_times_further(&series, -1, 2));
    t->hi_times = coarse(qc_times_further(&series, 1, 2));
    const struct range times[3] = {{all.lo < 0 ? fmin(1, l->usual.lo / all.lo) : 1,
                                    all.hi > 0 ? fmin(1, l->usual.hi / all.hi) : 1},
                                   {1, 1},
                                   {t->lo_times, t->hi_times}};
    double steps[3], values = 0;
    for (int k = 0; k < 3; k++) {
        struct range r = {all.lo * times[k].lo, all.hi * times[k].hi};
        steps[k] = step_error(&r, l);
        t->error[k] = 0;
    }
    for (size_t u = 0; u < units; u++) {
        const struct qc_extremes *e = &l->extremes[u];
        const size_t n = qc_dataset_unit_elements(l->data, l->input, u);
        values += (double)n;
        if (e->min <= e->max && ((double)e->min <= all.lo || (double)e->max >= all.hi)) {
            if (!leave_out(t->error, l, units, u, times, st)) return false;
            continue;
        }
        for (int k = 0; k < 3; k++) t->error[k] += (double)n * steps[k];
        t->error[QC_REACH_USUAL] += l->of[u]; /* the others' extremes are those of all */
    }
    for (int k = 0; k < 3; k++) t->error[k] /= fmax(values, 1);
    return true;
}

bool qc_input_tail_of(struct qc_input_tail *tail, const struct qc_dataset *data, size_t input,
                      const struct qc_affine *usual, struct qc_levels levels, enum qc_symmetry symmetry,
                      unsigned workers, struct qc_status *st)
{
    const size_t count = qc_dataset_units(data);
    const struct qc_pool_options pool = {.workers = workers ? workers : 1};
    struct looking l = {.data = data,
                        .input = input,
                        .levels = levels,
                        .symmetry = symmetry,
                        .usual = {(double)usual->scale * (levels.lo - usual->zero_point),
                                  (double)usual->scale * (levels.hi - usual->zero_point)},
                        .of = calloc(count + 1, sizeof *l.of),
                        .extremes = calloc(count + 1, sizeof *l.extremes)};
    double sum = 0, squares = 0;
    *tail = (struct qc_input_tail){0};
    bool ok = ((l.of && l.extremes) || qc_fail_memory(st, count * sizeof *l.extremes)) &&
              qc_pool_run(count, look_at_unit, &l, &pool, st);
    for (size_t u = 0; ok && u < count; u++) {
        sum += l.of[u];
        squares += l.of[u] * l.of[u];
    }
    if (ok) {
        tail->units = squares > 0 ? sum * sum / squares : 0;
        tail->few = squares > 0 && tail->units < FEW;
        ok = !tail->few || judge(tail, &l, count, st);
    }
    free(l.of);
    free(l.extremes);
    return ok;
}
