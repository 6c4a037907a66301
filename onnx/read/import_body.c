// SPDX-License-Identifier: Apache-2.0
/* If, Loop and Scan: their bodies become graphs whose inputs include the captured outer values (graph/core/body.h).
   Outer constants are constants in the body. */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/checked.h"
#include "base/scope.h"
#include "graph/core/body.h"
#include "graph/core/custom.h"
#include "onnx/read/importing.h"

/* A body is read again if the shapes of its states turn out to be less fixed. Nested bodies multiply the number of
   readings. A body counts as one reading and one for every READING_NODES nodes. */
enum { ATTEMPTS = 4, READINGS_MAX = 20000, READING_NODES = 64 };

/* The inputs of a body: ONNX's inputs, then captures. */
struct border {
    size_t given, captures, states;
    size_t first_state; /* among the inputs of the body */
    size_t before;      /* outputs of the body before its states */
    bool declared;      /* use the shapes that the file declares for its inputs; not after they turned out wrong */
    enum qc_dtype *dtype;
    struct qc_shape *shape; /* [given + captures] */
    const char **name;      /* [captures]: names inside the body */
    struct qc_operand *operand;
};

static size_t index_of(const struct qc_importer *im, const Onnx__NodeProto *p)
{
    size_t i = 0;
    while (im->proto->node[i] != p) i++;
    return i;
}

/* --- Reading one body --- */

/* Returns the shape that the file declares for an input, where it is more specific. */
static struct qc_shape narrowed(const struct qc_shape *known, const Onnx__ValueInfoProto *v)
{
    const Onnx__TypeProto *t = v->type;
    const bool tensor = t && t->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE && t->tensor_type;
    const Onnx__TensorShapeProto *s = tensor ? t->tensor_type->shape : NULL;
    struct qc_shape out = *known;
    if (!s || s->n_dim > QC_RANK_MAX || (out.rank >= 0 && (size_t)out.rank != s->n_dim)) return out;
    for (int i = out.rank < 0 ? 0 : out.rank; i < (int)s->n_dim; i++) out.dim[i] = QC_FREE;
    out.rank = (int)s->n_dim;
    for (int i = 0; i < out.rank; i++)
        if (out.dim[i] == QC_FREE && s->dim[i]->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE &&
            s->dim[i]->dim_value > 0)
            out.dim[i] = s->dim[i]->dim_value;
    return out;
}

static bool add_body_inputs(struct qc_importer *body, struct border *b, struct qc_status *st)
{
    const Onnx__GraphProto *p = body->proto;
    size_t given = 0;
    for (size_t i = 0; i < p->n_input; i++) {
        struct qc_onnx_name *n = qc_import_find(body, qc_proto_text(p->input[i]->name));
        if (n->origin == QC_FROM_INITIALIZER) continue;
        if (given == b->given) return qc_fail(st, QC_BAD_INPUT, "has more than the %zu inputs that it gets", b->given);
        struct qc_shape shape = b->shape[given];
        if (b->declared || given < b->first_state) shape = narrowed(&shape, p->input[i]);
        /* The iteration number and the condition hold one element, of any rank. */
        if (given < b->first_state && shape.rank < 0) shape = QC_SCALAR;
        for (int d = 0; given < b->first_state && d < shape.rank; d++)
            if (shape.dim[d] == QC_FREE) shape.dim[d] = 1;
        if (given < b->first_state) b->shape[given] = shape;
        n->id = qc_graph_add_input(body->g, n->name, b->dtype[given++], &shape, st);
    }
    if (given < b->given) return qc_fail(st, QC_BAD_INPUT, "has %zu inputs, but gets %zu", given, b->given);
    for (size_t k = 0; k < b->captures; k++) {
        struct qc_onnx_name *n = qc_import_find(body, b->name[k]);
        const size_t at = b->given + k;
        const qc_id id = qc_graph_add_input(body->g, b->name[k], b->dtype[at], &b->shape[at], st);
        if (n && n->origin == QC_FROM_OUTSIDE) n->id = id;
    }
    return st->code == QC_OK;
}

