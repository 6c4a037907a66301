// SPDX-License-Identifier: Apache-2.0
/* Numbers as texts for people. The macros return text that is valid until the end of the block. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { QC_NUMBER_TEXT = 32 };

/* Returns buf with "269,722". */
const char *qc_count_text(char buf[QC_NUMBER_TEXT], uint64_t n);
#define QC_COUNT(n) qc_count_text((char[QC_NUMBER_TEXT]){""}, n)

/* Returns buf with "1.2 MB". */
const char *qc_bytes_text(char buf[QC_NUMBER_TEXT], uint64_t n);
#define QC_BYTES(n) qc_bytes_text((char[QC_NUMBER_TEXT]){""}, n)

/* Returns the ending of a noun after this number: "" or "s". */
static inline const char *qc_plural(size_t n)
{
    return n == 1 ? "" : "s";
}
