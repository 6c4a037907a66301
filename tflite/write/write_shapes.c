// SPDX-License-Identifier: Apache-2.0
/* Operators that move or select elements. */
#include <string.h>

#include "tflite/write/tflite_writing.h"

/* Gives the input and output tensors of a node, both in the order of the result. */
static void ends(int *x, int *y, struct qc_tfl_writer *w, const struct qc_node *n)
{
    *x = qc_tfl_out_tensor_of(w, n->inputs[0], w->order[n->outputs]);
    *y = qc_tfl_out_result(w, n->outputs);
}

bool qc_tfl_write_concat(struct qc_tfl_writer *w, const struct qc_node *n)
{
    const qc_id y = n->outputs;
    const int rank = w->g->values[y].type.shape.rank;
    int64_t axis = qc_attr_int(n, "axis", 0);
    int inputs[QC_TFL_OPERANDS];
    const int to = qc_tfl_out_result(w, y);
    for (unsigned i = 0; i < n->input_count; i++) inputs[i] = qc_tfl_out_tensor_of(w, n->inputs[i], w->order[y]);
    struct qc_fb_object *o = qc_tfl_out_options(w, QC_TFL_OP_CONCATENATION);
    if (axis < 0) axis += rank;
    qc_fb_set_int(o, QC_TFL_ConcatenationOptions_axis, qc_tfl_out_axis((int)axis, rank, w->order[y]));
    return qc_tfl_out_add_node(w, QC_TFL_OP_CONCATENATION, n->input_count, inputs, to, o);
}

/* True if all readers of v, a matrix whose rows are samples, are dense layers with constant weights. */
static bool only_dense_read(const struct qc_tfl_writer *w, qc_id v)
{
    const struct qc_use_list uses = qc_all_uses(&w->uses, v);
    for (size_t i = 0; i < uses.count; i++) {
        const struct qc_node *n = uses.of[i].node ? &w->g->nodes[uses.of[i].node] : NULL;
        if (!n || uses.of[i].input != 0 || (n->op != QC_OP_Gemm && n->op != QC_OP_MatMul) ||
            qc_attr_int(n, "transA", 0) || !qc_constant_of(w->g, n->inputs[1]))
            return false;
    }
    return uses.count > 0;
}

/* v, a list of integers, as int32. */
static int narrow_list(struct qc_tfl_writer *w, qc_id v)
{
    return qc_tfl_out_cast(w, qc_tfl_out_tensor_of(w, v, QC_TFL_PLAIN), QC_I32);
}

bool qc_tfl_write_sizes(struct qc_tfl_writer *w, const struct qc_node *n)
{
    const qc_id xv = n->inputs[0];
    const struct qc_shape *s = &w->g->values[xv].type.shape;
    const int x = qc_tfl_out_tensor_of(w, xv, w->order[xv]), y = qc_tfl_out_result(w, n->outputs);
    const bool last = w->order[xv] == QC_TFL_LAST;
    int64_t place[QC_RANK_MAX];
    if (n->attr_count) return qc_tfl_out_refuse(w, n, "it takes a part of the shape");
    for (int i = 0; i < s->rank; i++) place[i] = qc_tfl_out_axis(i, s->rank, w->order[xv]);
    const int sizes = last ? qc_tfl_out_like(w, n->outputs, &w->tensors[y].shape, "_nhwc") : y,
              order = last ? qc_tfl_out_ints(w, place, (size_t)s->rank, "order") : y;
    struct qc_fb_object *o = qc_tfl_out_options(w, QC_TFL_OP_SHAPE);
    qc_fb_set_int(o, QC_TFL_ShapeOptions_out_type, qc_tfl_type_of(QC_I64));
    const int inputs[] = {sizes, order};
    return qc_tfl_out_add_node(w, QC_TFL_OP_SHAPE, 1, &x, sizes, o) &&
           (!last || qc_tfl_out_add_node(w, QC_TFL_OP_GATHER, 2, inputs, y, NULL));
}

