// SPDX-License-Identifier: Apache-2.0
/* How many samples a range cuts something off of.

   What a range cuts off is known from the samples that it was made from. Where one or two of them carry nearly all of
   it, large values come in few samples and many at once (a loud recording, a walk that went far), so the next sample
   may lie far outside and be cut off as much as nothing that was seen. */
#ifndef QC_CALIB_TRIALS_CLIPPED_UNITS_H
#define QC_CALIB_TRIALS_CLIPPED_UNITS_H

#include "datasets/samples/dataset.h"

/* (sum e)^2 / sum e^2 over the units, where e is the squared error of cutting off the values of a float32 input to
   lo .. hi: as many as all of which the same is cut off; 0 where nothing is. Values that are no number do not count. */
bool qc_clipped_units(double *units, const struct qc_dataset *data, size_t input, double lo, double hi,
                      unsigned workers, struct qc_status *st);

#endif
