// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/file.h"
#include "graph/core/recurrent.h"
#include "graph/types/number_format.h"
#include "onnx/write/emit.h"
#include "onnx/write/emitting.h"

static Onnx__StringStringEntryProto *entry(struct qc_emitter *e, const char *key, const char *value)
{
    QC_EMIT_NEW(p, e, Onnx__StringStringEntryProto, onnx__string_string_entry_proto__init);
    p->key = qc_emit_text(key);
    p->value = qc_emit_text(value);
    return p;
}

static struct qc_tensor tensor_of(enum qc_dtype t, const struct qc_shape *shape, size_t count, const void *data)
{
    return (struct qc_tensor){.dtype = t,
                              .shape = *shape,
                              .count = count,
                              .bytes = count * qc_dtype_size(t),
                              .data = (void *)(uintptr_t)data};
}

/* Adds an initializer of the annotation: "BASE_SUFFIX". */
static void add_key(struct qc_emitter *e, Onnx__TensorAnnotation *to, const char *key, const char *base,
                    const char *suffix, const struct qc_tensor *t)
{
    const char *name = qc_emit_fresh_name(e, base, suffix);
    qc_emit_initializer(e, qc_emit_tensor(e, name, t));
    to->quant_parameter_tensor_names[to->n_quant_parameter_tensor_names++] = entry(e, key, name);
}

static Onnx__TensorAnnotation *annotation(struct qc_emitter *e, const struct qc_onnx_annotation *a,
                                          const Onnx__TensorAnnotation *same)
{
    QC_EMIT_NEW(p, e, Onnx__TensorAnnotation, onnx__tensor_annotation__init);
    const struct qc_shape scalar = QC_SCALAR, vector = qc_shape_of(1, (const int64_t[]){(int64_t)a->count});
    const struct qc_shape *shape = a->axis < 0 ? &scalar : &vector;
    p->tensor_name = qc_emit_text(e->names[a->value]);
    if (same) {
        p->n_quant_parameter_tensor_names = same->n_quant_parameter_tensor_names;
        p->quant_parameter_tensor_names = same->quant_parameter_tensor_names;
        return p;
    }
    if (!(p->quant_parameter_tensor_names = QC_NEW_ARRAY(e->arena, Onnx__StringStringEntryProto *, 3, e->st))) return p;
    const struct qc_tensor scale = tensor_of(QC_F32, shape, a->count, a->scale);
    add_key(e, p, "SCALE_TENSOR", a->base, "scale", &scale);
    if (a->dtype != QC_I32) {
        /* Zero points in their own type: little endian, so the low bytes are the value. */
        const size_t size = qc_dtype_size(a->dtype);
        uint8_t *z = QC_NEW_ARRAY(e->arena, uint8_t, a->count * size, e->st);
        for (size_t i = 0; z && i < a->count; i++) {
            z[i * size] = (uint8_t)a->zero_point[i];
            if (size == 2) z[i * size + 1] = (uint8_t)((uint32_t)a->zero_point[i] >> 8);
        }
        const struct qc_tensor zero = tensor_of(a->dtype, shape, a->count, z);
        add_key(e, p, "ZERO_POINT_TENSOR", a->base, "zero_point", &zero);
    }
    if (a->axis < 0) return p;
    const int64_t *axis = qc_arena_dup(e->arena, &(const int64_t){a->axis}, 1, sizeof *axis, e->st);
    const struct qc_tensor t = tensor_of(QC_I64, &scalar, 1, axis);
    add_key(e, p, "AXIS_TENSOR", a->base, "axis", &t);
    return p;
}

