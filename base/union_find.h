// SPDX-License-Identifier: Apache-2.0
/* Disjoint sets of the numbers 0 to n - 1. parent[x] is a member of x's set; it is x if x represents the set. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Every number is a set of its own. */
static inline void qc_union_start(uint32_t *parent, size_t n)
{
    for (size_t x = 0; x < n; x++) parent[x] = (uint32_t)x;
}

/* Returns the representative of x and shortens the path to it. */
static inline uint32_t qc_union_root(uint32_t *parent, uint32_t x)
{
    while (parent[x] != x) x = parent[x] = parent[parent[x]];
    return x;
}

/* Unites two sets; the smaller representative represents both, whatever the order of unions. Returns false if they were
   one set already. */
static inline bool qc_union_join(uint32_t *parent, uint32_t a, uint32_t b)
{
    a = qc_union_root(parent, a);
    b = qc_union_root(parent, b);
    if (a < b)
        parent[b] = a;
    else
        parent[a] = b;
    return a != b;
}
