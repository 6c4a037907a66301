// SPDX-License-Identifier: Apache-2.0
#include "datasets/stream/unit_cache.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { LISTS = 256 };

struct entry {
    struct entry *next;
    size_t binding, unit;
    _Alignas(max_align_t) char elements[];
};

struct qc_unit_cache {
    pthread_mutex_t lock;
    size_t bytes, left;
    struct entry *lists[LISTS];
};

bool qc_unit_cache_new(struct qc_unit_cache **out, size_t bytes, struct qc_status *st)
{
    struct qc_unit_cache *c = calloc(1, sizeof *c);
    if (!c) return qc_fail_memory(st, sizeof *c);
    pthread_mutex_init(&c->lock, NULL);
    c->bytes = c->left = bytes;
    *out = c;
    return true;
}

void qc_unit_cache_clear(struct qc_unit_cache *c)
{
    for (size_t i = 0; i < LISTS; i++) {
        for (struct entry *e = c->lists[i], *next; e; e = next) {
            next = e->next;
            free(e);
        }
        c->lists[i] = NULL;
    }
    c->left = c->bytes;
}

void qc_unit_cache_free(struct qc_unit_cache *c)
{
    if (!c) return;
    qc_unit_cache_clear(c);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

static struct entry *find_unit(const struct qc_unit_cache *c, size_t binding, size_t unit)
{
    struct entry *e = c->lists[unit % LISTS];
    while (e && (e->unit != unit || e->binding != binding)) e = e->next;
    return e;
}

const void *qc_unit_cache_find(struct qc_unit_cache *c, size_t binding, size_t unit)
{
    pthread_mutex_lock(&c->lock);
    const struct entry *e = find_unit(c, binding, unit);
    pthread_mutex_unlock(&c->lock);
    return e ? e->elements : NULL;
}

void qc_unit_cache_keep(struct qc_unit_cache *c, size_t binding, size_t unit, const void *elements, size_t bytes)
{
    pthread_mutex_lock(&c->lock);
    const bool room = bytes <= c->left && sizeof(struct entry) <= c->left - bytes;
    struct entry *e = room && !find_unit(c, binding, unit) ? malloc(sizeof *e + bytes) : NULL;
    if (e) {
        memcpy(e->elements, elements, bytes);
        *e = (struct entry){.next = c->lists[unit % LISTS], .binding = binding, .unit = unit};
        c->lists[unit % LISTS] = e;
        c->left -= sizeof *e + bytes;
    }
    pthread_mutex_unlock(&c->lock);
}
