// SPDX-License-Identifier: Apache-2.0
/* --memory-limit: what the stages behind collecting need is known before the data are run. */
#pragma once

#include "quantize/pipeline_state.h"

/* p: simulated, not bound yet. Goes through the stages to come with scales made up, which have the same graphs, and
   plans what is run of them; sets later_bytes of p->calibration_options to what they need with one
   worker beside what there is now and what is collected, which qc_collect adds; where nothing is collected it is
   checked here. Nothing without --memory-limit. Errors: of the stages; --memory-limit is too low for them
   (QC_MACHINE). */
bool qc_memory_plan(struct qc_pipeline *p, struct qc_status *st);
