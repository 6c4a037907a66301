// SPDX-License-Identifier: Apache-2.0
/* Sequential calibration: each quantizer is chosen from activations of the network in which all earlier quantizers are
   bound, and the weights of the layers between are rounded by calib/weights/round_weights.h.

   DEFINITION (plain re-run). Quantizers are ordered topologically, by the last of the values that determine them.
   Before the first, quantizers of constants are bound; after each, weights whose inputs are all bound. For each
   quantizer, every layer it depends on gets its new weights and bias if its weight is bound and its input is quantized
   as in the end. The graph with everything bound so far runs over all samples, the quantizer's values are collected,
   its range is chosen, and it is bound.

   COST. Results that cannot change any more are not computed again. For every sample the values that later parts read
   are kept (calib/sequential/sequential_parts.h), and each quantizer runs only the part of the graph between these and
   its own values. So all quantizers together take about one pass. The result is that of the definition, bit for bit,
   for any number of workers and any order of samples. */
#pragma once

#include "calib/ranges/calibrate.h"
#include "calib/weights/round_weights.h"

struct qc_sequential_options {
    const struct qc_calibration_options
        *calibration;                         /* observer, workers, memory_limit, progress; `moments` is ignored */
    struct qc_weight_rounder *weight_rounder; /* NULL: weights are rounded to nearest, biases stay. Of the same graph;
                                                 its layers are solved */
    size_t units;                             /* most units that qc_round_sequentially runs; 0: 128 */
    const uint64_t *keys;                     /* of the units, as in struct qc_trial_options */
    const char *folder; /* for the spill file of activations under memory_limit; NULL: TMPDIR, or /tmp */
};

/* Binds the simulated graph g as qc_choose does, and solves the layers of weight_rounder. Corrected biases absorb the
   error of all earlier quantization (qc_weight_rounder_solve). Fails as qc_choose, if a run
   fails, or with QC_MACHINE if the temporary file cannot be written. */
bool qc_calibrate_sequentially(struct qc_calibration **out, struct qc_graph *g, const struct qc_dataset *data,
                               const struct qc_sequential_options *options, struct qc_status *st);

/* Solves only the layers of options->weight_rounder, one after the other, in a graph whose quantizers are bound. Each
   layer is fitted to its input in the network in which all earlier layers are rounded, and compensates the input's
   error against the float network (calib/weights/compensation.h). floats: [value_count + 1]: the value of g that is the
   float form of a layer's input; 0: there is none, and the weights are rounded by the moments of the rounder. Runs at
   most options->units units, drawn by content; with large values fewer, so that about 256 MiB are kept at most. Kept
   values up to the size of the model file (at least 12 MiB) stay in memory, the rest go to a temporary file if it has
   room. *done is false, and no layer solved, if shapes depend on data. Fails if a run fails. */
bool qc_round_sequentially(bool *done, struct qc_graph *g, const qc_id *floats, const struct qc_dataset *data,
                           const struct qc_sequential_options *options, struct qc_status *st);

/* Computes the bytes that qc_calibrate_sequentially needs with one worker, besides second moments and weight_rounder,
   with activations in the temporary file. budget: limits of the plan; NULL: those of the graph. */
bool qc_sequential_bytes(size_t *out, const struct qc_graph *g, const struct qc_dataset *data,
                         const struct qc_calibration_options *options, const struct qc_budget *budget,
                         struct qc_status *st);
