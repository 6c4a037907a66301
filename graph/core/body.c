// SPDX-License-Identifier: Apache-2.0
#include "graph/core/body.h"

#include <stdlib.h>
#include <string.h>

#include "base/scope.h"

static const struct qc_graph *graph_attr(const struct qc_node *n, const char *name)
{
    const struct qc_attr *a = qc_attr_find(n, name);
    return a && a->kind == QC_ATTR_GRAPH ? a->graph : NULL;
}

bool qc_bodies_of(struct qc_bodies *out, const struct qc_node *n, struct qc_status *st)
{
    struct qc_bodies b = {.count = 1};
    const int64_t captures = qc_attr_int(n, "captures", 0);
    unsigned given;
    b.attr[0] = "body";
    b.first_state = n->op == QC_OP_Loop ? 2 : 0;
    b.before = n->op == QC_OP_Loop ? 1 : 0;
    if (n->op == QC_OP_If) b = (struct qc_bodies){.count = 2, .first = 1, .attr = {"then_branch", "else_branch"}};
    if (captures < 0 || captures > n->input_count) return qc_fail(st, QC_BAD_INPUT, "has a wrong number of captures");
    b.captures = n->op == QC_OP_If ? n->input_count - 1 : (unsigned)captures;
    given = n->input_count - b.captures;
    for (unsigned k = 0; k < b.count; k++)
        if (!(b.graph[k] = graph_attr(n, b.attr[k]))) return qc_fail(st, QC_BAD_INPUT, "has no body '%s'", b.attr[k]);
    if (n->op == QC_OP_Loop) {
        if (given < b.first_state)
            return qc_fail(st, QC_BAD_INPUT, "has %u inputs, expected at least %u", given, b.first_state);
        b.states = given - b.first_state;
    } else if (n->op == QC_OP_Scan) {
        const int64_t scanned = qc_attr_int(n, "num_scan_inputs", 0);
        if (scanned < 1 || scanned > given)
            return qc_fail(st, QC_BAD_INPUT, "num_scan_inputs is %lld, but it has %u inputs", (long long)scanned,
                           given);
        b.scanned = (unsigned)scanned;
        b.states = given - b.scanned;
    }
    for (unsigned i = b.first_state; i < n->input_count; i++)
        if (!n->inputs[i]) return qc_fail(st, QC_BAD_INPUT, "input %u is missing", i);
    if (n->op != QC_OP_If && b.states > n->output_count)
        return qc_fail(st, QC_BAD_INPUT, "has %u outputs, but carries %u states", n->output_count, b.states);
    b.stacked = n->op == QC_OP_If ? 0 : n->output_count - b.states;
    for (unsigned k = 0; k < b.count; k++) {
        const struct qc_graph *g = b.graph[k];
        if (g->input_count + b.first != n->input_count)
            return qc_fail(st, QC_BAD_INPUT, "its body '%s' has %zu inputs, but gets %u", b.attr[k], g->input_count,
                           n->input_count - b.first);
        if (g->output_count != (size_t)n->output_count + b.before)
            return qc_fail(st, QC_BAD_INPUT, "its body '%s' has %zu outputs, expected %u", b.attr[k], g->output_count,
                           n->output_count + b.before);
    }
    *out = b;
    return true;
}

unsigned qc_captures_of(const struct qc_node *n)
{
    if (!qc_op_has_bodies(n->op)) return 0;
    return n->op == QC_OP_If ? n->input_count - 1 : (unsigned)qc_attr_int(n, "captures", 0);
}

unsigned qc_body_depth(const struct qc_node_def *d)
{
    unsigned depth = 0;
    for (unsigned i = 0; i < d->attr_count; i++)
        if (d->attrs[i].kind == QC_ATTR_GRAPH && d->attrs[i].graph->depth + 1 > depth)
            depth = d->attrs[i].graph->depth + 1;
    return depth;
}

int64_t qc_scan_entry(const struct qc_node *n, const char *attr, unsigned k)
{
    const int64_t *v;
    return k < qc_attr_ints(n, attr, &v) ? v[k] : 0;
}

