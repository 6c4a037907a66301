// SPDX-License-Identifier: Apache-2.0
#include "calib/statistics/collection.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/checked.h"
#include "base/scope.h"

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
    return QC_HAND_OVER(allocate(t, values, count, st), out, t, free);
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

/* A subtree that waits for its sibling: `index` in its level, of samples [index << level, (index + 1) << level). */
struct pending {
    unsigned level;
    size_t index;
    struct qc_plugin_state state;
};

struct tree {
    size_t count, room;
    struct pending *items;
};

struct qc_per_sample {
    const struct qc_observer *observer;
    struct qc_observer_values values;
    size_t watches;
    struct tree *trees;   /* [watches] */
    pthread_mutex_t lock; /* of all trees */
};

bool qc_per_sample_new(struct qc_per_sample **out, const struct qc_observer *observer,
                       const struct qc_observer_values *values, size_t watches, struct qc_status *st)
{
    *out = NULL;
    if (observer->need != QC_NEED_VALUES) return true;
    struct qc_per_sample *p = calloc(1, sizeof *p);
    if (!p) return qc_fail_memory(st, sizeof *p);
    *p = (struct qc_per_sample){.observer = observer, .values = *values, .watches = watches};
    if (pthread_mutex_init(&p->lock, NULL)) {
        free(p);
        return qc_fail_memory(st, sizeof *p);
    }
    p->trees = calloc(watches ? watches : 1, sizeof *p->trees);
    if (!p->trees) {
        qc_per_sample_free(p);
        return qc_fail_memory(st, watches * sizeof *p->trees);
    }
    *out = p;
    return true;
}

void qc_per_sample_free(struct qc_per_sample *p)
{
    if (!p) return;
    for (size_t i = 0; p->trees && i < p->watches; i++) {
        for (size_t k = 0; k < p->trees[i].count; k++) qc_plugin_end(&p->trees[i].items[k].state);
        free(p->trees[i].items);
    }
    free(p->trees);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

/* Removes the sibling if it waits; else adds the new subtree. */
static bool take_sibling(struct pending *sibling, struct tree *t, const struct pending *new_one, bool *waits,
                         struct qc_status *st)
{
    *waits = true;
    for (size_t i = 0; i < t->count; i++) {
        if (t->items[i].level != new_one->level || t->items[i].index != (new_one->index ^ 1)) continue;
        *sibling = t->items[i];
        t->items[i] = t->items[--t->count];
        *waits = false;
        return true;
    }
    struct pending *more = qc_grown(t->items, t->count, &t->room, sizeof *more, st);
    if (!more) return false;
    t->items = more;
    t->items[t->count++] = *new_one;
    return true;
}

bool qc_per_sample_take(struct qc_per_sample *p, size_t watch, size_t unit, const float *x, size_t n,
                        struct qc_status *st)
{
    if (!p) return true;
    struct qc_plugin_state s;
    if (!qc_plugin_scan(&s, p->observer, &p->values, x, n, st)) return false;
    struct pending here = {.index = unit, .state = s}, sibling;
    for (;;) {
        bool waits;
        pthread_mutex_lock(&p->lock);
        bool ok = take_sibling(&sibling, &p->trees[watch], &here, &waits, st);
        pthread_mutex_unlock(&p->lock);
        if (!ok) qc_plugin_end(&here.state);
        if (!ok || waits) return ok;
        struct pending *first = here.index & 1 ? &sibling : &here, *later = here.index & 1 ? &here : &sibling;
        if (!qc_plugin_merge(&first->state, &later->state, st)) {
            qc_plugin_end(&first->state);
            return false;
        }
        here = (struct pending){.level = here.level + 1, .index = here.index >> 1, .state = first->state};
    }
}

/* Merges the remaining subtrees, from the last to the first. */
static bool close_tree(struct qc_plugin_state *into, struct tree *t, struct qc_status *st)
{
    while (t->count) {
        size_t last = 0;
        for (size_t i = 1; i < t->count; i++)
            if (t->items[i].index << t->items[i].level > t->items[last].index << t->items[last].level) last = i;
        struct qc_plugin_state s = t->items[last].state;
        t->items[last] = t->items[--t->count];
        bool ok = qc_plugin_merge(&s, into, st);
        *into = s;
        if (!ok) return false;
    }
    return true;
}

bool qc_per_sample_join(struct qc_quantizer_samples *quantizer, struct qc_per_sample *p, size_t watch,
                        struct qc_status *st)
{
    if (!p) return true;
    quantizer->state.observer = p->observer;
    struct qc_plugin_state all = {.observer = p->observer};
    bool ok = close_tree(&all, &p->trees[watch], st) && qc_plugin_merge(&quantizer->state, &all, st);
    qc_plugin_end(&all);
    return ok;
}

bool qc_per_sample_add_constant(struct qc_quantizer_samples *quantizer, struct qc_per_sample *p, const float *x,
                                size_t n, struct qc_status *st)
{
    if (!p) return true;
    quantizer->state.observer = p->observer;
    struct qc_plugin_state s;
    return qc_plugin_scan(&s, p->observer, &p->values, x, n, st) && qc_plugin_merge(&quantizer->state, &s, st);
}

void qc_quantizer_samples_free(struct qc_quantizer_samples *quantizer)
{
    free((void *)(uintptr_t)quantizer->series.items);
    qc_plugin_end(&quantizer->state);
    *quantizer = (struct qc_quantizer_samples){.series = {0}};
}
