// SPDX-License-Identifier: Apache-2.0
/* qcalib inspect: text about a file, a function for each kind. JSON: evaluate/describe.h. */
#ifndef QC_CLI_COMMANDS_INSPECT_H
#define QC_CLI_COMMANDS_INSPECT_H

#include "cli/options/command_line.h"

/* Errors: as qc_onnx_import. */
bool qc_inspect_model(const char *path, const struct qc_cli_options *o, struct qc_status *st);
/* Errors: as qc_statistics_load. */
bool qc_inspect_statistics(const char *path, const struct qc_cli_options *o, struct qc_status *st);

#endif