static bool fill_body(struct qc_importer *body, struct qc_importer *im, const struct qc_outer_names *o,
                      struct border *b, struct qc_status *st)
{
    const Onnx__GraphProto *p = body->proto;
    const char *name = qc_proto_text(p->name);
    body->g->opset = 0; /* the model's opset applies */
    body->g->budget = im->g->budget;
    if (*name && !(body->g->name = qc_arena_strdup(body->g->arena, name, st))) return false;
    if (p->n_sparse_initializer)
        return qc_fail(st, QC_UNSUPPORTED, "has sparse initializers, which are not handled; store them dense");
    *im->readings += 1 + p->n_node / READING_NODES;
    if (*im->readings > READINGS_MAX) return qc_fail(st, QC_UNSUPPORTED, "too many bodies within bodies");
    if (!qc_import_enter_names(body, o, st) || !qc_import_mark_live(body, st) || !add_body_inputs(body, b, st))
        return false;
    for (size_t k = 0; k < o->count; k++) {
        struct qc_onnx_name *n = qc_import_find(body, o->names[k]);
        if (!n || n->origin != QC_FROM_OUTSIDE || n->id) continue;
        const struct qc_tensor *t = qc_import_name_constant(im, qc_import_resolve(im, o->names[k]), st);
        n->constant = t ? qc_tensor_ref(t) : NULL;
    }
    if (st->code != QC_OK || !qc_import_nodes(body, st)) return false;
    for (size_t i = 0; i < p->n_output; i++) qc_import_add_output(body, p->output[i], st);
    return st->code == QC_OK;
}

static bool read_body(struct qc_graph **out, struct qc_node_import *w, const char *attr, struct border *b,
                      struct qc_status *st)
{
    struct qc_importer *im = w->im;
    const Onnx__AttributeProto *found = qc_proto_attr(w->proto, attr);
    const Onnx__GraphProto *p = found ? found->g : NULL;
    if (!p) return qc_fail(st, QC_BAD_INPUT, "has no body '%s'", attr);
    if (im->depth == QC_BODY_DEPTH_MAX)
        return qc_fail(st, QC_UNSUPPORTED, "bodies are nested more than %d deep", (int)QC_BODY_DEPTH_MAX);
    struct qc_importer body = {.beside = im->beside,
                               .opset = im->opset,
                               .arena = qc_arena_new(),
                               .g = qc_graph_new(st),
                               .proto = p,
                               .depth = im->depth + 1,
                               .expander = im->expander,
                               .indices_for_texts = im->indices_for_texts,
                               .model = im->model,
                               .opset_count = im->opset_count,
                               .opset_slots = im->opset_slots,
                               .opset_of = im->opset_of,
                               .readings = im->readings};
    if (body.g) body.g->custom = qc_custom_ops_ref(im->g->custom);
    const bool ok =
        body.g && (fill_body(&body, im, &im->outer[index_of(im, w->proto)], b, st) || qc_where(st, "body '%s'", attr));
    qc_import_release_names(&body);
    qc_arena_free(body.arena);
    return QC_HAND_OVER(ok, out, body.g, qc_graph_free);
}

/* --- The node --- */

static bool set_given(struct border *b, struct qc_node_import *w, enum qc_op op, struct qc_status *st)
{
    const struct qc_attr *axes = qc_import_attr(w, "scan_input_axes"), *scanned = qc_import_attr(w, "num_scan_inputs");
    for (size_t i = 0; i < b->given; i++) {
        b->dtype[i] = qc_import_dtype(w, i);
        b->shape[i] = qc_import_shape(w, i);
        if (op == QC_OP_Loop && i < 2) {
            b->dtype[i] = i ? QC_BOOL : QC_I64;
            b->shape[i] = QC_SHAPE_UNKNOWN;
        } else if (b->dtype[i] == QC_NONE) {
            return qc_fail(st, QC_BAD_INPUT, "input %zu is missing", i);
        }
    }
    if (op != QC_OP_Scan) return true;
    if (!scanned || scanned->i < 1 || (uint64_t)scanned->i > b->given)
        return qc_fail(st, QC_BAD_INPUT, "has no number of scanned inputs, or a wrong one");
    b->states = b->given - (size_t)scanned->i;
    for (size_t k = 0; k < (size_t)scanned->i; k++) {
        struct qc_shape *s = &b->shape[b->states + k];
        const struct qc_shape whole = *s;
        if (!qc_scan_part(s, &whole, axes && k < axes->count ? axes->ints[k] : 0, st)) return false;
    }
    return true;
}

