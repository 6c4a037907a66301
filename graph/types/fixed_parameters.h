// SPDX-License-Identifier: Apache-2.0
#ifndef QC_GRAPH_TYPES_FIXED_PARAMETERS_H
#define QC_GRAPH_TYPES_FIXED_PARAMETERS_H

#include "arith/contract.h"
#include "graph/types/dtype.h"
#include "graph/types/op.h"

/* Scale and zero point of results whose range is known, which TFLite fixes:
     Sigmoid, Softmax 1/256, lowest level;  Tanh, LpNormalization (p 2) 1/128, middle;  LogSoftmax 16/256, highest
     level; 16 bits signed: 1/32768, 0 (Sigmoid, Softmax, Tanh).
   False when `contract` is another than tflite and tflite-single, or fixes nothing for this op and type. */
bool qc_fixed_parameters(struct qc_affine *out, enum qc_contract contract, enum qc_op op, enum qc_dtype dtype);

#endif
