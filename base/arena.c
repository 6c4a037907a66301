// SPDX-License-Identifier: Apache-2.0
#include "base/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

enum { BLOCK = 256 * 1024, WIDE = 64, NARROW = 16 };

struct block {
    struct block *next;
    size_t size, used;
};

/* Layout of a block: | struct block, padded to 64 | items ... |; an item never moves. */
struct qc_arena {
    struct block *blocks;
    size_t bytes;
};

enum { HEADER = (sizeof(struct block) + WIDE - 1) / WIDE * WIDE };

struct qc_arena *qc_arena_new(void)
{
    return calloc(1, sizeof(struct qc_arena));
}

void qc_arena_free(struct qc_arena *a)
{
    if (!a) return;
    for (struct block *b = a->blocks, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    free(a);
}

void qc_arena_leave(struct qc_arena *const *a)
{
    qc_arena_free(*a);
}

static struct block *add_block(struct qc_arena *a, size_t payload)
{
    size_t total;
    void *b0;
    /* Not rounded up, so that AddressSanitizer sees the first byte after an item. */
    if (!qc_add_size(&total, payload, HEADER) || posix_memalign(&b0, WIDE, total)) return NULL;
    struct block *b = b0;
    *b = (struct block){.next = a->blocks, .size = total, .used = HEADER};
    a->blocks = b;
    return b;
}

void *qc_arena_get(struct qc_arena *a, size_t count, size_t size, struct qc_status *st)
{
    size_t bytes;
    const bool fits = qc_mul_size(&bytes, count, size);
    if (!a || !fits) {
        qc_fail_memory(st, fits ? bytes : UINT64_MAX);
        return NULL;
    }
    if (bytes == 0) bytes = 1;
    size_t align = bytes >= WIDE ? WIDE : NARROW;
    struct block *b = a->blocks;
    size_t at = b ? (b->used + align - 1) / align * align : 0;
#ifdef QC_ARENA_DEBUG
    b = add_block(a, bytes);
    at = HEADER;
#else
    if (!b || at > b->size || b->size - at < bytes) {
        /* A large item gets a block of its own after the current one, so that the current one is not wasted. */
        struct block *current = b;
        b = add_block(a, bytes > BLOCK / 4 ? bytes : BLOCK);
        at = HEADER;
        if (b && bytes > BLOCK / 4 && current) {
            a->blocks = current;
            b->next = current->next;
            current->next = b;
        }
    }
#endif
    if (!b) {
        qc_fail_memory(st, bytes);
        return NULL;
    }
    b->used = at + bytes;
    a->bytes += bytes;
    return memset((char *)b + at, 0, bytes);
}

void *qc_arena_dup(struct qc_arena *a, const void *p, size_t count, size_t size, struct qc_status *st)
{
    void *q = qc_arena_get(a, count, size, st);
    if (q && count && size) memcpy(q, p, count * size);
    return q;
}

char *qc_arena_strndup(struct qc_arena *a, const char *s, size_t n, struct qc_status *st)
{
    size_t size;
    if (!qc_add_size(&size, n, 1)) {
        qc_fail_memory(st, UINT64_MAX);
        return NULL;
    }
    char *q = qc_arena_get(a, size, 1, st);
    if (q) memcpy(q, s, n);
    return q;
}

char *qc_arena_strdup(struct qc_arena *a, const char *s, struct qc_status *st)
{
    return qc_arena_strndup(a, s, strlen(s), st);
}

char *qc_arena_printf(struct qc_arena *a, struct qc_status *st, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    char *q = n < 0 ? NULL : qc_arena_get(a, (size_t)n + 1, 1, st);
    if (q) vsnprintf(q, (size_t)n + 1, fmt, again);
    va_end(again);
    return q;
}

size_t qc_arena_bytes(const struct qc_arena *a)
{
    return a->bytes;
}
