// SPDX-License-Identifier: Apache-2.0
/* Interpolation between the elements of a tensor: GridSample-22, RoiAlign-22, MaxRoiPool-22, DeformConv-22.
   Coordinates are computed in double. */
#include <math.h>
#include <string.h>

#include "simq/core/kernel_util.h"

enum { SPATIAL = QC_RANK_MAX - 2, CUBIC = 4 };

/* --- GridSample --- */

enum mode { NEAREST, LINEAR, CUBICALLY };
enum padding { ZEROS, BORDER, REFLECTION };

struct grid {
    enum mode mode;
    enum padding padding;
    bool align;
};

static bool prepare_grid(struct qc_prepare *p, struct qc_status *st)
{
    const char *mode = qc_attr_string(p->node, "mode", "linear"),
               *padding = qc_attr_string(p->node, "padding_mode", "zeros");
    struct grid *g = QC_NEW_STATE(p, struct grid, st);
    if (!g) return false;
    *g = (struct grid){.mode = strcmp(mode, "nearest") == 0 ? NEAREST
                               : strcmp(mode, "cubic") == 0 ? CUBICALLY
                                                            : LINEAR,
                       .padding = strcmp(padding, "border") == 0       ? BORDER
                                  : strcmp(padding, "reflection") == 0 ? REFLECTION
                                                                       : ZEROS,
                       .align = qc_attr_int(p->node, "align_corners", 0) != 0};
    return qc_kernel_takes_real(p, st);
}

/* Reflects v at lo and hi as often as needed. */
static double reflected(double v, double lo, double hi)
{
    const double range = hi - lo;
    if (!(range > 0) || !isfinite(v)) return lo;
    const double away = v < lo ? lo - v : v - hi;
    if (v >= lo && v <= hi) return v;
    const double turns = floor(away / range), rest = away - turns * range;
    const bool even = fmod(turns, 2) == 0;
    return v < lo ? (even ? lo + rest : hi - rest) : (even ? hi - rest : lo + rest);
}

/* Returns the element for position i of n, or -1 for zero padding. */
static int64_t element_of(const struct grid *g, double i, int64_t n)
{
    switch (g->padding) {
    case ZEROS: return i >= 0 && i < (double)n ? (int64_t)i : -1;
    case BORDER: break;
    case REFLECTION:
        i = nearbyint(g->align ? reflected(i, 0, (double)n - 1) : reflected(i, -0.5, (double)n - 0.5));
        break;
    }
    return !(i > 0) ? 0 : i >= (double)n ? n - 1 : (int64_t)i;
}

/* Elements along one dimension and their weights. */
struct taps {
    int count;
    int64_t at[CUBIC]; /* -1: zero */
    double weight[CUBIC];
};

static void sample_taps(struct taps *t, const struct grid *g, double v, int64_t n)
{
    double x = g->align ? (v + 1) / 2 * ((double)n - 1) : ((v + 1) * (double)n - 1) / 2;
    if (g->mode != CUBICALLY && g->padding == BORDER) x = fmin(fmax(x, 0), (double)n - 1);
    if (g->mode != CUBICALLY && g->padding == REFLECTION)
        x = g->align ? reflected(x, 0, (double)n - 1) : reflected(x, -0.5, (double)n - 0.5);
    if (!isfinite(x)) x = g->padding == ZEROS ? -2 : 0;
    if (g->mode == NEAREST) {
        *t = (struct taps){.count = 1, .at = {element_of(g, nearbyint(x), n)}, .weight = {1}};
        return;
    }
    const double first = floor(x), part = x - first;
    t->count = g->mode == LINEAR ? 2 : CUBIC;
    if (g->mode == LINEAR) {
        t->weight[0] = 1 - part;
        t->weight[1] = part;
    } else {
        const double a = -0.75; /* of the cubic convolution kernel */
        t->weight[0] = ((a * (part + 1) - 5 * a) * (part + 1) + 8 * a) * (part + 1) - 4 * a;
        t->weight[1] = ((a + 2) * part - (a + 3)) * part * part + 1;
        t->weight[2] = ((a + 2) * (1 - part) - (a + 3)) * (1 - part) * (1 - part) + 1;
        t->weight[3] = 1 - t->weight[0] - t->weight[1] - t->weight[2];
    }
    for (int i = 0; i < t->count; i++) t->at[i] = element_of(g, first + i - (g->mode == CUBICALLY), n);
}

