// SPDX-License-Identifier: Apache-2.0
#include "quantize/search/attempts.h"

#include <math.h>
#include <string.h>

#include "base/index.h"
#include "base/scope.h"
#include "calib/moments/second_moments.h"
#include "graph/types/number_format.h"
#include "quantize/search/searches.h"
#include "quantize/setup/model.h"

/* What changes for a layer. */
enum remedy { KEEP, WIDE_ACTIVATIONS, WIDE_WEIGHTS, BYTES_OF_WEIGHTS, WIDE_BLOCKS, FLOAT_INPUTS, IN_FLOAT };
enum rung { WIDE, FLOATS, RUNGS };

/* The most accurate format of activations in blocks. */
static const char WIDE_FORMAT[] = "bfp16";

/* The base types, and the limits on wider ones. */
struct terms {
    const struct qc_partition_options *base;
    bool integer;       /* --require-integer: no operator may stay in float */
    bool wide_is_float; /* the target has only 8-bit integer kernels */
    bool rounds_again;  /* ... and rounds inputs of products with stored weights to 8 bits again (MatMulNBits) */
};

/* Runs the layers on data: sets *out if it is NULL, else adds the accuracy of each layer. */
static bool run_layers(struct qc_sensitivity **out, const struct qc_network *net, const struct qc_dataset *data,
                       const struct qc_sensitivity_options *which, struct qc_status *st)
{
    struct qc_sensitivity_options how = which ? *which : (struct qc_sensitivity_options){0};
    const struct qc_graph *rounded = net->uncorrected ? net->uncorrected : net->rounded;
    how.settings = net->scheme.settings;
    qc_progress_phase(net->setup->progress, *out ? "accuracy of layers" : "sensitivity");
    const bool ok = *out ? qc_sensitivity_score(*out, net->simulated, rounded, data, &how, st)
                         : qc_sensitivity_measure(out, net->simulated, rounded, data, &how, st);
    qc_progress_end(net->setup->progress);
    return ok;
}

bool qc_measure_sensitivity(struct qc_sensitivity **out, const struct qc_network *net, struct qc_dataset *eval,
                            size_t batches, const struct qc_sensitivity_options *which, struct qc_status *st)
{
    struct qc_dataset *data = net->setup->data ? net->setup->data : eval;
    if (!data)
        return qc_fail(st, QC_USAGE, "--sensitivity runs samples: give --data FILE, or --eval FILE beside --stats");
    /* --sensitivity shows effects beside the error of the outputs, which is that of evenly spaced samples. */
    const bool shown = data == eval || net->scheme.options->method.sensitivity;
    const struct qc_selection spaced = {.samples = batches * qc_dataset_unit_samples(data)},
                              some = shown ? spaced : qc_few_samples(net, batches);
    const bool fewer = qc_dataset_samples(data) > some.samples;
    struct qc_sensitivity *s = NULL;
    bool ok = (!fewer || qc_dataset_select(data, &some, st)) && run_layers(&s, net, data, which, st);
    if (fewer && !qc_model_select_again(data, data == eval ? NULL : net->scheme.options, st)) {
        qc_sensitivity_free(s);
        return false;
    }
    ok = ok && (!eval || !net->scheme.options->method.sensitivity || net->scheme.options->data.metric ||
                run_layers(&s, net, eval, which, st));
    return QC_HAND_OVER(ok, out, s, qc_sensitivity_free);
}

static unsigned bits(enum qc_dtype t)
{
    return t == QC_NONE ? 0 : qc_dtype_info(t)->bits;
}

/* Weights below 8 bits go to 8 if the target computes 16-bit weights in float. */
static enum qc_dtype wide_weight(const struct terms *t)
{
    return t->wide_is_float && bits(t->base->weight.dtype) < 8 ? QC_I8 : QC_I16;
}

/* Returns true if inputs are rounded in blocks that may be wider. */
static bool has_wide_blocks(const struct qc_partition_options *base)
{
    return base->activation.format && strcmp(base->activation.format->name, WIDE_FORMAT) != 0;
}

