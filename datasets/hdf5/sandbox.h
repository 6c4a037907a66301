// SPDX-License-Identifier: Apache-2.0
/* Limits of a process that reads what may be hostile; private to datasets/. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Bytes by which the memory of the process may grow. */
#define QC_SANDBOX_BYTES ((uint64_t)3 << 30)

/* For a child right after fork, all signals blocked: standard streams become /dev/null, all other files but `channel`
   are closed, signals have their default effect (those that a terminal sends to every process have none) and are let
   in again, no core is written, memory may grow by QC_SANDBOX_BYTES (not under sanitizers, which reserve it). From here
   on the kernel refuses what reading does not need: files are opened for reading only, nothing is written but to
   `channel`, no program is started, no connection made, no signal sent to another process. An old kernel without such
   filters leaves that last part out.
   */
void qc_sandbox_enter(int channel);

/* Seconds of processor time until the process is ended (SIGPROF); 0: no end. */
void qc_sandbox_seconds(unsigned seconds);
