// SPDX-License-Identifier: Apache-2.0
/* Inside simq/kernels/integer/: 3 by 3 depthwise convolutions with byte results, one or two lines at a time. If data
   is copied, four lines are held. */
#pragma once

#include "simq/kernels/integer/int_mac_state.h"

/* Sets m->lines if this kernel is faster, else leaves it NULL. w[tap][channel], bias[channel]. */
bool qc_int_lines_new(struct qc_int_mac *m, const int32_t *w, const int32_t *bias, struct qc_status *st);
size_t qc_int_lines_bytes(const struct qc_int_mac *m);
size_t qc_int_lines_scratch(const struct qc_int_mac *m);

/* Computes one sample: unpadded data, y with contiguous channels. */
void qc_int_lines_run(const struct qc_int_mac *m, uint8_t *y, const char *data, uint8_t *scratch);
