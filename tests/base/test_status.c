// SPDX-License-Identifier: Apache-2.0
#include "tests/check.h"

Test(status, first_error_wins)
{
    struct qc_status st = QC_STATUS_INIT;
    cr_assert_not(qc_fail(&st, QC_BAD_INPUT, "node %d", 7));
    cr_assert_not(qc_fail(&st, QC_MACHINE, "later"));
    MUST_HOLD(st.code == QC_BAD_INPUT, strcmp(st.message, "node 7") == 0);
}

Test(status, where_goes_in_front)
{
    struct qc_status st = QC_STATUS_INIT;
    qc_fail(&st, QC_UNSUPPORTED, "op Foo");
    cr_assert_not(qc_where(&st, "node '%s'", "n"));
    cr_assert_not(qc_where(&st, "model.onnx"));
    MUST_HOLD(st.code == QC_UNSUPPORTED, strcmp(st.message, "model.onnx: node 'n': op Foo") == 0);
}

Test(status, a_file_is_named_once)
{
    struct qc_status st = QC_STATUS_INIT;
    qc_fail(&st, QC_BAD_INPUT, "cannot read a.onnx: No such file or directory");
    qc_where(&st, "a.onnx");
    cr_assert_str_eq(st.message, "cannot read a.onnx: No such file or directory");
    qc_where(&st, "a.on");
    cr_assert_str_eq(st.message, "a.on: cannot read a.onnx: No such file or directory");
}

Test(status, long_texts_are_cut_at_the_end)
{
    char big[4096];
    memset(big, 'x', sizeof big - 1);
    big[sizeof big - 1] = '\0';
    struct qc_status st = QC_STATUS_INIT;
    qc_fail(&st, QC_BAD_INPUT, "%s", big);
    for (int i = 0; i < 20; i++) qc_where(&st, "place %d %s", i, big);
    MUST_HOLD(strlen(st.message) == sizeof st.message - 1, strncmp(st.message, "place 19 ", 9) == 0);
}

Test(status, values_are_the_exit_codes_of_the_program)
{
    MUST_HOLD(QC_DEMAND == 1, QC_USAGE == 2, QC_BAD_INPUT == 3, QC_UNSUPPORTED == 4, QC_MACHINE == 5,
              QC_INTERRUPTED == 130);
}

Test(status, text_is_cut_to_the_buffer)
{
    char buf[6];
    cr_assert_str_eq(qc_text(buf, sizeof buf, "%s", "abcdefgh"), "abcde");
}
