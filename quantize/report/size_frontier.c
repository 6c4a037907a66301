// SPDX-License-Identifier: Apache-2.0
#include "quantize/report/size_frontier.h"

#include <stdlib.h>

/* A step of a unit; each: error removed per byte. */
struct gain {
    double each;
    size_t unit, from, to;
    size_t rank; /* index among the steps of its unit */
};

static int by_gain(const void *x, const void *y)
{
    const struct gain *a = x, *b = y;
    if (a->each > b->each || a->each < b->each) return a->each > b->each ? -1 : 1;
    if (a->unit != b->unit) return a->unit < b->unit ? -1 : 1;
    return (a->rank > b->rank) - (a->rank < b->rank);
}

static double slope(const struct qc_size_unit *u, size_t from, size_t to)
{
    return (u->points[from].error - u->points[to].error) / (double)(u->points[to].bytes - u->points[from].bytes);
}

/* Returns the point with fewest bytes; of several the one with the least error. */
static size_t smallest(const struct qc_size_unit *u)
{
    size_t best = 0;
    for (size_t i = 1; i < u->count; i++) {
        const struct qc_size_point *p = &u->points[i], *b = &u->points[best];
        if (p->bytes < b->bytes || (p->bytes == b->bytes && p->error < b->error)) best = i;
    }
    return best;
}

/* Adds the steps along the hull: each goes to the point that gains most per byte, of equal ones to the largest. Returns
   the number of steps. */
static size_t add_steps(struct gain *gains, const struct qc_size_unit *u, size_t unit, size_t at)
{
    size_t n = 0;
    for (;;) {
        size_t best = at;
        for (size_t i = 0; i < u->count; i++) {
            if (u->points[i].bytes <= u->points[at].bytes || !(u->points[i].error < u->points[at].error)) continue;
            if (best == at || slope(u, at, i) > slope(u, at, best) ||
                (!(slope(u, at, i) < slope(u, at, best)) && u->points[i].bytes > u->points[best].bytes))
                best = i;
        }
        if (best == at) return n;
        gains[n] = (struct gain){.each = slope(u, at, best), .unit = unit, .from = at, .to = best, .rank = n};
        n++;
        at = best;
    }
}

bool qc_size_frontier(struct qc_size_frontier *out, const struct qc_size_unit *units, size_t count, struct qc_arena *a,
                      struct qc_status *st)
{
    struct gain *gains = QC_NEW_ARRAY(a, struct gain, count * (QC_SIZE_POINTS - 1), st);
    size_t n = 0;
    *out = (struct qc_size_frontier){.unit_count = count, .units = units, .first = QC_NEW_ARRAY(a, size_t, count, st)};
    if (!gains || !out->first) return false;
    for (size_t u = 0; u < count; u++) {
        out->first[u] = smallest(&units[u]);
        out->least_bytes += units[u].points[out->first[u]].bytes;
        out->least_error += units[u].points[out->first[u]].error;
        n += add_steps(gains + n, &units[u], u, out->first[u]);
    }
    if (n) qsort(gains, n, sizeof *gains, by_gain);
    if (!(out->steps = QC_NEW_ARRAY(a, struct qc_size_step, n, st))) return false;
    out->step_count = n;
    size_t bytes = out->least_bytes;
    double error = out->least_error;
    for (size_t i = 0; i < n; i++) {
        const struct qc_size_point *p = units[gains[i].unit].points;
        bytes += p[gains[i].to].bytes - p[gains[i].from].bytes;
        error -= p[gains[i].from].error - p[gains[i].to].error;
        out->steps[i] = (struct qc_size_step){.unit = gains[i].unit,
                                              .point = gains[i].to,
                                              .bytes = bytes,
                                              .error = error > 0 ? error : 0};
    }
    return true;
}

bool qc_size_choose(size_t *points, struct qc_size_point *sum, const struct qc_size_frontier *f, size_t bytes)
{
    *sum = (struct qc_size_point){.bytes = f->least_bytes};
    if (f->least_bytes > bytes) return false;
    for (size_t u = 0; u < f->unit_count; u++) points[u] = f->first[u];
    for (size_t i = 0; i < f->step_count; i++) {
        const struct qc_size_step *s = &f->steps[i];
        const struct qc_size_point *p = f->units[s->unit].points;
        /* The unit may be at an earlier point, if one of its steps did not fit. */
        const size_t more = p[s->point].bytes - p[points[s->unit]].bytes;
        if (more > bytes - sum->bytes) continue;
        sum->bytes += more;
        points[s->unit] = s->point;
    }
    for (size_t u = 0; u < f->unit_count; u++) sum->error += f->units[u].points[points[u]].error;
    return true;
}
