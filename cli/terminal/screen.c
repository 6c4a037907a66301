// SPDX-License-Identifier: Apache-2.0
#include "cli/terminal/screen.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "quantize/interface/warnings.h"

static const char *const sequences[] = {
    [QC_STYLE_PLAIN] = "\033[0m",  [QC_STYLE_BOLD] = "\033[1m",    [QC_STYLE_DIM] = "\033[2m",
    [QC_STYLE_RED] = "\033[1;31m", [QC_STYLE_YELLOW] = "\033[33m",
};

void qc_screen_begin(void)
{
    /* open returns the lowest free number. Read-only, so that writing to it still fails. */
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY) < 0) return;
}

const char *qc_style(FILE *f, enum qc_style s)
{
    const char *none = getenv("NO_COLOR"), *terminal = getenv("TERM");
    if ((none && *none) || (terminal && strcmp(terminal, "dumb") == 0) || !isatty(fileno(f))) return "";
    return sequences[s];
}

int qc_say(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const int columns = qc_vprint(stdout, fmt, ap);
    va_end(ap);
    return columns;
}

static bool cannot_print(struct qc_status *st)
{
    const int error = errno;
    struct pollfd output = {.fd = STDOUT_FILENO, .events = POLLOUT};
    /* That the reader has closed the pipe, as in "| head", is no error. */
    if (poll(&output, 1, 0) == 1 && (output.revents & (POLLERR | POLLHUP))) return true;
    errno = error;
    return qc_fail(st, QC_MACHINE, "cannot write standard output: %s", strerror(errno));
}

bool qc_print_json(struct qc_json *v, struct qc_status *st)
{
    char *text = qc_json_print(v, 0);
    qc_json_free(v);
    if (!text) return qc_fail_memory(st, 1);
    bool ok = fputs(text, stdout) != EOF && fputc('\n', stdout) != EOF;
    free(text);
    return ok || cannot_print(st);
}

bool qc_screen_finish(struct qc_status *st)
{
    errno = EIO;
    return (fflush(stdout) == 0 && !ferror(stdout)) || cannot_print(st);
}

enum { SHOWN = 20 };

static void begin_warning(void)
{
    fputs(qc_style(stderr, QC_STYLE_YELLOW), stderr);
    fputs("qcalib: warning:", stderr);
    fputs(qc_style(stderr, QC_STYLE_PLAIN), stderr);
}

void qc_warning_print(const char *text)
{
    begin_warning();
    qc_print(stderr, " %s\n", text);
}

void qc_warnings_print(const struct qc_warnings *w, const struct qc_cli_options *o)
{
    const size_t count = w && !o->quiet ? qc_warnings_count(w) : 0;
    const size_t shown = o->verbose || count <= SHOWN ? count : SHOWN - 1;
    for (size_t i = 0; i < shown; i++) {
        begin_warning();
        qc_print(stderr, " %s", qc_warnings_text(w, i));
        if (qc_warnings_times(w, i) > 1) qc_print(stderr, " (%zu times)", qc_warnings_times(w, i));
        fputc('\n', stderr);
    }
    if (shown < count) qc_print(stderr, "qcalib: warning: %zu more warnings; -v shows them\n", count - shown);
}
