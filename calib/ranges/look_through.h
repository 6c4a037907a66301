// SPDX-License-Identifier: Apache-2.0
/* Functions that the values of quantizers go through before anything else reads them (graph/core/output_function.h),
 * ready for observers. */
#pragma once

#include "graph/core/graph.h"
#include "observers/observer.h"

struct qc_look {
    const char *text;                 /* NULL: none */
    struct qc_output_function behind; /* computes in float32, as the simulated graph does; one thread at a time */
};

/* *out: [qparams_count + 1], by qparams of the simulated graph g, in the arena. Errors: memory; an attribute that is
 * not handled (QC_UNSUPPORTED). */
bool qc_look_through(struct qc_look **out, const struct qc_graph *g, struct qc_arena *a, struct qc_status *st);
