// SPDX-License-Identifier: Apache-2.0
#include "calib/metrics/compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/scope.h"
#include "base/simd.h"
#include "calib/moments/moments_kernel.h"
#include "calib/ranges/calibrate.h"
#include "calib/ranges/quantizer_channels.h"
#include "simq/core/convert.h"

static bool room_make(struct qc_room *r, size_t bytes, struct qc_status *st)
{
    if (r->data && r->bytes >= bytes) return true;
    void *more = realloc(r->data, bytes + 1);
    if (!more) return qc_fail_memory(st, bytes);
    *r = (struct qc_room){.data = more, .bytes = bytes};
    return true;
}

/* Copies a value to `to`, in its memory order if it is dense. */
static struct qc_view view_kept(void *to, const struct qc_view *v)
{
    struct qc_shape shape = qc_shape_of(v->rank, v->dim);
    struct qc_view copy = qc_view_of(v->dtype, &shape, QC_LAYOUT_ROW, to);
    if (qc_view_dense(v)) {
        memcpy(copy.stride, v->stride, sizeof copy.stride);
        memcpy(to, v->data, qc_view_bytes(v));
    } else {
        qc_view_copy(&copy, v);
    }
    return copy;
}

/* Returns the zero point to subtract from stored levels. Returns 0 with several zero points, which
   qc_quantizer_channels_real handles. */
static int32_t zero_of(const struct qc_qparams *s)
{
    return s && s->count == 1 ? s->zero_point[0] : 0;
}

/* Returns stored integers minus the zero point as float32 in `to`, in memory order if dense; float32 unchanged. */
static struct qc_view view_centred(float *to, const struct qc_view *v, int32_t zero_point)
{
    enum { BLOCK = 256 };
    int32_t level[BLOCK];
    if (v->dtype == QC_F32) return *v;
    const size_t n = qc_view_count(v), size = qc_dtype_size(v->dtype);
    struct qc_shape shape = qc_shape_of(v->rank, v->dim);
    char *tail = (char *)to + n * (sizeof *to - size); /* reads stay ahead of writes */
    struct qc_view copy = qc_view_of(v->dtype, &shape, QC_LAYOUT_ROW, tail);
    if (qc_view_dense(v)) memcpy(copy.stride, v->stride, sizeof copy.stride);
    qc_view_copy(&copy, v);
    for (size_t i = 0; i < n; i += BLOCK) {
        const size_t count = n - i < BLOCK ? n - i : BLOCK;
        qc_load_levels(level, v->dtype, tail + i * size, count);
        for (size_t k = 0; k < count; k++) to[i + k] = (float)(level[k] - zero_point);
    }
    copy.dtype = QC_F32;
    copy.data = to;
    return copy;
}

/* Converts levels to bytes and back: x[i] = to[i] + lowest. *any: some x is no such level. */
QC_VECTOR(to_bytes, (bool *any, uint8_t *restrict to, const float *restrict x, size_t n, float lowest),
          (any, to, x, n, lowest))
{
    uint32_t off = 0;
    for (size_t i = 0; i < n; i++) {
        const float up = x[i] - lowest + 0x1p23f; /* the lowest bits hold the level */
        uint32_t bits;
        memcpy(&bits, &up, sizeof bits);
        to[i] = (uint8_t)bits;
        const float off_by = (float)(int32_t)(bits & UINT8_MAX) + lowest - x[i];
        memcpy(&bits, &off_by, sizeof bits); /* not 0 if x is no level, or NaN */
        off |= bits;
    }
    *any = off << 1 != 0; /* ignores the sign of 0 */
}

QC_VECTOR(from_bytes, (float *restrict to, const uint8_t *restrict x, size_t n, float lowest), (to, x, n, lowest))
{
    for (size_t i = 0; i < n; i++) to[i] = (float)x[i] + lowest;
}

/* Returns true if a byte can hold the levels of these parameters. lowest: the level that byte 0 stands for, minus the
   zero point. */
static bool fits_byte(float *lowest, const struct qc_qparams *s)
{
    if (!s || s->count != 1) return false;
    const struct qc_levels levels = qc_qparams_levels(s);
    *lowest = (float)(levels.lo - s->zero_point[0]);
    return (int64_t)levels.hi - levels.lo <= UINT8_MAX;
}

