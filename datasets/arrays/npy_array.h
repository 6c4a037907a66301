// SPDX-License-Identifier: Apache-2.0
/* One array in NumPy's format, versions 1 to 3 (numpy.lib.format); private to datasets/. */
#pragma once

#include "datasets/arrays/byte_source.h"
#include "datasets/samples/dataset.h"

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
