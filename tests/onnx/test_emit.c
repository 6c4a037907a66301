// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include "graph/text/text.h"
#include "model_maker.h"
#include "onnx/write/emit.h"
#include "tests/check.h"

static const struct qc_shape row = {.rank = 2, .dim = {QC_FREE, 4}};

struct built {
    struct qc_graph *g;
    struct qc_status st;
    qc_id x;
};

static void start(struct built *b)
{
    b->st = QC_STATUS_INIT;
    b->g = qc_graph_new(&b->st);
    b->x = qc_graph_add_input(b->g, "x", QC_F32, &row, &b->st);
}

static qc_id add(struct built *b, enum qc_op op, unsigned count, const qc_id *in, unsigned attrs,
                 const struct qc_attr *attr)
{
    const struct qc_node_def def = {.op = op, .input_count = count, .inputs = in, .attr_count = attrs, .attrs = attr};
    qc_id id = qc_graph_add(b->g, &def, &b->st);
    cr_assert_neq(id, 0, "%s", b->st.message);
    return id;
}

static qc_id one(struct built *b, enum qc_op op, qc_id in)
{
    return add(b, op, 1, &in, 0, NULL);
}

static qc_id constant(struct built *b, const char *name, enum qc_dtype dtype, const struct qc_shape *shape,
                      const void *data)
{
    OWN(qc_tensor) *t = qc_tensor_of(dtype, shape, data, &b->st);
    qc_id id = qc_graph_add_constant(b->g, name, t, &b->st);
    return id;
}

/* The model as messages, as another reader would see it. */
static Onnx__ModelProto *emitted(const struct qc_graph *g, const struct qc_onnx_emit_options *o)
{
    void *bytes;
    size_t size;
    MUST(qc_onnx_emit(&bytes, &size, g, o, ST));
    Onnx__ModelProto *m = onnx__model_proto__unpack(NULL, size, bytes);
    free(bytes);
    cr_assert_not_null(m);
    return m;
}

static void expect_versions(const struct qc_graph *g, const struct qc_onnx_emit_options *o, int opset, int ir)
{
    Onnx__ModelProto *m = emitted(g, o);
    cr_expect_eq(qc_onnx_emit_opset(g, o), opset);
    cr_expect_eq(m->opset_import[0]->version, opset, "opset %d, expected %d", (int)m->opset_import[0]->version, opset);
    cr_expect_eq(m->ir_version, ir, "IR version %d, expected %d", (int)m->ir_version, ir);
    onnx__model_proto__free_unpacked(m, NULL);
}

/* First opsets are those of ONNX's changelog; IR versions those of the releases that brought them. */
Test(emit, opset_is_the_lowest_that_holds_the_graph)
{
    static const struct {
        enum qc_op op;
        int opset, ir;
    } rows[] = {
        {QC_OP_Relu, 13, 7}, {QC_OP_Sigmoid, 13, 7}, {QC_OP_HardSwish, 14, 7}, {QC_OP_Mish, 18, 8}, {QC_OP_Gelu, 20, 9},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct built b;
        start(&b);
        qc_graph_add_output(b.g, "y", one(&b, rows[i].op, b.x), &b.st);
        expect_versions(b.g, NULL, rows[i].opset, rows[i].ir);
        qc_graph_free(b.g);
    }
}

Test(emit, opset_of_the_model_and_of_the_options_is_a_lower_bound)
{
    struct built b;
    struct qc_onnx_emit_options o = QC_ONNX_EMIT_DEFAULTS;
    start(&b);
    qc_graph_add_output(b.g, "y", one(&b, QC_OP_Relu, b.x), &b.st);
    b.g->opset = 9;
    expect_versions(b.g, NULL, 13, 7);
    b.g->opset = 15;
    expect_versions(b.g, NULL, 15, 8);
    o.opset_min = 21;
    expect_versions(b.g, &o, 21, 10);
    b.g->opset = 22;
    expect_versions(b.g, &o, 22, 10);
    qc_graph_free(b.g);
}

