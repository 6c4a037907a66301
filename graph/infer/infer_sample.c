// SPDX-License-Identifier: Apache-2.0
/* GridSample, RoiAlign, MaxRoiPool, DeformConv, NonMaxSuppression, Col2Im, MaxUnpool, Det, TfIdfVectorizer. */
#include <inttypes.h>

#include "base/checked.h"
#include "graph/core/infer.h"
#include "graph/infer/boxes.h"
#include "graph/infer/infer_help.h"

bool qc_infer_grid_sample(struct qc_infer *c, struct qc_status *st)
{
    const struct qc_type *x = qc_in(c, 0);
    const struct qc_shape *g = &qc_in(c, 1)->shape;
    struct qc_shape s = x->shape;
    int64_t met;
    if (!qc_infer_same_float(c, 0, 1, st)) return false;
    if (s.rank >= 0 && g->rank >= 0) {
        bool fits = s.rank == g->rank && s.rank >= 3 && qc_dim_meet(&s.dim[0], s.dim[0], g->dim[0]) &&
                    qc_dim_meet(&met, g->dim[g->rank - 1], s.rank - 2);
        for (int i = 2; fits && i < s.rank; i++) {
            fits = s.dim[i] != 0;
            s.dim[i] = g->dim[i - 1];
        }
        if (!fits) return qc_infer_misfit(c, 1, "a grid", st);
    } else {
        for (int i = 2; i < s.rank; i++) s.dim[i] = QC_FREE;
    }
    return qc_infer_set(c, 0, x->dtype, &s, st);
}

/* Sets the size of the result's planes from attributes. */
static bool pooled(struct qc_shape *s, const struct qc_infer *c, int64_t rois, int64_t height, int64_t width,
                   struct qc_status *st)
{
    const struct qc_shape *x = &qc_in(c, 0)->shape;
    if (x->rank >= 0 && (x->rank != 4 || x->dim[2] == 0 || x->dim[3] == 0))
        return qc_fail(st, QC_BAD_INPUT, "an input [N,C,H,W] with elements is expected");
    if (height < 1 || width < 1) return qc_fail(st, QC_BAD_INPUT, "regions of %" PRId64 " x %" PRId64, height, width);
    *s = QC_SHAPE(rois, x->rank < 0 ? QC_FREE : x->dim[1], height, width);
    return true;
}

bool qc_infer_roi_align(struct qc_infer *c, struct qc_status *st)
{
    const struct qc_shape *rois = &qc_in(c, 1)->shape, *images = &qc_in(c, 2)->shape;
    struct qc_shape s;
    int64_t count = QC_FREE;
    bool fits = (rois->rank < 0 || (rois->rank == 2 && (rois->dim[1] == 4 || rois->dim[1] == QC_FREE))) &&
                (images->rank < 0 || images->rank == 1);
    if (fits && rois->rank > 0 && images->rank > 0) fits = qc_dim_meet(&count, rois->dim[0], images->dim[0]);
    if (!fits) return qc_infer_misfit(c, 1, "a list of regions", st);
    return qc_infer_same_float(c, 0, 2, st) && qc_infer_index_type(c, 2, "the images of regions", st) &&
           pooled(&s, c, count, qc_attr_int(c->node, "output_height", 1), qc_attr_int(c->node, "output_width", 1),
                  st) &&
           qc_infer_set(c, 0, qc_in(c, 0)->dtype, &s, st);
}

bool qc_infer_roi_pool(struct qc_infer *c, struct qc_status *st)
{
    const struct qc_shape *rois = &qc_in(c, 1)->shape;
    const int64_t *size;
    struct qc_shape s;
    if (rois->rank >= 0 && (rois->rank != 2 || (rois->dim[1] != 5 && rois->dim[1] != QC_FREE)))
        return qc_infer_misfit(c, 1, "a list of regions", st);
    if (qc_attr_ints(c->node, "pooled_shape", &size) != 2)
        return qc_fail(st, QC_BAD_INPUT, "pooled_shape must be two numbers");
    return qc_infer_same_float(c, 0, 2, st) &&
           pooled(&s, c, rois->rank < 0 ? QC_FREE : rois->dim[0], size[0], size[1], st) &&
           qc_infer_set(c, 0, qc_in(c, 0)->dtype, &s, st);
}

/* Returns true if input i has `channels` channels with the size of the result's planes. */
static bool has_planes(const struct qc_infer *c, unsigned i, int64_t channels, const struct qc_shape *y)
{
    const struct qc_shape *s = &qc_in(c, i)->shape;
    int64_t met;
    bool fits = s->rank < 0 || (s->rank == y->rank && qc_dim_meet(&met, s->dim[0], y->dim[0]) &&
                                qc_dim_meet(&met, s->dim[1], channels));
    for (int d = 2; fits && d < s->rank; d++) fits = qc_dim_meet(&met, s->dim[d], y->dim[d]);
    return fits;
}

