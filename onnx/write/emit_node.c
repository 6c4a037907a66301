// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/array.h"
#include "graph/core/body.h"
#include "graph/core/custom.h"
#include "graph/core/recurrent.h"
#include "onnx/write/emitting.h"

bool qc_emit_append(struct qc_emitter *e, struct qc_emit_list *to, void *item, struct qc_status *st)
{
    void **items = qc_arena_grown(e->arena, to->items, to->count, &to->capacity, sizeof *items, st);
    if (!items) return false;
    to->items = items;
    to->items[to->count++] = item;
    return true;
}

/* Domains belong to the whole model, not to a body. */
bool qc_emit_domain(struct qc_emitter *e, const char *domain, int64_t version, struct qc_status *st)
{
    if (e->outer) return qc_emit_domain((struct qc_emitter *)(uintptr_t)e->outer, domain, version, st);
    for (size_t i = 0; i < e->domains.count; i++)
        if (strcmp(((Onnx__OperatorSetIdProto *)e->domains.items[i])->domain, domain) == 0) return true;
    Onnx__OperatorSetIdProto *p = QC_NEW(e->arena, Onnx__OperatorSetIdProto, st);
    if (!p) return false;
    onnx__operator_set_id_proto__init(p);
    p->domain = qc_emit_text(domain);
    p->has_version = 1;
    p->version = version;
    return qc_emit_append(e, &e->domains, p, st);
}

/* Packs two or four elements of less than 8 bits into a byte, the first in the lowest bits. */
static uint8_t *pack(struct qc_arena *a, const struct qc_tensor *t, struct qc_status *st)
{
    const unsigned bits = qc_dtype_info(t->dtype)->bits, each = 8 / bits, most = (1U << bits) - 1;
    const uint8_t *p = t->data;
    uint8_t *q = QC_NEW_ARRAY(a, uint8_t, t->count / each + 1, st);
    for (size_t i = 0; q && i < t->count; i++)
        q[i / each] = (uint8_t)(q[i / each] | (p[i] & most) << (i % each * bits));
    return q;
}

Onnx__TensorProto *qc_emit_tensor(struct qc_arena *a, const char *name, const struct qc_tensor *t, struct qc_status *st)
{
    Onnx__TensorProto *p = QC_NEW(a, Onnx__TensorProto, st);
    if (!p) return NULL;
    onnx__tensor_proto__init(p);
    p->name = qc_emit_text(name);
    p->has_data_type = 1;
    p->data_type = qc_dtype_info(t->dtype)->onnx;
    p->n_dims = (size_t)t->shape.rank;
    p->dims = qc_arena_dup(a, t->shape.dim, p->n_dims, sizeof *p->dims, st);
    p->has_raw_data = 1;
    p->raw_data.len = t->bytes;
    p->raw_data.data = t->data;
    const unsigned bits = qc_dtype_info(t->dtype)->bits;
    if (bits < 8) {
        p->raw_data.len = t->count / (8 / bits) + (t->count % (8 / bits) != 0);
        p->raw_data.data = pack(a, t, st);
    }
    return p->dims && p->raw_data.data ? p : NULL;
}

