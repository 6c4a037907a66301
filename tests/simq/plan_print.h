// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "simq/plan/plan.h"

/* Returns one line per step: op, shapes, layout, fused nodes, node name. The caller frees it. */
char *plan_print(const struct qc_plan *p, struct qc_status *st);
