// SPDX-License-Identifier: Apache-2.0
#include "calib/statistics/unit_sizes.h"

#include <stdlib.h>

/* ---- Order ---- */

struct sized {
    const int64_t *dims; /* of all inputs */
    size_t count;        /* of them */
    size_t elements, place;
};

static int by_size(const void *x, const void *y)
{
    const struct sized *a = x, *b = y;
    if (a->elements != b->elements) return a->elements > b->elements ? -1 : 1;
    for (size_t i = 0; i < a->count; i++)
        if (a->dims[i] != b->dims[i]) return a->dims[i] > b->dims[i] ? -1 : 1;
    return (a->place > b->place) - (a->place < b->place);
}

static size_t elements_of(const struct qc_dataset *data, size_t inputs, size_t unit)
{
    size_t all = 0;
    for (size_t i = 0; i < inputs; i++) {
        const size_t n = qc_dataset_unit_elements(data, i, unit);
        all = n > SIZE_MAX - all ? SIZE_MAX : all + n;
    }
    return all;
}

static size_t all_ranks(const struct qc_dataset *data, size_t inputs)
{
    const int64_t *dims;
    size_t n = 0;
    for (size_t i = 0; i < inputs; i++) n += qc_dataset_dims(&dims, data, i);
    return n;
}

/* Returns the number of units from `first` on that are sorted together. */
static size_t block(const struct sized *all, size_t first, size_t count, enum qc_order how)
{
    size_t n = 0, elements = 0;
    if (how == QC_ORDER_FREE) return count - first;
    while (first + n < count && n < QC_ORDER_UNITS && (n == 0 || elements <= QC_ORDER_BYTES / sizeof(float)))
        elements += all[first + n++].elements;
    return n;
}

bool qc_order_by_size(size_t **out, const struct qc_dataset *data, size_t inputs, const size_t *units, size_t count,
                      enum qc_order how, struct qc_status *st)
{
    const size_t each = all_ranks(data, inputs);
    struct sized *all = calloc(count + 1, sizeof *all);
    int64_t *dims = calloc(count * each + QC_DATA_RANK_MAX, sizeof *dims);
    size_t *order = malloc((count + 1) * sizeof *order);
    const bool ok = all && dims && order;
    for (size_t k = 0; ok && k < count; k++) {
        const size_t unit = units ? units[k] : k;
        int64_t *to = dims + k * each;
        all[k] = (struct sized){.dims = to, .count = each, .elements = elements_of(data, inputs, unit), .place = k};
        for (size_t i = 0; i < inputs; i++) to += qc_dataset_unit_dims(to, data, i, unit);
    }
    for (size_t k = 0, n; ok && k < count; k += n) {
        n = block(all, k, count, how);
        qsort(all + k, n, sizeof *all, by_size);
    }
    for (size_t k = 0; ok && k < count; k++) order[k] = all[k].place;
    free(all);
    free(dims);
    if (ok) {
        *out = order;
        return true;
    }
    free(order);
    return qc_fail_memory(st, count * sizeof *all);
}

/* ---- The largest ---- */

static void note(size_t *list, size_t *count, size_t unit)
{
    for (size_t i = 0; i < *count; i++)
        if (list[i] == unit) return;
    list[(*count)++] = unit;
}

size_t *qc_largest_units(size_t *count, const struct qc_dataset *data, size_t inputs, struct qc_arena *a,
                         struct qc_status *st)
{
    const size_t ranks = all_ranks(data, inputs), units = qc_dataset_units(data);
    size_t *list = QC_NEW_ARRAY(a, size_t, ranks + 1, st), *best = QC_NEW_ARRAY(a, size_t, ranks + 1, st), most = 0;
    int64_t *top = QC_NEW_ARRAY(a, int64_t, ranks + 1, st), dims[QC_DATA_RANK_MAX];
    const int64_t *known;
    *count = 0;
    if (!list || !best || !top) return NULL;
    for (size_t u = 0; u < units; u++) {
        const size_t n = elements_of(data, inputs, u);
        if (n > most) {
            most = n;
            best[ranks] = u;
        }
        for (size_t i = 0, at = 0; i < inputs; i++) {
            const unsigned rank = qc_dataset_unit_dims(dims, data, i, u);
            for (unsigned d = 0; d < rank; d++, at++)
                if (dims[d] > top[at]) {
                    top[at] = dims[d];
                    best[at] = u;
                }
        }
    }
    if (units) note(list, count, best[ranks]);
    for (size_t i = 0, at = 0; i < inputs; i++) {
        const unsigned rank = qc_dataset_dims(&known, data, i);
        for (unsigned d = 0; d < rank; d++, at++)
            if (known[d] < 0 && units) note(list, count, best[at]);
    }
    return list;
}
