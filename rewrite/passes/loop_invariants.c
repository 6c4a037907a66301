// SPDX-License-Identifier: Apache-2.0
#include "rewrite/passes/loop_invariants.h"

#include <string.h>

#include "base/scope.h"
#include "graph/core/body.h"

/* What becomes of the inputs and outputs of a node with bodies. */
struct change {
    unsigned count, kept;               /* inputs of the new node; those of them that are no captures */
    unsigned *order;                    /* [count]: old inputs */
    bool *dropped;                      /* [states]: states without an output */
    const struct qc_tensor **constants; /* [input_count]: old inputs that are constants in the bodies */
    bool any;
};

static bool is_output(const struct qc_graph *g, qc_id v)
{
    for (size_t i = 0; i < g->output_count; i++)
        if (g->outputs[i].value == v) return true;
    return false;
}

static bool find_change(struct change *c, const struct qc_rebuild *r, const struct qc_node *n,
                        const struct qc_bodies *b, struct qc_status *st)
{
    struct qc_arena *a = r->to->arena;
    const unsigned first = b->first_state, given = n->input_count - b->captures;
    unsigned left = n->output_count;
    *c = (struct change){.order = QC_NEW_ARRAY(a, unsigned, n->input_count, st),
                         .dropped = QC_NEW_ARRAY(a, bool, b->states + 1, st),
                         .constants = QC_NEW_ARRAY(a, const struct qc_tensor *, n->input_count + 1, st)};
    if (!c->order || !c->dropped || !c->constants) return false;
    for (unsigned k = 0; k < b->states && left > 1; k++) {
        const struct qc_graph *body = b->graph[0];
        c->dropped[k] =
            body->outputs[b->before + k].value == body->inputs[first + k].value && !is_output(r->from, n->outputs + k);
        left -= c->dropped[k];
    }
    for (int captures = 0; captures < 2; captures++) /* captures are the last inputs */
        for (unsigned i = 0; i < n->input_count; i++) {
            const bool hoisted = i >= first && i - first < b->states && c->dropped[i - first];
            const bool capture = i >= given || hoisted;
            if (capture != (captures == 1)) continue;
            c->constants[i] = capture && n->inputs[i] ? qc_constant_of(r->to, r->map[n->inputs[i]]) : NULL;
            c->any = c->any || hoisted || c->constants[i];
            if (!c->constants[i]) c->order[c->count++] = i;
            if (!captures) c->kept = c->count;
        }
    return true;
}

/* Makes *out, the body with the change, also in bodies inside; NULL: it has none. */
static bool change_body(struct qc_graph **out, const struct qc_graph *body, const struct change *c,
                        const struct qc_bodies *b, struct qc_status *st)
{
    QC_REBUILD_SCOPE r = {0};
    if (!c->any) return qc_hoist_invariants(out, body, st);
    if (!qc_rebuild_begin_bare(&r, body, st)) return false;
    for (unsigned k = 0; st->code == QC_OK && k < c->count; k++) {
        if (c->order[k] < b->first) continue;
        const struct qc_port *p = &body->inputs[c->order[k] - b->first];
        const struct qc_type *t = &body->values[p->value].type;
        r.map[p->value] = qc_graph_add_input(r.to, p->name, t->dtype, &t->shape, st);
        if (st->code == QC_OK) qc_port_copy(&r.to->inputs[r.to->input_count - 1], p, r.to->arena, st);
    }
    for (size_t i = 0; i < body->input_count; i++)
        if (c->constants[i + b->first])
            r.map[body->inputs[i].value] = qc_graph_add_constant(r.to, NULL, c->constants[i + b->first], st);
    qc_id *outputs = QC_NEW_ARRAY(r.to->arena, qc_id, body->output_count, st);
    for (size_t i = 0; outputs && i < body->output_count; i++)
        if (i < b->before || i - b->before >= b->states || !c->dropped[i - b->before])
            outputs[i] = qc_rebuild_value(&r, body->outputs[i].value, st);
    QC_GRAPH_SCOPE *changed = NULL;
    return outputs && qc_rebuild_finish_with(&changed, &r, outputs, st) && qc_hoist_invariants(out, changed, st) &&
           (*out || (*out = qc_graph_ref(changed)));
}

/* Adds the node with its bodies, and maps its outputs. *any: a body differs. */
static bool change_node(bool *any, struct qc_rebuild *r, const struct qc_node *n, const struct change *c,
                        const struct qc_bodies *b, struct qc_status *st)
{
    struct qc_arena *a = r->to->arena;
    struct qc_attr *attrs = QC_NEW_ARRAY(a, struct qc_attr, n->attr_count + 1, st);
    qc_id *inputs = QC_NEW_ARRAY(a, qc_id, c->count + 1, st);
    const char **names = QC_NEW_ARRAY(a, const char *, n->output_count, st);
    unsigned count = 0, outputs = 0;
    if (!attrs || !inputs || !names) return false;
    for (unsigned k = 0; k < c->count; k++) inputs[k] = n->inputs[c->order[k]] ? r->map[n->inputs[c->order[k]]] : 0;
    for (unsigned k = 0; k < n->output_count; k++)
        if (k >= b->states || !c->dropped[k]) names[outputs++] = r->from->values[n->outputs + k].name;
    for (unsigned i = 0; st->code == QC_OK && i < n->attr_count; i++) {
        if (strcmp(n->attrs[i].name, "captures") == 0) continue;
        attrs[count] = n->attrs[i];
        if (attrs[count].kind == QC_ATTR_GRAPH) {
            struct qc_graph *body = NULL;
            change_body(&body, n->attrs[i].graph, c, b, st);
            *any = *any || body;
            attrs[count].graph = body ? body : qc_graph_ref(n->attrs[i].graph);
        }
        count++;
    }
    const unsigned made = count;
    if (n->op != QC_OP_If && c->count > c->kept) attrs[count++] = QC_INT("captures", (int64_t)(c->count - c->kept));
    const qc_id first =
        st->code == QC_OK
            ? qc_graph_add(r->to,
                           QC_NODE(n->op, .name = n->name, .inputs = inputs, .input_count = c->count, .attrs = attrs,
                                   .attr_count = count, .output_names = names, .output_count = outputs),
                           st)
            : 0;
    qc_bodies_release(attrs, made);
    outputs = 0;
    for (unsigned k = 0; first && k < n->output_count; k++)
        r->map[n->outputs + k] =
            k < b->states && c->dropped[k] ? r->map[n->inputs[k + b->first_state]] : first + outputs++;
    return first != 0;
}

bool qc_hoist_invariants(struct qc_graph **out, const struct qc_graph *g, struct qc_status *st)
{
    QC_REBUILD_SCOPE r = {0};
    bool any = false;
    *out = NULL;
    if (!g->depth) return true;
    if (!qc_rebuild_begin(&r, g, st)) return false;
    QC_EACH_NODE(n, g) {
        struct qc_bodies b;
        struct change c;
        for (unsigned i = 0; i < n->input_count; i++) qc_rebuild_value(&r, n->inputs[i], st);
        if (st->code != QC_OK) return false;
        if (!qc_op_has_bodies(n->op))
            qc_rebuild_node(&r, n->id, st);
        else if (!qc_bodies_of(&b, n, st) || !find_change(&c, &r, n, &b, st) || !change_node(&any, &r, n, &c, &b, st))
            return false;
    }
    return st->code == QC_OK && (!any || qc_rebuild_finish(out, &r, st));
}
