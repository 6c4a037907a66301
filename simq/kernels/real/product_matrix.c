// SPDX-License-Identifier: Apache-2.0
#include "base/checked.h"
#include "simq/kernels/real/product_parts.h"

static struct qc_panel_source matrix_source(const struct qc_product_matrix_state *s, const float *w)
{
    static const ptrdiff_t begin = 0;
    return (struct qc_panel_source){
        .w = w, .run = &begin, .column = s->b_column, .step = s->b_row, .inner = (size_t)s->depth};
}

/* Moves to the next index of the batch; returns false after the last one. */
static bool step(ptrdiff_t *at, const struct qc_product_matrix_state *s, const ptrdiff_t *limit)
{
    for (int i = s->rank; i-- > 0;) {
        if (++at[i] < limit[i]) return true;
        at[i] = 0;
    }
    return false;
}

static ptrdiff_t offset(const ptrdiff_t *at, const struct qc_product_matrix_state *s, const ptrdiff_t *stride)
{
    ptrdiff_t sum = 0;
    for (int i = 0; i < s->rank; i++) sum += at[i] * stride[i];
    return sum;
}

static bool pack_matrices(struct qc_product *d, const struct qc_product_matrix *m, struct qc_status *st)
{
    const struct qc_view *b = m->b;
    const struct qc_product_matrix_state *s = &d->matrix;
    const size_t one = qc_panel_numbers(&s->shape);
    ptrdiff_t at[QC_RANK_MAX] = {0}, limit[QC_RANK_MAX];
    size_t all = one;
    for (int i = 0; i < s->rank; i++) {
        limit[i] = b->dim[i];
        if (!qc_mul_size(&all, all, (size_t)b->dim[i])) return qc_fail_memory(st, SIZE_MAX);
    }
    if (m->in_file) {
        void *room;
        if (all > SIZE_MAX / sizeof(float)) return qc_fail_memory(st, SIZE_MAX);
        if (!qc_packed_room(&room, m->packs, all * sizeof(float), st)) return false;
        d->packed = room;
        d->shared = true;
        if (!room) return true; /* the disk has none */
    } else if (!qc_product_pack(d, all, st)) {
        return false;
    }
    do {
        const struct qc_panel_source from = matrix_source(s, (const float *)b->data + offset(at, s, s->b));
        qc_panel_pack(d->packed + (size_t)offset(at, s, s->packed) * one, &s->shape, &from);
    } while (step(at, s, limit));
    return m->in_file || qc_product_keep(d, all, b->data, m->packs, st);
}

static bool lay_out_matrix(struct qc_product *d, struct qc_status *st)
{
    enum { MORE = 4 }; /* rows per pass are multiplied by this if weights are packed at run time */
    struct qc_product_matrix_state *s = &d->matrix;
    const ptrdiff_t most = d->packed ? QC_PANEL_ROWS : QC_PANEL_ROWS * MORE;
    s->together = s->rows < most ? s->rows : most;
    const size_t rows = (size_t)s->together, number = sizeof(float);
    size_t bytes[QC_PRODUCT_PARTS] = {[QC_PRODUCT_SUMS] = qc_panel_sums(&s->shape, rows) * number,
                                      [QC_PRODUCT_SLICE] = d->packed ? 0 : qc_panel_slice(&s->shape) * number,
                                      [QC_PRODUCT_BIAS] = d->bias ? 0 : qc_product_padded(d->columns) * number};
    if (s->a_column != 1 && !qc_mul_size(&bytes[QC_PRODUCT_COPY], rows * number, (size_t)s->depth))
        return qc_fail_memory(st, SIZE_MAX);
    return qc_product_lay_out(d, bytes, st);
}

