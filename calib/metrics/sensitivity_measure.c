// SPDX-License-Identifier: Apache-2.0
#include "calib/metrics/sensitivity.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/scope.h"
#include "calib/metrics/sensitivity_parts.h"
#include "calib/statistics/stream.h"
#include "rewrite/passes/simulate.h"

/* Sums over the blocks. */
struct sums {
    struct qc_error *errors;            /* [layers][QC_CUT_PLANS][parts of outputs] */
    struct qc_score *scores;            /* [layers + 1]: the last one is of the float network */
    size_t layers;                      /* of the graph */
    size_t done, all;                   /* layers times blocks, all: of the sizes so far; for progress */
    enum qc_cut_quantizers first, last; /* the ways in which layers are quantized */
    bool *chosen;                       /* [layers]: layers to measure; NULL: all */
};

double qc_effect_sqnr_db(double noise)
{
    return -10 * log10(noise);
}

const char *qc_layer_name(const struct qc_uses *u, qc_id node)
{
    const struct qc_node *n = &u->graph->nodes[node];
    qc_id value = n->outputs;
    for (qc_id next = value; next && !u->graph->values[value].name;) {
        value = next;
        const struct qc_use_list readers = qc_readers(u, next);
        next = 0;
        for (size_t i = 0; !next && i < readers.count; i++)
            if (u->graph->nodes[readers.of[i].node].op == QC_OP_Dequantize)
                next = u->graph->nodes[readers.of[i].node].outputs;
    }
    const char *result = u->graph->values[value].name;
    return n->name && *n->name ? n->name : result ? result : "";
}

/* Names a layer. A layer of several nodes is named after the one that multiplies, a weight-only quantized weight after
   its reader. */
static bool name_layer(struct qc_layer_effect *e, const struct qc_graph *g, const struct qc_cut_layers *layers,
                       size_t i, struct qc_arena *a, struct qc_status *st)
{
    qc_id id = layers->layers[i].first;
    for (qc_id k = id; k; k = layers->next[k])
        if (qc_op_info(g->nodes[k].op)->affine == QC_AFFINE_PRODUCT) {
            id = k;
            break;
        }
    while (g->nodes[id].op == QC_OP_Dequantize && qc_readers(&layers->uses, g->nodes[id].outputs).count)
        id = qc_readers(&layers->uses, g->nodes[id].outputs).of[0].node;
    const struct qc_node *n = &g->nodes[id];
    e->node = id;
    e->op = qc_op_info(n->op)->name;
    e->name = qc_arena_strdup(a, qc_layer_name(&layers->uses, id), st);
    return e->name != NULL;
}

static int by_noise(const void *x, const void *y)
{
    const struct qc_layer_effect *a = x, *b = y;
    if (a->noise != b->noise) return a->noise > b->noise ? -1 : 1;
    return (a->node > b->node) - (a->node < b->node);
}

static int by_loss(const void *x, const void *y)
{
    const struct qc_layer_effect *a = x, *b = y;
    if (isnan(a->lost) != isnan(b->lost)) return isnan(a->lost) ? 1 : -1;
    if (a->lost > b->lost || a->lost < b->lost) return a->lost > b->lost ? -1 : 1;
    return by_noise(x, y);
}

void qc_sensitivity_sort(struct qc_sensitivity *s, enum qc_effect_order order)
{
    static int (*const compare[])(const void *,
                                  const void *) = {[QC_EFFECTS_BY_NOISE] = by_noise, [QC_EFFECTS_BY_LOSS] = by_loss};
    if (s->count) qsort(s->layers, s->count, sizeof *s->layers, compare[order]);
}

/* Adds samples in order, whatever the blocks. */
static void add_up(const struct sums *sums, const struct qc_cut_run *r, size_t layer)
{
    const size_t outputs = r->parts.count;
    for (size_t u = 0; u < r->count; u++) {
        if (r->scored) qc_score_add(&sums->scores[layer], &r->scores[u]);
        for (size_t k = 0; sums->errors && !r->scored && k < QC_CUT_PLANS * outputs; k++)
            qc_error_add(&sums->errors[layer * QC_CUT_PLANS * outputs + k],
                         &r->errors[(k / outputs * r->block + u) * outputs + k % outputs]);
    }
}

