// SPDX-License-Identifier: Apache-2.0
/* Two quantizers around a function that leaves what is not negative as it is (LeakyRelu, PRelu, Elu): where the second
   has the scale of the first, or a whole part of it, its rounding changes nothing there
   (docs/decisions/0038-one-rounding-for-leaky-relu.md). */
#pragma once

#include "calib/ranges/look_through.h"
#include "graph/core/uses.h"
#include "observers/observer.h"

struct qc_one_scale {
    qc_id behind;                /* the quantizer of the function's results; 0: none */
    qc_id before;                /* the quantizer of which this one is that; 0: none */
    struct qc_output_function f; /* between this one and `behind`; one thread at a time */
};

/* *out: [qparams_count + 1] by quantizer, in the arena. A pair is where nothing but one function of one variable, or a
   PRelu of slopes from -1 to 1, reads what it stores, nothing but another quantizer reads that, and both have one scale
   that is to be chosen. A quantizer is in one pair only. looks: of g (calib/ranges/look_through.h). Errors: memory. */
bool qc_one_scale_pairs(struct qc_one_scale **out, const struct qc_graph *g, const struct qc_uses *uses,
                        const struct qc_look *looks, struct qc_arena *a, struct qc_status *st);

/* What the first quantizer of a pair has seen, as points: the same for each range that is tried. Zeroed: not made yet.
 */
struct qc_one_scale_seen {
    size_t count;
    double *x, *y, *weight; /* [count]: of what was seen; the function of it; how many values */
    double total;           /* of weight */
};
void qc_one_scale_forget(struct qc_one_scale_seen *seen);

/* `chosen` is the range that `before` got by itself, h what it has seen. *shared: the function is the identity from 0
   on, and the error behind both quantizers is no more with one scale than with one each, its mean counted more. Then
   *first and *second are their ranges, of which lo and hi are set: the first has more room below zero, but not more
   than was seen and known_lo. seen: of this pair, zeroed at first, and to be forgotten at last. Errors: memory. */
bool qc_one_scale_choose(bool *shared, struct qc_range *first, struct qc_range *second, struct qc_one_scale_seen *seen,
                         const struct qc_one_scale *pair, const struct qc_graph *g, qc_id before,
                         const struct qc_range *chosen, double known_lo, const struct qc_histogram *h,
                         struct qc_status *st);
