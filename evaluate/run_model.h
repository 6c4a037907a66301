// SPDX-License-Identifier: Apache-2.0
/* A model, float or quantized, over samples: what run, eval and compare begin with. */
#pragma once

#include "calib/statistics/stream.h"
#include "quantize/interface/progress.h"
#include "quantize/opening/model.h"
#include "simq/plan/plan.h"

struct qc_model_run {
    struct qc_model model; /* in its produced form where it is quantized */
    struct qc_dataset *data;
    struct qc_plan *plan;
    struct qc_overflows overflows; /* behind qc_model_run_units */
    unsigned workers;
    double seconds;
};

/* Opens the model and the samples that --samples, --seed and --shard choose. w may be NULL. Errors: as of
   quantize/opening/model.h. */
bool qc_model_run_open(struct qc_model_run *out, const struct qc_model_source *model, const struct qc_data_source *data,
                       enum qc_data_use use, const struct qc_options *o, struct qc_warnings *w, struct qc_status *st);
void qc_model_run_close(struct qc_model_run *r); /* zeroed is fine */

/* Plan and workers, by --threads and --memory-limit; memory of the overflows from the arena. */
bool qc_model_run_plan(struct qc_model_run *r, const struct qc_plan_options *how, const struct qc_options *o,
                       struct qc_arena *a, struct qc_status *st);

/* Runs all units; unit is called in the workers. Warnings of accumulators of so many bits go to w. */
bool qc_model_run_units(struct qc_model_run *r, qc_stream_unit_fn *unit, void *user, unsigned bits,
                        struct qc_progress *progress, struct qc_warnings *w, struct qc_status *st);
