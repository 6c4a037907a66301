// SPDX-License-Identifier: Apache-2.0
#include "simq/kernels/integer/int_copy.h"
#include "simq/kernels/integer/int_lines.h"
#include "simq/kernels/integer/int_mac.h"
#include "simq/kernels/integer/int_mac_state.h"
#include "simq/kernels/integer/int_pairs.h"
#include "simq/kernels/integer/tile_amx.h"

/* FEW_QUADS: sums of fewer products are converted many at a time, since a call takes long beside them. */
enum { ROWS = QC_TILE_ROWS, FEW_QUADS = 64, SLACK = 64 };

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
    const int64_t first = group * m->d.shape.outputs, size = (int64_t)qc_dtype_size(m->d.finish.to);
    qc_int_pairs_run(m, group, c->data + group * m->d.shape.inputs * (int64_t)m->element,
                     c->weights + (size_t)group * m->group_bytes, c->bias + first, c->y + first * size, c->acc);
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

static void run_depthwise(const struct call *c)
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
            qc_int_copy_line(m, copy + k * m->plane_step[1], data, 0, first + k);
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
            qc_int_lines_run(m, (uint8_t *)c.y, data, copy);
            continue;
        }
        if (m->slab_lines) {
            run_slabs(&c, copy, data);
            continue;
        }
        if (m->copied) {
            qc_int_copy(m, copy, data);
            c.data = copy;
        }
        c.lines = s->out[1];
        if (m->depthwise)
            run_depthwise(&c);
        else
            for (int64_t g = 0; g < s->groups; g++) (m->pairs ? run_pairs : run_group)(&c, g);
    }
    if (m->amx_rows) qc_amx_end();
}
