// SPDX-License-Identifier: Apache-2.0
/* What --target names, and the targets of rules: each with what it stands for. */
#pragma once

#include <string.h>

/* TARGET(name, summary) for each, with BETWEEN between them; the first is the default. */
#define QC_EACH_TARGET(TARGET, BETWEEN)                                                                                \
    TARGET("ort", "ONNX Runtime: a function behind a convolution is a piece of its own (the default)")                 \
    BETWEEN TARGET("openvino",                                                                                         \
                   "OpenVINO: as ort; results that nothing in integers reads stay float, weights of an odd number of " \
                   "channels have 7 bits")                                                                             \
        BETWEEN TARGET("fused", "runtimes that compute a convolution and the function behind it in one piece")

#define QC_TARGET_NAME(name, summary) name
#define QC_TARGETS QC_EACH_TARGET(QC_TARGET_NAME, "|")

/* The target of rules: that of OpenVINO is ONNX Runtime's. */
static inline const char *qc_target_of_rules(const char *target)
{
    return strcmp(target, "openvino") == 0 ? "ort" : target;
}
