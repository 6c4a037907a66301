// SPDX-License-Identifier: Apache-2.0
/* Printing texts from files safely: no byte in them can control a terminal or reorder a line. */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Returns the bytes of the UTF-8 character at s (Unicode, table 3-7) and its code point; 0 if it is invalid. s is not
   empty. */
size_t qc_utf8(uint32_t *code, const char *s);

/* Returns true for characters that are shown as escapes: controls, format characters (bidirectional overrides, zero
   width), line and paragraph separators, private use and noncharacters (Unicode categories Cc, Cf, Zl, Zp, Co). */
bool qc_unprintable(uint32_t code);

/* Writes the character at s as it is if it is printable. Otherwise writes an escape: "\x1b" for a byte below 0x20, DEL
   or invalid UTF-8, else "\u202e" or "\U000e0001". Returns the bytes of s that were read; *escaped tells which. s is
   not empty. */
enum { QC_SHOWN = 12 };
size_t qc_shown(char out[QC_SHOWN], bool *escaped, const char *s);

/* fprintf, but %s texts are escaped, including their line ends; the format is not. Supports %d %i %u %x %c %s %f %e %g
   %% with flags, width, precision and the lengths l, ll, z, j. Returns the printed columns; write errors show in the
   stream. */
int qc_print(FILE *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int qc_vprint(FILE *f, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));
