// SPDX-License-Identifier: Apache-2.0
#ifndef QC_CLI_TERMINAL_SUMMARY_H
#define QC_CLI_TERMINAL_SUMMARY_H

#include "export/report/report.h"

/* What a person wants of a report: at most some fifteen lines on standard output. */
void qc_print_summary(const struct qc_report *r);

#endif
