// SPDX-License-Identifier: Apache-2.0
/* The program: command line, dispatch, the one error message, exit code. */
#include <stdio.h>
#include <string.h>

#include "cli/cmd.h"
#include "cli/interrupt.h"
#include "cli/screen.h"

static const struct {
    bool (*run)(const struct qc_cli_options *o, struct qc_status *st);
} table[QC_COMMAND_COUNT] = {
#define QC_COMMAND(name, min, max, operands, summary) [QC_COMMAND_##name] = {.run = qc_cmd_##name},
#include "cli/commands.def"
#undef QC_COMMAND
};

static bool dispatch(const struct qc_cli_options *o, struct qc_status *st)
{
    return (o->help || o->version ? qc_cmd_help : table[o->command].run)(o, st);
}

static void print_error(const struct qc_status *st)
{
    fprintf(stderr, "%sqcalib:%s ", qc_style(stderr, QC_STYLE_RED), qc_style(stderr, QC_STYLE_PLAIN));
    qc_print_safe(stderr, st->code == QC_INTERRUPTED ? "interrupted" : st->message);
    fputc('\n', stderr);
}

int main(int argc, char **argv)
{
    struct qc_status st = QC_STATUS_INIT;
    struct qc_cli_options o;
    struct qc_arena *a = qc_arena_new();
    qc_interrupt_install(); /* no setlocale: numbers have a point everywhere */
    bool ok = a ? qc_options_parse(&o, argc, argv, a, &st) && dispatch(&o, &st) : qc_fail_memory(&st, 1);
    /* What was printed before an error still has to arrive; the first error is the one that is told. */
    ok = qc_screen_finish(&st) && ok;
    if (!ok && st.code == QC_OK) qc_fail(&st, QC_MACHINE, "failed without a reason: please report this");
    if (st.code != QC_OK) print_error(&st);
    qc_arena_free(a);
    return (int)st.code;
}
