// SPDX-License-Identifier: Apache-2.0
/* The files of a folder that samples are made of. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/file.h"

enum { QC_FOLDER_DEPTH_MAX = 16, QC_FOLDER_FILES_MAX = 20000000 };

/* By the ends of their names, whatever the case. */
enum qc_file_kind {
    QC_FILE_OTHER,
    QC_FILE_IMAGE, /* .jpg .jpeg .jpe .jfif .png .webp */
    QC_FILE_NPY
};
enum qc_file_kind qc_file_kind(const char *name);

struct qc_folder {
    const char **files; /* paths below the folder, in the order of bytes of folder and name */
    size_t count;
    const char **classes; /* names of the folders in it that hold such files, in order */
    size_t class_count;
    uint32_t *labels;        /* number of the class of each file; NULL: some lie in the folder itself */
    size_t others;           /* files of other kinds that are no others' business (no hidden ones, no .csv, .txt, .json,
                                .md) */
    const char *first_other; /* one of them */
};

/* Is there a file of this kind in the folder or those in it, or a link that is not followed? Stops at the first. Never
   an error. */
bool qc_folder_has(const char *path, enum qc_file_kind kind, enum qc_follow follow);

/* Files of one kind in the folder and those in it, hidden ones left out. In the arena. Links that stay in the folder
   are followed. QC_BAD_INPUT: cannot be listed (missing, no folder), a link to a folder or to a file of any kind leads
   out and is not to be followed, a folder is there twice; QC_UNSUPPORTED: too deep, too many; QC_MACHINE: permissions.
 */
bool qc_folder_list(struct qc_folder *out, const char *path, enum qc_file_kind kind, enum qc_follow follow,
                    struct qc_arena *a, struct qc_status *st);
