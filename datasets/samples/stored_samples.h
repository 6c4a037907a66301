// SPDX-License-Identifier: Apache-2.0
/* Samples that a file says it has, against the bytes that it has of them; private to datasets/. */
#ifndef QC_DATASETS_SAMPLES_STORED_SAMPLES_H
#define QC_DATASETS_SAMPLES_STORED_SAMPLES_H

#include <stddef.h>

#include "base/status.h"

/* Fails (QC_BAD_INPUT, with both numbers) if so many samples of so many bytes each cannot come out of the stored bytes:
   shapes are free, and 10^12 samples without elements, or never written, would be read for ever. stored: SIZE_MAX where
   it is unknown. remedy: what else the user can do than to store the values; "" where there is nothing. */
bool qc_check_stored(size_t samples, size_t sample_bytes, size_t stored, const char *remedy, struct qc_status *st);

#endif
