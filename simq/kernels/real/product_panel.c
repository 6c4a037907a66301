// SPDX-License-Identifier: Apache-2.0
#include "simq/kernels/real/product_panel.h"

#include <string.h>

#include "base/pool.h"
#include "base/simd.h"

enum { BLOCK = QC_PRODUCT_BLOCK };

static size_t over(size_t n, size_t parts)
{
    return (n + parts - 1) / parts;
}

void qc_panel_shape_of(struct qc_panel_shape *p, const struct qc_product_tiles *tiles, size_t columns, size_t runs,
                       size_t length, size_t together)
{
    const size_t all = over(columns, BLOCK), most = (size_t)tiles->blocks;
    *p = (struct qc_panel_shape){.columns = columns,
                                 .blocks = all ? over(all, over(all, most)) : 1,
                                 .runs = runs,
                                 .length = length,
                                 .pieces = 1,
                                 .piece = length,
                                 .together = together};
    if (length <= QC_PANEL_REACH) return;
    p->piece = over(length, over(length, QC_PANEL_REACH));
    p->pieces = over(length, p->piece);
    p->together = 1;
}

size_t qc_panel_numbers(const struct qc_panel_shape *p)
{
    return over(p->columns, BLOCK) * BLOCK * p->runs * p->length;
}

size_t qc_panel_slice(const struct qc_panel_shape *p)
{
    return p->blocks * BLOCK * p->piece * (p->together < p->runs ? p->together : p->runs);
}

size_t qc_panel_sums(const struct qc_panel_shape *p, size_t rows)
{
    const bool in_one_go = p->pieces == 1 && p->runs <= p->together;
    return in_one_go ? 0 : rows * p->blocks * BLOCK;
}

/* A part of the reduction: `runs` runs, starting at `first`, or a piece of one run. It covers `length` numbers of
   each, starting at `begin`. */
struct slice {
    size_t first, runs, begin, length;
};

static struct slice next_product_panel(const struct qc_panel_shape *p, const struct slice *s)
{
    struct slice n = {.first = s->first, .runs = 1, .begin = s->begin + s->length};
    if (n.begin >= p->length || s->runs == 0) {
        n.first = s->first + s->runs;
        n.begin = 0;
    }
    n.runs = p->runs - n.first < p->together ? p->runs - n.first : p->together;
    n.length = p->length - n.begin < p->piece ? p->length - n.begin : p->piece;
    return n;
}

/* ------------------------------------------------- packing */

/* Packs `count` columns that are contiguous in the source to rows of `width`. */
static void rows(float *to, size_t width, const float *from, ptrdiff_t step, size_t length, size_t count)
{
    for (size_t e = 0; e < length; e++, to += width, from += step) {
        memcpy(to, from, count * sizeof *to);
        for (size_t c = count; c < width; c++) to[c] = 0;
    }
}

/* Packs columns with any strides, 8 at a time, to use whole cache lines. */
static QC_INLINE void columns_body(float *restrict to, size_t width, const float *restrict from, ptrdiff_t column,
                                   ptrdiff_t step, size_t length, size_t count)
{
    enum { SOME = 8 };
    size_t c = 0;
    for (; c + SOME <= count; c += SOME)
        for (size_t e = 0; e < length; e++)
            for (size_t k = 0; k < SOME; k++)
                to[e * width + c + k] = from[(ptrdiff_t)e * step + (ptrdiff_t)(c + k) * column];
    for (; c < width; c++)
        for (size_t e = 0; e < length; e++)
            to[e * width + c] = c < count ? from[(ptrdiff_t)e * step + (ptrdiff_t)c * column] : 0;
}

static void pack_product_panel(float *to, const struct qc_panel_source *f, size_t first, size_t width, size_t count,
                               const struct slice *s)
{
    for (size_t r = 0; r < s->runs; r++) {
        const float *from = f->w + f->run[s->first + r] + (ptrdiff_t)first * f->column;
        for (size_t e = s->begin, end = s->begin + s->length, n; e < end; e += n, to += n * width) {
            const float *at = from + (ptrdiff_t)(e / f->inner) * f->outer + (ptrdiff_t)(e % f->inner) * f->step;
            n = f->inner - e % f->inner;
            n = n < end - e ? n : end - e;
            if (f->column == 1)
                rows(to, width, at, f->step, n, count);
            else if (f->step == 1)
                columns_body(to, width, at, f->column, 1, n, count);
            else
                columns_body(to, width, at, f->column, f->step, n, count);
        }
    }
}

struct panel {
    size_t first, count, blocks; /* columns */
};

static struct panel panel_at(const struct qc_panel_shape *p, size_t first)
{
    struct panel n = {.first = first, .blocks = p->blocks};
    const size_t left = p->columns - first;
    n.count = left < n.blocks * BLOCK ? left : n.blocks * BLOCK;
    n.blocks = over(n.count, BLOCK);
    return n;
}

/* Fewer numbers than this are packed faster on one thread than with panels in parallel. */
enum { SHARED_LEAST = 1 << 18 };

struct packing {
    float *to;
    const struct qc_panel_shape *shape;
    const struct qc_panel_source *from;
};

