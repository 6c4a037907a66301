// SPDX-License-Identifier: Apache-2.0
/* The limits that the shell sets on a process (ulimit). */
#pragma once

#include "base/status.h"

/* Fails (QC_MACHINE) if the stack is limited to less than the program and its threads need. Lowers a limit on
   processor time that ends the process without a signal that can be caught, so that SIGXCPU comes 1 s before
   (cli/terminal/interrupt.h). */
bool qc_limits_begin(struct qc_status *st);
