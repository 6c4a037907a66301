// SPDX-License-Identifier: Apache-2.0
/* A table of integers that is also the matrix of a product is written once: the product reads a Transpose of the table
   (MatMulNBits: a Reshape), which ONNX Runtime (1.32) computes when it loads the model. */
#include "export/formats/lowering.h"
#include "graph/core/rebuild.h"
#include "graph/types/tensor_transpose.h"

#include <stdlib.h>
#include <string.h>

enum { SMALLEST = 4096 }; /* elements; a smaller one is not worth a node */

struct sharing {
    struct qc_rebuild r;
    const struct qc_graph *g;
    qc_id *table; /* [value_count + 1]: the table that a constant is made from; 0: none */
};

static bool is_reshaped(const struct qc_tensor *a, const struct qc_tensor *b)
{
    return a->dtype == b->dtype && a->count == b->count && !qc_shape_equal(&a->shape, &b->shape) &&
           memcmp(a->data, b->data, a->bytes) == 0;
}

/* Returns the constant that a Gather takes rows of, perhaps through a Cast, if it is a table of integers of some size.
 */
static qc_id table_of(const struct qc_graph *g, const struct qc_node *n)
{
    const bool takes = n->op == QC_OP_Gather || n->op == QC_OP_GatherBlockQuantized;
    const struct qc_node *by = takes ? qc_node_of(g, n->inputs[0]) : NULL;
    const qc_id v = by && by->op == QC_OP_Cast ? by->inputs[0] : n->inputs[0];
    const struct qc_tensor *t = takes ? qc_constant_of(g, v) : NULL;
    const bool fits = t && t->shape.rank == 2 && t->count >= SMALLEST && !qc_dtype_info(t->dtype)->is_float;
    return fits ? v : 0;
}

static bool find(struct sharing *s)
{
    const struct qc_graph *g = s->g;
    bool found = false;
    for (qc_id id = 1; id <= g->node_count; id++) {
        const qc_id table = table_of(g, &g->nodes[id]);
        const struct qc_tensor *t = table ? qc_constant_of(g, table) : NULL;
        for (qc_id v = 1; t && !s->table[table] && v <= g->value_count; v++) {
            const struct qc_tensor *c = v == table || s->table[v] ? NULL : qc_constant_of(g, v);
            if (!c || !(qc_tensor_is_transposed(c, t) || is_reshaped(c, t))) continue;
            s->table[v] = table;
            found = true;
        }
    }
    return found;
}

static qc_id shared(struct sharing *s, qc_id v, struct qc_status *st)
{
    static const int64_t swapped[] = {1, 0};
    const struct qc_tensor *c = qc_constant_of(s->g, v);
    const char *name = s->g->values[v].name;
    struct qc_attr perm = QC_INTS("perm", 2, swapped);
    struct qc_node_def def = {
        .op = QC_OP_Transpose, .name = name, .input_count = 1, .attr_count = 1, .attrs = &perm, .output_names = &name};
    qc_id in[2] = {qc_rebuild_value(&s->r, s->table[v], st), 0};
    if (!in[0]) return 0;
    def.inputs = in;
    if (!qc_tensor_is_transposed(c, qc_constant_of(s->g, s->table[v]))) {
        const struct qc_shape rank = QC_SHAPE(c->shape.rank);
        struct qc_tensor *t = qc_tensor_of(QC_I64, &rank, c->shape.dim, st);
        in[1] = t ? qc_graph_add_constant(s->r.to, "table_shape", t, st) : 0;
        qc_tensor_unref(t);
        if (!in[1]) return 0;
        def.op = QC_OP_Reshape;
        def.input_count = 2;
        def.attr_count = 0;
    }
    return qc_graph_add(s->r.to, &def, st);
}

bool qc_lower_share_tables(struct qc_graph **g, struct qc_status *st)
{
    struct sharing s = {.g = *g, .table = calloc((size_t)(*g)->value_count + 1, sizeof *s.table)};
    struct qc_graph *out = NULL;
    if (!s.table) return qc_fail_memory(st, (size_t)(*g)->value_count * sizeof *s.table);
    bool ok = true;
    if (find(&s)) {
        ok = qc_rebuild_begin(&s.r, s.g, st);
        for (qc_id v = 1; ok && v <= s.g->value_count; v++)
            if (s.table[v]) ok = (s.r.map[v] = shared(&s, v, st)) != 0;
        ok = ok && qc_rebuild_finish(&out, &s.r, st);
        qc_rebuild_free(&s.r);
    }
    free(s.table);
    if (!ok || !out) return ok;
    qc_graph_free(*g);
    *g = out;
    return true;
}
