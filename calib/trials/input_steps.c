// SPDX-License-Identifier: Apache-2.0
#include "calib/trials/trials.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/pool.h"
#include "base/scope.h"

/* VALUES_LEAST: fewer values may agree by chance. FLOATS_A_LEVEL: distinct floats allowed per level, since different
   divisions of an integer differ in the last bits. */
enum { VALUES_LEAST = 1024, FLOATS_A_LEVEL = 4, LEVELS_MOST = 1 << 16 };

/* Size of a cache of recent values that avoids lookups in the set. */
enum { LATELY_BITS = 10, LATELY = 1 << LATELY_BITS };

/* Tolerance of a multiple, as a part of the largest value: 2 units in the last place, or 32 if no step is found with 2.
   It is never more than NEAR of a step. */
static const double ROUNDING[] = {0x1p-22, 0x1p-18}, NEAR = 0.01;

/* Distinct magnitudes by the bits of the float, in a hash table; 0 marks an empty place. The set, and whether it has
   too many, does not depend on the order of the values. */
struct magnitudes {
    uint32_t *bits;
    size_t room, count, most; /* room: a power of two */
    bool too_many;
};

static size_t step_place(const struct magnitudes *m, uint32_t bits)
{
    size_t i = (size_t)(bits * UINT64_C(0x9E3779B97F4A7C15) >> 32) & (m->room - 1);
    while (m->bits[i] && m->bits[i] != bits) i = (i + 1) & (m->room - 1);
    return i;
}

static bool grow(struct magnitudes *m, struct qc_status *st)
{
    enum { ROOM = 1024 };
    struct magnitudes more = {.room = m->room ? 2 * m->room : ROOM};
    if (!(more.bits = calloc(more.room, sizeof *more.bits))) return qc_fail_memory(st, more.room * sizeof *more.bits);
    for (size_t i = 0; i < m->room; i++)
        if (m->bits[i]) more.bits[step_place(&more, m->bits[i])] = m->bits[i];
    free(m->bits);
    m->bits = more.bits;
    m->room = more.room;
    return true;
}

static bool add_step_value(struct magnitudes *m, float v, struct qc_status *st)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    bits &= INT32_MAX;
    if (!bits) return true;
    if (2 * m->count >= m->room && !grow(m, st)) return false;
    const size_t i = step_place(m, bits);
    if (m->bits[i]) return true;
    m->bits[i] = bits;
    m->too_many = ++m->count > m->most;
    return true;
}

/* The values that one worker has read. */
struct seen {
    struct magnitudes magnitudes;
    double lo, hi;
    size_t values;
    uint32_t lately[LATELY]; /* bits of recent finite values, by hash; 0 counts as seen from the start */
};

static bool look_for_step(struct seen *s, const float *x, size_t n, struct qc_status *st)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        uint32_t *place = &s->lately[bits * UINT32_C(0x9E3779B9) >> (32 - LATELY_BITS)];
        if (bits == *place) {
            s->values++;
            continue;
        }
        if (!isfinite(x[i])) continue;
        s->values++;
        *place = bits;
        s->lo = fmin(s->lo, (double)x[i]);
        s->hi = fmax(s->hi, (double)x[i]);
        if (!add_step_value(&s->magnitudes, x[i], st)) return false;
        if (s->magnitudes.too_many) break;
    }
    return true;
}

/* Returns the largest step, a whole part of the largest value, of which all magnitudes are multiples; 0 if none gives
   at most `most` steps. */
static double largest_step(const struct seen *s, const uint32_t *magnitudes, size_t count, double most, double rounding)
{
    const double largest = fmax(-s->lo, s->hi);
    size_t against = 0; /* the magnitude that refuted the last candidate is likely to refute the next one */
    for (double parts = 1;; parts++) {
        const double step = largest / parts, off = fmin(NEAR * step, rounding * largest);
        if (!(s->hi - s->lo <= (most + NEAR) * step)) return 0;
        size_t passed = 0;
        while (passed < count) {
            float v;
            memcpy(&v, &magnitudes[against], sizeof v);
            if (fabs((double)v - step * rint((double)v / step)) > off) break;
            passed++;
            against = against + 1 < count ? against + 1 : 0;
        }
        if (passed == count) return step;
    }
}

static double step_of_input(struct seen *s, double most)
{
    struct magnitudes *m = &s->magnitudes;
    size_t count = 0;
    if (m->too_many || !m->count || s->values < VALUES_LEAST) return 0;
    for (size_t i = 0; i < m->room; i++)
        if (m->bits[i]) m->bits[count++] = m->bits[i];
    double step = 0;
    for (size_t i = 0; !(step > 0) && i < sizeof ROUNDING / sizeof *ROUNDING; i++)
        step = largest_step(s, m->bits, count, most, ROUNDING[i]);
    return step;
}

