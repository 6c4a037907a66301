// SPDX-License-Identifier: Apache-2.0
/* Import: unchanged parts of the file, and refused files. */
#include <sys/stat.h>

#include "model_maker.h"
#include "tests/check.h"

static const float some[16] = {1, -2, 3, -4, 5, -6, 7, -8, 9, -10, 11, -12, 13, -14, 15, -16};

static void expect_error(const struct maker *m, enum qc_code code, const char *text)
{
    OWN(qc_graph) *g = maker_import(m, NULL, ST);
    cr_expect_null(g, "'%s' was expected", text);
    cr_expect_eq(failure.code, code, "code %d: %s", failure.code, failure.message);
    cr_expect_not_null(strstr(failure.message, text), "'%s' is not in: %s", text, failure.message);
}

/* x[N,2] -> Relu -> h -> Sigmoid -> y */
static void two_nodes(struct maker *m, int opset)
{
    maker_start(m, opset);
    maker_input(m, "x", "N", DIMS(-1, 2));
    maker_node(m, "Relu", "first", "x", "h");
    maker_node(m, "Sigmoid", "second", "h", "y");
    maker_output(m, "y");
}

Test(import, names_ports_symbols_and_opset_are_kept)
{
    MAKER m;
    two_nodes(&m, 11);
    OWN(qc_graph) *g = maker_graph(&m);
    HOLD(graph_has_ops(g, "Relu Sigmoid"), g->opset == 11, strcmp(g->name, "test") == 0,
         strcmp(graph_node(g, "h")->name, "first") == 0, strcmp(graph_node(g, "y")->name, "second") == 0);
    cr_assert_eq(g->input_count, 1);
    HOLD(strcmp(g->inputs[0].name, "x") == 0, strcmp(g->inputs[0].symbol[0], "N") == 0);
    cr_expect_null(g->inputs[0].symbol[1]);
    cr_expect_eq(qc_value(g, g->inputs[0].value)->type.shape.dim[0], QC_FREE);
    cr_expect_eq(qc_value(g, g->outputs[0].value)->type.shape.dim[1], 2);
}

Test(import, info_tells_what_the_file_says)
{
    MAKER m;
    struct qc_model_info info;
    Onnx__StringStringEntryProto entry = ONNX__STRING_STRING_ENTRY_PROTO__INIT, *entries[1] = {&entry};
    two_nodes(&m, 13);
    maker_node(&m, "Exp", "unneeded", "x", "z");
    m.model.producer_name = (char *)(uintptr_t) "maker";
    m.model.has_model_version = 1;
    m.model.model_version = 42;
    entry.key = (char *)(uintptr_t) "license";
    entry.value = (char *)(uintptr_t) "MIT";
    m.model.n_metadata_props = 1;
    m.model.metadata_props = entries;
    m.outputs[0]->type->tensor_type->shape = m.inputs[0]->type->tensor_type->shape; /* [N,2]: agrees */
    OWN(qc_graph) *g = maker_import(&m, &info, ST);
    MUST(g);
    HOLD(strcmp(info.producer, "maker") == 0, strcmp(info.producer_version, "") == 0, info.model_version == 42,
         info.ir_version == 7, info.opset == 13);
    cr_assert_eq(info.property_count, 1);
    HOLD(strcmp(info.properties[0].key, "license") == 0, strcmp(info.properties[0].value, "MIT") == 0,
         info.warning_count == 0);
    cr_assert_eq(info.note_count, 1);
    cr_expect_not_null(strstr(info.notes[0], "1 nodes that no output needs"));
    cr_expect_str_eq(g->outputs[0].symbol[0], "N");
}

Test(import, a_declared_shape_that_contradicts_gives_a_warning)
{
    struct maker m, other;
    struct qc_model_info info;
    two_nodes(&m, 13);
    maker_start(&other, 13);
    maker_input(&other, "y", NULL, DIMS(-1, 3));
    m.outputs[0] = other.inputs[0];
    OWN(qc_graph) *g = maker_import(&m, &info, ST);
    MUST(g);
    cr_assert_eq(info.warning_count, 1);
    cr_expect_not_null(strstr(info.warnings[0], "[N,3]"), "%s", info.warnings[0]);
    maker_stop(&other);
    maker_stop(&m);
}

