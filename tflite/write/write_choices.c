// SPDX-License-Identifier: Apache-2.0
/* Comparisons, Where, casts and gathers; GELU as a pattern of float operators. */
#include <math.h>

#include "tflite/write/tflite_writing.h"

/* True if an input is quantized: comparisons and Where are written for float inputs only. */
static bool has_stored(const struct qc_tfl_writer *w, const struct qc_node *n)
{
    for (unsigned i = 0; i < n->input_count; i++)
        if (qc_graph_parameters(w->g, n->inputs[i])) return true;
    return false;
}

/* Comparisons and Where: their inputs broadcast. */
bool qc_tfl_write_compare(struct qc_tfl_writer *w, const struct qc_node *n)
{
    const qc_id y = n->outputs;
    const int rank = w->g->values[y].type.shape.rank;
    int inputs[3];
    if (has_stored(w, n)) return qc_tfl_out_refuse(w, n, "it has no integer form: give --skip for it");
    for (unsigned i = 0; i < n->input_count; i++) inputs[i] = qc_tfl_out_operand(w, n->inputs[i], rank, w->order[y]);
    return qc_tfl_out_add_node(w, qc_tfl_write_row(n->op)->code, n->input_count, inputs, qc_tfl_out_result(w, y), NULL);
}

bool qc_tfl_write_cast(struct qc_tfl_writer *w, const struct qc_node *n)
{
    const int x = qc_tfl_out_tensor_of(w, n->inputs[0], w->order[n->outputs]), y = qc_tfl_out_result(w, n->outputs);
    if (has_stored(w, n)) return qc_tfl_out_refuse(w, n, "it has no integer form: give --skip for it");
    struct qc_fb_object *o = qc_tfl_out_options(w, QC_TFL_OP_CAST);
    qc_fb_set_int(o, QC_TFL_CastOptions_in_data_type, qc_tfl_type_of(w->tensors[x].dtype));
    qc_fb_set_int(o, QC_TFL_CastOptions_out_data_type, qc_tfl_type_of(w->tensors[y].dtype));
    return qc_tfl_out_add_node(w, QC_TFL_OP_CAST, 1, &x, y, o);
}

/* The tensor of the indices. TensorFlow Lite has no negative ones: constant ones are converted. */
static int from_the_start(struct qc_tfl_writer *w, const struct qc_node *n, const struct qc_tensor *index, int64_t size)
{
    bool negative = false;
    for (size_t i = 0; index && i < index->count; i++) negative = negative || qc_tensor_int(index, i) < 0;
    if (!negative) return qc_tfl_out_tensor_of(w, n->inputs[1], QC_TFL_PLAIN);
    int32_t *data = QC_NEW_ARRAY(w->arena, int32_t, index->count, w->st);
    if (size == QC_FREE) qc_tfl_out_refuse(w, n, "an index counts from the end of a free dimension");
    if (size == QC_FREE || !data) return QC_TFL_NO_TENSOR;
    for (size_t i = 0; i < index->count; i++) {
        const int64_t at = qc_tensor_int(index, i);
        data[i] = (int32_t)(at < 0 ? at + size : at);
    }
    const struct qc_tfl_tensor t = {.name = "indices", .dtype = QC_I32, .shape = index->shape, .data = data};
    return qc_tfl_out_add_tensor(w, &t);
}

bool qc_tfl_write_gather(struct qc_tfl_writer *w, const struct qc_node *n)
{
    const struct qc_shape *s = &w->g->values[n->inputs[0]].type.shape;
    const struct qc_tensor *index = qc_constant_of(w->g, n->inputs[1]);
    int64_t axis = qc_attr_int(n, "axis", 0);
    if (axis < 0) axis += s->rank;
    if (w->order[n->outputs] != QC_TFL_PLAIN)
        return qc_tfl_out_refuse(w, n, "its result is an image whose channels are last");
    const int inputs[] = {qc_tfl_out_tensor_of(w, n->inputs[0], QC_TFL_PLAIN),
                          from_the_start(w, n, index, s->dim[axis])},
              y = qc_tfl_out_result(w, n->outputs);
    struct qc_fb_object *o = qc_tfl_out_options(w, QC_TFL_OP_GATHER);
    qc_fb_set_int(o, QC_TFL_GatherOptions_axis, axis);
    return qc_tfl_out_add_node(w, QC_TFL_OP_GATHER, 2, inputs, y, o);
}

