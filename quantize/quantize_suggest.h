// SPDX-License-Identifier: Apache-2.0
#ifndef QC_QUANTIZE_QUANTIZE_SUGGEST_H
#define QC_QUANTIZE_QUANTIZE_SUGGEST_H

#include "export/report/report.h"
#include "quantize/pipeline_state.h"

/* Where error enters, worst first, and what to do about it, by the options that there are; none without a measurement
   (NULL). Behind everything else of r. */
bool qc_fill_suggestions(struct qc_report *r, const struct qc_pipeline *p, const struct qc_measurement *m,
                         struct qc_status *st);

#endif
