// SPDX-License-Identifier: Apache-2.0
/* --size: chooses the bits of each layer's weights, so that the file fits and the outputs lose least. */
#include "quantize/search/searches.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/index.h"
#include "calib/metrics/sensitivity.h"
#include "graph/core/uses.h"
#include "quantize/report/command_text.h"
#include "quantize/report/record.h"
#include "quantize/search/attempts.h"
#include "rewrite/passes/partition.h"

/* The widths of weights. 16 bits are for tables whose rows are gathered alone, with weights in blocks: with all
   products in 8 bits, 8 bits of a table cause most of the loss (rewrite/passes/partition_types.c). */
enum { BITS_8, BITS_4, BITS_2, BITS_16, WIDTHS };

/* A layer and its chosen width; node: the name that options use. The arrays are sums over its weights (add_up). */
struct layer {
    const char *node, *glob;
    bool table;   /* all its weights are tables whose rows are gathered */
    bool judged;  /* the errors of its weights are known in each possible width */
    double noise; /* output noise of this layer alone, in the width that was probed */
    double by_moments[WIDTHS], by_square[WIDTHS];
    size_t weight_bytes[WIDTHS];
    unsigned width, bits;
    size_t bytes;
    double error;
};

/* No width of 3 bits: files store 3 bits in 4, so they are no smaller, and less accurate. */
static const unsigned widths[WIDTHS] = {[BITS_8] = 8, [BITS_4] = 4, [BITS_2] = 2, [BITS_16] = 16};
/* A weight; options set its type by the name of the layer that reads it. */
struct weight {
    const char *name;      /* of its qparams */
    size_t unit;           /* its layer */
    bool judged[WIDTHS];   /* `error` is known, from second moments */
    double error[WIDTHS];  /* sum over the layer's outputs of the mean squared error */
    double square[WIDTHS]; /* squared error of the weights, relative to their squares */
    size_t bytes[WIDTHS];
};

struct fitting {
    struct qc_candidate *c;
    struct qc_scheme base; /* with weights of 8 bits */
    const char *block;     /* number of weights with one scale, as --weight-block; NULL: that of the options */
    bool there[WIDTHS];    /* the width is possible */
    size_t file[WIDTHS];   /* bytes with all weights in this width */
    size_t weight_count, unit_count;
    struct weight *weights;
    struct layer *units;
    struct qc_texts weight_names, unit_names; /* the number is one more than the index */
    bool of_outputs;
    size_t limit, bytes;     /* of the file; bytes: made, or if it did not fit the smallest possible */
    int64_t besides[WIDTHS]; /* bytes of the file beside the weights of these layers, with all in one width */
    size_t beside;           /* the same with the chosen widths, as far as known */
    struct qc_size_unit *points;
    struct qc_size_frontier frontier;
    size_t *choice;              /* [unit_count]: points */
    struct qc_size_point chosen; /* their sums */
    bool least;                  /* the choice is the smallest possible */
};

/* ---- Layers ---- */

static bool is_weight(const struct qc_graph *g, const struct qc_node *n)
{
    const struct qc_qparams *s = &g->qparams_of[g->values[n->outputs].type.qparams];
    const struct qc_tensor *t = n->op == QC_OP_Quantize ? qc_constant_of(g, n->inputs[0]) : NULL;
    return t && t->dtype == QC_F32 && s->kind == QC_QPARAMS_QUANTIZER && s->is_weight && !s->given &&
           s->state == QC_QPARAMS_BOUND;
}

static struct weight *weight_named(const struct fitting *f, const char *name)
{
    const size_t k = qc_texts_find(&f->weight_names, name);
    return k ? &f->weights[k - 1] : NULL;
}

