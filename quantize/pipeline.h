// SPDX-License-Identifier: Apache-2.0
/* The pipeline of quantize: runs the stages (quantize/stages/stages.h) one after the other. After every stage the graph
   is verified, heavy ops are counted, and who listens is told. */
#pragma once

#include "quantize/stages/stages.h"

/* Checks the options and reads the rules, before anything else happens. p: zeroed but for who listens; o and in are
   borrowed. */
bool qc_pipeline_begin(struct qc_pipeline *p, const struct qc_options *o, const struct qc_job_inputs *in,
                       struct qc_status *st);
/* Runs all stages. Errors name the stage where it is not plain from the message. */
bool qc_pipeline_run(struct qc_pipeline *p, struct qc_status *st);
/* The repeated stages once more, after a change of p->scheme or by other means than before; the statistics that were
   collected serve again where they have what is needed, else the data are run again. After an error the graphs of those
   stages are NULL. Errors: as qc_pipeline_run; where several processes share the work data cannot be run again
   (QC_UNSUPPORTED). */
bool qc_pipeline_again(struct qc_pipeline *p, struct qc_status *st);
/* The same job with other options, beside one that has run and outlives it: another attempt on what p was prepared. The
   statistics of p serve again where they have what is needed; with `anew` the stages run from "equalize" on, and the
   data once more. Options of data and model are those of p. *t is to be ended whatever happens (qc_pipeline_end).
   Errors: as qc_pipeline_again. */
bool qc_pipeline_branch(struct qc_pipeline *t, const struct qc_pipeline *p, const struct qc_options *o, bool anew,
                        struct qc_status *st);
/* Tells of the repeated stages as they are now: qc_pipeline_again does not. */
bool qc_pipeline_tell_again(const struct qc_pipeline *p, struct qc_status *st);
/* For 'qcalib collect', instead of begin and run: rules; then model, data and the normalised graph. */
bool qc_pipeline_begin_collect(struct qc_pipeline *p, const struct qc_options *o, const struct qc_job_inputs *in,
                               struct qc_status *st);
bool qc_pipeline_normalise(struct qc_pipeline *p, struct qc_status *st);
void qc_pipeline_end(struct qc_pipeline *p); /* NULL-safe members; a zeroed pipeline is fine */
