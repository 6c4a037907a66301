// SPDX-License-Identifier: Apache-2.0
/* The demands on the result (--max-drop, --min-sqnr, --max-nll), and their measurement. */
#pragma once

#include "calib/metrics/accuracy.h"
#include "calib/trials/trials.h"
#include "quantize/search/candidate.h"

struct qc_demand {
    double max_drop, min_sqnr, max_nll; /* NaN: not asked for */
    struct qc_candidate *c;
    struct qc_dataset *data;  /* the samples that outputs are compared on */
    bool outputs_alone;       /* accuracy on --eval is not measured */
    struct qc_metric fp32;    /* of the float network on --eval */
    struct qc_trials *trials; /* with min_sqnr, else NULL */
    struct qc_trial_options how;
    struct qc_error *errors; /* [units * outputs] */
    const char *file;        /* of the samples */
};

/* The measured results of a produced graph. */
struct qc_standing {
    struct qc_metric metric; /* on --eval; else empty */
    struct qc_overflows overflows;
    double sqnr_db;     /* with min_sqnr: of the worst output; else NaN */
    const char *output; /* its name */
};

/* Draws samples for --min-sqnr: all of --eval, or without it at most 256 units of --data. c is borrowed until
   qc_demand_end. Fails if samples cannot be read. */
bool qc_demand_begin(struct qc_demand *d, struct qc_candidate *c, struct qc_status *st);
/* Demands outputs of at least min_sqnr dB on at most 32 units of --data, whatever the options demand. Accuracy is not
   measured. */
bool qc_demand_begin_outputs(struct qc_demand *d, struct qc_candidate *c, double min_sqnr, struct qc_status *st);
void qc_demand_end(struct qc_demand *d);
size_t qc_demand_samples(const struct qc_demand *d);

/* Measures the network of the candidate. */
bool qc_demand_measure(struct qc_standing *out, struct qc_demand *d, struct qc_status *st);
/* Measures the SQNR alone; the rest of *s stays. */
bool qc_demand_measure_outputs(struct qc_standing *s, struct qc_demand *d, struct qc_status *st);
bool qc_demand_met(const struct qc_demand *d, const struct qc_standing *s);

/* Fails with QC_DEMAND if a demand is not met. *drop: --max-drop is not met. */
bool qc_demand_check(bool *drop, const struct qc_demand *d, const struct qc_standing *s, struct qc_status *st);