static bool emit_attr(struct qc_emitter *e, struct qc_emit_list *to, const struct qc_node *n, const struct qc_attr *a,
                      struct qc_status *st)
{
    Onnx__AttributeProto *p = QC_NEW(e->arena, Onnx__AttributeProto, st);
    if (!p) return false;
    onnx__attribute_proto__init(p);
    p->name = qc_emit_text(a->name);
    p->has_type = 1;
    switch (a->kind) {
    case QC_ATTR_INT:
        p->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT;
        p->has_i = 1;
        p->i = a->i;
        break;
    case QC_ATTR_FLOAT:
        p->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT;
        p->has_f = 1;
        p->f = a->f;
        break;
    case QC_ATTR_STRING:
        p->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING;
        p->has_s = 1;
        p->s.len = strlen(a->s);
        p->s.data = (uint8_t *)qc_emit_text(a->s);
        break;
    case QC_ATTR_INTS:
        p->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS;
        p->n_ints = a->count;
        p->ints = (int64_t *)(uintptr_t)a->ints;
        break;
    case QC_ATTR_FLOATS:
        p->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS;
        p->n_floats = a->count;
        p->floats = (float *)(uintptr_t)a->floats;
        break;
    case QC_ATTR_STRINGS:
        p->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS;
        if (!(p->strings = QC_NEW_ARRAY(e->arena, ProtobufCBinaryData, a->count, st))) return false;
        for (p->n_strings = 0; p->n_strings < a->count; p->n_strings++) {
            ProtobufCBinaryData *s = &p->strings[p->n_strings];
            s->len = strlen(a->strings[p->n_strings]);
            s->data = (uint8_t *)qc_emit_text(a->strings[p->n_strings]);
        }
        break;
    case QC_ATTR_TENSOR:
        p->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR;
        if (!(p->t = qc_emit_tensor(e->arena, NULL, a->tensor, st))) return false;
        break;
    case QC_ATTR_GRAPH:
        p->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH;
        if (!(p->g = qc_emit_body(e, n, a->graph, st))) return false;
        break;
    }
    return qc_emit_append(e, to, p, st);
}

/* --- Conversion from the canonical form to the opset --- */

static bool is_reduce(enum qc_op op)
{
    return strncmp(qc_op_info(op)->onnx, "Reduce", 6) == 0;
}

/* Returns the axes of a reduction as a constant input. */
static char *emit_axes(struct qc_emitter *e, const struct qc_node *n, const struct qc_attr *axes, struct qc_status *st)
{
    const struct qc_shape shape = QC_SHAPE((int64_t)axes->count);
    const struct qc_tensor t = {.dtype = QC_I64,
                                .shape = shape,
                                .count = axes->count,
                                .bytes = axes->count * sizeof *axes->ints,
                                .data = (void *)(uintptr_t)axes->ints};
    const char *name = qc_emit_fresh_name(e, e->names[n->outputs], "axes", st);
    Onnx__TensorProto *p = name ? qc_emit_tensor(e->arena, name, &t, st) : NULL;
    return p && qc_emit_initializer(e, p, st) ? p->name : NULL;
}

static bool emit_attrs(struct qc_emitter *e, struct qc_emit_list *to, const struct qc_node *n, const char *skip,
                       struct qc_status *st)
{
    if (n->op == QC_OP_Conv || n->op == QC_OP_ConvTranspose || n->op == QC_OP_QLinearConv ||
        n->op == QC_OP_ConvInteger) {
        /* The import drops it, but other readers of ONNX files expect it. */
        const struct qc_shape *s = &e->g->values[n->inputs[n->op == QC_OP_QLinearConv ? 3 : 1]].type.shape;
        const struct qc_attr kernel = QC_INTS("kernel_shape", s->rank > 2 ? (size_t)s->rank - 2 : 0, s->dim + 2);
        if (s->rank > 2 && qc_shape_fixed(s) && !qc_attr_find(n, "kernel_shape") && !emit_attr(e, to, n, &kernel, st))
            return false;
    }
    if (n->op == QC_OP_Split && e->opset >= 18 && (n->input_count < 2 || !n->inputs[1])) {
        const struct qc_attr parts = QC_INT("num_outputs", n->output_count);
        if (!emit_attr(e, to, n, &parts, st)) return false;
    }
    for (unsigned i = 0; i < n->attr_count; i++)
        if ((!skip || strcmp(n->attrs[i].name, skip) != 0) && !qc_custom_is_own(&n->attrs[i]) &&
            !(n->op == QC_OP_LSTM && strcmp(n->attrs[i].name, QC_RECURRENT_DYNAMIC) == 0) &&
            !emit_attr(e, to, n, &n->attrs[i], st))
            return false;
    return true;
}