bool qc_product_matrix_new(struct qc_product **out, const struct qc_product_matrix *m, struct qc_status *st)
{
    const struct qc_product_operands operands = {m->a, m->b, m->bias, m->dst, m->isa};
    const size_t columns = (size_t)m->dst->dim[m->dst->rank - 1];
    struct qc_product *d = qc_product_start(&operands, 1, columns, &m->tail, st);
    if (!d) return false;
    const struct qc_view *a = m->a, *b = m->b, *y = m->dst;
    const int r = d->matrix.rank = y->rank - 2;
    ptrdiff_t matrices = 1;
    for (int i = r; i-- > 0;) {
        d->matrix.dim[i] = y->dim[i];
        d->matrix.a[i] = a->dim[i] == 1 ? 0 : a->stride[i];
        d->matrix.b[i] = b->dim[i] == 1 ? 0 : b->stride[i];
        d->matrix.y[i] = y->stride[i];
        d->matrix.packed[i] = b->dim[i] == 1 ? 0 : matrices;
        matrices *= b->dim[i];
    }
    d->matrix.rows = y->dim[r];
    d->matrix.depth = a->dim[r + 1];
    d->matrix.a_row = a->stride[r];
    d->matrix.a_column = d->matrix.depth == 1 ? 1 : a->stride[r + 1];
    d->matrix.b_row = b->stride[r];
    d->matrix.b_column = b->stride[r + 1];
    d->matrix.y_row = y->stride[r];
    d->matrix.y_column = y->stride[r + 1];
    qc_panel_shape_of(&d->matrix.shape, &d->tiles, columns, 1, (size_t)d->matrix.depth, 1);
    if ((m->b->data && !pack_matrices(d, m, st)) || !lay_out_matrix(d, st)) {
        qc_product_free(d);
        return false;
    }
    *out = d;
    return true;
}

/* Copies rows of a so that their numbers are contiguous. */
static void copy_rows(float *to, const struct qc_product_matrix_state *s, const float *a, ptrdiff_t rows)
{
    for (ptrdiff_t k = 0; k < s->depth; k++)
        for (ptrdiff_t i = 0; i < rows; i++) to[i * s->depth + k] = a[i * s->a_row + k * s->a_column];
}

void qc_product_run_matrix(const struct qc_product *d, const struct qc_product_memory *m)
{
    static const ptrdiff_t begin = 0;
    const struct qc_product_matrix_state *s = &d->matrix;
    const bool copied = s->a_column != 1;
    float *copy = qc_product_part_of(d, m, QC_PRODUCT_COPY);
    struct qc_panel_source source;
    struct qc_panel_product p = {.tiles = &d->tiles,
                                 .shape = &s->shape,
                                 .source = &source,
                                 .bias = qc_product_bias(d, m),
                                 .tail = &d->tail,
                                 .sums = qc_product_part_of(d, m, QC_PRODUCT_SUMS),
                                 .slice = qc_product_part_of(d, m, QC_PRODUCT_SLICE)};
    ptrdiff_t at[QC_RANK_MAX] = {0};
    do {
        const float *a = (const float *)m->src + offset(at, s, s->a);
        float *y = (float *)m->dst + offset(at, s, s->y);
        if (d->packed)
            p.packed = d->packed + (size_t)offset(at, s, s->packed) * qc_panel_numbers(&s->shape);
        else
            source = matrix_source(s, (const float *)m->weights + offset(at, s, s->b));
        for (ptrdiff_t i = 0, n; i < s->rows; i += n) {
            n = s->rows - i < s->together ? s->rows - i : s->together;
            const float *rows = a + i * s->a_row;
            if (copied) copy_rows(copy, s, rows, n);
            const struct qc_panel_lines l = {.a = copied ? copy : rows,
                                             .run = &begin,
                                             .a_step = copied ? s->depth : s->a_row,
                                             .y = y + i * s->y_row,
                                             .y_step = s->y_row,
                                             .y_column = s->y_column,
                                             .lines = 1,
                                             .count = (size_t)n};
            qc_panel_multiply(&p, &l);
        }
    } while (step(at, s, s->dim));
}
