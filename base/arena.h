// SPDX-License-Identifier: Apache-2.0
/* Arena: memory that lives and dies together. Not thread safe; one per owner. */
#pragma once

#include <stddef.h>

#include "base/status.h"

struct qc_arena;

/* NULL when memory is out. */
struct qc_arena *qc_arena_new(void);
void qc_arena_free(struct qc_arena *a);

/* count * size zeroed bytes, aligned to 64 when large (>= 64 bytes), else to 16. NULL and a QC_MACHINE status on
   overflow or when memory is out. count or size 0 gives a valid pointer. With QC_ARENA_DEBUG every item is its own
   malloc. */
void *qc_arena_get(struct qc_arena *a, size_t count, size_t size, struct qc_status *st);

/* Copies; NULL as above. */
char *qc_arena_strdup(struct qc_arena *a, const char *s, struct qc_status *st);
char *qc_arena_strndup(struct qc_arena *a, const char *s, size_t n, struct qc_status *st);
void *qc_arena_dup(struct qc_arena *a, const void *p, size_t count, size_t size, struct qc_status *st);
char *qc_arena_printf(struct qc_arena *a, struct qc_status *st, const char *fmt, ...) QC_PRINTF(3, 4);

/* Bytes handed out so far. */
size_t qc_arena_bytes(const struct qc_arena *a);

#define QC_NEW(a, T, st) ((T *)qc_arena_get((a), 1, sizeof(T), (st)))
#define QC_NEW_ARRAY(a, T, n, st) ((T *)qc_arena_get((a), (size_t)(n), sizeof(T), (st)))
