// SPDX-License-Identifier: Apache-2.0
/* --max-drop, --min-sqnr, --max-nll: gives layers wider types, the worst first, until the demands are met. */
#pragma once

#include "calib/metrics/measure.h"
#include "calib/metrics/sensitivity.h"
#include "export/report/report.h"
#include "quantize/report/command_text.h"
#include "quantize/report/quantize_suggest.h"
#include "quantize/search/demand.h"

/* Measures the effect of each layer of a network, on at most `batches` batches of --data, or without it
   of eval (labelled data, or NULL). believed: NULL, or the estimated noise of each quantizer; then only `most` layers
   are measured (struct qc_sensitivity_options), with 0 none: the layers are sorted by the estimate. With --sensitivity
   the accuracy of each layer on all of eval is measured too. The selection of samples is restored. Fails with QC_USAGE
   if there are no samples. */
bool qc_measure_sensitivity(struct qc_sensitivity **out, const struct qc_network *net, struct qc_dataset *eval,
                            size_t batches, const double *believed, size_t most, struct qc_status *st);

/* Sets the option that widens the weights or the activations of a layer, whichever lose more, or leaves it in float.
   Its name is NULL if there is none. The texts are in the arena. */
bool qc_layer_remedy(struct qc_option_text *out, const struct qc_scheme *scheme, const struct qc_layer_effect *e,
                     bool in_float, struct qc_arena *a, struct qc_status *st);

/* Widens layers of d->c, whose network misses the demand with the results *has. The first n layers of s get wider
   types (16 bits for the activations or the weights, whichever lose more) or stay in float. n is doubled until the
   demand is met, then the interval is halved. Of the two the cheaper is taken (quantize/search/cost.h). The changes are
   those of --activation-type, --weight-type and --skip. Afterwards d->c is in the best state that meets the demand,
   else in its first state; *has are the results of that state. *out (from the arena of d->c) has the steps and whether
   the demand is met. Errors: those of making and of the evaluation. */
bool qc_fall_back(struct qc_report_fallback **out, struct qc_standing *has, struct qc_demand *d,
                  const struct qc_sensitivity *s, struct qc_status *st);

/* Widens layers of d->c while that is worth its price: each number of layers, in wider types or in float, has an
   estimated latency (quantize/search/cost.h), bytes and an output error, and the sum of the three is least. No file is
   larger than the float model, or slower if the first state is of use, except where the first state is. Afterwards d->c
   is in the best state, which may be the first. Errors: as qc_fall_back. */
bool qc_widen_while_worth(struct qc_report_fallback **out, struct qc_standing *has, struct qc_demand *d,
                          const struct qc_sensitivity *s, struct qc_status *st);
