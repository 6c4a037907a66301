// SPDX-License-Identifier: Apache-2.0
#include "evaluate/evaluate.h"

#include <string.h>

#include "graph/core/uses.h"
#include "quantize/options/option_value.h"
#include "rewrite/passes/integer_ports.h"

enum { SEQUENCE_MOST = 4096 };

struct layer {
    qc_id source; /* the value computed by the op, which has the name */
    qc_id value;  /* the compared value: source or its stored form */
    enum qc_op op;
    size_t partner; /* index in the other graph, from 1; 0: none yet */
};

struct layers {
    const struct qc_graph *g;
    size_t count;
    struct layer *of;
    size_t *index; /* [value_count + 1] by source: layer index, from 1 */
};

static bool is_stored_matched(const struct qc_graph *g, qc_id v)
{
    const struct qc_qparams *s = qc_graph_parameters(g, v);
    return s && s->kind == QC_QPARAMS_QUANTIZER && s->count == 1;
}

/* Returns the op's result of which a value is a converted form; 0 if it comes from an input or a constant. */
static qc_id source_of_matched(const struct qc_graph *g, qc_id v)
{
    const struct qc_node *n = qc_node_of(g, v);
    while (n && qc_op_is_qdq(n->op)) {
        v = n->inputs[0];
        n = qc_node_of(g, v);
    }
    return n ? v : 0;
}

static bool find_layers(struct layers *l, const struct qc_graph *g, struct qc_arena *a, struct qc_status *st)
{
    *l = (struct layers){.g = g,
                         .of = QC_NEW_ARRAY(a, struct layer, g->value_count + 1, st),
                         .index = QC_NEW_ARRAY(a, size_t, g->value_count + 1, st)};
    if (!l->of || !l->index) return false;
    for (qc_id v = 1; v <= g->value_count; v++) {
        const struct qc_type *t = &g->values[v].type;
        const bool observable = t->qparams ? is_stored_matched(g, v) : t->dtype == QC_F32;
        const qc_id source = g->values[v].constant || !observable ? 0 : source_of_matched(g, v);
        if (!source || t->shape.rank != g->values[source].type.shape.rank) continue;
        if (l->index[source]) {
            /* Prefer the stored form to the real one; of several, the first. */
            struct layer *known = &l->of[l->index[source] - 1];
            if (is_stored_matched(g, v) && !is_stored_matched(g, known->value)) known->value = v;
            continue;
        }
        l->of[l->count++] = (struct layer){.source = source, .value = v, .op = qc_node_of(g, source)->op};
        l->index[source] = l->count;
    }
    return true;
}

/* A free dim matches any: one model may have a fixed batch and the other a free one. */
static bool same_shape(const struct layers *f, const struct layer *x, const struct layers *s, const struct layer *y)
{
    const struct qc_shape *a = &f->g->values[x->value].type.shape, *b = &s->g->values[y->value].type.shape;
    bool same = a->rank == b->rank;
    for (int i = 0; same && i < a->rank; i++) same = a->dim[i] == b->dim[i] || a->dim[i] < 0 || b->dim[i] < 0;
    return same;
}

static void marry(struct layers *f, size_t i, struct layers *s, size_t k)
{
    f->of[i].partner = k + 1;
    s->of[k].partner = i + 1;
}

/* Returns the index of the layer named `name`, from 1; 0: none. */
static size_t named(const struct layers *l, const char *name)
{
    const qc_id v = qc_graph_find_value(l->g, name);
    const qc_id source = v && qc_node_of(l->g, v) ? source_of_matched(l->g, v) : 0;
    return source ? l->index[source] : 0;
}

/* The same with and without "_float", which exporters append to the name of a graph output. */
static size_t named_alike(const struct layers *l, const char *name, struct qc_arena *a, struct qc_status *st)
{
    static const char suffix[] = "_float";
    const size_t n = strlen(name), k = sizeof suffix - 1;
    size_t i = named(l, name);
    if (i) return i;
    const bool ends = n > k && strcmp(name + n - k, suffix) == 0;
    const char *other = ends ? qc_arena_strndup(a, name, n - k, st) : qc_arena_printf(a, st, "%s%s", name, suffix);
    return other ? named(l, other) : 0;
}

