// SPDX-License-Identifier: Apache-2.0
/* A plugin for the tests; CASE chooses what is wrong with it. Built into one shared object for each case. */
#include "include/qcalib/qcalib_observer.h"

#include <math.h>
#include <stdlib.h>

/* Writes down in which order samples were merged: a hash that is not commutative, and the mean of the maxima. */
struct state {
    double factor, sum, count, first;
};

static void *begin(const double *options)
{
    struct state *s = calloc(1, sizeof *s);
    if (s) s->factor = options[0];
    return s;
}

static int scan(void *state, const float *x, size_t n)
{
    struct state *s = state;
#if CASE == 7
    return n > 0 ? 3 : 0;
#endif
    double max = 0;
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(x[i])) return 9;
        max = (double)x[i] > max ? (double)x[i] : max;
    }
    s->sum = s->first = max;
    s->count = 1;
    return 0;
}

static int merge(void *into, const void *later)
{
    struct state *a = into;
    const struct state *b = later;
#if CASE == 8
    return 4;
#endif
    a->sum = a->sum * 0.9 + b->sum * 1.1; /* the order and the tree show in the result */
    a->count += b->count;
    return 0;
}

static int finish(const void *state, const struct qcalib_observer_request *request, double range[2])
{
    const struct state *s = state;
    range[0] = s->factor * request->min;
    range[1] = s->sum / s->count;
#if CASE == 4
    range[1] = NAN;
#elif CASE == 5
    range[0] = 2;
    range[1] = 1;
#elif CASE == 6
    return 5;
#endif
    return 0;
}

static void end(void *state)
{
    free(state);
}

static const struct qcalib_observer_option options[] = {
    {.name = "factor", .help = "of the minimum", .preset = 0.5, .min = 0, .max = CASE == 9 ? 0.1 : 1},
};

#if CASE == 2
#define ENTRY something_else
#else
#define ENTRY qcalib_observer_entry
#endif

const struct qcalib_observer ENTRY = {
    .abi = CASE == 1 ? QCALIB_OBSERVER_ABI + 1 : QCALIB_OBSERVER_ABI,
    .name = CASE == 3    ? "mse"
            : CASE == 10 ? "not a name"
                         : "case",
    .summary = "for the tests",
    .options = options,
    .option_count = CASE == 12 ? 100 : 1,
    .begin = begin,
    .scan = scan,
    .merge = CASE == 11 ? NULL : merge,
    .finish = finish,
    .end = end,
};
