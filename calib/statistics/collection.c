// SPDX-License-Identifier: Apache-2.0
#include "calib/statistics/collection.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/pool.h"
#include "base/scope.h"

struct collecting {
    struct qc_collection *c;
    const struct qc_collect_options *options;
    uint64_t each;            /* samples of a unit */
    size_t total, unit_count; /* units in all, and remaining */
    size_t *units;            /* [unit_count] */
    bool *done;               /* [total] */
    bool interrupted;
    double saved, wait;             /* time of the last save, and the least time to the next, s */
    struct qc_second_moments *seen; /* of the earlier run, until there is room for them */
    unsigned workers;
    struct qc_scan **scans; /* [workers][count] */
    size_t value_count;
    qc_id *values;                      /* [value_count]: collected values, then values for second moments only */
    struct qc_extremes_table *extremes; /* NULL, or the extremes of this round, by unit */
    float **rows;                       /* [workers]: buffer for a dense copy of a value, or a copy by channel */
    size_t *row_sizes;
    struct qc_channel_locks *locks; /* NULL: no statistics of channels */
};

static float *row_buffer(struct collecting *k, unsigned worker, size_t n, struct qc_status *st)
{
    if (k->row_sizes[worker] >= n) return k->rows[worker];
    float *more = realloc(k->rows[worker], n * sizeof *more);
    if (!more) {
        qc_fail_memory(st, n * sizeof *more);
        return NULL;
    }
    k->rows[worker] = more;
    k->row_sizes[worker] = n;
    return more;
}

static const float *dense_copy(struct collecting *k, unsigned worker, const struct qc_view *v, size_t n,
                               struct qc_status *st)
{
    if (qc_view_dense(v)) return v->data;
    if (!row_buffer(k, worker, n, st)) return NULL;
    struct qc_shape shape = qc_shape_of(v->rank, v->dim);
    struct qc_view row = qc_view_of(QC_F32, &shape, QC_LAYOUT_ROW, k->rows[worker]);
    qc_view_copy(&row, v);
    return k->rows[worker];
}

static bool observe_collection(void *user, const struct qc_unit *at, size_t index, const struct qc_view *v,
                               struct qc_status *st)
{
    struct collecting *k = user;
    size_t n = qc_view_count(v);
    float peak = QC_MOMENTS_NO_PEAK;
    if (index < k->c->count) {
        struct qc_scan *scan = k->scans[at->worker * k->c->count + index];
        const float *x = dense_copy(k, at->worker, v, n, st);
        if (!x || !qc_scan_sample(scan, x, n, at->sample, st)) return false;
        if (!qc_per_sample_take(k->c->samples, index, at->unit, x, n, st))
            return qc_where(st, "tensor '%s'", k->c->values[index].name);
        if (k->extremes) {
            const struct qc_extremes e = qc_extremes_of(x, n, at->sample);
            k->extremes->ends[index * k->total + at->unit] = (struct qc_ends){.min = e.min, .max = e.max};
        }
        peak = qc_scan_last_peak(scan);
        struct qc_channel_histogram *channels = k->c->values[index].channels;
        float *row = channels ? row_buffer(k, at->worker, n, st) : NULL;
        if (channels && (!row || !qc_channels_take(channels, k->locks, index, v, row, st)))
            return qc_where(st, "'%s'", k->c->values[index].name);
    }
    return !k->c->second_moments ||
           qc_second_moments_observe(k->c->second_moments, at->worker, at->key, k->values[index], peak, v, st);
}

static bool begin_collection(struct collecting *k, unsigned workers, struct qc_status *st)
{
    struct qc_arena *a = k->c->arena;
    k->workers = workers;
    k->scans = QC_NEW_ARRAY(a, struct qc_scan *, (size_t)workers * k->c->count, st);
    k->rows = QC_NEW_ARRAY(a, float *, workers, st);
    k->row_sizes = QC_NEW_ARRAY(a, size_t, workers, st);
    if (!k->scans || !k->rows || !k->row_sizes) return false;
    for (size_t i = 0; i < workers * k->c->count; i++)
        if (!qc_scan_new(&k->scans[i], k->c->need, st)) return false;
    return !k->c->channels || qc_channel_locks_new(&k->locks, k->c->count, st);
}

static void end_collection(struct collecting *k)
{
    qc_extremes_table_free(k->extremes);
    qc_channel_locks_free(k->locks);
    qc_second_moments_free(k->seen);
    for (size_t i = 0; k->scans && i < k->workers * k->c->count; i++) qc_scan_free(k->scans[i]);
    for (unsigned w = 0; k->rows && w < k->workers; w++) free(k->rows[w]);
}