bool qc_infer_deform_conv(struct qc_infer *c, struct qc_status *st)
{
    const struct qc_shape *x = &qc_in(c, 0)->shape, *w = &qc_in(c, 1)->shape;
    const int64_t groups = qc_attr_int(c->node, "offset_group", 1);
    int64_t points;
    if (!qc_infer_same_float(c, 0, c->node->input_count, st) || !qc_infer_conv_result(c, false, qc_in(c, 0)->dtype, st))
        return false;
    if (x->rank < 0 || w->rank < 0) return true;
    if (x->rank != 4) return qc_fail(st, QC_UNSUPPORTED, "only planes are handled");
    if (groups < 1 || (x->dim[1] != QC_FREE && x->dim[1] % groups))
        return qc_fail(st, QC_BAD_INPUT, "offset_group is %" PRId64, groups);
    if (!qc_dim_times(&points, w->dim[2], w->dim[3]) || !qc_dim_times(&points, points, groups))
        return qc_infer_misfit(c, 1, "weights", st);
    const struct qc_shape y = c->out[0].shape;
    if (!has_planes(c, 2, points == QC_FREE ? QC_FREE : 2 * points, &y)) return qc_infer_misfit(c, 2, "an offset", st);
    if (qc_has_in(c, 4) && !has_planes(c, 4, points, &y)) return qc_infer_misfit(c, 4, "a mask", st);
    return true;
}

/* The result is [selected, 3]; the number is known if boxes, scores and limits are constants. */
bool qc_infer_non_max_suppression(struct qc_infer *c, struct qc_status *st)
{
    const struct qc_shape *boxes = &qc_in(c, 0)->shape, *scores = &qc_in(c, 1)->shape;
    struct qc_shape s = QC_SHAPE(QC_FREE, 3);
    int64_t met;
    bool known = true;
    if (!qc_infer_same_float(c, 0, 2, st)) return false;
    if ((boxes->rank >= 0 && (boxes->rank != 3 || !qc_dim_meet(&met, boxes->dim[2], 4))) ||
        (scores->rank >= 0 && scores->rank != 3) ||
        (boxes->rank == 3 && scores->rank == 3 &&
         (!qc_dim_meet(&met, boxes->dim[0], scores->dim[0]) || !qc_dim_meet(&met, boxes->dim[1], scores->dim[2]))))
        return qc_infer_misfit(c, 1, "scores", st);
    for (unsigned i = 2; i < c->node->input_count; i++)
        if (!qc_infer_one_element(c, i, "a limit", st)) return false;
    for (unsigned i = 0; i < c->node->input_count; i++) known = known && (!qc_has_in(c, i) || qc_in_constant(c, i));
    if (known) {
        struct qc_boxes b = {.boxes = qc_in_constant(c, 0),
                             .scores = qc_in_constant(c, 1),
                             .centred = qc_attr_int(c->node, "center_point_box", 0) != 0};
        qc_boxes_limits(&b, qc_in_constant(c, 2), qc_in_constant(c, 3), qc_in_constant(c, 4));
        QC_ARENA_SCOPE *a = qc_arena_new();
        int64_t *list;
        size_t count;
        if (!qc_boxes_select(&list, &count, &b, a, st)) return false;
        s.dim[0] = (int64_t)count;
    }
    return qc_infer_set(c, 0, QC_I64, &s, st);
}

bool qc_infer_col2im(struct qc_infer *c, struct qc_status *st)
{
    const struct qc_type *x = qc_in(c, 0);
    struct qc_list image, block;
    struct qc_shape s = QC_SHAPE_UNKNOWN;
    if (!qc_infer_list(&image, c, 1, "the image's shape", st) || !qc_infer_list(&block, c, 2, "the block's shape", st))
        return false;
    if (x->shape.rank >= 0 && x->shape.rank != 3) return qc_fail(st, QC_BAD_INPUT, "an input [N,C*K,L] is expected");
    if (image.count != QC_FREE && !qc_shape_free(&s, image.count + 2, st)) return false;
    if (image.known && block.known && x->shape.rank == 3) {
        struct qc_blocks b;
        if (!qc_blocks_of(&b, c->graph, c->node, st)) return false;
        s.dim[0] = x->shape.dim[0];
        s.dim[1] = x->shape.dim[1] == QC_FREE ? QC_FREE : x->shape.dim[1] / b.points;
        for (int i = 0; i < b.spatial; i++) s.dim[i + 2] = b.image[i];
        if ((x->shape.dim[1] != QC_FREE && x->shape.dim[1] % b.points) ||
            (x->shape.dim[2] != QC_FREE && x->shape.dim[2] != b.blocks))
            return qc_infer_misfit(c, 2, "a block", st);
    }
    return qc_infer_set(c, 0, x->dtype, &s, st);
}

