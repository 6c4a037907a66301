// SPDX-License-Identifier: Apache-2.0
/* Inside simq/kernels/integer/: sums of products as x86 without VNNI makes them, two products at a time saturated at 16
   bits (arith/pair_product.h). Data are bytes without a sign, weights as they are stored, in the order of
   graph/core/pair_order.h; their zero points come off behind. One pixel after the other in plain loops. */
#pragma once

#include "simq/kernels/integer/int_mac_state.h"

/* Bytes of the packed weights of a group, of what a pixel needs. m: runs and channels are set. */
size_t qc_int_pairs_bytes(const struct qc_int_mac *m);
size_t qc_int_pairs_scratch(const struct qc_int_mac *m);

/* One group: data begin at the group's first channel, y at its first result. */
void qc_int_pairs_run(const struct qc_int_mac *m, int64_t group, const uint8_t *data, const uint8_t *weights,
                      const int32_t *bias, char *y, void *scratch);
