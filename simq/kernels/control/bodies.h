// SPDX-License-Identifier: Apache-2.0
/* What the kernels of If, Loop and Scan share: plans and runners of their bodies. */
#pragma once

#include "graph/core/body.h"
#include "simq/core/kernel.h"
#include "simq/plan/variants.h"

struct qc_bodies_state {
    const struct qc_node *node; /* of the plan's graph */
    struct qc_bodies bodies;
    struct qc_variants *variants[QC_BODIES];
    const struct qc_body_watch *watch;
};

bool qc_bodies_prepare(struct qc_prepare *p, struct qc_status *st);
void qc_bodies_release_state(void *state);
bool qc_bodies_open(void **local, const struct qc_run *r, struct qc_status *st);
void qc_bodies_close(void *local);

/* Runs body k once with these inputs (as many as it has, any strides). Outputs of *runner are valid until it runs
 * again. */
bool qc_body_run(struct qc_runner **runner, const struct qc_run *r, unsigned k, const struct qc_view *in,
                 struct qc_status *st);

/* A tensor of the same numbers. */
struct qc_tensor *qc_body_keep(const struct qc_run *r, const struct qc_view *v, struct qc_status *st);

/* Whether a condition is true: the first element, of which there has to be one (QC_BAD_INPUT). */
bool qc_body_condition(bool *out, const struct qc_view *v, struct qc_status *st);

/* `run` of a kernel with results of known shapes, by its `make`: they are copied. */
bool qc_run_made(bool (*make)(struct qc_tensor **outputs, const struct qc_run *r, struct qc_status *st),
                 const struct qc_run *r, struct qc_status *st);
