// SPDX-License-Identifier: Apache-2.0
/* Statistics for a pipeline: collected, with --checkpoint where it is asked for, or those that it was given; and who
   they belong to. */
#pragma once

#include "quantize/pipeline_state.h"

/* What is collected. */
struct qc_collecting {
    const struct qc_graph *graph;
    size_t count;
    const qc_id *values; /* [count] */
    const char *const *names;
    const int *channel_axes;                      /* as those of qc_collect */
    const struct qc_calibration_options *chooser; /* what its observer of activations needs; NULL: histograms */
};

/* qc_collect of the chosen samples. With --checkpoint FILE what FILE has is not run again, and FILE is written every 30
   seconds, at an interrupt and at the end. In a team (quantize/interface/team.h) rank 0 gets what all have collected,
   and p->from->data is chosen as if it were alone; the other ranks get false without an error: their work is done.
   Errors: as qc_collect; a checkpoint that is none, damaged or of another run. */
bool qc_collecting_run(struct qc_collection **out, struct qc_collect_cost *cost, const struct qc_pipeline *p,
                       const struct qc_collecting *what, struct qc_status *st);

/* With --checkpoint: the layers that this job has rounded before it was stopped, in the file "CHECKPOINT.layers". */
bool qc_collecting_layers(struct qc_rounded_file **out, const struct qc_pipeline *p, struct qc_status *st);

/* The work is done: the checkpoint, if there is one, goes. */
void qc_collecting_end(const struct qc_options *o);

/* The statistics that a job is given, its own. data: the samples, or NULL. Errors: statistics of another model, of
   inputs that are fed otherwise than data, or without samples that were chosen (a shard is missing). */
bool qc_collecting_load(struct qc_collection **out, const struct qc_dataset *data, const struct qc_job_inputs *in,
                        struct qc_status *st);

/* Known outputs of p's float graph, borrowed; NULL: none are kept. */
struct qc_known_outputs *qc_outputs_known(const struct qc_pipeline *p);
