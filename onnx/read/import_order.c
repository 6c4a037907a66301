// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "onnx/read/importing.h"

const char *qc_import_label(const Onnx__NodeProto *p)
{
    if (*qc_proto_text(p->name)) return p->name;
    return p->n_output ? p->output[0] : "";
}

/* --- Nodes in use --- */

struct marks {
    size_t count; /* nodes whose inputs are not marked yet */
    size_t *nodes;
};

static void mark(struct qc_importer *im, struct marks *m, struct qc_onnx_name *n)
{
    n->uses++;
    if (n->origin != QC_FROM_NODE || im->live[n->index]) return;
    im->live[n->index] = 1;
    m->nodes[m->count++] = n->index;
}

bool qc_import_mark_live(struct qc_importer *im, struct qc_status *st)
{
    const Onnx__GraphProto *p = im->proto;
    struct marks m = {.nodes = QC_NEW_ARRAY(im->arena, size_t, p->n_node, st)};
    im->live = QC_NEW_ARRAY(im->arena, unsigned char, p->n_node, st);
    if (!m.nodes || !im->live) return false;
    if (!p->n_output) return qc_fail(st, QC_BAD_INPUT, "the graph has no outputs");
    for (size_t i = 0; i < p->n_output; i++) {
        const char *name = qc_proto_text(p->output[i]->name);
        struct qc_onnx_name *n = qc_import_find(im, name);
        if (!n) return qc_fail(st, QC_BAD_INPUT, "nothing makes the graph output '%.200s'", name);
        if (n->is_output && !im->depth) return qc_fail(st, QC_BAD_INPUT, "the graph has two outputs '%.200s'", name);
        n->is_output = true;
        mark(im, &m, n);
    }
    while (m.count) {
        const size_t i = m.nodes[--m.count];
        const Onnx__NodeProto *node = p->node[i];
        for (size_t k = 0; k < node->n_input; k++) {
            if (!*node->input[k]) continue;
            struct qc_onnx_name *n = qc_import_find(im, node->input[k]);
            if (!n)
                return qc_fail(st, QC_BAD_INPUT, "node '%.200s' (%.80s) needs the value '%.200s', which nothing makes",
                               qc_import_label(node), qc_proto_text(node->op_type), node->input[k]);
            mark(im, &m, n);
        }
        const struct qc_outer_names *outer = &im->outer[i];
        for (size_t k = 0; k < outer->count; k++) mark(im, &m, qc_import_find(im, outer->names[k]));
    }
    size_t dead = 0;
    for (size_t i = 0; i < p->n_node; i++) dead += !im->live[i];
    return !dead || qc_lines_add(&im->notes, im->g->arena, st, "%zu nodes that no output needs were left out", dead);
}

/* --- Producers first --- */

enum state { WAITING, ENTERED, DONE };

struct frame {
    size_t node, next; /* next: index of the next input to follow */
};

/* Returns the k-th name that a node reads: its inputs, then the outer names of its subgraphs; NULL at the end. */
static const char *read_by(const struct qc_importer *im, size_t node, size_t k)
{
    const Onnx__NodeProto *p = im->proto->node[node];
    const struct qc_outer_names *outer = &im->outer[node];
    if (k < p->n_input) return p->input[k];
    return k - p->n_input < outer->count ? outer->names[k - p->n_input] : NULL;
}

/* A body is computed or carried as a whole with its node. */
static bool bring_into_body(struct qc_importer *im, const Onnx__NodeProto *node, struct qc_status *st)
{
    const char *op = qc_import_op_name(im, node, st);
    if (!op) return false;
    if (!qc_import_op_known(im, op))
        return qc_fail(st, QC_UNSUPPORTED, "node '%.200s': there is no operator %.80s here", qc_import_label(node), op);
    return qc_import_node(im, node, qc_import_label(node), st);
}

static bool bring_in(struct qc_importer *im, size_t i, struct qc_status *st)
{
    const Onnx__NodeProto *node = im->proto->node[i];
    bool carried;
    if (im->depth) return bring_into_body(im, node, st);
    if (!qc_import_carry_unknown(&carried, im, i, st)) return false;
    if (carried || qc_import_node(im, node, qc_import_label(node), st)) return true;
    return st->code == QC_UNSUPPORTED && qc_import_carry_failed(im, i, st);
}

static bool import_from(struct qc_importer *im, size_t root, unsigned char *state, struct frame *stack, bool *moved,
                        struct qc_status *st)
{
    const Onnx__GraphProto *p = im->proto;
    size_t depth = 0;
    stack[0] = (struct frame){.node = root};
    state[root] = ENTERED;
    for (;;) {
        struct frame *f = &stack[depth];
        const Onnx__NodeProto *node = p->node[f->node];
        const char *name = read_by(im, f->node, f->next);
        if (name) {
            f->next++;
            const struct qc_onnx_name *n = *name ? qc_import_find(im, name) : NULL;
            if (!n || n->origin != QC_FROM_NODE || state[n->index] == DONE) continue;
            if (state[n->index] == ENTERED)
                return qc_fail(st, QC_BAD_INPUT,
                               "the graph has a cycle: node '%.200s' (%.80s) needs '%.200s', which needs its result",
                               qc_import_label(node), qc_proto_text(node->op_type), name);
            state[n->index] = ENTERED;
            stack[++depth] = (struct frame){.node = n->index};
            *moved = true;
            continue;
        }
        if (!bring_in(im, f->node, st)) return false;
        state[f->node] = DONE;
        if (depth == 0) return true;
        depth--;
    }
}

bool qc_import_nodes(struct qc_importer *im, struct qc_status *st)
{
    const size_t n = im->proto->n_node;
    unsigned char *state = QC_NEW_ARRAY(im->arena, unsigned char, n, st);
    struct frame *stack = QC_NEW_ARRAY(im->arena, struct frame, n + 1, st);
    bool moved = false;
    if (!state || !stack) return false;
    for (size_t i = 0; i < n; i++)
        if (im->live[i] && state[i] == WAITING && !import_from(im, i, state, stack, &moved, st)) return false;
    return !moved ||
           qc_lines_add(&im->notes, im->g->arena, st, "the nodes were not in topological order; they were sorted");
}
