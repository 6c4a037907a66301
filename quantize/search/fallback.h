// SPDX-License-Identifier: Apache-2.0
/* Wider types for layers, the worst first: for --max-drop, --min-sqnr and --max-nll, and for noisy outputs (mend.c). */
#pragma once

#include "calib/metrics/sensitivity.h"
#include "quantize/search/attempts.h"

/* Measures the effect of the layers of a network, on at most `batches` batches of --data, or without it of eval
   (labelled data, or NULL). which: NULL (all layers), or which ones; its settings are ignored. With --sensitivity the
   accuracy of each layer on all of eval is measured too. The selection of samples is restored. Fails with QC_USAGE if
   there are no samples. */
bool qc_measure_sensitivity(struct qc_sensitivity **out, const struct qc_network *net, struct qc_dataset *eval,
                            size_t batches, const struct qc_sensitivity_options *which, struct qc_status *st);

/* Adds the options that widen the weights or the activations of layers from .. end - 1 of s, whichever lose more, or
   leave them in float; none if there are none. net: the network that s is of. The texts are in the arena. */
bool qc_layer_remedies(struct qc_change *to, const struct qc_network *net, const struct qc_sensitivity *s, size_t from,
                       size_t end, bool in_float, struct qc_arena *a, struct qc_status *st);

/* Proposes wider types for the first n layers of s (16 bits for the activations or the weights, whichever lose more),
   and float for them. n is doubled while that can be better, then the interval is halved. The changes are those of
   --activation-type, --weight-type and --skip. */
bool qc_widen_layers(struct qc_attempts *t, const struct qc_sensitivity *s, struct qc_status *st);

/* Widens layers of d->c, whose network misses the demand with the results *has. Afterwards d->c is in the best state
   that meets the demand, else in its first state; *has are the results of that state. *out: as qc_attempts_end. Errors:
   those of making and of the evaluation. */
bool qc_fall_back(struct qc_json **out, struct qc_standing *has, struct qc_demand *d, const struct qc_sensitivity *s,
                  struct qc_status *st);
