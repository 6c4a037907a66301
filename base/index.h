// SPDX-License-Identifier: Apache-2.0
/* Hash tables. An index finds the ids of table entries by hash. Callers compare the entries, since hashes may collide.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/arena.h"
#include "base/status.h"

/* Open addressing, linear probing. Slots hold ids; 0 is empty; nothing is ever removed. All zero: empty. */
struct qc_index {
    size_t capacity, used; /* capacity 0 or a power of two */
    uint64_t *hashes;
    uint32_t *ids;
};

static inline uint64_t qc_hash_bytes(uint64_t h, const void *data, size_t size)
{
    const unsigned char *p = data;
    for (size_t i = 0; i < size; i++) h = (h ^ p[i]) * UINT64_C(0x100000001b3);
    return h;
}
#define QC_HASH_START UINT64_C(0xcbf29ce484222325)

static inline uint64_t qc_hash_text(const char *text)
{
    return qc_hash_bytes(QC_HASH_START, text, strlen(text));
}

static inline uint64_t qc_hash_number(uint64_t number)
{
    return qc_hash_bytes(QC_HASH_START, &number, sizeof number);
}

/* Makes room for one more entry. Fails if memory is out. */
bool qc_index_reserve(struct qc_index *x, struct qc_status *st);
void qc_index_put(struct qc_index *x, uint64_t hash, uint32_t id); /* needs a reserve first */
/* qc_index_reserve and qc_index_put. */
bool qc_index_add(struct qc_index *x, uint64_t hash, uint32_t id, struct qc_status *st);
/* Copies to an empty index. */
bool qc_index_copy(struct qc_index *to, const struct qc_index *from, struct qc_status *st);
/* Returns the next id with this hash, 0 at the end; *slot starts at SIZE_MAX. */
uint32_t qc_index_next(const struct qc_index *x, uint64_t hash, size_t *slot);
void qc_index_free(struct qc_index *x); /* leaves it empty */

/* A table of texts, each with a number. All zero: empty. The texts are borrowed. */
struct qc_texts {
    size_t count, slot_count; /* slot_count is 0 or a power of two */
    struct qc_texts_slot {
        const char *text; /* NULL: free */
        size_t number;
    } * slots;
};

/* Returns the number of a text; 0 if there is none. */
size_t qc_texts_find(const struct qc_texts *t, const char *text);
/* Gives a text a number, which is not 0, in place of the one it had. */
bool qc_texts_set(struct qc_texts *t, const char *text, size_t number, struct qc_arena *a, struct qc_status *st);
