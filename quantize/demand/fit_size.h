// SPDX-License-Identifier: Apache-2.0
/* --size: the bits of each layer's weights, so that the file is no larger and the outputs lose least. */
#pragma once

#include "export/report/report.h"
#include "quantize/pipeline_state.h"

/* p has run, with weights of 4 bits. The stages come again with 8 bits and, in blocks, with 2; what each layer's
   weights lose then is known in closed form from the second moments, and one run of each layer alone tells what such a
   loss does to the outputs. The least sum is chosen (quantize/report/size_frontier.h) and made; where the file turns
   out larger than it was taken to be, again. Afterwards p has run with what was chosen. *out is from the arena of p.
   Errors: those of the stages; the file cannot be so small (QC_DEMAND), with the least that it can have. */
bool qc_fit_size(struct qc_report_size **out, struct qc_pipeline *p, struct qc_status *st);
