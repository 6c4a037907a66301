// SPDX-License-Identifier: Apache-2.0
/* A memo: results that are expensive to make, found by a key of what they depend on. Memos with different owners can
   share one budget of bytes. A memo keeps results while the budget lasts. It drops none before qc_memo_clear or
   qc_memo_free, so results may be borrowed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

struct qc_memo_budget {
    _Atomic size_t left; /* bytes */
};

struct qc_memo_options {
    size_t most;                   /* bytes of all results of this memo; SIZE_MAX: any */
    struct qc_memo_budget *budget; /* borrowed; NULL: none */
    void (*free)(void *value);     /* of a result */
};

struct qc_memo;
bool qc_memo_new(struct qc_memo **out, const struct qc_memo_options *options, struct qc_status *st);
void qc_memo_free(struct qc_memo *m); /* NULL-safe */
/* Frees all results, while nobody uses them. NULL-safe. */
void qc_memo_clear(struct qc_memo *m);

/* Returns the result of a key; NULL if it is not known or m is NULL. Any thread may call this and the next two. */
const void *qc_memo_find(struct qc_memo *m, const void *key, size_t key_bytes);
/* Returns true if a result of so many bytes would be kept. */
bool qc_memo_has_room(struct qc_memo *m, size_t bytes);
/* Takes ownership of a result. Returns it, or the one that another thread kept first; NULL if there is no room or no
   memory. A result that is not kept is freed. */
const void *qc_memo_keep(struct qc_memo *m, const void *key, size_t key_bytes, void *value, size_t bytes);
