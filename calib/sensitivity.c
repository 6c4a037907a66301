// SPDX-License-Identifier: Apache-2.0
#include "calib/sensitivity.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "calib/sensitivity_parts.h"

enum { PLANS = 2 }; /* of a layer: quantized, and with its weights alone */

struct running {
    const struct qc_graph *g;
    const struct qc_dataset *data;
    const struct qc_sensitivity_options *options;
    size_t units;
    char **kept;            /* [value_count + 1]: [units][bytes] of a value, or NULL */
    size_t *bytes;          /* [value_count + 1]: of one unit */
    struct qc_shape *shapes; /* [value_count + 1]: of one unit of what is kept, as run: the graph may not know all of them */
    struct qc_error *errors; /* [PLANS][units][output_count] */
    char **wanted;           /* [output_count]: [units][elements] of the float network's outputs; NULL: not float32 */
};

/* Parts of the graph on all units. */
struct step {
    struct running *r;
    size_t count;
    struct qc_cut_part part[PLANS];
    struct qc_plan *plan[PLANS];
    struct qc_runner **runners[PLANS]; /* [workers] */
    struct qc_dataset_scratch **scratch; /* [workers]; NULL: no values are read from the data */
    size_t to_count;
    const qc_id *to;       /* of qc_cut_between: values that are kept; NULL: outputs are compared */
    size_t values;         /* the first so many of `to` are kept for the next cut, the rest are the graph's outputs */
    char **into;           /* [to_count]: where they go */
    unsigned workers;
};

double qc_effect_sqnr_db(double noise)
{
    return -10 * log10(noise);
}

static bool feed(const struct step *s, size_t k, size_t unit, unsigned worker, struct qc_status *st)
{
    const struct running *r = s->r;
    for (size_t i = 0; i < s->part[k].input_count; i++) {
        const qc_id v = s->part[k].inputs[i];
        struct qc_view in = qc_runner_input(s->runners[k][worker], i);
        if (s->scratch) {
            if (!qc_dataset_read(in.data, r->data, i, unit, s->scratch[worker], st)) return false;
        } else if (r->kept[v]) {
            memcpy(in.data, r->kept[v] + unit * r->bytes[v], r->bytes[v]);
        }
    }
    return true;
}

static void compare(const struct step *s, size_t k, size_t unit, struct qc_runner *runner)
{
    const struct running *r = s->r;
    for (size_t o = 0; o < r->g->output_count; o++) {
        if (!r->wanted[o]) continue;
        const struct qc_view out = qc_runner_output(runner, o);
        const size_t n = qc_view_count(&out);
        qc_error_compare(&r->errors[(k * r->units + unit) * r->g->output_count + o], (const float *)(void *)(r->wanted[o] + unit * n * sizeof(float)), out.data, n);
    }
}

static bool run_unit(void *user, size_t unit, unsigned worker, struct qc_status *st)
{
    const struct step *s = user;
    for (size_t k = 0; k < s->count; k++) {
        struct qc_runner *runner = s->runners[k][worker];
        if (!feed(s, k, unit, worker, st)) return false;
        if (!qc_runner_run(runner, NULL, NULL, st))
            return qc_where(st, "%s: sample %llu", qc_dataset_file(s->r->data), (unsigned long long)qc_dataset_first_sample(s->r->data, unit));
        if (!s->to) compare(s, k, unit, runner);
        for (size_t i = 0; s->to && i < s->to_count; i++) {
            const struct qc_view out = qc_runner_output(runner, i);
            const size_t bytes = qc_view_count(&out) * qc_dtype_size(out.dtype);
            if (s->into[i]) memcpy(s->into[i] + unit * bytes, out.data, bytes);
        }
    }
    return true;
}

static bool make_plan(struct step *s, size_t k, struct qc_arena *a, struct qc_status *st)
{
    const struct qc_graph *g = s->part[k].graph;
    const struct qc_plan_options how = {.accumulator = s->r->options->accumulator};
    struct qc_shape *shapes = QC_NEW_ARRAY(a, struct qc_shape, g->input_count, st);
    for (size_t i = 0; shapes && i < g->input_count; i++) {
        const qc_id v = s->part[k].inputs[i];
        shapes[i] = s->r->kept[v] ? s->r->shapes[v] : g->values[g->inputs[i].value].type.shape;
    }
    return shapes && qc_plan_new(&s->plan[k], g, shapes, &how, st);
}

