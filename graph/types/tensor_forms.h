// SPDX-License-Identifier: Apache-2.0
/* Other forms of a constant's numbers - packed for a kernel, added up - that are kept with it, so that many plans make
   them once. They are a function of the tensor and a key of some bytes, and go when the tensor goes. */
#pragma once

#include "graph/types/tensor.h"

/* From now on, of a tensor that nobody else has yet. */
bool qc_tensor_keep_forms(struct qc_tensor *t, struct qc_status *st);

/* NULL: there is none, or none are kept. From any thread. */
const void *qc_tensor_form(const struct qc_tensor *t, const void *key, size_t key_bytes);

/* data: allocated; the tensor's from now on, also on failure. *out: it, or what somebody else has made meanwhile. Of a
   tensor that keeps forms. */
bool qc_tensor_add_form(const void **out, const struct qc_tensor *t, const void *key, size_t key_bytes, void *data,
                        struct qc_status *st);
