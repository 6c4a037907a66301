// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "graph/core/custom.h"
#include "graph/core/source_call.h"
#include "onnx/read/importing.h"

enum drop { KEPT, DROPPED, DEFAULT_INT, DEFAULT_FLOAT, DEFAULT_STRING, DEFAULT_ALL };

struct row {
    const char *op, *name;
    enum qc_attr_kind kind;
    enum drop drop;
    int64_t i;
    float f;
    const char *s;
};

static const struct row rows[] = {
#define QC_KEPT(o, n, k) {.op = (o), .name = (n), .kind = QC_ATTR_##k, .drop = KEPT},
#define QC_DROPPED(o, n, k) {.op = (o), .name = (n), .kind = QC_ATTR_##k, .drop = DROPPED},
#define QC_DEFAULT_INT(o, n, v) {.op = (o), .name = (n), .kind = QC_ATTR_INT, .drop = DEFAULT_INT, .i = (v)},
#define QC_DEFAULT_FLOAT(o, n, v) {.op = (o), .name = (n), .kind = QC_ATTR_FLOAT, .drop = DEFAULT_FLOAT, .f = (v)},
#define QC_DEFAULT_STRING(o, n, v) {.op = (o), .name = (n), .kind = QC_ATTR_STRING, .drop = DEFAULT_STRING, .s = (v)},
#define QC_DEFAULT_ALL(o, n, v) {.op = (o), .name = (n), .kind = QC_ATTR_INTS, .drop = DEFAULT_ALL, .i = (v)},
#include "onnx/read/attributes.def"
#define QC_UNARY(op_, onnx_, a, a0, b, b0, expression, lo, hi, tolerance)                                              \
    {.op = (onnx_), .name = (a), .kind = QC_ATTR_FLOAT, .drop = DEFAULT_FLOAT, .f = (a0)},                             \
        {.op = (onnx_), .name = (b), .kind = QC_ATTR_FLOAT, .drop = DEFAULT_FLOAT, .f = (b0)},
#define QC_OP(op_, onnx_, in_min, in_max, out_max, affine, rule, kernel)
#include "graph/types/ops.def"
};

/* A pattern may end in '*'. */
static const struct row *find_row(const char *op, const char *name)
{
    for (size_t i = 0; *name && i < sizeof rows / sizeof *rows; i++) {
        const char *pattern = rows[i].op;
        const size_t n = strlen(pattern);
        const bool prefix = n && pattern[n - 1] == '*';
        if (strcmp(rows[i].name, name) == 0 && (prefix ? strncmp(pattern, op, n - 1) : strcmp(pattern, op)) == 0)
            return &rows[i];
    }
    return NULL;
}

/* Returns true if the attribute has the kind, by its type or, in old files without a type, by its fields. */
static bool has_kind(const Onnx__AttributeProto *p, enum qc_attr_kind kind)
{
    if ((kind == QC_ATTR_TENSOR && !p->t) || (kind == QC_ATTR_GRAPH && !p->g)) return false;
    if (p->has_type && p->type != ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__UNDEFINED)
        return p->type == qc_proto_attr_types[kind];
    switch (kind) {
    case QC_ATTR_INT: return p->has_i;
    case QC_ATTR_FLOAT: return p->has_f;
    case QC_ATTR_STRING: return p->has_s;
    case QC_ATTR_INTS:
    case QC_ATTR_FLOATS:
    case QC_ATTR_STRINGS:
    case QC_ATTR_TENSOR:
    case QC_ATTR_GRAPH: return true;
    }
    return false;
}

static const char *text_of(struct qc_node_import *w, const ProtobufCBinaryData *s, struct qc_status *st)
{
    return qc_arena_strndup(w->im->arena, s->data ? (const char *)s->data : "", s->len, st);
}

