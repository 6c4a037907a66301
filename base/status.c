// SPDX-License-Identifier: Apache-2.0
#include "base/status.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#undef qc_fail
#undef qc_where
#undef qc_fail_memory

bool qc_fail(struct qc_status *st, enum qc_code code, const char *fmt, ...)
{
    if (st->code != QC_OK) return false;
    st->code = code;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(st->message, sizeof st->message, fmt, ap);
    va_end(ap);
    return false;
}

bool qc_where(struct qc_status *st, const char *fmt, ...)
{
    char where[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(where, sizeof where, fmt, ap);
    va_end(ap);
    size_t n = strlen(where), size = sizeof st->message, verb = strlen("cannot read ");
    if (strncmp(st->message, "cannot read ", verb) == 0 && strncmp(st->message + verb, where, n) == 0 &&
        st->message[verb + n] == ':')
        return false;
    if (n > size / 2) n = size / 2;
    memmove(st->message + n + 2, st->message, size - n - 2);
    memcpy(st->message, where, n);
    memcpy(st->message + n, ": ", 2);
    st->message[size - 1] = '\0';
    return false;
}

bool qc_fail_memory(struct qc_status *st, uint64_t bytes)
{
    return qc_fail(st, QC_MACHINE,
                   "out of memory (%" PRIu64 " bytes wanted); use fewer --threads or a machine with more memory",
                   bytes);
}

const char *qc_text(char *buf, unsigned size, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(buf, size, fmt, ap);
    va_end(ap);
    return buf;
}
