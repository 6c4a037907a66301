// SPDX-License-Identifier: Apache-2.0
#include "quantize/search/fallback.h"

#include <math.h>
#include <string.h>

#include "base/scope.h"
#include "graph/types/number_format.h"
#include "quantize/search/limits.h"
#include "quantize/setup/model.h"

/* What changes for a layer. */
enum remedy { KEEP, WIDE_ACTIVATIONS, WIDE_WEIGHTS, WIDE_BLOCKS, FLOAT_INPUTS, IN_FLOAT };
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
    const struct qc_selection some = {.samples = batches * qc_dataset_unit_samples(data)};
    const bool fewer = qc_dataset_samples(data) > some.samples;
    struct qc_sensitivity *s = NULL;
    bool ok = (!fewer || qc_dataset_select(data, &some, st)) && run_layers(&s, net, data, which, st);
    if (fewer && !qc_model_select_again(data, data == eval ? NULL : net->scheme.options, st)) {
        qc_sensitivity_free(s);
        return false;
    }
    ok = ok && (!eval || !net->scheme.options->sensitivity || net->scheme.options->metric ||
                run_layers(&s, net, eval, which, st));
    return QC_HAND_OVER(ok, out, s, qc_sensitivity_free);
}

static unsigned bits(enum qc_dtype t)
{
    return t == QC_NONE ? 0 : qc_dtype_info(t)->bits;
}

