// SPDX-License-Identifier: Apache-2.0
#define _DEFAULT_SOURCE /* madvise */
#include "base/pages.h"

#include <stdlib.h>
#include <sys/mman.h>

static const size_t LARGE = (size_t)2 << 20, LINE = 64;

static size_t unit_of(size_t bytes)
{
    return bytes < LARGE ? LINE : LARGE;
}

size_t qc_pages_bytes(size_t bytes)
{
    const size_t unit = unit_of(bytes);
    return bytes ? (bytes + unit - 1) / unit * unit : unit;
}

void *qc_pages_new(size_t bytes)
{
    const size_t size = qc_pages_bytes(bytes);
    void *p = size < bytes ? NULL : aligned_alloc(unit_of(bytes), size);
#ifdef MADV_HUGEPAGE
    if (p && bytes >= LARGE) (void)madvise(p, size, MADV_HUGEPAGE); /* advice: without it the pages are small */
#endif
    return p;
}