/* Returns the layers without a partner. */
static size_t *unmatched(size_t *count, const struct layers *l, struct qc_arena *a, struct qc_status *st)
{
    size_t *list = QC_NEW_ARRAY(a, size_t, l->count + 1, st);
    *count = 0;
    for (size_t i = 0; list && i < l->count; i++)
        if (!l->of[i].partner) list[(*count)++] = i;
    return list;
}

/* Matches by the longest common subsequence; length[i][k] is the length for the layers from i and from k. */
static bool match_order(struct layers *f, struct layers *s, struct qc_arena *a, struct qc_status *st)
{
    size_t n, m;
    const size_t *x = unmatched(&n, f, a, st), *y = unmatched(&m, s, a, st);
    if (!x || !y) return false;
    if (n == 0 || m == 0 || n > SEQUENCE_MOST || m > SEQUENCE_MOST) return true;
    uint16_t *length = QC_NEW_ARRAY(a, uint16_t, (n + 1) * (m + 1), st);
    if (!length) return false;
#define AT(i, k) length[(i) * (m + 1) + (k)]
#define SAME(i, k) (f->of[x[i]].op == s->of[y[k]].op && same_shape(f, &f->of[x[i]], s, &s->of[y[k]]))
    for (size_t i = n; i-- > 0;)
        for (size_t k = m; k-- > 0;) {
            const uint16_t one = AT(i + 1, k), other = AT(i, k + 1);
            AT(i, k) = SAME(i, k) ? (uint16_t)(AT(i + 1, k + 1) + 1) : one > other ? one : other;
        }
    for (size_t i = 0, k = 0; i < n && k < m;) {
        if (SAME(i, k))
            marry(f, x[i++], s, y[k++]);
        else if (AT(i + 1, k) >= AT(i, k + 1))
            i++;
        else
            k++;
    }
#undef SAME
#undef AT
    return true;
}

/* If the other graph folded later ops into a layer, moves the layer's value to the last of these ops. */
static void take_folded(struct layers *l, const struct layers *other, const struct qc_uses *uses)
{
    for (size_t i = 0; i < l->count; i++) {
        struct layer *x = &l->of[i];
        if (!x->partner) continue;
        const bool stored = is_stored_matched(other->g, other->of[x->partner - 1].value);
        for (qc_id id; (id = qc_only_reader(uses, x->value));) {
            const struct qc_node *n = &l->g->nodes[id];
            const size_t k = l->index[n->outputs];
            const bool clamp = qc_op_info(n->op)->affine == QC_AFFINE_BOUND;
            const bool norm = n->op == QC_OP_BatchNormalization && !is_stored_matched(l->g, x->value);
            if (!k || l->of[k - 1].partner || !(clamp ? stored : norm)) break;
            x->value = n->outputs;
        }
    }
}

/* Matches the layers of two graphs. A layer is the float32 result of an op, or its stored form with one scale: the
   output of the requantize or quantize that stores the op's result, under that result's name. Graphs are float models
   as imported, or quantized ones in their produced form (evaluate/evaluate.h).

   Layers of equal name and shape are pairs (an exporter's suffix "_float" is ignored). The rest are paired by the
   longest common sequence of layers with equal op and shape, which matches models whose names were lost. If one graph
   has a batch norm or a clamp (done by saturation) inside a layer, and the other as an op after it, that op's result is
   the layer's. Memory is from the arena. */
