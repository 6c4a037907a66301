// SPDX-License-Identifier: Apache-2.0
/* Inside simq/: the innermost loops of float32 products. The sum of a part of a reduction is one chain of fused
   multiply-adds, from 0 up, in the order of the reduction; parts are added in their order. Which results share
   registers makes no difference, so all instruction sets give the same bits. Bias, what is there already and clamps
   come behind. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/simd.h"
#include "simq/core/isa.h"

enum { QC_PRODUCT_BLOCK = 16, QC_PRODUCT_BLOCKS = 3, QC_PRODUCT_ROWS = 16 };

/* What happens to a result before it is written, in this order, behind its bias. */
struct qc_product_tail {
    bool sum;     /* the output's memory holds numbers that are added */
    float lo, hi; /* then clamped; -INFINITY and INFINITY: not at all */
};

struct qc_product_tile {
    const float *a;
    ptrdiff_t step;       /* numbers from row to row */
    const ptrdiff_t *run; /* [runs] numbers from a row's begin to that of its runs */
    size_t runs, length;  /* numbers in each */
    const float *w;       /* [runs * length][16 * blocks] */
    const float *sums;    /* [rows][16 * blocks] of the parts before this; NULL: none */
    float *y;
    ptrdiff_t y_step;
    const struct qc_product_tail *tail; /* NULL: the sums as they are go to y */
    const float *bias;                  /* [16 * blocks] */
    int last;                           /* columns of the last block that y has, 1 to 16 */
};

/* rows: 1 to what the set has for so many blocks, 1 to 3. */
typedef void qc_product_tile_fn(const struct qc_product_tile *t, int rows, int blocks);

/* Depthwise: every channel has its own weights. Results along a line; of a window what lies in the data is summed. */
struct qc_product_depthwise {
    const float *const *line;               /* [lines] of the data */
    const float *const *w;                  /* [lines] of the weights, [columns][width] */
    size_t lines, columns, channels, width; /* width: of the weights */
    ptrdiff_t count, size;                  /* results; columns of the data */
    ptrdiff_t start, stride, delta;         /* result i reads the columns start + i * stride + t * delta, t < columns */
    ptrdiff_t step, y_step;                 /* numbers from column to column, from result to result */
    float *y;
    const struct qc_product_tail *tail;
    const float *bias; /* up to whole blocks */
};
typedef void qc_product_depthwise_fn(const struct qc_product_depthwise *d);

struct qc_product_tiles {
    qc_product_tile_fn *tile;
    qc_product_depthwise_fn *depthwise;
    int blocks;                      /* of a panel at most */
    int rows[QC_PRODUCT_BLOCKS + 1]; /* [blocks] */
};
struct qc_product_tiles qc_product_tiles_of(enum qc_isa isa);

/* a b + c in float32, rounded once, where the processor may lack the instruction. */

/* By doubles: the product is exact, the sum is rounded to odd (Boldo and Melquiond, "Emulation of a FMA", 2008), which
   the rounding to float32 cannot tell from the exact sum. No branches, so loops of it become vector code. */
static QC_INLINE float qc_fused_by_doubles(float a, float b, float c)
{
    const double p = (double)a * (double)b, s = p + (double)c, z = s - p, e = (p - (s - z)) + ((double)c - z);
    int64_t bits;
    memcpy(&bits, &s, sizeof bits);
    const int64_t even = 1 - (bits & 1), up = e > 0, down = e < 0, below = s < 0;
    bits += even * (below ? down - up : up - down); /* e is NaN, and nothing changes, where s is not finite */
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
