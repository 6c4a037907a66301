// SPDX-License-Identifier: Apache-2.0
#include "calib/measure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "calib/calibrate.h"
#include "simq/simd.h"

double qc_error_sqnr_db(const struct qc_error *e)
{
    if (!e->count) return (double)NAN;
    return e->noise > 0 ? 10 * log10(e->signal / e->noise) : (double)INFINITY;
}

double qc_error_cosine(const struct qc_error *e)
{
    double d = sqrt(e->signal) * sqrt(e->power);
    if (!e->count) return (double)NAN;
    return d > 0 ? e->cross / d : e->signal > 0 || e->power > 0 ? 0 : 1;
}

void qc_error_add(struct qc_error *to, const struct qc_error *e)
{
    to->count += e->count;
    to->signal += e->signal;
    to->noise += e->noise;
    to->cross += e->cross;
    to->power += e->power;
    to->saturated += e->saturated;
    if (e->max_abs > to->max_abs) to->max_abs = e->max_abs;
}

enum { LANES = 16 };

/* Sums in LANES partial sums, added up in one fixed order, so that the result does not depend on the width of the vectors. */
struct lanes {
    double signal[LANES], noise[LANES], cross[LANES], power[LANES], max[LANES];
    uint64_t saturated[LANES];
};

static QC_INLINE void compare_lane(struct lanes *s, size_t l, float real, float integer, float scale, float lo, float hi)
{
    double r = (double)real, x = (double)(integer * scale), d = r - x, a = d < 0 ? -d : d;
    s->signal[l] += r * r;
    s->noise[l] += d * d;
    s->cross[l] += r * x;
    s->power[l] += x * x;
    s->max[l] = a > s->max[l] ? a : s->max[l];
    s->saturated[l] += (uint64_t)(integer <= lo) | (uint64_t)(integer >= hi);
}

static QC_INLINE void compare_body(struct lanes *s, const float *r, const float *x, size_t n, float scale, float lo, float hi)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t l = 0; l < LANES; l++) compare_lane(s, l, r[i + l], x[i + l], scale, lo, hi);
    for (size_t l = 0; i < n; i++, l++) compare_lane(s, l, r[i], x[i], scale, lo, hi);
}
QC_SIMD(compare, (struct lanes *s, const float *r, const float *x, size_t n, float scale, float lo, float hi), (s, r, x, n, scale, lo, hi))

/* Adds n pairs: real values, and integers x held centred whose levels end at lo and hi. */
static void add_pairs(struct qc_error *e, const float *real, const float *x, size_t n, float scale, float lo, float hi)
{
    struct lanes s = {.signal = {0}};
    compare(&s, real, x, n, scale, lo, hi);
    e->count += n;
    for (size_t l = 0; l < LANES; l++) {
        e->signal += s.signal[l];
        e->noise += s.noise[l];
        e->cross += s.cross[l];
        e->power += s.power[l];
        e->saturated += s.saturated[l];
        e->max_abs = s.max[l] > e->max_abs ? s.max[l] : e->max_abs;
    }
}

void qc_error_compare(struct qc_error *e, const float *real, const float *quantized, size_t n)
{
    add_pairs(e, real, quantized, n, 1, -INFINITY, INFINITY);
}

qc_id qc_site_value(const struct qc_graph *real, const struct qc_space *site)
{
    qc_id v = qc_graph_find_value(real, site->name);
    if (v || site->name[0] != '%') return v;
    unsigned long id = strtoul(site->name + 1, NULL, 10); /* the label of a value without a name */
    return id <= real->value_count ? (qc_id)id : 0;
}

