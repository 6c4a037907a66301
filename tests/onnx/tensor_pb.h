// SPDX-License-Identifier: Apache-2.0
/* Standalone ONNX TensorProto files (.pb), as in the data sets of ONNX's conformance tests. */
#pragma once

#include "graph/types/tensor.h"

/* Reads one TensorProto. *out is owned (qc_tensor_unref). Errors (QC_BAD_INPUT): not a tensor, truncated, counts that
   do not fit the shape; QC_UNSUPPORTED: a data type that graph/types/dtype.h does not have. */
bool qc_tensor_pb_parse(struct qc_tensor **out, const void *bytes, size_t size, struct qc_status *st);

/* Bytes of a TensorProto with raw_data, owned by the caller (free). name may be NULL. */
bool qc_tensor_pb_print(void **bytes, size_t *size, const char *name, const struct qc_tensor *t, struct qc_status *st);
