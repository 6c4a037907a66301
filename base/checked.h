// SPDX-License-Identifier: Apache-2.0
/* Checked arithmetic for numbers that come from a file. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Each returns false on overflow and leaves *out unchanged. */
static inline bool qc_add_size(size_t *out, size_t a, size_t b)
{
    size_t r;
    if (__builtin_add_overflow(a, b, &r)) return false;
    *out = r;
    return true;
}

/* SIZE_MAX if the sum is larger. */
static inline size_t qc_sum_at_most(size_t a, size_t b)
{
    size_t r;
    return __builtin_add_overflow(a, b, &r) ? SIZE_MAX : r;
}

static inline bool qc_mul_size(size_t *out, size_t a, size_t b)
{
    size_t r;
    if (__builtin_mul_overflow(a, b, &r)) return false;
    *out = r;
    return true;
}

static inline bool qc_add_i64(int64_t *out, int64_t a, int64_t b)
{
    int64_t r;
    if (__builtin_add_overflow(a, b, &r)) return false;
    *out = r;
    return true;
}

static inline bool qc_mul_i64(int64_t *out, int64_t a, int64_t b)
{
    int64_t r;
    if (__builtin_mul_overflow(a, b, &r)) return false;
    *out = r;
    return true;
}
