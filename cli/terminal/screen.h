// SPDX-License-Identifier: Apache-2.0
/* Standard output: colours only on a terminal (and not with NO_COLOR), detection of write errors, JSON. */
#pragma once

#include <stdio.h>

#include "base/json.h"
#include "base/shown.h"
#include "base/status.h"
#include "base/words.h"
#include "cli/options/command_line.h"
#include "quantize/interface/inputs.h"
#include "quantize/interface/warnings.h"

/* Must be called first. Opens /dev/null in place of a closed standard input, output or error, so that no file or pipe
   gets its number and the text printed to it. */
void qc_screen_begin(void);

/* Returns the escape sequence if f is a terminal with colours, else "". */
enum qc_style { QC_STYLE_PLAIN, QC_STYLE_BOLD, QC_STYLE_DIM, QC_STYLE_RED, QC_STYLE_YELLOW };
const char *qc_style(FILE *f, enum qc_style s);

/* qc_print to standard output. Texts with names of files or users must be printed with it (base/shown.h). */
int qc_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Prints v and a line end to standard output; takes ownership of v. Fails as qc_screen_finish. */
bool qc_print_json(struct qc_json *v, struct qc_status *st);

/* Flushes standard output. Fails (QC_MACHINE) if the disk is full or standard output is closed. A closed pipe, as with
   "| head", is no error. */
bool qc_screen_finish(struct qc_status *st);

/* Prints one warning about the command line alone. */
void qc_warning_print(const char *text);

/* Prints "qcalib: warning: TEXT (17 times)" to standard error, at most 20 lines: all with -v, none with --quiet.
   NULL-safe. */
void qc_warnings_print(const struct qc_warnings *w, const struct qc_cli_options *o);

/* SIGINT, SIGTERM and SIGHUP: the first asks the running work to stop. The work polls for it and ends with code 130
   without leaving files behind. A second signal, or 1 s without a poll, removes unfinished files and exits from the
   handler. Signals that the parent ignores (nohup, background jobs of scripts) stay ignored. SIGPIPE is ignored: see
   cli/terminal/screen.h. SIGBUS (another process truncated a mapped file) and SIGXCPU end the program with QC_MACHINE
   and a message. SIGXFSZ is ignored: a write beyond the file size limit fails with EFBIG. */

void qc_interrupt_install(void);

/* Returns false with QC_INTERRUPTED after a signal; for phases without a progress callback. */
bool qc_interrupt_check(struct qc_status *st);

/* A progress bar with rate and remaining time on standard error, and the poll for interrupts. */

/* Shows a bar with --progress always, or with auto on a terminal unless --quiet. In any case an interrupt of the
   program stops the job. */
bool qc_progress_bar_new(struct qc_progress **out, const struct qc_cli_options *o, struct qc_status *st);
void qc_progress_bar_free(struct qc_progress *p); /* NULL-safe; erases the bar */

/* Prints a summary of a report (of qc_job_report_json), about 15 lines, to standard output; on a terminal lines wrap at
   its width. with_report: the report is written too, so that the text may refer to it. Fails if memory runs out. */
bool qc_print_summary(const struct qc_json *record, bool with_report, struct qc_status *st);
