// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "observers/histogram.h"
#include "observers/scan_kernel.h"

/* Maps bit patterns to integers that order like the floats; its own inverse. */
static int32_t ordered(uint32_t u)
{
    uint32_t negative = 0u - (u >> 31);
    return (int32_t)(u ^ negative >> 1);
}

static void facts(struct qc_block *out, const float *restrict x, size_t n)
{
    int32_t lo = INT32_MAX, hi = INT32_MIN;
    uint32_t magnitude = 0, low = 0, nonzero = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t u = qc_float_bits(x[i]), m = u & QC_MAGNITUDE_MASK;
        int32_t o = ordered(u);
        lo = o < lo ? o : lo;
        hi = o > hi ? o : hi;
        magnitude = m > magnitude ? m : magnitude;
        low |= u;
        nonzero += m != 0;
    }
    *out = (struct qc_block){.magnitude = magnitude,
                             .low_bits = low & ((1u << QC_KEY_SHIFT) - 1),
                             .zeros = (uint32_t)n - nonzero,
                             .min = qc_bits_float((uint32_t)ordered((uint32_t)lo)),
                             .max = qc_bits_float((uint32_t)ordered((uint32_t)hi))};
}

/* Four at a time from one 64-bit load: fewer loads, and increments of different counters overlap. */
void qc_scan_increment(uint32_t *restrict counts, const uint16_t *restrict index, size_t n)
{
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        uint64_t four;
        memcpy(&four, index + i, sizeof four);
        counts[four & 0xffff]++;
        counts[four >> 16 & 0xffff]++;
        counts[four >> 32 & 0xffff]++;
        counts[four >> 48]++;
    }
    for (; i < n; i++) counts[index[i]]++;
}

static void count(uint32_t *restrict counts, int32_t base, const struct qc_block *f, const float *restrict x, size_t n)
{
    /* Computes the indices first, dropping zeros without a branch; the increments then run back to back. */
    uint16_t index[QC_SCAN_BLOCK];
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t u = qc_float_bits(x[i]), m = u & QC_MAGNITUDE_MASK;
        int32_t slot = (int32_t)(m >> QC_KEY_SHIFT) - base;
        slot = slot > 0 ? slot : 0;
        index[kept] = (uint16_t)((uint32_t)slot | (u >> 31) * QC_WINDOW_BINS);
        kept += m != 0;
    }
    qc_scan_increment(counts, index, kept);
}

static bool always(void)
{
    return true;
}

const struct qc_scan_kernels qc_scan_plain = {.name = "plain", .usable = always, .facts = facts, .count = count};

const struct qc_scan_kernels *const qc_scan_sets[] = {
#if defined(__x86_64__) && defined(__GNUC__)
    &qc_scan_avx512,
    &qc_scan_avx2,
#endif
    &qc_scan_plain,
    NULL,
};

const struct qc_scan_kernels *qc_scan_best(void)
{
    const struct qc_scan_kernels *const *set = qc_scan_sets;
    while (!(*set)->usable()) set++;
    return *set;
}

qc_scan_both_fn *qc_scan_both(void)
{
#if defined(__x86_64__) && defined(__GNUC__)
    if (qc_scan_have_vbmi2()) return qc_scan_both_vbmi2;
#endif
    return NULL;
}
