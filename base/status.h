// SPDX-License-Identifier: Apache-2.0
/* Status of a fallible call: the first error wins; outer layers add where it happened. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Values are the exit codes of the program (docs: command line). */
enum qc_code {
    QC_OK = 0,
    QC_DEMAND = 1,      /* a requirement of the user is not met (--require-integer, --max-drop, --min-sqnr ...) */
    QC_USAGE = 2,       /* wrong options */
    QC_BAD_INPUT = 3,   /* damaged, hostile or inconsistent input */
    QC_UNSUPPORTED = 4, /* an operator, type or opset that is not supported */
    QC_MACHINE = 5,     /* memory, disk, permissions */
    QC_INTERRUPTED = 130
};

struct qc_status {
    enum qc_code code;
    char message[2048];
};

#define QC_STATUS_INIT ((struct qc_status){.code = QC_OK})

#if defined(__GNUC__)
#define QC_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#else
#define QC_PRINTF(fmt, first)
#endif

/* Records an error unless one is already recorded. Always returns false: `return qc_fail(st, ...)`. */
bool qc_fail(struct qc_status *st, enum qc_code code, const char *fmt, ...) QC_PRINTF(3, 4);

/* Puts "WHERE: " before the recorded message, unless it is "cannot read WHERE: ...". Always returns false. Long
   messages are cut at the end. */
bool qc_where(struct qc_status *st, const char *fmt, ...) QC_PRINTF(2, 3);

/* Records "out of memory (N bytes ...)" as QC_MACHINE. Always returns false. */
bool qc_fail_memory(struct qc_status *st, uint64_t bytes);

/* Prints to a fixed buffer, cutting at its end. Returns buf. */
const char *qc_text(char *buf, unsigned size, const char *fmt, ...) QC_PRINTF(3, 4);

/* Makes visible in every file that these functions return false. Otherwise compilers and analyzers follow paths on
   which a function fails and still sets its outputs. */
static inline bool qc_false(bool failed)
{
    return false;
}

#define qc_fail(...) qc_false(qc_fail(__VA_ARGS__))
#define qc_where(...) qc_false(qc_where(__VA_ARGS__))
#define qc_fail_memory(...) qc_false(qc_fail_memory(__VA_ARGS__))