static bool convert(struct qc_attr *a, const struct row *r, struct qc_node_import *w, const Onnx__AttributeProto *p,
                    struct qc_status *st)
{
    *a = (struct qc_attr){.name = r->name, .kind = r->kind};
    switch (r->kind) {
    case QC_ATTR_INT: a->i = p->i; return true;
    case QC_ATTR_FLOAT: a->f = p->f; return true;
    case QC_ATTR_STRING: return (a->s = text_of(w, &p->s, st)) != NULL;
    case QC_ATTR_INTS:
        a->count = p->n_ints;
        a->ints = p->ints;
        return true;
    case QC_ATTR_FLOATS:
        a->count = p->n_floats;
        a->floats = p->floats;
        return true;
    case QC_ATTR_GRAPH: return true; /* import_body.c reads it */
    case QC_ATTR_STRINGS: {
        const char **v = QC_NEW_ARRAY(w->im->arena, const char *, p->n_strings, st);
        for (size_t i = 0; v && i < p->n_strings; i++) v[i] = text_of(w, &p->strings[i], st);
        a->count = p->n_strings;
        a->strings = v;
        return st->code == QC_OK;
    }
    case QC_ATTR_TENSOR: {
        struct qc_tensor *t;
        if (w->owned_count == QC_NODE_TENSORS) return qc_fail(st, QC_BAD_INPUT, "has too many tensors");
        if (!qc_import_tensor(&t, p->t, &w->im->beside, st)) return false;
        w->owned[w->owned_count++] = t;
        a->tensor = t;
        return true;
    }
    }
    return false;
}

static bool is_default(const struct row *r, const struct qc_attr *a)
{
    switch (r->drop) {
    case KEPT: return false;
    case DROPPED: return true;
    case DEFAULT_INT: return a->i == r->i;
    case DEFAULT_FLOAT: return memcmp(&a->f, &r->f, sizeof a->f) == 0;
    case DEFAULT_STRING: return strcmp(a->s, r->s) == 0;
    case DEFAULT_ALL:
        for (size_t i = 0; i < a->count; i++)
            if (a->ints[i] != r->i) return false;
        return true;
    }
    return false;
}

/* Labels of ai.onnx.ml that are texts. */

static bool is_labels(const Onnx__AttributeProto *p)
{
    return strcmp(qc_proto_text(p->name), "classlabels_strings") == 0 && p->n_strings;
}

/* Sets a to the indices of labels. */
static bool index_labels(struct qc_attr *a, struct qc_node_import *w, size_t count, struct qc_status *st)
{
    int64_t *indices = QC_NEW_ARRAY(w->im->arena, int64_t, count, st);
    const bool wide = strstr(w->op, "::Tree") != NULL;
    for (size_t i = 0; indices && i < count; i++) indices[i] = (int64_t)i;
    *a = QC_INTS(wide ? "classlabels_int64s" : "classlabels_ints", count, indices);
    return indices != NULL;
}

static bool import_attrs(struct qc_node_import *w, const Onnx__NodeProto *p, struct qc_status *st)
{
    for (size_t i = 0; i < p->n_attribute; i++) {
        const Onnx__AttributeProto *from = p->attribute[i];
        const char *name = qc_proto_text(from->name);
        const struct row *r = find_row(w->op, name);
        if (from->ref_attr_name && *from->ref_attr_name)
            return qc_fail(st, QC_BAD_INPUT,
                           "attribute '%.80s' refers to a function's attribute, but is not in a function", name);
        if (is_labels(from)) {
            if (w->attr_count == QC_NODE_ATTRS || !index_labels(&w->attrs[w->attr_count++], w, from->n_strings, st))
                return st->code == QC_OK ? qc_fail(st, QC_BAD_INPUT, "has too many attributes") : false;
            continue;
        }
        if (!r) return qc_fail(st, QC_UNSUPPORTED, "attribute '%.80s' is not handled", name);
        for (size_t k = 0; k < i; k++)
            if (strcmp(qc_proto_text(p->attribute[k]->name), name) == 0)
                return qc_fail(st, QC_BAD_INPUT, "attribute '%.80s' is given twice", name);
        if (!has_kind(from, r->kind)) return qc_fail(st, QC_BAD_INPUT, "attribute '%.80s' has the wrong type", name);
        if (w->attr_count == QC_NODE_ATTRS)
            return qc_fail(st, QC_BAD_INPUT, "has more than %d attributes", QC_NODE_ATTRS);
        struct qc_attr *a = &w->attrs[w->attr_count];
        if (!convert(a, r, w, from, st)) return qc_where(st, "attribute '%.80s'", name);
        if (!is_default(r, a)) w->attr_count++;
    }
    return true;
}

