// SPDX-License-Identifier: Apache-2.0
#include "simq/kernels/integer/int_mac.h"

#include <stdlib.h>
#include <string.h>

#include "graph/types/tensor.h"
#include "simq/kernels/integer/tile.h"

enum { ROWS = QC_TILE_ROWS, SLACK = 64 };

static size_t padded_bytes(size_t bytes)
{
    return (bytes + 127) / 64 * 64;
}

/* ------------------------------------------------- making */

/* Sets the smallest and largest value of the data over all channels; centred for float32. */
static void data_range(int32_t *lo, int32_t *hi, const struct qc_int_mac *m)
{
    const struct qc_scales *s = m->d.data_scales;
    *lo = s->levels.lo;
    *hi = s->levels.hi;
    for (size_t c = 0; m->d.data_type == QC_F32 && c < s->count; c++) {
        const int32_t low = s->levels.lo - s->zero_point[c], high = s->levels.hi - s->zero_point[c];
        *lo = !c || low < *lo ? low : *lo;
        *hi = !c || high > *hi ? high : *hi;
    }
}

/* Chooses the representation of the data and the shift that makes it fit. Centred numbers of 16-bit types may need
   17 bits. */
static bool choose_data(struct qc_int_mac *m, struct qc_status *st)
{
    const struct qc_scales *s = m->d.data_scales;
    const enum qc_dtype t = m->d.data_type;
    int32_t lo, hi;
    data_range(&lo, &hi, m);
    m->zero = t == QC_F32 ? 0 : s->zero_point[0];
    if (s->count != 1 && (s->count != (size_t)m->d.shape.groups || m->d.shape.inputs != 1))
        return qc_fail(st, QC_UNSUPPORTED, "sums over data with one scale per channel are not handled");
    if (hi - lo > 65535) return qc_fail(st, QC_UNSUPPORTED, "data of more than 16 bits is not handled");
    if (m->wide)
        m->shift = lo >= INT16_MIN && hi <= INT16_MAX ? 0 : lo - INT16_MIN;
    else
        m->shift = t == QC_F32 ? lo : lo < 0 ? INT8_MIN : 0;
    if (m->pairs && t == QC_F32) m->shift = (s->levels.lo < 0 ? INT8_MIN : 0) - s->zero_point[0];
    m->zero -= m->shift;
    if (s->count > 1 && !(m->zeros = malloc(s->count * sizeof *m->zeros)))
        return qc_fail_memory(st, s->count * sizeof *m->zeros);
    for (size_t c = 0; m->zeros && c < s->count; c++) m->zeros[c] = (t == QC_F32 ? 0 : s->zero_point[c]) - m->shift;
    m->element = m->wide ? 2 : 1;
    return true;
}

bool qc_int_levels_fit(const struct qc_scales *s, int64_t lo, int64_t hi)
{
    for (size_t c = 0; c < s->count; c++)
        if (s->levels.lo - (int64_t)s->zero_point[c] < lo || s->levels.hi - (int64_t)s->zero_point[c] > hi)
            return false;
    return true;
}

/* Returns whether the narrow tiles compute it. */
static bool uses_narrow(const struct qc_int_mac *m)
{
    return !m->wide && !m->depthwise && !m->serial && !m->pairs;
}

struct qc_int_pack qc_int_mac_pack(const struct qc_int_mac *m)
{
    return (struct qc_int_pack){.shape = &m->d.shape,
                                .type = m->d.weight_type,
                                .stride = m->d.weight_stride,
                                .scales = m->d.weight_scales,
                                .wide = m->wide,
                                .joined = m->runs == (size_t)(m->d.shape.kernel[0] * m->d.shape.kernel[1]) &&
                                          m->run_elements == (size_t)(m->d.shape.inputs * m->d.shape.kernel[2]),
                                .quads = m->quads,
                                .panels = m->panels,
                                .blocks = m->blocks,
                                .channels = m->channels,
                                .zero = m->serial ? 0 : m->zero,
                                .zeros = m->serial ? NULL : m->zeros,
                                .less = uses_narrow(m) && m->tiles.is_signed ? 128 : 0};
}

static bool make_bias(struct qc_int_mac *m, struct qc_status *st)
{
    const struct qc_int_shape *s = &m->d.shape;
    const size_t all = (size_t)(s->groups * s->outputs);
    const struct qc_view *b = m->d.bias;
    if (!(m->given = calloc(all + 1, sizeof *m->given))) return qc_fail_memory(st, all * sizeof *m->given);
    for (size_t i = 0; b && i < all; i++)
        m->given[i] = b->dtype == QC_I32 ? ((const int32_t *)b->data)[i] : (int32_t)((const float *)b->data)[i];
    return true;
}

