// SPDX-License-Identifier: Apache-2.0
/* Operators that move, select and join elements. If the result has the same qparams, stored integers are moved. */

#include "tflite/read/tflite_reading.h"

/* Returns input i of an operator that moves elements: the stored integers if input and result share qparams, otherwise
   the real value. */
static qc_id moving(bool *stored, struct qc_tfl_node *n, size_t i, enum qc_tfl_layout layout, struct qc_status *st)
{
    struct qc_tfl_value *v = qc_tfl_input(n, i, st);
    *stored = v && qc_tfl_alike(v, n->outputs[0]);
    return *stored ? qc_tfl_stored(n, v, layout, st) : qc_tfl_real(n, v, layout, st);
}

static bool moved(struct qc_tfl_node *n, size_t k, qc_id id, bool stored, enum qc_tfl_layout layout,
                  struct qc_status *st)
{
    return stored ? qc_tfl_define_stored(n, k, id, layout, st) : qc_tfl_define_real(n, k, id, layout, st);
}

static const char *name_of(const struct qc_tfl_node *n, bool stored)
{
    return stored ? n->stored_name : n->name;
}

/* Makes result 0 by one operator, in the file's order. */
static bool moved_by(struct qc_tfl_node *n, enum qc_op op, unsigned count, const qc_id *in, bool stored,
                     struct qc_status *st)
{
    return moved(n, 0, qc_tfl_add(n, op, count, in, name_of(n, stored), st), stored, QC_TFL_IN_FILE, st);
}

/* --- Shapes --- */

/* Returns input 0 with its elements in the file's order. A channels-first value has that order too if its channels are
   1 or its height and width are 1. */
static qc_id in_order(bool *stored, struct qc_tfl_node *n, struct qc_status *st)
{
    const struct qc_tfl_value *v = qc_tfl_input(n, 0, st);
    const qc_id first = v ? v->stored[QC_TFL_CHANNELS_FIRST] : 0;
    if (!first || v->stored[QC_TFL_IN_FILE]) return moving(stored, n, 0, QC_TFL_IN_FILE, st);
    const struct qc_shape *s = qc_tfl_shape(n, first);
    const bool same = s->dim[1] == 1 || (s->dim[2] == 1 && s->dim[3] == 1);
    return moving(stored, n, 0, same ? QC_TFL_CHANNELS_FIRST : QC_TFL_IN_FILE, st);
}

/* Reshapes x to the shape in `list`, an int64 value of the graph. */
static bool reshape_to(struct qc_tfl_node *n, qc_id x, qc_id list, bool stored, struct qc_status *st)
{
    const qc_id in[2] = {x, list};
    return moved_by(n, QC_OP_Reshape, 2, in, stored, st);
}

static bool reshape_dims(struct qc_tfl_node *n, size_t count, const int64_t *dims, struct qc_status *st)
{
    bool stored, zero = false;
    const qc_id x = in_order(&stored, n, st), list = qc_tfl_int_list(n, count, dims, st);
    for (size_t i = 0; i < count; i++)
        if (dims[i] == 0) zero = true;
    if (zero) qc_tfl_attr(n, QC_INT("allowzero", 1));
    return reshape_to(n, x, list, stored, st);
}

