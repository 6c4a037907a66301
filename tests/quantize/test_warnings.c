// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>

#include "quantize/interface/warnings.h"

Test(warnings, grouped_in_order)
{
    struct qc_status st = QC_STATUS_INIT;
    struct qc_warnings *w;
    cr_assert(qc_warnings_new(&w, &st));
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
    struct qc_status st = QC_STATUS_INIT;
    struct qc_warnings *w;
    cr_assert(qc_warnings_new(&w, &st));
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
