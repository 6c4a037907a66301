// SPDX-License-Identifier: Apache-2.0
/* Memory of this process and of the machine. */
#pragma once

#include <stddef.h>

/* Returns the bytes of this process that must stay in memory: code, libraries, heap and stacks (Linux:
   /proc/self/statm). Pages of mapped files (base/file_map.h) do not count, since the system can drop them; so at most
   32 MiB of file pages count, more than the code. Freed memory is first given back to the system if the C library can
   (glibc). Returns 0 if the system does not tell. */
size_t qc_resident_bytes(void);
/* Gives freed memory back to the system. */
void qc_resident_give_back(void);
/* The same including freed memory that was not given back. For frequent calls: giving it back each time would fault all
   of it in again. */
size_t qc_resident_bytes_as_is(void);

/* Returns the bytes that this process can still take: the available memory (Linux: /proc/meminfo), or less if its
   control group has a limit. SIZE_MAX if the system does not tell. */
size_t qc_machine_left(void);

/* Large blocks use large pages if the kernel grants them (Linux: madvise): fewer page faults and fewer TLB misses. The
   allocator decides about smaller blocks. */

/* Returns the bytes that a block takes: a multiple of 64, or of a large page if it is at least one. */
size_t qc_pages_bytes(size_t bytes);

/* Returns uninitialized memory aligned to 64 bytes (free), or NULL if memory is out. */
void *qc_pages_new(size_t bytes);
