// SPDX-License-Identifier: Apache-2.0
/* Inside simq/kernels/integer/: depthwise convolutions with AVX2, where the processor has it. Weights: QC_TAPS_PAIRS.
 */
#ifndef QC_SIMQ_KERNELS_INTEGER_DEPTHWISE_AVX2_H
#define QC_SIMQ_KERNELS_INTEGER_DEPTHWISE_AVX2_H

#include "simq/kernels/integer/depthwise.h"

#if defined(__x86_64__) && defined(__GNUC__)
qc_depthwise_fn qc_depthwise_avx2;
qc_depthwise_line_fn qc_depthwise_line_avx2;
#endif

#endif
