// SPDX-License-Identifier: Apache-2.0
/* Squared error of quantizing the values of a histogram, in O(levels) per range. For observers/ and calib/ranges/.

   The values of a bin are taken as uniform over it (as a point if lo == hi), zeros as exact. For a quantizer with scale
   s and n levels beyond zero on one side, magnitudes x >= 0 of that side fall into cells
     level 0: [0, s/2),   level k: [(k - 1/2) s, (k + 1/2) s),   level n: [(n - 1/2) s, infinity)
   and the error is the sum over cells of
     M2 - 2 k s M1 + (k s)^2 M0,   Mj = integral of x^j over the cell.
   Prefix sums of the Mj run outward from zero on each side, so that far outliers do not drown the cells near zero. A
   prefix sum at any point is one look-up by the bits of the point. Each prefix is exact to about 1e-15 of its size;
   cells are 1 / (12 k^2) of it, so the result is good to about 1e-8 at 8 bits. With more than QC_MOMENTS_LEVELS levels
   the error is summed bin by bin instead, in closed form.

   Floating-point levels (struct qc_levels) have their own cells, divided half-way between neighbours.

   Behind a function f (struct qc_output_function) the error is that of f(dequantized) against f(x): the same cells,
   with f(x) - f(0) in place of x and f(level) - f(0) in place of the level. Within a bin of 1/256 octave, f is taken as
   linear. */
#pragma once

#include "arith/params.h"
#include "base/status.h"
#include "observers/histogram.h"
#include "observers/observer.h"

enum { QC_MOMENTS_LEVELS = 2048 };

struct qc_moments;

/* Prepares the sums. The histogram must have counts; it is not kept. behind: borrowed; NULL for none. It is ignored if
   f is not finite at 0 or at an edge of the observed bins, or constant; then errors are those of the values themselves.
   Fails if memory is out. */
bool qc_moments_new(struct qc_moments **out, const struct qc_histogram *h, const struct qc_output_function *behind,
                    struct qc_status *st);
/* Returns true if the errors are those after the function. */
bool qc_moments_behind(const struct qc_moments *m);
/* Returns the function of a request; NULL if there is none, or with more than QC_MOMENTS_LEVELS levels, where ranges
   hardly differ. */
const struct qc_output_function *qc_moments_look(const struct qc_solve *request);
void qc_moments_free(struct qc_moments *m); /* NULL-safe */

/* Returns the sum over all values of (dequantized - value)^2 under the scale and zero point of qc_affine_from_range. */
double qc_moments_squared_error(const struct qc_moments *m, double lo, double hi, struct qc_levels levels,
                                enum qc_symmetry symmetry);

/* The same, but errors of clipped values (more than half a step beyond the last level) count `clip` times. With more
   than QC_MOMENTS_LEVELS levels they count once. */
double qc_moments_clip_error(const struct qc_moments *m, double lo, double hi, struct qc_levels levels,
                             enum qc_symmetry symmetry, double clip);

/* Returns true if that error is above `bound`; usually known long before the sum is complete. Exact if `clip` is 1;
   otherwise a bound within rounding of the error may give either answer. */
bool qc_moments_above(const struct qc_moments *m, double bound, double lo, double hi, struct qc_levels levels,
                      enum qc_symmetry symmetry, double clip);

/* Returns the sum over all values of |dequantized - value|^power, 1 <= power <= 8, in units of unit^power, bin by bin
   in closed form. unit > 0: for example the widest magnitude, so that nothing overflows. +INFINITY if it is above
   `enough`, which is usually known sooner, or if f of a level is not finite. */
double qc_moments_power_error(const struct qc_moments *m, double lo, double hi, struct qc_levels levels,
                              enum qc_symmetry symmetry, double power, double unit, double enough);