static int compare_names(const void *x, const void *y)
{
    const struct qc_collected *const *a = x, *const *b = y;
    return strcmp((*a)->name, (*b)->name);
}

bool qc_collection_new(struct qc_collection **out, size_t count, const char *const *names, enum qc_need need,
                       struct qc_status *st)
{
    struct qc_collection *c;
    if (!QC_NEW_OWNER(c, st)) return false;
    c->need = need;
    c->inputs = "";
    c->values = QC_NEW_ARRAY(c->arena, struct qc_collected, count, st);
    c->by_name = QC_NEW_ARRAY(c->arena, struct qc_collected *, count, st);
    bool ok = c->values && c->by_name;
    for (size_t i = 0; ok && i < count; i++) {
        struct qc_collected *v = &c->values[c->count++];
        ok = (v->name = qc_arena_strdup(c->arena, names[i], st)) && qc_histogram_new(&v->histogram, need, st);
    }
    if (ok && count) {
        for (size_t i = 0; i < count; i++) c->by_name[i] = &c->values[i];
        qsort(c->by_name, count, sizeof(struct qc_collected *), compare_names);
    }
    return QC_HAND_OVER(ok, out, c, qc_collection_free);
}

struct qc_collection *qc_collection_ref(struct qc_collection *c)
{
    if (c) c->holders++;
    return c;
}

bool qc_collection_is_shared(const struct qc_collection *c)
{
    return c->holders > 0;
}

void qc_collection_free(struct qc_collection *c)
{
    if (!c || c->holders-- > 0) return;
    for (size_t i = 0; c->values && i < c->count; i++) {
        qc_histogram_free(c->values[i].histogram);
        qc_channel_histogram_free(c->values[i].channels);
    }
    qc_per_sample_free(c->samples);
    qc_extremes_table_free(c->extremes);
    qc_second_moments_free(c->second_moments);
    qc_arena_free(c->arena);
    free(c->parts);
    free(c->ranges);
    free(c);
}

bool qc_collection_add_channels(struct qc_collection *c, size_t i, int axis, int64_t channels, struct qc_status *st)
{
    if (axis < 0 || channels < 1 || channels > QC_CHANNELS_MAX) return true;
    return qc_channel_histogram_new(&c->values[i].channels, axis, (size_t)channels, st);
}

static bool name_origin(struct qc_collection *c, const struct qc_dataset *data, const struct qc_collect_options *o,
                        struct qc_status *st)
{
    struct qc_part part = {.samples = qc_dataset_total(data), .chosen = qc_dataset_planned(data)};
    size_t index;
    qc_text(c->model_sha256, sizeof c->model_sha256, "%s", o->model_sha256 ? o->model_sha256 : "");
    qc_text(part.sha256, sizeof part.sha256, "%s", o->data_sha256 ? o->data_sha256 : "");
    return (c->inputs = qc_arena_strdup(c->arena, o->inputs ? o->inputs : "", st)) &&
           qc_collection_add_part(&index, c, &part, st);
}

/* Lists the remaining units: all but those of samples that `c` has seen. Fails if a sample seen is not chosen. */
static bool find_units(struct collecting *k, const struct qc_dataset *data, struct qc_status *st)
{
    size_t all = qc_dataset_units(data);
    const uint64_t each = qc_dataset_unit_samples(data);
    k->each = each;
    k->units = QC_NEW_ARRAY(k->c->arena, size_t, all, st);
    k->done = QC_NEW_ARRAY(k->c->arena, bool, all, st);
    if (!k->units || !k->done) return false;
    for (size_t u = 0; u < all; u++)
        if (!qc_collection_has_sample(k->c, 0, qc_dataset_first_sample(data, u))) k->units[k->unit_count++] = u;
    k->total = all;
    return (all - k->unit_count) * each == qc_collection_samples(k->c) ||
           qc_fail(st, QC_BAD_INPUT,
                   "it has seen samples that are not chosen here (--samples, --seed, --shard); use the options it was "
                   "made with, or remove it");
}

static bool keeps_outputs(void *user, const struct qc_unit *at)
{
    const struct collecting *k = user;
    return k->options->known && qc_known_outputs_wanted(k->options->known, at->key, k->total);
}

static bool finish_collected_unit(void *user, const struct qc_unit *at, struct qc_runner *const runners[],
                                  struct qc_dataset_scratch *scratch, struct qc_status *st)
{
    struct collecting *k = user;
    k->done[at->unit] = true; /* each unit has one worker */
    return !keeps_outputs(k, at) || qc_known_outputs_keep(k->options->known, at->key, runners[0], st);
}

