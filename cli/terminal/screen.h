// SPDX-License-Identifier: Apache-2.0
/* Standard output: colours only on a terminal (and not with NO_COLOR), write errors noticed, JSON. */
#pragma once

#include <stdio.h>

#include "base/json.h"
#include "base/shown.h"

/* First of all: where standard input, output or error is closed, /dev/null takes its place, so that no file and no pipe
   of ours gets its number and what is printed. */
void qc_screen_begin(void);

/* Escape sequence when f is a terminal that wants colours, else "". */
enum qc_style { QC_STYLE_PLAIN, QC_STYLE_BOLD, QC_STYLE_DIM, QC_STYLE_RED, QC_STYLE_YELLOW };
const char *qc_style(FILE *f, enum qc_style s);

/* qc_print on standard output: THE way to print what has names of files or users in it (base/shown.h). */
int qc_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Prints v on standard output with a line end, takes it. Errors: as qc_screen_finish. */
bool qc_print_json(struct qc_json *v, struct qc_status *st);

/* Flushes standard output. QC_MACHINE: the disk is full, there is no standard output. That nobody reads on, as with
   "| head", is no error. */
bool qc_screen_finish(struct qc_status *st);

/* "269,722"; "1.2 MB". buf as long as QC_NUMBER_TEXT. */
enum { QC_NUMBER_TEXT = 32 };
const char *qc_count_text(char buf[QC_NUMBER_TEXT], uint64_t n);
const char *qc_bytes_text(char buf[QC_NUMBER_TEXT], uint64_t n);
