// SPDX-License-Identifier: Apache-2.0
/* Standard output: colours only on a terminal (and not with NO_COLOR), detection of write errors, JSON. */
#pragma once

#include <stdio.h>

#include "base/json.h"
#include "base/shown.h"
#include "base/words.h"
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

/* Prints "qcalib: warning: TEXT (17 times)" to standard error, at most 20 lines; all if verbose. */
enum qc_warnings_length { QC_WARNINGS_SOME, QC_WARNINGS_ALL };

/* Prints one warning about the command line alone. */
void qc_warning_print(const char *text);

void qc_warnings_print(const struct qc_warnings *w, enum qc_warnings_length length);