static bool match_layers(struct qc_layer_pairs *out, const struct qc_graph *first, const struct qc_graph *second,
                         struct qc_arena *a, struct qc_status *st)
{
    struct layers f, s;
    struct qc_layer_pairs p = {.count = 0};
    struct qc_uses f_uses, s_uses;
    if (!qc_uses_of(&f_uses, first, a, st) || !qc_uses_of(&s_uses, second, a, st) || !find_layers(&f, first, a, st) ||
        !find_layers(&s, second, a, st))
        return false;
    for (size_t i = 0; i < f.count; i++) {
        const char *name = f.g->values[f.of[i].source].name;
        const size_t k = name ? named_alike(&s, name, a, st) : 0;
        if (k && !s.of[k - 1].partner && same_shape(&f, &f.of[i], &s, &s.of[k - 1])) marry(&f, i, &s, k - 1);
    }
    if (st->code != QC_OK) return false;
    const size_t names = f.count + 1;
    bool *by_name = QC_NEW_ARRAY(a, bool, names, st);
    for (size_t i = 0; by_name && i < f.count; i++) by_name[i] = f.of[i].partner != 0;
    if (!by_name || !match_order(&f, &s, a, st)) return false;
    take_folded(&f, &s, &f_uses);
    take_folded(&s, &f, &s_uses);
    p.values = QC_NEW_ARRAY(a, struct qc_pair, s.count + 1, st);
    p.layers = QC_NEW_ARRAY(a, struct qc_layer_pair, s.count + 1, st);
    if (!p.values || !p.layers) return false;
    for (size_t k = 0; k < s.count; k++) {
        if (!s.of[k].partner) continue;
        const size_t i = s.of[k].partner - 1;
        const char *one = first->values[f.of[i].source].name, *other = second->values[s.of[k].source].name;
        p.values[p.count] = (struct qc_pair){.first = f.of[i].value, .second = s.of[k].value};
        p.layers[p.count++] =
            (struct qc_layer_pair){.name = one ? one : other, .op = f.of[i].op, .by_name = by_name[i]};
    }
    *out = p;
    return true;
}

/* Splits "A,B" into the values of both models, *two is then true; a single word is the second model's. A missing value
   is NULL. */
static bool split_pair(bool *two, const char *out[2], const char *text, struct qc_arena *a, struct qc_status *st)
{
    const char *comma = text ? strchr(text, ',') : NULL;
    out[0] = NULL;
    out[1] = comma ? comma + 1 : text;
    *two = comma != NULL;
    return !comma || (out[0] = qc_arena_strndup(a, text, (size_t)(comma - text), st));
}

/* Returns the batch of a graph with a fixed first axis; 0 if it is free. */
static int64_t batch_of(const struct qc_graph *g)
{
    const struct qc_shape *s = g->input_count ? &g->values[g->inputs[0].value].type.shape : NULL;
    return s && s->rank > 0 && s->dim[0] > 0 ? s->dim[0] : 0;
}

/* Gives a model real numbers where it has integers and the other one real numbers. */
static bool match_ports(struct qc_model *m, const struct qc_graph *other, struct qc_status *st)
{
    const struct qc_graph *g = m->graph;
    struct qc_graph *real = NULL;
    bool any = false;
    QC_ARENA_SCOPE *a = qc_arena_new();
    if (!a) return qc_fail_memory(st, 1);
    const struct qc_input_spec *specs = qc_stream_specs(g, a, st);
    struct qc_affine *levels = QC_NEW_ARRAY(a, struct qc_affine, g->input_count + 1, st);
    bool *outputs = QC_NEW_ARRAY(a, bool, g->output_count + 1, st);
    if (!specs || !levels || !outputs) return false;
    for (size_t i = 0; i < g->input_count && i < other->input_count; i++) {
        if (!qc_dtype_info(other->values[other->inputs[i].value].type.dtype)->is_float) continue;
        levels[i] = (struct qc_affine){specs[i].scale, specs[i].zero_point};
        any = any || specs[i].scale > 0;
    }
    for (size_t o = 0; o < g->output_count && o < other->output_count; o++) {
        outputs[o] = qc_dtype_info(other->values[other->outputs[o].value].type.dtype)->is_float &&
                     !qc_dtype_info(g->values[g->outputs[o].value].type.dtype)->is_float;
        any = any || outputs[o];
    }
    if (!any) return true;
    if (!qc_real_ports(&real, g, levels, outputs, st)) return qc_where(st, "%s", m->path);
    if (m->imported)
        qc_graph_free(m->graph); /* the graph of qc_model_widen */
    else
        m->imported = m->graph; /* holds the texts of info */
    m->graph = real;
    return true;
}

