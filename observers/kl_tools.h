// SPDX-License-Identifier: Apache-2.0
/* Entropy calibration as other tools define it (docs/observer-formulas.md names the sources). Private to observers/.

   All use counts on bins of equal width, exact zeros included, and try thresholds T at bin edges. P is the counts
   within T, with the counts beyond added to its end bins. Q is the counts within T merged to the quantizer's levels and
   spread evenly over those bins of each level where P is not 0. The T of least KL(P || Q) wins; of equal ones the
   widest. The range is [-T, T] cut to the limits.
     tensorrt     |x| on `bins` bins (2048); the first bin is given the count of the second; T from 128 bins up;
                  Q == 0 where P > 0 rules T out
     mxnet        x on `bins` bins (8001) over [-max, max]; 255 levels, 511 on data >= 0 with unsigned types; zeros of
                  P and Q are smoothed by 1e-4
     onnxruntime  as mxnet on 128 bins with 128 levels: a single T, hence min-max; Q is truncated to integer counts, its
                  remainder bins are empty */
#pragma once

#include "observers/observer.h"

/* In the order of the choices of option `variant`. */
enum qc_kl_variant { QC_KL_QUANTIZER, QC_KL_SYMMETRIC, QC_KL_TENSORRT, QC_KL_MXNET, QC_KL_ONNXRUNTIME, QC_KL_VARIANTS };

/* Solves one of the last three variants; bins 0: the tool's own number. Sets lo, hi, objectives and candidates. Fails
   if memory is out. */
bool qc_kl_tool(struct qc_range *out, enum qc_kl_variant variant, size_t bins, const struct qc_statistics *s,
                const struct qc_solve *request, struct qc_range limits, struct qc_status *st);