static bool import_raw_attrs(struct qc_attr attrs[QC_NODE_ATTRS], struct qc_node_import *w, const Onnx__NodeProto *p,
                             struct qc_status *st)
{
    for (size_t i = 0; i < p->n_attribute; i++) {
        const Onnx__AttributeProto *from = p->attribute[i];
        struct row r = {.name = qc_proto_text(from->name)};
        bool known = false;
        for (int kind = QC_ATTR_INT; !known && kind <= QC_ATTR_TENSOR; kind++) {
            r.kind = (enum qc_attr_kind)kind;
            known = has_kind(from, r.kind);
        }
        if (!known) return qc_fail(st, QC_UNSUPPORTED, "attribute '%.80s' is of a type that is not handled", r.name);
        if (i == QC_NODE_ATTRS) return qc_fail(st, QC_BAD_INPUT, "has more than %d attributes", QC_NODE_ATTRS);
        const bool labels = is_labels(from) && w->im->indices_for_texts;
        if (!(labels ? index_labels(&attrs[i], w, from->n_strings, st) : convert(&attrs[i], &r, w, from, st)))
            return qc_where(st, "attribute '%.80s'", r.name);
    }
    return true;
}

const struct qc_attr *qc_import_attr(const struct qc_node_import *w, const char *name)
{
    for (size_t i = 0; i < w->attr_count; i++)
        if (strcmp(w->attrs[i].name, name) == 0) return &w->attrs[i];
    return NULL;
}

bool qc_import_take_attr(struct qc_attr *out, struct qc_node_import *w, const char *name)
{
    for (size_t i = 0; i < w->attr_count; i++) {
        if (strcmp(w->attrs[i].name, name) != 0) continue;
        *out = w->attrs[i];
        w->attrs[i] = w->attrs[--w->attr_count];
        return true;
    }
    return false;
}

void qc_import_put_attr(struct qc_node_import *w, struct qc_attr a)
{
    struct qc_attr old;
    qc_import_take_attr(&old, w, a.name);
    if (w->attr_count < QC_NODE_ATTRS) w->attrs[w->attr_count++] = a;
}

/* Expands nodes whose operator is a function of others (graph/core/call.h). */

/* Returns true for operators of ONNX Runtime and for those of ONNX's functions for which runtimes have kernels, with
   the same attributes in all opsets. */
static bool is_written_again(const char *op)
{
    static const char *const ops[] = {"AffineGrid",      "Attention", "MeanVarianceNormalization",   "RMSNormalization",
                                      "RotaryEmbedding", "Shrink",    "SimplifiedLayerNormalization"};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (strcmp(op, ops[i]) == 0) return true;
    return strncmp(op, "com.microsoft::", 15) == 0;
}