Test(import, initializers_that_are_inputs_too_are_constants)
{
    MAKER m;
    struct qc_model_info info;
    maker_start(&m, 8);
    m.model.ir_version = 3;
    maker_input(&m, "x", NULL, DIMS(2, 2));
    maker_input(&m, "w", NULL, DIMS(2, 2));
    maker_floats(&m, "w", DIMS(2, 2), some);
    maker_node(&m, "Add", NULL, "x w", "y");
    maker_output(&m, "y");
    OWN(qc_graph) *g = maker_import(&m, &info, ST);
    MUST(g);
    cr_expect_eq(g->input_count, 1);
    cr_assert_eq(info.note_count, 1);
    cr_expect_str_eq(info.notes[0], "graph inputs with an initializer were taken as constants");
    const struct qc_tensor *w = qc_constant_of(g, qc_graph_find_value(g, "w"));
    cr_assert_not_null(w);
    cr_expect_eq(((const float *)w->data)[3], -4.0f);
}

Test(import, nodes_are_sorted_and_cycles_named)
{
    MAKER m;
    struct qc_model_info info;
    maker_start(&m, 13);
    maker_input(&m, "x", NULL, DIMS(2));
    maker_node(&m, "Sigmoid", NULL, "b", "y");
    maker_node(&m, "Relu", NULL, "a", "b");
    maker_node(&m, "Exp", NULL, "x", "a");
    maker_output(&m, "y");
    struct qc_graph *g = maker_import(&m, &info, ST);
    MUST(g);
    HOLD(graph_has_ops(g, "Exp Relu Sigmoid"), info.note_count == 1);
    qc_graph_free(g);
    m.nodes[2]->input[0] = (char *)(uintptr_t) "b";
    expect_error(&m, QC_BAD_INPUT, "cycle");
}

Test(import, aliases_take_the_name_of_the_output)
{
    MAKER m;
    maker_start(&m, 7);
    maker_input(&m, "x", NULL, DIMS(2));
    maker_node(&m, "Relu", NULL, "x", "a");
    maker_node(&m, "Dropout", NULL, "a", "b mask");
    maker_node(&m, "Identity", NULL, "b", "y");
    maker_output(&m, "y");
    struct qc_graph *g = maker_graph(&m);
    HOLD(graph_has_ops(g, "Relu"), g->outputs[0].value == qc_graph_find_value(g, "y"));
    qc_graph_free(g);
    maker_output(&m, "mask");
    expect_error(&m, QC_UNSUPPORTED, "'mask'");
}

Test(import, optional_inputs_with_empty_names_are_absent)
{
    MAKER m;
    maker_start(&m, 13);
    const float six = 6;
    maker_input(&m, "x", NULL, DIMS(2));
    maker_floats(&m, "six", 0, NULL, &six);
    maker_node(&m, "Clip", NULL, "x - six", "a");
    maker_node(&m, "Clip", NULL, "a six -", "y");
    maker_output(&m, "y");
    OWN(qc_graph) *g = maker_graph(&m);
    HOLD(graph_node(g, "a")->input_count == 3, graph_node(g, "a")->inputs[1] == QC_ABSENT,
         graph_node(g, "y")->input_count == 2);
}

Test(import, every_unsupported_operator_is_listed)
{
    MAKER m;
    maker_start(&m, 13);
    maker_input(&m, "x", NULL, DIMS(2));
    maker_node(&m, "NotThere", "nz", "x", "a");
    maker_node(&m, "NorThis", "top", "a", "b");
    maker_node(&m, "NotThere", "nz2", "b", "c");
    maker_node(&m, "FusedConv", "fused", "c", "d")->domain = (char *)(uintptr_t) "com.acme";
    maker_node(&m, "Relu", NULL, "d", "y");
    maker_node(&m, "NorThat", "not in use", "x", "z");
    maker_output(&m, "y");
    expect_error(&m, QC_UNSUPPORTED, "NotThere (2 nodes, the first is 'nz')");
    expect_error(&m, QC_UNSUPPORTED, "NorThis (1 node, 'top')");
    expect_error(&m, QC_UNSUPPORTED, "com.acme::FusedConv (1 node, 'fused')");
    cr_expect_null(maker_import(&m, NULL, ST));
    cr_expect_null(strstr(failure.message, "NorThat"), "%s", failure.message);
}

