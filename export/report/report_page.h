// SPDX-License-Identifier: Apache-2.0
/* What pages have in common. A page is whole in itself: CSS, JavaScript and pictures are in it, and its policy forbids
 * to load anything. */
#ifndef QC_EXPORT_REPORT_REPORT_PAGE_H
#define QC_EXPORT_REPORT_REPORT_PAGE_H

#include <stdbool.h>
#include <stdio.h>

#include "base/json.h"

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

#endif