static bool reshape(struct qc_tfl_node *n, struct qc_status *st)
{
    int64_t *dims, option[QC_RANK_MAX];
    size_t count;
    bool stored;
    if (qc_tfl_has_input(n, 1) && n->inputs[1]->data)
        return qc_tfl_ints(&dims, &count, n, 1, "shape", st) && reshape_dims(n, count, dims, st);
    const struct qc_tfl_value *to = qc_tfl_has_input(n, 1) ? n->inputs[1] : NULL;
    /* The shape of one number is a constant without data. */
    if (to && to->shape.rank == 1 && to->shape.dim[0] == 0 && !to->stored[QC_TFL_IN_FILE])
        return reshape_dims(n, 0, NULL, st);
    /* If the file says all dimensions but the first one, a computed shape adds nothing. */
    const struct qc_tfl_value *y = n->outputs[0];
    bool known = y->stale_shape && y->fixed_inside && y->shape.rank > 0;
    for (int i = 1; i < y->shape.rank; i++) known = known && (option[i] = y->shape.dim[i]) > 0;
    if (to && known) {
        option[0] = -1;
        return reshape_dims(n, (size_t)y->shape.rank, option, st);
    }
    if (to) {
        const qc_id list = qc_tfl_cast(n, qc_tfl_stored(n, n->inputs[1], QC_TFL_IN_FILE, st), QC_I64, st);
        const qc_id x = in_order(&stored, n, st);
        return reshape_to(n, x, list, stored, st);
    }
    const struct qc_fb_vector shape = qc_fb_vector(&n->options, QC_TFL_ReshapeOptions_new_shape);
    if (!n->options.at || shape.count > QC_RANK_MAX) return qc_fail(st, QC_BAD_INPUT, "has no shape that is handled");
    for (size_t i = 0; i < shape.count; i++) option[i] = qc_fb_vector_int(&shape, i);
    return reshape_dims(n, shape.count, option, st);
}

static bool with_axes(struct qc_tfl_node *n, size_t count, const int64_t *axes, struct qc_status *st)
{
    bool stored;
    const qc_id x = moving(&stored, n, 0, QC_TFL_IN_FILE, st);
    const qc_id in[2] = {x, count ? qc_tfl_int_list(n, count, axes, st) : 0};
    return moved_by(n, n->op, count ? 2 : 1, in, stored, st);
}

static bool squeeze(struct qc_tfl_node *n, struct qc_status *st)
{
    int64_t axes[QC_RANK_MAX];
    const struct qc_fb_vector list = qc_fb_vector(&n->options, QC_TFL_SqueezeOptions_squeeze_dims);
    const size_t count = n->options.at ? list.count : 0;
    if (!qc_tfl_input(n, 0, st)) return false;
    if (count > QC_RANK_MAX) return qc_fail(st, QC_BAD_INPUT, "has %zu axes", count);
    for (size_t i = 0; i < count; i++) axes[i] = qc_fb_vector_int(&list, i);
    for (size_t i = 0; i < count && n->inputs[0]->complex; i++) axes[i] -= axes[i] < 0;
    return with_axes(n, count, axes, st);
}

static bool expand_dims(struct qc_tfl_node *n, struct qc_status *st)
{
    int64_t *axes;
    size_t count;
    if (!qc_tfl_ints(&axes, &count, n, 1, "axes", st)) return false;
    if (count != 1) return qc_fail(st, QC_BAD_INPUT, "has %zu axes, expected 1", count);
    return with_axes(n, 1, axes, st);
}

/* A channels-first input is transposed to the result in one step. */
static bool transpose(struct qc_tfl_node *n, struct qc_status *st)
{
    int64_t *perm;
    size_t count;
    bool stored, seen[QC_RANK_MAX] = {false}, same = true;
    const struct qc_tfl_value *v = qc_tfl_input(n, 0, st);
    if (!v || !qc_tfl_ints(&perm, &count, n, 1, "axes", st)) return false;
    if (count != (size_t)v->shape.rank) return qc_fail(st, QC_BAD_INPUT, "has %zu axes", count);
    const bool first = v->stored[QC_TFL_CHANNELS_FIRST] && !v->stored[QC_TFL_IN_FILE];
    const enum qc_tfl_layout layout = first ? QC_TFL_CHANNELS_FIRST : QC_TFL_IN_FILE;
    for (size_t i = 0; i < count; i++) {
        if (!qc_tfl_axis(&perm[i], perm[i], v->shape.rank, layout, st)) return false;
        if (seen[perm[i]]) return qc_fail(st, QC_BAD_INPUT, "has an axis twice");
        seen[perm[i]] = true;
        same = same && perm[i] == (int64_t)i;
    }
    const qc_id x = moving(&stored, n, 0, layout, st);
    if (same || !x) return moved(n, 0, x, stored, QC_TFL_IN_FILE, st);
    qc_tfl_attr(n, QC_INTS("perm", count, perm));
    return moved_by(n, QC_OP_Transpose, 1, &x, stored, st);
}