static enum qc_taps taps_of(const struct qc_int_mac *m)
{
    return m->wide ? QC_TAPS_WORDS : m->tiles.taps;
}

static bool pack_int_depthwise(uint8_t **to, const struct qc_int_mac *m, const int32_t *w, size_t taps, size_t channels,
                               struct qc_status *st)
{
    const size_t bytes = padded_bytes(qc_depthwise_bytes(taps, channels, taps_of(m)));
    if (!(*to = aligned_alloc(64, bytes))) return qc_fail_memory(st, bytes);
    qc_depthwise_pack(*to, w, taps, channels, taps_of(m));
    return true;
}

/* Arranges w[tap][channel] in columns of four lines, for the upper and for the lower pixel. */
static bool make_pair(struct qc_int_mac *m, const int32_t *w, size_t channels, struct qc_status *st)
{
    enum { GROUP = QC_DEPTHWISE_LINES + 1 };
    const struct qc_int_shape *s = &m->d.shape;
    const size_t columns = (size_t)s->kernel[2], n = columns * GROUP * channels;
    if (m->lines || m->wide || !m->tiles.depthwise_pair || s->transposed || s->stride[1] != 1 || s->dilation[1] != 1 ||
        s->kernel[0] != 1 || s->kernel[1] != QC_DEPTHWISE_LINES)
        return true;
    bool ok = true;
    int32_t *column = malloc((n + 1) * sizeof *column);
    if (!column) return qc_fail_memory(st, n * sizeof *column);
    for (size_t lower = 0; ok && lower < 2; lower++) {
        memset(column, 0, n * sizeof *column);
        for (size_t t = 0; t < columns; t++)
            for (size_t line = 0; line < QC_DEPTHWISE_LINES; line++)
                memcpy(column + (t * GROUP + line + lower) * channels, w + (line * columns + t) * channels,
                       channels * sizeof *column);
        ok = pack_int_depthwise(&m->pair[lower], m, column, columns * GROUP, channels, st);
    }
    free(column);
    return ok;
}

static bool make_depthwise(struct qc_int_mac *m, struct qc_status *st)
{
    const size_t one = (size_t)m->d.shape.groups, taps = m->runs;
    /* The pixels of a line, a power of two up to ROWS, whose channels together fill vectors; they are contiguous. */
    m->together = 1;
    if (!m->wide && m->plane_step[2] * (m->d.shape.transposed ? 1 : m->d.shape.stride[2]) == m->d.shape.groups)
        while (m->together < ROWS && m->together * one % qc_depthwise_vector(m->tiles.taps)) m->together *= 2;
    m->channels = m->together * one;
    int32_t *single = calloc(taps * one + 1, sizeof *single), *w = calloc(taps * m->channels + 1, sizeof *w);
    uint8_t *own = NULL;
    m->bias = calloc(padded_bytes(m->channels * sizeof *m->bias) + SLACK * sizeof *m->bias, 1);
    bool ok = single && w && m->bias;
    if (ok) {
        const struct qc_int_pack p = qc_int_mac_pack(m);
        qc_int_pack_taps(single, m->bias, &p, m->d.weights, m->given);
        ok = qc_int_lines_new(m, single, m->bias, st);
        for (size_t i = 0; i < taps * m->together; i++)
            memcpy(w + i * one, single + i / m->together * one, one * sizeof *w);
        for (size_t i = 1; i < m->together; i++) memcpy(m->bias + i * one, m->bias, one * sizeof *w);
        m->weight_bytes = qc_depthwise_bytes(taps, m->channels, taps_of(m));
        ok = ok && pack_int_depthwise(&own, m, w, taps, m->channels, st);
        m->weights = own;
        ok = ok && make_pair(m, w, m->channels, st);
    } else {
        qc_fail_memory(st, taps * m->channels * sizeof *w);
    }
    free(single);
    free(w);
    return ok;
}

/* Everything that packed weights and their sums depend on; the zero points follow it. */
struct pack_key {
    int64_t stride[6], kernel[3], inputs, outputs, groups;
    uint64_t quads, panels, channels, transposed, wide, joined, type, zero_points, less, most;
};

