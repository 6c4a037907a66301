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

static int by_size(const void *a, const void *b)
{
    const struct slot *x = a, *y = b;
    if (x->s->bytes != y->s->bytes) return x->s->bytes < y->s->bytes ? 1 : -1;
    return x->id < y->id ? -1 : 1;
}

static int by_offset(const void *a, const void *b)
{
    const struct qc_storage *x = *(const struct qc_storage *const *)a, *y = *(const struct qc_storage *const *)b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

bool qc_plan_place(struct qc_plan *p, struct qc_status *st)
{
    const size_t count = p->storage_count;
    struct slot *order = calloc(count + 1, sizeof *order);
    const struct qc_storage **busy = calloc(count + 1, sizeof *busy);
    bool ok = false;
    size_t used = 0;
    if (!order || !busy) {
        qc_fail_memory(st, count * (sizeof *order + sizeof *busy));
        goto out;
    }
    for (size_t i = 0; i < count; i++) order[i] = (struct slot){.s = &p->storages[i + 1], .id = (uint32_t)i + 1};
    qsort(order, count, sizeof *order, by_size);
    for (size_t i = 0; i < count; i++) {
        struct qc_storage *s = &p->storages[order[i].id];
        size_t overlapping = 0, at = 0;
        if (s->first == SIZE_MAX) continue;
        for (size_t k = 0; k < i; k++) {
            const struct qc_storage *t = order[k].s;
            if (t->first != SIZE_MAX && t->first <= s->last && s->first <= t->last) busy[overlapping++] = t;
        }
        qsort(busy, overlapping, sizeof *busy, by_offset);
        for (size_t k = 0; k < overlapping; k++) {
            if (busy[k]->offset >= at + padded(s->bytes)) break;
            const size_t end = busy[k]->offset + padded(busy[k]->bytes);
            if (end > at) at = end;
        }
        s->offset = at;
        if (at + padded(s->bytes) > used) used = at + padded(s->bytes);
    }
    p->buffer_bytes = used;
    ok = true;
out:
    free(order);
    free(busy);
    return ok;
}
