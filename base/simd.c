// SPDX-License-Identifier: Apache-2.0
#include "base/simd.h"

#include <stdlib.h>
#include <strings.h>

const char *qc_simd_limit(void)
{
    const char *text = getenv("ONEDNN_MAX_CPU_ISA");
    return text ? text : getenv("DNNL_MAX_CPU_ISA");
}

/* Unknown names do not limit anything. */
static int widest(const char *limit)
{
    if (!limit) return 512;
    if (strncasecmp(limit, "AVX2", 4) == 0) return 256;
    return strcasecmp(limit, "SSE41") == 0 || strcasecmp(limit, "AVX") == 0 ? 128 : 512;
}

int qc_simd_bits = 512;

/* At load time, since loops read the value at every call. */
__attribute__((constructor)) static void limit(void)
{
    qc_simd_bits = widest(qc_simd_limit());
}
