// SPDX-License-Identifier: Apache-2.0
/* Sensitivity: the effect of each layer alone on the network's outputs, with all other layers in float.

   A layer is an operator on quantized values of a simulated graph; operators linked by an accumulator form one layer.
   Its quantizers are those of its inputs (a quantized value is so for all its readers), its weights, and the quantizer
   of its result. Each layer has a cut, the place in the graph where its quantizers first act, and layers are visited in
   the order of their cuts. For every sample of a block the float values that cross the cut are kept, computed from
   those of the cut before. So a layer costs only the part of the network after its cut, and memory holds one cut:
   (samples of a block) x (values alive there). */
#pragma once

#include "calib/metrics/accuracy.h"
#include "calib/metrics/compare.h"
#include "graph/core/uses.h"

struct qc_sensitivity_options {
    /* memory_limit 0: a block of samples keeps about 256 MiB; progress counts layers of all blocks; if sizes differ, of
       the sizes so far */
    const struct qc_settings *settings;
    /* At most `most` layers are measured (0: all): the first `first` of the network, whose errors pass through all of
       it, then those with the largest sum of `believed` [qparams_count + 1], an estimate of each quantizer's noise.
       Weights alone are measured for the `weights_of` layers with most noise (0: all). */
    size_t most, first, weights_of;
    const double *believed;
};

struct qc_layer_effect {
    qc_id node;       /* of the graph; represents the layer */
    const char *name; /* the name for options: of the node, else of its result, else "" */
    const char *op;
    double noise; /* mean over outputs of sum (r - x)^2 / sum r^2; r: float network, x: with this layer quantized */
    double noise_weights; /* with its weights alone quantized; NaN without weights, or if not measured (weights_of) */
    double metric;        /* accuracy with this layer quantized (struct qc_metric); NaN: not measured */
    double lost;          /* drop in points of top-1 or dB of PSNR (qc_metric_drop); NaN: not measured */
    size_t place;         /* in the order of the visit */
};

enum qc_effect_order {
    QC_EFFECTS_BY_NOISE, /* most noise first, then in graph order */
    QC_EFFECTS_BY_LOSS,  /* largest accuracy loss first, then by noise; layers without one come last */
};

struct qc_sensitivity {
    struct qc_arena *arena;
    size_t count, samples;          /* samples: number compared */
    struct qc_layer_effect *layers; /* [count] */
    double seconds;
};

/* Returns the name by which options find a node of a simulated graph: its own, else that of its result, else "".
   Borrowed. */
const char *qc_layer_name(const struct qc_uses *u, qc_id node);

/* Returns -10 log10(noise) in dB; infinity without noise. */
double qc_effect_sqnr_db(double noise);

/* Measures the noise of the layers of g, simulated and bound, and sorts them by it. Units of one size run together, in
   a graph for their shapes. rounded: NULL, or the graph of calib/weights/round_weights.h, whose constants a quantized
   layer then has; both have the same qparams ids. Only float32 outputs count. The result does not depend on the number
   of workers or the size of blocks. Fails if reading or a run fails, with QC_UNSUPPORTED without a float output, with
   QC_MACHINE if memory_limit is too low for one unit. */
bool qc_sensitivity_measure(struct qc_sensitivity **out, const struct qc_graph *g, const struct qc_graph *rounded,
                            const struct qc_dataset *data, const struct qc_sensitivity_options *options,
                            struct qc_status *st);
/* Returns all layers, with the sum of `believed` (struct qc_sensitivity_options) as their noise and sorted by it.
   Nothing runs. */
bool qc_sensitivity_believed(struct qc_sensitivity **out, const struct qc_graph *g, const double *believed,
                             struct qc_status *st);
/* Adds the metric of each layer on data with labels or a target, with one partial run per layer, and sorts by loss. s:
   measured on the same graph (shapes may differ). Fails as above, or with QC_BAD_INPUT if no output fits the truth. */
bool qc_sensitivity_score(struct qc_sensitivity *s, const struct qc_graph *g, const struct qc_graph *rounded,
                          const struct qc_dataset *data, const struct qc_sensitivity_options *options,
                          struct qc_status *st);
/* Makes the graph in which this layer alone is quantized; it has no other quantizers. g, rounded: as above. Shapes of g
   may be open. Fails with QC_UNSUPPORTED if g has no such layer. */
bool qc_sensitivity_alone(struct qc_graph **out, const struct qc_graph *g, const struct qc_graph *rounded,
                          const struct qc_layer_effect *layer, struct qc_status *st);
/* Computes the bytes that both need with one worker and one unit at a time. */
bool qc_sensitivity_bytes(size_t *out, const struct qc_graph *g, const struct qc_dataset *data,
                          const struct qc_sensitivity_options *options, struct qc_status *st);
void qc_sensitivity_sort(struct qc_sensitivity *s, enum qc_effect_order order);
void qc_sensitivity_free(struct qc_sensitivity *s); /* NULL-safe */
