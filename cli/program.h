// SPDX-License-Identifier: Apache-2.0
/* Shared by the programs: dispatch and the error message. */
#pragma once

#include "base/status.h"
#include "cli/options/command_line.h"

/* Runs the command, or prints the requested help. */
bool qc_program_run(const struct qc_cli_options *o, struct qc_status *st);

/* Prints "PROGRAM: message" to standard error. */
void qc_program_print_error(const char *program, const struct qc_status *st);

/* Fails (QC_MACHINE) if the stack limit is lower than the program and its threads need. Lowers the soft processor time
   limit, so that SIGXCPU, which can be caught, comes 1 s before SIGKILL (cli/terminal/screen.h). */
bool qc_limits_begin(struct qc_status *st);

/* Ends the program after an error inside a library that cannot return: a failed allocation, exit or abort. */

/* Removes unfinished files, writes "qcalib: REASON" to standard error and ends with QC_MACHINE. Allocates nothing and
   runs no exit handlers. Safe in any thread and signal handler; only the first of several threads prints. */
_Noreturn void qc_give_up(const char *reason);

/* The same with QC_BAD_INPUT and "compute of the kernel 'Scaler' HOW" if this thread runs code of the user
   (base/user_code.h); else returns. */
void qc_give_up_user_code(const char *how);
/* Ends with such a message if code of the user crashes. Only if there is any: debuggers and sanitizers handle these
   signals too. */
void qc_watch_user_code(void);
