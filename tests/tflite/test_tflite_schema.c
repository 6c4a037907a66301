// SPDX-License-Identifier: Apache-2.0
#include "tests/check.h"
#include "tflite/schema/tflite_schema.h"

Test(tflite_schema, fields_of_a_table_stand_together_in_the_order_of_their_numbers)
{
    for (unsigned t = 1; t < qc_tfl_schema.table_count; t++) {
        size_t count = 0, of_table = 0;
        const size_t first = qc_tfl_schema.tables[t].first;
        for (size_t i = 0; i < qc_tfl_schema.field_count; i++) of_table += qc_tfl_schema.fields[i].table == t;
        while (first + count < qc_tfl_schema.field_count && qc_tfl_schema.fields[first + count].table == t) count++;
        cr_expect_eq(count, of_table, "%s", qc_tfl_schema.tables[t].name);
        for (size_t i = 1; i < count; i++)
            cr_expect_lt(qc_tfl_schema.fields[first + i - 1].number, qc_tfl_schema.fields[first + i].number, "%s",
                         qc_tfl_schema.tables[t].name);
    }
}

Test(tflite_schema, a_union_stands_behind_the_field_that_says_which)
{
    for (size_t i = 0; i < qc_tfl_schema.field_count; i++) {
        const struct qc_fb_field *f = &qc_tfl_schema.fields[i];
        if (f->type != QC_FB_UNION) continue;
        cr_assert_gt(i, 0);
        HOLD(f[-1].type == QC_FB_U8, f[-1].number + 1 == f->number);
    }
}

Test(tflite_schema, operators_and_types_have_the_codes_of_the_published_schema)
{
    cr_expect_str_eq(qc_tfl_operator_info(QC_TFL_OP_CONV_2D)->name, "CONV_2D");
    HOLD(QC_TFL_OP_CONV_2D == 3, QC_TFL_OP_HARD_SWISH == 117, QC_TFL_OP_GELU == 150);
    cr_expect_eq(qc_tfl_operator_info(3)->options, QC_TFL_TABLE_Conv2DOptions);
    cr_expect_eq(qc_tfl_schema.tables[QC_TFL_TABLE_BatchMatMulOptions].in_union, 101);
    cr_expect_null(qc_tfl_operator_info(-1));
    cr_expect_null(qc_tfl_operator_info(100000));
    HOLD(qc_dtype_from_tfl(9) == QC_I8, qc_tfl_type_of(QC_I8) == 9, qc_dtype_from_tfl(5) == QC_NONE,
         qc_tfl_type_of(QC_NONE) == -1, qc_dtype_from_tfl(99) == QC_NONE);
}
