// SPDX-License-Identifier: Apache-2.0
/* Samples for the bodies of If, Loop and Scan: their inputs while the model runs on its own samples. */
#pragma once

#include "quantize/pipeline_state.h"

/* One body and its result. */
struct qc_body_job {
    const struct qc_graph *body; /* float, of p->real */
    const char *name;            /* "loop/body" */
    uint64_t runs;               /* number of runs on the samples of the model */
    const char *reason;          /* why it stays in float; NULL if it is quantized */
    struct qc_pipeline *p;       /* its own; NULL: it stays in float. Owned by its maker (quantize/body_job.h) */
    void *made;
};

struct qc_memory_data;
struct qc_body_samples;

/* Runs the samples of p through p->real and keeps the inputs of the bodies of p->bodies: evenly spread runs, at most
   QC_BODY_SAMPLES_MAX and QC_BODY_SAMPLES_BYTES for each body (less with --memory-limit). With --propagate or
   --accumulator only runs with the shapes of the first run are kept. Errors: those of runs. */
enum { QC_BODY_SAMPLES_MAX = 2048, QC_BODY_SAMPLES_BYTES = 128 << 20 };
bool qc_body_samples_take(struct qc_body_samples **out, const struct qc_pipeline *p, struct qc_status *st);
void qc_body_samples_free(struct qc_body_samples *s); /* NULL-safe */

/* Number of runs of body i, and of those whose shapes did not fit and were not kept. */
uint64_t qc_body_samples_runs(const struct qc_body_samples *s, size_t i);
uint64_t qc_body_samples_others(const struct qc_body_samples *s, size_t i);

/* Returns the shape of input k in the first run of body i. */
struct qc_shape qc_body_samples_shape(const struct qc_body_samples *s, size_t i, size_t k);

/* Makes data of the samples of body i: an array for each of its inputs, by name. Call once for each body; the data
   borrow from s. */
bool qc_body_samples_data(struct qc_memory_data **out, struct qc_body_samples *s, size_t i, const char *name,
                          struct qc_status *st);