Test(import, long_lists_of_unsupported_operators_are_cut)
{
    MAKER m;
    char name[MAKER_MOST][160];
    maker_start(&m, 13);
    maker_input(&m, "x", NULL, DIMS(2));
    for (int i = 0; i < MAKER_MOST - 1; i++) {
        memset(name[i], 'a' + i % 26, sizeof name[i]);
        snprintf(name[i] + 140, 20, "%d", i);
        maker_node(&m, name[i], name[i], i ? "v" : "x", i ? "w" : "v");
        if (i) m.nodes[i]->output[0] = name[i];
    }
    for (int i = 1; i < MAKER_MOST - 1; i++) maker_output(&m, name[i]);
    expect_error(&m, QC_UNSUPPORTED, " more nodes");
}

Test(import, types_that_are_not_handled_are_listed)
{
    MAKER m;
    two_nodes(&m, 13);
    m.inputs[0]->type->tensor_type->elem_type = 8;
    expect_error(&m, QC_UNSUPPORTED, "string (8)");
    m.inputs[0]->type->tensor_type->elem_type = 14;
    expect_error(&m, QC_UNSUPPORTED, "Relu (1 node, 'first': its input 'x' is of type complex64 (14))");
    m.inputs[0]->type->value_case = ONNX__TYPE_PROTO__VALUE__NOT_SET;
    m.inputs[0]->type->tensor_type = NULL;
    expect_error(&m, QC_UNSUPPORTED, "sequence");
}

Test(import, opsets_outside_the_range_are_named)
{
    MAKER m;
    two_nodes(&m, 6);
    expect_error(&m, QC_UNSUPPORTED, "opset 6 is too old");
    m.opset.version = 1 << 20;
    expect_error(&m, QC_BAD_INPUT, "opset 1048576 is not valid");
    m.opset.version = 28;
    qc_graph_free(maker_graph(&m));
    m.opset.domain = (char *)(uintptr_t) "ai.onnx.ml";
    expect_error(&m, QC_UNSUPPORTED, "opset_import");
    m.model.n_opset_import = 0;
    expect_error(&m, QC_BAD_INPUT, "no opset_import");
    m.model.ir_version = 2;
    expect_error(&m, QC_UNSUPPORTED, "opset 1 is too old");
    m.model.graph = NULL;
    expect_error(&m, QC_BAD_INPUT, "no graph");
}

Test(import, an_opset_that_is_not_known_yet_is_a_warning)
{
    MAKER m;
    struct qc_model_info info;
    two_nodes(&m, 99);
    struct qc_graph *g = maker_import(&m, &info, ST);
    MUST(g);
    cr_assert_eq(info.warning_count, 1);
    cr_expect(strstr(info.warnings[0], "opset 99 is newer than 28"), "%s", info.warnings[0]);
    qc_graph_free(g);
    m.nodes[0]->op_type = (char *)(uintptr_t) "NotThereYet";
    expect_error(&m, QC_UNSUPPORTED, "NotThereYet");
}

Test(import, an_output_that_is_listed_twice_is_taken_once)
{
    MAKER m;
    struct qc_model_info info;
    two_nodes(&m, 13);
    maker_output(&m, "y");
    OWN(qc_graph) *g = maker_import(&m, &info, ST);
    MUST(g);
    cr_expect_eq(g->output_count, 1);
    cr_assert_eq(info.warning_count, 1);
    cr_expect(strstr(info.warnings[0], "'y' is listed twice"), "%s", info.warnings[0]);
}

Test(import, broken_graphs_name_the_value)
{
    struct maker m;
    two_nodes(&m, 13);
    m.nodes[1]->input[0] = (char *)(uintptr_t) "nowhere";
    expect_error(&m, QC_BAD_INPUT, "'nowhere'");
    maker_stop(&m);

    two_nodes(&m, 13);
    maker_node(&m, "Exp", NULL, "x", "h");
    expect_error(&m, QC_BAD_INPUT, "'h' is made twice");
    m.graph.n_node--;
    maker_input(&m, "x", NULL, DIMS(2));
    expect_error(&m, QC_BAD_INPUT, "'x' is made twice");
    m.graph.n_input--;
    maker_floats(&m, "h", DIMS(2), some);
    expect_error(&m, QC_BAD_INPUT, "made by an initializer and by a node");
    m.graph.n_initializer--;
    m.graph.n_output = 0;
    expect_error(&m, QC_BAD_INPUT, "no outputs");
    m.graph.n_output = 1;
    m.inputs[0]->type = NULL;
    expect_error(&m, QC_BAD_INPUT, "'x' has no type");
    maker_stop(&m);
}

