// SPDX-License-Identifier: Apache-2.0
/* Ends the program after an error inside a library that cannot return: a failed allocation, exit or abort. */
#pragma once

/* Removes unfinished files, writes "qcalib: REASON" to standard error and ends with QC_MACHINE. Allocates nothing and
   runs no exit handlers. Safe in any thread and signal handler; only the first of several threads prints. */
_Noreturn void qc_give_up(const char *reason);