/* quantization_annotation and its initializers. */
static void emit_annotations(Onnx__GraphProto *p, struct qc_emitter *e, const struct qc_onnx_emit_options *o)
{
    if (!o->annotation_count) return;
    Onnx__TensorAnnotation **made =
        QC_NEW_ARRAY(e->arena, Onnx__TensorAnnotation *, o->annotation_count, e->st); /* by annotation */
    p->quantization_annotation = QC_NEW_ARRAY(e->arena, Onnx__TensorAnnotation *, o->annotation_count, e->st);
    for (size_t i = 0; e->st->code == QC_OK && i < o->annotation_count; i++) {
        if (!e->used[o->annotations[i].value]) continue;
        /* Tensors of one quantizer share its initializers. */
        const struct qc_onnx_annotation *a = &o->annotations[i], *b = o->annotations;
        const Onnx__TensorAnnotation *same = NULL;
        for (size_t k = 0; k < i && !same; k++, b++)
            if (b->scale == a->scale && b->zero_point == a->zero_point && b->axis == a->axis && b->dtype == a->dtype)
                same = made[k];
        made[i] = annotation(e, a, same);
        p->quantization_annotation[p->n_quantization_annotation++] = made[i];
    }
}

/* Finds the opset that has all operators, attributes and types of a graph. */

enum { LOWEST = 13 };

/* Operators newer than opset 13. */
static const struct {
    enum qc_op op;
    int opset;
} young[] = {
    {QC_OP_HardSwish, 14},
    {QC_OP_LayerNormalization, 17},
    {QC_OP_Mish, 18},
    {QC_OP_Gelu, 20},
    {QC_OP_BitCast, 26},
    {QC_OP_BitwiseAnd, 18},
    {QC_OP_BitwiseNot, 18},
    {QC_OP_BitwiseOr, 18},
    {QC_OP_BitwiseXor, 18},
    {QC_OP_Col2Im, 18},
    {QC_OP_CumProd, 26},
    {QC_OP_DeformConv, 19},
    {QC_OP_DFT, 20},
    {QC_OP_GridSample, 20},
    {QC_OP_MelWeightMatrix, 17},
    {QC_OP_RoiAlign, 16},
    {QC_OP_STFT, 17},
    {QC_OP_TensorScatter, 24},
    {QC_OP_RoundInBlocks, 21},
    {QC_OP_Trilu, 14},
};

static int larger(int a, int b)
{
    return a > b ? a : b;
}

static enum qc_dtype dtype_of(const struct qc_graph *g, qc_id v)
{
    return v ? g->values[v].type.dtype : QC_NONE;
}

