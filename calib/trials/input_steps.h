// SPDX-License-Identifier: Apache-2.0
/* Inputs that hold integers times one step, such as sound or pictures stored in 8 bits and scaled. With that step as
   their scale they are quantized without error. */
#pragma once

#include "arith/params.h"
#include "datasets/samples/dataset.h"

/* Computes the largest step of which every value of a float32 input is a multiple. The range of the values may have at
   most `most` steps, and at most 65536. The step is 0 if there is none, or too few values to tell. It depends only on
   the set of values, not on their order. Reading stops at too many distinct values. */
bool qc_input_step(double *step, const struct qc_dataset *data, size_t input, double most, struct qc_status *st);

/* The step found for an input; most 0: not searched yet. */
struct qc_input_steps {
    double step, most;
};
/* The same, but reads the data only if *known was not found with this `most`. */
bool qc_input_step_once(double *step, struct qc_input_steps *known, const struct qc_dataset *data, size_t input,
                        double most, struct qc_status *st);

/* Extends lo .. hi to a range whose scale is the step divided by an integer, as fine as the levels allow. Returns false
   if there is none. */
bool qc_range_of_step(double *lo, double *hi, double step, struct qc_levels levels, enum qc_symmetry symmetry);
