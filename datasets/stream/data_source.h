// SPDX-License-Identifier: Apache-2.0
/* Opening data by path; private to datasets/. */
#pragma once

#include "datasets/arrays/data_readers.h"

/* Opens the data at call->path; *out is NULL for an HDF5 file. Fails like qc_dataset_open. */
bool qc_data_source_open(struct qc_memory_data **out, const struct qc_data_call *call, struct qc_status *st);
