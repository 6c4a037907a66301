// SPDX-License-Identifier: Apache-2.0
/* What the samples and their outputs look like: ranges, classes, outputs that do not change. */
#pragma once

#include "calib/metrics/accuracy.h"
#include "quantize/report/job_report.h"

/* Puts the ranges of the inputs in at most 64 units, and the classes of the labels, into the data and the accuracy of
   the record: of the calibration samples only of inputs that are no layers. count: classes of the labels, or 0. Fails
   if a unit cannot be read. */
bool qc_record_sample_facts(struct qc_report *r, const struct qc_setup *s, size_t count, struct qc_status *st);

/* Warns if no output changes noticeably from sample to sample, which samples that are not prepared as for training
   cause, and notes it in the record. Compares outputs of the float network that are known already: with --method auto
   and without --memory-limit. */
void qc_check_constant_outputs(struct qc_report *r, const struct qc_network *net);