/* Returns the weighted sum over all combinations of taps. */
static double interpolate(const struct qc_view *x, int64_t offset, const struct taps *taps, int dims)
{
    int at[SPATIAL] = {0};
    double sum = 0;
    for (;;) {
        double weight = 1;
        int64_t from = offset;
        bool zero = false;
        for (int d = 0; d < dims; d++) {
            weight *= taps[d].weight[at[d]];
            zero = zero || taps[d].at[at[d]] < 0;
            from += taps[d].at[at[d]] * x->stride[d + 2];
        }
        if (!zero) sum += weight * qc_kernel_real(x, from);
        int d = dims;
        while (d-- > 0) {
            if (++at[d] < taps[d].count) break;
            at[d] = 0;
        }
        if (d < 0) return sum;
    }
}

static bool run_grid(const struct qc_run *r, struct qc_status *st)
{
    const struct grid *g = r->state;
    const struct qc_view *x = &r->in[0], *grid = &r->in[1], *y = &r->out[0];
    const int dims = x->rank - 2;
    struct qc_view points = *grid, place = *y;
    struct taps taps[SPATIAL];
    points.rank = place.rank = dims + 1;
    for (int d = 0; d <= dims; d++) {
        place.dim[d] = grid->dim[d];
        place.stride[d] = y->stride[d ? d + 1 : 0];
    }
    QC_WALK(w, 0, &points, &place) {
        for (int d = 0; d < dims; d++) { /* the grid has the last dimension first */
            const double v = qc_kernel_real(grid, w.at[0] + (dims - 1 - d) * grid->stride[dims + 1]);
            sample_taps(&taps[d], g, v, x->dim[d + 2]);
        }
        for (int64_t c = 0; c < x->dim[1]; c++)
            qc_kernel_put_real(y, w.at[1] + c * y->stride[1],
                               interpolate(x, w.index[0] * x->stride[0] + c * x->stride[1], taps, dims));
    }
    return true;
}

/* Bilinear interpolation in a plane; zero padding outside. */
static double plane_at(const struct qc_view *x, int64_t offset, double v, double u)
{
    static const struct grid zeros = {.mode = LINEAR, .padding = ZEROS};
    struct taps taps[2];
    const double at[2] = {v, u};
    for (int d = 0; d < 2; d++) {
        const double first = floor(at[d]), part = at[d] - first;
        taps[d] = (struct taps){.count = 2, .weight = {1 - part, part}};
        for (int i = 0; i < 2; i++) taps[d].at[i] = element_of(&zeros, first + i, x->dim[d + 2]);
    }
    return interpolate(x, offset, taps, 2);
}

/* --- RoiAlign, MaxRoiPool --- */

struct roi {
    double scale, shift;
    int64_t sampling; /* 0: adaptive */
    bool max;
};

static bool prepare_roi(struct qc_prepare *p, struct qc_status *st)
{
    struct roi *s = QC_NEW_STATE(p, struct roi, st);
    if (!s) return false;
    const char *transform = qc_attr_string(p->node, "coordinate_transformation_mode", "half_pixel");
    *s = (struct roi){.scale = (double)qc_attr_float(p->node, "spatial_scale", 1),
                      .shift = strcmp(transform, "half_pixel") == 0 ? 0.5 : 0,
                      .sampling = qc_attr_int(p->node, "sampling_ratio", 0),
                      .max = strcmp(qc_attr_string(p->node, "mode", "avg"), "max") == 0};
    return qc_kernel_takes_real(p, st);
}

/* As plane_at, but points up to one element outside take the border, as in ONNX Runtime and the reference. `max`:
   the largest of the four weighted neighbours instead of their sum. */
static double roi_point(const struct qc_view *x, int64_t offset, double v, double u, bool max)
{
    const double most_v = (double)x->dim[2] - 1, most_u = (double)x->dim[3] - 1;
    if (v < -1 || v > most_v + 1 || u < -1 || u > most_u + 1) return 0;
    v = fmin(fmax(v, 0), most_v);
    u = fmin(fmax(u, 0), most_u);
    if (!max) return plane_at(x, offset, v, u);
    double best = -HUGE_VAL;
    for (int k = 0; k < 4; k++) {
        const double i = fmin(floor(v) + k / 2, most_v), j = fmin(floor(u) + k % 2, most_u);
        const double a = k / 2 ? v - floor(v) : 1 - (v - floor(v)), b = k % 2 ? u - floor(u) : 1 - (u - floor(u));
        best = fmax(best, a * b * qc_kernel_real(x, offset + (int64_t)i * x->stride[2] + (int64_t)j * x->stride[3]));
    }
    return best;
}

