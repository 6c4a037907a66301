// SPDX-License-Identifier: Apache-2.0
#include "calib/statistics/stream.h"

#include <stdlib.h>
#include <string.h>

#include "base/resident.h"
#include "calib/statistics/unit_sizes.h"

/* Freed memory that the allocator keeps does not count if memory is scarce or limited. */
static size_t resident(size_t limit)
{
    static const size_t plenty = (size_t)1 << 30;
    return limit || qc_machine_left() < plenty ? qc_resident_bytes() : qc_resident_bytes_as_is();
}

size_t qc_stream_held_bytes(size_t limit)
{
    return resident(limit) + QC_STREAM_RESERVE;
}

struct worker {
    struct qc_runner *runners[QC_STREAM_PLANS];
    struct qc_dataset_scratch *scratch;
    char *buffer; /* of the plans that share a buffer */
};

struct running {
    const struct qc_stream *s;
    const size_t *order; /* of the units if their sizes differ; NULL: as given */
    struct worker *workers;
};

struct observing {
    const struct qc_stream *s;
    struct qc_unit at;
};

static bool observe(void *user, size_t index, const struct qc_view *v, struct qc_status *st)
{
    struct observing *o = user;
    return o->s->observe(o->s->user, &o->at, index, v, st);
}

/* Hashes eight bytes at a time in four lanes. */
uint64_t qc_stream_key(uint64_t h, const void *bytes, size_t n)
{
    const unsigned char *x = bytes;
    const uint64_t prime = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t lane[4] = {h, h ^ 1, h ^ 2, h ^ 3};
    size_t i = 0;
    for (; i + 32 <= n; i += 32)
        for (size_t k = 0; k < 4; k++) {
            uint64_t word;
            memcpy(&word, x + i + 8 * k, sizeof word);
            lane[k] = (lane[k] ^ word) * prime;
            lane[k] ^= lane[k] >> 29;
        }
    for (; i < n; i++) lane[0] = (lane[0] ^ x[i]) * prime ^ lane[0] >> 29;
    for (size_t k = 0; k < 4; k++) h = ((h ^ lane[k]) * prime) ^ (h >> 31);
    return h ^ (h >> 32);
}

static bool run_unit(void *user, size_t item, unsigned worker, struct qc_status *st)
{
    struct running *r = user;
    const struct qc_stream *s = r->s;
    const size_t place = r->order ? r->order[item] : item;
    const size_t unit = s->units ? s->units[place] : place;
    struct worker *w = &r->workers[worker];
    struct observing o = {.s = s,
                          .at = {.unit = unit, .worker = worker, .sample = qc_dataset_first_sample(s->data, unit)}};
    for (size_t k = 0; k < s->plan_count; k++) {
        o.at.plan = k;
        if ((k || !s->keyed) && s->skips && s->skips(s->user, &o.at)) continue;
        if (!qc_stream_unit_shapes(w->runners[k], s->data, s->input_count, unit, st))
            return qc_where(st, "%s: sample %llu", qc_dataset_file(s->data), (unsigned long long)o.at.sample);
        for (size_t i = 0; i < s->input_count; i++) {
            struct qc_view in = qc_runner_input(w->runners[k], i);
            if (!qc_dataset_read(in.data, s->data, i, unit, w->scratch, st)) return false;
            if (k == 0 && s->keyed)
                o.at.key = qc_stream_key(o.at.key, in.data, qc_view_count(&in) * qc_dtype_size(in.dtype));
        }
        if (k == 0 && s->keyed && s->keys) s->keys[unit] = o.at.key;
        if (!qc_runner_run(w->runners[k], s->observe ? observe : NULL, &o, st))
            return qc_where(st, "%s: sample %llu", qc_dataset_file(s->data), (unsigned long long)o.at.sample);
        if (s->ran && !s->ran(s->user, &o.at, w->runners, w->scratch, st)) return false;
    }
    return !s->unit || s->unit(s->user, &o.at, w->runners, w->scratch, st);
}

static bool shares(const struct qc_stream *s, size_t plan)
{
    return s->share_buffer && plan >= s->apart && qc_plan_buffer_bytes(s->plans[plan]);
}

static size_t shared_bytes(const struct qc_stream *s)
{
    size_t most = 0;
    for (size_t k = 0; k < s->plan_count; k++) {
        const size_t bytes = shares(s, k) ? qc_plan_buffer_bytes(s->plans[k]) : 0;
        most = bytes > most ? bytes : most;
    }
    return most;
}

