// SPDX-License-Identifier: Apache-2.0
/* Inside simq/: the roundings of arith/real_steps.h between the scales of values, also over views. */
#pragma once

#include "arith/real_steps.h"
#include "base/arena.h"
#include "simq/core/kernel.h"

/* Prepares the rounding from the scales `from` to the scales `to` (identity: real). lo and hi clamp the result in
   its own units (-INFINITY and INFINITY: no clamp). NaN stays NaN if the result is not integers. Arrays are
   allocated in `a`. */
bool qc_rounding_of(struct qc_rounding *out, const struct qc_scales *from, const struct qc_scales *to, float lo,
                    float hi, struct qc_arena *a, struct qc_status *st);

/* qc_rounding_run for views of equal dims and any strides. In place only if both views are the same; channels run
   along `axis`. */
void qc_rounding_view(const struct qc_rounding *r, int axis, const struct qc_view *y, const struct qc_view *x);