static size_t key_bytes(const struct qc_int_pack *p)
{
    return sizeof(struct pack_key) + p->scales->count * sizeof *p->scales->zero_point;
}

/* most: 0 for the key of packed weights; else the largest data value, for the key of whether pairs fit. Returns NULL
   if out of memory. */
static void *key_of(const struct qc_int_pack *p, int32_t most)
{
    const struct qc_int_shape *s = p->shape;
    const struct pack_key of = {.stride = {p->stride[0], p->stride[1], p->stride[2], p->stride[3], p->stride[4],
                                           p->stride[5]},
                                .kernel = {s->kernel[0], s->kernel[1], s->kernel[2]},
                                .inputs = s->inputs,
                                .outputs = s->outputs,
                                .groups = s->groups,
                                .quads = p->quads,
                                .panels = p->panels,
                                .channels = p->channels,
                                .transposed = s->transposed,
                                .wide = p->wide,
                                .joined = p->joined,
                                .type = p->type,
                                .zero_points = p->scales->count,
                                .less = most ? (uint64_t)p->less : 0,
                                .most = (uint64_t)most};
    char *key = malloc(key_bytes(p));
    if (!key) return NULL;
    memcpy(key, &of, sizeof of);
    memcpy(key + sizeof of, p->scales->zero_point, key_bytes(p) - sizeof of);
    return key;
}

/* Takes the weights from the forms cached with the constant: packed weights, followed by the sums of their channels. */
static bool take_form(struct qc_int_mac *m, const struct qc_int_pack *p, struct qc_status *st)
{
    const struct qc_int_shape *s = p->shape;
    const size_t bytes = key_bytes(p), packed = padded_bytes(m->weight_bytes),
                 sums = (size_t)s->groups * m->channels * sizeof *m->bias;
    void *key = key_of(p, 0);
    if (!key) return qc_fail_memory(st, bytes);
    const void *form = qc_tensor_form(m->d.constant, key, bytes);
    bool ok = true;
    if (!form) {
        uint8_t *own = aligned_alloc(64, packed + padded_bytes(sums));
        if ((ok = own || qc_fail_memory(st, packed + sums))) {
            qc_int_pack(own, (int32_t *)(void *)(own + packed), p, m->d.weights);
            ok = qc_tensor_add_form(&form, m->d.constant, key, bytes, own, st);
        }
        m->held_bytes = ok ? m->weight_bytes : 0;
    }
    free(key);
    if (!ok) return false;
    m->weights = form;
    m->shared = true;
    qc_int_pack_bias(m->bias, p, (const int32_t *)(const void *)((const char *)form + packed), m->given);
    return true;
}

static bool make_pairs(struct qc_int_mac *m, struct qc_status *st)
{
    const size_t groups = (size_t)m->d.shape.groups;
    m->channels = (size_t)m->d.shape.outputs;
    m->group_bytes = qc_int_pairs_bytes(m);
    m->weight_bytes = groups * m->group_bytes;
    if (!m->d.weights) return true;
    const struct qc_int_pack p = qc_int_mac_pack(m);
    uint8_t *own = aligned_alloc(64, padded_bytes(m->weight_bytes));
    m->weights = own;
    m->bias = aligned_alloc(64, padded_bytes(groups * m->channels * sizeof *m->bias));
    if (!own || !m->bias) return qc_fail_memory(st, m->weight_bytes);
    qc_int_pack_pairs((int8_t *)own, m->bias, &p, m->d.weights);
    qc_int_pack_bias(m->bias, &p, m->bias, m->given);
    return true;
}

