// SPDX-License-Identifier: Apache-2.0
/* Inside simq/kernels/real/: a matrix of weights in panels of columns, as the tiles of product_tile.h read them, and
   rows of data along lines times such a matrix. */
#pragma once

#include "base/status.h"
#include "simq/core/packed.h"
#include "simq/core/view.h"
#include "simq/kernels/real/product_tile.h"

/* Rows that are multiplied in one go, about: their sums stay in the second-level cache. */
enum { QC_PANEL_ROWS = 256 };

/* The reduction is `runs` runs of numbers side by side in the data. It is cut where that can be said of the shape
   alone: behind every `together` runs, or, where a run is longer than QC_PANEL_REACH, into pieces. */
enum { QC_PANEL_REACH = 128 };
struct qc_panel_shape {
    size_t columns;       /* of the matrix */
    size_t blocks;        /* of a panel at most */
    size_t runs, length;  /* of all of a run */
    size_t pieces, piece; /* of a run; the last piece may be shorter */
    size_t together;      /* 1 where there are pieces */
};
void qc_panel_shape_of(struct qc_panel_shape *p, const struct qc_product_tiles *tiles, size_t columns, size_t runs,
                       size_t length, size_t together);
/* Numbers of the packed matrix, and of what is packed of it in one go. */
size_t qc_panel_numbers(const struct qc_panel_shape *p);
size_t qc_panel_slice(const struct qc_panel_shape *p);
size_t qc_panel_sums(const struct qc_panel_shape *p, size_t rows); /* numbers of scratch for so many rows; may be 0 */

/* Weights as they are given, in numbers: column c, number e of run r is at
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
    const float *packed; /* NULL: packed from `source` as it goes */
    const struct qc_panel_source *source;
    const float *bias; /* up to whole blocks */
    const struct qc_product_tail *tail;
    float *sums, *slice; /* scratch: qc_panel_sums of the rows; qc_panel_slice where nothing is packed */
};
void qc_panel_multiply(const struct qc_panel_product *p, const struct qc_panel_lines *l);
