// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "arith/contract.h"
#include "base/simd.h"
#include "simq/kernels/integer/int_mac.h"
#include "simq/kernels/integer/tile.h"

/* FEW_QUADS: sums of fewer products are converted many at a time, since a call takes long beside them. */
enum { ROWS = QC_TILE_ROWS, FEW_QUADS = 64, SLACK = 64 };

/* Copying: the data of a step to the form that its tiles read: padded, spread out for a transposed convolution, with
   contiguous channels, less the shift. From the strides of m->d to those of m->plane_step. */

/* Writes n elements of padding, starting at channel 0. */
static void fill_padding(const struct qc_int_mac *m, uint8_t *to, size_t n)
{
    const size_t channels = (size_t)m->d.shape.groups;
    for (size_t i = 0; m->zeros && i < n; i++) {
        if (m->element == 1)
            to[i] = (uint8_t)m->zeros[i % channels];
        else
            ((int16_t *)(void *)to)[i] = (int16_t)m->zeros[i % channels];
    }
    if (m->zeros) return;
    if (m->element == 1) {
        memset(to, m->zero, n);
        return;
    }
    int16_t *y = (int16_t *)(void *)to;
    for (size_t i = 0; i < n; i++) y[i] = (int16_t)m->zero;
}

#define QC_MOVE(NAME, S, T)                                                                                            \
    static QC_INLINE void NAME##_body(T *restrict y, const S *restrict x, size_t n, int64_t stride, int32_t shift)     \
    {                                                                                                                  \
        if (stride == 1)                                                                                               \
            for (size_t i = 0; i < n; i++) y[i] = (T)((int32_t)x[i] - shift);                                          \
        else                                                                                                           \
            for (size_t i = 0; i < n; i++) y[i] = (T)((int32_t)x[(int64_t)i * stride] - shift);                        \
    }                                                                                                                  \
    QC_SIMD(NAME, (T *restrict y, const S *restrict x, size_t n, int64_t stride, int32_t shift),                       \
            (y, x, n, stride, shift))
QC_MOVE(move_u8_u8, uint8_t, uint8_t)
QC_MOVE(move_i8_u8, int8_t, uint8_t)
QC_MOVE(move_u8_i16, uint8_t, int16_t)
QC_MOVE(move_i8_i16, int8_t, int16_t)
QC_MOVE(move_u16_i16, uint16_t, int16_t)
QC_MOVE(move_i16_i16, int16_t, int16_t)
QC_MOVE(move_f32_i16, float, int16_t)
QC_MOVE(move_f32_u8, float, uint8_t)

static void move(const struct qc_int_mac *m, uint8_t *y, const void *x, size_t n, int64_t stride)
{
    const enum qc_dtype t = m->d.data_type;
    int16_t *wide = (int16_t *)(void *)y;
    if (t == QC_F32 && !m->wide)
        move_f32_u8(y, x, n, stride, m->shift);
    else if (t == QC_F32)
        move_f32_i16(wide, x, n, stride, m->shift);
    else if (t == QC_I16)
        move_i16_i16(wide, x, n, stride, m->shift);
    else if (t == QC_U16)
        move_u16_i16(wide, x, n, stride, m->shift);
    else if ((t == QC_I8 || t == QC_I4) && m->wide)
        move_i8_i16(wide, x, n, stride, m->shift);
    else if (t == QC_I8 || t == QC_I4)
        move_i8_u8(y, x, n, stride, m->shift);
    else if (m->wide)
        move_u8_i16(wide, x, n, stride, m->shift);
    else if (stride == 1 && m->shift == 0)
        memcpy(y, x, n);
    else
        move_u8_u8(y, x, n, stride, m->shift);
}

/* Returns the data position for position i of the copy's dimension d, or -1 for padding. */
static int64_t source_int_mac_run(const struct qc_int_mac *m, int d, int64_t i)
{
    const int64_t k = i - m->origin[d];
    return k < 0 || k % m->up[d] || k / m->up[d] >= m->d.shape.in[d] ? -1 : k / m->up[d];
}

