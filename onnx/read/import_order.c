// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "onnx/read/importing.h"

static const char *label_of(const Onnx__NodeProto *p)
{
    if (*qc_proto_text(p->name)) return p->name;
    return p->n_output ? p->output[0] : "";
}

/* --- What is in use --- */

struct marks {
    size_t count; /* nodes whose inputs are still to be looked at */
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
        if (n->is_output) return qc_fail(st, QC_BAD_INPUT, "the graph has two outputs '%.200s'", name);
        n->is_output = true;
        mark(im, &m, n);
    }
    while (m.count) {
        const Onnx__NodeProto *node = p->node[m.nodes[--m.count]];
        for (size_t k = 0; k < node->n_input; k++) {
            if (!*node->input[k]) continue;
            struct qc_onnx_name *n = qc_import_find(im, node->input[k]);
            if (!n)
                return qc_fail(st, QC_BAD_INPUT, "node '%.200s' (%.80s) needs the value '%.200s', which nothing makes",
                               label_of(node), qc_proto_text(node->op_type), node->input[k]);
            mark(im, &m, n);
        }
    }
    size_t dead = 0;
    for (size_t i = 0; i < p->n_node; i++) dead += !im->live[i];
    return !dead || qc_import_line(im, &im->notes, st, "%zu nodes that no output needs were left out", dead);
}

/* --- What is not supported --- */

enum { KINDS = 64, LIST = 1500 };

struct kind {
    const char *domain, *name, *first;
    size_t count;
};

struct kinds {
    size_t count, more; /* more: occurrences beyond the table */
    struct kind of[KINDS];
};

static void note_kind(struct kinds *k, const char *domain, const char *name, const char *where)
{
    for (size_t i = 0; i < k->count; i++) {
        if (strcmp(k->of[i].name, name) == 0 && strcmp(k->of[i].domain, domain) == 0) {
            k->of[i].count++;
            return;
        }
    }
    if (k->count == KINDS)
        k->more++;
    else
        k->of[k->count++] = (struct kind){.domain = domain, .name = name, .first = where, .count = 1};
}

static bool default_domain(const char *s)
{
    return !*s || strcmp(s, "ai.onnx") == 0;
}

static bool has_graph(const Onnx__NodeProto *p)
{
    for (size_t i = 0; i < p->n_attribute; i++)
        if (p->attribute[i]->g || p->attribute[i]->n_graphs) return true;
    return false;
}

static void append(char list[LIST], size_t *n, const char *text)
{
    size_t k = strlen(text);
    if (k > LIST - 1 - *n) k = LIST - 1 - *n;
    memcpy(list + *n, text, k);
    *n += k;
    list[*n] = '\0';
}

/* "If (2 nodes, the first is 'cond'), com.acme::Fused (1 node, 'x')" */
static void print_kinds(char list[LIST], const struct kinds *k, const char *one, const char *many)
{
    char item[512];
    size_t n = 0, left = k->more;
    list[0] = '\0';
    for (size_t i = 0; i < k->count; i++) {
        const struct kind *x = &k->of[i];
        if (n > LIST - 400) {
            left += x->count;
            continue;
        }
        qc_text(item, sizeof item, "%s%.80s%s%.80s (%zu %s, %s'%.120s')", i ? ", " : "", x->domain,
                *x->domain ? "::" : "", x->name, x->count, x->count == 1 ? one : many,
                x->count == 1 ? "" : "the first is ", x->first);
        append(list, &n, item);
    }
    if (left) append(list, &n, qc_text(item, sizeof item, " and %zu more %s", left, many));
}

static bool check_types(struct qc_importer *im, struct qc_status *st)
{
    const Onnx__GraphProto *p = im->proto;
    char text[QC_TYPE_TEXT], list[LIST];
    struct kinds *k = QC_NEW(im->arena, struct kinds, st);
    if (!k) return false;
    for (size_t i = 0; i < im->name_count; i++) {
        const struct qc_onnx_name *n = &im->names[i];
        int data_type;
        if (n->origin == QC_FROM_NODE || (n->origin == QC_FROM_INITIALIZER && !n->uses)) continue;
        if (n->origin == QC_FROM_INITIALIZER) {
            data_type = p->initializer[n->index]->data_type;
        } else {
            const Onnx__TypeProto *t = p->input[n->index]->type;
            if (!t) return qc_fail(st, QC_BAD_INPUT, "the graph input '%.200s' has no type", n->name);
            if (t->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE) {
                note_kind(k, "", "sequence, map, optional or sparse", n->name);
                continue;
            }
            data_type = t->tensor_type->elem_type;
        }
        if (qc_dtype_from_onnx(data_type) != QC_NONE) continue;
        const char *name = qc_arena_strdup(im->arena, qc_import_type_text(text, data_type), st);
        if (!name) return false;
        note_kind(k, "", name, n->name);
    }
    if (!k->count) return true;
    print_kinds(list, k, "tensor", "tensors");
    return qc_fail(st, QC_UNSUPPORTED, "types that are not handled: %s", list);
}

bool qc_import_check_supported(struct qc_importer *im, const Onnx__ModelProto *model, struct qc_status *st)
{
    const Onnx__GraphProto *p = im->proto;
    char list[LIST];
    struct kinds *k = QC_NEW(im->arena, struct kinds, st);
    if (!k) return false;
    for (size_t i = 0; i < p->n_node; i++) {
        const Onnx__NodeProto *node = p->node[i];
        const char *op = qc_proto_text(node->op_type), *domain = qc_proto_text(node->domain);
        if (!im->live[i]) continue;
        const char *known = qc_import_op_name(im, node, st);
        if (!known) return false;
        if (!default_domain(domain) && !qc_import_op_known(im, known))
            note_kind(k, domain, op, label_of(node));
        else if (has_graph(node) || !qc_import_op_known(im, known))
            note_kind(k, "", op, label_of(node));
    }
    if (k->count) {
        print_kinds(list, k, "node", "nodes");
        return qc_fail(st, QC_UNSUPPORTED,
                       "operators that are not handled: %s%s; export the model without them, or simplify it first",
                       list, model->n_functions ? " (functions of the model are not expanded)" : "");
    }
    return check_types(im, st);
}

/* --- Producers first --- */

enum state { WAITING, ENTERED, DONE };

struct frame {
    size_t node, next; /* next: the input to look at */
};

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
        if (f->next < node->n_input) {
            const char *name = node->input[f->next++];
            const struct qc_onnx_name *n = *name ? qc_import_find(im, name) : NULL;
            if (!n || n->origin != QC_FROM_NODE || state[n->index] == DONE) continue;
            if (state[n->index] == ENTERED)
                return qc_fail(st, QC_BAD_INPUT,
                               "the graph has a cycle: node '%.200s' (%.80s) needs '%.200s', which needs its result",
                               label_of(node), qc_proto_text(node->op_type), name);
            state[n->index] = ENTERED;
            stack[++depth] = (struct frame){.node = n->index};
            *moved = true;
            continue;
        }
        if (!qc_import_node(im, node, label_of(node), st)) return false;
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
    return !moved || qc_import_line(im, &im->notes, st, "the nodes were not in topological order; they were sorted");
}
