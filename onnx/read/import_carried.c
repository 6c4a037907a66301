// SPDX-License-Identifier: Apache-2.0
/* Carried operators (graph/core/carried.h): found while nodes are imported, packed after the last. */
#include <stdlib.h>
#include <string.h>

#include "graph/core/body.h"
#include "onnx/read/importing.h"

/* --- Unsupported nodes --- */

/* A constant of text or of an unsupported type is data, not an operator. */
static bool is_constant(const Onnx__NodeProto *p)
{
    return strcmp(qc_proto_text(p->op_type), "Constant") == 0 && !p->n_input;
}

static bool known_input(const Onnx__ValueInfoProto *v, struct qc_status *st)
{
    if (!v->type) return qc_fail(st, QC_BAD_INPUT, "the graph input '%.200s' has no type", qc_proto_text(v->name));
    if (v->type->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE) return false;
    const Onnx__TypeProto__Tensor *t = v->type->tensor_type;
    return qc_dtype_from_onnx(t->elem_type) != QC_NONE && (!t->shape || t->shape->n_dim <= QC_RANK_MAX);
}

bool qc_import_carry_begin(struct qc_importer *im, struct qc_status *st)
{
    const Onnx__GraphProto *p = im->proto;
    im->carry = QC_NEW_ARRAY(im->arena, struct qc_carry, p->n_node, st);
    im->carried = QC_NEW_ARRAY(im->arena, size_t, p->n_node, st);
    if (!im->carry || !im->carried) return false;
    for (size_t i = 0; i < im->name_count; i++) {
        struct qc_onnx_name *n = &im->names[i];
        if (n->origin == QC_FROM_INITIALIZER)
            n->carried = qc_dtype_from_onnx(p->initializer[n->index]->data_type) == QC_NONE &&
                         !qc_import_is_list(im, p->initializer[n->index]);
        if (n->origin == QC_FROM_INPUT) n->carried = !known_input(p->input[n->index], st);
        if (st->code != QC_OK) return false;
    }
    return true;
}

/* "its input 'x' is of type string (8)" */
static const char *type_detail(struct qc_importer *im, const struct qc_onnx_name *n, struct qc_status *st)
{
    char text[QC_TYPE_TEXT];
    int data_type = 0;
    switch (n->origin) {
    case QC_FROM_INITIALIZER: data_type = im->proto->initializer[n->index]->data_type; break;
    case QC_FROM_INPUT: {
        const Onnx__TypeProto *t = im->proto->input[n->index]->type;
        if (t->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE)
            return qc_arena_printf(im->arena, st, "its input '%.80s' is a sequence, map, optional or sparse tensor",
                                   n->name);
        data_type = t->tensor_type->elem_type;
        if (qc_dtype_from_onnx(data_type) != QC_NONE)
            return qc_arena_printf(im->arena, st, "its input '%.80s' has more than %d dimensions", n->name,
                                   QC_RANK_MAX);
        break;
    }
    case QC_FROM_OUTSIDE: break; /* of bodies, which are carried as a whole */
    case QC_FROM_NODE:
        return qc_arena_printf(im->arena, st, "its input '%.80s' %s", n->name, im->carry[n->index].detail);
    }
    return qc_arena_printf(im->arena, st, "its input '%.80s' is of type %s", n->name,
                           qc_import_type_text(text, data_type));
}

static void carry(struct qc_importer *im, size_t i, struct qc_carry how)
{
    const Onnx__NodeProto *p = im->proto->node[i];
    how.carried = true;
    im->carry[i] = how;
    im->carried[im->carried_count++] = i;
    for (size_t k = 0; k < p->n_output; k++) {
        struct qc_onnx_name *n = *p->output[k] ? qc_import_find(im, p->output[k]) : NULL;
        if (!n) continue;
        qc_tensor_unref(n->constant);
        n->constant = NULL;
        n->alias = NULL;
        n->id = 0;
        n->carried = true;
    }
}

/* Returns the k-th name that a node reads: its inputs, then the outer names of its subgraphs; NULL after the last. */
static const char *read_by(const struct qc_importer *im, size_t node, size_t k)
{
    const Onnx__NodeProto *p = im->proto->node[node];
    const struct qc_outer_names *outer = &im->outer[node];
    if (k < p->n_input) return p->input[k];
    return k - p->n_input < outer->count ? outer->names[k - p->n_input] : NULL;
}