static void copy_data_line(const struct qc_int_mac *m, uint8_t *to, const char *from)
{
    const size_t size = qc_dtype_size(m->d.data_type), channels = (size_t)(m->d.shape.groups * m->d.shape.inputs);
    const int64_t *stride = m->d.data_stride;
    const bool dense = (stride[1] == 1 || channels == 1) && stride[4] == (int64_t)channels && m->up[2] == 1;
    int64_t first = 0, last = m->plane[2];
    if (!dense) {
        for (int64_t i = 0; i < m->plane[2]; i++, to += m->plane_step[2]) {
            const int64_t k = source_int_mac_run(m, 2, i);
            if (k < 0)
                fill_padding(m, to, channels);
            else
                move(m, to, from + k * stride[4] * (int64_t)size, channels, stride[1]);
        }
        return;
    }
    if (m->origin[2] > 0) first = m->origin[2] < last ? m->origin[2] : last;
    if (last > m->origin[2] + m->d.shape.in[2]) last = m->origin[2] + m->d.shape.in[2];
    if (last < first) last = first;
    fill_padding(m, to, (size_t)first * channels);
    move(m, to + first * m->plane_step[2], from + (first - m->origin[2]) * stride[4] * (int64_t)size,
         (size_t)(last - first) * channels, 1);
    fill_padding(m, to + last * m->plane_step[2], (size_t)(m->plane[2] - last) * channels);
}

/* Copies line k of plane i. */
static void copy_line(const struct qc_int_mac *m, uint8_t *to, const char *from, int64_t i, int64_t k)
{
    const int64_t size = (int64_t)qc_dtype_size(m->d.data_type), *stride = m->d.data_stride,
                  a = source_int_mac_run(m, 0, i), b = source_int_mac_run(m, 1, k);
    if (a < 0 || b < 0)
        fill_padding(m, to, (size_t)(m->d.shape.groups * m->d.shape.inputs * m->plane[2]));
    else
        copy_data_line(m, to, from + (a * stride[2] + b * stride[3]) * size);
}

static size_t inputs_of(const struct qc_int_mac *m)
{
    return m->runs * m->run_elements;
}

/* Adds a0 * w[c] + a1 * w[n + c], saturated as one pair, to acc[c]. */
QC_VECTOR(add_pair, (int32_t *restrict acc, int32_t a0, int32_t a1, const int8_t *restrict w, size_t n),
          (acc, a0, a1, w, n))
{
    for (size_t c = 0; c < n; c++) acc[c] += qc_pair_product(a0, w[c], a1, w[n + c]);
}

size_t qc_int_pairs_bytes(const struct qc_int_mac *m)
{
    return (inputs_of(m) + 1) / 2 * 2 * m->channels;
}

size_t qc_int_pairs_scratch(const struct qc_int_mac *m)
{
    return m->channels * sizeof(int32_t) + inputs_of(m) + 1;
}

static void run_pixel(const struct qc_int_mac *m, int64_t group, const uint8_t *data, const uint8_t *weights,
                      const int32_t *bias, char *y, int32_t *acc)
{
    const size_t n = m->channels, pairs = (inputs_of(m) + 1) / 2, first = (size_t)group * n;
    const int32_t *zero = m->weight_scales.zero_point;
    uint8_t *row = (uint8_t *)(acc + n);
    int32_t sum;
    /* Gather the data of the result in the order of the weights. */
    const size_t all = inputs_of(m);
    for (size_t r = 0; r < m->runs; r++) memcpy(row + r * m->run_elements, data + m->run[r], m->run_elements);
    row[all] = 0; /* partner of the last element of an odd count */
    sum = 0;
    for (size_t i = 0; i < all; i++) sum += row[i];
    for (size_t c = 0; c < n; c++)
        acc[c] =
            (int32_t)((uint32_t)bias[c] - (uint32_t)zero[m->weight_scales.count > 1 ? first + c : 0] * (uint32_t)sum);
    for (size_t i = 0; i < pairs; i++)
        add_pair(acc, row[2 * i], row[2 * i + 1], (const int8_t *)weights + 2 * i * n, n);
    qc_convert_rows(&m->d.finish, first, y, m->d.out_stride[4], acc, n, 1, n);
}

enum { BLOCK = QC_DEPTHWISE_BLOCK, GROUP = QC_DEPTHWISE_LINES + 1, COLUMNS = 3, TAPS = GROUP * COLUMNS };

/* Constants of a block of channels. */
struct qc_int_lines {
    int16_t w[TAPS * BLOCK], below[TAPS * BLOCK]; /* int16, or bytes */
    int32_t bias[BLOCK];
    float factor[BLOCK];
};

static size_t line_blocks(const struct qc_int_mac *m)
{
    return ((size_t)m->d.shape.groups + BLOCK - 1) / BLOCK;
}