Test(import, attributes_are_checked)
{
    MAKER m;
    two_nodes(&m, 13);
    maker_int(&m, "alpha", 1);
    expect_error(&m, QC_UNSUPPORTED, "attribute 'alpha'");
    m.nodes[1]->op_type = (char *)(uintptr_t) "LeakyRelu";
    expect_error(&m, QC_BAD_INPUT, "'alpha' has the wrong type");
    m.nodes[1]->n_attribute = 0;
    maker_float(&m, "alpha", 0.5f);
    maker_float(&m, "alpha", 0.25f);
    expect_error(&m, QC_BAD_INPUT, "'alpha' is given twice");
    m.nodes[1]->n_attribute = 1;
    struct qc_graph *g = maker_graph(&m);
    cr_expect_eq(qc_attr_float(graph_node(g, "y"), "alpha", 0), 0.5f);
    qc_graph_free(g);
    m.nodes[1]->n_attribute = 0;
    maker_float(&m, "alpha", 0.01f); /* the default */
    g = maker_graph(&m);
    cr_expect_eq(graph_node(g, "y")->attr_count, 0);
    qc_graph_free(g);
}

Test(import, equal_nodes_become_one)
{
    MAKER m;
    maker_start(&m, 13);
    maker_input(&m, "x", NULL, DIMS(1, 1, 4, 4));
    maker_floats(&m, "w", DIMS(1, 1, 3, 3), some);
    maker_node(&m, "Conv", NULL, "x w", "a");
    maker_int_list(&m, "kernel_shape", LIST(3, 3));
    maker_int_list(&m, "pads", LIST(0, 0, 0, 0));
    maker_text(&m, "auto_pad", "NOTSET");
    maker_node(&m, "Conv", NULL, "x w", "b");
    maker_int_list(&m, "strides", LIST(1, 1));
    maker_node(&m, "Add", NULL, "a b", "y");
    maker_output(&m, "y");
    OWN(qc_graph) *g = maker_graph(&m);
    cr_expect(graph_has_ops(g, "Conv Add"));
}

/* --- Files --- */

static void expect_file_error(const char *data, size_t size, const char *text)
{
    char path[] = "/tmp/qcalib_import_XXXXXX";
    int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    close(fd);
    write_file(path, data, size);
    struct qc_graph *g = NULL;
    REFUSES(qc_onnx_import_with(&g, NULL, path, &QC_IMPORT_INIT, ST), QC_BAD_INPUT, path);
    cr_expect_not_null(strstr(failure.message, text), "'%s' is not in: %s", text, failure.message);
    unlink(path);
}

Test(import, other_kinds_of_files_are_named)
{
    expect_file_error("", 0, "empty");
    expect_file_error("\x89HDF\r\n\x1a\n0000", 12, "HDF5");
    expect_file_error("PK\x03\x04zip", 7, "zip archive");
    expect_file_error("\x1c\0\0\0TFL3rest", 12, "TensorFlow Lite");
    expect_file_error("version https://git-lfs.github.com/spec/v1\n", 43, "git lfs pull");
    expect_file_error("{\"a\": 1}", 8, "JSON");
    expect_file_error("hello, world", 12, "not an ONNX model");
    expect_file_error("\0\0\0\0\0\0\0\0", 8, "not an ONNX model");
    struct qc_graph *g = NULL;
    REFUSES(qc_onnx_import_with(&g, NULL, "/nonexistent/model.onnx", &QC_IMPORT_INIT, ST), QC_BAD_INPUT,
            "/nonexistent/model.onnx");
}

Test(import, a_truncated_file_says_so)
{
    MAKER m;
    void *bytes;
    size_t size;
    two_nodes(&m, 13);
    maker_pack(&m, &bytes, &size);
    expect_file_error(bytes, size / 2, "truncated");
}

