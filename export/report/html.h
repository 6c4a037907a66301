// SPDX-License-Identifier: Apache-2.0
/* Pieces of HTML and SVG. Write errors of the stream show when it is closed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/json.h"

/* Text, fit for content and for attributes in double quotes, whatever the bytes: markup is escaped, and what is not
   printable is shown (base/shown.h). NULL writes nothing. */
void qc_html_text(FILE *f, const char *s);
/* The same of the first n bytes, or fewer when the text ends before. */
void qc_html_part(FILE *f, const char *s, size_t n);

/* A name, which may break behind its slashes. */
void qc_html_name(FILE *f, const char *s);

/* printf for markup: fixed text of ours only; %s for what is safe already. */
void qc_html(FILE *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* "31.25" with that many decimals; an en dash for NaN, the sign for infinity. */
void qc_html_fixed(FILE *f, double v, int decimals);
/* "12,345" */
void qc_html_count(FILE *f, uint64_t n);
/* "1.2e-05", "0.031", "412", "12,345": three digits, or all in front of the point; an en dash for NaN. */
void qc_html_short(FILE *f, double v);
/* "306 KB" */
void qc_html_bytes(FILE *f, size_t n);
/* SVG text that ends at x: 10 to a whole power. */
void qc_html_power(FILE *f, double x, double y, double power);
/* A share of 1 as "0.03 %". */
void qc_html_percent(FILE *f, double share);

/* Round steps for an axis: *first and *step such that first + k step, up to hi, are at most about `most` ticks inside
 * [lo, hi]; lo < hi. */
void qc_html_ticks(double *first, double *step, double lo, double hi, int most);

/* What pages have in common. A page is whole in itself: CSS, JavaScript and pictures are in it, and its policy forbids
 * to load anything. */

/* Up to <body>. The title: name, then fixed text of ours. assets: names of embedded CSS and JavaScript, ended by NULL;
   the JavaScript stands in the head, so that nothing is shown that it would hide. */
void qc_page_begin(FILE *f, const char *name, const char *words, const char *const *assets);
/* </main> and a footer (fixed text of ours). */
void qc_page_end(FILE *f, const char *footer);

/* A name in bold. */
void qc_page_name(FILE *f, const char *text);
/* A command line; lines break between words, not behind a hyphen. */
void qc_page_command(FILE *f, const char *text);
/* A row of a <dl>: a file with its hash; sha256 may be NULL. term: fixed text of ours. */
void qc_page_file(FILE *f, const char *term, const char *path, const char *sha256);
/* All options, folded up; NULL: nothing. False: a status (memory). */
bool qc_page_options(FILE *f, const struct qc_json *options, struct qc_status *st);

/* Behind the last slash. */
const char *qc_page_file_name(const char *path);
