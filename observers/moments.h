// SPDX-License-Identifier: Apache-2.0
/* Squared error of quantizing what a histogram holds, in O(levels) per range. Private to observers/ and its tests.

   The values of a bin are taken as uniform over it (as a point when lo == hi), zeros as exact. For a quantizer with
   scale s and n levels beyond zero on one side, magnitudes x >= 0 of that side fall into cells level 0: [0, s/2), level
   k: [(k - 1/2) s, (k + 1/2) s),   level n: [(n - 1/2) s, infinity) and the error is the sum over cells of  M2 - 2 k s
   M1 + (k s)^2 M0,  Mj = integral of x^j over the cell. Prefix sums of the Mj run outward from zero on each side, so
   that far outliers do not drown the cells near zero; a prefix sum at any point is one look-up by the bits of the
   point. Each prefix holds about 1e-15 of its own size; cells are 1 / (12 k^2) of it, so the result is good to about
   1e-8 at 8 bits. With more than QC_MOMENTS_LEVELS levels the error is summed bin by bin instead, in closed form.

   Behind a function f (struct qc_output_function) the error is that of f(dequantized) against f(x): the same cells,
   with f(x) - f(0) in place of x and f(level) - f(0) in place of the level. Within a bin, 1/256 octave, f is taken as
   linear. */
#pragma once

#include "arith/params.h"
#include "base/status.h"
#include "observers/histogram.h"
#include "observers/observer.h"

enum { QC_MOMENTS_LEVELS = 2048 };

struct qc_moments;

/* Errors: memory. The histogram must have counts; it is not kept. behind: borrowed; NULL for none. It is left aside, so
   that errors are those of the values themselves, where f is not finite at 0 or at an edge of what was seen, or the
   same everywhere. */
bool qc_moments_new(struct qc_moments **out, const struct qc_histogram *h, const struct qc_output_function *behind,
                    struct qc_status *st);
/* Are the errors those behind the function? */
bool qc_moments_behind(const struct qc_moments *m);
/* What a request looks through: NULL for nothing, or when it has more than QC_MOMENTS_LEVELS levels, where ranges
 * hardly differ. */
const struct qc_output_function *qc_moments_look(const struct qc_solve *request);
void qc_moments_free(struct qc_moments *m); /* NULL-safe */

/* Sum over all values of (dequantized - value)^2 under the scale and zero point that qc_affine_from_range gives. */
double qc_moments_squared_error(const struct qc_moments *m, double lo, double hi, struct qc_levels levels,
                                enum qc_symmetry symmetry);

/* The same with the errors of clipped values, those more than half a step beyond the last level, counted `clip` times.
   With more than QC_MOMENTS_LEVELS levels they count once. */
double qc_moments_clip_error(const struct qc_moments *m, double lo, double hi, struct qc_levels levels,
                             enum qc_symmetry symmetry, double clip);

/* Is that above `bound`? The same answer as of a comparison, where `clip` is 1; else a bound that rounding may reach
   counts as either. Mostly it is known long before the sum is whole. */
bool qc_moments_above(const struct qc_moments *m, double bound, double lo, double hi, struct qc_levels levels,
                      enum qc_symmetry symmetry, double clip);

/* The sums below are +INFINITY where f of a level is not finite.
   Sum over all values of |dequantized - value|^power, 1 <= power <= 8, in units of unit^power (unit > 0, say the widest
   magnitude, so that nothing overflows): bin by bin, in closed form. +INFINITY where it is above `enough`, which is
   mostly known sooner. */
double qc_moments_power_error(const struct qc_moments *m, double lo, double hi, struct qc_levels levels,
                              enum qc_symmetry symmetry, double power, double unit, double enough);
