// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/scope.h"
#include "graph/core/bounds.h"
#include "graph/types/number_format.h"
#include "rewrite/language/rewriter.h"
#include "rewrite/passes/fillers.h"
#include "rewrite/passes/partition.h"
#include "rewrite/passes/simulate.h"

bool qc_moves_exactly(const struct qc_rules *rules, const struct qc_graph *g, const struct qc_node *n)
{
    switch (qc_rules_behaviour(rules, g, n)) {
    case QC_AFFINE_KEEP: return !qc_pads_with_value(g, n);
    case QC_AFFINE_BOUND: return n->op == QC_OP_Relu;
    case QC_AFFINE_JOIN:
        for (unsigned i = 0; i < n->input_count; i++)
            if (qc_constant_of(g, n->inputs[i])) return false;
        return true;
    case QC_AFFINE_MERGE:
    case QC_AFFINE_PRODUCT:
    case QC_AFFINE_NONE: return false;
    }
    return false;
}

/* 4 bits: an input that loses more keeps its own scale. */
#define APART 16

/* Returns true if the sizes of what is joined differ much or, if `all`, nothing is known of them and they come from
   more than one source. */
static bool sizes_differ(const struct qc_graph *g, const struct qc_node *n, const struct qc_bounds *bounds, bool all)
{
    double least = (double)INFINITY, most = 0;
    qc_id source = 0;
    bool several = false;
    for (unsigned i = 0; i < n->input_count; i++) {
        const struct qc_bounds *b = &bounds[n->inputs[i]];
        const double m = fmax(fabs(b->lo), fabs(b->hi)); /* infinite if the bounds are not known */
        qc_id v = n->inputs[i]; /* the value whose elements it holds, through ops that move them */
        for (const struct qc_node *o; (o = qc_node_of(g, v)) && qc_node_affine(o) == QC_AFFINE_KEEP;) v = o->inputs[0];
        if (m == 0) continue; /* all zeros: any scale is exact */
        least = fmin(least, m);
        most = fmax(most, m);
        several = several || (source && source != v);
        source = v;
    }
    return (isfinite(least) && least * APART < most) || (all && several && !isfinite(most));
}

/* How values are read: by a match, or by any op that does not pass elements on. */
enum reader { MATCH = 1, OP = 2 };

/* Returns [value_count + 1]: readers of the value, and of the results of ops on it that pass parameters on. matches
   NULL: none. through: matches of patterns that only join pass it on too. Arithmetic with a constant is no reader OP.
 */
static unsigned char *find_readers(const struct qc_graph *g, const struct qc_rules *rules,
                                   const struct qc_matches *matches, bool through, struct qc_arena *a,
                                   struct qc_status *st)
{
    unsigned char *read = QC_NEW_ARRAY(a, unsigned char, g->value_count + 1, st);
    if (!read) return NULL;
    QC_EACH_NODE_BACK(n, g) {
        const struct qc_match *m = matches ? matches->at[n->id] : NULL;
        const bool joins = through && m && m->rule->joins;
        const bool matched = matches && !joins && (!matches->live[n->id] || m);
        const bool moves = qc_rules_behaviour(rules, g, n) != QC_AFFINE_NONE;
        unsigned char behind = 0;
        for (unsigned k = 0; k < n->output_count; k++) behind |= read[n->outputs + k];
        const bool shifts = /* arithmetic of a value and a constant, element by element */
            (n->op == QC_OP_Add || n->op == QC_OP_Sub || n->op == QC_OP_Mul || n->op == QC_OP_Div) &&
            (qc_constant_of(g, n->inputs[0]) || qc_constant_of(g, n->inputs[1]));
        const unsigned char wanted = (unsigned char)((matched          ? MATCH
                                                      : joins || moves ? behind & MATCH
                                                                       : 0) |
                                                     (moves || shifts ? behind & OP : OP));
        for (unsigned i = 0; i < n->input_count; i++) read[n->inputs[i]] |= wanted;
    }
    return read;
}

static bool is_join(const struct qc_graph *g, const struct qc_rules *rules, const struct qc_node *n)
{
    const enum qc_affine_behaviour b = qc_rules_behaviour(rules, g, n);
    return b == QC_AFFINE_JOIN || (b == QC_AFFINE_KEEP && qc_pads_with_value(g, n));
}

bool *qc_joins_apart(const struct qc_graph *g, const struct qc_rules *rules, const struct qc_matches *matches,
                     bool through, struct qc_arena *a, struct qc_status *st)
{
    const struct qc_bounds *bounds;
    const unsigned char *read;
    bool *apart = QC_NEW_ARRAY(a, bool, g->node_count + 1, st);
    bool any = false;
    QC_EACH_NODE(n, g) any = any || is_join(g, rules, n);
    if (!apart || !any) return apart; /* computing bounds reads every weight */
    if (!(bounds = qc_graph_bounds(g, a, st)) || !(read = find_readers(g, rules, matches, through, a, st))) return NULL;
    QC_EACH_NODE(n, g) {
        if (!is_join(g, rules, n) || (read[n->outputs] & MATCH)) continue;
        apart[n->id] = n->op == QC_OP_Pad || sizes_differ(g, n, bounds, !(read[n->outputs] & OP));
    }
    return apart;
}

