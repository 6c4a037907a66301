// SPDX-License-Identifier: Apache-2.0
/* The table of layers and what is known of each, for report.html. */
#ifndef QC_EXPORT_REPORT_REPORT_LAYERS_H
#define QC_EXPORT_REPORT_REPORT_LAYERS_H

#include <stdio.h>

#include "export/report/report.h"

/* A row for each layer; the JavaScript of the page sorts and filters it. */
void qc_html_layer_table(FILE *f, const struct qc_report *r);

/* A <details> for each of `count` layers: numbers and plots. */
void qc_html_layer_details(FILE *f, const struct qc_report *r, size_t first, size_t count);

#endif
