// SPDX-License-Identifier: Apache-2.0
/* What the programs share: dispatch and the one error message. */
#pragma once

#include "cli/options/command_line.h"

/* Runs the command, or prints the help that was asked for. */
bool qc_program_run(const struct qc_cli_options *o, struct qc_status *st);

/* "PROGRAM: message" on standard error. */
void qc_program_print_error(const char *program, const struct qc_status *st);
