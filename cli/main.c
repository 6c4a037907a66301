// SPDX-License-Identifier: Apache-2.0
/* The program: command line, dispatch, the one error message, exit code. */
#include "cli/program.h"
#include "cli/terminal/screen.h"

int main(int argc, char **argv)
{
    struct qc_status st = QC_STATUS_INIT;
    struct qc_cli_options o;
    qc_screen_begin();
    struct qc_arena *a = qc_arena_new();
    qc_interrupt_install(); /* no setlocale: numbers have a decimal point in every locale */
    bool ok = a ? qc_limits_begin(&st) && qc_options_parse(&o, argc, argv, a, &st) && qc_program_run(&o, &st)
                : qc_fail_memory(&st, 1);
    /* Output printed before an error is flushed; the first error is reported. */
    ok = qc_screen_finish(&st) && ok;
    if (!ok && st.code == QC_OK) qc_fail(&st, QC_MACHINE, "failed without a reason: please report this");
    if (st.code != QC_OK) qc_program_print_error("qcalib", &st);
    qc_arena_free(a);
    return (int)st.code;
}
