// SPDX-License-Identifier: Apache-2.0
/* Operators with result sizes computed from inputs: Resize-13, ConstantOfShape-9, Range-11. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "graph/infer/infer_help.h"

/* Returns true if Resize has this list; a constant or computed tensor without elements counts as absent. */
static bool resize_has(const struct qc_infer *c, unsigned i)
{
    if (!qc_has_in(c, i)) return false;
    const struct qc_shape *s = &qc_in(c, i)->shape;
    return !(s->rank == 1 && s->dim[0] == 0);
}

bool qc_resize_form_of(struct qc_resize_form *out, const struct qc_node *n, int rank, struct qc_status *st)
{
    const char *policy = qc_attr_string(n, "keep_aspect_ratio_policy", "stretch");
    const int64_t *axes;
    const size_t count = qc_attr_ints(n, "axes", &axes);
    bool has[QC_RANK_MAX];
    struct qc_resize_form f = {.count = count ? (int)count : rank,
                               .policy = strcmp(policy, "not_larger") == 0    ? QC_RESIZE_NOT_LARGER
                                         : strcmp(policy, "not_smaller") == 0 ? QC_RESIZE_NOT_SMALLER
                                                                              : QC_RESIZE_STRETCH};
    if (!qc_infer_axes(has, count, axes, rank, st)) return false;
    for (int i = 0; i < f.count; i++) f.axis[i] = !count ? i : (int)(axes[i] < 0 ? axes[i] + rank : axes[i]);
    *out = f;
    return true;
}

/* size = floor(size of the input * scale), with the product in float32 as in runtimes. */
static bool scale_dims(struct qc_shape *s, const struct qc_infer *c, const struct qc_resize_form *f,
                       struct qc_status *st)
{
    const struct qc_tensor *scales = qc_in_constant(c, 2);
    const struct qc_shape *given = &qc_in(c, 2)->shape;
    if (qc_in(c, 2)->dtype != QC_F32)
        return qc_fail(st, QC_BAD_INPUT, "scales must be f32, got %s", qc_dtype_info(qc_in(c, 2)->dtype)->name);
    if (strcmp(qc_attr_string(c->node, "coordinate_transformation_mode", ""), "tf_crop_and_resize") == 0)
        return qc_fail(st, QC_UNSUPPORTED, "tf_crop_and_resize is handled with sizes, not with scales");
    if (given->rank >= 0 &&
        (given->rank != 1 || (given->dim[0] != QC_FREE && s->rank >= 0 && given->dim[0] != f->count)))
        return qc_fail(st, QC_BAD_INPUT, "scales of shape %s for an input %s", QC_SHAPE_STR(given), QC_SHAPE_STR(s));
    for (int k = 0; k < f->count && s->rank >= 0; k++) {
        const int i = f->axis[k];
        if (!scales) {
            s->dim[i] = QC_FREE;
            continue;
        }
        float scale = (float)qc_tensor_float(scales, (size_t)k);
        if (!(scale > 0 && isfinite(scale)))
            return qc_fail(st, QC_BAD_INPUT, "the scale of axis %d is %g", i, (double)scale);
        if (s->dim[i] == QC_FREE) continue;
        float size = floorf((float)s->dim[i] * scale);
        if (!(size < 0x1p40f))
            return qc_fail(st, QC_BAD_INPUT, "the scale %g makes axis %d of %s too large", (double)scale, i,
                           QC_SHAPE_STR(s));
        s->dim[i] = (int64_t)size;
    }
    return true;
}

