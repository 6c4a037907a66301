// SPDX-License-Identifier: Apache-2.0
#include "datasets/samples/dataset.h"
#include "tests/check.h"

static void set_up(void)
{
}

TestSuite(choice, .init = set_up);

Test(choice, spread_evenly)
{
    uint64_t got[5];
    static const uint64_t wanted[5] = {0, 20, 40, 60, 80}, uneven[5] = {0, 1, 2, 4, 5}; /* floor(j * 7 / 5) */
    struct qc_selection all = {.samples = 0};
    MUST(qc_select_units(got, 5, 100, &all, ST));
    cr_assert_arr_eq(got, wanted, sizeof got);
    MUST(qc_select_units(got, 5, 7, &all, ST));
    cr_assert_arr_eq(got, uneven, sizeof got);
    /* no overflow: floor(4 * (2^63 + 3) / 5), computed with Python's integers */
    MUST(qc_select_units(got, 5, UINT64_C(9223372036854775811), &all, ST));
    cr_assert_eq(got[4], UINT64_C(7378697629483820648));
}

Test(choice, draws_without_replacement_in_order)
{
    static const size_t counts[] = {1, 2, 99, 100};
    for (size_t k = 0; k < 4; k++)
        for (uint64_t seed = 0; seed < 20; seed++) {
            uint64_t got[100];
            MUST(qc_select_units(got, counts[k], 100, &(struct qc_selection){.drawn = true, .seed = seed}, ST));
            for (size_t i = 0; i < counts[k]; i++)
                cr_assert(got[i] < 100 && (i == 0 || got[i] > got[i - 1]), "seed %zu", (size_t)seed);
        }
}

Test(choice, draws_depend_on_the_seed_alone)
{
    uint64_t a[10], b[10], c[10];
    MUST(qc_select_units(a, 10, 1000, &(struct qc_selection){.drawn = true, .seed = 1}, ST));
    MUST(qc_select_units(b, 10, 1000, &(struct qc_selection){.drawn = true, .seed = 1}, ST));
    MUST(qc_select_units(c, 10, 1000, &(struct qc_selection){.drawn = true, .seed = 2}, ST));
    cr_assert_arr_eq(a, b, sizeof a);
    cr_assert(memcmp(a, c, sizeof a) != 0);
}

/* Every unit equally likely: 3 of 10 in 20000 draws; sd of a count is 65, so 6 sd are 390. */
Test(choice, draws_are_uniform)
{
    size_t counts[10] = {0};
    for (uint64_t seed = 0; seed < 20000; seed++) {
        uint64_t got[3];
        MUST(qc_select_units(got, 3, 10, &(struct qc_selection){.drawn = true, .seed = seed}, ST));
        for (size_t i = 0; i < 3; i++) counts[got[i]]++;
    }
    for (size_t i = 0; i < 10; i++) cr_expect(counts[i] > 5610 && counts[i] < 6390, "unit %zu: %zu", i, counts[i]);
}

Test(choice, takes_the_least_keys_whatever_their_order)
{
    static const uint64_t keys[] = {7, 2, 9, 2, 5, 1}, other[] = {9, 1, 2, 7, 2, 5}, first[] = {1, 3, 5},
                          then[] = {1, 2, 4};
    uint64_t got[3];
    MUST(qc_select_units(got, 3, 6, &(struct qc_selection){.keys = keys}, ST));
    cr_assert_arr_eq(got, first, sizeof got);
    MUST(qc_select_units(got, 3, 6, &(struct qc_selection){.keys = other}, ST));
    cr_assert_arr_eq(got, then, sizeof got);
}
