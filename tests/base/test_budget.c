// SPDX-License-Identifier: Apache-2.0
#include "base/budget.h"
#include "base/resident.h"
#include "tests/check.h"

enum { MIB = 1 << 20 };

Test(budget, what_is_held_counts_against_the_users_limit)
{
    const size_t held = qc_resident_bytes();
    static const struct {
        size_t beside, bytes; /* of the limit beside what is held; asked for */
        bool fits;
    } cases[] = {{64 * MIB, 32 * MIB, true},
                 {64 * MIB, 96 * MIB, false},
                 {64 * MIB, SIZE_MAX, false},
                 {0, QC_BUDGET_GRAIN - 1, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct qc_budget b = {.memory_limit = held + cases[i].beside};
        struct qc_status st = QC_STATUS_INIT;
        cr_expect_eq(qc_budget_hold(&b, cases[i].bytes, &st), cases[i].fits, "case %zu: %s", i, st.message);
        cr_expect(cases[i].fits ? st.code == QC_OK : st.code == QC_MACHINE && strstr(st.message, "--memory-limit"),
                  "case %zu: %s", i, st.message);
    }
    cr_expect_not(qc_budget_hold(&(struct qc_budget){.memory_limit = 1}, 2 * MIB, ST), "less than is held already");
}

Test(budget, without_a_limit_the_machine_is_asked)
{
    const struct qc_budget none = {0};
    cr_expect(qc_machine_left() > 16 * MIB, "%zu", qc_machine_left());
    SHOULD(qc_budget_hold(&none, 2 * MIB, ST));
    if (qc_machine_left() == SIZE_MAX) cr_skip_test("the system does not say what it has");
    REFUSES(qc_budget_hold(&none, (size_t)1 << 50, ST), QC_MACHINE, "machine");
}

Test(budget, files_count_before_they_are_read)
{
    char path[] = "budget-XXXXXX";
    const int fd = mkstemp(path);
    const struct qc_budget b = {.memory_limit = qc_resident_bytes() + (size_t)64 * MIB};
    cr_assert(fd >= 0 && ftruncate(fd, 48 * MIB) == 0);
    SHOULD(qc_budget_file(&b, path, 1, ST));
    REFUSES(qc_budget_file(&b, path, 2, ST), QC_MACHINE, "96.0 MiB");
    close(fd);
    unlink(path);
    cr_expect(qc_budget_file(&b, path, 2, ST), "what is not there is said when it is read");
}

Test(budget, a_run_gets_as_much_as_model_and_inputs_explain)
{
    static const struct {
        size_t limit, model, inputs, bytes;
        bool fits;
    } cases[] = {
        {0, 150, 1536, (size_t)512 * MIB, true},
        {0, 150, 1536, (size_t)513 * MIB, false},
        {0, (size_t)100 * MIB, 0, (size_t)6912 * MIB, true}, /* 512 + 64 * 100 */
        {0, (size_t)100 * MIB, 0, (size_t)6913 * MIB, false},
        {0, 0, (size_t)100 * MIB, (size_t)26112 * MIB, true}, /* 512 + 256 * 100 */
        {0, 0, (size_t)100 * MIB, (size_t)26113 * MIB, false},
        {0, SIZE_MAX / 2, SIZE_MAX / 2, SIZE_MAX, true},           /* nothing wraps round */
        {(size_t)8192 * MIB, 150, 1536, (size_t)8192 * MIB, true}, /* the user's word counts, up and down */
        {(size_t)100 * MIB, 150, 1536, (size_t)101 * MIB, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct qc_budget b = {.memory_limit = cases[i].limit, .model_bytes = cases[i].model};
        cr_expect_eq(qc_budget_run(&b, cases[i].bytes, cases[i].inputs, ST), cases[i].fits, "case %zu: %s", i,
                     failure.message);
        cr_expect(cases[i].fits || (failure.code == QC_MACHINE && strstr(failure.message, "--memory-limit")),
                  "case %zu: %s", i, failure.message);
    }
}

Test(budget, folding_keeps_an_account)
{
    const struct qc_budget small = {.model_bytes = 150}, large = {.model_bytes = (size_t)500 * MIB},
                           tight = {.memory_limit = 1, .model_bytes = 150};
    struct qc_folding f = qc_folding_begin(&small);
    cr_expect_not(qc_folding_take(&f, (size_t)129 * MIB, 0), "of one constant");
    cr_expect(qc_folding_take(&f, (size_t)128 * MIB, 0));
    cr_expect(qc_folding_take(&f, (size_t)128 * MIB, 0), "what was refused is not counted");
    cr_expect_not(qc_folding_take(&f, 1 * MIB, 0), "together");
    cr_expect_not(qc_folding_take(&f, 0, UINT64_C(1) << 31), "work");
    cr_expect(qc_folding_take(&f, 0, UINT64_C(1) << 30));
    cr_expect_not(qc_folding_take(&f, 0, UINT64_C(1) << 20));
    f = qc_folding_begin(&tight); /* what is folded does not depend on the limit */
    cr_expect(qc_folding_take(&f, (size_t)128 * MIB, 0));
    f = qc_folding_begin(&large); /* a weight of all of it in 4 bits, and 12 masks of 4096 x 4096 */
    cr_expect(qc_folding_take(&f, (size_t)4000 * MIB, (uint64_t)4000 * MIB));
    for (int i = 0; i < 12; i++) cr_expect(qc_folding_take(&f, (size_t)128 * MIB, 5U * 4096 * 4096));
}
