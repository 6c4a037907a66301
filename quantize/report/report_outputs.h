// SPDX-License-Identifier: Apache-2.0
/* Errors of the outputs in the report, and of the parts that a Concat joins. */
#pragma once

#include "calib/metrics/measure.h"
#include "export/report/report.h"
#include "quantize/make/network.h"

/* Fills r->outputs, in arena a. m may be NULL. Warns if parts that share a scale have very different errors. */
bool qc_fill_outputs(struct qc_report *r, const struct qc_network *net, const struct qc_measurement *m,
                     struct qc_arena *a, struct qc_status *st);
/* Lists the inputs and outputs that --io-type made integers. */
bool qc_fill_ports(struct qc_report *r, const struct qc_network *net, struct qc_arena *a, struct qc_status *st);