static bool find_layers(struct fitting *f, struct qc_status *st)
{
    const struct qc_graph *g = f->c->network->simulated;
    struct qc_arena *a = f->c->arena;
    struct qc_uses uses;
    f->weights = QC_NEW_ARRAY(a, struct weight, g->node_count, st);
    f->units = QC_NEW_ARRAY(a, struct layer, g->node_count, st);
    if (!f->weights || !f->units || !qc_uses_of(&uses, g, a, st)) return false;
    for (qc_id id = 1; id <= g->node_count; id++) {
        const struct qc_node *n = &g->nodes[id];
        if (!is_weight(g, n)) continue;
        /* The node that reads the weight, behind Dequantize, Reshape and Transpose; 0: none does. */
        qc_id reader = 0;
        for (struct qc_use_list to = qc_readers(&uses, n->outputs); to.count && !reader;) {
            const qc_id at = to.of[0].node;
            const enum qc_op op = g->nodes[at].op;
            if (op == QC_OP_Dequantize || op == QC_OP_Reshape || op == QC_OP_Transpose)
                to = qc_readers(&uses, g->nodes[at].outputs);
            else
                reader = at;
        }
        const char *name = qc_arena_strdup(a, reader ? qc_layer_name(&uses, reader) : "", st),
                   *quantizer = qc_arena_strdup(a, g->qparams_of[g->values[n->outputs].type.qparams].name, st);
        if (!name || !quantizer) return false;
        if (!*name || weight_named(f, quantizer)) continue; /* no option can name it, or it is listed already */
        struct weight *w = &f->weights[f->weight_count++];
        *w = (struct weight){.name = quantizer};
        /* The layer of this name, which is added if it is new. */
        const size_t k = qc_texts_find(&f->unit_names, name);
        w->unit = k ? k - 1 : f->unit_count;
        if (!k) {
            f->units[f->unit_count++] = (struct layer){.node = name, .table = true};
            if (!qc_texts_set(&f->unit_names, name, f->unit_count, f->c->arena, st)) return false;
        }
        if (!qc_texts_set(&f->weight_names, quantizer, f->weight_count, a, st)) return false;
        f->units[w->unit].table = f->units[w->unit].table && g->nodes[reader].op == QC_OP_Gather;
    }
    for (size_t k = 0; k < f->unit_count; k++)
        if (!(f->units[k].glob = qc_glob_of_name(f->units[k].node, a, st))) return false;
    return true;
}

/* ---- Error of each width ---- */

static bool note_width(struct fitting *f, unsigned width, struct qc_status *st)
{
    const struct qc_network *net = f->c->network;
    const struct qc_graph *g = net->simulated;
    const struct qc_tensor **made = QC_NEW_ARRAY(f->c->arena, const struct qc_tensor *, g->qparams_count + 1, st);
    if (!made) return false;
    for (qc_id v = 1; v <= net->rounded->value_count; v++)
        if (qc_constant_of(net->rounded, v))
            made[net->rounded->values[v].type.qparams] = qc_constant_of(net->rounded, v);
    for (qc_id id = 1; id <= g->node_count; id++) {
        const struct qc_node *n = &g->nodes[id];
        if (!is_weight(g, n)) continue;
        const struct qc_type *type = &g->values[n->outputs].type;
        const struct qc_qparams *s = &g->qparams_of[type->qparams];
        const struct qc_tensor *t = qc_constant_of(g, n->inputs[0]), *to = made[type->qparams];
        struct weight *w = weight_named(f, s->name);
        struct qc_loss loss;
        if (!w) continue;
        if (!to || to->count != t->count) continue;
        qc_weight_loss(&loss, t, to, s, type->axis);
        w->square[width] = loss.signal > 0 ? (loss.rounding + loss.clipping) / loss.signal : 0;
        w->bytes[width] = qc_export_weight_bytes(s, &t->shape);
    }
    const struct qc_weight_rounding *w = f->c->network->weight_rounding;
    for (size_t i = 0; w && i < w->count; i++) {
        struct weight *to = w->layers[i].quantizer && !w->layers[i].reason ? weight_named(f, w->layers[i].name) : NULL;
        if (!to) continue;
        to->judged[width] = true;
        to->error[width] = w->layers[i].error * (double)w->layers[i].outputs;
    }
    return true;
}

