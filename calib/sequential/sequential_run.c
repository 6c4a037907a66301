// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>

#include "calib/moments/moments_kernel.h"
#include "calib/ranges/quantizer_channels.h"
#include "calib/sequential/sequential_parts.h"
#include "calib/statistics/collection.h"

/* A running part of the graph. Its inputs are those of the whole graph, then the kept values that it reads. */
struct running {
    struct qc_propagation *p;
    const struct qc_segment *part;
    struct qc_rebuild built; /* of p->room */
    struct qc_plan *plan;
    size_t kept_count;
    qc_id *kept; /* [kept_count] */
    unsigned workers;
    struct worker {
        struct qc_runner *runner;
        struct qc_dataset_scratch *scratch;
        struct qc_scan **scans; /* [observed_count]; NULL for values without a scan */
        float *row;             /* buffer for a value in row-major order, or made real */
        size_t row_size;
        struct pair { /* a layer's input and its float form: whichever is computed first */
            bool there;
            float *first; /* [size] */
            size_t size;
            struct qc_view view;
        } pair;
    } * at; /* [workers] */
};

struct observing {
    struct running *r;
    size_t unit;
    uint64_t sample;
    unsigned worker;
};

static float *segment_row(struct worker *w, size_t n, struct qc_status *st)
{
    if (w->row_size >= n && w->row) return w->row;
    float *more = realloc(w->row, (n + 1) * sizeof *more);
    if (!more) {
        qc_fail_memory(st, n * sizeof *more);
        return NULL;
    }
    w->row = more;
    w->row_size = n;
    return more;
}

static bool scan(const struct observing *o, size_t index, qc_id value, const struct qc_view *v, struct qc_status *st)
{
    struct qc_propagation *p = o->r->p;
    struct worker *w = &o->r->at[o->worker];
    const size_t n = qc_view_count(v);
    const float *x = v->data;
    if (!qc_view_dense(v)) {
        struct qc_shape shape = qc_shape_of(v->rank, v->dim);
        float *row = segment_row(w, n, st);
        if (!row) return false;
        const struct qc_view to = qc_view_of(QC_F32, &shape, QC_LAYOUT_ROW, row);
        qc_view_copy(&to, v);
        x = row;
    }
    const size_t watch = p->watch[value] - 1;
    struct qc_extremes_table *t = p->seen->extremes;
    if (t) {
        const struct qc_extremes e = qc_extremes_of(x, n, o->sample);
        t->ends[watch * t->count + o->unit] = (struct qc_ends){.min = e.min, .max = e.max};
    }
    if (!qc_scan_sample(w->scans[index], x, n, o->sample, st)) return false;
    if (!qc_per_sample_take(p->seen->samples, watch, o->unit, x, n, st))
        return qc_where(st, "tensor '%s'", p->seen->values[watch].name);
    struct qc_channel_histogram *channels = p->seen->values[watch].channels;
    float *row = channels ? segment_row(w, n, st) : NULL; /* x is not used any more */
    return !channels || (row && qc_channels_take(channels, p->locks, watch, v, row, st));
}

/* Copies the real numbers of a value into a row, in the order of its memory if that is dense. */
static void make_real(struct qc_view *real, float *row, const struct qc_propagation *p, qc_id value,
                      const struct qc_view *v)
{
    const struct qc_qparams *s = qc_graph_parameters(p->g, value);
    const size_t n = qc_view_count(v);
    struct qc_shape shape = qc_shape_of(v->rank, v->dim);
    *real = qc_view_of(QC_F32, &shape, QC_LAYOUT_ROW, row);
    const float scale = s && s->count == 1 ? s->scale[0] : 1;
    if (qc_view_dense(v)) {
        for (int i = 0; i < v->rank; i++) real->stride[i] = v->stride[i];
        const float *x = v->data;
        for (size_t i = 0; i < n; i++) row[i] = x[i] * scale;
    } else {
        qc_view_copy(real, v);
        for (size_t i = 0; scale != 1 && i < n; i++) row[i] *= scale;
    }
    if (s && s->count > 1) qc_quantizer_channels_real(real, s, qc_value(p->g, value)->type.axis, false, NULL);
}

/* Takes one value of a pair; with the second, the layers observe both. The first is copied as real numbers in its
   memory order; the second is used in place where possible. */