Test(import, deeply_nested_messages_are_refused)
{
    /* TypeProto.sequence_type.elem_type.sequence_type ... inside an input of the graph. */
    enum { LEVELS = 60 };
    MAKER m;
    two_nodes(&m, 13);
    Onnx__TypeProto *t = QC_NEW_ARRAY(m.arena, Onnx__TypeProto, LEVELS, &m.st);
    Onnx__TypeProto__Sequence *s = QC_NEW_ARRAY(m.arena, Onnx__TypeProto__Sequence, LEVELS, &m.st);
    for (int i = 0; i < LEVELS; i++) {
        onnx__type_proto__init(&t[i]);
        onnx__type_proto__sequence__init(&s[i]);
        t[i].value_case = ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE;
        t[i].sequence_type = &s[i];
        s[i].elem_type = i + 1 < LEVELS ? &t[i + 1] : NULL;
    }
    m.inputs[0]->type = t;
    expect_error(&m, QC_BAD_INPUT, "nested");
}

struct external_case {
    const char *location, *offset, *length, *error; /* error NULL: it is read */
};

/* w[2,2] in a file of 24 bytes: 8 bytes of something else, then four floats. */
static void import_external(const struct external_case *c, const char *folder)
{
    MAKER m;
    char path[512];
    void *bytes;
    size_t size;
    OWN(qc_graph) *g = NULL;
    Onnx__StringStringEntryProto entry[3], *entries[3];
    const char *keys[3] = {"location", "offset", "length"}, *values[3] = {c->location, c->offset, c->length};
    maker_start(&m, 13);
    maker_input(&m, "x", NULL, DIMS(2, 2));
    Onnx__TensorProto *t = maker_floats(&m, "w", DIMS(2, 2), some);
    maker_node(&m, "Add", NULL, "x w", "y");
    maker_output(&m, "y");
    t->n_float_data = 0;
    t->has_data_location = 1;
    t->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
    t->external_data = entries;
    for (int i = 0; i < 3; i++) {
        if (!values[i]) continue;
        onnx__string_string_entry_proto__init(&entry[i]);
        entry[i].key = (char *)(uintptr_t)keys[i];
        entry[i].value = (char *)(uintptr_t)values[i];
        entries[t->n_external_data++] = &entry[i];
    }
    maker_pack(&m, &bytes, &size);
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    write_file(path, bytes, size);
    bool ok = qc_onnx_import_with(&g, NULL, path, &QC_IMPORT_INIT, ST);
    if (c->error) {
        cr_expect_not(ok, "%s", c->error);
        cr_expect_eq(failure.code, QC_BAD_INPUT);
        cr_expect_not_null(strstr(failure.message, c->error), "'%s' is not in: %s", c->error, failure.message);
        SHOULD(strstr(failure.message, "tensor 'w'"));
    } else {
        MUST(ok);
        const struct qc_tensor *w = qc_constant_of(g, qc_graph_find_value(g, "w"));
        for (int i = 0; i < 4; i++) cr_expect_eq(((const float *)w->data)[i], some[i]);
    }
    unlink(path);
}

Test(import, external_data_is_read_beside_the_model_and_nowhere_else)
{
    static const struct external_case cases[] = {
        {"w.bin", "8", "16", NULL},
        {"w.bin", "8", NULL, NULL},
        {"./w.bin", "8", NULL, NULL},
        {"w.bin", "8", "20", "needs 16"},
        {"w.bin", "12", NULL, "too short"},
        {"w.bin", "9223372036854775807", NULL, "too short"},
        {"w.bin", "99999999999999999999", NULL, "not a number"},
        {"w.bin", "-8", NULL, "not a number"},
        {"missing.bin", "0", NULL, "missing.bin"},
        {"../w.bin", "8", NULL, "in the model's folder"},
        {"a/../../w.bin", "8", NULL, "in the model's folder"},
        {"/etc/hostname", "0", NULL, "in the model's folder"},
        {"", "0", NULL, "in the model's folder"},
        {NULL, NULL, NULL, "in the model's folder"},
        {".", "0", NULL, "regular file"},
    };
    char folder[] = "/tmp/qcalib_external_XXXXXX", path[512];
    unsigned char data[24] = {0};
    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/w.bin", folder);
    memcpy(data + 8, some, 16);
    write_file(path, data, sizeof data);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) import_external(&cases[i], folder);
    unlink(path);
    rmdir(folder);
}
