// SPDX-License-Identifier: Apache-2.0
/* Quantizes a body of If, Loop or Scan in a pipeline of its own, with options derived from those of the model. */
#pragma once

#include "export/report/report.h"
#include "quantize/stages/stage_bodies.h"

/* Implements qc_pipeline.quantize_body. Options that name nodes (--skip, types) name nodes of a body as BODY/NODE;
   operators and globs hold for all bodies. If the body cannot be quantized, it stays in float and job->reason says why;
   fails only with QC_MACHINE and QC_INTERRUPTED. */
bool qc_quantize_body(struct qc_body_job *job, struct qc_pipeline *around, struct qc_body_samples *samples, size_t i,
                      struct qc_status *st);
void qc_body_jobs_free(struct qc_pipeline *p); /* of all bodies */

/* Append the layers, and the operators in integers and in float, of all bodies to those of the model. Their names are
   such as "loop/body/conv". */
bool qc_body_jobs_layers(struct qc_report *r, const struct qc_pipeline *p, struct qc_status *st);
bool qc_body_jobs_ops(struct qc_report *r, const struct qc_pipeline *p, struct qc_status *st);
