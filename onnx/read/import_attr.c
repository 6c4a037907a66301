// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

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

static bool op_matches(const char *pattern, const char *op)
{
    size_t n = strlen(pattern);
    if (n && pattern[n - 1] == '*') return strncmp(pattern, op, n - 1) == 0;
    return strcmp(pattern, op) == 0;
}

static const struct row *find_row(const char *op, const char *name)
{
    if (!*name) return NULL;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].name, name) == 0 && op_matches(rows[i].op, op)) return &rows[i];
    return NULL;
}

/* Returns true if the attribute has the kind, by its type or, in old files without a type, by its fields. */
static bool has_kind(const Onnx__AttributeProto *p, enum qc_attr_kind kind)
{
    static const Onnx__AttributeProto__AttributeType types[] = {
        [QC_ATTR_INT] = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT,
        [QC_ATTR_FLOAT] = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT,
        [QC_ATTR_STRING] = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING,
        [QC_ATTR_INTS] = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS,
        [QC_ATTR_FLOATS] = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS,
        [QC_ATTR_STRINGS] = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS,
        [QC_ATTR_TENSOR] = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR,
        [QC_ATTR_GRAPH] = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH,
    };
    if ((kind == QC_ATTR_TENSOR && !p->t) || (kind == QC_ATTR_GRAPH && !p->g)) return false;
    if (p->has_type && p->type != ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__UNDEFINED) return p->type == types[kind];
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
        if (!v) return false;
        for (size_t i = 0; i < p->n_strings; i++)
            if (!(v[i] = text_of(w, &p->strings[i], st))) return false;
        a->count = p->n_strings;
        a->strings = v;
        return true;
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

bool qc_import_attrs(struct qc_node_import *w, const Onnx__NodeProto *p, struct qc_status *st)
{
    for (size_t i = 0; i < p->n_attribute; i++) {
        const Onnx__AttributeProto *from = p->attribute[i];
        const char *name = qc_proto_text(from->name);
        const struct row *r = find_row(w->op, name);
        if (from->ref_attr_name && *from->ref_attr_name)
            return qc_fail(st, QC_BAD_INPUT,
                           "attribute '%.80s' refers to a function's attribute, but is not in a function", name);
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

bool qc_import_raw_attrs(struct qc_attr attrs[QC_NODE_ATTRS], struct qc_node_import *w, const Onnx__NodeProto *p,
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
        if (!convert(&attrs[i], &r, w, from, st)) return qc_where(st, "attribute '%.80s'", r.name);
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
