// SPDX-License-Identifier: Apache-2.0
/* --dump STAGE prints the graph after a stage to standard output; --dump STAGE=FILE writes it with all constants, so
   that it parses back. */
#pragma once

#include "cli/options/command_line.h"
#include "quantize/stages/stages.h"

/* Fails (QC_USAGE) if a graph would be printed beside the one JSON object of --json. */
bool qc_dump_beside_json(const struct qc_cli_options *o, struct qc_status *st);

/* The same, and fails (QC_USAGE) if a stage does not exist. */
bool qc_dump_check(const struct qc_cli_options *o, struct qc_status *st);

/* Writes a text to a file, or to standard output if file is NULL. Frees the text; returns false if it is NULL. */
bool qc_dump_text(char *text, const char *file, struct qc_status *st);

/* stage_done of a job (quantize/job.h); user: the struct qc_cli_options. */
bool qc_dump_stage(void *user, const struct qc_pipeline *p, const struct qc_stage *s, struct qc_status *st);
