// SPDX-License-Identifier: Apache-2.0
/* The first screen of report.html. */
#ifndef QC_EXPORT_REPORT_REPORT_SUMMARY_H
#define QC_EXPORT_REPORT_REPORT_SUMMARY_H

#include <stdio.h>

#include "export/report/report.h"

/* What was done, what it cost and what it saved; what would help and where error enters, in a line each. */
void qc_html_summary(FILE *f, const struct qc_report *r);

#endif
