// SPDX-License-Identifier: Apache-2.0
/* Inputs that were integers: all values are multiples of one step (sound or pictures that were stored in 8 bits and
   then multiplied by something). With that step as their scale nothing of them is rounded. */
#pragma once

#include "arith/params.h"
#include "datasets/samples/dataset.h"

/* The largest step of which every value of a float32 input is a multiple, if it divides the range of the values into at
   most `most` steps, and no more than 65536; 0: there is none, or too few values to tell. It depends on the set of
   values alone, not on their order. Reading stops when there are too many distinct values. */
bool qc_input_step(double *step, const struct qc_dataset *data, size_t input, double most, struct qc_status *st);

/* The step of an input that was found before; most 0: none was looked for. */
struct qc_input_steps {
    double step, most;
};
/* qc_input_step, which reads the data only if *known was found with another `most`. */
bool qc_input_step_once(double *step, struct qc_input_steps *known, const struct qc_dataset *data, size_t input,
                        double most, struct qc_status *st);

/* A range around lo .. hi whose scale is the step, or a whole part of it as fine as levels allow; false: none is. */
bool qc_range_of_step(double *lo, double *hi, double step, struct qc_levels levels, enum qc_symmetry symmetry);
