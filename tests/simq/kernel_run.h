// SPDX-License-Identifier: Apache-2.0
/* One node, run by its kernel alone, without a planner; its inputs may lie in memory in any order. */
#pragma once

#include "simq/core/kernel.h"

enum memory {
    MEMORY_ROW,      /* dense row-major */
    MEMORY_LAST,     /* channels-last where the rank is 3 to 5, inputs and outputs */
    MEMORY_FLIPPED,  /* inputs backwards: all strides negative */
    MEMORY_SPREAD,   /* inputs with gaps between the elements; axes in reverse order */
    MEMORY_IN_PLACE, /* row-major; output 0 is the memory of the first input that the kernel lets it be */
    MEMORY_COUNT
};

struct kernel_run_options {
    enum memory memory;                /* inputs of a kernel that wants them row-major are so anyway */
    uint64_t late;                     /* bit i: constant input i is known to run only, not to prepare */
    const struct qc_scales *in_scales; /* NULL: real */
};

/* inputs[i]: of node input i; NULL for constants of the graph. outputs[k] are new row-major tensors. Outputs are filled
   with a pattern before the run, so that an element that is not written shows. */
bool kernel_run(struct qc_tensor **outputs, const struct qc_graph *g, qc_id node,
                const struct qc_tensor *const inputs[], const struct kernel_run_options *options, struct qc_status *st);
