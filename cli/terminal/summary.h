// SPDX-License-Identifier: Apache-2.0
#ifndef QC_CLI_TERMINAL_SUMMARY_H
#define QC_CLI_TERMINAL_SUMMARY_H

#include "export/report/report.h"

/* What a person wants of a report: at most some fifteen lines on standard output. */
/* with_report: the report is written too, so that the text may refer to it. */
void qc_print_summary(const struct qc_report *r, bool with_report);

#endif
