// SPDX-License-Identifier: Apache-2.0
/* How many of its cases a test runs. */
#ifndef QC_TESTS_EXTENT_H
#define QC_TESTS_EXTENT_H

#include <stdlib.h>

/* Returns `n`, or `sanitized` with a sanitizer, where a test takes ten times as long: run one of so many cases. Returns
   1 if QCALIB_LONG is set (scripts/test --long): run all cases. */
static inline size_t test_one_of(size_t n, size_t sanitized)
{
#ifdef QC_TEST_SANITIZED
    n = sanitized;
#else
#endif
    return getenv("QCALIB_LONG") ? 1 : n;
}

#endif
