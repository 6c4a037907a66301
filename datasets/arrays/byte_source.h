// SPDX-License-Identifier: Apache-2.0
/* Random access to bytes: a part of a file, or bytes that we wrote to memory or a temporary file. Private to datasets/.
   Reading is thread safe. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/file_map.h"
#include "datasets/samples/dataset.h"

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

/* Members of a ZIP archive (APPNOTE.TXT 6.3: stored and deflated, zip64); private to datasets/. */

struct qc_zip_member {
    const char *name;
    unsigned method;       /* 0: stored; 8: deflated */
    uint32_t crc;          /* CRC-32 of the unpacked bytes */
    uint64_t packed, size; /* bytes in the archive and unpacked */
    uint64_t header, at;   /* offsets of its local header and of its packed bytes */
};

bool qc_zip_is(const void *head, size_t size);

/* Lists the members in the archive's order, in the arena. Fails with QC_BAD_INPUT if the archive is truncated or
   damaged or members share bytes; with QC_UNSUPPORTED if it is encrypted, in several volumes or packed by another
   method (named). */
bool qc_zip_list(struct qc_zip_member **out, size_t *count, const struct qc_bytes *b, struct qc_arena *a,
                 struct qc_status *st);

/* Returns the first `size` bytes of a member: a part of b if it is stored, else unpacked. The whole member is checked
   against its CRC. */
bool qc_zip_unpack(struct qc_bytes *out, const struct qc_bytes *b, const struct qc_zip_member *m, uint64_t size,
                   struct qc_status *st);

/* One array in NumPy's format, versions 1 to 3 (numpy.lib.format); private to datasets/. */

enum { QC_NPY_MAGIC = 6, QC_NPY_TYPE = 40, QC_NPY_HEADER_MAX = 1 << 16 };

struct qc_npy {
    enum qc_dtype dtype;    /* QC_NONE: the type is not supported */
    char type[QC_NPY_TYPE]; /* the type in the file: "<f4", "<U12" */
    bool swap;              /* not in native byte order */
    bool fortran;           /* the first axis runs fastest */
    unsigned rank;
    int64_t dims[QC_DATA_RANK_MAX];
    uint64_t values;                /* offset of the values */
    size_t row_elements, row_bytes; /* of one entry of axis 0; for a scalar, of its value */
};

bool qc_npy_is(const void *head, size_t size); /* checks the first QC_NPY_MAGIC bytes */

/* Reads the header (b has at least the first QC_NPY_HEADER_MAX bytes) and checks that `size` bytes hold all values.
   Fails with QC_BAD_INPUT if b is no such array, truncated or damaged. */
bool qc_npy_open(struct qc_npy *out, const struct qc_bytes *b, uint64_t size, struct qc_status *st);

/* Reads count rows from first out of b, which is in C order, to native byte order. */
bool qc_npy_rows(void *out, const struct qc_npy *n, const struct qc_bytes *b, size_t first, size_t count,
                 struct qc_status *st);

/* Writes the values of a Fortran array in C order to a new qc_bytes and clears n->fortran. */
bool qc_npy_turn(struct qc_bytes *out, struct qc_npy *n, const struct qc_bytes *b, struct qc_status *st);