static bool shape(struct qc_tfl_node *n, struct qc_status *st)
{
    const qc_id x = qc_tfl_stored(n, qc_tfl_input(n, 0, st), QC_TFL_IN_FILE, st),
                id = qc_tfl_add(n, QC_OP_Shape, 1, &x, NULL, st);
    return qc_tfl_define_stored(n, 0, qc_tfl_cast(n, id, n->outputs[0]->dtype, st), QC_TFL_IN_FILE, st);
}

/* --- Joining and splitting --- */

enum { JOINED_MAX = 256 };

/* Joins the inputs along an axis; PACK: along a new axis. */
static bool join(struct qc_tfl_node *n, struct qc_status *st)
{
    qc_id in[JOINED_MAX];
    int64_t axis;
    const bool unsqueezed = n->info->code == QC_TFL_OP_PACK;
    bool stored = !qc_tfl_option(n, "fused_activation_function");
    for (size_t i = 0; i < n->input_count; i++)
        stored = stored && (!n->inputs[i] || qc_tfl_alike(n->inputs[i], n->outputs[0]));
    const struct qc_tfl_value *v = qc_tfl_input(n, 0, st);
    const enum qc_tfl_layout layout = unsqueezed ? QC_TFL_IN_FILE : qc_tfl_layout_of(n);
    if (!v || !qc_tfl_axis(&axis, qc_tfl_option(n, "axis"), v->shape.rank + unsqueezed, layout, st)) return false;
    if (n->input_count > JOINED_MAX) return qc_fail(st, QC_UNSUPPORTED, "has %zu inputs", n->input_count);
    for (size_t i = 0; i < n->input_count; i++) {
        struct qc_tfl_value *one = qc_tfl_input(n, i, st);
        in[i] = stored ? qc_tfl_stored(n, one, layout, st) : qc_tfl_real(n, one, layout, st);
        const qc_id wide[2] = {in[i], unsqueezed ? qc_tfl_int_list(n, 1, &axis, st) : 0};
        if (wide[1]) in[i] = qc_tfl_add(n, QC_OP_Unsqueeze, 2, wide, NULL, st);
    }
    qc_tfl_attr(n, QC_INT("axis", axis));
    const qc_id id = qc_tfl_add(n, QC_OP_Concat, (unsigned)n->input_count, in, name_of(n, stored), st);
    return stored ? qc_tfl_define_stored(n, 0, id, layout, st) : qc_tfl_finish(n, id, layout, st);
}

enum { PARTS_MAX = 64 };

/* Splits input `data` into one part for each output. sizes: NULL for equal parts. squeezed: removes the axis. */
static bool parts(struct qc_tfl_node *n, size_t data, int64_t axis, const int64_t *sizes, bool squeezed,
                  struct qc_status *st)
{
    bool stored;
    int64_t own;
    const struct qc_tfl_value *v = qc_tfl_input(n, data, st);
    if (n->output_count > PARTS_MAX) return qc_fail(st, QC_UNSUPPORTED, "has %zu outputs", n->output_count);
    const bool first = v && v->stored[QC_TFL_CHANNELS_FIRST] && !v->stored[QC_TFL_IN_FILE] && !squeezed;
    const enum qc_tfl_layout layout = first ? QC_TFL_CHANNELS_FIRST : QC_TFL_IN_FILE;
    if (!v || !qc_tfl_axis(&own, axis, v->shape.rank, layout, st)) return false;
    const qc_id in[2] = {moving(&stored, n, data, layout, st),
                         sizes ? qc_tfl_int_list(n, n->output_count, sizes, st) : 0};
    for (size_t k = 1; k < n->output_count; k++)
        if (qc_tfl_alike(v, n->outputs[k]) != stored)
            return qc_fail(st, QC_UNSUPPORTED, "its results have different parameters");
    const unsigned results = (unsigned)n->output_count;
    if (own) qc_tfl_attr(n, QC_INT("axis", own));
    const struct qc_node_def def = {.op = QC_OP_Split,
                                    .name = n->name,
                                    .input_count = sizes ? 2 : 1,
                                    .output_count = results,
                                    .inputs = in,
                                    .attr_count = n->attr_count,
                                    .attrs = n->attrs};
    const qc_id id = qc_graph_add(n->r->g, &def, st);
    n->attr_count = 0;
    for (unsigned k = 0; id && k < results; k++) {
        const qc_id one[2] = {id + k, squeezed ? qc_tfl_int_list(n, 1, &own, st) : 0};
        const qc_id part = squeezed ? qc_tfl_add(n, QC_OP_Squeeze, 2, one, NULL, st) : id + k;
        moved(n, k, part, stored, layout, st);
    }
    return st->code == QC_OK;
}