qc_id qc_stored_value(const struct qc_graph *quantized, qc_id site, const struct qc_graph *real)
{
    const struct qc_space *s = &quantized->spaces[site];
    qc_id named = qc_graph_find_value(quantized, s->name), r = qc_site_value(real, s), first = 0;
    if (named && quantized->values[named].type.space == site) return named;
    for (qc_id v = 1; v <= quantized->value_count; v++) {
        if (quantized->values[v].type.space != site || quantized->values[v].kind != QC_VALUE_RESULT) continue;
        if (r && qc_shape_equal(&quantized->values[v].type.shape, &real->values[r].type.shape)) return v;
        if (!first) first = v;
    }
    return first;
}

unsigned qc_bits_for(double max)
{
    unsigned bits = 1;
    for (double limit = 1; limit <= max && bits < 64; limit *= 2) bits++;
    return bits;
}

/* A pair of values to compare: item i of both plans' observed lists. */
struct pair {
    qc_id site, real, stored;
};

struct measuring {
    const struct qc_graph *real, *quantized;
    size_t pair_count, accumulator_count;
    struct pair *pairs;
    qc_id *accumulators;   /* observed behind the pairs in the second plan */
    struct qc_view **kept; /* [workers][pair_count]: real values of the unit at hand, in the order of memory of the first plan */
    float **row;           /* [workers]: scratch of the largest value */
    struct qc_error *units; /* [units][pair_count + output_count] */
    double *seen;          /* [units][accumulator_count] */
};

/* Copies a value to `to`, keeping its order in memory where it is dense. */
static struct qc_view keep(float *to, const struct qc_view *v)
{
    struct qc_shape shape = qc_shape_of(v->rank, v->dim);
    struct qc_view copy = qc_view_of(QC_F32, &shape, QC_LAYOUT_ROW, to);
    if (qc_view_dense(v)) {
        memcpy(copy.stride, v->stride, sizeof copy.stride);
        memcpy(to, v->data, qc_view_count(v) * sizeof *to);
    } else {
        qc_view_copy(&copy, v);
    }
    return copy;
}

/* The elements of v in the order of `like`: v's own memory where that is so already. */
static const float *in_order(float *scratch, const struct qc_view *v, const struct qc_view *like)
{
    if (qc_view_same_order(v, like)) return v->data;
    struct qc_view copy = *like;
    copy.data = scratch;
    qc_view_copy(&copy, v);
    return scratch;
}

static bool observe(void *user, const struct qc_unit *at, size_t index, const struct qc_view *v, struct qc_status *st)
{
    struct measuring *m = user;
    size_t n = qc_view_count(v);
    (void)st;
    if (at->plan == 0) {
        m->kept[at->worker][index] = keep(m->kept[at->worker][index].data, v);
        return true;
    }
    if (index >= m->pair_count) {
        struct qc_view row = keep(m->row[at->worker], v);
        const float *x = row.data;
        double *seen = &m->seen[at->unit * m->accumulator_count + (index - m->pair_count)];
        float most = 0;
        for (size_t i = 0; i < n; i++) most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
        *seen = (double)most > *seen ? (double)most : *seen;
        return true;
    }
    const struct qc_space *s = &m->quantized->spaces[m->pairs[index].site];
    const struct qc_view *real = &m->kept[at->worker][index];
    const float *x = in_order(m->row[at->worker], v, real);
    struct qc_error *e = &m->units[at->unit * (m->pair_count + m->quantized->output_count) + index];
    struct qc_levels levels = qc_space_levels(s);
    if (s->state == QC_SPACE_BOUND) add_pairs(e, real->data, x, n, s->scale[0], (float)(levels.lo - s->zero_point[0]), (float)(levels.hi - s->zero_point[0]));
    else qc_error_compare(e, real->data, x, n);
    return true;
}

static bool finish_unit(void *user, const struct qc_unit *at, struct qc_runner *const runners[], struct qc_dataset_scratch *scratch, struct qc_status *st)
{
    struct measuring *m = user;
    (void)scratch;
    (void)st;
    for (size_t k = 0; k < m->quantized->output_count; k++) {
        struct qc_view r = qc_runner_output(runners[0], k), x = qc_runner_output(runners[1], k);
        struct qc_error *e = &m->units[at->unit * (m->pair_count + m->quantized->output_count) + m->pair_count + k];
        if (r.dtype == QC_F32 && x.dtype == QC_F32) qc_error_compare(e, r.data, x.data, qc_view_count(&r));
    }
    return true;
}

