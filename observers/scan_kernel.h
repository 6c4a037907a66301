// SPDX-License-Identifier: Apache-2.0
/* Inner loops of the scan, one set per instruction set, all with identical results. Private to observers/ and its
   tests. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "observers/histogram.h"

/* Longest block: it stays in the first-level cache between the two loops, and indices fit a small buffer. */
enum { QC_SCAN_BLOCK = 4096 };
/* Longest block of qc_scan_both_fn, which counts one block while it examines the next. */
enum { QC_SCAN_SHORT_BLOCK = 1024 };

#define QC_MAGNITUDE_MASK 0x7fffffffu
#define QC_INFINITY_BITS 0x7f800000u

static inline uint32_t qc_float_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static inline float qc_bits_float(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

/* Returns the counter in [2][QC_WINDOW_BINS] of a value with these bits. */
static inline uint32_t qc_scan_slot(uint32_t u, int32_t base)
{
    const int32_t slot = (int32_t)((u & QC_MAGNITUDE_MASK) >> QC_KEY_SHIFT) - base;
    return (slot > 0 ? (uint32_t)slot : 0) | (u >> 31) * QC_WINDOW_BINS;
}

/* Facts of a block, computed before it is counted. */
struct qc_block {
    uint32_t magnitude; /* largest bits & QC_MAGNITUDE_MASK; >= QC_INFINITY_BITS: there is a NaN or infinity */
    uint32_t low_bits;  /* OR of bits & 0x7fff */
    uint32_t zeros;     /* +0 and -0 */
    float min, max;     /* valid only if all are finite; -0 may stand for 0 */
};

struct qc_scan_kernels {
    const char *name;
    /* Returns false if this processor cannot run the loops. */
    bool (*usable)(void);
    /* 1 <= n <= QC_SCAN_BLOCK. */
    void (*facts)(struct qc_block *out, const float *x, size_t n);
    /* Adds every value but zeros to counts[2][QC_WINDOW_BINS]. The block is all finite and has these facts; base =
       qc_window_base of an exponent not below the block's. */
    void (*count)(uint32_t *counts, int32_t base, const struct qc_block *facts, const float *x, size_t n);
};

/* counts[index[i]]++ for all i. */
void qc_scan_increment(uint32_t *restrict counts, const uint16_t *restrict index, size_t n);

/* Counters still to be incremented for the previous block: index[0..count). */
struct qc_scan_queue {
    size_t count;
    unsigned at; /* the buffer in use */
    uint16_t index[2][QC_SCAN_SHORT_BLOCK + 32];
};
#define QC_SCAN_QUEUE_EMPTY(q) ((q)->count = (q)->at = 0)

static inline void qc_scan_flush(struct qc_scan_queue *q, uint32_t *counts)
{
    qc_scan_increment(counts, q->index[q->at], q->count);
    q->count = 0;
}

/* Computes facts and indices of a block of at most QC_SCAN_SHORT_BLOCK values while it counts the previous block.
   Increments wait for memory one after the other, so the vector instructions of the next block run beside them at no
   cost. Counts the queue, then queues this block. before: the facts of an earlier block; its extremes are treated as
   frequent values, and signs are examined only if it had negative values. Returns false, with the queue counted and
   empty and *out invalid, if the block is short, not finite, above the window, or has negative values that were not
   examined. With the queue flushed the result equals that of facts and count. `base` also holds for the queue. */
typedef bool qc_scan_both_fn(struct qc_block *out, struct qc_scan_queue *q, uint32_t *counts, int32_t base,
                             const struct qc_block *before, const float *x, size_t n);
/* Returns NULL if this processor has none. */
qc_scan_both_fn *qc_scan_both(void);

/* The plain C set is always usable. */
extern const struct qc_scan_kernels qc_scan_plain;
/* The sets for this architecture, best first; the last is the plain one. Ends with NULL. */
extern const struct qc_scan_kernels *const qc_scan_sets[];
/* Returns the first usable set. */
const struct qc_scan_kernels *qc_scan_best(void);

#if defined(__x86_64__) && defined(__GNUC__)
extern const struct qc_scan_kernels qc_scan_avx512, qc_scan_avx2;
bool qc_scan_have_vbmi2(void);
qc_scan_both_fn qc_scan_both_vbmi2;
#endif