bool qc_emit_node(struct qc_emitter *e, const struct qc_node *n, struct qc_status *st)
{
    const bool axes_are_input = is_reduce(n->op) && (e->opset >= 18 || n->op == QC_OP_ReduceSum);
    const struct qc_attr *axes = axes_are_input ? qc_attr_find(n, "axes") : NULL;
    struct qc_emit_list attrs = {.count = 0};
    Onnx__NodeProto *p = QC_NEW(e->arena, Onnx__NodeProto, st);
    if (!p) return false;
    onnx__node_proto__init(p);
    p->name = qc_emit_text(qc_emit_node_name(e, n->name, st));
    if (st->code != QC_OK) return false;
    if (e->node_docs) p->doc_string = qc_emit_text(e->node_docs[n - e->g->nodes]);
    char name[QC_ONNX_NAME];
    const char *domain, *op = qc_op_onnx_name(&domain, name, n->op);
    p->op_type = qc_arena_strdup(e->arena, op, st);
    if (*domain && !(p->domain = qc_arena_strdup(e->arena, domain, st))) return false;
    if (n->op == QC_OP_Custom) {
        p->op_type = qc_emit_text(qc_attr_string(n, QC_CUSTOM_OP, ""));
        p->domain = qc_emit_text(qc_attr_string(n, QC_CUSTOM_DOMAIN, ""));
        if (*p->domain && !qc_emit_domain(e, p->domain, qc_attr_int(n, QC_CUSTOM_VERSION, 1), st)) return false;
    }
    if (strcmp(domain, "com.microsoft") == 0) e->contrib = true;
    if (!p->op_type) return false;
    p->n_input = n->input_count - qc_captures_of(n);
    p->input = QC_NEW_ARRAY(e->arena, char *, p->n_input + 1, st);
    p->n_output = n->output_count;
    p->output = QC_NEW_ARRAY(e->arena, char *, p->n_output, st);
    if (!p->input || !p->output) return false;
    for (size_t i = 0; i < p->n_input; i++) p->input[i] = qc_emit_text(n->inputs[i] ? e->names[n->inputs[i]] : "");
    for (unsigned i = 0; i < n->output_count; i++) p->output[i] = qc_emit_text(e->names[n->outputs + i]);
    if (axes && !(p->input[p->n_input++] = emit_axes(e, n, axes, st))) return false;
    if (n->op == QC_OP_RoundInBlocks) return qc_emit_blocks(p, e, n, st) && qc_emit_append(e, &e->nodes, p, st);
    if (!emit_attrs(e, &attrs, n, axes ? "axes" : qc_op_has_bodies(n->op) ? "captures" : NULL, st)) return false;
    p->n_attribute = attrs.count;
    p->attribute = (Onnx__AttributeProto **)attrs.items;
    return qc_emit_append(e, &e->nodes, p, st);
}

bool qc_emit_identity(struct qc_emitter *e, const char *from, const char *to, struct qc_status *st)
{
    Onnx__NodeProto *p = QC_NEW(e->arena, Onnx__NodeProto, st);
    char **ends = QC_NEW_ARRAY(e->arena, char *, 2, st);
    if (!p || !ends) return false;
    onnx__node_proto__init(p);
    ends[0] = qc_emit_text(from);
    ends[1] = qc_emit_text(to);
    p->op_type = qc_emit_text("Identity");
    p->n_input = p->n_output = 1;
    p->input = &ends[0];
    p->output = &ends[1];
    return qc_emit_append(e, &e->nodes, p, st);
}

/* QC_BODY_DEPTH_MAX bounds the recursion. */
Onnx__GraphProto *qc_emit_body(struct qc_emitter *outer, const struct qc_node *n, const struct qc_graph *body,
                               struct qc_status *st)
{
    Onnx__GraphProto *p = QC_NEW(outer->arena, Onnx__GraphProto, st);
    struct qc_emitter e = {.arena = outer->arena,
                           .g = body,
                           .outer = outer,
                           .opset = outer->opset,
                           .tensors = outer->tensors,
                           .captured = QC_NEW_ARRAY(outer->arena, const char *, body->input_count, st)};
    const size_t captures = qc_captures_of(n);
    if (!p || !e.captured) return NULL;
    for (size_t k = 0; k < captures; k++)
        e.captured[body->input_count - captures + k] = outer->names[n->inputs[n->input_count - captures + k]];
    onnx__graph_proto__init(p);
    if (!qc_emit_mark_used(&e, st) || !qc_emit_assign_names(&e, st) || !qc_emit_graph(p, &e, NULL, st)) return NULL;
    outer->contrib |= e.contrib;
    return p;
}
