// SPDX-License-Identifier: Apache-2.0
/* Everything that is printed from the tables of options and commands. All go to standard output. */
#pragma once

#include "cli/options/command_line.h"

/* One screen: at most 24 lines of 80 columns. */
void qc_help_overview(void);
/* Usage and every option of one command; 80 columns. */
void qc_help_command(unsigned c);
/* Manual page, troff with man macros (man(7)). */
void qc_help_man(void);
/* Completion script; shell: "bash", "zsh" or "fish". */
void qc_help_completion(const char *shell);

/* "--name=ARG", "-o, --output FILE": the option as help and manual show it. */
enum { QC_SPELLING = 96 };
const char *qc_option_spelling(char buf[QC_SPELLING], unsigned o);
