// SPDX-License-Identifier: Apache-2.0
/* Cuts a graph at data-dependent shapes. The part that does not depend on them is planned at once. The nodes whose
   result shapes depend on data return tensors. The rest is a graph of its own, planned when the shapes are known.
   Affine values are dequantized before the cut and quantized after it, which gives the same integers. */
#include <stdlib.h>

#include "graph/core/rebuild.h"
#include "simq/plan/plan.h"
#include "simq/plan/plan_parts.h"

/* Bounds the work: each cut copies the graph after it. */
enum { CUTS_MAX = 400 };

struct cut {
    const struct qc_graph *g;
    bool *needed;           /* [node_count + 1] */
    bool *made, *later;     /* [value_count + 1]: its shape depends on data; it depends on such a value */
    bool *crosses;          /* [value_count + 1]: made before the cut, used after it */
    struct qc_rebuild a, b; /* before and after */
};

static qc_id dequantized(struct qc_graph *to, qc_id v, struct qc_status *st)
{
    return (qc_value(to, v)->type.qparams != QC_REAL) ? qc_graph_dequantize(to, v, st) : v;
}

/* Adds a node whose result shapes depend on data. Its inputs are dequantized to real values. */
static bool add_making(struct cut *c, qc_id k, struct qc_status *st)
{
    const struct qc_node *n = &c->g->nodes[k];
    struct qc_rebuild real = c->a;
    bool ok = (real.map = calloc(c->g->value_count + 1, sizeof(qc_id))) != NULL;
    if (!ok) qc_fail_memory(st, c->g->value_count * sizeof(qc_id));
    for (unsigned i = 0; ok && i < n->input_count; i++) {
        if (!n->inputs[i]) continue;
        const qc_id v = qc_rebuild_value(&c->a, n->inputs[i], st);
        ok = v && (real.map[n->inputs[i]] = dequantized(c->a.to, v, st)) != 0;
    }
    const qc_id first = ok ? qc_rebuild_node(&real, k, st) : 0;
    for (unsigned i = 0; first && i < n->output_count; i++) c->a.map[n->outputs + i] = first + i;
    free(real.map);
    return first != 0;
}

/* Builds the graph before the cut. Its outputs are the available outputs of the whole graph; add_crossing appends
   the values that cross the cut. */
static bool build_before(struct qc_plan *p, struct cut *c, const qc_id *origin, struct qc_status *st)
{
    const struct qc_graph *g = c->g;
    if (!qc_rebuild_begin(&c->a, g, st)) return false;
    if (!(p->origin = QC_NEW_ARRAY(p->arena, qc_id, 2 * g->node_count + g->value_count + 1, st))) return false;
    for (size_t k = 1; k <= g->node_count; k++) {
        const qc_id out = g->nodes[k].outputs;
        if (!c->needed[k] || c->later[out]) continue;
        if (c->made[out] ? !add_making(c, (qc_id)k, st) : !qc_rebuild_node(&c->a, (qc_id)k, st)) return false;
        p->origin[c->a.to->values[c->a.map[out]].node] = origin[k];
    }
    for (size_t i = 0; i < g->output_count; i++) {
        const struct qc_port *o = &g->outputs[i];
        if (c->later[o->value] || c->made[o->value]) continue;
        const qc_id v = qc_rebuild_value(&c->a, o->value, st);
        p->whole[i] = (struct qc_plan_output){.index = c->a.to->output_count};
        if (!v || !qc_graph_add_output(c->a.to, o->name, v, st)) return false;
    }
    return true;
}

/* Adds an input to the graph after the cut and records its source before the cut. */
static bool add_crossing(struct qc_plan *p, struct cut *c, qc_id v, struct qc_status *st)
{
    struct qc_graph *before = c->a.to, *to = c->b.to;
    const struct qc_type *t = &qc_value(c->g, v)->type;
    struct qc_rest_input *in = &p->rest->inputs[p->rest->input_count++];
    char label[QC_LABEL];
    const char *name = qc_value_label(label, c->g, v);
    qc_id at = c->a.map[v] ? c->a.map[v] : qc_rebuild_value(&c->a, v, st);
    if (!at) return false;
    if (c->made[v]) {
        *in = (struct qc_rest_input){
            .made = true}; /* index: the value; made_at maps it to a tensor when its step is bound */
        in->index = at;
    } else {
        if (!(at = dequantized(before, at, st))) return false;
        *in = (struct qc_rest_input){.index = before->output_count};
        if (!qc_graph_add_output(before, name, at, st)) return false;
    }
    const qc_id real = qc_graph_add_input(to, name, qc_value(before, at)->type.dtype, &t->shape, st);
    if (!real || t->qparams == QC_REAL) return (c->b.map[v] = real) != 0;
    return (c->b.map[v] = qc_graph_quantize(to, real, t->qparams, t->axis, st)) != 0;
}

