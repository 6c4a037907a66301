// SPDX-License-Identifier: Apache-2.0
/* The commands, one file each (cmd_NAME.c). Each prints its result to standard output. On failure main.c prints the
   error in st and derives the exit code. */
#pragma once

#include "cli/options/command_line.h"

#define QC_COMMAND(id, name, min, max, operands, summary)                                                              \
    bool qc_cmd_##id(const struct qc_cli_options *o, struct qc_status *st);
#include "cli/options/commands.def"
#undef QC_COMMAND

/* For --dump: writes a text to a file, or to standard output if file is NULL. Frees the text; returns false if it is
   NULL. */
bool qc_dump_text(char *text, const char *file, struct qc_status *st);

/* For --dump: fails (QC_USAGE) if a graph would be printed beside the one JSON object of --json. */
bool qc_dump_beside_json(const struct qc_cli_options *o, struct qc_status *st);