static bool make_dense(struct qc_int_mac *m, struct qc_status *st)
{
    /* Blocks of 16 channels, divided evenly into panels of at most three. */
    const size_t blocks = ((size_t)m->d.shape.outputs + QC_TILE_CHANNELS - 1) / QC_TILE_CHANNELS;
    m->panels = (blocks + QC_TILE_BLOCKS - 1) / QC_TILE_BLOCKS;
    m->channels = blocks * QC_TILE_CHANNELS;
    m->blocks = calloc(m->panels + 1, sizeof *m->blocks);
    m->panel_at = calloc(m->panels + 1, sizeof *m->panel_at);
    if (!m->blocks || !m->panel_at) return qc_fail_memory(st, m->panels * sizeof *m->blocks);
    for (size_t i = 0; i < m->panels; i++) {
        m->blocks[i] = (int)(blocks / m->panels + (i < blocks % m->panels));
        m->panel_at[i + 1] = m->panel_at[i] + (size_t)m->blocks[i] * 4 * QC_TILE_CHANNELS * m->runs * m->quads;
    }
    m->group_bytes = m->panel_at[m->panels];
    const size_t groups = (size_t)m->d.shape.groups;
    m->weight_bytes = m->group_bytes * groups;
    if (!m->d.weights) return true;
    const size_t sums = padded_bytes(groups * m->channels * sizeof *m->bias);
    if (!(m->bias = aligned_alloc(64, sums))) return qc_fail_memory(st, sums);
    const struct qc_int_pack p = qc_int_mac_pack(m);
    if (m->d.constant) return take_form(m, &p, st);
    if (m->d.in_file) {
        void *room;
        if (!qc_packed_room(&room, m->d.packs, padded_bytes(m->weight_bytes), st)) return false;
        m->shared = true;
        m->weights = room;
        if (!room) return true;
        qc_int_pack(room, m->bias, &p, m->d.weights);
        qc_int_pack_bias(m->bias, &p, m->bias, m->given);
        return true;
    }
    uint8_t *own = aligned_alloc(64, padded_bytes(m->weight_bytes));
    void *kept = NULL;
    if (!own) return qc_fail_memory(st, m->weight_bytes);
    qc_int_pack(own, m->bias, &p, m->d.weights);
    qc_int_pack_bias(m->bias, &p, m->bias, m->given);
    m->weights = own;
    if (!m->d.packs) return true;
    m->weights = NULL;
    m->shared = qc_packed_take(&kept, &m->held_bytes, m->d.packs, m->d.weights, own, m->weight_bytes, st);
    m->weights = kept;
    return m->shared;
}

/* Chooses whether AMX is used, and the rows per tile. Lines of a plane at a constant distance become one line if
   that takes fewer tiles; results between them are discarded. Short runs (LEAST_QUADS) and few rows leave most of a
   tile empty. */
static void choose_amx(struct qc_int_mac *m)
{
    enum { LEAST_QUADS = 6, LEAST_ROWS = 3 };
    const struct qc_int_shape *s = &m->d.shape;
    const int64_t step = m->plane_step[2] * (s->transposed ? 1 : s->stride[2]),
                  line = m->plane_step[1] * (s->transposed ? 1 : s->stride[1]), count = s->out[2];
    if (!m->tiles.amx || m->wide || m->serial || m->pairs || m->depthwise || m->quads < LEAST_QUADS) return;
    int64_t positions = count;
    if (s->out[1] > 1 && step > 0 && line % step == 0 && line / step >= count) {
        const int64_t pitch = line / step, all = (s->out[1] - 1) * pitch + count;
        if (pitch == count ||
            (all + QC_AMX_ROWS - 1) / QC_AMX_ROWS < (count + QC_AMX_ROWS - 1) / QC_AMX_ROWS * s->out[1]) {
            m->amx_pitch = pitch;
            positions = all;
        }
    }
    if (positions < LEAST_ROWS) return;
    m->amx_rows = positions < QC_AMX_ROWS ? (int)positions : QC_AMX_ROWS;
}

/* Chooses whether the lines of the result are computed in slabs whose data, copied or read by several panels, stays in
   the second-level cache. */
static void choose_slabs(struct qc_int_mac *m)
{
    enum { CACHE = 256 << 10, LEAST_LINES = 8 };
    const struct qc_int_shape *s = &m->d.shape;
    const int64_t stride = s->transposed ? 1 : s->stride[1], reach = (s->kernel[1] - 1) * s->dilation[1],
                  step = m->plane_step[2] * (s->transposed ? 1 : s->stride[2]);
    if (m->depthwise || m->pairs || s->kernel[0] != 1 || s->out[0] != 1 || m->plane_step[1] <= 0 ||
        (!m->copied && m->panels == 1))
        return;
    int64_t lines = (CACHE / m->plane_step[1] - reach + stride - 1) / stride;
    if (lines < LEAST_LINES) lines = LEAST_LINES;
    if (lines >= s->out[1]) return;
    m->slab_lines = lines;
    const int64_t least = s->out[1] / qc_int_mac_slabs(m);
    if (m->amx_pitch && s->out[2] + (least - 1) * m->plane_step[1] * stride / step < m->amx_rows) m->slab_lines = 0;
}