static struct terms terms_of(const struct qc_scheme *base)
{
    const bool integer = base->options->require_integer;
    return (struct terms){.base = &base->partition,
                          .integer = integer,
                          .rounds_again = base->options->runs_on->onnxruntime && !integer,
                          .wide_is_float = base->options->runs_on->wide_is_float && !integer};
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

/* Widens the weights or the activations, whichever lose more: 32-bit sums have no room for both. With activations in
   blocks, whose noise is not measured, both. */
static enum remedy remedy_in(const struct terms *t, const struct qc_layer_effect *e, enum rung rung)
{
    const unsigned activation = bits(t->base->activation.dtype), weight = bits(t->base->weight.dtype);
    if (!*e->name) return KEEP;
    if (rung == FLOATS) return t->integer ? KEEP : IN_FLOAT;
    if (has_wide_blocks(t->base)) return WIDE_BLOCKS;
    const bool weights = isfinite(e->noise_weights) && e->noise_weights > e->noise / 2;
    if (has_small_floats(t->base)) return weights ? IN_FLOAT : FLOAT_INPUTS;
    if (weights && weight < bits(wide_weight(t)) && activation <= 8) return WIDE_WEIGHTS;
    const bool again = t->rounds_again && isfinite(e->noise_weights) && strcmp(e->op, "Conv") != 0;
    if (!weights && activation && activation <= 8 && weight <= 8 && !again) return WIDE_ACTIVATIONS;
    return t->integer ? KEEP : IN_FLOAT;
}

static const char *rung_name(const struct terms *t, enum rung rung)
{
    if (rung == FLOATS) return "float";
    if (has_small_floats(t->base)) return "float with quantized weights";
    return has_wide_blocks(t->base) || wide_weight(t) == QC_I8 ? "wider types" : "16 bits";
}

static enum qc_dtype wide_activation(const struct qc_partition_options *base)
{
    const enum qc_dtype t = base->activation.dtype;
    return t == QC_I8 || t == QC_I4 ? QC_I16 : QC_U16;
}

/* Adds the options that change a layer; none if it keeps its types. */
static bool add_remedy(struct qc_change *to, const struct terms *t, const struct qc_layer_effect *e, enum rung rung,
                       struct qc_arena *a, struct qc_status *st)
{
    static const char activations[] = "activation-type", weights[] = "weight-type";
    const char *glob = qc_glob_of_name(e->name, a, st), *type = "none";
    if (!glob) return false;
    switch (remedy_in(t, e, rung)) {
    case KEEP: return true;
    case IN_FLOAT: return qc_change_add(to, "skip", glob, a, st);
    case WIDE_WEIGHTS:
        type = wide_weight(t) == QC_I16 ? "int16" : "int8";
        return qc_change_add(to, weights, qc_arena_printf(a, st, "%s:%s", type, glob), a, st);
    case WIDE_ACTIVATIONS: type = wide_activation(t->base) == QC_I16 ? "int16" : "uint16"; break;
    case WIDE_BLOCKS: type = WIDE_FORMAT; break;
    case FLOAT_INPUTS: break;
    }
    return qc_change_add(to, activations, qc_arena_printf(a, st, "%s:%s", type, glob), a, st) &&
           (type != WIDE_FORMAT || bits(t->base->weight.dtype) >= 8 ||
            qc_change_add(to, weights, qc_arena_printf(a, st, "int8:%s", glob), a, st));
}

bool qc_layer_remedy(struct qc_change *to, const struct qc_scheme *scheme, const struct qc_layer_effect *e,
                     bool in_float, struct qc_arena *a, struct qc_status *st)
{
    const struct terms t = terms_of(scheme);
    return add_remedy(to, &t, e, in_float ? FLOATS : WIDE, a, st);
}

struct widening {
    struct qc_attempts *t;
    const struct qc_sensitivity *s;
    struct terms terms;
};

/* Tries the first `layers` layers. *good: they are enough for a demand, or else the best so far. *over: more of them
   cannot be better. */
static bool try_layers(bool *good, bool *over, const struct widening *w, size_t layers, enum rung rung,
                       struct qc_status *st)
{
    struct qc_attempts *t = w->t;
    struct qc_report_fallback_step *step;
    struct qc_change change = {.met = true};
    *good = *over = false;
    for (size_t i = 0; i < layers; i++)
        if (!add_remedy(&change, &w->terms, &w->s->layers[i], rung, t->c->arena, st)) return false;
    if (!change.count) return true;
    if (!qc_attempt(&step, t, &change, layers, rung_name(&w->terms, rung), st)) return false;
    *good = t->demanded ? step->met : step == &t->steps[t->best];
    *over = qc_attempts_over(t, step);
    return true;
}

/* Returns the next number of layers to try. One fewer than all comes before all: with all layers in float nothing is
   quantized. */
static size_t next_number(size_t n, size_t all)
{
    if (2 * n < all) return 2 * n;
    return n + 1 < all ? all - 1 : n < all ? all : all + 1;
}

/* Follows one rung: doubles the number of layers while that can be better, then halves the interval below the best. */
static bool follow_rung(const struct widening *w, enum rung rung, struct qc_status *st)
{
    const size_t all = w->s->count;
    size_t below = 0, best = 0;
    bool good, over = false;
    for (size_t n = 1, last = 0; n <= all && !over; last = n, n = next_number(n, all)) {
        if (!try_layers(&good, &over, w, n, rung, st)) return false;
        if (!good) continue;
        below = last;
        best = n;
    }
    while (best > below + 1) {
        const size_t middle = below + (best - below) / 2;
        if (!try_layers(&good, &over, w, middle, rung, st)) return false;
        *(good ? &best : &below) = middle;
    }
    return true;
}

bool qc_widen_layers(struct qc_attempts *t, const struct qc_sensitivity *effects, struct qc_status *st)
{
    const struct widening w = {.t = t, .s = effects, .terms = terms_of(&t->base)};
    /* The rung that is likely cheaper comes first: it stops the other one early. */
    const bool float_first = t->demanded && w.terms.wide_is_float && t->base.partition.prefer == QC_PREFER_SPEED &&
                             !has_small_floats(w.terms.base) && wide_weight(&w.terms) != QC_I8;
    return follow_rung(&w, float_first ? FLOATS : WIDE, st) && follow_rung(&w, float_first ? WIDE : FLOATS, st);
}

bool qc_fall_back(struct qc_report_fallback **out, struct qc_standing *has, struct qc_demand *d,
                  const struct qc_sensitivity *effects, struct qc_status *st)
{
    struct qc_attempts t;
    return qc_attempts_begin(&t, d, has, true, st) && qc_widen_layers(&t, effects, st) &&
           qc_attempts_end(out, has, &t, st);
}