/* Replaces the node by the function that fits; *fits is false if none does. */
static bool import_expand(bool *fits, struct qc_node_import *w, const Onnx__NodeProto *p, struct qc_status *st)
{
    struct qc_importer *im = w->im;
    const struct qc_expander *x = im->expander;
    const size_t before = im->g->value_count;
    *fits = false;
    if (!x || !x->knows(x->user, w->op, im->opset)) return true;
    struct qc_attr *attrs = QC_NEW_ARRAY(im->arena, struct qc_attr, QC_NODE_ATTRS, st);
    qc_id *inputs = QC_NEW_ARRAY(im->arena, qc_id, w->input_count, st),
          *outputs = QC_NEW_ARRAY(im->arena, qc_id, w->output_count, st);
    bool *wanted = QC_NEW_ARRAY(im->arena, bool, w->output_count, st);
    if (!attrs || !inputs || !outputs || !wanted || !import_raw_attrs(attrs, w, p, st)) return false;
    for (size_t i = 0; i < w->input_count; i++) inputs[i] = qc_import_input(w, i, st);
    for (size_t k = 0; k < w->output_count; k++) wanted[k] = qc_import_output_used(w, k);
    const struct qc_call call = {.op = w->op,
                                 .label = w->label,
                                 .opset = im->opset,
                                 .input_count = (unsigned)w->input_count,
                                 .output_count = (unsigned)w->output_count,
                                 .attr_count = (unsigned)p->n_attribute,
                                 .inputs = inputs,
                                 .attrs = attrs,
                                 .wanted = wanted};
    if (st->code != QC_OK || !x->expand(outputs, fits, x->user, im->g, &call, st)) return false;
    for (size_t k = 0; *fits && k < w->output_count; k++)
        if (wanted[k]) {
            w->outputs[k]->id = outputs[k];
            qc_graph_name_value(im->g, outputs[k], w->outputs[k]->as, st);
        }
    if (*fits) {
        /* Name the values of the function after its nodes ("attn/MatMul_1"). */
        struct qc_graph *g = im->g;
        for (qc_id v = (qc_id)before + 1; v <= g->value_count; v++) {
            const struct qc_node *made = qc_node_of(g, v);
            if (g->values[v].name || !made || !made->name) continue;
            const char *name = made->output_count > 1
                                   ? qc_arena_printf(im->arena, st, "%s.%u", made->name, g->values[v].output)
                                   : made->name;
            if (name && (qc_import_find(im, name) || qc_graph_find_value(g, name)))
                name = qc_import_fresh_name(im, name, "of", st);
            qc_graph_name_value(g, v, name, st);
        }
    }
    if (*fits && is_written_again(w->op)) qc_graph_add_source_call(im->g, &call, outputs, st);
    return st->code == QC_OK;
}

/* --- Operands --- */

bool qc_import_has(const struct qc_node_import *w, size_t i)
{
    return i < w->input_count && (w->inputs[i].name || w->inputs[i].id);
}

/* *out: 0, 1, 2, ... for constant texts. */
static bool read_indices(struct qc_tensor **out, const Onnx__TensorProto *p, struct qc_status *st)
{
    const struct qc_shape list = QC_SHAPE((int64_t)p->n_string_data);
    if (p->n_dims != 1 || p->dims[0] != list.dim[0])
        return qc_fail(st, QC_UNSUPPORTED, "texts of another shape than a list are not handled");
    if (!(*out = qc_tensor_new(QC_I64, &list, st))) return false;
    for (size_t i = 0; i < p->n_string_data; i++) ((int64_t *)(*out)->data)[i] = (int64_t)i;
    return true;
}

bool qc_import_read_constant(struct qc_importer *im, struct qc_onnx_name *n, struct qc_status *st)
{
    if (n->constant || n->id || n->origin != QC_FROM_INITIALIZER) return true;
    const Onnx__TensorProto *p = im->proto->initializer[n->index];
    return (qc_import_is_list(im, p) ? read_indices(&n->constant, p, st)
                                     : qc_import_tensor(&n->constant, p, &im->beside, st)) &&
           (!im->g->spills || qc_tensor_spill(n->constant, st));
}

const struct qc_tensor *qc_import_name_constant(struct qc_importer *im, struct qc_onnx_name *n, struct qc_status *st)
{
    if (!qc_import_read_constant(im, n, st)) return NULL;
    return n->constant ? n->constant : qc_constant_of(im->g, n->id);
}

const struct qc_tensor *qc_import_constant(struct qc_node_import *w, size_t i, struct qc_status *st)
{
    if (!qc_import_has(w, i)) return NULL;
    const struct qc_operand *o = &w->inputs[i];
    return o->id ? qc_constant_of(w->im->g, o->id) : qc_import_name_constant(w->im, o->name, st);
}

