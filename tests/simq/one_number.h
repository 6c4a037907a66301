// SPDX-License-Identifier: Apache-2.0
/* Graphs of one input and one number, as text. */
#pragma once

#include "simq/plan/plan.h"

/* The number. name: of the case, for messages. plan_text: what the plan prints (free), or NULL. Ends the test on
 * errors. */
float one_number(char **plan_text, const char *graph, const float *data, const struct qc_plan_options *options,
                 const char *name);
