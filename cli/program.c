// SPDX-License-Identifier: Apache-2.0
#include "cli/program.h"

#include <stdio.h>
#include <string.h>

#include "cli/commands/cmd.h"
#include "cli/terminal/screen.h"

static const struct {
    bool (*run)(const struct qc_cli_options *o, struct qc_status *st);
} table[QC_CLI_COMMAND_COUNT] = {
#define QC_COMMAND(name, min, max, operands, summary) [QC_COMMAND_##name] = {.run = qc_cmd_##name},
#include "cli/options/commands.def"
#undef QC_COMMAND
};

bool qc_program_run(const struct qc_cli_options *o, struct qc_status *st)
{
    return (o->help || o->version ? qc_cmd_help : table[o->command].run)(o, st);
}

void qc_program_print_error(const char *program, const struct qc_status *st)
{
    fputs(qc_style(stderr, QC_STYLE_RED), stderr);
    qc_print(stderr, "%s:", program);
    fputs(qc_style(stderr, QC_STYLE_PLAIN), stderr);
    qc_print(stderr, " %s\n", st->code == QC_INTERRUPTED ? "interrupted" : st->message);
}
