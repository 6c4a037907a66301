// SPDX-License-Identifier: Apache-2.0
/* Operators of the model file that the graph holds as the nodes of their function (graph/core/call.h). An exporter
   writes the operator again if these nodes are still the same (export/formats/restored_calls.c). Graphs made from one
   another have the same calls, in the same order. */
#pragma once

#include "graph/core/call.h"

struct qc_source_call {
    const char *op, *label; /* as in struct qc_call; op NULL: one of its values is gone */
    unsigned input_count, output_count, attr_count;
    const struct qc_attr *attrs;
    const qc_id *inputs;  /* [input_count], QC_ABSENT for omitted inputs */
    const qc_id *outputs; /* [output_count], QC_ABSENT for outputs that nothing reads */
};

/* The caches of com.microsoft::GroupQueryAttention: past keys and values are inputs, present ones outputs. Their scales
   are the inputs after all others. */
enum { QC_CACHES_PAST = 3, QC_CACHES_PRESENT = 1, QC_CACHES = 2, QC_CACHES_SCALES = 12 };

/* Returns true for a call of this operator that may have caches. */
bool qc_call_takes_caches(const struct qc_source_call *c);

/* Adds a call with its outputs [output_count]. Everything is copied; attributes that are tensors are refused: such a
   call is not added. */
bool qc_graph_add_source_call(struct qc_graph *g, const struct qc_call *call, const qc_id *outputs,
                              struct qc_status *st);

/* Adds a call of another graph. Its inputs and outputs are arrays of g's arena with values of g. */
bool qc_graph_copy_source_call(struct qc_graph *g, struct qc_source_call call, struct qc_status *st);
