// SPDX-License-Identifier: Apache-2.0
/* The stages of quantize in their order, except the last ones, which are static in quantize/stages/stages.c, and that
   of bodies (quantize/stages/stage_bodies.h). */
#pragma once

#include "quantize/pipeline_state.h"

/* Open model and data and normalise the graph; 'qcalib collect' needs the first two. */
bool qc_stage_import(struct qc_pipeline *p, struct qc_status *st);
bool qc_stage_normalise(struct qc_pipeline *p, struct qc_status *st);
bool qc_stage_equalize(struct qc_pipeline *p, struct qc_status *st);

/* From the float graph to the simulated one. */
bool qc_stage_functions(struct qc_pipeline *p, struct qc_status *st);
bool qc_stage_partition(struct qc_pipeline *p, struct qc_status *st);
bool qc_stage_simulate(struct qc_pipeline *p, struct qc_status *st);

/* Sets p->seen: statistics of the simulated graph, with second moments if weights need them. Without samples and
   statistics it is empty; fails with QC_USAGE if something needs them. */
bool qc_stage_collect(struct qc_pipeline *p, struct qc_status *st);
/* Keeps the statistics if they have everything that the simulated graph needs; else drops them, to be collected again.
   Fails with QC_UNSUPPORTED if they cannot be collected again. */
bool qc_reuse_statistics(struct qc_pipeline *p, struct qc_status *st);
/* Scales channels (quantize/scaling/scale_channels.h) and centres them (quantize/scaling/centre_channels.h). If it
   does, p->real and everything made from it are replaced. */
bool qc_stage_scale(struct qc_pipeline *p, struct qc_status *st);
/* With --method auto: chooses the observer of each quantizer. */
bool qc_stage_choose(struct qc_pipeline *p, struct qc_status *st);
/* Binds the quantizers of p->simulated; p->calibration has the choices and their reasons. */
bool qc_stage_bind(struct qc_pipeline *p, struct qc_status *st);

/* Round weights and correct biases with the second moments of the layers' inputs. They do nothing without moments, and
   if options ask for neither. */
bool qc_stage_round(struct qc_pipeline *p, struct qc_status *st);
/* With --propagate: keeps it only if it improves the outputs. Else refines weights on the inputs of the quantized
   network. */
bool qc_stage_refine(struct qc_pipeline *p, struct qc_status *st);
/* Corrects biases by the mean error of the outputs. Drops the second moments if nothing needs them again. */
bool qc_stage_correct(struct qc_pipeline *p, struct qc_status *st);