static bool unpack(struct qc_tfl_node *n, struct qc_status *st)
{
    return parts(n, 0, qc_tfl_option(n, "axis"), NULL, true, st);
}

/* Inputs of SPLIT: axis, data. Inputs of SPLIT_V: data, sizes, axis. */
static bool split(struct qc_tfl_node *n, struct qc_status *st)
{
    const bool sized = n->info->code == QC_TFL_OP_SPLIT_V;
    int64_t *axis, *sizes = NULL, rest = 0, left = -1, own;
    size_t count, size_count = 0;
    const struct qc_tfl_value *v = qc_tfl_input(n, sized ? 0 : 1, st);
    if (!v || !qc_tfl_ints(&axis, &count, n, sized ? 2 : 0, "axes", st) ||
        (sized && !qc_tfl_ints(&sizes, &size_count, n, 1, "sizes", st)))
        return false;
    if (count != 1 || (sized && size_count != n->output_count))
        return qc_fail(st, QC_BAD_INPUT, "has %zu axes and %zu sizes for %zu outputs", count, size_count,
                       n->output_count);
    if (!qc_tfl_axis(&own, *axis, v->shape.rank, QC_TFL_IN_FILE, st)) return false;
    for (size_t i = 0; i < size_count; i++) {
        if (sizes[i] < 0) left = (int64_t)i;
        if (sizes[i] > INT32_MAX) return qc_fail(st, QC_BAD_INPUT, "has a part of %lld", (long long)sizes[i]);
        rest += sizes[i] < 0 ? 0 : sizes[i];
    }
    if (left >= 0) sizes[left] = v->shape.dim[own] - rest;
    return parts(n, sized ? 0 : 1, *axis, sizes, false, st);
}

/* --- Selecting --- */

struct cut {
    size_t count;
    int64_t begin[QC_RANK_MAX], end[QC_RANK_MAX], axis[QC_RANK_MAX], step[QC_RANK_MAX];
};

/* Slices along axes of the file; then removes the first `squeezed` axes in `gone`. */
static bool slice_of(struct qc_tfl_node *n, struct cut *c, size_t squeezed, const int64_t *gone, struct qc_status *st)
{
    bool stored, steps = false;
    struct qc_tfl_value *v = qc_tfl_input(n, 0, st);
    if (!v) return false;
    const enum qc_tfl_layout layout = squeezed ? QC_TFL_IN_FILE : qc_tfl_layout_of(n);
    for (size_t i = 0; i < c->count; i++) {
        if (!qc_tfl_axis(&c->axis[i], c->axis[i], v->shape.rank, layout, st)) return false;
        steps = steps || c->step[i] != 1;
    }
    qc_id in[5] = {moving(&stored, n, 0, layout, st)};
    if (c->count) {
        in[1] = qc_tfl_int_list(n, c->count, c->begin, st);
        in[2] = qc_tfl_int_list(n, c->count, c->end, st);
        in[3] = qc_tfl_int_list(n, c->count, c->axis, st);
        if (steps) in[4] = qc_tfl_int_list(n, c->count, c->step, st);
        in[0] = qc_tfl_add(n, QC_OP_Slice, steps ? 5 : 4, in, squeezed ? NULL : name_of(n, stored), st);
    }
    const qc_id axes[2] = {in[0], squeezed ? qc_tfl_int_list(n, squeezed, gone, st) : 0};
    if (axes[1]) in[0] = qc_tfl_add(n, QC_OP_Squeeze, 2, axes, name_of(n, stored), st);
    return moved(n, 0, in[0], stored, layout, st);
}