/* ConstantOfShape. */
bool qc_tfl_write_fill(struct qc_tfl_writer *w, const struct qc_node *n)
{
    const struct qc_attr *value = qc_attr_find(n, "value");
    const int dims = narrow_list(w, n->inputs[0]), y = qc_tfl_out_result(w, n->outputs);
    if (w->order[n->outputs] != QC_TFL_PLAIN)
        return qc_tfl_out_refuse(w, n, "its result is an image whose channels are last");
    struct qc_tfl_tensor t = {.name = "value", .dtype = w->tensors[y].dtype, .shape = QC_SCALAR};
    void *data = qc_arena_get(w->arena, 1, sizeof(int64_t), w->st); /* zeros */
    if (!data) return false;
    memset(data, 0, sizeof(int64_t));
    if (value && value->kind == QC_ATTR_TENSOR && value->tensor->dtype == t.dtype && value->tensor->count == 1)
        memcpy(data, value->tensor->data, qc_dtype_size(t.dtype));
    else if (value)
        return qc_tfl_out_refuse(w, n, "its value is not one number of its type");
    t.data = data;
    const int inputs[] = {dims, qc_tfl_out_add_tensor(w, &t)};
    return qc_tfl_out_add_node(w, QC_TFL_OP_FILL, 2, inputs, y, NULL);
}

bool qc_tfl_write_shape(struct qc_tfl_writer *w, const struct qc_node *n)
{
    const qc_id x = n->inputs[0], y = n->outputs;
    const struct qc_shape *s = &w->g->values[x].type.shape, *to = &w->g->values[y].type.shape;
    int unknown = 0;
    for (int i = 0; i < to->rank; i++) unknown += to->dim[i] == QC_FREE;
    if (unknown > 1 && n->op == QC_OP_Reshape && !qc_constant_of(w->g, n->inputs[1])) {
        /* To a shape that is computed while the model runs. */
        const bool plain = w->order[y] == QC_TFL_PLAIN;
        bool copies = false; /* a 0 among the joined parts of the shape stands for a dimension of the input */
        const struct qc_node *join = qc_node_of(w->g, n->inputs[1]);
        for (unsigned i = 0; join && join->op == QC_OP_Concat && i < join->input_count; i++) {
            const struct qc_tensor *part = qc_constant_of(w->g, join->inputs[i]);
            for (size_t k = 0; part && k < part->count; k++) copies = copies || qc_tensor_int(part, k) == 0;
        }
        if (copies) return qc_tfl_out_refuse(w, n, "its shape is computed, and copies a dimension");
        const int inputs[] = {qc_tfl_out_tensor_of(w, n->inputs[0], QC_TFL_PLAIN), narrow_list(w, n->inputs[1])},
                  made = qc_tfl_out_result(w, y),
                  first = plain ? made : qc_tfl_out_like(w, y, &w->g->values[y].type.shape, "_nchw");
        return qc_tfl_out_add_node(w, QC_TFL_OP_RESHAPE, 2, inputs, first, NULL) &&
               (plain || qc_tfl_out_permute_last(w, first, made));
    }
    if (w->order[x] == QC_TFL_LAST) {
        const int from = qc_tfl_out_tensor_of(w, x, QC_TFL_LAST);
        int perm[QC_RANK_MAX];
        for (int i = 0; i < s->rank; i++) perm[i] = qc_tfl_out_axis(i, s->rank, QC_TFL_LAST);
        if (qc_tfl_out_keeps_order(&w->tensors[from].shape, perm)) return qc_tfl_out_put_plain(w, y, from);
        if (to->rank == 2 && to->dim[0] == s->dim[0] && s->dim[1] != QC_FREE && only_dense_read(w, y)) {
            w->flat[y] = true;
            return qc_tfl_out_put_plain(w, y, from);
        }
    }
    const int from = qc_tfl_out_tensor_of(w, x, QC_TFL_PLAIN);
    return qc_tfl_out_put_plain(w, y, from);
}

