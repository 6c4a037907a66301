// SPDX-License-Identifier: Apache-2.0
/* Parts of large pages that are not seen at once: packed, they stand in a script element that nothing runs, and
 * packed.js puts what is in them in its place when it is asked for. */
#ifndef QC_EXPORT_REPORT_HTML_PACKED_H
#define QC_EXPORT_REPORT_HTML_PACKED_H

#include <stdbool.h>
#include <stdio.h>

#include "base/status.h"

struct qc_html_packed {
    FILE *f; /* what is to be packed is written here */
    char *text;
    size_t size;
};

bool qc_html_packed_begin(struct qc_html_packed *p, struct qc_status *st);
/* Writes the script element; ends p in any case. */
bool qc_html_packed_end(FILE *f, struct qc_html_packed *p, struct qc_status *st);

#endif
