// SPDX-License-Identifier: Apache-2.0
/* Fills the report from a finished pipeline. */
#pragma once

#include "calib/metrics/measure.h"
#include "calib/metrics/sensitivity.h"
#include "export/report/report.h"
#include "quantize/make/network.h"

/* Fills the layers in the order of the network. m may be NULL. */
bool qc_fill_layers(struct qc_report *r, const struct qc_network *p, const struct qc_measurement *m,
                    struct qc_status *st);

/* Fills the overflows of accumulators of fewer than 32 bits, counted on `samples` samples of a file. Does nothing with
   32 bits. */
bool qc_fill_accumulator(struct qc_report *r, const struct qc_network *p, const struct qc_overflows *o,
                         const char *file, size_t samples, struct qc_status *st);

/* Fills the effects of single layers on the outputs. */
bool qc_fill_effects(struct qc_report *r, const struct qc_sensitivity *s, struct qc_arena *a, struct qc_status *st);
