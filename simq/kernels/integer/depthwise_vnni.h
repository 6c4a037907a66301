// SPDX-License-Identifier: Apache-2.0
/* Inside simq/kernels/integer/: depthwise convolutions with AVX-512 VNNI, where the processor has it. */
#ifndef QC_SIMQ_KERNELS_INTEGER_DEPTHWISE_VNNI_H
#define QC_SIMQ_KERNELS_INTEGER_DEPTHWISE_VNNI_H

#include "simq/kernels/integer/depthwise.h"

#if defined(__x86_64__) && defined(__GNUC__)
qc_depthwise_fn qc_depthwise_vnni;
qc_depthwise_pair_fn qc_depthwise_pair_vnni;
qc_depthwise_line_fn qc_depthwise_line_vnni;
#endif

#endif
