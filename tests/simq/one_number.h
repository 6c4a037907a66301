// SPDX-License-Identifier: Apache-2.0
/* Graphs of one input and one number, as text. */
#ifndef QC_TESTS_SIMQ_ONE_NUMBER_H
#define QC_TESTS_SIMQ_ONE_NUMBER_H

#include "simq/plan/plan.h"

/* The number. name: of the case, for messages. plan_text: what the plan prints (free), or NULL. Ends the test on
 * errors. */
float one_number(char **plan_text, const char *graph, const float *data, const struct qc_plan_options *options,
                 const char *name);

#endif
