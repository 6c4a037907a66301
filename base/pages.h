// SPDX-License-Identifier: Apache-2.0
/* Large blocks of memory on large pages, where the kernel gives them to those who ask (Linux: madvise): fewer faults
   when they are first touched, fewer misses in the tables of addresses afterwards. Smaller blocks are the allocator's.
 */
#ifndef QC_BASE_PAGES_H
#define QC_BASE_PAGES_H

#include <stddef.h>

/* What a block of so many bytes takes: a multiple of 64, and of a large page where it is at least one. */
size_t qc_pages_bytes(size_t bytes);

/* Not set to anything, aligned to 64 bytes; NULL when memory is out. To be freed with free. */
void *qc_pages_new(size_t bytes);

#endif