bool qc_import_ints(const int64_t **out, size_t *count, struct qc_node_import *w, size_t i, const char *what,
                    struct qc_status *st)
{
    const struct qc_tensor *t = qc_import_constant(w, i, st);
    *out = NULL;
    *count = 0;
    if (!qc_import_has(w, i)) return st->code == QC_OK;
    if (!t)
        return qc_fail(st, QC_UNSUPPORTED, "its %s are computed while the model runs; only constant ones are handled",
                       what);
    if (qc_dtype_info(t->dtype)->is_float || t->shape.rank > 1)
        return qc_fail(st, QC_BAD_INPUT, "its %s are not a list of integers", what);
    int64_t *v = QC_NEW_ARRAY(w->im->arena, int64_t, t->count, st);
    if (!v) return false;
    for (size_t k = 0; k < t->count; k++) v[k] = qc_tensor_int(t, k);
    *out = v;
    *count = t->count;
    return true;
}

qc_id qc_import_input(struct qc_node_import *w, size_t i, struct qc_status *st)
{
    if (!qc_import_has(w, i)) return QC_ABSENT;
    return w->inputs[i].id ? w->inputs[i].id : qc_import_enter_value(w->im, w->inputs[i].name, st);
}

qc_id qc_import_enter_value(struct qc_importer *im, struct qc_onnx_name *n, struct qc_status *st)
{
    if (n->id || !qc_import_read_constant(im, n, st)) return n->id;
    if (!n->constant) return qc_fail(st, QC_BAD_INPUT, "the value '%.200s' is used before it is made", n->name);
    return n->id = qc_graph_add_constant(im->g, n->as, n->constant, st);
}

/* Returns the name of operand i if its value has no id yet, with its constant read if it is one; else NULL. *id: the
   value. */
static const struct qc_onnx_name *unread_name(qc_id *id, struct qc_node_import *w, size_t i)
{
    *id = 0;
    if (!qc_import_has(w, i)) return NULL;
    const struct qc_operand *o = &w->inputs[i];
    if (o->name && o->name->constant) return o->name;
    if ((*id = o->id ? o->id : o->name->id)) return NULL;
    return qc_import_read_constant(w->im, o->name, &w->unread) && o->name->constant ? o->name : NULL;
}

struct qc_shape qc_import_shape(struct qc_node_import *w, size_t i)
{
    qc_id id;
    const struct qc_onnx_name *n = unread_name(&id, w, i);
    return n ? n->constant->shape : id ? w->im->g->values[id].type.shape : QC_SHAPE_UNKNOWN;
}

enum qc_dtype qc_import_dtype(struct qc_node_import *w, size_t i)
{
    qc_id id;
    const struct qc_onnx_name *n = unread_name(&id, w, i);
    return n ? n->constant->dtype : w->im->g->values[id].type.dtype; /* of value 0: QC_NONE */
}

void qc_import_set(struct qc_node_import *w, size_t i, qc_id id)
{
    if (i >= w->input_capacity) return;
    w->inputs[i] = (struct qc_operand){.id = id};
    if (w->input_count <= i) w->input_count = i + 1;
}

/* The constant is added to the graph with its node, after the operands before it, so that an emitted model has its
   values in the same order when it is read again. */
bool qc_import_set_tensor(struct qc_node_import *w, size_t i, const char *suffix, struct qc_tensor *t,
                          struct qc_status *st)
{
    if (!t) return false;
    if (w->owned_count == QC_NODE_TENSORS || i >= w->input_capacity) {
        qc_tensor_unref(t);
        return qc_fail(st, QC_BAD_INPUT, "has too many constants");
    }
    w->owned[w->owned_count++] = t;
    struct qc_onnx_name *n = QC_NEW(w->im->arena, struct qc_onnx_name, st);
    const char *name = n ? qc_import_fresh_name(w->im, w->label, suffix, st) : NULL;
    if (!name) return false;
    *n = (struct qc_onnx_name){.name = name, .as = name, .origin = QC_FROM_INITIALIZER, .constant = t};
    qc_import_set(w, i, QC_ABSENT);
    w->inputs[i].name = n;
    return true;
}