/* The samples, and what each worker has seen of them. */
struct reading {
    const struct qc_dataset *data;
    size_t input;
    struct part {
        struct seen seen;
        struct qc_dataset_scratch *scratch;
    } * parts; /* [workers] */
};

static bool look_at_unit(void *user, size_t unit, unsigned worker, struct qc_status *st)
{
    const struct reading *r = user;
    struct part *p = &r->parts[worker];
    if (p->seen.magnitudes.too_many) return true;
    const size_t bytes = qc_dataset_unit_bytes(r->data, r->input, unit),
                 n = qc_dataset_unit_elements(r->data, r->input, unit);
    QC_FREED float *x = malloc(bytes + 1);
    if (!x) return qc_fail_memory(st, bytes);
    if (!p->scratch) {
        if (!qc_dataset_scratch_new(&p->scratch, st)) return false;
        qc_dataset_scratch_passes(p->scratch);
    }
    return qc_dataset_read(x, r->data, r->input, unit, p->scratch, st) && look_for_step(&p->seen, x, n, st);
}

/* Adds what another worker has seen. */
static bool join_seen(struct seen *to, const struct seen *from, struct qc_status *st)
{
    const struct magnitudes *m = &from->magnitudes;
    to->values += from->values;
    to->lo = fmin(to->lo, from->lo);
    to->hi = fmax(to->hi, from->hi);
    to->magnitudes.too_many = to->magnitudes.too_many || m->too_many;
    for (size_t i = 0; !to->magnitudes.too_many && i < m->room; i++) {
        float v;
        memcpy(&v, &m->bits[i], sizeof v);
        if (m->bits[i] && !add_step_value(&to->magnitudes, v, st)) return false;
    }
    return true;
}

bool qc_input_step(double *step, const struct qc_dataset *data, size_t input, double most, unsigned workers,
                   struct qc_status *st)
{
    const double levels = fmin(most, LEVELS_MOST);
    struct reading r = {.data = data, .input = input, .parts = calloc(workers, sizeof *r.parts)};
    if (!r.parts) return qc_fail_memory(st, workers * sizeof *r.parts);
    for (unsigned w = 0; w < workers; w++) r.parts[w].seen.magnitudes.most = (size_t)(FLOATS_A_LEVEL * (levels + 1));
    bool ok = qc_pool_run(qc_dataset_units(data), look_at_unit, &r, &(struct qc_pool_options){.workers = workers}, st);
    for (unsigned w = 1; ok && w < workers; w++) ok = join_seen(&r.parts[0].seen, &r.parts[w].seen, st);
    *step = ok ? step_of_input(&r.parts[0].seen, levels) : 0;
    for (unsigned w = 0; w < workers; w++) {
        qc_dataset_scratch_free(r.parts[w].scratch);
        free(r.parts[w].seen.magnitudes.bits);
    }
    free(r.parts);
    return ok;
}

bool qc_input_step_once(double *step, struct qc_input_steps *known, const struct qc_dataset *data, size_t input,
                        double most, unsigned workers, struct qc_status *st)
{
    if (known->most < most || known->most > most) {
        double found;
        if (!qc_input_step(&found, data, input, most, workers, st)) return false;
        *known = (struct qc_input_steps){.step = found, .most = most};
    }
    *step = known->step;
    return true;
}

bool qc_range_of_step(double *lo, double *hi, double step, struct qc_levels levels, enum qc_symmetry symmetry)
{
    const double all = (double)levels.hi - levels.lo,
                 reach = symmetry == QC_SYMMETRIC ? 2 * fmax(-*lo, *hi) : *hi - *lo;
    if (!(step > 0) || !(reach > 0)) return false;
    const double parts = floor(all * step / reach + NEAR), fine = step / parts;
    if (!(parts >= 1)) return false;
    if (symmetry == QC_SYMMETRIC) {
        *hi = fine * levels.hi;
        *lo = -*hi;
    } else { /* spare levels are split between both sides, if the range has two */
        const double below = rint(-*lo / fine), left = all - below - rint(*hi / fine);
        if (left < 0) return false;
        const double more = *lo < 0 ? *hi > 0 ? floor(left / 2) : left : 0;
        *lo = 0 - fine * (below + more); /* not -0 */
        *hi = *lo + fine * all;
    }
    const double scale = (double)qc_affine_from_range(*lo, *hi, levels, symmetry).scale;
    return fabs(scale / fine - 1) < 1e-6;
}
