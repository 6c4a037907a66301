// SPDX-License-Identifier: Apache-2.0
/* A body of If, Loop or Scan through the whole pipeline, with options of its own made of the model's. */
#pragma once

#include "export/report/report.h"
#include "quantize/stages/body_samples.h"
#include "quantize/stages/stage_bodies.h"

/* As qc_pipeline.quantize_body. Options that name nodes (--skip, types) name those of a body with the body's name and a
   '/' before it; ops and globs hold for all. What cannot be quantized is no error: the body stays in float, and
   job->reason says why. */
bool qc_quantize_body(struct qc_body_job *job, struct qc_pipeline *around, struct qc_body_samples *samples, size_t i,
                      struct qc_status *st);
void qc_body_jobs_free(struct qc_pipeline *p); /* of all bodies */

/* Layers, and ops in integers and in float, of bodies behind those of the model, by names such as "loop/body/conv". */
bool qc_body_jobs_layers(struct qc_report *r, const struct qc_pipeline *p, struct qc_status *st);
bool qc_body_jobs_ops(struct qc_report *r, const struct qc_pipeline *p, struct qc_status *st);
