// SPDX-License-Identifier: Apache-2.0
#include "graph/infer/distinct.h"

struct items {
    const struct qc_tensor *t;
    size_t outer, count, inner; /* item k is [outer][k][inner] */
    bool real;
};

static int compare_elements(const struct items *x, size_t i, size_t k)
{
    if (x->t->dtype == QC_U64) {
        const uint64_t *v = x->t->data;
        return (v[i] > v[k]) - (v[i] < v[k]);
    }
    if (!x->real) {
        const int64_t a = qc_tensor_int(x->t, i), b = qc_tensor_int(x->t, k);
        return (a > b) - (a < b);
    }
    const double a = qc_tensor_float(x->t, i), b = qc_tensor_float(x->t, k);
    if (a != a || b != b) return b == b ? 1 : a == a ? -1 : i < k ? -1 : i > k;
    return (a > b) - (a < b);
}

static int compare(const struct items *x, size_t i, size_t k)
{
    for (size_t o = 0; o < x->outer; o++)
        for (size_t n = 0; n < x->inner; n++) {
            const int c = compare_elements(x, (o * x->count + i) * x->inner + n, (o * x->count + k) * x->inner + n);
            if (c) return c;
        }
    return 0;
}

/* Merges [0, half) and [half, n) of `from` into `to`; equal items keep their order. */
static void merge(int64_t *to, const int64_t *from, size_t half, size_t n, const struct items *x)
{
    for (size_t i = 0, k = half, o = 0; o < n; o++)
        to[o] = i < half && (k == n || compare(x, (size_t)from[i], (size_t)from[k]) <= 0) ? from[i++] : from[k++];
}

static int64_t *sorted_items(const struct items *x, struct qc_arena *a, struct qc_status *st)
{
    int64_t *order = QC_NEW_ARRAY(a, int64_t, x->count, st), *other = QC_NEW_ARRAY(a, int64_t, x->count, st);
    if (!order || !other) return NULL;
    for (size_t i = 0; i < x->count; i++) order[i] = (int64_t)i;
    for (size_t width = 1; width < x->count; width *= 2) {
        for (size_t i = 0; i < x->count; i += 2 * width) {
            const size_t left = x->count - i, n = left < 2 * width ? left : 2 * width;
            merge(other + i, order + i, n < width ? n : width, n, x);
        }
        int64_t *swap = order;
        order = other;
        other = swap;
    }
    return order;
}

bool qc_distinct_of(struct qc_distinct *out, const struct qc_tensor *t, int axis, enum qc_distinct_order order,
                    struct qc_arena *a, struct qc_status *st)
{
    struct items x = {.t = t, .outer = 1, .count = t->count, .inner = 1, .real = qc_dtype_info(t->dtype)->is_float};
    if (axis >= 0) {
        x.count = (size_t)t->shape.dim[axis];
        for (int i = 0; i < axis; i++) x.outer *= (size_t)t->shape.dim[i];
        for (int i = axis + 1; i < t->shape.rank; i++) x.inner *= (size_t)t->shape.dim[i];
    }
    struct qc_distinct d = {.items = x.count};
    const int64_t *by_value = sorted_items(&x, a, st);
    int64_t *rank = QC_NEW_ARRAY(a, int64_t, x.count, st); /* rank of each distinct item, in order of appearance */
    d.first = QC_NEW_ARRAY(a, int64_t, x.count, st);
    d.repeats = QC_NEW_ARRAY(a, int64_t, x.count, st);
    d.inverse = QC_NEW_ARRAY(a, int64_t, x.count, st);
    if (!by_value || !rank || !d.first || !d.repeats || !d.inverse) return false;
    for (size_t i = 0; i < x.count; i++) {
        const size_t item = (size_t)by_value[i];
        if (i == 0 || compare(&x, (size_t)by_value[i - 1], item) != 0) d.first[d.count++] = (int64_t)item;
        d.inverse[item] = (int64_t)d.count - 1;
    }
    if (order == QC_BY_APPEARANCE) {
        size_t seen = 0;
        for (size_t i = 0; i < x.count; i++)
            if (d.first[d.inverse[i]] == (int64_t)i) rank[d.inverse[i]] = (int64_t)seen++;
        for (size_t i = 0; i < x.count; i++) d.inverse[i] = rank[d.inverse[i]];
        for (size_t i = x.count; i-- > 0;) d.first[d.inverse[i]] = (int64_t)i;
    }
    for (size_t i = 0; i < x.count; i++) d.repeats[d.inverse[i]]++;
    *out = d;
    return true;
}