bool qc_import_set_ints(struct qc_node_import *w, size_t i, const char *suffix, size_t count, const int64_t *v,
                        struct qc_status *st)
{
    struct qc_shape shape = QC_SHAPE((int64_t)count);
    return qc_import_set_tensor(w, i, suffix, qc_tensor_of(QC_I64, &shape, v, st), st);
}

bool qc_import_set_scalar(struct qc_node_import *w, size_t i, const char *suffix, float v, struct qc_status *st)
{
    const struct qc_shape scalar = QC_SCALAR;
    const enum qc_dtype dtype = qc_import_dtype(w, 0);
    const double wide = (double)v;
    const uint16_t half = qc_float_to_half(v), bfloat = qc_float_to_bfloat(v);
    const void *data = dtype == QC_F32    ? (const void *)&v
                       : dtype == QC_F64  ? (const void *)&wide
                       : dtype == QC_F16  ? (const void *)&half
                       : dtype == QC_BF16 ? (const void *)&bfloat
                                          : NULL;
    if (!data) return qc_fail(st, QC_BAD_INPUT, "has an input that is not a float");
    return qc_import_set_tensor(w, i, suffix, qc_tensor_of(dtype, &scalar, data, st), st);
}

/* --- The end of a node --- */

bool qc_import_output_used(const struct qc_node_import *w, size_t k)
{
    return k < w->output_count && w->outputs[k] && w->outputs[k]->uses > 0;
}

static bool check_outputs(const struct qc_node_import *w, size_t kept, struct qc_status *st)
{
    for (size_t k = kept; k < w->output_count; k++)
        if (qc_import_output_used(w, k))
            return qc_fail(st, QC_UNSUPPORTED,
                           "its output %zu ('%.200s') is used, but only the first %zu of this op can be", k + 1,
                           w->outputs[k]->name, kept);
    return true;
}

bool qc_import_finish(struct qc_node_import *w, enum qc_op op, struct qc_status *st)
{
    const struct qc_op_info *info = qc_op_info(op);
    size_t inputs = w->input_count, outputs = w->output_count;
    if (st->code != QC_OK) return false;
    if (inputs > info->inputs_max)
        return qc_fail(st, QC_BAD_INPUT, "has %zu inputs, at most %u are handled", inputs, info->inputs_max);
    if (outputs > info->outputs_max) outputs = info->outputs_max;
    if (outputs == 0) outputs = 1;
    if (!check_outputs(w, outputs, st)) return false;
    while (inputs && !qc_import_has(w, inputs - 1)) inputs--;
    qc_id *in = QC_NEW_ARRAY(w->im->arena, qc_id, inputs, st);
    const char **names = QC_NEW_ARRAY(w->im->arena, const char *, outputs, st);
    if (!in || !names) return false;
    for (size_t i = 0; i < inputs; i++) in[i] = qc_import_input(w, i, st);
    for (size_t k = 0; k < outputs && k < w->output_count; k++)
        names[k] = w->outputs[k] ? w->outputs[k]->as : qc_import_fresh_name(w->im, w->label, "unused", st);
    if (st->code != QC_OK) return false;
    const struct qc_node_def def = {
        .op = op,
        .name = w->name,
        .input_count = (unsigned)inputs,
        .output_count = (unsigned)outputs,
        .inputs = in,
        .attr_count = (unsigned)w->attr_count,
        .attrs = w->attrs,
        .output_names = names,
    };
    const size_t before = w->im->g->node_count;
    qc_id first = qc_graph_add(w->im->g, &def, st);
    if (!first) {
        w->located = true;
        return false;
    }
    if (w->im->g->node_count == before && !qc_lines_add(&w->im->repeated, w->im->g->arena, st, "%s", w->label))
        return false;
    for (size_t k = 0; k < outputs && k < w->output_count; k++)
        if (w->outputs[k]) w->outputs[k]->id = first + (qc_id)k;
    return true;
}

