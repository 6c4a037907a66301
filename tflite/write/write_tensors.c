// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/array.h"
#include "base/union_find.h"
#include "tflite/write/tflite_writing.h"

static void last_order(int perm[QC_RANK_MAX], int rank)
{
    for (int i = 0; i < rank; i++) perm[i] = i == 0 ? 0 : i == rank - 1 ? 1 : i + 1;
}

int qc_tfl_out_axis(int axis, int rank, enum qc_tfl_order order)
{
    if (order == QC_TFL_PLAIN || axis == 0) return axis;
    return axis == 1 ? rank - 1 : axis - 1;
}

struct qc_shape qc_tfl_out_shape(const struct qc_shape *s, enum qc_tfl_order order)
{
    struct qc_shape to = *s;
    for (int i = 0; i < s->rank; i++) to.dim[qc_tfl_out_axis(i, s->rank, order)] = s->dim[i];
    return to;
}

/* --- Orders --- */

static bool has_orders(const struct qc_graph *g, qc_id v)
{
    const int rank = v ? g->values[v].type.shape.rank : 0;
    return v && g->values[v].kind != QC_VALUE_CONSTANT && rank >= 3 && rank <= 5;
}

bool qc_tfl_out_choose_orders(struct qc_tfl_writer *w)
{
    const struct qc_graph *g = w->g;
    uint32_t *parent = QC_NEW_ARRAY(w->arena, uint32_t, g->value_count + 1, w->st);
    bool *last = QC_NEW_ARRAY(w->arena, bool, g->value_count + 1, w->st);
    if (!parent || !last) return false;
    qc_union_start(parent, g->value_count + 1);
    QC_EACH_NODE(n, g) {
        const bool any = qc_op_info(n->op)->unary || qc_tfl_write_row(n->op)->order == QC_TFL_ANY ||
                         ((n->op == QC_OP_Softmax || n->op == QC_OP_LogSoftmax) && qc_attr_int(n, "axis", -1) == 1 &&
                          g->values[n->outputs].type.shape.rank > 2);
        for (unsigned k = 0; any && k < n->input_count; k++)
            for (unsigned o = 0; o < n->output_count; o++) {
                const qc_id a = n->inputs[k], b = n->outputs + o;
                if (has_orders(g, a) && has_orders(g, b) &&
                    g->values[a].type.shape.rank == g->values[b].type.shape.rank)
                    qc_union_join(parent, a, b);
            }
    }
    QC_EACH_NODE(n, g) {
        if (qc_tfl_write_row(n->op)->order != QC_TFL_LAST_ONLY) continue;
        if (has_orders(g, n->inputs[0])) last[qc_union_root(parent, n->inputs[0])] = true;
        if (has_orders(g, n->outputs)) last[qc_union_root(parent, n->outputs)] = true;
    }
    for (qc_id v = 1; v <= g->value_count; v++)
        w->order[v] = has_orders(g, v) && last[qc_union_root(parent, v)] ? QC_TFL_LAST : QC_TFL_PLAIN;
    return true;
}

/* --- Tensors --- */

int qc_tfl_out_add_tensor(struct qc_tfl_writer *w, const struct qc_tfl_tensor *t)
{
    struct qc_tfl_tensor *more =
        qc_arena_grown(w->arena, w->tensors, w->tensor_count, &w->tensor_capacity, sizeof *more, w->st);
    if (!more || w->st->code != QC_OK) return QC_TFL_NO_TENSOR;
    w->tensors = more;
    w->tensors[w->tensor_count] = *t;
    return (int)w->tensor_count++;
}

static void set_parameters(struct qc_tfl_tensor *t, const struct qc_graph *g, qc_id v, int axis)
{
    const struct qc_qparams *s = qc_graph_parameters(g, v);
    if (!s) return;
    t->scale_count = s->count;
    t->scale = s->scale;
    t->zero_point = s->zero_point;
    t->axis = s->count > 1 ? axis : 0;
}

static const char *label_of(struct qc_tfl_writer *w, qc_id v)
{
    char label[QC_LABEL];
    return w->g->values[v].name ? w->g->values[v].name
                                : qc_arena_strdup(w->arena, qc_value_label(label, w->g, v), w->st);
}

int qc_tfl_out_like(struct qc_tfl_writer *w, qc_id v, const struct qc_shape *shape, const char *suffix)
{
    const char *name = label_of(w, v);
    struct qc_tfl_tensor t = {.dtype = w->g->values[v].type.dtype, .shape = *shape};
    set_parameters(&t, w->g, v, 0);
    t.name = name && *suffix ? qc_arena_printf(w->arena, w->st, "%s%s", name, suffix) : name;
    return qc_tfl_out_add_tensor(w, &t);
}

