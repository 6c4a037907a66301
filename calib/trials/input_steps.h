// SPDX-License-Identifier: Apache-2.0
/* Inputs that were integers: all values are multiples of one step (sound or pictures that were stored in 8 bits and
   then multiplied by something). With that step as their scale nothing of them is rounded. */
#ifndef QC_CALIB_TRIALS_INPUT_STEPS_H
#define QC_CALIB_TRIALS_INPUT_STEPS_H

#include "arith/params.h"
#include "datasets/samples/dataset.h"

/* The largest step of which every value of a float32 input is a multiple, where that makes at most `most` steps of
   their range; 0: there is none, or too few values to tell. The same in every order of the samples; where values are no
   multiples, the first few show it and no more are read. */
bool qc_input_step(double *step, const struct qc_dataset *data, size_t input, double most, struct qc_status *st);

/* A range around lo .. hi whose scale is the step, or a whole part of it as fine as levels allow; false: none is. */
bool qc_range_of_step(double *lo, double *hi, double step, struct qc_levels levels, enum qc_symmetry symmetry);

#endif
