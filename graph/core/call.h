// SPDX-License-Identifier: Apache-2.0
/* An operator that is a function of others, on its way from a file into a graph: what reads files asks, what knows the
   functions (rewrite/language/expansion.h) answers. The two rooms do not know each other. */
#pragma once

#include "graph/core/graph.h"

struct qc_call {
    const char *op;    /* "GroupNormalization", "com.microsoft::Gelu" */
    const char *label; /* what the nodes that it becomes are named after: "label/MatMul_1" */
    int opset;         /* of the default domain, whatever the domain of the operator */
    unsigned input_count, output_count, attr_count;
    const qc_id *inputs;         /* [input_count], QC_ABSENT where one is left out */
    const struct qc_attr *attrs; /* all that the file has */
    const bool *wanted;          /* [output_count]: something reads it */
};

struct qc_expander {
    const void *user;
    /* Is there a function of that name for the opset? It may still refuse a call. */
    bool (*knows)(const void *user, const char *op, int opset);
    /* Adds the nodes that the call stands for; outputs [output_count] are set where wanted, without a name if they are
       new. *fits is false, and nothing is set, where no function is for such a call. Errors: QC_UNSUPPORTED what the
       function does not handle, QC_BAD_INPUT what is wrong with the call; neither names the node. */
    bool (*expand)(qc_id *outputs, bool *fits, const void *user, struct qc_graph *g, const struct qc_call *call,
                   struct qc_status *st);
};