static double roi_bin(const struct roi *s, const struct qc_view *x, int64_t offset, const double begin[2],
                      const double size[2])
{
    enum { MOST = 1024 };
    int64_t n[2];
    double sum = 0, best = -HUGE_VAL;
    for (int d = 0; d < 2; d++) {
        const double wanted = s->sampling > 0 ? (double)s->sampling : ceil(size[d]);
        n[d] = wanted >= 1 ? (int64_t)fmin(wanted, MOST) : 0;
    }
    for (int64_t i = 0; i < n[0]; i++)
        for (int64_t j = 0; j < n[1]; j++) {
            const double v = roi_point(x, offset, begin[0] + ((double)i + 0.5) * size[0] / (double)n[0],
                                       begin[1] + ((double)j + 0.5) * size[1] / (double)n[1], s->max);
            sum += v;
            best = fmax(best, v);
        }
    if (n[0] * n[1] == 0) return 0;
    return s->max ? best : sum / (double)(n[0] * n[1]);
}

static bool image_of(int64_t *image, const struct qc_view *x, double given, int64_t roi, struct qc_status *st)
{
    if (given >= 0 && given < (double)x->dim[0]) {
        *image = (int64_t)given;
        return true;
    }
    return qc_fail(st, QC_BAD_INPUT, "region %lld refers to image %g, but there are %lld", (long long)roi, given,
                   (long long)x->dim[0]);
}

static bool run_roi_align(const struct qc_run *r, struct qc_status *st)
{
    const struct roi *s = r->state;
    const struct qc_view *x = &r->in[0], *rois = &r->in[1], *y = &r->out[0];
    for (int64_t k = 0; k < y->dim[0]; k++) {
        double begin[2], size[2];
        int64_t image;
        if (!image_of(&image, x, (double)qc_kernel_int_at(&r->in[2], (size_t)k), k, st)) return false;
        for (int d = 0; d < 2; d++) { /* x comes first */
            const int64_t row = k * rois->stride[0];
            const double from = qc_kernel_real(rois, row + (1 - d) * rois->stride[1]) * s->scale - s->shift,
                         to = qc_kernel_real(rois, row + (3 - d) * rois->stride[1]) * s->scale - s->shift;
            begin[d] = from;
            size[d] = (s->shift > 0 ? to - from : fmax(to - from, 1)) / (double)y->dim[d + 2];
        }
        for (int64_t c = 0; c < y->dim[1]; c++)
            for (int64_t i = 0; i < y->dim[2]; i++)
                for (int64_t j = 0; j < y->dim[3]; j++) {
                    const double bin[2] = {begin[0] + (double)i * size[0], begin[1] + (double)j * size[1]};
                    qc_kernel_put_real(y, k * y->stride[0] + c * y->stride[1] + i * y->stride[2] + j * y->stride[3],
                                       roi_bin(s, x, image * x->stride[0] + c * x->stride[1], bin, size));
                }
    }
    return true;
}

static bool run_roi_pool(const struct qc_run *r, struct qc_status *st)
{
    const struct roi *s = r->state;
    const struct qc_view *x = &r->in[0], *rois = &r->in[1], *y = &r->out[0];
    for (int64_t k = 0; k < y->dim[0]; k++) {
        int64_t image;
        double begin[2], size[2];
        if (!image_of(&image, x, qc_kernel_real(rois, k * rois->stride[0]), k, st)) return false;
        for (int d = 0; d < 2; d++) {
            const int64_t row = k * rois->stride[0];
            begin[d] = round(qc_kernel_real(rois, row + (2 - d) * rois->stride[1]) * s->scale);
            const double end = round(qc_kernel_real(rois, row + (4 - d) * rois->stride[1]) * s->scale);
            size[d] = fmax(end - begin[d] + 1, 1) / (double)y->dim[d + 2];
        }
        for (int64_t c = 0; c < y->dim[1]; c++)
            for (int64_t i = 0; i < y->dim[2]; i++)
                for (int64_t j = 0; j < y->dim[3]; j++) {
                    double lo[2], hi[2], best = 0;
                    bool any = false;
                    for (int d = 0; d < 2; d++) {
                        const double n = (double)x->dim[d + 2], bin = (double)(d ? j : i);
                        lo[d] = fmin(fmax(floor(bin * size[d]) + begin[d], 0), n);
                        hi[d] = fmin(fmax(ceil((bin + 1) * size[d]) + begin[d], 0), n);
                    }
                    for (int64_t v = (int64_t)lo[0]; v < (int64_t)hi[0]; v++)
                        for (int64_t u = (int64_t)lo[1]; u < (int64_t)hi[1]; u++) {
                            const double e = qc_kernel_real(x, image * x->stride[0] + c * x->stride[1] +
                                                                   v * x->stride[2] + u * x->stride[3]);
                            best = any ? fmax(best, e) : e;
                            any = true;
                        }
                    qc_kernel_put_real(y, k * y->stride[0] + c * y->stride[1] + i * y->stride[2] + j * y->stride[3],
                                       best);
                }
    }
    return true;
}

