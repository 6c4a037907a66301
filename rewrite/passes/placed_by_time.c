// SPDX-License-Identifier: Apache-2.0
#include "rewrite/passes/placed_by_time.h"

#include "rewrite/passes/costs.h"
#include "rewrite/passes/minimum_cut.h"
#include "rewrite/passes/operator_times.h"

/* Nanoseconds. RUN: of a run beside its operators. A network that takes less than LEAST_TIME in float stays in
   integers: a small file is worth more than a few microseconds. So does one that gains less than LEAST_GAIN, and one
   whose integers take at most DOUBT times the float model's time: estimates of integers are up to a fifth too high (of
   a face detector, and of transformers), and operators in float give other bits on other processors. */
enum { RUN = 4000, LEAST_TIME = 12000, LEAST_GAIN = 5000 };

/* Nanoseconds that a byte of the file is worth, as long as the time is at most SLOWEST times that of float. */
#define TIME_OF_BYTE 0.1
#define SLOWEST 1.02
#define DOUBT 1.22

struct placing {
    const struct qc_partition *p;
    const struct qc_graph *g;
    const struct qc_uses *uses;
    struct qc_status *st;
    struct qc_flow_cut *cut;
    qc_id *match_of; /* [node_count + 1]: the node of the match that contains it, or 0 */
    bool *unknown;   /* [node_count + 1]: matches whose time is not known */
    int64_t time;    /* of all operators, ... */
    int64_t others;  /* ... and of those without a match */
    bool ok;
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

static void edge(struct placing *s, uint32_t from, uint32_t to, int64_t capacity)
{
    if (capacity > 0) s->ok = s->ok && qc_cut_edge(s->cut, from, to, capacity, s->st);
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

static bool is_conv(const struct placing *s, qc_id node)
{
    return node && s->g->nodes[node].op == QC_OP_Conv;
}

/* Returns true if the node computes element by element, so that it takes any order of channels. */
static bool takes_any_layout(const struct placing *s, qc_id node)
{
    const struct qc_op_info *op = qc_op_info(s->g->nodes[node].op);
    return node && (op->unary || op->affine == QC_AFFINE_BOUND || op->affine == QC_AFFINE_MERGE);
}

/* The order of channels changes with the type if one side is a convolution, and the other one is not element by
   element. */
static bool changes_layout(const struct placing *s, qc_id value, qc_id one, qc_id other)
{
    const struct qc_shape *shape = &qc_value(s->g, value)->type.shape;
    return shape->rank == 4 && (shape->dim[2] != 1 || shape->dim[3] != 1) &&
           ((is_conv(s, one) && !takes_any_layout(s, other)) || (is_conv(s, other) && !takes_any_layout(s, one)));
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
    const int64_t time = qc_time_to_convert(s->g, value, true, layout);
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
    if (real) edge(s, of_class(s, value), of_floats(s, value), qc_time_to_convert(s->g, value, false, layout));
}

/* Operators that move elements are on the side of their class. */
static bool add_moves(struct placing *s, qc_id node)
{
    struct qc_operator_times t;
    const struct qc_node *n = &s->g->nodes[node];
    if (!n->input_count || !n->inputs[0] || !passes_on(s, node, n->inputs[0])) return false;
    if (qc_times_of_move(&t, s->g, n)) weigh(s, of_class(s, n->outputs), &t);
    return true;
}

static void add_matches(struct placing *s)
{
    const struct qc_partition *p = s->p;
    for (qc_id id = 1; id <= s->g->node_count; id++) {
        const struct qc_match *m = p->matches.at[id];
        struct qc_operator_times t;
        if (!m || p->weights_only[id]) continue;
        for (unsigned i = 0; i < m->node_count; i++) s->match_of[m->nodes[i]] = id;
        s->unknown[id] = !qc_times_of_match(&t, s->uses, m);
        if (!s->unknown[id]) weigh(s, of_node(id), &t);
    }
}

/* Returns the bytes that a match saves in integers. */
static int64_t bytes_saved(const struct placing *s, qc_id node)
{
    const struct qc_match *m = s->p->matches.at[node];
    int64_t elements = 0;
    for (unsigned i = 0; i < m->node_count; i++) {
        const struct qc_node *n = &s->g->nodes[m->nodes[i]];
        const struct qc_tensor *w =
            qc_op_info(n->op)->affine == QC_AFFINE_PRODUCT ? qc_constant_of(s->g, n->inputs[1]) : NULL;
        elements += w ? (int64_t)w->count : 0;
    }
    return 3 * elements;
}

static void build(struct placing *s)
{
    add_matches(s);
    for (qc_id id = 1; id <= s->g->node_count; id++)
        if (s->p->matches.live[id] && !s->match_of[id] && !add_moves(s, id)) s->others += qc_time_of_float(s->g, id);
    s->time += s->others + RUN;
    for (qc_id v = 1; v <= s->g->value_count; v++) {
        if (s->g->values[v].type.dtype != QC_F32 || qc_constant_of(s->g, v)) continue;
        add_producer(s, v);
        add_readers(s, v);
    }
}

/* Which matches are in float: as many as possible, none, or those that lower a sum. */
enum choice { ALL_REAL, NONE_REAL, LEAST_SUM };

/* Finds the placement with the least sum of its time and byte_time for each byte that weights take in float beyond
   integers. Sets s->time to its time. fixed: [node_count + 1], matches in integers. */
static bool solve(struct placing *s, enum choice choice, double byte_time, const bool *fixed)
{
    struct qc_arena *a = s->p->arena;
    s->match_of = QC_NEW_ARRAY(a, qc_id, s->g->node_count + 1, s->st);
    s->unknown = QC_NEW_ARRAY(a, bool, s->g->node_count + 1, s->st);
    if (!s->match_of || !s->unknown ||
        !qc_cut_new(&s->cut, QC_CUT_FIRST + s->g->node_count + 2 * s->g->value_count + 3, a, s->st))
        return false;
    s->ok = true;
    build(s);
    for (qc_id id = 1; id <= s->g->node_count; id++) {
        if (s->match_of[id] != id) continue;
        if (fixed[id] || s->unknown[id] || choice == NONE_REAL)
            edge(s, QC_CUT_SOURCE, of_node(id), QC_CUT_NEVER);
        else if (choice == ALL_REAL)
            edge(s, of_node(id), QC_CUT_SINK, QC_CUT_NEVER);
        else
            edge(s, QC_CUT_SOURCE, of_node(id), (int64_t)(byte_time * (double)bytes_saved(s, id)));
    }
    if (!s->ok) return false;
    s->time += qc_cut_solve(s->cut);
    for (qc_id id = 1; id <= s->g->node_count; id++)
        if (s->match_of[id] == id && choice == LEAST_SUM && !qc_cut_with_source(s->cut, of_node(id)))
            s->time -= (int64_t)(byte_time * (double)bytes_saved(s, id));
    return true;
}

bool qc_place_by_time(const bool **real, struct qc_partition *p, const bool *fixed, const struct qc_uses *uses,
                      struct qc_status *st)
{
    const struct qc_graph *g = p->graph;
    const struct placing empty = {.p = p, .g = g, .uses = uses, .st = st};
    struct placing integers = empty, floats = empty, small = empty, fast = empty;
    bool *out = QC_NEW_ARRAY(p->arena, bool, g->node_count + 1, st);
    *real = NULL;
    if (!out || !solve(&integers, NONE_REAL, 0, fixed) || !solve(&floats, ALL_REAL, 0, fixed)) return false;
    if (floats.time < LEAST_TIME || (double)integers.time <= DOUBT * (double)floats.time) return true;
    if (!solve(&small, LEAST_SUM, TIME_OF_BYTE, fixed) || !solve(&fast, LEAST_SUM, 0, fixed)) return false;
    const struct placing *best = (double)small.time <= SLOWEST * (double)floats.time ? &small : &fast;
    const int64_t gain = integers.time - best->time;
    p->placed_gain = (double)gain / 1000;
    p->placed_time = (double)best->time / 1000;
    if (gain < LEAST_GAIN) return true;
    for (qc_id id = 1; id <= g->node_count; id++)
        out[id] = best->match_of[id] == id && !qc_cut_with_source(best->cut, of_node(id));
    *real = out;
    return true;
}
