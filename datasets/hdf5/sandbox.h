// SPDX-License-Identifier: Apache-2.0
/* Limits of a process that reads untrusted files; private to datasets/. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Bytes by which the process may grow. */
#define QC_SANDBOX_BYTES ((uint64_t)3 << 30)

/* Code that the process may map after it has entered. */
enum qc_sandbox_code {
    QC_SANDBOX_NO_CODE,
    QC_SANDBOX_LIBRARIES /* of files, for filter plugins of HDF5; never memory that it wrote */
};

/* Restricts a child right after fork, with all signals blocked. Standard streams become /dev/null; all other files but
   `channel` are closed. Signals get their default effect and are unblocked; those that a terminal sends to every
   process are ignored. No core is written. Memory may grow by QC_SANDBOX_BYTES (not under sanitizers, which reserve
   it). From here on the kernel allows a list of
   calls with a list of arguments: files are opened for reading only, nothing is sent except to `channel`, no program is
   started, no connection made, no signal sent to another process, no memory made executable except as `code` allows.
   Other calls fail with EPERM. With Landlock, /proc does not give the memory of other processes. Kernels without such
   filters or Landlock skip that part. */
void qc_sandbox_enter(int channel, enum qc_sandbox_code code);

/* Sets the processor time in seconds after which the process is ended (SIGPROF); 0: no limit. */
void qc_sandbox_seconds(unsigned seconds);
