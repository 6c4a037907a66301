// SPDX-License-Identifier: Apache-2.0
/* Inside simq/kernels/real/: a matrix of weights in panels of columns, as the tiles of product_tile.h read it, and
   its product with rows of data along lines. */
#pragma once

#include "base/status.h"
#include "simq/core/kernel.h"
#include "simq/core/view.h"
#include "simq/kernels/real/product_tile.h"

/* Approximate rows per pass: their sums stay in the second-level cache. */
enum { QC_PANEL_ROWS = 256 };

/* The reduction consists of `runs` runs of contiguous data. It is divided by shape alone: after every `together`
   runs, or into pieces if a run is longer than QC_PANEL_REACH. */
enum { QC_PANEL_REACH = 128 };
struct qc_panel_shape {
    size_t columns;       /* of the matrix */
    size_t blocks;        /* of a panel, at most */
    size_t runs, length;  /* length: numbers per run */
    size_t pieces, piece; /* per run; the last piece may be shorter */
    size_t together;      /* 1 if runs are divided into pieces */
};
void qc_panel_shape_of(struct qc_panel_shape *p, const struct qc_product_tiles *tiles, size_t columns, size_t runs,
                       size_t length, size_t together);
/* Numbers of the packed matrix, and of one slice of it. */
size_t qc_panel_numbers(const struct qc_panel_shape *p);
size_t qc_panel_slice(const struct qc_panel_shape *p);
size_t qc_panel_sums(const struct qc_panel_shape *p, size_t rows); /* numbers of scratch for `rows` rows; may be 0 */

/* Unpacked weights: column c, number e of run r is at
   run[r] + c * column + e / inner * outer + e % inner * step. */
struct qc_panel_source {
    const float *w;
    const ptrdiff_t *run;
    ptrdiff_t column, outer, step;
    size_t inner;
};
void qc_panel_pack(float *to, const struct qc_panel_shape *p, const struct qc_panel_source *from);

struct qc_panel_lines {
    const float *a;
    const ptrdiff_t *run; /* [runs] */
    ptrdiff_t a_line, a_step;
    float *y;
    ptrdiff_t y_line, y_step, y_column;
    size_t lines, count; /* rows of a line */
};

struct qc_panel_product {
    const struct qc_product_tiles *tiles;
    const struct qc_panel_shape *shape;
    const float *packed; /* NULL: packed from `source` at run time */
    const struct qc_panel_source *source;
    const float *bias; /* padded to whole blocks */
    const struct qc_product_tail *tail;
    float *sums, *slice; /* scratch: qc_panel_sums of the rows; qc_panel_slice if weights are not packed */
};
void qc_panel_multiply(const struct qc_panel_product *p, const struct qc_panel_lines *l);
