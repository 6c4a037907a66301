// SPDX-License-Identifier: Apache-2.0
/* What --size chose: a section of report.html, and the keys "size" and "frontier" of report.json. */
#ifndef QC_EXPORT_REPORT_REPORT_SIZE_H
#define QC_EXPORT_REPORT_REPORT_SIZE_H

#include <stdio.h>

#include "export/report/report.h"

/* Nothing without r->size. */
void qc_html_size(FILE *f, const struct qc_report *r);
void qc_json_size_choice(struct qc_json *o, const struct qc_report_size *s);

#endif
