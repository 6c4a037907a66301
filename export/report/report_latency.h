// SPDX-License-Identifier: Apache-2.0
/* What --benchmark measured: parts of report.html and report.json. */
#ifndef QC_EXPORT_REPORT_REPORT_LATENCY_H
#define QC_EXPORT_REPORT_REPORT_LATENCY_H

#include <stdio.h>

#include "export/report/report.h"

/* A tile of the summary, and the changes that were tried. Nothing without r->latency. */
void qc_html_latency_tile(FILE *f, const struct qc_report *r);
void qc_html_latency(FILE *f, const struct qc_report *r);
struct qc_json *qc_json_latency(const struct qc_report_latency *l);

#endif
