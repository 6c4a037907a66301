// SPDX-License-Identifier: Apache-2.0
/* The trials of --method auto: which ranges serve the outputs best, by runs on some samples
   (docs/decisions/0030-ranges-by-the-outputs.md). */
#ifndef QC_QUANTIZE_TRIALS_AUTO_TRIALS_H
#define QC_QUANTIZE_TRIALS_AUTO_TRIALS_H

#include "calib/ranges/calibrate.h"
#include "export/report/report.h"

struct qc_pipeline;

enum {
    QC_AUTO_METHODS = 6, /* that are tried, the one that is fallen back to first */
    QC_AUTO_SOLVED,      /* and one behind them that cuts nothing off */
    QC_AUTO_WIDTHS = 3
};
/* How many times as far ranges reach: as they are first, and those that are tried last. */
extern const double qc_auto_widths[QC_AUTO_WIDTHS];

/* What the observers give, and what is taken of it. */
struct qc_auto_found {
    struct qc_pipeline *p;
    struct qc_arena *arena;      /* of all this */
    const struct qc_graph *base; /* bound with the first method, weights rounded */
    size_t qparams;
    struct qc_method *methods;      /* [QC_AUTO_SOLVED] */
    struct qc_affine *params;       /* [QC_AUTO_WIDTHS][QC_AUTO_SOLVED][qparams + 1] */
    qc_id *before;                  /* [qparams + 1]: the quantizer whose scale it may take, or 0 */
    const struct qc_method **whole; /* [qparams + 1]: by what those of inputs that keep all that was seen, whatever is
                                       taken, get their range; NULL: others */
    /* What qc_auto_try_all finds: */
    size_t *taken; /* [qparams + 1]: the method of each quantizer, but for those; the first before */
    struct qc_report_trial *trials;
    size_t trial_count;
    struct qc_report_choice *choices; /* [qparams + 1] */
    double wider;                     /* how many times as far ranges then reach; 0: as they are */
};

/* Is there a quantizer whose range is not the same by all that are tried, or is not of these? */
bool qc_auto_ranges_differ(const struct qc_auto_found *found);
/* Errors: those of runs. */
bool qc_auto_try_all(struct qc_auto_found *found, struct qc_status *st);

#endif
