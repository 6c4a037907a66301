// SPDX-License-Identifier: Apache-2.0
/* Pieces of HTML and SVG. Write errors are detected when the stream is closed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/json.h"
#include "base/words.h"

/* printf for markup: the format is markup, and %s texts are escaped, so that any bytes are safe in content and in
   attributes in double quotes. Unprintable characters are made visible (base/shown.h). NULL writes nothing. */
void qc_html(FILE *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Writes at most n bytes of a text, escaped in this way. */
void qc_html_part(FILE *f, const char *s, size_t n);

/* Writes a name with optional line breaks after its slashes. */
void qc_html_name(FILE *f, const char *s);

/* Numbers as texts for %s; they are valid until the end of the block. An en dash stands for NaN, the infinity sign for
   infinity. */
enum { QC_HTML_NUMBER = 336 }; /* the digits of DBL_MAX, sign and decimals */
#define QC_HTML_BUFFER ((char[QC_HTML_NUMBER]){""})
/* "31.25" with that many decimals. */
#define QC_FIXED(v, decimals) qc_fixed_text(QC_HTML_BUFFER, v, decimals)
const char *qc_fixed_text(char buf[QC_HTML_NUMBER], double v, int decimals);
/* "1.2e-05", "0.031", "412", "12,345": three digits, or all digits before the point. */
#define QC_SHORT(v) qc_short_text(QC_HTML_BUFFER, v)
const char *qc_short_text(char buf[QC_HTML_NUMBER], double v);
/* "0.03 %" for a share of 1. */
#define QC_PERCENT(share) qc_percent_text(QC_HTML_BUFFER, share)
const char *qc_percent_text(char buf[QC_HTML_NUMBER], double share);

/* Writes a cell of a table: a number for sorting, infinities as 1e9 and -1e9, and its text. NaN sorts last. */
void qc_html_cell(FILE *f, double v, const char *text);

/* Writes SVG text that ends at x: 10 to an integer power. */
void qc_html_power(FILE *f, double x, double y, double power);

/* Finds round tick values for an axis: *first + k * *step, up to hi, with about `most` ticks at most inside [lo, hi];
   lo < hi. */
void qc_html_ticks(double *first, double *step, double lo, double hi, int most);

/* Common parts of pages. A page is self-contained: it includes CSS, JavaScript and pictures, and its policy forbids
   loading anything. */

/* Writes up to <body>. The title is the name, then words, a literal of ours. assets: names of embedded CSS and
   JavaScript, ended by NULL. JavaScript is in the head, so that parts that it hides never appear. */
void qc_page_begin(FILE *f, const char *name, const char *words, const char *const *assets);
/* Writes </main> and a footer, a literal of ours. */
void qc_page_end(FILE *f, const char *footer);

/* Writes a command line; lines break between words, not after a hyphen. */
void qc_page_command(FILE *f, const char *text);
/* Writes a row of a <dl>: a file with its hash; sha256 may be NULL. term: a literal of ours. */
void qc_page_file(FILE *f, const char *term, const char *path, const char *sha256);
/* Writes the command and the version of the program; begins a <dl>, which the caller continues and ends. */
void qc_page_again(FILE *f, const char *command, const char *version);
/* Writes all options in a folded section; NULL: nothing. Fails if memory is out. */
bool qc_page_options(FILE *f, const struct qc_json *options, struct qc_status *st);

/* Returns the part after the last slash. */
const char *qc_page_file_name(const char *path);

/* Returns what `write` writes, which the caller frees. Returns NULL with a status if it fails or memory runs
   out. */
char *qc_page_text(size_t *size, bool (*write)(FILE *f, const void *of, struct qc_status *st), const void *of,
                   struct qc_status *st);
