// SPDX-License-Identifier: Apache-2.0
/* Labels of files in a table: lines `file,label` (RFC 4180), the first may be a heading. */
#ifndef QC_DATASETS_SAMPLES_LABEL_FILE_H
#define QC_DATASETS_SAMPLES_LABEL_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

/* The label of each of `count` files (paths below their folder): that of its path, else of its name without folders.
   QC_BAD_INPUT: a line that is not understood (with its number), a label that is no whole number, a file without one,
   two labels of one file; as qc_file_read. */
bool qc_label_file_read(int64_t *labels, const char *path, const char *const *files, size_t count,
                        struct qc_status *st);

#endif