/* Returns the mean over the parts of outputs of noise to signal. errors: [parts]; count is 0 for outputs that are not
   float32. */
static double noise_of(const struct qc_error *errors, size_t count)
{
    double sum = 0;
    size_t outputs = 0;
    for (size_t o = 0; o < count; o++) {
        const struct qc_error *e = &errors[o];
        if (!e->count || (count > 1 && !(e->signal > 0))) continue;
        sum += e->noise == 0 ? 0 : isnan(e->noise) ? (double)INFINITY : e->noise / e->signal;
        outputs++;
    }
    return sum / (double)outputs;
}

static bool is_chosen(const struct sums *sums, const struct qc_cut_layers *layers, size_t i)
{
    return (!sums->chosen || sums->chosen[i]) && (sums->first == QC_CUT_ALL || layers->layers[i].has_weights);
}

static void fill_noise(struct qc_sensitivity *s, const struct qc_cut_run *r, const struct qc_cut_layers *layers,
                       const struct sums *sums)
{
    const size_t outputs = r->parts.count;
    size_t measured = 0;
    for (size_t i = 0; i < layers->count; i++) {
        const struct qc_error *errors = &sums->errors[i * QC_CUT_PLANS * outputs];
        if (!is_chosen(sums, layers, i)) continue;
        s->layers[measured] = s->layers[i];
        struct qc_layer_effect *e = &s->layers[measured++];
        e->noise = noise_of(errors, outputs);
        e->noise_weights = sums->last == QC_CUT_WEIGHTS && layers->layers[i].has_weights
                               ? noise_of(errors + outputs, outputs)
                               : (double)NAN;
        e->metric = e->lost = (double)NAN;
        e->place = i;
    }
    s->count = measured;
    s->samples = qc_dataset_samples(r->data);
    qc_sensitivity_sort(s, QC_EFFECTS_BY_NOISE);
}

static bool visit_block(struct sums *sums, struct qc_cut_run *r, size_t begin, const struct qc_cut_layers *layers,
                        qc_id *const *cuts, const size_t *counts, struct qc_arena *a, struct qc_status *st)
{
    const struct sums float_network = {.scores = sums->scores};
    qc_id *inputs = QC_NEW_ARRAY(a, qc_id, r->g->input_count, st);
    const qc_id *from = inputs;
    size_t from_count = r->g->input_count;
    for (size_t i = 0; inputs && i < r->g->input_count; i++) inputs[i] = r->g->inputs[i].value;
    if (!inputs || !qc_cut_run_begin(r, begin, a, st)) return false;
    add_up(&float_network, r, layers->count);
    for (size_t i = 0; i < layers->count; i++) {
        if (!is_chosen(sums, layers, i)) continue;
        const enum qc_cut_quantizers last = layers->layers[i].has_weights ? sums->last : sums->first;
        const struct qc_cut begins = {.count = counts[i], .values = cuts[i], .known = r->known};
        if (!qc_cut_run_advance(r, from_count, from, counts[i], cuts[i], a, st) ||
            !qc_cut_run_layer(r, layers, i, &begins, sums->first, last, a, st))
            return false;
        add_up(sums, r, i);
        from = cuts[i];
        from_count = counts[i];
        sums->done++;
        if (r->options->settings->progress &&
            !r->options->settings->progress(r->options->settings->progress_user, sums->done, sums->all))
            return qc_fail(st, QC_INTERRUPTED, "interrupted after %zu of %zu", sums->done, sums->all);
    }
    return true;
}

static bool find_cuts(qc_id ***cuts, size_t **counts, struct qc_cut_layers *layers, const struct qc_graph *g,
                      const struct qc_graph *rounded, struct qc_arena *a, struct qc_status *st)
{
    if (!qc_cut_layers_find(layers, g, rounded, a, st)) return false;
    *cuts = QC_NEW_ARRAY(a, qc_id *, layers->count, st);
    *counts = QC_NEW_ARRAY(a, size_t, layers->count, st);
    bool ok = *cuts && *counts;
    for (size_t i = 0; ok && i < layers->count; i++)
        ok = qc_cut_values(&(*cuts)[i], &(*counts)[i], g, layers->layers[i].cut, a, st);
    return ok;
}