static bool take_pair(const struct observing *o, const struct qc_segment_observed *what, const struct qc_view *v,
                      struct qc_status *st)
{
    struct qc_propagation *p = o->r->p;
    struct worker *w = &o->r->at[o->worker];
    struct pair *pair = &w->pair;
    const qc_id value = what->beside ? what->beside : what->value;
    const size_t n = qc_view_count(v);
    struct qc_view now = *v;
    if (!pair->there) {
        if (!pair->first || pair->size < n) {
            free(pair->first);
            pair->size = n;
            if (!(pair->first = malloc((n + 1) * sizeof *pair->first))) qc_fail_memory(st, n * sizeof *pair->first);
        }
        float *to = pair->first;
        if (to) make_real(&pair->view, to, p, what->value, v);
        return pair->there = to != NULL;
    }
    pair->there = false;
    if (!qc_view_dense(v) || qc_graph_parameters(p->g, what->value)) {
        float *row = segment_row(w, n, st);
        if (!row) return false;
        make_real(&now, row, p, what->value, v);
    }
    if (!qc_view_same_order(&now, &pair->view)) {
        float *other = malloc((n + 1) * sizeof *other);
        struct qc_view turned = now;
        if (!other) return qc_fail_memory(st, n * sizeof *other);
        turned.data = other;
        qc_view_copy(&turned, &pair->view);
        free(pair->first);
        pair->first = other;
        pair->size = n;
        pair->view = turned;
    }
    const struct qc_view *read = what->beside ? &pair->view : &now;
    const float *real = what->beside ? now.data : pair->view.data;
    const float peak = qc_second_moments_pair_peak(read->data, real, n);
    const struct qc_use_list readers = qc_readers(&p->uses, value);
    for (size_t i = 0; i < readers.count; i++) {
        const qc_id node = readers.of[i].node;
        const struct qc_second_moments_layer *l = qc_second_moments_of(p->means, NULL, node);
        if (readers.of[i].input == 0 && o->r->part->layers.has[node] && l && l->paired &&
            !qc_second_moments_observe_pair(p->means, o->worker, p->keys[o->unit], node, peak, read, real, st))
            return false;
    }
    return true;
}

/* Lets layers observe the real numbers of a value. */
static bool take_means(const struct observing *o, qc_id value, const struct qc_view *v, struct qc_status *st)
{
    struct qc_propagation *p = o->r->p;
    struct qc_view real = *v;
    if (qc_graph_parameters(p->g, value)) {
        float *row = segment_row(&o->r->at[o->worker], qc_view_count(v), st);
        if (!row) return false;
        make_real(&real, row, p, value, v);
    }
    const struct qc_use_list readers = qc_readers(&p->uses, value);
    for (size_t i = 0; i < readers.count; i++) {
        const struct qc_second_moments_layer *l = qc_second_moments_of(p->means, NULL, readers.of[i].node);
        if (readers.of[i].input == 0 && o->r->part->layers.has[readers.of[i].node] && l && !l->paired &&
            !qc_second_moments_observe_layer(p->means, o->worker, p->keys[o->unit], readers.of[i].node, &real, st))
            return false;
    }
    return true;
}

static bool observe_segment(void *user, size_t index, const struct qc_view *v, struct qc_status *st)
{
    const struct observing *o = user;
    const struct qc_segment_observed *what = &o->r->part->observed[index];
    return (!what->scan || scan(o, index, what->value, v, st)) &&
           (!what->keep || qc_activation_cache_put(o->r->p->frontier, what->keep, o->unit, v, st)) &&
           (!what->means || take_means(o, what->value, v, st)) &&
           (!(what->beside || what->paired) || take_pair(o, what, v, st));
}

static bool run_segment_unit(void *user, size_t unit, unsigned worker, struct qc_status *st)
{
    struct running *r = user;
    struct qc_propagation *p = r->p;
    struct worker *w = &r->at[worker];
    if (!w->runner && !qc_runner_new(&w->runner, r->plan, st)) return false;
    const size_t place = p->drawn ? p->drawn[unit] : unit;
    struct observing o = {.r = r, .unit = unit, .sample = qc_dataset_first_sample(p->data, place), .worker = worker};
    for (size_t i = 0; i < p->g->input_count; i++)
        if (r->part->inputs.has[p->g->inputs[i].value] &&
            !qc_dataset_read(qc_runner_input(w->runner, i).data, p->data, i, place, w->scratch, st))
            return false;
    for (size_t k = 0; k < r->kept_count; k++)
        if (!qc_activation_cache_get(qc_runner_input(w->runner, p->g->input_count + k).data, p->frontier, r->kept[k],
                                     unit, r->part->leaves.has[r->kept[k]], st))
            return false;
    return qc_runner_run(w->runner, observe_segment, &o, st) ||
           qc_where(st, "%s: sample %llu", qc_dataset_file(p->data), (unsigned long long)o.sample);
}