Test(emit, opset_of_quantization_follows_the_type)
{
    static const struct {
        enum qc_dtype dtype;
        int opset;
    } rows[] = {{QC_U8, 13}, {QC_I8, 13}, {QC_U16, 21}, {QC_I16, 21}, {QC_U4, 21}, {QC_I4, 21}};
    const struct qc_shape scalar = QC_SCALAR;
    const float scale = 0.5f;
    const uint16_t zero = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct built b;
        start(&b);
        qc_id in[3] = {b.x, constant(&b, "s", QC_F32, &scalar, &scale),
                       constant(&b, "z", rows[i].dtype, &scalar, &zero)};
        in[0] = add(&b, QC_OP_QuantizeLinear, 3, in, 0, NULL);
        qc_graph_add_output(b.g, "y", add(&b, QC_OP_DequantizeLinear, 3, in, 0, NULL), &b.st);
        expect_versions(b.g, NULL, rows[i].opset, rows[i].opset == 13 ? 7 : 10);
        qc_graph_free(b.g);
    }
}

Test(emit, forms_follow_the_opset)
{
    struct built b;
    struct qc_onnx_emit_options o = QC_ONNX_EMIT_DEFAULTS;
    const int64_t axis = 1;
    const struct qc_attr axes = QC_INTS("axes", 1, &axis), split_axis = QC_INT("axis", 1);
    const char *parts[2] = {"a", "b"};
    start(&b);
    struct qc_node_def split = FIELDS(.op = QC_OP_Split, .input_count = 1, .inputs = &b.x, .output_count = 2,
                                      .output_names = parts, .attr_count = 1, .attrs = &split_axis);
    qc_id a = qc_graph_add(b.g, &split, &b.st), pair[2] = {a, a + 1};
    qc_id sum = add(&b, QC_OP_Add, 2, pair, 0, NULL);
    qc_id mean = add(&b, QC_OP_ReduceMean, 1, &sum, 1, &axes);
    qc_graph_add_output(b.g, "y", add(&b, QC_OP_ReduceSum, 1, &mean, 1, &axes), &b.st);
    for (int opset = 13; opset <= 18; opset += 5) {
        o.opset_min = opset;
        Onnx__ModelProto *m = emitted(b.g, &o);
        Onnx__NodeProto **n = m->graph->node;
        cr_assert_eq(m->graph->n_node, 4);
        cr_expect_eq(n[0]->n_attribute, opset < 18 ? 1 : 2);
        cr_expect_eq(n[2]->n_input, opset < 18 ? 1 : 2, "axes of ReduceMean");
        cr_expect_eq(n[2]->n_attribute, opset < 18 ? 1 : 0);
        cr_expect_eq(n[3]->n_input, 2, "axes of ReduceSum");
        cr_expect_eq(n[3]->n_attribute, 0);
        onnx__model_proto__free_unpacked(m, NULL);
    }
    qc_graph_free(b.g);
}

Test(emit, names_are_kept_and_made)
{
    struct built b;
    start(&b);
    qc_id relu = one(&b, QC_OP_Relu, b.x), exp = one(&b, QC_OP_Exp, relu), log = one(&b, QC_OP_Log, exp);
    qc_graph_name_value(b.g, exp, "y", &b.st); /* an inner value with the name of an output */
    qc_graph_add_output(b.g, "y", log, &b.st);
    qc_graph_add_output(b.g, "again", log, &b.st);
    qc_graph_add_output(b.g, "x copy", b.x, &b.st);
    Onnx__ModelProto *m = emitted(b.g, NULL);
    Onnx__NodeProto **n = m->graph->node;
    cr_assert_eq(m->graph->n_node, 5);
    HOLD(strcmp(n[0]->output[0], "Relu_1_output") == 0, strcmp(n[1]->output[0], "y_1") == 0,
         strcmp(n[2]->output[0], "y") == 0, strcmp(n[3]->op_type, "Identity") == 0, strcmp(n[3]->input[0], "y") == 0,
         strcmp(n[3]->output[0], "again") == 0, strcmp(n[4]->input[0], "x") == 0,
         strcmp(n[4]->output[0], "x copy") == 0);
    onnx__model_proto__free_unpacked(m, NULL);
    qc_graph_free(b.g);
}