bool qc_int_lines_new(struct qc_int_mac *m, const int32_t *w, const int32_t *bias, struct qc_status *st)
{
    /* With few channels and stride 1, pixels done together fill vectors better than a line. */
    const struct qc_int_shape *s = &m->d.shape;
    const int64_t least = (int64_t)qc_depthwise_vector(m->tiles.taps) / 2;
    bool faster = m->tiles.depthwise_line && !m->wide && !s->transposed && m->d.finish.rows.usable &&
                  m->d.finish.rows.uniform && s->kernel[0] == 1 && s->stride[1] == s->stride[2] &&
                  (s->stride[1] == 2 || (s->stride[1] == 1 && s->groups >= least));
    for (int i = 1; i < 3; i++) faster = faster && s->kernel[i] == 3 && s->dilation[i] == 1;
    if (!faster) return true;
    const size_t count = line_blocks(m), channels = (size_t)m->d.shape.groups;
    const struct qc_rounding *r = &m->d.finish.rounding;
    if (!(m->lines = malloc(count * sizeof *m->lines))) return qc_fail_memory(st, count * sizeof *m->lines);
    for (size_t i = 0; i < count; i++) {
        const size_t first = i * BLOCK, left = channels - first, n = left < BLOCK ? left : BLOCK;
        int32_t upper[TAPS * BLOCK] = {0}, lower[TAPS * BLOCK] = {0};
        for (size_t t = 0; t < COLUMNS; t++)
            for (size_t line = 0; line < QC_DEPTHWISE_LINES; line++) {
                const int32_t *from = w + (line * COLUMNS + t) * channels + first;
                memcpy(upper + (t * GROUP + line) * BLOCK, from, n * sizeof *from);
                memcpy(lower + (t * GROUP + line + 1) * BLOCK, from, n * sizeof *from);
            }
        qc_depthwise_pack(m->lines[i].w, upper, TAPS, BLOCK, m->tiles.taps);
        qc_depthwise_pack(m->lines[i].below, lower, TAPS, BLOCK, m->tiles.taps);
        for (size_t k = 0; k < BLOCK; k++) {
            const size_t c = qc_depthwise_lane(m->tiles.taps, k);
            m->lines[i].bias[k] = c < n ? bias[first + c] : 0;
            m->lines[i].factor[k] = c < n ? r->a[r->count > 1 ? first + c : 0] : 0;
        }
    }
    return true;
}

