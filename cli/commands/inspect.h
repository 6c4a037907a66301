// SPDX-License-Identifier: Apache-2.0
/* qcalib inspect: one function per kind of file; each prints text or JSON. */
#ifndef QC_CLI_COMMANDS_INSPECT_H
#define QC_CLI_COMMANDS_INSPECT_H

#include "cli/options/command_line.h"

/* Errors: as qc_onnx_import. */
bool qc_inspect_model(const char *path, const struct qc_cli_options *o, struct qc_status *st);
/* Errors: as qc_data_list. */
bool qc_inspect_data(const char *path, const struct qc_cli_options *o, struct qc_status *st);
/* Errors: as qc_statistics_load. */
bool qc_inspect_statistics(const char *path, const struct qc_cli_options *o, struct qc_status *st);
/* A report.json; QC_BAD_INPUT when the JSON is not one. Text that does not begin like a JSON object sets *is_report to
 * false. */
bool qc_inspect_report(bool *is_report, const char *path, const struct qc_cli_options *o, struct qc_status *st);

#endif