/* *out: that name; NULL if it is not known. Returns false after the last. */
static bool reads(struct qc_onnx_name **out, const struct qc_importer *im, size_t i, size_t k)
{
    const char *name = read_by(im, i, k);
    *out = name && *name ? qc_import_find(im, name) : NULL;
    return name != NULL;
}

/* *carried: node i is not supported, because of its operator or its inputs. */
static bool import_carry_unknown(bool *carried, struct qc_importer *im, size_t i, struct qc_status *st)
{
    const Onnx__NodeProto *p = im->proto->node[i];
    const char *op = qc_import_op_name(im, p, st);
    struct qc_onnx_name *n;
    if (!op) return false;
    *carried = true;
    if (!qc_import_op_known(im, op)) {
        carry(im, i, (struct qc_carry){.unknown = true});
        return true;
    }
    for (size_t k = 0; !qc_op_has_bodies(qc_op_from_onnx(op)) && k < p->n_attribute; k++) {
        if (!p->attribute[k]->g && !p->attribute[k]->n_graphs) continue;
        const char *detail =
            qc_arena_printf(im->arena, st, "attribute '%.80s' is a graph", qc_proto_text(p->attribute[k]->name));
        carry(im, i, (struct qc_carry){.unknown = true, .detail = detail});
        return detail != NULL;
    }
    const struct qc_carry *behind = NULL;
    for (size_t k = 0; reads(&n, im, i, k); k++) {
        if (!n || !n->carried) continue;
        if (n->origin == QC_FROM_NODE && !is_constant(im->proto->node[n->index])) {
            if (!behind) behind = &im->carry[n->index];
            continue;
        }
        const char *detail = type_detail(im, n, st);
        if (!detail) return false;
        carry(im, i, (struct qc_carry){.unknown = true, .detail = detail});
        return true;
    }
    *carried = behind != NULL;
    if (!behind) return true;
    const char *first = behind->detail;
    if (behind->unknown) {
        for (size_t k = 0; reads(&n, im, i, k); k++)
            if (n && n->carried && behind == &im->carry[n->index]) break;
        first = qc_proto_label(im->proto->node[n->index]);
    }
    carry(im, i, (struct qc_carry){.detail = first});
    return true;
}

/* --- The graph without carried nodes --- */

struct reading {
    struct qc_importer *im;
    struct qc_carried *c;
    unsigned char *seen;                   /* [name_count]: a carried node reads it */
    struct qc_carried_constant *constants; /* room for all names */
    Onnx__TensorProto **initializers;      /* of unsupported types; room for all */
    size_t initializer_count;
};

/* Keeps a value that a carried node reads: as an output of the graph, a constant, or data of an unsupported type. */
static bool take_carried(struct reading *r, struct qc_onnx_name *n, struct qc_status *st)
{
    struct qc_importer *im = r->im;
    struct qc_onnx_name *from = n->alias ? n->alias : n;
    if (r->seen[n - im->names]) return true;
    r->seen[n - im->names] = 1;
    if (n->origin == QC_FROM_INPUT || (n->is_output && !n->carried)) return true;
    if (n->carried) {
        if (n->origin == QC_FROM_INITIALIZER)
            r->initializers[r->initializer_count++] = im->proto->initializer[n->index];
        return true;
    }
    struct qc_status unread = QC_STATUS_INIT;
    if (!from->id && !qc_import_read_constant(im, from, &unread)) {
        if (unread.code != QC_UNSUPPORTED || from != n) {
            *st = unread;
            return false;
        }
        r->initializers[r->initializer_count++] = im->proto->initializer[n->index];
        return true;
    }
    const struct qc_tensor *t = from->constant ? from->constant : from->id ? qc_constant_of(im->g, from->id) : NULL;
    if (t) {
        r->constants[r->c->constant_count++] =
            (struct qc_carried_constant){qc_arena_strdup(r->c->arena, n->name, st), qc_tensor_ref(t)};
        return st->code == QC_OK;
    }
    const qc_id id = qc_import_enter_value(im, from, st);
    return id && qc_graph_add_output(im->g, n->name, id, st);
}