static bool slice(struct qc_tfl_node *n, struct qc_status *st)
{
    struct cut c = {.count = 0};
    int64_t *begin, *size;
    size_t count, sizes;
    if (!qc_tfl_ints(&begin, &count, n, 1, "begins", st) || !qc_tfl_ints(&size, &sizes, n, 2, "sizes", st))
        return false;
    if (count != sizes || count > QC_RANK_MAX)
        return qc_fail(st, QC_BAD_INPUT, "has %zu begins, %zu sizes", count, sizes);
    for (size_t i = 0; i < count; i++) {
        if (begin[i] < 0 || size[i] < -1 || begin[i] > INT32_MAX || size[i] > INT32_MAX)
            return qc_fail(st, QC_BAD_INPUT, "begins at %lld with %lld elements", (long long)begin[i],
                           (long long)size[i]);
        if (begin[i] == 0 && size[i] == -1) continue;
        c.begin[c.count] = begin[i];
        c.end[c.count] = size[i] < 0 ? INT64_MAX : begin[i] + size[i];
        c.step[c.count] = 1;
        c.axis[c.count++] = (int64_t)i;
    }
    return slice_of(n, &c, 0, NULL, st);
}

static bool strided_slice(struct qc_tfl_node *n, struct qc_status *st)
{
    struct cut c = {.count = 0};
    int64_t *begin, *end, *step, gone[QC_RANK_MAX];
    size_t count, ends, steps, squeezed = 0;
    const int64_t begins = qc_tfl_option(n, "begin_mask"), to_end = qc_tfl_option(n, "end_mask"),
                  shrinks = qc_tfl_option(n, "shrink_axis_mask");
    if (qc_tfl_option(n, "ellipsis_mask") || qc_tfl_option(n, "new_axis_mask") || qc_tfl_option(n, "offset"))
        return qc_fail(st, QC_UNSUPPORTED, "an ellipsis, new axes and sizes in place of ends are not handled");
    if (!begins && !to_end && !shrinks && qc_tfl_has_input(n, 1) && qc_tfl_has_input(n, 2) &&
        !(n->inputs[1]->data && n->inputs[2]->data)) {
        /* Begins or ends are computed, as in the frames of a short-time Fourier transform. */
        int64_t axes[QC_RANK_MAX], *kept_step;
        size_t kept;
        struct qc_tfl_value *v = qc_tfl_input(n, 0, st);
        if (!v || !qc_tfl_ints(&kept_step, &kept, n, 3, "strides", st)) return false;
        if (kept > (size_t)v->shape.rank) return qc_fail(st, QC_BAD_INPUT, "has %zu strides", kept);
        for (size_t i = 0; i < kept; i++) axes[i] = (int64_t)i;
        qc_id in[5] = {qc_tfl_stored(n, v, QC_TFL_IN_FILE, st)};
        for (size_t i = 1; i < 3; i++)
            in[i] = qc_tfl_cast(n, qc_tfl_stored(n, qc_tfl_input(n, i, st), QC_TFL_IN_FILE, st), QC_I64, st);
        in[3] = qc_tfl_int_list(n, kept, axes, st);
        in[4] = qc_tfl_int_list(n, kept, kept_step, st);
        return qc_tfl_define_stored(n, 0, qc_tfl_add(n, QC_OP_Slice, 5, in, n->name, st), QC_TFL_IN_FILE, st);
    }
    if (!qc_tfl_ints(&begin, &count, n, 1, "begins", st) || !qc_tfl_ints(&end, &ends, n, 2, "ends", st) ||
        !qc_tfl_ints(&step, &steps, n, 3, "strides", st))
        return false;
    if (count != ends || count != steps || count > QC_RANK_MAX)
        return qc_fail(st, QC_BAD_INPUT, "has %zu begins, %zu ends, %zu strides", count, ends, steps);
    for (size_t i = 0; i < count; i++) {
        const bool shrink = shrinks >> i & 1;
        const bool open = (begins >> i & 1) && !shrink, last = (to_end >> i & 1) && !shrink;
        if (!step[i]) return qc_fail(st, QC_BAD_INPUT, "has the stride 0");
        if (open && last && step[i] == 1) continue;
        if (shrink) {
            gone[squeezed++] = (int64_t)i;
            step[i] = 1;
            end[i] = begin[i] == -1 ? INT64_MAX : begin[i] + 1;
        }
        c.begin[c.count] = !open ? begin[i] : step[i] > 0 ? 0 : -1;
        c.end[c.count] = !last ? end[i] : step[i] > 0 ? INT64_MAX : INT64_MIN;
        c.step[c.count] = step[i];
        c.axis[c.count++] = (int64_t)i;
    }
    return slice_of(n, &c, squeezed, gone, st);
}