bool qc_tfl_write_transpose(struct qc_tfl_writer *w, const struct qc_node *n)
{
    const qc_id xv = n->inputs[0], yv = n->outputs;
    const int rank = w->g->values[xv].type.shape.rank;
    const int64_t *given;
    int perm[QC_RANK_MAX];
    const bool named = qc_attr_ints(n, "perm", &given) > 0;
    const int x = qc_tfl_out_tensor_of(w, xv, w->order[xv]);
    bool same = true;
    for (int a = 0; a < rank; a++) {
        const int to = qc_tfl_out_axis(a, rank, w->order[yv]), source = named ? (int)given[a] : rank - 1 - a;
        perm[to] = qc_tfl_out_axis(source, rank, w->order[xv]);
        same = same && perm[to] == to;
    }
    /* The result shares the tensor, unless the tensor would then be two of the model's inputs and outputs. */
    const bool free_to_be = w->g->values[xv].kind == QC_VALUE_RESULT && !w->uses.output_count[xv];
    if (same && (free_to_be || !w->uses.output_count[yv])) {
        w->made[w->order[yv]][yv] = x;
        return true;
    }
    const int y = qc_tfl_out_result(w, yv);
    return qc_tfl_out_permute(w, x, perm, y);
}

bool qc_tfl_out_slice(struct qc_tfl_writer *w, int x, int y, const int64_t *begin, const int64_t *end,
                      const int64_t *stride, int64_t whole)
{
    const size_t rank = (size_t)w->tensors[x].shape.rank;
    const int inputs[] = {x, qc_tfl_out_ints(w, begin, rank, "begin"), qc_tfl_out_ints(w, end, rank, "end"),
                          qc_tfl_out_ints(w, stride, rank, "strides")};
    struct qc_fb_object *o = qc_tfl_out_options(w, QC_TFL_OP_STRIDED_SLICE);
    qc_fb_set_int(o, QC_TFL_StridedSliceOptions_begin_mask, whole);
    qc_fb_set_int(o, QC_TFL_StridedSliceOptions_end_mask, whole);
    return qc_tfl_out_add_node(w, QC_TFL_OP_STRIDED_SLICE, 4, inputs, y, o);
}

bool qc_tfl_write_slice(struct qc_tfl_writer *w, const struct qc_node *n)
{
    const struct qc_graph *g = w->g;
    const struct qc_shape *s = &g->values[n->inputs[0]].type.shape;
    const struct qc_tensor *in[5] = {0};
    int64_t begin[QC_RANK_MAX], end[QC_RANK_MAX], stride[QC_RANK_MAX], whole = 0;
    int x, y;
    for (unsigned i = 1; i < n->input_count; i++)
        if (n->inputs[i] && !(in[i] = qc_constant_of(g, n->inputs[i])))
            return qc_tfl_out_refuse(w, n, "its bounds are computed");
    ends(&x, &y, w, n);
    const enum qc_tfl_order order = w->order[n->outputs];
    for (int i = 0; i < s->rank; i++) {
        begin[i] = end[i] = 0;
        stride[i] = 1;
        whole |= INT64_C(1) << i;
    }
    for (size_t k = 0; k < in[1]->count; k++) {
        int64_t axis = in[3] ? qc_tensor_int(in[3], k) : (int64_t)k;
        if (axis < 0) axis += s->rank;
        const int64_t size = s->dim[axis], step = in[4] ? qc_tensor_int(in[4], k) : 1;
        int64_t from = qc_tensor_int(in[1], k), to = qc_tensor_int(in[2], k);
        if (size == QC_FREE || step < 1) return qc_tfl_out_refuse(w, n, "it goes backwards, or along a free dimension");
        if (from < 0) from += size;
        if (to < 0) to += size;
        const int at = qc_tfl_out_axis((int)axis, s->rank, order);
        begin[at] = from < 0 ? 0 : from > size ? size : from;
        end[at] = to < 0 ? 0 : to > size ? size : to;
        stride[at] = step;
        whole &= ~(INT64_C(1) << at);
    }
    return qc_tfl_out_slice(w, x, y, begin, end, stride, whole);
}