/* Removes graph inputs that only carried nodes read, and nodes whose import was not finished. */
static bool prune(struct reading *r, struct qc_status *st)
{
    struct qc_importer *im = r->im;
    const struct qc_graph *g = im->g;
    struct qc_graph view = *g;
    QC_REBUILD_SCOPE b = {0};
    unsigned char *used = QC_NEW_ARRAY(im->arena, unsigned char, g->value_count + 1, st);
    struct qc_port *inputs = QC_NEW_ARRAY(im->arena, struct qc_port, g->input_count, st);
    if (!used || !inputs) return false;
    for (size_t i = 0; i < g->output_count; i++) used[g->outputs[i].value] = 1;
    QC_EACH_NODE_BACK(n, g) {
        bool needed = false;
        for (unsigned k = 0; k < n->output_count; k++) needed |= used[n->outputs + k] != 0;
        for (unsigned k = 0; needed && k < n->input_count; k++) used[n->inputs[k]] = 1;
    }
    view.inputs = inputs;
    view.input_count = 0;
    for (size_t i = 0; i < g->input_count; i++) {
        const struct qc_onnx_name *n = qc_import_find(im, g->inputs[i].name);
        if (used[g->inputs[i].value] || !r->seen[n - im->names]) inputs[view.input_count++] = g->inputs[i];
    }
    struct qc_graph *pruned;
    if (!qc_rebuild_begin(&b, &view, st) || !qc_rebuild_finish(&pruned, &b, st)) return false;
    qc_graph_free(im->g);
    im->g = pruned;
    return true;
}

/* --- The carried part --- */

static bool list_nodes(struct reading *r, struct qc_status *st)
{
    struct qc_importer *im = r->im;
    struct qc_carried *c = r->c;
    struct qc_carried_node *nodes = QC_NEW_ARRAY(c->arena, struct qc_carried_node, im->carried_count, st);
    for (size_t i = 0; nodes && i < im->carried_count; i++) {
        const Onnx__NodeProto *p = im->proto->node[im->carried[i]];
        const struct qc_carry *how = &im->carry[im->carried[i]];
        if (is_constant(p)) continue;
        struct qc_carried_node n = {.domain = qc_arena_strdup(c->arena, qc_proto_domain(p->domain), st),
                                    .op = qc_arena_strdup(c->arena, qc_proto_text(p->op_type), st),
                                    .name = qc_arena_strdup(c->arena, qc_proto_label(p), st),
                                    .detail = how->detail ? qc_arena_strdup(c->arena, how->detail, st) : NULL,
                                    .unknown = how->unknown};
        nodes[c->node_count++] = n;
        c->unknown_count += n.unknown;
    }
    c->nodes = nodes;
    return st->code == QC_OK;
}

static void add_port(struct qc_carried_port *to, const struct qc_carried *c, const Onnx__ValueInfoProto *v,
                     struct qc_status *st)
{
    char text[QC_TYPE_TEXT] = "";
    const bool tensor = v->type && v->type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    const Onnx__TensorShapeProto *s = tensor ? v->type->tensor_type->shape : NULL;
    *to = (struct qc_carried_port){.shape = QC_SHAPE_UNKNOWN};
    if (s && s->n_dim <= QC_RANK_MAX) {
        to->shape.rank = (int)s->n_dim;
        for (size_t i = 0; i < s->n_dim; i++) to->shape.dim[i] = qc_import_dim(s->dim[i]);
    }
    const int elem = tensor ? v->type->tensor_type->elem_type : 0;
    if (qc_dtype_from_onnx(elem) != QC_NONE)
        qc_text(text, sizeof text, "%s", qc_dtype_info(qc_dtype_from_onnx(elem))->name);
    else if (elem)
        qc_import_type_text(text, elem);
    else if (v->type && !tensor && v->type->value_case != ONNX__TYPE_PROTO__VALUE__NOT_SET)
        qc_text(text, sizeof text, "no tensor");
    to->name = qc_arena_strdup(c->arena, qc_proto_text(v->name), st);
    to->type = qc_arena_strdup(c->arena, text, st);
}

static bool list_ports(struct reading *r, struct qc_status *st)
{
    const struct qc_importer *im = r->im;
    const Onnx__GraphProto *p = im->proto;
    struct qc_carried *c = r->c;
    struct qc_carried_port *in = QC_NEW_ARRAY(c->arena, struct qc_carried_port, p->n_input, st),
                           *out = QC_NEW_ARRAY(c->arena, struct qc_carried_port, p->n_output, st);
    if (!in || !out) return false;
    for (size_t i = 0; i < p->n_input; i++)
        if (qc_import_find(im, qc_proto_text(p->input[i]->name))->origin == QC_FROM_INPUT)
            add_port(&in[c->input_count++], c, p->input[i], st);
    for (size_t i = 0; i < p->n_output; i++) add_port(&out[c->model_output_count++], c, p->output[i], st);
    c->inputs = in;
    c->outputs = out;
    return st->code == QC_OK;
}

