// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "simq/kernels/real/product_parts.h"

/* Along one dimension, result out + q * out_step (q < count) reads the data at q * step + offset + t * delta for t <
   taps, with the weights of tap + t * tap_step. A convolution is one such set of results; a transposed convolution
   has one for each remainder modulo its stride. */
struct axis {
    ptrdiff_t count, out, out_step, step, offset, delta, taps, tap, tap_step;
};

static ptrdiff_t common_divisor(ptrdiff_t a, ptrdiff_t b)
{
    while (b) {
        const ptrdiff_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* In a transposed convolution, tap t adds data k to result o if k * stride + t * dilation = o + begin. */
static struct axis axis_of(const struct qc_product_conv_state *s, int i, ptrdiff_t set)
{
    const ptrdiff_t stride = s->stride[i], dilation = s->dilation[i], begin = s->begin[i];
    if (!s->transposed)
        return (struct axis){.count = s->out[i],
                             .out_step = 1,
                             .step = stride,
                             .offset = -begin,
                             .delta = dilation,
                             .taps = s->kernel[i],
                             .tap_step = 1};
    const ptrdiff_t apart = stride / common_divisor(stride, dilation), at = set + begin;
    struct axis a = {.count = (s->out[i] - set + stride - 1) / stride,
                     .out = set,
                     .out_step = stride,
                     .step = 1,
                     .delta = apart * dilation / stride,
                     .tap_step = -apart};
    ptrdiff_t first = 0;
    while (first < apart && first < s->kernel[i] && (at - first * dilation) % stride) first++;
    if (first >= apart || first >= s->kernel[i]) return a;
    a.taps = (s->kernel[i] - first + apart - 1) / apart;
    a.tap = first + (a.taps - 1) * apart;
    a.offset = (at - a.tap * dilation) / stride;
    return a;
}

/* Results that are computed together: a set, and a part of its lines and columns. */
struct region {
    ptrdiff_t set[3], part[3]; /* part[1] below 0: all of the set */
};

/* How a region is computed: `lines` lines of `count` results at a time, from the data in place or from a copy. */
struct geometry {
    struct axis axis[3];
    bool copied, joined, by_taps; /* joined: the columns of a window are one run; by_taps: the copy has separate lines
                                     for each line of the window */
    bool parted;                  /* divided into edges and interior */
    bool spread;                  /* the copy has the data of each tap separately, with contiguous lines */
    ptrdiff_t lines, count;       /* 0: the region is empty */
    ptrdiff_t width, height;      /* of the copy */
    ptrdiff_t pixel, line, plane; /* distance in floats */
    struct qc_panel_shape shape;
};

static ptrdiff_t span(const struct axis *a, ptrdiff_t count)
{
    return a->taps ? (count - 1) * a->step + (a->taps - 1) * a->delta + 1 : 1;
}

static bool inside(const struct axis *a, ptrdiff_t size)
{
    return !a->taps || (a->offset >= 0 && a->offset + span(a, a->count) <= size);
}

/* Merges lines whose distance equals that of the results of one line. */
static void merge_product_conv(struct geometry *g, const struct qc_product_conv_state *s)
{
    struct axis *w = &g->axis[2], *h = &g->axis[1];
    if (h->count == 1 || s->src[3] * h->step != w->count * w->step * s->src[4] ||
        s->dst[3] * h->out_step != w->count * w->out_step * s->dst[4])
        return;
    w->count *= h->count;
    h->count = 1;
}

static ptrdiff_t least(ptrdiff_t a, ptrdiff_t b)
{
    return a < b ? a : b;
}

/* Restricts an axis to part 0, 1 or 2: the results before, inside and after those whose windows lie in the data. */
static void take_part(struct axis *a, ptrdiff_t size, ptrdiff_t part)
{
    const ptrdiff_t room = size - 1 - a->offset - (a->taps - 1) * a->delta;
    const ptrdiff_t first = a->offset < 0 ? least((-a->offset + a->step - 1) / a->step, a->count) : 0;
    ptrdiff_t last = room < 0 ? 0 : least(room / a->step + 1, a->count);
    if (last < first) last = first;
    const ptrdiff_t begin[4] = {0, first, last, a->count};
    a->offset += begin[part] * a->step;
    a->out += begin[part] * a->out_step;
    a->count = begin[part + 1] - begin[part];
}

static bool side_by_side_product_conv(const struct qc_product_conv_state *s)
{
    return s->src[1] == 1 || s->groups * s->inputs == 1;
}

/* Returns whether the region is divided into edges and interior: in large images, only the edges are copied, with
   padding. */
static bool has_parts(const struct qc_product_conv_state *s, const struct axis axis[3])
{
    enum { LARGE = 48 };
    return side_by_side_product_conv(s) && inside(&axis[0], s->in[0]) && axis[1].count > 2 && axis[2].count >= LARGE &&
           axis[1].taps && axis[2].taps && !(inside(&axis[1], s->in[1]) && inside(&axis[2], s->in[2]));
}

/* Returns whether each tap gets its own copy: the lines are too short to fill the registers, and their results are
   contiguous. */
static bool is_spread(const struct geometry *g, const struct qc_product_conv_state *s)
{
    enum { SHORT = 5, MANY = 64 /* outputs: enough to make copying cheap */ };
    const struct axis *h = &g->axis[1], *w = &g->axis[2];
    return !g->parted && w->count < SHORT && h->count > 1 && w->taps && h->taps && s->outputs >= MANY &&
           s->dst[3] * h->out_step == w->count * w->out_step * s->dst[4];
}

static struct geometry geometry_of(const struct qc_product_tiles *tiles, const struct qc_product_conv_state *s,
                                   const struct region *r)
{
    struct geometry g = {.copied = !side_by_side_product_conv(s)};
    for (int i = 0; i < 3; i++) g.axis[i] = axis_of(s, i, r->set[i]);
    g.parted = r->part[1] >= 0 && has_parts(s, g.axis);
    for (int i = 0; i < 3; i++) {
        if (g.parted && i > 0) take_part(&g.axis[i], s->in[i], r->part[i]);
        if (g.axis[i].count == 0) return g;
        g.copied = g.copied || !inside(&g.axis[i], s->in[i]);
    }
    if (!g.copied) merge_product_conv(&g, s);
    g.spread = is_spread(&g, s);
    g.copied = g.copied || g.spread;
    const struct axis *d = &g.axis[0], *h = &g.axis[1], *w = &g.axis[2];
    const ptrdiff_t parts = (w->count + QC_PANEL_ROWS - 1) / QC_PANEL_ROWS;
    g.count = (w->count + parts - 1) / parts;
    g.lines = parts > 1 ? 1 : least(h->count, QC_PANEL_ROWS / w->count);
    g.pixel = s->src[4];
    g.line = s->src[3];
    g.plane = s->src[2] * d->delta;
    if (g.copied) {
        g.by_taps = h->taps * g.lines < span(h, g.lines);
        g.width = span(w, g.count);
        g.height = g.by_taps ? h->taps * g.lines : span(h, g.lines);
        g.pixel = s->groups * s->inputs;
        g.line = g.pixel * g.width;
        g.plane = g.line * g.height;
    }
    if (g.spread) {
        g.by_taps = true;
        g.width = w->taps * w->count;
        g.height = h->taps * g.lines;
        g.line = g.pixel * w->count; /* per tap */
        g.plane = g.pixel * g.width * g.height;
    }
    /* Taps summed in one slice: whole lines of the window if a line is short. */
    const ptrdiff_t line = w->taps * s->inputs;
    const bool few = line > 0 && line <= QC_PANEL_REACH;
    const ptrdiff_t together =
        few ? QC_PANEL_REACH / line * w->taps : QC_PANEL_REACH / least(s->inputs, QC_PANEL_REACH);
    g.joined = !g.spread && s->groups == 1 && w->delta == 1 && g.pixel == s->inputs && few;
    const ptrdiff_t runs = d->taps * h->taps * (g.joined ? 1 : w->taps);
    qc_panel_shape_of(&g.shape, tiles, (size_t)s->outputs, (size_t)runs, (size_t)(g.joined ? line : s->inputs),
                      (size_t)(g.joined ? together / w->taps : together));
    return g;
}

/* Sets the offsets of the runs, in data and in weights. */
static void places(ptrdiff_t *run, ptrdiff_t *weight_run, const struct geometry *g,
                   const struct qc_product_conv_state *s)
{
    const struct axis *d = &g->axis[0], *h = &g->axis[1], *w = &g->axis[2];
    const ptrdiff_t columns = g->joined ? 1 : w->taps, all = g->lines * g->line,
                    next_line = g->spread    ? w->taps * all
                                : g->by_taps ? all
                                             : h->delta * g->line,
                    next_column = g->spread ? all : w->delta * g->pixel;
    for (ptrdiff_t i = 0; i < d->taps; i++)
        for (ptrdiff_t k = 0; k < h->taps; k++)
            for (ptrdiff_t l = 0; l < columns; l++) {
                *run++ = i * g->plane + k * next_line + l * next_column;
                *weight_run++ = (d->tap + i * d->tap_step) * s->w_tap[0] + (h->tap + k * h->tap_step) * s->w_tap[1] +
                                (w->tap + l * w->tap_step) * s->w_tap[2];
            }
}

static struct qc_panel_source source_of(const struct geometry *g, const struct qc_product_conv_state *s,
                                        const float *weights, const ptrdiff_t *weight_run, ptrdiff_t group)
{
    return (struct qc_panel_source){.w = weights + group * s->w_group,
                                    .run = weight_run,
                                    .column = s->w_output,
                                    .outer = g->axis[2].tap_step * s->w_tap[2],
                                    .step = s->w_input,
                                    .inner = (size_t)s->inputs};
}

/* Returns the number of packed weights of one group. */
static size_t set_numbers(const struct qc_product_conv_state *s, const struct region *r)
{
    size_t taps = 1;
    for (int i = 0; i < 3; i++) taps *= (size_t)axis_of(s, i, r->set[i]).taps;
    return taps * (size_t)s->inputs * qc_product_padded((size_t)s->outputs);
}

static bool next_set(struct region *r, const struct qc_product_conv_state *s)
{
    for (int i = 3; i-- > 0;) {
        if (++r->set[i] < (s->transposed ? least(s->stride[i], s->out[i]) : 1)) return true;
        r->set[i] = 0;
    }
    return false;
}

static bool next_part(struct region *r, const struct geometry *g)
{
    for (int i = 3; g->parted && i-- > 1;) {
        if (++r->part[i] < 3) return true;
        r->part[i] = 0;
    }
    return false;
}

/* ------------------------------------------------- making */

static void sizes(struct qc_product_conv_state *s, const struct qc_product_conv *c)
{
    const struct qc_view *x = c->src, *y = c->dst, *w = c->weights;
    const int out = c->transposed ? 1 : 0, in = 1 - out;
    *s = (struct qc_product_conv_state){.transposed = c->transposed,
                                        .batch = y->dim[0],
                                        .groups = c->groups,
                                        .inputs = x->dim[1] / c->groups,
                                        .outputs = y->dim[1] / c->groups,
                                        .src = {x->stride[0], x->stride[1]},
                                        .dst = {y->stride[0], y->stride[1]},
                                        .w_group = w->stride[0] * (w->dim[0] / c->groups),
                                        .w_output = w->stride[out],
                                        .w_input = w->stride[in]};
    for (int i = 0; i < 3; i++) {
        const int k = i - (3 - c->window.spatial);
        const bool there = k >= 0;
        s->in[i] = there ? x->dim[2 + k] : 1;
        s->out[i] = there ? y->dim[2 + k] : 1;
        s->kernel[i] = there ? c->window.kernel[k] : 1;
        s->stride[i] = there ? c->window.stride[k] : 1;
        s->dilation[i] = there ? c->window.dilation[k] : 1;
        s->begin[i] = there ? c->window.pad_begin[k] : 0;
        s->src[2 + i] = there ? x->stride[2 + k] : 0;
        s->dst[2 + i] = there ? y->stride[2 + k] : 0;
        s->w_tap[i] = there ? w->stride[2 + k] : 0;
    }
    s->depthwise = !c->transposed && s->groups > 1 && s->inputs == 1 && s->outputs == 1 && w->data && s->src[1] == 1 &&
                   s->dst[1] == 1;
}

static bool pack_depthwise(struct qc_product *d, const float *w, size_t *numbers, struct qc_status *st)
{
    const struct qc_product_conv_state *s = &d->conv;
    const size_t padded = qc_product_padded((size_t)s->groups);
    *numbers = padded * (size_t)(s->kernel[0] * s->kernel[1] * s->kernel[2]);
    if (!qc_product_pack(d, *numbers, st)) return false;
    float *to = d->packed;
    for (ptrdiff_t i = 0; i < s->kernel[0]; i++)
        for (ptrdiff_t k = 0; k < s->kernel[1]; k++)
            for (ptrdiff_t l = 0; l < s->kernel[2]; l++, to += padded)
                for (ptrdiff_t g = 0; g < (ptrdiff_t)padded; g++)
                    to[g] = g < s->groups ? w[g * s->w_group + i * s->w_tap[0] + k * s->w_tap[1] + l * s->w_tap[2]] : 0;
    return true;
}

static bool pack_dense(struct qc_product *d, const float *w, size_t *numbers, struct qc_status *st)
{
    const struct qc_product_conv_state *s = &d->conv;
    const size_t taps = (size_t)(s->kernel[0] * s->kernel[1] * s->kernel[2]);
    struct region region = {.part = {-1, -1, -1}};
    ptrdiff_t *run = calloc(2 * taps + 1, sizeof *run);
    *numbers = (size_t)(s->groups * s->inputs) * taps * qc_product_padded((size_t)s->outputs);
    if (!run) return qc_fail_memory(st, 2 * taps * sizeof *run);
    bool ok = qc_product_pack(d, *numbers, st);
    float *to = d->packed;
    do {
        const struct geometry g = geometry_of(&d->tiles, s, &region);
        if (!ok) break;
        places(run, run + taps, &g, s);
        for (ptrdiff_t group = 0; group < s->groups; group++) {
            const struct qc_panel_source from = source_of(&g, s, w, run + taps, group);
            qc_panel_pack(to, &g.shape, &from);
            to += qc_panel_numbers(&g.shape);
        }
    } while (next_set(&region, s));
    if (ok) memset(to, 0, (size_t)(d->packed + *numbers - to) * sizeof *to); /* sets without results */
    free(run);
    return ok;
}

static void raise(size_t *to, size_t n)
{
    if (n > *to) *to = n;
}

static bool lay_out_product_conv(struct qc_product *d, struct qc_status *st)
{
    const struct qc_product_conv_state *s = &d->conv;
    const size_t number = sizeof(float), taps = (size_t)(s->kernel[0] * s->kernel[1] * s->kernel[2]);
    size_t bytes[QC_PRODUCT_PARTS] = {[QC_PRODUCT_BIAS] =
                                          d->bias ? 0 : d->groups * qc_product_padded(d->columns) * number,
                                      [QC_PRODUCT_RUNS] = 2 * taps * sizeof(ptrdiff_t)};
    struct region region = {{0}, {0}};
    bool more = !s->depthwise;
    while (more) {
        const struct geometry g = geometry_of(&d->tiles, s, &region);
        size_t copy = (size_t)(s->groups * s->inputs) * number;
        if (!qc_mul_size(&copy, copy, (size_t)g.width) || !qc_mul_size(&copy, copy, (size_t)g.height) ||
            !qc_mul_size(&copy, copy, (size_t)g.axis[0].taps))
            return qc_fail(st, QC_UNSUPPORTED, "a window this far apart does not fit in memory");
        if (g.copied) raise(&bytes[QC_PRODUCT_COPY], copy);
        raise(&bytes[QC_PRODUCT_SUMS], qc_panel_sums(&g.shape, (size_t)(g.lines * g.count)) * number);
        if (!d->packed) raise(&bytes[QC_PRODUCT_SLICE], qc_panel_slice(&g.shape) * number);
        more = next_part(&region, &g) || next_set(&region, s);
    }
    return qc_product_lay_out(d, bytes, st);
}

bool qc_product_conv_new(struct qc_product **out, const struct qc_product_conv *c, struct qc_status *st)
{
    const struct qc_product_operands operands = {c->src, c->weights, c->bias, c->dst, c->isa};
    struct qc_product_conv_state s;
    if (!qc_view_count(c->src) || !qc_view_count(c->weights) || !qc_view_count(c->dst))
        return qc_fail(st, QC_UNSUPPORTED, "a convolution without elements");
    sizes(&s, c);
    const size_t groups = s.depthwise ? 1 : (size_t)s.groups;
    struct qc_product *d = qc_product_start(&operands, groups, (size_t)c->dst->dim[1] / groups, &c->tail, st);
    if (!d) return false;
    const float *w = c->weights->data;
    size_t numbers = 0;
    d->convolution = true;
    d->conv = s;
    if (s.depthwise) qc_text(d->name + strlen(d->name), (unsigned)(sizeof d->name - strlen(d->name)), " depthwise");
    const bool packed = !w || (s.depthwise ? pack_depthwise(d, w, &numbers, st) : pack_dense(d, w, &numbers, st));
    if (!packed || (w && !qc_product_keep(d, numbers, w, c->packs, st)) || !lay_out_product_conv(d, st)) {
        qc_product_free(d);
        return false;
    }
    *out = d;
    return true;
}

/* ------------------------------------------------- running */

/* Copies `width` pixels, starting at column x; line NULL: padding. */
static void copy_line(float *to, const struct geometry *g, const struct qc_product_conv_state *s, const float *line,
                      ptrdiff_t x)
{
    const ptrdiff_t channels = g->pixel, size = s->in[2];
    ptrdiff_t from = x < 0 ? -x : 0, end = x + g->width > size ? size - x : g->width;
    from = from < g->width ? from : g->width;
    end = line && end > from ? end : from;
    memset(to, 0, (size_t)(from * channels) * sizeof *to);
    memset(to + end * channels, 0, (size_t)((g->width - end) * channels) * sizeof *to);
    if (end == from) return;
    const float *first = line + (x + from) * s->src[4];
    float *y = to + from * channels;
    if ((s->src[1] == 1 || channels == 1) && s->src[4] == channels) {
        memcpy(y, first, (size_t)((end - from) * channels) * sizeof *to);
        return;
    }
    for (ptrdiff_t i = 0; i < end - from; i++)
        for (ptrdiff_t c = 0; c < channels; c++) y[i * channels + c] = first[i * s->src[4] + c * s->src[1]];
}

/* The first result of a block of results. */
struct place {
    ptrdiff_t plane, line, column;
};

static void copy_spread(float *to, const struct geometry *g, const struct qc_product_conv_state *s, const float *x,
                        const struct place *p)
{
    const struct axis *d = &g->axis[0], *h = &g->axis[1], *w = &g->axis[2];
    const ptrdiff_t rows = g->lines * w->count, taps = d->taps * h->taps * w->taps;
    for (ptrdiff_t i = 0; i < taps * rows; i++, to += g->pixel) {
        const ptrdiff_t tap = i / rows, row = i % rows,
                        plane = p->plane * d->step + d->offset + tap / w->taps / h->taps * d->delta,
                        line = (p->line + row / w->count) * h->step + h->offset + tap / w->taps % h->taps * h->delta,
                        column = row % w->count * w->step + w->offset + tap % w->taps * w->delta;
        const bool there =
            plane >= 0 && plane < s->in[0] && line >= 0 && line < s->in[1] && column >= 0 && column < s->in[2];
        const float *from = there ? x + plane * s->src[2] + line * s->src[3] + column * s->src[4] : NULL;
        if (!from)
            memset(to, 0, (size_t)g->pixel * sizeof *to);
        else if (side_by_side_product_conv(s))
            memcpy(to, from, (size_t)g->pixel * sizeof *to);
        else
            for (ptrdiff_t c = 0; c < g->pixel; c++) to[c] = from[c * s->src[1]];
    }
}

static void copy_data_product_conv(float *to, const struct geometry *g, const struct qc_product_conv_state *s,
                                   const float *x, const struct place *p)
{
    const struct axis *d = &g->axis[0], *h = &g->axis[1], *w = &g->axis[2];
    if (g->spread) {
        copy_spread(to, g, s, x, p);
        return;
    }
    for (ptrdiff_t i = 0; i < d->taps; i++)
        for (ptrdiff_t k = 0; k < g->height; k++, to += g->line) {
            const ptrdiff_t plane = p->plane * d->step + d->offset + i * d->delta,
                            past = g->by_taps ? k / g->lines * h->delta + k % g->lines * h->step : k,
                            line = p->line * h->step + h->offset + past;
            const bool there = plane >= 0 && plane < s->in[0] && line >= 0 && line < s->in[1];
            copy_line(to, g, s, there ? x + plane * s->src[2] + line * s->src[3] : NULL,
                      p->column * w->step + w->offset);
        }
}

/* Computes a block: `lines` lines of `count` results, all groups. x, y: of the sample. */
static void multiply_product_conv(const struct qc_product *d, const struct qc_product_memory *m,
                                  const struct geometry *g, const float *x, float *y, const struct place *p,
                                  const float *packed, struct qc_panel_product *product)
{
    const struct qc_product_conv_state *s = &d->conv;
    const struct axis *a = g->axis;
    ptrdiff_t *run = qc_product_part_of(d, m, QC_PRODUCT_RUNS);
    const ptrdiff_t *weight_run = run + s->kernel[0] * s->kernel[1] * s->kernel[2];
    const float *data = x, *bias = product->bias;
    if (g->copied) {
        float *copy = qc_product_part_of(d, m, QC_PRODUCT_COPY);
        copy_data_product_conv(copy, g, s, x, p);
        data = copy;
    } else {
        data += (p->plane * a[0].step + a[0].offset) * s->src[2] + (p->line * a[1].step + a[1].offset) * s->src[3] +
                (p->column * a[2].step + a[2].offset) * s->src[4];
    }
    y += (p->plane * a[0].out_step + a[0].out) * s->dst[2] + (p->line * a[1].out_step + a[1].out) * s->dst[3] +
         (p->column * a[2].out_step + a[2].out) * s->dst[4];
    struct qc_panel_lines l = {.run = run,
                               .a_line = (g->by_taps ? 1 : a[1].step) * g->line,
                               .a_step = (g->spread ? 1 : a[2].step) * g->pixel,
                               .y_line = a[1].out_step * s->dst[3],
                               .y_step = a[2].out_step * s->dst[4],
                               .y_column = s->dst[1],
                               .lines = (size_t)least(g->lines, a[1].count - p->line),
                               .count = (size_t)least(g->count, a[2].count - p->column)};
    if (g->spread) {
        l.count *= l.lines;
        l.lines = 1;
    }
    if (l.count < l.lines) /* few columns: lines and columns are swapped */
        l = (struct qc_panel_lines){.run = run,
                                    .a_line = l.a_step,
                                    .a_step = l.a_line,
                                    .y_line = l.y_step,
                                    .y_step = l.y_line,
                                    .y_column = l.y_column,
                                    .lines = l.count,
                                    .count = l.lines};
    for (ptrdiff_t group = 0; group < s->groups; group++) {
        struct qc_panel_source source = {0};
        if (!packed) source = source_of(g, s, m->weights, weight_run, group);
        l.a = data + group * s->inputs * (g->copied ? 1 : s->src[1]);
        l.y = y + group * s->outputs * s->dst[1];
        product->source = &source;
        product->packed = packed ? packed + (size_t)group * qc_panel_numbers(&g->shape) : NULL;
        product->bias = bias + (size_t)group * qc_product_padded(d->columns);
        qc_panel_multiply(product, &l);
    }
    product->bias = bias;
}

static void run_dense(const struct qc_product *d, const struct qc_product_memory *m)
{
    const struct qc_product_conv_state *s = &d->conv;
    const float *packed = d->packed;
    struct region region = {{0}, {0}};
    ptrdiff_t *run = qc_product_part_of(d, m, QC_PRODUCT_RUNS);
    bool more = true;
    while (more) {
        const struct geometry g = geometry_of(&d->tiles, s, &region);
        struct qc_panel_product product = {.tiles = &d->tiles,
                                           .shape = &g.shape,
                                           .bias = qc_product_bias(d, m),
                                           .tail = &d->tail,
                                           .sums = qc_product_part_of(d, m, QC_PRODUCT_SUMS),
                                           .slice = qc_product_part_of(d, m, QC_PRODUCT_SLICE)};
        places(run, run + s->kernel[0] * s->kernel[1] * s->kernel[2], &g, s);
        for (ptrdiff_t n = 0; g.count && n < s->batch; n++) {
            const float *x = (const float *)m->src + n * s->src[0];
            float *y = (float *)m->dst + n * s->dst[0];
            struct place p;
            for (p.plane = 0; p.plane < g.axis[0].count; p.plane++)
                for (p.line = 0; p.line < g.axis[1].count; p.line += g.lines)
                    for (p.column = 0; p.column < g.axis[2].count; p.column += g.count)
                        multiply_product_conv(d, m, &g, x, y, &p, packed, &product);
        }
        more = next_part(&region, &g);
        if (more) continue;
        if (packed) packed += (size_t)s->groups * set_numbers(s, &region);
        more = next_set(&region, s);
    }
}

/* Computes line `row` of the results, counted over all samples and planes, for the channels from `first` on. */
static void depthwise_line(struct qc_product_depthwise *f, const struct qc_product *d,
                           const struct qc_product_memory *m, ptrdiff_t row, ptrdiff_t first)
{
    const struct qc_product_conv_state *s = &d->conv;
    const ptrdiff_t y = row % s->out[1], z = row / s->out[1] % s->out[0], n = row / s->out[1] / s->out[0];
    const float **line = qc_product_part_of(d, m, QC_PRODUCT_RUNS), **w = line + s->kernel[0] * s->kernel[1];
    f->line = line;
    f->w = w;
    f->lines = 0;
    for (ptrdiff_t i = 0; i < s->kernel[0]; i++)
        for (ptrdiff_t k = 0; k < s->kernel[1]; k++) {
            const ptrdiff_t a = z * s->stride[0] + i * s->dilation[0] - s->begin[0],
                            b = y * s->stride[1] + k * s->dilation[1] - s->begin[1];
            if (a < 0 || b < 0 || a >= s->in[0] || b >= s->in[1]) continue;
            line[f->lines] = (const float *)m->src + n * s->src[0] + a * s->src[2] + b * s->src[3] + first;
            w[f->lines++] = d->packed + (size_t)((i * s->kernel[1] + k) * s->kernel[2]) * f->width + (size_t)first;
        }
    f->y = (float *)m->dst + n * s->dst[0] + z * s->dst[2] + y * s->dst[3] + first;
    d->tiles.depthwise(f);
}

void qc_product_run_conv(const struct qc_product *d, const struct qc_product_memory *m)
{
    if (d->conv.depthwise) {
        /* Limits the channels per pass so that the lines of a window stay in the first-level cache until the next line.
         */
        enum { CACHED = 12288, LEAST = 4 * QC_PRODUCT_BLOCK };
        const struct qc_product_conv_state *s = &d->conv;
        const ptrdiff_t window = s->in[2] * least(s->kernel[0] * s->kernel[1], CACHED),
                        fits = least(CACHED / window, s->groups) / QC_PRODUCT_BLOCK * QC_PRODUCT_BLOCK,
                        most = fits < LEAST ? LEAST : fits, rows = s->batch * s->out[0] * s->out[1];
        const float *bias = qc_product_bias(d, m);
        struct qc_product_depthwise f = {.columns = (size_t)s->kernel[2],
                                         .width = qc_product_padded((size_t)s->groups),
                                         .count = s->out[2],
                                         .size = s->in[2],
                                         .start = -s->begin[2],
                                         .stride = s->stride[2],
                                         .delta = s->dilation[2],
                                         .step = s->src[4],
                                         .y_step = s->dst[4],
                                         .tail = &d->tail};
        for (ptrdiff_t first = 0; first < s->groups; first += most) {
            f.channels = (size_t)least(s->groups - first, most);
            f.bias = bias + first;
            for (ptrdiff_t row = 0; row < rows; row++) depthwise_line(&f, d, m, row, first);
        }
    } else
        run_dense(d, m);
}
