// SPDX-License-Identifier: Apache-2.0
/* What helps and what hurts, for report.html. */
#ifndef QC_EXPORT_REPORT_REPORT_ADVICE_H
#define QC_EXPORT_REPORT_REPORT_ADVICE_H

#include <stdio.h>

#include "export/report/report.h"

/* The screen: what was tried and helps, where error enters, what each layer alone does. */
void qc_html_advice(FILE *f, const struct qc_report *r);

/* Why there is no advice: a sentence. */
void qc_html_no_advice(FILE *f, const struct qc_report *r);

/* The name of a node, as a link to its layer; QC_NO_INDEX: without. */
void qc_html_layer_link(FILE *f, const char *node, size_t layer);

#endif
