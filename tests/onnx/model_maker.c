// SPDX-License-Identifier: Apache-2.0
#include "model_maker.h"
#include "tests/check.h"

/* Messages hold strings that are not const; nothing writes to them. */
static char *text(const char *s)
{
    return (char *)(uintptr_t)s;
}

void maker_start(struct maker *m, int opset)
{
    *m = (struct maker){.arena = qc_arena_new(), .st = QC_STATUS_INIT};
    onnx__model_proto__init(&m->model);
    onnx__graph_proto__init(&m->graph);
    onnx__operator_set_id_proto__init(&m->opset);
    m->opset.has_version = 1;
    m->opset.version = opset;
    m->opsets[0] = &m->opset;
    m->model.has_ir_version = 1;
    m->model.ir_version = 7;
    m->model.n_opset_import = 1;
    m->model.opset_import = m->opsets;
    m->model.graph = &m->graph;
    m->graph.name = text("test");
    m->graph.node = m->nodes;
    m->graph.input = m->inputs;
    m->graph.output = m->outputs;
    m->graph.initializer = m->initializers;
}

void maker_stop(struct maker *m)
{
    cr_assert_eq(m->st.code, QC_OK, "%s", m->st.message);
    qc_arena_free(m->arena);
}

static Onnx__ValueInfoProto *port(struct maker *m, const char *name, const char *symbol, int rank, const int64_t *dims)
{
    Onnx__ValueInfoProto *p = QC_NEW(m->arena, Onnx__ValueInfoProto, &m->st);
    Onnx__TypeProto *t = QC_NEW(m->arena, Onnx__TypeProto, &m->st);
    Onnx__TypeProto__Tensor *tensor = QC_NEW(m->arena, Onnx__TypeProto__Tensor, &m->st);
    onnx__value_info_proto__init(p);
    onnx__type_proto__init(t);
    onnx__type_proto__tensor__init(tensor);
    p->name = text(name);
    p->type = t;
    t->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    t->tensor_type = tensor;
    tensor->has_elem_type = 1;
    tensor->elem_type = 1;
    if (rank < 0) return p;
    tensor->shape = QC_NEW(m->arena, Onnx__TensorShapeProto, &m->st);
    onnx__tensor_shape_proto__init(tensor->shape);
    tensor->shape->n_dim = (size_t)rank;
    tensor->shape->dim = QC_NEW_ARRAY(m->arena, Onnx__TensorShapeProto__Dimension *, rank, &m->st);
    for (int i = 0; i < rank; i++) {
        Onnx__TensorShapeProto__Dimension *d = tensor->shape->dim[i] =
            QC_NEW(m->arena, Onnx__TensorShapeProto__Dimension, &m->st);
        onnx__tensor_shape_proto__dimension__init(d);
        if (dims[i] >= 0) {
            d->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
            d->dim_value = dims[i];
        } else if (symbol) {
            d->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
            d->dim_param = text(symbol);
        }
    }
    return p;
}

void maker_input(struct maker *m, const char *name, const char *symbol, int rank, const int64_t *dims)
{
    m->inputs[m->graph.n_input++] = port(m, name, symbol, rank, dims);
}

void maker_output(struct maker *m, const char *name)
{
    m->outputs[m->graph.n_output++] = port(m, name, NULL, -1, NULL);
}

static Onnx__TensorProto *initializer(struct maker *m, const char *name, int data_type, int rank, const int64_t *dims)
{
    Onnx__TensorProto *t = QC_NEW(m->arena, Onnx__TensorProto, &m->st);
    onnx__tensor_proto__init(t);
    t->name = text(name);
    t->has_data_type = 1;
    t->data_type = data_type;
    t->n_dims = (size_t)rank;
    t->dims = qc_arena_dup(m->arena, dims, t->n_dims, sizeof *dims, &m->st);
    m->initializers[m->graph.n_initializer++] = t;
    return t;
}

Onnx__TensorProto *maker_floats(struct maker *m, const char *name, int rank, const int64_t *dims, const float *v)
{
    Onnx__TensorProto *t = initializer(m, name, 1, rank, dims);
    t->n_float_data = 1;
    for (int i = 0; i < rank; i++) t->n_float_data *= (size_t)dims[i];
    t->float_data = qc_arena_dup(m->arena, v, t->n_float_data, sizeof *v, &m->st);
    return t;
}

Onnx__TensorProto *maker_ints(struct maker *m, const char *name, int64_t count, const int64_t *v)
{
    Onnx__TensorProto *t = initializer(m, name, 7, 1, &count);
    t->n_int64_data = (size_t)count;
    t->int64_data = qc_arena_dup(m->arena, v, t->n_int64_data, sizeof *v, &m->st);
    return t;
}

static char **names(struct maker *m, size_t *count, const char *list)
{
    char **v = QC_NEW_ARRAY(m->arena, char *, MAKER_MOST, &m->st);
    *count = 0;
    for (const char *p = list; *p;) {
        size_t n = strcspn(p, " ");
        v[(*count)++] = n == 1 && *p == '-' ? text("") : qc_arena_strndup(m->arena, p, n, &m->st);
        p += n;
        p += *p == ' ';
    }
    return v;
}

