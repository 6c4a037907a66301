// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "calib/metrics/measure.h"
#include "calib/metrics/sensitivity.h"
#include "quantize/make/network.h"
#include "quantize/report/command_text.h"
#include "quantize/report/job_report.h"

/* A change of options that may help; texts in the arena of the network. */
struct qc_idea {
    struct qc_change change;
    bool anew;          /* equalization and data must run again */
    bool mends;         /* repairs outlier channels, which break a network: tried at any cost */
    const char *action; /* description, a sentence */
    const char *node;   /* NULL: all layers */
};

enum { QC_IDEAS = 8 };
struct qc_ideas {
    size_t count;
    struct qc_idea of[QC_IDEAS];
};

/* Puts into the record why the worst layers of the ranking add error, in its order. Adds ideas for the first ones whose
   cause is known and has a remedy. Does nothing without a measurement (m NULL). Needs the ranking
   of r and everything before it. */
bool qc_fill_suggestions(struct qc_report *r, struct qc_ideas *ideas, const struct qc_network *p,
                         const struct qc_measurement *m, struct qc_status *st);

/* Finds where error enters a quantized graph, from the measured noise of its values, without another run. With N =
   noise / signal of a value against the float network, an op adds N(result) - max N(inputs). This is the growth of the
   relative error: an op that cancels signal adds error just as one that rounds. */

/* Estimates the share of the output noise that each quantizer makes [qparams_count + 1], without a run. The noise of
   each value and of its own rounding were measured; the rest of the noise comes from the inputs of its op. g and r: as
   above. */
bool qc_noise_believed(double **out, const struct qc_graph *g, const struct qc_measurement *m,
                       const struct qc_report *r, struct qc_arena *a, struct qc_status *st);

/* Fills the ranking of r. The layers of `effects` come first, in that order: they were measured. The others follow by
   the estimate of qc_noise_believed. effects: of the layers of p->simulated; NULL: none was measured. Leaves the
   ranking empty without a measurement (m NULL). Needs the layers and outputs of r. */
bool qc_fill_ranking(struct qc_report *r, const struct qc_network *p, const struct qc_measurement *m,
                     const struct qc_sensitivity *effects, struct qc_status *st);