static bool open_both(struct qc_compared_models *c, const struct qc_model_source sources[2], const struct qc_options *o,
                      struct qc_warnings *w, struct qc_status *st)
{
    struct qc_model_source first = sources[0], second = sources[1];
    first.only_run = second.only_run = true;
    if (!qc_model_open(&c->first, &first, o, w, st) || !qc_model_open(&c->second, &second, o, w, st) ||
        !qc_model_check_whole(&c->first, st) || !qc_model_check_whole(&c->second, st) ||
        !qc_model_widen(&c->first, QC_WIDEN_PORTS, st) || !qc_model_widen(&c->second, QC_WIDEN_PORTS, st) ||
        !qc_model_canonicalise(&c->first, st) || !qc_model_canonicalise(&c->second, st) ||
        !match_ports(&c->first, c->second.graph, st) || !match_ports(&c->second, c->first.graph, st))
        return false;
    const struct qc_graph *g = c->first.graph, *h = c->second.graph;
    bool same = g->input_count == h->input_count;
    for (size_t i = 0; same && i < g->input_count; i++)
        same = strcmp(g->inputs[i].name, h->inputs[i].name) == 0 &&
               g->values[g->inputs[i].value].type.dtype == h->values[h->inputs[i].value].type.dtype;
    if (!same)
        return qc_fail(st, QC_BAD_INPUT, "%s and %s do not take the same inputs ('qcalib inspect' shows them)",
                       c->first.path, c->second.path);
    const int64_t one = batch_of(c->first.graph), other = batch_of(c->second.graph);
    return !one || !other || one == other ||
           qc_fail(st, QC_BAD_INPUT,
                   "%s takes %lld samples at a time and %s takes %lld; export one of them with the other's batch, or "
                   "with a free one",
                   c->first.path, (long long)one, c->second.path, (long long)other);
}

bool qc_compare_models(struct qc_compared_models *c, const struct qc_model_source sources[2],
                       const struct qc_data_source *data, const struct qc_options *o, struct qc_progress *progress,
                       struct qc_warnings *w, struct qc_status *st)
{
    const struct qc_data_request request = {.use = QC_USE_INPUTS, .choose = QC_CHOOSE_SAMPLES};
    struct qc_settings settings;
    /* --rounding and --accumulator may differ between the models. The settings are those of the second one. */
    const char *rounding[2], *accumulator[2];
    bool widths;
    if (!split_pair(&c->contracts, rounding, o->graph.rounding, o->arena, st) ||
        !split_pair(&widths, accumulator, o->types.accumulator, o->arena, st))
        return false;
    c->both = c->contracts || widths;
    if (!c->contracts) rounding[0] = rounding[1]; /* a runtime runs both */
    for (int k = 0; k < 2; k++) {
        struct qc_options one = *o;
        one.graph.rounding = rounding[k];
        one.types.accumulator = accumulator[k];
        if (!qc_settings_of(&settings, &one, progress, st)) return false;
        c->how[k] = settings.plan;
    }
    if (!open_both(c, sources, o, w, st)) return false;
    /* Samples are read for a fixed batch, which fits a free one, but not the reverse. */
    const bool second = !batch_of(c->first.graph) && batch_of(c->second.graph);
    if (!qc_model_data(&c->data, second ? c->second.graph : c->first.graph, data, &request, o, w, st) ||
        !match_layers(&c->pairs, c->first.graph, c->second.graph, o->arena, st))
        return false;
    const struct qc_comparison_job job = {.first = c->first.graph,
                                          .second = c->second.graph,
                                          .how = {&c->how[0], &c->how[1]},
                                          .count_steps = true,
                                          .pair_count = c->pairs.count,
                                          .pairs = c->pairs.values,
                                          .data = c->data,
                                          .settings = &settings};
    qc_progress_phase(progress, "comparing");
    const bool ok = qc_compare(&c->result, &job, st);
    qc_progress_end(progress);
    return ok && qc_progress_check(progress, st);
}

void qc_compared_models_close(struct qc_compared_models *c)
{
    qc_comparison_free(c->result);
    qc_dataset_free(c->data);
    qc_model_close(&c->second);
    qc_model_close(&c->first);
}