bool qc_infer_max_unpool(struct qc_infer *c, struct qc_status *st)
{
    const struct qc_type *x = qc_in(c, 0);
    const int64_t *kernel = NULL, *strides = NULL, *pads = NULL;
    const size_t n = qc_attr_ints(c->node, "kernel_shape", &kernel),
                 n_strides = qc_attr_ints(c->node, "strides", &strides), n_pads = qc_attr_ints(c->node, "pads", &pads);
    struct qc_shape s = x->shape;
    if (!qc_infer_same_float(c, 0, 1, st) || !qc_infer_index_type(c, 1, "the indices", st)) return false;
    if (s.rank < 0) return qc_infer_set(c, 0, x->dtype, &s, st);
    if (s.rank < 3 || n != (size_t)s.rank - 2 || (n_strides && n_strides != n) || (n_pads && n_pads != 2 * n))
        return qc_fail(st, QC_BAD_INPUT, "kernel_shape, strides and pads do not fit an input of rank %d", s.rank);
    if (!qc_shape_equal(&s, &qc_in(c, 1)->shape) && qc_shape_fixed(&s) && qc_shape_fixed(&qc_in(c, 1)->shape))
        return qc_infer_misfit(c, 1, "a list of indices", st);
    for (size_t i = 0; i < n; i++) {
        int64_t d;
        if (s.dim[i + 2] == QC_FREE) continue;
        if (!qc_mul_i64(&d, s.dim[i + 2] - 1, strides ? strides[i] : 1) || !qc_add_i64(&d, d, kernel[i]) ||
            !qc_add_i64(&d, d, pads ? -pads[i] : 0) || !qc_add_i64(&d, d, pads ? -pads[n + i] : 0) || d < 1)
            return qc_fail(st, QC_BAD_INPUT, "axis %zu of the result has no possible size", i + 2);
        s.dim[i + 2] = d;
    }
    if (qc_has_in(c, 2)) {
        struct qc_list list;
        if (!qc_infer_list(&list, c, 2, "the result's shape", st)) return false;
        if (list.count != QC_FREE && list.count != s.rank) return qc_infer_misfit(c, 2, "a shape", st);
        for (int i = 0; i < s.rank; i++) s.dim[i] = list.known && list.value[i] > 0 ? list.value[i] : QC_FREE;
    }
    return qc_infer_set(c, 0, x->dtype, &s, st);
}

bool qc_infer_det(struct qc_infer *c, struct qc_status *st)
{
    const struct qc_type *x = qc_in(c, 0);
    struct qc_shape s = x->shape;
    int64_t met;
    if (!qc_infer_same_float(c, 0, 1, st)) return false;
    if (s.rank >= 0) {
        if (s.rank < 2 || !qc_dim_meet(&met, s.dim[s.rank - 1], s.dim[s.rank - 2]))
            return qc_fail(st, QC_BAD_INPUT, "square matrices are expected");
        s.dim[s.rank - 1] = s.dim[s.rank - 2] = 0;
        s.rank -= 2;
    }
    return qc_infer_set(c, 0, x->dtype, &s, st);
}

/* The result has one number for each index of an n-gram in the pool. */
bool qc_infer_tfidf(struct qc_infer *c, struct qc_status *st)
{
    const struct qc_type *x = qc_in(c, 0);
    const int64_t *slots;
    const size_t n = qc_attr_ints(c->node, "ngram_indexes", &slots);
    struct qc_shape s = x->shape;
    int64_t most = -1;
    if (!qc_infer_index_type(c, 0, "the text", st)) return false;
    for (size_t i = 0; i < n; i++) {
        if (slots[i] < 0 || slots[i] > INT32_MAX) return qc_fail(st, QC_BAD_INPUT, "ngram_indexes cannot be");
        most = slots[i] > most ? slots[i] : most;
    }
    if (most < 0 || (s.rank >= 0 && s.rank != 1 && s.rank != 2))
        return qc_fail(st, QC_BAD_INPUT, "a list or rows, and ngram_indexes are expected");
    if (s.rank > 0) s.dim[s.rank - 1] = most + 1;
    return qc_infer_set(c, 0, QC_F32, &s, st);
}
