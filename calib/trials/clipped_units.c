// SPDX-License-Identifier: Apache-2.0
#include "calib/trials/clipped_units.h"

#include <stdlib.h>

static double cut_off(const float *x, size_t n, double lo, double hi)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        const double v = (double)x[i], over = v > hi ? v - hi : v < lo ? lo - v : 0;
        sum += over * over;
    }
    return sum;
}

bool qc_clipped_units(double *units, const struct qc_dataset *data, size_t input, double lo, double hi,
                      struct qc_status *st)
{
    const size_t bytes = qc_dataset_bytes(data, input);
    double sum = 0, squares = 0;
    struct qc_dataset_scratch *scratch = NULL;
    float *x = malloc(bytes + 1);
    bool ok = (x || qc_fail_memory(st, bytes)) && qc_dataset_scratch_new(&scratch, st);
    for (size_t u = 0; ok && u < qc_dataset_units(data); u++) {
        if (!(ok = qc_dataset_read(x, data, input, u, scratch, st))) break;
        const double e = cut_off(x, qc_dataset_unit_elements(data, input, u), lo, hi);
        sum += e;
        squares += e * e;
    }
    qc_dataset_scratch_free(scratch);
    free(x);
    *units = squares > 0 ? sum * sum / squares : 0;
    return ok;
}
