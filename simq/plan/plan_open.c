// SPDX-License-Identifier: Apache-2.0
/* Inputs whose shapes differ from run to run: samples of different sizes. Weights are packed for each set of shapes, so
   few plans are kept: whoever runs many samples runs those of one shape one after the other. */
#include "simq/plan/plan_parts.h"
#include "simq/plan/variants.h"

bool qc_plan_is_open(const struct qc_graph *g, const struct qc_shape *shapes)
{
    for (size_t i = 0; i < g->input_count; i++)
        if (!qc_shape_fixed(&shapes[i])) return true;
    return false;
}

static bool fits(const struct qc_graph *g, const struct qc_shape *shapes, struct qc_status *st)
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
    if (!open || !fits(g, shapes, st) || !(open->elements = QC_NEW_ARRAY(p->arena, size_t, each.observed_count, st)))
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
    qc_variants_bound(open->variants, 0); /* samples of one size run after each other: a plan is done with then */
    for (size_t i = count; i-- > 0;) { /* the one that runs first last: its plan is there then */
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