static bool find_pairs(struct measuring *m, struct qc_measurement *out, struct qc_status *st)
{
    const struct qc_graph *q = m->quantized;
    m->pairs = QC_NEW_ARRAY(out->arena, struct pair, q->space_count + 1, st);
    m->accumulators = QC_NEW_ARRAY(out->arena, qc_id, q->value_count + 1, st);
    if (!m->pairs || !m->accumulators) return false;
    for (qc_id s = 1; s <= q->space_count; s++) {
        if (q->spaces[s].kind != QC_SPACE_SITE || q->spaces[s].is_weight) continue;
        struct pair p = {.site = s, .real = qc_site_value(m->real, &q->spaces[s]), .stored = qc_stored_value(q, s, m->real)};
        if (!p.real || !p.stored || qc_constant_of(m->real, p.real) ||
            !qc_shape_equal(&m->real->values[p.real].type.shape, &q->values[p.stored].type.shape))
            continue;
        out->stored[s] = p.stored;
        m->pairs[m->pair_count++] = p;
    }
    for (qc_id v = 1; v <= q->value_count; v++) {
        const struct qc_node *n = qc_node_of(q, v);
        if (n && n->op != QC_OP_Quantize && q->values[v].type.space && q->spaces[q->values[v].type.space].kind == QC_SPACE_PRODUCT)
            m->accumulators[m->accumulator_count++] = v;
    }
    return true;
}

static bool new_plans(struct qc_plan *plans[2], const struct measuring *m, const struct qc_dataset *data, struct qc_arena *a, struct qc_status *st)
{
    size_t count = m->pair_count + m->accumulator_count;
    qc_id *real = QC_NEW_ARRAY(a, qc_id, count, st), *stored = QC_NEW_ARRAY(a, qc_id, count, st);
    const struct qc_shape *shapes = qc_stream_shapes(m->real, data, a, st);
    if (!real || !stored || !shapes) return false;
    for (size_t i = 0; i < m->pair_count; i++) {
        real[i] = m->pairs[i].real;
        stored[i] = m->pairs[i].stored;
    }
    for (size_t i = 0; i < m->accumulator_count; i++) stored[m->pair_count + i] = m->accumulators[i];
    return qc_plan_new(&plans[0], m->real, shapes, &(struct qc_plan_options){.observed_count = m->pair_count, .observed = real}, st) &&
           qc_plan_new(&plans[1], m->quantized, shapes, &(struct qc_plan_options){.observed_count = count, .observed = stored}, st);
}

static bool new_buffers(struct measuring *m, unsigned workers, size_t units, struct qc_plan *const plans[2], struct qc_arena *a, struct qc_status *st)
{
    size_t largest = 1;
    m->kept = QC_NEW_ARRAY(a, struct qc_view *, workers, st);
    m->row = QC_NEW_ARRAY(a, float *, workers, st);
    m->units = QC_NEW_ARRAY(a, struct qc_error, units * (m->pair_count + m->quantized->output_count), st);
    m->seen = QC_NEW_ARRAY(a, double, units * m->accumulator_count, st);
    if (!m->kept || !m->row || !m->units || !m->seen) return false;
    for (size_t i = 0; i < m->accumulator_count; i++) {
        size_t n = qc_plan_observed_elements(plans[1], m->pair_count + i);
        largest = n > largest ? n : largest;
    }
    for (unsigned w = 0; w < workers; w++) {
        if (!(m->kept[w] = QC_NEW_ARRAY(a, struct qc_view, m->pair_count, st))) return false;
        for (size_t i = 0; i < m->pair_count; i++) {
            size_t n = qc_plan_observed_elements(plans[0], i);
            largest = n > largest ? n : largest;
            if (!(m->kept[w][i].data = QC_NEW_ARRAY(a, float, n, st))) return false;
        }
        if (!(m->row[w] = QC_NEW_ARRAY(a, float, largest, st))) return false;
    }
    return true;
}

