// SPDX-License-Identifier: Apache-2.0
/* --max-drop: layers get wider types, the worst first, until accuracy holds. */
#ifndef QC_QUANTIZE_FALLBACK_H
#define QC_QUANTIZE_FALLBACK_H

#include "calib/metrics/sensitivity.h"
#include "export/report/report.h"
#include "quantize/pipeline_state.h"

/* What decides. */
struct qc_demand {
    struct qc_dataset *eval;
    struct qc_metric fp32; /* of the float network on it */
    double limit;          /* --max-drop: points of top-1, or dB of PSNR */
};

/* Measures each layer of a pipeline that has run, on at most so many batches of --data, else of eval (labelled data, or
   NULL); with --sensitivity the accuracy of each on all of eval too. The chosen samples are the same as before
   afterwards. */
bool qc_measure_sensitivity(struct qc_sensitivity **out, struct qc_pipeline *p, struct qc_dataset *eval, size_t batches,
                            struct qc_status *st);

/* The option that gives one layer 16 bits where it loses more, or leaves it in float; *name is NULL when there is none.
   Texts in the arena of p. */
bool qc_layer_remedy(const char **name, const char **value, const struct qc_pipeline *p,
                     const struct qc_layer_effect *e, bool in_float, struct qc_status *st);

/* p: has run, and misses the demand with *metric. The first n layers of s are given 16 bits - the activations or the
   weights, whichever loses more - or are left in float; n is doubled until the demand holds, then the interval is
   halved. What is tried are the options --activation-type, --weight-type and --skip by name, as p->scheme has them.
   Afterwards p is in the state of the best that holds, else as at the beginning; *metric and *overflows are its; *out
   (from the arena of p) has the path and whether the demand is met. Errors: those of the pipeline and of the
   evaluation. */
bool qc_fall_back(struct qc_report_fallback **out, struct qc_metric *metric, struct qc_overflows *overflows,
                  struct qc_pipeline *p, const struct qc_demand *demand, const struct qc_sensitivity *s,
                  struct qc_status *st);

#endif
