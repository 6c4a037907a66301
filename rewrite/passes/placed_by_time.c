// SPDX-License-Identifier: Apache-2.0
#include "rewrite/passes/placed_by_time.h"

#include <math.h>

#include "rewrite/passes/costs.h"
#include "rewrite/passes/minimum_cut.h"
#include "rewrite/passes/operator_times.h"

#define QC_WHOLE(name, value, unit, reason) enum { name = (value) };
#define QC_DECIMAL(name, value, unit, reason) static const double name = value;
#include "rewrite/passes/placement_limits.def"

struct placing {
    const struct qc_partition *p;
    const struct qc_graph *g;
    const struct qc_uses *uses;
    uint64_t weights;            /* of the graph */
    double share[QC_PROCESSORS]; /* of the time of each processor in the sum */
    struct qc_arena *arena;
    struct qc_status *st;
    struct qc_flow_cut *cut; /* NULL: the placement is given */
    const bool *real;        /* of a given one, [node_count + 1]: matches in float */
    struct sides {
        int64_t source, sink;
    } * on;          /* of a given one, [vertices]: what a class or value costs on each side */
    qc_id *match_of; /* [node_count + 1]: the node of the match that contains it, or 0 */
    bool *unknown;   /* [node_count + 1]: matches whose time is not known */
    int64_t time;    /* of all operators */
};

static uint32_t of_node(qc_id node)
{
    return QC_CUT_FIRST + node;
}

static uint32_t of_class(const struct placing *s, qc_id value)
{
    return QC_CUT_FIRST + (uint32_t)s->g->node_count + 1 + s->p->class_of[value];
}

static uint32_t of_floats(const struct placing *s, qc_id value)
{
    return QC_CUT_FIRST + (uint32_t)(s->g->node_count + s->g->value_count) + 2 + value;
}

/* Returns true if a vertex of a given placement is with the sink. A class has no side yet. */
static bool is_with_sink(const struct placing *s, uint32_t vertex)
{
    if (vertex < QC_CUT_FIRST + s->g->node_count + 1)
        return vertex == QC_CUT_SINK || (vertex >= QC_CUT_FIRST && s->real[vertex - QC_CUT_FIRST]);
    return s->on[vertex].source > 0; /* floats, whose readers are known */
}

static void edge(struct placing *s, uint32_t from, uint32_t to, int64_t capacity)
{
    const uint32_t first = QC_CUT_FIRST + (uint32_t)s->g->node_count + 1;
    if (capacity <= 0) return;
    if (s->cut) {
        qc_cut_edge(s->cut, from, to, capacity, s->st);
        return;
    }
    const bool leaves = from >= first, enters = !leaves && to >= first; /* a vertex without a side */
    if (leaves ? !is_with_sink(s, to) : is_with_sink(s, from) || (!enters && !is_with_sink(s, to))) return;
    int64_t *sum = leaves ? &s->on[from].source : enters ? &s->on[to].sink : &s->time;
    *sum = *sum < QC_CUT_NEVER - capacity ? *sum + capacity : QC_CUT_NEVER;
}

/* Returns the time to convert a value. */
static int64_t time_to_convert(const struct placing *s, qc_id value, enum qc_conversion what, bool layout)
{
    double sum = 0;
    for (int i = 0; i < QC_PROCESSORS; i++)
        if (s->share[i] > 0)
            sum += s->share[i] * (double)qc_time_to_convert((enum qc_processor)i, s->g, value, what, layout);
    return (int64_t)sum;
}

/* Sets *out to the times of a match, or of a node without one. Returns false if they are not known. */
static bool times_of(struct qc_operator_times *out, const struct placing *s, const struct qc_match *m, qc_id node)
{
    double real = 0, integer = 0;
    for (int i = 0; i < QC_PROCESSORS; i++) {
        const enum qc_processor on = (enum qc_processor)i;
        struct qc_operator_times t;
        if (!(s->share[i] > 0)) continue;
        if (!(m ? qc_times_of_match(&t, on, s->uses, s->weights, m)
                : qc_times_of_node(&t, on, s->uses, s->weights, node)))
            return false;
        real += s->share[i] * (double)t.real;
        integer += s->share[i] * (double)t.integer;
    }
    *out = (struct qc_operator_times){(int64_t)real, (int64_t)integer};
    return true;
}

/* Adds the times of a vertex on each side. */
static void weigh(struct placing *s, uint32_t vertex, const struct qc_operator_times *t)
{
    edge(s, QC_CUT_SOURCE, vertex, t->real - t->integer);
    edge(s, vertex, QC_CUT_SINK, t->integer - t->real);
    s->time += t->real < t->integer ? t->real : t->integer;
}

