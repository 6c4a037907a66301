// SPDX-License-Identifier: Apache-2.0
#include "rewrite/passes/placed_by_time.h"

#include <math.h>

#include "rewrite/passes/costs.h"
#include "rewrite/passes/minimum_cut.h"
#include "rewrite/passes/operator_times.h"

/* On the first processor integers must take at most this part of the float model's time by estimate, for estimates are
   wrong by 10 % on average; on others at most the float model's time. */
#define GAINS 0.97

/* Nanoseconds. A network stays in integers if that takes at most SLOWER more than in float on the first processor and
   SLOWER_ELSEWHERE on others, or if it takes less than LEAST_TIME in float: a call takes as much. */
enum { SLOWER = 6000, SLOWER_ELSEWHERE = 12000, LEAST_TIME = 12000 };

/* For any processor: how often the shares of the others double, from the first one. */
enum { STEPS = 6 };
#define FIRST_SHARE 0.25

struct placing {
    const struct qc_partition *p;
    const struct qc_graph *g;
    const struct qc_uses *uses;
    double share[QC_PROCESSORS]; /* of the time of each processor in the sum */
    struct qc_arena *arena;
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
        if (!(m ? qc_times_of_match(&t, on, s->uses, m) : qc_times_of_node(&t, on, s->uses, node))) return false;
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

/* Operators that move elements are on the side of their class. */
static bool add_moves(struct placing *s, qc_id node)
{
    struct qc_operator_times t;
    const struct qc_node *n = &s->g->nodes[node];
    if (!n->input_count || !n->inputs[0] || !passes_on(s, node, n->inputs[0])) return false;
    if (times_of(&t, s, NULL, node)) weigh(s, of_class(s, n->outputs), &t);
    return true;
}

static void build(struct placing *s)
{
    const struct qc_partition *p = s->p;
    for (qc_id id = 1; id <= s->g->node_count; id++) {
        const struct qc_match *m = p->matches.at[id];
        struct qc_operator_times t;
        if (!m || p->weights_only[id]) continue;
        for (unsigned i = 0; i < m->node_count; i++) s->match_of[m->nodes[i]] = id;
        s->unknown[id] = !times_of(&t, s, m, 0);
        if (!s->unknown[id]) weigh(s, of_node(id), &t);
    }
    for (qc_id id = 1; id <= s->g->node_count; id++) {
        struct qc_operator_times t;
        if (!s->p->matches.live[id] || s->match_of[id] || add_moves(s, id)) continue;
        if (times_of(&t, s, NULL, id)) s->others += t.real;
    }
    for (int i = 0; i < QC_PROCESSORS; i++)
        s->time += (int64_t)(s->share[i] * (double)qc_time_of_run((enum qc_processor)i, s->g));
    s->time += s->others;
    for (qc_id v = 1; v <= s->g->value_count; v++) {
        if (s->g->values[v].type.dtype != QC_F32 || qc_constant_of(s->g, v)) continue;
        add_producer(s, v);
        add_readers(s, v);
    }
}

/* Which matches are in float: as many as possible, none, those that lower a sum, or given ones. */
enum choice { ALL_REAL, NONE_REAL, LEAST_SUM, GIVEN };

/* What is asked of a placement. */
struct question {
    const bool *fixed; /* [node_count + 1]: matches that stay in integers */
    enum choice choice;
    const bool *real; /* of GIVEN */
};

static bool is_real_in(const struct placing *s, qc_id id)
{
    return s->match_of[id] == id && !qc_cut_with_source(s->cut, of_node(id));
}

/* Finds the placement with the least time, and sets s->time to it. */
static bool solve(struct placing *s, const struct question *q)
{
    struct qc_arena *a = s->arena;
    const size_t nodes = s->g->node_count;
    s->match_of = QC_NEW_ARRAY(a, qc_id, nodes + 1, s->st);
    s->unknown = QC_NEW_ARRAY(a, bool, nodes + 1, s->st);
    if (!s->match_of || !s->unknown || !qc_cut_new(&s->cut, QC_CUT_FIRST + nodes + 2 * s->g->value_count + 3, a, s->st))
        return false;
    s->ok = true;
    build(s);
    for (qc_id id = 1; id <= nodes; id++) {
        if (s->match_of[id] != id) continue;
        if (q->fixed[id] || s->unknown[id] || q->choice == NONE_REAL || (q->choice == GIVEN && !q->real[id]))
            edge(s, QC_CUT_SOURCE, of_node(id), QC_CUT_NEVER);
        else if (q->choice == ALL_REAL || q->choice == GIVEN)
            edge(s, of_node(id), QC_CUT_SINK, QC_CUT_NEVER);
    }
    if (!s->ok) return false;
    s->time += qc_cut_solve(s->cut);
    return true;
}

/* Answers a question with the shares of *empty. Sets *time, and *real to the matches in float, unless it is NULL. */
static bool answer(int64_t *time, bool **real, const struct placing *empty, const struct question *q)
{
    QC_ARENA_SCOPE *a = qc_arena_new(); /* of this cut: there are many */
    struct placing s = *empty;
    if (!a) return qc_fail_memory(s.st, 1);
    s.arena = a;
    if (!solve(&s, q)) return false;
    *time = s.time;
    if (!real) return true;
    if (!(*real = QC_NEW_ARRAY(empty->arena, bool, s.g->node_count + 1, s.st))) return false;
    for (qc_id id = 1; id <= s.g->node_count; id++) (*real)[id] = is_real_in(&s, id);
    return true;
}

/* A placement with its times. */
struct placement {
    bool *real;
    int64_t time[QC_PROCESSORS];
};

/* Adds the times of a placement on all processors. */
static bool time_placement(struct placement *p, const struct placing *empty, const bool *fixed)
{
    for (int i = 0; i < QC_PROCESSORS; i++) {
        struct placing s = *empty;
        s.share[i] = 1;
        if (!answer(&p->time[i], NULL, &s, &(struct question){.fixed = fixed, .choice = GIVEN, .real = p->real}))
            return false;
    }
    return true;
}

static bool place_with(struct placement *out, const struct placing *empty, const double *share,
                       const struct question *q)
{
    struct placing s = *empty;
    int64_t time;
    for (int i = 0; i < QC_PROCESSORS; i++) s.share[i] = share[i];
    return answer(&time, &out->real, &s, q) && time_placement(out, empty, q->fixed);
}

/* Returns true if a placement gains on the processor of a choice; of any processor on the first, and it is not slower
   than float on others. */
static bool gains(const struct placement *p, const struct placement *floats, enum qc_processor on)
{
    const int first = on == QC_PROCESSORS ? 0 : (int)on;
    for (int i = 0; i < QC_PROCESSORS; i++)
        if ((on == QC_PROCESSORS || (int)on == i) &&
            (double)p->time[i] > (i == first ? GAINS : 1) * (double)floats->time[i])
            return false;
    return true;
}

/* Returns true if a placement is hardly slower than float on each processor of a choice. */
static bool is_as_fast(const struct placement *p, const struct placement *floats, enum qc_processor on)
{
    const int first = on == QC_PROCESSORS ? 0 : (int)on;
    for (int i = 0; i < QC_PROCESSORS; i++)
        if ((on == QC_PROCESSORS || (int)on == i) &&
            p->time[i] - floats->time[i] > (i == first ? SLOWER : SLOWER_ELSEWHERE) &&
            floats->time[first] >= LEAST_TIME)
            return false;
    return true;
}

/* Sets *best to the fastest placement on `on`, or to all floats if it hardly gains. For any processor that of the first
   one; if it gains nothing on others, their times count more and more. */
static bool find_best(struct placement *best, const struct placing *empty, const struct placement *floats,
                      enum qc_processor on, const bool *fixed)
{
    const bool any = on == QC_PROCESSORS;
    double share[QC_PROCESSORS] = {0};
    share[any ? 0 : on] = 1;
    for (int step = 0; step < (any ? STEPS : 1); step++) {
        if (!place_with(best, empty, share, &(struct question){.fixed = fixed, .choice = LEAST_SUM})) return false;
        if (gains(best, floats, on)) return true;
        for (int i = 1; any && i < QC_PROCESSORS; i++)
            share[i] = ldexp(FIRST_SHARE, step) * (double)floats->time[0] / (double)floats->time[i];
    }
    *best = *floats;
    return true;
}

bool qc_place_by_time(const bool **real, struct qc_partition *p, const bool *fixed, const struct qc_uses *uses,
                      struct qc_status *st)
{
    const enum qc_processor on = p->options.processor;
    QC_ARENA_SCOPE *a = qc_arena_new();
    const struct placing empty = {.p = p, .g = uses->graph, .uses = uses, .arena = a, .st = st};
    const double plain[QC_PROCESSORS] = {[QC_PROCESSOR_AVX512_VNNI] = 1};
    struct placement integers, floats, best;
    *real = NULL;
    if (!a) return qc_fail_memory(st, 1);
    if (!place_with(&integers, &empty, plain, &(struct question){.fixed = fixed, .choice = NONE_REAL}) ||
        !place_with(&floats, &empty, plain, &(struct question){.fixed = fixed, .choice = ALL_REAL}))
        return false;
    if (gains(&integers, &floats, on) || is_as_fast(&integers, &floats, on)) return true;
    if (!find_best(&best, &empty, &floats, on, fixed)) return false;
    for (int i = 0; i < QC_PROCESSORS; i++) {
        const double gain = (double)(integers.time[i] - best.time[i]) / 1000;
        if ((on != QC_PROCESSORS && (int)on != i) || (p->placed_time > 0 && gain <= p->placed_gain)) continue;
        p->placed_gain = gain; /* of the processor that gains most */
        p->placed_time = (double)best.time[i] / 1000;
    }
    return (*real = qc_arena_dup(p->arena, best.real, p->graph->node_count + 1, sizeof *best.real, st)) != NULL;
}
