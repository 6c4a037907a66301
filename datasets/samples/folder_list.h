// SPDX-License-Identifier: Apache-2.0
/* Lists the files of a folder that samples are made of. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "base/arena.h"
#include "base/file.h"

enum { QC_FOLDER_DEPTH_MAX = 16, QC_FOLDER_FILES_MAX = 20000000 };

/* By file name extension, ignoring case. */
enum qc_file_kind {
    QC_FILE_OTHER,
    QC_FILE_IMAGE, /* .jpg .jpeg .jpe .jfif .png .webp */
    QC_FILE_NPY,
    QC_FILE_NPZ
};
enum qc_file_kind qc_file_kind(const char *name);

struct qc_folder {
    const char **files; /* paths below the folder, ordered by the bytes of folder and name */
    size_t count;
    const char **classes; /* names of subfolders with such files, in order */
    size_t class_count;
    uint32_t *labels;        /* class index of each file; NULL: some lie in the folder itself */
    size_t others;           /* files of other kinds, except hidden ones and notes (.csv, .txt, .json, .md, .xml, .yaml,
                                .yml) */
    const char *first_other; /* one of them */
    struct timespec newest;  /* when the last of the files was written; 0: not known */
};

/* Returns true if the folder or its subfolders hold a file of this kind or a link that is not followed. Stops at the
   first. Never fails. */
bool qc_folder_has(const char *path, enum qc_file_kind kind, enum qc_follow follow);

/* Fails with QC_BAD_INPUT if a file was written after the folder was listed. */
bool qc_folder_is_unchanged(const struct qc_folder *f, const char *path, struct qc_status *st);

/* Lists files of one kind in the folder and its subfolders, without hidden ones, in the arena. Links that stay in the
   folder are followed. Fails with QC_BAD_INPUT if the folder is missing or no folder, a subfolder is found twice, or a
   link leads out of it and may not be followed; with QC_UNSUPPORTED if it is too deep or has too many files; with
   QC_MACHINE for permissions. */
bool qc_folder_list(struct qc_folder *out, const char *path, enum qc_file_kind kind, enum qc_follow follow,
                    struct qc_arena *a, struct qc_status *st);
