// SPDX-License-Identifier: Apache-2.0
/* A graph whose inputs have other shapes from one run to the next: a plan for each set of shapes, made when it is first
   met and kept. Bodies of nodes, what follows a shape that depends on data, and samples of different sizes are run by
   it. Plans are shared by workers; each worker has runners of its own. */
#pragma once

#include "simq/plan/plan.h"

struct qc_variants;
struct qc_variant_runners;

/* Takes a reference to g, copies what options point to. */
bool qc_variants_new(struct qc_variants **out, const struct qc_graph *g, const struct qc_plan_options *options,
                     struct qc_status *st);
void qc_variants_free(struct qc_variants *v); /* NULL-safe; behind all of its runners */

/* The plan for these shapes, made if it is not there; valid until other shapes are asked for. */
bool qc_variants_plan(const struct qc_plan **out, struct qc_variants *v, const struct qc_shape *shapes,
                      struct qc_status *st);
/* From here on a worker keeps one runner, and plans that nobody runs are kept up to so many bytes. Else a fixed number
   of each is. */
void qc_variants_bound(struct qc_variants *v, size_t idle);

/* Those of one worker. */
bool qc_variant_runners_new(struct qc_variant_runners **out, const struct qc_variants *v, struct qc_status *st);
void qc_variant_runners_free(struct qc_variant_runners *r);

/* The runner for these shapes of the graph's inputs; valid until the next call with others. Errors: of qc_plan_new. */
bool qc_variant_runner(struct qc_runner **out, struct qc_variant_runners *r, const struct qc_shape *shapes,
                       struct qc_status *st);