static bool set_border(struct border *b, struct qc_node_import *w, enum qc_op op, struct qc_status *st)
{
    struct qc_importer *im = w->im;
    const struct qc_outer_names *o = &im->outer[index_of(im, w->proto)];
    size_t inputs = w->input_count;
    if (op == QC_OP_Loop && inputs < 2) inputs = 2;
    const size_t room = inputs + o->count + QC_OPERANDS_EXTRA;
    *b = (struct border){.given = op == QC_OP_If ? 0 : inputs,
                         .states = op == QC_OP_Loop ? inputs - 2 : 0,
                         .first_state = op == QC_OP_Loop ? 2 : 0,
                         .before = op == QC_OP_Loop ? 1 : 0,
                         .dtype = QC_NEW_ARRAY(im->arena, enum qc_dtype, room, st),
                         .shape = QC_NEW_ARRAY(im->arena, struct qc_shape, room, st),
                         .name = QC_NEW_ARRAY(im->arena, const char *, room, st),
                         .operand = QC_NEW_ARRAY(im->arena, struct qc_operand, room, st)};
    if (st->code != QC_OK || !set_given(b, w, op, st)) return false;
    for (size_t k = 0; k < o->count; k++) {
        struct qc_onnx_name *n = qc_import_resolve(im, o->names[k]);
        if (qc_import_name_constant(im, n, st) || st->code != QC_OK) continue;
        const qc_id id = qc_import_enter_value(im, n, st);
        const size_t at = b->given + b->captures;
        b->dtype[at] = im->g->values[id].type.dtype;
        b->shape[at] = im->g->values[id].type.shape;
        b->operand[at] = (struct qc_operand){.id = id};
        b->name[b->captures++] = o->names[k];
    }
    /* Captures follow the inputs of the ONNX node. */
    memmove(b->operand + inputs, b->operand + b->given, b->captures * sizeof *b->operand);
    memcpy(b->operand, w->inputs, w->input_count * sizeof *b->operand);
    for (size_t i = w->input_count; i < inputs; i++) b->operand[i] = (struct qc_operand){.id = QC_ABSENT};
    w->inputs = b->operand;
    w->input_count = inputs + b->captures;
    w->input_capacity = room;
    return st->code == QC_OK;
}

/* Returns true if the shapes of the output states fit the input states. Else makes the input shapes less fixed. */
static bool settled(struct border *b, const struct qc_graph *body, bool last)
{
    bool same = true;
    for (size_t k = 0; k < b->states && b->before + k < body->output_count; k++) {
        struct qc_shape *in = &b->shape[b->first_state + k];
        const struct qc_shape was = qc_value(body, body->inputs[b->first_state + k].value)->type.shape;
        const struct qc_shape joined =
            qc_shape_join(&was, &qc_value(body, body->outputs[b->before + k].value)->type.shape);
        if (qc_shape_equal(&joined, &was)) continue;
        same = false;
        *in = last ? QC_SHAPE_UNKNOWN : joined;
    }
    return same;
}

static bool read_settled(struct qc_graph **out, struct qc_node_import *w, const char *attr, struct border *b,
                         struct qc_status *st)
{
    for (int attempt = 0;; attempt++) {
        struct qc_status own = QC_STATUS_INIT;
        b->declared = attempt == 0;
        if (!read_body(out, w, attr, b, &own)) {
            if (own.code == QC_MACHINE || attempt >= 2) {
                if (st->code == QC_OK) *st = own;
                return false;
            }
            /* Make the shapes of states and captures less fixed: outer shapes may come from a run that never executes
               this body. */
            for (size_t i = b->first_state; i < b->given + b->captures; i++) {
                for (int d = 0; d < b->shape[i].rank; d++) b->shape[i].dim[d] = QC_FREE;
                if (attempt > 0 && i < b->given) b->shape[i] = QC_SHAPE_UNKNOWN;
            }
            continue;
        }
        if (settled(b, *out, attempt + 2 >= ATTEMPTS)) return true;
        qc_graph_free(*out);
        *out = NULL;
        if (attempt + 1 == ATTEMPTS)
            return qc_fail(st, QC_UNSUPPORTED, "body '%s': the shapes of its output states do not fit its inputs",
                           attr);
    }
}

static bool form_control(struct qc_node_import *w, struct qc_status *st)
{
    static const char *const branches[] = {"then_branch", "else_branch"}, *const body[] = {"body"};
    const enum qc_op op = qc_op_from_onnx(w->op);
    const char *const *attrs = op == QC_OP_If ? branches : body;
    const size_t count = op == QC_OP_If ? 2 : 1;
    struct qc_graph *graphs[QC_BODIES] = {NULL};
    struct border b;
    if (op == QC_OP_Scan && w->im->opset < 9)
        return qc_fail(st, QC_UNSUPPORTED, "is of opset 8; convert the model to opset 9 with onnx.version_converter");
    if (!set_border(&b, w, op, st)) return false;
    bool ok = true;
    for (size_t k = 0; ok && k < count; k++) {
        ok = read_settled(&graphs[k], w, attrs[k], &b, st);
        if (!ok) break;
        qc_import_put_attr(w, (struct qc_attr){.name = attrs[k], .kind = QC_ATTR_GRAPH, .graph = graphs[k]});
        const size_t made = graphs[k]->output_count > b.before ? graphs[k]->output_count - b.before : 0;
        if (made <= w->output_count) continue;
        /* Trailing outputs may be omitted. */
        struct qc_onnx_name **outputs = QC_NEW_ARRAY(w->im->arena, struct qc_onnx_name *, made, st);
        ok = outputs != NULL;
        if (ok && w->output_count) memcpy(outputs, w->outputs, w->output_count * sizeof *outputs);
        if (ok) w->outputs = outputs;
        if (ok) w->output_count = made;
    }
    if (op != QC_OP_If && b.captures) qc_import_put_attr(w, QC_INT("captures", (int64_t)b.captures));
    ok = ok && qc_import_finish(w, op, st);
    for (size_t k = 0; k < count; k++) qc_graph_free(graphs[k]);
    return ok;
}