static bool reverse(struct qc_tfl_node *n, struct qc_status *st)
{
    struct cut c = {.count = 0};
    int64_t *axes;
    size_t count;
    if (!qc_tfl_ints(&axes, &count, n, 1, "axes", st)) return false;
    if (count > QC_RANK_MAX) return qc_fail(st, QC_BAD_INPUT, "has %zu axes", count);
    for (; c.count < count; c.count++) {
        c.begin[c.count] = c.step[c.count] = -1;
        c.end[c.count] = INT64_MIN;
        c.axis[c.count] = axes[c.count];
    }
    return slice_of(n, &c, 0, NULL, st);
}

/* Pads with real zeros; in stored integers that is the zero point. */
static bool pad(struct qc_tfl_node *n, struct qc_status *st)
{
    int64_t *pads, all[2 * QC_RANK_MAX], own;
    size_t count;
    struct qc_tfl_value *v = qc_tfl_input(n, 0, st);
    const enum qc_tfl_layout layout =
        v && v->shape.rank == 4 && v->stored[QC_TFL_CHANNELS_FIRST] && !v->stored[QC_TFL_IN_FILE]
            ? QC_TFL_CHANNELS_FIRST
            : QC_TFL_IN_FILE;
    if (!v || !qc_tfl_ints(&pads, &count, n, 1, "pads", st)) return false;
    const int rank = v->shape.rank;
    if (count != 2 * (size_t)rank) return qc_fail(st, QC_BAD_INPUT, "has %zu pads for %d axes", count, rank);
    for (int i = 0; i < rank; i++) {
        if (pads[2 * i] < 0 || pads[2 * i + 1] < 0) return qc_fail(st, QC_BAD_INPUT, "has negative pads");
        if (!qc_tfl_axis(&own, i, rank, layout, st)) return false;
        all[own] = pads[2 * i];
        all[rank + own] = pads[2 * i + 1];
    }
    qc_id in[3] = {qc_tfl_real(n, v, layout, st), qc_tfl_int_list(n, count, all, st)};
    const bool mirror = n->info->code == QC_TFL_OP_MIRROR_PAD, number = n->info->code == QC_TFL_OP_PADV2;
    if (mirror && qc_tfl_option(n, "mode") != QC_TFL_MIRROR_REFLECT)
        return qc_fail(st, QC_UNSUPPORTED, "symmetric padding is not handled");
    if (number) in[2] = qc_tfl_real(n, qc_tfl_input(n, 2, st), QC_TFL_IN_FILE, st);
    if (mirror) qc_tfl_attr(n, QC_STRING("mode", "reflect"));
    return qc_tfl_define_real(n, 0, qc_tfl_add(n, QC_OP_Pad, number ? 3 : 2, in, n->name, st), layout, st);
}