Onnx__NodeProto *maker_node(struct maker *m, const char *op, const char *name, const char *inputs, const char *outputs)
{
    Onnx__NodeProto *p = m->nodes[m->graph.n_node++] = QC_NEW(m->arena, Onnx__NodeProto, &m->st);
    onnx__node_proto__init(p);
    p->op_type = text(op);
    p->name = text(name);
    p->input = names(m, &p->n_input, inputs);
    p->output = names(m, &p->n_output, outputs);
    p->attribute = QC_NEW_ARRAY(m->arena, Onnx__AttributeProto *, MAKER_MOST, &m->st);
    return p;
}

static Onnx__AttributeProto *attribute(struct maker *m, const char *name, Onnx__AttributeProto__AttributeType type)
{
    Onnx__NodeProto *n = m->nodes[m->graph.n_node - 1];
    Onnx__AttributeProto *p = n->attribute[n->n_attribute++] = QC_NEW(m->arena, Onnx__AttributeProto, &m->st);
    onnx__attribute_proto__init(p);
    p->name = text(name);
    p->has_type = 1;
    p->type = type;
    return p;
}

void maker_int(struct maker *m, const char *name, int64_t v)
{
    Onnx__AttributeProto *p = attribute(m, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT);
    p->has_i = 1;
    p->i = v;
}

void maker_float(struct maker *m, const char *name, float v)
{
    Onnx__AttributeProto *p = attribute(m, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT);
    p->has_f = 1;
    p->f = v;
}

void maker_text(struct maker *m, const char *name, const char *v)
{
    Onnx__AttributeProto *p = attribute(m, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING);
    p->has_s = 1;
    p->s.len = strlen(v);
    p->s.data = (uint8_t *)text(v);
}

void maker_int_list(struct maker *m, const char *name, size_t count, const int64_t *v)
{
    Onnx__AttributeProto *p = attribute(m, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS);
    p->n_ints = count;
    p->ints = qc_arena_dup(m->arena, v, count, sizeof *v, &m->st);
}

void maker_float_list(struct maker *m, const char *name, size_t count, const float *v)
{
    Onnx__AttributeProto *p = attribute(m, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS);
    p->n_floats = count;
    p->floats = qc_arena_dup(m->arena, v, count, sizeof *v, &m->st);
}

void maker_tensor(struct maker *m, const char *name, Onnx__TensorProto *t)
{
    attribute(m, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR)->t = t;
}

void maker_pack(const struct maker *m, void **bytes, size_t *size)
{
    *size = onnx__model_proto__get_packed_size(&m->model);
    *bytes = qc_arena_get(m->arena, *size, 1, ST);
    onnx__model_proto__pack(&m->model, *bytes);
}

struct qc_graph *maker_import(const struct maker *m, struct qc_model_info *info, struct qc_status *st)
{
    struct qc_graph *g = NULL;
    void *bytes;
    size_t size;
    maker_pack(m, &bytes, &size);
    bool ok = qc_onnx_import_memory_with(&g, info, bytes, size, NULL, &QC_IMPORT_INIT, st);
    cr_assert_eq(ok, st->code == QC_OK);
    return g;
}

struct qc_graph *maker_graph(const struct maker *m)
{
    struct qc_graph *g = maker_import(m, NULL, ST);
    MUST(g);
    return g;
}

bool graph_has_ops(const struct qc_graph *g, const char *ops)
{
    char found[2048] = "";
    size_t n = 0;
    for (size_t i = 1; i <= g->node_count; i++) {
        const char *name = qc_op_info(g->nodes[i].op)->name;
        if (n + strlen(name) + 2 > sizeof found) return false;
        n += (size_t)sprintf(found + n, "%s%s", i > 1 ? " " : "", name);
    }
    if (strcmp(found, ops) != 0) cr_log_warn("ops are '%s', expected '%s'", found, ops);
    return strcmp(found, ops) == 0;
}

const struct qc_node *graph_node(const struct qc_graph *g, const char *value)
{
    qc_id v = qc_graph_find_value(g, value);
    return v ? qc_node_of(g, v) : NULL;
}

bool node_input_is(const struct qc_graph *g, const struct qc_node *n, unsigned i, size_t count, const int64_t *v)
{
    const struct qc_tensor *t = i < n->input_count ? qc_constant_of(g, n->inputs[i]) : NULL;
    bool same = t && t->dtype == QC_I64 && t->count == count;
    for (size_t k = 0; same && k < count; k++) same = qc_tensor_int(t, k) == v[k];
    return same;
}

bool node_ints_are(const struct qc_node *n, const char *attr, size_t count, const int64_t *v)
{
    const int64_t *got;
    return qc_attr_ints(n, attr, &got) == count && memcmp(got, v, count * sizeof *v) == 0;
}

void write_file(const char *path, const void *data, size_t size)
{
    FILE *f = fopen(path, "wb");
    cr_assert(f && fwrite(data, 1, size, f) == size && fclose(f) == 0);
}