static bool file_bytes(size_t *out, const struct qc_network *net, struct qc_status *st)
{
    *out = 0;
    for (size_t i = 0; i < net->setup->format_count; i++) {
        size_t bytes = 0;
        if (net->lowered[i] && !qc_export_bytes(&bytes, net->setup->exporters[i], net->lowered[i], st)) return false;
        *out = bytes > *out ? bytes : *out;
    }
    return true;
}

/* Sets *out to the options of the chosen widths; method: NULL, or the observer of activations. Types that the options
   give by name still hold. */
static bool change_widths(struct qc_change *out, const struct fitting *f, const char *method, struct qc_status *st)
{
    struct qc_arena *a = f->c->arena;
    *out = (struct qc_change){.first = true};
    for (size_t k = 0; k < f->unit_count; k++) {
        /* "int4"; a table with 16 bits is signed */
        static const char *const names[WIDTHS] = {
            [BITS_8] = "uint8", [BITS_4] = "uint4", [BITS_2] = "uint2", [BITS_16] = "uint16"};
        const char *type = names[f->units[k].width] +
                           (qc_dtype_info(f->base.partition.weight.dtype)->is_signed || f->units[k].width == BITS_16);
        if (!qc_change_add(out, "weight-type", qc_arena_printf(a, st, "%s:%s", type, f->units[k].glob), a, st))
            return false;
    }
    return (!f->block || qc_change_add(out, "weight-block", f->block, a, st)) &&
           (!method || qc_change_add(out, "method", method, a, st));
}

/* Makes the network with the chosen width of each layer. method: as above. */
static bool again(struct fitting *f, const char *method, struct qc_status *st)
{
    struct qc_change change;
    return change_widths(&change, f, method, st) && qc_candidate_change(f->c, &f->base, &change, st);
}

/* Measures file size and error with all layers in one width, or tables in 16 bits and the others in 8. made: the
   network has that width already. method: as of again. there[width] is false if a file format or an operator does not
   support the width. */
static bool measure_width(struct fitting *f, unsigned width, bool made, const char *method, struct qc_status *st)
{
    struct qc_status why = QC_STATUS_INIT;
    for (size_t k = 0; k < f->unit_count; k++)
        f->units[k].width = width == BITS_16 && !f->units[k].table ? BITS_8 : width;
    f->there[width] = (made || again(f, method, &why)) && file_bytes(&f->file[width], f->c->network, &why) &&
                      note_width(f, width, &why);
    /* Sum the weights of each layer, for the widths that are noted. */
    for (size_t k = 0; k < f->unit_count; k++) {
        struct layer *l = &f->units[k];
        l->judged = true;
        for (unsigned each = 0; each < WIDTHS; each++) {
            l->by_moments[each] = l->by_square[each] = 0;
            l->weight_bytes[each] = 0;
        }
    }
    for (unsigned each = 0; each < WIDTHS; each++) f->besides[each] = (int64_t)f->file[each];
    for (size_t i = 0; i < f->weight_count; i++) {
        const struct weight *w = &f->weights[i];
        struct layer *l = &f->units[w->unit];
        for (unsigned each = 0; each < WIDTHS; each++) {
            l->judged = l->judged && (!f->there[each] || w->judged[each]);
            l->by_moments[each] += w->error[each];
            l->by_square[each] += w->square[each];
            l->weight_bytes[each] += w->bytes[each];
            f->besides[each] -= (int64_t)w->bytes[each];
        }
    }
    return f->there[width] || qc_candidate_refused(NULL, f->c, &why, st);
}

/* Returns the error of a layer's weights: from second moments if all possible widths have it, else relative squares. */
static double loss_of(const struct layer *l, unsigned width)
{
    return l->judged ? l->by_moments[width] : l->by_square[width];
}

static double bounded(double error)
{
    return error >= 0 && error < QC_SIZE_ERROR_MAX ? error : QC_SIZE_ERROR_MAX;
}

/* Measures the output noise of each single layer with weights of the given width. Without samples, and for layers that
   are not measured, the relative squared error of the weights takes its place. */
