// SPDX-License-Identifier: Apache-2.0
#include "base/simd.h"

#include <stdlib.h>
#include <strings.h>

const char *qc_simd_limit(void)
{
    return getenv("QCALIB_MAX_CPU_ISA");
}

int qc_simd_bits = 512;

/* At load time, since loops read the value at every call. Unknown names do not limit anything. */
__attribute__((constructor)) static void limit(void)
{
    const char *name = qc_simd_limit();
    if (!name) return;
    if (strcasecmp(name, "avx2") == 0 || strcasecmp(name, "avx_vnni") == 0) qc_simd_bits = 256;
    if (strcasecmp(name, "plain") == 0) qc_simd_bits = 128;
}