/* Returns the opset that attributes and types of a node need, beyond the op itself. */
static int feature_opset(const struct qc_graph *g, const struct qc_node *n)
{
    int opset = LOWEST;
    const enum qc_dtype in = n->input_count ? dtype_of(g, n->inputs[0]) : QC_NONE, out = dtype_of(g, n->outputs);
    const bool integer = in != QC_NONE && !qc_dtype_info(in)->is_float;
    if (n->op == QC_OP_QuantizeLinear || n->op == QC_OP_DequantizeLinear) {
        const enum qc_dtype stored = n->op == QC_OP_QuantizeLinear ? out : in;
        if (stored == QC_U16 || stored == QC_I16 || qc_attr_int(n, "block_size", 0))
            opset = 21;
        else if (n->input_count > 1 && dtype_of(g, n->inputs[1]) != QC_F32)
            opset = 19;
    }
    const bool reduces = strncmp(qc_op_info(n->op)->name, "Reduce", 6) == 0 && n->op != QC_OP_ReduceSum;
    if (reduces && (n->input_count > 1 || qc_attr_int(n, "noop_with_empty_axes", 0))) opset = 18;
    if (n->op == QC_OP_Resize &&
        (qc_attr_find(n, "axes") || qc_attr_find(n, "antialias") || qc_attr_find(n, "keep_aspect_ratio_policy")))
        opset = 18;
    if (n->op == QC_OP_Relu && integer) opset = 14;
    if (n->op == QC_OP_ScatterElements || n->op == QC_OP_ScatterND) {
        const char *how = qc_attr_string(n, "reduction", "none");
        if (strcmp(how, "none") != 0) opset = strcmp(how, "add") == 0 || strcmp(how, "mul") == 0 ? 16 : 18;
    }
    if (n->op == QC_OP_Mod && !integer && !qc_attr_int(n, "fmod", 0)) opset = 28;
    if (n->op == QC_OP_BitShift && qc_dtype_info(in)->is_signed) opset = 28;
    if ((n->op == QC_OP_Add || n->op == QC_OP_Sub || n->op == QC_OP_Mul || n->op == QC_OP_Div) &&
        (in == QC_U8 || in == QC_I8 || in == QC_U16 || in == QC_I16))
        opset = 14;
    if (qc_is_recurrent(n->op) && qc_attr_int(n, "layout", 0)) opset = 14;
    if (n->op == QC_OP_Reshape && qc_attr_int(n, "allowzero", 0)) opset = 14;
    if (n->op == QC_OP_Pad && strcmp(qc_attr_string(n, "mode", ""), "wrap") == 0) opset = 19;
    if (n->op == QC_OP_AveragePool && qc_attr_find(n, "dilations")) opset = 19;
    if (n->op == QC_OP_Resize &&
        strcmp(qc_attr_string(n, "coordinate_transformation_mode", ""), "half_pixel_symmetric") == 0)
        opset = 19;
    if ((n->op == QC_OP_ReduceMax || n->op == QC_OP_ReduceMin) && in == QC_BOOL) opset = 20;
    if (n->op == QC_OP_QLinearMatMul && dtype_of(g, n->inputs[1]) != QC_F32) opset = 21;
    return opset;
}

/* Returns the first opset with the type. */
static int type_opset(enum qc_dtype t)
{
    if (t == QC_U2 || t == QC_I2) return 25;
    if (t == QC_F8E8M0) return 24;
    if (t == QC_F4E2M1) return 23;
    if (t == QC_U4 || t == QC_I4) return 21;
    return qc_is_small_float(t) ? 19 : LOWEST;
}

int qc_onnx_emit_opset(const struct qc_graph *g, const struct qc_onnx_emit_options *options)
{
    int opset = larger(LOWEST, g->opset);
    if (options) opset = larger(opset, options->opset_min);
    if (g->carried) opset = larger(opset, g->carried->opset);
    QC_EACH_NODE(n, g) {
        for (size_t k = 0; k < sizeof young / sizeof *young; k++)
            if (n->op == young[k].op) opset = larger(opset, young[k].opset);
        opset = larger(opset, feature_opset(g, n));
        for (unsigned k = 0; k < n->attr_count; k++) /* a body has the opset of the model that it came from */
            if (n->attrs[k].kind == QC_ATTR_GRAPH) opset = larger(opset, qc_onnx_emit_opset(n->attrs[k].graph, NULL));
    }
    for (size_t v = 1; v <= g->value_count; v++) opset = larger(opset, type_opset(g->values[v].type.dtype));
    return opset;
}

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

void qc_emit_mark_used(struct qc_emitter *e)
{
    const struct qc_graph *g = e->g;
    if (!(e->used = QC_NEW_ARRAY(e->arena, unsigned char, g->value_count + 1, e->st))) return;
    for (size_t i = 0; i < g->output_count; i++) e->used[g->outputs[i].value] = 1;
    QC_EACH_NODE_BACK(n, g) {
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
            qc_fail(
                e->st, QC_UNSUPPORTED,
                "value '%s' is affine or made by an op that ONNX does not have; lower the graph before it is emitted",
                QC_VALUE_LABEL(g, (qc_id)v));
    }
}

/* --- The interface --- */

