// SPDX-License-Identifier: Apache-2.0
/* Random access to bytes: a part of a file, or bytes that we wrote to memory or a temporary file. Private to datasets/.
   Reading is thread safe. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/file_map.h"

struct qc_bytes {
    int fd;                  /* -1: in memory */
    bool own;                /* qc_bytes_close closes fd */
    char *memory;            /* malloc, or of the map; NULL: in fd */
    struct qc_file_map *map; /* of a temporary file; may be NULL */
    uint64_t first;          /* position of byte 0 in fd */
    uint64_t size;
};

/* Opens a regular file. Fails with QC_BAD_INPUT if it is missing, a folder or a device; with QC_MACHINE if it cannot be
   read. */
bool qc_bytes_open(struct qc_bytes *out, const char *path, struct qc_status *st);
/* Makes room for `size` bytes: in memory, or in an unnamed temporary file in TMPDIR or /tmp if they are many. Fails
   with QC_MACHINE if there is no such room. */
bool qc_bytes_room(struct qc_bytes *out, uint64_t size, struct qc_status *st);
void qc_bytes_close(struct qc_bytes *b); /* safe to call twice */

/* Fails with QC_BAD_INPUT if the source has fewer bytes. */
bool qc_bytes_read(void *out, const struct qc_bytes *b, uint64_t at, size_t size, struct qc_status *st);
/* Writes within the size given to qc_bytes_room. */
bool qc_bytes_write(struct qc_bytes *b, uint64_t at, const void *data, size_t size, struct qc_status *st);
