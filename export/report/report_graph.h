// SPDX-License-Identifier: Apache-2.0
/* The graph of report.html. */
#ifndef QC_EXPORT_REPORT_REPORT_GRAPH_H
#define QC_EXPORT_REPORT_REPORT_GRAPH_H

#include <stdio.h>

#include "export/report/report.h"

/* The screen: a drawing with every op, before it one where blocks that come again and again are one box each, and why
   ops stay in float. There are nodes. False: a status (memory). */
bool qc_html_graph(FILE *f, const struct qc_report *r, struct qc_status *st);

#endif