static bool probe(struct fitting *f, unsigned width, struct qc_status *st)
{
    const struct qc_network *net = f->c->network;
    struct qc_sensitivity *s = NULL;
    f->of_outputs = net->setup->data || net->setup->eval;
    if (!f->of_outputs) {
        for (size_t k = 0; k < f->unit_count; k++) f->units[k].noise = bounded(f->units[k].by_square[width]);
        qc_warn(f->c->warnings, "--size: without samples the effect of layers on the outputs is unknown; the bits are "
                                "chosen by the error of the weights alone");
        return true;
    }
    if (!qc_measure_sensitivity(&s, net, net->setup->data ? NULL : net->setup->eval, QC_MEASURED_BATCHES, NULL, st))
        return false;
    for (size_t k = 0; k < f->unit_count; k++) f->units[k].noise = (double)NAN;
    for (size_t i = 0; i < s->count; i++) {
        const double noise = s->layers[i].noise_weights;
        const size_t k = isnan(noise) ? 0 : qc_texts_find(&f->unit_names, s->layers[i].name);
        if (!k) continue;
        struct layer *l = &f->units[k - 1];
        l->noise = isnan(l->noise) ? noise : l->noise + noise;
    }
    for (size_t k = 0; k < f->unit_count; k++) {
        struct layer *l = &f->units[k];
        l->noise = bounded(isnan(l->noise) ? l->by_square[width] : l->noise);
    }
    qc_sensitivity_free(s);
    return true;
}

/* ---- The choice ---- */

/* Chooses points for a file with f->beside bytes beside the weights. */
static bool choose_points(struct fitting *f, struct qc_status *st)
{
    const size_t left = f->limit > f->beside ? f->limit - f->beside : 0;
    f->least = !qc_size_choose(f->choice, &f->chosen, &f->frontier, left);
    if (!f->least) return qc_size_improve(f->choice, &f->chosen, &f->frontier, left, st);
    f->chosen = (struct qc_size_point){f->frontier.least_bytes, f->frontier.least_error};
    memcpy(f->choice, f->frontier.first, f->unit_count * sizeof *f->choice);
    return true;
}

/* Runs the stages with the chosen widths until the file fits: if it is too large, the next choice expects as many bytes
   beside the weights as it has. Without success *fits is false. */
static bool settle_widths(bool *fits, struct fitting *f, struct qc_status *st)
{
    *fits = false;
    for (int i = 0; i < QC_SIZE_ATTEMPTS; i++) {
        const size_t *points = f->choice;
        for (size_t k = 0; k < f->unit_count; k++) {
            unsigned width = 0; /* of this point, among the widths that there are */
            for (size_t seen = 0; !f->there[width] || seen++ != points[k];) width++;
            f->units[k].width = width;
            f->units[k].bits = widths[f->units[k].width];
            f->units[k].bytes = f->points[k].points[points[k]].bytes;
            f->units[k].error = f->points[k].points[points[k]].error;
        }
        if (!again(f, NULL, st) || !file_bytes(&f->bytes, f->c->network, st)) return false;
        *fits = f->bytes <= f->limit;
        if (*fits || f->least) return true;
        f->beside = f->bytes - f->chosen.bytes; /* more than before: so the next choice is smaller */
        if (!choose_points(f, st)) return false;
    }
    return true;
}