/* Returns true if inputs of products are rounded to floats of few bits. No such type is wider than 8 bits: a layer gets
   float inputs and keeps its weights, or is float. */
static bool has_small_floats(const struct qc_partition_options *base)
{
    return qc_is_small_float(base->activation.dtype);
}

/* Widens the weights or the activations, whichever lose more. With activations in blocks, whose noise is not measured,
   both. */
static enum remedy remedy_in(const struct terms *t, const struct qc_layer_effect *e, enum rung rung)
{
    const unsigned activation = bits(t->base->activation.dtype), weight = bits(t->base->weight.dtype);
    if (!*e->name) return KEEP;
    if (rung == FLOATS) return t->integer ? KEEP : IN_FLOAT;
    if (has_wide_blocks(t->base)) return WIDE_BLOCKS;
    const bool weights = isfinite(e->noise_weights) && e->noise_weights > e->noise / 2;
    if (has_small_floats(t->base)) return weights ? IN_FLOAT : FLOAT_INPUTS;
    if (weights && weight < bits(wide_weight(t))) return wide_weight(t) == QC_I8 ? BYTES_OF_WEIGHTS : WIDE_WEIGHTS;
    const bool again = t->rounds_again && isfinite(e->noise_weights) && strcmp(e->op, "Conv") != 0;
    if (!weights && activation && activation <= 8 && !again) return WIDE_ACTIVATIONS;
    return t->integer ? KEEP : IN_FLOAT;
}

/* Adds the options that change a layer; none if it keeps its types. */
static bool add_remedy(struct qc_change *to, const struct terms *t, const struct qc_layer_effect *e, enum remedy remedy,
                       struct qc_arena *a, struct qc_status *st)
{
    static const char activations[] = "activation-type", weights[] = "weight-type";
    const char *glob = qc_glob_of_name(e->name, a, st), *type = "none";
    const enum qc_dtype activation = t->base->activation.dtype;
    if (!glob) return false;
    switch (remedy) {
    case KEEP: return true;
    case IN_FLOAT: return qc_change_add(to, "skip", glob, a, st);
    case WIDE_WEIGHTS:
    case BYTES_OF_WEIGHTS:
        type = remedy == WIDE_WEIGHTS ? "int16" : "int8";
        return qc_change_add(to, weights, qc_arena_printf(a, st, "%s:%s", type, glob), a, st);
    case WIDE_ACTIVATIONS: type = activation == QC_I8 || activation == QC_I4 ? "int16" : "uint16"; break;
    case WIDE_BLOCKS: type = WIDE_FORMAT; break;
    case FLOAT_INPUTS: break;
    }
    return qc_change_add(to, activations, qc_arena_printf(a, st, "%s:%s", type, glob), a, st) &&
           (type != WIDE_FORMAT || bits(t->base->weight.dtype) >= 8 ||
            qc_change_add(to, weights, qc_arena_printf(a, st, "int8:%s", glob), a, st));
}

/* What a layer reads and writes. */
enum { WIRES = 3 };
struct wires {
    const char *feeders[WIRES]; /* layers that compute its inputs; NULL: none */
    qc_id inputs[WIRES];        /* their quantizers in the simulated graph; 0: none */
    qc_id weight, result;       /* quantizers; result: if a layer reads it */
    bool product;
    qc_id factors[2]; /* quantizers of a product */
    size_t next[2];   /* the number, from 1 on, of the next product with this factor; 0: none */
};

struct widening {
    const struct qc_sensitivity *s;
    struct terms terms;
    struct wires *wires; /* [s->count] */
    size_t quantizers;
    bool *wide;    /* [quantizers + 1]: more than 8 bits, by the base types */
    size_t *first; /* [quantizers + 1]: the number, from 1 on, of the first product with this factor; 0: none */
};

