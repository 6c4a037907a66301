// SPDX-License-Identifier: Apache-2.0
/* Constants that several graphs of a model have: bodies of If, Loop and Scan, or a body and a graph around it. */
#pragma once

#include "graph/core/graph.h"

struct qc_shared_constants {
    size_t count;
    struct qc_shared_constant {
        const struct qc_tensor *tensor; /* borrowed */
        const char *name;               /* in one of the graphs, or NULL */
    } * of;                             /* [count], each content once */
};

/* Finds those of at least `least` bytes in g and its bodies. Arrays are in the arena. */
bool qc_shared_constants_of(struct qc_shared_constants *out, const struct qc_graph *g, size_t least, struct qc_arena *a,
                            struct qc_status *st);

enum { QC_SHARED_NONE = -1 };

/* Returns the index of the constant with this content, or QC_SHARED_NONE. */
int64_t qc_shared_constants_find(const struct qc_shared_constants *s, const struct qc_tensor *t);
