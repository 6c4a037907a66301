// SPDX-License-Identifier: Apache-2.0
#include "calib/ranges/block_scales.h"

#include <math.h>
#include <stdlib.h>

#include "arith/float_level.h"
#include "base/pool.h"

enum { CHUNK = 64 /* blocks per work item */, STEPS = 24, FINER = 4 };

/* Ranges are tried in steps of 2^(-1/16). FINER rounds then search around the best one, the exponent of the step halved
   after each. */
static const double STEP = 0.95760328069857364694;

/* A block whose range is searched. */
struct block {
    const struct qc_block_search *search;
    size_t count;
    const double *x, *importance; /* [count] */
    double best;
    double lo, hi; /* best range so far */
};

static double error_of_floats(const struct block *b, double scale)
{
    const struct qc_levels l = b->search->levels;
    double sum = 0;
    for (size_t i = 0; i < b->count; i++) {
        const double d = b->x[i] - scale * qc_float_level_double(b->x[i] / scale, l.lo, l.hi, l.mantissa, l.least);
        sum += b->importance[i] * (d * d);
    }
    return sum;
}

static double error_of(const struct block *b, struct qc_affine p)
{
    if (b->search->levels.mantissa) return error_of_floats(b, (double)p.scale);
    const double magic = 0x1.8p52, scale = (double)p.scale, least = b->search->levels.lo - p.zero_point,
                 most = b->search->levels.hi - p.zero_point;
    double sum = 0;
    for (size_t i = 0; i < b->count; i++) {
        double q = b->x[i] / scale;
        q = q < least ? least : q > most ? most : q;
        const double d = b->x[i] - scale * ((q + magic) - magic);
        sum += b->importance[i] * (d * d);
    }
    return sum;
}

static bool try_range(struct block *b, double lo, double hi)
{
    const double error = error_of(b, qc_affine_from_range(lo, hi, b->search->levels, b->search->symmetry));
    if (!(error < b->best)) return false;
    b->best = error;
    b->lo = lo;
    b->hi = hi;
    return true;
}

static void search(struct block *b, double lo, double hi)
{
    double ratio = 1, step = STEP;
    b->best = (double)INFINITY;
    for (int k = 0; k <= STEPS; k++, ratio *= STEP) try_range(b, lo * ratio, hi * ratio);
    for (int fine = 0; fine < FINER; fine++, step = sqrt(step)) {
        bool moved = true;
        for (int rounds = 0; moved && rounds < STEPS; rounds++) {
            const double l = b->lo, h = b->hi;
            const double ranges[][2] = {{l * step, h * step}, {l / step, h / step}, {l * step, h},
                                        {l / step, h},        {l, h * step},        {l, h / step}};
            const size_t count = b->search->symmetry == QC_SYMMETRIC ? 2 : sizeof ranges / sizeof *ranges;
            moved = false;
            for (size_t i = 0; i < count; i++)
                if (try_range(b, ranges[i][0], ranges[i][1])) moved = true;
        }
    }
}

/* Keeps `scale` in *best if its error is less than *least. */
static void try_scale(const struct block *b, float *best, double *least, float scale)
{
    const double error = scale >= QC_SCALE_MIN ? error_of(b, (struct qc_affine){.scale = scale}) : (double)INFINITY;
    if (!(error < *least)) return;
    *least = error;
    *best = scale;
}

static float power_of_two(const struct block *b, float scale)
{
    double least = (double)INFINITY;
    float best = scale;
    int e;
    (void)frexpf(scale, &e); /* scale < 2^e */
    for (int k = e + 1; k >= e - 2; k--) try_scale(b, &best, &least, ldexpf(1, k));
    return best;
}

/* Returns the scale of least error among numbers of E4M3 times `over` near `scale`. */
static float float8_over(const struct block *b, float scale, float over)
{
    const uint8_t at = qc_float_to_small(QC_F8E4M3, (double)(scale / over), QC_SMALL_SATURATES, QC_SMALL_NEAREST),
                  most = qc_float_to_small(QC_F8E4M3, (double)INFINITY, QC_SMALL_SATURATES, QC_SMALL_NEAREST);
    double least = (double)INFINITY;
    float best = over * qc_small_to_float(QC_F8E4M3, at ? at : 1);
    for (int k = at + 1; k >= at - 2; k--)
        if (k >= 1 && k <= most) try_scale(b, &best, &least, over * qc_small_to_float(QC_F8E4M3, (uint8_t)k));
    return best;
}

