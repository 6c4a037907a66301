// SPDX-License-Identifier: Apache-2.0
#include "quantize/demand/fit_size.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "calib/metrics/sensitivity.h"
#include "graph/core/uses.h"
#include "quantize/demand/fallback.h"
#include "quantize/pipeline.h"
#include "quantize/report/layer_detail.h"
#include "quantize/report/size_frontier.h"
#include "quantize/report/size_report.h"
#include "rewrite/passes/partition.h"

/* BATCHES: batches for measuring the effect of a layer. ATTEMPTS: largest number of files that are made until one is
   small enough. */
enum { BATCHES = 16, ATTEMPTS = 8 };

/* No width of 3 bits: files store 3 bits in 4, so they are no smaller, and less accurate. */
static const unsigned widths[QC_SIZE_WIDTHS] = {[QC_SIZE_8] = 8, [QC_SIZE_4] = 4, [QC_SIZE_2] = 2};
static const double ERROR_MAX = 1e30;

/* A weight; options set its type by the name of the layer that reads it. */
struct weight {
    const char *name;              /* of its qparams */
    size_t unit;                   /* its layer */
    bool judged[QC_SIZE_WIDTHS];   /* `error` is known, from second moments */
    double error[QC_SIZE_WIDTHS];  /* sum over the layer's outputs of the mean squared error */
    double square[QC_SIZE_WIDTHS]; /* squared error of the weights, relative to their squares */
    size_t bytes[QC_SIZE_WIDTHS];
};

struct fitting {
    struct qc_pipeline *p;
    struct qc_partition_options base;
    struct qc_calibration_options ranges; /* of the job's options */
    bool there[QC_SIZE_WIDTHS];           /* the width is possible */
    size_t file[QC_SIZE_WIDTHS];          /* bytes with all weights in this width */
    size_t weight_count, unit_count;
    struct weight *weights;
    struct qc_size_layer *units;
    bool of_outputs;
};

static struct qc_type_choice type_of(const struct fitting *f, unsigned width)
{
    const bool is_signed = qc_dtype_info(f->base.weight.dtype)->is_signed;
    if (width == QC_SIZE_8) return (struct qc_type_choice){.dtype = is_signed ? QC_I8 : QC_U8};
    return (struct qc_type_choice){.dtype = is_signed ? QC_I4 : QC_U4, .bits = width == QC_SIZE_2 ? 2 : 0};
}

/* ---- Layers ---- */

static bool is_weight(const struct qc_graph *g, const struct qc_node *n)
{
    const struct qc_qparams *s = &g->qparams_of[g->values[n->outputs].type.qparams];
    const struct qc_tensor *t = n->op == QC_OP_Quantize ? qc_constant_of(g, n->inputs[0]) : NULL;
    return t && t->dtype == QC_F32 && s->kind == QC_QPARAMS_QUANTIZER && s->is_weight && !s->given &&
           s->state == QC_QPARAMS_BOUND;
}

/* Returns the node that reads a weight, looking through Dequantize, Reshape and Transpose; 0 if none does. */
static qc_id reader_of(const struct qc_uses *u, qc_id value)
{
    for (;;) {
        const struct qc_use_list readers = qc_readers(u, value);
        const qc_id id = readers.count ? readers.of[0].node : 0;
        if (!id) return 0;
        const enum qc_op op = u->graph->nodes[id].op;
        if (op != QC_OP_Dequantize && op != QC_OP_Reshape && op != QC_OP_Transpose) return id;
        value = u->graph->nodes[id].outputs;
    }
}

static size_t unit_named(struct fitting *f, const char *name)
{
    size_t k = 0;
    while (k < f->unit_count && strcmp(f->units[k].node, name) != 0) k++;
    if (k == f->unit_count) f->units[f->unit_count++] = (struct qc_size_layer){.node = name};
    return k;
}

static struct weight *weight_named(const struct fitting *f, const char *name)
{
    for (size_t i = 0; i < f->weight_count; i++)
        if (strcmp(f->weights[i].name, name) == 0) return &f->weights[i];
    return NULL;
}

static bool find_layers(struct fitting *f, struct qc_status *st)
{
    const struct qc_graph *g = f->p->simulated;
    struct qc_arena *a = f->p->arena;
    struct qc_uses uses;
    f->weights = QC_NEW_ARRAY(a, struct weight, g->node_count, st);
    f->units = QC_NEW_ARRAY(a, struct qc_size_layer, g->node_count, st);
    if (!f->weights || !f->units || !qc_uses_of(&uses, g, a, st)) return false;
    for (qc_id id = 1; id <= g->node_count; id++) {
        const struct qc_node *n = &g->nodes[id];
        if (!is_weight(g, n)) continue;
        const qc_id reader = reader_of(&uses, n->outputs);
        const char *name = qc_arena_strdup(a, reader ? qc_layer_name(&uses, reader) : "", st),
                   *quantizer = qc_arena_strdup(a, g->qparams_of[g->values[n->outputs].type.qparams].name, st);
        if (!name || !quantizer) return false;
        if (!*name || weight_named(f, quantizer)) continue; /* no option can name it, or it is listed already */
        f->weights[f->weight_count++] = (struct weight){.name = quantizer, .unit = unit_named(f, name)};
    }
    for (size_t k = 0; k < f->unit_count; k++)
        if (!(f->units[k].glob = qc_glob_of_name(f->units[k].node, a, st))) return false;
    return true;
}

