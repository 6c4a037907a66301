// SPDX-License-Identifier: Apache-2.0
/* QDQ: every op stays a float op between DequantizeLinear and QuantizeLinear, which runtimes fuse into integer kernels.
   An activation has one QuantizeLinear and one DequantizeLinear for any number of consumers. Weights are int8
   initializers. Biases are int32 initializers with the accumulator's qparams: scale f(input scale * weight scale), zero
   point 0. */
#include "export/formats/lowering.h"

static bool lower(struct qc_graph **out, const struct qc_graph *g, const struct qc_lower_options *options,
                  struct qc_status *st)
{
    return qc_lower_graph(out, g, qc_lower_plain, options, st);
}

extern const struct qc_exporter qc_exporter_qdq;
const struct qc_exporter qc_exporter_qdq = {
    .name = "qdq",
    .summary = "ONNX with QuantizeLinear / DequantizeLinear around float ops; opset 13 or later",
    .suffix = ".int8.onnx",
    .lower = lower,
};
