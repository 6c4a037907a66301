// SPDX-License-Identifier: Apache-2.0
#include "base/memo.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/index.h"

struct entry {
    void *value; /* NULL: cleared */
    size_t bytes, key_bytes;
    unsigned char key[];
};

struct qc_memo {
    pthread_mutex_t lock;
    struct qc_memo_options options;
    size_t held; /* bytes of all results */
    size_t count, capacity;
    struct entry **all;    /* [count] */
    struct qc_index index; /* by key: number in `all` + 1 */
};

bool qc_memo_new(struct qc_memo **out, const struct qc_memo_options *options, struct qc_status *st)
{
    struct qc_memo *m = calloc(1, sizeof *m);
    if (!m) return qc_fail_memory(st, sizeof *m);
    pthread_mutex_init(&m->lock, NULL);
    m->options = *options;
    *out = m;
    return true;
}

void qc_memo_clear(struct qc_memo *m)
{
    for (size_t i = 0; m && i < m->count; i++) {
        struct entry *e = m->all[i];
        if (!e->value) continue;
        m->options.free(e->value);
        e->value = NULL;
        if (m->options.budget) m->options.budget->left += e->bytes;
        m->held -= e->bytes;
    }
}

void qc_memo_free(struct qc_memo *m)
{
    if (!m) return;
    qc_memo_clear(m);
    for (size_t i = 0; i < m->count; i++) free(m->all[i]);
    free(m->all);
    qc_index_free(&m->index);
    pthread_mutex_destroy(&m->lock);
    free(m);
}

static uint64_t hash_of_key(const void *key, size_t key_bytes)
{
    return qc_hash_bytes(QC_HASH_START, key, key_bytes);
}

/* Returns the entry of a key, which may be cleared; NULL: there is none. The caller of this and the next two holds the
   lock. */
static struct entry *find_entry(const struct qc_memo *m, const void *key, size_t key_bytes)
{
    const uint64_t hash = hash_of_key(key, key_bytes);
    size_t slot = SIZE_MAX;
    for (uint32_t i; (i = qc_index_next(&m->index, hash, &slot));) {
        struct entry *e = m->all[i - 1];
        if (e->key_bytes == key_bytes && memcmp(e->key, key, key_bytes) == 0) return e;
    }
    return NULL;
}

/* Adds an entry without a value. Returns NULL if memory is out. */
static struct entry *add_entry(struct qc_memo *m, const void *key, size_t key_bytes)
{
    struct qc_status ignored = QC_STATUS_INIT;
    struct entry **all = qc_grown(m->all, m->count, &m->capacity, sizeof(struct entry *), &ignored);
    struct entry *e = all ? malloc(sizeof *e + key_bytes) : NULL;
    if (all) m->all = all;
    if (!e || !qc_index_add(&m->index, hash_of_key(key, key_bytes), (uint32_t)m->count + 1, &ignored)) {
        free(e);
        return NULL;
    }
    *e = (struct entry){.key_bytes = key_bytes};
    memcpy(e->key, key, key_bytes);
    return m->all[m->count++] = e;
}

/* Takes bytes from the budget. Memos of other threads may take from it at the same time. */
static bool reserve_bytes(struct qc_memo *m, size_t bytes)
{
    struct qc_memo_budget *b = m->options.budget;
    size_t left = b ? b->left : bytes;
    if (bytes > m->options.most - m->held) return false;
    do
        if (bytes > left) return false;
    while (b && !atomic_compare_exchange_weak(&b->left, &left, left - bytes));
    m->held += bytes;
    return true;
}

const void *qc_memo_find(struct qc_memo *m, const void *key, size_t key_bytes)
{
    if (!m) return NULL;
    pthread_mutex_lock(&m->lock);
    const struct entry *e = find_entry(m, key, key_bytes);
    const void *value = e ? e->value : NULL;
    pthread_mutex_unlock(&m->lock);
    return value;
}

bool qc_memo_has_room(struct qc_memo *m, size_t bytes)
{
    pthread_mutex_lock(&m->lock);
    const bool room = bytes <= m->options.most - m->held && (!m->options.budget || bytes <= m->options.budget->left);
    pthread_mutex_unlock(&m->lock);
    return room;
}

const void *qc_memo_keep(struct qc_memo *m, const void *key, size_t key_bytes, void *value, size_t bytes)
{
    pthread_mutex_lock(&m->lock);
    struct entry *e = find_entry(m, key, key_bytes);
    if (!e) e = add_entry(m, key, key_bytes);
    if (e && !e->value && reserve_bytes(m, bytes)) {
        e->value = value;
        e->bytes = bytes;
    }
    const void *kept = e ? e->value : NULL;
    pthread_mutex_unlock(&m->lock);
    if (kept != value) m->options.free(value);
    return kept;
}
