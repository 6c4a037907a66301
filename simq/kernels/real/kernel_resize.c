// SPDX-License-Identifier: Apache-2.0
/* Resize-19. Nearest gathers elements of any type; linear and cubic are separable: one float32 pass per axis that
   changes. */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/checked.h"
#include "simq/core/kernel_util.h"

/* ---- The input elements that make each output element along one axis. The arithmetic is float32 in the order of
   ONNX Runtime, so ties round the same way. ---- */

enum resize_mode { NEAREST, LINEAR, CUBIC };
enum resize_coordinate {
    HALF_PIXEL,
    HALF_PIXEL_SYMMETRIC,
    PYTORCH_HALF_PIXEL,
    ALIGN_CORNERS,
    ASYMMETRIC,
    TF_CROP_AND_RESIZE
};
enum resize_nearest { ROUND_PREFER_FLOOR, ROUND_PREFER_CEIL, FLOOR, CEIL };

struct resize_options {
    enum resize_mode mode;
    enum resize_coordinate coordinate;
    enum resize_nearest nearest;
    float cubic_a;
    bool exclude_outside;
    bool antialias; /* linear and cubic: a shrinking axis averages all elements that it covers */
};

struct resize_axis {
    int64_t in, out;          /* sizes, both positive */
    float scale;              /* out / in as given by the model, positive */
    float length;             /* in * scale before rounding to out, or out: the length that ONNX aligns corners with */
    float roi_begin, roi_end; /* TF_CROP_AND_RESIZE */
};

/* Output i is the sum over k < taps of weight[i*taps + k] * input[index[i*taps + k]]. */
struct resize_taps {
    int64_t taps;
    int64_t *index; /* [out*taps], inside the input */
    float *weight;  /* [out*taps] */
    bool *outside;  /* [out] for TF_CROP_AND_RESIZE: the coordinate is outside the input; else NULL */
    bool identity;
};

/* Returns the input position of output i, in elements. */
static float coordinate(const struct resize_axis *x, enum resize_coordinate how, int64_t i)
{
    const float at = (float)i, in = (float)x->in, out = (float)x->out;
    switch (how) {
    case HALF_PIXEL: return (at + 0.5f) / x->scale - 0.5f;
    case HALF_PIXEL_SYMMETRIC: {
        const float adjustment = out / (x->scale * in), center = in / 2;
        return center * (1 - adjustment) + (at + 0.5f) / x->scale - 0.5f;
    }
    case PYTORCH_HALF_PIXEL: return x->out > 1 ? (at + 0.5f) / x->scale - 0.5f : 0;
    case ALIGN_CORNERS: return x->out == 1 || x->length == 1 ? 0 : at * (in - 1) / (x->length - 1);
    case ASYMMETRIC: return at / x->scale;
    case TF_CROP_AND_RESIZE:
        if (x->out > 1) return x->roi_begin * (in - 1) + at * (x->roi_end - x->roi_begin) * (in - 1) / (out - 1);
        return 0.5f * (x->roi_begin + x->roi_end) * (in - 1);
    }
    return at;
}

static float round_nearest(float v, enum resize_nearest how)
{
    switch (how) {
    case ROUND_PREFER_FLOOR: return ceilf(v - 0.5f);
    case ROUND_PREFER_CEIL: return roundf(v); /* ties below 0 do not matter: all are clamped */
    case FLOOR: return floorf(v);
    case CEIL: return ceilf(v);
    }
    return v;
}

static int64_t clamp(float v, int64_t n)
{
    if (!(v > 0)) return 0;
    return v < (float)(n - 1) ? (int64_t)v : n - 1;
}

/* Keys' cubic convolution kernel with free parameter a (IEEE Trans. ASSP 29, 1981). */
static float cubic(float v, float a)
{
    v = fabsf(v);
    if (v <= 1) return ((a + 2) * v - (a + 3)) * v * v + 1;
    return v < 2 ? ((a * v - 5 * a) * v + 8 * a) * v - 4 * a : 0;
}

static void nearest_taps(struct resize_taps *t, const struct resize_axis *x, const struct resize_options *o)
{
    for (int64_t i = 0; i < x->out; i++) {
        t->index[i] = clamp(round_nearest(coordinate(x, o->coordinate, i), o->nearest), x->in);
        t->weight[i] = 1;
    }
}

