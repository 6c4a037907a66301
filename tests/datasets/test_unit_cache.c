// SPDX-License-Identifier: Apache-2.0
/* Units that are kept for those who read them again. */
#include <criterion/criterion.h>
#include <string.h>

#include "datasets/stream/unit_cache.h"

Test(unit_cache, units_are_kept_until_there_is_no_room)
{
    enum { BYTES = 64, UNITS = 1000, ROOM = 100 * BYTES };
    struct qc_status st = QC_STATUS_INIT;
    struct qc_unit_cache *c = NULL;
    char unit[BYTES];
    size_t kept = 0;
    cr_assert(qc_unit_cache_new(&c, ROOM, &st));
    cr_expect_null(qc_unit_cache_find(c, 0, 0));
    for (size_t u = 0; u < UNITS; u++) {
        memset(unit, (int)(u % 100), BYTES);
        qc_unit_cache_keep(c, u % 2, u, unit, BYTES);
        memset(unit, 101, BYTES);
        qc_unit_cache_keep(c, u % 2, u, unit, BYTES); /* it is there already */
    }
    for (size_t u = 0; u < UNITS; u++) {
        const void *x = qc_unit_cache_find(c, u % 2, u);
        memset(unit, (int)(u % 100), BYTES);
        cr_expect(!x || memcmp(x, unit, BYTES) == 0, "unit %zu", u);
        cr_expect_null(qc_unit_cache_find(c, 1 - u % 2, u));
        kept += x != NULL;
    }
    cr_expect(kept > 50 && kept < 100, "%zu", kept);
    cr_expect_not_null(qc_unit_cache_find(c, 0, 0));
    qc_unit_cache_clear(c);
    size_t again = 0;
    for (size_t u = 0; u < UNITS; u++) {
        cr_expect_null(qc_unit_cache_find(c, u % 2, u));
        qc_unit_cache_keep(c, u % 2, u, unit, BYTES);
        again += qc_unit_cache_find(c, u % 2, u) != NULL;
    }
    cr_expect_eq(again, kept);
    qc_unit_cache_free(c);
}
