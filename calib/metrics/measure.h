// SPDX-License-Identifier: Apache-2.0
/* Error of the simulated (bound, folded) graph against the float one, for each quantizer, and bits of accumulators. */
#pragma once

#include "calib/metrics/compare.h"
#include "calib/statistics/collection.h"

struct qc_measurement {
    struct qc_arena *arena;
    size_t qparams_count, output_count, samples;
    struct qc_error *quantizers; /* [qparams_count + 1] by qparams id; count 0: not measured */
    qc_id *stored;               /* [qparams_count + 1]: the value of the quantized graph that was compared, or 0 */
    double *accumulator_max;     /* [qparams_count + 1], of product qparams: largest |accumulator| seen */
    struct qc_error *outputs;    /* [output_count]: of its worst part (calib/metrics/compare.h) */
    struct qc_comparison *comparison; /* owns the overflows */
    struct qc_overflows overflows;    /* of layers whose accumulator can overflow */
    double seconds;
};

/* Measures the graphs on the chosen units of data. real: the normalised graph; quantized: simulated, bound, folded;
   same inputs and outputs. Fails if a run fails. */
bool qc_measure(struct qc_measurement **out, const struct qc_graph *real, const struct qc_graph *quantized,
                const struct qc_dataset *data, const struct qc_settings *settings, struct qc_status *st);
void qc_measurement_free(struct qc_measurement *m);
/* Computes the bytes needed with one worker. budget: limits of both plans. */
bool qc_measure_bytes(size_t *out, const struct qc_graph *real, const struct qc_graph *quantized,
                      const struct qc_dataset *data, const struct qc_settings *settings, const struct qc_budget *budget,
                      struct qc_status *st);

/* Computes the most bits, sign included, that the accumulator of a multiply-accumulate node can need for any data, from
   the quantized weights, the levels of the input and the bias. 0 if the node is not such a node with constant weights.
 */
bool qc_accumulator_bits(unsigned *bits, const struct qc_graph *g, qc_id node, struct qc_status *st);

/* Returns the bits, sign included, that hold every integer of magnitude up to max. */
unsigned qc_bits_for(double max);

/* Errors of a quantized graph's outputs against the float network. The float network runs only for units whose outputs
   are not known yet. */

/* Runs the chosen units of data. sums: [output_count], the same numbers as `outputs` of qc_measure for a graph that
   computes the same as `quantized`, without states: each unit reads the recorded ones, so that errors of units are
   independent. known: NULL, or outputs of `real`, extended. keys: NULL, or [units of data]: keys
   of the units, 0 if unknown; filled in. Fails if a run fails, or with QC_BAD_INPUT if the graphs have different inputs
   or outputs. */
bool qc_output_errors(struct qc_error *sums, struct qc_known_outputs *known, uint64_t *keys,
                      const struct qc_graph *real, const struct qc_graph *quantized, const struct qc_dataset *data,
                      const struct qc_settings *settings, struct qc_status *st);
