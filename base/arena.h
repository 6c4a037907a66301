// SPDX-License-Identifier: Apache-2.0
/* Arena: allocations that are freed together. Not thread safe. */
#pragma once

#include <stddef.h>

#include "base/status.h"

struct qc_arena;

/* Returns NULL if memory is out, which the functions below report. */
struct qc_arena *qc_arena_new(void);
void qc_arena_free(struct qc_arena *a);

/* An arena, or NULL, that is freed at the end of its scope (see base/scope.h). */
#define QC_ARENA_SCOPE __attribute__((cleanup(qc_arena_leave), unused)) struct qc_arena
void qc_arena_leave(struct qc_arena *const *a);

/* Returns count * size zeroed bytes, aligned to 64 bytes if at least 64 bytes are asked for, else to 16. If count or
   size is 0, the pointer is valid all the same. Returns NULL with QC_MACHINE on overflow or if memory is out. With
   QC_ARENA_DEBUG every item has a malloc of its own. */
void *qc_arena_get(struct qc_arena *a, size_t count, size_t size, struct qc_status *st);

/* Each returns a copy in the arena, or NULL as above. */
char *qc_arena_strdup(struct qc_arena *a, const char *s, struct qc_status *st);
char *qc_arena_strndup(struct qc_arena *a, const char *s, size_t n, struct qc_status *st);
void *qc_arena_dup(struct qc_arena *a, const void *p, size_t count, size_t size, struct qc_status *st);
char *qc_arena_printf(struct qc_arena *a, struct qc_status *st, const char *fmt, ...) QC_PRINTF(3, 4);

/* Returns the bytes allocated so far. */
size_t qc_arena_bytes(const struct qc_arena *a);

#define QC_NEW(a, T, st) ((T *)qc_arena_get((a), 1, sizeof(T), (st)))
#define QC_NEW_ARRAY(a, T, n, st) ((T *)qc_arena_get((a), (size_t)(n), sizeof(T), (st)))
