// SPDX-License-Identifier: Apache-2.0
#include "base/texts.h"

#include <string.h>

#include "base/index.h"

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
        struct qc_texts more = {.count = t->count, .slot_count = t->slot_count ? 2 * t->slot_count : 64};
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
