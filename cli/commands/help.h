// SPDX-License-Identifier: Apache-2.0
/* Prints help from the tables of options and commands to standard output. */
#pragma once

#include "cli/options/command_line.h"

/* Prints one screen: at most 24 lines of 80 columns. */
void qc_help_overview(void);
/* Prints usage and all options of a command in 80 columns. */
void qc_help_command(unsigned c);
/* Prints the manual page: troff with man macros (man(7)). */
void qc_help_man(void);
/* Prints a completion script; shell: "bash", "zsh" or "fish". */
void qc_help_completion(const char *shell);

/* Returns "--name=ARG", "-o, --output FILE": an option as help and manual show it. */
enum { QC_SPELLING = 96 };
const char *qc_option_spelling(char buf[QC_SPELLING], unsigned o);