static bool is_quantized_capture(const struct qc_match *m, const struct qc_expr *e, qc_id value)
{
    if (qc_template_quantizes(m, e) == value) return true;
    for (unsigned i = 0; e->kind == QC_EXPR_OP && i < e->arg_count; i++)
        if (is_quantized_capture(m, e->args[i], value)) return true;
    return false;
}

static bool changes_layout(const struct placing *s, qc_id value, qc_id one, qc_id other)
{
    return qc_changes_layout(s->g, value, one ? &s->g->nodes[one] : NULL, other ? &s->g->nodes[other] : NULL);
}

/* Returns true if the node only passes on the parameters of its class. */
static bool passes_on(const struct placing *s, qc_id node, qc_id value)
{
    const struct qc_node *n = &s->g->nodes[node];
    return node && !s->match_of[node] && n->output_count && s->p->class_of[n->outputs] == s->p->class_of[value];
}

static void add_producer(struct placing *s, qc_id value)
{
    const struct qc_value *v = qc_value(s->g, value);
    const qc_id node = v->kind == QC_VALUE_RESULT ? v->node : 0;
    const uint32_t class = of_class(s, value);
    if (v->kind == QC_VALUE_CONSTANT) return;
    if (node && !s->match_of[node] && s->p->class_of[s->g->nodes[node].inputs[0]] == s->p->class_of[value]) return;
    bool layout = false;
    const struct qc_use_list readers = qc_readers(s->uses, value);
    for (size_t i = 0; i < readers.count; i++) layout = layout || changes_layout(s, value, node, readers.of[i].node);
    const int64_t time = time_to_convert(s, value, QC_CONVERT_TO_8, layout);
    const struct qc_match *m = node && s->match_of[node] ? s->p->matches.at[s->match_of[node]] : NULL;
    if (!m || m->root != value) {
        edge(s, class, QC_CUT_SINK, time);
        return;
    }
    const uint32_t made_by = of_node(s->match_of[node]);
    const bool stores = qc_partition_stores(s->p, m), rounds = stores || s->g->nodes[node].op == QC_OP_Gemm;
    if (stores) edge(s, made_by, class, QC_CUT_NEVER);
    edge(s, class, rounds ? made_by : QC_CUT_SINK, time);
}

static void add_readers(struct placing *s, qc_id value)
{
    const struct qc_value *v = qc_value(s->g, value);
    const qc_id made_by = v->kind == QC_VALUE_RESULT ? v->node : 0;
    const struct qc_use_list uses = qc_all_uses(s->uses, value);
    bool layout = false;
    int real = 0;
    for (size_t i = 0; i < uses.count; i++) {
        const qc_id node = uses.of[i].node, owner = node ? s->match_of[node] : 0;
        if (node && passes_on(s, node, value)) continue;
        if (owner && is_quantized_capture(s->p->matches.at[owner], s->p->matches.at[owner]->rule->give, value))
            edge(s, of_node(owner), of_class(s, value), QC_CUT_NEVER);
        edge(s, of_floats(s, value), owner ? of_node(owner) : QC_CUT_SINK, QC_CUT_NEVER);
        layout = layout || changes_layout(s, value, made_by, node);
        real++;
    }
    if (real) edge(s, of_class(s, value), of_floats(s, value), time_to_convert(s, value, QC_CONVERT_FROM_8, layout));
}

/* A function in float is computed with the product before it if that is in float too. */
static void add_function(struct placing *s, qc_id node)
{
    double more = 0;
    qc_id product = 0;
    for (int i = 0; i < QC_PROCESSORS; i++)
        if (s->share[i] > 0) more += s->share[i] * (double)qc_time_apart(&product, (enum qc_processor)i, s->uses, node);
    if (!product || !s->match_of[product] || s->match_of[product] == s->match_of[node]) return;
    edge(s, of_node(s->match_of[product]), s->match_of[node] ? of_node(s->match_of[node]) : QC_CUT_SINK, (int64_t)more);
}

/* Operators that move elements are on the side of their class. */
static bool add_moves(struct placing *s, qc_id node)
{
    struct qc_operator_times t;
    const struct qc_node *n = &s->g->nodes[node];
    if (!n->input_count || !n->inputs[0] || !passes_on(s, node, n->inputs[0])) return false;
    if (times_of(&t, s, NULL, node)) weigh(s, of_class(s, n->outputs), &t);
    return true;
}

