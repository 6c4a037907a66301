// SPDX-License-Identifier: Apache-2.0
/* Corrects the biases of the last layers for the mean error of the outputs
   (docs/decisions/0037-biases-of-the-outputs.md). */
#pragma once

#include "calib/metrics/measure.h"
#include "quantize/pipeline_state.h"

/* Subtracts the mean error of the outputs from the biases of the layers that compute them
   (calib/trials/output_means.h). Changes p->rounded; p->output_bias has the result. Does nothing unless --method auto
   ran trials, there are at least 64 units, biases are corrected and sums have 32 bits. Errors: those of runs. */
bool qc_correct_output_biases(struct qc_pipeline *p, struct qc_status *st);

/* The error of a network's outputs on a few samples: those of the report, or others. */

enum { QC_MEASURED_BATCHES = 16 };

/* Returns the selection of the samples that the report measures: QC_MEASURED_BATCHES batches. */
struct qc_selection qc_measured_samples(const struct qc_dataset *data);
struct qc_measure_options qc_measure_options_of(const struct qc_pipeline *p);

/* Compares the outputs of p->produced with those of the float network on some samples of data, which is --data or
   --eval; the selection of the job is restored afterwards. The produced graph computes the same bits as the simulated
   one, and faster. sums: [outputs]. *keys: NULL, or from an earlier call with the same samples, by p or a branch of it.
 */
bool qc_measure_outputs(struct qc_error *sums, uint64_t **keys, const struct qc_pipeline *p, struct qc_dataset *data,
                        const struct qc_selection *some, struct qc_status *st);
/* Returns the SQNR of the mean over the outputs of noise to signal, dB. Infinity without noise. */
double qc_outputs_sqnr_db(const struct qc_error *sums, size_t outputs);