static bool make_runners(struct step *s, struct qc_arena *a, struct qc_status *st)
{
    size_t each = 0;
    for (size_t k = 0; k < s->count; k++) each += qc_plan_runner_bytes(s->plan[k]);
    if (!qc_stream_workers(&s->workers, s->r->options->workers, s->r->options->memory_limit, qc_stream_held_bytes(), each, st)) return false;
    if (s->workers > s->r->units) s->workers = (unsigned)s->r->units;
    for (size_t k = 0; k < s->count; k++) {
        if (!(s->runners[k] = QC_NEW_ARRAY(a, struct qc_runner *, s->workers, st))) return false;
        for (unsigned w = 0; w < s->workers; w++)
            if (!qc_runner_new(&s->runners[k][w], s->plan[k], st)) return false;
    }
    return true;
}

/* Room for all units of what a runner makes. */
static bool keep_room(char **to, struct running *r, size_t bytes, struct qc_status *st)
{
    const size_t all = r->units * (bytes ? bytes : 1), limit = r->options->memory_limit;
    if (limit && all > limit - (limit < qc_stream_held_bytes() ? limit : qc_stream_held_bytes()))
        return qc_fail(st, QC_MACHINE, "--memory-limit is too low for --sensitivity: %zu samples of a value of %zu bytes are kept; use --samples, or raise it", r->units, bytes);
    return (*to = malloc(all)) || qc_fail_memory(st, all);
}

