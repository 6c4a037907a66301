// SPDX-License-Identifier: Apache-2.0
/* Ranges of weights by what the outputs of their layer lose (--weight-method output). For an output with weights w,
   rounded to nearest in the candidate's parameters to q, and inputs x the mean squared error is d' H d, d = w - q, H =
   E[x x'], from the second moments (calib/moments/second_moments.h) - Nagel et al. 2020, "Up or down?", eq. 3-6. H is
   about the mean where a bias takes up the mean error, and has the noise of the rounded input, a twelfth of its step
   squared, on its diagonal: so weights and activations are judged together.

   With compensated rounding a candidate is judged by the better of that and rounding to nearest, on the samples held
   back from what it is fitted to.

   Candidates are the widest range times 2^(-k/16), k = 0 .. 24; of equal errors the widest wins. All arithmetic is in
   double, in one order. */
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
    bool compensate; /* the rounding will be compensated: where that is better, a candidate is judged by it
                        (calib/weights/compensate.h) */
    size_t channels; /* of the scales: 1, or those along the weight's axis */
    unsigned workers;
    size_t memory_limit; /* bytes; 0: none */
};

/* The moments of a node, with all that qc_output_ranges needs; NULL: there are none. */
const struct qc_second_moments_layer *qc_output_layer(const struct qc_second_moments *m, qc_id node);

/* ranges: [channels], the widest ranges (lo <= 0 <= hi) on entry, the chosen ones on return, with objectives (mean
   squared error of a channel's outputs, summed over them) and candidates. The result does not depend on the number of
   workers. Errors: memory, QC_MACHINE when memory_limit is too low. */
bool qc_output_ranges(struct qc_range *ranges, const struct qc_output_error *e, struct qc_status *st);