static void pack_panel_product_panel(void *user, size_t item)
{
    const struct packing *k = user;
    const struct qc_panel_shape *p = k->shape;
    const size_t first = item * p->blocks * BLOCK;
    const struct panel n = panel_at(p, first);
    const size_t width = n.blocks * BLOCK;
    float *to = k->to + first * p->runs * p->length;
    for (struct slice s = next_product_panel(p, &(struct slice){0}); s.first < p->runs; s = next_product_panel(p, &s)) {
        pack_product_panel(to, k->from, first, width, n.count, &s);
        to += width * s.runs * s.length;
    }
}

void qc_panel_pack(float *to, const struct qc_panel_shape *p, const struct qc_panel_source *from)
{
    struct packing k = {.to = to, .shape = p, .from = from};
    const size_t panels = over(p->columns, p->blocks * BLOCK);
    if (qc_panel_numbers(p) >= SHARED_LEAST)
        qc_pool_loop(panels, pack_panel_product_panel, &k);
    else
        for (size_t item = 0; item < panels; item++) pack_panel_product_panel(&k, item);
}

/* ------------------------------------------------- multiplying */

/* Results without contiguous columns are computed in a separate tile and copied. */
static void scattered(const struct qc_panel_product *p, struct qc_product_tile *t, int count, const struct panel *n,
                      ptrdiff_t y_column)
{
    float tile[QC_PRODUCT_ROWS * QC_PRODUCT_BLOCKS * BLOCK];
    float *y = t->y;
    const ptrdiff_t y_step = t->y_step, width = (ptrdiff_t)(n->blocks * BLOCK);
    for (int m = 0; p->tail->sum && m < count; m++)
        for (size_t c = 0; c < n->count; c++) tile[m * width + (ptrdiff_t)c] = y[m * y_step + (ptrdiff_t)c * y_column];
    t->y = tile;
    t->y_step = width;
    p->tiles->tile(t, count, (int)n->blocks);
    for (int m = 0; m < count; m++)
        for (size_t c = 0; c < n->count; c++) y[m * y_step + (ptrdiff_t)c * y_column] = tile[m * width + (ptrdiff_t)c];
}

/* Prefetches part i of `parts` of the next weights. */
static void ask_product_panel(const float *next, size_t numbers, size_t i, size_t parts)
{
    enum { LINE = 16 };
    const size_t lines = over(numbers, LINE);
    for (size_t k = lines * i / parts, end = lines * (i + 1) / parts; k < end; k++)
        __builtin_prefetch(next + k * LINE, 0, 2);
}

static void slice_lines(const struct qc_panel_product *p, const struct qc_panel_lines *l, const struct panel *n,
                        const struct slice *s, const float *w, bool last)
{
    const ptrdiff_t width = (ptrdiff_t)(n->blocks * BLOCK);
    const size_t most = (size_t)p->tiles->rows[n->blocks], tiles = over(l->count, most);
    const bool first = s->first == 0 && s->begin == 0;
    /* Weights that stay in the second-level cache are not prefetched: asking for them took 4 % of a convolution of 64
       channels, and with few rows as long as the product. */
    enum { CACHED = 1 << 19, CACHED_BESIDE_DATA = 1 << 16 };
    const bool asks = p->packed && qc_panel_numbers(p->shape) > (tiles * l->lines > 1 ? CACHED_BESIDE_DATA : CACHED);
    for (size_t i = 0; i < l->lines; i++) {
        ptrdiff_t row = (ptrdiff_t)(i * l->count);
        struct qc_product_tile t = {.a = l->a + (ptrdiff_t)i * l->a_line + (ptrdiff_t)s->begin,
                                    .step = l->a_step,
                                    .run = l->run + s->first,
                                    .runs = s->runs,
                                    .length = s->length,
                                    .w = w,
                                    .bias = p->bias + n->first,
                                    .last = (int)(n->count - (n->blocks - 1) * BLOCK),
                                    .tail = last ? p->tail : NULL};
        float *y = l->y + (ptrdiff_t)i * l->y_line + (ptrdiff_t)n->first * l->y_column;
        for (size_t k = 0; k < tiles; k++) {
            if (asks)
                ask_product_panel(w + s->runs * s->length * (size_t)width, s->runs * s->length * (size_t)width,
                                  i * tiles + k, tiles * l->lines);
            const ptrdiff_t count = (ptrdiff_t)(l->count / tiles + (k < l->count % tiles));
            t.sums = first ? NULL : p->sums + row * width;
            t.y = last ? y : p->sums + row * width;
            t.y_step = last ? l->y_step : width;
            if (last && l->y_column != 1 && n->count > 1)
                scattered(p, &t, (int)count, n, l->y_column);
            else
                p->tiles->tile(&t, (int)count, (int)n->blocks);
            t.a += count * l->a_step;
            y += count * l->y_step;
            row += count;
        }
    }
}

void qc_panel_multiply(const struct qc_panel_product *p, const struct qc_panel_lines *l)
{
    const struct qc_panel_shape *shape = p->shape;
    const float *w = p->packed;
    for (size_t first = 0; first < shape->columns; first += shape->blocks * BLOCK) {
        const struct panel n = panel_at(shape, first);
        const size_t width = n.blocks * BLOCK;
        for (struct slice s = next_product_panel(shape, &(struct slice){0}), after;; s = after) {
            after = next_product_panel(shape, &s);
            if (!p->packed) pack_product_panel(p->slice, p->source, first, width, n.count, &s);
            slice_lines(p, l, &n, &s, p->packed ? w : p->slice, after.first >= shape->runs);
            if (p->packed) w += width * s.runs * s.length;
            if (after.first >= shape->runs) break;
        }
    }
}
