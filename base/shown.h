// SPDX-License-Identifier: Apache-2.0
/* Texts from files as people may see them: whatever the bytes, they steer no terminal and reorder no line. */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Bytes of the UTF-8 character at s (Unicode, table 3-7) and its code point; 0 when there is none. s is not empty. */
size_t qc_utf8(uint32_t *code, const char *s);

/* Characters that are shown as escapes: controls, format characters (bidirectional overrides, zero width), separators
   of lines and paragraphs, private use, and what is no character: Unicode's categories Cc, Cf, Zl, Zp and Co. */
bool qc_unprintable(uint32_t code);

/* The character at s, as it is when it is printable, else "\x1b" for a byte below 0x20, DEL or no UTF-8, "\u202e" or
   "\U000e0001" for others. Returns the bytes of s that it takes; *escaped says which. s is not empty. */
enum { QC_SHOWN = 12 };
size_t qc_shown(char out[QC_SHOWN], bool *escaped, const char *s);

/* fprintf, but the texts of %s are shown, line ends in them too; the format is not touched. Knows %d %i %u %x %c %s
   %f %e %g %% with flags, width, precision and the lengths l, ll, z, j. Returns the columns that were printed; write
   errors show in the stream. */
int qc_print(FILE *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int qc_vprint(FILE *f, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));
