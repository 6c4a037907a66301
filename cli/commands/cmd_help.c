// SPDX-License-Identifier: Apache-2.0
/* qcalib help [COMMAND], --help, --version, the manual and shell completion. */
#include <stdio.h>

#include "base/words.h"
#include "cli/commands/cmd.h"
#include "cli/commands/help.h"

bool qc_cmd_help(const struct qc_cli_options *o, struct qc_status *st)
{
    unsigned c = o->command;
    if (o->version) {
        printf("qcalib %s\n", QC_VERSION);
        return true;
    }
    if (o->help && o->command_given) {
        qc_help_command(o->command);
        return true;
    }
    if (o->man || o->completion) {
        if (o->man) qc_help_man();
        if (o->completion) qc_help_completion(o->completion);
        return true;
    }
    if (o->operands.count == 0) {
        qc_help_overview();
        return true;
    }
    if (!qc_command_find(&c, o->operands.items[0])) {
        const char *names[QC_CLI_COMMAND_COUNT];
        for (unsigned k = 0; k < QC_CLI_COMMAND_COUNT; k++) names[k] = qc_command_info(k)->name;
        const char *meant = qc_closest(o->operands.items[0], names, QC_CLI_COMMAND_COUNT);
        return qc_fail(st, QC_USAGE, "there is no command '%s'%s%s%s; see 'qcalib help'", o->operands.items[0],
                       meant ? "; did you mean " : "", meant ? meant : "", meant ? "?" : "");
    }
    qc_help_command(c);
    return true;
}
