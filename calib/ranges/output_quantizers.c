// SPDX-License-Identifier: Apache-2.0
#include "calib/ranges/output_quantizers.h"

#include <stdlib.h>

static bool weighs(const struct qc_quantizer_part *p)
{
    return p->channels && p->gain && p->gain->gain && p->gain->axis == p->channels->axis &&
           p->gain->channels == p->channels->channels;
}

bool qc_output_quantizer(struct qc_histogram **out, const struct qc_quantizer_part *parts, size_t count,
                         struct qc_status *st)
{
    double most = 0, sum = 0;
    size_t channels = 0;
    *out = NULL;
    for (size_t i = 0; i < count; i++) {
        for (size_t c = 0; weighs(&parts[i]) && c < parts[i].channels->channels; c++) {
            const double gain = parts[i].gain->gain[c];
            most = gain > most ? gain : most;
            sum += gain;
            channels++;
        }
    }
    if (!channels || !(most > 0)) return true;
    const double mean = sum / (double)channels / most;
    struct qc_histogram *h = NULL;
    bool ok = qc_histogram_new(&h, QC_NEED_HISTOGRAM, st);
    for (size_t i = 0; ok && i < count; i++) {
        const struct qc_quantizer_part *p = &parts[i];
        const size_t n = weighs(p) ? p->channels->channels : 1;
        double *gain = malloc(n * sizeof *gain);
        if (!gain) {
            ok = qc_fail_memory(st, n * sizeof *gain);
            break;
        }
        for (size_t c = 0; c < n; c++) gain[c] = weighs(p) ? p->gain->gain[c] / most : mean;
        ok = qc_channel_histogram_weigh(h, p->histogram, weighs(p) ? p->channels : NULL, gain, st);
        free(gain);
    }
    if (ok)
        *out = h;
    else
        qc_histogram_free(h);
    return ok;
}
