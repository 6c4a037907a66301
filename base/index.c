// SPDX-License-Identifier: Apache-2.0
#include "base/index.h"

#include <stdlib.h>
#include <string.h>

bool qc_index_reserve(struct qc_index *x, struct qc_status *st)
{
    if (x->capacity && x->used * 2 < x->capacity) return true;
    size_t capacity = x->capacity ? x->capacity * 2 : 64;
    uint64_t *hashes = calloc(capacity, sizeof *hashes);
    uint32_t *ids = calloc(capacity, sizeof *ids);
    if (!hashes || !ids) {
        free(hashes);
        free(ids);
        return qc_fail_memory(st, capacity * (sizeof *hashes + sizeof *ids));
    }
    struct qc_index old = *x;
    *x = (struct qc_index){.capacity = capacity, .hashes = hashes, .ids = ids};
    for (size_t i = 0; i < old.capacity; i++)
        if (old.ids[i]) qc_index_put(x, old.hashes[i], old.ids[i]);
    free(old.hashes);
    free(old.ids);
    return true;
}

void qc_index_put(struct qc_index *x, uint64_t hash, uint32_t id)
{
    size_t i = (size_t)(hash ^ hash >> 32) & (x->capacity - 1);
    while (x->ids[i]) i = (i + 1) & (x->capacity - 1);
    x->hashes[i] = hash;
    x->ids[i] = id;
    x->used++;
}

bool qc_index_add(struct qc_index *x, uint64_t hash, uint32_t id, struct qc_status *st)
{
    if (!qc_index_reserve(x, st)) return false;
    qc_index_put(x, hash, id);
    return true;
}

bool qc_index_copy(struct qc_index *to, const struct qc_index *from, struct qc_status *st)
{
    const size_t n = from->capacity;
    struct qc_index copy = {.capacity = n,
                            .used = from->used,
                            .hashes = malloc((n + 1) * sizeof *copy.hashes),
                            .ids = malloc((n + 1) * sizeof *copy.ids)};
    if (!copy.hashes || !copy.ids) {
        free(copy.hashes);
        free(copy.ids);
        return qc_fail_memory(st, n * (sizeof *copy.hashes + sizeof *copy.ids));
    }
    if (n) memcpy(copy.hashes, from->hashes, n * sizeof *copy.hashes);
    if (n) memcpy(copy.ids, from->ids, n * sizeof *copy.ids);
    free(to->hashes);
    free(to->ids);
    *to = copy;
    return true;
}

uint32_t qc_index_next(const struct qc_index *x, uint64_t hash, size_t *slot)
{
    if (!x->capacity) return 0;
    size_t mask = x->capacity - 1;
    size_t i = *slot == SIZE_MAX ? (size_t)(hash ^ hash >> 32) & mask : (*slot + 1) & mask;
    for (; x->ids[i]; i = (i + 1) & mask)
        if (x->hashes[i] == hash) {
            *slot = i;
            return x->ids[i];
        }
    return 0;
}

void qc_index_free(struct qc_index *x)
{
    free(x->hashes);
    free(x->ids);
    *x = (struct qc_index){0};
}

/* Returns the slot of a text, or the free slot where it belongs. */
static struct qc_texts_slot *slot_of(const struct qc_texts *t, const char *text)
{
    const uint64_t h = qc_hash_text(text);
    size_t i = (size_t)(h ^ h >> 32) & (t->slot_count - 1);
    while (t->slots[i].text && strcmp(t->slots[i].text, text) != 0) i = (i + 1) & (t->slot_count - 1);
    return &t->slots[i];
}

size_t qc_texts_find(const struct qc_texts *t, const char *text)
{
    return t->slot_count ? slot_of(t, text)->number : 0;
}

bool qc_texts_set(struct qc_texts *t, const char *text, size_t number, struct qc_arena *a, struct qc_status *st)
{
    if (2 * (t->count + 1) > t->slot_count) {
        struct qc_texts more = {.count = t->count, .slot_count = t->slot_count ? 2 * t->slot_count : 8};
        if (!(more.slots = QC_NEW_ARRAY(a, struct qc_texts_slot, more.slot_count, st))) return false;
        for (size_t i = 0; i < t->slot_count; i++)
            if (t->slots[i].text) *slot_of(&more, t->slots[i].text) = t->slots[i];
        *t = more;
    }
    struct qc_texts_slot *slot = slot_of(t, text);
    t->count += !slot->text;
    *slot = (struct qc_texts_slot){.text = text, .number = number};
    return true;
}
