// SPDX-License-Identifier: Apache-2.0
/* Inner loops of the scan; one set per instruction set, all with identical results. Private to observers/ and its tests. */
#ifndef QC_OBSERVERS_SCAN_KERNEL_H
#define QC_OBSERVERS_SCAN_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Blocks are at most this long, so that a block stays in the first-level cache between the two loops and indices fit a small buffer. */
enum { QC_SCAN_BLOCK = 4096 };

#define QC_MAGNITUDE_MASK 0x7fffffffu
#define QC_INFINITY_BITS 0x7f800000u

/* What is known of a block before it is counted. */
struct qc_block {
    uint32_t
        magnitude; /* largest bits & QC_MAGNITUDE_MASK; >= QC_INFINITY_BITS says that a NaN or infinity is present */
    uint32_t low_bits; /* OR of bits & 0x7fff */
    uint32_t zeros;    /* +0 and -0 */
    float min, max;    /* meaningful only when all are finite; -0 may stand for 0 */
};

struct qc_scan_kernels {
    const char *name;
    /* False when this processor cannot run the loops. */
    bool (*usable)(void);
    /* 1 <= n <= QC_SCAN_BLOCK. */
    void (*facts)(struct qc_block *out, const float *x, size_t n);
    /* counts[2][QC_WINDOW_BINS]: adds every value but zeros, of a block that is all finite and whose facts are given;
       base = qc_window_base of an exponent that is at least the block's. */
    void (*count)(uint32_t *counts, int32_t base, const struct qc_block *facts, const float *x, size_t n);
};

/* The plain C set is always usable. */
extern const struct qc_scan_kernels qc_scan_plain;
/* The sets for this architecture, best first, ending with the plain one. */
const struct qc_scan_kernels *const *qc_scan_sets(size_t *n);
/* The first usable one. */
const struct qc_scan_kernels *qc_scan_best(void);

#if defined(__x86_64__) && defined(__GNUC__)
extern const struct qc_scan_kernels qc_scan_avx512, qc_scan_avx2;
#endif

#endif