/* Returns the quantizer of a value that a node reads; 0 if it is in float. */
static qc_id quantizer_of(const struct qc_graph *g, qc_id v)
{
    const struct qc_node *d = qc_node_of(g, v);
    const qc_id q = g->values[d && d->op == QC_OP_Dequantize ? d->inputs[0] : v].type.qparams;
    return q != QC_REAL && g->qparams_of[q].kind == QC_QPARAMS_QUANTIZER ? q : 0;
}

/* Returns the name of the operator that computes a value, behind conversions and operators that pass on parameters;
   NULL if there is none. */
static const char *feeder_of(const struct qc_uses *uses, qc_id value)
{
    const struct qc_graph *g = uses->graph;
    for (const struct qc_node *n; value && (n = qc_node_of(g, value)); value = n->inputs[0]) {
        const enum qc_affine_behaviour affine = qc_node_affine(n);
        if (affine == QC_AFFINE_PRODUCT || affine == QC_AFFINE_MERGE) return qc_layer_name(uses, (qc_id)(n - g->nodes));
        if (affine != QC_AFFINE_KEEP && affine != QC_AFFINE_BOUND && !qc_op_is_conversion(n->op)) return NULL;
    }
    return NULL;
}

/* Sets *w for the layers of a network, in the arena. */
static bool begin_widening(struct widening *w, const struct qc_network *net, const struct qc_scheme *base,
                           const struct qc_sensitivity *s, struct qc_arena *a, struct qc_status *st)
{
    const struct qc_graph *g = net->simulated;
    struct qc_texts layers = {0};
    struct qc_uses uses;
    const struct qc_target *target = base->options->graph.runs_on;
    const bool integer = base->options->graph.require_integer;
    *w = (struct widening){.s = s,
                           .terms = {.base = &base->partition,
                                     .integer = integer,
                                     .rounds_again = target->onnxruntime && !integer,
                                     .wide_is_float = target->wide_is_float && !integer},
                           .wires = QC_NEW_ARRAY(a, struct wires, s->count + 1, st),
                           .quantizers = g->qparams_count,
                           .wide = QC_NEW_ARRAY(a, bool, g->qparams_count + 1, st),
                           .first = QC_NEW_ARRAY(a, size_t, g->qparams_count + 1, st)};
    if (!w->wires || !w->wide || !w->first || !qc_uses_of(&uses, g, a, st)) return false;
    for (qc_id q = 1; q <= g->qparams_count; q++)
        w->wide[q] = g->qparams_of[q].kind == QC_QPARAMS_QUANTIZER && bits(g->qparams_of[q].dtype) > 8;
    for (size_t i = 0; i < s->count; i++)
        if (*s->layers[i].name && !qc_texts_set(&layers, s->layers[i].name, i + 1, a, st)) return false;
    for (qc_id id = 1; id <= g->node_count; id++) {
        const struct qc_node *n = &g->nodes[id];
        const char *name = qc_layer_name(&uses, id);
        const size_t layer = *name ? qc_texts_find(&layers, name) : 0;
        if (!layer || strcmp(qc_op_info(n->op)->name, s->layers[layer - 1].op) != 0) continue;
        struct wires *to = &w->wires[layer - 1];
        const qc_id weight = qc_second_moments_weight(g, n);
        to->product = qc_node_affine(n) == QC_AFFINE_PRODUCT;
        to->weight = weight ? quantizer_of(g, weight) : 0;
        for (unsigned i = 0; i < n->input_count && i < WIRES; i++) {
            const char *feeder = feeder_of(&uses, n->inputs[i]);
            const size_t known = feeder ? qc_texts_find(&layers, feeder) : 0;
            if (n->inputs[i] && n->inputs[i] != weight) to->inputs[i] = quantizer_of(g, n->inputs[i]);
            if (!known) continue;
            to->feeders[i] = s->layers[known - 1].name;
            w->wires[known - 1].result = to->inputs[i];
        }
    }
    for (size_t i = 0; i < s->count; i++) {
        struct wires *l = &w->wires[i];
        if (!l->product) continue;
        l->factors[0] = l->inputs[0];
        l->factors[1] = l->weight ? l->weight : l->inputs[1];
        for (unsigned k = 0; k < 2 && l->factors[k] != (k ? l->factors[0] : 0); k++) {
            l->next[k] = w->first[l->factors[k]];
            w->first[l->factors[k]] = i + 1;
        }
    }
    return true;
}

