// SPDX-License-Identifier: Apache-2.0
/* What a target cannot hold: the rules `refuse` (docs/targets.md). */
#pragma once

#include "rewrite/language/rewriter.h"

/* Fails (QC_UNSUPPORTED), naming every node that a rule refuses and why. */
bool qc_check_refused(const struct qc_graph *g, const struct qc_rules *rules, struct qc_status *st);
