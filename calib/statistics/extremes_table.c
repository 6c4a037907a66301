// SPDX-License-Identifier: Apache-2.0
#include "calib/statistics/extremes_table.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

size_t qc_extremes_table_bytes(size_t values, size_t count)
{
    return count * (sizeof(uint64_t) + values * sizeof(struct qc_ends));
}

static bool allocate(struct qc_extremes_table *t, size_t values, size_t count, struct qc_status *st)
{
    size_t pairs = 0;
    const bool fits = qc_mul_size(&pairs, values, count);
    *t = (struct qc_extremes_table){.values = values,
                                    .count = count,
                                    .samples = calloc(count + 1, sizeof *t->samples),
                                    .ends = fits ? calloc(pairs + 1, sizeof *t->ends) : NULL};
    if (t->samples && t->ends) return true;
    free(t->samples);
    free(t->ends);
    *t = (struct qc_extremes_table){0};
    return qc_fail_memory(st, qc_extremes_table_bytes(values, count));
}

bool qc_extremes_table_new(struct qc_extremes_table **out, size_t values, size_t count, struct qc_status *st)
{
    struct qc_extremes_table *t = calloc(1, sizeof *t);
    if (!t) return qc_fail_memory(st, sizeof *t);
    if (!allocate(t, values, count, st)) {
        free(t);
        return false;
    }
    *out = t;
    return true;
}

void qc_extremes_table_free(struct qc_extremes_table *t)
{
    if (!t) return;
    free(t->samples);
    free(t->ends);
    free(t);
}

bool qc_extremes_table_add(struct qc_extremes_table *to, const struct qc_extremes_table *from, struct qc_status *st)
{
    struct qc_extremes_table both;
    if (!from->count) return true;
    if (!allocate(&both, to->values, to->count + from->count, st)) return false;
    for (size_t i = 0, a = 0, b = 0; i < both.count; i++) {
        const bool first = b == from->count || (a < to->count && to->samples[a] < from->samples[b]);
        const struct qc_extremes_table *t = first ? to : from;
        const size_t at = first ? a++ : b++;
        both.samples[i] = t->samples[at];
        for (size_t v = 0; v < both.values; v++) both.ends[v * both.count + i] = t->ends[v * t->count + at];
    }
    free(to->samples);
    free(to->ends);
    *to = both;
    return true;
}

bool qc_extremes_table_join(struct qc_series *series, const struct qc_extremes_table *t, size_t value,
                            struct qc_status *st)
{
    struct qc_extremes *items = calloc(t->count + 1, sizeof *items);
    if (!items) return qc_fail_memory(st, t->count * sizeof *items);
    for (size_t i = 0; i < t->count; i++) {
        const struct qc_ends *e = &t->ends[value * t->count + i];
        items[i] = (struct qc_extremes){.sample = t->samples[i], .min = e->min, .max = e->max};
        if (series->count) items[i] = qc_extremes_join(items[i], series->items[i]);
    }
    free((void *)(uintptr_t)series->items);
    *series = (struct qc_series){.count = t->count, .items = items};
    return true;
}

bool qc_series_add_constant(struct qc_series *series, const float *x, size_t n, struct qc_status *st)
{
    struct qc_extremes e = qc_extremes_of(x, n, 0), *items = (struct qc_extremes *)(uintptr_t)series->items;
    if (!series->count) {
        free(items);
        if (!(items = malloc(sizeof *items))) return qc_fail_memory(st, sizeof *items);
        *items = e;
        *series = (struct qc_series){.count = 1, .items = items};
        return true;
    }
    for (size_t i = 0; i < series->count; i++) items[i] = qc_extremes_join(items[i], e);
    return true;
}
