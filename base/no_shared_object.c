// SPDX-License-Identifier: Apache-2.0
/* Takes the place of shared_object.c in a static program: it has no dynamic linker. */
#include "base/user_code.h"

bool qc_shared_object_open(void **library, const void **symbol, const char *kind, const char *file, const char *name,
                           const char *header, struct qc_status *st)
{
    (void)library, (void)symbol, (void)name, (void)header;
    return qc_fail(st, QC_UNSUPPORTED, "%s %s: a static qcalib loads no shared objects; use the wheel or a package",
                   kind, file);
}

void qc_shared_object_close(void *library)
{
}
