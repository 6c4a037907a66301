// SPDX-License-Identifier: Apache-2.0
/* What each layer alone does to the network's outputs: every other layer stays in float.

   A layer is an op on quantized values of a simulated graph (ops that hand on an accumulator to each other are one
   layer). Its own are the quantizers of what it reads - a value that is quantized is so for all that read it -, its
   weights, and the quantizer that its result is rounded into. Layers are visited in the order of the places where this
   begins. Before each the float values that cross this place are at hand for every sample of a block, made from those
   of the place before, so a layer costs the part of the network behind it, and no more is kept than one such cut:
   (samples of a block) x (values alive there). */
#pragma once

#include "calib/metrics/accuracy.h"
#include "calib/metrics/compare.h"
#include "graph/core/uses.h"

struct qc_sensitivity_options {
    struct qc_accumulator accumulator; /* 0 bits: 32 */
    enum qc_contract rounding;
    /* So many layers are measured: the `first` of the network, whose errors go through all of it, and those of which
       most is believed: the sum over a layer's quantizers of `believed` [qparams_count + 1], a guess at the noise that
       each of them makes. Weights alone are measured of the first `weights_of` by noise. 0: all. */
    size_t most, first, weights_of;
    const double *believed;
    unsigned workers;
    size_t memory_limit;           /* bytes; 0: none, and a block of samples keeps at most some 256 MiB */
    qc_pool_progress_fn *progress; /* layers, of all blocks; where sizes differ, of those so far */
    void *progress_user;
};

struct qc_layer_effect {
    qc_id node;       /* of the graph: the first of the layer's */
    const char *name; /* by which options find it: of the node, else of its result, else "" */
    const char *op;
    double noise;         /* mean over the outputs of sum (r - x)^2 / sum r^2: r of the float network, x with this layer
                             quantized */
    double noise_weights; /* with its weights alone; NaN when it has none, or nobody asked (weights_of) */
    double metric;        /* accuracy with this layer quantized (struct qc_metric); NaN: not measured */
    double lost;          /* points of top-1, or dB of PSNR, that it costs (qc_metric_drop); NaN: not measured */
    size_t place;         /* in the order of the visit */
};

enum qc_effect_order {
    QC_EFFECTS_BY_NOISE, /* the most first; of equal ones the earlier in the graph */
    QC_EFFECTS_BY_LOSS,  /* what costs most accuracy first; of equal ones by noise */
};

struct qc_sensitivity {
    struct qc_arena *arena;
    size_t count, samples;          /* samples: outputs were compared on */
    struct qc_layer_effect *layers; /* [count] */
    double seconds;
};

/* The name by which options find a node of a simulated graph: its own, else that of its result, else "". Borrowed. */
const char *qc_layer_name(const struct qc_uses *u, qc_id node);

/* -10 log10(noise) dB; infinity without noise. */
double qc_effect_sqnr_db(double noise);

/* g: simulated, bound; units of one size run after each other, in a graph for their shapes. rounded: NULL, or
   the graph of calib/weights/round_weights.h, whose constants a layer then has when it is quantized; the qparams of
   both have the same ids. Outputs that are not float32 do not count. Layers are sorted by noise. The result does not
   depend on the number of workers, nor on the blocks that memory allows. Errors: of reading and running; no float
   output (QC_UNSUPPORTED); memory_limit too low for one unit (QC_MACHINE). */
bool qc_sensitivity_measure(struct qc_sensitivity **out, const struct qc_graph *g, const struct qc_graph *rounded,
                            const struct qc_dataset *data, const struct qc_sensitivity_options *options,
                            struct qc_status *st);
/* All layers in the order of what is believed of them (struct qc_sensitivity_options), which is their noise here:
   nothing is run. */
bool qc_sensitivity_believed(struct qc_sensitivity **out, const struct qc_graph *g, const double *believed,
                             struct qc_status *st);
/* Adds the metric of each layer on data with labels or a target, at the cost of one partial run a layer, and sorts by
   loss. s: measured of the same graph (shapes may differ). Errors: the same; no output that the truth fits
   (QC_BAD_INPUT). */
bool qc_sensitivity_score(struct qc_sensitivity *s, const struct qc_graph *g, const struct qc_graph *rounded,
                          const struct qc_dataset *data, const struct qc_sensitivity_options *options,
                          struct qc_status *st);
/* What the two take with one worker and one unit at a time. */
bool qc_sensitivity_bytes(size_t *out, const struct qc_graph *g, const struct qc_dataset *data,
                          const struct qc_sensitivity_options *options, struct qc_status *st);
void qc_sensitivity_sort(struct qc_sensitivity *s, enum qc_effect_order order);
void qc_sensitivity_free(struct qc_sensitivity *s); /* NULL-safe */
