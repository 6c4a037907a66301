// SPDX-License-Identifier: Apache-2.0
#include "calib/trials/input_steps.h"

#include <math.h>
#include <stdlib.h>

/* So many values show it at least; and so much of a step is the rounding of floats. */
enum { VALUES_LEAST = 1024 };
static const double NEAR = 0.01;

struct steps {
    double step, most, lo, hi;
    size_t values;
    bool none;
};

/* The largest step of which both are multiples, within what floats are; something below `least` where it is less. */
static double common(double a, double b, double least)
{
    while (b > least) {
        const double rest = fabs(a - b * rint(a / b));
        a = b;
        b = rest > NEAR * a ? rest : 0;
    }
    return b > 0 ? b : a;
}

static void take(struct steps *s, double v)
{
    s->lo = fmin(s->lo, v);
    s->hi = fmax(s->hi, v);
    if (!(s->step > 0)) {
        s->step = fabs(v);
    } else if (fabs(v / s->step - rint(v / s->step)) > NEAR) {
        s->step = common(fabs(v), s->step, (s->hi - s->lo) / s->most / 2);
    }
    s->none = s->step > 0 && s->hi - s->lo > (s->most + NEAR) * s->step;
}

bool qc_input_step(double *step, const struct qc_dataset *data, size_t input, double most, struct qc_status *st)
{
    const size_t count = qc_dataset_units(data);
    struct qc_dataset_scratch *scratch = NULL;
    struct steps s = {.most = most};
    bool ok = qc_dataset_scratch_new(&scratch, st);
    *step = 0;
    for (size_t u = 0; ok && u < count && !s.none; u++) {
        const size_t bytes = qc_dataset_unit_bytes(data, input, u), n = qc_dataset_unit_elements(data, input, u);
        float *x = malloc(bytes + 1);
        ok = (x || qc_fail_memory(st, bytes)) && qc_dataset_read(x, data, input, u, scratch, st);
        for (size_t i = 0; ok && i < n && !s.none; i++) {
            if (!isfinite(x[i])) continue;
            s.values++;
            take(&s, (double)x[i]);
        }
        free(x);
    }
    qc_dataset_scratch_free(scratch);
    if (!ok || s.none || s.values < VALUES_LEAST || !(s.step > 0)) return ok;
    const double largest = fmax(-s.lo, s.hi); /* the same in every order of the samples */
    *step = largest / rint(largest / s.step);
    return true;
}

bool qc_range_of_step(double *lo, double *hi, double step, struct qc_levels levels, enum qc_symmetry symmetry)
{
    const double all = (double)levels.hi - levels.lo,
                 reach = symmetry == QC_SYMMETRIC ? 2 * fmax(-*lo, *hi) : *hi - *lo;
    if (!(step > 0) || !(reach > 0)) return false;
    const double parts = floor(all * step / reach + NEAR), fine = step / parts;
    if (!(parts >= 1)) return false;
    if (symmetry == QC_SYMMETRIC) {
        *hi = fine * levels.hi;
        *lo = -*hi;
    } else { /* what is left of the levels lies on both sides, if there are two */
        const double below = rint(-*lo / fine), left = all - below - rint(*hi / fine);
        if (left < 0) return false;
        const double more = *lo < 0 ? *hi > 0 ? floor(left / 2) : left : 0;
        *lo = 0 - fine * (below + more); /* not -0 */
        *hi = *lo + fine * all;
    }
    const double scale = (double)qc_affine_from_range(*lo, *hi, levels, symmetry).scale;
    return fabs(scale / fine - 1) < 1e-6;
}
