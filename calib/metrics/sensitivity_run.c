// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "calib/metrics/sensitivity_parts.h"

/* Bytes that a block keeps without a memory limit, about. */
enum { KEPT_BYTES = 256 << 20 };

/* Parts of the graph that run on the units of a block. */
struct step {
    struct qc_cut_run *r;
    enum qc_cut_quantizers first; /* the way part 0 is quantized, if the parts are a layer's */
    size_t count;
    struct qc_cut_part part[QC_CUT_PLANS];
    struct qc_plan *plan[QC_CUT_PLANS];
    struct qc_runner **runners[QC_CUT_PLANS]; /* [workers] */
    struct qc_dataset_scratch **scratch;      /* [workers]; NULL: no values are read from the data */
    size_t to_count;
    const qc_id *to; /* of qc_cut_between: values to keep; NULL: outputs are compared */
    size_t values;   /* number of leading values of `to` kept for the next cut; the rest are the graph's outputs */
    char **into;     /* [to_count]: destinations */
    unsigned workers;
};

/* Returns the unit of an item of the current block. */
static size_t unit_of_cut(const struct qc_cut_run *r, size_t item)
{
    return r->order ? r->order[r->begin + item] : r->begin + item;
}

static bool feed(const struct step *s, size_t k, size_t item, unsigned worker, struct qc_status *st)
{
    const struct qc_cut_run *r = s->r;
    for (size_t i = 0; i < s->part[k].input_count; i++) {
        const qc_id v = s->part[k].inputs[i];
        struct qc_view in = qc_runner_input(s->runners[k][worker], i);
        if (s->scratch) {
            if (!qc_dataset_read(in.data, r->data, i, unit_of_cut(r, item), s->scratch[worker], st)) return false;
        } else if (r->kept[v]) {
            memcpy(in.data, r->kept[v] + item * r->bytes[v], r->bytes[v]);
        }
    }
    return true;
}

static void compare_cut(const struct step *s, size_t k, size_t item, struct qc_runner *runner)
{
    const struct qc_cut_run *r = s->r;
    for (size_t o = 0; o < r->g->output_count; o++) {
        if (!r->wanted[o]) continue;
        const struct qc_view out = qc_runner_output(runner, o);
        struct qc_view wanted = out;
        wanted.data = r->wanted[o] + item * qc_view_count(&out) * sizeof(float);
        for (size_t i = r->parts.first[o]; i < r->parts.first[o + 1]; i++)
            qc_compare_part(&r->parts.of[i], &wanted, &out, qc_part_error,
                            &r->errors[((s->first + k) * r->block + item) * r->parts.count + i]);
    }
}

static bool run_cut_unit(void *user, size_t item, unsigned worker, struct qc_status *st)
{
    const struct step *s = user;
    const struct qc_cut_run *r = s->r;
    const size_t unit = unit_of_cut(r, item);
    char *truth = r->scored ? r->truth + item * qc_scoring_truth_bytes(&r->scoring) : NULL;
    if (s->scratch && r->scored && !qc_scoring_read(truth, &r->scoring, unit, s->scratch[worker], st)) return false;
    for (size_t k = 0; k < s->count; k++) {
        if (!s->runners[k][worker] && !qc_runner_new(&s->runners[k][worker], s->plan[k], st)) return false;
        struct qc_runner *runner = s->runners[k][worker];
        if (!feed(s, k, item, worker, st)) return false;
        if (!qc_runner_run(runner, NULL, NULL, st))
            return qc_where(st, "%s: sample %llu", qc_dataset_file(r->data),
                            (unsigned long long)qc_dataset_first_sample(r->data, unit));
        if (!s->to && !r->scored) compare_cut(s, k, item, runner);
        if (r->scored && (!s->to || s->values < s->to_count)) {
            const struct qc_view out = qc_runner_output(runner, r->scoring.output + (s->to ? s->values : 0));
            if (!qc_scoring_unit(&r->scores[item], &r->scoring, &out, truth, unit, st)) return false;
        }
        for (size_t i = 0; s->to && i < s->to_count; i++) {
            const struct qc_view out = qc_runner_output(runner, i);
            const size_t bytes = qc_view_bytes(&out);
            if (s->into[i]) memcpy(s->into[i] + item * bytes, out.data, bytes);
        }
    }
    return true;
}

