// SPDX-License-Identifier: Apache-2.0
/* What the bodies of a model's nodes are handed on the samples of the model: samples of their own. */
#pragma once

#include "quantize/pipeline_state.h"

/* What became of one body. */
struct qc_body_job {
    const struct qc_graph *body; /* float, of p->real */
    const char *name;            /* "loop/body" */
    uint64_t runs;               /* on the samples of the model */
    const char *reason;          /* why it stays in float; NULL: it does not */
    struct qc_pipeline *p;       /* its own; NULL: it stays in float. owned by whoever made it (quantize/body_job.h) */
    void *made;
};

struct qc_memory_data;
struct qc_body_samples;

/* Runs the samples of p through p->real and keeps what the bodies of p->bodies are handed: of many iterations evenly
   spread ones, as many as some memory holds (QC_BODY_SAMPLES_BYTES each), all of the shapes that came first. */
enum { QC_BODY_SAMPLES_MAX = 2048, QC_BODY_SAMPLES_BYTES = 128 << 20 };
bool qc_body_samples_take(struct qc_body_samples **out, const struct qc_pipeline *p, struct qc_status *st);
void qc_body_samples_free(struct qc_body_samples *s); /* NULL-safe */

/* How often body i was run, and how often of these in other shapes than what was kept. */
uint64_t qc_body_samples_runs(const struct qc_body_samples *s, size_t i);
uint64_t qc_body_samples_others(const struct qc_body_samples *s, size_t i);

/* The shape of input k of body i in what was kept. */
struct qc_shape qc_body_samples_shape(const struct qc_body_samples *s, size_t i, size_t k);

/* What was kept of body i as data: an array for each of its inputs, by name. Once; valid while s is. */
bool qc_body_samples_data(struct qc_memory_data **out, struct qc_body_samples *s, size_t i, const char *name,
                          struct qc_status *st);
