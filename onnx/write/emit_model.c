// SPDX-License-Identifier: Apache-2.0
#include "onnx/write/emit.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/file.h"
#include "onnx/write/emitting.h"

enum {
    EXTERNAL_LEAST = 1024, /* smaller constants stay inside, such as shapes, which readers need at once */
    EXTERNAL_ALIGN = 64
};

/* IR version of the ONNX release that introduced an opset. */
static int64_t ir_version(int opset)
{
    static const struct {
        int opset, ir;
    } rows[] = {{25, 13}, {24, 12}, {23, 11}, {21, 10}, {19, 9}, {15, 8}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (opset >= rows[i].opset) return rows[i].ir;
    return 7;
}

bool qc_emit_mark_used(struct qc_emitter *e, struct qc_status *st)
{
    const struct qc_graph *g = e->g;
    char label[QC_LABEL];
    if (!(e->used = QC_NEW_ARRAY(e->arena, unsigned char, g->value_count + 1, st))) return false;
    for (size_t i = 0; i < g->output_count; i++) e->used[g->outputs[i].value] = 1;
    for (size_t i = g->node_count; i >= 1; i--) {
        const struct qc_node *n = &g->nodes[i];
        bool needed = false;
        for (unsigned k = 0; k < n->output_count; k++) needed |= e->used[n->outputs + k] != 0;
        for (unsigned k = 0; needed && k < n->output_count; k++) e->used[n->outputs + k] = 1;
        for (unsigned k = 0; needed && k < n->input_count; k++) e->used[n->inputs[k]] = 1;
    }
    e->used[QC_ABSENT] = 0;
    for (size_t v = 1; v <= g->value_count; v++) {
        const struct qc_node *n = qc_node_of(g, (qc_id)v);
        if (!e->used[v]) continue;
        if (g->values[v].type.qparams != QC_REAL || (n && n->op != QC_OP_Custom && !*qc_op_info(n->op)->onnx))
            return qc_fail(
                st, QC_UNSUPPORTED,
                "value '%s' is affine or made by an op that ONNX does not have; lower the graph before it is emitted",
                qc_value_label(label, g, (qc_id)v));
    }
    return true;
}

/* --- The interface --- */

static Onnx__TensorShapeProto *emit_shape(struct qc_emitter *e, const struct qc_shape *s, const char *const *symbols,
                                          struct qc_status *st)
{
    Onnx__TensorShapeProto *p = QC_NEW(e->arena, Onnx__TensorShapeProto, st);
    Onnx__TensorShapeProto__Dimension *dims = QC_NEW_ARRAY(e->arena, Onnx__TensorShapeProto__Dimension, s->rank, st);
    if (!p || !dims) return NULL;
    onnx__tensor_shape_proto__init(p);
    p->n_dim = (size_t)s->rank;
    p->dim = QC_NEW_ARRAY(e->arena, Onnx__TensorShapeProto__Dimension *, s->rank, st);
    for (int i = 0; p->dim && i < s->rank; i++) {
        p->dim[i] = &dims[i];
        onnx__tensor_shape_proto__dimension__init(&dims[i]);
        if (s->dim[i] >= 0) {
            dims[i].value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
            dims[i].dim_value = s->dim[i];
        } else if (symbols[i]) {
            dims[i].value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
            dims[i].dim_param = qc_emit_text(symbols[i]);
        }
    }
    return p->dim ? p : NULL;
}

static Onnx__ValueInfoProto *emit_port(struct qc_emitter *e, const struct qc_port *port, struct qc_status *st)
{
    const struct qc_type *type = &e->g->values[port->value].type;
    Onnx__ValueInfoProto *p = QC_NEW(e->arena, Onnx__ValueInfoProto, st);
    Onnx__TypeProto *t = QC_NEW(e->arena, Onnx__TypeProto, st);
    Onnx__TypeProto__Tensor *tensor = QC_NEW(e->arena, Onnx__TypeProto__Tensor, st);
    if (!p || !t || !tensor) return NULL;
    onnx__value_info_proto__init(p);
    onnx__type_proto__init(t);
    onnx__type_proto__tensor__init(tensor);
    p->name = qc_emit_text(port->name);
    p->type = t;
    t->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    t->tensor_type = tensor;
    tensor->has_elem_type = 1;
    tensor->elem_type = qc_dtype_info(type->dtype)->onnx;
    const struct qc_shape *shape = type->shape.rank < 0 && port->declared ? port->declared : &type->shape;
    if (shape->rank >= 0 && !(tensor->shape = emit_shape(e, shape, port->symbol, st))) return NULL;
    return p;
}

static Onnx__ValueInfoProto **emit_ports(struct qc_emitter *e, const struct qc_port *ports, size_t count,
                                         struct qc_status *st)
{
    Onnx__ValueInfoProto **p = QC_NEW_ARRAY(e->arena, Onnx__ValueInfoProto *, count, st);
    for (size_t i = 0; p && i < count; i++)
        if (!(p[i] = emit_port(e, &ports[i], st))) return NULL;
    return p;
}

/* --- The graph --- */

bool qc_emit_initializer(struct qc_emitter *e, Onnx__TensorProto *t, struct qc_status *st)
{
    return t && qc_emit_append(e, &e->initializers, t, st) && qc_emit_append(e, e->tensors, t, st);
}

bool qc_emit_graph(Onnx__GraphProto *p, struct qc_emitter *e, const struct qc_onnx_emit_options *o,
                   struct qc_status *st)
{
    const struct qc_graph *g = e->g;
    for (size_t v = 1; v <= g->value_count; v++) {
        if (!e->used[v] || g->values[v].kind != QC_VALUE_CONSTANT) continue;
        Onnx__TensorProto *t = qc_emit_tensor(e->arena, e->names[v], g->values[v].constant, st);
        if (!qc_emit_initializer(e, t, st)) return false;
    }
    for (size_t i = 1; i <= g->node_count; i++)
        if (e->used[g->nodes[i].outputs] && !qc_emit_node(e, &g->nodes[i], st)) return false;
    for (size_t i = 0; i < g->output_count; i++) {
        const char *name = e->names[e->outputs[i].value];
        if (strcmp(name, e->outputs[i].name) != 0 && !qc_emit_identity(e, name, e->outputs[i].name, st)) return false;
    }
    if (o && !qc_emit_annotations(p, e, o, st)) return false;
    size_t given = 0;
    while (given < g->input_count && !(e->captured && e->captured[given])) given++;
    p->name = qc_emit_text(g->name && *g->name ? g->name : "graph");
    p->n_input = given; /* captures follow */
    p->n_output = g->output_count;
    p->input = emit_ports(e, e->inputs, given, st);
    p->output = emit_ports(e, e->outputs, g->output_count, st);
    if (!p->input || !p->output || (!e->outer && !qc_emit_carried_graph(p, e, st))) return false;
    p->n_node = e->nodes.count;
    p->node = (Onnx__NodeProto **)e->nodes.items;
    p->n_initializer = e->initializers.count;
    p->initializer = (Onnx__TensorProto **)e->initializers.items;
    return true;
}

static Onnx__StringStringEntryProto *entry(struct qc_arena *a, const char *key, const char *value, struct qc_status *st)
{
    Onnx__StringStringEntryProto *p = QC_NEW(a, Onnx__StringStringEntryProto, st);
    if (!p) return NULL;
    onnx__string_string_entry_proto__init(p);
    p->key = qc_emit_text(key);
    p->value = qc_emit_text(value);
    return p;
}

static bool emit_model(Onnx__ModelProto *m, struct qc_emitter *e, const struct qc_onnx_emit_options *o,
                       struct qc_status *st)
{
    Onnx__GraphProto *graph = QC_NEW(e->arena, Onnx__GraphProto, st);
    if (!graph || !qc_emit_mark_used(e, st) || !qc_emit_assign_names(e, st)) return false;
    onnx__model_proto__init(m);
    onnx__graph_proto__init(graph);
    if (!qc_emit_domain(e, "", e->opset, st) || !qc_emit_graph(graph, e, o, st) || !qc_emit_carried_domains(e, st) ||
        (e->contrib && !qc_emit_domain(e, "com.microsoft", 1, st)))
        return false;
    m->has_ir_version = 1;
    m->ir_version = ir_version(e->opset);
    m->producer_name = qc_emit_text("qcalib");
    m->producer_version = qc_emit_text(o->producer_version ? o->producer_version : QC_VERSION);
    m->doc_string = qc_emit_text(o->doc);
    m->graph = graph;
    m->n_opset_import = e->domains.count;
    m->opset_import = (Onnx__OperatorSetIdProto **)e->domains.items;
    m->n_metadata_props = o->property_count;
    m->metadata_props = QC_NEW_ARRAY(e->arena, Onnx__StringStringEntryProto *, o->property_count, st);
    for (size_t i = 0; m->metadata_props && i < o->property_count; i++)
        if (!(m->metadata_props[i] = entry(e->arena, o->properties[i].key, o->properties[i].value, st))) return false;
    if (!m->metadata_props || !qc_emit_carried_model(m, e, st)) return false;
    m->n_functions = e->functions.count;
    m->functions = (Onnx__FunctionProto **)e->functions.items;
    return true;
}

static bool pack(void **bytes, size_t *size, const Onnx__ModelProto *m, struct qc_status *st)
{
    const size_t n = onnx__model_proto__get_packed_size(m);
    if (n > INT32_MAX)
        return qc_fail(
            st, QC_UNSUPPORTED,
            "the model has %zu bytes, but a single ONNX file at most 2 GB; let its constants go to a file beside it",
            n);
    void *p = malloc(n + 1);
    if (!p) return qc_fail_memory(st, n);
    onnx__model_proto__pack(m, p);
    *bytes = p;
    *size = n;
    return true;
}

static struct qc_emitter emitter_of(const struct qc_graph *g, const struct qc_onnx_emit_options *o,
                                    struct qc_emit_list *tensors)
{
    return (struct qc_emitter){.g = g,
                               .opset = qc_onnx_emit_opset(g, o),
                               .arena = qc_arena_new(),
                               .tensors = tensors,
                               .node_docs = o->node_docs};
}

bool qc_onnx_emit(void **bytes, size_t *size, const struct qc_graph *g, const struct qc_onnx_emit_options *options,
                  struct qc_status *st)
{
    const struct qc_onnx_emit_options o = options ? *options : QC_ONNX_EMIT_DEFAULTS;
    struct qc_emit_list tensors = {.count = 0};
    struct qc_emitter e = emitter_of(g, &o, &tensors);
    Onnx__ModelProto m;
    bool ok = e.arena ? emit_model(&m, &e, &o, st) && pack(bytes, size, &m, st) : qc_fail_memory(st, sizeof e);
    qc_emit_carried_end(&e);
    qc_arena_free(e.arena);
    return ok;
}

/* --- Files --- */

/* The file beside the model. */
struct data_file {
    struct qc_output *output; /* NULL: bytes are only counted */
    const char *location;     /* the name in the model */
    uint64_t bytes;           /* so far */
};

/* Moves the elements of a constant to the file beside the model. */
static bool move_out(Onnx__TensorProto *t, struct data_file *d, struct qc_arena *a, struct qc_status *st)
{
    static const uint8_t zeros[EXTERNAL_ALIGN];
    const size_t pad = (size_t)((EXTERNAL_ALIGN - d->bytes % EXTERNAL_ALIGN) % EXTERNAL_ALIGN);
    if (d->output && (!qc_output_write(d->output, zeros, pad, st) ||
                      !qc_output_write(d->output, t->raw_data.data, t->raw_data.len, st)))
        return false;
    d->bytes += pad;
    t->external_data = QC_NEW_ARRAY(a, Onnx__StringStringEntryProto *, 3, st);
    const char *at = qc_arena_printf(a, st, "%llu", (unsigned long long)d->bytes),
               *length = qc_arena_printf(a, st, "%zu", t->raw_data.len);
    if (!t->external_data || !at || !length || !(t->external_data[0] = entry(a, "location", d->location, st)) ||
        !(t->external_data[1] = entry(a, "offset", at, st)) || !(t->external_data[2] = entry(a, "length", length, st)))
        return false;
    d->bytes += t->raw_data.len;
    t->n_external_data = 3;
    t->has_raw_data = 0;
    t->has_data_location = 1;
    t->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
    return true;
}

static bool move_all(struct data_file *d, const struct qc_emit_list *tensors, struct qc_arena *a, struct qc_status *st)
{
    for (size_t i = 0; i < tensors->count; i++)
        if (((Onnx__TensorProto *)tensors->items[i])->raw_data.len >= EXTERNAL_LEAST &&
            !move_out(tensors->items[i], d, a, st))
            return false;
    return true;
}

static bool write_data(struct data_file *d, const struct qc_emit_list *tensors, const char *path, struct qc_arena *a,
                       struct qc_status *st)
{
    const char *file = qc_arena_printf(a, st, "%s.data", path);
    const char *slash = file ? strrchr(file, '/') : NULL;
    if (!file || !qc_output_open(&d->output, file, st)) return false;
    d->location = slash ? slash + 1 : file;
    return move_all(d, tensors, a, st);
}

/* Returns true if constants go into a file beside the model. */
static bool goes_beside(const struct qc_emit_list *tensors, const struct qc_graph *g, size_t limit)
{
    size_t total = 0;
    bool some = false;
    for (size_t i = 0; i < tensors->count; i++) {
        const size_t bytes = ((Onnx__TensorProto *)tensors->items[i])->raw_data.len;
        some |= bytes >= EXTERNAL_LEAST;
        if (!qc_add_size(&total, total, bytes)) total = SIZE_MAX;
    }
    return some && (g->external_data || total > limit);
}

bool qc_onnx_emit_file(size_t *bytes, const char *path, const struct qc_graph *g,
                       const struct qc_onnx_emit_options *options, struct qc_status *st)
{
    const struct qc_onnx_emit_options o = options ? *options : QC_ONNX_EMIT_DEFAULTS;
    struct qc_emit_list tensors = {.count = 0};
    struct qc_emitter e = emitter_of(g, &o, &tensors);
    struct qc_output *model = NULL;
    struct data_file data = {.output = NULL};
    Onnx__ModelProto m;
    void *packed = NULL;
    size_t size;
    bool ok = false;
    if (!e.arena) {
        qc_fail_memory(st, sizeof e);
        goto out;
    }
    if (!emit_model(&m, &e, &o, st) || !qc_output_open(&model, path, st)) goto out;
    if (goes_beside(&tensors, g, o.external_from) && !write_data(&data, &tensors, path, e.arena, st)) goto out;
    if (!pack(&packed, &size, &m, st) || !qc_output_write(model, packed, size, st)) goto out;
    ok = data.output ? qc_output_commit_pair(data.output, model, st) : qc_output_commit(model, st);
    if (ok && bytes) *bytes = size + (size_t)data.bytes;
out:
    free(packed);
    qc_output_free(model);
    qc_output_free(data.output);
    qc_emit_carried_end(&e);
    qc_arena_free(e.arena);
    return ok;
}

bool qc_onnx_emit_bytes(size_t *bytes, const struct qc_graph *g, const struct qc_onnx_emit_options *options,
                        struct qc_status *st)
{
    enum { NAME = 255 };
    const struct qc_onnx_emit_options o = options ? *options : QC_ONNX_EMIT_DEFAULTS;
    struct qc_emit_list tensors = {.count = 0};
    struct qc_emitter e = emitter_of(g, &o, &tensors);
    struct data_file data = {.output = NULL};
    Onnx__ModelProto m;
    char *name = e.arena ? QC_NEW_ARRAY(e.arena, char, NAME + 1, st) : NULL;
    bool ok = name ? emit_model(&m, &e, &o, st) : qc_fail_memory(st, sizeof e);
    if (name) memset(name, 'x', NAME);
    data.location = name;
    if (ok && goes_beside(&tensors, g, o.external_from)) ok = move_all(&data, &tensors, e.arena, st);
    if (ok) *bytes = onnx__model_proto__get_packed_size(&m) + (size_t)data.bytes;
    qc_emit_carried_end(&e);
    qc_arena_free(e.arena);
    return ok;
}