/* Up: if all users want a value with qparams S, directly or through ops of the allow-list, it is computed with S from
   inputs with S. Down: if all data inputs of an op of the allow-list come from one set of stored qparams, it is
   computed with them and dequantized afterwards; in a model that is quantized already only if that is exact. One walk
   from the outputs decides, one walk from the inputs builds. The time is linear in the size of the graph, and no node
   is duplicated. */
struct expansion {
    const struct qc_rules *rules;
    const struct qc_graph *g;
    struct qc_rebuild *r;
    qc_id *want;       /* [value_count + 1]: the qparams that all users want; 0: none yet */
    int *axis;         /* [value_count + 1]: axis of the channels if the qparams have several scales; else 0 */
    bool *mixed;       /* [value_count + 1]: users want different qparams, or one reads it as real */
    qc_id *stored;     /* [value_count + 1]: new affine value with the wanted qparams, once built */
    const bool *apart; /* [node_count + 1]: joins of very different sizes */
    bool exact;        /* no float value of the model may be rounded */
};

static unsigned data_inputs(const struct qc_node *n, enum qc_affine_behaviour b)
{
    return b == QC_AFFINE_JOIN ? n->input_count : 1;
}

static enum qc_affine_behaviour allowed(const struct expansion *x, const struct qc_node *n)
{
    enum qc_affine_behaviour b = qc_rules_behaviour(x->rules, x->g, n);
    const struct qc_type *t = &x->g->values[n->outputs].type;
    return t->dtype == QC_F32 && t->qparams == QC_REAL ? b : QC_AFFINE_NONE;
}

/* Stored floats pass through no operator, because no kernel takes them; nor do caches, which the file has as they are.
 */
static bool passes(const struct qc_graph *g, qc_id qparams)
{
    return !qc_is_small_float(g->qparams_of[qparams].dtype) && !g->qparams_of[qparams].in_place;
}

static void want(struct expansion *x, qc_id v, qc_id qparams, int axis)
{
    if (!v) return;
    if (!qparams || axis < 0 || (x->want[v] && (x->want[v] != qparams || x->axis[v] != axis))) {
        x->mixed[v] = true;
        return;
    }
    x->want[v] = qparams;
    x->axis[v] = axis;
}

/* Returns the axis of input i that holds the channels of the node's results, or -1. */
static int axis_before(const struct expansion *x, const struct qc_node *n, unsigned i, qc_id qparams)
{
    const struct qc_graph *g = x->g;
    const struct qc_shape *from = &g->values[n->inputs[i]].type.shape;
    if (!qparams || !g->qparams_of[qparams].per_channel) return 0;
    for (int in = 0; in < from->rank; in++) {
        bool all = true;
        for (unsigned k = 0; all && k < n->output_count; k++)
            all = qc_kept_axis(g, n, from, &g->values[n->outputs + k].type.shape, in) == x->axis[n->outputs + k];
        if (all) return in;
    }
    return -1;
}

/* Returns the qparams that all results of an allowed op must get, or 0. */
static qc_id wanted(const struct expansion *x, const struct qc_node *n)
{
    qc_id qparams = x->want[n->outputs];
    for (unsigned k = 0; k < n->output_count; k++)
        if (x->mixed[n->outputs + k] || x->want[n->outputs + k] != qparams) return 0;
    return qparams && passes(x->g, qparams) ? qparams : 0;
}

/* Returns the value with the qparams that its users want. */
static qc_id in_qparams(struct expansion *x, qc_id old, qc_id qparams, struct qc_status *st)
{
    if (x->stored[old] && x->r->to->values[x->stored[old]].type.qparams == qparams) return x->stored[old];
    const qc_id v = qc_rebuild_value(x->r, old, st);
    const struct qc_node *n = qc_node_of(x->r->to, v);
    if (n && n->op == QC_OP_Dequantize && x->r->to->values[n->inputs[0]].type.qparams == qparams) return n->inputs[0];
    return qc_graph_quantize(x->r->to, v, qparams, x->axis[old], st);
}

/* Returns the stored qparams from which all new data inputs are read, or 0. Constants accept any qparams, except those
   of an input of a very different size. */
static qc_id common_qparams(const struct expansion *x, const struct qc_node *n, enum qc_affine_behaviour b)
{
    const struct qc_graph *to = x->r->to;
    qc_id qparams = 0;
    if (n->op == QC_OP_Pad && x->apart[n - x->g->nodes]) return 0;
    for (unsigned i = 0; i < data_inputs(n, b); i++) {
        if (qc_constant_of(x->g, n->inputs[i])) {
            if (x->apart[n - x->g->nodes]) return 0;
            continue;
        }
        qc_id v = x->r->map[n->inputs[i]];
        const struct qc_node *dq = v ? qc_node_of(to, v) : NULL;
        if (!dq || dq->op != QC_OP_Dequantize) return 0;
        qc_id s = to->values[dq->inputs[0]].type.qparams;
        if ((qparams && s != qparams) || to->qparams_of[s].kind != QC_QPARAMS_QUANTIZER) return 0;
        if (to->qparams_of[s].block || !passes(to, s)) return 0;
        /* Parameters along the axis must still belong to whole channels in all results. */
        const struct qc_value *values = x->g->values;
        for (unsigned k = 0; to->qparams_of[s].per_channel && k < n->output_count; k++)
            if (qc_kept_axis(x->g, n, &values[n->inputs[i]].type.shape, &values[n->outputs + k].type.shape,
                             to->values[dq->inputs[0]].type.axis) < 0)
                return 0;
        qparams = s;
    }
    return qparams;
}