static Onnx__ValueInfoProto **emit_ports(struct qc_emitter *e, const struct qc_port *ports, size_t count)
{
    Onnx__ValueInfoProto **out = QC_NEW_ARRAY(e->arena, Onnx__ValueInfoProto *, count, e->st);
    for (size_t k = 0; out && k < count; k++) {
        const struct qc_port *port = &ports[k];
        const struct qc_type *type = &e->g->values[port->value].type;
        QC_EMIT_NEW(p, e, Onnx__ValueInfoProto, onnx__value_info_proto__init);
        QC_EMIT_NEW(t, e, Onnx__TypeProto, onnx__type_proto__init);
        QC_EMIT_NEW(tensor, e, Onnx__TypeProto__Tensor, onnx__type_proto__tensor__init);
        out[k] = p;
        p->name = qc_emit_text(port->name);
        p->type = t;
        t->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
        t->tensor_type = tensor;
        tensor->has_elem_type = 1;
        tensor->elem_type = qc_dtype_info(type->dtype)->onnx;
        const struct qc_shape *shape = type->shape.rank < 0 && port->declared ? port->declared : &type->shape;
        if (shape->rank < 0) continue;
        QC_EMIT_NEW(dims, e, Onnx__TensorShapeProto, onnx__tensor_shape_proto__init);
        dims->n_dim = (size_t)shape->rank;
        dims->dim = QC_NEW_ARRAY(e->arena, Onnx__TensorShapeProto__Dimension *, shape->rank, e->st);
        for (int i = 0; dims->dim && i < shape->rank; i++) {
            QC_EMIT_NEW(dim, e, Onnx__TensorShapeProto__Dimension, onnx__tensor_shape_proto__dimension__init);
            dims->dim[i] = dim;
            if (shape->dim[i] >= 0) {
                dim->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
                dim->dim_value = shape->dim[i];
            } else if (port->symbol[i]) {
                dim->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
                dim->dim_param = qc_emit_text(port->symbol[i]);
            }
        }
        tensor->shape = dims;
    }
    return out;
}

/* --- The graph --- */

void qc_emit_initializer(struct qc_emitter *e, Onnx__TensorProto *t)
{
    qc_emit_append(e, &e->initializers, t);
    qc_emit_append(e, e->tensors, t);
}

void qc_emit_graph(Onnx__GraphProto *p, struct qc_emitter *e, const struct qc_onnx_emit_options *o)
{
    const struct qc_graph *g = e->g;
    if (e->st->code != QC_OK) return; /* Values have no names. */
    for (size_t v = 1; v <= g->value_count; v++) {
        if (!e->used[v] || e->used[v] == QC_EMIT_OUTSIDE || g->values[v].kind != QC_VALUE_CONSTANT) continue;
        qc_emit_initializer(e, qc_emit_tensor(e, e->names[v], g->values[v].constant));
    }
    for (size_t i = 1; i <= g->node_count; i++)
        if (e->used[g->nodes[i].outputs]) qc_emit_node(e, &g->nodes[i]);
    for (size_t i = 0; i < g->output_count; i++) {
        const char *name = e->names[e->outputs[i].value];
        if (strcmp(name, e->outputs[i].name) != 0) qc_emit_unary(e, "Identity", name, e->outputs[i].name);
    }
    if (o) emit_annotations(p, e, o);
    size_t given = 0;
    while (given < g->input_count && !(e->captured && e->captured[given])) given++;
    p->name = qc_emit_text(g->name && *g->name ? g->name : "graph");
    p->n_input = given; /* captures follow */
    p->n_output = g->output_count;
    p->input = emit_ports(e, e->inputs, given);
    p->output = emit_ports(e, e->outputs, g->output_count);
    if (!e->outer && e->st->code == QC_OK) qc_emit_carried_graph(p, e);
    p->n_node = e->nodes.count;
    p->node = (Onnx__NodeProto **)e->nodes.items;
    p->n_initializer = e->initializers.count;
    p->initializer = (Onnx__TensorProto **)e->initializers.items;
}

