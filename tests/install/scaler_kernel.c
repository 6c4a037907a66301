// SPDX-License-Identifier: Apache-2.0
/* A worked example of qcalib_kernel.h: Scaler of ONNX's ai.onnx.ml, y = (x - offset) * scale. offset and scale have one
   number, or one for each index of the last axis. */
#include "qcalib/qcalib_kernel.h"

/* The result has the type and shape of the input, whatever of it is known. */
static int shape(const struct qcalib_kernel_call *call)
{
    if (call->inputs[0].type != 1) return 1; /* float alone */
    call->outputs[0] = call->inputs[0];
    return 0;
}

static float number(const struct qcalib_kernel_attribute *a, size_t channel, float otherwise)
{
    return !a || !a->count ? otherwise : a->count == 1 ? a->floats[0] : a->floats[channel % a->count];
}

static int compute(const struct qcalib_kernel_call *call)
{
    const struct qcalib_kernel_attribute *offset = qcalib_kernel_attribute_of(call, "offset", QCALIB_KERNEL_FLOATS),
                                         *scale = qcalib_kernel_attribute_of(call, "scale", QCALIB_KERNEL_FLOATS);
    const struct qcalib_kernel_tensor *x = &call->inputs[0];
    const size_t n = qcalib_kernel_elements(x), last = x->rank ? (size_t)x->dims[x->rank - 1] : 1;
    const float *from = x->data;
    float *to = call->outputs[0].data;
    for (size_t i = 0; i < n; i++) to[i] = (from[i] - number(offset, i % last, 0)) * number(scale, i % last, 1);
    return 0;
}

const struct qcalib_kernel qcalib_kernel_entry = {
    .abi = QCALIB_KERNEL_ABI,
    .inputs_min = 1,
    .inputs_max = 1,
    .outputs_max = 1,
    .domain = "ai.onnx.ml",
    .op = "Scaler",
    .shape = shape,
    .compute = compute,
};
