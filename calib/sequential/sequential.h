// SPDX-License-Identifier: Apache-2.0
/* Calibration with the error of what was quantized before: each quantizer is chosen from activations of the network in
   which all earlier quantizers are bound and the layers between have their weights rounded as
   calib/weights/round_weights.h rounds them.

   DEFINITION (the plain re-run). Quantizers are taken in topological order, by the last of the values that decide them.
   Before the first, what depends on constants alone is bound, and behind each the weights all of whose inputs are
   bound. For each quantizer: every layer that it depends on, whose weight is bound and all of whose input is quantized
   as it will be, gets its new weights and bias; the graph with everything bound so far runs over all samples, what the
   quantizer sees is collected, its range chosen, and the quantizer bound.

   COST. Nothing is run again that cannot change any more: of every sample what later parts read is kept
   (calib/sequential/activation_cache.h), and each quantizer runs the part of the graph between that and its own values.
   So all quantizers together take about one pass, and the result is that of the definition, bit for bit; it does not
   depend on the number of workers or the order of the samples. */
#pragma once

#include "calib/ranges/calibrate.h"
#include "calib/weights/round_weights.h"

struct qc_sequential_options {
    const struct qc_calibration_options
        *calibration; /* the observer, workers, memory_limit, progress; moments is not looked at */
    struct qc_weight_rounder
        *weight_rounder; /* NULL: weights to nearest, biases alone. Of the same graph; its layers are solved */
    bool correct_bias; /* with a weight_rounder: biases take up the error of everything before (qc_weight_rounder_solve)
                        */
    size_t units;      /* that qc_round_sequentially runs at most; 0: 128 */
    const char *folder; /* of the file that activations are spilled to under memory_limit; NULL: TMPDIR, or /tmp */
};

/* Binds the simulated graph g, as qc_choose, and solves the weight_rounder's layers. Errors: as qc_choose and those of
 * a run; QC_MACHINE when the temporary file cannot be written. */
bool qc_calibrate_sequentially(struct qc_calibration **out, struct qc_graph *g, const struct qc_dataset *data,
                               const struct qc_sequential_options *options, struct qc_status *st);

/* The layers of options->weight_rounder alone, one after the other, over a graph whose quantizers are bound: each is
   fitted to what it reads in the network in which all before it are rounded, and makes good how far that is from the
   float network (calib/weights/crossed.h). floats: [value_count + 1]: which value of g is the float form of one that a
   layer reads; 0: there is none, its weights are rounded by the moments of the rounder. At most options->units are run,
   drawn by their content, fewer where they are large, so that at most 256 MiB are kept: in memory as much as the model
   file has, and at least 12 MiB, the rest in a temporary file if there is room for one. *done:
   false, and no layer solved, where shapes depend on data. Errors: those of a run. */
bool qc_round_sequentially(bool *done, struct qc_graph *g, const qc_id *floats, const struct qc_dataset *data,
                           const struct qc_sequential_options *options, struct qc_status *st);

/* What that takes with one worker beside second moments and the weight_rounder, where activations go to the temporary
   file. budget: what the plan is held to; NULL: as the graph says. */
bool qc_sequential_bytes(size_t *out, const struct qc_graph *g, const struct qc_dataset *data,
                         const struct qc_calibration_options *options, const struct qc_budget *budget,
                         struct qc_status *st);
