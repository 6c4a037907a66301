// SPDX-License-Identifier: Apache-2.0
/* Bias correction at the network's outputs: biases of the layers that make the outputs absorb the mean output error of
   the whole quantized network.

   The mean over n samples has an error of its own, with variance v_c for channel c of an output. Means m_c are shrunk
   by the factor 1 - sum v / sum m^2 (James and Stein 1961, positive part), so sampling noise is not corrected. */
#pragma once

#include "calib/trials/trial_run.h"
#include "graph/core/uses.h"

struct qc_output_correction {
    size_t outputs; /* number of layers with a changed bias */
    size_t units;   /* number of units run */
    double gain_db; /* expected gain of the output that gains most */
};

/* Makes *out, a copy of g with other biases; NULL if no gain is expected. g: simulated and bound. `make` and `user`
   produce trial number 0, the graph written for g. An output is corrected if it comes from a layer with a bias through
   operators that keep the order of elements, without other readers, and the expected gain exceeds 0.05 dB. All units of
   the trials run if the first 16 promise a gain. The result does not depend on workers or on the order of samples.
   Fails if a run fails. */
bool qc_correct_outputs(struct qc_graph **out, struct qc_output_correction *done, const struct qc_graph *g,
                        struct qc_trials *trials, qc_trial_graph_fn *make, void *user, struct qc_status *st);

/* Biases of layers in a simulated graph: finding them, and a copy of the graph with other biases. */

struct qc_layer_bias {
    qc_id layer; /* node with the weight */
    qc_id bias;  /* the constant, float32, without other readers */
    qc_id own;   /* the layer's result with the bias: its own, or that of the Add after a MatMul */
};

/* Returns false if the node is no layer with a weight, if the model gives the weight's parameters, or if there is no
   such bias. */
bool qc_layer_bias_find(struct qc_layer_bias *out, const struct qc_uses *u, qc_id node);
qc_id qc_source_of(const struct qc_graph *g, qc_id v);

struct qc_bias_shift {
    struct qc_layer_bias of;
    const double
        *shift; /* [elements of the bias]: added to it; an element whose sum the accumulator cannot hold stays */
};

/* Makes *out, a copy of g with shifted biases; *changed: number of layers whose bias differs. Fails if memory is out.
 */
bool qc_shift_biases(struct qc_graph **out, size_t *changed, const struct qc_graph *g,
                     const struct qc_bias_shift *shifts, size_t count, struct qc_status *st);
