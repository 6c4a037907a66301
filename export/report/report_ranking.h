// SPDX-License-Identifier: Apache-2.0
/* The screen of layers by their effect on the outputs. */
#ifndef QC_EXPORT_REPORT_REPORT_RANKING_H
#define QC_EXPORT_REPORT_REPORT_RANKING_H

#include <stdio.h>

#include "export/report/report.h"

bool qc_html_ranking(FILE *f, const struct qc_report *r, struct qc_status *st);

#endif
