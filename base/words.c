// SPDX-License-Identifier: Apache-2.0
#include "base/words.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/status.h"

const char *qc_count_text(char buf[QC_NUMBER_TEXT], uint64_t n)
{
    char digits[QC_NUMBER_TEXT];
    qc_text(digits, sizeof digits, "%" PRIu64, n);
    size_t length = strlen(digits), at = 0;
    for (size_t i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0) buf[at++] = ',';
        buf[at++] = digits[i];
    }
    buf[at] = '\0';
    return buf;
}

/* Every decimal of up to 6 digits (double: 15) survives conversion, and %g drops trailing zeros. So the first precision
   that reads back is the shortest; 9 digits (17) always do. Denormal numbers hold fewer. */
const char *qc_float_text(char buf[QC_NUMBER_TEXT], float v)
{
    for (int digits = fabsf(v) < FLT_MIN ? 1 : 6; digits <= 9; digits++) {
        snprintf(buf, QC_NUMBER_TEXT, "%.*g", digits, (double)v);
        if (strtof(buf, NULL) == v && (float)strtod(buf, NULL) == v) break;
    }
    return buf;
}

const char *qc_double_text(char buf[QC_NUMBER_TEXT], double v)
{
    for (int digits = fabs(v) < DBL_MIN ? 1 : 15; digits <= 17; digits++) {
        snprintf(buf, QC_NUMBER_TEXT, "%.*g", digits, v);
        if (strtod(buf, NULL) == v) break;
    }
    return buf;
}

const char *qc_bytes_text(char buf[QC_NUMBER_TEXT], uint64_t n)
{
    static const char *const units[] = {"bytes", "KB", "MB", "GB", "TB"};
    double v = (double)n;
    size_t unit = 0;
    for (; v >= 1024 && unit + 1 < sizeof units / sizeof *units; unit++) v /= 1024;
    return qc_text(buf, QC_NUMBER_TEXT, unit == 0 || v >= 100 ? "%.0f %s" : "%.1f %s", v, units[unit]);
}

bool qc_lines_add(struct qc_lines *to, struct qc_arena *a, struct qc_status *st, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    const char **more = qc_arena_grown(a, to->lines, to->count, &to->capacity, sizeof *more, st);
    const char *line = more ? qc_arena_strdup(a, text, st) : NULL;
    if (more) to->lines = more;
    if (line) to->lines[to->count++] = line;
    return line != NULL;
}

/* Optimal string alignment distance (Damerau 1964): insertions, deletions, substitutions and swaps of neighbours, with
   three rows in memory. */
enum { NAME_MAX_LENGTH = 120, FAR = 1000 };

static unsigned distance(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    if (n > NAME_MAX_LENGTH || m > NAME_MAX_LENGTH) return FAR;
    unsigned rows[3][NAME_MAX_LENGTH + 1];
    for (size_t j = 0; j <= m; j++) rows[0][j] = (unsigned)j;
    for (size_t i = 1; i <= n; i++) {
        unsigned *now = rows[i % 3];
        const unsigned *before = rows[(i + 2) % 3], *earlier = rows[(i + 1) % 3];
        now[0] = (unsigned)i;
        for (size_t j = 1; j <= m; j++) {
            unsigned d = before[j - 1] + (a[i - 1] != b[j - 1]);
            if (before[j] + 1 < d) d = before[j] + 1;
            if (now[j - 1] + 1 < d) d = now[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && earlier[j - 2] + 1 < d)
                d = earlier[j - 2] + 1;
            now[j] = d;
        }
    }
    return rows[n % 3][m];
}

const char *qc_closest(const char *name, const char *const *names, size_t n)
{
    const char *best = NULL;
    unsigned least = 3;
    for (size_t i = 0; i < n; i++) {
        if (!names[i]) continue;
        const size_t length = strlen(name), other = strlen(names[i]);
        if ((length > other ? length - other : other - length) >= least) continue; /* the distance is no less */
        const unsigned d = distance(name, names[i]);
        if (d >= least || 2 * d > other) continue;
        least = d;
        best = names[i];
    }
    return best;
}

const char *qc_meant_text(char buf[QC_MEANT_TEXT], const char *dashes, const char *name)
{
    return name ? qc_text(buf, QC_MEANT_TEXT, " (did you mean '%s%.200s'?)", dashes, name) : qc_text(buf, 1, "%s", "");
}
