// SPDX-License-Identifier: Apache-2.0
/* What is demanded of the result (--max-drop, --min-sqnr, --max-nll), and what it has. */
#pragma once

#include "calib/trials/trial_run.h"
#include "quantize/pipeline_state.h"

struct qc_demand {
    double max_drop, min_sqnr, max_nll; /* NaN: not asked for */
    struct qc_pipeline *p;
    struct qc_dataset *data; /* that outputs are compared on; --eval is not looked at: */
    bool outputs_alone;
    struct qc_metric fp32;    /* of the float network on p->from->eval */
    struct qc_trials *trials; /* with min_sqnr: the samples that outputs are compared on */
    struct qc_trial_options how;
    struct qc_error *errors; /* [units * outputs] */
    const char *file;        /* that these samples are from */
};

/* What a produced graph has of it. */
struct qc_standing {
    struct qc_metric metric; /* on --eval; else empty */
    struct qc_overflows overflows;
    double sqnr_db;     /* with min_sqnr: of the worst output; else NaN */
    const char *output; /* its name */
};

/* Draws samples for --min-sqnr: all of --eval, without it at most 256 units of --data. d is borrowed until
   qc_demand_end. */
bool qc_demand_begin(struct qc_demand *d, struct qc_pipeline *p, struct qc_status *st);
/* For outputs of at least so many dB on 32 units of --data, whatever the options demand; accuracy is left alone. */
bool qc_demand_begin_outputs(struct qc_demand *d, struct qc_pipeline *p, double min_sqnr, struct qc_status *st);
void qc_demand_end(struct qc_demand *d);
size_t qc_demand_samples(const struct qc_demand *d);

/* Measures p->produced. */
bool qc_demand_measure(struct qc_standing *out, struct qc_demand *d, struct qc_status *st);
/* Adds the SQNR alone. */
bool qc_demand_measure_outputs(struct qc_standing *s, struct qc_demand *d, struct qc_status *st);
bool qc_demand_met(const struct qc_demand *d, const struct qc_standing *s);

/* QC_DEMAND, and what is missed; *drop: --max-drop is. */
bool qc_demand_check(bool *drop, const struct qc_demand *d, const struct qc_standing *s, struct qc_status *st);
