// SPDX-License-Identifier: Apache-2.0
/* Statistics for a pipeline: collects them, with --checkpoint if given, or loads and checks given ones. */
#pragma once

#include "quantize/make/network.h"

/* The values to collect statistics of. */
struct qc_collecting {
    const struct qc_options *options;
    const struct qc_settings *settings;
    const struct qc_graph *graph;
    size_t count;
    const qc_id *values; /* [count] */
    const char *const *names;
    const int *channel_axes;                      /* as for qc_collect */
    const struct qc_calibration_options *chooser; /* collects the needs of its activation observer; NULL: histograms */
    uint64_t *keys;                               /* NULL, or [units of the data]: set to the keys of the units */
    struct qc_known_outputs *known;               /* NULL, or filled with outputs of the float network */
    bool again; /* --checkpoint has the statistics of an earlier collection: leave it alone */
};

/* Runs qc_collect on the chosen samples. With --checkpoint FILE samples in FILE are not run again, and FILE is written
   every 30 seconds, at an interrupt and at the end. In a team (quantize/interface/inputs.h) rank 0 gets the merged
   statistics, and s->data selects all samples of the job again; the other ranks get false without an error.
   Errors: as qc_collect; a checkpoint that is damaged, of another run, or no checkpoint. */
bool qc_collecting_run(struct qc_collection **out, struct qc_collect_cost *cost, const struct qc_setup *s,
                       const struct qc_collecting *what, struct qc_arena *a, struct qc_status *st);

/* With --checkpoint: opens the file "CHECKPOINT.layers" of the layers that this job rounded before it was interrupted.
 */
bool qc_collecting_layers(struct qc_rounded_file **out, const struct qc_network *net, struct qc_status *st);

/* Removes the files of --checkpoint, if given. */
void qc_collecting_end(const struct qc_options *o);

/* --memory-limit: plans the memory of the stages after "collect" before the data run. */

/* net: simulated, unbound. Runs the stages to come with placeholder scales, which give the same graphs, and plans their
   runs. Sets later_bytes of the evidence to the memory that they need with one worker, in addition to the
   memory in use and the statistics, which qc_collect adds. If nothing is collected, the sum is checked here. Does
   nothing without --memory-limit. Errors: those of the stages; QC_MACHINE if --memory-limit is too low. */
bool qc_memory_plan(struct qc_network *net, struct qc_status *st);

/* True if the limit has room for the stages that the plan does not count: scaling channels, refining weights, advice.
   They hold further copies of weights and second moments. Depends on the model, the limit and the options alone, not on
   the memory in use. True without --memory-limit. */
bool qc_memory_ample(const struct qc_network *net);
