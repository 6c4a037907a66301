// SPDX-License-Identifier: Apache-2.0
/* From a finished pipeline to the report. */
#pragma once

#include "calib/metrics/sensitivity.h"
#include "export/report/report.h"
#include "quantize/pipeline_state.h"

/* Layers in the order of the network. measurement may be NULL; counted: overflows of narrow accumulators, NULL where
   nobody counted. Behind qc_fill_effects. */
bool qc_fill_layers(struct qc_report *r, const struct qc_pipeline *p, const struct qc_measurement *m,
                    const struct qc_overflows *counted, struct qc_status *st);

/* Accumulators of fewer than 32 bits, and what they did on so many samples of a file; nothing with 32 bits. */
bool qc_fill_accumulator(struct qc_report *r, const struct qc_pipeline *p, const struct qc_overflows *o,
                         const char *file, size_t samples, struct qc_status *st);

/* What each layer alone does to the outputs. */
bool qc_fill_effects(struct qc_report *r, const struct qc_sensitivity *s, struct qc_arena *a, struct qc_status *st);
