// SPDX-License-Identifier: Apache-2.0
/* Inside simq/kernels/integer/: what the innermost loops of depthwise convolutions are given. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "simq/core/convert_rows.h"

/* Depthwise: every channel has its own weights. One pixel, all channels, acc[c] = bias[c] + sum over taps. Arrays are
   padded: acc and bias to a multiple of 64 channels, the memory of `a` to 64 bytes behind its end. Pixels that follow
   each other in memory, as do the taps of each, are one pixel of so many times the channels. */
struct qc_depthwise {
    const uint8_t *a;
    const ptrdiff_t *tap; /* [taps] bytes to the tap's channels */
    size_t taps, channels;
    const void *w; /* packed by qc_depthwise_pack */
    const int32_t *bias;
    int32_t *acc;
};
typedef void qc_depthwise_fn(const struct qc_depthwise *d);

/* Two pixels, one below the other, of a window of QC_DEPTHWISE_LINES lines and stride 1, in one go: they read four
   lines between them. `tap` and `taps` are those of the window's first line, `line` the bytes to the next. w: of the
   upper pixel, with zeros for the fourth line; below: of the lower one, with zeros for the first. Both as interleaved
   weights of 4 * taps taps: the four lines of each column. */
enum { QC_DEPTHWISE_LINES = 3, QC_DEPTHWISE_BLOCK = 64 };
struct qc_depthwise_pair {
    struct qc_depthwise upper;
    ptrdiff_t line;
    const void *below;
    int32_t *acc_below;
};
typedef void qc_depthwise_pair_fn(const struct qc_depthwise_pair *d);

/* Windows of 3 by 3 along a line, or along two lines one below the other, of at most QC_DEPTHWISE_BLOCK channels, to
   bytes at once. What windows share is read once. */
struct qc_depthwise_line {
    const uint8_t *line[QC_DEPTHWISE_LINES + 1]; /* at the first window's first column */
    ptrdiff_t column, y_step;                    /* bytes from column to column, from result to result */
    size_t count, channels;                      /* of the results */
    size_t stride;                               /* columns from window to window, 1 or 2; with two lines 1 */
    const void *w, *below;                       /* [3 columns][4 lines], packed, as in qc_depthwise_pair */
    const int32_t *bias;                         /* [QC_DEPTHWISE_BLOCK], by qc_depthwise_lane */
    const float *factor;                         /* likewise */
    const struct qc_convert_rows *finish;        /* uniform; its own factors are not read */
    uint8_t *y, *y_below;                        /* y_below NULL: one line */
};
typedef void qc_depthwise_line_fn(const struct qc_depthwise_line *d);

/* How weights of 8 bits are packed. */
enum qc_taps {
    QC_TAPS_WORDS, /* int16 [tap][channel] */
    QC_TAPS_PAIRS, /* int16, for blocks of 16 channels, for two taps, for each channel by qc_depthwise_lane: two */
    QC_TAPS_QUADS  /* int8, for blocks of 64 channels, for four taps, likewise: four */
};

/* Number i of a block of QC_DEPTHWISE_BLOCK is of this channel. */
static inline size_t qc_depthwise_lane(enum qc_taps taps, size_t i)
{
    if (taps == QC_TAPS_QUADS) return i % 16 / 4 * 16 + i / 16 * 4 + i % 4;
    if (taps == QC_TAPS_PAIRS) return i / 16 * 16 + i / 4 % 2 * 8 + i / 8 % 2 * 4 + i % 4;
    return i;
}

/* Bytes and content of packed depthwise weights from w[tap][channel]. */
size_t qc_depthwise_bytes(size_t taps, size_t channels, enum qc_taps form);
void qc_depthwise_pack(void *to, const int32_t *w, size_t taps, size_t channels, enum qc_taps form);
/* Channels that make a vector of them. */
size_t qc_depthwise_vector(enum qc_taps form);

/* For all processors: uint8 data, int16 data; weights QC_TAPS_WORDS. */
qc_depthwise_fn qc_depthwise_narrow, qc_depthwise_wide;

/* Where the processor has them: AVX2 with QC_TAPS_PAIRS, AVX-512 VNNI with QC_TAPS_QUADS. */
#if defined(__x86_64__) && defined(__GNUC__)
qc_depthwise_fn qc_depthwise_avx2, qc_depthwise_vnni;
qc_depthwise_pair_fn qc_depthwise_pair_vnni;
qc_depthwise_line_fn qc_depthwise_line_avx2, qc_depthwise_line_vnni;
#endif
