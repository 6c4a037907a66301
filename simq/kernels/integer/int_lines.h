// SPDX-License-Identifier: Apache-2.0
/* Inside simq/kernels/integer/: depthwise convolutions of 3 by 3 to bytes, one or two lines at a time; of data that is
   copied, four lines are held. */
#pragma once

#include "simq/kernels/integer/int_mac_state.h"

/* m->lines where that is how it is best done, else NULL. w[tap][channel], bias[channel]. */
bool qc_int_lines_new(struct qc_int_mac *m, const int32_t *w, const int32_t *bias, struct qc_status *st);
size_t qc_int_lines_bytes(const struct qc_int_mac *m);
size_t qc_int_lines_scratch(const struct qc_int_mac *m);

/* One sample: data as it came, y [channels side by side]. */
void qc_int_lines_run(const struct qc_int_mac *m, uint8_t *y, const char *data, uint8_t *scratch);