size_t qc_int_lines_bytes(const struct qc_int_mac *m)
{
    return m->lines ? line_blocks(m) * sizeof *m->lines : 0;
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

/* Computes one sample: unpadded data, y with contiguous channels. */
static void run_lines(const struct qc_int_mac *m, uint8_t *y, const char *data, uint8_t *scratch)
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
                    if (at >= copied) copy_line(m, to, data, i * s->stride[0], at);
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

struct call {
    const struct qc_int_mac *m;
    const uint8_t *data, *weights;
    const int32_t *bias;
    char *y;
    int32_t *acc;
    struct qc_sums *sums;
    int64_t lines; /* of dimension 1 of the result, from y on */
};

/* Returns the rows of the next tile: the fewest that hold the `left` last of `all` rows, or the most there are. */
static int64_t rows_of_tile(const struct qc_int_mac *m, int blocks, int64_t left, int64_t all)
{
    const int64_t most = m->tiles.rows[blocks];
    int64_t rows = 1;
    if (left >= most && !m->serial) return most;
    while (rows < left && rows < ROWS) rows *= 2;
    if (rows < left && !m->serial) rows = most;
    if (rows > all && all > ROWS) rows = ROWS;
    while (rows > (m->serial ? left : all)) rows /= 2;
    return rows;
}

/* Computes `count` outputs of one line with the weights of one panel. */
static void run_line(const struct call *c, struct qc_tile *t, int blocks, size_t first, size_t n, int32_t zero,
                     const uint8_t *a, char *y, int64_t count)
{
    const struct qc_int_mac *m = c->m;
    const int64_t step = m->d.out_stride[4] * (int64_t)qc_dtype_size(m->d.finish.to);
    qc_tile_fn *fn = m->wide ? m->tiles.wide : m->tiles.narrow;
    const struct qc_tile_narrow serial = {.accumulator = m->d.accumulator,
                                          .wide = m->wide,
                                          .narrow_sums = m->d.narrow_sums,
                                          .zero = zero,
                                          .first = first,
                                          .channels = n};
    const size_t width = (size_t)blocks * QC_TILE_CHANNELS;
    const int64_t strip = m->runs * m->quads < FEW_QUADS ? QC_INT_STRIP : m->tiles.rows[blocks];
    for (int64_t from = 0, some; from < count; from += some) {
        some = count - from < strip ? count - from : strip;
        for (int64_t i = 0, rows; i < some; i += rows) {
            rows = rows_of_tile(m, blocks, some - i, some);
            if (rows > some - i) i = some - rows; /* recomputes some outputs instead of using smaller tiles */
            t->a = a + (from + i) * t->step;
            t->acc = c->acc + (size_t)i * width;
            if (m->serial)
                qc_tile_narrow(t, (int)rows, blocks, &serial, c->sums);
            else
                fn(t, (int)rows, blocks);
        }
        qc_convert_rows(&m->d.finish, first, y + from * step, m->d.out_stride[4], c->acc, width, (size_t)some, n);
    }
}

/* Outputs: `count` of each line. The `positions` of the data form one line, or lines that begin every `pitch`
   positions; results between the lines are discarded. */
struct lines {
    int64_t positions, pitch, count, line_out;
};

/* Sums of `count` positions from `first` on, at acc. */
struct sums_of {
    const int32_t *acc;
    int64_t first, count;
};

static void convert_amx(const struct call *c, struct sums_of done, size_t width, size_t first, size_t n, char *y,
                        struct lines l)
{
    const struct qc_int_mac *m = c->m;
    const int64_t step = m->d.out_stride[4] * (int64_t)qc_dtype_size(m->d.finish.to);
    for (int64_t k = 0, some; k < done.count; k += some) {
        const int64_t line = (done.first + k) / l.pitch, at = (done.first + k) % l.pitch;
        some = (at < l.count ? l.count : l.pitch) - at;
        if (some > done.count - k) some = done.count - k;
        if (at < l.count)
            qc_convert_rows(&m->d.finish, first, y + line * l.line_out + at * step, m->d.out_stride[4],
                            done.acc + (size_t)k * width, width, (size_t)some, n);
    }
}

/* Sums are converted after the next products were issued: the processor does both at once. */
static void run_amx(const struct call *c, struct qc_tile *t, int blocks, size_t first, size_t n, const uint8_t *a,
                    char *y, struct lines l)
{
    const int64_t rows = c->m->amx_rows;
    const size_t width = (size_t)blocks * QC_TILE_CHANNELS;
    int32_t *const acc[] = {c->acc, c->acc + QC_AMX_SUMS};
    struct sums_of last = {.count = 0};
    size_t turn = 0;
    for (int64_t i = 0; i < l.positions;) {
        int64_t tiles = (l.positions - i) / rows;
        if (!tiles) i = l.positions - rows; /* recomputes some outputs */
        if (!tiles || blocks > 2) tiles = 1;
        if (tiles > QC_AMX_TILES / blocks) tiles = QC_AMX_TILES / blocks;
        t->a = a + i * t->step;
        t->acc = acc[turn++ % 2];
        qc_amx_tile(t, (int)rows, (int)tiles, blocks);
        convert_amx(c, last, width, first, n, y, l);
        last = (struct sums_of){t->acc, i, tiles * rows};
        i += last.count;
    }
    convert_amx(c, last, width, first, n, y, l);
}

static void run_pairs(const struct call *c, int64_t group)
{
    const struct qc_int_mac *m = c->m;
    const struct qc_int_shape *s = &m->d.shape;
    const int64_t first = group * s->outputs, size = (int64_t)qc_dtype_size(m->d.finish.to), *out = m->d.out_stride;
    for (int64_t i = 0; i < s->out[0]; i++)
        for (int64_t k = 0; k < s->out[1]; k++)
            for (int64_t l = 0; l < s->out[2]; l++)
                run_pixel(m, group,
                          c->data + group * s->inputs * (int64_t)m->element + i * s->stride[0] * m->plane_step[0] +
                              k * s->stride[1] * m->plane_step[1] + l * s->stride[2] * m->plane_step[2],
                          c->weights + (size_t)group * m->group_bytes, c->bias + first,
                          c->y + (first + i * out[2] + k * out[3] + l * out[4]) * size, c->acc);
}

static void run_group(const struct call *c, int64_t group)
{
    const struct qc_int_mac *m = c->m;
    const struct qc_int_shape *s = &m->d.shape;
    const int64_t step = s->transposed ? 1 : s->stride[2], size = (int64_t)qc_dtype_size(m->d.finish.to);
    int64_t lines[2] = {s->out[0], c->lines}, count = s->out[2];
    int64_t line_in[2], line_out[2];
    for (int i = 0; i < 2; i++) {
        line_in[i] = m->plane_step[i] * (s->transposed ? 1 : s->stride[i]);
        line_out[i] = m->d.out_stride[2 + i] * size;
    }
    int64_t positions = count, pitch = count;
    if (m->amx_pitch) {
        const bool even = m->amx_pitch == count && line_out[1] == m->d.out_stride[4] * size * count;
        positions += (lines[1] - 1) * m->amx_pitch;
        count = even ? positions : count;
        pitch = even ? positions : m->amx_pitch;
        lines[1] = 1;
    }
    /* Lines at a constant distance in both memories are one line. */
    for (int i = 1; !m->amx_rows && i >= 0; i--) {
        if (line_in[i] != m->plane_step[2] * step * count || line_out[i] != m->d.out_stride[4] * size * count) break;
        count *= lines[i];
        lines[i] = 1;
    }
    const uint8_t *data = c->data + group * s->inputs * (int64_t)m->element;
    size_t channel = 0;
    for (size_t p = 0; p < m->panels; p++) {
        const size_t width = (size_t)m->blocks[p] * QC_TILE_CHANNELS, left = (size_t)s->outputs - channel;
        const size_t first = (size_t)(group * s->outputs) + channel;
        struct qc_tile t = {.step = (ptrdiff_t)(m->plane_step[2] * step),
                            .run = m->run,
                            .runs = m->runs,
                            .quads = m->quads,
                            .w = c->weights + (size_t)group * m->group_bytes + m->panel_at[p],
                            .bias = c->bias + (size_t)group * m->channels + channel,
                            .acc = c->acc};
        const size_t n = left < width ? left : width;
        for (int64_t i = 0; i < lines[0]; i++)
            for (int64_t k = 0; k < lines[1]; k++) {
                const uint8_t *a = data + i * line_in[0] + k * line_in[1];
                char *y = c->y + (int64_t)first * size + i * line_out[0] + k * line_out[1];
                if (m->amx_rows)
                    run_amx(c, &t, m->blocks[p], first, n, a, y, (struct lines){positions, pitch, count, line_out[1]});
                else
                    run_line(c, &t, m->blocks[p], first, n, m->zeros ? m->zeros[group] : m->zero, a, y, count);
            }
        channel += width;
    }
}

/* Sums up to ROWS pixels of a line, at `a`, and, with a pair, those of the line below. */
static void depthwise_sums(const struct call *c, bool pair, const uint8_t *a, int32_t *acc, int32_t *below, size_t rows,
                           size_t row)
{
    const struct qc_int_mac *m = c->m;
    const struct qc_int_shape *s = &m->d.shape;
    const size_t one = (size_t)s->groups;
    const int64_t step = m->plane_step[2] * (s->transposed ? 1 : s->stride[2]);
    qc_depthwise_fn *fn = m->wide ? m->tiles.wide_depthwise : m->tiles.narrow_depthwise;
    for (size_t r = 0; r < rows; r += m->together) {
        const size_t n = rows - r < m->together ? rows - r : m->together;
        struct qc_depthwise_pair d = {.upper = {.a = a + (int64_t)r * step,
                                                .tap = m->run,
                                                .taps = pair ? (size_t)s->kernel[2] : m->runs,
                                                .channels = n * one,
                                                .w = pair ? m->pair[0] : c->weights,
                                                .bias = c->bias,
                                                .acc = acc + r * row},
                                      .line = m->plane_step[1],
                                      .below = m->pair[1],
                                      .acc_below = below + r * row};
        if (pair)
            m->tiles.depthwise_pair(&d);
        else
            fn(&d.upper);
    }
}

static void run_int_depthwise(const struct call *c)
{
    const struct qc_int_mac *m = c->m;
    const struct qc_int_shape *s = &m->d.shape;
    const int64_t size = (int64_t)qc_dtype_size(m->d.finish.to), *out = m->d.out_stride;
    const size_t channels = (size_t)s->groups,
                 row = m->together > 1 ? channels : (channels + SLACK - 1) / SLACK * SLACK;
    int32_t *below = c->acc + (channels + SLACK) * ROWS;
    int64_t step[3], lines = 1;
    for (int i = 0; i < 3; i++) step[i] = m->plane_step[i] * (s->transposed ? 1 : s->stride[i]);
    for (int64_t i = 0; i < s->out[0]; i++)
        for (int64_t k = 0; k < s->out[1]; k += lines) {
            lines = m->pair[0] && k + 1 < s->out[1] ? 2 : 1;
            for (int64_t l = 0; l < s->out[2]; l += ROWS) {
                const int64_t rows = s->out[2] - l < ROWS ? s->out[2] - l : ROWS;
                char *y = c->y + (i * out[2] + k * out[3] + l * out[4]) * size;
                depthwise_sums(c, lines == 2, c->data + i * step[0] + k * step[1] + l * step[2], c->acc, below,
                               (size_t)rows, row);
                qc_convert_rows(&m->d.finish, 0, y, out[4], c->acc, row, (size_t)rows, channels);
                if (lines == 2)
                    qc_convert_rows(&m->d.finish, 0, y + out[3] * size, out[4], below, row, (size_t)rows, channels);
            }
        }
}

/* Computes some lines of the result with all panels of weights, then the next: their data stays in the cache. */
static void run_slabs(struct call *c, uint8_t *copy, const char *data)
{
    const struct qc_int_mac *m = c->m;
    const struct qc_int_shape *s = &m->d.shape;
    const int64_t stride = s->transposed ? 1 : s->stride[1], reach = (s->kernel[1] - 1) * s->dilation[1],
                  slabs = qc_int_mac_slabs(m), line_out = m->d.out_stride[3] * (int64_t)qc_dtype_size(m->d.finish.to);
    char *const y = c->y;
    for (int64_t i = 0; i < slabs; i++) {
        const int64_t from = s->out[1] * i / slabs, first = from * stride;
        c->lines = s->out[1] * (i + 1) / slabs - from;
        c->y = y + from * line_out;
        c->data = m->copied ? copy : (const uint8_t *)data + first * m->plane_step[1];
        for (int64_t k = 0; m->copied && k <= (c->lines - 1) * stride + reach; k++)
            copy_line(m, copy + k * m->plane_step[1], data, 0, first + k);
        for (int64_t g = 0; g < s->groups; g++) run_group(c, g);
    }
}

void qc_int_mac_run(const struct qc_int_mac *m, void *y, const void *x, const void *weights, void *scratch,
                    struct qc_sums *sums)
{
    const struct qc_int_shape *s = &m->d.shape;
    uint8_t *copy = scratch;
    struct call c = {
        .m = m, .weights = m->weights, .bias = m->bias, .acc = (int32_t *)(void *)(copy + m->copy_bytes), .sums = sums};
    if (!m->weights) {
        uint8_t *packed = (uint8_t *)c.acc + m->sum_bytes;
        int32_t *bias = (int32_t *)(void *)(packed + m->packed_bytes);
        const struct qc_int_pack p = qc_int_mac_pack(m);
        if (m->pairs)
            qc_int_pack_pairs((int8_t *)packed, bias, &p, weights);
        else
            qc_int_pack(packed, bias, &p, weights);
        qc_int_pack_bias(bias, &p, bias, m->given);
        c.weights = packed;
        c.bias = bias;
    }
    if (m->amx_rows) qc_amx_begin(m->amx_rows, m->quads);
    for (int64_t n = 0; n < s->batch; n++) {
        const char *data = (const char *)x + n * m->d.data_stride[0] * (int64_t)qc_dtype_size(m->d.data_type);
        c.y = (char *)y + n * m->d.out_stride[0] * (int64_t)qc_dtype_size(m->d.finish.to);
        c.data = (const uint8_t *)data;
        if (m->lines) {
            run_lines(m, (uint8_t *)c.y, data, copy);
            continue;
        }
        if (m->slab_lines) {
            run_slabs(&c, copy, data);
            continue;
        }
        if (m->copied) {
            for (int64_t i = 0; i < m->plane[0]; i++)
                for (int64_t k = 0; k < m->plane[1]; k++)
                    copy_line(m, copy + i * m->plane_step[0] + k * m->plane_step[1], data, i, k);
            c.data = copy;
        }
        c.lines = s->out[1];
        if (m->depthwise)
            run_int_depthwise(&c);
        else
            for (int64_t g = 0; g < s->groups; g++) (m->pairs ? run_pairs : run_group)(&c, g);
    }
    if (m->amx_rows) qc_amx_end();
}
