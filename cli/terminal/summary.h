// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/json.h"

/* Prints a summary of a report (of qc_job_report_json), about 15 lines, to standard output; on a terminal lines wrap at
   its width. with_report: the report is written too, so that the text may refer to it. Fails if memory runs out. */
bool qc_print_summary(const struct qc_json *record, bool with_report, struct qc_status *st);
