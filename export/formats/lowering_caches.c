// SPDX-License-Identifier: Apache-2.0
/* Caches in a type of their own: outputs are the integers of the last step, and inputs take them. */
#include "export/formats/lowering.h"
#include "graph/core/caches.h"

/* Returns the affine value that an output dequantizes, perhaps to another float type; 0: none. */
static qc_id stored_in(const struct qc_graph *g, qc_id output)
{
    const struct qc_node *n = qc_node_of(g, output);
    if (n && n->op == QC_OP_Cast) n = qc_node_of(g, n->inputs[0]);
    return n && n->op == QC_OP_Dequantize ? n->inputs[0] : 0;
}

/* Returns true if an affine value is the result of the Concat, rounded. */
static bool is_joined_by(const struct qc_graph *g, qc_id v, const struct qc_node *concat)
{
    const struct qc_node *n = qc_node_of(g, v);
    if (n && n->op == QC_OP_Quantize) n = qc_node_of(g, n->inputs[0]);
    if (n && n->op == QC_OP_Cast) n = qc_node_of(g, n->inputs[0]);
    return n == concat;
}

void qc_lower_find_caches(struct qc_lowering *x)
{
    const struct qc_graph *g = x->from;
    struct qc_cache c;
    for (size_t i = 0; x->options.caches && i < g->input_count; i++) {
        const qc_id input = g->inputs[i].value;
        if (!qc_dtype_info(g->values[input].type.dtype)->is_float || !qc_cache_of(&c, &x->uses, input)) continue;
        for (size_t k = 0; k < g->output_count; k++) {
            const qc_id output = g->outputs[k].value, v = stored_in(g, output);
            if (!v || !is_joined_by(g, v, c.joins)) continue;
            x->cache[input] = x->cache[output] = v;
            x->given[v] = g->outputs[k].name;
        }
    }
}
