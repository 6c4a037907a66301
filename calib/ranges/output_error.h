// SPDX-License-Identifier: Apache-2.0
/* Ranges of weights by the error of their layer's outputs (--weight-method output). An output has weights w, rounded to
   nearest to q, and inputs x. Its mean squared error is d' H d with d = w - q and H = E[x x'], from the second moments
   (calib/moments/second_moments.h); Nagel et al. 2020, "Up or down?", eq. 3-6. If a bias absorbs the mean error, H is
   taken about the mean. The diagonal of H includes the noise of the rounded input, a twelfth of its squared step, so
   weights and activations are judged together.

   With compensated rounding, a candidate counts with the better of compensated rounding and rounding to nearest, on
   held-out samples.

   Candidates are the widest range times 2^(-k/16), k = 0 .. 24; of equal errors the widest wins. All arithmetic is in
   double, in a fixed order. */
#pragma once

#include "calib/moments/second_moments.h"
#include "observers/observer.h"

struct qc_output_error {
    const struct qc_graph *g; /* simulated; the input of the layer is bound, the weight need not be */
    qc_id node;               /* of the layer */
    const struct qc_second_moments_layer *layer; /* its moments, with rows and products */
    const struct qc_tensor *weight;              /* float32 */
    const struct qc_qparams *qparams;            /* of the weight: levels and symmetry */
    bool centred;                                /* the mean error goes into a bias */
    size_t channels;                             /* of the scales: 1, or those along the weight's axis */
    const struct qc_settings *settings;          /* with `compensate` the better rounding judges a candidate */
};

/* Returns the moments of a node, with all that qc_output_ranges needs; NULL if there are none. */
const struct qc_second_moments_layer *qc_output_layer(const struct qc_second_moments *m, qc_id node);

/* ranges: [channels], the widest ranges (lo <= 0 <= hi) on entry, the chosen ones on return. Their objective is the
   mean squared error of the outputs, summed over those of a channel. The result does not depend on the number of
   workers. Fails if memory is out, or with QC_MACHINE if memory_limit is too low. */
bool qc_output_ranges(struct qc_range *ranges, const struct qc_output_error *e, struct qc_status *st);
