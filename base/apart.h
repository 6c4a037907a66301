// SPDX-License-Identifier: Apache-2.0
/* Files that are written must be none of those that are read, and no two of them the same. */
#ifndef QC_BASE_APART_H
#define QC_BASE_APART_H

#include <stddef.h>

#include "base/status.h"

struct qc_named_file {
    const char *what; /* for messages: "-o", "--data" */
    const char *path;
};

/* QC_USAGE, naming both, when an output is the same file as an input, or as another output. Files that exist are told
   apart by device and inode, so links and other spellings are seen through; files that do not exist yet by the folder
   they will be in and their name. Devices and pipes may be named any number of times. */
bool qc_files_apart(const struct qc_named_file *outputs, size_t output_count, const struct qc_named_file *inputs,
                    size_t input_count, struct qc_status *st);

#endif
