// SPDX-License-Identifier: Apache-2.0
#include "calib/metrics/compare.h"
#include "tests/check.h"

enum { COUNT = 300 };

/* Levels of 8 bits are kept in bytes; a value with other numbers is kept unchanged. Both are read back as the same
   numbers, in the same memory order. */
Test(kept_value, is_the_same_when_it_is_read)
{
    static const struct {
        float odd;
        bool bytes;
        enum qc_dtype dtype;
    } cases[] = {{3, true, QC_U8},          {-100, true, QC_U8},   {155, true, QC_U8},  {-101, false, QC_U8},
                 {156, false, QC_U8},       {0.5f, false, QC_U8},  {NAN, false, QC_U8}, {INFINITY, false, QC_U8},
                 {-INFINITY, false, QC_U8}, {1e30f, false, QC_U8}, {3, false, QC_U16}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct qc_kept_value kept = {.as_bytes = false};
        float x[COUNT], to[COUNT], scale = 1;
        int32_t zero = 100;
        const struct qc_qparams s = {.dtype = cases[k].dtype, .count = 1, .scale = &scale, .zero_point = &zero};
        const struct qc_shape shape = QC_SHAPE(1, 3, 10, 10);
        for (int i = 0; i < COUNT; i++) x[i] = (float)(i % 256 - 100);
        x[COUNT - 3] = cases[k].odd;
        const struct qc_view v = qc_view_of(QC_F32, &shape, QC_LAYOUT_LAST, x);
        MUST(qc_keep_value(&kept, &v, &s, ST));
        cr_expect_eq(kept.as_bytes, cases[k].bytes, "case %zu", k);
        const struct qc_view back = qc_kept_levels(to, &kept, &s);
        cr_expect(qc_view_same_order(&back, &v), "case %zu", k);
        cr_expect(memcmp(back.data, x, sizeof x) == 0, "case %zu", k);
        if (kept.as_bytes) {
            qc_kept_part(to, &kept, &s, 37, 200);
            cr_expect(memcmp(to, x + 37, 200 * sizeof *x) == 0, "case %zu", k);
        }
        free(kept.room.data);
    }
}
