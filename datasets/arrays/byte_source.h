// SPDX-License-Identifier: Apache-2.0
/* Bytes that are read from anywhere in any order: a part of a file, or what was written to a place of our own. Private
   to datasets/. Reading is thread safe. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct qc_bytes {
    int fd;         /* -1: in memory */
    bool own;       /* fd is closed with it */
    char *memory;   /* malloc; NULL: in fd */
    uint64_t first; /* place of byte 0 in fd */
    uint64_t size;
};

/* A regular file. QC_BAD_INPUT: missing, a folder, a device; QC_MACHINE: cannot be read. */
bool qc_bytes_open(struct qc_bytes *out, const char *path, struct qc_status *st);
/* Room for so many bytes: in memory, or where they are many in a temporary file in TMPDIR or /tmp that has no name.
   QC_MACHINE: there is no such room. */
bool qc_bytes_room(struct qc_bytes *out, uint64_t size, struct qc_status *st);
void qc_bytes_close(struct qc_bytes *b); /* safe on one that is closed */

/* QC_BAD_INPUT when so many bytes are not there. */
bool qc_bytes_read(void *out, const struct qc_bytes *b, uint64_t at, size_t size, struct qc_status *st);
/* Into a room, inside its size. */
bool qc_bytes_write(struct qc_bytes *b, uint64_t at, const void *data, size_t size, struct qc_status *st);