/* Adds what --io-type made of inputs and outputs: "quantization:NAME". */
static void emit_port_levels(Onnx__ModelProto *m, struct qc_emitter *e, const struct qc_port *ports, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct qc_port *p = &ports[i];
        if (!(p->scale > 0) && !p->pixels) continue;
        const char *key = qc_arena_printf(e->arena, e->st, "quantization:%s", p->name);
        const char *type = qc_dtype_long_name(e->g->values[p->value].type.dtype), *image = "", *levels = "";
        if (p->pixels)
            image = qc_arena_printf(e->arena, e->st, "%s, \"preprocess\": \"%s\"",
                                    p->channels_last ? ", \"layout\": \"nhwc\"" : "", p->pixels);
        if (p->scale > 0)
            levels = qc_arena_printf(e->arena, e->st, ", \"scale\": %.9g, \"zero_point\": %d", (double)p->scale,
                                     p->zero_point);
        m->metadata_props[m->n_metadata_props++] =
            entry(e, key,
                  image && levels ? qc_arena_printf(e->arena, e->st, "{\"type\": \"%s\"%s%s}", type, image, levels)
                                  : NULL);
    }
}

static bool emit_model(Onnx__ModelProto *m, struct qc_emitter *e, const struct qc_onnx_emit_options *o)
{
    if (!e->spare) return qc_fail_memory(e->st, QC_EMIT_SPARE);
    QC_EMIT_NEW(graph, e, Onnx__GraphProto, onnx__graph_proto__init);
    onnx__model_proto__init(m);
    qc_emit_mark_used(e);
    qc_emit_assign_names(e);
    qc_emit_find_shared(e);
    qc_emit_domain(e, "", e->opset);
    qc_emit_graph(graph, e, o);
    qc_emit_carried_domains(e);
    for (size_t i = 0; i < e->op_domains.count; i++) {
        char *domain = e->op_domains.items[i];
        int64_t version = strcmp(domain, "ai.onnx.ml") == 0 ? 3 : 1;
        /* Version 5 has no TreeEnsembleRegressor and Classifier. */
        for (qc_id k = 1; k <= e->g->node_count; k++)
            if (version == 3 && e->g->nodes[k].op == QC_OP_TreeEnsemble) version = 5;
        qc_emit_domain(e, domain, version);
    }
    m->has_ir_version = 1;
    m->ir_version = ir_version(e->opset);
    m->producer_name = qc_emit_text("qcalib");
    m->producer_version = qc_emit_text(o->producer_version ? o->producer_version : QC_VERSION);
    m->doc_string = qc_emit_text(o->doc);
    m->graph = graph;
    m->n_opset_import = e->domains.count;
    m->opset_import = (Onnx__OperatorSetIdProto **)e->domains.items;
    const size_t most = o->property_count + e->g->input_count + e->g->output_count;
    if (!(m->metadata_props = QC_NEW_ARRAY(e->arena, Onnx__StringStringEntryProto *, most, e->st))) return false;
    m->n_metadata_props = o->property_count;
    for (size_t i = 0; i < o->property_count; i++)
        m->metadata_props[i] = entry(e, o->properties[i].key, o->properties[i].value);
    emit_port_levels(m, e, e->g->inputs, e->g->input_count);
    emit_port_levels(m, e, e->g->outputs, e->g->output_count);
    qc_emit_carried_model(m, e);
    m->n_functions = e->functions.count;
    m->functions = (Onnx__FunctionProto **)e->functions.items;
    return e->st->code == QC_OK;
}

static bool pack_model(void **bytes, size_t *size, const Onnx__ModelProto *m, struct qc_status *st)
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
                                    struct qc_emit_list *tensors, struct qc_status *st)
{
    struct qc_emitter e = {.g = g,
                           .opset = qc_onnx_emit_opset(g, o),
                           .arena = qc_arena_new(),
                           .st = st,
                           .tensors = tensors,
                           .node_docs = o->node_docs};
    if (e.arena) e.spare = qc_arena_get(e.arena, 1, QC_EMIT_SPARE, st);
    return e;
}