/* Builds the part as a graph. */
static bool build_segment(struct running *r, qc_id *observed, struct qc_status *st)
{
    struct qc_propagation *p = r->p;
    const struct qc_graph *g = p->g;
    const struct qc_id_set *nodes = &r->part->nodes;
    struct qc_rebuild *b = &r->built;
    char label[QC_LABEL];
    bool ok = qc_rebuild_begin_part(b, &p->room, nodes->count, nodes->of, st);
    for (size_t k = 0; ok && k < r->kept_count; k++) {
        const qc_id v = r->kept[k];
        ok = qc_rebuild_add_input(b, &p->room, v, qc_value_label(label, g, v),
                                  &qc_activation_cache_form(p->frontier, v)->shape, st) != 0;
    }
    for (size_t i = 0; ok && i < nodes->count; i++) {
        const qc_id id = nodes->of[i];
        const struct qc_node *n = &g->nodes[id];
        bool copied = false;
        ok = !p->options->weight_rounder || qc_weight_rounder_copy(&copied, b, p->options->weight_rounder, id, st);
        if (ok && !copied && (n->op != QC_OP_Quantize || !qc_constant_of(g, n->inputs[0])))
            ok = qc_rebuild_node(b, id, st) != 0; /* constants are copied where they are used */
    }
    for (size_t i = 0; ok && i < r->part->observed_count; i++)
        ok = (observed[i] = qc_rebuild_value(b, r->part->observed[i].value, st)) != 0;
    return ok;
}

static bool plan_segment(struct running *r, struct qc_arena *a, struct qc_status *st)
{
    const struct qc_propagation *p = r->p;
    const struct qc_graph *g = p->g;
    const struct qc_id_set *inputs = &r->part->inputs;
    qc_id *observed = QC_NEW_ARRAY(a, qc_id, r->part->observed_count, st);
    r->kept = QC_NEW_ARRAY(a, qc_id, inputs->count + 1, st);
    struct qc_shape *shapes = QC_NEW_ARRAY(a, struct qc_shape, g->input_count + inputs->count, st);
    enum qc_layout *layouts = QC_NEW_ARRAY(a, enum qc_layout, g->input_count + inputs->count, st);
    if (!observed || !r->kept || !shapes || !layouts) return false;
    for (size_t i = 0; i < g->input_count; i++) {
        shapes[i] = p->shapes[i];
        layouts[i] = QC_LAYOUT_ROW;
    }
    for (size_t i = 0; i < inputs->count; i++) {
        const qc_id v = inputs->of[i];
        if (!qc_activation_cache_has(p->frontier, v)) continue;
        const struct qc_kept_form *form = qc_activation_cache_form(p->frontier, v);
        shapes[g->input_count + r->kept_count] = form->shape;
        layouts[g->input_count + r->kept_count] = form->layout;
        r->kept[r->kept_count++] = v;
    }
    const struct qc_plan_options how = {.observed_count = r->part->observed_count,
                                        .observed = observed,
                                        .input_layouts = layouts};
    return build_segment(r, observed, st) && qc_plan_new(&r->plan, r->built.to, shapes, &how, st);
}

/* Chooses the workers that fit into memory, and prepares the values to be kept: in memory if they fit, else in a file.
 */
static bool make_room_segment(struct running *r, struct qc_status *st)
{
    struct qc_propagation *p = r->p;
    const struct qc_calibration_options *c = p->options->calibration;
    size_t each = qc_plan_runner_bytes(r->plan), held = qc_stream_held_bytes(c->settings->memory_limit), scans = 0;
    for (size_t i = 0; i < r->part->observed_count; i++) {
        if (r->part->observed[i].scan)
            scans += qc_scan_bytes(p->seen->need, qc_plan_observed_elements(r->plan, i) * p->units);
        if (r->part->observed[i].means || r->part->observed[i].keep || (r->part->observed[i].scan && p->seen->channels))
            each += qc_plan_observed_elements(r->plan, i) * sizeof(float);
    }
    each += scans;
    struct qc_status full =
        QC_STATUS_INIT; /* check_memory made sure that one worker fits: if not, freed memory is not returned yet */
    if (!qc_stream_workers(&r->workers, p->workers, c->settings->memory_limit, held, each, &full)) r->workers = 1;
    size_t taken = held + r->workers * each;
    for (size_t i = 0; i < r->part->observed_count; i++) {
        const struct qc_segment_observed *o = &r->part->observed[i];
        if (!o->keep) continue;
        const qc_id qparams = p->g->values[o->value].type.qparams;
        const size_t bytes = p->units * qc_activation_cache_bytes(p->g, qparams, qc_plan_observed_elements(r->plan, i));
        const bool spilled = c->settings->memory_limit &&
                             (taken > c->settings->memory_limit || bytes > c->settings->memory_limit - taken);
        if (!spilled) taken += bytes;
        if (!qc_activation_cache_prepare(p->frontier, o->keep, qparams, spilled, p->options->folder, st)) return false;
    }
    if (r->workers > p->cost.workers) p->cost.workers = r->workers;
    if (each - scans > p->cost.runner_bytes) p->cost.runner_bytes = each - scans;
    if (qc_plan_constant_bytes(r->plan) > p->cost.constant_bytes)
        p->cost.constant_bytes = qc_plan_constant_bytes(r->plan);
    if (scans > p->cost.statistics_bytes) p->cost.statistics_bytes = scans;
    return true;
}

