// SPDX-License-Identifier: Apache-2.0
#include "base/simd.h"

#include <stdlib.h>
#include <strings.h>

const char *qc_simd_limit(void)
{
    return getenv("QCALIB_MAX_CPU_ISA");
}

/* Unknown names do not limit anything. */
static int widest(const char *limit)
{
    if (!limit) return 512;
    if (strcasecmp(limit, "avx2") == 0 || strcasecmp(limit, "avx_vnni") == 0) return 256;
    return strcasecmp(limit, "plain") == 0 ? 128 : 512;
}

int qc_simd_bits = 512;

/* At load time, since loops read the value at every call. */
__attribute__((constructor)) static void limit(void)
{
    qc_simd_bits = widest(qc_simd_limit());
}
