// SPDX-License-Identifier: Apache-2.0
#include "calib/statistics/known_outputs.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct known {
    uint64_t key;
    struct known *next; /* in the same slot of the table */
    char *bytes;        /* all outputs, one behind the other */
    struct qc_view views[];
};

enum { SLOTS = 4096, ALIGN = 64 };

struct qc_known_outputs {
    size_t count, bytes;
    bool settled;
    pthread_mutex_t lock;
    struct known *slots[SLOTS];
};

bool qc_known_outputs_new(struct qc_known_outputs **out, size_t count, struct qc_status *st)
{
    struct qc_known_outputs *k = calloc(1, sizeof *k);
    if (!k) return qc_fail_memory(st, sizeof *k);
    k->count = count;
    pthread_mutex_init(&k->lock, NULL);
    *out = k;
    return true;
}

static void free_known(struct known *u)
{
    if (u) free(u->bytes);
    free(u);
}

void qc_known_outputs_free(struct qc_known_outputs *k)
{
    if (!k) return;
    for (size_t i = 0; i < SLOTS; i++)
        for (struct known *u = k->slots[i], *next; u; u = next) {
            next = u->next;
            free_known(u);
        }
    pthread_mutex_destroy(&k->lock);
    free(k);
}

void qc_known_outputs_settle(struct qc_known_outputs *k)
{
    k->settled = true;
}

bool qc_known_outputs_settled(const struct qc_known_outputs *k)
{
    return k && k->settled;
}

static struct known *find(const struct qc_known_outputs *k, uint64_t key)
{
    struct known *u = k->slots[key % SLOTS];
    while (u && u->key != key) u = u->next;
    return u;
}

const struct qc_view *qc_known_outputs_find(struct qc_known_outputs *k, uint64_t key)
{
    if (!k) return NULL;
    pthread_mutex_lock(&k->lock);
    const struct known *u = find(k, key);
    pthread_mutex_unlock(&k->lock);
    return u ? u->views : NULL;
}

static size_t bytes_of(const struct qc_view *v)
{
    return (qc_view_count(v) * qc_dtype_size(v->dtype) + ALIGN) / ALIGN * ALIGN;
}

/* A copy of all outputs of a runner. */
static struct known *copy(const struct qc_known_outputs *k, uint64_t key, struct qc_runner *r, size_t bytes,
                          struct qc_status *st)
{
    struct known *u = calloc(1, sizeof *u + k->count * sizeof *u->views);
    if (u) u->bytes = malloc(bytes + 1);
    if (!u || !u->bytes) {
        free_known(u);
        qc_fail_memory(st, bytes);
        return NULL;
    }
    u->key = key;
    char *to = u->bytes;
    for (size_t o = 0; o < k->count; o++) {
        const struct qc_view v = qc_runner_output(r, o);
        const size_t size = qc_view_count(&v) * qc_dtype_size(v.dtype);
        u->views[o] = v;
        u->views[o].data = to;
        if (size) memcpy(to, v.data, size);
        to += bytes_of(&v);
    }
    return u;
}

bool qc_known_outputs_keep(struct qc_known_outputs *k, uint64_t key, struct qc_runner *r, struct qc_status *st)
{
    if (!k || qc_known_outputs_find(k, key)) return true;
    size_t bytes = sizeof(struct known) + k->count * sizeof(struct qc_view);
    for (size_t o = 0; o < k->count; o++) {
        const struct qc_view v = qc_runner_output(r, o);
        bytes += bytes_of(&v);
    }
    pthread_mutex_lock(&k->lock);
    const bool room = bytes <= QC_KNOWN_OUTPUTS_BYTES - k->bytes;
    if (room) k->bytes += bytes;
    pthread_mutex_unlock(&k->lock);
    struct known *u = room ? copy(k, key, r, bytes, st) : NULL;
    if (!u) return !room;
    pthread_mutex_lock(&k->lock);
    const bool new = !find(k, key);
    if (new) {
        u->next = k->slots[key % SLOTS];
        k->slots[key % SLOTS] = u;
    }
    pthread_mutex_unlock(&k->lock);
    if (!new) free_known(u);
    return true;
}
