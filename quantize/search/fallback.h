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
   demand is met, then the interval is halved. The changes are those of --activation-type, --weight-type and --skip.
   Afterwards d->c is in the best state that meets the demand, else in its first state; *has are the results of that
   state. *out (from the arena of d->c) has the steps and whether the demand is met. Errors: those of making and of the
   evaluation. */
bool qc_fall_back(struct qc_report_fallback **out, struct qc_standing *has, struct qc_demand *d,
                  const struct qc_sensitivity *s, struct qc_status *st);

/* Wider types that --method auto chooses by itself: for recurrent weights, and for layers of a network with a useless
   output. Outputs that stay useless get a warning. */

/* m: the outputs of the network. Sets *out (from the arena of c) to the steps tried, or to NULL. If (*out)->met, c has
   the wider types afterwards, else its scheme is unchanged. *changed: the network was made again, so everything that
   borrows from its graphs must be made again, too. Errors: those of making and of runs. */
bool qc_mend(struct qc_report_fallback **out, bool *changed, struct qc_candidate *c, const struct qc_measurement *m,
             struct qc_status *st);

/* Warns if an output has less than 10 dB. The warning names the layer that loses most, and a remedy: a command of the
   advice, one that follows from the cause of error (ideas), or a demand. */
bool qc_warn_useless(const struct qc_report *r, const struct qc_ideas *ideas, struct qc_network *net,
                     const struct qc_measurement *m, struct qc_status *st);
