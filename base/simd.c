// SPDX-License-Identifier: Apache-2.0
#include "base/simd.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <strings.h>

const char *qc_simd_limit(void)
{
    const char *text = getenv("ONEDNN_MAX_CPU_ISA");
    return text ? text : getenv("DNNL_MAX_CPU_ISA");
}

/* Names that are not known do not limit anything. */
static int widest(const char *limit)
{
    if (!limit) return 512;
    if (strncasecmp(limit, "AVX2", 4) == 0) return 256;
    return strcasecmp(limit, "SSE41") == 0 || strcasecmp(limit, "AVX") == 0 ? 128 : 512;
}

bool qc_simd_allows(int bits)
{
    static atomic_int known; /* 0: not yet */
    int most = atomic_load_explicit(&known, memory_order_relaxed);
    if (!most) {
        most = widest(qc_simd_limit());
        atomic_store_explicit(&known, most, memory_order_relaxed);
    }
    return bits <= most;
}