static void linear_taps(struct resize_taps *t, const struct resize_axis *x, const struct resize_options *o)
{
    for (int64_t i = 0; i < x->out; i++) {
        const float last = (float)(x->in - 1);
        float at = coordinate(x, o->coordinate, i);
        at = at > 0 ? (at < last ? at : last) : 0;
        int64_t *index = &t->index[2 * i];
        float *weight = &t->weight[2 * i];
        index[0] = clamp(at, x->in);
        index[1] = index[0] + 1 < x->in ? index[0] + 1 : x->in - 1;
        weight[1] = index[0] == index[1] ? 0 : at - (float)index[0];
        weight[0] = 1 - weight[1];
    }
}

/* Four neighbours; outside ones take the border value, or are excluded. */
static void cubic_taps(struct resize_taps *t, const struct resize_axis *x, const struct resize_options *o)
{
    for (int64_t i = 0; i < x->out; i++) {
        const float at = coordinate(x, o->coordinate, i), first = floorf(at) - 1;
        float *weight = &t->weight[4 * i], sum = 0;
        for (int k = 0; k < 4; k++) {
            const float place = first + (float)k;
            const bool inside = place >= 0 && place < (float)x->in;
            t->index[4 * i + k] = clamp(place, x->in);
            weight[k] = inside || !o->exclude_outside ? cubic(place - at, o->cubic_a) : 0;
            sum += weight[k];
        }
        for (int k = 0; k < 4 && o->exclude_outside && sum != 0; k++) weight[k] /= sum;
    }
}

/* All neighbours that the stretched kernel covers, with weights normalised to the sum 1. */
static void wide_taps(struct resize_taps *t, const struct resize_axis *x, const struct resize_options *o)
{
    const bool linear = o->mode == LINEAR;
    const float scale = fminf(x->scale, 1);
    const int64_t before = t->taps / 2 - 1;
    for (int64_t i = 0; i < x->out; i++) {
        const float at = coordinate(x, o->coordinate, i), base = ceilf(at) - 1;
        int64_t *index = &t->index[t->taps * i];
        float *weight = &t->weight[t->taps * i], sum = 0, kept = 0;
        for (int64_t k = 0; k < t->taps; k++) {
            const float place = base + (float)(k - before), away = fabsf(place - at) * scale;
            const bool inside = place >= 0 && place < (float)x->in;
            index[k] = clamp(place, x->in);
            weight[k] = linear ? fmaxf(1 - away, 0) : cubic(away, o->cubic_a);
            sum += weight[k];
            if (!inside && o->exclude_outside) weight[k] = 0;
            kept += weight[k];
        }
        if (o->exclude_outside) sum = kept;
        for (int64_t k = 0; k < t->taps && sum != 0; k++) weight[k] /= sum;
    }
}

/* Computes the taps. Arrays are allocated in the arena. Fails if out of memory. */
static bool resize_taps_of(struct resize_taps *out, const struct resize_axis *x, const struct resize_options *o,
                           struct qc_arena *a, struct qc_status *st)
{
    const bool crop = o->coordinate == TF_CROP_AND_RESIZE;
    struct resize_taps t = {.taps = o->mode == NEAREST ? 1 : o->mode == LINEAR ? 2 : 4};
    size_t count;
    const bool wide = o->antialias && o->mode != NEAREST;
    /* On either side, as many elements as the kernel covers when it is stretched by 1 / scale. */
    const float reach = o->mode == LINEAR ? 1 : 2;
    if (wide) t.taps = 2 + 2 * -(int64_t)(floorf(-reach / fminf(x->scale, 1)) + 1);
    t.identity = x->in == x->out && x->scale == 1 && !crop;
    if (!qc_mul_size(&count, (size_t)x->out, (size_t)t.taps)) return qc_fail_memory(st, UINT64_MAX);
    t.index = QC_NEW_ARRAY(a, int64_t, count, st);
    t.weight = QC_NEW_ARRAY(a, float, count, st);
    if (!t.index || !t.weight) return false;
    if (crop && !(t.outside = QC_NEW_ARRAY(a, bool, x->out, st))) return false;
    for (int64_t i = 0; t.outside && i < x->out; i++) {
        const float at = coordinate(x, o->coordinate, i);
        t.outside[i] = !(at >= 0 && at <= (float)(x->in - 1));
    }
    if (wide) {
        wide_taps(&t, x, o);
        *out = t;
        return true;
    }
    switch (o->mode) {
    case NEAREST: nearest_taps(&t, x, o); break;
    case LINEAR: linear_taps(&t, x, o); break;
    case CUBIC: cubic_taps(&t, x, o); break;
    }
    *out = t;
    return true;
}

