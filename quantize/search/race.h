// SPDX-License-Identifier: Apache-2.0
/* The race: compares candidates by their outputs. Demands and mending compare prices (attempts.h), --benchmark compares
   latencies (searches.h).

   Candidates run on the same units, so the gain of each over the first one is a mean of paired differences with a
   standard error. All run on some units first; those that may still gain, and that the budget has room for, run on
   more. A gain is worth what is left of it after

   - QC_RACE_ERRORS_OF / n standard errors on n units, at most QC_RACE_ERRORS_MOST: ranges, weights and biases are
   fitted to the units that judge them, and that matters more with fewer of them, unless the terms say that gains are
   expected;
   - its best unit, which must not decide.

   If outputs are probabilities, gains by squared error and by divergence are both computed. The greater worth counts,
   unless the other is a loss of more than QC_RACE_LOSS_DB. The candidate with the greatest worth wins, of equal ones
   the first, if that is more than the terms ask for; else candidate 0 stays. */
#pragma once

#include "calib/trials/trials.h"
#include "quantize/make/network.h"

struct qc_race_terms {
    size_t units;    /* candidates are compared on at most so many */
    bool held;       /* units held out from second moments, if there are enough */
    size_t budget;   /* runs of candidates on units for the choice of those that continue; candidate 0 and the best one
                        run on all units; 0: no limit */
    double least_db; /* a candidate wins if it is worth more */
    bool expected;   /* second moments or the effect of a layer predict the gain: no standard errors are subtracted */
};

struct qc_race_result {
    size_t units;              /* that the candidate ran on */
    double sqnr_db;            /* of the mean over the outputs of noise to signal */
    double gain, error, worth; /* over candidate 0, dB */
};

/* Compares graphs, as they are written, with the outputs of the float network on units of --data. results: one for
   each graph. *best: the winner. Fails if making or running a graph fails. */
bool qc_race(struct qc_race_result *results, size_t *best, const struct qc_network *net,
             const struct qc_trial_graphs *graphs, const struct qc_race_terms *terms, struct qc_status *st);
/* The same for two simulated and bound graphs of a network. *gains: the second one wins. */
bool qc_race_of_graphs(struct qc_race_result *second, bool *gains, const struct qc_network *net,
                       const struct qc_graph *const graphs[2], const struct qc_race_terms *terms, struct qc_status *st);
/* The same for finished networks of one setup. job: the network whose float outputs are the reference. */
bool qc_race_of_networks(struct qc_race_result *results, size_t *best, const struct qc_network *job,
                         const struct qc_network *const *networks, size_t count, const struct qc_race_terms *terms,
                         struct qc_status *st);

/* ---- The rules alone, for candidates of any kind ---- */

/* Adds the errors of candidates which[0 .. count) on units first .. first + n to errors[k][unit * outputs + output],
   and divergences to judged[k] (NULL: no output is a probability). */
typedef bool qc_race_run_fn(void *user, struct qc_error *const *errors, struct qc_error *const *judged,
                            const size_t *which, size_t count, size_t first, size_t n, struct qc_status *st);

struct qc_race_field {
    size_t count, units, outputs;
    bool probabilities; /* divergences are computed too */
    qc_race_run_fn *run;
    void *user;
};

/* Runs the race of a field. terms->units and terms->held are those of the field already. */
bool qc_race_among(struct qc_race_result *results, size_t *best, const struct qc_race_field *field,
                   const struct qc_race_terms *terms, struct qc_status *st);