bool qc_scan_part(struct qc_shape *out, const struct qc_shape *whole, int64_t axis, struct qc_status *st)
{
    *out = QC_SHAPE_UNKNOWN;
    if (whole->rank < 0) return true;
    if (axis < -whole->rank || axis >= whole->rank)
        return qc_fail(st, QC_BAD_INPUT, "cannot be divided along axis %lld: it has %d dimensions", (long long)axis,
                       whole->rank);
    if (axis < 0) axis += whole->rank;
    *out = (struct qc_shape){.rank = whole->rank - 1};
    for (int i = 0, k = 0; i < whole->rank; i++)
        if (i != axis) out->dim[k++] = whole->dim[i];
    return true;
}

struct qc_shape qc_shape_join(const struct qc_shape *a, const struct qc_shape *b)
{
    struct qc_shape s = *a;
    if (a->rank < 0 || a->rank != b->rank) return QC_SHAPE_UNKNOWN;
    for (int i = 0; i < s.rank; i++)
        if (a->dim[i] != b->dim[i]) s.dim[i] = QC_FREE;
    return s;
}

bool qc_body_specialise(struct qc_graph **out, const struct qc_graph *body, const struct qc_shape *shapes,
                        const struct qc_tensor *const *constants, struct qc_status *st)
{
    QC_REBUILD_SCOPE r = {0};
    if (!qc_rebuild_begin(&r, body, st)) return false;
    r.to->shaped_from = body->shaped_from ? body->shaped_from : body;
    for (size_t i = 0; i < body->input_count; i++) {
        const qc_id v = body->inputs[i].value;
        r.to->values[r.map[v]].type.shape = shapes[i];
        if (constants && constants[i]) r.map[v] = qc_graph_add_constant(r.to, NULL, constants[i], st);
    }
    return qc_rebuild_finish(out, &r, st);
}

/* Sets the known shapes and constants of a body's inputs, from the node's inputs in r->to. */
static bool inputs_of(struct qc_shape *shapes, const struct qc_tensor **constants, const struct qc_rebuild *r,
                      const struct qc_node *n, const struct qc_bodies *b, const struct qc_graph *body,
                      struct qc_status *st)
{
    for (unsigned i = 0; i < body->input_count; i++) {
        const unsigned at = i + b->first;
        const qc_id v = n->inputs[at] ? r->map[n->inputs[at]] : 0;
        shapes[i] = qc_value(body, body->inputs[i].value)->type.shape;
        constants[i] = NULL;
        if (!v || i < b->first_state) continue;
        shapes[i] = qc_value(r->to, v)->type.shape;
        if (at + b->captures >= n->input_count && qc_value(r->to, v)->type.qparams == QC_REAL)
            constants[i] = qc_constant_of(r->to, v);
        const bool scanned = n->op == QC_OP_Scan && i >= b->states && i < b->states + b->scanned;
        const struct qc_shape whole = shapes[i];
        if (scanned && !qc_scan_part(&shapes[i], &whole, qc_scan_entry(n, "scan_input_axes", i - b->states), st))
            return false;
    }
    return true;
}

/* Finds state shapes that hold for every iteration: those of the first one if the body returns them, freer ones
   otherwise. A body that cannot have these shapes (a branch for others, never taken here) is left unchanged. */
static bool settle(struct qc_graph **out, const struct qc_node *n, const struct qc_bodies *b,
                   const struct qc_graph *body, struct qc_shape *shapes, const struct qc_tensor *const *constants,
                   struct qc_status *st)
{
    enum { ATTEMPTS = 3 };
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        struct qc_graph *g;
        bool same = true;
        struct qc_status own = QC_STATUS_INIT;
        if (!qc_body_specialise(&g, body, shapes, constants, &own)) {
            if (own.code != QC_MACHINE) break;
            *st = own;
            return false;
        }
        for (unsigned k = 0; k < b->states; k++) {
            const struct qc_shape made = qc_value(g, g->outputs[b->before + k].value)->type.shape;
            struct qc_shape joined = qc_shape_join(&shapes[b->first_state + k], &made);
            if (qc_shape_equal(&joined, &shapes[b->first_state + k])) continue;
            same = false;
            shapes[b->first_state + k] = attempt + 2 < ATTEMPTS ? joined : QC_SHAPE_UNKNOWN;
        }
        if (same) {
            *out = g;
            return true;
        }
        qc_graph_free(g);
    }
    *out = qc_graph_ref(body);
    return true;
}