static bool size_dims(struct qc_shape *s, const struct qc_infer *c, const struct qc_resize_form *f,
                      struct qc_status *st)
{
    struct qc_list sizes;
    bool known = true;
    if (!qc_infer_list(&sizes, c, 3, "the sizes", st)) return false;
    if (s->rank < 0) return qc_attr_find(c->node, "axes") || qc_shape_free(s, sizes.count, st);
    if (sizes.count != QC_FREE && sizes.count != f->count)
        return qc_fail(st, QC_BAD_INPUT, "%" PRId64 " sizes for an input %s", sizes.count, QC_SHAPE_STR(s));
    for (int k = 0; k < f->count; k++) {
        if (sizes.known && sizes.value[k] < 0)
            return qc_fail(st, QC_BAD_INPUT, "the size of axis %d is %" PRId64, f->axis[k], sizes.value[k]);
        known = known && s->dim[f->axis[k]] > 0;
    }
    /* The scale for sizes that keep the proportions: the smallest or the largest of the scales of the sizes. */
    double shared = 0;
    for (int k = 0; sizes.known && known && f->policy != QC_RESIZE_STRETCH && k < f->count; k++) {
        const double scale = (double)sizes.value[k] / (double)s->dim[f->axis[k]];
        if (k == 0 || (f->policy == QC_RESIZE_NOT_LARGER ? scale < shared : scale > shared)) shared = scale;
    }
    for (int k = 0; k < f->count; k++) {
        int64_t *d = &s->dim[f->axis[k]];
        if (!sizes.known || (f->policy != QC_RESIZE_STRETCH && !known))
            *d = QC_FREE;
        else if (f->policy == QC_RESIZE_STRETCH)
            *d = sizes.value[k];
        else if (floor((double)*d * shared + 0.5) < 0x1p40)
            *d = (int64_t)floor((double)*d * shared + 0.5);
        else
            return qc_fail(st, QC_BAD_INPUT, "axis %d becomes too large", f->axis[k]);
    }
    return true;
}