static bool cut(struct qc_plan *p, struct cut *c, qc_id *observed, const qc_id *origin, const struct qc_plan_options *o,
                struct qc_status *st)
{
    struct qc_plan_options rest = o ? *o : (struct qc_plan_options){0};
    if (p->depth >= CUTS_MAX)
        return qc_fail(st, QC_UNSUPPORTED, "more than %d data-dependent shapes depend on each other", (int)CUTS_MAX);
    if (!(p->rest = QC_NEW(p->arena, struct qc_rest, st))) return false;
    for (size_t i = 0; i < p->observed_count; i++)
        if (c->made[observed[i]]) c->crosses[observed[i]] = true;
    if (!build_before(p, c, origin, st)) return false;
    const struct qc_graph *g = c->g;
    size_t crossing = 0;
    if (!qc_rebuild_begin_bare(&c->b, g, st)) return false;
    for (size_t v = 1; v <= g->value_count; v++) crossing += c->crosses[v];
    if (!(p->rest->inputs = QC_NEW_ARRAY(p->arena, struct qc_rest_input, crossing, st))) return false;
    for (size_t v = 1; v <= g->value_count; v++)
        if (c->crosses[v] && !add_crossing(p, c, (qc_id)v, st)) return false;
    for (size_t k = 1; k <= g->node_count; k++)
        if (c->needed[k] && c->later[g->nodes[k].outputs] && !qc_rebuild_node(&c->b, (qc_id)k, st)) return false;
    for (size_t i = 0; i < g->output_count; i++) {
        const struct qc_port *x = &g->outputs[i];
        if (!c->later[x->value] && !c->made[x->value]) continue;
        p->whole[i] = (struct qc_plan_output){.rest = true, .index = c->b.to->output_count};
        if (!qc_graph_add_output(c->b.to, x->name, c->b.map[x->value], st)) return false;
    }
    /* Divide the observed values between both graphs */
    qc_id *behind = QC_NEW_ARRAY(p->arena, qc_id, p->observed_count, st);
    p->rest->observed = QC_NEW_ARRAY(p->arena, size_t, p->observed_count, st);
    if (!behind || !p->rest->observed) return false;
    rest.observed_count = 0;
    rest.observed = behind;
    for (size_t i = 0; i < p->observed_count; i++) {
        const qc_id v = observed[i];
        if (!c->later[v] && !c->made[v]) {
            if (!(observed[i] = qc_rebuild_value(&c->a, v, st))) return false;
            continue;
        }
        observed[i] = QC_ABSENT;
        p->rest->observed[rest.observed_count] = i;
        if (!(behind[rest.observed_count++] = qc_rebuild_value(&c->b, v, st))) return false;
    }
    rest.input_layouts = NULL;
    rest.depth = p->depth + 1;
    p->graph = c->a.to;
    c->a.to = NULL;
    return qc_variants_new(&p->rest->variants, c->b.to, &rest, st);
}

bool qc_plan_split(struct qc_plan *p, qc_id *observed, struct qc_graph *whole, const qc_id *origin,
                   const struct qc_plan_options *o, struct qc_status *st)
{
    const size_t values = whole->value_count + 1;
    struct cut c = {.g = whole};
    bool ok = false, shapeless = false;
    p->whole_count = whole->output_count;
    if (!(p->whole = QC_NEW_ARRAY(p->arena, struct qc_plan_output, p->whole_count, st)) ||
        !(c.needed = qc_plan_needed(whole, p->observed_count, observed, st)))
        goto out;
    for (size_t k = 1; k <= whole->node_count; k++)
        shapeless |= c.needed[k] && qc_plan_shapeless(whole, &whole->nodes[k]);
    if (!shapeless) {
        for (size_t i = 0; i < p->whole_count; i++) p->whole[i].index = i;
        p->origin = qc_arena_dup(p->arena, origin, whole->node_count + 1, sizeof *origin, st);
        p->graph = whole;
        whole = NULL;
        ok = p->origin != NULL;
        goto out;
    }
    c.made = calloc(values, sizeof *c.made);
    c.later = calloc(values, sizeof *c.later);
    c.crosses = calloc(values, sizeof *c.crosses);
    if (!c.made || !c.later || !c.crosses) {
        qc_fail_memory(st, 3 * values);
        goto out;
    }
    const struct qc_graph *g = c.g;
    for (size_t k = 1; k <= g->node_count; k++) {
        const struct qc_node *n = &g->nodes[k];
        bool later = false;
        for (unsigned i = 0; i < n->input_count; i++) later |= c.made[n->inputs[i]] || c.later[n->inputs[i]];
        const bool made = !later && qc_plan_shapeless(g, n);
        for (unsigned i = 0; i < n->output_count; i++) {
            c.later[n->outputs + i] = later;
            c.made[n->outputs + i] = made;
        }
        for (unsigned i = 0; c.needed[k] && later && i < n->input_count; i++)
            c.crosses[n->inputs[i]] = n->inputs[i] && !c.later[n->inputs[i]] && !qc_constant_of(g, n->inputs[i]);
    }
    for (size_t i = 0; i < g->output_count; i++) c.crosses[g->outputs[i].value] |= c.made[g->outputs[i].value];
    ok = cut(p, &c, observed, origin, o, st);
out:
    free(c.needed);
    free(c.made);
    free(c.later);
    free(c.crosses);
    qc_rebuild_free(&c.a);
    qc_rebuild_free(&c.b);
    qc_graph_free(whole);
    return ok;
}