/* Fails if shapes depend on data: buffers are allocated before a part runs. */
static bool check_shapes(const struct qc_plan *plan, struct qc_status *st)
{
    return qc_plan_shapes_known(plan) ||
           qc_fail(st, QC_UNSUPPORTED,
                   "shapes in this model depend on data, so its layers cannot be measured one at a time");
}

/* Allocates a block of a runner's results. */
static bool keep_room(char **to, const struct qc_cut_run *r, size_t bytes, struct qc_status *st)
{
    const size_t all = r->count * (bytes ? bytes : 1);
    return (*to = malloc(all)) || qc_fail_memory(st, all);
}

static bool make_room_cut(struct step *s, struct qc_status *st)
{
    struct qc_cut_run *r = s->r;
    for (size_t i = 0; s->to && i < s->to_count; i++) {
        const struct qc_view out = qc_runner_output(s->runners[0][0], i);
        const size_t bytes = qc_view_bytes(&out);
        const qc_id v = s->to[i];
        const struct qc_type *t = &r->g->values[v].type;
        if (i >= s->values) {
            const bool judged = r->g->outputs[i - s->values].judging != QC_NOT_JUDGED;
            if (judged && t->dtype == QC_F32 && t->qparams == QC_REAL &&
                !keep_room(&r->wanted[i - s->values], r, bytes, st))
                return false;
            s->into[i] = r->wanted[i - s->values];
        } else {
            if (!keep_room(&r->kept[v], r, bytes, st)) return false;
            r->bytes[v] = bytes;
            r->shapes[v] = qc_shape_of(out.rank, out.dim);
            s->into[i] = r->kept[v];
        }
    }
    return true;
}

/* Makes plans and runs them on every unit of the block. */
static bool run_cut(struct step *s, struct qc_arena *a, struct qc_status *st)
{
    bool ok = true;
    for (size_t k = 0; ok && k < s->count; k++) {
        const struct qc_graph *g = s->part[k].graph;
        struct qc_shape *shapes = QC_NEW_ARRAY(a, struct qc_shape, g->input_count, st);
        for (size_t i = 0; shapes && i < g->input_count; i++) shapes[i] = s->r->shapes[s->part[k].inputs[i]];
        ok = shapes && qc_plan_new(&s->plan[k], g, shapes, &s->r->options->settings->plan, st) &&
             check_shapes(s->plan[k], st);
    }
    const struct qc_settings *settings = s->r->options->settings;
    size_t each = 0;
    for (size_t k = 0; ok && k < s->count; k++) each += qc_plan_runner_bytes(s->plan[k]);
    ok = ok && qc_stream_workers(&s->workers, settings->workers, settings->memory_limit,
                                 qc_stream_held_bytes(settings->memory_limit), each, st);
    if (ok && s->workers > s->r->count) s->workers = (unsigned)s->r->count;
    for (size_t k = 0; ok && k < s->count; k++) /* one runner each; others are made by their workers */
        ok = (s->runners[k] = QC_NEW_ARRAY(a, struct qc_runner *, s->workers, st)) &&
             qc_runner_new(&s->runners[k][0], s->plan[k], st);
    ok = ok && make_room_cut(s, st);
    for (unsigned w = 0; ok && s->scratch && w < s->workers; w++) ok = qc_dataset_scratch_new(&s->scratch[w], st);
    const struct qc_pool_options pool = {.workers = s->workers};
    return ok && qc_pool_run(s->r->count, run_cut_unit, s, &pool, st);
}

/* Finds kept integers and truth values that are the same in all units of a block, such as shapes, so that plans treat
   them as constants. */
