// SPDX-License-Identifier: Apache-2.0
#include "calib/metrics/sensitivity.h"

#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "calib/metrics/sensitivity_parts.h"

/* Sums over the blocks. */
struct sums {
    struct qc_error *errors; /* [layers][QC_CUT_PLANS][output_count] */
    struct qc_score *scores; /* [layers + 1]: the last is that of the float network */
};

double qc_effect_sqnr_db(double noise)
{
    return -10 * log10(noise);
}

static qc_id first_dequantized(const struct qc_uses *u, qc_id value)
{
    const struct qc_use_list readers = qc_readers(u, value);
    for (size_t i = 0; i < readers.count; i++)
        if (u->graph->nodes[readers.of[i].node].op == QC_OP_Dequantize)
            return u->graph->nodes[readers.of[i].node].outputs;
    return 0;
}

/* The result of a layer in real numbers has the name of the model's value. */
static const char *result_name(const struct qc_uses *u, qc_id value)
{
    for (qc_id v = value; v && !u->graph->values[value].name; v = first_dequantized(u, value)) value = v;
    return u->graph->values[value].name;
}

/* Of a layer of several nodes, the one that multiplies names it; a weight that alone is quantized has the name of its
 * reader. */
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
    const char *result = result_name(&layers->uses, n->outputs);
    e->node = id;
    e->op = qc_op_info(n->op)->name;
    e->name = qc_arena_strdup(a, n->name && *n->name ? n->name : result ? result : "", st);
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
    if (a->lost > b->lost || a->lost < b->lost) return a->lost > b->lost ? -1 : 1;
    return by_noise(x, y);
}

void qc_sensitivity_sort(struct qc_sensitivity *s, enum qc_effect_order order)
{
    static int (*const compare[])(const void *,
                                  const void *) = {[QC_EFFECTS_BY_NOISE] = by_noise, [QC_EFFECTS_BY_LOSS] = by_loss};
    if (s->count) qsort(s->layers, s->count, sizeof *s->layers, compare[order]);
}

/* Samples are added up in their order, whatever the blocks. */
static void add_up(const struct sums *sums, const struct qc_cut_run *r, size_t layer)
{
    const size_t outputs = r->g->output_count;
    for (size_t u = 0; u < r->count; u++) {
        if (r->scored) qc_score_add(&sums->scores[layer], &r->scores[u]);
        for (size_t k = 0; sums->errors && !r->scored && k < QC_CUT_PLANS * outputs; k++)
            qc_error_add(&sums->errors[layer * QC_CUT_PLANS * outputs + k],
                         &r->errors[(k / outputs * r->block + u) * outputs + k % outputs]);
    }
}

/* Mean over the outputs of noise to signal. errors: [output_count]; those of no float32 output have no elements. */
static double noise_of(const struct qc_error *errors, size_t count)
{
    double sum = 0;
    size_t outputs = 0;
    for (size_t o = 0; o < count; o++) {
        const struct qc_error *e = &errors[o];
        if (!e->count) continue;
        sum += e->noise == 0 ? 0 : isnan(e->noise) ? (double)INFINITY : e->noise / e->signal;
        outputs++;
    }
    return sum / (double)outputs;
}

static void fill_noise(struct qc_sensitivity *s, const struct qc_cut_run *r, const struct qc_cut_layers *layers,
                       const struct sums *sums)
{
    const size_t outputs = r->g->output_count;
    for (size_t i = 0; i < layers->count; i++) {
        const struct qc_error *errors = &sums->errors[i * QC_CUT_PLANS * outputs];
        struct qc_layer_effect *e = &s->layers[i];
        e->noise = noise_of(errors, outputs);
        e->noise_weights = layers->layers[i].has_weights ? noise_of(errors + outputs, outputs) : (double)NAN;
        e->metric = e->lost = (double)NAN;
        e->place = i;
    }
    s->samples = qc_dataset_samples(r->data);
    qc_sensitivity_sort(s, QC_EFFECTS_BY_NOISE);
}

