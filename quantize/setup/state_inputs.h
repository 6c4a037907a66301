// SPDX-License-Identifier: Apache-2.0
/* --state INPUT=OUTPUT: inputs that read an output of the step before (docs/states.md). */
#pragma once

#include "datasets/samples/dataset.h"
#include "graph/core/graph.h"
#include "quantize/interface/warnings.h"
#include "quantize/options/options.h"

/* Marks the specs of the inputs of g that --state names; free dims become those of the output where they are known.
   Other inputs of which an output may be the next state get `looks_like`. Fails with QC_USAGE for a name that the model
   does not have, for one that is given twice, and with --seed, which would draw the samples. */
bool qc_state_inputs(struct qc_input_spec *specs, const struct qc_graph *g, const struct qc_options *o,
                     struct qc_arena *a, struct qc_status *st);

/* Warns of each float input that is the same in all samples while an output has its type and shape: a state that was
   not recorded. Reads all samples of such an input. Ignores errors: the job itself reports them. */
void qc_warn_states(struct qc_warnings *w, const struct qc_graph *g, const struct qc_dataset *data);
