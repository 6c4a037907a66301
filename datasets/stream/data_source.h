// SPDX-License-Identifier: Apache-2.0
/* What a path of data is; private to datasets/. */
#pragma once

#include "datasets/arrays/data_readers.h"

/* Opens whatever is at call->path: *out, or NULL where it is an HDF5 file. Errors: as of qc_dataset_open. */
bool qc_data_source_open(struct qc_memory_data **out, const struct qc_data_call *call, struct qc_status *st);
