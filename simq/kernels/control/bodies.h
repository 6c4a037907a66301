// SPDX-License-Identifier: Apache-2.0
/* Plans and runners of the bodies of If, Loop and Scan. */
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

/* Runs body k once with the given inputs (as many as it has, any strides). Outputs of *runner are valid until its
   next run. */
bool qc_body_run(struct qc_runner **runner, const struct qc_run *r, unsigned k, const struct qc_view *in,
                 struct qc_status *st);

/* Returns a copy of a view as a tensor. */
struct qc_tensor *qc_body_keep(const struct qc_run *r, const struct qc_view *v, struct qc_status *st);

/* Reads the first element of a condition. Fails if it has none (QC_BAD_INPUT). */
bool qc_body_condition(bool *out, const struct qc_view *v, struct qc_status *st);

/* Implements `run` for results of known shapes with the kernel's `make`, by copying. */
bool qc_run_made(bool (*make)(struct qc_tensor **outputs, const struct qc_run *r, struct qc_status *st),
                 const struct qc_run *r, struct qc_status *st);