/* Finds the matches, and those whose time is not known. */
static bool find_matches(struct placing *s)
{
    struct qc_operator_times t;
    s->match_of = QC_NEW_ARRAY(s->arena, qc_id, s->g->node_count + 1, s->st);
    s->unknown = QC_NEW_ARRAY(s->arena, bool, s->g->node_count + 1, s->st);
    if (!s->match_of || !s->unknown) return false;
    for (qc_id id = 1; id <= s->g->node_count; id++) {
        const struct qc_match *m = s->p->matches.at[id];
        if (!m || s->p->weights_only[id]) continue;
        for (unsigned i = 0; i < m->node_count; i++) s->match_of[m->nodes[i]] = id;
        s->unknown[id] = !times_of(&t, s, m, 0);
    }
    return true;
}

static bool build(struct placing *s)
{
    if (!find_matches(s)) return false;
    for (qc_id id = 1; id <= s->g->node_count; id++) {
        struct qc_operator_times t;
        const struct qc_match *m = s->p->matches.at[id];
        if (m && !s->p->weights_only[id] && times_of(&t, s, m, 0)) weigh(s, of_node(id), &t);
    }
    for (qc_id id = 1; id <= s->g->node_count; id++) {
        struct qc_operator_times t;
        if (!s->p->matches.live[id]) continue;
        add_function(s, id);
        if (s->match_of[id] || add_moves(s, id)) continue;
        if (times_of(&t, s, NULL, id)) s->time += t.real;
    }
    for (int i = 0; i < QC_PROCESSORS; i++)
        s->time += (int64_t)(s->share[i] * (double)qc_time_of_run((enum qc_processor)i, s->g));
    for (qc_id v = 1; v <= s->g->value_count; v++) {
        if (s->g->values[v].type.dtype != QC_F32 || qc_constant_of(s->g, v)) continue;
        add_producer(s, v);
        add_readers(s, v);
    }
    return s->st->code == QC_OK;
}

/* A placement with its times. */
struct placement {
    bool *real; /* [node_count + 1]: matches in float */
    int64_t time[QC_PROCESSORS];
};

/* Returns the nodes that compute integers in a given placement. A class has the side that costs less; what moves
   elements of a value that a float operator makes is in float, before they are quantized. */
static bool *integer_nodes(const struct placing *s)
{
    bool *integer = QC_NEW_ARRAY(s->arena, bool, s->g->node_count + 1, s->st);
    if (!integer) return NULL;
    QC_EACH_NODE(n, s->g) {
        const qc_id id = n->id;
        if (s->match_of[id])
            integer[id] = !s->real[s->match_of[id]];
        else if (n->input_count && n->inputs[0] && passes_on(s, id, n->inputs[0])) {
            const struct qc_value *v = qc_value(s->g, n->inputs[0]);
            const struct sides *on = &s->on[of_class(s, n->outputs)];
            integer[id] = on->source < on->sink && v->kind == QC_VALUE_RESULT && integer[v->node];
        }
    }
    return integer;
}

/* Sets the times of a placement: the sum over operators and conversions; values are stored as what costs less. */
static bool time_placement(struct placement *p, const struct placing *empty)
{
    const size_t vertices = QC_CUT_FIRST + empty->g->node_count + 2 * empty->g->value_count + 3;
    for (int i = 0; i < QC_PROCESSORS; i++) {
        QC_ARENA_SCOPE *a = qc_arena_new();
        struct placing s = *empty;
        s.arena = a;
        s.real = p->real;
        s.share[i] = 1;
        if (!(s.on = QC_NEW_ARRAY(a, struct sides, vertices, s.st)) || !build(&s)) return false;
        for (uint32_t v = QC_CUT_FIRST + (uint32_t)s.g->node_count + 1; v < vertices; v++)
            s.time += s.on[v].source < s.on[v].sink ? s.on[v].source : s.on[v].sink;
        const bool *integer = integer_nodes(&s);
        const int64_t layout = integer ? qc_time_of_layout((enum qc_processor)i, s.g, integer, a, s.st) : -1;
        if (layout < 0) return false;
        p->time[i] = s.time + layout;
    }
    return true;
}

/* Finds the placement whose time on all processors together, by their shares, is least. */
static bool place_with(struct placement *out, const struct placing *empty, const double *share, const bool *fixed)
{
    const size_t nodes = empty->g->node_count;
    QC_ARENA_SCOPE *a = qc_arena_new(); /* of this cut: there are many */
    struct placing s = *empty;
    s.arena = a;
    for (int i = 0; i < QC_PROCESSORS; i++) s.share[i] = share[i];
    if (!qc_cut_new(&s.cut, QC_CUT_FIRST + nodes + 2 * s.g->value_count + 3, a, s.st) || !build(&s)) return false;
    for (qc_id id = 1; id <= nodes; id++)
        if (s.match_of[id] == id && (fixed[id] || s.unknown[id])) edge(&s, QC_CUT_SOURCE, of_node(id), QC_CUT_NEVER);
    if (s.st->code != QC_OK || !(out->real = QC_NEW_ARRAY(empty->arena, bool, nodes + 1, s.st))) return false;
    qc_cut_solve(s.cut);
    for (qc_id id = 1; id <= nodes; id++)
        out->real[id] = s.match_of[id] == id && !qc_cut_with_source(s.cut, of_node(id));
    return time_placement(out, empty);
}

