// SPDX-License-Identifier: Apache-2.0
/* TfIdfVectorizer-9 for integers: counts the occurrences of each n-gram of the pool, with up to max_skip_count
   skipped elements between its elements. */
#include <string.h>

#include "simq/core/kernel_util.h"

struct gram {
    const int64_t *items;
    int64_t length, slot; /* slot: position of its weight in the result */
    float weight;
};

struct state {
    size_t count;
    struct gram *grams;
    int64_t shortest, longest, skips;
    bool present, weighed; /* present: 1 instead of the count; weighed: multiplied by the weight */
};

static bool damaged_tfidf(struct qc_status *st)
{
    return qc_fail(st, QC_BAD_INPUT, "the pool of n-grams is damaged");
}

static bool prepare_tfidf(struct qc_prepare *p, struct qc_status *st)
{
    const int64_t *counts, *slots, *pool;
    const size_t lengths = qc_attr_ints(p->node, "ngram_counts", &counts),
                 grams = qc_attr_ints(p->node, "ngram_indexes", &slots),
                 items = qc_attr_ints(p->node, "pool_int64s", &pool);
    const struct qc_attr *weights = qc_attr_find(p->node, "weights");
    const char *mode = qc_attr_string(p->node, "mode", "TF");
    struct state *s = QC_NEW_STATE(p, struct state, st);
    if (!s || !(s->grams = QC_NEW_ARRAY(p->arena, struct gram, grams, st))) return false;
    s->shortest = qc_attr_int(p->node, "min_gram_length", 1);
    s->longest = qc_attr_int(p->node, "max_gram_length", 1);
    s->skips = qc_attr_int(p->node, "max_skip_count", 0);
    s->present = strcmp(mode, "IDF") == 0;
    s->weighed = strcmp(mode, "TF") != 0 && weights;
    if (!lengths || !items || (weights && weights->count != grams)) return damaged_tfidf(st);
    for (size_t n = 0; n < lengths; n++) {
        const int64_t begin = counts[n], end = n + 1 < lengths ? counts[n + 1] : (int64_t)items,
                      length = (int64_t)n + 1;
        if (begin < 0 || end < begin || end > (int64_t)items || (end - begin) % length) return damaged_tfidf(st);
        for (int64_t at = begin; at < end; at += length) {
            if (s->count == grams) return damaged_tfidf(st);
            const size_t k = s->count++;
            s->grams[k] = (struct gram){.items = pool + at,
                                        .length = length,
                                        .slot = slots[k],
                                        .weight = weights ? weights->floats[k] : 1};
        }
    }
    return true;
}

/* Returns whether the n-gram occurs at position i, with `step` between its elements. */
static bool matches(const struct gram *g, const struct qc_view *x, int64_t offset, int64_t i, int64_t step)
{
    const int64_t stride = x->stride[x->rank - 1];
    for (int64_t k = 0; k < g->length; k++)
        if (qc_kernel_integer(x, offset + (i + k * step) * stride) != g->items[k]) return false;
    return true;
}

static bool run_tfidf(const struct qc_run *r, struct qc_status *st)
{
    const struct state *s = r->state;
    const struct qc_view *x = &r->in[0], *y = &r->out[0];
    const int64_t rows = x->rank > 1 ? x->dim[0] : 1, n = x->dim[x->rank - 1];
    const uint64_t zero = 0;
    qc_view_fill(y, &zero);
    for (int64_t row = 0; row < rows; row++)
        for (size_t k = 0; k < s->count; k++) {
            const struct gram *g = &s->grams[k];
            int64_t found = 0;
            if (g->length < s->shortest || g->length > s->longest) continue;
            for (int64_t step = 1; step <= (g->length > 1 ? s->skips : 0) + 1 && (g->length - 1) * step < n; step++)
                for (int64_t i = 0; i + (g->length - 1) * step < n; i++)
                    found += matches(g, x, x->rank > 1 ? row * x->stride[0] : 0, i, step);
            float v = s->present ? (float)(found > 0) : (float)found;
            if (s->weighed) v *= g->weight;
            ((float *)y->data)[(x->rank > 1 ? row * y->stride[0] : 0) + g->slot * y->stride[y->rank - 1]] = v;
        }
    return true;
}

QC_KERNEL(tfidf, .order = QC_ORDER_ANY, .prepare = prepare_tfidf, .run = run_tfidf);