bool qc_keep_value(struct qc_kept_value *k, const struct qc_view *v, const struct qc_qparams *s, struct qc_status *st)
{
    const size_t n = qc_view_count(v);
    float lowest;
    k->as_bytes = v->dtype == QC_F32 && qc_view_dense(v) && fits_byte(&lowest, s);
    if (k->as_bytes) {
        bool others;
        if (!room_make(&k->room, n, st)) return false;
        k->view = *v;
        k->view.data = k->room.data;
        to_bytes(&others, k->room.data, v->data, n, lowest);
        if (!others) return true;
        k->as_bytes = false;
    }
    if (!room_make(&k->room, n * qc_dtype_size(v->dtype), st)) return false;
    k->view = view_kept(k->room.data, v);
    return true;
}

struct qc_view qc_kept_levels(float *to, const struct qc_kept_value *k, const struct qc_qparams *s)
{
    float lowest;
    if (!k->as_bytes || !fits_byte(&lowest, s)) return view_centred(to, &k->view, zero_of(s));
    struct qc_view v = k->view;
    v.data = to;
    from_bytes(to, k->room.data, qc_view_count(&v), lowest);
    return v;
}

void qc_kept_part(float *to, const struct qc_kept_value *k, const struct qc_qparams *s, size_t first, size_t n)
{
    float lowest = 0;
    (void)fits_byte(&lowest, s);
    from_bytes(to, (const uint8_t *)k->room.data + first, n, lowest);
}

double qc_error_sqnr_db(const struct qc_error *e)
{
    if (!e->count) return (double)NAN;
    if (!isfinite(e->noise)) return -(double)INFINITY;
    return e->noise > 0 ? 10 * log10(e->signal / e->noise) : (double)INFINITY;
}

double qc_error_cosine(const struct qc_error *e)
{
    double d = sqrt(e->signal) * sqrt(e->power);
    if (!e->count) return (double)NAN;
    if (e->cross == e->signal && e->cross == e->power) return 1; /* the product of roots may miss 1 by a bit */
    return d > 0 ? fmax(-1, fmin(e->cross / d, 1)) : 0;
}

void qc_error_add(struct qc_error *to, const struct qc_error *e)
{
    to->left_out += e->left_out;
    to->count += e->count;
    to->signal += e->signal;
    to->noise += e->noise;
    to->cross += e->cross;
    to->power += e->power;
    to->saturated += e->saturated;
    if (e->max_abs > to->max_abs) to->max_abs = e->max_abs;
}

void qc_part_error(void *error, const float *r, const float *x, size_t n)
{
    qc_error_compare(error, r, x, n);
}

/* Returns noise to signal; -1 without a signal. */
static double relative(const struct qc_error *e)
{
    return !(e->signal > 0) ? -1 : isnan(e->noise) ? (double)INFINITY : e->noise / e->signal;
}

size_t qc_worst_part(const struct qc_output_parts *parts, size_t o, const struct qc_error *errors)
{
    size_t worst = parts->first[o];
    for (size_t i = worst + 1; i < parts->first[o + 1]; i++)
        if (relative(&errors[i]) > relative(&errors[worst])) worst = i;
    return worst;
}

enum { LANES = 16 };

/* Partial sums, added up in one fixed order, so that the result does not depend on the vector width. */
struct lanes {
    double signal[LANES], noise[LANES], cross[LANES], power[LANES], max[LANES];
    uint64_t saturated[LANES];
};

static QC_INLINE void compare_lane(struct lanes *s, size_t l, float real, float integer, float scale, float lo,
                                   float hi)
{
    double r = (double)real, x = (double)(integer * scale), d = r - x, a = d < 0 ? -d : d;
    s->signal[l] += r * r;
    s->noise[l] += d * d;
    s->cross[l] += r * x;
    s->power[l] += x * x;
    s->max[l] = a > s->max[l] ? a : s->max[l];
    s->saturated[l] += (uint64_t)(integer <= lo) | (uint64_t)(integer >= hi);
}

QC_VECTOR(compare, (struct lanes * s, const float *r, const float *x, size_t n, float scale, float lo, float hi),
          (s, r, x, n, scale, lo, hi))
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t l = 0; l < LANES; l++) compare_lane(s, l, r[i + l], x[i + l], scale, lo, hi);
    for (size_t l = 0; i < n; i++, l++) compare_lane(s, l, r[i], x[i], scale, lo, hi);
}

