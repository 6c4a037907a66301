// SPDX-License-Identifier: Apache-2.0
/* Inside simq/kernels/integer/: sums of products as x86 without VNNI computes them: two products at a time,
   saturated at 16 bits (arith/pair_product.h). Data are unsigned bytes, weights are as stored, in the order of
   graph/core/pair_order.h; zero points are subtracted afterwards. Plain loops, one pixel at a time. */
#pragma once

#include "simq/kernels/integer/int_mac_state.h"

/* Bytes of the packed weights of a group, and of scratch per pixel. The runs and channels of m must be set. */
size_t qc_int_pairs_bytes(const struct qc_int_mac *m);
size_t qc_int_pairs_scratch(const struct qc_int_mac *m);

/* Computes one group: data starts at the group's first channel, y at its first result. */
void qc_int_pairs_run(const struct qc_int_mac *m, int64_t group, const uint8_t *data, const uint8_t *weights,
                      const int32_t *bias, char *y, void *scratch);
