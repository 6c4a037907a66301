// SPDX-License-Identifier: Apache-2.0
/* Pseudo-random numbers for tests: the same sequence everywhere. */
#pragma once

#include <stdint.h>

/* Splitmix64 (Steele, Lea and Flood 2014). */
static inline uint64_t test_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}