bool qc_bodies_specialise(struct qc_attr *attrs, const struct qc_rebuild *r, const struct qc_node *n,
                          struct qc_status *st)
{
    struct qc_bodies b;
    if (!qc_bodies_of(&b, n, st)) return false;
    QC_FREED struct qc_shape *shapes = calloc(n->input_count + 1, sizeof *shapes);
    QC_FREED const struct qc_tensor **constants = calloc(n->input_count + 1, sizeof *constants);
    struct qc_graph *made[QC_BODIES] = {NULL};
    bool ok = (shapes && constants) || qc_fail_memory(st, n->input_count * sizeof *shapes);
    for (unsigned k = 0; ok && k < b.count; k++)
        ok = inputs_of(shapes, constants, r, n, &b, b.graph[k], st) &&
             settle(&made[k], n, &b, b.graph[k], shapes, constants, st);
    for (unsigned i = 0; ok && i < n->attr_count; i++) {
        attrs[i] = n->attrs[i];
        for (unsigned k = 0; k < b.count; k++)
            if (attrs[i].kind == QC_ATTR_GRAPH && strcmp(attrs[i].name, b.attr[k]) == 0) attrs[i].graph = made[k];
    }
    for (unsigned k = 0; !ok && k < b.count; k++) qc_graph_free(made[k]);
    return ok;
}

void qc_bodies_release(struct qc_attr *attrs, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (attrs[i].kind == QC_ATTR_GRAPH) qc_graph_free((struct qc_graph *)(uintptr_t)attrs[i].graph);
}

bool qc_body_inline(struct qc_rebuild *r, const struct qc_node *n, const struct qc_graph *body, struct qc_status *st)
{
    QC_FREED qc_id *map = calloc(body->value_count + 1, sizeof *map);
    struct qc_rebuild inner = {.from = body, .to = r->to, .map = map};
    if (!map) return qc_fail_memory(st, body->value_count * sizeof *map);
    for (size_t i = 0; i < body->input_count; i++)
        map[body->inputs[i].value] = r->map[n->inputs[n->input_count - body->input_count + i]];
    for (unsigned k = 0; k < n->output_count; k++)
        r->map[n->outputs + k] = qc_rebuild_value(&inner, body->outputs[k].value, st);
    return st->code == QC_OK;
}

const struct qc_graph *qc_constant_branch(const struct qc_rebuild *r, const struct qc_node *n)
{
    const struct qc_tensor *cond = n->op == QC_OP_If ? qc_constant_of(r->to, r->map[n->inputs[0]]) : NULL;
    if (!cond || cond->count != 1 || cond->dtype != QC_BOOL) return NULL;
    const struct qc_graph *g = graph_attr(n, qc_tensor_int(cond, 0) ? "then_branch" : "else_branch");
    return g && g->qparams_count == 0 ? g : NULL;
}

bool qc_bodies_replace(struct qc_graph **out, const struct qc_graph *g, qc_body_replace_fn *replace, const void *user,
                       struct qc_status *st)
{
    QC_REBUILD_SCOPE r = {0};
    if (!qc_rebuild_begin(&r, g, st)) return false;
    QC_EACH_NODE(n, g) {
        struct qc_attr *attrs =
            qc_op_has_bodies(n->op) ? QC_NEW_ARRAY(r.to->arena, struct qc_attr, n->attr_count, st) : NULL;
        for (unsigned i = 0; attrs && i < n->attr_count; i++) {
            struct qc_graph *body = NULL;
            attrs[i] = n->attrs[i];
            if (attrs[i].kind != QC_ATTR_GRAPH) continue;
            if (st->code == QC_OK) replace(&body, user, attrs[i].graph, st);
            attrs[i].graph = body ? body : qc_graph_ref(attrs[i].graph);
        }
        qc_rebuild_node_with(&r, n->id, attrs ? attrs : n->attrs, st);
        if (attrs) qc_bodies_release(attrs, n->attr_count);
    }
    return qc_rebuild_finish(out, &r, st);
}
