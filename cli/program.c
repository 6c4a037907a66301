// SPDX-License-Identifier: Apache-2.0
#include "cli/program.h"

#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/status.h"
#include "cli/commands/cmd.h"
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
    if (o->job.run.threads_refused && !o->quiet) {
        char text[120];
        snprintf(text, sizeof text, "--threads %llu: %llu are used; more would only use memory on this machine",
                 (unsigned long long)o->job.run.threads_refused, (unsigned long long)o->job.run.threads);
        qc_warning_print(text);
    }
    if (o->job.method.plugins.count || o->job.graph.kernels.count) qc_watch_user_code();
    const bool ok = (o->help || o->version ? qc_cmd_help : table[o->command].run)(o, st);
    if (!ok && st->code == QC_INTERRUPTED) {
        /* Where an interruption was noticed does not matter to a user */
        *st = QC_STATUS_INIT;
        if (o->job.run.checkpoint && access(o->job.run.checkpoint, F_OK) == 0)
            qc_fail(st, QC_INTERRUPTED, "interrupted; the same command continues from %s", o->job.run.checkpoint);
        else
            qc_fail(st, QC_INTERRUPTED, "interrupted");
    }
    return ok;
}

void qc_program_print_error(const char *program, const struct qc_status *st)
{
    fputs(qc_style(stderr, QC_STYLE_RED), stderr);
    qc_print(stderr, "%s:", program);
    fputs(qc_style(stderr, QC_STYLE_PLAIN), stderr);
    qc_print(stderr, " %s\n", st->message);
}

/* Small jobs run with 128 KiB; paths, messages and image decoders need more. OpenMP threads get stacks of the same
   size. */
enum { STACK_KIB = 1024 };

bool qc_limits_begin(struct qc_status *st)
{
    struct rlimit cpu, stack;
    /* The kernel checks the hard limit first and sends SIGKILL, which would leave unfinished files behind. */
    if (!getrlimit(RLIMIT_CPU, &cpu) && cpu.rlim_cur == cpu.rlim_max && cpu.rlim_max != RLIM_INFINITY &&
        cpu.rlim_max >= 2) {
        cpu.rlim_cur = cpu.rlim_max - 1;
        (void)setrlimit(RLIMIT_CPU, &cpu); /* lowering a limit is always allowed */
    }
    if (getrlimit(RLIMIT_STACK, &stack) || stack.rlim_cur == RLIM_INFINITY || stack.rlim_cur / 1024 >= STACK_KIB)
        return true;
    return qc_fail(st, QC_MACHINE, "the stack is limited to %llu KiB; at least %d KiB are needed (ulimit -s)",
                   (unsigned long long)stack.rlim_cur / 1024, (int)STACK_KIB);
}