/* Measures every width and chooses. f->beside starts with the least possible. */
static bool measure_widths(struct fitting *f, struct qc_status *st)
{
    /* Trials of observers take long and do not matter here: only weights are compared. */
    const char *method = f->base.calibration.activation->of_network ? "mse" : NULL;
    const bool blocks = f->base.partition.weight_block != 0;
    bool ok = measure_width(f, BITS_4, true, method, st);
    const unsigned probed = f->there[BITS_4] ? BITS_4 : BITS_8;
    bool tables = false;
    for (size_t k = 0; k < f->unit_count; k++) tables = tables || f->units[k].table;
    ok = ok && (probed == BITS_8 || probe(f, probed, st)) && measure_width(f, BITS_8, false, method, st) &&
         (f->there[BITS_8] || qc_fail(st, QC_UNSUPPORTED, "--size: weights of 8 bits cannot be written")) &&
         (probed == BITS_4 || probe(f, probed, st)) && (!blocks || measure_width(f, BITS_2, false, method, st)) &&
         (!blocks || !tables || measure_width(f, BITS_16, false, method, st));
    if (!ok) return false;
    f->points = QC_NEW_ARRAY(f->c->arena, struct qc_size_unit, f->unit_count, st);
    f->choice = QC_NEW_ARRAY(f->c->arena, size_t, f->unit_count, st);
    if (!f->points || !f->choice) return false;
    for (size_t k = 0; k < f->unit_count; k++) {
        const double there = loss_of(&f->units[k], probed);
        for (unsigned width = 0; width < WIDTHS; width++) {
            struct qc_size_point *to = &f->points[k].points[f->points[k].count];
            if (!f->there[width] || (width == BITS_16 && !f->units[k].table)) continue;
            /* Its weights, and an equal share of what this width costs beside the weights (such as additional
               operators), compared with 8 bits. */
            const int64_t bytes = (int64_t)f->units[k].weight_bytes[width] +
                                  (f->besides[width] - f->besides[BITS_8]) / (int64_t)f->unit_count;
            *to = (struct qc_size_point){.bytes = bytes > 0 ? (size_t)bytes : 0,
                                         .error = there > 0 ? bounded(f->units[k].noise *
                                                                      (loss_of(&f->units[k], width) / there))
                                                            : 0};
            f->points[k].count++;
        }
    }
    /* By how many bytes the estimate of a file can be too large: what a width costs beside the weights may
       belong to few layers. */
    int64_t most = 0;
    for (unsigned width = 0; width < WIDTHS; width++) {
        const int64_t more = f->there[width] ? llabs(f->besides[width] - f->besides[BITS_8]) : 0;
        most = more > most ? more : most;
    }
    const int64_t least_beside = f->besides[BITS_8] - most;
    f->beside = least_beside > 0 ? (size_t)least_beside : 0;
    return qc_size_frontier(&f->frontier, f->points, f->unit_count, f->c->arena, st) && choose_points(f, st);
}

/* ---- Blocks ---- */

/* Numbers of weights with one scale that are compared if no --weight-block is given; NULL: a scale per channel. */
static const char *const blocks_tried[] = {NULL, "32", "64", "128", "256"};
enum { BLOCKS_TRIED = sizeof blocks_tried / sizeof *blocks_tried };

/* Sets *out to the scheme of the user's options with another default type of weights, for those that no option can
   name, and blocks of this size (NULL: those of the options). all: the type holds for all weights, also for tables. */
static bool base_scheme(struct qc_scheme *out, const struct qc_scheme *from, const struct qc_setup *s, unsigned bits,
                        const char *block, bool all, struct qc_arena *a, struct qc_status *st)
{
    const char *sign = *s->options->types.weights.items[0] == 'u' ? "u" : "";
    struct qc_change change = {.first = true};
    struct qc_scheme user = *from;
    user.options = s->options;
    return qc_change_add(&change, "weight-type", qc_arena_printf(a, st, "%sint%u", sign, bits), a, st) &&
           (!all || qc_change_add(&change, "weight-type", qc_arena_printf(a, st, "%sint%u:*", sign, bits), a, st)) &&
           (!block || qc_change_add(&change, "weight-block", block, a, st)) &&
           qc_scheme_change(out, &user, s, &change, a, st);
}

bool qc_size_first(struct qc_scheme *out, const struct qc_scheme *from, const struct qc_setup *s, struct qc_arena *a,
                   struct qc_status *st)
{
    return base_scheme(out, from, s, 4, NULL, true, a, st);
}

/* Those that fit come first, by error; the others by size. */
static int by_expectation(const void *x, const void *y)
{
    const struct fitting *a = x, *b = y;
    if (a->least != b->least) return a->least ? 1 : -1;
    const double left = a->least ? (double)a->chosen.bytes : a->chosen.error,
                 right = a->least ? (double)b->chosen.bytes : b->chosen.error;
    if (left < right || left > right) return left < right ? -1 : 1;
    const int64_t p = a->base.partition.weight_block, q = b->base.partition.weight_block;
    return (p > q) - (p < q);
}

