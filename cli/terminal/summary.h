// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "export/report/report.h"

/* Prints a summary of a report, about 15 lines, to standard output. with_report: the report is written too, so that the
   text may refer to it. */
void qc_print_summary(const struct qc_report *r, bool with_report);
