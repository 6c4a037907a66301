// SPDX-License-Identifier: Apache-2.0
/* States of a recurrent network: its outputs of one sample are inputs of the next one (docs/states.md). */
#pragma once

#include "calib/statistics/stream.h"

/* Runs the chosen units of data in sequence through g and records the states that they read; nothing without states.
   Later reads of these units give the recorded states, as ordinary data. Fails if a run fails, or with QC_BAD_INPUT if
   an output does not have the type and shape of its input. */
bool qc_record_states(struct qc_dataset *data, const struct qc_graph *g, const struct qc_settings *settings,
                      struct qc_status *st);