/* Writes one STRIDED_SLICE for each part. */
bool qc_tfl_write_split(struct qc_tfl_writer *w, const struct qc_node *n)
{
    const struct qc_shape *s = &w->g->values[n->inputs[0]].type.shape;
    int64_t axis = qc_attr_int(n, "axis", 0), first = 0;
    if (axis < 0) axis += s->rank;
    for (unsigned o = 0; o < n->output_count; o++) {
        const qc_id part = n->outputs + o;
        const int at = qc_tfl_out_axis((int)axis, s->rank, w->order[part]),
                  x = qc_tfl_out_tensor_of(w, n->inputs[0], w->order[part]), y = qc_tfl_out_result(w, part);
        const int64_t size = w->g->values[part].type.shape.dim[axis];
        int64_t begin[QC_RANK_MAX] = {0}, end[QC_RANK_MAX] = {0}, stride[QC_RANK_MAX];
        if (size == QC_FREE) return qc_tfl_out_refuse(w, n, "the size of a part is not known");
        for (int i = 0; i < s->rank; i++) stride[i] = 1;
        begin[at] = first;
        end[at] = first += size;
        const int64_t whole = ((INT64_C(1) << s->rank) - 1) & ~(INT64_C(1) << at);
        if (!qc_tfl_out_slice(w, x, y, begin, end, stride, whole)) return false;
    }
    return true;
}

/* An operator that moves elements and has no kernel for 16 bits: between DEQUANTIZE and QUANTIZE, which give back every
   level. inputs[0] has the elements. */
static bool through_float(struct qc_tfl_writer *w, const struct qc_node *n, enum qc_tfl_operator code,
                          struct qc_fb_object *o, const int *inputs, unsigned count, int y)
{
    const int x = inputs[0];
    const int from = qc_tfl_out_like(w, n->inputs[0], &w->tensors[x].shape, "_real"),
              to = qc_tfl_out_like(w, n->outputs, &w->tensors[y].shape, "_real"),
              given[] = {from, count > 1 ? inputs[1] : 0};
    if (from == QC_TFL_NO_TENSOR || to == QC_TFL_NO_TENSOR) return false;
    w->tensors[from].dtype = w->tensors[to].dtype = QC_F32;
    w->tensors[from].scale_count = w->tensors[to].scale_count = 0;
    return qc_tfl_out_add_node(w, QC_TFL_OP_DEQUANTIZE, 1, &x, from, NULL) &&
           qc_tfl_out_add_node(w, code, count, given, to, o) &&
           qc_tfl_out_add_node(w, QC_TFL_OP_QUANTIZE, 1, &to, y, NULL);
}

/* Padding with the numbers at the border: a GATHER along each padded axis. */
static bool repeat_border(struct qc_tfl_writer *w, const struct qc_node *n, int x, int y, const int64_t *rows)
{
    struct qc_shape s = w->tensors[x].shape;
    int at = x, last = -1;
    for (int i = 0; i < s.rank; i++)
        if (rows[2 * i] || rows[2 * i + 1]) last = i;
    for (int i = 0; i <= last; i++) {
        const int64_t size = s.dim[i], whole = size + rows[2 * i] + rows[2 * i + 1];
        if (!rows[2 * i] && !rows[2 * i + 1]) continue;
        if (size == QC_FREE) return qc_tfl_out_refuse(w, n, "it repeats the border of a free dimension");
        int64_t *from = qc_arena_get(w->arena, (size_t)whole, sizeof *from, w->st);
        if (!from) return false;
        for (int64_t k = 0; k < whole; k++) {
            const int64_t inner = k - rows[2 * i];
            from[k] = inner < 0 ? 0 : inner < size ? inner : size - 1;
        }
        s.dim[i] = whole;
        const int inputs[] = {at, qc_tfl_out_ints(w, from, (size_t)whole, "border")};
        at = i == last ? y : qc_tfl_out_like(w, n->outputs, &s, "_border");
        struct qc_fb_object *o = qc_tfl_out_options(w, QC_TFL_OP_GATHER);
        qc_fb_set_int(o, QC_TFL_GatherOptions_axis, i);
        if (!qc_tfl_out_add_node(w, QC_TFL_OP_GATHER, 2, inputs, at, o)) return false;
    }
    return last >= 0 || qc_tfl_out_reshape(w, x, y);
}

