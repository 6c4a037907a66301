// SPDX-License-Identifier: Apache-2.0
#include "graph/core/shared_constants.h"

#include <stdlib.h>

struct place {
    struct qc_shared_constant constant;
    const struct qc_graph *g;
};

/* Counts the large constants of a graph and its bodies, and appends them to `to`, unless it is NULL. QC_BODY_DEPTH_MAX
   bounds the recursion. */
static size_t collect(struct place *to, const struct qc_graph *g, size_t least)
{
    size_t count = 0;
    for (qc_id v = 1; v <= g->value_count; v++) {
        const struct qc_tensor *t = qc_constant_of(g, v);
        if (!t || t->bytes < least) continue;
        if (to) to[count] = (struct place){.constant = {.tensor = t, .name = g->values[v].name}, .g = g};
        count++;
    }
    for (qc_id id = 1; id <= g->node_count; id++)
        for (unsigned i = 0; i < g->nodes[id].attr_count; i++)
            if (g->nodes[id].attrs[i].kind == QC_ATTR_GRAPH)
                count += collect(to ? to + count : NULL, g->nodes[id].attrs[i].graph, least);
    return count;
}

/* Places with equal hashes keep the order of the graphs. */
static int by_hash(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    const uint64_t p = qc_tensor_hash(x->constant.tensor), q = qc_tensor_hash(y->constant.tensor);
    return p != q ? (p > q) - (p < q) : (x > y) - (x < y);
}

bool qc_shared_constants_of(struct qc_shared_constants *out, const struct qc_graph *g, size_t least, struct qc_arena *a,
                            struct qc_status *st)
{
    const size_t count = g->depth ? collect(NULL, g, least) : 0;
    *out = (struct qc_shared_constants){.of = QC_NEW_ARRAY(a, struct qc_shared_constant, count, st)};
    struct place *all = QC_NEW_ARRAY(a, struct place, count, st);
    if (!out->of || !all) return false;
    collect(all, g, least);
    qsort(all, count, sizeof *all, by_hash);
    for (size_t i = 0, next; i < count; i = next) {
        bool several = false;
        for (next = i + 1; next < count && qc_tensor_equal(all[next].constant.tensor, all[i].constant.tensor); next++)
            several = several || all[next].g != all[i].g;
        if (several) out->of[out->count++] = all[i].constant;
    }
    return true;
}

int64_t qc_shared_constants_find(const struct qc_shared_constants *s, const struct qc_tensor *t)
{
    size_t lo = 0, hi = s->count;
    if (!s->count) return QC_SHARED_NONE;
    const uint64_t hash = qc_tensor_hash(t);
    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;
        if (qc_tensor_hash(s->of[mid].tensor) < hash)
            lo = mid + 1;
        else
            hi = mid;
    }
    for (; lo < s->count && qc_tensor_hash(s->of[lo].tensor) == hash; lo++)
        if (qc_tensor_equal(s->of[lo].tensor, t)) return (int64_t)lo;
    return QC_SHARED_NONE;
}