/* Makes the best of the files that fit. An expected error only rises while a choice settles, because its bytes beside
   the weights start with the least possible. */
static bool settle(struct fitting **best, struct fitting *fits, size_t count, struct qc_status *st)
{
    const struct fitting *smallest = fits;
    *best = NULL;
    for (size_t i = 0; i < count; i++) {
        bool good;
        if (*best && (fits[i].least || !(fits[i].chosen.error < (*best)->chosen.error))) break;
        if (!settle_widths(&good, &fits[i], st)) return false;
        if (good && (!*best || fits[i].chosen.error < (*best)->chosen.error)) *best = &fits[i];
        if (fits[i].bytes < smallest->bytes) smallest = &fits[i];
    }
    if (*best) {
        /* Run the chosen widths once more with refined weights (quantize/search/cross_rounding.c); if the file is too
           large then, without. */
        struct fitting *f = *best;
        size_t bytes;
        f->base.sized = true;
        if (!again(f, NULL, st) || !file_bytes(&bytes, f->c->network, st)) return false;
        if (bytes > f->limit) {
            f->base.sized = false;
            return again(f, NULL, st) && file_bytes(&f->bytes, f->c->network, st);
        }
        f->bytes = bytes;
        return true;
    }
    return qc_fail(
        st, QC_DEMAND,
        "--size %s: the limit is %zu bytes, and the smallest possible file has %zu bytes%s; no model was written",
        smallest->c->setup->options->demand.size, smallest->limit, smallest->bytes,
        count > 1 || smallest->there[BITS_2] ? "" : " (with --weight-block 32 weights can have 2 bits)");
}

/* ---- The record ---- */

static void add_point(struct qc_json *to, size_t bytes, double error, bool chosen)
{
    qc_json_add(to, QC_JSON("bytes %zu expected_error %g chosen %hhd", bytes, error, chosen));
}

/* Puts the choice into the record. Expected errors are noise-to-signal ratios from rounded weights, of the outputs or,
   without samples, of the weights themselves. */
static bool record_size(struct qc_json *record, const struct fitting *f, const struct fitting *fits, size_t count,
                        struct qc_status *st)
{
    const char *command;
    struct qc_change change;
    if (!change_widths(&change, f, NULL, st)) return false;
    change.without = "size";
    if (!qc_job_command(&command, f->c->setup->in, f->c->setup->options, &change, f->c->arena, st)) return false;
    struct qc_json *layers = qc_json_array(),
                   *o = QC_JSON("limit %zu bytes %zu expected_error %g error_of %s", f->limit, f->bytes,
                                f->chosen.error, f->of_outputs ? "outputs" : "weights");
    for (size_t k = 0; k < f->unit_count; k++)
        qc_json_add(layers, QC_JSON("node %s bits %u bytes %zu expected_error %g", f->units[k].node, f->units[k].bits,
                                    f->units[k].bytes, f->units[k].error));
    qc_json_set(o, "layers", layers);
    /* the files with all layers in one width, for comparison */
    struct qc_json *uniform = qc_json_array();
    for (unsigned width = 0, point = 0; width < WIDTHS; width++) {
        double error = 0;
        if (!f->there[width] || width == BITS_16) continue;
        for (size_t k = 0; k < f->unit_count; k++) error += f->points[k].points[point].error;
        qc_json_add(uniform, QC_JSON("bits %u bytes %zu expected_error %g", widths[width], f->file[width], error));
        point++;
    }
    qc_json_set(o, "uniform", uniform);
    if (count > 1) {
        qc_json_put(o, "weight_block %" PRId64, f->block ? f->base.partition.weight_block : 0);
        /* the numbers of weights with one scale that were compared, in ascending order */
        struct qc_json *blocks = qc_json_array();
        for (size_t b = 0; b < BLOCKS_TRIED; b++)
            for (size_t i = 0; i < count; i++)
                if (fits[i].block == blocks_tried[b])
                    qc_json_add(blocks, QC_JSON("weight_block %" PRId64 " fits %hhd expected_error %g",
                                                fits[i].base.partition.weight_block, (bool)!fits[i].least,
                                                fits[i].chosen.error));
        qc_json_set(o, "blocks", blocks);
    }
    qc_json_set(o, "options", qc_change_json(&change, f->c->arena, st));
    qc_json_put(o, "command %s", command);
    qc_json_set(record, "size", o);
    /* The least error for each size, thinned out to about QC_SIZE_ROWS, with the chosen point at its place. */
    const struct qc_size_frontier *hull = &f->frontier;
    const size_t all = hull->step_count + 1, every = all / QC_SIZE_ROWS + 1;
    const size_t beside = f->bytes > f->chosen.bytes ? f->bytes - f->chosen.bytes : 0; /* bytes beside the layers */
    struct qc_json *rows = qc_json_array();
    bool placed = false;
    for (size_t i = 0; i < all; i++) {
        const size_t bytes = i ? hull->steps[i - 1].bytes : hull->least_bytes;
        if (!placed && bytes >= f->chosen.bytes) add_point(rows, f->bytes, f->chosen.error, true);
        placed = placed || bytes >= f->chosen.bytes;
        if (bytes == f->chosen.bytes || (i % every && i + 1 < all)) continue;
        add_point(rows, bytes + beside, i ? hull->steps[i - 1].error : hull->least_error, false);
    }
    qc_json_set(record, "frontier", rows);
    return st->code == QC_OK;
}