/* Returns true if an r is NaN or infinite. Squares of floats do not overflow a double. */
static bool has_nonfinite(const struct lanes *s)
{
    double sum = 0;
    for (size_t l = 0; l < LANES; l++) sum += s->signal[l];
    return !isfinite(sum);
}

/* The same sums without elements whose r is NaN or infinite. Returns the number of these. */
static size_t compare_finite(struct lanes *s, const float *r, const float *x, size_t n, float scale, float lo, float hi)
{
    size_t left_out = 0;
    for (size_t i = 0; i < n; i++) {
        if (isfinite(r[i]))
            compare_lane(s, i % LANES, r[i], x[i], scale, lo, hi);
        else
            left_out++;
    }
    return left_out;
}

static void add_lanes(struct qc_error *e, const struct lanes *s, size_t n)
{
    e->count += n;
    for (size_t l = 0; l < LANES; l++) {
        e->signal += s->signal[l];
        e->noise += s->noise[l];
        e->cross += s->cross[l];
        e->power += s->power[l];
        e->saturated += s->saturated[l];
        e->max_abs = s->max[l] > e->max_abs ? s->max[l] : e->max_abs;
    }
}

/* Adds n pairs of real values and centred integers x, whose levels end at lo and hi. */
static void add_pairs(struct qc_error *e, const float *real, const float *x, size_t n, float scale, float lo, float hi)
{
    struct lanes s = {.signal = {0}};
    size_t left_out = 0;
    compare(&s, real, x, n, scale, lo, hi);
    if (has_nonfinite(&s)) {
        s = (struct lanes){.signal = {0}};
        left_out = compare_finite(&s, real, x, n, scale, lo, hi);
    }
    e->left_out += left_out;
    add_lanes(e, &s, n - left_out);
}

/* The same for a value kept as bytes, which is converted part by part. */
static void add_kept(struct qc_error *e, const float *real, const struct qc_kept_value *kept,
                     const struct qc_qparams *of, size_t n)
{
    enum { PART = 2048 }; /* a multiple of LANES, so that the sums are the same */
    const struct qc_levels levels = qc_qparams_levels(of);
    const float lo = (float)(levels.lo - of->zero_point[0]), hi = (float)(levels.hi - of->zero_point[0]);
    struct lanes s = {.signal = {0}};
    size_t left_out = 0;
    float x[PART];
    for (size_t i = 0; i < n; i += PART) {
        const size_t count = n - i < PART ? n - i : PART;
        const struct lanes before = s;
        qc_kept_part(x, kept, of, i, count);
        compare(&s, real + i, x, count, of->scale[0], lo, hi);
        if (!has_nonfinite(&s)) continue;
        s = before;
        left_out += compare_finite(&s, real + i, x, count, of->scale[0], lo, hi);
    }
    e->left_out += left_out;
    add_lanes(e, &s, n - left_out);
}

QC_VECTOR(noise, (struct lanes * s, const float *r, const float *x, size_t n), (s, r, x, n))
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t l = 0; l < LANES; l++) {
            const double real = (double)r[i + l], d = real - (double)x[i + l];
            s->signal[l] += real * real;
            s->noise[l] += d * d;
        }
    for (size_t l = 0; i < n; i++, l++) {
        const double real = (double)r[i], d = real - (double)x[i];
        s->signal[l] += real * real;
        s->noise[l] += d * d;
    }
}

void qc_error_compare_noise(struct qc_error *e, const float *real, const float *quantized, size_t n)
{
    struct lanes s = {.signal = {0}};
    size_t left_out = 0;
    noise(&s, real, quantized, n);
    if (has_nonfinite(&s)) {
        s = (struct lanes){.signal = {0}};
        left_out = compare_finite(&s, real, quantized, n, 1, -INFINITY, INFINITY);
    }
    e->left_out += left_out;
    e->count += n - left_out;
    for (size_t l = 0; l < LANES; l++) {
        e->signal += s.signal[l];
        e->noise += s.noise[l];
    }
}

void qc_error_compare(struct qc_error *e, const float *real, const float *quantized, size_t n)
{
    add_pairs(e, real, quantized, n, 1, -INFINITY, INFINITY);
}

