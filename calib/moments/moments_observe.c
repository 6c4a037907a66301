// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/pool.h"
#include "calib/moments/moments_parts.h"

/* splitmix64 (Steele, Lea, Flood 2014). */
static uint64_t mix(uint64_t z)
{
    z += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Returns position t of p out of n, in stratum [t n/p, (t + 1) n/p), jittered. n < 2^31 or p == n. */
static size_t position(uint64_t key, size_t t, size_t p, size_t n)
{
    if (p == n) return t;
    const size_t first = t * n / p, last = (t + 1) * n / p;
    return first + (size_t)(mix(key ^ t) % (last - first));
}

/* The observed value. */
struct source {
    const struct qc_view *v;
    const float *real; /* of a pair: the float value, in the order of v; else NULL */
};

static size_t channels_of(const struct qc_second_moments_layer *l)
{
    return l->paired ? l->channels / 2 : l->channels;
}

/* Output positions of a window over v. */
struct grid {
    int64_t batch, out[3];
    size_t count;
};

static bool grid_of(struct grid *out, const struct qc_second_moments_layer *l, const struct qc_view *v)
{
    *out = (struct grid){.batch = v->dim[0], .out = {1, 1, 1}, .count = (size_t)v->dim[0]};
    if (v->rank != l->window.spatial + 2 || (size_t)v->dim[1] != channels_of(l)) return false;
    for (int i = 0; i < l->window.spatial; i++) {
        const struct qc_window *w = &l->window;
        const int64_t in = v->dim[2 + i], reach = (w->kernel[i] - 1) * w->dilation[i] + 1,
                      pads = w->pad_begin[i] + w->pad_end[i];
        int64_t n = w->in[i] == in ? w->out[i] : QC_FREE;
        if (n == QC_FREE)
            n = l->transposed ? (in - 1) * w->stride[i] + reach - pads : (in + pads - reach) / w->stride[i] + 1;
        if (n < 1) return false;
        out->out[i] = n;
        out->count *= (size_t)n;
    }
    return true;
}

/* Computes where tap k of spatial dimension i reads for output o. Returns false for padding. */
static bool tap_at(int64_t *at, const struct qc_second_moments_layer *l, int i, int64_t o, int64_t k, int64_t in)
{
    const struct qc_window *w = &l->window;
    if (!l->transposed) {
        *at = o * w->stride[i] - w->pad_begin[i] + k * w->dilation[i];
        return *at >= 0 && *at < in;
    }
    const int64_t x = o + w->pad_begin[i] - k * w->dilation[i];
    *at = x / w->stride[i];
    return x >= 0 && x % w->stride[i] == 0 && *at < in;
}

/* Writes the channels of a pair: the value read, then the float value minus it. */
static void put_pair(int16_t *to, const float *x, const float *real, size_t channels, int64_t stride, float factor)
{
    float apart[64];
    enum { MOST = sizeof apart / sizeof *apart };
    qc_second_moments_quantize(to, x, channels, stride, factor);
    for (size_t first = 0; first < channels; first += MOST) {
        const size_t n = channels - first < MOST ? channels - first : MOST;
        for (size_t i = 0; i < n; i++) {
            const int64_t at = (int64_t)(first + i) * stride;
            apart[i] = real[at] - x[at];
        }
        qc_second_moments_quantize(to + channels + first, apart, n, 1, factor);
    }
}

/* Writes the channels of one tap, NULL for padding, into a row. Groups: [group][tap][channel], lanes:
   [tap][channel][group]. real: of a pair. */
static void put_tap(int16_t *row, const struct qc_second_moments_layer *l, size_t tap, const float *x,
                    const float *real, int64_t stride, float factor)
{
    const size_t each = l->channels / l->groups;
    if (real && x) {
        put_pair(row + tap * l->channels, x, real, each / 2, stride, factor);
        return;
    }
    if (l->lanes) {
        int16_t *to = row + tap * l->channels;
        if (!x) memset(to, 0, l->channels * sizeof *to);
        for (size_t c = 0; x && c < each; c++)
            qc_second_moments_quantize(to + c * l->groups, x + (int64_t)c * stride, l->groups, stride * (int64_t)each,
                                       factor);
        return;
    }
    for (size_t g = 0; g < l->groups; g++) {
        int16_t *to = row + g * l->columns + tap * each;
        if (x)
            qc_second_moments_quantize(to, x + (int64_t)(g * each) * stride, each, stride, factor);
        else
            memset(to, 0, each * sizeof *to);
    }
}

/* Returns true if the taps of a kernel line read contiguous elements, in the order of a row. */
static bool lines(const struct qc_second_moments_layer *l, const struct qc_view *v)
{
    const int last = l->window.spatial - 1;
    return !l->transposed && (l->lanes ? l->groups == l->channels : l->groups == 1) && v->stride[1] == 1 &&
           v->stride[2 + last] == (int64_t)l->channels && l->window.dilation[last] == 1;
}

/* Writes all taps of a kernel line at once; x: the line of the sample. */
static void put_line(int16_t *row, const struct qc_second_moments_layer *l, const float *x, int64_t first, int64_t in,
                     float factor)
{
    const int64_t taps = l->window.kernel[l->window.spatial - 1], channels = (int64_t)l->channels;
    const int64_t from = first < 0 ? -first : 0, to = first + taps > in ? in - first : taps;
    if (!x || from >= to) {
        memset(row, 0, (size_t)(taps * channels) * sizeof *row);
        return;
    }
    memset(row, 0, (size_t)(from * channels) * sizeof *row);
    qc_second_moments_quantize(row + from * channels, x + (first + from) * channels, (size_t)((to - from) * channels),
                               1, factor);
    memset(row + to * channels, 0, (size_t)((taps - to) * channels) * sizeof *row);
}

static void window_row(int16_t *row, const struct qc_second_moments_layer *l, const struct grid *g,
                       const struct source *s, size_t position, float factor)
{
    const struct qc_view *v = s->v;
    const int spatial = l->window.spatial;
    int64_t o[3] = {0}, k[3] = {0};
    size_t rest = position;
    for (int i = spatial - 1; i >= 0; i--) {
        o[i] = (int64_t)(rest % (size_t)g->out[i]);
        rest /= (size_t)g->out[i];
    }
    const float *sample = (const float *)v->data + (int64_t)rest * v->stride[0];
    /* Number of dimensions walked tap by tap, and taps written at once. */
    const int last = spatial - 1, apart = !s->real && lines(l, v) ? last : spatial;
    const size_t once = apart < spatial ? (size_t)l->window.kernel[last] : 1;
    const int64_t first = o[last] * l->window.stride[last] - l->window.pad_begin[last];
    for (size_t tap = 0; tap < l->taps; tap += once) {
        const float *x = sample;
        for (int i = 0; x && i < apart; i++) {
            int64_t at;
            x = tap_at(&at, l, i, o[i], k[i], v->dim[2 + i]) ? x + at * v->stride[2 + i] : NULL;
        }
        const float *real = s->real && x ? s->real + (x - (const float *)v->data) : NULL;
        if (apart < spatial)
            put_line(row + tap * l->channels, l, x, first, v->dim[2 + last], factor);
        else
            put_tap(row, l, tap, x, real, v->stride[1], factor);
        for (int i = apart - 1; i >= 0 && ++k[i] == l->window.kernel[i]; i--) k[i] = 0;
    }
}

static void dense_row(int16_t *row, const struct source *s, size_t position, float factor)
{
    const struct qc_view *v = s->v;
    const float *x = v->data;
    size_t rest = position;
    for (int i = v->rank - 2; i >= 0; i--) {
        x += (int64_t)(rest % (size_t)v->dim[i]) * v->stride[i];
        rest /= (size_t)v->dim[i];
    }
    const size_t channels = (size_t)v->dim[v->rank - 1];
    const int64_t stride = v->stride[v->rank - 1];
    if (s->real)
        put_pair(row, x, s->real + (x - (const float *)v->data), channels, stride, factor);
    else
        qc_second_moments_quantize(row, x, channels, stride, factor);
}

/* States are [steps, directions, batch, hidden], or batch first: a row holds the states of all directions. */
static void state_row(int16_t *row, const struct qc_second_moments_layer *l, const struct qc_view *v, size_t position,
                      float factor)
{
    const int64_t way = v->stride[l->direction_axis];
    const float *x = v->data;
    for (int i = 2; i >= 0; i--) {
        if (i == l->direction_axis) continue;
        x += (int64_t)(position % (size_t)v->dim[i]) * v->stride[i];
        position /= (size_t)v->dim[i];
    }
    if (l->lanes)
        for (size_t c = 0; c < l->columns; c++)
            qc_second_moments_quantize(row + c * l->groups, x + (int64_t)c * v->stride[3], l->groups, way, factor);
    else
        for (size_t g = 0; g < l->groups; g++)
            qc_second_moments_quantize(row + g * l->columns, x + (int64_t)g * way, l->columns, v->stride[3], factor);
}

static bool count_states(size_t *count, const struct qc_second_moments_layer *l, const struct qc_view *v)
{
    if (v->rank != 4 || (size_t)v->dim[l->direction_axis] != l->groups || (size_t)v->dim[3] != l->columns) return false;
    *count = (size_t)v->dim[0] * (size_t)v->dim[3 - l->direction_axis];
    return true;
}

static void find_peak(void *user, int64_t n, void *const data[], const int64_t stride[])
{
    float *peak = user;
    const float p = qc_second_moments_peak(data[0], (size_t)n, stride[0]);
    if (p > *peak) *peak = p;
}

/* Adds the products of the buffered rows; they must fit. */
static void add_buffered_products(const struct qc_second_moments_sums *s, const struct qc_second_moments_layer *l,
                                  const struct qc_second_moments_worker *w, const struct qc_second_moments_buffer *b,
                                  int up)
{
    if (l->lanes) {
        const struct qc_second_moments_sink to = qc_second_moments_sink_of(s, up);
        qc_second_moments_lanes(&to, b->rows, b->count, l->columns, l->groups, w->lanes, w->panels);
        return;
    }
    for (size_t k = 0; k < l->groups * l->blocks; k++) {
        const size_t group = k / l->blocks, block = k % l->blocks;
        qc_second_moments_pack(w->panels, b->rows, b->count, qc_second_moments_row(l),
                               group * l->columns + block * l->block, qc_second_moments_width(l, block));
        qc_second_moments_add_panels(s, l, group, block, w->panels, (b->count + 1) / 2, up);
    }
}

/* Adds the rows of a buffer to the layer's sums. */
static bool flush(struct qc_second_moments *m, size_t index, const struct qc_second_moments_worker *w,
                  struct qc_second_moments_buffer *b, struct qc_status *st)
{
    struct qc_second_moments_layer *l = m->layers[index];
    struct qc_second_moments_sums *s = NULL;
    if (!b->count) return true;
    pthread_mutex_lock(&m->locks[index]);
    bool ok = qc_second_moments_class(&s, l, b->part, qc_second_moments_class_of(b->step), st);
    if (ok && s) {
        const int up = b->step - qc_second_moments_lowest(
                                     qc_second_moments_class_of(b->step)); /* steps above the lowest of the class */
        qc_second_moments_sums(s->sums, b->rows, b->count, qc_second_moments_row(l), 2 * up);
        const bool kept = l->keep && !qc_second_moments_has_products(s);
        if (kept)
            ok = qc_second_moments_keep(s, l, b->rows, b->count, up, st);
        else if (l->product_count)
            ok = qc_second_moments_make_room(s, l, b->rows, b->count, up, w->squares, st);
        if (ok && !kept && l->product_count) add_buffered_products(s, l, w, b, up);
        qc_second_moments_rest(s, l);
    }
    pthread_mutex_unlock(&m->locks[index]);
    b->count = 0;
    return ok;
}

static size_t rows_bytes(const struct qc_second_moments *m, size_t index)
{
    return m->capacity[index] * qc_second_moments_row(m->layers[index]) * sizeof(int16_t);
}

/* Allocates rows and touches them, so that resident memory does not grow during collection. */
static bool make_rows(struct qc_second_moments_buffer *b, size_t bytes, struct qc_status *st)
{
    if (!(b->rows = malloc(bytes + 1))) return qc_fail_memory(st, bytes);
    memset(b->rows, 0, bytes);
    return true;
}

static bool observe_layer(struct qc_second_moments *m, size_t index, struct qc_second_moments_worker *w, uint64_t key,
                          float peak, const struct source *s, struct qc_status *st)
{
    const struct qc_view *v = s->v;
    struct qc_second_moments_layer *l = m->layers[index];
    const enum qc_second_moments_part part = key % QC_MOMENTS_HELD_ONE_IN ? QC_MOMENTS_FIT : QC_MOMENTS_HELD;
    const bool finite = peak <= 0x1p126f;
    struct grid grid = {.count = 1};
    if (l->window_given) {
        if (!grid_of(&grid, l, v))
            return qc_fail(st, QC_BAD_INPUT, "the shape of '%s' does not fit the window of a layer", l->name);
    } else if (l->direction_axis) {
        if (!count_states(&grid.count, l, v))
            return qc_fail(st, QC_BAD_INPUT, "'%s' does not fit the weight of a recurrent layer", l->name);
    } else {
        if (v->rank < 1 || (size_t)v->dim[v->rank - 1] != channels_of(l))
            return qc_fail(st, QC_BAD_INPUT, "'%s' does not fit the weight of a layer", l->name);
        for (int i = 0; i < v->rank - 1; i++) grid.count *= (size_t)v->dim[i];
    }
    const size_t rows = qc_second_moments_positions(l, grid.count);
    pthread_mutex_lock(&m->locks[index]);
    qc_second_moments_add_counts(&l->parts[part], finite ? rows : 0, finite, !finite);
    pthread_mutex_unlock(&m->locks[index]);
    if (!finite || peak < 0x1p-100f) return true; /* not finite, or counted as zeros */
    int e;
    frexpf(peak, &e);
    const int32_t step = e > 0 ? (e + 1) / 2 : -(-e / 2);
    const float factor = ldexpf(1, 11 - 2 * step);
    const bool alone = 2 * rows >= m->capacity[index];
    const size_t capacity = (alone ? m->shared_capacity : m->capacity)[index];
    struct qc_second_moments_buffer *b =
        alone ? &w->shared
              : &w->buffers[index * QC_MOMENTS_BUFFERS + (part == QC_MOMENTS_HELD ? 2 : (size_t)(step & 1))];
    if (alone) b->count = 0; /* left by a sample that failed */
    if (b->count && (b->step != step || b->part != part) && !flush(m, index, w, b, st)) return false;
    if (!b->rows && !make_rows(b, alone ? m->shared_size * sizeof(int16_t) : rows_bytes(m, index), st)) return false;
    b->step = step;
    b->part = part;
    for (size_t t = 0; t < rows; t++) {
        const size_t at = position(key, t, rows, grid.count);
        int16_t *row = b->rows + b->count * qc_second_moments_row(l);
        if (l->window_given)
            window_row(row, l, &grid, s, at, factor);
        else if (l->direction_axis)
            state_row(row, l, v, at, factor);
        else
            dense_row(row, s, at, factor);
        if (++b->count == capacity && !flush(m, index, w, b, st)) return false;
    }
    return !alone || flush(m, index, w, b, st);
}

bool qc_second_moments_observe(struct qc_second_moments *m, unsigned worker, uint64_t key, qc_id value, float peak,
                               const struct qc_view *v, struct qc_status *st)
{
    const struct qc_view *views[1] = {v};
    size_t slot = SIZE_MAX;
    for (uint32_t k; (k = qc_index_next(&m->by_value, qc_hash_number(value), &slot));) {
        const size_t i = k - 1;
        if (m->layers[i]->value != value) continue;
        if (peak < 0) {
            peak = 0;
            qc_view_each(1, views, find_peak, &peak);
        }
        if (!observe_layer(m, i, &m->workers[worker], key, peak, &(struct source){.v = v}, st)) return false;
    }
    return true;
}

bool qc_second_moments_observe_layer(struct qc_second_moments *m, unsigned worker, uint64_t key, qc_id node,
                                     const struct qc_view *v, struct qc_status *st)
{
    const struct qc_view *views[1] = {v};
    float peak = 0;
    if (!m->by_node[node]) return true;
    qc_view_each(1, views, find_peak, &peak);
    return observe_layer(m, m->by_node[node] - 1, &m->workers[worker], key, peak, &(struct source){.v = v}, st);
}

bool qc_second_moments_observe_pair(struct qc_second_moments *m, unsigned worker, uint64_t key, qc_id node, float peak,
                                    const struct qc_view *v, const float *real, struct qc_status *st)
{
    return !m->by_node[node] || observe_layer(m, m->by_node[node] - 1, &m->workers[worker], key, peak,
                                              &(struct source){.v = v, .real = real}, st);
}

bool qc_second_moments_begin(struct qc_second_moments *m, unsigned workers, struct qc_status *st)
{
    m->workers = calloc(workers, sizeof *m->workers);
    if (!m->workers) return qc_fail_memory(st, workers * sizeof *m->workers);
    m->worker_count = workers;
    for (unsigned k = 0; k < workers; k++) {
        struct qc_second_moments_worker *w = &m->workers[k];
        w->buffers = calloc(m->count * QC_MOMENTS_BUFFERS + 1, sizeof *w->buffers);
        w->panels = malloc((m->panel_size + 1) * sizeof *w->panels);
        w->lanes = malloc((m->lane_size + 1) * sizeof *w->lanes);
        w->squares = malloc((m->square_size + 1) * sizeof *w->squares);
        if (!w->buffers || !w->panels || !w->lanes || !w->squares)
            return qc_fail_memory(st, qc_second_moments_worker_bytes(m));
    }
    return true;
}

/* Layers whose rows are complete. */
struct flushing {
    struct qc_second_moments *m;
    const qc_id *nodes; /* NULL: all layers */
};

/* Adds the buffered rows of all workers for a layer, with the scratch of one of them. */
static bool flush_layer(void *user, size_t item, unsigned worker, struct qc_status *st)
{
    const struct flushing *f = user;
    struct qc_second_moments *m = f->m;
    if (f->nodes && !m->by_node[f->nodes[item]]) return true;
    const size_t index = f->nodes ? m->by_node[f->nodes[item]] - 1 : item;
    for (unsigned k = 0; k < m->worker_count; k++)
        for (size_t i = 0; i < QC_MOMENTS_BUFFERS; i++)
            if (!flush(m, index, &m->workers[worker], &m->workers[k].buffers[index * QC_MOMENTS_BUFFERS + i], st))
                return false;
    for (int p = 0; p < QC_MOMENTS_PARTS; p++)
        if (m->layers[index]->parts[p].rows > QC_MOMENTS_ROWS_MAX)
            return qc_fail(st, QC_BAD_INPUT, "too many samples for the second moments of '%s'; use fewer (--samples)",
                           m->layers[index]->name);
    return true;
}

bool qc_second_moments_end(struct qc_second_moments *m, struct qc_status *st)
{
    size_t waiting = 0;
    for (unsigned k = 0; k < m->worker_count; k++)
        for (size_t i = 0; i < m->count * QC_MOMENTS_BUFFERS; i++) waiting += m->workers[k].buffers[i].count > 0;
    const struct qc_pool_options team = {.workers = waiting > 1 ? m->worker_count : 1};
    struct flushing f = {.m = m};
    return qc_pool_run(m->count, flush_layer, &f, &team, st);
}

bool qc_second_moments_end_layers(struct qc_second_moments *m, size_t count, const qc_id *nodes, struct qc_status *st)
{
    struct flushing f = {.m = m, .nodes = nodes};
    const struct qc_pool_options team = {.workers = m->worker_count};
    return qc_pool_run(count, flush_layer, &f, &team, st);
}
