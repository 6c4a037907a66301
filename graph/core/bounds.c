// SPDX-License-Identifier: Apache-2.0
#include "graph/core/bounds.h"

#include <math.h>

#include "base/pool.h"
#include "graph/core/function.h"

#define INF ((double)INFINITY)

static const struct qc_bounds unknown = {-INF, INF};

static struct qc_bounds hull_of(struct qc_bounds a, struct qc_bounds b)
{
    return (struct qc_bounds){.lo = a.lo < b.lo ? a.lo : b.lo, .hi = a.hi > b.hi ? a.hi : b.hi};
}

static struct qc_bounds cut(struct qc_bounds a, double lo, double hi)
{
    return (struct qc_bounds){.lo = fmin(fmax(a.lo, lo), hi), .hi = fmax(fmin(a.hi, hi), lo)};
}

/* Arguments of a rule, for a node or a step of a function: the bounds of the inputs, and the constants among them. */
struct question {
    const struct qc_graph *g;
    const struct qc_node *node; /* NULL for a step */
    unsigned count;             /* rules read at most 3 */
    const struct qc_bounds *inputs;
    const bool *absent;
    struct qc_arena *arena;
    struct qc_status *st;
};

typedef struct qc_bounds rule_fn(const struct question *q, struct qc_bounds row);

static struct qc_bounds fixed(const struct question *q, struct qc_bounds row)
{
    return row;
}

static struct qc_bounds inputs_hull(const struct question *q)
{
    struct qc_bounds all = q->count ? q->inputs[0] : unknown;
    for (unsigned i = 1; i < q->count; i++)
        if (!q->absent[i]) all = hull_of(all, q->inputs[i]);
    return all;
}

static struct qc_bounds within(const struct question *q, struct qc_bounds row)
{
    return cut(inputs_hull(q), row.lo, row.hi);
}

static struct qc_bounds clip(const struct question *q, struct qc_bounds row)
{
    double lo = q->count > 1 && !q->absent[1] ? q->inputs[1].lo : row.lo,
           hi = q->count > 2 && !q->absent[2] ? q->inputs[2].hi : row.hi;
    return lo <= hi ? cut(q->inputs[0], lo, hi) : unknown;
}

static struct qc_bounds hull(const struct question *q, struct qc_bounds row)
{
    static const struct qc_bounds zero = {0, 0};
    const enum qc_op op = q->node ? q->node->op : QC_OP_INVALID;
    row = q->node && qc_node_affine(q->node) == QC_AFFINE_KEEP ? q->inputs[0] : inputs_hull(q);
    if (op == QC_OP_Pad) return hull_of(row, q->count > 2 && !q->absent[2] ? q->inputs[2] : zero);
    return op == QC_OP_AveragePool || op == QC_OP_Resize ? hull_of(row, zero) : row;
}

static struct qc_bounds table(const struct question *q, struct qc_bounds row);

struct row {
    rule_fn *rule;
    struct qc_bounds bounds;
};

static const struct row rows[QC_OP_COUNT] = {
#define QC_BOUNDS(op, rule_, lo_, hi_) [QC_OP_##op] = {.rule = rule_, .bounds = {.lo = lo_, .hi = hi_}},
#include "graph/core/bounds.def"
#undef QC_BOUNDS
};

static struct row row_of(enum qc_op op, enum qc_affine_behaviour affine)
{
    if (rows[op].rule) return rows[op];
    bool moves = affine == QC_AFFINE_KEEP || affine == QC_AFFINE_JOIN;
    return (struct row){.rule = moves ? hull : fixed, .bounds = unknown};
}

static struct qc_bounds table(const struct question *q, struct qc_bounds row)
{
    struct qc_bounds steps[QC_FUNCTION_STEPS];
    struct qc_function f;
    if (!qc_function_of(&f, q->node, q->arena, q->st)) return row;
    for (unsigned s = 0; s < f.count; s++) {
        struct qc_bounds in[QC_FUNCTION_ARGS];
        bool absent[QC_FUNCTION_ARGS];
        for (unsigned i = 0; i < f.steps[s].arg_count; i++) {
            const struct qc_function_arg *a = &f.steps[s].args[i];
            const double number = a->kind == QC_ARG_NUMBER ? (double)a->number : 0;
            absent[i] = a->kind == QC_ARG_ABSENT;
            in[i] = absent[i]                ? unknown
                    : a->kind == QC_ARG_X    ? q->inputs[0]
                    : a->kind == QC_ARG_STEP ? steps[a->step]
                                             : (struct qc_bounds){.lo = number, .hi = number};
        }
        struct row r = row_of(f.steps[s].op, QC_AFFINE_NONE);
        const struct question step = {.g = q->g, .count = f.steps[s].arg_count, .inputs = in, .absent = absent};
        steps[s] = r.rule(&step, r.bounds);
    }
    return f.count ? steps[f.count - 1] : unknown;
}

static struct qc_bounds of_constant(const struct qc_tensor *t)
{
    float lo, hi;
    return qc_tensor_extremes(&lo, &hi, t) ? (struct qc_bounds){.lo = (double)lo, .hi = (double)hi} : unknown;
}

/* Large constants, whose extremes are computed in parallel and cached with them. */
struct large {
    const struct qc_tensor **of;
    size_t count;
};

static void look_at(void *user, size_t i)
{
    const struct large *large = user;
    (void)of_constant(large->of[i]);
}

struct qc_bounds *qc_graph_bounds(const struct qc_graph *g, struct qc_arena *a, struct qc_status *st)
{
    enum { MOST = 255 };
    struct qc_bounds *b = QC_NEW_ARRAY(a, struct qc_bounds, g->value_count + 1, st),
                     *in = QC_NEW_ARRAY(a, struct qc_bounds, MOST, st);
    bool *absent = QC_NEW_ARRAY(a, bool, MOST, st);
    if (!b || !in || !absent) return NULL;
    enum { LARGE = 1 << 18 };
    struct large large = {.of = QC_NEW_ARRAY(a, const struct qc_tensor *, g->value_count + 1, st)};
    if (!large.of) return NULL;
    for (qc_id v = 1; v <= g->value_count; v++) {
        const struct qc_tensor *t = qc_constant_of(g, v);
        if (t && t->dtype == QC_F32 && t->count >= LARGE && !t->extremes) large.of[large.count++] = t;
    }
    qc_pool_loop(large.count, look_at, &large);
    for (qc_id v = 0; v <= g->value_count; v++) {
        const struct qc_tensor *t = v ? qc_constant_of(g, v) : NULL;
        b[v] = t && g->values[v].type.qparams == QC_REAL ? of_constant(t) : unknown;
    }
    QC_EACH_NODE(n, g) {
        struct row r = row_of(n->op, qc_node_affine(n));
        if (n->input_count > MOST) continue;
        for (unsigned i = 0; i < n->input_count; i++) {
            in[i] = b[n->inputs[i]];
            absent[i] = n->inputs[i] == QC_ABSENT;
        }
        const struct question q = {
            .g = g, .node = n, .count = n->input_count, .inputs = in, .absent = absent, .arena = a, .st = st};
        const struct qc_bounds result = r.rule(&q, r.bounds);
        for (unsigned k = 0; k < n->output_count; k++) b[n->outputs + k] = result;
    }
    return st->code == QC_OK ? b : NULL;
}