bool qc_import_alias(struct qc_node_import *w, size_t input, struct qc_status *st)
{
    if (st->code != QC_OK) return false;
    if (!qc_import_has(w, input)) return qc_fail(st, QC_BAD_INPUT, "input %zu is missing", input);
    if (!check_outputs(w, 1, st)) return false;
    if (!w->output_count || !w->outputs[0]) return true;
    struct qc_operand *o = &w->inputs[input];
    if (o->name)
        w->outputs[0]->alias = o->name;
    else
        w->outputs[0]->id = o->id;
    return true;
}

bool qc_import_become(struct qc_node_import *w, qc_id id)
{
    if (w->output_count && w->outputs[0]) w->outputs[0]->id = id;
    return id != 0;
}

bool qc_import_become_constant(struct qc_node_import *w, struct qc_tensor *t, struct qc_status *st)
{
    if (!t) return false;
    if (w->output_count && w->outputs[0])
        w->outputs[0]->constant = t;
    else
        qc_tensor_unref(t);
    return check_outputs(w, 1, st);
}

qc_id qc_import_beside(struct qc_node_import *w, enum qc_op op, const char *suffix, unsigned inputs, const qc_id *in,
                       unsigned attrs, const struct qc_attr *attr, struct qc_status *st)
{
    const char *value, *name = w->name;
    if (st->code != QC_OK) return 0;
    if (suffix) {
        value = qc_import_fresh_name(w->im, w->label, suffix, st);
        if (name) name = qc_arena_printf(w->im->arena, st, "%s_%s", name, suffix);
    } else {
        value = w->output_count && w->outputs[0] ? w->outputs[0]->as : NULL;
    }
    if (st->code != QC_OK) return 0;
    const struct qc_node_def def = {.op = op,
                                    .name = name,
                                    .input_count = inputs,
                                    .inputs = in,
                                    .attr_count = attrs,
                                    .attrs = attr,
                                    .output_names = &value};
    const qc_id id = qc_graph_add(w->im->g, &def, st);
    if (!id) w->located = true;
    return id;
}

/* --- A node --- */

static qc_import_form *form_of(const char *op)
{
    static const struct qc_import_row *const lists[] = {qc_import_layer_forms, qc_import_shape_forms,
                                                        qc_import_index_forms, qc_import_body_forms};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        for (const struct qc_import_row *r = lists[i]; r->op; r++)
            if (strcmp(r->op, op) == 0) return r->form;
    return NULL;
}

const char *qc_import_op_name(struct qc_importer *im, const Onnx__NodeProto *p, struct qc_status *st)
{
    const char *op = qc_proto_text(p->op_type), *domain = qc_proto_domain(p->domain);
    if (!*domain) return op;
    if (strcmp(domain, "com.microsoft") == 0 &&
        (strcmp(op, "QuantizeLinear") == 0 || strcmp(op, "DequantizeLinear") == 0))
        return op;
    return qc_arena_printf(im->arena, st, "%s::%s", domain, op);
}

bool qc_import_op_known(const struct qc_importer *im, const char *op)
{
    return *op && (qc_custom_find(im->g->custom, op) || form_of(op) || qc_op_from_onnx(op) != QC_OP_INVALID ||
                   (im->expander && im->expander->knows(im->expander->user, op, im->opset)));
}

static bool set_up(struct qc_node_import *w, const Onnx__NodeProto *p, struct qc_status *st)
{
    struct qc_importer *im = w->im;
    w->input_count = p->n_input;
    w->input_capacity = p->n_input + QC_OPERANDS_EXTRA;
    w->inputs = QC_NEW_ARRAY(im->arena, struct qc_operand, w->input_capacity, st);
    w->output_count = p->n_output;
    w->outputs = QC_NEW_ARRAY(im->arena, struct qc_onnx_name *, p->n_output, st);
    if (!w->inputs || !w->outputs) return false;
    for (size_t i = 0; i < p->n_input; i++)
        if (*p->input[i]) w->inputs[i].name = qc_import_resolve(im, p->input[i]);
    for (size_t k = 0; k < p->n_output; k++)
        if (*p->output[k]) w->outputs[k] = qc_import_find(im, p->output[k]);
    while (w->input_count && !qc_import_has(w, w->input_count - 1)) w->input_count--;
    return true;
}

