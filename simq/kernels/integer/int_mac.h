// SPDX-License-Identifier: Apache-2.0
/* Inside simq/: multiply-accumulate ops in integers: acc = bias + sum (qa - za)(qw - zw), exact modulo 2^32 or in a
   given accumulator. The conversion of the result follows at once, while the sums are in cache.

   Both operands may be stored integers or centred float32. Source of the form: docs/numerics.md. Data is held as qa
   - shift, to fit the instructions; (za - shift) times the sum of a channel's weights is subtracted from its bias. */
#pragma once

#include "simq/kernels/integer/int_def.h"

struct qc_int_mac; /* state of a step, shared by workers */

/* Fails with QC_UNSUPPORTED if the numbers do not fit. *scratch: bytes per run. */
bool qc_int_mac_new(struct qc_int_mac **out, size_t *scratch, const struct qc_int_def *d, struct qc_status *st);
void qc_int_mac_free(struct qc_int_mac *m); /* NULL-safe */
size_t qc_int_mac_bytes(const struct qc_int_mac *m);
const char *qc_int_mac_name(const struct qc_int_mac *m);
/* With an accumulator of fewer than 32 bits, adds the statistics of the sums to *sums; otherwise sums is not used. */
void qc_int_mac_run(const struct qc_int_mac *m, void *y, const void *x, const void *weights, void *scratch,
                    struct qc_sums *sums);
