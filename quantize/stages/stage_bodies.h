// SPDX-License-Identifier: Apache-2.0
/* The stage of the bodies of If, Loop and Scan. Each body is quantized as a model of its own; its samples are its
   inputs over all iterations. Inputs and outputs of a body stay float. */
#pragma once

#include "export/formats/exporter.h"
#include "quantize/pipeline_state.h"

bool qc_stage_bodies(struct qc_pipeline *p, struct qc_status *st);

/* Returns the graph with quantized bodies; if no body is quantized, the rounded or simulated graph. */
const struct qc_graph *qc_graph_with_bodies(const struct qc_pipeline *p);

/* Lowers the bodies of a lowered graph; *io is replaced if it has any. p: the pipeline of the graph, NULL if it is a
   body that is not quantized. */
bool qc_lower_bodies(struct qc_graph **io, const struct qc_pipeline *p, const struct qc_exporter *e,
                     const struct qc_lower_options *options, struct qc_status *st);

/* Samples for the bodies of If, Loop and Scan: their inputs while the model runs on its own samples. */

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
uint64_t qc_body_samples_others(const struct qc_body_samples *s, size_t i);

/* Returns the shape of input k in the first run of body i. */
struct qc_shape qc_body_samples_shape(const struct qc_body_samples *s, size_t i, size_t k);

/* Makes data of the samples of body i: an array for each of its inputs, by name. Call once for each body; the data
   borrow from s. */
bool qc_body_samples_data(struct qc_memory_data **out, struct qc_body_samples *s, size_t i, const char *name,
                          struct qc_status *st);
