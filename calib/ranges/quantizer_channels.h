// SPDX-License-Identifier: Apache-2.0
/* Quantizers with a scale and a zero point for each channel. */
#pragma once

#include "graph/core/uses.h"
#include "observers/channel_histogram.h"
#include "observers/observer.h"
#include "observers/outline.h"
#include "simq/core/view.h"

struct qc_quantizer_channels {
    size_t count;
    float *scale;        /* [count] */
    int32_t *zero_point; /* [count] */
};

/* Chooses a range for each channel from its own histogram, and fills the arrays of out, whose count is that of h.
   *range: the union of all channels' ranges, with the clipped share of all values. *loss: over all channels. Each end
   of a range is at least an eighth of that of the union. Fails if the observer fails or memory is out. */
bool qc_quantizer_channels_solve(struct qc_quantizer_channels *out, struct qc_range *range, struct qc_loss *loss,
                                 const struct qc_channel_histogram *h, const struct qc_qparams *s,
                                 const struct qc_observer *observer, const struct qc_observer_values *values,
                                 const struct qc_solve *request, struct qc_status *st);

/* Turns v, float32 with qparams of one scale per index of `axis`, into real numbers in place. stored: v holds levels;
   else levels minus the zero point. saturated: NULL, or incremented by the number of values at the ends of the levels.
 */
void qc_quantizer_channels_real(const struct qc_view *v, const struct qc_qparams *s, int axis, bool stored,
                                uint64_t *saturated);

/* Returns true if a quantizer of activations of a simulated graph has a scale per channel. */
bool qc_quantizers_have_channels(const struct qc_graph *g);

/* Returns the axis along which a value of a simulated graph is stored in a quantizer, or -1 if it is not stored there.
 */
int qc_quantizer_axis(const struct qc_uses *u, qc_id quantizer, qc_id value);
