// SPDX-License-Identifier: Apache-2.0
/* Where error enters and what to do about it.

   A point is a value whose error against the float network was measured. With N = noise / signal, the op that makes a point adds
   N(point) - max N(points that it reads). The points that add most come first. Why is looked up in what was measured: the loss of the value's
   own parameters, that of the op's weights, and how unlike the channels of what it reads are. Each cause names its remedies in order of
   preference; the first one whose option exists and is not in use becomes the command. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/quantize_report.h"

enum { SHOWN = 3, SKIPS = 4 };

/* A cause must explain at least half of what is added; channels are unlike when the widest is 8 times the median. */
static const double explains = 0.5, unlike = 8;

struct point {
    qc_id node;  /* of p->folded */
    size_t layer; /* or QC_NO_INDEX: a graph output in float */
    double before, after; /* noise / signal */
};

struct finder {
    const struct qc_pipeline *p;
    const struct qc_graph *g; /* folded */
    const struct qc_measurement *m;
    const struct qc_report *r;
    struct qc_status *st;
    double *noise; /* [value_count + 1] */
};

static double ratio(double db)
{
    return isnan(db) ? (double)NAN : pow(10, -db / 10);
}

static size_t layer_of(const struct finder *f, qc_id space)
{
    for (size_t i = 0; space && i < f->r->layer_count; i++)
        if (strcmp(f->r->layers[i].name, f->g->spaces[space].name) == 0) return i;
    return QC_NO_INDEX;
}

/* The layer that an activation lies in; QC_NO_INDEX of weights, accumulators and floats. */
static size_t point_of(const struct finder *f, qc_id v)
{
    qc_id s = f->g->values[v].type.space;
    if (!s || f->g->spaces[s].kind != QC_SPACE_SITE || f->g->spaces[s].is_weight) return QC_NO_INDEX;
    size_t i = layer_of(f, s);
    return i != QC_NO_INDEX && !isnan(f->r->layers[i].sqnr_db) ? i : QC_NO_INDEX;
}

/* Noise / signal of every value; where it was not measured, the largest of what the value is computed from. */
static bool spread_noise(struct finder *f)
{
    f->noise = QC_NEW_ARRAY(f->p->arena, double, f->g->value_count + 1, f->st);
    for (qc_id v = 1; f->noise && v <= f->g->value_count; v++) {
        const struct qc_node *n = qc_node_of(f->g, v);
        size_t i = point_of(f, v);
        if (i != QC_NO_INDEX) f->noise[v] = ratio(f->r->layers[i].sqnr_db);
        else
            for (unsigned k = 0; n && k < n->input_count; k++) f->noise[v] = fmax(f->noise[v], f->noise[n->inputs[k]]);
    }
    return f->noise != NULL;
}

static bool is_point(const struct finder *f, struct point *out, qc_id v, size_t layer, double db)
{
    qc_id node = qc_maker(f->g, v);
    const struct qc_node *n = node ? &f->g->nodes[node] : NULL;
    while (n && n->op == QC_OP_Dequantize) {
        node = qc_maker(f->g, n->inputs[0]);
        n = node ? &f->g->nodes[node] : NULL;
    }
    if (!n || isnan(db)) return false;
    *out = (struct point){.node = node, .layer = layer, .after = ratio(db)};
    for (unsigned k = 0; k < n->input_count; k++) out->before = fmax(out->before, f->noise[n->inputs[k]]);
    return out->after > out->before;
}

static int by_added(const void *a, const void *b)
{
    const struct point *x = a, *y = b;
    double dx = x->after - x->before, dy = y->after - y->before;
    return dx > dy ? -1 : dx < dy ? 1 : x->node < y->node ? -1 : x->node > y->node;
}

static bool find_points(struct point **out, size_t *count, const struct finder *f)
{
    struct point *list = QC_NEW_ARRAY(f->p->arena, struct point, f->g->space_count + f->g->output_count, f->st);
    *count = 0;
    if (!list) return false;
    for (qc_id s = 1; s <= f->g->space_count; s++) {
        size_t i = f->m->stored[s] ? layer_of(f, s) : QC_NO_INDEX;
        if (i != QC_NO_INDEX && is_point(f, &list[*count], f->m->stored[s], i, f->r->layers[i].sqnr_db)) ++*count;
    }
    for (size_t k = 0; k < f->g->output_count; k++) {
        qc_id v = f->g->outputs[k].value;
        if (point_of(f, v) == QC_NO_INDEX && f->g->values[v].type.space == QC_REAL && f->m->outputs[k].count &&
            is_point(f, &list[*count], v, QC_NO_INDEX, f->r->outputs[k].sqnr_db))
            ++*count;
    }
    qsort(list, *count, sizeof *list, by_added);
    *out = list;
    return true;
}

