// SPDX-License-Identifier: Apache-2.0
#include "base/number_text.h"

#include <inttypes.h>
#include <string.h>

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

const char *qc_bytes_text(char buf[QC_NUMBER_TEXT], uint64_t n)
{
    static const char *const units[] = {"bytes", "KB", "MB", "GB", "TB"};
    double v = (double)n;
    size_t unit = 0;
    for (; v >= 1024 && unit + 1 < sizeof units / sizeof *units; unit++) v /= 1024;
    return qc_text(buf, QC_NUMBER_TEXT, unit == 0 || v >= 100 ? "%.0f %s" : "%.1f %s", v, units[unit]);
}
