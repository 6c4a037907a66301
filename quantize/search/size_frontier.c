// SPDX-License-Identifier: Apache-2.0
#include "quantize/search/searches.h"

#include <stdint.h>
#include <stdlib.h>

/* A step of a unit; each: error removed per byte. */
struct gain {
    double each;
    size_t unit, from, to;
    size_t rank; /* index among the steps of its unit */
};

static int by_size_gain(const void *x, const void *y)
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

bool qc_size_frontier(struct qc_size_frontier *out, const struct qc_size_unit *units, size_t count, struct qc_arena *a,
                      struct qc_status *st)
{
    struct gain *gains = QC_NEW_ARRAY(a, struct gain, count * (QC_SIZE_POINTS - 1), st);
    size_t n = 0;
    *out = (struct qc_size_frontier){.unit_count = count, .units = units, .first = QC_NEW_ARRAY(a, size_t, count, st)};
    if (!gains || !out->first) return false;
    for (size_t u = 0; u < count; u++) {
        /* The point with fewest bytes; of several the one with the least error. */
        size_t best = 0;
        for (size_t i = 1; i < units[u].count; i++) {
            const struct qc_size_point *p = &units[u].points[i], *b = &units[u].points[best];
            if (p->bytes < b->bytes || (p->bytes == b->bytes && p->error < b->error)) best = i;
        }
        out->first[u] = best;
        out->least_bytes += units[u].points[out->first[u]].bytes;
        out->least_error += units[u].points[out->first[u]].error;
        /* Add the steps along the hull: each goes to the point that gains most per byte, of equal ones to the
           largest. */
        const struct qc_size_point *p = units[u].points;
        for (size_t at = best, first = n;; at = best) {
            for (size_t i = 0; i < units[u].count; i++) {
                if (p[i].bytes <= p[at].bytes || !(p[i].error < p[at].error)) continue;
                if (best == at || slope(&units[u], at, i) > slope(&units[u], at, best) ||
                    (!(slope(&units[u], at, i) < slope(&units[u], at, best)) && p[i].bytes > p[best].bytes))
                    best = i;
            }
            if (best == at) break;
            gains[n] =
                (struct gain){.each = slope(&units[u], at, best), .unit = u, .from = at, .to = best, .rank = n - first};
            n++;
        }
    }
    if (n) qsort(gains, n, sizeof *gains, by_size_gain);
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

/* Points of the first units: their sums, the last of the points, and the index of the sum of the others. */
struct partial {
    size_t bytes;
    double error;
    uint32_t before;
    uint32_t point;
};

static int by_bytes(const void *x, const void *y)
{
    const struct partial *a = x, *b = y;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? -1 : 1;
    if (a->error < b->error || a->error > b->error) return a->error < b->error ? -1 : 1;
    if (a->before != b->before) return a->before < b->before ? -1 : 1;
    return (a->point > b->point) - (a->point < b->point);
}

bool qc_size_improve(size_t *points, struct qc_size_point *sum, const struct qc_size_frontier *f, size_t bytes,
                     struct qc_status *st)
{
    struct qc_arena *a = qc_arena_new();
    struct partial **of = a ? QC_NEW_ARRAY(a, struct partial *, f->unit_count + 1, st) : NULL;
    struct partial *all = of ? QC_NEW_ARRAY(a, struct partial, (QC_SIZE_SUMS + 1) * QC_SIZE_POINTS, st) : NULL;
    const struct partial none = {.bytes = 0};
    size_t count = 1, rest = f->least_bytes;
    bool ok = all ? true : qc_fail_memory(st, sizeof *all);
    ok = ok && (of[0] = qc_arena_dup(a, &none, 1, sizeof none, st));
    for (size_t u = 0; ok && u < f->unit_count; u++) {
        const struct qc_size_unit *unit = &f->units[u];
        size_t n = 0;
        rest -= unit->points[f->first[u]].bytes;
        for (size_t i = 0; i < count; i++)
            for (uint32_t k = 0; k < unit->count; k++) {
                const size_t with = of[u][i].bytes + unit->points[k].bytes;
                if (with > bytes || rest > bytes - with) continue;
                all[n++] = (struct partial){with, of[u][i].error + unit->points[k].error, (uint32_t)i, k};
            }
        qsort(all, n, sizeof *all, by_bytes);
        /* Keep of the sorted sums those with less error than all smaller ones, and of those the last in each of
           QC_SIZE_SUMS parts of the range. */
        size_t good = 0;
        for (size_t i = 0; i < n; i++)
            if (!good || all[i].error < all[good - 1].error) all[good++] = all[i];
        count = good > QC_SIZE_SUMS ? 0 : good;
        const double part = good ? (double)(all[good - 1].bytes - all[0].bytes + 1) / (QC_SIZE_SUMS - 1) : 1;
        const size_t least = all[0].bytes;
        for (size_t i = 0; good > QC_SIZE_SUMS && i < good; i++) {
            const size_t at = (size_t)((double)(all[i].bytes - least) / part);
            const bool last = i + 1 == good || (size_t)((double)(all[i + 1].bytes - least) / part) != at;
            if (last || !i) all[count++] = all[i];
        }
        ok = (of[u + 1] = qc_arena_dup(a, all, count, sizeof *all, st)) != NULL;
    }
    if (ok && count && of[f->unit_count][count - 1].error < sum->error) {
        const struct partial *best = &of[f->unit_count][count - 1];
        *sum = (struct qc_size_point){best->bytes, best->error};
        for (size_t u = f->unit_count; u--; best = &of[u][best->before]) points[u] = best->point;
    }
    qc_arena_free(a);
    return ok;
}