struct state {
    struct resize_options options;
    struct resize_taps taps[QC_RANK_MAX];
    bool crop;
    float extrapolation;
    int pass_count;
    int pass[QC_RANK_MAX]; /* axes in the order of the passes: those that shrink most come first */
    size_t middle;         /* elements of each of the two intermediate results */
};

struct word {
    const char *name;
    int value;
};

static bool choose(int *out, const struct word *words, size_t count, const struct qc_node *n, const char *attribute,
                   const char *otherwise, struct qc_status *st)
{
    const char *name = qc_attr_string(n, attribute, otherwise);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(words[i].name, name) != 0) continue;
        *out = words[i].value;
        return true;
    }
    return qc_fail(st, QC_UNSUPPORTED, "attribute %s \"%s\" is not handled", attribute, name);
}

static bool read_options(struct state *s, const struct qc_node *n, struct qc_status *st)
{
    static const struct word modes[] = {{"nearest", NEAREST}, {"linear", LINEAR}, {"cubic", CUBIC}};
    static const struct word coordinates[] = {
        {"half_pixel", HALF_PIXEL},
        {"half_pixel_symmetric", HALF_PIXEL_SYMMETRIC},
        {"pytorch_half_pixel", PYTORCH_HALF_PIXEL},
        {"align_corners", ALIGN_CORNERS},
        {"asymmetric", ASYMMETRIC},
        {"tf_crop_and_resize", TF_CROP_AND_RESIZE},
    };
    static const struct word nearest[] = {
        {"round_prefer_floor", ROUND_PREFER_FLOOR},
        {"round_prefer_ceil", ROUND_PREFER_CEIL},
        {"floor", FLOOR},
        {"ceil", CEIL},
    };
    int mode = 0, coordinate = 0, rounding = 0;
    if (!choose(&mode, modes, sizeof modes / sizeof *modes, n, "mode", "nearest", st) ||
        !choose(&coordinate, coordinates, sizeof coordinates / sizeof *coordinates, n, "coordinate_transformation_mode",
                "half_pixel", st) ||
        !choose(&rounding, nearest, sizeof nearest / sizeof *nearest, n, "nearest_mode", "round_prefer_floor", st))
        return false;
    s->options = (struct resize_options){
        .mode = (enum resize_mode)mode,
        .coordinate = (enum resize_coordinate)coordinate,
        .nearest = (enum resize_nearest)rounding,
        .cubic_a = qc_attr_float(n, "cubic_coeff_a", -0.75f),
        .exclude_outside = qc_attr_int(n, "exclude_outside", 0) != 0,
        .antialias = qc_attr_int(n, "antialias", 0) != 0,
    };
    s->crop = coordinate == TF_CROP_AND_RESIZE;
    s->extrapolation = qc_attr_float(n, "extrapolation_value", 0);
    return true;
}

/* Reads the numbers of an optional constant input; *count is 0 if it is absent or empty. */
static bool read_numbers(double out[2 * QC_RANK_MAX], size_t *count, const struct qc_prepare *p, unsigned i,
                         const char *what, struct qc_status *st)
{
    *count = 0;
    if (!qc_kernel_has(p, i)) return true;
    const struct qc_view *v = &p->in[i];
    const size_t n = qc_view_count(v);
    if (n > 2 * QC_RANK_MAX) return qc_fail(st, QC_BAD_INPUT, "input \"%s\" has %zu elements", what, n);
    if (n && !v->data) return qc_fail(st, QC_UNSUPPORTED, "input \"%s\" must be constant", what);
    const struct qc_tensor t = {.dtype = v->dtype, .count = n, .data = v->data};
    for (size_t k = 0; k < n; k++) out[k] = qc_tensor_float(&t, k);
    *count = n;
    return true;
}

