// SPDX-License-Identifier: Apache-2.0

#include "quantize/search/searches.h"
#include "tests/check.h"

/* The third point of the second unit is no better for its size than its neighbours; one of the third is worse than a
   smaller one. */
static const struct qc_size_unit units[] = {
    {3, {{80, 0}, {40, 1}, {20, 9}}},
    {4, {{100, 1}, {50, 10}, {75, 6}, {25, 30}}},
    {3, {{10, 2}, {20, 3}, {30, 1}}},
};
enum { UNITS = sizeof units / sizeof *units };

Test(size_frontier, steps_along_the_hull_in_the_order_of_their_gain)
{
    struct qc_size_frontier f;
    MUST(qc_size_frontier(&f, units, UNITS, test_arena(), ST));
    cr_assert_eq(f.least_bytes, 20 + 25 + 10);
    cr_assert_float_eq(f.least_error, 9 + 30 + 2, 1e-12);
    static const struct {
        size_t unit, point, bytes;
        double error;
    } expected[] = {{1, 1, 80, 21}, {0, 1, 100, 13}, {1, 0, 150, 4}, {2, 2, 170, 3}, {0, 0, 210, 2}};
    cr_assert_eq(f.step_count, sizeof expected / sizeof *expected);
    for (size_t i = 0; i < f.step_count; i++) {
        cr_assert_eq(f.steps[i].unit, expected[i].unit, "step %zu", i);
        cr_assert_eq(f.steps[i].point, expected[i].point, "step %zu", i);
        cr_assert_eq(f.steps[i].bytes, expected[i].bytes, "step %zu", i);
        cr_assert_float_eq(f.steps[i].error, expected[i].error, 1e-9, "step %zu", i);
    }
}

Test(size_frontier, what_fits_behind_a_step_that_does_not_is_taken)
{
    struct qc_size_frontier f;
    struct qc_size_point sum;
    size_t points[UNITS];
    MUST(qc_size_frontier(&f, units, UNITS, test_arena(), ST));
    cr_assert_not(qc_size_choose(points, &sum, &f, 54));
    static const struct {
        size_t bytes, points[UNITS], sum;
        double error;
    } rows[] = {{55, {2, 3, 0}, 55, 41},   {79, {1, 3, 0}, 75, 33},   {100, {1, 1, 0}, 100, 13},
                {119, {1, 1, 0}, 100, 13}, {149, {1, 1, 2}, 120, 12}, {190, {1, 0, 2}, 170, 3},
                {1000, {0, 0, 2}, 210, 2}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cr_assert(qc_size_choose(points, &sum, &f, rows[i].bytes));
        for (size_t u = 0; u < UNITS; u++) cr_expect_eq(points[u], rows[i].points[u], "row %zu, unit %zu", i, u);
        cr_expect_eq(sum.bytes, rows[i].sum, "row %zu: %zu", i, sum.bytes);
        cr_expect_float_eq(sum.error, rows[i].error, 1e-9, "row %zu: %g", i, sum.error);
    }
}

/* Against all choices there are: where the budget is that of a step, nothing is better. */
Test(size_frontier, no_choice_of_the_size_of_a_step_is_better)
{
    struct qc_size_frontier f;
    MUST(qc_size_frontier(&f, units, UNITS, test_arena(), ST));
    for (size_t i = 0; i < f.step_count; i++)
        for (size_t a = 0; a < units[0].count; a++)
            for (size_t b = 0; b < units[1].count; b++)
                for (size_t c = 0; c < units[2].count; c++) {
                    const struct qc_size_point *p[] = {&units[0].points[a], &units[1].points[b], &units[2].points[c]};
                    const size_t bytes = p[0]->bytes + p[1]->bytes + p[2]->bytes;
                    const double error = p[0]->error + p[1]->error + p[2]->error;
                    cr_assert(bytes > f.steps[i].bytes || error >= f.steps[i].error - 1e-9);
                }
}

Test(size_frontier, the_improved_choice_is_the_best_of_all)
{
    struct qc_size_frontier f;
    size_t better = 0;
    MUST(qc_size_frontier(&f, units, UNITS, test_arena(), ST));
    for (size_t bytes = f.least_bytes; bytes <= 211; bytes++) {
        struct qc_size_point sum, exact = {0};
        size_t points[UNITS];
        double best = 1e9;
        cr_assert(qc_size_choose(points, &sum, &f, bytes));
        const double before = sum.error;
        MUST(qc_size_improve(points, &sum, &f, bytes, ST));
        for (size_t a = 0; a < units[0].count; a++)
            for (size_t b = 0; b < units[1].count; b++)
                for (size_t c = 0; c < units[2].count; c++) {
                    const struct qc_size_point *p[] = {&units[0].points[a], &units[1].points[b], &units[2].points[c]};
                    const double error = p[0]->error + p[1]->error + p[2]->error;
                    if (p[0]->bytes + p[1]->bytes + p[2]->bytes <= bytes && error < best) best = error;
                }
        for (size_t u = 0; u < UNITS; u++) {
            exact.bytes += units[u].points[points[u]].bytes;
            exact.error += units[u].points[points[u]].error;
        }
        cr_expect(sum.bytes == exact.bytes && sum.bytes <= bytes, "%zu bytes", bytes);
        cr_expect_float_eq(sum.error, exact.error, 1e-9, "%zu bytes", bytes);
        cr_expect_float_eq(sum.error, best, 1e-9, "%zu bytes: %g, the best is %g", bytes, sum.error, best);
        better += sum.error < before;
    }
    cr_expect_gt(better, 0);
}

/* More units than sums are kept for: nearly all bytes are used. */
Test(size_frontier, many_units)
{
    enum { MANY = 300 };
    struct qc_size_unit *many = QC_NEW_ARRAY(test_arena(), struct qc_size_unit, MANY, ST);
    struct qc_size_frontier f;
    struct qc_size_point sum;
    size_t points[MANY];
    cr_assert(many);
    for (size_t u = 0; u < MANY; u++) {
        const size_t n = 1000 + 977 * u % 1009;
        many[u] = (struct qc_size_unit){3, {{n, 16.0 + (double)(u % 7)}, {2 * n, 1}, {4 * n, 0.01}}};
    }
    MUST(qc_size_frontier(&f, many, MANY, test_arena(), ST));
    const size_t bytes = f.least_bytes * 5 / 2;
    cr_assert(qc_size_choose(points, &sum, &f, bytes));
    const double before = sum.error;
    MUST(qc_size_improve(points, &sum, &f, bytes, ST));
    cr_expect(sum.bytes <= bytes && sum.bytes > bytes - 1000, "%zu of %zu", sum.bytes, bytes);
    cr_expect(sum.error <= before, "%g, before %g", sum.error, before);
}