static void count_steps(struct qc_steps *s, const float *real, const float *x, size_t n, float scale, double step)
{
    for (size_t i = 0; i < n; i++) {
        const float v = x[i] * scale;
        s->differing += real[i] != v;
        if (!(step > 0)) continue;
        const double apart = fabs((double)real[i] - (double)v) / step + 0.5;
        const uint64_t steps = apart < 0x1p32 ? (uint64_t)apart : UINT32_MAX; /* NaN: the most */
        s->of[steps < QC_STEPS ? steps : QC_STEPS - 1]++;
        s->most = steps > s->most ? steps : s->most;
    }
}

/* Order of the plans on a unit: values of the second graph are smaller to keep. */
enum { SECOND, FIRST };

struct comparing {
    const struct qc_comparison_job *job;
    struct qc_output_parts *parts;
    unsigned workers;
    size_t outputs, stride;              /* of a unit: pairs, outputs and parts of outputs */
    struct qc_kept_value **kept;         /* [workers][pair_count + outputs] of the current unit */
    struct qc_room *row, *levels, *real; /* [workers]: buffers for the largest value */
    struct qc_error *units;              /* [units][stride] */
    struct qc_steps *steps;              /* [units][pair_count], or NULL */
    struct qc_channel_sums *channels;    /* [QC_SOME_UNITS][pair_count] with steps, or NULL */
    double *peaks;                       /* [units][peak_count] */
    uint64_t *differing, *elements;      /* [units][outputs] */
};

static const struct qc_qparams *second_parameters(const struct comparing *c, size_t index)
{
    return qc_graph_parameters(c->job->second, c->job->pairs[index].second);
}

/* Makes the first graph's value real and dense. */
static bool real_of(struct qc_view *real, struct comparing *c, unsigned worker, size_t index, const struct qc_view *v,
                    struct qc_status *st)
{
    const struct qc_comparison_job *job = c->job;
    const struct qc_qparams *of = qc_graph_parameters(job->first, job->pairs[index].first);
    const size_t n = qc_view_count(v);
    *real = *v;
    if (v->dtype == QC_F32 && !of && qc_view_dense(v)) return true;
    if (!room_make(&c->real[worker], n * sizeof(float), st)) return false;
    float *to = c->real[worker].data;
    *real = v->dtype == QC_F32 ? view_kept(to, v) : view_centred(to, v, zero_of(of));
    if (of && of->count > 1)
        qc_quantizer_channels_real(real, of, qc_value(job->first, job->pairs[index].first)->type.axis,
                                   v->dtype != QC_F32, NULL);
    for (size_t i = 0; of && of->count == 1 && i < n; i++) to[i] *= of->scale[0];
    return true;
}

/* Measures the largest magnitude of a value of the second graph. */
static bool observe_peak(struct comparing *c, const struct qc_unit *at, size_t peak, const struct qc_view *v,
                         struct qc_status *st)
{
    const size_t n = qc_view_count(v);
    if (!room_make(&c->row[at->worker], n * sizeof(float), st) ||
        !room_make(&c->levels[at->worker], n * sizeof(float), st))
        return false;
    const struct qc_view held = view_centred(c->levels[at->worker].data, v, 0);
    const struct qc_view row = qc_view_dense(&held) ? held : view_kept(c->row[at->worker].data, &held);
    double *seen = &c->peaks[at->unit * c->job->peak_count + peak];
    const float most = qc_second_moments_peak(row.data, n, 1);
    *seen = (double)most > *seen ? (double)most : *seen;
    return true;
}

