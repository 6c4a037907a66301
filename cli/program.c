// SPDX-License-Identifier: Apache-2.0
#include "cli/program.h"

#include <stdio.h>
#include <string.h>

#include "cli/commands/cmd.h"
#include "cli/terminal/print_warnings.h"
#include "cli/terminal/screen.h"

static const struct {
    bool (*run)(const struct qc_cli_options *o, struct qc_status *st);
} table[QC_CLI_COMMAND_COUNT] = {
#define QC_COMMAND(id, name, min, max, operands, summary) [QC_COMMAND_##id] = {.run = qc_cmd_##id},
#include "cli/options/commands.def"
#undef QC_COMMAND
};

bool qc_program_run(const struct qc_cli_options *o, struct qc_status *st)
{
    if (o->job.threads_refused && !o->quiet) {
        char text[120];
        snprintf(text, sizeof text, "--threads %llu: %llu are used; more would only use memory on this machine",
                 (unsigned long long)o->job.threads_refused, (unsigned long long)o->job.threads);
        qc_warning_print(text);
    }
    return (o->help || o->version ? qc_cmd_help : table[o->command].run)(o, st);
}

void qc_program_print_error(const char *program, const struct qc_status *st)
{
    fputs(qc_style(stderr, QC_STYLE_RED), stderr);
    qc_print(stderr, "%s:", program);
    fputs(qc_style(stderr, QC_STYLE_PLAIN), stderr);
    qc_print(stderr, " %s\n", st->code == QC_INTERRUPTED ? "interrupted" : st->message);
}
