// SPDX-License-Identifier: Apache-2.0
/* Inside simq/: a b + c in float32, rounded once, where the processor may lack the instruction. */
#ifndef QC_SIMQ_KERNELS_REAL_FUSED_H
#define QC_SIMQ_KERNELS_REAL_FUSED_H

#include <stdint.h>
#include <string.h>

#include "base/simd.h"

/* By doubles: the product is exact, the sum is rounded to odd (Boldo and Melquiond, "Emulation of a FMA", 2008), which
   the rounding to float32 cannot tell from the exact sum. No branches, so loops of it become vector code. */
static QC_INLINE float qc_fused_by_doubles(float a, float b, float c)
{
    const double p = (double)a * (double)b, s = p + (double)c, z = s - p, e = (p - (s - z)) + ((double)c - z);
    int64_t bits;
    memcpy(&bits, &s, sizeof bits);
    const int64_t even = 1 - (bits & 1), up = e > 0, down = e < 0, below = s < 0;
    bits += even * (below ? down - up : up - down); /* e is NaN, and nothing changes, where s is not finite */
    double odd;
    memcpy(&odd, &bits, sizeof odd);
    return (float)odd;
}

static QC_INLINE float qc_fused(float a, float b, float c)
{
#if defined(__FP_FAST_FMAF)
    return __builtin_fmaf(a, b, c);
#else
    return qc_fused_by_doubles(a, b, c);
#endif
}

#endif