/* Makes the graph for the current units. */
static bool fix_shapes(struct qc_graph **out, const struct qc_graph *g, const struct qc_cut_run *r, struct qc_arena *a,
                       struct qc_status *st)
{
    struct qc_shape *shapes = QC_NEW_ARRAY(a, struct qc_shape, g->input_count, st);
    for (size_t i = 0; shapes && i < g->input_count; i++) shapes[i] = qc_cut_run_shape(r, i);
    return shapes && qc_fix_shapes(out, g, shapes, qc_evaluate, st);
}

bool qc_sensitivity_bytes(size_t *out, const struct qc_graph *g, const struct qc_dataset *data,
                          const struct qc_sensitivity_options *options, struct qc_status *st)
{
    struct qc_cut_run r = {.data = data, .options = options, .end = qc_dataset_units(data)};
    struct qc_cut_layers layers;
    struct qc_graph *fixed = NULL;
    QC_ARENA_SCOPE *a = qc_arena_new();
    size_t runner, each, *counts;
    qc_id **cuts;
    bool ok = (a || qc_fail_memory(st, 1)) && (qc_dataset_varies(data) || fix_shapes(&fixed, g, &r, a, st));
    r.g = fixed ? fixed : g;
    ok = ok && qc_output_parts_of(&r.parts, r.g, a, st) && find_cuts(&cuts, &counts, &layers, r.g, NULL, a, st) &&
         qc_cut_run_bytes(&runner, &each, &r, layers.count, cuts, counts, a, st);
    if (ok) *out = runner + each;
    qc_graph_free(fixed);
    return ok;
}

struct believed {
    double noise;
    size_t layer;
};

static int by_believed(const void *x, const void *y)
{
    const struct believed *a = x, *b = y;
    if (a->noise > b->noise || a->noise < b->noise) return a->noise > b->noise ? -1 : 1;
    return (a->layer > b->layer) - (a->layer < b->layer);
}

static double believed_of(const struct qc_cut_layer *l, const double *believed)
{
    double noise = 0;
    for (size_t k = 0; k < l->quantizer_count; k++) noise += believed[l->quantizers[k]];
    return noise;
}

/* Allocates the sums. For a new s, fills in the names and chooses the layers to measure by `believed`. */
static bool begin_sums(struct sums *sums, struct qc_sensitivity *s, const struct qc_cut_run *r,
                       const struct qc_cut_layers *layers, struct qc_arena *a, struct qc_status *st)
{
    const bool new = !s->layers;
    sums->errors = QC_NEW_ARRAY(a, struct qc_error, layers->count * QC_CUT_PLANS * r->parts.count, st);
    sums->scores = QC_NEW_ARRAY(a, struct qc_score, layers->count + 1, st);
    if (new) s->layers = QC_NEW_ARRAY(s->arena, struct qc_layer_effect, layers->count, st);
    if (!sums->errors || !sums->scores || !s->layers) return false;
    if (new) s->count = layers->count;
    sums->layers = layers->count;
    const struct qc_sensitivity_options *o = r->options;
    if (new && o->most && o->most < s->count) {
        struct believed *all = QC_NEW_ARRAY(a, struct believed, layers->count, st);
        bool *chosen = sums->chosen = QC_NEW_ARRAY(a, bool, layers->count, st);
        size_t count = 0;
        if (!all || !chosen) return false;
        for (size_t i = 0; i < layers->count; i++)
            all[i] = (struct believed){.noise = believed_of(&layers->layers[i], o->believed), .layer = i};
        qsort(all, layers->count, sizeof *all, by_believed);
        for (; count < o->first && count < o->most; count++) chosen[count] = true;
        for (size_t i = 0; count < o->most; i++) {
            count += !chosen[all[i].layer];
            chosen[all[i].layer] = true;
        }
    }
    for (size_t i = 0; new &&i < layers->count; i++)
        if (!name_layer(&s->layers[i], r->g, layers, i, s->arena, st)) return false;
    return true;
}