/* Moves external data into the message, because the new model is in another folder. */
static bool bring_tensor(Onnx__TensorProto *t, const struct qc_importer *im, struct qc_status *st)
{
    uint8_t *bytes;
    size_t size;
    if (!t || !qc_proto_outside(t)) return true;
    if (!qc_import_external_bytes(&bytes, &size, t, &im->beside, st)) return false;
    if (t->has_raw_data) free(t->raw_data.data);
    t->has_raw_data = 1;
    t->raw_data = (ProtobufCBinaryData){.len = size, .data = bytes};
    for (size_t i = 0; i < t->n_external_data; i++)
        onnx__string_string_entry_proto__free_unpacked(t->external_data[i], NULL);
    free(t->external_data);
    t->external_data = NULL;
    t->n_external_data = 0;
    t->has_data_location = 0;
    return true;
}

/* qc_proto_check bounds the nesting of messages and so the recursion. */
static bool bring_graph(Onnx__GraphProto *g, const struct qc_importer *im, struct qc_status *st)
{
    bool ok = true;
    for (size_t i = 0; ok && i < g->n_initializer; i++) ok = bring_tensor(g->initializer[i], im, st);
    for (size_t i = 0; ok && i < g->n_node; i++) {
        for (size_t n = 0; ok && n < g->node[i]->n_attribute; n++) {
            Onnx__AttributeProto *a = g->node[i]->attribute[n];
            ok = bring_tensor(a->t, im, st) && (!a->g || bring_graph(a->g, im, st));
            for (size_t k = 0; ok && k < a->n_tensors; k++) ok = bring_tensor(a->tensors[k], im, st);
            for (size_t k = 0; ok && k < a->n_graphs; k++) ok = bring_graph(a->graphs[k], im, st);
        }
        if (!ok) qc_where(st, "node '%.200s'", qc_proto_label(g->node[i]));
    }
    return ok;
}

static bool pack(struct qc_carried *c, const Onnx__ModelProto *m, struct qc_status *st)
{
    const size_t n = onnx__model_proto__get_packed_size(m);
    uint8_t *bytes = QC_NEW_ARRAY(c->arena, uint8_t, n + 1, st);
    if (!bytes) return false;
    c->size = onnx__model_proto__pack(m, bytes);
    c->bytes = bytes;
    return true;
}

static bool write_message(struct reading *r, const Onnx__ModelProto *from, struct qc_status *st)
{
    struct qc_importer *im = r->im;
    const Onnx__GraphProto *p = im->proto;
    Onnx__ModelProto m = ONNX__MODEL_PROTO__INIT;
    Onnx__GraphProto g = ONNX__GRAPH_PROTO__INIT;
    g.node = QC_NEW_ARRAY(im->arena, Onnx__NodeProto *, im->carried_count, st);
    g.value_info = QC_NEW_ARRAY(im->arena, Onnx__ValueInfoProto *, p->n_value_info, st);
    g.input = QC_NEW_ARRAY(im->arena, Onnx__ValueInfoProto *, p->n_input, st);
    if (!g.node || !g.value_info || !g.input) return false;
    for (size_t i = 0; i < im->carried_count; i++) g.node[g.n_node++] = p->node[im->carried[i]];
    for (size_t i = 0; i < p->n_value_info; i++) {
        const struct qc_onnx_name *n = qc_import_find(im, qc_proto_text(p->value_info[i]->name));
        if (n && n->origin == QC_FROM_NODE && n->carried) g.value_info[g.n_value_info++] = p->value_info[i];
    }
    for (size_t i = 0; i < p->n_input; i++)
        if (qc_import_find(im, qc_proto_text(p->input[i]->name))->origin == QC_FROM_INPUT)
            g.input[g.n_input++] = p->input[i];
    g.initializer = r->initializers;
    g.n_initializer = r->initializer_count;
    g.output = p->output;
    g.n_output = p->n_output;
    m.has_ir_version = 1;
    m.ir_version = from->ir_version;
    m.graph = &g;
    m.opset_import = from->opset_import;
    m.n_opset_import = from->n_opset_import;
    m.functions = from->functions;
    m.n_functions = from->n_functions;
    /* Pack, add external data to a copy, and pack again: the messages of the file must not be changed. */
    ProtobufCMessage *own;
    struct qc_arena *a = r->c->arena, *first = qc_arena_new();
    r->c->arena = first;
    bool ok = pack(r->c, &m, st);
    r->c->arena = a;
    ok = ok && qc_proto_unpack(&own, &onnx__model_proto__descriptor, r->c->bytes, r->c->size, "a model", st);
    qc_arena_free(first);
    if (!ok) return false;
    ok = bring_graph(((Onnx__ModelProto *)own)->graph, im, st) && pack(r->c, (Onnx__ModelProto *)own, st);
    protobuf_c_message_free_unpacked(own, NULL);
    return ok;
}

