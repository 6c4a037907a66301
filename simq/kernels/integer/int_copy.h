// SPDX-License-Identifier: Apache-2.0
/* Inside simq/kernels/integer/: copies the data of a multiply-accumulate step to the form that its tiles read:
   padded, spread out for a transposed convolution, with contiguous channels, less the shift. */
#pragma once

#include "simq/kernels/integer/int_mac_state.h"

/* Copies one sample: `from` with the strides of m->d, `to` with those of m->plane_step. */
void qc_int_copy(const struct qc_int_mac *m, uint8_t *to, const char *from);

/* Copies line k of plane i. */
void qc_int_copy_line(const struct qc_int_mac *m, uint8_t *to, const char *from, int64_t i, int64_t k);