bool qc_infer_resize(struct qc_infer *c, struct qc_status *st)
{
    const struct qc_type *x = qc_in(c, 0);
    bool scales = resize_has(c, 2), sizes = resize_has(c, 3);
    struct qc_shape s = x->shape;
    static const char *const modes[] = {"nearest", "linear", "cubic", NULL};
    static const char *const transforms[] = {"half_pixel", "pytorch_half_pixel",   "align_corners",
                                             "asymmetric", "half_pixel_symmetric", "tf_crop_and_resize",
                                             NULL};
    static const char *const policies[] = {"stretch", "not_larger", "not_smaller", NULL};
    static const char *const roundings[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil", NULL};
    if (!qc_infer_one_of(c, "mode", "nearest", modes, QC_UNSUPPORTED, st) ||
        !qc_infer_one_of(c, "coordinate_transformation_mode", "half_pixel", transforms, QC_UNSUPPORTED, st) ||
        !qc_infer_one_of(c, "keep_aspect_ratio_policy", "stretch", policies, QC_UNSUPPORTED, st) ||
        !qc_infer_one_of(c, "nearest_mode", "round_prefer_floor", roundings, QC_UNSUPPORTED, st))
        return false;
    if (scales == sizes)
        return qc_fail(st, QC_BAD_INPUT, "either scales or sizes must be given, got %s", scales ? "both" : "none");
    struct qc_resize_form f = {.count = 0};
    if (s.rank >= 0 && !qc_resize_form_of(&f, c->node, s.rank, st)) return false;
    if (!(scales ? scale_dims(&s, c, &f, st) : size_dims(&s, c, &f, st))) return false;
    for (int i = 0; i < s.rank && x->shape.rank >= 0; i++)
        if (x->shape.dim[i] == 0 && s.dim[i] > 0)
            return qc_fail(st, QC_BAD_INPUT, "axis %d has no elements to resize", i);
    return qc_infer_set(c, 0, x->dtype, &s, st);
}

bool qc_infer_constant_of_shape(struct qc_infer *c, struct qc_status *st)
{
    const struct qc_attr *value = qc_attr_find(c->node, "value");
    enum qc_dtype t = QC_F32;
    struct qc_list list;
    struct qc_shape s;
    if (value) {
        if (value->kind != QC_ATTR_TENSOR || value->tensor->count != 1)
            return qc_fail(st, QC_BAD_INPUT, "attribute value must be a tensor of one element");
        t = value->tensor->dtype;
    }
    if (!qc_infer_list(&list, c, 0, "the shape", st) || !qc_shape_free(&s, list.count, st)) return false;
    for (int i = 0; list.known && i < s.rank; i++) {
        if (list.value[i] < 0)
            return qc_fail(st, QC_BAD_INPUT, "dimension %d of the shape is %" PRId64, i, list.value[i]);
        s.dim[i] = list.value[i];
    }
    return qc_infer_set(c, 0, t, &s, st);
}

bool qc_infer_range(struct qc_infer *c, struct qc_status *st)
{
    static const char *const names[] = {"start", "limit", "delta"};
    const struct qc_tensor *start = qc_in_constant(c, 0), *limit = qc_in_constant(c, 1), *delta = qc_in_constant(c, 2);
    struct qc_shape s = QC_SHAPE(QC_FREE);
    for (unsigned i = 0; i < 3; i++)
        if (!qc_infer_scalar(c, i, names[i], st)) return false;
    if (!qc_infer_same_dtype(c, 0, 3, st)) return false;
    if (start && limit && delta) {
        /* max(ceil((limit - start) / delta), 0) elements. */
        double n;
        if (qc_dtype_info(start->dtype)->is_float) {
            n = ceil((qc_tensor_float(limit, 0) - qc_tensor_float(start, 0)) / qc_tensor_float(delta, 0));
        } else { /* exact for all int64 numbers, because the span is unsigned */
            int64_t a = qc_tensor_int(start, 0), b = qc_tensor_int(limit, 0), d = qc_tensor_int(delta, 0);
            uint64_t span = d > 0 ? (b > a ? (uint64_t)b - (uint64_t)a : 0) : (a > b ? (uint64_t)a - (uint64_t)b : 0);
            uint64_t step = d > 0 ? (uint64_t)d : -(uint64_t)d;
            if (d == 0) return qc_fail(st, QC_BAD_INPUT, "delta is 0");
            n = span ? (double)((span - 1) / step) + 1 : 0;
        }
        if (!(n < 0x1p40))
            return qc_fail(st, QC_BAD_INPUT, "start, limit and delta give no possible number of elements");
        s.dim[0] = n > 0 ? (int64_t)n : 0;
    }
    return qc_infer_set(c, 0, qc_in(c, 0)->dtype, &s, st);
}

/* Gives the type of attribute "dtype". Fails for an unknown one. */
static bool dtype_attr(enum qc_dtype *out, const struct qc_infer *c, enum qc_dtype otherwise, struct qc_status *st)
{
    const int64_t to = qc_attr_int(c->node, "dtype", qc_dtype_info(otherwise)->onnx);
    *out = to > 0 && to < 1000 ? qc_dtype_from_onnx((int)to) : QC_NONE;
    return *out != QC_NONE || qc_fail(st, QC_UNSUPPORTED, "data type %" PRId64 " is not handled", to);
}

bool qc_infer_random(struct qc_infer *c, struct qc_status *st)
{
    const int64_t *dims;
    const size_t rank = qc_attr_ints(c->node, "shape", &dims);
    struct qc_shape s;
    enum qc_dtype t;
    if (c->node->input_count)
        return dtype_attr(&t, c, qc_in(c, 0)->dtype, st) && qc_infer_set(c, 0, t, &qc_in(c, 0)->shape, st);
    if (!qc_attr_find(c->node, "shape")) return qc_fail(st, QC_BAD_INPUT, "has no attribute shape");
    if (!dtype_attr(&t, c, QC_F32, st) || !qc_shape_free(&s, (int64_t)rank, st)) return false;
    for (size_t i = 0; i < rank; i++) {
        if (dims[i] < 0) return qc_fail(st, QC_BAD_INPUT, "dimension %zu of the shape is %" PRId64, i, dims[i]);
        s.dim[i] = dims[i];
    }
    return qc_infer_set(c, 0, t, &s, st);
}

bool qc_infer_multinomial(struct qc_infer *c, struct qc_status *st)
{
    const struct qc_type *x = qc_in(c, 0);
    const struct qc_shape s =
        QC_SHAPE(x->shape.rank < 0 ? QC_FREE : x->shape.dim[0], qc_attr_int(c->node, "sample_size", 1));
    enum qc_dtype t;
    if ((x->dtype != QC_F32 && x->dtype != QC_F64) || (x->shape.rank >= 0 && x->shape.rank != 2) || s.dim[1] < 1)
        return qc_fail(st, QC_BAD_INPUT, "a matrix of floats and a positive sample_size are expected");
    if (!dtype_attr(&t, c, QC_I32, st)) return false;
    if (t != QC_I32 && t != QC_I64) return qc_fail(st, QC_BAD_INPUT, "its result must be int32 or int64");
    return qc_infer_set(c, 0, t, &s, st);
}

/* ai.onnx.ml: an input [N,features] or [features] of numbers. */
static bool ml_rows(int64_t *rows, const struct qc_infer *c, struct qc_status *st)
{
    const struct qc_type *x = qc_in(c, 0);
    if (x->dtype != QC_F32 && x->dtype != QC_F64 && x->dtype != QC_I32 && x->dtype != QC_I64)
        return qc_fail(st, QC_UNSUPPORTED, "an input of %s is not handled", qc_dtype_info(x->dtype)->name);
    if (x->shape.rank >= 0 && x->shape.rank != 1 && x->shape.rank != 2)
        return qc_fail(st, QC_BAD_INPUT, "rows of features are expected");
    *rows = x->shape.rank < 0 ? QC_FREE : x->shape.rank == 1 ? 1 : x->shape.dim[0];
    return true;
}

bool qc_infer_ml_regressor(struct qc_infer *c, struct qc_status *st)
{
    struct qc_shape s = QC_SHAPE(QC_FREE, qc_attr_int(c->node, "n_targets", 1));
    if (s.dim[1] < 1) return qc_fail(st, QC_BAD_INPUT, "it has no targets");
    const bool wide = c->node->op == QC_OP_TreeEnsemble && qc_in(c, 0)->dtype == QC_F64;
    return ml_rows(&s.dim[0], c, st) && qc_infer_set(c, 0, wide ? QC_F64 : QC_F32, &s, st);
}

/* Labels and scores: one for each class or, of support vectors of more than two classes, for each pair. */
bool qc_infer_ml_classifier(struct qc_infer *c, struct qc_status *st)
{
    const int64_t *labels;
    const bool trees = c->node->op == QC_OP_TreeEnsembleClassifier;
    const size_t classes = qc_attr_ints(c->node, trees ? "classlabels_int64s" : "classlabels_ints", &labels);
    struct qc_shape rows = QC_SHAPE(QC_FREE), scores = QC_SHAPE(QC_FREE, (int64_t)classes);
    if (classes < 2 || classes > 65535 || c->node->output_count != 2)
        return qc_fail(st, QC_UNSUPPORTED, "%zu classes with labels in integers and %u outputs are not handled",
                       classes, c->node->output_count);
    if (!trees && classes > 2 && qc_attr_find(c->node, "vectors_per_class") && !qc_attr_find(c->node, "prob_a"))
        scores.dim[1] = (int64_t)(classes * (classes - 1) / 2);
    if (!ml_rows(&rows.dim[0], c, st)) return false;
    scores.dim[0] = rows.dim[0];
    return qc_infer_set(c, 0, QC_I64, &rows, st) && qc_infer_set(c, 1, QC_F32, &scores, st);
}

/* DFT, STFT, MelWeightMatrix: sizes depend on inputs. */

enum { LONGEST = 1 << 30 };

/* Gives the number in input i: QC_FREE if it is not known, `otherwise` if the input is absent. */
static bool number_input(int64_t *out, const struct qc_infer *c, unsigned i, const char *what, int64_t otherwise,
                         struct qc_status *st)
{
    *out = otherwise;
    if (!qc_has_in(c, i)) return true;
    const struct qc_tensor *t = qc_in_constant(c, i);
    if (!qc_infer_index_type(c, i, what, st) || !qc_infer_scalar(c, i, what, st)) return false;
    *out = t && t->count ? qc_tensor_int(t, 0) : QC_FREE;
    if (t && t->count && (*out < 1 || *out > LONGEST)) return qc_fail(st, QC_BAD_INPUT, "%s is %" PRId64, what, *out);
    return true;
}

bool qc_infer_dft(struct qc_infer *c, struct qc_status *st)
{
    const struct qc_type *x = qc_in(c, 0);
    const bool inverse = qc_attr_int(c->node, "inverse", 0) != 0, onesided = qc_attr_int(c->node, "onesided", 0) != 0;
    struct qc_shape s = x->shape;
    int64_t n, met;
    int axis = 0;
    if (!qc_infer_same_float(c, 0, 1, st)) return false;
    if (s.rank < 0) return qc_infer_set(c, 0, x->dtype, &s, st);
    struct qc_list at = {.known = true, .count = 1, .value = {-2}};
    if (qc_has_in(c, 2) && !qc_infer_list(&at, c, 2, "the axis", st)) return false;
    if (s.rank < 2 || (!qc_dim_meet(&met, s.dim[s.rank - 1], 1) && !qc_dim_meet(&met, s.dim[s.rank - 1], 2)))
        return qc_fail(st, QC_BAD_INPUT, "the last axis must hold one real or two complex numbers");
    if (!at.known) {
        for (int i = 0; i + 1 < s.rank; i++) s.dim[i] = QC_FREE;
    } else {
        if (!qc_axis_of(&axis, at.value[0], s.rank, st)) return false;
        if (axis == s.rank - 1) return qc_fail(st, QC_BAD_INPUT, "the last axis holds the parts of complex numbers");
        const int64_t there = s.dim[axis] == QC_FREE ? QC_FREE
                              : inverse && onesided  ? 2 * (s.dim[axis] - 1)
                                                     : s.dim[axis];
        if (!number_input(&n, c, 1, "dft_length", there, st)) return false;
        if (n == 0 || n > LONGEST) return qc_fail(st, QC_BAD_INPUT, "a length of %" PRId64, n);
        s.dim[axis] = n == QC_FREE || !onesided || inverse ? n : n / 2 + 1;
    }
    s.dim[s.rank - 1] = inverse && onesided ? 1 : 2;
    return qc_infer_set(c, 0, x->dtype, &s, st);
}

bool qc_infer_stft(struct qc_infer *c, struct qc_status *st)
{
    const struct qc_type *x = qc_in(c, 0);
    int64_t step, n, met;
    if (!qc_infer_same_float(c, 0, 1, st)) return false;
    if (x->shape.rank >= 0 && x->shape.rank != 2 && x->shape.rank != 3)
        return qc_fail(st, QC_BAD_INPUT, "a signal [N,L,1] or [N,L,2] is expected");
    const bool ranked = x->shape.rank >= 0;
    const int64_t length = ranked ? x->shape.dim[1] : QC_FREE;
    const struct qc_shape *window = qc_has_in(c, 2) ? &qc_in(c, 2)->shape : NULL;
    if (window && window->rank >= 0 && window->rank != 1) return qc_fail(st, QC_BAD_INPUT, "the window must be a list");
    if (window && qc_in(c, 2)->dtype != x->dtype)
        return qc_fail(st, QC_BAD_INPUT, "the window must be of the type of the signal");
    const int64_t framed = window ? (window->rank == 1 ? window->dim[0] : QC_FREE) : length;
    if (!number_input(&step, c, 1, "frame_step", QC_FREE, st) || !number_input(&n, c, 3, "frame_length", framed, st))
        return false;
    if (window && window->rank == 1 && !qc_dim_meet(&met, n, window->dim[0]))
        return qc_fail(st, QC_BAD_INPUT, "a window of %" PRId64 " for frames of %" PRId64, window->dim[0], n);
    if (n == 0 || (n != QC_FREE && length != QC_FREE && n > length))
        return qc_fail(st, QC_BAD_INPUT, "frames of %" PRId64 " of a signal of %" PRId64, n, length);
    const bool known = step != QC_FREE && n != QC_FREE && length != QC_FREE;
    const struct qc_shape s = QC_SHAPE(ranked ? x->shape.dim[0] : QC_FREE, known ? (length - n) / step + 1 : QC_FREE,
                                       n == QC_FREE                          ? QC_FREE
                                       : qc_attr_int(c->node, "onesided", 1) ? n / 2 + 1
                                                                             : n,
                                       2);
    return qc_infer_set(c, 0, x->dtype, &s, st);
}

bool qc_infer_mel_weights(struct qc_infer *c, struct qc_status *st)
{
    const int64_t to = qc_attr_int(c->node, "output_datatype", 1);
    const enum qc_dtype t = to > 0 && to < 1000 ? qc_dtype_from_onnx((int)to) : QC_NONE;
    int64_t bands, n, rate;
    if (t == QC_NONE) return qc_fail(st, QC_UNSUPPORTED, "data type %" PRId64 " is not handled", to);
    if (!number_input(&bands, c, 0, "num_mel_bins", QC_FREE, st) ||
        !number_input(&n, c, 1, "dft_length", QC_FREE, st) || !number_input(&rate, c, 2, "sample_rate", QC_FREE, st) ||
        !qc_infer_scalar(c, 3, "lower_edge_hertz", st) || !qc_infer_scalar(c, 4, "upper_edge_hertz", st))
        return false;
    const struct qc_shape s = QC_SHAPE(n == QC_FREE ? QC_FREE : n / 2 + 1, bands);
    return qc_infer_set(c, 0, t, &s, st);
}
