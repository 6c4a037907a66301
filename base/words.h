// SPDX-License-Identifier: Apache-2.0
/* Texts for people: numbers, lines, and the name that was probably meant. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

/* Numbers. The macros return text that is valid until the end of the block. */
enum { QC_NUMBER_TEXT = 32 };

/* Returns buf with "269,722". */
const char *qc_count_text(char buf[QC_NUMBER_TEXT], uint64_t n);
#define QC_COUNT(n) qc_count_text((char[QC_NUMBER_TEXT]){""}, n)

/* Returns buf with "1.2 MB". */
const char *qc_bytes_text(char buf[QC_NUMBER_TEXT], uint64_t n);
#define QC_BYTES(n) qc_bytes_text((char[QC_NUMBER_TEXT]){""}, n)

/* Return buf with the fewest digits that read back as this finite number. */
const char *qc_float_text(char buf[QC_NUMBER_TEXT], float v);
const char *qc_double_text(char buf[QC_NUMBER_TEXT], double v);

/* Returns the ending of a noun after this number: "" or "s". */
static inline const char *qc_plural(size_t n)
{
    return n == 1 ? "" : "s";
}

/* Lines of text for the user, such as notes and warnings, in an arena. */
struct qc_lines {
    size_t count, capacity;
    const char **lines; /* [count] */
};

/* Appends a line (printf format), which is cut off after 1023 bytes. */
bool qc_lines_add(struct qc_lines *to, struct qc_arena *a, struct qc_status *st, const char *fmt, ...) QC_PRINTF(4, 5);

/* "Did you mean": returns the most similar of n names (optimal string alignment distance at most 2 and at most half the
   length of that name), or NULL. The first of equals wins; NULL names are skipped. */
const char *qc_closest(const char *name, const char *const *names, size_t n);

/* Returns buf with " (did you mean 'NAME'?)", the name behind `dashes`; with "" if the name is NULL. */
enum { QC_MEANT_TEXT = 256 };
const char *qc_meant_text(char buf[QC_MEANT_TEXT], const char *dashes, const char *name);
#define QC_MEANT(dashes, name) qc_meant_text((char[QC_MEANT_TEXT]){""}, dashes, name)