/* Returns false to stop the run, for good or for a save. */
static bool step_collection(void *user, size_t done, size_t count)
{
    struct collecting *k = user;
    const struct qc_collect_options *o = k->options;
    k->interrupted = o->settings->progress &&
                     !o->settings->progress(o->settings->progress_user, k->total - k->unit_count + done, k->total);
    return !k->interrupted && !(o->save && qc_seconds() - k->saved >= k->wait);
}

/* Adds the extremes of the units of this round. */
static bool take_extremes(struct collecting *k, const struct qc_dataset *data, struct qc_status *st)
{
    struct qc_extremes_table *t = NULL;
    size_t n = 0;
    for (size_t i = 0; i < k->unit_count; i++) n += k->done[k->units[i]];
    if (!qc_extremes_table_new(&t, k->c->count, n, st)) return false;
    n = 0;
    for (size_t i = 0; i < k->unit_count; i++) {
        const size_t u = k->units[i];
        if (!k->done[u]) continue;
        t->samples[n] = QC_SAMPLE_ID(0, qc_dataset_first_sample(data, u));
        for (size_t v = 0; v < t->values; v++) t->ends[v * t->count + n] = k->extremes->ends[v * k->total + u];
        n++;
    }
    const bool ok = qc_extremes_table_add(k->c->extremes, t, st);
    qc_extremes_table_free(t);
    return ok;
}

/* Adds what the workers have scanned of a value. */
static bool take_scans(void *user, size_t value, unsigned worker, struct qc_status *st)
{
    struct collecting *k = user;
    bool ok = true;
    for (size_t i = value; ok && i < k->workers * k->c->count; i += k->c->count) {
        ok = qc_histogram_add_scan(k->c->values[value].histogram, k->scans[i], st);
        qc_scan_reset(k->scans[i]);
    }
    return ok;
}

/* Adds the statistics of the workers and lists the remaining units. */
static bool take_over(struct collecting *k, const struct qc_dataset *data, struct qc_status *st)
{
    size_t left = 0;
    bool ok = (!k->extremes || take_extremes(k, data, st)) &&
              (!k->c->second_moments || qc_second_moments_end(k->c->second_moments, st)) &&
              qc_pool_run(k->c->count, take_scans, k, &(struct qc_pool_options){.workers = k->workers}, st);
    for (size_t i = 0; ok && i < k->unit_count; i++) {
        size_t u = k->units[i];
        if (!k->done[u])
            k->units[left++] = u;
        else
            ok = qc_collection_add_range(
                k->c, (struct qc_sample_range){.first = qc_dataset_first_sample(data, u), .count = k->each}, st);
    }
    k->unit_count = left;
    return ok;
}

/* Runs in rounds and saves after each. */
static bool run_collection(struct collecting *k, struct qc_stream *stream, struct qc_status *st)
{
    const struct qc_collect_options *o = k->options;
    k->saved = qc_seconds();
    k->wait = o->save_seconds;
    while (k->unit_count) {
        struct qc_status round = QC_STATUS_INIT;
        stream->units = k->units;
        stream->unit_count = k->unit_count;
        bool ok = qc_stream_run(stream, &round);
        if (!ok && round.code != QC_INTERRUPTED) {
            *st = round;
            return false;
        }
        if (!take_over(k, stream->data, st)) return false;
        const double ran = qc_seconds();
        if (o->save && !o->save(o->save_user, k->c, st)) return false;
        k->saved = qc_seconds();
        k->wait = fmax(o->save_seconds, o->save_times * (k->saved - ran));
        if (k->interrupted)
            return qc_fail(st, QC_INTERRUPTED, "interrupted with %zu of %zu to go", k->unit_count, k->total);
    }
    return true;
}

static bool needs_extremes(const struct qc_collect_options *o)
{
    return o->extremes || o->series || (o->observer && o->observer->need == QC_NEED_SERIES);
}

/* Prepares statistics besides histograms. The blocks of second moments are those of an earlier run, if there is one. */
static bool add_more(struct qc_collection *c, const struct qc_graph *g, const struct qc_named_values *values,
                     const struct qc_collect_options *o, struct qc_status *st)
{
    const size_t block =
        o->so_far && o->so_far->second_moments ? qc_second_moments_block(o->so_far->second_moments) : 0;
    if (o->channel_axes) {
        c->channels = true;
        for (size_t i = 0; i < c->count; i++) {
            const int axis = o->channel_axes[i];
            const struct qc_shape *s = &g->values[values->ids[i]].type.shape;
            if (axis >= 0 && axis < s->rank && !qc_collection_add_channels(c, i, axis, s->dim[axis], st)) return false;
        }
    }
    return (!needs_extremes(o) || qc_extremes_table_new(&c->extremes, c->count, 0, st)) &&
           (!o->moments || qc_second_moments_new(&c->second_moments, g, o->layers, block, st));
}

