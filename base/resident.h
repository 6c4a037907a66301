// SPDX-License-Identifier: Apache-2.0
/* Memory of this process and of the machine. */
#pragma once

#include <stddef.h>

/* Bytes of this process that are in memory now and have to be: code, libraries, heap, stacks (Linux: /proc/self/statm),
   but not the pages of mapped files (base/file_map.h), which the system takes back when it wants to: of pages of files
   32 MiB are counted at most, more than the code. 0 when the system does not say. What was freed is given back to the
   system first where the C library can do so (glibc), since it is there to be used again. */
size_t qc_resident_bytes(void);
/* Gives back what was freed. */
void qc_resident_give_back(void);
/* The same with what was freed and not given back: who asks often would have to touch all of it again each time. */
size_t qc_resident_bytes_as_is(void);

/* Bytes that this process can take beside what it holds: what the system calls available (Linux: /proc/meminfo), or
   less where its control group has a limit. SIZE_MAX when the system does not say. */
size_t qc_machine_left(void);

/* Large blocks of memory on large pages, where the kernel gives them to those who ask (Linux: madvise): fewer faults
   when they are first touched, fewer misses in the tables of addresses afterwards. Smaller blocks are the allocator's.
 */

/* What a block of so many bytes takes: a multiple of 64, and of a large page where it is at least one. */
size_t qc_pages_bytes(size_t bytes);

/* Not set to anything, aligned to 64 bytes; NULL when memory is out. To be freed with free. */
void *qc_pages_new(size_t bytes);