/* Widens some quantizers. Returns false and changes nothing if a product had no room for that. */
static bool widen(bool *wide, const struct widening *w, const qc_id *of, size_t count)
{
    qc_id now[WIRES + 1];
    size_t changed = 0;
    bool room = true;
    for (size_t i = 0; i < count; i++)
        if (of[i] && !wide[of[i]]) wide[now[changed++] = of[i]] = true;
    /* A product must not multiply a factor by one of more than 8 bits: 32-bit sums have no room for them. */
    for (size_t i = 0; i < changed; i++)
        for (size_t k = w->first[now[i]]; room && k;) {
            const struct wires *l = &w->wires[k - 1];
            room = !wide[l->factors[0]] || !wide[l->factors[1]];
            k = l->next[l->factors[0] != now[i]];
        }
    while (!room && changed) wide[now[--changed]] = false;
    return room;
}

/* Adds the options that change layers from .. end - 1. Activations are widened before weights. A layer whose types have
   no room in 32-bit sums gets weights of 8 bits, or is float. */
static bool add_remedies(struct qc_change *to, const struct widening *w, size_t from, size_t end, enum rung rung,
                         struct qc_arena *a, struct qc_status *st)
{
    const enum remedy otherwise = w->terms.integer ? KEEP : IN_FLOAT;
    bool *wide = QC_NEW_ARRAY(a, bool, w->quantizers + 1, st);
    enum remedy *of = QC_NEW_ARRAY(a, enum remedy, end, st);
    if (!wide || !of) return false;
    memcpy(wide, w->wide, w->quantizers + 1);
    for (size_t i = from; i < end; i++) {
        const struct wires *l = &w->wires[i];
        const qc_id touched[WIRES + 1] = {l->inputs[0], l->inputs[1], l->inputs[2], l->result};
        of[i] = remedy_in(&w->terms, &w->s->layers[i], rung);
        if (of[i] == WIDE_ACTIVATIONS && !widen(wide, w, touched, WIRES + 1)) of[i] = otherwise;
    }
    for (size_t i = from; i < end; i++)
        if (of[i] == WIDE_WEIGHTS && !widen(wide, w, &w->wires[i].weight, 1))
            of[i] = bits(w->terms.base->weight.dtype) < 8 ? BYTES_OF_WEIGHTS : otherwise;
    for (size_t i = from; i < end; i++)
        if (!add_remedy(to, &w->terms, &w->s->layers[i], of[i], a, st)) return false;
    return true;
}

bool qc_layer_remedies(struct qc_change *to, const struct qc_network *net, const struct qc_sensitivity *s, size_t from,
                       size_t end, bool in_float, struct qc_arena *a, struct qc_status *st)
{
    struct widening w;
    return begin_widening(&w, net, &net->scheme, s, a, st) &&
           add_remedies(to, &w, from, end, in_float ? FLOATS : WIDE, a, st);
}

/* Tries the first `layers` layers. *good: they are enough for a demand, or else the best so far. *over: more of them
   cannot be better. */