/* The largest sample of both is the first one if it has more elements, then by dimensions. */
static bool keep_larger(struct qc_collection *to, const struct qc_collection *from, struct qc_status *st)
{
    const struct qc_largest_sample *a = &to->largest, *b = &from->largest;
    size_t i = 0;
    while (i < a->count && i < b->count && a->sizes[i] == b->sizes[i]) i++;
    if (i == b->count || (i < a->count && a->sizes[i] > b->sizes[i])) return true;
    to->largest.count = b->count;
    return (to->largest.sizes = qc_arena_dup(to->arena, b->sizes, b->count, sizeof *b->sizes, st)) != NULL;
}

static bool merge_but_moments(struct qc_collection *to, const struct qc_collection *from, struct qc_status *st);

static bool start(struct collecting *k, const struct qc_graph *g, const struct qc_named_values *values,
                  const struct qc_dataset *data, struct qc_status *st)
{
    const struct qc_collect_options *o = k->options;
    struct qc_collection *fresh = NULL;
    bool ok = qc_collection_new(&fresh, values->count, values->names, o->need, st) && name_origin(fresh, data, o, st) &&
              add_more(fresh, g, values, o, st) && qc_stream_largest(&fresh->largest, g, data, fresh->arena, st) &&
              (!o->so_far || merge_but_moments(fresh, o->so_far, st)) &&
              (fresh->part_count == 1 ||
               qc_fail(st, QC_BAD_INPUT, "it was made from other data; remove it, or use the data it was made from"));
    k->c = fresh;
    ok = ok && find_units(k, data, st);
    if (!ok && o->so_far) qc_where(st, "%s", o->so_far_name);
    if (o->so_far) {
        k->seen = o->so_far->second_moments;
        o->so_far->second_moments = NULL;
    }
    qc_collection_free(o->so_far);
    return ok;
}

/* Prepares per-sample data for observers that need more than histograms. A file cannot hold states of plugins. */
static bool keep_samples(struct collecting *k, struct qc_status *st)
{
    const struct qc_collect_options *o = k->options;
    if (k->c->extremes && !qc_extremes_table_new(&k->extremes, k->c->count, k->total, st)) return false;
    if (!o->observer || o->observer->need != QC_NEED_VALUES) return true;
    if (o->save || o->so_far)
        return qc_fail(st, QC_USAGE,
                       "observer '%s' is a plugin, and a file cannot hold its state: it needs every sample in one run; "
                       "leave out --checkpoint",
                       o->observer->name);
    return qc_per_sample_new(&k->c->samples, o->observer, o->observer_values, k->c->count, st);
}

/* Lists the values that the plan must show. */
static bool find_values(struct collecting *k, const struct qc_graph *g, const struct qc_named_values *values,
                        struct qc_status *st)
{
    const qc_id *more = NULL;
    const size_t extra = k->c->second_moments ? qc_second_moments_values(&more, k->c->second_moments) : 0;
    bool *known = QC_NEW_ARRAY(k->c->arena, bool, g->value_count + 1, st);
    k->values = QC_NEW_ARRAY(k->c->arena, qc_id, values->count + extra, st);
    if (!known || !k->values) return false;
    for (size_t i = 0; i < values->count; i++) known[k->values[k->value_count++] = values->ids[i]] = true;
    for (size_t i = 0; i < extra; i++)
        if (!known[more[i]]) k->values[k->value_count++] = more[i];
    return true;
}

struct needs {
    size_t fixed, each;                             /* bytes of the run: besides workers, and of each worker */
    size_t later;                                   /* bytes of later stages, besides those held already */
    size_t fixed_before, each_before, later_before; /* without second moments */
};

/* Adds the bytes of second moments in their layout. A file of them is written piece by piece; to be sent, it is made in
   memory with as many bytes at most. */
static void add_moments(struct needs *n, const struct qc_second_moments *m, const struct qc_collect_options *o)
{
    const size_t held = qc_second_moments_held_bytes(m),
                 saving = o->extremes || o->save ? qc_moment_source_bytes(m) : 0,
                 sending = o->sends ? qc_second_moments_bytes(m) : 0;
    n->fixed = n->fixed_before + held + saving + sending;
    n->each = n->each_before + qc_second_moments_worker_bytes(m);
    n->later = n->later_before + held + (o->later_with ? o->later_with(m) : 0);
}

