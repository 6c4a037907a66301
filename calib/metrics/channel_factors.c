// SPDX-License-Identifier: Apache-2.0
#include "calib/metrics/compare.h"

#include <math.h>
#include <stdlib.h>

/* ELEMENTS: factors of fewer fit noise. CHANNELS: limit on memory. Factors are found if they explain nine tenths of the
   difference (LESS_NOISE) and one of them differs from 1 by a fifth (FACTOR). */
enum { ELEMENTS = 16, CHANNELS = 65536 };
static const double LESS_NOISE = 10, FACTOR = 1.2;

bool qc_channel_sums_of(struct qc_channel_sums *out, const struct qc_view *r, const float *x, double step)
{
    const int axis = r->rank >= 4 ? 1 : r->rank - 1;
    const size_t n = qc_view_count(r);
    const float *real = r->data;
    *out = (struct qc_channel_sums){.channels = 0};
    if (r->rank < 2 || n == 0 || r->dim[axis] < 2 || r->dim[axis] > CHANNELS || r->stride[axis] < 1) return true;
    const size_t channels = (size_t)r->dim[axis], stride = (size_t)r->stride[axis];
    double(*of)[3] = calloc(channels, sizeof *of);
    if (!of) return false;
    for (size_t i = 0; i < n; i++) {
        double *s = of[i / stride % channels];
        const double a = (double)real[i], b = (double)x[i] * step;
        s[0] += a * a;
        s[1] += a * b;
        s[2] += b * b;
    }
    *out = (struct qc_channel_sums){.channels = channels, .elements = n / channels, .of = of};
    return true;
}

void qc_channel_sums_add(struct qc_channel_sums *to, struct qc_channel_sums *s)
{
    if (!to->channels) {
        free(to->of);
        *to = *s;
        *s = (struct qc_channel_sums){.channels = 0};
        return;
    }
    if (to->channels == s->channels) {
        to->elements += s->elements;
        for (size_t c = 0; c < to->channels; c++)
            for (int k = 0; k < 3; k++) to->of[c][k] += s->of[c][k];
    }
    free(s->of);
    *s = (struct qc_channel_sums){.channels = 0};
}

struct qc_channel_factors qc_channel_factors_of(const struct qc_channel_sums *s)
{
    struct qc_channel_factors f = {.least = (double)INFINITY};
    double before = 0, after = 0;
    for (size_t c = 0; s->elements >= ELEMENTS && c < s->channels; c++) {
        const double rr = s->of[c][0], rx = s->of[c][1], xx = s->of[c][2];
        const bool fits = rx > 0 && xx > 0;
        before += rr - 2 * rx + xx;
        after += fits ? fmax(rr - rx * rx / xx, 0) : rr;
        if (!fits) continue;
        f.least = fmin(f.least, xx / rx);
        f.most = fmax(f.most, xx / rx);
    }
    f.found = before > LESS_NOISE * after && (f.most > FACTOR || f.least < 1 / FACTOR);
    return f;
}
