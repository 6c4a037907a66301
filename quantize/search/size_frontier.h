// SPDX-License-Identifier: Apache-2.0
/* --size: minimizes the error for a number of bytes. Each unit has a few points of bytes and error; errors add up.
   Steps go along the lower convex hull of each unit, in the order of the gain per byte (the path of a Lagrange
   multiplier from infinity to 0). */
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

/* A unit goes from its previous point to this one. bytes, error: sums over all units after the step. */
struct qc_size_step {
    size_t unit, point;
    size_t bytes;
    double error;
};

struct qc_size_frontier {
    size_t unit_count;
    const struct qc_size_unit *units; /* borrowed */
    size_t *first;                    /* [unit_count]: the point with fewest bytes */
    size_t least_bytes;               /* sum of bytes of these points; least_error: sum of their errors */
    double least_error;
    size_t step_count;
    struct qc_size_step *steps; /* sorted by gain per byte, most first; of equal ones the earlier unit */
};

/* Arrays from the arena. */
bool qc_size_frontier(struct qc_size_frontier *out, const struct qc_size_unit *units, size_t count, struct qc_arena *a,
                      struct qc_status *st);

/* Chooses points [unit_count] for at most `bytes` bytes and sets *sum to their sums. Takes the steps in order and
   passes over those that do not fit. Returns false if least_bytes exceeds `bytes`. */
bool qc_size_choose(size_t *points, struct qc_size_point *sum, const struct qc_size_frontier *f, size_t bytes);

/* Improves a choice that fits: the steps leave bytes unused if a large one does not fit. Adds up units one by one and
   keeps, of all sums of their points that fit, those with the least error for their bytes, thinned out to
   QC_SIZE_SUMS. With few units the result is the best possible. */
enum { QC_SIZE_SUMS = 1024 };
bool qc_size_improve(size_t *points, struct qc_size_point *sum, const struct qc_size_frontier *f, size_t bytes,
                     struct qc_status *st);