/* Sets the scale of each axis: as given, or from the sizes. */
static bool read_axes(struct resize_axis axes[QC_RANK_MAX], const struct qc_prepare *p, const struct state *s,
                      struct qc_status *st)
{
    double roi[2 * QC_RANK_MAX] = {0}, scales[2 * QC_RANK_MAX] = {0}, sizes[2 * QC_RANK_MAX] = {0};
    size_t roi_count, scale_count, size_count;
    struct qc_resize_form form;
    if (!qc_resize_form_of(&form, p->node, p->in[0].rank, st)) return false;
    const size_t rank = (size_t)form.count;
    for (int d = 0; d < p->in[0].rank; d++) {
        const int64_t in = p->in[0].dim[d], out = p->out[0].dim[d];
        axes[d] = (struct resize_axis){.in = in, .out = out, .scale = 1, .length = (float)out, .roi_end = 1};
    }
    if (!read_numbers(roi, &roi_count, p, 1, "roi", st) || !read_numbers(scales, &scale_count, p, 2, "scales", st) ||
        !read_numbers(sizes, &size_count, p, 3, "sizes", st))
        return false;
    if (scale_count ? scale_count != rank : size_count != rank)
        return qc_fail(st, QC_BAD_INPUT,
                       "inputs \"scales\" and \"sizes\" have %zu and %zu elements, expected %zu in one of them",
                       scale_count, size_count, rank);
    if (s->crop && roi_count != 2 * rank)
        return qc_fail(st, QC_BAD_INPUT, "input \"roi\" has %zu elements, expected %zu", roi_count, 2 * rank);
    double shared = 0; /* the scale of all axes, if proportions are kept */
    for (size_t d = 0; d < rank && form.policy != QC_RESIZE_STRETCH; d++) {
        const double scale = sizes[d] / (double)axes[form.axis[d]].in;
        const bool better = form.policy == QC_RESIZE_NOT_LARGER ? scale < shared : scale > shared;
        if (d == 0 || better) shared = scale;
    }
    for (size_t d = 0; d < rank; d++) {
        struct resize_axis *x = &axes[form.axis[d]];
        x->scale = (float)(scale_count ? scales[d] : shared > 0 ? shared : sizes[d] / (double)x->in);
        if (scale_count) x->length = x->scale * (float)x->in;
        x->roi_begin = s->crop ? (float)roi[d] : 0;
        x->roi_end = s->crop ? (float)roi[rank + d] : 1;
        if (!(x->scale > 0) || !isfinite(x->scale))
            return qc_fail(st, QC_BAD_INPUT, "scale of axis %zu is %g, expected a positive number", d,
                           (double)x->scale);
    }
    return true;
}

static bool prepare_resize(struct qc_prepare *p, struct qc_status *st)
{
    struct state *s = QC_NEW_STATE(p, struct state, st);
    struct resize_axis axes[QC_RANK_MAX];
    if (!s || !read_options(s, p->node, st)) return false;
    if (qc_view_count(&p->out[0]) == 0) return true;
    if (qc_view_count(&p->in[0]) == 0) return qc_fail(st, QC_BAD_INPUT, "input has no elements");
    if (!read_axes(axes, p, s, st)) return false;
    for (int d = 0; d < p->in[0].rank; d++)
        if (!resize_taps_of(&s->taps[d], &axes[d], &s->options, p->arena, st)) return false;
    if (s->options.mode == NEAREST) return true;
    if (p->in[0].dtype != QC_F32) return qc_kernel_no_type(p->in[0].dtype, st);
    int64_t dim[QC_RANK_MAX];
    for (int d = 0; d < p->in[0].rank; d++) {
        dim[d] = p->in[0].dim[d];
        if (s->taps[d].identity) continue;
        int at = s->pass_count++;
        for (; at > 0; at--) {
            const int before = s->pass[at - 1];
            const double growth = (double)p->out[0].dim[d] / (double)p->in[0].dim[d];
            if ((double)p->out[0].dim[before] / (double)p->in[0].dim[before] <= growth) break;
            s->pass[at] = before;
        }
        s->pass[at] = d;
    }
    for (int i = 0; i + 1 < s->pass_count; i++) {
        dim[s->pass[i]] = p->out[0].dim[s->pass[i]];
        const struct qc_shape shape = qc_shape_of(p->in[0].rank, dim);
        size_t count;
        if (!qc_shape_count(&count, &shape)) return qc_fail_memory(st, UINT64_MAX);
        if (count > s->middle) s->middle = count;
    }
    s->middle = (s->middle + 15) / 16 * 16;
    if (qc_mul_size(&p->scratch, s->middle, 2 * sizeof(float))) return true;
    return qc_fail_memory(st, UINT64_MAX);
}

