// SPDX-License-Identifier: Apache-2.0
/* Offsets of storages in one buffer: the largest first, each at the lowest place that is free while it lives
   (greedy by size, Pisarchyk and Lee, arXiv:2001.03288). */
#include <stdlib.h>

#include "simq/plan/plan_parts.h"

static size_t padded(size_t bytes)
{
    return (bytes + 127) / 64 * 64; /* vector kernels may read up to 64 bytes behind the end */
}

struct slot {
    const struct qc_storage *s;
    uint32_t id;
};

static int by_offset(const void *a, const void *b)
{
    const struct qc_storage *x = *(const struct qc_storage *const *)a, *y = *(const struct qc_storage *const *)b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Storages that have a place, by the time of their lives: a storage lives in `first` at its first moment, and in a few
   nodes of a tree over all moments that cover its life (a segment tree). Those alive at a moment stand in the nodes
   above it; those alive in a span are these of its first moment, and all whose lives begin behind that. */
struct entry {
    const struct qc_storage *s;
    size_t next; /* entry + 1; 0: none */
};

struct lives {
    size_t moments;        /* a power of two */
    size_t *node;          /* [2 * moments]: entry + 1; the root is 1, moment t is node moments + t */
    size_t *first;         /* [moments]: entry + 1 */
    struct entry *entries; /* [count] */
    size_t count, capacity;
    const struct qc_storage **busy; /* those of the last question */
    size_t overlapping;
};

static bool lives_new(struct lives *l, size_t moments, size_t storages, struct qc_status *st)
{
    *l = (struct lives){.moments = 1};
    while (l->moments < moments) l->moments *= 2;
    l->node = calloc(2 * l->moments, sizeof *l->node);
    l->first = calloc(l->moments, sizeof *l->first);
    l->busy = calloc(storages + 1, sizeof *l->busy);
    return (l->node && l->first && l->busy) ||
           qc_fail_memory(st, 3 * l->moments * sizeof *l->node + storages * sizeof *l->busy);
}

static void lives_free(struct lives *l)
{
    free(l->node);
    free(l->first);
    free(l->entries);
    free(l->busy);
}

static bool put(size_t *list, struct lives *l, const struct qc_storage *s, struct qc_status *st)
{
    if (l->count == l->capacity) {
        const size_t more = l->capacity ? 2 * l->capacity : 64;
        struct entry *entries = realloc(l->entries, more * sizeof *entries);
        if (!entries) return qc_fail_memory(st, more * sizeof *entries);
        l->entries = entries;
        l->capacity = more;
    }
    l->entries[l->count++] = (struct entry){.s = s, .next = *list};
    *list = l->count;
    return true;
}

static bool lives_add(struct lives *l, const struct qc_storage *s, struct qc_status *st)
{
    bool ok = put(&l->first[s->first], l, s, st);
    for (size_t lo = s->first + l->moments, hi = s->last + l->moments + 1; ok && lo < hi; lo /= 2, hi /= 2) {
        if (lo & 1) ok = put(&l->node[lo++], l, s, st);
        if (ok && (hi & 1)) ok = put(&l->node[--hi], l, s, st);
    }
    return ok;
}

static void take_list(struct lives *l, size_t list)
{
    for (; list; list = l->entries[list - 1].next) l->busy[l->overlapping++] = l->entries[list - 1].s;
}

/* Those whose lives have a moment in common with s, by their offsets. */
static void lives_overlap(struct lives *l, const struct qc_storage *s)
{
    l->overlapping = 0;
    for (size_t n = s->first + l->moments; n; n /= 2) take_list(l, l->node[n]);
    for (size_t t = s->first + 1; t <= s->last; t++) take_list(l, l->first[t]);
    qsort(l->busy, l->overlapping, sizeof *l->busy, by_offset);
}

static int by_size(const void *a, const void *b)
{
    const struct slot *x = a, *y = b;
    if (x->s->bytes != y->s->bytes) return x->s->bytes < y->s->bytes ? 1 : -1;
    return x->id < y->id ? -1 : 1;
}

bool qc_plan_place(struct qc_plan *p, struct qc_status *st)
{
    const size_t count = p->storage_count;
    struct slot *order = calloc(count + 1, sizeof *order);
    struct lives lives;
    bool ok =
        lives_new(&lives, p->step_count + 2, count, st) && (order || qc_fail_memory(st, (count + 1) * sizeof *order));
    size_t used = 0;
    for (size_t i = 0; ok && i < count; i++) order[i] = (struct slot){.s = &p->storages[i + 1], .id = (uint32_t)i + 1};
    if (ok) qsort(order, count, sizeof *order, by_size);
    for (size_t i = 0; ok && i < count; i++) {
        struct qc_storage *s = &p->storages[order[i].id];
        size_t at = 0;
        if (s->first == SIZE_MAX) continue;
        lives_overlap(&lives, s);
        for (size_t k = 0; k < lives.overlapping; k++) {
            const struct qc_storage *t = lives.busy[k];
            if (t->offset >= at + padded(s->bytes)) break;
            const size_t end = t->offset + padded(t->bytes);
            if (end > at) at = end;
        }
        s->offset = at;
        if (at + padded(s->bytes) > used) used = at + padded(s->bytes);
        ok = lives_add(&lives, s, st);
    }
    p->buffer_bytes = used;
    lives_free(&lives);
    free(order);
    return ok;
}