bool qc_fit_size(struct qc_report *r, struct qc_candidate *c, struct qc_status *st)
{
    const double t0 = qc_seconds();
    struct fitting *fits = QC_NEW_ARRAY(c->arena, struct fitting, BLOCKS_TRIED, st);
    struct fitting *best = NULL;
    size_t count;
    if (!fits) return false;
    /* Measure each number of weights with one scale that is possible, into fits [BLOCKS_TRIED]. */
    count = 0;
    for (size_t i = 0; i < BLOCKS_TRIED; i++) {
        struct qc_status why = QC_STATUS_INIT;
        struct qc_scheme first;
        const struct qc_options *o = c->setup->options;
        bool ok = !i || (base_scheme(&first, &c->scheme, c->setup, 4, blocks_tried[i], true, c->arena, &why) &&
                         qc_candidate_make(c, &first, NULL, &why));
        const double bytes = o->demand.size_percent / 100 * (double)c->setup->model.graph->budget.model_bytes;
        struct fitting *f = &fits[count];
        *f = (struct fitting){.c = c,
                              .block = blocks_tried[i],
                              .limit = o->demand.size_bytes             ? (size_t)o->demand.size_bytes
                                       : bytes < (double)(SIZE_MAX / 2) ? (size_t)bytes
                                                                        : SIZE_MAX / 2};
        if (ok && base_scheme(&f->base, &c->scheme, c->setup, 8, f->block, false, c->arena, &why) &&
            find_layers(f, &why) && measure_widths(f, &why))
            ++count;
        else if (!i)
            return qc_fail(st, why.code, "%s", why.message);
        else if (!qc_candidate_refused(NULL, c, &why, st))
            return false;
        /* True if the number of weights with one scale is a choice, too: products read numbers in float, so blocks take
           no operator from the integers. */
        const bool blocks = !o->given[QC_OPTION_WEIGHT_BLOCK] && c->setup->data && !o->types.per_tensor &&
                            !o->graph.runs_on->no_blocks && c->scheme.partition.activation.dtype == QC_NONE &&
                            !c->scheme.partition.dynamic;
        if (!blocks) break;
    }
    qsort(fits, count, sizeof *fits, by_expectation);
    if (!settle(&best, fits, count, st) || !record_size(r->record, best, fits, count, st)) return false;
    qc_json_put(r->timing, "size_seconds %g", qc_seconds() - t0);
    return true;
}
