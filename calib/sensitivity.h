// SPDX-License-Identifier: Apache-2.0
/* What each layer alone does to the network's outputs: every other layer stays in float.

   A layer is an op on quantized values of a simulated graph (ops that hand on an accumulator to each other are one layer). Its own are the sites of what it
   reads - a value that is quantized is so for all that read it -, its weights, and the site that its result is rounded into. Layers are visited in
   the order of the places where this begins. Before each the float values that cross this place are at hand for every sample, made from those of the place before,
   so a layer costs the part of the network behind it, and no more is kept than one such cut: (samples) x (values alive there). */
#ifndef QC_CALIB_SENSITIVITY_H
#define QC_CALIB_SENSITIVITY_H

#include "calib/compare.h"

struct qc_sensitivity_options {
    struct qc_accumulator accumulator; /* 0 bits: 32 */
    unsigned workers;
    size_t memory_limit; /* bytes; 0: none */
    qc_pool_progress_fn *progress; /* layers */
    void *progress_user;
};

struct qc_layer_effect {
    qc_id node;        /* of the graph: the first of the layer's */
    const char *name;  /* by which options find it: of the node, else of its result, else "" */
    const char *op;
    double noise;          /* mean over the outputs of sum (r - x)^2 / sum r^2: r of the float network, x with this layer quantized */
    double noise_weights;  /* with its weights alone; NaN when it has none */
};

struct qc_sensitivity {
    struct qc_arena *arena;
    size_t count, samples;
    struct qc_layer_effect *layers; /* [count], the worst first; of equal ones the earlier in the graph */
    double seconds;
};

/* -10 log10(noise) dB; infinity without noise. */
double qc_effect_sqnr_db(double noise);

/* g: simulated, bound, with fixed shapes (rewrite/simulate.h: qc_fix_shapes) that fit the data. reweighed: NULL, or the graph of calib/reweigh.h, whose constants
   a layer then has when it is quantized; the spaces of both have the same ids. Outputs that are not float32 do not count. The result does not depend on
   the number of workers.
   Errors: of reading and running; no float output (QC_UNSUPPORTED); too little memory. */
bool qc_sensitivity_measure(struct qc_sensitivity **out, const struct qc_graph *g, const struct qc_graph *reweighed, const struct qc_dataset *data,
                            const struct qc_sensitivity_options *options, struct qc_status *st);
void qc_sensitivity_free(struct qc_sensitivity *s); /* NULL-safe */

#endif
