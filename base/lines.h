// SPDX-License-Identifier: Apache-2.0
/* Lines of text for the user, such as notes and warnings, in an arena. */
#pragma once

#include "base/arena.h"

struct qc_lines {
    size_t count, capacity;
    const char **lines; /* [count] */
};

/* Appends a line (printf format), which is cut off after 1023 bytes. */
bool qc_lines_add(struct qc_lines *to, struct qc_arena *a, struct qc_status *st, const char *fmt, ...) QC_PRINTF(4, 5);