static void sum_up(struct qc_measurement *out, const struct measuring *m, size_t units)
{
    size_t stride = m->pair_count + out->output_count;
    for (size_t u = 0; u < units; u++) {
        for (size_t i = 0; i < m->pair_count; i++) qc_error_add(&out->sites[m->pairs[i].site], &m->units[u * stride + i]);
        for (size_t k = 0; k < out->output_count; k++) qc_error_add(&out->outputs[k], &m->units[u * stride + m->pair_count + k]);
        for (size_t i = 0; i < m->accumulator_count; i++) {
            double *max = &out->accumulator_max[m->quantized->values[m->accumulators[i]].type.space];
            if (m->seen[u * m->accumulator_count + i] > *max) *max = m->seen[u * m->accumulator_count + i];
        }
    }
}

bool qc_measure(struct qc_measurement **out, const struct qc_graph *real, const struct qc_graph *quantized, const struct qc_dataset *data,
                const struct qc_measure_options *options, struct qc_status *st)
{
    struct measuring m = {.real = real, .quantized = quantized};
    struct qc_measurement *r = calloc(1, sizeof *r);
    struct qc_arena *scratch = qc_arena_new();
    struct qc_plan *plans[2] = {NULL, NULL};
    double t0 = qc_seconds();
    bool ok = false;
    unsigned workers = 1;
    if (!r || !scratch || !(r->arena = qc_arena_new())) {
        qc_fail_memory(st, sizeof *r);
        goto out;
    }
    r->space_count = quantized->space_count;
    r->output_count = quantized->output_count;
    r->sites = QC_NEW_ARRAY(r->arena, struct qc_error, r->space_count + 1, st);
    r->stored = QC_NEW_ARRAY(r->arena, qc_id, r->space_count + 1, st);
    r->accumulator_max = QC_NEW_ARRAY(r->arena, double, r->space_count + 1, st);
    r->outputs = QC_NEW_ARRAY(r->arena, struct qc_error, r->output_count, st);
    if (!r->sites || !r->stored || !r->accumulator_max || !r->outputs || !find_pairs(&m, r, st) || !new_plans(plans, &m, data, scratch, st)) goto out;
    size_t kept = 0;
    for (size_t i = 0; i < m.pair_count; i++) kept += qc_plan_observed_elements(plans[0], i) * sizeof(float);
    r->runner_bytes = qc_plan_runner_bytes(plans[0]) + qc_plan_runner_bytes(plans[1]) + kept;
    if (!qc_stream_workers(&workers, options->workers, options->memory_limit, qc_plan_constant_bytes(plans[0]) + qc_plan_constant_bytes(plans[1]),
                           r->runner_bytes, st) ||
        !new_buffers(&m, workers, qc_dataset_units(data), plans, scratch, st))
        goto out;
    struct qc_stream stream = {.data = data,
                               .input_count = real->input_count,
                               .plan_count = 2,
                               .plans = {plans[0], plans[1]},
                               .workers = workers,
                               .observe = observe,
                               .unit = finish_unit,
                               .user = &m,
                               .progress = options->progress,
                               .progress_user = options->progress_user};
    if (!qc_stream_run(&stream, st)) goto out;
    sum_up(r, &m, qc_dataset_units(data));
    r->samples = qc_dataset_samples(data);
    r->seconds = qc_seconds() - t0;
    *out = r;
    r = NULL;
    ok = true;
out:
    qc_plan_free(plans[0]);
    qc_plan_free(plans[1]);
    qc_arena_free(scratch);
    qc_measurement_free(r);
    return ok;
}

void qc_measurement_free(struct qc_measurement *m)
{
    if (!m) return;
    qc_arena_free(m->arena);
    free(m);
}