int qc_tfl_out_result(struct qc_tfl_writer *w, qc_id v)
{
    const enum qc_tfl_order order = w->order[v];
    if (w->made[order][v] != QC_TFL_NO_TENSOR) return w->made[order][v];
    const struct qc_shape shape = qc_tfl_out_shape(&w->g->values[v].type.shape, order);
    return w->made[order][v] = qc_tfl_out_like(w, v, &shape, "");
}

static int add_constant(struct qc_tfl_writer *w, const struct qc_tfl_tensor *t)
{
    size_t bytes = 0;
    qc_shape_count(&bytes, &t->shape);
    bytes *= qc_dtype_size(t->dtype);
    for (size_t i = 0; i < w->tensor_count && bytes <= 64; i++) { /* small constants, such as axes, recur */
        const struct qc_tfl_tensor *have = &w->tensors[i];
        if (have->data && have->dtype == t->dtype && qc_shape_equal(&have->shape, &t->shape) &&
            have->scale_count == 0 && t->scale_count == 0 && memcmp(have->data, t->data, bytes) == 0)
            return (int)i;
    }
    return qc_tfl_out_add_tensor(w, t);
}

int qc_tfl_out_constant(struct qc_tfl_writer *w, qc_id v, const struct qc_shape *view, const int *perm, int scale_axis)
{
    const struct qc_tensor *c = qc_constant_of(w->g, v);
    const size_t size = qc_dtype_size(c->dtype);
    struct qc_tfl_tensor t = {.dtype = c->dtype, .shape = *view, .name = label_of(w, v)};
    unsigned char *data = qc_arena_get(w->arena, c->count, size, w->st);
    size_t stride[QC_RANK_MAX + 1], at[QC_RANK_MAX] = {0};
    if (!t.name || !data) return QC_TFL_NO_TENSOR;
    stride[view->rank] = size;
    for (int i = view->rank; i-- > 0;) stride[i] = stride[i + 1] * (size_t)view->dim[i];
    for (int i = 0; i < view->rank; i++) t.shape.dim[i] = view->dim[perm[i]];
    for (size_t k = 0; k < c->count; k++) {
        size_t from = 0;
        for (int i = 0; i < view->rank; i++) from += at[i] * stride[perm[i] + 1];
        memcpy(data + k * size, (const unsigned char *)c->data + from, size);
        for (int i = view->rank; i-- > 0 && ++at[i] == (size_t)t.shape.dim[i];) at[i] = 0;
    }
    t.data = data;
    set_parameters(&t, w->g, v, scale_axis);
    return add_constant(w, &t);
}

int qc_tfl_out_int_table(struct qc_tfl_writer *w, const int64_t *values, size_t rows, size_t columns, const char *name)
{
    int32_t *data = QC_NEW_ARRAY(w->arena, int32_t, rows * (columns ? columns : 1), w->st);
    if (!data) return QC_TFL_NO_TENSOR;
    for (size_t i = 0; i < rows * (columns ? columns : 1); i++)
        data[i] = values[i] > INT32_MAX ? INT32_MAX : values[i] < INT32_MIN ? INT32_MIN : (int32_t)values[i];
    const struct qc_tfl_tensor t = {.name = name,
                                    .dtype = QC_I32,
                                    .shape =
                                        columns ? QC_SHAPE((int64_t)rows, (int64_t)columns) : QC_SHAPE((int64_t)rows),
                                    .data = data};
    return add_constant(w, &t);
}

int qc_tfl_out_ints(struct qc_tfl_writer *w, const int64_t *values, size_t count, const char *name)
{
    return qc_tfl_out_int_table(w, values, count, 0, name);
}

bool qc_tfl_out_keeps_order(const struct qc_shape *s, const int *perm)
{
    int before = -1;
    for (int i = 0; i < s->rank; i++) {
        if (s->dim[perm[i]] == 1) continue;
        if (perm[i] < before) return false;
        before = perm[i];
    }
    return true;
}

