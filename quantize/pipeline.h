// SPDX-License-Identifier: Apache-2.0
/* The pipeline of quantize: runs the stages (quantize/stages/stages.h) one after the other. After every stage it
   verifies the graph, counts heavy ops and calls the listener. */
#pragma once

#include "quantize/stages/stages.h"

/* Checks the options and reads the rules, before anything else happens. p: zeroed except for the listener; o and in are
   borrowed. Errors: QC_USAGE; rules and observers that cannot be read. */
bool qc_pipeline_begin(struct qc_pipeline *p, const struct qc_options *o, const struct qc_job_inputs *in,
                       struct qc_status *st);
/* Runs all stages. Errors: those of the stages. */
bool qc_pipeline_run(struct qc_pipeline *p, struct qc_status *st);
/* Runs the repeated stages again, after a change of p->scheme. Collected statistics are reused if they have everything
   needed, else the data run again. After an error the graphs of these stages are NULL. Errors: as qc_pipeline_run;
   QC_UNSUPPORTED if the data cannot run again, because statistics are given or several processes share the work. */
bool qc_pipeline_again(struct qc_pipeline *p, struct qc_status *st);
/* Runs the same job with other options, on the model and data of p, which has run and must outlive *t. Statistics of p
   are reused if they have everything needed. With `anew` the stages run from "equalize" on, and the data run again.
   Options of data and model are those of p. *t must be ended even after an error (qc_pipeline_end). Errors: as
   qc_pipeline_again. */
bool qc_pipeline_branch(struct qc_pipeline *t, const struct qc_pipeline *p, const struct qc_options *o, bool anew,
                        struct qc_status *st);
/* Calls the listener for the repeated stages, which qc_pipeline_again does not. */
bool qc_pipeline_tell_again(const struct qc_pipeline *p, struct qc_status *st);
/* For 'qcalib collect', instead of begin and run: the first reads rules, the second opens model and data and normalises
   the graph. */
bool qc_pipeline_begin_collect(struct qc_pipeline *p, const struct qc_options *o, const struct qc_job_inputs *in,
                               struct qc_status *st);
bool qc_pipeline_normalise(struct qc_pipeline *p, struct qc_status *st);
void qc_pipeline_end(struct qc_pipeline *p); /* NULL-safe members; a zeroed pipeline is fine */