/* Returns true if a placement gains on the processor of a choice; of any processor on the first, and it is not slower
   than float on others. */
static bool gains(const struct placement *p, const struct placement *floats, enum qc_processor on)
{
    const int first = on == QC_PROCESSORS ? 0 : (int)on;
    for (int i = 0; i < QC_PROCESSORS; i++)
        if ((on == QC_PROCESSORS || (int)on == i) &&
            (double)p->time[i] > (i == first ? QC_PLACED_GAIN : 1) * (double)floats->time[i])
            return false;
    return true;
}

/* Returns true if a placement is hardly slower than float on each processor of a choice. */
static bool is_as_fast(const struct placement *p, const struct placement *floats, enum qc_processor on)
{
    const int first = on == QC_PROCESSORS ? 0 : (int)on;
    for (int i = 0; i < QC_PROCESSORS; i++) {
        const double least = i == first               ? QC_PLACED_SLOWER
                             : i == QC_PROCESSOR_AVX2 ? QC_PLACED_SLOWER_AVX2
                                                      : QC_PLACED_SLOWER_ELSEWHERE;
        if ((on == QC_PROCESSORS || (int)on == i) &&
            (double)(p->time[i] - floats->time[i]) > fmax(least, QC_PLACED_SLOWER_SHARE * (double)floats->time[i]))
            return false;
    }
    return true;
}

/* Sets *best to the fastest placement on `on` or, if it hardly gains, to all integers if these are as fast as float,
   or if the file has to have some, else to all floats. For any processor it is that of the first one; if it gains
   nothing on others, their times count more and more. */
static bool find_best(struct placement *best, const struct placing *empty, const struct placement *integers,
                      const struct placement *floats, enum qc_processor on, const bool *fixed)
{
    const bool any = on == QC_PROCESSORS;
    double share[QC_PROCESSORS] = {0};
    share[any ? 0 : on] = 1;
    for (int step = 0; step < (any ? QC_PLACED_STEPS : 1); step++) {
        if (!place_with(best, empty, share, fixed)) return false;
        if (gains(best, floats, on)) return true;
        for (int i = 1; any && i < QC_PROCESSORS; i++)
            share[i] = ldexp(QC_PLACED_FIRST_SHARE, step) * (double)floats->time[0] / (double)floats->time[i];
    }
    *best = empty->p->options.qoperator || is_as_fast(integers, floats, on) ? *integers : *floats;
    return true;
}

bool qc_place_by_time(const bool **real, struct qc_partition *p, const bool *fixed, const struct qc_uses *uses,
                      struct qc_status *st)
{
    const enum qc_processor on = p->options.processor;
    QC_ARENA_SCOPE *a = qc_arena_new();
    struct placing empty = {.p = p, .g = uses->graph, .uses = uses, .arena = a, .st = st}, first;
    struct placement integers, floats, best;
    *real = NULL;
    if (p->options.unplaced) return true;
    if (!qc_count_weights(&empty.weights, empty.g, st)) return false;
    first = empty;
    first.share[0] = 1;
    if (!(integers.real = QC_NEW_ARRAY(a, bool, first.g->node_count + 1, st)) ||
        !(floats.real = QC_NEW_ARRAY(a, bool, first.g->node_count + 1, st)) || !find_matches(&first))
        return false;
    for (qc_id id = 1; id <= first.g->node_count; id++)
        floats.real[id] = first.match_of[id] == id && !fixed[id] && !first.unknown[id];
    if (!time_placement(&integers, &empty) || !time_placement(&floats, &empty)) return false;
    if (gains(&integers, &floats, on == QC_PROCESSORS ? 0 : on) && is_as_fast(&integers, &floats, on)) return true;
    if (!find_best(&best, &empty, &integers, &floats, on, fixed)) return false;
    if (best.real == integers.real) return true;
    for (int i = 0; i < QC_PROCESSORS; i++) {
        const double gain = (double)(integers.time[i] - best.time[i]) / 1000;
        if ((on != QC_PROCESSORS && (int)on != i) || (p->placed_time > 0 && gain <= p->placed_gain)) continue;
        p->placed_gain = gain; /* of the processor that gains most */
        p->placed_time = (double)best.time[i] / 1000;
    }
    return (*real = qc_arena_dup(p->arena, best.real, p->graph->node_count + 1, sizeof *best.real, st)) != NULL;
}
