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
   limit, so that SIGXCPU, which can be caught, comes 1 s before SIGKILL (cli/terminal/interrupt.h). */
bool qc_limits_begin(struct qc_status *st);
