// SPDX-License-Identifier: Apache-2.0
/* Memory of this process and of the machine. */
#ifndef QC_BASE_RESIDENT_H
#define QC_BASE_RESIDENT_H

#include <stddef.h>

/* Bytes of this process that are in memory now: code, libraries, heap, stacks (Linux: /proc/self/statm). 0 when the
   system does not say. What was freed is given back to the system first where the C library can do so (glibc), since it
   is there to be used again. */
size_t qc_resident_bytes(void);

/* Bytes that this process can take beside what it holds: what the system calls available (Linux: /proc/meminfo), or
   less where its control group has a limit. SIZE_MAX when the system does not say. */
size_t qc_machine_left(void);

#endif
