// SPDX-License-Identifier: Apache-2.0
/* Runs a model, float or quantized, over samples, for run, eval and compare. */
#pragma once

#include "calib/statistics/stream.h"
#include "quantize/interface/inputs.h"
#include "quantize/setup/model.h"
#include "rewrite/canonical/canonical.h"
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
   quantize/setup/model.h. */
bool qc_model_run_open(struct qc_model_run *out, const struct qc_model_source *model, const struct qc_data_source *data,
                       enum qc_data_use use, const struct qc_options *o, struct qc_warnings *w, struct qc_status *st);
void qc_model_run_close(struct qc_model_run *r); /* zeroed is fine */

/* Makes plan and workers by --threads and --memory-limit; the overflows are allocated from the arena. */
bool qc_model_run_plan(struct qc_model_run *r, const struct qc_settings *settings, struct qc_arena *a,
                       struct qc_status *st);

/* Runs all units; unit is called in the workers. Warnings about accumulators of `bits` bits go to w. */
bool qc_model_run_units(struct qc_model_run *r, qc_stream_unit_fn *unit, void *user, unsigned bits,
                        struct qc_progress *progress, struct qc_warnings *w, struct qc_status *st);

/* A quantized model in its canonical form, as used by run, eval, compare and convert. */

/* Name and summary for 'qcalib list passes'. */
#define QC_CANONICAL_PASS "canonical"
#define QC_CANONICAL_SUMMARY                                                                                           \
    "quantized models: QuantizeLinear, DequantizeLinear and QLinear operators become values with parameters; expand, " \
    "fold, "                                                                                                           \
    "realise follow"

struct qc_canonical_model {
    struct qc_lines notes;                 /* texts are held by `canonical` */
    struct qc_graph *canonical, *produced; /* before and after expand, fold and realise */
};

/* Brings a model to canonical and produced form. Fails if a pass or the check of a graph fails. */
bool qc_canonical_model_of(struct qc_canonical_model *out, const struct qc_graph *imported, struct qc_status *st);
void qc_canonical_model_free(struct qc_canonical_model *m); /* members may be NULL or zeroed */

/* If an opened model is quantized, replaces its graph by the produced form: groups of DequantizeLinear, op,
   QuantizeLinear then run as the integer operators that runtimes fuse them to. */
bool qc_model_canonicalise(struct qc_model *m, struct qc_status *st);