bool qc_tfl_out_permute(struct qc_tfl_writer *w, int from, const int *perm, int to)
{
    const struct qc_shape source = w->tensors[from].shape;
    int64_t axes[QC_RANK_MAX];
    if (qc_tfl_out_keeps_order(&source, perm)) return qc_tfl_out_reshape(w, from, to);
    for (int i = 0; i < source.rank; i++) axes[i] = perm[i];
    const int inputs[] = {from, qc_tfl_out_ints(w, axes, (size_t)source.rank, "permutation")};
    return qc_tfl_out_add_node(w, QC_TFL_OP_TRANSPOSE, 2, inputs, to, NULL);
}

/* Sets the permutation that converts a tensor from the other order to `order`. */
static void towards(int perm[QC_RANK_MAX], int rank, enum qc_tfl_order order)
{
    last_order(perm, rank);
    for (int i = 0; order == QC_TFL_PLAIN && i < rank; i++) perm[i] = qc_tfl_out_axis(i, rank, QC_TFL_LAST);
}

bool qc_tfl_out_permute_last(struct qc_tfl_writer *w, int from, int to)
{
    int perm[QC_RANK_MAX];
    last_order(perm, w->tensors[from].shape.rank);
    return qc_tfl_out_permute(w, from, perm, to);
}

static int reorder(struct qc_tfl_writer *w, qc_id v, int from, enum qc_tfl_order order)
{
    const struct qc_shape source = w->tensors[from].shape;
    struct qc_shape shape = source;
    int perm[QC_RANK_MAX];
    towards(perm, source.rank, order);
    for (int i = 0; i < source.rank; i++) shape.dim[i] = source.dim[perm[i]];
    const int to = qc_tfl_out_like(w, v, &shape, order == QC_TFL_LAST ? "_nhwc" : "_nchw");
    qc_tfl_out_permute(w, from, perm, to);
    return to;
}

bool qc_tfl_out_put_plain(struct qc_tfl_writer *w, qc_id v, int from)
{
    const int to = qc_tfl_out_result(w, v);
    const struct qc_shape *plain = &w->g->values[v].type.shape;
    int perm[QC_RANK_MAX], temporary;
    towards(perm, plain->rank, QC_TFL_LAST);
    if (w->order[v] == QC_TFL_PLAIN || qc_tfl_out_keeps_order(plain, perm)) return qc_tfl_out_reshape(w, from, to);
    temporary = qc_tfl_out_like(w, v, plain, "_nchw");
    return qc_tfl_out_reshape(w, from, temporary) && qc_tfl_out_permute(w, temporary, perm, to);
}

int qc_tfl_out_tensor_of(struct qc_tfl_writer *w, qc_id v, enum qc_tfl_order order)
{
    const struct qc_value *value = qc_value(w->g, v);
    const int rank = value->type.shape.rank;
    if (rank < 3) order = QC_TFL_PLAIN;
    int *made = &w->made[order][v];
    if (*made != QC_TFL_NO_TENSOR) return *made;
    if (value->constant) {
        int perm[QC_RANK_MAX];
        last_order(perm, rank);
        for (int i = 0; order == QC_TFL_PLAIN && i < rank; i++) perm[i] = i;
        return *made =
                   qc_tfl_out_constant(w, v, &value->type.shape, perm, qc_tfl_out_axis(value->type.axis, rank, order));
    }
    const int have = qc_tfl_out_result(w, v);
    if (w->order[v] == order) return have;
    const int to = reorder(w, v, have, order);
    return w->made[order][v] = to;
}

int qc_tfl_out_operand(struct qc_tfl_writer *w, qc_id v, int rank, enum qc_tfl_order order)
{
    const struct qc_value *value = qc_value(w->g, v);
    const struct qc_shape *s = &value->type.shape;
    if (s->rank == rank || order == QC_TFL_PLAIN) return qc_tfl_out_tensor_of(w, v, order);
    if (value->constant && value->constant->count == 1) return qc_tfl_out_tensor_of(w, v, QC_TFL_PLAIN);
    struct qc_shape whole = {.rank = rank};
    int perm[QC_RANK_MAX];
    last_order(perm, rank);
    for (int i = 0; i < rank; i++) whole.dim[i] = i < rank - s->rank ? 1 : s->dim[i - (rank - s->rank)];
    if (value->constant)
        return qc_tfl_out_constant(w, v, &whole, perm, qc_tfl_out_axis(value->type.axis + rank - s->rank, rank, order));
    const int from = qc_tfl_out_tensor_of(w, v, QC_TFL_PLAIN), wide = qc_tfl_out_like(w, v, &whole, "_wide");
    qc_tfl_out_reshape(w, from, wide);
    return reorder(w, v, wide, order);
}
