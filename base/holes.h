// SPDX-License-Identifier: Apache-2.0
/* Files of a few bytes that say they have a terabyte: the rest are holes, which read as 0. */
#ifndef QC_BASE_HOLES_H
#define QC_BASE_HOLES_H

#include <stdint.h>

#include "base/status.h"

/* Bytes of an open regular file that are not in holes; all of them where the file system does not say. fd is read from
   its beginning afterwards. */
uint64_t qc_stored_bytes(int fd);

/* Fails (QC_BAD_INPUT, with both numbers) where nearly all of a large file is holes, which would be read for ever. */
bool qc_check_holes(int fd, struct qc_status *st);

#endif