/* The number that a Pad adds as a scalar with the parameters of x; NO_TENSOR: 0. */
static int filling(struct qc_tfl_writer *w, const struct qc_node *n, int x, const struct qc_tensor *value)
{
    const struct qc_qparams *s = value ? qc_graph_parameters(w->g, n->inputs[2]) : NULL;
    const double number = !value ? 0
                          : s    ? (double)s->scale[0] * ((double)qc_tensor_int(value, 0) - s->zero_point[0])
                                 : qc_tensor_float(value, 0);
    if (number == 0) return QC_TFL_NO_TENSOR;
    if (w->tensors[x].scale_count == 0 && w->tensors[x].dtype != QC_F32) {
        qc_tfl_out_refuse(w, n, "it pads integers with %g, not 0", number);
        return QC_TFL_NO_TENSOR;
    }
    return qc_tfl_out_number_like(w, x, (float)number, "fill");
}

bool qc_tfl_write_pad(struct qc_tfl_writer *w, const struct qc_node *n)
{
    const struct qc_graph *g = w->g;
    const char *mode = qc_attr_string(n, "mode", "constant");
    const struct qc_tensor *pads = qc_constant_of(g, n->inputs[1]),
                           *value = n->input_count > 2 && n->inputs[2] ? qc_constant_of(g, n->inputs[2]) : NULL;
    const int rank = g->values[n->inputs[0]].type.shape.rank;
    int64_t rows[2 * QC_RANK_MAX];
    int x, y;
    if (!pads || (n->input_count > 2 && n->inputs[2] && !value))
        return qc_tfl_out_refuse(w, n, "its pads are computed");
    const bool mirrors = strcmp(mode, "reflect") == 0, border = strcmp(mode, "edge") == 0;
    if (!mirrors && !border && strcmp(mode, "constant") != 0) return qc_tfl_out_refuse(w, n, "its mode is %.40s", mode);
    ends(&x, &y, w, n);
    for (int a = 0; a < rank; a++) {
        const int at = qc_tfl_out_axis(a, rank, w->order[n->outputs]);
        rows[2 * at] = qc_tensor_int(pads, (size_t)a);
        rows[2 * at + 1] = qc_tensor_int(pads, (size_t)(a + rank));
        if (rows[2 * at] < 0 || rows[2 * at + 1] < 0) return qc_tfl_out_refuse(w, n, "it has negative pads");
    }
    if (border) return repeat_border(w, n, x, y, rows);
    const int fill = mirrors ? QC_TFL_NO_TENSOR : filling(w, n, x, value);
    const int inputs[] = {x, qc_tfl_out_int_table(w, rows, (size_t)rank, 2, "pads"), fill};
    const enum qc_tfl_operator code = mirrors                    ? QC_TFL_OP_MIRROR_PAD
                                      : fill != QC_TFL_NO_TENSOR ? QC_TFL_OP_PADV2
                                                                 : QC_TFL_OP_PAD;
    struct qc_fb_object *o = qc_tfl_out_options(w, code);
    if (!mirrors) return qc_tfl_out_add_node(w, code, fill != QC_TFL_NO_TENSOR ? 3 : 2, inputs, y, o);
    qc_fb_set_int(o, QC_TFL_MirrorPadOptions_mode, QC_TFL_MIRROR_REFLECT);
    if (w->tensors[x].dtype != QC_I16) return qc_tfl_out_add_node(w, code, 2, inputs, y, o);
    return through_float(w, n, code, o, inputs, 2, y);
}

static bool has_free(const struct qc_shape *s)
{
    for (int i = 0; i < s->rank; i++)
        if (s->dim[i] == QC_FREE) return true;
    return false;
}