static bool observe_compared(void *user, const struct qc_unit *at, size_t index, const struct qc_view *v,
                             struct qc_status *st)
{
    struct comparing *c = user;
    const struct qc_comparison_job *job = c->job;
    if (at->plan == SECOND && index >= job->pair_count) return observe_peak(c, at, index - job->pair_count, v, st);
    if (at->plan == SECOND) return qc_keep_value(&c->kept[at->worker][index], v, second_parameters(c, index), st);
    const struct qc_kept_value *kept = &c->kept[at->worker][index];
    const size_t n = qc_view_count(&kept->view);
    if (qc_view_count(v) != n && !qc_shape_fixed(&qc_value(job->first, job->pairs[index].first)->type.shape))
        return true; /* the size depends on data, in each graph */
    if (qc_view_count(v) != n)
        return qc_fail(st, QC_BAD_INPUT, "values of %zu and %zu elements cannot be compared", qc_view_count(v), n);
    struct qc_view real;
    struct qc_error *e = &c->units[at->unit * c->stride + index];
    const struct qc_qparams *s = second_parameters(c, index);
    if (!real_of(&real, c, at->worker, index, v, st)) return false;
    if (kept->as_bytes && !c->steps && qc_view_same_order(&kept->view, &real)) {
        add_kept(e, real.data, kept, s, n);
        return true;
    }
    if (!room_make(&c->row[at->worker], n * sizeof(float), st) ||
        !room_make(&c->levels[at->worker], n * sizeof(float), st))
        return false;
    float *row_data = c->row[at->worker].data, *levels_data = c->levels[at->worker].data;
    const bool stored = kept->view.dtype != QC_F32;
    const struct qc_view float_view = qc_kept_levels(levels_data, kept, s);
    const float *x = float_view.data;
    if (!qc_view_same_order(&float_view, &real)) { /* elements in the order of the first graph's */
        struct qc_view copy = real;
        copy.data = row_data;
        qc_view_copy(&copy, &float_view);
        x = row_data;
    }
    if (s && s->count > 1) { /* real numbers from here on */
        struct qc_view row = real;
        row.data = row_data;
        if (x != row.data) memcpy(row.data, x, n * sizeof *x);
        qc_quantizer_channels_real(&row, s, qc_value(job->second, job->pairs[index].second)->type.axis, stored,
                                   &e->saturated);
        x = row.data;
        s = NULL;
    }
    if (c->steps && at->unit < QC_SOME_UNITS &&
        !qc_channel_sums_of(&c->channels[at->unit * job->pair_count + index], &real, x, s ? (double)s->scale[0] : 1))
        return qc_fail_memory(st, n);
    if (c->steps)
        count_steps(&c->steps[at->unit * job->pair_count + index], real.data, x, n, s ? s->scale[0] : 1,
                    s ? (double)s->scale[0] : 0);
    if (!s) {
        qc_error_compare(e, real.data, x, n);
        return true;
    }
    struct qc_levels levels = qc_qparams_levels(s);
    add_pairs(e, real.data, x, n, s->scale[0], (float)(levels.lo - s->zero_point[0]),
              (float)(levels.hi - s->zero_point[0]));
    return true;
}

bool qc_compare_output(bool *comparable, struct qc_error *e, const struct qc_graph *first,
                       const struct qc_graph *second, size_t k, const struct qc_view *r, const struct qc_view *x,
                       struct qc_status *st)
{
    const size_t n = qc_view_count(r);
    const bool as_data_ask = !qc_shape_fixed(&qc_value(first, first->outputs[k].value)->type.shape);
    *comparable = r->dtype == x->dtype && qc_view_count(x) == n;
    if (!*comparable && r->dtype == x->dtype && as_data_ask) return true;
    if (!*comparable)
        return qc_fail(st, QC_BAD_INPUT, "output '%s' has %zu elements of %s in one graph and %zu of %s in the other",
                       second->outputs[k].name, n, qc_dtype_info(r->dtype)->name, qc_view_count(x),
                       qc_dtype_info(x->dtype)->name);
    if (r->dtype == QC_F32) qc_error_compare(e, r->data, x->data, n);
    if (r->dtype == QC_U8 || r->dtype == QC_I8 || r->dtype == QC_U16 || r->dtype == QC_I16) {
        /* Compare integers of 8 and 16 bits as numbers */
        enum { BLOCK = 256 };
        float both[2][BLOCK];
        const struct qc_view *const views[] = {r, x};
        for (size_t i = 0; i < n; i += BLOCK) {
            const size_t count = n - i < BLOCK ? n - i : BLOCK;
            for (size_t b = 0; b < 2; b++) {
                const struct qc_tensor t = {.dtype = views[b]->dtype, .count = n, .data = views[b]->data};
                for (size_t j = 0; j < count; j++) both[b][j] = (float)qc_tensor_int(&t, i + j);
            }
            qc_error_compare(e, both[0], both[1], count);
        }
    }
    return true;
}