static bool try_layers(bool *good, bool *over, struct qc_attempts *t, const struct widening *w, size_t layers,
                       enum rung rung, struct qc_status *st)
{
    struct qc_attempted *step;
    struct qc_change change = {.met = true};
    const bool fed = rung == FLOATS && !w->terms.integer && !t->demanded;
    *good = *over = false;
    for (size_t i = 0; fed && i < layers; i++) {
        /* Add a layer in float. If its noise is that of its inputs, their feeders are in float, too: what they store is
           rounded. */
        const struct qc_layer_effect *e = &w->s->layers[i];
        const struct wires *f = &w->wires[i];
        const bool weights = isfinite(e->noise_weights) && e->noise_weights > e->noise / 2;
        for (size_t k = 0; k < (weights ? 1 : WIRES + 1); k++) {
            const char *name = k ? f->feeders[k - 1] : e->name,
                       *glob = name && *name ? qc_glob_of_name(name, t->c->arena, st) : "";
            if (!glob) return false;
            bool skipped = false;
            for (size_t n = 0; n < change.count; n++)
                skipped = skipped ||
                          (strcmp(change.options[n].name, "skip") == 0 && strcmp(change.options[n].value, glob) == 0);
            if (*glob && !skipped && !qc_change_add(&change, "skip", glob, t->c->arena, st)) return false;
        }
    }
    if (!fed && !add_remedies(&change, w, 0, layers, rung, t->c->arena, st)) return false;
    if (!change.count) return true;
    if (fed) layers = change.count;
    if (fed && layers == t->change.count && t->steps[t->best].layers == layers) { /* the feeders are known */
        *good = true;
        return true;
    }
    const char *name = rung == FLOATS                    ? "float"
                       : has_small_floats(w->terms.base) ? "float with quantized weights"
                       : has_wide_blocks(w->terms.base) || wide_weight(&w->terms) == QC_I8 ? "wider types"
                                                                                           : "16 bits";
    if (!qc_attempt(&step, t, &change, layers, name, st)) return false;
    *good = t->demanded ? step->met : step == &t->steps[t->best];
    *over = qc_attempts_over(t, step);
    return true;
}

/* Follows one rung: doubles the number of layers while that can be better, then halves the interval below the best. */
static bool follow_rung(struct qc_attempts *t, const struct widening *w, enum rung rung, struct qc_status *st)
{
    const size_t all = w->s->count;
    size_t below = 0, best = 0;
    bool good, over = false;
    /* One fewer than all comes before all: with all layers in float nothing is quantized. */
    for (size_t n = 1, last = 0; n <= all && !over; last = n, n = 2 * n < all   ? 2 * n
                                                                  : n + 1 < all ? all - 1
                                                                  : n < all     ? all
                                                                                : all + 1) {
        if (!try_layers(&good, &over, t, w, n, rung, st)) return false;
        if (!good) continue;
        below = last;
        best = n;
    }
    while (best > below + 1) {
        const size_t middle = below + (best - below) / 2;
        if (!try_layers(&good, &over, t, w, middle, rung, st)) return false;
        *(good ? &best : &below) = middle;
    }
    return true;
}

bool qc_widen_layers(struct qc_attempts *t, const struct qc_sensitivity *effects, struct qc_status *st)
{
    struct widening w;
    bool wider;
    if (!begin_widening(&w, t->c->network, &t->base, effects, t->c->arena, st)) return false;
    /* True if some layer can have wider types that are not float. */
    struct qc_change all = {0};
    if (!add_remedies(&all, &w, 0, w.s->count, WIDE, t->c->arena, st)) return false;
    wider = false;
    for (size_t i = 0; i < all.count; i++) wider = wider || strcmp(all.options[i].name, "skip") != 0;
    if (!wider) return follow_rung(t, &w, FLOATS, st);
    /* The rung that is likely cheaper comes first: it stops the other one early. */
    const bool float_first = t->demanded && w.terms.wide_is_float && t->base.partition.prefer == QC_PREFER_SPEED &&
                             !has_small_floats(w.terms.base) && wide_weight(&w.terms) != QC_I8;
    return follow_rung(t, &w, float_first ? FLOATS : WIDE, st) && follow_rung(t, &w, float_first ? WIDE : FLOATS, st);
}

bool qc_fall_back(struct qc_json **out, struct qc_standing *has, struct qc_demand *d,
                  const struct qc_sensitivity *effects, struct qc_status *st)
{
    struct qc_attempts t;
    return qc_attempts_begin(&t, d, has, true, st) && qc_widen_layers(&t, effects, st) &&
           qc_attempts_end(out, has, &t, st);
}
