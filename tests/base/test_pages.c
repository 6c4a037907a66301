// SPDX-License-Identifier: Apache-2.0
#include "base/resident.h"
#include "tests/check.h"

Test(pages, blocks_are_whole_and_aligned)
{
    static const struct {
        size_t bytes, taken, aligned;
    } cases[] = {{0, 64, 64},
                 {1, 64, 64},
                 {64, 64, 64},
                 {65, 128, 64},
                 {(2 << 20) - 1, 2 << 20, 64},
                 {2 << 20, 2 << 20, 2 << 20},
                 {(2 << 20) + 1, 4 << 20, 2 << 20}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_assert_eq(qc_pages_bytes(cases[i].bytes), cases[i].taken, "case %zu", i);
        QC_FREED void *p = qc_pages_new(cases[i].bytes);
        cr_assert(p && (uintptr_t)p % cases[i].aligned == 0, "case %zu", i);
        memset(p, 1, cases[i].taken);
    }
    cr_assert_null(qc_pages_new(SIZE_MAX));
}