size_t qc_stream_runner_bytes(const struct qc_stream *s)
{
    size_t bytes = shared_bytes(s);
    for (size_t k = 0; k < s->plan_count; k++)
        bytes += qc_plan_runner_bytes(s->plans[k]) - (shares(s, k) ? qc_plan_buffer_bytes(s->plans[k]) : 0);
    return bytes;
}

static bool new_worker(struct worker *w, const struct qc_stream *s, struct qc_status *st)
{
    const size_t bytes = shared_bytes(s);
    bool ok = qc_dataset_scratch_new(&w->scratch, st);
    if (ok && bytes) {
        if (!(w->buffer = qc_pages_new(bytes))) return qc_fail_memory(st, bytes);
        memset(w->buffer, 0, bytes);
    }
    for (size_t k = 0; ok && k < s->plan_count; k++)
        ok = shares(s, k) ? qc_runner_new_in(&w->runners[k], s->plans[k], w->buffer, st)
                          : qc_runner_new(&w->runners[k], s->plans[k], st);
    return ok;
}

bool qc_stream_run(const struct qc_stream *s, struct qc_status *st)
{
    const size_t count = s->units ? s->unit_count : qc_dataset_units(s->data);
    struct running r = {.s = s, .workers = calloc(s->workers, sizeof *r.workers)};
    size_t *order = NULL;
    bool ok = r.workers ? true : qc_fail_memory(st, s->workers * sizeof *r.workers);
    if (ok && qc_dataset_varies(s->data))
        ok = qc_order_by_size(&order, s->data, s->input_count, s->units, count,
                              s->in_order ? QC_ORDER_KEPT : QC_ORDER_FREE, st);
    r.order = order;
    for (unsigned w = 0; ok && w < s->workers; w++) ok = new_worker(&r.workers[w], s, st);
    struct qc_pool_options pool = {.workers = s->workers, .progress = s->progress, .progress_user = s->progress_user};
    ok = ok && qc_pool_run(count, run_unit, &r, &pool, st);
    for (unsigned w = 0; r.workers && w < s->workers; w++) {
        qc_dataset_scratch_free(r.workers[w].scratch);
        for (size_t k = 0; ok && k < s->plan_count; k++)
            if (s->overflows[k] && r.workers[w].runners[k]) qc_overflows_add(s->overflows[k], r.workers[w].runners[k]);
        for (size_t k = 0; k < s->plan_count; k++) qc_runner_free(r.workers[w].runners[k]);
        free(r.workers[w].buffer);
    }
    free(r.workers);
    free(order);
    return ok;
}

struct qc_input_spec *qc_stream_specs(const struct qc_graph *g, struct qc_arena *a, struct qc_status *st)
{
    struct qc_input_spec *specs = QC_NEW_ARRAY(a, struct qc_input_spec, g->input_count, st);
    for (size_t i = 0; specs && i < g->input_count; i++) {
        const struct qc_type *t = &g->values[g->inputs[i].value].type;
        if (t->shape.rank < 0) {
            qc_fail(st, QC_UNSUPPORTED, "input '%s' has no shape in the model; export the model with one",
                    g->inputs[i].name);
            return NULL;
        }
        specs[i] = (struct qc_input_spec){.name = g->inputs[i].name,
                                          .dtype = t->dtype,
                                          .rank = (unsigned)t->shape.rank,
                                          .dims = t->shape.dim};
    }
    return specs && qc_stream_levels(specs, g, a, st) && qc_stream_past(specs, g, a, st) ? specs : NULL;
}

/* ---- Shapes and plans ---- */

struct qc_shape *qc_stream_shapes(const struct qc_graph *g, const struct qc_dataset *data, struct qc_arena *a,
                                  struct qc_status *st)
{
    struct qc_shape *shapes = QC_NEW_ARRAY(a, struct qc_shape, g->input_count, st);
    for (size_t i = 0; shapes && i < g->input_count; i++) {
        const int64_t *dims;
        unsigned rank = qc_dataset_dims(&dims, data, i);
        shapes[i] = qc_shape_of((int)rank, dims);
    }
    return shapes;
}

static void unit_shapes(struct qc_shape *shapes, const struct qc_dataset *data, size_t inputs, size_t unit)
{
    int64_t dims[QC_DATA_RANK_MAX];
    for (size_t i = 0; i < inputs; i++) {
        const unsigned rank = qc_dataset_unit_dims(dims, data, i, unit);
        shapes[i] = qc_shape_of((int)rank, dims);
    }
}

