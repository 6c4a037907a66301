// SPDX-License-Identifier: Apache-2.0
#include "base/resident.h"

#include <stdio.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <unistd.h>

size_t qc_resident_bytes(void)
{
    unsigned long pages = 0;
#ifdef __GLIBC__
    malloc_trim(0);
#endif
    FILE *f = fopen("/proc/self/statm", "r");
    long page = sysconf(_SC_PAGESIZE);
    if (!f) return 0;
    if (fscanf(f, "%*u %lu", &pages) != 1) pages = 0;
    fclose(f);
    return page > 0 ? (size_t)pages * (size_t)page : 0;
}