Test(emit, unused_values_are_left_out_and_options_written)
{
    struct built b;
    const struct qc_onnx_property license = {"license", "MIT"};
    const struct qc_onnx_emit_options o =
        FIELDS(.property_count = 1, .properties = &license, .producer_version = "9.9", .doc = "about");
    const struct qc_shape four = QC_SHAPE(4);
    const float v[4] = {1, 2, 3, 4};
    start(&b);
    b.g->inputs[0].symbol[0] = "batch";
    qc_id in[2] = {b.x, constant(&b, "unused", QC_F32, &four, v)};
    add(&b, QC_OP_Add, 2, in, 0, NULL);
    qc_graph_add_output(b.g, "y", one(&b, QC_OP_Relu, b.x), &b.st);
    Onnx__ModelProto *m = emitted(b.g, &o);
    HOLD(m->graph->n_node == 1, m->graph->n_initializer == 0, strcmp(m->producer_name, "qcalib") == 0,
         strcmp(m->producer_version, "9.9") == 0, strcmp(m->doc_string, "about") == 0,
         strcmp(m->metadata_props[0]->key, "license") == 0,
         strcmp(m->graph->input[0]->type->tensor_type->shape->dim[0]->dim_param, "batch") == 0);
    cr_expect_eq(m->graph->output[0]->type->tensor_type->shape->dim[0]->value_case,
                 ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE__NOT_SET);
    cr_expect_eq(m->graph->output[0]->type->tensor_type->shape->dim[1]->dim_value, 4);
    onnx__model_proto__free_unpacked(m, NULL);
    qc_graph_free(b.g);
}

Test(emit, four_bit_constants_are_packed)
{
    struct built b;
    const struct qc_shape five = QC_SHAPE(5), scalar = QC_SCALAR;
    const int8_t q[5] = {-8, 7, -1, 0, 3};
    const float scale = 1;
    start(&b);
    qc_id in[2] = {constant(&b, "q", QC_I4, &five, q), constant(&b, "s", QC_F32, &scalar, &scale)};
    qc_graph_add_output(b.g, "y", add(&b, QC_OP_DequantizeLinear, 2, in, 0, NULL), &b.st);
    Onnx__ModelProto *m = emitted(b.g, NULL);
    const Onnx__TensorProto *t = m->graph->initializer[0];
    cr_expect_eq(t->data_type, 22);
    cr_assert_eq(t->raw_data.len, 3);
    HOLD(t->raw_data.data[0] == 0x78, t->raw_data.data[1] == 0x0f, t->raw_data.data[2] == 0x03);
    onnx__model_proto__free_unpacked(m, NULL);
    qc_graph_free(b.g);
}

Test(emit, graphs_that_are_not_lowered_are_refused)
{
    struct built b;
    void *bytes;
    size_t size;
    const struct qc_qparams def = {.kind = QC_QPARAMS_QUANTIZER, .name = "x", .dtype = QC_U8, .count = 1};
    start(&b);
    qc_id quantizer = qc_graph_add_quantizer(b.g, &def, &b.st);
    const struct qc_node_def quantize = {.op = QC_OP_Quantize, .input_count = 1, .inputs = &b.x, .qparams = quantizer};
    qc_id q = qc_graph_add(b.g, &quantize, &b.st);
    cr_assert_neq(q, 0, "%s", b.st.message);
    qc_graph_add_output(b.g, "y", one(&b, QC_OP_Dequantize, q), &b.st);
    cr_expect_not(qc_onnx_emit(&bytes, &size, b.g, NULL, &b.st));
    cr_expect_eq(b.st.code, QC_UNSUPPORTED);
    cr_expect_not_null(strstr(b.st.message, "lower"), "%s", b.st.message);
    qc_graph_free(b.g);
}

/* --- Round trips --- */

static char *print(const struct qc_graph *g)
{
    const struct qc_text_options options = QC_TEXT_SHORT; /* larger constants print with a hash */
    char *text = qc_graph_print(g, &options, ST);
    MUST(text);
    return text;
}

/* Text without the first line, which holds the opset. */
static bool same_graph(const struct qc_graph *a, const struct qc_graph *b)
{
    QC_FREED char *s = print(a), *t = print(b);
    const char *p = strchr(s, '\n'), *q = strchr(t, '\n');
    bool same = p && q && strcmp(p, q) == 0;
    return same;
}