/* --- GELU --- */

static bool is_about(const struct qc_graph *g, qc_id v, double number)
{
    const struct qc_tensor *t = v ? qc_constant_of(g, v) : NULL;
    return t && t->count == 1 && t->dtype == QC_F32 && fabs(qc_tensor_float(t, 0) - number) < 1e-5;
}

/* Returns the other operand of a product or sum with this constant, or 0 if n is none. */
static qc_id beside(const struct qc_graph *g, const struct qc_node *n, enum qc_op op, double number)
{
    if (!n || n->op != op) return 0;
    if (is_about(g, n->inputs[1], number)) return n->inputs[0];
    return op != QC_OP_Div && is_about(g, n->inputs[0], number) ? n->inputs[1] : 0;
}

static const struct qc_node *next(qc_id *at, const struct qc_tfl_writer *w, qc_id v)
{
    *at = qc_only_reader(&w->uses, v);
    return *at ? &w->g->nodes[*at] : NULL;
}

qc_id qc_tfl_out_other_factor(const struct qc_node *n, qc_id v)
{
    if (!n || n->op != QC_OP_Mul) return 0;
    return n->inputs[0] == v ? n->inputs[1] : n->inputs[0];
}

/* Matches x / 2 * (1 + erf(x / sqrt 2)), with the factor 1/2 in any of three places. Returns x and gives the results of
   the nodes from erf on; returns 0 if there is no match. */
static qc_id gelu_of(qc_id made[3], size_t *count, const struct qc_tfl_writer *w, const struct qc_node *erf)
{
    const struct qc_graph *g = w->g;
    const struct qc_node *from = qc_node_of(g, erf->inputs[0]);
    qc_id x = beside(g, from, QC_OP_Div, sqrt(2));
    if (!x) x = beside(g, from, QC_OP_Mul, sqrt(0.5));
    const struct qc_node *sum = next(&made[0], w, erf->outputs);
    if (!x || !beside(g, sum, QC_OP_Add, 1)) return 0;
    const struct qc_node *product = next(&made[1], w, sum->outputs);
    const qc_id other = qc_tfl_out_other_factor(product, sum->outputs);
    *count = 2;
    if (!other) return 0;
    if (other != x && beside(g, qc_node_of(g, other), QC_OP_Mul, 0.5) == x) return x;
    const struct qc_node *last = next(&made[2], w, product->outputs);
    *count = 3;
    if (other == x) return beside(g, last, QC_OP_Mul, 0.5) ? x : 0;
    return is_about(g, other, 0.5) && qc_tfl_out_other_factor(last, product->outputs) == x ? x : 0;
}

bool qc_tfl_write_erf(struct qc_tfl_writer *w, const struct qc_node *n)
{
    qc_id made[3];
    size_t count = 0;
    const qc_id xv = gelu_of(made, &count, w, n);
    if (!xv) return qc_tfl_out_refuse(w, n, "this operator is written in GELU alone, x / 2 * (1 + erf(x / sqrt 2))");
    const qc_id yv = w->g->nodes[made[count - 1]].outputs;
    for (size_t i = 0; i < count; i++) w->done[made[i]] = true;
    const int x = qc_tfl_out_tensor_of(w, xv, w->order[yv]), y = qc_tfl_out_result(w, yv);
    return qc_tfl_out_add_node(w, QC_TFL_OP_GELU, 1, &x, y, NULL);
}