/* ---- Error of each width ---- */

static void note_moments(struct fitting *f, unsigned width)
{
    const struct qc_weight_rounding *w = f->p->weight_rounding;
    for (size_t i = 0; w && i < w->count; i++) {
        struct weight *to = w->layers[i].quantizer && !w->layers[i].reason ? weight_named(f, w->layers[i].name) : NULL;
        if (!to) continue;
        to->judged[width] = true;
        to->error[width] = w->layers[i].error * (double)w->layers[i].outputs;
    }
}

static bool note(struct fitting *f, unsigned width, struct qc_status *st)
{
    const struct qc_pipeline *p = f->p;
    const struct qc_graph *g = p->simulated, *rounded = p->rounded ? p->rounded : g;
    const struct qc_tensor **made = QC_NEW_ARRAY(p->arena, const struct qc_tensor *, g->qparams_count + 1, st);
    if (!made) return false;
    for (qc_id id = 1; id <= rounded->node_count; id++) {
        const qc_id s = rounded->values[rounded->nodes[id].outputs].type.qparams;
        if (is_weight(rounded, &rounded->nodes[id])) made[s] = qc_constant_of(rounded, rounded->nodes[id].inputs[0]);
    }
    for (qc_id id = 1; id <= g->node_count; id++) {
        const struct qc_node *n = &g->nodes[id];
        if (!is_weight(g, n)) continue;
        const struct qc_type *type = &g->values[n->outputs].type;
        const struct qc_qparams *s = &g->qparams_of[type->qparams];
        const struct qc_tensor *t = qc_constant_of(g, n->inputs[0]), *to = made[type->qparams];
        struct weight *w = weight_named(f, s->name);
        struct qc_loss loss;
        if (!w) continue;
        qc_weight_loss(&loss, t, to && to->count == t->count ? to : t, s, type->axis);
        w->square[width] = loss.signal > 0 ? (loss.rounding + loss.clipping) / loss.signal : 0;
        w->bytes[width] = qc_export_weight_bytes(s, &t->shape);
    }
    note_moments(f, width);
    return true;
}

static bool file_bytes(size_t *out, const struct qc_pipeline *p, struct qc_status *st)
{
    *out = 0;
    for (size_t i = 0; i < p->from->lowered_count; i++) {
        size_t bytes = 0;
        if (p->lowered[i] && !qc_export_bytes(&bytes, p->from->exporters[i], p->lowered[i], st)) return false;
        *out = bytes > *out ? bytes : *out;
    }
    return true;
}

/* Runs the stages again with the chosen width of each layer. Types that the options give by name still hold. */
static bool again(struct fitting *f, struct qc_status *st)
{
    const struct qc_partition_options *b = &f->base;
    struct qc_type_choice *types =
        QC_NEW_ARRAY(f->p->arena, struct qc_type_choice, b->weight_type_count + f->unit_count, st);
    struct qc_partition_options to = *b;
    if (!types) return false;
    for (size_t k = 0; k < f->unit_count; k++) {
        types[k] = type_of(f, f->units[k].width);
        types[k].glob = f->units[k].glob;
    }
    for (size_t i = 0; i < b->weight_type_count; i++) types[f->unit_count + i] = b->weight_types[i];
    to.weight_types = types;
    to.weight_type_count = f->unit_count + b->weight_type_count;
    f->p->scheme = to;
    return qc_pipeline_again(f->p, st);
}

/* Measures file size and error with all layers in one width. made: p has that width already. there[width] is false if a
   file format or an operator does not support the width. */
static bool measure_width(struct fitting *f, unsigned width, bool made, struct qc_status *st)
{
    struct qc_status why = QC_STATUS_INIT;
    for (size_t k = 0; k < f->unit_count; k++) f->units[k].width = width;
    f->there[width] = (made || again(f, &why)) && file_bytes(&f->file[width], f->p, &why) && note(f, width, &why);
    return f->there[width] || why.code == QC_UNSUPPORTED || why.code == QC_USAGE ||
           qc_fail(st, why.code, "%s", why.message);
}

