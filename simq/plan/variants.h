// SPDX-License-Identifier: Apache-2.0
/* Plans of one graph for varying input shapes: a plan for each set of shapes is made at its first use and kept. It
   runs bodies of nodes, graphs after data-dependent shapes, and samples of different sizes. Workers share the
   plans; each worker has runners of its own. */
#pragma once

#include "simq/plan/plan.h"

struct qc_variants;
struct qc_variant_runners;

/* References g and copies the observed values of the options. */
bool qc_variants_new(struct qc_variants **out, const struct qc_graph *g, const struct qc_plan_options *options,
                     struct qc_status *st);
void qc_variants_free(struct qc_variants *v); /* NULL-safe; free all its runners first */

/* Returns the plan for these shapes, made if necessary; valid until other shapes are requested. */
bool qc_variants_plan(const struct qc_plan **out, struct qc_variants *v, const struct qc_shape *shapes,
                      struct qc_status *st);
/* Keeps one runner per worker and at most `idle` bytes of unused plans. By default a fixed number of each is kept. */
void qc_variants_bound(struct qc_variants *v, size_t idle);

/* The runners of one worker. */
bool qc_variant_runners_new(struct qc_variant_runners **out, const struct qc_variants *v, struct qc_status *st);
void qc_variant_runners_free(struct qc_variant_runners *r);

/* Returns the runner for these shapes of the graph's inputs; valid until the next call with other shapes. Frees the
   runners of other shapes if there is no memory for one more. Fails as qc_plan_new does, and with QC_MACHINE if the
   runner does not fit in the budget. */
bool qc_variant_runner(struct qc_runner **out, struct qc_variant_runners *r, const struct qc_shape *shapes,
                       struct qc_status *st);
