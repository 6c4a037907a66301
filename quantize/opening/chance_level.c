// SPDX-License-Identifier: Apache-2.0
#include "quantize/opening/chance_level.h"

void qc_warn_chance_level(struct qc_warnings *w, const struct qc_metric *const metrics[], size_t count,
                          const char *data)
{
    const struct qc_metric *best = NULL;
    for (size_t i = 0; i < count; i++)
        if (!best || metrics[i]->value > best->value) best = metrics[i];
    if (!best || !qc_metric_is_chance_level(best)) return;
    qc_warn(w,
            "%s: top-1 %.2f %% of %zu samples is no better than guessing among %zu classes; are the samples prepared "
            "as for training (--preprocess), and are "
            "these the model's labels?",
            data, 100 * best->value, best->samples, best->classes);
}
