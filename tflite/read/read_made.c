// SPDX-License-Identifier: Apache-2.0
/* Values made from shapes and numbers, and images cut into blocks. */
#include "tflite/read/tflite_reading.h"

/* Input i as int64 values. */
static qc_id int_values(struct qc_tfl_node *n, size_t i, struct qc_status *st)
{
    return qc_tfl_cast(n, qc_tfl_stored(n, qc_tfl_input(n, i, st), QC_TFL_IN_FILE, st), QC_I64, st);
}

/* Result 0 of a node whose inputs are ready; its integers have the type of the file. */
static bool made(struct qc_tfl_node *n, enum qc_op op, unsigned count, const qc_id *in, struct qc_status *st)
{
    return qc_tfl_define_stored(n, 0, qc_tfl_add(n, op, count, in, n->stored_name, st), QC_TFL_IN_FILE, st);
}

/* FILL: sizes, then the number. */
static bool fill(struct qc_tfl_node *n, struct qc_status *st)
{
    struct qc_tfl_value *v = qc_tfl_input(n, 1, st);
    if (!v) return false;
    if (!qc_tfl_alike(v, n->outputs[0])) return qc_fail(st, QC_UNSUPPORTED, "its result has other parameters");
    const qc_id in[2] = {qc_tfl_stored(n, v, QC_TFL_IN_FILE, st), int_values(n, 0, st)};
    return made(n, QC_OP_Expand, 2, in, st);
}

static bool zeros_like(struct qc_tfl_node *n, struct qc_status *st)
{
    struct qc_tfl_value *v = qc_tfl_input(n, 0, st);
    const int64_t zero = 0;
    if (!v) return false;
    if (n->outputs[0]->quantized) return qc_fail(st, QC_UNSUPPORTED, "its result is quantized");
    const qc_id x = qc_tfl_stored(n, v, QC_TFL_IN_FILE, st), one = qc_tfl_int_list(n, 1, &zero, st);
    const qc_id in[2] = {qc_tfl_cast(n, one, n->outputs[0]->dtype, st), qc_tfl_add(n, QC_OP_Shape, 1, &x, NULL, st)};
    return made(n, QC_OP_Expand, 2, in, st);
}

static bool range(struct qc_tfl_node *n, struct qc_status *st)
{
    qc_id in[3] = {0};
    for (size_t i = 0; i < 3; i++) in[i] = qc_tfl_stored(n, qc_tfl_input(n, i, st), QC_TFL_IN_FILE, st);
    return made(n, QC_OP_Range, 3, in, st);
}

static bool rank(struct qc_tfl_node *n, struct qc_status *st)
{
    const struct qc_tfl_value *v = qc_tfl_input(n, 0, st);
    if (!v) return false;
    const qc_id scalar = qc_tfl_int(n, v->shape.rank, st);
    return qc_tfl_define_stored(n, 0, qc_tfl_cast(n, scalar, n->outputs[0]->dtype, st), QC_TFL_IN_FILE, st);
}

/* Indices, depth, the number at the index and that elsewhere. */
static bool one_hot(struct qc_tfl_node *n, struct qc_status *st)
{
    static const int64_t one[] = {1};
    qc_id values[2] = {0};
    for (size_t i = 0; i < 2; i++) {
        struct qc_tfl_value *v = qc_tfl_input(n, 3 - i, st);
        if (!v) return false;
        if (!qc_tfl_alike(v, n->outputs[0])) return qc_fail(st, QC_UNSUPPORTED, "its result has other parameters");
        values[i] = qc_tfl_reshape(n, qc_tfl_stored(n, v, QC_TFL_IN_FILE, st), 1, one, st);
    }
    struct qc_tfl_node own = *n;
    own.attr_count = 0;
    qc_tfl_attr(&own, QC_INT("axis", 0));
    const qc_id in[3] = {int_values(n, 0, st), int_values(n, 1, st),
                         qc_tfl_add(&own, QC_OP_Concat, 2, values, NULL, st)};
    qc_tfl_attr(n, QC_INT("axis", qc_tfl_option(n, "axis")));
    return made(n, QC_OP_OneHot, 3, in, st);
}

/* --- Blocks --- */

static bool block_sizes(int64_t block[2], int64_t border[4], struct qc_tfl_node *n, struct qc_status *st)
{
    int64_t *sizes, *edges;
    size_t count, edge_count;
    if (!qc_tfl_ints(&sizes, &count, n, 1, "blocks", st) || !qc_tfl_ints(&edges, &edge_count, n, 2, "edges", st))
        return false;
    if (count != 2 || edge_count != 4)
        return qc_fail(st, QC_UNSUPPORTED, "has blocks along %zu axes; 2 are handled", count);
    for (size_t i = 0; i < 4; i++) border[i] = edges[i];
    for (size_t i = 0; i < 2; i++) block[i] = sizes[i];
    for (size_t i = 0; i < 4; i++)
        if (block[i / 2] < 1 || block[i / 2] > INT32_MAX || border[i] < 0 || border[i] > INT32_MAX)
            return qc_fail(st, QC_BAD_INPUT, "has a block of %lld and an edge of %lld", (long long)block[i / 2],
                           (long long)border[i]);
    return true;
}