static size_t most(const struct needs *n, size_t held)
{
    const size_t now = n->fixed + n->each, later = held + n->later;
    return now > later ? now : later;
}

/* Announces all rows: if they are few, they are kept instead of products, in less memory. */
static void expect_rows(struct collecting *k, const struct qc_plan *plan)
{
    for (size_t i = 0; i < k->value_count; i++)
        qc_second_moments_expect(k->c->second_moments, k->values[i], qc_plan_observed_elements(plan, i), k->total);
}

static bool new_moments(struct collecting *k, const struct qc_graph *g, size_t block, struct qc_status *st)
{
    qc_second_moments_free(k->c->second_moments);
    k->c->second_moments = NULL;
    return qc_second_moments_new(&k->c->second_moments, g, k->options->layers, block, st);
}

/* Fits the second moments into memory, with one worker and for later stages: products in temporary files, then smaller
   blocks. The blocks of an earlier run stay. */
static bool fit_moments(struct collecting *k, struct needs *n, const struct qc_graph *g, const struct qc_plan *plan,
                        size_t held, struct qc_status *st)
{
    const struct qc_collect_options *o = k->options;
    size_t least = SIZE_MAX, of_least = 0;
    for (size_t block = QC_MOMENTS_BLOCK; k->c->second_moments; block /= 2) {
        expect_rows(k, plan);
        for (int spilled = 0; spilled < 2; spilled++) {
            if (spilled) qc_second_moments_spill(k->c->second_moments);
            add_moments(n, k->c->second_moments, o);
            if (!o->settings->memory_limit || most(n, held) <= o->settings->memory_limit) return true;
        }
        if (k->seen) return true;
        if (most(n, held) < least) {
            least = most(n, held);
            of_least = block;
        }
        if (block / 2 < QC_MOMENTS_BLOCK_MIN) break;
        if (!new_moments(k, g, block / 2, st)) return false;
    }
    /* It does not fit: the error will name the least layout found. */
    if (!k->c->second_moments || least == most(n, held)) return true;
    if (!new_moments(k, g, of_least, st)) return false;
    expect_rows(k, plan);
    if (k->c->second_moments) {
        qc_second_moments_spill(k->c->second_moments);
        add_moments(n, k->c->second_moments, o);
    }
    return true;
}

/* Returns the bytes of the channel tables, which exist before the run. */
static size_t channel_bytes(const struct qc_collection *c)
{
    size_t bytes = 0;
    for (size_t i = 0; i < c->count; i++)
        bytes += c->values[i].channels ? qc_channel_histogram_bytes(c->values[i].channels->channels) : 0;
    return bytes;
}

/* Computes the bytes of a worker's scans at most, and of all histograms. */
static void count_histograms(size_t *scans, size_t *histograms, const struct collecting *k, const struct qc_plan *plan)
{
    *scans = *histograms = 0;
    for (size_t i = 0; i < k->c->count; i++) {
        const size_t elements = qc_plan_observed_elements(plan, i);
        *scans += qc_scan_bytes(k->c->need, elements * k->unit_count);
        *histograms += qc_histogram_bytes(k->c->need, elements * k->total);
    }
}

static size_t row_bytes(const struct collecting *k, const struct qc_plan *plan)
{
    size_t widest = 0;
    for (size_t i = 0; i < k->c->count; i++) {
        const size_t bytes = k->c->values[i].channels ? qc_plan_observed_elements(plan, i) * sizeof(float) : 0;
        widest = bytes > widest ? bytes : widest;
    }
    return widest;
}