static bool note_known(const struct step *s, struct qc_status *st)
{
    enum { KNOWN_BYTES = 512 };
    struct qc_cut_run *r = s->r;
    for (size_t i = 0; i < s->values; i++) {
        const qc_id v = s->to[i];
        const enum qc_dtype t = r->g->values[v].type.dtype;
        bool same = !qc_dtype_info(t)->is_float && r->bytes[v] && r->bytes[v] <= KNOWN_BYTES && !r->known[v];
        for (size_t u = 1; same && u < r->count; u++)
            same = memcmp(r->kept[v], r->kept[v] + u * r->bytes[v], r->bytes[v]) == 0;
        if (same && !(r->known[v] = qc_tensor_of(t, &r->shapes[v], r->kept[v], st))) return false;
    }
    return true;
}

static void forget(struct qc_cut_run *r, qc_id v)
{
    free(r->kept[v]);
    r->kept[v] = NULL;
    qc_tensor_unref(r->known[v]);
    r->known[v] = NULL;
}

static void free_step(struct step *s)
{
    for (unsigned w = 0; s->scratch && w < s->workers; w++) qc_dataset_scratch_free(s->scratch[w]);
    for (size_t k = 0; k < QC_CUT_PLANS; k++) {
        for (unsigned w = 0; s->runners[k] && w < s->workers; w++) qc_runner_free(s->runners[k][w]);
        qc_plan_free(s->plan[k]);
        qc_graph_free(s->part[k].graph);
    }
}

static void forget_cut(struct qc_cut_run *r)
{
    for (qc_id v = 1; r->kept && r->known && v <= r->g->value_count; v++) forget(r, v);
    for (size_t o = 0; r->wanted && o < r->g->output_count; o++) {
        free(r->wanted[o]);
        r->wanted[o] = NULL;
    }
    free(r->truth);
    r->truth = NULL;
}

struct qc_shape qc_cut_run_shape(const struct qc_cut_run *r, size_t input)
{
    int64_t dims[QC_DATA_RANK_MAX];
    const unsigned rank = qc_dataset_unit_dims(dims, r->data, input, r->order ? r->order[r->first] : r->first);
    return qc_shape_of((int)rank, dims);
}

bool qc_cut_run_begin(struct qc_cut_run *r, size_t begin, struct qc_arena *a, struct qc_status *st)
{
    const struct qc_graph *g = r->g;
    struct step s = {.r = r, .count = 1};
    qc_id *to = QC_NEW_ARRAY(a, qc_id, g->input_count + g->output_count, st);
    s.into = QC_NEW_ARRAY(a, char *, g->input_count + g->output_count, st);
    s.scratch = QC_NEW_ARRAY(a, struct qc_dataset_scratch *,
                             r->options->settings->workers ? r->options->settings->workers : 1, st);
    if (!to || !s.into || !s.scratch) return false;
    forget_cut(r);
    r->begin = begin;
    r->count = r->end - begin < r->block ? r->end - begin : r->block;
    for (size_t i = 0; i < g->input_count; i++) r->shapes[g->inputs[i].value] = qc_cut_run_shape(r, i);
    if (r->scored && !keep_room(&r->truth, r, qc_scoring_truth_bytes(&r->scoring), st)) return false;
    for (size_t i = 0; i < g->input_count; i++) to[s.to_count++] = g->inputs[i].value;
    s.values = s.to_count;
    for (size_t o = 0; o < g->output_count; o++) to[s.to_count++] = g->outputs[o].value;
    s.to = to;
    const bool ok = qc_cut_between(&s.part[0], g, &(struct qc_cut){0}, s.to_count, to, a, st) && run_cut(&s, a, st) &&
                    note_known(&s, st);
    free_step(&s);
    return ok;
}

