// SPDX-License-Identifier: Apache-2.0
/* The work of a job and of what advice would try, counted in multiply-adds of the float network: by it and not by the
   clock is decided what is tried, so that a report does not depend on the machine, nor on how busy it is. What the
   other things cost beside a multiply-add was measured (docs/decisions/0036-advice-is-tried.md). */
#pragma once

#include "export/report/report.h"
#include "quantize/pipeline_state.h"

struct qc_advice_work {
    double job;             /* all that the job has done */
    double unit, quantized; /* one unit of the data through the float network, and through what is written */
    double layer_plans;     /* what one layer does alone (calib/metrics/sensitivity.h), beside units of the float one */
    double branch;          /* a branch of the job (quantize/pipeline.h), before it runs anything */
};

/* p: has run. r: with its trials and what was measured. */
bool qc_advice_work_of(struct qc_advice_work *out, const struct qc_pipeline *p, const struct qc_report *r,
                       struct qc_status *st);

/* One unit read and run through what a branch writes. */
bool qc_advice_work_of_unit(double *out, const struct qc_pipeline *branch, struct qc_status *st);
