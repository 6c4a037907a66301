// SPDX-License-Identifier: Apache-2.0
/* Derived data of a constant, such as its packed form for a kernel or its sums. They are kept with the tensor, so that
   several plans compute them once. A form is a function of the tensor and of a key; it is freed with the tensor. */
#pragma once

#include "graph/types/tensor.h"

/* Makes an unshared tensor keep forms. */
bool qc_tensor_keep_forms(struct qc_tensor *t, struct qc_status *st);

/* Returns NULL if there is no form of this key or the tensor keeps none. Any thread may call it. */
const void *qc_tensor_form(const struct qc_tensor *t, const void *key, size_t key_bytes);

/* Adds a form to a tensor that keeps forms. Takes ownership of `data` (allocated with malloc), also on failure. *out is
   `data`, or the form that another thread added first; then `data` is freed. */
bool qc_tensor_add_form(const void **out, const struct qc_tensor *t, const void *key, size_t key_bytes, void *data,
                        struct qc_status *st);
