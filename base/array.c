// SPDX-License-Identifier: Apache-2.0
#include "base/array.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

static size_t larger(size_t capacity)
{
    return capacity ? 2 * capacity : 16;
}

void *qc_grown(void *items, size_t count, size_t *capacity, size_t size, struct qc_status *st)
{
    size_t bytes;
    if (count < *capacity) return items;
    void *more = qc_mul_size(&bytes, larger(*capacity), size) ? realloc(items, bytes) : NULL;
    if (more)
        *capacity = larger(*capacity);
    else
        qc_fail_memory(st, count * size);
    return more;
}

void *qc_arena_grown(struct qc_arena *a, void *items, size_t count, size_t *capacity, size_t size, struct qc_status *st)
{
    if (count < *capacity) return items;
    void *more = qc_arena_get(a, larger(*capacity), size, st);
    if (!more) return NULL;
    if (count) memcpy(more, items, count * size);
    *capacity = larger(*capacity);
    return more;
}

#define ORDER(name, type)                                                                                              \
    int name(const void *a, const void *b)                                                                             \
    {                                                                                                                  \
        const type x = *(const type *)a, y = *(const type *)b;                                                         \
        return (x > y) - (x < y);                                                                                      \
    }
ORDER(qc_order_double, double)
ORDER(qc_order_float, float)
ORDER(qc_order_size, size_t)
ORDER(qc_order_u32, uint32_t)
ORDER(qc_order_u64, uint64_t)

int qc_order_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}
