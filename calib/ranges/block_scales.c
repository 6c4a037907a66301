// SPDX-License-Identifier: Apache-2.0
#include "calib/ranges/calibrate_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "arith/float_level.h"
#include "base/pool.h"
#include "base/simd.h"
#include "calib/weights/round_weights.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define X86_VECTORS
#endif

enum { CHUNK = 64 /* blocks per work item */, STEPS = 24, FINER = 4 };

/* Ranges are tried in STEPS steps of 2^(-1/16), down to a third of the largest magnitude. FINER rounds then search
   around the best one, the exponent of the step halved after each. */
static const double STEP = 0.95760328069857364694;

/* A block whose range is searched. */
struct block {
    const struct qc_block_search *search;
    size_t count;
    const double *x, *importance; /* [count] */
    double best;
    double lo, hi; /* best range so far */
};

/* Ranges or scales that are compared together. */
enum { TOGETHER_TRIED = 8 };
struct candidates {
    size_t count;
    double scale[TOGETHER_TRIED], least[TOGETHER_TRIED], most[TOGETHER_TRIED]; /* bounds: of the levels */
    double error[TOGETHER_TRIED];
};

/* magic: its sum with a small number has no bits for fractions. */
static const double magic = 0x1.8p52;

static void errors_plain(struct candidates *c, const double *x, const double *importance, size_t count)
{
    for (size_t l = 0; l < TOGETHER_TRIED; l++) {
        const double scale = c->scale[l];
        double sum = 0;
        for (size_t i = 0; i < count; i++) {
            double q = x[i] / scale;
            q = q < c->least[l] ? c->least[l] : q > c->most[l] ? c->most[l] : q;
            const double d = x[i] - scale * ((q + magic) - magic);
            sum += importance[i] * (d * d);
        }
        c->error[l] = sum;
    }
}

/* The others multiply by 1 / scale. The sums have the same bits: x and scale are float32 and a level has at most 16
   bits, so a quotient is half-way between two levels, where either gives the same square, or at least 2^-26 away from
   it. */
#ifdef X86_VECTORS
/* Candidates from `at`, as many as a vector has numbers. */
#define QC_ERRORS(name, target, TYPE, P)                                                                               \
    target static void name(struct candidates *c, size_t at, const double *x, const double *importance, size_t count)  \
    {                                                                                                                  \
        const TYPE scale = P##loadu_pd(c->scale + at), inverse = P##div_pd(P##set1_pd(1), scale),                      \
                   least = P##loadu_pd(c->least + at), most = P##loadu_pd(c->most + at), bits = P##set1_pd(magic);     \
        TYPE sum = P##setzero_pd();                                                                                    \
        for (size_t i = 0; i < count; i++) {                                                                           \
            const TYPE v = P##set1_pd(x[i]);                                                                           \
            const TYPE q = P##min_pd(P##max_pd(P##mul_pd(v, inverse), least), most);                                   \
            const TYPE d = P##sub_pd(v, P##mul_pd(scale, P##sub_pd(P##add_pd(q, bits), bits)));                        \
            sum = P##add_pd(sum, P##mul_pd(P##set1_pd(importance[i]), P##mul_pd(d, d)));                               \
        }                                                                                                              \
        P##storeu_pd(c->error + at, sum);                                                                              \
    }
QC_ERRORS(errors_avx512, QC_TARGET_AVX512, __m512d, _mm512_)
QC_ERRORS(errors_avx2, QC_TARGET_AVX2, __m256d, _mm256_)
#endif

static void errors(struct candidates *c, const double *x, const double *importance, size_t count)
{
#ifdef X86_VECTORS
    if (QC_HAS_AVX512()) {
        errors_avx512(c, 0, x, importance, count);
        return;
    }
    if (QC_HAS_AVX2()) {
        for (size_t at = 0; at < TOGETHER_TRIED; at += 4) errors_avx2(c, at, x, importance, count);
        return;
    }
#endif
    errors_plain(c, x, importance, count);
}

