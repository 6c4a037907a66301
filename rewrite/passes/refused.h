// SPDX-License-Identifier: Apache-2.0
/* Nodes that a target cannot run: the rules `refuse` (docs/targets.md). */
#pragma once

#include "rewrite/language/rewriter.h"

/* Fails (QC_UNSUPPORTED) with the name and the reason of every node that a rule refuses. */
bool qc_check_refused(const struct qc_graph *g, const struct qc_rules *rules, struct qc_status *st);