static struct qc_graph *reread(const struct qc_graph *g, int opset)
{
    struct qc_onnx_emit_options o = QC_ONNX_EMIT_DEFAULTS;
    QC_FREED void *first = NULL, *second = NULL;
    size_t size, again;
    struct qc_graph *h = NULL;
    o.opset_min = opset;
    MUST(qc_onnx_emit(&first, &size, g, &o, ST));
    MUST(qc_onnx_emit(&second, &again, g, &o, ST));
    cr_expect(size == again && memcmp(first, second, size) == 0, "the bytes differ");
    MUST(qc_onnx_import_memory_with(&h, NULL, first, size, NULL, &QC_IMPORT_INIT, ST));
    return h;
}

static void round_trip(const char *path)
{
    OWN(qc_graph) *g = NULL;
    MUST(qc_onnx_import_with(&g, NULL, path, &QC_IMPORT_INIT, ST));
    static const int opsets[] = {0, 18, 21};
    for (size_t i = 0; i < sizeof opsets / sizeof *opsets; i++) {
        OWN(qc_graph) *h = reread(g, opsets[i]);
        cr_expect(same_graph(g, h), "%s at opset %d is another graph after emit and import", path, opsets[i]);
    }
}

Test(emit, the_shipped_model_survives_a_round_trip)
{
    round_trip(QC_TEST_SOURCE "/datasets/digits_cnn.onnx");
}

Test(emit, real_models_survive_a_round_trip)
{
    static const char *const models[] = {"resnet20_cifar10",
                                         "resnet20_cifar10_bn",
                                         "resnet8_cifar10_mlperf",
                                         "resnet8_cifar10_mlperf_tfint8_qdq",
                                         "dscnn_kws_mlperf",
                                         "dscnn_kws_mlperf_bn",
                                         "dscnn_kws_mlperf_tfint8_qdq",
                                         "mobilenetv1_075_224_imagenet",
                                         "text_transformer_agnews",
                                         "mnist_cntk8",
                                         "autoencoder_ad_mlperf",
                                         "superres_pytorch",
                                         "rfb320_face_simplified"};
    const char *data = getenv("QCALIB_DATA");
    char path[1024];
    if (!data || !*data) cr_skip_test("QCALIB_DATA is not set");
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        snprintf(path, sizeof path, "%s/models/%s.onnx", data, models[i]);
        round_trip(path);
    }
}

Test(emit, large_constants_go_beside_the_model)
{
    char folder[] = "/tmp/qcalib_emit_XXXXXX", path[512], data[600];
    struct qc_onnx_emit_options o = QC_ONNX_EMIT_DEFAULTS;
    struct qc_graph *g, *h;
    struct stat model, beside;
    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/m.onnx", folder);
    snprintf(data, sizeof data, "%s.data", path);
    MUST(qc_onnx_import_with(&g, NULL, QC_TEST_SOURCE "/datasets/digits_cnn.onnx", &QC_IMPORT_INIT, ST));
    MUST(qc_onnx_emit_file(NULL, path, g, &o, ST));
    cr_expect_neq(stat(data, &beside), 0, "nothing goes beside a small model");
    o.external_from = 4096;
    MUST(qc_onnx_emit_file(NULL, path, g, &o, ST));
    cr_assert_eq(stat(path, &model), 0);
    cr_assert_eq(stat(data, &beside), 0);
    cr_expect_gt(beside.st_size, model.st_size);
    MUST(qc_onnx_import_with(&h, NULL, path, &QC_IMPORT_INIT, ST));
    cr_expect(same_graph(g, h));
    qc_graph_free(h);
    cr_assert_eq(truncate(data, beside.st_size - 1), 0);
    REFUSES(qc_onnx_import_with(&h, NULL, path, &QC_IMPORT_INIT, ST), QC_BAD_INPUT, "too short");
    qc_graph_free(g);
    unlink(data);
    unlink(path);
    cr_expect_eq(rmdir(folder), 0, "other files were left behind");
}

Test(emit, a_folder_that_is_missing_is_an_error)
{
    struct built b;
    start(&b);
    qc_graph_add_output(b.g, "y", one(&b, QC_OP_Relu, b.x), &b.st);
    cr_expect_not(qc_onnx_emit_file(NULL, "/nonexistent/m.onnx", b.g, NULL, &b.st));
    cr_expect_eq(b.st.code, QC_MACHINE);
    qc_graph_free(b.g);
}
