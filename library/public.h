// SPDX-License-Identifier: Apache-2.0
/* What stands behind the objects of include/qcalib/qcalib.h; private to library/. */
#ifndef QC_LIBRARY_PUBLIC_H
#define QC_LIBRARY_PUBLIC_H

#include <locale.h>

#include "base/status.h"
#include "include/qcalib/qcalib.h"

/* Every public call runs in the C locale: numbers in texts have a point, whatever locale the program has chosen.
   Returns the thread's own, for qc_public_end. */
locale_t qc_public_begin_call(void);

/* The end of every public call: the code, and *error (NULL: nobody asks) as the status has it. */
int qc_public_end(bool ok, const struct qc_status *st, locale_t before, struct qcalib_error *error);

/* Structs that begin with their size. name is what messages call them.
   take: *own (own_size bytes) becomes what was given, members that the caller's version has not are 0.
   give: the caller's *out, whose size is set, gets as much of *own as it holds.
   Errors: QC_USAGE: no struct, no size, or one with members that this library does not know and that are not 0. */
bool qc_public_take(void *own, size_t own_size, const void *given, const char *name, struct qc_status *st);
bool qc_public_give(void *out, const void *own, size_t own_size, const char *name, struct qc_status *st);

/* Errors: QC_USAGE: an argument that is NULL. */
bool qc_public_there(const void *argument, const char *name, struct qc_status *st);
/* Errors: QC_USAGE: i >= count. */
bool qc_public_index(size_t i, size_t count, const char *what, struct qc_status *st);

#endif
