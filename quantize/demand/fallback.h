// SPDX-License-Identifier: Apache-2.0
/* --max-drop, --min-sqnr, --max-nll: layers get wider types, the worst first, until what is demanded holds. */
#pragma once

#include "calib/metrics/sensitivity.h"
#include "export/report/report.h"
#include "quantize/demand/demand.h"

/* Measures each layer of a pipeline that has run, on at most so many batches of --data, else of eval (labelled data, or
   NULL); believed: NULL, or what is believed of quantizers: `most` layers are measured then (struct
   qc_sensitivity_options), or, with 0, none: they are in the order of what is believed. With --sensitivity the
   accuracy of each on all of eval too. The chosen samples are the same as before afterwards. */
bool qc_measure_sensitivity(struct qc_sensitivity **out, struct qc_pipeline *p, struct qc_dataset *eval, size_t batches,
                            const double *believed, size_t most, struct qc_status *st);

/* The option that gives one layer a wider type where it loses more, or leaves it in float; *name is NULL when there is
   none. Texts in the arena of p. */
bool qc_layer_remedy(const char **name, const char **value, const struct qc_pipeline *p,
                     const struct qc_layer_effect *e, bool in_float, struct qc_status *st);

/* d->p: has run, and misses the demand with *has. The first n layers of s are given wider types - 16 bits for the
   activations or the weights, whichever loses more - or are left in float; n is doubled until the demand holds, then
   the interval is halved. What is tried are the options --activation-type, --weight-type and --skip by name, as
   p->scheme has them. Afterwards p is in the state of the best that holds, else as at the beginning; *has is what that
   has; *out
   (from the arena of p) has the path and whether the demand is met. Errors: those of the pipeline and of the
   evaluation. */
bool qc_fall_back(struct qc_report_fallback **out, struct qc_standing *has, struct qc_demand *d,
                  const struct qc_sensitivity *s, struct qc_status *st);