static bool compare_output(struct comparing *c, size_t unit, size_t k, const struct qc_view *r, const struct qc_view *x,
                           struct qc_status *st)
{
    const size_t n = qc_view_count(r), size = qc_dtype_size(r->dtype);
    const char *a = r->data, *b = x->data;
    bool comparable;
    if (!qc_compare_output(&comparable, &c->units[unit * c->stride + c->job->pair_count + k], c->job->first,
                           c->job->second, k, r, x, st))
        return false;
    const struct qc_output_parts *parts = c->parts;
    const bool divided = comparable && parts->first[k + 1] - parts->first[k] > 1;
    for (size_t i = parts->first[k]; divided && i < parts->first[k + 1]; i++)
        qc_compare_part(&parts->of[i], r, x, qc_part_error,
                        &c->units[unit * c->stride + c->job->pair_count + c->outputs + i]);
    uint64_t differing = comparable ? 0 : n;
    if (comparable && size == sizeof(uint32_t)) /* the usual case, vectorised */
        for (size_t i = 0; i < n; i++) {
            uint32_t one, other;
            memcpy(&one, a + i * size, sizeof one);
            memcpy(&other, b + i * size, sizeof other);
            differing += one != other;
        }
    else
        for (size_t i = 0; comparable && i < n; i++) differing += memcmp(a + i * size, b + i * size, size) != 0;
    c->differing[unit * c->outputs + k] = differing;
    c->elements[unit * c->outputs + k] = n;
    return true;
}

/* Both plans share their memory, so outputs of the second graph are kept until the first has run. */
static bool finish_plan(void *user, const struct qc_unit *at, struct qc_runner *const runners[],
                        struct qc_dataset_scratch *scratch, struct qc_status *st)
{
    struct comparing *c = user;
    for (size_t k = 0; k < c->outputs; k++) {
        const struct qc_view v = qc_runner_output(runners[at->plan], k);
        struct qc_kept_value *other = &c->kept[at->worker][c->job->pair_count + k];
        if (c->job->first->outputs[k].judging == QC_NOT_JUDGED) continue;
        if (at->plan == FIRST && !compare_output(c, at->unit, k, &v, &other->view, st)) return false;
        if (at->plan == SECOND && !qc_keep_value(other, &v, NULL, st)) return false;
    }
    return true;
}

static bool new_plans(struct qc_plan *plans[2], const struct qc_comparison_job *job, bool many_runs, struct qc_arena *a,
                      struct qc_status *st)
{
    size_t count = job->pair_count + job->peak_count;
    qc_id *first = QC_NEW_ARRAY(a, qc_id, count, st), *second = QC_NEW_ARRAY(a, qc_id, count, st);
    if (!first || !second) return false;
    for (size_t i = 0; i < job->pair_count; i++) {
        first[i] = job->pairs[i].first;
        second[i] = job->pairs[i].second;
    }
    for (size_t i = 0; i < job->peak_count; i++) second[job->pair_count + i] = job->peaks[i];
    struct qc_plan_options how[2];
    for (size_t k = 0; k < 2; k++) {
        how[k] = job->how[k] ? *job->how[k] : (struct qc_plan_options){.rounding = QC_CONTRACT_ONNX};
        how[k].observed_count = k ? count : job->pair_count;
        how[k].observed = k ? second : first;
        how[k].many_runs = many_runs;
    }
    return qc_stream_plan(&plans[0], job->first, job->data, &how[0], st) &&
           qc_stream_plan(&plans[1], job->second, job->data, &how[1], st);
}

/* Returns the bytes kept of a pair, as far as they are known before the run. */
static size_t kept_bytes(struct qc_plan *const plans[2], const struct qc_comparison_job *job, size_t index)
{
    const struct qc_type *type = &qc_value(job->second, job->pairs[index].second)->type;
    const size_t n = qc_plan_observed_elements(plans[1], index);
    float lowest;
    if (fits_byte(&lowest, qc_graph_parameters(job->second, job->pairs[index].second))) return n;
    return n * (type->dtype == QC_NONE ? sizeof(float) : qc_dtype_size(type->dtype));
}

