// SPDX-License-Identifier: Apache-2.0
/* Disjoint sets of numbers 0 to n - 1: parent[x] is a member of x's set, and x itself where x stands for it. Who unites
   two sets sets the parent of one representative to the other. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Every number is a set of its own. */
static inline void qc_union_start(uint32_t *parent, size_t n)
{
    for (size_t x = 0; x < n; x++) parent[x] = (uint32_t)x;
}

/* The representative; ways to it get shorter. */
static inline uint32_t qc_union_root(uint32_t *parent, uint32_t x)
{
    while (parent[x] != x) x = parent[x] = parent[parent[x]];
    return x;
}

/* The smaller of two representatives stands for both, whatever the order of the unions. False: they were one set
 * before. */
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
