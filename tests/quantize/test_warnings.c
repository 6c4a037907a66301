// SPDX-License-Identifier: Apache-2.0
#include <sys/resource.h>

#include "quantize/interface/warnings.h"
#include "tests/check.h"

Test(warnings, grouped_in_order)
{
    struct qc_warnings *w;
    MUST(qc_warnings_new(&w, ST));
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 40; k++) qc_warn(w, "node %d", k);
    }
    qc_warn(w, "once");
    cr_assert_eq(qc_warnings_count(w), 41);
    cr_assert_str_eq(qc_warnings_text(w, 39), "node 39");
    cr_assert_eq(qc_warnings_times(w, 39), 3);
    cr_assert_eq(qc_warnings_times(w, 40), 1);
    qc_warnings_free(w);
    qc_warnings_free(NULL);
}

Test(warnings, those_of_repeated_stages_go)
{
    struct qc_warnings *w;
    MUST(qc_warnings_new(&w, ST));
    for (int k = 0; k < 5; k++) qc_warn(w, "stage %d", k);
    qc_warnings_drop(w, 3, 3);
    cr_assert_eq(qc_warnings_count(w), 5);
    qc_warnings_drop(w, 1, 3);
    cr_assert_eq(qc_warnings_count(w), 3);
    cr_assert_str_eq(qc_warnings_text(w, 0), "stage 0");
    cr_assert_str_eq(qc_warnings_text(w, 1), "stage 3");
    qc_warn(w, "stage 1");
    cr_assert_str_eq(qc_warnings_text(w, 3), "stage 1");
    qc_warnings_free(w);
}

/* A sanitizer has its own allocator and ends the process; an emulator has no limit of address space. */
#if !defined(QC_TEST_SANITIZED) && !defined(QC_TEST_EMULATED)
/* Allocates until nothing is left below a limit of address space. */
static void take_all_memory(void)
{
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    cr_assert(f && fscanf(f, "%lu", &pages) == 1);
    fclose(f);
    const rlim_t bytes = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + (4 << 20);
    cr_assert_eq(setrlimit(RLIMIT_AS, &(struct rlimit){bytes, RLIM_INFINITY}), 0);
    for (size_t size = 1 << 20; size; size = size > 1024 ? size / 2 : size - 8)
        for (volatile char *p; (p = malloc(size));) *p = 1; /* it stays */
}

Test(warnings, a_lost_one_is_told)
{
    struct qc_warnings *none, *one;
    struct rlimit before;
    cr_assert_eq(getrlimit(RLIMIT_AS, &before), 0);
    cr_assert(qc_warnings_new(&none, ST) && qc_warnings_new(&one, ST));
    qc_warn(one, "node 0");
    take_all_memory();
    qc_warn(one, "node 0");
    const bool lost_yet = qc_warnings_lost(one);
    qc_warn(one, "node 1");  /* no memory for the text */
    qc_warn(none, "node 0"); /* none for the list */
    setrlimit(RLIMIT_AS, &before);
    cr_expect_not(lost_yet, "it is known already");
    cr_expect(qc_warnings_lost(one) && qc_warnings_lost(none));
    cr_expect(qc_warnings_count(one) == 1 && qc_warnings_count(none) == 0);
}
#endif