/* Expand and Tile: the second operand is the shape, or how often. */
bool qc_tfl_write_repeat(struct qc_tfl_writer *w, const struct qc_node *n)
{
    const struct qc_graph *g = w->g;
    const bool expands = n->op == QC_OP_Expand;
    const struct qc_shape *s = &g->values[n->outputs].type.shape;
    const struct qc_tensor *times = qc_constant_of(g, n->inputs[1]);
    const enum qc_tfl_order order = w->order[n->outputs];
    int64_t list[QC_RANK_MAX];
    if (expands && order == QC_TFL_PLAIN && has_free(s) && !qc_constant_of(g, n->inputs[1])) {
        /* BROADCAST_TO has the shape of the result: the larger of each dimension and the one that is asked for. */
        const struct qc_shape *from = &w->g->values[n->inputs[0]].type.shape,
                              *to = &w->g->values[n->outputs].type.shape;
        const struct qc_shape *asked = &w->g->values[n->inputs[1]].type.shape;
        int64_t own[QC_RANK_MAX];
        if (has_free(from) || asked->rank != 1 || asked->dim[0] != to->rank)
            return qc_tfl_out_refuse(w, n, "it expands to a free dimension");
        for (int i = 0; i < to->rank; i++) {
            const int at = i - (to->rank - from->rank);
            own[i] = at < 0 ? 1 : from->dim[at];
        }
        const int x = qc_tfl_out_tensor_of(w, n->inputs[0], QC_TFL_PLAIN), y = qc_tfl_out_result(w, n->outputs);
        const int sizes[] = {narrow_list(w, n->inputs[1]), qc_tfl_out_ints(w, own, (size_t)to->rank, "least")};
        const int whole = qc_tfl_out_like(w, n->inputs[1], asked, "_least"), inputs[] = {x, whole};
        w->tensors[whole].dtype = QC_I32;
        return qc_tfl_out_add_node(w, QC_TFL_OP_MAXIMUM, 2, sizes, whole, NULL) &&
               qc_tfl_out_add_node(w, QC_TFL_OP_BROADCAST_TO, 2, inputs, y, NULL);
    }
    if (!expands && !times) return qc_tfl_out_refuse(w, n, "how often it repeats is computed");
    for (int i = 0; i < s->rank; i++) {
        const int64_t v = expands ? s->dim[i] : qc_tensor_int(times, (size_t)i);
        if (v == QC_FREE) return qc_tfl_out_refuse(w, n, "it expands to a free dimension");
        list[qc_tfl_out_axis(i, s->rank, order)] = v;
    }
    const int x = qc_tfl_out_operand(w, n->inputs[0], s->rank, order), y = qc_tfl_out_result(w, n->outputs);
    const int inputs[] = {x, qc_tfl_out_ints(w, list, (size_t)s->rank, expands ? "shape" : "multiples")};
    return qc_tfl_out_add_node(w, expands ? QC_TFL_OP_BROADCAST_TO : QC_TFL_OP_TILE, 2, inputs, y, NULL);
}