struct work {
    const struct qc_block_search *search;
    float over; /* 0: any scale; else scales are numbers of E4M3 times `over` */
    float *scale;
    int32_t *zero_point;
    double *scratch; /* [workers][2 block]: numbers and their importance */
    float *numbers;  /* [workers][block] */
};

static bool solve_block(struct work *w, size_t k, unsigned worker, struct qc_status *st)
{
    const struct qc_block_search *s = w->search;
    const struct qc_scale_layout *l = &s->layout;
    const size_t inner = k % l->inner, at = k / l->inner % l->blocks * l->block, outer = k / l->inner / l->blocks,
                 count = l->size - at < l->block ? l->size - at : l->block, rows = l->count / l->blocks / l->inner,
                 group = s->importance ? outer / (rows / s->groups) : 0;
    double *x = w->scratch + 2 * worker * l->block, *importance = x + l->block, lo = 0, hi = 0;
    float *numbers = w->numbers + worker * l->block;
    for (size_t i = 0; i < count; i++) {
        numbers[i] = ((const float *)s->tensor->data)[(outer * l->size + at + i) * l->inner + inner];
        x[i] = (double)numbers[i];
        importance[i] = s->importance ? s->importance[group * l->size + at + i] : 1;
        lo = fmin(lo, x[i]);
        hi = fmax(hi, x[i]);
    }
    if (lo == 0 && hi == 0) return true;
    struct block b = {.search = s, .count = count, .x = x, .importance = importance, .lo = lo, .hi = hi};
    if (w->over > 0) {
        w->scale[k] = float8_over(&b, w->scale[k], w->over);
        return true;
    }
    if (s->observer) {
        const struct qc_solve request = QC_SOLVE_INIT(s->levels, s->symmetry);
        struct qc_range r = {0};
        if (!qc_observer_solve_values(&r, s->observer, s->values, numbers, count, &request, st)) return false;
        lo = r.lo;
        hi = r.hi;
    } else {
        search(&b, lo, hi);
        lo = b.lo;
        hi = b.hi;
    }
    const struct qc_affine p = qc_affine_from_range(lo, hi, s->levels, s->symmetry);
    w->scale[k] = s->scale == QC_SCALE_POWER_OF_TWO ? power_of_two(&b, p.scale) : p.scale;
    w->zero_point[k] = p.zero_point;
    return true;
}

static bool solve_some(void *user, size_t item, unsigned worker, struct qc_status *st)
{
    struct work *w = user;
    const size_t count = w->search->layout.count, end = (item + 1) * CHUNK < count ? (item + 1) * CHUNK : count;
    for (size_t k = item * CHUNK; k < end; k++)
        if (!solve_block(w, k, worker, st)) return false;
    return true;
}

bool qc_block_scales(float *scale, int32_t *zero_point, struct qc_range *widest, const struct qc_block_search *search,
                     struct qc_status *st)
{
    const struct qc_scale_layout *l = &search->layout;
    const size_t workers = search->workers ? search->workers : 1, width = l->block < l->size ? l->block : l->size;
    struct qc_block_search s = *search;
    s.layout.block = width; /* a block is no longer than the axis */
    struct work w = {.search = &s, .scale = scale, .zero_point = zero_point};
    w.scratch = malloc(2 * workers * width * sizeof *w.scratch);
    w.numbers = malloc(workers * width * sizeof *w.numbers);
    for (size_t k = 0; k < l->count; k++) {
        scale[k] = 0;
        zero_point[k] = 0;
    }
    const struct qc_pool_options pool = {.workers = (unsigned)workers};
    bool ok = w.scratch && w.numbers ? qc_pool_run((l->count + CHUNK - 1) / CHUNK, solve_some, &w, &pool, st)
                                     : qc_fail_memory(st, workers * width * sizeof *w.scratch);
    if (ok && s.scale == QC_SCALE_FLOAT8) {
        float largest = 0;
        for (size_t k = 0; k < l->count; k++) largest = fmaxf(largest, scale[k]);
        w.over = qc_scale_over(largest);
        ok = !(largest > 0) || qc_pool_run((l->count + CHUNK - 1) / CHUNK, solve_some, &w, &pool, st);
    }
    free(w.scratch);
    free(w.numbers);
    for (size_t k = 0; ok && k < l->count; k++) {
        widest->lo = fmin(widest->lo, (double)scale[k] * (s.levels.lo - zero_point[k]));
        widest->hi = fmax(widest->hi, (double)scale[k] * (s.levels.hi - zero_point[k]));
    }
    return ok;
}
