// SPDX-License-Identifier: Apache-2.0
/* Inside simq/kernels/integer/: arguments of the innermost loops of depthwise convolutions. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "simq/core/convert.h"

/* Depthwise: every channel has its own weights. One pixel, all channels, acc[c] = bias[c] + sum over taps. Arrays
   are padded: acc and bias to a multiple of 64 channels, the memory of `a` by 64 bytes. Pixels that are contiguous
   in memory, as are their taps, may be passed as one pixel with the channels of all. */
struct qc_depthwise {
    const uint8_t *a;
    const ptrdiff_t *tap; /* [taps] byte offset of the tap's channels */
    size_t taps, channels;
    const void *w; /* packed by qc_depthwise_pack */
    const int32_t *bias;
    int32_t *acc;
};
typedef void qc_depthwise_fn(const struct qc_depthwise *d);

/* Two pixels, one below the other, of a window of QC_DEPTHWISE_LINES lines and stride 1; together they read four
   lines. `tap` and `taps` describe the window's first line; `line` is the byte distance to the next one. `w` belongs
   to the upper pixel, with zeros for the fourth line; `below` to the lower one, with zeros for the first. Both are
   interleaved weights of 4 * taps taps: the four lines of each column. */
enum { QC_DEPTHWISE_LINES = 3, QC_DEPTHWISE_BLOCK = 64 };
struct qc_depthwise_pair {
    struct qc_depthwise upper;
    ptrdiff_t line;
    const void *below;
    int32_t *acc_below;
};
typedef void qc_depthwise_pair_fn(const struct qc_depthwise_pair *d);

/* 3 by 3 windows along one line or two adjacent lines, of at most QC_DEPTHWISE_BLOCK channels, converted to bytes.
   Data that windows share is read once. */
struct qc_depthwise_line {
    const uint8_t *line[QC_DEPTHWISE_LINES + 1]; /* at the first window's first column */
    ptrdiff_t column, y_step;                    /* byte distance between columns, between results */
    size_t count, channels;                      /* of the results */
    size_t stride;                               /* columns between windows: 1 or 2; 1 if there are two lines */
    const void *w, *below;                       /* [3 columns][4 lines], packed, as in qc_depthwise_pair */
    const int32_t *bias;                         /* [QC_DEPTHWISE_BLOCK], in the order of qc_depthwise_lane */
    const float *factor;                         /* in the same order */
    const struct qc_convert_rows *finish;        /* uniform; its own factors are not used */
    uint8_t *y, *y_below;                        /* y_below NULL: one line */
};
typedef void qc_depthwise_line_fn(const struct qc_depthwise_line *d);

/* Defines walk(d, first, f): computes the results of a line from channel `first` on. Columns that windows share stay in
   registers. Needs struct column, load(&column, d, first, i), and result(d, first, i, &a, &b, &c, f, two) for the
   window with the columns a, b and c. */
#define QC_DEPTHWISE_WALK(target, walk, load, result)                                                                  \
    target static QC_INLINE void walk##_side_by_side(const struct qc_depthwise_line *d, size_t first,                  \
                                                     const struct finish *f, const bool two)                           \
    {                                                                                                                  \
        struct column a, b, c;                                                                                         \
        load(&a, d, first, 0);                                                                                         \
        load(&b, d, first, 1);                                                                                         \
        for (size_t i = 0;;) {                                                                                         \
            load(&c, d, first, i + 2);                                                                                 \
            result(d, first, i, &a, &b, &c, f, two);                                                                   \
            if (++i == d->count) return;                                                                               \
            load(&a, d, first, i + 2);                                                                                 \
            result(d, first, i, &b, &c, &a, f, two);                                                                   \
            if (++i == d->count) return;                                                                               \
            load(&b, d, first, i + 2);                                                                                 \
            result(d, first, i, &c, &a, &b, f, two);                                                                   \
            if (++i == d->count) return;                                                                               \
        }                                                                                                              \
    }                                                                                                                  \
    target static QC_INLINE void walk(const struct qc_depthwise_line *d, size_t first, const struct finish *f)         \
    {                                                                                                                  \
        struct column a, b, c;                                                                                         \
        if (d->stride != 2) {                                                                                          \
            if (d->y_below)                                                                                            \
                walk##_side_by_side(d, first, f, true);                                                                \
            else                                                                                                       \
                walk##_side_by_side(d, first, f, false);                                                               \
            return;                                                                                                    \
        }                                                                                                              \
        load(&a, d, first, 0);                                                                                         \
        for (size_t i = 0;;) {                                                                                         \
            load(&b, d, first, 2 * i + 1);                                                                             \
            load(&c, d, first, 2 * i + 2);                                                                             \
            result(d, first, i, &a, &b, &c, f, false);                                                                 \
            if (++i == d->count) return;                                                                               \
            load(&b, d, first, 2 * i + 1);                                                                             \
            load(&a, d, first, 2 * i + 2);                                                                             \
            result(d, first, i, &c, &b, &a, f, false);                                                                 \
            if (++i == d->count) return;                                                                               \
        }                                                                                                              \
    }

/* Packing of 8-bit weights. */
enum qc_taps {
    QC_TAPS_WORDS, /* int16 [tap][channel] */
    QC_TAPS_PAIRS, /* int16: for each block of 16 channels, each two taps, each channel (order of qc_depthwise_lane):
                      two weights */
    QC_TAPS_QUADS /* int8: for each block of 64 channels, each four taps, each channel (the same order): four weights */
};

/* Returns the channel at position i of a block of QC_DEPTHWISE_BLOCK. */
static inline size_t qc_depthwise_lane(enum qc_taps taps, size_t i)
{
    if (taps == QC_TAPS_QUADS) return i % 16 / 4 * 16 + i / 16 * 4 + i % 4;
    if (taps == QC_TAPS_PAIRS) return i / 16 * 16 + i / 4 % 2 * 8 + i / 8 % 2 * 4 + i % 4;
    return i;
}

/* Return the size of packed depthwise weights in bytes; pack them from w[tap][channel]. */
size_t qc_depthwise_bytes(size_t taps, size_t channels, enum qc_taps form);
void qc_depthwise_pack(void *to, const int32_t *w, size_t taps, size_t channels, enum qc_taps form);
/* Returns the number of channels per vector. */
size_t qc_depthwise_vector(enum qc_taps form);

/* For all processors: uint8 data and int16 data, weights QC_TAPS_WORDS. */
qc_depthwise_fn qc_depthwise_narrow, qc_depthwise_wide;

/* If the processor has them: AVX2 with QC_TAPS_PAIRS, AVX-512 VNNI with QC_TAPS_QUADS. */
#if defined(__x86_64__) && defined(__GNUC__)
qc_depthwise_fn qc_depthwise_avx2, qc_depthwise_vnni;
qc_depthwise_pair_fn qc_depthwise_pair_vnni;
qc_depthwise_line_fn qc_depthwise_line_avx2, qc_depthwise_line_vnni;
#endif
