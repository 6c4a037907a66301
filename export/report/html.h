// SPDX-License-Identifier: Apache-2.0
/* Pieces of HTML and SVG. Write errors are detected when the stream is closed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/json.h"

/* Writes any bytes as text that is safe in content and in attributes in double quotes: escapes markup and shows
   unprintable characters (base/shown.h). NULL writes nothing. */
void qc_html_text(FILE *f, const char *s);
/* The same for the first n bytes, or fewer if the text is shorter. */
void qc_html_part(FILE *f, const char *s, size_t n);

/* Writes a name with optional line breaks after its slashes. */
void qc_html_name(FILE *f, const char *s);

/* printf for markup: the format is a literal of ours; %s only for safe text. */
void qc_html(FILE *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Writes "31.25" with that many decimals; an en dash for NaN, the infinity sign for infinity. */
void qc_html_fixed(FILE *f, double v, int decimals);
/* Writes "12,345". */
void qc_html_count(FILE *f, uint64_t n);
/* Writes "1.2e-05", "0.031", "412", "12,345": three digits, or all digits before the point; an en dash for NaN. */
void qc_html_short(FILE *f, double v);
/* Writes "306 KB". */
void qc_html_bytes(FILE *f, size_t n);
/* Writes SVG text that ends at x: 10 to an integer power. */
void qc_html_power(FILE *f, double x, double y, double power);
/* Writes a share of 1 as "0.03 %". */
void qc_html_percent(FILE *f, double share);

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

/* Writes a name in bold. */
void qc_page_name(FILE *f, const char *text);
/* Writes a command line; lines break between words, not after a hyphen. */
void qc_page_command(FILE *f, const char *text);
/* Writes a row of a <dl>: a file with its hash; sha256 may be NULL. term: a literal of ours. */
void qc_page_file(FILE *f, const char *term, const char *path, const char *sha256);
/* Writes all options in a folded section; NULL: nothing. Fails if memory is out. */
bool qc_page_options(FILE *f, const struct qc_json *options, struct qc_status *st);

/* Returns the part after the last slash. */
const char *qc_page_file_name(const char *path);