/* Scratch: copy of the data, sums of one pixel or tile, packed weights and their bias. */
static size_t scratch_of(struct qc_int_mac *m)
{
    const size_t groups = (size_t)m->d.shape.groups, strip = sizeof(int32_t) * QC_INT_STRIP * QC_TILE_WIDTH,
                 row = sizeof(int32_t) * (groups + SLACK) * ROWS * 2;
    const struct qc_int_shape *s = &m->d.shape;
    const int64_t slab = (m->slab_lines - 1) * (s->transposed ? 1 : s->stride[1]) +
                         (s->kernel[1] - 1) * s->dilation[1] + 1,
                  plane = m->slab_lines ? m->plane_step[1] * slab : m->plane_step[0] * m->plane[0];
    m->copy_bytes = m->lines ? qc_int_lines_scratch(m) : m->copied ? padded_bytes((size_t)plane + SLACK) : 0;
    m->sum_bytes = padded_bytes(m->depthwise  ? row
                                : m->pairs    ? qc_int_pairs_scratch(m)
                                : m->amx_rows ? sizeof(int32_t) * QC_AMX_SUMS * 2
                                              : strip);
    m->packed_bytes = m->weights ? 0 : padded_bytes(m->weight_bytes);
    return m->copy_bytes + m->sum_bytes + m->packed_bytes +
           (m->weights ? 0 : padded_bytes(groups * m->channels * sizeof *m->bias));
}

/* Sets *fits to whether narrow tiles that add two products in 16 bits are exact. Cached with a constant. */
static bool check_pairs(bool *fits, const struct qc_int_mac *m, struct qc_status *st)
{
    const struct qc_int_pack p = qc_int_mac_pack(m);
    int32_t lo, hi;
    data_range(&lo, &hi, m);
    const int32_t most = hi - m->shift;
    *fits = !m->tiles.pairs || !uses_narrow(m);
    if (*fits || !m->d.weights) return true;
    void *key = m->d.constant ? key_of(&p, most) : NULL;
    if (m->d.constant && !key) return qc_fail_memory(st, key_bytes(&p));
    const bool *known = key ? qc_tensor_form(m->d.constant, key, key_bytes(&p)) : NULL;
    bool ok = true;
    *fits = known ? *known : qc_int_pack_fits(&p, m->d.weights, most);
    if (key && !known) {
        bool *own = malloc(sizeof *own);
        const void *kept;
        ok = own || qc_fail_memory(st, sizeof *own);
        if (own) *own = *fits;
        ok = ok && qc_tensor_add_form(&kept, m->d.constant, key, key_bytes(&p), own, st);
    }
    free(key);
    return ok;
}

static bool lay_out_int_mac(struct qc_int_mac *m, struct qc_status *st)
{
    free(m->zeros);
    free(m->run);
    m->zeros = NULL;
    m->run = NULL;
    if (!choose_data(m, st)) return false;
    /* Whether data is copied, and the byte steps of each dimension. */
    const struct qc_int_shape *s = &m->d.shape;
    const int64_t *stride = m->d.data_stride, channels = s->groups * s->inputs;
    bool padded_data = false;
    int64_t step = channels * (int64_t)m->element;
    for (int i = 3; i-- > 0;) {
        const int64_t reach = (s->kernel[i] - 1) * s->dilation[i];
        m->up[i] = s->transposed ? s->stride[i] : 1;
        m->origin[i] = s->transposed ? reach - s->begin[i] : s->begin[i];
        m->plane[i] = (s->out[i] - 1) * (s->transposed ? 1 : s->stride[i]) + reach + 1;
        padded_data = padded_data || m->origin[i] != 0 || m->up[i] != 1 || m->plane[i] > s->in[i];
        m->plane_step[i] = step;
        step *= m->plane[i];
    }
    m->copied = padded_data || m->shift != 0 || m->element != qc_dtype_size(m->d.data_type) ||
                m->d.data_type == QC_F32 || (stride[1] != 1 && channels > 1);
    for (int i = 0; !m->copied && i < 3; i++) m->plane_step[i] = stride[2 + i] * (int64_t)m->element;
    /* Runs: contiguous memory that one output reads, in the order of the packed weights. */
    const int64_t pixel = s->inputs * (int64_t)m->element;
    const bool joined = s->groups == 1 && s->dilation[2] == 1 && m->plane_step[2] == pixel;
    const int64_t last = joined ? 1 : s->kernel[2];
    m->runs = (size_t)(s->kernel[0] * s->kernel[1] * last);
    m->run_elements = (size_t)(s->inputs * (joined ? s->kernel[2] : 1));
    m->quads = (m->run_elements * m->element + 3) / 4;
    if (!(m->run = calloc(m->runs + 1, sizeof *m->run))) return qc_fail_memory(st, m->runs * sizeof *m->run);
    size_t r = 0;
    for (int64_t i = 0; i < s->kernel[0]; i++)
        for (int64_t k = 0; k < s->kernel[1]; k++)
            for (int64_t l = 0; l < last; l++)
                m->run[r++] =
                    (ptrdiff_t)(i * s->dilation[0] * m->plane_step[0] + k * s->dilation[1] * m->plane_step[1] +
                                l * s->dilation[2] * m->plane_step[2]);
    return true;
}

