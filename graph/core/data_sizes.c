// SPDX-License-Identifier: Apache-2.0
#include "graph/core/data_sizes.h"

#include <limits.h>

bool *qc_sized_by_data(const struct qc_graph *g, struct qc_arena *a, struct qc_status *st)
{
    bool *sized = QC_NEW_ARRAY(a, bool, g->value_count + 1, st), *data = QC_NEW_ARRAY(a, bool, g->value_count + 1, st);
    if (!sized || !data) return NULL;
    for (qc_id v = 1; v <= g->value_count; v++) data[v] = g->values[v].kind == QC_VALUE_INPUT;
    QC_EACH_NODE(n, g) {
        bool is_sized = n->op == QC_OP_NonZero || n->op == QC_OP_Compress || n->op == QC_OP_Unique ||
                        n->op == QC_OP_NonMaxSuppression || n->op == QC_OP_If || n->op == QC_OP_Loop ||
                        n->op == QC_OP_Scan,
             is_data = is_sized;
        /* The first input that gives sizes: all from there on do. UINT_MAX: none does. */
        const unsigned first = n->op == QC_OP_Range || n->op == QC_OP_ConstantOfShape ? 0
                               : n->op == QC_OP_Slice || n->op == QC_OP_Expand || n->op == QC_OP_Tile ||
                                       n->op == QC_OP_TopK || n->op == QC_OP_Split || n->op == QC_OP_Pad ||
                                       n->op == QC_OP_Resize || n->op == QC_OP_OneHot
                                   ? 1
                                   : UINT_MAX;
        for (unsigned i = 0; i < n->input_count; i++) {
            const bool shape = n->op == QC_OP_Shape || n->op == QC_OP_Size;
            is_sized = is_sized || (!shape && sized[n->inputs[i]]) || (i >= first && data[n->inputs[i]]);
            is_data = is_data || (shape ? sized : data)[n->inputs[i]];
        }
        for (unsigned k = 0; k < n->output_count; k++) {
            sized[n->outputs + k] = is_sized;
            data[n->outputs + k] = is_data;
        }
    }
    return sized;
}