/* Computes output row `row_out` of n elements from the rows of its taps, which are `along` apart. */
static void blend(float *y, int64_t sy, const float *x, int64_t sx, int64_t along, int64_t n,
                  const struct resize_taps *t, int64_t row_out)
{
    const int64_t taps = t->taps, *index = t->index + row_out * taps;
    const float *weight = t->weight + row_out * taps;
    if (taps == 2) {
        const float *a = x + index[0] * along, *b = x + index[1] * along;
        const float wa = weight[0], wb = weight[1];
        if (sx == 1 && sy == 1)
            for (int64_t i = 0; i < n; i++) y[i] = a[i] * wa + b[i] * wb;
        else
            for (int64_t i = 0; i < n; i++) y[i * sy] = a[i * sx] * wa + b[i * sx] * wb;
        return;
    }
    for (int64_t i = 0; i < n; i++) y[i * sy] = x[index[0] * along + i * sx] * weight[0];
    for (int64_t k = 1; k < taps; k++) {
        const float *row = x + index[k] * along, w = weight[k];
        for (int64_t i = 0; i < n; i++) y[i * sy] += row[i * sx] * w;
    }
}

static void pass(const struct qc_view *to, const struct qc_view *from, int axis, const struct resize_taps *t)
{
    const int64_t out = to->dim[axis];
    struct qc_view views[2] = {*to, *from};
    views[0].dim[axis] = views[1].dim[axis] = 1;
    unsigned none = 0;
    qc_views_simplify(2, views, &none);
    const int inner = views[0].rank - 1;
    const int64_t sy = to->stride[axis], sx = from->stride[axis];
    const int64_t ly = views[0].stride[inner], lx = views[1].stride[inner], n = views[0].dim[inner];
    const bool rows = n > 1 && ly < sy; /* the axis is not the innermost */
    QC_WALK(w, rows ? 1U << inner : 0, &views[0], &views[1]) {
        float *y = qc_at(&views[0], w.at[0]);
        const float *x = qc_at(&views[1], w.at[1]);
        for (int64_t i = 0; i < out; i++) {
            if (rows) {
                blend(y + i * sy, ly, x, lx, sx, n, t, i);
                continue;
            }
            const int64_t *index = t->index + i * t->taps;
            const float *weight = t->weight + i * t->taps;
            float sum = x[index[0] * sx] * weight[0];
            for (int64_t k = 1; k < t->taps; k++) sum += x[index[k] * sx] * weight[k];
            y[i * sy] = sum;
        }
    }
}

/* Returns dense strides with the dimensions in the order of another view. */
static struct qc_view dense_like(const struct qc_view *v, const struct qc_view *order, void *data)
{
    struct qc_view r = *v;
    int dims[QC_RANK_MAX];
    r.data = data;
    for (int d = 0; d < v->rank; d++) {
        int at = d;
        for (; at > 0 && order->stride[dims[at - 1]] < order->stride[d]; at--) dims[at] = dims[at - 1];
        dims[at] = d;
    }
    int64_t step = 1;
    for (int i = v->rank; i-- > 0;) {
        r.stride[dims[i]] = step;
        step *= r.dim[dims[i]];
    }
    return r;
}

static bool run_resize(const struct qc_run *r, struct qc_status *st)
{
    const struct state *s = r->state;
    const struct qc_view *to = &r->out[0];
    if (qc_view_count(to) == 0) return true;
    if (s->options.mode == NEAREST) {
        const int64_t *map[QC_RANK_MAX] = {NULL};
        for (int d = 0; d < to->rank; d++) map[d] = s->taps[d].identity ? NULL : s->taps[d].index;
        qc_view_copy_mapped(to, &r->in[0], map);
    } else if (s->pass_count == 0) {
        qc_view_copy(to, &r->in[0]);
    }
    struct qc_view from = r->in[0];
    for (int i = 0; i < s->pass_count; i++) {
        const int axis = s->pass[i];
        struct qc_view next = from;
        next.dim[axis] = to->dim[axis];
        next = i + 1 < s->pass_count ? dense_like(&next, to, (float *)r->scratch + (size_t)(i % 2) * s->middle) : *to;
        pass(&next, &from, axis, &s->taps[axis]);
        from = next;
    }
    if (s->crop) {
        uint64_t element = 0;
        qc_element_of(&element, to->dtype, (double)s->extrapolation);
        for (int d = 0; d < to->rank; d++) {
            for (int64_t i = 0; i < to->dim[d]; i++) {
                const struct qc_view part = qc_view_part(to, d, i, 1);
                if (s->taps[d].outside[i]) qc_view_fill(&part, &element);
            }
        }
    }
    return true;
}

QC_KERNEL(resize, .order = QC_ORDER_ANY, .prepare = prepare_resize, .run = run_resize);
