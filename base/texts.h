// SPDX-License-Identifier: Apache-2.0
/* A table of texts, each with a number. */
#pragma once

#include "base/arena.h"

/* Open addressing. All zero: empty. The texts are borrowed. */
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
