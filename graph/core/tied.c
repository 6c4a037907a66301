// SPDX-License-Identifier: Apache-2.0
#include "graph/core/tied.h"

#include "graph/types/tensor_transpose.h"

qc_id qc_next_tied_table(const struct qc_graph *g, const struct qc_tensor *matrix, qc_id after)
{
    for (qc_id id = after + 1; matrix->shape.rank == 2 && id <= g->node_count; id++) {
        const struct qc_node *n = &g->nodes[id];
        const bool rows = n->op == QC_OP_Gather && !qc_attr_int(n, "axis", 0);
        const struct qc_tensor *table = rows ? qc_constant_of(g, n->inputs[0]) : NULL;
        if (table && (table == matrix || qc_tensor_is_transposed(table, matrix))) return id;
    }
    return 0;
}
