// SPDX-License-Identifier: Apache-2.0
/* The trials of --method auto: compares the ranges of several observers by the output error of the quantized network
   (docs/decisions/0030-ranges-by-the-outputs.md). */
#pragma once

#include "calib/ranges/calibrate.h"
#include "export/report/report.h"

struct qc_pipeline;

enum { QC_AUTO_METHODS = 5 }; /* observers that are tried; the first is the default */

/* The ranges of the observers, and the choice. */
struct qc_auto_found {
    struct qc_pipeline *p;
    struct qc_arena *arena;      /* owns the arrays */
    const struct qc_graph *base; /* bound with the first method, weights rounded */
    size_t qparams;
    size_t tried;                     /* QC_AUTO_METHODS, or 1 if there are too few samples to compare observers */
    struct qc_method *methods;        /* [tried + 1]: the last one is minmax */
    struct qc_affine *params;         /* [tried + 1][qparams + 1] */
    const struct qc_method **steps;   /* [qparams + 1]: the fixed range of an input on an integer grid, which replaces
                                         every observer; NULL for all other quantizers */
    struct qc_report_choice *choices; /* [qparams + 1] */
    /* Set by qc_auto_try_all: */
    size_t taken; /* the method of all quantizers without `steps` */
    struct qc_report_trial *trials;
    const struct qc_report_trial *chosen;
    size_t trial_count;
};

/* Returns true if the observers give some quantizer different ranges, or an input is on an integer grid. If only one
   observer is tried: if there is a quantizer with a range. */
bool qc_auto_ranges_differ(const struct qc_auto_found *found);
/* Runs the trials and sets the members above. Errors: those of runs. */
bool qc_auto_try_all(struct qc_auto_found *found, struct qc_status *st);
