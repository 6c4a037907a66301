// SPDX-License-Identifier: Apache-2.0
/* --size: chooses the bits of each layer's weights, so that the file fits and the outputs lose least. */
#pragma once

#include "base/arena.h"
#include "quantize/report/job_report.h"
#include "quantize/search/candidate.h"

/* Sets *out to the scheme that --size begins with: all weights have 4 bits, also tables, which have at least 8 bits by
   default. from: the scheme of the options. */
bool qc_size_first(struct qc_scheme *out, const struct qc_scheme *from, const struct qc_setup *s, struct qc_arena *a,
                   struct qc_status *st);

/* The network of c has the scheme above. Networks with 8 bits and, if weights have blocks, with 2 are made. The error
   of each layer's weights follows from the second moments in closed form. One measurement of each single layer scales
   it to the noise of the outputs. The least sum of noise within the size is chosen and made; if the file is larger than
   estimated, the choice is repeated. Afterwards c has the chosen widths, and the record "size" and "frontier". Errors:
   those of making; QC_DEMAND with the least possible size if no file fits. */
bool qc_fit_size(struct qc_report *r, struct qc_candidate *c, struct qc_status *st);