static bool new_buffers(struct comparing *c, unsigned workers, size_t units, struct qc_plan *const plans[2],
                        struct qc_arena *a, struct qc_status *st)
{
    const struct qc_comparison_job *job = c->job;
    size_t largest = 1;
    c->kept = QC_NEW_ARRAY(a, struct qc_kept_value *, workers, st);
    c->row = QC_NEW_ARRAY(a, struct qc_room, workers, st);
    c->levels = QC_NEW_ARRAY(a, struct qc_room, workers, st);
    c->real = QC_NEW_ARRAY(a, struct qc_room, workers, st);
    c->units = QC_NEW_ARRAY(a, struct qc_error, units * c->stride, st);
    c->peaks = QC_NEW_ARRAY(a, double, units * job->peak_count, st);
    c->differing = QC_NEW_ARRAY(a, uint64_t, units * c->outputs, st);
    c->elements = QC_NEW_ARRAY(a, uint64_t, units * c->outputs, st);
    if (job->count_steps && !(c->steps = QC_NEW_ARRAY(a, struct qc_steps, units * job->pair_count, st))) return false;
    if (job->count_steps &&
        !(c->channels = QC_NEW_ARRAY(a, struct qc_channel_sums, QC_SOME_UNITS * job->pair_count, st)))
        return false;
    if (!c->kept || !c->row || !c->levels || !c->real || !c->units || !c->peaks || !c->differing || !c->elements)
        return false;
    for (size_t i = 0; i < job->pair_count + job->peak_count; i++) {
        size_t n = qc_plan_observed_elements(plans[1], i);
        largest = n > largest ? n : largest;
    }
    for (unsigned w = 0; w < workers; w++) {
        if (!(c->kept[w] = QC_NEW_ARRAY(a, struct qc_kept_value, c->stride, st))) return false;
        c->workers = w + 1;
        if (!room_make(&c->row[w], largest * sizeof(float), st) ||
            !room_make(&c->levels[w], largest * sizeof(float), st))
            return false;
        for (size_t i = 0; i < job->pair_count; i++)
            if (!room_make(&c->kept[w][i].room, kept_bytes(plans, job, i), st)) return false;
    }
    return true;
}

static bool sum_up(struct qc_comparison *out, const struct comparing *c, size_t units, struct qc_status *st)
{
    const struct qc_comparison_job *job = c->job;
    out->pairs = QC_NEW_ARRAY(out->arena, struct qc_error, job->pair_count, st);
    out->outputs = QC_NEW_ARRAY(out->arena, struct qc_error, c->outputs, st);
    out->differing = QC_NEW_ARRAY(out->arena, uint64_t, c->outputs, st);
    out->elements = QC_NEW_ARRAY(out->arena, uint64_t, c->outputs, st);
    out->peaks = QC_NEW_ARRAY(out->arena, double, job->peak_count, st);
    out->of_parts = QC_NEW_ARRAY(out->arena, struct qc_error, c->parts->count, st);
    if (!out->of_parts || !out->pairs || !out->outputs || !out->differing || !out->elements || !out->peaks)
        return false;
    if (c->steps && !(out->steps = QC_NEW_ARRAY(out->arena, struct qc_steps, job->pair_count, st))) return false;
    if (c->steps && !(out->factors = QC_NEW_ARRAY(out->arena, struct qc_channel_factors, job->pair_count, st)))
        return false;
    for (size_t i = 0; c->steps && i < job->pair_count; i++) {
        for (size_t u = 1; u < QC_SOME_UNITS; u++)
            qc_channel_sums_add(&c->channels[i], &c->channels[u * job->pair_count + i]);
        out->factors[i] = qc_channel_factors_of(&c->channels[i]);
    }
    for (size_t u = 0; u < units; u++) {
        for (size_t i = 0; c->steps && i < job->pair_count; i++) {
            const struct qc_steps *s = &c->steps[u * job->pair_count + i];
            struct qc_steps *to = &out->steps[i];
            for (int k = 0; k < QC_STEPS; k++) to->of[k] += s->of[k];
            to->differing += s->differing;
            to->most = s->most > to->most ? s->most : to->most;
        }
        for (size_t i = 0; i < job->pair_count; i++) qc_error_add(&out->pairs[i], &c->units[u * c->stride + i]);
        for (size_t i = 0; i < c->parts->count; i++)
            qc_error_add(&out->of_parts[i], &c->units[u * c->stride + job->pair_count + c->outputs + i]);
        for (size_t k = 0; k < c->outputs; k++) {
            qc_error_add(&out->outputs[k], &c->units[u * c->stride + job->pair_count + k]);
            out->differing[k] += c->differing[u * c->outputs + k];
            out->elements[k] += c->elements[u * c->outputs + k];
        }
        for (size_t i = 0; i < job->peak_count; i++)
            if (c->peaks[u * job->peak_count + i] > out->peaks[i]) out->peaks[i] = c->peaks[u * job->peak_count + i];
    }
    for (size_t k = 0; k < c->outputs; k++)
        if (c->parts->first[k + 1] == c->parts->first[k] + 1) out->of_parts[c->parts->first[k]] = out->outputs[k];
    return true;
}

