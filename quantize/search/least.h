// SPDX-License-Identifier: Apache-2.0
/* Search for the least of several values that are expensive to compute, each with a lower bound that is not. Values are
   computed in the order of their bounds until no other one can be lower. The result is the same as if all of them were
   computed: of equal values, the one that was added first. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { QC_LEAST_MOST = 16 }; /* values */

struct qc_least {
    double best;                              /* the lowest value so far, or the limit */
    size_t which;                             /* its number; QC_LEAST_MOST: none is below the limit */
    size_t count, left, order[QC_LEAST_MOST]; /* order: those that are left, the lowest bound last */
    double bounds[QC_LEAST_MOST];             /* by number */
};

/* limit: only lower values are of interest. */
void qc_least_begin(struct qc_least *l, double limit);
/* Adds the next value, at most QC_LEAST_MOST. */
void qc_least_add(struct qc_least *l, double bound);
/* Sets *number to the value to be computed next. Returns false if no other value can be the least. */
bool qc_least_next(size_t *number, struct qc_least *l);
/* Takes a computed value. One that is not the least may be any number above l->best. */
void qc_least_take(struct qc_least *l, size_t number, double value);