/* --- DeformConv, of planes --- */

struct deform {
    struct qc_window window;
    int64_t groups, offset_groups;
};

static bool prepare_deform(struct qc_prepare *p, struct qc_status *st)
{
    struct deform *s = QC_NEW_STATE(p, struct deform, st);
    if (!s || !qc_kernel_takes_real(p, st) || !qc_window_of(&s->window, p->graph, p->node, st)) return false;
    s->groups = qc_attr_int(p->node, "group", 1);
    s->offset_groups = qc_attr_int(p->node, "offset_group", 1);
    return s->window.spatial == 2 || qc_fail(st, QC_UNSUPPORTED, "only planes are handled");
}

static double deformed(const struct deform *s, const struct qc_run *r, int64_t n, int64_t m, int64_t oi, int64_t oj)
{
    const struct qc_view *x = &r->in[0], *k = &r->in[1], *offset = &r->in[2];
    const struct qc_view *mask = r->input_count > 4 && r->in[4].rank >= 0 ? &r->in[4] : NULL;
    const struct qc_window *w = &s->window;
    const int64_t channels = k->dim[1], first = m / (k->dim[0] / s->groups) * channels,
                  shared = x->dim[1] / s->offset_groups, area = k->dim[2] * k->dim[3];
    double sum = r->input_count > 3 && r->in[3].rank >= 0 ? qc_kernel_real(&r->in[3], m * r->in[3].stride[0]) : 0;
    for (int64_t c = 0; c < channels; c++)
        for (int64_t i = 0; i < k->dim[2]; i++)
            for (int64_t j = 0; j < k->dim[3]; j++) {
                const int64_t point = (first + c) / shared * area + i * k->dim[3] + j;
                const int64_t at = n * offset->stride[0] + oi * offset->stride[2] + oj * offset->stride[3];
                const double dv = qc_kernel_real(offset, at + 2 * point * offset->stride[1]),
                             du = qc_kernel_real(offset, at + (2 * point + 1) * offset->stride[1]);
                const double v = (double)(oi * w->stride[0] - w->pad_begin[0] + i * w->dilation[0]) + dv,
                             u = (double)(oj * w->stride[1] - w->pad_begin[1] + j * w->dilation[1]) + du;
                double e =
                    isfinite(v) && isfinite(u) ? plane_at(x, n * x->stride[0] + (first + c) * x->stride[1], v, u) : 0;
                if (mask)
                    e *= qc_kernel_real(mask, n * mask->stride[0] + point * mask->stride[1] + oi * mask->stride[2] +
                                                  oj * mask->stride[3]);
                sum += e * qc_kernel_real(k, m * k->stride[0] + c * k->stride[1] + i * k->stride[2] + j * k->stride[3]);
            }
    return sum;
}

static bool run_deform(const struct qc_run *r, struct qc_status *st)
{
    const struct qc_view *y = &r->out[0];
    QC_WALK(w, 0, y)
        qc_kernel_put_real(y, w.at[0], deformed(r->state, r, w.index[0], w.index[1], w.index[2], w.index[3]));
    return true;
}

QC_KERNEL(grid_sample, .order = QC_ORDER_ANY, .prepare = prepare_grid, .run = run_grid);
QC_KERNEL(roi_align, .order = QC_ORDER_ANY, .prepare = prepare_roi, .run = run_roi_align);
QC_KERNEL(roi_pool, .order = QC_ORDER_ANY, .prepare = prepare_roi, .run = run_roi_pool);
QC_KERNEL(deform_conv, .order = QC_ORDER_ANY, .prepare = prepare_deform, .run = run_deform);