bool qc_collect(struct qc_collection **out, struct qc_collect_cost *cost, const struct qc_graph *g,
                const struct qc_named_values *values, const struct qc_dataset *data, const struct qc_collect_options *o,
                struct qc_status *st)
{
    struct qc_plan *plan = NULL;
    struct collecting k = {.options = o};
    struct qc_collect_cost used = {0};
    size_t histograms;
    bool ok = false;
    const size_t series = needs_extremes(o) ? 2 * qc_extremes_table_bytes(values->count, qc_dataset_units(data)) : 0;
    if (!start(&k, g, values, data, st) || !keep_samples(&k, st) || !find_values(&k, g, values, st)) goto out;
    struct qc_plan_options plan_options = {.observed_count = k.value_count,
                                           .observed = k.values,
                                           .many_runs = k.unit_count >= QC_PLAN_MANY_RUNS};
    if (!qc_stream_plan(&plan, g, data, &plan_options, st)) goto out;
    if (o->known && qc_plan_shapes_known(plan)) qc_known_outputs_settle(o->known);
    used.runner_bytes = qc_plan_runner_bytes(plan);
    used.constant_bytes = qc_plan_constant_bytes(plan);
    count_histograms(&used.statistics_bytes, &histograms, &k, plan);
    const size_t in_use = qc_stream_held_bytes(o->settings->memory_limit), freed = k.seen ? o->so_far_bytes : 0,
                 held = in_use > freed ? in_use - freed : 0, channels = channel_bytes(k.c),
                 saved = o->extremes || o->save ? 2 * channels : 0;
    struct needs n = {.fixed_before = held + histograms + series + saved,
                      .each_before = used.runner_bytes + used.statistics_bytes + row_bytes(&k, plan) +
                                     qc_dataset_scratch_bytes(data),
                      .later_before = o->later_bytes + histograms + series + used.statistics_bytes + channels};
    n.fixed = n.fixed_before;
    n.each = n.each_before;
    n.later = n.later_before;
    if (!fit_moments(&k, &n, g, plan, held, st)) goto out;
    if (k.seen && !qc_second_moments_merge(k.c->second_moments, k.seen, st)) {
        qc_where(st, "%s", o->so_far_name);
        goto out;
    }
    qc_second_moments_free(k.seen);
    k.seen = NULL;
    if (most(&n, held) > n.fixed + n.each &&
        !qc_stream_workers(&used.workers, 1, o->settings->memory_limit, held, n.later, st))
        goto out;
    n.fixed += qc_stream_ahead(data, o->settings->memory_limit, n.fixed, n.each);
    if (!qc_stream_workers(&used.workers, o->settings->workers, o->settings->memory_limit, n.fixed, n.each, st) ||
        !begin_collection(&k, used.workers, st) ||
        (k.c->second_moments && !qc_second_moments_begin(k.c->second_moments, used.workers, st)))
        goto out;
    struct qc_stream stream = {.data = data,
                               .input_count = g->input_count,
                               .plan_count = 1,
                               .plans = {plan},
                               .workers = used.workers,
                               .keyed = k.c->second_moments || o->keys || o->known,
                               .keys = o->keys,
                               .observe = observe_collection,
                               .reads_outputs = keeps_outputs,
                               .unit = finish_collected_unit,
                               .user = &k,
                               .progress = step_collection,
                               .progress_user = &k};
    if (!run_collection(&k, &stream, st)) goto out;
    if (k.c->second_moments) qc_second_moments_close(k.c->second_moments);
    if (cost) *cost = used;
    ok = true;
out:
    end_collection(&k);
    qc_plan_free(plan);
    return QC_HAND_OVER(ok, out, k.c, qc_collection_free);
}

const struct qc_collected *qc_collection_value(const struct qc_collection *c, const char *name)
{
    const struct qc_collected key = {.name = name}, *wanted = &key;
    struct qc_collected *const *found =
        c->count ? bsearch(&wanted, c->by_name, c->count, sizeof(struct qc_collected *), compare_names) : NULL;
    return found ? *found : NULL;
}

const struct qc_histogram *qc_collection_find(const struct qc_collection *c, const char *name)
{
    const struct qc_collected *v = qc_collection_value(c, name);
    return v ? v->histogram : NULL;
}

bool qc_collection_join(struct qc_quantizer_samples *quantizer, const struct qc_collection *c, const char *name,
                        struct qc_status *st)
{
    const struct qc_collected *v = qc_collection_value(c, name);
    if (!v) return true;
    const size_t i = (size_t)(v - c->values);
    return (!c->extremes || qc_extremes_table_join(&quantizer->series, c->extremes, i, st)) &&
           qc_per_sample_join(quantizer, c->samples, i, st);
}

static void move_sample(uint64_t *id, size_t from)
{
    if (*id != QC_NO_SAMPLE && QC_SAMPLE_PART(*id) >= from) *id += QC_SAMPLE_ID(1, 0);
}