bool qc_import_carry_end(struct qc_importer *im, const Onnx__ModelProto *m, struct qc_status *st)
{
    struct reading r = {.im = im};
    struct qc_onnx_name *n;
    bool whole = im->carried_count == 0 || im->proto->n_node == 0;
    for (size_t i = 0; i < im->name_count; i++) {
        n = &im->names[i];
        whole = whole && !(n->carried && (n->origin != QC_FROM_INITIALIZER || n->uses));
    }
    if (whole) return true;
    if (!(r.c = qc_carried_new(st))) return false;
    r.seen = QC_NEW_ARRAY(im->arena, unsigned char, im->name_count, st);
    r.constants = QC_NEW_ARRAY(r.c->arena, struct qc_carried_constant, im->name_count, st);
    r.initializers = QC_NEW_ARRAY(im->arena, Onnx__TensorProto *, im->proto->n_initializer, st);
    bool ok = st->code == QC_OK;
    r.c->constants = r.constants;
    r.c->opset = im->opset;
    r.c->output_count = im->g->output_count;
    for (size_t i = 0; ok && i < im->carried_count; i++)
        for (size_t k = 0; ok && reads(&n, im, im->carried[i], k); k++) ok = !n || take_carried(&r, n, st);
    ok = ok && list_nodes(&r, st) && write_message(&r, m, st) && prune(&r, st) && list_ports(&r, st);
    if (ok)
        im->g->carried = r.c;
    else
        qc_carried_unref(r.c);
    return ok;
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
        if (n->is_output && !im->depth)
            qc_lines_add(&im->warnings, im->g->arena, st, "output '%s' is listed twice and taken once", name);
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
                               qc_proto_label(node), qc_proto_text(node->op_type), node->input[k]);
            mark(im, &m, n);
        }
        const struct qc_outer_names *outer = &im->outer[i];
        for (size_t k = 0; k < outer->count; k++) mark(im, &m, qc_import_find(im, outer->names[k]));
    }
    size_t dead = 0;
    for (size_t i = 0; i < p->n_node; i++) {
        dead += !im->live[i];
        if (!im->live[i]) qc_lines_add(&im->unused, im->g->arena, st, "%s", qc_proto_label(p->node[i]));
    }
    if (st->code != QC_OK) return false;
    return !dead || qc_lines_add(&im->notes, im->g->arena, st, "%zu nodes that no output needs were left out", dead);
}

/* --- Producers first --- */

enum state { WAITING, ENTERED, DONE };

struct frame {
    size_t node, next; /* next: index of the next input to follow */
};

static bool bring_in(struct qc_importer *im, size_t i, struct qc_status *st)
{
    const Onnx__NodeProto *node = im->proto->node[i];
    bool carried;
    if (im->depth) {
        /* A body is computed or carried as a whole with its node. */
        const char *op = qc_import_op_name(im, node, st);
        if (!op) return false;
        if (!qc_import_op_known(im, op))
            return qc_fail(st, QC_UNSUPPORTED, "node '%.200s': there is no operator %.80s here", qc_proto_label(node),
                           op);
        return qc_import_node(im, node, qc_proto_label(node), st);
    }
    if (!import_carry_unknown(&carried, im, i, st)) return false;
    if (carried || qc_import_node(im, node, qc_proto_label(node), st)) return true;
    if (st->code != QC_UNSUPPORTED) return false;
    /* It is carried, and the status of its import is reset. */
    const char *text = st->message, *behind = strncmp(text, "node '", 6) == 0 ? strstr(text, "): ") : NULL;
    struct qc_status own = QC_STATUS_INIT;
    const char *detail = qc_arena_strdup(im->arena, behind ? behind + 3 : text, &own);
    *st = own;
    if (!detail) return false;
    carry(im, i, (struct qc_carry){.unknown = !is_constant(node), .detail = detail});
    return true;
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
                               qc_proto_label(node), qc_proto_text(node->op_type), name);
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