bool qc_int_mac_new(struct qc_int_mac **out, size_t *scratch, const struct qc_int_def *d, struct qc_status *st)
{
    struct qc_int_mac *m = calloc(1, sizeof *m);
    if (!m) return qc_fail_memory(st, sizeof *m);
    const enum qc_isa isa = d->isa == QC_ISA_BEST ? qc_isa_detect(d->isa) : d->isa;
    m->d = *d;
    m->weight_scales = *d->weight_scales;
    m->d.weight_scales = &m->weight_scales;
    m->tiles = qc_tile_set_of(isa);
    m->serial = d->accumulator.bits != 0;
    m->pairs = d->pairs && !m->serial;
    m->depthwise =
        !m->serial && !m->pairs && d->weights && d->shape.groups > 1 && d->shape.inputs == 1 && d->shape.outputs == 1;
    int32_t lo, hi;
    data_range(&lo, &hi, m);
    const bool bytes = d->data_type == QC_F32 ? hi - lo <= UINT8_MAX : qc_dtype_size(d->data_type) == 1;
    m->wide = !m->pairs && (d->wide || !bytes || !qc_int_levels_fit(d->weight_scales, INT8_MIN, INT8_MAX));
    bool fits;
    if (!qc_int_levels_fit(d->weight_scales, INT16_MIN, INT16_MAX)) {
        qc_fail(st, QC_UNSUPPORTED, "weights of more than 16 bits are not handled");
        goto fail;
    }
    if (!lay_out_int_mac(m, st) || !check_pairs(&fits, m, st)) goto fail;
    if (!fits) {
        m->wide = true;
        if (!lay_out_int_mac(m, st)) goto fail;
    }
    if (!make_bias(m, st) || !(m->depthwise ? make_depthwise(m, st) : m->pairs ? make_pairs(m, st) : make_dense(m, st)))
        goto fail;
    choose_amx(m);
    choose_slabs(m);
    qc_text(m->name, sizeof m->name, "%s %s%s%s",
            m->serial  ? "serial"
            : m->pairs ? "pairs"
                       : qc_isa_name(m->tiles.amx && !m->amx_rows ? QC_ISA_AVX512_VNNI : isa),
            m->wide ? "i16" : "i8",
            m->lines       ? " depthwise lines"
            : m->depthwise ? " depthwise"
                           : "",
            m->copied ? " copied" : "");
    *scratch = scratch_of(m);
    m->d.weights = m->d.bias = NULL; /* not needed any longer */
    m->d.data_scales = NULL;
    *out = m;
    return true;
fail:
    qc_int_mac_free(m);
    return false;
}

void qc_int_mac_free(struct qc_int_mac *m)
{
    if (!m) return;
    free(m->run);
    free(m->blocks);
    free(m->panel_at);
    if (!m->shared) free((void *)(uintptr_t)m->weights);
    free(m->lines);
    free(m->pair[0]);
    free(m->pair[1]);
    free(m->bias);
    free(m->given);
    free(m->zeros);
    free(m);
}

struct qc_int_facts qc_int_mac_facts(const struct qc_int_mac *m)
{
    const size_t columns = (size_t)m->d.shape.kernel[2] * (QC_DEPTHWISE_LINES + 1);
    const size_t pair = m->pair[0] ? 2 * qc_depthwise_bytes(columns, m->channels, m->tiles.taps) : 0;
    const size_t bytes = (m->shared ? m->held_bytes : m->weight_bytes) + pair + qc_int_lines_bytes(m) +
                         (m->depthwise ? 1 : (size_t)m->d.shape.groups) * m->channels * sizeof *m->bias;
    return (struct qc_int_facts){.bytes = m->weights ? bytes : 0, .is_packed = m->weights != NULL, .name = m->name};
}
