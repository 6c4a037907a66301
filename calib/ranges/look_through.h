// SPDX-License-Identifier: Apache-2.0
/* Functions that alone read the values of a quantizer (graph/core/function.h), in a form that observers can
   evaluate. */
#pragma once

#include "graph/core/graph.h"
#include "observers/observer.h"

struct qc_look {
    const char *text;                 /* NULL: none */
    struct qc_output_function behind; /* computes in float32, as the simulated graph does; one thread at a time */
};

/* Computes *out: [qparams_count + 1], by qparams of the simulated graph g, in the arena. Fails if memory is out, or
   with QC_UNSUPPORTED on an attribute that is not handled. */
bool qc_look_through(struct qc_look **out, const struct qc_graph *g, struct qc_arena *a, struct qc_status *st);
