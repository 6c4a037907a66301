// SPDX-License-Identifier: Apache-2.0
#include "simq/kernels/integer/int_lines.h"

#include <stdlib.h>
#include <string.h>

#include "simq/kernels/integer/int_copy.h"

enum { BLOCK = QC_DEPTHWISE_BLOCK, GROUP = QC_DEPTHWISE_LINES + 1, COLUMNS = 3, TAPS = GROUP * COLUMNS, SLACK = 64 };

/* Constants of a block of channels. */
struct qc_int_lines {
    int16_t w[TAPS * BLOCK], below[TAPS * BLOCK]; /* int16, or bytes */
    int32_t bias[BLOCK];
    float factor[BLOCK];
};

/* Returns whether this kernel is faster. With few channels and stride 1, pixels done together fill vectors better. */
static bool wanted(const struct qc_int_mac *m)
{
    const struct qc_int_shape *s = &m->d.shape;
    const int64_t least = (int64_t)qc_depthwise_vector(m->tiles.taps) / 2;
    bool ok = m->tiles.depthwise_line && !m->wide && !s->transposed && m->d.finish.rows.usable &&
              m->d.finish.rows.uniform && s->kernel[0] == 1 && s->stride[1] == s->stride[2] &&
              (s->stride[1] == 2 || (s->stride[1] == 1 && s->groups >= least));
    for (int i = 1; i < 3; i++) ok = ok && s->kernel[i] == 3 && s->dilation[i] == 1;
    return ok;
}

static size_t blocks_of(const struct qc_int_mac *m)
{
    return ((size_t)m->d.shape.groups + BLOCK - 1) / BLOCK;
}

static void fill(struct qc_int_lines *to, const struct qc_int_mac *m, const int32_t *w, const int32_t *bias,
                 size_t first)
{
    const size_t channels = (size_t)m->d.shape.groups, left = channels - first, n = left < BLOCK ? left : BLOCK;
    const struct qc_rounding *r = &m->d.finish.rounding;
    int32_t upper[TAPS * BLOCK] = {0}, lower[TAPS * BLOCK] = {0};
    for (size_t t = 0; t < COLUMNS; t++)
        for (size_t line = 0; line < QC_DEPTHWISE_LINES; line++) {
            const int32_t *from = w + (line * COLUMNS + t) * channels + first;
            memcpy(upper + (t * GROUP + line) * BLOCK, from, n * sizeof *from);
            memcpy(lower + (t * GROUP + line + 1) * BLOCK, from, n * sizeof *from);
        }
    qc_depthwise_pack(to->w, upper, TAPS, BLOCK, m->tiles.taps);
    qc_depthwise_pack(to->below, lower, TAPS, BLOCK, m->tiles.taps);
    for (size_t i = 0; i < BLOCK; i++) {
        const size_t c = qc_depthwise_lane(m->tiles.taps, i);
        to->bias[i] = c < n ? bias[first + c] : 0;
        to->factor[i] = c < n ? r->a[r->count > 1 ? first + c : 0] : 0;
    }
}

bool qc_int_lines_new(struct qc_int_mac *m, const int32_t *w, const int32_t *bias, struct qc_status *st)
{
    if (!wanted(m)) return true;
    const size_t count = blocks_of(m);
    if (!(m->lines = malloc(count * sizeof *m->lines))) return qc_fail_memory(st, count * sizeof *m->lines);
    for (size_t i = 0; i < count; i++) fill(&m->lines[i], m, w, bias, i * BLOCK);
    return true;
}

size_t qc_int_lines_bytes(const struct qc_int_mac *m)
{
    return m->lines ? blocks_of(m) * sizeof *m->lines : 0;
}

/* Byte distance between the lines in the scratch. */
static size_t held(const struct qc_int_mac *m)
{
    return ((size_t)m->plane_step[1] + SLACK + 63) / 64 * 64;
}

size_t qc_int_lines_scratch(const struct qc_int_mac *m)
{
    return m->copied ? GROUP * held(m) : 0;
}

void qc_int_lines_run(const struct qc_int_mac *m, uint8_t *y, const char *data, uint8_t *scratch)
{
    const struct qc_int_shape *s = &m->d.shape;
    const int64_t *out = m->d.out_stride, stride = s->stride[1];
    const size_t channels = (size_t)s->groups;
    for (int64_t i = 0; i < s->out[0]; i++) {
        int64_t copied = 0, lines = 1; /* copied: lines of the plane copied so far */
        for (int64_t k = 0; k < s->out[1]; k += lines) {
            const uint8_t *line[GROUP];
            lines = stride == 1 && k + 1 < s->out[1] ? 2 : 1;
            for (int64_t l = 0; l < GROUP; l++) {
                const int64_t at = k * stride + (l < 2 + lines ? l : 2); /* a missing line has weight 0 */
                if (m->copied) {
                    uint8_t *to = scratch + (size_t)(at % GROUP) * held(m);
                    if (at >= copied) qc_int_copy_line(m, to, data, i * s->stride[0], at);
                    copied = at >= copied ? at + 1 : copied;
                    line[l] = to;
                } else {
                    line[l] = (const uint8_t *)data + i * s->stride[0] * m->plane_step[0] + at * m->plane_step[1];
                }
            }
            for (size_t b = 0; b * BLOCK < channels; b++) {
                const struct qc_int_lines *w = &m->lines[b];
                const ptrdiff_t first = (ptrdiff_t)(b * BLOCK);
                uint8_t *to = y + i * out[2] + k * out[3] + first;
                const struct qc_depthwise_line d = {.line = {line[0] + first, line[1] + first, line[2] + first,
                                                             line[3] + first},
                                                    .column = (ptrdiff_t)m->plane_step[2],
                                                    .y_step = (ptrdiff_t)out[4],
                                                    .count = (size_t)s->out[2],
                                                    .channels =
                                                        channels - b * BLOCK < BLOCK ? channels - b * BLOCK : BLOCK,
                                                    .stride = (size_t)stride,
                                                    .w = w->w,
                                                    .below = w->below,
                                                    .bias = w->bias,
                                                    .factor = w->factor,
                                                    .finish = &m->d.finish.rows,
                                                    .y = to,
                                                    .y_below = lines == 2 ? to + out[3] : NULL};
                m->tiles.depthwise_line(&d);
            }
        }
    }
}
