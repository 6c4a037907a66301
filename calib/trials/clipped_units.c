// SPDX-License-Identifier: Apache-2.0
#include "calib/trials/clipped_units.h"

#include <stdlib.h>

#include "base/pool.h"

static double cut_off(const float *x, size_t n, double lo, double hi)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        const double v = (double)x[i], over = v > hi ? v - hi : v < lo ? lo - v : 0;
        sum += over * over;
    }
    return sum;
}

struct clipping {
    const struct qc_dataset *data;
    size_t input;
    double lo, hi;
    double *of; /* [units] */
};

static bool clip_unit(void *user, size_t unit, unsigned worker, struct qc_status *st)
{
    const struct clipping *c = user;
    const size_t bytes = qc_dataset_unit_bytes(c->data, c->input, unit);
    struct qc_dataset_scratch *scratch = NULL;
    float *x = malloc(bytes + 1);
    (void)worker;
    const bool ok = (x || qc_fail_memory(st, bytes)) && qc_dataset_scratch_new(&scratch, st) &&
                    qc_dataset_read(x, c->data, c->input, unit, scratch, st);
    if (ok) c->of[unit] = cut_off(x, qc_dataset_unit_elements(c->data, c->input, unit), c->lo, c->hi);
    qc_dataset_scratch_free(scratch);
    free(x);
    return ok;
}

bool qc_clipped_units(double *units, const struct qc_dataset *data, size_t input, double lo, double hi,
                      unsigned workers, struct qc_status *st)
{
    const size_t count = qc_dataset_units(data);
    const struct qc_pool_options pool = {.workers = workers ? workers : 1};
    struct clipping c = {.data = data, .input = input, .lo = lo, .hi = hi, .of = calloc(count + 1, sizeof *c.of)};
    double sum = 0, squares = 0;
    const bool ok = (c.of || qc_fail_memory(st, count * sizeof *c.of)) && qc_pool_run(count, clip_unit, &c, &pool, st);
    for (size_t u = 0; ok && u < count; u++) {
        sum += c.of[u];
        squares += c.of[u] * c.of[u];
    }
    free(c.of);
    *units = squares > 0 ? sum * sum / squares : 0;
    return ok;
}
