// SPDX-License-Identifier: Apache-2.0
/* How many of its cases a test runs. */
#ifndef QC_TESTS_EXTENT_H
#define QC_TESTS_EXTENT_H

#include <stdlib.h>

/* Returns `n` with a sanitizer, where a test takes ten times as long: run one of n cases. Otherwise, and if QCALIB_LONG
   is set (scripts/test --long), returns 1: run all cases. */
static inline size_t test_one_of(size_t n)
{
#ifdef QC_TEST_SANITIZED
    return getenv("QCALIB_LONG") ? 1 : n;
#else
    (void)n;
    return 1;
#endif
}

#endif
