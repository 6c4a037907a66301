// SPDX-License-Identifier: Apache-2.0
/* What the options say about what is quantized, and how. */
#pragma once

#include "quantize/options/options.h"
#include "rewrite/passes/partition.h"

/* Arrays from the arena; texts are those of o. */
bool qc_scheme_options(struct qc_partition_options *out, const struct qc_options *o, struct qc_arena *a,
                       struct qc_status *st);