bool qc_collection_add_part(size_t *index, struct qc_collection *c, const struct qc_part *part, struct qc_status *st)
{
    size_t at = 0;
    while (at < c->part_count && strcmp(c->parts[at].sha256, part->sha256) < 0) at++;
    *index = at;
    if (at < c->part_count && strcmp(c->parts[at].sha256, part->sha256) == 0)
        return (c->parts[at].samples == part->samples && c->parts[at].chosen == part->chosen) ||
               qc_fail(st, QC_BAD_INPUT,
                       "data with SHA-256 %s: %llu of %llu samples were chosen in one run and %llu of %llu in the "
                       "other (--samples)",
                       part->sha256, (unsigned long long)c->parts[at].chosen, (unsigned long long)c->parts[at].samples,
                       (unsigned long long)part->chosen, (unsigned long long)part->samples);
    struct qc_part *parts = qc_grown(c->parts, c->part_count, &c->part_capacity, sizeof *parts, st);
    if (!parts) return false;
    c->parts = parts;
    memmove(parts + at + 1, parts + at, (c->part_count - at) * sizeof *parts);
    parts[at] = *part;
    c->part_count++;
    for (size_t i = 0; i < c->range_count; i++) c->ranges[i].part += c->ranges[i].part >= at;
    for (size_t i = 0; c->extremes && i < c->extremes->count; i++) move_sample(&c->extremes->samples[i], at);
    for (size_t i = 0; i < c->count; i++) {
        struct qc_tally *t = &c->values[i].histogram->tally;
        move_sample(&t->min_sample, at);
        move_sample(&t->max_sample, at);
        move_sample(&t->first_bad_sample, at);
    }
    return true;
}

