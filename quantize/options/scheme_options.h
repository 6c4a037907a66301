// SPDX-License-Identifier: Apache-2.0
/* The quantization scheme of the options. */
#pragma once

#include "quantize/interface/inputs.h"
#include "quantize/options/options.h"
#include "rewrite/passes/partition.h"

/* Sets *out from the options. Arrays are from the arena; texts are borrowed from o. */
bool qc_scheme_options(struct qc_partition_options *out, const struct qc_options *o, struct qc_arena *a,
                       struct qc_status *st);

/* Fails with QC_USAGE if options and inputs of 'quantize' contradict each other; the message says what to do. */
bool qc_options_agree(const struct qc_options *o, const struct qc_job_inputs *in, struct qc_status *st);

/* Returns true for --scale-channels awq and smooth. */
bool qc_options_scale(const struct qc_options *o);
