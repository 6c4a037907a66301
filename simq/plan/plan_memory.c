// SPDX-License-Identifier: Apache-2.0
/* Places storages in one buffer, the largest first, each at the lowest offset that is free during its lifetime
   (greedy by size, Pisarchyk and Lee, arXiv:2001.03288). */
#include <stdlib.h>
#include <string.h>

#include "simq/plan/plan_parts.h"

static size_t padded(size_t bytes)
{
    return (bytes + 127) / 64 * 64; /* vector kernels may read up to 64 bytes past the end */
}

struct slot {
    const struct qc_storage *s;
    uint32_t id;
};

/* Bytes [begin, end) of the buffer. A list of them is disjoint, in ascending order, with a gap between any two. */
struct extent {
    size_t begin, end;
};

struct extents {
    struct extent *of;
    size_t count, capacity;
};

/* Occupied bytes by lifetime, in two segment trees over all moments (node 1 is the root, moment t is node moments +
   t). A lifetime is stored in the few nodes of `alive` that cover it, and in all nodes of `born` above its first
   moment. The storages that overlap a span are those alive at its first moment and those born in it later. */
struct lives {
    size_t moments;               /* a power of two */
    struct extents *alive, *born; /* [2 * moments] */
    struct extents busy;          /* result of the last query; extents may overlap */
};

static bool reserve(struct extents *e, size_t count, struct qc_status *st)
{
    if (count <= e->capacity) return true;
    const size_t more = count < 2 * e->capacity ? 2 * e->capacity : count;
    struct extent *of = realloc(e->of, more * sizeof *of);
    if (!of) return qc_fail_memory(st, more * sizeof *of);
    e->of = of;
    e->capacity = more;
    return true;
}

static bool lives_new(struct lives *l, size_t moments, struct qc_status *st)
{
    *l = (struct lives){.moments = 1};
    while (l->moments < moments) l->moments *= 2;
    l->alive = calloc(2 * l->moments, sizeof *l->alive);
    l->born = calloc(2 * l->moments, sizeof *l->born);
    return (l->alive && l->born) || qc_fail_memory(st, 4 * l->moments * sizeof *l->born);
}

/* Inserts x, merged with the extents that it touches. */
static bool add_extent(struct extents *e, struct extent x, struct qc_status *st)
{
    size_t lo = 0, hi = e->count;
    while (lo < hi) {
        const size_t mid = (lo + hi) / 2;
        if (e->of[mid].end < x.begin)
            lo = mid + 1;
        else
            hi = mid;
    }
    for (hi = lo; hi < e->count && e->of[hi].begin <= x.end; hi++) {
        if (e->of[hi].begin < x.begin) x.begin = e->of[hi].begin;
        if (e->of[hi].end > x.end) x.end = e->of[hi].end;
    }
    if (!reserve(e, e->count + 1, st)) return false;
    memmove(&e->of[lo + 1], &e->of[hi], (e->count - hi) * sizeof *e->of);
    e->of[lo] = x;
    e->count += 1 + lo - hi;
    return true;
}

static bool ask_plan_memory(struct lives *l, const struct extents *e, struct qc_status *st)
{
    if (!reserve(&l->busy, l->busy.count + e->count, st)) return false;
    for (size_t i = 0; i < e->count; i++) l->busy.of[l->busy.count++] = e->of[i];
    return true;
}

static int by_begin(const void *a, const void *b)
{
    const struct extent *x = a, *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
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
    bool ok = lives_new(&lives, p->step_count + 2, st) && (order || qc_fail_memory(st, (count + 1) * sizeof *order));
    size_t used = 0;
    for (size_t i = 0; ok && i < count; i++) order[i] = (struct slot){.s = &p->storages[i + 1], .id = (uint32_t)i + 1};
    if (ok) qsort(order, count, sizeof *order, by_size);
    for (size_t i = 0; ok && i < count; i++) {
        struct qc_storage *s = &p->storages[order[i].id];
        size_t at = 0;
        if (s->first == SIZE_MAX) continue;
        /* The bytes that are occupied during the lifetime of s. */
        const size_t born = s->first + lives.moments, dead = s->last + lives.moments + 1;
        lives.busy.count = 0;
        for (size_t n = born; ok && n; n /= 2) ok = ask_plan_memory(&lives, &lives.alive[n], st);
        for (size_t lo = born + 1, hi = dead; ok && lo < hi; lo /= 2, hi /= 2) {
            if (lo & 1) ok = ask_plan_memory(&lives, &lives.born[lo++], st);
            if (ok && (hi & 1)) ok = ask_plan_memory(&lives, &lives.born[--hi], st);
        }
        if (ok && lives.busy.count) qsort(lives.busy.of, lives.busy.count, sizeof *lives.busy.of, by_begin);
        for (size_t k = 0; k < lives.busy.count && lives.busy.of[k].begin < at + padded(s->bytes); k++)
            if (lives.busy.of[k].end > at) at = lives.busy.of[k].end;
        s->offset = at;
        if (at + padded(s->bytes) > used) used = at + padded(s->bytes);
        const struct extent x = {s->offset, s->offset + padded(s->bytes)};
        for (size_t n = born; ok && n; n /= 2) ok = add_extent(&lives.born[n], x, st);
        for (size_t lo = born, hi = dead; ok && lo < hi; lo /= 2, hi /= 2) {
            if (lo & 1) ok = add_extent(&lives.alive[lo++], x, st);
            if (ok && (hi & 1)) ok = add_extent(&lives.alive[--hi], x, st);
        }
    }
    p->buffer_bytes = used;
    for (size_t i = 0; lives.alive && lives.born && i < 2 * lives.moments; i++) {
        free(lives.alive[i].of);
        free(lives.born[i].of);
    }
    free(lives.alive);
    free(lives.born);
    free(lives.busy.of);
    free(order);
    return ok;
}
