// SPDX-License-Identifier: Apache-2.0
/* ema: exponential moving average of the samples' extremes, in the order of sample numbers:
     m_0 = x_0,   m_k = momentum * m_(k-1) + (1 - momentum) * x_k.
   PyTorch's and ONNX Runtime's averaging constant is 1 - momentum; TensorFlow's ema_decay is momentum. */
#include "observers/observer.h"

static bool solve_ema(struct qc_range *out, const struct qc_statistics *s, const struct qc_solve *request,
                      struct qc_range limits, const struct qc_observer_values *values, struct qc_status *st)
{
    (void)request, (void)st;
    double keep = values->v[0], lo = 0, hi = 0;
    bool first = true;
    for (size_t i = 0; i < s->series->count; i++) {
        const struct qc_extremes *e = &s->series->items[i];
        if (e->min > e->max) continue;
        lo = first ? (double)e->min : keep * lo + (1 - keep) * (double)e->min;
        hi = first ? (double)e->max : keep * hi + (1 - keep) * (double)e->max;
        first = false;
    }
    *out = limits;
    qc_range_cut(out, lo, hi);
    return true;
}

static const struct qc_observer_option options[] = {
    {.name = "momentum", .help = "share of the past that is kept at each sample", .preset = 0.9, .min = 0, .max = 1},
};

const struct qc_observer qc_observer_ema = {
    .name = "ema",
    .summary = "moving average of the samples' extremes, m = momentum m + (1 - momentum) x; depends on the order of "
               "the samples",
    .need = QC_NEED_SERIES,
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .solve = solve_ema,
};
