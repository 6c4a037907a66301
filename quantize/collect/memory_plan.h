// SPDX-License-Identifier: Apache-2.0
/* --memory-limit: plans the memory of the stages after "collect" before the data run. */
#pragma once

#include "quantize/pipeline_state.h"

/* p: simulated, unbound. Runs the stages to come with placeholder scales, which give the same graphs, and plans their
   runs. Sets later_bytes of p->calibration_options to the memory that they need with one worker, in addition to the
   memory in use and the statistics, which qc_collect adds. If nothing is collected, the sum is checked here. Does
   nothing without --memory-limit. Errors: those of the stages; QC_MACHINE if --memory-limit is too low. */
bool qc_memory_plan(struct qc_pipeline *p, struct qc_status *st);

/* True if the limit has room for the stages that the plan does not count: scaling channels, refining weights, advice.
   They hold further copies of weights and second moments. Depends on the model, the limit and the options alone, not on
   the memory in use. True without --memory-limit. */
bool qc_memory_ample(const struct qc_pipeline *p);
