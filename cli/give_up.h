// SPDX-License-Identifier: Apache-2.0
/* Ends the program after an error inside a library that cannot return: a failed allocation, exit or abort. */
#pragma once

/* Removes unfinished files, writes "qcalib: REASON" to standard error and ends with QC_MACHINE. Allocates nothing and
   runs no exit handlers. Safe in any thread and signal handler; only the first of several threads prints. */
_Noreturn void qc_give_up(const char *reason);

/* The same with QC_BAD_INPUT and "compute of the kernel 'Scaler' HOW" if this thread runs code of the user
   (base/user_code.h); else returns. */
void qc_give_up_user_code(const char *how);
/* Ends with such a message if code of the user crashes. Only if there is any: debuggers and sanitizers handle these
   signals too. */
void qc_watch_user_code(void);
