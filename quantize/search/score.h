// SPDX-License-Identifier: Apache-2.0
/* What networks are worth: the error of their outputs against the float network, on the same samples. */
#pragma once

#include "calib/metrics/measure.h"
#include "calib/trials/trial_run.h"
#include "quantize/make/network.h"

/* ---- The error of one network ---- */

/* Returns the selection of the samples that the report measures: QC_MEASURED_BATCHES batches. */
struct qc_selection qc_measured_samples(const struct qc_dataset *data);

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

/* ---- The gain of one graph over another, unit by unit (calib/trials/trial_run.h) ---- */

/* Gain of the second graph over the first: how much less noise its outputs have, dB. */
struct qc_trial_gain {
    size_t units;            /* run by both */
    double gain;             /* on all units */
    double error;            /* standard error of the gain; infinity with one unit */
    double of_half[2];       /* gain on the units with even and with odd index; NaN with one unit */
    double without_best;     /* gain without the unit that gains most */
    double of_probabilities; /* the same by the divergence of outputs that are probabilities; `gain` without such */
};
/* Compares two bound simulated graphs of a network on at most `units` units. held: of those held out from second
   moments, if there are enough. */
bool qc_trial_compare(struct qc_trial_gain *out, const struct qc_network *n, const struct qc_graph *const graphs[2],
                      size_t units, bool held, struct qc_status *st);

/* Compares finished networks of one setup with the first of them, on at most `units` units. held: of those held
   out from second moments, if there are enough. gains: [count], that of the first is 0. job: the network whose float
   outputs are the reference. */
bool qc_compare_networks(struct qc_trial_gain *gains, const struct qc_network *job,
                         const struct qc_network *const *networks, size_t count, size_t units, bool held,
                         struct qc_status *st);

/* Returns a third of the number of units, at least 16 and at most 256, so that trials take less time than calibration.
 */
size_t qc_trial_units(const struct qc_network *n);
struct qc_trial_options qc_trial_options_of(const struct qc_network *n);
