// SPDX-License-Identifier: Apache-2.0
/* Matrices and their transposes. */
#pragma once

#include "graph/types/tensor.h"

/* Returns true if a is the transpose of b: matrices of one type with the same bytes in each element. */
bool qc_tensor_is_transposed(const struct qc_tensor *a, const struct qc_tensor *b);

/* Returns the transpose of a matrix; NULL and a status if memory is out. */
struct qc_tensor *qc_tensor_transposed(const struct qc_tensor *t, struct qc_status *st);
