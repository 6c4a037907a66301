// SPDX-License-Identifier: Apache-2.0
/* What the hdf5_*.c files share, and the one place that includes hdf5.h. Everything but qc_h5_enter is called inside the lock. */
#ifndef QC_DATASETS_HDF5_LIB_H
#define QC_DATASETS_HDF5_LIB_H

#include <hdf5.h>

#include "datasets/hdf5_io.h"

struct qc_h5_file {
    hid_t id;
};

void qc_h5_enter(void); /* takes the lock; no printing by HDF5 in this thread from here on */
void qc_h5_leave(void);

/* "WHAT (HDF5: its innermost message)" */
bool qc_h5_fail(struct qc_status *st, enum qc_code code, const char *what);

/* How elements of a file's type are read; QC_NONE, with *name saying what it is, when they are not. */
enum qc_dtype qc_h5_element_of(const char **name, hid_t type);

/* 2-byte float in native byte order; to be closed. */
hid_t qc_h5_make_float16(size_t exponent_bits, size_t mantissa_bits, size_t bias);

/* Values of a numeric attribute (malloc). false: not numeric, none or too many, or damaged. */
bool qc_h5_attribute_numbers(double **out, size_t *count, hid_t attribute);

#endif