/* ---- Causes ---- */

struct cause {
    const struct qc_layer *own, *weight, *input; /* of the point; NULL: has none */
    bool own_noise, weight_noise;                /* explains most of what is added */
    const struct qc_layer *maker_weight;         /* of the op that makes the input, when its channels are unlike */
    size_t widest;                               /* channel of it */
    double times;                                /* the median channel */
};

static double reach(const struct qc_layer *l, size_t k)
{
    return fmax(-(double)l->channel_low[k], (double)l->channel_high[k]);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* How many times as wide as the median channel the widest is. */
static double spread(const struct finder *f, const struct qc_layer *l, size_t *widest)
{
    double *all = l->channel_count > 2 ? QC_NEW_ARRAY(f->p->arena, double, l->channel_count, f->st) : NULL;
    *widest = 0;
    if (!all) return 1;
    for (size_t k = 0; k < l->channel_count; k++) {
        all[k] = reach(l, k);
        if (all[k] > all[*widest]) *widest = k;
    }
    double most = all[*widest];
    qsort(all, l->channel_count, sizeof *all, ascending);
    double median = all[l->channel_count / 2];
    return median > 0 ? most / median : 1;
}

static const struct qc_layer *weight_of(const struct finder *f, const struct qc_node *n)
{
    for (unsigned k = 0; n && k < n->input_count; k++) {
        qc_id s = f->g->values[n->inputs[k]].type.space;
        size_t i = s && f->g->spaces[s].is_weight ? layer_of(f, s) : QC_NO_INDEX;
        if (i != QC_NO_INDEX) return &f->r->layers[i];
    }
    return NULL;
}

/* The noisiest or, of equals, first quantized activation that a node reads; *value: it. */
static const struct qc_layer *input_of(const struct finder *f, const struct qc_node *n, qc_id *value)
{
    const struct qc_layer *found = NULL;
    for (unsigned k = 0; k < n->input_count; k++) {
        size_t i = n->inputs[k] ? point_of(f, n->inputs[k]) : QC_NO_INDEX;
        if (i == QC_NO_INDEX || (found && !(f->r->layers[i].sqnr_db < found->sqnr_db))) continue;
        found = &f->r->layers[i];
        *value = n->inputs[k];
    }
    return found;
}

static void find_cause(struct cause *c, const struct finder *f, const struct point *pt, qc_id *input)
{
    const struct qc_node *n = &f->g->nodes[pt->node];
    double added = pt->after - pt->before;
    *c = (struct cause){.own = pt->layer == QC_NO_INDEX ? NULL : &f->r->layers[pt->layer], .weight = weight_of(f, n), .input = input_of(f, n, input)};
    c->own_noise = c->own && ratio(c->own->alone_db) >= explains * added;
    c->weight_noise = c->weight && ratio(c->weight->alone_db) >= explains * added;
    qc_id made = *input ? qc_maker(f->g, *input) : 0;
    const struct qc_layer *w = made ? weight_of(f, &f->g->nodes[made]) : NULL;
    if (!w || !((c->times = spread(f, w, &c->widest)) >= unlike)) return;
    c->maker_weight = w;
}

/* ---- Remedies ---- */

static const struct qc_option_info *option(const char *name, enum qc_option *which)
{
    for (int i = 0; i < QC_OPTION_COUNT; i++) {
        const struct qc_option_info *info = qc_option_info((enum qc_option)i);
        if (strcmp(info->name, name) != 0 || !(info->commands & (1u << QC_COMMAND_quantize))) continue;
        *which = (enum qc_option)i;
        return info;
    }
    return NULL;
}

/* A --skip for a node: its name, or that of its result, with what globs read otherwise quoted; NULL: it has neither. */
static const char *skip_word(const struct finder *f, qc_id node)
{
    const struct qc_node *n = &f->g->nodes[node];
    const char *name = n->name && *n->name ? n->name : f->g->values[n->outputs].name;
    char *word = name ? qc_arena_get(f->p->arena, 2 * strlen(name) + 1, 1, f->st) : NULL, *to = word;
    for (; word && *name; name++) {
        if (strchr("*?[]\\", *name)) *to++ = '\\';
        *to++ = *name;
    }
    return word;
}

static bool computes(const struct qc_node *n)
{
    enum qc_affine_behaviour b = qc_node_affine(n);
    return b == QC_AFFINE_PRODUCT || b == QC_AFFINE_MERGE;
}

/* The ops that must go to float so that the value of a layer is not stored in integers. */
static size_t readers(qc_id out[SKIPS], const struct finder *f, const struct qc_layer *l)
{
    size_t count = 0;
    for (qc_id id = 1; id <= f->g->node_count; id++) {
        const struct qc_node *n = &f->g->nodes[id];
        const char *name = NULL;
        if (!computes(n)) continue;
        for (unsigned k = 0; k < n->input_count; k++) {
            qc_id s = f->g->values[n->inputs[k]].type.space;
            if (n->inputs[k] && s && f->g->spaces[s].kind == QC_SPACE_SITE && strcmp(f->g->spaces[s].name, l->name) == 0) name = l->name;
        }
        if (!name) continue;
        if (count == SKIPS) return SKIPS + 1;
        out[count++] = id;
    }
    return count;
}

/* Everything that a command would change. */
struct remedy {
    size_t count;
    const char *name[SKIPS + 1], *value[SKIPS + 1];
    const char *without, *action;
};

static bool skip(struct remedy *out, const struct finder *f, const struct point *pt, const struct qc_layer *stored)
{
    qc_id nodes[SKIPS];
    size_t count = stored ? readers(nodes, f, stored) : 0;
    const struct qc_node *n = &f->g->nodes[pt->node];
    bool there = false;
    if (count > SKIPS) count = 0;
    for (size_t i = 0; i < count; i++) there = there || nodes[i] == pt->node;
    if (!there && count < SKIPS && computes(n) && (!stored || !count || qc_node_affine(n) == QC_AFFINE_MERGE)) nodes[count++] = pt->node;
    out->count = 0;
    for (size_t i = 0; i < count; i++) {
        const char *word = skip_word(f, nodes[i]);
        if (!word) continue;
        out->name[out->count] = "skip";
        out->value[out->count++] = word;
    }
    out->action = out->count > 1 ? "Keep the ops that touch it in float" : "Keep it in float";
    return out->count > 0;
}

/* 16 bits for one value: where --activation-type takes a name. */
static bool wide(struct remedy *out, const struct finder *f, const struct qc_layer *l)
{
    enum qc_option which;
    const struct qc_option_info *info = option("activation-type", &which);
    if (!l || !info || !info->argument || !strstr(info->argument, "GLOB") || strstr(l->type, "16")) return false;
    out->value[0] = qc_arena_printf(f->p->arena, f->st, "int16:%s", l->name);
    out->name[0] = "activation-type";
    out->count = 1;
    out->action = "Store this tensor in 16 bits";
    return out->value[0] != NULL;
}

static bool switch_on(struct remedy *out, const struct finder *f, const char *name, const char *action)
{
    enum qc_option which;
    if (!option(name, &which) || f->p->options->given[which]) return false;
    *out = (struct remedy){.count = 1, .name = {name}, .value = {"on"}, .action = action};
    return true;
}

static bool per_channel(struct remedy *out, const struct finder *f)
{
    enum qc_option which;
    if (!f->p->options->per_tensor || !option("per-tensor", &which)) return false;
    *out = (struct remedy){.without = "per-tensor", .action = "Give every channel of the weights a scale of its own"};
    return true;
}

static bool other_method(struct remedy *out, const struct finder *f)
{
    if (strcmp(f->p->calibration_options.activation->name, "mse") == 0) return false;
    *out = (struct remedy){.count = 1, .name = {"method"}, .value = {"mse"}, .without = "method",
                           .action = "Choose ranges by the squared error"};
    return true;
}

static bool explain(const char **why, struct remedy *fix, const struct finder *f, const struct point *pt)
{
    struct qc_arena *a = f->p->arena;
    struct cause c;
    qc_id input = 0;
    size_t at;
    find_cause(&c, f, pt, &input);
    double widths = c.weight ? spread(f, c.weight, &at) : 1;
    if (c.own_noise && c.own->clipping_share > 0.5) {
        *why = qc_arena_printf(a, f->st, "the chosen range cuts off %.3g %% of its values, and most of its error is there", 100 * c.own->clipped_fraction);
        return other_method(fix, f) || wide(fix, f, c.own) || skip(fix, f, pt, c.own);
    }
    if (c.weight_noise && c.weight->count == 1 && widths >= unlike) {
        *why = qc_arena_printf(a, f->st, "its weights share one scale, but channel %zu is %.3g times as wide as the median channel", at, widths);
        return per_channel(fix, f) || skip(fix, f, pt, NULL);
    }
    if (c.maker_weight) {
        *why = qc_arena_printf(a, f->st, "outlier channel: channel %zu of what it reads, made by '%s', has weights %.3g times as wide as the median channel; the others are left with few levels",
                               c.widest, c.maker_weight->node ? c.maker_weight->node : c.maker_weight->name, c.times);
        return switch_on(fix, f, "equalize", "Scale the channels alike") || skip(fix, f, pt, c.input);
    }
    if (c.own_noise) {
        *why = qc_arena_printf(a, f->st, "few large values set its range: %.3g %% of its non-zero values are below half a step and become zero", 100 * fmax(0, c.own->lost_fraction));
        return other_method(fix, f) || wide(fix, f, c.own) || skip(fix, f, pt, c.own);
    }
    if (c.weight_noise) {
        *why = qc_arena_printf(a, f->st, "its weights lose most: %.1f dB SQNR in %s", c.weight->alone_db, c.weight->type);
        return skip(fix, f, pt, NULL);
    }
    if (c.input && c.input->lost_fraction > 0.1) {
        *why = qc_arena_printf(a, f->st, "%.3g %% of the non-zero values that it reads are below half a step of '%s' and become zero", 100 * c.input->lost_fraction, c.input->name);
        return wide(fix, f, c.input) || skip(fix, f, pt, c.input);
    }
    if (!computes(&f->g->nodes[pt->node])) {
        *why = "a float op that magnifies the error of what it reads";
        return skip(fix, f, pt, c.own);
    }
    *why = "rounding of its input and weights adds up; neither stands out";
    return skip(fix, f, pt, NULL);
}

static bool suggest(struct qc_report_suggestion *out, const struct finder *f, const struct point *pt)
{
    const struct qc_node *n = &f->g->nodes[pt->node];
    struct remedy fix = {0};
    char label[QC_LABEL];
    bool any = explain(&out->why, &fix, f, pt);
    out->op = qc_op_info(n->op)->name;
    out->node = qc_arena_strdup(f->p->arena, n->name && *n->name ? n->name : qc_value_label(label, f->g, n->outputs), f->st);
    out->before_db = pt->before > 0 ? -10 * log10(pt->before) : (double)INFINITY;
    out->after_db = -10 * log10(pt->after);
    out->layer = pt->layer;
    out->action = any ? fix.action : "No option would change it alone";
    struct qc_command_change change = {.count = fix.count, .name = fix.name, .value = fix.value, .without = fix.without};
    return out->why && out->node && (!any || qc_command_text(&out->command, f->p->options, &change, f->st));
}

bool qc_fill_suggestions(struct qc_report *r, const struct qc_pipeline *p, const struct qc_measurement *m, struct qc_status *st)
{
    struct finder f = {.p = p, .g = p->folded, .m = m, .r = r, .st = st};
    struct point *points;
    size_t count;
    struct qc_report_suggestion *list = QC_NEW_ARRAY(p->arena, struct qc_report_suggestion, SHOWN, st);
    if (!list || !spread_noise(&f) || !find_points(&points, &count, &f)) return false;
    for (size_t i = 0; i < count && i < SHOWN; i++)
        if (!suggest(&list[i], &f, &points[i])) return false;
    r->suggestions = list;
    r->suggestion_count = count < SHOWN ? count : SHOWN;
    return true;
}
