// SPDX-License-Identifier: Apache-2.0
/* Process limits set by the shell (ulimit). */
#pragma once

#include "base/status.h"

/* Fails (QC_MACHINE) if the stack limit is lower than the program and its threads need. Lowers the soft processor time
   limit, so that SIGXCPU, which can be caught, comes 1 s before SIGKILL (cli/terminal/interrupt.h). */
bool qc_limits_begin(struct qc_status *st);
