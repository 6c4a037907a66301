// SPDX-License-Identifier: Apache-2.0
#include "base/temporary.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

const char *qc_temporary_folder(void)
{
    const char *folder = getenv("TMPDIR");
    return folder && *folder ? folder : "/tmp";
}

int qc_temporary_file(void)
{
    char path[4096];
    const int length = snprintf(path, sizeof path, "%s/qcalib-weights-XXXXXX", qc_temporary_folder());
    errno = ENAMETOOLONG;
    const int fd = length > 0 && (size_t)length < sizeof path ? mkstemp(path) : -1;
    if (fd >= 0) unlink(path);
    return fd;
}
