// SPDX-License-Identifier: Apache-2.0
/* Inside simq/kernels/integer/: the data of a multiply-accumulate step as its tiles read them: padded, spread for a
   transposed convolution, channels side by side, less the shift. */
#pragma once

#include "simq/kernels/integer/int_mac_state.h"

/* One element of the batch: `from` in the strides of m->d, `to` in those of m->plane_step. */
void qc_int_copy(const struct qc_int_mac *m, uint8_t *to, const char *from);

/* Line k of plane i of the copy. */
void qc_int_copy_line(const struct qc_int_mac *m, uint8_t *to, const char *from, int64_t i, int64_t k);
