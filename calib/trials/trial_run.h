// SPDX-License-Identifier: Apache-2.0
/* Trials: the outputs of several graphs on the same samples against those of the float network, sample by sample.

   The units that are run are drawn by their content, so neither their order nor the number of workers changes a bit of
   the result. */
#pragma once

#include "calib/metrics/compare.h"
#include "calib/statistics/known_outputs.h"

struct qc_trial_options {
    struct qc_plan_options how; /* of the graphs that are tried: accumulator, rounding */
    const uint64_t *keys; /* NULL, or [units of the data]: of a run before (calib/statistics/stream.h); 0: not known */
    bool held;            /* only units that second moments hold back are drawn, where there are enough of them */
    struct qc_known_outputs *known; /* NULL, or of the float network: where its outputs are, and where new ones go */
    unsigned workers;
    size_t memory_limit; /* bytes; 0: none */
    qc_pool_progress_fn *progress;
    void *progress_user;
};

struct qc_trials;

/* Draws at most `wanted` units of the data. real: the float network; all of it is borrowed. */
bool qc_trials_new(struct qc_trials **out, const struct qc_graph *real, const struct qc_dataset *data, size_t wanted,
                   const struct qc_trial_options *options, struct qc_status *st);
void qc_trials_free(struct qc_trials *t); /* NULL-safe */
size_t qc_trials_units(const struct qc_trials *t);
/* [units] of the data set, in the order that their content gives them; borrowed. */
const size_t *qc_trials_drawn(const struct qc_trials *t);

/* Makes graph number k, with the inputs and outputs of the float network. The trial frees it. */
typedef bool qc_trial_graph_fn(void *user, struct qc_graph **out, size_t k, struct qc_status *st);

/* Has the network outputs of Softmax or Sigmoid, which are judged otherwise (calib/trials/divergence.h)? */
bool qc_trials_have_probabilities(const struct qc_trials *t);

/* Runs the drawn units first .. first + n through graphs 0 .. count - 1. errors[k][unit * output_count + o] is added to
   for each float32 output; other outputs are left alone. judged: NULL, or the same with the divergence of outputs that
   are probabilities. */
bool qc_trials_run(struct qc_error *const *errors, struct qc_error *const *judged, struct qc_trials *t,
                   qc_trial_graph_fn *make, void *user, size_t count, size_t first, size_t n, struct qc_status *st);

/* Of later runs of one graph, each float32 output beside that of the float network, dense both, at the unit's place;
   called by several workers. NULL: nobody looks. */
typedef void qc_trial_look_fn(void *user, size_t place, size_t output, const struct qc_view *wanted,
                              const struct qc_view *got);
void qc_trials_look(struct qc_trials *t, qc_trial_look_fn *look, void *user);

/* Noise to signal over the places first, first + step, ..., below end of such errors: the mean over the outputs, each
   relative to its own signal, so that the worst decides. Infinity where something is no number, 0 without outputs. */
double qc_trials_noise(const struct qc_error *errors, size_t outputs, size_t first, size_t end, size_t step);
/* Noise to signal, not in dB, of the output where it is most, over all units of `errors`; infinity where a signal of
   nothing got noise, 0 without float32 outputs. */
double qc_trials_worst(size_t *output, const struct qc_error *errors, size_t outputs, size_t units);
/* How much less noise the second has, dB; 0 where both have none. */
double qc_trials_gain(double noise, double other);
/* The standard error of that gain, dB, from how it differs between the first `units` of both, which ran the same
   samples; infinity with fewer than two, or where something is no number. without: NULL, or the gain without the unit
   that speaks most for it; then -infinity. */
bool qc_trials_gain_error(double *error, double *without, const struct qc_error *errors, const struct qc_error *other,
                          size_t outputs, size_t units, struct qc_status *st);