static bool make_workers(struct running *r, struct qc_arena *a, struct qc_status *st)
{
    if (!(r->at = QC_NEW_ARRAY(a, struct worker, r->workers, st))) return false;
    for (unsigned w = 0; w < r->workers; w++) {
        if (!qc_dataset_scratch_new(&r->at[w].scratch, st)) return false;
        if (!(r->at[w].scans = QC_NEW_ARRAY(a, struct qc_scan *, r->part->observed_count, st))) return false;
        for (size_t i = 0; i < r->part->observed_count; i++)
            if (r->part->observed[i].scan && !qc_scan_new(&r->at[w].scans[i], r->p->seen->need, st)) return false;
    }
    return true;
}

/* Adds what the workers have scanned of a value. */
static bool take_scans_of(void *user, size_t item, unsigned worker, struct qc_status *st)
{
    const struct running *r = user;
    const struct qc_segment_observed *o = &r->part->observed[item];
    for (unsigned w = 0; o->scan && w < r->workers; w++)
        if (!qc_histogram_add_scan(r->p->seen->values[r->p->watch[o->value] - 1].histogram, r->at[w].scans[item], st))
            return false;
    return true;
}

static bool finish_segment(struct running *r, const struct qc_pool_options *pool, struct qc_status *st)
{
    struct qc_propagation *p = r->p;
    if (!qc_pool_run(r->part->observed_count, take_scans_of, r, pool, st)) return false;
    for (size_t i = 0; p->floats && i < p->g->input_count; i++) /* later parts mostly read kept values */
        if (r->part->inputs.has[p->g->inputs[i].value]) qc_dataset_let_go(p->data);
    for (size_t i = 0; i < r->part->leaves.count; i++) qc_activation_cache_drop(p->frontier, r->part->leaves.of[i]);
    for (size_t i = 0; i < r->part->observed_count; i++)
        if (r->part->observed[i].keep) qc_activation_cache_commit(p->frontier, r->part->observed[i].keep);
    return true;
}

static bool step_segment(void *user, size_t done, size_t count)
{
    struct running *r = user;
    struct qc_propagation *p = r->p;
    const struct qc_calibration_options *c = p->options->calibration;
    return !c->settings->progress ||
           c->settings->progress(c->settings->progress_user, p->done + (r->part->counts ? done : 0), p->total);
}

bool qc_segment_run(struct qc_propagation *p, const struct qc_segment *part, struct qc_status *st)
{
    struct running r = {.p = p, .part = part};
    QC_ARENA_SCOPE *a = qc_arena_new();
    struct qc_pool_options pool = {.progress = step_segment, .progress_user = &r};
    bool ok =
        a ? plan_segment(&r, a, st) && make_room_segment(&r, st) && make_workers(&r, a, st) : qc_fail_memory(st, 1);
    pool.workers = r.workers;
    ok = ok && qc_pool_run(p->units, run_segment_unit, &r, &pool, st);
    ok = ok && finish_segment(&r, &(struct qc_pool_options){.workers = r.workers}, st);
    if (ok && part->counts) p->done += p->units;
    for (unsigned w = 0; r.at && w < r.workers; w++) {
        for (size_t i = 0; r.at[w].scans && i < r.part->observed_count; i++) qc_scan_free(r.at[w].scans[i]);
        qc_runner_free(r.at[w].runner);
        qc_dataset_scratch_free(r.at[w].scratch);
        free(r.at[w].row);
        free(r.at[w].pair.first);
    }
    qc_plan_free(r.plan);
    qc_rebuild_end_part(&r.built, &p->room, part->nodes.count, part->nodes.of);
    return ok;
}
