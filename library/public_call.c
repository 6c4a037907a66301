// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "library/public.h"

_Static_assert(sizeof((struct qcalib_error *)0)->message == sizeof((struct qc_status *)0)->message, "messages fit");
_Static_assert((int)QCALIB_DEMAND == (int)QC_DEMAND && (int)QCALIB_USAGE == (int)QC_USAGE &&
                   (int)QCALIB_BAD_INPUT == (int)QC_BAD_INPUT && (int)QCALIB_UNSUPPORTED == (int)QC_UNSUPPORTED &&
                   (int)QCALIB_MACHINE == (int)QC_MACHINE && (int)QCALIB_INTERRUPTED == (int)QC_INTERRUPTED,
               "codes are those of the command line");

const char *qcalib_version(void)
{
    return QC_VERSION;
}

void qcalib_bytes_free(void *bytes)
{
    free(bytes);
}

struct qc_public_call qc_public_begin_call(void)
{
    const locale_t own = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    return (struct qc_public_call){.st = QC_STATUS_INIT, .before = own ? uselocale(own) : (locale_t)0};
}

int qc_public_end(bool ok, const struct qc_public_call *call, struct qcalib_error *error)
{
    const struct qc_status *st = &call->st;
    if (call->before) freelocale(uselocale(call->before));
    const enum qc_code code = ok ? QC_OK : st->code != QC_OK ? st->code : QC_MACHINE;
    if (!error) return (int)code;
    error->code = (int)code;
    qc_text(error->message, sizeof error->message, "%s",
            ok                       ? ""
            : st->code == QC_OK      ? "failed without a reason: please report this"
            : st->message[0] == '\0' ? "interrupted"
                                     : st->message);
    return (int)code;
}

static bool size_of(size_t *size, const void *of, const char *name, struct qc_status *st)
{
    if (!of) return qc_fail(st, QC_USAGE, "a struct %s is needed, and NULL was given", name);
    memcpy(size, of, sizeof *size);
    return *size >= sizeof *size ||
           qc_fail(st, QC_USAGE, "the size of a struct %s is not set: begin it with .size = sizeof(struct %s)", name,
                   name);
}

bool qc_public_take(void *own, size_t own_size, const void *given, const char *name, struct qc_status *st)
{
    size_t size;
    if (!size_of(&size, given, name, st)) return false;
    for (size_t i = own_size; i < size; i++)
        if (((const unsigned char *)given)[i])
            return qc_fail(st, QC_USAGE,
                           "struct %s has members that qcalib %s does not know; the program was made for a newer one",
                           name, QC_VERSION);
    memset(own, 0, own_size);
    memcpy(own, given, size < own_size ? size : own_size);
    return true;
}

bool qc_public_give(void *out, const void *own, size_t own_size, const char *name, struct qc_status *st)
{
    size_t size;
    if (!size_of(&size, out, name, st)) return false;
    const size_t shared = size < own_size ? size : own_size;
    memcpy((char *)out + sizeof size, (const char *)own + sizeof size, shared - sizeof size);
    memset((char *)out + shared, 0, size - shared);
    return true;
}

bool qc_public_there(const void *argument, const char *name, struct qc_status *st)
{
    return argument || qc_fail(st, QC_USAGE, "%s is NULL", name);
}

bool qc_public_index(size_t i, size_t count, const char *what, struct qc_status *st)
{
    return i < count || qc_fail(st, QC_USAGE, "there is no %s %zu; there are %zu, counted from 0", what, i, count);
}