/* Runs all layers on the current units and adds to their sums. */
static bool run_layers(struct sums *sums, struct qc_sensitivity *s, struct qc_cut_run *r,
                       const struct qc_graph *rounded, struct qc_arena *a, struct qc_status *st)
{
    struct qc_cut_layers layers;
    qc_id **cuts;
    size_t *counts;
    if (!find_cuts(&cuts, &counts, &layers, r->g, rounded, a, st) ||
        (!sums->errors && !begin_sums(sums, s, r, &layers, a, st)))
        return false;
    if (sums->layers != layers.count)
        return qc_fail(st, QC_UNSUPPORTED, "%s: the layers of the model differ between the shapes of these samples",
                       qc_dataset_file(r->data));
    if (!qc_cut_run_new(r, layers.count, cuts, counts, a, st)) return false;
    const size_t blocks = (r->end - r->first + r->block - 1) / r->block;
    bool ok = true;
    sums->all = sums->done;
    for (size_t i = 0; i < layers.count; i++) sums->all += is_chosen(sums, &layers, i) ? blocks : 0;
    for (size_t begin = r->first; ok && begin < r->end; begin += r->count) {
        struct qc_arena *x = qc_arena_new(); /* memory of a block */
        ok = (x || qc_fail_memory(st, 1)) && visit_block(sums, r, begin, &layers, cuts, counts, x, st);
        qc_arena_free(x);
    }
    if (!ok) return false;
    const bool last = r->end == r->units;
    if (last && r->scored) {
        struct qc_metric real, m;
        qc_scoring_metric(&real, &r->scoring, &sums->scores[s->count]);
        for (size_t i = 0; i < s->count; i++) {
            struct qc_layer_effect *e = &s->layers[i];
            qc_scoring_metric(&m, &r->scoring, &sums->scores[e->place]);
            e->metric = m.value;
            e->lost = qc_metric_drop(&real, &m);
        }
        qc_sensitivity_sort(s, QC_EFFECTS_BY_LOSS);
    } else if (last && sums->first == QC_CUT_WEIGHTS) {
        const size_t outputs = r->parts.count;
        for (size_t i = 0; i < s->count; i++) {
            const size_t place = s->layers[i].place;
            const struct qc_error *errors = &sums->errors[(place * QC_CUT_PLANS + 1) * outputs];
            for (size_t o = 0; o < outputs; o++)
                if (errors[o].count) s->layers[i].noise_weights = noise_of(errors, outputs);
        }
    } else if (last)
        fill_noise(s, r, &layers, sums);
    return true;
}

static bool same_shapes(const struct qc_cut_run *r, size_t unit, size_t other)
{
    int64_t x[QC_DATA_RANK_MAX], y[QC_DATA_RANK_MAX];
    for (size_t i = 0; i < r->g->input_count; i++) {
        const unsigned rank = qc_dataset_unit_dims(x, r->data, i, unit);
        (void)qc_dataset_unit_dims(y, r->data, i, other);
        if (memcmp(x, y, rank * sizeof *x) != 0) return false;
    }
    return true;
}

/* Runs the units of each size in a graph for their shapes. */
static bool run_sizes(struct sums *sums, struct qc_sensitivity *s, struct qc_cut_run *r, const struct qc_graph *rounded,
                      struct qc_arena *a, struct qc_status *st)
{
    const struct qc_graph *open = r->g;
    const size_t end = qc_dataset_units(r->data);
    const size_t *order = r->order;
    bool ok = true;
    r->units = end;
    for (r->first = 0; ok && r->first < end; r->first = r->end) {
        struct qc_graph *fixed = NULL;
        r->end = order ? r->first + 1 : end;
        while (r->end < end && same_shapes(r, order[r->first], order[r->end])) r->end++;
        ok = fix_shapes(&fixed, open, r, a, st);
        if (ok) r->g = fixed;
        ok = ok && run_layers(sums, s, r, rounded, a, st);
        qc_cut_run_free(r);
        r->g = open;
        qc_graph_free(fixed);
    }
    return ok;
}

