// SPDX-License-Identifier: Apache-2.0
/* The work of a job and of advice, in multiply-adds of the float network. Work, not time, decides what advice tries, so
   the report does not depend on the machine or its load. The cost of other operations relative to a multiply-add is
   measured (docs/decisions/0036-advice-is-tried.md). */
#pragma once

#include "export/report/report.h"
#include "quantize/pipeline_state.h"

struct qc_advice_work {
    double job;             /* the whole job */
    double unit, quantized; /* one unit of the data through the float network, and through the produced graph */
    double layer_plans;     /* plans for the effect of one layer (calib/metrics/sensitivity.h), without runs */
    double branch;          /* making a branch of the job (quantize/pipeline.h), without runs */
};

/* Computes the work of p, which has run. r: its report, with trials and sample counts. */
bool qc_advice_work_of(struct qc_advice_work *out, const struct qc_pipeline *p, const struct qc_report *r,
                       struct qc_status *st);

/* Sets *out to the work of reading one unit and running it through the produced graph of a branch. */
bool qc_advice_work_of_unit(double *out, const struct qc_pipeline *branch, struct qc_status *st);
