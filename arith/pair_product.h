// SPDX-License-Identifier: Apache-2.0
/* Sum of two products of 8-bit integers as x86 without VNNI computes it (vpmaddubsw): in 16 bits, with saturation. */
#pragma once

#include <stdint.h>

/* Returns a0 * b0 + a1 * b1, saturated to [-32768, 32767]. a0, a1: 0 to 255; b0, b1: -128 to 127. */
static inline int32_t qc_pair_product(int32_t a0, int32_t b0, int32_t a1, int32_t b1)
{
    const int32_t sum = a0 * b0 + a1 * b1;
    return sum > INT16_MAX ? INT16_MAX : sum < INT16_MIN ? INT16_MIN : sum;
}
