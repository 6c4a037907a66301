// SPDX-License-Identifier: Apache-2.0
#include "calib/ranges/block_scales.h"

#include <math.h>
#include <stdlib.h>

#include "base/pool.h"

enum { CHUNK = 64 /* blocks of an item */, STEPS = 24, FINER = 4 };

/* Ranges are tried in steps of 2^(-1/16), then around the best in steps of half that, and half again. */
static const double STEP = 0.95760328069857364694;

/* One block on its way. */
struct block {
    const struct qc_block_search *search;
    size_t count;
    const double *x, *importance; /* [count] */
    double best;
    double lo, hi; /* of the best range */
};

static double error_of(const struct block *b, struct qc_affine p)
{
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

struct work {
    const struct qc_block_search *search;
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
                 count = l->size - at < l->block ? l->size - at : l->block;
    double *x = w->scratch + 2 * worker * l->block, *importance = x + l->block, lo = 0, hi = 0;
    float *numbers = w->numbers + worker * l->block;
    for (size_t i = 0; i < count; i++) {
        numbers[i] = ((const float *)s->tensor->data)[(outer * l->size + at + i) * l->inner + inner];
        x[i] = (double)numbers[i];
        importance[i] = s->importance ? s->importance[at + i] : 1;
        lo = fmin(lo, x[i]);
        hi = fmax(hi, x[i]);
    }
    if (lo == 0 && hi == 0) return true;
    if (s->observer) {
        const struct qc_solve request = QC_SOLVE_INIT(s->levels, s->symmetry);
        struct qc_range r = {0};
        if (!qc_observer_solve_values(&r, s->observer, s->values, numbers, count, &request, st)) return false;
        lo = r.lo;
        hi = r.hi;
    } else {
        struct block b = {.search = s, .count = count, .x = x, .importance = importance, .lo = lo, .hi = hi};
        search(&b, lo, hi);
        lo = b.lo;
        hi = b.hi;
    }
    const struct qc_affine p = qc_affine_from_range(lo, hi, s->levels, s->symmetry);
    w->scale[k] = p.scale;
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
    const bool ok = w.scratch && w.numbers ? qc_pool_run((l->count + CHUNK - 1) / CHUNK, solve_some, &w, &pool, st)
                                           : qc_fail_memory(st, workers * width * sizeof *w.scratch);
    free(w.scratch);
    free(w.numbers);
    for (size_t k = 0; ok && k < l->count; k++) {
        widest->lo = fmin(widest->lo, (double)scale[k] * (s.levels.lo - zero_point[k]));
        widest->hi = fmax(widest->hi, (double)scale[k] * (s.levels.hi - zero_point[k]));
    }
    return ok;
}