QC_VECTOR(errors_of_floats,
          (struct candidates *restrict c, const double *restrict x, const double *restrict importance, size_t count,
           int mantissa, int least),
          (c, x, importance, count, mantissa, least))
{
    double sum[TOGETHER_TRIED] = {0};
    for (size_t i = 0; i < count; i++)
        for (size_t l = 0; l < TOGETHER_TRIED; l++) {
            const double d = x[i] - c->scale[l] * qc_float_level_double(x[i] / c->scale[l], c->least[l], c->most[l],
                                                                        mantissa, least);
            sum[l] += importance[i] * (d * d);
        }
    memcpy(c->error, sum, sizeof sum);
}

static void add_candidate(struct candidates *c, const struct block *b, struct qc_affine p)
{
    const struct qc_levels l = b->search->levels;
    c->scale[c->count] = (double)p.scale;
    c->least[c->count] = (double)l.lo - p.zero_point;
    c->most[c->count++] = (double)l.hi - p.zero_point;
}

/* Computes the errors of all candidates. */
static void measure_block(struct candidates *c, const struct block *b)
{
    const struct qc_levels l = b->search->levels;
    for (size_t k = c->count; k < TOGETHER_TRIED; k++) { /* repeat the last one */
        c->scale[k] = c->scale[c->count - 1];
        c->least[k] = c->least[c->count - 1];
        c->most[k] = c->most[c->count - 1];
    }
    if (l.mantissa)
        errors_of_floats(c, b->x, b->importance, b->count, l.mantissa, l.least);
    else
        errors(c, b->x, b->importance, b->count);
}

/* Tries ranges [count][2]; of equal errors the first one counts. Returns true if one is better than the best so far. */
static bool try_ranges(struct block *b, double (*ranges)[2], size_t count)
{
    bool better = false;
    for (size_t first = 0; first < count; first += TOGETHER_TRIED) {
        struct candidates c = {0};
        for (size_t k = first; k < count && c.count < TOGETHER_TRIED; k++)
            add_candidate(&c, b,
                          qc_affine_from_range(ranges[k][0], ranges[k][1], b->search->levels, b->search->symmetry));
        measure_block(&c, b);
        for (size_t k = 0; k < c.count; k++) {
            if (!(c.error[k] < b->best)) continue;
            better = true;
            b->best = c.error[k];
            b->lo = ranges[first + k][0];
            b->hi = ranges[first + k][1];
        }
    }
    return better;
}

static void search(struct block *b, double lo, double hi)
{
    double coarse[STEPS + 1][2], ratio = 1, step = STEP;
    b->best = (double)INFINITY;
    for (int k = 0; k <= STEPS; k++, ratio *= STEP) {
        coarse[k][0] = lo * ratio;
        coarse[k][1] = hi * ratio;
    }
    try_ranges(b, coarse, STEPS + 1);
    for (int fine = 0; fine < FINER; fine++, step = sqrt(step)) {
        bool moved = true;
        for (int rounds = 0; moved && rounds < STEPS; rounds++) {
            const double l = b->lo, h = b->hi;
            double ranges[][2] = {{l * step, h * step}, {l / step, h / step}, {l * step, h},
                                  {l / step, h},        {l, h * step},        {l, h / step}};
            const size_t count = b->search->symmetry == QC_SYMMETRIC ? 2 : sizeof ranges / sizeof *ranges;
            moved = try_ranges(b, ranges, count);
        }
    }
}

/* Keeps `scale` in *best if its error is less than *least. */
static void try_scale(const struct block *b, float *best, double *least, float scale)
{
    struct candidates c = {0};
    if (!(scale >= QC_SCALE_MIN)) return;
    add_candidate(&c, b, (struct qc_affine){.scale = scale});
    measure_block(&c, b);
    if (!(c.error[0] < *least)) return;
    *least = c.error[0];
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
                 outputs = l->inner > 1 ? l->inner : rows, group = s->importance ? outer / (rows / s->groups) : 0;
    double *x = w->scratch + 2 * worker * l->block, *importance = x + l->block, lo = 0, hi = 0;
    float *numbers = w->numbers + worker * l->block;
    if (s->judged && !qc_round_weights_is_judged(l->inner > 1 ? inner : outer, outputs, s->judged)) return true;
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
