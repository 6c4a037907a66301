// SPDX-License-Identifier: Apache-2.0
/* What layers and accumulators do, and what was done about it, for report.html. */
#ifndef QC_EXPORT_REPORT_REPORT_EFFECTS_H
#define QC_EXPORT_REPORT_REPORT_EFFECTS_H

#include <stdio.h>

#include "export/report/report.h"

/* The path of --max-drop: each attempt, and the command that gives the same. Nothing without one. */
void qc_html_fallback(FILE *f, const struct qc_report *r);

/* The layers that alone do the most to the outputs. Nothing when they were not measured. */
/* The quantized activation that a node makes, else a weight that it reads; QC_NO_INDEX: neither. */
size_t qc_report_layer_of(const struct qc_report *r, const char *node);

void qc_html_effects(FILE *f, const struct qc_report *r);

/* What accumulators of few bits cost in scales and channels, and how often they overflowed, layer by layer. Nothing
 * with 32 bits. */
void qc_html_accumulators(FILE *f, const struct qc_report *r);

#endif