/* Both runners share one buffer for their values. */
static struct qc_stream stream_of(struct qc_plan *const plans[2], const struct qc_comparison_job *job)
{
    return (struct qc_stream){.data = job->data,
                              .input_count = job->first->input_count,
                              .plan_count = 2,
                              .plans = {plans[1], plans[0]},
                              .share_buffer = true,
                              .fed = 2,
                              .observe = observe_compared,
                              .ran = finish_plan,
                              .progress = job->settings->progress,
                              .progress_user = job->settings->progress_user};
}

/* Returns the bytes of a worker: the runners, and the kept values of the second graph. */
static size_t worker_bytes(struct qc_plan *const plans[2], const struct qc_comparison_job *job)
{
    const struct qc_stream stream = stream_of(plans, job);
    size_t bytes = qc_stream_runner_bytes(&stream);
    for (size_t i = 0; i < job->pair_count; i++) bytes += kept_bytes(plans, job, i);
    return bytes;
}

bool qc_compare_bytes(size_t *out, const struct qc_comparison_job *job, struct qc_status *st)
{
    struct qc_plan *plans[2] = {NULL, NULL};
    QC_ARENA_SCOPE *a = qc_arena_new();
    const bool ok = (a || qc_fail_memory(st, 1)) && new_plans(plans, job, false, a, st);
    if (ok) *out = qc_plan_constant_bytes(plans[0]) + qc_plan_constant_bytes(plans[1]) + worker_bytes(plans, job);
    qc_plan_free(plans[0]);
    qc_plan_free(plans[1]);
    return ok;
}

bool qc_compare(struct qc_comparison **out, const struct qc_comparison_job *job, struct qc_status *st)
{
    struct comparing c = {.job = job, .outputs = job->second->output_count};
    struct qc_comparison *r;
    struct qc_plan *plans[2] = {NULL, NULL};
    const double t0 = qc_seconds();
    const size_t units = qc_dataset_units(job->data);
    unsigned workers = 1;
    QC_ARENA_SCOPE *scratch = qc_arena_new();
    if (!QC_NEW_OWNER(r, st)) return false;
    bool ok = scratch || qc_fail_memory(st, 1);
    if (ok && (job->first->output_count != c.outputs || job->first->input_count != job->second->input_count))
        ok = qc_fail(st, QC_BAD_INPUT, "the graphs differ: %zu and %zu inputs, %zu and %zu outputs",
                     job->first->input_count, job->second->input_count, job->first->output_count, c.outputs);
    ok = ok && (r->parts = c.parts = QC_NEW(r->arena, struct qc_output_parts, st)) &&
         qc_output_parts_of(c.parts, job->first, r->arena, st);
    if (ok) c.stride = job->pair_count + c.outputs + c.parts->count;
    ok = ok && new_plans(plans, job, units >= QC_PLAN_MANY_RUNS, scratch, st) &&
         qc_overflows_new(&r->overflows[0], plans[0], job->first, r->arena, st) &&
         qc_overflows_new(&r->overflows[1], plans[1], job->second, r->arena, st) &&
         qc_stream_fit(&workers, job->settings, job->data, worker_bytes(plans, job), st) &&
         new_buffers(&c, workers, units, plans, scratch, st);
    struct qc_stream stream = stream_of(plans, job);
    stream.overflows[SECOND] = &r->overflows[1];
    stream.overflows[FIRST] = &r->overflows[0];
    stream.workers = workers;
    stream.user = &c;
    ok = ok && qc_stream_run(&stream, st) && sum_up(r, &c, units, st);
    r->samples = qc_dataset_samples(job->data);
    r->seconds = qc_seconds() - t0;
    for (size_t i = 0; c.channels && i < QC_SOME_UNITS * job->pair_count; i++) free(c.channels[i].of);
    for (unsigned w = 0; w < c.workers; w++) {
        for (size_t i = 0; i < c.stride; i++) free(c.kept[w][i].room.data);
        free(c.row[w].data);
        free(c.levels[w].data);
        free(c.real[w].data);
    }
    qc_plan_free(plans[0]);
    qc_plan_free(plans[1]);
    return QC_HAND_OVER(ok, out, r, qc_comparison_free);
}

void qc_comparison_free(struct qc_comparison *c)
{
    if (!c) return;
    qc_arena_free(c->arena);
    free(c);
}