static void fill_metric(struct qc_sensitivity *s, const struct qc_cut_run *r, const struct sums *sums)
{
    struct qc_metric real, m;
    qc_scoring_metric(&real, &r->scoring, &sums->scores[s->count]);
    for (size_t i = 0; i < s->count; i++) {
        struct qc_layer_effect *e = &s->layers[i];
        qc_scoring_metric(&m, &r->scoring, &sums->scores[e->place]);
        e->metric = m.value;
        e->lost = qc_metric_drop(&real, &m);
    }
    qc_sensitivity_sort(s, QC_EFFECTS_BY_LOSS);
}

/* Which layers are visited, and how they are quantized. */
struct round {
    const struct sums *sums;
    const struct qc_cut_layers *layers;
    qc_id *const *cuts;
    const size_t *counts;
    const bool *chosen; /* [layers]; NULL: all */
    enum qc_cut_quantizers first, last;
    size_t done, all; /* for progress */
};

static bool visit_block(struct round *v, struct qc_cut_run *r, size_t block, struct qc_arena *a, struct qc_status *st)
{
    const struct sums float_network = {.scores = v->sums->scores};
    qc_id *inputs = QC_NEW_ARRAY(a, qc_id, r->g->input_count, st);
    const qc_id *from = inputs;
    size_t from_count = r->g->input_count;
    for (size_t i = 0; inputs && i < r->g->input_count; i++) inputs[i] = r->g->inputs[i].value;
    if (!inputs || !qc_cut_run_begin(r, block * r->block, a, st)) return false;
    add_up(&float_network, r, v->layers->count);
    for (size_t i = 0; i < v->layers->count; i++) {
        if (v->chosen && !v->chosen[i]) continue;
        const enum qc_cut_quantizers last = v->layers->layers[i].has_weights ? v->last : v->first;
        if (!qc_cut_run_advance(r, from_count, from, v->counts[i], v->cuts[i], a, st) ||
            !qc_cut_run_layer(r, v->layers, i, v->counts[i], v->cuts[i], v->first, last, a, st))
            return false;
        add_up(v->sums, r, i);
        from = v->cuts[i];
        from_count = v->counts[i];
        v->done++;
        if (r->options->progress && !r->options->progress(r->options->progress_user, v->done, v->all))
            return qc_fail(st, QC_INTERRUPTED, "interrupted after %zu of %zu", v->done, v->all);
    }
    return true;
}

static bool visit(struct round *v, struct qc_cut_run *r, struct qc_status *st)
{
    const size_t blocks = (qc_dataset_units(r->data) + r->block - 1) / r->block;
    bool ok = true;
    v->done = v->all = 0;
    for (size_t i = 0; i < v->layers->count; i++) v->all += blocks * (!v->chosen || v->chosen[i]);
    for (size_t b = 0; ok && b < blocks; b++) {
        struct qc_arena *a = qc_arena_new(); /* what a block needs */
        ok = (a || qc_fail_memory(st, 1)) && visit_block(v, r, b, a, st);
        qc_arena_free(a);
    }
    return ok;
}