static bool gather(struct qc_tfl_node *n, struct qc_status *st)
{
    bool stored;
    int64_t axis;
    struct qc_tfl_value *v = qc_tfl_input(n, 0, st), *at = qc_tfl_input(n, 1, st);
    if (!v) return false;
    if (qc_tfl_option(n, "batch_dims")) return qc_fail(st, QC_UNSUPPORTED, "batch dimensions are not handled");
    if (!qc_tfl_axis(&axis, qc_tfl_option(n, "axis"), v->shape.rank, QC_TFL_IN_FILE, st)) return false;
    const qc_id in[2] = {moving(&stored, n, 0, QC_TFL_IN_FILE, st), qc_tfl_stored(n, at, QC_TFL_IN_FILE, st)};
    if (axis) qc_tfl_attr(n, QC_INT("axis", axis));
    return moved_by(n, QC_OP_Gather, 2, in, stored, st);
}

static bool gather_nd(struct qc_tfl_node *n, struct qc_status *st)
{
    bool stored;
    const qc_id x = moving(&stored, n, 0, QC_TFL_IN_FILE, st),
                at = qc_tfl_stored(n, qc_tfl_input(n, 1, st), QC_TFL_IN_FILE, st);
    const qc_id in[2] = {x, qc_tfl_cast(n, at, QC_I64, st)};
    return moved_by(n, QC_OP_GatherND, 2, in, stored, st);
}

/* TILE and BROADCAST_TO: input 1 is the number of repetitions, or the shape. */
static bool repeat(struct qc_tfl_node *n, struct qc_status *st)
{
    bool stored;
    int64_t *list;
    size_t count;
    if (!qc_tfl_ints(&list, &count, n, 1, "shape", st)) return false;
    const qc_id in[2] = {moving(&stored, n, 0, QC_TFL_IN_FILE, st), qc_tfl_int_list(n, count, list, st)};
    return moved_by(n, n->op, 2, in, stored, st);
}

const struct qc_tfl_row qc_tfl_shape_rows[] = {
    {QC_TFL_OP_RESHAPE, reshape, QC_OP_Reshape},
    {QC_TFL_OP_SQUEEZE, squeeze, QC_OP_Squeeze},
    {QC_TFL_OP_EXPAND_DIMS, expand_dims, QC_OP_Unsqueeze},
    {QC_TFL_OP_TRANSPOSE, transpose, QC_OP_Transpose},
    {QC_TFL_OP_SHAPE, shape, QC_OP_Shape},
    {QC_TFL_OP_CONCATENATION, join, QC_OP_Concat},
    {QC_TFL_OP_PACK, join, QC_OP_Concat},
    {QC_TFL_OP_UNPACK, unpack, QC_OP_Split},
    {QC_TFL_OP_SPLIT, split, QC_OP_Split},
    {QC_TFL_OP_SPLIT_V, split, QC_OP_Split},
    {QC_TFL_OP_SLICE, slice, QC_OP_Slice},
    {QC_TFL_OP_STRIDED_SLICE, strided_slice, QC_OP_Slice},
    {QC_TFL_OP_REVERSE_V2, reverse, QC_OP_Slice},
    {QC_TFL_OP_PAD, pad, QC_OP_Pad},
    {QC_TFL_OP_PADV2, pad, QC_OP_Pad},
    {QC_TFL_OP_MIRROR_PAD, pad, QC_OP_Pad},
    {QC_TFL_OP_GATHER, gather, QC_OP_Gather},
    {QC_TFL_OP_GATHER_ND, gather_nd, QC_OP_GatherND},
    {QC_TFL_OP_TILE, repeat, QC_OP_Tile},
    {QC_TFL_OP_BROADCAST_TO, repeat, QC_OP_Expand},
    {.form = NULL},
};
