// SPDX-License-Identifier: Apache-2.0
/* --size: chooses the bits of each layer's weights, so that the file fits and the outputs lose least. */
#pragma once

#include "base/arena.h"
#include "export/report/report.h"
#include "quantize/pipeline_state.h"

/* p has run, with 4-bit weights. The stages run again with 8 bits and, if weights have blocks, with 2. The error of
   each layer's weights follows from the second moments in closed form. One measurement of each single layer scales it
   to the noise of the outputs. The least sum of noise within the size is chosen and
   made; if the file is larger than estimated, the choice is repeated. Afterwards p has run with the chosen widths. *out
   is from the arena of p. Errors: those of the stages; QC_DEMAND with the least possible size if no file fits. */
bool qc_fit_size(struct qc_report_size **out, struct qc_pipeline *p, struct qc_status *st);
