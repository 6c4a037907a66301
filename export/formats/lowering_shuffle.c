// SPDX-License-Identifier: Apache-2.0
/* A shuffle of stored channels: Reshape, Transpose, Reshape. ONNX Runtime (1.32) computes integer convolutions with
   channels last. It merges the Transpose after them with that of the shuffle if height and width are separate
   dimensions; the result moves single bytes in five dimensions, 10 times as slow as the two. If these dimensions, which
   the shuffle does not move, are one, both stay and move whole rows. */
#include "base/checked.h"
#include "export/formats/lowering.h"

static bool is_stored_alike(const struct qc_graph *g, qc_id v)
{
    const struct qc_qparams *s = qc_graph_parameters(g, v);
    return s && s->kind == QC_QPARAMS_QUANTIZER && s->count == 1;
}

static const struct qc_node *only_reader(const struct qc_lowering *x, const struct qc_node *n, enum qc_op op)
{
    const qc_id reader = qc_only_reader(&x->uses, n->outputs);
    const struct qc_node *to = reader ? &x->from->nodes[reader] : NULL;
    return to && to->op == op && to->inputs[0] == n->outputs ? to : NULL;
}

/* Returns the shape input of a Reshape if all of it is known, else NULL. */
static const struct qc_tensor *shape_of(const struct qc_lowering *x, const struct qc_node *n)
{
    const struct qc_tensor *t = qc_constant_of(x->from, n->inputs[1]);
    return t && t->dtype == QC_I64 && t->shape.rank == 1 ? t : NULL;
}

/* Returns the first of two or more last axes that this shuffle does not move, from its first Reshape on; 0: none. */
static size_t merged_axis(const struct qc_lowering *x, const struct qc_node *first)
{
    const int64_t *perm;
    const struct qc_node *turn = only_reader(x, first, QC_OP_Transpose),
                         *last = turn ? only_reader(x, turn, QC_OP_Reshape) : NULL;
    const struct qc_tensor *apart = shape_of(x, first), *joined = last ? shape_of(x, last) : NULL;
    if (!apart || !joined || turn->attr_count != 1 || !is_stored_alike(x->from, first->outputs)) return 0;
    const size_t rank = qc_attr_ints(turn, "perm", &perm);
    size_t axis = rank;
    if (rank != apart->count) return 0;
    while (axis > 0 && perm[axis - 1] == (int64_t)axis - 1) axis--;
    if (axis == 0 || axis + 2 > rank) return 0;
    const int64_t *dim = apart->data, *to = joined->data;
    int64_t image = 1;
    for (size_t i = axis; i < rank; i++)
        if (dim[i] <= 0 || !qc_mul_i64(&image, image, dim[i])) return 0;
    for (size_t i = axis; i < joined->count; i++)
        if (to[i] == 0) return 0; /* 0 copies a dimension of the Transpose's result */
    return axis;
}

static qc_id merge_shape(struct qc_lowering *x, const struct qc_node *n, size_t axis, struct qc_status *st)
{
    const struct qc_tensor *apart = qc_constant_of(x->from, n->inputs[1]);
    const int64_t *from = apart->data;
    int64_t dim[QC_RANK_MAX] = {0};
    for (size_t i = 0; i <= axis; i++) dim[i] = from[i];
    for (size_t i = axis + 1; i < apart->count; i++) dim[axis] *= from[i];
    const struct qc_shape shape = QC_SHAPE((int64_t)axis + 1);
    return qc_lower_constant(x, QC_I64, &shape, dim, qc_lower_base(x, n->outputs), "shape", st);
}

const struct qc_node *qc_lower_shuffle(struct qc_shuffled *s, struct qc_lowering *x, const struct qc_node *n,
                                       struct qc_status *st)
{
    const struct qc_node *made = n->input_count ? qc_node_of(x->from, n->inputs[0]) : NULL;
    size_t axis = 0;
    s->shape = 0;
    if (n->op == QC_OP_Reshape && (axis = merged_axis(x, n)))
        return (s->shape = merge_shape(x, n, axis, st)) ? n : NULL;
    if (n->op != QC_OP_Transpose || !made || made->op != QC_OP_Reshape || !(axis = merged_axis(x, made))) return n;
    const int64_t *perm;
    qc_attr_ints(n, "perm", &perm);
    s->node = *n;
    s->attr = QC_INTS("perm", axis + 1, perm);
    s->node.attrs = &s->attr;
    return &s->node;
}
