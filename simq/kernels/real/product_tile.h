// SPDX-License-Identifier: Apache-2.0
/* Inside simq/: the innermost loops of float32 products. The sum of a part of a reduction is one chain of fused
   multiply-adds, starting from 0, in the order of the reduction. Parts are added in order. Which results share
   registers does not matter, so all instruction sets give the same bits. Bias, addition to the output and clamp
   follow. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/simd.h"
#include "simq/core/kernel.h"

enum { QC_PRODUCT_BLOCK = 16, QC_PRODUCT_BLOCKS = 3, QC_PRODUCT_ROWS = 16 };

/* Operations on a result after its bias, in this order. */
struct qc_product_tail {
    bool sum;     /* adds the numbers in the output's memory */
    float lo, hi; /* then clamps; -INFINITY and INFINITY: no clamp */
};

struct qc_product_tile {
    const float *a;
    ptrdiff_t step;       /* distance of rows, in numbers */
    const ptrdiff_t *run; /* [runs] offset of each run from the start of a row, in numbers */
    size_t runs, length;  /* length: numbers per run */
    const float *w;       /* [runs * length][16 * blocks] */
    const float *sums;    /* [rows][16 * blocks] sums of the previous parts; NULL: none */
    float *y;
    ptrdiff_t y_step;
    const struct qc_product_tail *tail; /* NULL: writes the plain sums to y */
    const float *bias;                  /* [16 * blocks] */
    int last;                           /* valid columns of the last block in y, 1 to 16 */
};

/* rows: 1 to the set's maximum for this number of blocks; blocks: 1 to 3. */
typedef void qc_product_tile_fn(const struct qc_product_tile *t, int rows, int blocks);

/* Depthwise: every channel has its own weights. Results along a line; the part of each window inside the data is
   summed. */
struct qc_product_depthwise {
    const float *const *line;               /* [lines] of the data */
    const float *const *w;                  /* [lines] of the weights, [columns][width] */
    size_t lines, columns, channels, width; /* width: of the weights */
    ptrdiff_t count, size;                  /* number of results; columns of the data */
    ptrdiff_t start, stride, delta;         /* result i reads the columns start + i * stride + t * delta, t < columns */
    ptrdiff_t step, y_step;                 /* distance in numbers between columns, between results */
    float *y;
    const struct qc_product_tail *tail;
    const float *bias; /* padded to whole blocks */
};
typedef void qc_product_depthwise_fn(const struct qc_product_depthwise *d);

struct qc_product_tiles {
    qc_product_tile_fn *tile;
    qc_product_depthwise_fn *depthwise;
    int blocks;                      /* of a panel, at most */
    int rows[QC_PRODUCT_BLOCKS + 1]; /* maximum number of rows by number of blocks */
};
struct qc_product_tiles qc_product_tiles_of(enum qc_isa isa);

/* a * b + c in float32, rounded once, for processors that may lack the instruction. */

/* Computed in double: the product is exact, and the sum is rounded to odd (Boldo and Melquiond, "Emulation of a
   FMA", 2008), so that rounding it to float32 equals rounding the exact sum. There are no branches, so loops
   vectorise. */
static QC_INLINE float qc_fused_by_doubles(float a, float b, float c)
{
    const double p = (double)a * (double)b, s = p + (double)c, z = s - p, e = (p - (s - z)) + ((double)c - z);
    int64_t bits;
    memcpy(&bits, &s, sizeof bits);
    const int64_t even = 1 - (bits & 1), up = e > 0, down = e < 0, below = s < 0;
    bits += even * (below ? down - up : up - down); /* if s is not finite, e is NaN and nothing changes */
    double odd;
    memcpy(&odd, &bits, sizeof odd);
    return (float)odd;
}

static QC_INLINE float qc_fused(float a, float b, float c)
{
#if defined(__FP_FAST_FMAF)
    return __builtin_fmaf(a, b, c);
#else
    return qc_fused_by_doubles(a, b, c);
#endif
}