bool qc_cut_run_advance(struct qc_cut_run *r, size_t from_count, const qc_id *from, size_t count, const qc_id *cut,
                        struct qc_arena *a, struct qc_status *st)
{
    struct step s = {.r = r, .count = 1};
    bool ok = true, *stays = QC_NEW_ARRAY(a, bool, r->g->value_count + 1, st);
    qc_id *to = QC_NEW_ARRAY(a, qc_id, count, st);
    s.into = QC_NEW_ARRAY(a, char *, count, st);
    if (!stays || !to || !s.into) return false;
    for (size_t i = 0; i < count; i++) {
        stays[cut[i]] = true;
        if (!r->kept[cut[i]]) to[s.to_count++] = cut[i];
    }
    s.values = s.to_count;
    s.to = to;
    const struct qc_cut begin = {.count = from_count, .values = from, .known = r->known};
    if (s.to_count)
        ok =
            qc_cut_between(&s.part[0], r->g, &begin, s.to_count, to, a, st) && run_cut(&s, a, st) && note_known(&s, st);
    for (size_t i = 0; i < from_count; i++) {
        if (!stays[from[i]]) forget(r, from[i]);
    }
    free_step(&s);
    return ok;
}

bool qc_cut_run_layer(struct qc_cut_run *r, const struct qc_cut_layers *layers, size_t i, const struct qc_cut *begin,
                      enum qc_cut_quantizers first, enum qc_cut_quantizers last, struct qc_arena *a,
                      struct qc_status *st)
{
    struct step s = {.r = r, .first = first, .count = (size_t)(last - first) + 1};
    bool ok = true;
    memset(r->errors, 0, QC_CUT_PLANS * r->block * r->parts.count * sizeof *r->errors);
    for (size_t k = 0; ok && k < s.count; k++)
        ok = qc_cut_behind(&s.part[k], r->g, begin, layers, i, (enum qc_cut_quantizers)(first + k), a, st);
    ok = ok && run_cut(&s, a, st);
    free_step(&s);
    return ok;
}

/* Returns the bytes that one unit keeps at most: a cut and the one before it, the outputs, the truth, errors and
   scores. sizes: [value_count + 1], bytes. */
static size_t each_bytes(const struct qc_cut_run *r, const size_t *sizes, size_t cut_count, qc_id *const *cuts,
                         const size_t *cut_counts)
{
    size_t inputs = 0, before = 0, most = 0, rest = r->scored ? qc_scoring_truth_bytes(&r->scoring) : 0;
    for (size_t i = 0; i < r->g->input_count; i++) inputs += qc_dataset_bytes(r->data, i);
    for (size_t o = 0; o < r->g->output_count; o++) rest += sizes[r->g->outputs[o].value];
    before = inputs;
    for (size_t k = 0; k < cut_count; k++) {
        size_t now = 0;
        for (size_t i = 0; i < cut_counts[k]; i++) now += sizes[cuts[k][i]];
        most = before + now > most ? before + now : most;
        before = now;
    }
    return most + rest + QC_CUT_PLANS * r->parts.count * sizeof *r->errors + sizeof *r->scores;
}

/* Computes the bytes of all values if the graph knows all shapes: making a plan, which prepares the weights, takes
   longer. */
static bool sizes_of_graph(size_t *sizes, const struct qc_graph *g)
{
    for (qc_id v = 1; v <= g->value_count; v++) {
        const struct qc_type *t = &g->values[v].type;
        size_t count;
        if (!qc_shape_count(&count, &t->shape) || !qc_mul_size(&sizes[v], count, qc_dtype_size(t->dtype))) return false;
    }
    return true;
}

