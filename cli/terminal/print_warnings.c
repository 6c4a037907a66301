// SPDX-License-Identifier: Apache-2.0
#include "cli/terminal/print_warnings.h"

#include <stdio.h>

#include "cli/terminal/screen.h"

enum { SHOWN = 20 };

static void begin(void)
{
    fputs(qc_style(stderr, QC_STYLE_YELLOW), stderr);
    fputs("qcalib: warning:", stderr);
    fputs(qc_style(stderr, QC_STYLE_PLAIN), stderr);
}

void qc_warning_print(const char *text)
{
    begin();
    qc_print(stderr, " %s\n", text);
}

void qc_warnings_print(const struct qc_warnings *w, enum qc_warnings_length length)
{
    const size_t count = qc_warnings_count(w);
    size_t shown = length == QC_WARNINGS_ALL || count <= SHOWN ? count : SHOWN - 1;
    for (size_t i = 0; i < shown; i++) {
        begin();
        qc_print(stderr, " %s", qc_warnings_text(w, i));
        if (qc_warnings_times(w, i) > 1) qc_print(stderr, " (%zu times)", qc_warnings_times(w, i));
        fputc('\n', stderr);
    }
    if (shown < count) qc_print(stderr, "qcalib: warning: %zu more warnings; -v shows them\n", count - shown);
}
