// SPDX-License-Identifier: Apache-2.0
/* Rows of bytes that do not fit into memory, in an unnamed temporary HDF5 file that disappears with the process. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct qc_spill;

/* folder: of the file; NULL: TMPDIR, or /tmp. Fails with QC_MACHINE, naming the folder, if the file cannot be made. */
bool qc_spill_new(struct qc_spill **out, const char *folder, struct qc_status *st);
void qc_spill_free(struct qc_spill *s); /* NULL-safe */

/* Adds a set of rows of row_bytes (at least 1) each; *set >= 1 identifies it below. */
bool qc_spill_add(int64_t *set, struct qc_spill *s, size_t rows, size_t row_bytes, struct qc_status *st);
/* Any thread may call these, for different rows at the same time. A row must be written before it is read. */
bool qc_spill_write(struct qc_spill *s, int64_t set, size_t row, size_t row_bytes, const void *data,
                    struct qc_status *st);
bool qc_spill_read(void *data, struct qc_spill *s, int64_t set, size_t row, size_t row_bytes, struct qc_status *st);
/* Reads `bytes` of a row from byte `at`. */
bool qc_spill_read_part(void *data, struct qc_spill *s, int64_t set, size_t row, size_t at, size_t bytes,
                        struct qc_status *st);
/* Frees a set; its room is used again. */
void qc_spill_drop(struct qc_spill *s, int64_t set);
