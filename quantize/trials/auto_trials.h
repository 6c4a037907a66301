// SPDX-License-Identifier: Apache-2.0
/* The trials of --method auto: which ranges serve the outputs best, by runs on some samples
   (docs/decisions/0030-ranges-by-the-outputs.md). */
#pragma once

#include "calib/ranges/calibrate.h"
#include "export/report/report.h"

struct qc_pipeline;

enum { QC_AUTO_METHODS = 5 }; /* that are tried, the one that is fallen back to first */

/* What the observers give, and what is taken of it. */
struct qc_auto_found {
    struct qc_pipeline *p;
    struct qc_arena *arena;      /* of all this */
    const struct qc_graph *base; /* bound with the first method, weights rounded */
    size_t qparams;
    size_t tried;                   /* QC_AUTO_METHODS, or 1: too few samples to compare them */
    struct qc_method *methods;      /* [tried + 1]: behind them one that cuts nothing off */
    struct qc_affine *params;       /* [tried + 1][qparams + 1] */
    const struct qc_method **steps; /* [qparams + 1]: by what inputs of multiples of one step get their range, whatever
                                       is taken; NULL: others */
    struct qc_report_choice *choices; /* [qparams + 1] */
    /* What qc_auto_try_all finds: */
    size_t taken; /* the method of all but those */
    struct qc_report_trial *trials;
    const struct qc_report_trial *chosen;
    size_t trial_count;
};

/* Is there a quantizer whose range is not the same by all that are tried, or is not of these? If one is tried: is there
   a quantizer with a range? */
bool qc_auto_ranges_differ(const struct qc_auto_found *found);
/* Errors: those of runs. */
bool qc_auto_try_all(struct qc_auto_found *found, struct qc_status *st);
