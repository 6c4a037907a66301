// SPDX-License-Identifier: Apache-2.0
/* Inside simq/: multiply-accumulate ops in integers: acc = bias + sum (qa - za)(qw - zw), exact modulo 2^32 (or in a
   given accumulator), then at once, while the sums are in cache, whatever conversion follows.

   Both operands may be held as stored integers or centred in float32. Source of the form: docs/numerics.md. Data are
   taken as qa - shift, so that they fit the instructions, and za - shift times the sum of a
   channel's weights goes into its bias. */
#pragma once

#include "simq/kernels/integer/int_def.h"

struct qc_int_mac; /* state of a step: shared by workers */

/* Errors: QC_UNSUPPORTED when the numbers do not fit. *scratch: bytes a run needs. */
bool qc_int_mac_new(struct qc_int_mac **out, size_t *scratch, const struct qc_int_def *d, struct qc_status *st);
void qc_int_mac_free(struct qc_int_mac *m); /* NULL-safe */
size_t qc_int_mac_bytes(const struct qc_int_mac *m);
const char *qc_int_mac_name(const struct qc_int_mac *m);
/* With an accumulator of fewer than 32 bits what is seen of the sums is added to *sums, else it is not touched. */
void qc_int_mac_run(const struct qc_int_mac *m, void *y, const void *x, const void *weights, void *scratch,
                    struct qc_sums *sums);