bool qc_cut_run_bytes(size_t *runner, size_t *each, struct qc_cut_run *r, size_t cut_count, qc_id *const *cuts,
                      const size_t *cut_counts, struct qc_arena *a, struct qc_status *st)
{
    size_t *sizes = QC_NEW_ARRAY(a, size_t, r->g->value_count + 1, st);
    if (!sizes) return false;
    /* Find the bytes of all values of cuts and of the outputs, from a plan of the whole graph, and the bytes of
       runners */
    const struct qc_graph *g = r->g;
    struct qc_plan_options how = r->options->settings->plan;
    struct qc_plan *plan = NULL;
    bool *listed = QC_NEW_ARRAY(a, bool, g->value_count + 1, st);
    qc_id *list = QC_NEW_ARRAY(a, qc_id, g->value_count + 1, st);
    if (!listed || !list) return false;
    for (size_t k = 0; k < cut_count; k++)
        for (size_t i = 0; i < cut_counts[k]; i++) listed[cuts[k][i]] = true;
    for (size_t o = 0; o < g->output_count; o++) listed[g->outputs[o].value] = true;
    for (qc_id v = 1; v <= g->value_count; v++)
        if (listed[v]) list[how.observed_count++] = v;
    how.observed = list;
    bool ok;
    if (r->order) { /* sizes differ: a plan for the current units */
        struct qc_shape *shapes = QC_NEW_ARRAY(a, struct qc_shape, g->input_count, st);
        for (size_t i = 0; shapes && i < g->input_count; i++) shapes[i] = qc_cut_run_shape(r, i);
        ok = shapes && qc_plan_new(&plan, g, shapes, &how, st);
    } else
        ok = qc_stream_plan(&plan, g, r->data, &how, st);
    if (ok && (r->order || !qc_dataset_varies(r->data))) ok = check_shapes(plan, st);
    for (size_t i = 0; ok && i < how.observed_count; i++)
        sizes[list[i]] = qc_plan_observed_elements(plan, i) * qc_dtype_size(g->values[list[i]].type.dtype);
    if (ok) *runner = (r->scored ? 1 : QC_CUT_PLANS) * (qc_plan_runner_bytes(plan) + qc_plan_constant_bytes(plan));
    qc_plan_free(plan);
    if (!ok) return false;
    *each = each_bytes(r, sizes, cut_count, cuts, cut_counts);
    return true;
}

bool qc_cut_run_new(struct qc_cut_run *r, size_t cut_count, qc_id *const *cuts, const size_t *cut_counts,
                    struct qc_arena *a, struct qc_status *st)
{
    const struct qc_graph *g = r->g;
    const size_t limit = r->options->settings->memory_limit;
    size_t runner = 0, each = 0;
    bool any = false;
    for (size_t o = 0; o < g->output_count; o++) {
        const struct qc_type *t = &g->values[g->outputs[o].value].type;
        any = any || (t->dtype == QC_F32 && t->qparams == QC_REAL && g->outputs[o].judging != QC_NOT_JUDGED);
    }
    if (!any)
        return qc_fail(st, QC_UNSUPPORTED, "the model has no float32 output on which to measure the effect of a layer");
    size_t *sizes = QC_NEW_ARRAY(a, size_t, g->value_count + 1, st);
    if (!sizes) return false;
    if (!limit && sizes_of_graph(sizes, g))
        each = each_bytes(r, sizes, cut_count, cuts, cut_counts);
    else if (!qc_cut_run_bytes(&runner, &each, r, cut_count, cuts, cut_counts, a, st))
        return false;
    unsigned fits = (unsigned)(KEPT_BYTES / each);
    if (limit && !qc_stream_workers(&fits, fits ? fits : 1, limit, qc_stream_held_bytes(limit) + runner, each, st))
        return false;
    r->block = fits < 1 ? 1 : fits < r->end - r->first ? fits : r->end - r->first;
    struct qc_arena *own = r->arena = qc_arena_new();
    return own ? (r->kept = QC_NEW_ARRAY(own, char *, g->value_count + 1, st)) &&
                     (r->known = QC_NEW_ARRAY(own, struct qc_tensor *, g->value_count + 1, st)) &&
                     (r->bytes = QC_NEW_ARRAY(own, size_t, g->value_count + 1, st)) &&
                     (r->shapes = QC_NEW_ARRAY(own, struct qc_shape, g->value_count + 1, st)) &&
                     (r->wanted = QC_NEW_ARRAY(own, char *, g->output_count + 1, st)) &&
                     (r->errors = QC_NEW_ARRAY(own, struct qc_error, QC_CUT_PLANS * r->block * r->parts.count, st)) &&
                     (r->scores = QC_NEW_ARRAY(own, struct qc_score, r->block, st))
               : qc_fail_memory(st, 1);
}

void qc_cut_run_free(struct qc_cut_run *r)
{
    forget_cut(r);
    qc_arena_free(r->arena);
    r->arena = NULL;
    r->kept = r->wanted = NULL;
    r->known = NULL;
}