/* Returns the number of ranges that begin at or before a sample. */
static size_t place_collection(const struct qc_collection *c, uint64_t part, uint64_t number)
{
    size_t lo = 0, hi = c->range_count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        const struct qc_sample_range *r = &c->ranges[mid];
        if (r->part < part || (r->part == part && r->first <= number))
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

bool qc_collection_has_sample(const struct qc_collection *c, uint64_t part, uint64_t number)
{
    size_t at = place_collection(c, part, number);
    return at > 0 && c->ranges[at - 1].part == part && number - c->ranges[at - 1].first < c->ranges[at - 1].count;
}

static bool fail_twice(const struct qc_collection *c, uint64_t part, uint64_t number, struct qc_status *st)
{
    return qc_fail(
        st, QC_BAD_INPUT,
        "sample %llu of the data with SHA-256 %s has been seen already: the same shard twice, or shards that overlap",
        (unsigned long long)number, c->parts[part].sha256);
}

bool qc_collection_add_range(struct qc_collection *c, struct qc_sample_range r, struct qc_status *st)
{
    size_t at = place_collection(c, r.part, r.first);
    struct qc_sample_range *before = at > 0 && c->ranges[at - 1].part == r.part ? &c->ranges[at - 1] : NULL;
    struct qc_sample_range *after = at < c->range_count && c->ranges[at].part == r.part ? &c->ranges[at] : NULL;
    if (before && r.first - before->first < before->count) return fail_twice(c, r.part, r.first, st);
    if (after && after->first - r.first < r.count) return fail_twice(c, r.part, after->first, st);
    bool joins_before = before && before->first + before->count == r.first,
         joins_after = after && r.first + r.count == after->first;
    if (joins_before && joins_after) {
        before->count += r.count + after->count;
        memmove(after, after + 1, (--c->range_count - at) * sizeof *after);
    } else if (joins_before) {
        before->count += r.count;
    } else if (joins_after) {
        after->first = r.first;
        after->count += r.count;
    } else {
        struct qc_sample_range *ranges = qc_grown(c->ranges, c->range_count, &c->range_capacity, sizeof *ranges, st);
        if (!ranges) return false;
        c->ranges = ranges;
        memmove(ranges + at + 1, ranges + at, (c->range_count++ - at) * sizeof *ranges);
        ranges[at] = r;
    }
    return true;
}

uint64_t qc_collection_samples(const struct qc_collection *c)
{
    uint64_t n = 0;
    for (size_t i = 0; i < c->range_count; i++) n += c->ranges[i].count;
    return n;
}

bool qc_collection_check_whole(const struct qc_collection *c, struct qc_status *st)
{
    for (size_t p = 0; p < c->part_count; p++) {
        uint64_t seen = 0;
        for (size_t i = 0; i < c->range_count; i++) seen += c->ranges[i].part == p ? c->ranges[i].count : 0;
        if (seen != c->parts[p].chosen)
            return qc_fail(st, QC_BAD_INPUT,
                           "has %llu of the %llu samples that were chosen from the data with SHA-256 %s: a shard is "
                           "missing, or its run was interrupted",
                           (unsigned long long)seen, (unsigned long long)c->parts[p].chosen, c->parts[p].sha256);
    }
    return true;
}

void qc_collection_inputs_differ(const char **a, const char **b)
{
    for (const char *x = *a, *y = *b; *x && *x == *y; y++)
        if (*x++ == '\n') {
            *a = x;
            *b = y + 1;
        }
}

static bool check_kin(const struct qc_collection *a, const struct qc_collection *b, struct qc_status *st)
{
    if (strcmp(a->model_sha256, b->model_sha256) != 0)
        return qc_fail(st, QC_BAD_INPUT, "is of another model: SHA-256 %s, expected %s", b->model_sha256,
                       a->model_sha256);
    const char *expected = a->inputs, *got = b->inputs;
    if (strcmp(expected, got) != 0) {
        qc_collection_inputs_differ(&expected, &got);
        return qc_fail(st, QC_BAD_INPUT,
                       "was made from other inputs or with another preprocessing (--input, --preprocess, attributes of "
                       "the data): '%.*s', expected '%.*s'",
                       (int)strcspn(got, "\n"), got, (int)strcspn(expected, "\n"), expected);
    }
    if (a->need != b->need)
        return qc_fail(st, QC_BAD_INPUT,
                       "one has histograms and the other has none (a checkpoint of a method that needs extremes only)");
    if (!a->second_moments != !b->second_moments)
        return qc_fail(st, QC_BAD_INPUT, "one has second moments and the other has none (--second-moments off)");
    if (a->channels != b->channels)
        return qc_fail(st, QC_BAD_INPUT,
                       "one has statistics of channels and the other has none (--channel-statistics)");
    if (!a->extremes != !b->extremes)
        return qc_fail(st, QC_BAD_INPUT,
                       "one has the extremes of every sample and the other has none (a checkpoint of another method)");
    for (size_t i = 0; i < a->count || i < b->count; i++) {
        const char *x = i < a->count ? a->values[i].name : NULL, *y = i < b->count ? b->values[i].name : NULL;
        const struct qc_channel_histogram *p = x && y ? a->values[i].channels : NULL,
                                          *q = x && y ? b->values[i].channels : NULL;
        if (!p != !q || (p && (p->axis != q->axis || p->channels != q->channels)))
            return qc_fail(st, QC_BAD_INPUT, "has other channels of tensor '%s': made with other --rules", x);
        if (x && y && strcmp(x, y) == 0) continue;
        return qc_fail(st, QC_BAD_INPUT,
                       "holds statistics of other tensors (%zu, expected %zu; the first that differs is '%s', expected "
                       "'%s'): made with other --rules, or a checkpoint of another run",
                       b->count, a->count, y ? y : "none", x ? x : "none");
    }
    return true;
}

static uint64_t mapped(uint64_t id, const size_t *map)
{
    return id == QC_NO_SAMPLE ? id : QC_SAMPLE_ID(map[QC_SAMPLE_PART(id)], QC_SAMPLE_NUMBER(id));
}

static bool merge_extremes(struct qc_collection *to, const struct qc_collection *from, const size_t *map,
                           struct qc_status *st)
{
    struct qc_extremes_table t = *from->extremes;
    if (!(t.samples = malloc((t.count + 1) * sizeof *t.samples)))
        return qc_fail_memory(st, t.count * sizeof *t.samples);
    for (size_t i = 0; i < t.count; i++) t.samples[i] = mapped(from->extremes->samples[i], map);
    const bool ok = qc_extremes_table_add(to->extremes, &t, st);
    free(t.samples);
    return ok;
}

static bool merge_but_moments(struct qc_collection *to, const struct qc_collection *from, struct qc_status *st)
{
    size_t *map = calloc(from->part_count + 1, sizeof *map);
    bool ok = map ? check_kin(to, from, st) : qc_fail_memory(st, from->part_count * sizeof *map);
    /* Both lists ascend: a part added later is after all parts mapped already. */
    for (size_t i = 0; ok && i < from->part_count; i++) ok = qc_collection_add_part(&map[i], to, &from->parts[i], st);
    for (size_t i = 0; ok && i < from->range_count; i++) {
        struct qc_sample_range r = from->ranges[i];
        r.part = map[r.part];
        ok = qc_collection_add_range(to, r, st);
    }
    for (size_t i = 0; ok && i < to->count; i++) {
        struct qc_histogram other = *from->values[i].histogram;
        other.tally.min_sample = mapped(other.tally.min_sample, map);
        other.tally.max_sample = mapped(other.tally.max_sample, map);
        other.tally.first_bad_sample = mapped(other.tally.first_bad_sample, map);
        ok = qc_histogram_add(to->values[i].histogram, &other, st);
        if (to->values[i].channels) qc_channel_histogram_add(to->values[i].channels, from->values[i].channels);
    }
    ok = ok && (!to->extremes || merge_extremes(to, from, map, st));
    free(map);
    return ok && keep_larger(to, from, st);
}

bool qc_collection_merge(struct qc_collection *to, const struct qc_collection *from, struct qc_status *st)
{
    return merge_but_moments(to, from, st) &&
           (!to->second_moments || qc_second_moments_merge(to->second_moments, from->second_moments, st));
}