static bool become_op(struct qc_node_import *w, const Onnx__NodeProto *p, struct qc_status *st)
{
    qc_import_form *form = form_of(w->op);
    const enum qc_op op = qc_op_from_onnx(w->op);
    if (!form && op == QC_OP_INVALID) {
        /* The message has the names of its attributes. */
        char list[400] = "";
        for (size_t i = 0; i < p->n_attribute; i++) {
            const size_t at = strlen(list);
            qc_text(list + at, (unsigned)(sizeof list - at), "%s%s", i ? ", " : " ",
                    qc_proto_text(p->attribute[i]->name));
        }
        return qc_fail(st, QC_UNSUPPORTED, "no function handles it with these inputs and attributes%s", list);
    }
    return import_attrs(w, p, st) && (form ? form(w, st) : qc_import_finish(w, op, st));
}

/* A custom operator keeps all attributes; another one gives its domain and name. */
static bool become_custom(bool *fits, struct qc_node_import *w, const Onnx__NodeProto *p, struct qc_status *st)
{
    const char *domain = qc_proto_text(p->domain);
    int64_t version = 1;
    if (!(*fits = qc_custom_find(w->im->g->custom, w->op) != NULL)) return true;
    if (p->n_attribute > QC_NODE_ATTRS - QC_CUSTOM_ATTRS)
        return qc_fail(st, QC_UNSUPPORTED, "has more than %d attributes", QC_NODE_ATTRS - QC_CUSTOM_ATTRS);
    if (!import_raw_attrs(w->attrs, w, p, st)) return false;
    for (size_t i = 0; i < w->im->model->n_opset_import; i++)
        if (strcmp(qc_proto_text(w->im->model->opset_import[i]->domain), domain) == 0)
            version = w->im->model->opset_import[i]->version;
    w->attr_count = p->n_attribute;
    w->attrs[w->attr_count++] = QC_STRING(QC_CUSTOM_DOMAIN, qc_proto_domain(domain));
    w->attrs[w->attr_count++] = QC_STRING(QC_CUSTOM_OP, p->op_type);
    w->attrs[w->attr_count++] = QC_INT(QC_CUSTOM_VERSION, version);
    return qc_import_finish(w, QC_OP_Custom, st);
}

bool qc_import_node(struct qc_importer *im, const Onnx__NodeProto *p, const char *label, struct qc_status *st)
{
    struct qc_node_import w = {.im = im,
                               .op = qc_import_op_name(im, p, st),
                               .label = label,
                               .proto = p,
                               .name = p->name && *p->name ? p->name : NULL};
    const int opset = im->opset;
    im->opset = qc_import_opset_of(im, p);
    bool fits = false, ok = w.op && set_up(&w, p, st) && become_custom(&fits, &w, p, st);
    bool texts = false;
    for (size_t i = 0; i < p->n_attribute; i++) texts = texts || is_labels(p->attribute[i]);
    if (ok && !fits && !im->indices_for_texts && texts) ok = qc_fail(st, QC_UNSUPPORTED, "its labels are texts");
    if (ok && !fits) ok = import_expand(&fits, &w, p, st) && (fits || become_op(&w, p, st));
    im->opset = opset;
    for (size_t i = 0; i < w.owned_count; i++) qc_tensor_unref(w.owned[i]);
    /* An invalid constant is reported again when it is used. A constant that did not fit into memory may not be, and
       the form was chosen without it. */
    if (w.unread.code == QC_MACHINE) {
        *st = w.unread;
        ok = false;
    }
    if (!ok && !w.located) qc_where(st, "node '%.200s' (%.80s)", label, qc_proto_text(p->op_type));
    return ok;
}