/* All layers; weights alone with them, or afterwards for those that turn out to matter. s is filled. */
static bool visit_all(struct qc_sensitivity *s, struct round *v, struct qc_cut_run *r, struct qc_arena *a,
                      struct qc_status *st)
{
    const size_t top = r->options->weights_of;
    const bool later = top && !r->scored;
    v->first = QC_CUT_ALL;
    v->last = later || r->scored ? QC_CUT_ALL : QC_CUT_WEIGHTS;
    if (!visit(v, r, st)) return false;
    if (r->scored) {
        fill_metric(s, r, v->sums);
        return true;
    }
    fill_noise(s, r, v->layers, v->sums);
    if (!later) return true;
    bool *chosen = QC_NEW_ARRAY(a, bool, s->count, st), any = false;
    for (size_t i = 0; chosen && i < top && i < s->count; i++)
        any |= chosen[s->layers[i].place] = v->layers->layers[s->layers[i].place].has_weights;
    v->chosen = chosen;
    v->first = v->last = QC_CUT_WEIGHTS;
    if (!chosen || (any && !visit(v, r, st))) return false;
    for (size_t i = 0; i < s->count; i++) {
        const struct qc_error *errors = &v->sums->errors[s->layers[i].place * QC_CUT_PLANS * r->g->output_count];
        if (chosen[s->layers[i].place])
            s->layers[i].noise_weights = noise_of(errors + r->g->output_count, r->g->output_count);
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

bool qc_sensitivity_bytes(size_t *out, const struct qc_graph *g, const struct qc_dataset *data,
                          const struct qc_sensitivity_options *options, struct qc_status *st)
{
    struct qc_cut_run r = {.g = g, .data = data, .options = options};
    struct qc_cut_layers layers;
    struct qc_arena *a = qc_arena_new();
    size_t runner, each, *counts;
    qc_id **cuts;
    const bool ok = (a || qc_fail_memory(st, 1)) && find_cuts(&cuts, &counts, &layers, g, NULL, a, st) &&
                    qc_cut_run_bytes(&runner, &each, &r, layers.count, cuts, counts, a, st);
    if (ok) *out = runner + each;
    qc_arena_free(a);
    return ok;
}

/* Runs all layers; of a new s the names are filled. */
static bool run_layers(struct qc_sensitivity *s, struct qc_cut_run *r, const struct qc_graph *rounded,
                       struct qc_arena *a, struct qc_status *st)
{
    struct qc_cut_layers layers;
    qc_id **cuts;
    size_t *counts;
    if (!find_cuts(&cuts, &counts, &layers, r->g, rounded, a, st)) return false;
    const struct sums sums = {.errors = QC_NEW_ARRAY(a, struct qc_error,
                                                     layers.count * QC_CUT_PLANS * r->g->output_count, st),
                              .scores = QC_NEW_ARRAY(a, struct qc_score, layers.count + 1, st)};
    const bool new = !s->layers;
    if (new) s->layers = QC_NEW_ARRAY(s->arena, struct qc_layer_effect, layers.count, st);
    if (!sums.errors || !sums.scores || !s->layers) return false;
    if (!new && s->count != layers.count)
        return qc_fail(st, QC_UNSUPPORTED, "%s: the model has other layers for the shapes of these samples",
                       qc_dataset_file(r->data));
    s->count = layers.count;
    for (size_t i = 0; i < layers.count; i++)
        if (new && !name_layer(&s->layers[i], r->g, &layers, i, s->arena, st)) return false;
    struct round v = {.sums = &sums, .layers = &layers, .cuts = cuts, .counts = counts};
    return qc_cut_run_new(r, layers.count, cuts, counts, a, st) && visit_all(s, &v, r, a, st);
}

static bool measure(struct qc_sensitivity *s, struct qc_cut_run *r, const struct qc_graph *rounded,
                    struct qc_status *st)
{
    const double t0 = qc_seconds();
    struct qc_arena *a = qc_arena_new();
    const bool ok = (a || qc_fail_memory(st, 1)) && run_layers(s, r, rounded, a, st);
    qc_cut_run_free(r);
    qc_arena_free(a);
    s->seconds += qc_seconds() - t0;
    return ok;
}

bool qc_sensitivity_measure(struct qc_sensitivity **out, const struct qc_graph *g, const struct qc_graph *rounded,
                            const struct qc_dataset *data, const struct qc_sensitivity_options *options,
                            struct qc_status *st)
{
    struct qc_sensitivity *s = calloc(1, sizeof *s);
    struct qc_cut_run r = {.g = g, .data = data, .options = options};
    if (!s || !(s->arena = qc_arena_new()))
        qc_fail_memory(st, sizeof *s);
    else if (measure(s, &r, rounded, st)) {
        *out = s;
        return true;
    }
    qc_sensitivity_free(s);
    return false;
}

bool qc_sensitivity_score(struct qc_sensitivity *s, const struct qc_graph *g, const struct qc_graph *rounded,
                          const struct qc_dataset *data, const struct qc_sensitivity_options *options,
                          struct qc_status *st)
{
    struct qc_cut_run r = {.g = g, .data = data, .options = options, .scored = true};
    return measure(s, &r, rounded, st);
}

void qc_sensitivity_free(struct qc_sensitivity *s)
{
    if (!s) return;
    qc_arena_free(s->arena);
    free(s);
}
