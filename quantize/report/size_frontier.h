// SPDX-License-Identifier: Apache-2.0
/* The least error that a file of so many bytes can have: each unit takes one of a few points of bytes and error, errors
   add up. Of each unit the points on the lower convex hull are taken, and steps from one to the next in the order of
   what they gain for a byte (the path of a Lagrange multiplier from infinity to 0). */
#pragma once

#include "base/arena.h"

enum { QC_SIZE_POINTS = 4 };

struct qc_size_point {
    size_t bytes;
    double error; /* not negative; finite */
};

struct qc_size_unit {
    size_t count; /* of points, at least 1, in any order */
    struct qc_size_point points[QC_SIZE_POINTS];
};

/* A unit goes from its point before to this one. Both are what all units have then. */
struct qc_size_step {
    size_t unit, point;
    size_t bytes;
    double error;
};

struct qc_size_frontier {
    size_t unit_count;
    const struct qc_size_unit *units; /* borrowed */
    size_t *first;                    /* [unit_count]: the point of fewest bytes */
    size_t least_bytes;               /* with those, and their error */
    double least_error;
    size_t step_count;
    struct qc_size_step *steps; /* what gains most for a byte first; of equal ones the earlier unit */
};

/* Arrays from the arena. */
bool qc_size_frontier(struct qc_size_frontier *out, const struct qc_size_unit *units, size_t count, struct qc_arena *a,
                      struct qc_status *st);

/* The points to take for at most so many bytes, and what they add up to: the steps in their order, and of those behind
   the first that does not fit the ones that do. false: least_bytes are more. points: [unit_count] */
bool qc_size_choose(size_t *points, struct qc_size_point *sum, const struct qc_size_frontier *f, size_t bytes);
