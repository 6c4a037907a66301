// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>

#include "base/order.h"
#include "datasets/samples/dataset.h"

/* Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014. */
static uint64_t splitmix64(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* Returns a uniform number in 0..bound-1; values that would favour small ones are drawn again. */
static uint64_t uniform(uint64_t *state, uint64_t bound)
{
    uint64_t least = (0 - bound) % bound, x;
    do x = splitmix64(state);
    while (x < least);
    return x % bound;
}

/* Adds a unit to a table with open addressing; 0 is empty, so units are stored plus one. Returns false if it is in the
   table. */
static bool insert(uint64_t *table, uint64_t mask, uint64_t unit)
{
    uint64_t hash = unit;
    uint64_t i = splitmix64(&hash) & mask;
    for (; table[i]; i = (i + 1) & mask)
        if (table[i] == unit + 1) return false;
    table[i] = unit + 1;
    return true;
}

bool qc_select_units(uint64_t *out, size_t n, uint64_t total, const struct qc_selection *selection,
                     struct qc_status *st)
{
    if (n > UINT32_MAX)
        return qc_fail(st, QC_UNSUPPORTED, "a choice of %zu samples is too large; at most %u", n, UINT32_MAX);
    if (!selection->drawn) {
        /* floor(j * total / n) without overflow */
        for (uint64_t j = 0; j < n; j++) out[j] = j * (total / n) + j * (total % n) / n;
        return true;
    }
    uint64_t size = 16, state = selection->seed;
    while (size < 2 * (uint64_t)n) size *= 2;
    uint64_t *table = calloc(size, sizeof *table);
    if (!table) return qc_fail_memory(st, size * sizeof *table);
    /* Bentley, Floyd: Programming pearls: a sample of brilliance, CACM 30(9), 1987. */
    for (uint64_t k = 0; k < n; k++) {
        uint64_t j = total - n + k, t = uniform(&state, j + 1);
        out[k] = insert(table, size - 1, t) ? t : j;
        if (out[k] == j && t != j) insert(table, size - 1, j);
    }
    free(table);
    qsort(out, n, sizeof *out, qc_order_u64);
    return true;
}
