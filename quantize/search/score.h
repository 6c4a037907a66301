// SPDX-License-Identifier: Apache-2.0
/* What networks are worth: the error of their outputs against the float network, on the same samples. */
#pragma once

#include "calib/metrics/measure.h"
#include "calib/trials/trials.h"
#include "quantize/make/network.h"

/* ---- The error of one network ---- */

/* Returns a selection of QC_MEASURED_BATCHES batches. */
struct qc_selection qc_measured_samples(const struct qc_dataset *data);

#define QC_CHECKED_EVAL "evaluation"
#define QC_CHECKED_REST "not calibrated"
#define QC_CHECKED_KNOWN "calibration"

/* The samples of the report. */
struct qc_checked {
    struct qc_dataset *data; /* borrowed; NULL: there are none */
    struct qc_selection some;
    const char *on; /* QC_CHECKED_*, for the record */
};

/* Returns QC_MEASURED_BATCHES batches of --eval; without it, of the samples that --samples left out, which statistics
   of --stats may have seen; and if there are fewer, of those that calibrated. */
struct qc_checked qc_checked_samples(const struct qc_setup *s);

/* Compares the outputs of n->produced with those of the float network on some samples of data, which is --data or
   --eval; the selection of the job is restored afterwards. The produced graph computes the same bits as the simulated
   one, and faster. sums: [outputs]. *keys: NULL, or from an earlier call with the same samples for another network of
   the setup. */
bool qc_measure_outputs(struct qc_error *sums, uint64_t **keys, const struct qc_network *n, struct qc_dataset *data,
                        const struct qc_selection *some, struct qc_status *st);
/* Returns the SQNR of the mean over the outputs of noise to signal, dB. Infinity without noise. */
double qc_outputs_sqnr_db(const struct qc_error *sums, size_t outputs);
/* Returns the SQNR of the worst float32 output, dB, and its index; infinity and QC_NO_INDEX if there is none. m: NULL
   or of the network. */
double qc_worst_output(size_t *worst, const struct qc_network *net, const struct qc_measurement *m);

/* Options of trials (calib/trials/trials.h) for graphs as the file has them. */
struct qc_trial_options qc_trial_options_of(const struct qc_network *n);
