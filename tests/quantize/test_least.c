// SPDX-License-Identifier: Apache-2.0
/* The least of several values is found without computing all of them. */
#include "quantize/search/least.h"
#include "tests/check.h"

enum { JOBS = 20000, LIMIT = 6 };

static unsigned next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(*state >> 33);
}

/* Values are few, so that many are equal to each other, to bounds and to the limit. */
Test(least, is_that_of_all_values)
{
    uint64_t state = 1;
    size_t computed = 0, all = 0;
    for (int job = 0; job < JOBS; job++) {
        const size_t count = next_random(&state) % (QC_LEAST_MOST + 1);
        double values[QC_LEAST_MOST], best = LIMIT;
        size_t which = QC_LEAST_MOST, number;
        bool done[QC_LEAST_MOST] = {false};
        struct qc_least l;
        qc_least_begin(&l, LIMIT);
        for (size_t i = 0; i < count; i++) {
            const unsigned bound = next_random(&state) % 8;
            values[i] = bound + next_random(&state) % 3;
            qc_least_add(&l, bound);
            if (values[i] < best) {
                best = values[i];
                which = i;
            }
        }
        all += count;
        while (qc_least_next(&number, &l)) {
            cr_assert(number < count && !done[number], "each is computed once at most");
            done[number] = true;
            computed++;
            /* the computation may end above the best value */
            qc_least_take(&l, number, values[number] > l.best ? l.best + 0.5 : values[number]);
        }
        cr_assert_eq(l.which, which);
        cr_assert_eq(l.best, best);
    }
    cr_expect_lt(computed, all / 2);
}

Test(least, is_computed_first_if_its_bound_is_the_lowest)
{
    struct qc_least l;
    size_t number;
    qc_least_begin(&l, 1);
    qc_least_add(&l, 0.5);
    qc_least_add(&l, 0.25);
    qc_least_add(&l, 1);
    cr_assert(qc_least_next(&number, &l));
    cr_expect_eq(number, 1);
    qc_least_take(&l, number, 0.5);
    cr_assert(qc_least_next(&number, &l), "an equal value that was added before would count");
    cr_expect_eq(number, 0);
    qc_least_take(&l, number, 0.75);
    cr_expect(!qc_least_next(&number, &l), "not lower than the limit");
    cr_expect_eq(l.which, 1);
}