/* Returns the error of a layer's weights: from second moments if all possible widths have it, else relative squares. */
static double loss_of(const struct fitting *f, size_t unit, unsigned width)
{
    double by_moments = 0, by_square = 0;
    bool judged = true;
    for (size_t i = 0; i < f->weight_count; i++) {
        const struct weight *w = &f->weights[i];
        if (w->unit != unit) continue;
        for (unsigned k = 0; k < QC_SIZE_WIDTHS; k++) judged = judged && (!f->there[k] || w->judged[k]);
        by_moments += w->error[width];
        by_square += w->square[width];
    }
    return judged ? by_moments : by_square;
}

static double relative_square(const struct fitting *f, size_t unit, unsigned width)
{
    double sum = 0;
    for (size_t i = 0; i < f->weight_count; i++)
        if (f->weights[i].unit == unit) sum += f->weights[i].square[width];
    return sum;
}

static double bounded(double error)
{
    return error >= 0 && error < ERROR_MAX ? error : ERROR_MAX;
}

/* Measures the output noise of each single layer with weights of the given width. Without samples, and for layers that
   are not measured, the relative squared error of the weights takes its place. */
static bool probe(struct fitting *f, unsigned width, struct qc_status *st)
{
    struct qc_pipeline *p = f->p;
    struct qc_sensitivity *s = NULL;
    f->of_outputs = p->from->data || p->from->eval;
    if (!f->of_outputs) {
        for (size_t k = 0; k < f->unit_count; k++) f->units[k].noise = bounded(relative_square(f, k, width));
        qc_warn(p->warnings, "--size: without samples the effect of layers on the outputs is unknown; the bits are "
                             "chosen by the error of the weights alone");
        return true;
    }
    if (!qc_measure_sensitivity(&s, p, p->from->data ? NULL : p->from->eval, BATCHES, NULL, 0, st)) return false;
    for (size_t k = 0; k < f->unit_count; k++) {
        double noise = 0;
        bool known = false;
        for (size_t i = 0; i < s->count; i++) {
            if (isnan(s->layers[i].noise_weights) || strcmp(s->layers[i].name, f->units[k].node) != 0) continue;
            noise += s->layers[i].noise_weights;
            known = true;
        }
        f->units[k].noise = bounded(known ? noise : relative_square(f, k, width));
    }
    qc_sensitivity_free(s);
    return true;
}

/* ---- The choice ---- */

/* Bytes of a file with all layers in one width, without their weights. */
static int64_t beside(const struct fitting *f, unsigned width)
{
    int64_t rest = (int64_t)f->file[width];
    for (size_t i = 0; i < f->weight_count; i++) rest -= (int64_t)f->weights[i].bytes[width];
    return rest;
}

/* Bytes of a layer in one width: its weights, and an equal share of what this width costs beside the weights (such as
   additional operators), compared with 8 bits. */
static size_t bytes_of(const struct fitting *f, size_t unit, unsigned width)
{
    int64_t sum = (beside(f, width) - beside(f, QC_SIZE_8)) / (int64_t)f->unit_count;
    for (size_t i = 0; i < f->weight_count; i++)
        if (f->weights[i].unit == unit) sum += (int64_t)f->weights[i].bytes[width];
    return sum > 0 ? (size_t)sum : 0;
}

static void fill_units(struct qc_size_unit *units, const struct fitting *f, unsigned probed)
{
    for (size_t k = 0; k < f->unit_count; k++) {
        const double there = loss_of(f, k, probed);
        for (unsigned width = 0; width < QC_SIZE_WIDTHS; width++) {
            struct qc_size_point *to = &units[k].points[units[k].count];
            if (!f->there[width]) continue;
            *to =
                (struct qc_size_point){.bytes = bytes_of(f, k, width),
                                       .error =
                                           there > 0 ? bounded(f->units[k].noise * (loss_of(f, k, width) / there)) : 0};
            units[k].count++;
        }
    }
}

/* Returns the width of point number `point`, which is the same for all units. */
static unsigned width_at(const struct fitting *f, size_t point)
{
    unsigned width = 0;
    for (size_t seen = 0;; width++)
        if (f->there[width] && seen++ == point) return width;
}

static void take(struct fitting *f, const struct qc_size_unit *units, const size_t *points)
{
    for (size_t k = 0; k < f->unit_count; k++) {
        f->units[k].width = width_at(f, points[k]);
        f->units[k].bits = widths[f->units[k].width];
        f->units[k].bytes = units[k].points[points[k]].bytes;
        f->units[k].error = units[k].points[points[k]].error;
    }
}

static bool too_small(const struct fitting *f, size_t limit, size_t least, struct qc_status *st)
{
    return qc_fail(
        st, QC_DEMAND,
        "--size %s: the limit is %zu bytes, and the smallest possible file has %zu bytes%s; no model was written",
        f->p->options->size, limit, least,
        f->there[QC_SIZE_2] ? "" : " (with --weight-block 32 weights can have 2 bits)");
}

