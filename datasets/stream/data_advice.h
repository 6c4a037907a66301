// SPDX-License-Identifier: Apache-2.0
/* What people may have meant whose data do not fit; private to datasets/. */
#ifndef QC_DATASETS_STREAM_DATA_ADVICE_H
#define QC_DATASETS_STREAM_DATA_ADVICE_H

#include "datasets/samples/dataset.h"

/* "; did you mean 'NAME'?" with the closest of count names (name(user, i)), or "". Returns buf. */
const char *qc_advise_name(char *buf, unsigned size, const char *given, const char *const *names, size_t count);

/* What to do about data of this shape for this input: channels on the wrong axis, a sample without its axis, else
   the options there are. Returns buf. */
const char *qc_advise_shape(char *buf, unsigned size, const struct qc_input_spec *input, const char *dataset,
                            const int64_t *dims, unsigned rank);

#endif