static void build_affine(struct expansion *x, const struct qc_node *n, enum qc_affine_behaviour b, qc_id qparams,
                         bool up, struct qc_status *st)
{
    QC_FREED qc_id *inputs = calloc(n->input_count + 1, sizeof *inputs);
    if (!inputs) qc_fail_memory(st, n->input_count * sizeof *inputs);
    for (unsigned i = 0; inputs && i < n->input_count; i++)
        if (n->inputs[i])
            inputs[i] = i < data_inputs(n, b) ? in_qparams(x, n->inputs[i], qparams, st)
                                              : qc_rebuild_value(x->r, n->inputs[i], st);
    const struct qc_node_def with = {.inputs = inputs};
    const qc_id first = qc_graph_add_like(x->r->to, x->g, n, &with, st);
    for (unsigned k = 0; first && k < n->output_count; k++) {
        x->stored[n->outputs + k] = first + k;
        if (!up) x->r->map[n->outputs + k] = qc_graph_dequantize(x->r->to, first + k, st);
    }
}

static bool propagate(struct qc_graph **out, const struct qc_graph *g, const struct qc_rules *rules,
                      bool one_scale_joins, bool exact, struct qc_status *st)
{
    QC_ARENA_SCOPE *a = qc_arena_new();
    QC_REBUILD_SCOPE r = {0};
    struct expansion x = {.rules = rules, .g = g, .r = &r, .exact = exact};
    x.want = QC_NEW_ARRAY(a, qc_id, g->value_count + 1, st);
    x.axis = QC_NEW_ARRAY(a, int, g->value_count + 1, st);
    x.mixed = QC_NEW_ARRAY(a, bool, g->value_count + 1, st);
    x.stored = QC_NEW_ARRAY(a, qc_id, g->value_count + 1, st);
    x.apart =
        one_scale_joins ? QC_NEW_ARRAY(a, bool, g->node_count + 1, st) : qc_joins_apart(g, rules, NULL, false, a, st);
    if (st->code != QC_OK || !qc_rebuild_begin(&r, g, st)) return false;
    for (size_t i = 0; i < g->output_count; i++) want(&x, g->outputs[i].value, 0, 0);
    QC_EACH_NODE_BACK(n, g) {
        enum qc_affine_behaviour b = allowed(&x, n);
        qc_id qparams = n->op == QC_OP_Quantize ? g->values[n->outputs].type.qparams
                        : b != QC_AFFINE_NONE   ? wanted(&x, n)
                                                : 0;
        unsigned data = n->op == QC_OP_Quantize ? 1 : b != QC_AFFINE_NONE ? data_inputs(n, b) : 0;
        if (qparams && g->qparams_of[qparams].kind != QC_QPARAMS_QUANTIZER) qparams = 0;
        for (unsigned i = 0; i < n->input_count; i++) {
            const int axis = i >= data || !n->inputs[i] ? 0
                             : n->op == QC_OP_Quantize  ? g->values[n->outputs].type.axis
                                                        : axis_before(&x, n, i, qparams);
            want(&x, n->inputs[i], i < data ? qparams : 0, axis);
        }
    }
    QC_EACH_NODE(n, g) {
        const enum qc_affine_behaviour b = allowed(&x, n);
        const qc_id of_result = g->values[n->outputs].type.qparams, up = b != QC_AFFINE_NONE ? wanted(&x, n) : 0;
        const bool moves = b != QC_AFFINE_NONE && (!exact || qc_moves_exactly(x.rules, x.g, n));
        qc_id down;
        if (n->op == QC_OP_Quantize && g->qparams_of[of_result].kind == QC_QPARAMS_QUANTIZER &&
            !qc_constant_of(g, n->inputs[0]))
            r.map[n->outputs] = in_qparams(&x, n->inputs[0], of_result, st);
        else if (up)
            build_affine(&x, n, b, up, true, st);
        else if (moves && (down = common_qparams(&x, n, b)))
            build_affine(&x, n, b, down, false, st);
        else
            qc_rebuild_node(x.r, n->id, st);
    }
    return qc_rebuild_finish(out, &r, st);
}

bool qc_propagate_qdq(struct qc_graph **out, const struct qc_graph *g, const struct qc_rules *rules,
                      bool one_scale_joins, struct qc_status *st)
{
    return propagate(out, g, rules, one_scale_joins, false, st);
}

bool qc_propagate_exactly(struct qc_graph **out, const struct qc_graph *g, const struct qc_rules *rules,
                          struct qc_status *st)
{
    return propagate(out, g, rules, true, true, st);
}