static bool make_room(struct step *s, struct qc_status *st)
{
    struct running *r = s->r;
    for (size_t i = 0; s->to && i < s->to_count; i++) {
        const struct qc_view out = qc_runner_output(s->runners[0][0], i);
        const size_t bytes = qc_view_count(&out) * qc_dtype_size(out.dtype);
        const qc_id v = s->to[i];
        const struct qc_type *t = &r->g->values[v].type;
        if (i >= s->values) {
            if (t->dtype == QC_F32 && t->space == QC_REAL && !keep_room(&r->wanted[i - s->values], r, bytes, st)) return false;
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

/* Makes plans and runs them on every unit. */
static bool run(struct step *s, struct qc_arena *a, struct qc_status *st)
{
    bool ok = true;
    for (size_t k = 0; ok && k < s->count; k++) ok = make_plan(s, k, a, st);
    ok = ok && make_runners(s, a, st) && make_room(s, st);
    for (unsigned w = 0; ok && s->scratch && w < s->workers; w++) ok = qc_dataset_scratch_new(&s->scratch[w], st);
    const struct qc_pool_options pool = {.workers = s->workers};
    return ok && qc_pool_run(s->r->units, run_unit, s, &pool, st);
}

static void free_step(struct step *s)
{
    for (unsigned w = 0; s->scratch && w < s->workers; w++) qc_dataset_scratch_free(s->scratch[w]);
    for (size_t k = 0; k < PLANS; k++) {
        for (unsigned w = 0; s->runners[k] && w < s->workers; w++) qc_runner_free(s->runners[k][w]);
        qc_plan_free(s->plan[k]);
        qc_graph_free(s->part[k].graph);
    }
}

/* The samples themselves, and the outputs of the float network. */
static bool start(struct running *r, struct qc_arena *a, struct qc_status *st)
{
    const struct qc_graph *g = r->g;
    struct step s = {.r = r, .count = 1};
    bool ok = true, any = false;
    qc_id *to = QC_NEW_ARRAY(a, qc_id, g->input_count + g->output_count, st);
    s.into = QC_NEW_ARRAY(a, char *, g->input_count + g->output_count, st);
    s.scratch = QC_NEW_ARRAY(a, struct qc_dataset_scratch *, r->options->workers ? r->options->workers : 1, st);
    if (!to || !s.into || !s.scratch) return false;
    for (size_t i = 0; i < g->input_count; i++) to[s.to_count++] = g->inputs[i].value;
    s.values = s.to_count;
    for (size_t o = 0; o < g->output_count; o++) {
        const struct qc_type *t = &g->values[g->outputs[o].value].type;
        to[s.to_count++] = g->outputs[o].value;
        any = any || (t->dtype == QC_F32 && t->space == QC_REAL);
    }
    if (!any) ok = qc_fail(st, QC_UNSUPPORTED, "no output of the model is a real float32 value: there is nothing to measure what a layer does to it");
    s.to = to;
    ok = ok && qc_cut_between(&s.part[0], g, 0, NULL, s.to_count, to, a, st) && run(&s, a, st);
    free_step(&s);
    return ok;
}

/* The values of the next cut from those of this one; what it does not need is let go. */
static bool advance(struct running *r, size_t from_count, const qc_id *from, size_t count, const qc_id *cut, struct qc_arena *a, struct qc_status *st)
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
    if (ok && s.to_count) ok = qc_cut_between(&s.part[0], r->g, from_count, from, s.to_count, to, a, st) && run(&s, a, st);
    for (size_t i = 0; i < from_count; i++) {
        if (stays[from[i]]) continue;
        free(r->kept[from[i]]);
        r->kept[from[i]] = NULL;
    }
    free_step(&s);
    return ok;
}

/* Mean over the outputs of noise to signal, samples added up in their order. */
static double noise_of(const struct running *r, size_t k)
{
    double sum = 0;
    size_t outputs = 0;
    for (size_t o = 0; o < r->g->output_count; o++) {
        struct qc_error all = {0};
        if (!r->wanted[o]) continue;
        for (size_t u = 0; u < r->units; u++) qc_error_add(&all, &r->errors[(k * r->units + u) * r->g->output_count + o]);
        sum += all.noise == 0 ? 0 : isnan(all.noise) ? (double)INFINITY : all.noise / all.signal;
        outputs++;
    }
    return sum / (double)outputs;
}

static bool measure_layer(struct qc_layer_effect *out, struct running *r, const struct qc_graph *reweighed, const struct qc_cut_layers *layers, size_t i, size_t count,
                          const qc_id *cut, struct qc_arena *a, struct qc_status *st)
{
    struct step s = {.r = r, .count = layers->layers[i].has_weights ? 2 : 1};
    bool ok = true;
    memset(r->errors, 0, PLANS * r->units * r->g->output_count * sizeof *r->errors);
    for (size_t k = 0; ok && k < s.count; k++)
        ok = qc_cut_behind(&s.part[k], r->g, reweighed, count, cut, layers, i, k ? QC_CUT_WEIGHTS : QC_CUT_ALL, a, st);
    ok = ok && run(&s, a, st);
    out->noise = noise_of(r, 0);
    out->noise_weights = s.count > 1 ? noise_of(r, 1) : (double)NAN;
    free_step(&s);
    return ok;
}

/* The result of a layer in real numbers has the name of the model's value. */
static const char *result_name(const struct qc_graph *g, qc_id value)
{
    for (qc_id id = 1; id <= g->node_count && !g->values[value].name; id++)
        if (g->nodes[id].op == QC_OP_Dequantize && g->nodes[id].inputs[0] == value) value = g->nodes[id].outputs;
    return g->values[value].name;
}

/* Of a layer of several nodes, the one that multiplies names it; a weight that alone is quantized has the name of its reader. */
static void name_layer(struct qc_layer_effect *e, const struct qc_graph *g, const struct qc_cut_layers *layers, size_t i)
{
    qc_id id = layers->layers[i].first;
    for (qc_id k = id; k <= g->node_count; k++)
        if (layers->of_node[k] == i + 1 && qc_op_info(g->nodes[k].op)->affine == QC_AFFINE_PRODUCT) {
            id = k;
            break;
        }
    for (qc_id k = id + 1; g->nodes[id].op == QC_OP_Dequantize && k <= g->node_count; k++)
        for (unsigned j = 0; j < g->nodes[k].input_count; j++)
            if (g->nodes[k].inputs[j] == g->nodes[id].outputs) id = k;
    const struct qc_node *n = &g->nodes[id];
    const char *result = result_name(g, n->outputs);
    e->node = id;
    e->op = qc_op_info(n->op)->name;
    e->name = n->name && *n->name ? n->name : result ? result : "";
}

static int worse_first(const void *x, const void *y)
{
    const struct qc_layer_effect *a = x, *b = y;
    if (a->noise != b->noise) return a->noise > b->noise ? -1 : 1;
    return (a->node > b->node) - (a->node < b->node);
}

static bool visit(struct qc_sensitivity *out, struct running *r, const struct qc_graph *reweighed, struct qc_status *st)
{
    struct qc_cut_layers layers;
    struct qc_arena *a = qc_arena_new();
    bool ok = a ? true : qc_fail_memory(st, 1);
    size_t from_count = r->g->input_count;
    qc_id *from = ok ? QC_NEW_ARRAY(a, qc_id, from_count, st) : NULL;
    ok = from && start(r, a, st) && qc_cut_layers_find(&layers, r->g, a, st) &&
         (out->layers = QC_NEW_ARRAY(out->arena, struct qc_layer_effect, layers.count, st)) != NULL;
    for (size_t i = 0; ok && i < from_count; i++) from[i] = r->g->inputs[i].value;
    for (size_t i = 0; ok && i < layers.count; i++) {
        struct qc_layer_effect *e = &out->layers[i];
        qc_id *cut;
        size_t count;
        name_layer(e, r->g, &layers, i);
        ok = qc_cut_values(&cut, &count, r->g, layers.layers[i].cut, a, st) && advance(r, from_count, from, count, cut, a, st) &&
             measure_layer(e, r, reweighed, &layers, i, count, cut, a, st);
        if (!ok) break;
        if (!(e->name = qc_arena_strdup(out->arena, e->name, st))) ok = false;
        from = cut;
        from_count = count;
        out->count++;
        if (ok && r->options->progress && !r->options->progress(r->options->progress_user, i + 1, layers.count))
            ok = qc_fail(st, QC_INTERRUPTED, "interrupted after %zu of %zu", i + 1, layers.count);
    }
    if (ok && out->count) qsort(out->layers, out->count, sizeof *out->layers, worse_first);
    qc_arena_free(a);
    return ok;
}

bool qc_sensitivity_measure(struct qc_sensitivity **out, const struct qc_graph *g, const struct qc_graph *reweighed, const struct qc_dataset *data,
                            const struct qc_sensitivity_options *options, struct qc_status *st)
{
    struct qc_sensitivity *s = calloc(1, sizeof *s);
    struct running r = {.g = g, .data = data, .options = options, .units = qc_dataset_units(data)};
    const double t0 = qc_seconds();
    bool ok = false;
    if (!s || !(s->arena = qc_arena_new())) {
        qc_fail_memory(st, sizeof *s);
        goto out;
    }
    r.kept = calloc(g->value_count + 1, sizeof *r.kept);
    r.bytes = calloc(g->value_count + 1, sizeof *r.bytes);
    r.shapes = calloc(g->value_count + 1, sizeof *r.shapes);
    r.wanted = calloc(g->output_count + 1, sizeof *r.wanted);
    r.errors = calloc(PLANS * r.units * g->output_count + 1, sizeof *r.errors);
    if (!r.kept || !r.bytes || !r.shapes || !r.wanted || !r.errors) {
        qc_fail_memory(st, PLANS * r.units * g->output_count * sizeof *r.errors);
        goto out;
    }
    if (!visit(s, &r, reweighed, st)) goto out;
    s->samples = qc_dataset_samples(data);
    s->seconds = qc_seconds() - t0;
    *out = s;
    s = NULL;
    ok = true;
out:
    for (qc_id v = 1; r.kept && v <= g->value_count; v++) free(r.kept[v]);
    for (size_t o = 0; r.wanted && o < g->output_count; o++) free(r.wanted[o]);
    free(r.kept);
    free(r.bytes);
    free(r.shapes);
    free(r.wanted);
    free(r.errors);
    qc_sensitivity_free(s);
    return ok;
}

void qc_sensitivity_free(struct qc_sensitivity *s)
{
    if (!s) return;
    qc_arena_free(s->arena);
    free(s);
}
