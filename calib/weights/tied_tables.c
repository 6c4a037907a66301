// SPDX-License-Identifier: Apache-2.0
#include "calib/weights/round_weights.h"

#include "graph/core/parameters.h"
#include "graph/core/rebuild.h"
#include "graph/types/tensor.h"

/* A constant that is quantized for an input of a node. */
struct weight {
    qc_id constant, value; /* value: its quantized form; 0: none */
    qc_id quantizer;
    int axis;
};

static struct weight table_weight(const struct qc_graph *g, const struct qc_node *n, unsigned input)
{
    if (n->input_count <= input) return (struct weight){0};
    qc_id v = n->inputs[input];
    const struct qc_node *real = qc_node_of(g, v);
    if (real && real->op == QC_OP_Dequantize) v = real->inputs[0];
    const qc_id constant = qc_quantized_constant(g, v);
    if (!constant) return (struct weight){0};
    return (struct weight){.constant = constant,
                           .value = v,
                           .quantizer = g->values[v].type.qparams,
                           .axis = g->values[v].type.axis};
}

/* Returns true if b can have the integers and scales of a; turned: as its transpose. */
static bool same_form(const struct qc_graph *g, struct weight a, struct weight b, bool turned)
{
    const struct qc_qparams *x = &g->qparams_of[a.quantizer], *y = &g->qparams_of[b.quantizer];
    return x->kind == QC_QPARAMS_QUANTIZER && y->kind == QC_QPARAMS_QUANTIZER && x->state == QC_QPARAMS_BOUND &&
           y->state == QC_QPARAMS_BOUND && a.quantizer != b.quantizer && !x->given && !y->given &&
           x->dtype == y->dtype && x->bits == y->bits && x->format == y->format && x->restricted == y->restricted &&
           x->power_of_two == y->power_of_two && x->symmetry == y->symmetry && x->block == y->block &&
           x->count == y->count && (x->count == 1 || a.axis == (turned ? 1 - b.axis : b.axis));
}

struct tie {
    struct weight table, matrix; /* of `before` */
    bool turned;
};

/* Finds the product with the same numbers as the table of a Gather. */
static bool find_tie(struct tie *out, const struct qc_graph *g, const struct qc_node *gather)
{
    const struct weight table = gather->op == QC_OP_Gather ? table_weight(g, gather, 0) : (struct weight){0};
    if (!table.value || g->values[table.constant].type.shape.rank != 2) return false;
    const struct qc_tensor *t = qc_constant_of(g, table.constant);
    for (qc_id id = 1; id <= g->node_count; id++) {
        const struct qc_node *n = &g->nodes[id];
        if (n->op != QC_OP_MatMul && n->op != QC_OP_Gemm) continue;
        const struct weight matrix = table_weight(g, n, 1);
        const bool turned = n->op == QC_OP_MatMul || !qc_attr_int(n, "transB", 0);
        if (!matrix.value || !same_form(g, matrix, table, turned)) continue;
        if (turned ? !qc_tensor_is_transposed(qc_constant_of(g, matrix.constant), t)
                   : matrix.constant != table.constant)
            continue;
        *out = (struct tie){.table = table, .matrix = matrix, .turned = turned};
        return true;
    }
    return false;
}

/* Returns the weight of g in integers with a quantizer of `before`; 0: none. */
static qc_id stored_weight(const struct qc_graph *g, const struct qc_graph *before, qc_id quantizer)
{
    const qc_id q = qc_graph_find_quantizer(g, before->qparams_of[quantizer].name);
    for (qc_id v = 1; q && v <= g->value_count; v++)
        if (g->values[v].type.qparams == q && qc_constant_of(g, v)) return v;
    return 0;
}

/* Binds the table's quantizer to the scales of the matrix, and adds the table as the matrix has it. */
static bool tie_table(struct qc_rebuild *r, const struct qc_graph *g, qc_id table, qc_id matrix, bool turned,
                      struct qc_status *st)
{
    const struct qc_value *v = &g->values[table];
    const struct qc_type *type = &g->values[matrix].type;
    const struct qc_qparams *s = &g->qparams_of[type->qparams];
    const struct qc_tensor *from = qc_constant_of(g, matrix);
    struct qc_tensor *scale = NULL, *zero = NULL, *turned_scale = NULL, *turned_zero = NULL, *t = NULL;
    bool ok;
    if (!s->block || !turned) {
        ok = qc_graph_bind_quantizer(r->to, v->type.qparams, s->count, s->scale, s->zero_point, st);
    } else {
        const struct qc_shape shape = qc_scale_shape(s, &type->shape, type->axis);
        ok = (scale = qc_tensor_of(QC_F32, &shape, s->scale, st)) &&
             (zero = qc_tensor_of(QC_I32, &shape, s->zero_point, st)) &&
             (turned_scale = qc_tensor_transposed(scale, st)) && (turned_zero = qc_tensor_transposed(zero, st)) &&
             qc_graph_bind_quantizer(r->to, v->type.qparams, s->count, turned_scale->data, turned_zero->data, st);
    }
    ok = ok && (t = turned ? qc_tensor_transposed(from, st) : qc_tensor_ref(from)) &&
         (r->map[table] = qc_graph_add_affine_constant(r->to, v->name, t, v->type.qparams, v->type.axis, st));
    qc_tensor_unref(scale);
    qc_tensor_unref(zero);
    qc_tensor_unref(turned_scale);
    qc_tensor_unref(turned_zero);
    qc_tensor_unref(t);
    return ok;
}

bool qc_tie_tables(struct qc_graph **out, const struct qc_graph *after, const struct qc_graph *before,
                   struct qc_status *st)
{
    struct qc_rebuild r = {0};
    struct tie tie;
    bool ok = true;
    *out = NULL;
    for (qc_id id = 1; ok && id <= before->node_count; id++) {
        if (!find_tie(&tie, before, &before->nodes[id])) continue;
        const qc_id table = stored_weight(after, before, tie.table.quantizer),
                    matrix = stored_weight(after, before, tie.matrix.quantizer);
        if (!table || !matrix) continue;
        ok = (r.to || qc_rebuild_begin(&r, after, st)) && tie_table(&r, after, table, matrix, tie.turned, st);
    }
    for (qc_id id = 1; ok && r.to && id <= after->node_count; id++) ok = qc_rebuild_node(&r, id, st);
    ok = ok && (!r.to || qc_rebuild_finish(out, &r, st));
    qc_rebuild_free(&r);
    return ok;
}