/* The image of an operator on blocks, in the order of the file. */
static qc_id block_image(struct qc_shape *s, struct qc_tfl_node *n, struct qc_status *st)
{
    const qc_id x = qc_tfl_real(n, qc_tfl_input(n, 0, st), QC_TFL_IN_FILE, st);
    *s = *qc_tfl_shape(n, x);
    if (s->rank == 4 && s->dim[1] > 0 && s->dim[2] > 0 && s->dim[3] > 0) return x;
    return qc_fail(st, QC_UNSUPPORTED, "its input is not an image of known size");
}

/* Pads height and width, and moves the places inside a block in front of the batch. */
static bool space_to_batch(struct qc_tfl_node *n, struct qc_status *st)
{
    static const int64_t places_first[] = {2, 4, 0, 1, 3, 5};
    int64_t block[2], pad[4];
    struct qc_shape s;
    qc_id x = block_image(&s, n, st);
    if (!x || !block_sizes(block, pad, n, st)) return false;
    const int64_t pads[8] = {0, pad[0], pad[2], 0, 0, pad[1], pad[3], 0}, height = s.dim[1] + pad[0] + pad[1],
                  width = s.dim[2] + pad[2] + pad[3];
    if (height % block[0] || width % block[1])
        return qc_fail(st, QC_BAD_INPUT, "its blocks do not fit an image of %lld x %lld", (long long)height,
                       (long long)width);
    const qc_id in[2] = {x, qc_tfl_int_list(n, 8, pads, st)};
    x = qc_tfl_add(n, QC_OP_Pad, 2, in, NULL, st);
    const int64_t apart[] = {-1, height / block[0], block[0], width / block[1], block[1], s.dim[3]},
                  together[] = {-1, height / block[0], width / block[1], s.dim[3]};
    x = qc_tfl_transpose(n, qc_tfl_reshape(n, x, 6, apart, st), 6, places_first, NULL, st);
    return qc_tfl_define_real(n, 0, qc_tfl_reshape(n, x, 4, together, st), QC_TFL_IN_FILE, st);
}

/* The other way round: the result is cropped. */
static bool batch_to_space(struct qc_tfl_node *n, struct qc_status *st)
{
    static const int64_t places_back[] = {2, 3, 0, 4, 1, 5}, axes[] = {1, 2};
    int64_t block[2], crop[4];
    struct qc_shape s;
    qc_id x = block_image(&s, n, st);
    if (!x || !block_sizes(block, crop, n, st)) return false;
    const int64_t height = s.dim[1] * block[0], width = s.dim[2] * block[1],
                  apart[] = {block[0], block[1], -1, s.dim[1], s.dim[2], s.dim[3]},
                  together[] = {-1, height, width, s.dim[3]}, begin[] = {crop[0], crop[2]},
                  end[] = {height - crop[1], width - crop[3]};
    if (begin[0] >= end[0] || begin[1] >= end[1]) return qc_fail(st, QC_BAD_INPUT, "nothing is left of its image");
    x = qc_tfl_transpose(n, qc_tfl_reshape(n, x, 6, apart, st), 6, places_back, NULL, st);
    const qc_id in[4] = {qc_tfl_reshape(n, x, 4, together, st), qc_tfl_int_list(n, 2, begin, st),
                         qc_tfl_int_list(n, 2, end, st), qc_tfl_int_list(n, 2, axes, st)};
    return qc_tfl_define_real(n, 0, qc_tfl_add(n, QC_OP_Slice, 4, in, n->name, st), QC_TFL_IN_FILE, st);
}

const struct qc_tfl_row qc_tfl_made_rows[] = {
    {QC_TFL_OP_FILL, fill, QC_OP_Expand},
    {QC_TFL_OP_ZEROS_LIKE, zeros_like, QC_OP_Expand},
    {QC_TFL_OP_RANGE, range, QC_OP_Range},
    {QC_TFL_OP_RANK, rank, QC_OP_Reshape},
    {QC_TFL_OP_ONE_HOT, one_hot, QC_OP_OneHot},
    {QC_TFL_OP_SPACE_TO_BATCH_ND, space_to_batch, QC_OP_Transpose},
    {QC_TFL_OP_BATCH_TO_SPACE_ND, batch_to_space, QC_OP_Transpose},
    {.form = NULL},
};