bool qc_stream_plan(struct qc_plan **out, const struct qc_graph *g, const struct qc_dataset *data,
                    const struct qc_plan_options *options, struct qc_status *st)
{
    struct qc_plan_options how = options ? *options : (struct qc_plan_options){0};
    struct qc_plan_case *largest = NULL;
    struct qc_arena *a = qc_arena_new();
    if (!a) return qc_fail_memory(st, 1);
    const struct qc_shape *shapes = qc_stream_shapes(g, data, a, st);
    bool ok = shapes != NULL;
    if (ok && qc_dataset_varies(data)) {
        const size_t *units = qc_largest_units(&how.largest_count, data, g->input_count, a, st);
        ok = units && (largest = QC_NEW_ARRAY(a, struct qc_plan_case, how.largest_count, st));
        for (size_t k = 0; ok && k < how.largest_count; k++) {
            struct qc_shape *of = QC_NEW_ARRAY(a, struct qc_shape, g->input_count, st);
            const char *name = qc_arena_printf(a, st, "%s: sample %zu", qc_dataset_file(data),
                                               qc_dataset_first_sample(data, units[k]));
            if (!(ok = of && name)) break;
            unit_shapes(of, data, g->input_count, units[k]);
            largest[k] = (struct qc_plan_case){.shapes = of, .name = name};
        }
        how.largest = largest;
    }
    ok = ok && qc_plan_new(out, g, shapes, &how, st);
    qc_arena_free(a);
    return ok;
}

bool qc_stream_unit_shapes(struct qc_runner *r, const struct qc_dataset *data, size_t input_count, size_t unit,
                           struct qc_status *st)
{
    if (!qc_dataset_varies(data)) return true;
    struct qc_shape *shapes = calloc(input_count + 1, sizeof *shapes);
    if (!shapes) return qc_fail_memory(st, input_count * sizeof *shapes);
    unit_shapes(shapes, data, input_count, unit);
    const bool ok = qc_runner_shapes(r, shapes, st);
    free(shapes);
    return ok;
}

bool qc_stream_one_size(const struct qc_dataset *data, const char *who, struct qc_status *st)
{
    return !qc_dataset_varies(data) ||
           qc_fail(st, QC_UNSUPPORTED,
                   "%s: %s needs samples of one size, but these differ; leave it out or use other samples",
                   qc_dataset_file(data), who);
}

/* ---- Memory ---- */

bool qc_stream_workers(unsigned *workers, unsigned wanted, size_t limit, size_t fixed, size_t each,
                       struct qc_status *st)
{
    const double mib = 1024.0 * 1024.0;
    *workers = wanted ? wanted : 1;
    if (!limit) {
        const size_t held = resident(limit), left = qc_machine_left();
        const size_t all = left > SIZE_MAX - held ? SIZE_MAX : held + left;
        if (all < fixed || all - fixed < each)
            return qc_fail(st, QC_MACHINE,
                           "this model needs %.1f MiB with one worker, and this machine has %.1f MiB left; use one "
                           "with more memory",
                           (double)(fixed + each) / mib, (double)left / mib);
        limit = all;
    }
    if (limit < fixed || limit - fixed < each)
        return qc_fail(st, QC_MACHINE, "--memory-limit %.1f MiB is too low: this model needs %.1f MiB with one worker",
                       (double)limit / mib,
                       (double)(fixed + each) / mib + 1); /* held memory varies a little from run to run */
    size_t fit = each ? (limit - fixed) / each : *workers;
    if (fit < *workers) *workers = (unsigned)fit;
    return true;
}

size_t qc_stream_ahead(const struct qc_dataset *data, size_t limit, size_t fixed, size_t each)
{
    size_t bytes;
    const unsigned units = qc_dataset_ahead(&bytes, data);
    const size_t left = limit > fixed && limit - fixed > each ? limit - fixed - each : 0;
    if (!limit || !bytes || left / bytes >= units) return units * bytes;
    qc_dataset_read_less_ahead(data, (unsigned)(left / bytes));
    return left / bytes * bytes;
}

bool qc_stream_fit(unsigned *workers, const struct qc_run_options *o, const struct qc_dataset *data, size_t each,
                   struct qc_status *st)
{
    each += qc_dataset_scratch_bytes(data);
    const size_t held = qc_stream_held_bytes(o->memory_limit),
                 fixed = held + qc_stream_ahead(data, o->memory_limit, held, each);
    return qc_stream_workers(workers, o->workers, o->memory_limit, fixed, each, st);
}
