// SPDX-License-Identifier: Apache-2.0
/* The quantization scheme of the options. */
#pragma once

#include "quantize/options/options.h"
#include "rewrite/passes/partition.h"

/* Sets *out from the options. Arrays are from the arena; texts are borrowed from o. */
bool qc_scheme_options(struct qc_partition_options *out, const struct qc_options *o, struct qc_arena *a,
                       struct qc_status *st);