bool qc_onnx_emit(void **bytes, size_t *size, const struct qc_graph *g, const struct qc_onnx_emit_options *options,
                  struct qc_status *st)
{
    const struct qc_onnx_emit_options o = options ? *options : QC_ONNX_EMIT_DEFAULTS;
    struct qc_emit_list tensors = {.count = 0};
    struct qc_emitter e = emitter_of(g, &o, &tensors, st);
    Onnx__ModelProto m;
    const bool ok = emit_model(&m, &e, &o) && pack_model(bytes, size, &m, st);
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

/* Moves the elements of larger constants to the file beside the model. */
static bool move_all(struct data_file *d, struct qc_emitter *e)
{
    static const uint8_t zeros[EXTERNAL_ALIGN];
    for (size_t i = 0; i < e->tensors->count; i++) {
        Onnx__TensorProto *t = e->tensors->items[i];
        if (t->raw_data.len < EXTERNAL_LEAST) continue;
        const size_t pad = (size_t)((EXTERNAL_ALIGN - d->bytes % EXTERNAL_ALIGN) % EXTERNAL_ALIGN);
        if (d->output && (!qc_output_write(d->output, zeros, pad, e->st) ||
                          !qc_output_write(d->output, t->raw_data.data, t->raw_data.len, e->st)))
            return false;
        d->bytes += pad;
        if (!(t->external_data = QC_NEW_ARRAY(e->arena, Onnx__StringStringEntryProto *, 3, e->st))) return false;
        t->external_data[0] = entry(e, "location", d->location);
        t->external_data[1] =
            entry(e, "offset", qc_arena_printf(e->arena, e->st, "%llu", (unsigned long long)d->bytes));
        t->external_data[2] = entry(e, "length", qc_arena_printf(e->arena, e->st, "%zu", t->raw_data.len));
        d->bytes += t->raw_data.len;
        t->n_external_data = 3;
        t->has_raw_data = 0;
        t->has_data_location = 1;
        t->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
        if (e->st->code != QC_OK) return false;
    }
    return true;
}

static bool write_data(struct data_file *d, struct qc_emitter *e, const char *path)
{
    const char *file = qc_arena_printf(e->arena, e->st, "%s.data", path);
    const char *slash = file ? strrchr(file, '/') : NULL;
    if (!file || !qc_output_open(&d->output, file, e->st)) return false;
    d->location = slash ? slash + 1 : file;
    return move_all(d, e);
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
    struct qc_emitter e = emitter_of(g, &o, &tensors, st);
    struct qc_output *model = NULL;
    struct data_file data = {.output = NULL};
    Onnx__ModelProto m;
    void *packed = NULL;
    size_t size = 0;
    const bool ok = emit_model(&m, &e, &o) && qc_output_open(&model, path, st) &&
                    (!goes_beside(&tensors, g, o.external_from) || write_data(&data, &e, path)) &&
                    pack_model(&packed, &size, &m, st) && qc_output_write(model, packed, size, st) &&
                    (data.output ? qc_output_commit_pair(data.output, model, st) : qc_output_commit(model, st));
    if (ok && bytes) *bytes = size + (size_t)data.bytes;
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
    struct qc_emitter e = emitter_of(g, &o, &tensors, st);
    struct data_file data = {.output = NULL};
    Onnx__ModelProto m;
    char *name = e.arena ? QC_NEW_ARRAY(e.arena, char, NAME + 1, st) : NULL;
    bool ok = emit_model(&m, &e, &o);
    if (name) memset(name, 'x', NAME);
    data.location = name;
    if (ok && goes_beside(&tensors, g, o.external_from)) ok = move_all(&data, &e);
    if (ok) *bytes = onnx__model_proto__get_packed_size(&m) + (size_t)data.bytes;
    qc_emit_carried_end(&e);
    qc_arena_free(e.arena);
    return ok;
}
