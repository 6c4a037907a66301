// SPDX-License-Identifier: Apache-2.0
#include "graph/core/caches.h"

static bool converts(const struct qc_node *n)
{
    return n->op == QC_OP_Cast || n->op == QC_OP_DequantizeLinear || n->op == QC_OP_Quantize ||
           n->op == QC_OP_Dequantize;
}

/* Finds the one Concat that appends to v. Returns false if v, or a conversion of it, has another reader than that and
   Shape. */
static bool appended(const struct qc_node **joins, const struct qc_uses *u, qc_id v, unsigned conversions)
{
    const struct qc_graph *g = u->graph;
    const struct qc_use_list readers = qc_readers(u, v);
    for (size_t i = 0; i < readers.count; i++) {
        const struct qc_node *n = &g->nodes[readers.of[i].node];
        if (n->op == QC_OP_Shape) continue;
        if (converts(n)) {
            if (!conversions || !appended(joins, u, n->outputs, conversions - 1)) return false;
            continue;
        }
        if (n->op != QC_OP_Concat || readers.of[i].input != 0 || n->input_count != 2) return false;
        if (*joins && *joins != n) return false;
        *joins = n;
    }
    return true;
}

bool qc_cache_of(struct qc_cache *out, const struct qc_uses *u, qc_id input)
{
    const struct qc_type *t = &u->graph->values[input].type;
    const struct qc_dtype_info *info = qc_dtype_info(t->dtype);
    if ((!info->is_float && info->bits != 8) || t->shape.rank < 3) return false;
    const struct qc_node *n = NULL;
    if (!appended(&n, u, input, 4) || !n) return false;
    const int64_t axis = qc_attr_int(n, "axis", 0);
    *out = (struct qc_cache){.joins = n, .axis = (int)(axis < 0 ? axis + t->shape.rank : axis)};
    return out->axis >= 1 && out->axis < t->shape.rank && t->shape.dim[out->axis] < 0;
}

int qc_cache_heads(const struct qc_graph *g, const struct qc_cache *c)
{
    const struct qc_shape *s = &g->values[c->joins->outputs].type.shape;
    const int heads = 3 - c->axis; /* [batch, heads, length, size] or [batch, length, heads, size] */
    return s->rank == 4 && c->axis < 3 && s->dim[heads] > 0 ? heads : -1;
}
