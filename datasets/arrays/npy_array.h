// SPDX-License-Identifier: Apache-2.0
/* One array in numpy's format, versions 1 to 3 (numpy.lib.format); private to datasets/. */
#pragma once

#include "datasets/arrays/byte_source.h"
#include "datasets/samples/dataset.h"

enum { QC_NPY_MAGIC = 6, QC_NPY_TYPE = 40, QC_NPY_HEADER_MAX = 1 << 16 };

struct qc_npy {
    enum qc_dtype dtype;    /* QC_NONE: of a type that is not read */
    char type[QC_NPY_TYPE]; /* what the file says: "<f4", "<U12" */
    bool swap;              /* the other byte order */
    bool fortran;           /* the first axis runs fastest */
    unsigned rank;
    int64_t dims[QC_DATA_RANK_MAX];
    uint64_t values;                /* byte where they begin */
    size_t row_elements, row_bytes; /* one entry of axis 0; of a scalar the one there is */
};

bool qc_npy_is(const void *head, size_t size); /* by its first QC_NPY_MAGIC bytes */

/* Reads the header, of which b has at least the first QC_NPY_HEADER_MAX bytes, and checks that in `size` bytes all
   values are there. QC_BAD_INPUT: no such array, truncated, damaged. */
bool qc_npy_open(struct qc_npy *out, const struct qc_bytes *b, uint64_t size, struct qc_status *st);

/* count rows from first out of b (laid out in C's order), in the machine's byte order. */
bool qc_npy_rows(void *out, const struct qc_npy *n, const struct qc_bytes *b, size_t first, size_t count,
                 struct qc_status *st);

/* The values of a Fortran array in C's order, in a room of their own; n is changed to say so. */
bool qc_npy_turn(struct qc_bytes *out, struct qc_npy *n, const struct qc_bytes *b, struct qc_status *st);