/* Inputs whose shapes differ from run to run (samples of different sizes). Weights are packed for each set of
   shapes, so few plans are kept: callers should run samples of one shape one after the other. */

bool qc_plan_is_open(const struct qc_graph *g, const struct qc_shape *shapes)
{
    for (size_t i = 0; i < g->input_count; i++)
        if (!qc_shape_fixed(&shapes[i])) return true;
    return false;
}

static bool fits_plan_split(const struct qc_graph *g, const struct qc_shape *shapes, struct qc_status *st)
{
    char given[QC_SHAPE_TEXT], declared[QC_SHAPE_TEXT];
    for (size_t i = 0; i < g->input_count; i++) {
        const struct qc_shape *t = &qc_value(g, g->inputs[i].value)->type.shape, *s = &shapes[i];
        bool ok = s->rank >= 0 && (t->rank < 0 || t->rank == s->rank);
        for (int d = 0; ok && d < t->rank; d++) ok = t->dim[d] == QC_FREE || t->dim[d] == s->dim[d];
        if (!ok)
            return qc_fail(st, QC_BAD_INPUT, "input '%s' cannot have shape %s: the model declares %s",
                           g->inputs[i].name, qc_shape_text(given, s), qc_shape_text(declared, t));
    }
    return true;
}

static void at_least(size_t *most, size_t n)
{
    if (n > *most) *most = n;
}

bool qc_plan_open(struct qc_plan *p, const struct qc_graph *g, const struct qc_shape *shapes,
                  const struct qc_plan_options *o, struct qc_status *st)
{
    struct qc_plan_options each = o ? *o : (struct qc_plan_options){0};
    size_t runner = 0, constant = 0;
    if (each.accumulator.bits && each.accumulator.bits < 32)
        return qc_fail(st, QC_UNSUPPORTED,
                       "samples of different sizes cannot be run with an accumulator of %u bits; give samples of one "
                       "size",
                       each.accumulator.bits);
    struct qc_open *open = p->open = QC_NEW(p->arena, struct qc_open, st);
    if (!open || !fits_plan_split(g, shapes, st) ||
        !(open->elements = QC_NEW_ARRAY(p->arena, size_t, each.observed_count, st)))
        return false;
    p->input_count = g->input_count;
    p->whole_count = p->output_count = g->output_count;
    const size_t count = each.largest_count;
    each.largest = NULL;
    each.largest_count = 0;
    if (each.input_layouts && !(each.input_layouts = qc_arena_dup(p->arena, each.input_layouts, g->input_count,
                                                                  sizeof *each.input_layouts, st)))
        return false;
    if (!qc_variants_new(&open->variants, g, &each, st)) return false;
    qc_variants_bound(open->variants, 0); /* samples of one size run in sequence: a plan is not needed afterwards */
    for (size_t i = count; i-- > 0;) {    /* in reverse: the plan of the first case to run is made last and kept */
        const struct qc_plan *one;
        if (!qc_variants_plan(&one, open->variants, o->largest[i].shapes, st))
            return qc_where(st, "%s", o->largest[i].name);
        at_least(&runner, qc_plan_runner_bytes(one));
        at_least(&constant, qc_plan_constant_bytes(one));
        for (size_t k = 0; k < p->observed_count; k++) at_least(&open->elements[k], qc_plan_observed_elements(one, k));
    }
    open->runner_bytes = runner + constant;
    return true;
}
