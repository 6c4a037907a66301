// SPDX-License-Identifier: Apache-2.0
/* Runs a model, float or quantized, over samples, for run, eval and compare. */
#pragma once

#include "calib/statistics/stream.h"
#include "quantize/interface/progress.h"
#include "quantize/opening/model.h"
#include "simq/plan/plan.h"

struct qc_model_run {
    struct qc_model model; /* in its produced form if quantized */
    struct qc_dataset *data;
    struct qc_plan *plan;
    struct qc_overflows overflows; /* valid after qc_model_run_units */
    unsigned workers;
    double seconds;
};

/* Opens the model and the samples chosen by --samples, --seed and --shard. w may be NULL. Fails like
   quantize/opening/model.h. */
bool qc_model_run_open(struct qc_model_run *out, const struct qc_model_source *model, const struct qc_data_source *data,
                       enum qc_data_use use, const struct qc_options *o, struct qc_warnings *w, struct qc_status *st);
void qc_model_run_close(struct qc_model_run *r); /* zeroed is fine */

/* Makes plan and workers by --threads and --memory-limit; the overflows are allocated from the arena. */
bool qc_model_run_plan(struct qc_model_run *r, const struct qc_plan_options *how, const struct qc_options *o,
                       struct qc_arena *a, struct qc_status *st);

/* Runs all units; unit is called in the workers. Warnings about accumulators of `bits` bits go to w. */
bool qc_model_run_units(struct qc_model_run *r, qc_stream_unit_fn *unit, void *user, unsigned bits,
                        struct qc_progress *progress, struct qc_warnings *w, struct qc_status *st);
