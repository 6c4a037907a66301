// SPDX-License-Identifier: Apache-2.0
/* What the samples and their outputs look like: ranges of the evaluation samples, classes, outputs that do not change.
 */
#pragma once

#include "calib/metrics/accuracy.h"
#include "quantize/report/job_report.h"

/* Puts the ranges of the inputs in at most 64 units of --eval, and the classes of its labels, into the accuracy of the
   record. Fails if a unit cannot be read. */
bool qc_record_evaluation_data(struct qc_report *r, const struct qc_setup *s, struct qc_status *st);

/* Warns if no output changes noticeably from sample to sample, which samples that are not prepared as for training
   cause, and notes it in the record. Compares outputs of the float network that are known already: with --method auto
   and without --memory-limit. */
void qc_check_constant_outputs(struct qc_report *r, const struct qc_network *net);