/* Runs the chosen widths once more with refined weights (quantize/trials/cross_rounding.h); if the file is too large
   then, without. */
static bool make_sized(struct qc_size_result *r, struct fitting *f, struct qc_status *st)
{
    size_t bytes;
    f->p->sized = true;
    if (!again(f, st) || !file_bytes(&bytes, f->p, st)) return false;
    if (bytes > r->limit) {
        f->p->sized = false;
        return again(f, st) && file_bytes(&r->bytes, f->p, st);
    }
    r->bytes = bytes;
    return true;
}

/* Chooses the widths and runs the stages until the file fits: r->beside, the bytes beside the weights, grows by the
   excess of each file. */
static bool settle(struct qc_size_result *r, struct fitting *f, struct qc_status *st)
{
    size_t *points = QC_NEW_ARRAY(f->p->arena, size_t, f->unit_count, st);
    if (!points) return false;
    r->beside = beside(f, QC_SIZE_8) > 0 ? (size_t)beside(f, QC_SIZE_8) : 0;
    for (int i = 0; i < ATTEMPTS; i++) {
        const size_t left = r->limit > r->beside ? r->limit - r->beside : 0;
        const bool least = !qc_size_choose(points, &r->chosen, &r->frontier, left);
        take(f, r->units, least ? r->frontier.first : points);
        if (!again(f, st) || !file_bytes(&r->bytes, f->p, st)) return false;
        if (r->bytes <= r->limit) {
            if (least) r->chosen = (struct qc_size_point){r->frontier.least_bytes, r->frontier.least_error};
            return make_sized(r, f, st);
        }
        if (least) return too_small(f, r->limit, r->bytes, st);
        r->beside += r->bytes - r->limit;
    }
    return too_small(f, r->limit, r->bytes, st);
}

static size_t limit_of(const struct qc_pipeline *p)
{
    const struct qc_options *o = p->options;
    if (o->size_bytes) return (size_t)o->size_bytes;
    const double bytes = o->size_percent / 100 * (double)p->from->model.graph->budget.model_bytes;
    return bytes < (double)(SIZE_MAX / 2) ? (size_t)bytes : SIZE_MAX / 2;
}

static bool fit(struct qc_size_result *r, struct fitting *f, struct qc_status *st)
{
    struct qc_calibration_options *c = &f->p->calibration_options;
    /* Trials of observers take long and do not matter here: only weights are compared. */
    if (c->activation->of_network && !qc_observer_parse(&c->activation, &c->activation_values, "mse", st)) return false;
    const bool blocks = f->base.weight_block != 0;
    bool ok = measure_width(f, QC_SIZE_4, true, st);
    const unsigned probed = f->there[QC_SIZE_4] ? QC_SIZE_4 : QC_SIZE_8;
    ok = ok && (probed == QC_SIZE_8 || probe(f, probed, st)) && measure_width(f, QC_SIZE_8, false, st) &&
         (f->there[QC_SIZE_8] || qc_fail(st, QC_UNSUPPORTED, "--size: weights of 8 bits cannot be written")) &&
         (probed == QC_SIZE_4 || probe(f, probed, st)) && (!blocks || measure_width(f, QC_SIZE_2, false, st));
    c->activation = f->ranges.activation;
    c->activation_values = f->ranges.activation_values;
    if (!ok) return false;
    struct qc_size_unit *units = QC_NEW_ARRAY(f->p->arena, struct qc_size_unit, f->unit_count, st);
    if (!units) return false;
    fill_units(units, f, probed);
    r->units = units;
    for (unsigned width = 0; width < QC_SIZE_WIDTHS; width++) r->file[width] = f->there[width] ? f->file[width] : 0;
    return qc_size_frontier(&r->frontier, units, f->unit_count, f->p->arena, st) && settle(r, f, st);
}

bool qc_fit_size(struct qc_report_size **out, struct qc_pipeline *p, struct qc_status *st)
{
    const double t0 = qc_seconds();
    struct fitting f = {.p = p, .base = p->scheme, .ranges = p->calibration_options};
    struct qc_size_result r = {.limit = limit_of(p)};
    f.base.weight.dtype = type_of(&f, QC_SIZE_8).dtype; /* of weights that no option can name */
    f.base.weight_types++;                              /* drops the first entry: 4 bits, which --size begins with
                                                           (quantize/options/scheme_options.c) */
    f.base.weight_type_count--;
    if (!find_layers(&f, st) || !fit(&r, &f, st)) return false;
    r.of_outputs = f.of_outputs;
    r.layer_count = f.unit_count;
    r.layers = f.units;
    r.is_signed = qc_dtype_info(f.base.weight.dtype)->is_signed;
    if (!qc_size_report(out, p, &r, st)) return false;
    (*out)->seconds = qc_seconds() - t0;
    return true;
}
