// SPDX-License-Identifier: Apache-2.0
/* Expands an operator that is a function of others, when a file is read. The reader calls it;
   rewrite/language/expansion.h, which knows the functions, implements it. Neither depends on the other. */
#pragma once

#include "graph/core/graph.h"

struct qc_call {
    const char *op;    /* "GroupNormalization", "com.microsoft::Gelu" */
    const char *label; /* prefix of the names of its nodes: "label/MatMul_1" */
    int opset;         /* of the default domain, whatever the operator's domain */
    unsigned input_count, output_count, attr_count;
    const qc_id *inputs;         /* [input_count], QC_ABSENT for omitted inputs */
    const struct qc_attr *attrs; /* all attributes in the file */
    const bool *wanted;          /* [output_count]: whether the output is read */
};

struct qc_expander {
    const void *user;
    /* Returns whether there is a function of this name for the opset. expand may still refuse a call. */
    bool (*knows)(const void *user, const char *op, int opset);
    /* Adds the nodes of the call. Sets the wanted outputs [output_count]; new ones have no name. If no function
       handles such a call, sets *fits to false and nothing else. Fails with QC_UNSUPPORTED if the function does not
       support the call, QC_BAD_INPUT if the call is wrong; the message does not name the node. */
    bool (*expand)(qc_id *outputs, bool *fits, const void *user, struct qc_graph *g, const struct qc_call *call,
                   struct qc_status *st);
};
