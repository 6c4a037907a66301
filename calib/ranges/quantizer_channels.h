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

/* Fills the arrays of out, whose count is that of h, by the observer from each channel's own histogram. *range: from
   the lowest to the highest end of any channel, with the share that is clipped of all values; *loss: of all. No range
   is narrower than an eighth of that widest one, to either side. Errors: those of the observer. */
bool qc_quantizer_channels_solve(struct qc_quantizer_channels *out, struct qc_range *range, struct qc_loss *loss,
                                 const struct qc_channel_histogram *h, const struct qc_qparams *s,
                                 const struct qc_observer *observer, const struct qc_observer_values *values,
                                 const struct qc_solve *request, struct qc_status *st);

/* Makes real numbers of v, float32 with qparams of one scale for each index of `axis`, in place. stored: they are
   levels; else levels less the zero point. saturated: NULL, or what lies at the ends of the levels is added to it. */
void qc_quantizer_channels_real(const struct qc_view *v, const struct qc_qparams *s, int axis, bool stored,
                                uint64_t *saturated);

/* Has a quantizer of activations of a simulated graph a scale for each channel? */
bool qc_quantizers_have_channels(const struct qc_graph *g);

/* The axis along which a value of a simulated graph is stored in a quantizer; -1: it is not. */
int qc_quantizer_axis(const struct qc_uses *u, qc_id quantizer, qc_id value);