const struct qc_import_row qc_import_body_forms[] = {
    {"If", form_control},
    {"Loop", form_control},
    {"Scan", form_control},
    {.op = NULL},
};

/* Finds the outer names that the subgraphs of a node read. Names made in a subgraph, or in a subgraph around it, are
   excluded. */

/* The names of one graph, sorted, and the enclosing scope. */
struct scope {
    const struct scope *around;
    size_t count;
    const char **names;
};

struct found {
    size_t count, capacity;
    const char **names;
};

static bool makes(const struct scope *s, const char *name)
{
    for (; s; s = s->around)
        if (s->count && bsearch(&name, s->names, s->count, sizeof *s->names, qc_order_text)) return true;
    return false;
}

/* Adds a name that the scopes do not make. An absent optional name is NULL or empty. */
static void read(struct found *f, struct qc_importer *im, const struct scope *s, const char *name, struct qc_status *st)
{
    if (!*qc_proto_text(name) || makes(s, name) || !qc_import_find(im, name)) return;
    const char **names = qc_arena_grown(im->arena, f->names, f->count, &f->capacity, sizeof *names, st);
    if (!names) return;
    f->names = names;
    f->names[f->count++] = name;
}

static void put_name(struct scope *s, const char *name)
{
    if (*qc_proto_text(name)) s->names[s->count++] = name;
}

/* qc_proto_check bounds the nesting of messages and so the recursion. */
static void look_into(struct found *f, struct qc_importer *im, const struct scope *around, const Onnx__NodeProto *p,
                      struct qc_status *st);

static void look_at(struct found *f, struct qc_importer *im, const struct scope *around, const Onnx__GraphProto *g,
                    struct qc_status *st)
{
    struct scope s = {.around = around};
    if (!g) return;
    size_t most = g->n_input;
    bool fits = qc_add_size(&most, most, g->n_initializer) && qc_add_size(&most, most, g->n_sparse_initializer);
    for (size_t i = 0; fits && i < g->n_node; i++) fits = qc_add_size(&most, most, g->node[i]->n_output);
    if (!fits) qc_fail_memory(st, UINT64_MAX);
    if (!fits || !(s.names = QC_NEW_ARRAY(im->arena, const char *, most, st))) return;
    for (size_t i = 0; i < g->n_input; i++) put_name(&s, g->input[i]->name);
    for (size_t i = 0; i < g->n_initializer; i++) put_name(&s, g->initializer[i]->name);
    for (size_t i = 0; i < g->n_sparse_initializer; i++)
        if (g->sparse_initializer[i]->values) put_name(&s, g->sparse_initializer[i]->values->name);
    for (size_t i = 0; i < g->n_node; i++)
        for (size_t k = 0; k < g->node[i]->n_output; k++) put_name(&s, g->node[i]->output[k]);
    qsort(s.names, s.count, sizeof *s.names, qc_order_text);
    for (size_t i = 0; i < g->n_node; i++) {
        for (size_t k = 0; k < g->node[i]->n_input; k++) read(f, im, &s, g->node[i]->input[k], st);
        look_into(f, im, &s, g->node[i], st);
    }
    for (size_t i = 0; i < g->n_output; i++) read(f, im, &s, g->output[i]->name, st);
}

static void look_into(struct found *f, struct qc_importer *im, const struct scope *around, const Onnx__NodeProto *p,
                      struct qc_status *st)
{
    for (size_t i = 0; i < p->n_attribute; i++) {
        look_at(f, im, around, p->attribute[i]->g, st);
        for (size_t k = 0; k < p->attribute[i]->n_graphs; k++) look_at(f, im, around, p->attribute[i]->graphs[k], st);
    }
}

bool qc_import_find_outer(struct qc_importer *im, struct qc_status *st)
{
    const Onnx__GraphProto *g = im->proto;
    if (!(im->outer = QC_NEW_ARRAY(im->arena, struct qc_outer_names, g->n_node, st))) return false;
    for (size_t i = 0; i < g->n_node; i++) {
        struct found f = {.count = 0};
        size_t kept = 0;
        look_into(&f, im, NULL, g->node[i], st);
        if (f.count) qsort(f.names, f.count, sizeof *f.names, qc_order_text);
        for (size_t k = 0; k < f.count; k++)
            if (!kept || strcmp(f.names[kept - 1], f.names[k]) != 0) f.names[kept++] = f.names[k];
        im->outer[i] = (struct qc_outer_names){.count = kept, .names = f.names};
    }
    return st->code == QC_OK;
}