static bool measure_effects(struct qc_sensitivity *s, struct qc_cut_run *r, const struct qc_graph *rounded,
                            struct qc_status *st)
{
    const double t0 = qc_seconds();
    QC_ARENA_SCOPE *a = qc_arena_new();
    size_t *order = NULL;
    struct sums sums = {.last = r->scored || r->options->weights_of ? QC_CUT_ALL : QC_CUT_WEIGHTS};
    bool ok = (a || qc_fail_memory(st, 1)) && qc_output_parts_of(&r->parts, r->g, a, st);
    if (ok && r->scored) { /* the output to score is the same for all sizes */
        struct qc_plan *plan = NULL;
        struct qc_runner *probe = NULL;
        ok = qc_stream_plan(&plan, r->g, r->data, &r->options->settings->plan, st) && qc_runner_new(&probe, plan, st) &&
             qc_scoring_begin(&r->scoring, r->g, probe, r->data, st);
        qc_runner_free(probe);
        qc_plan_free(plan);
    }
    if (ok && qc_dataset_varies(r->data))
        ok = qc_order_by_size(&order, r->data, r->g->input_count, NULL, qc_dataset_units(r->data), QC_ORDER_FREE, st);
    r->order = order;
    ok = ok && run_sizes(&sums, s, r, rounded, a, st);
    if (ok && !r->scored && r->options->weights_of) { /* weights alone, for the layers with most noise */
        sums.chosen = QC_NEW_ARRAY(a, bool, sums.layers, st);
        sums.first = sums.last = QC_CUT_WEIGHTS;
        for (size_t i = 0; sums.chosen && i < r->options->weights_of && i < s->count; i++)
            sums.chosen[s->layers[i].place] = true;
        ok = sums.chosen && run_sizes(&sums, s, r, rounded, a, st);
    }
    free(order);
    s->seconds += qc_seconds() - t0;
    return ok;
}

bool qc_sensitivity_measure(struct qc_sensitivity **out, const struct qc_graph *g, const struct qc_graph *rounded,
                            const struct qc_dataset *data, const struct qc_sensitivity_options *options,
                            struct qc_status *st)
{
    struct qc_cut_run r = {.g = g, .data = data, .options = options};
    struct qc_sensitivity *s;
    return QC_NEW_OWNER(s, st) && QC_HAND_OVER(measure_effects(s, &r, rounded, st), out, s, qc_sensitivity_free);
}

bool qc_sensitivity_believed(struct qc_sensitivity **out, const struct qc_graph *g, const double *believed,
                             struct qc_status *st)
{
    struct qc_sensitivity *s;
    struct qc_cut_layers layers;
    QC_ARENA_SCOPE *a = qc_arena_new();
    if (!QC_NEW_OWNER(s, st)) return false;
    bool ok = (a || qc_fail_memory(st, 1)) && qc_cut_layers_find(&layers, g, NULL, a, st) &&
              (s->layers = QC_NEW_ARRAY(s->arena, struct qc_layer_effect, layers.count, st));
    for (size_t i = 0; ok && i < layers.count; i++) {
        struct qc_layer_effect *e = &s->layers[s->count++];
        ok = name_layer(e, g, &layers, i, s->arena, st);
        e->noise = believed_of(&layers.layers[i], believed);
        e->noise_weights = e->metric = e->lost = (double)NAN;
        e->place = i;
    }
    if (ok) qc_sensitivity_sort(s, QC_EFFECTS_BY_NOISE);
    return QC_HAND_OVER(ok, out, s, qc_sensitivity_free);
}

bool qc_sensitivity_score(struct qc_sensitivity *s, const struct qc_graph *g, const struct qc_graph *rounded,
                          const struct qc_dataset *data, const struct qc_sensitivity_options *options,
                          struct qc_status *st)
{
    struct qc_cut_run r = {.g = g, .data = data, .options = options, .scored = true};
    return measure_effects(s, &r, rounded, st);
}

bool qc_sensitivity_alone(struct qc_graph **out, const struct qc_graph *g, const struct qc_graph *rounded,
                          const struct qc_layer_effect *layer, struct qc_status *st)
{
    struct qc_cut_layers layers;
    struct qc_layer_effect e;
    QC_ARENA_SCOPE *a = qc_arena_new();
    if (!a) return qc_fail_memory(st, 1);
    if (!qc_cut_layers_find(&layers, g, rounded, a, st)) return false;
    for (size_t i = 0; i < layers.count; i++) {
        if (!name_layer(&e, g, &layers, i, a, st)) return false;
        if (strcmp(e.name, layer->name) == 0 && strcmp(e.op, layer->op) == 0)
            return qc_cut_alone(out, g, &layers, i, a, st);
    }
    return qc_fail(st, QC_UNSUPPORTED, "layer '%s' has other quantizers in the shapes of the samples", layer->name);
}

void qc_sensitivity_free(struct qc_sensitivity *s)
{
    if (!s) return;
    qc_arena_free(s->arena);
    free(s);
}