bool qc_tfl_write_resize(struct qc_tfl_writer *w, const struct qc_node *n)
{
    const struct qc_shape *s = &w->g->values[n->inputs[0]].type.shape, *to = &w->g->values[n->outputs].type.shape;
    const char *mode = qc_attr_string(n, "mode", "nearest"),
               *where = qc_attr_string(n, "coordinate_transformation_mode", "half_pixel"),
               *nearest = qc_attr_string(n, "nearest_mode", "round_prefer_floor");
    const bool linear = strcmp(mode, "linear") == 0, half = strstr(where, "half_pixel") != NULL;
    int x, y;
    if (s->rank != 4 || s->dim[0] != to->dim[0] || s->dim[1] != to->dim[1])
        return qc_tfl_out_refuse(w, n, "it resizes other axes than height and width");
    if (to->dim[2] == QC_FREE || to->dim[3] == QC_FREE || s->dim[2] == QC_FREE || s->dim[3] == QC_FREE)
        return qc_tfl_out_refuse(w, n, "its sizes are not known");
    const bool times = to->dim[2] % s->dim[2] == 0 && to->dim[3] % s->dim[3] == 0;
    const bool copies = strcmp(mode, "nearest") == 0 && times && (half || strcmp(where, "asymmetric") == 0) &&
                        (half ? strcmp(nearest, "round_prefer_floor") == 0 : strcmp(nearest, "floor") == 0);
    const bool corners = strcmp(where, "align_corners") == 0;
    if (!copies && (!linear || !(half || corners || strcmp(where, "asymmetric") == 0)))
        return qc_tfl_out_refuse(w, n, "mode %.20s with %.30s and %.30s has no form", mode, where, nearest);
    if (linear && qc_graph_parameters(w->g, n->outputs))
        return qc_tfl_out_refuse(w, n,
                                 "integer interpolation in TensorFlow Lite gives other numbers: give --skip for it");
    ends(&x, &y, w, n);
    const int64_t sizes[] = {to->dim[2], to->dim[3]};
    const int inputs[] = {x, qc_tfl_out_ints(w, sizes, 2, "size")};
    const enum qc_tfl_operator code = linear ? QC_TFL_OP_RESIZE_BILINEAR : QC_TFL_OP_RESIZE_NEAREST_NEIGHBOR;
    struct qc_fb_object *o = qc_tfl_out_options(w, code);
    if (linear) {
        qc_fb_set_int(o, QC_TFL_ResizeBilinearOptions_align_corners, corners);
        qc_fb_set_int(o, QC_TFL_ResizeBilinearOptions_half_pixel_centers, half);
    }
    return qc_tfl_out_add_node(w, code, 2, inputs, y, o);
}

/* In ONNX's mode CRD the positions in a block follow the channels; in TensorFlow Lite they precede them. */
static int blocks_first(struct qc_tfl_writer *w, qc_id v, int x, int64_t block)
{
    const int64_t channels = w->tensors[x].shape.dim[3], out = channels / (block * block);
    int64_t *order = QC_NEW_ARRAY(w->arena, int64_t, channels, w->st);
    if (out == 1) return x;
    if (!order) return QC_TFL_NO_TENSOR;
    for (int64_t i = 0; i < channels; i++) order[i] = i % out * block * block + i / out;
    const struct qc_shape shape = w->tensors[x].shape;
    const int inputs[] = {x, qc_tfl_out_ints(w, order, (size_t)channels, "channels")},
              to = qc_tfl_out_like(w, v, &shape, "_blocks");
    struct qc_fb_object *o = qc_tfl_out_options(w, QC_TFL_OP_GATHER);
    qc_fb_set_int(o, QC_TFL_GatherOptions_axis, 3);
    qc_tfl_out_add_node(w, QC_TFL_OP_GATHER, 2, inputs, to, o);
    return to;
}

bool qc_tfl_write_depth(struct qc_tfl_writer *w, const struct qc_node *n)
{
    const bool to_space = n->op == QC_OP_DepthToSpace;
    const int64_t block = qc_attr_int(n, "blocksize", 1);
    int x = qc_tfl_out_tensor_of(w, n->inputs[0], QC_TFL_LAST);
    const int y = qc_tfl_out_result(w, n->outputs);
    if (to_space && strcmp(qc_attr_string(n, "mode", "DCR"), "CRD") == 0) x = blocks_first(w, n->inputs[0], x, block);
    const enum qc_tfl_operator code = to_space ? QC_TFL_OP_DEPTH_TO_SPACE : QC_TFL_OP_SPACE_TO_DEPTH;
    struct qc_fb_object *o = qc_tfl_out_options(w, code);
    qc_fb_set_int(o, to_space ? QC_TFL_DepthToSpaceOptions_block_size : QC_TFL_SpaceToDepthOptions_block_size, block);
    return w->tensors[x].dtype == QC_I16 ? through_float(w, n, code, o, &x, 1, y)
                                         : qc_tfl_out_add_node(w, code, 1, &x, y, o);
}
