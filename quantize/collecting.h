// SPDX-License-Identifier: Apache-2.0
/* Statistics for commands: collected with --checkpoint, or loaded with --stats; and who they belong to. */
#ifndef QC_CLI_COLLECTING_H
#define QC_CLI_COLLECTING_H

#include "calib/calibrate.h"
#include "quantize/options.h"
#include "cli/progress.h"

/* qc_collect of the chosen samples: what the observer of activations of `chooser` needs, or histograms when it is NULL. channel_axes: as those of qc_collect. With --checkpoint FILE
   what FILE has is not run again, and FILE is written every 30 seconds, at an interrupt and at the end. In a team (quantize/team.h) rank 0 gets what
   all have collected, and data is chosen as if it were alone; the other ranks get false without an error: their work is done.
   Errors: as qc_collect; a checkpoint that is none, damaged or of another run. */
bool qc_collecting_run(struct qc_collection **out, struct qc_collect_cost *cost, const struct qc_graph *g, size_t count, const qc_id *values,
                       const char *const *names, const int *channel_axes, struct qc_dataset *data,
                       const struct qc_calibration_options *chooser, const struct qc_cli_options *o, struct qc_progress *progress, struct qc_status *st);

/* The work is done: the checkpoint, if there is one, goes. */
void qc_collecting_end(const struct qc_cli_options *o);

/* Loads --stats. data: of --data, or NULL. Errors: statistics of another model than the operand, of inputs that are fed otherwise than data,
   or without samples that were chosen (a shard is missing). */
bool qc_collecting_load(struct qc_collection **out, const struct qc_dataset *data, const struct qc_cli_options *o, struct qc_status *st);

#endif
