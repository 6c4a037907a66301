// SPDX-License-Identifier: Apache-2.0
#include "datasets/stream/data_advice.h"

#include <string.h>

#include "base/closest.h"
#include "datasets/stream/image_axes.h"

const char *qc_advise_name(char *buf, unsigned size, const char *given, const char *const *names, size_t count)
{
    const char *close = qc_closest(given, names, count);
    return close ? qc_text(buf, size, "; did you mean '%s'?", close) : qc_text(buf, size, "%s", "");
}

/* Would these dimensions do, those of axes that are free left aside? */
static bool fits(const struct qc_input_spec *input, const int64_t *dims, unsigned rank)
{
    if (rank != input->rank && rank != input->rank + 1) return false;
    const unsigned skip = rank - input->rank;
    for (unsigned i = skip ? 0 : 1; i < input->rank; i++)
        if (input->dims[i] >= 0 && input->dims[i] != dims[i + skip]) return false;
    return true;
}

const char *qc_advise_shape(char *buf, unsigned size, const struct qc_input_spec *input, const char *dataset,
                            const int64_t *dims, unsigned rank)
{
    static const char *const names[] = {[QC_AXES_LAST] = "nhwc", [QC_AXES_FIRST] = "nchw"},
                             *const where[] = {[QC_AXES_LAST] = "last", [QC_AXES_FIRST] = "first"};
    int64_t turned[QC_DATA_RANK_MAX], one[QC_DATA_RANK_MAX + 1] = {1};
    for (enum qc_image_axes a = QC_AXES_LAST; rank >= 4 && a <= QC_AXES_FIRST; a++) {
        memcpy(turned, dims, rank * sizeof *dims);
        qc_axes_turn(turned, rank, a);
        if (!fits(input, turned, rank)) continue;
        return qc_text(buf, size, "its channels are %s: read it so with --input %s=%s:%s", where[a], input->name,
                       dataset, names[a]);
    }
    memcpy(one + 1, dims, rank * sizeof *dims);
    if (rank + 1 == input->rank && fits(input, one, rank + 1))
        return qc_text(buf, size,
                       "it is one sample without the axis of samples in front: store it with that (x[None])");
    return qc_text(buf, size, "give other data or name another data set with --input %s=DATASET", input->name);
}
