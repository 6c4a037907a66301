// SPDX-License-Identifier: Apache-2.0
/* Models of corpus_tflite (make_tflite_corpus.py): the imported graphs, and the messages for damaged files. */
#include "base/file.h"
#include "graph/core/verify.h"
#include "tests/check.h"
#include "tflite/read/tflite_import.h"

#define CORPUS QC_TEST_SOURCE "/tests/tflite/corpus_tflite"

static struct qc_graph *read_model(const char *name, struct qc_model_info *info)
{
    struct qc_graph *g = NULL;
    char path[512];
    snprintf(path, sizeof path, "%s/%s", CORPUS, name);
    cr_assert(qc_is_tflite_file(path));
    MUST(qc_tflite_import(&g, info, path, 0, ST));
    MUST(qc_graph_verify(g, ST));
    return g;
}

static const struct qc_node *node_of_op(const struct qc_graph *g, enum qc_op op)
{
    for (size_t i = 1; i <= g->node_count; i++)
        if (g->nodes[i].op == op) return &g->nodes[i];
    cr_assert(false, "no %s", qc_op_info(op)->name);
    return NULL;
}

Test(tflite_read, an_int8_network_is_one_with_quantize_and_dequantize)
{
    struct qc_model_info info;
    struct qc_op_counts ops;
    OWN(qc_graph) *g = read_model("network.tflite", &info);
    qc_graph_count_ops(&ops, g);
    HOLD(info.format == QC_MODEL_TFLITE, info.model_version == 3);
    cr_expect_eq(info.warning_count, 0, "%s", info.warning_count ? info.warnings[0] : "");
    cr_expect_eq(ops.of[QC_OP_Transpose], 1); /* of the input */
    HOLD(ops.of[QC_OP_Conv] == 1, ops.of[QC_OP_Gemm] == 1, ops.of[QC_OP_QuantizeLinear] == 5);
    cr_expect_eq(ops.of[QC_OP_Relu], 0); /* storing cuts off at the same level */
    HOLD(strcmp(g->inputs[0].name, "t0") == 0, g->values[g->inputs[0].value].type.dtype == QC_I8,
         g->values[g->outputs[0].value].type.dtype == QC_I8);
}

Test(tflite_read, a_bias_has_the_scale_of_the_accumulator)
{
    OWN(qc_graph) *g = read_model("network.tflite", NULL);
    const struct qc_node *conv = node_of_op(g, QC_OP_Conv);
    const struct qc_node *weight = qc_node_of(g, conv->inputs[1]), *bias = qc_node_of(g, conv->inputs[2]);
    MUST_HOLD(weight->op == QC_OP_DequantizeLinear, bias->op == QC_OP_DequantizeLinear);
    const struct qc_tensor *sw = qc_constant_of(g, weight->inputs[1]), *sb = qc_constant_of(g, bias->inputs[1]);
    cr_assert_eq(sb->count, 2);
    for (size_t i = 0; i < 2; i++) cr_expect_eq(((const float *)sb->data)[i], 0.5F * ((const float *)sw->data)[i]);
    /* [O,H,W,I] becomes [O,I,H,W]. */
    const struct qc_shape shape = QC_SHAPE(2, 2, 3, 3);
    cr_expect(qc_shape_equal(&qc_constant_of(g, weight->inputs[0])->shape, &shape));
}

Test(tflite_read, channels_stay_first_between_operators)
{
    struct qc_op_counts ops;
    OWN(qc_graph) *g = read_model("floats.tflite", NULL);
    qc_graph_count_ops(&ops, g);
    cr_expect_eq(ops.of[QC_OP_Transpose], 2); /* of the input and of the output that is an image */
    HOLD(qc_attr_int(node_of_op(g, QC_OP_Concat), "axis", 0) == 1,
         qc_attr_int(node_of_op(g, QC_OP_Split), "axis", 0) == 1,
         qc_attr_int(node_of_op(g, QC_OP_Conv), "group", 1) == 2);
}

Test(tflite_read, half_floats_and_biases_of_64_bits_are_read)
{
    OWN(qc_graph) *g = read_model("wide.tflite", NULL);
    const struct qc_node *bias = qc_node_of(g, node_of_op(g, QC_OP_Gemm)->inputs[2]);
    cr_expect_eq(qc_constant_of(g, bias->inputs[0])->dtype, QC_I32);
    cr_expect_eq(qc_constant_of(g, node_of_op(g, QC_OP_Mul)->inputs[1])->dtype, QC_F32);
}

Test(tflite_read, another_kind_of_file_is_refused)
{
    struct qc_graph *g = NULL;
    REFUSES(qc_tflite_import_memory(&g, NULL, "\x08\x07zero", 6, 0, ST), QC_BAD_INPUT, "");
    HOLD(!qc_is_tflite_file(CORPUS), !qc_is_tflite_file(CORPUS "/missing"));
}

/* --- Damage --- */

/* True when it is read: then it must be a sound graph. */
static bool try_bytes(const unsigned char *bytes, size_t size)
{
    struct qc_status st = QC_STATUS_INIT;
    OWN(qc_graph) *g = NULL;
    unsigned char *copy = malloc(size ? size : 1); /* of the exact size, so that reading behind it is seen */
    memcpy(copy, bytes, size);
    const bool ok = qc_tflite_import_memory(&g, NULL, copy, size, 0, &st);
    free(copy);
    cr_expect_eq(ok, st.code == QC_OK);
    if (ok) {
        cr_expect(qc_graph_verify(g, &st), "%s", st.message);
    } else {
        cr_expect(st.code == QC_BAD_INPUT || st.code == QC_UNSUPPORTED || st.code == QC_MACHINE, "%s", st.message);
        cr_expect_gt(strlen(st.message), 0);
        cr_expect_null(g);
    }
    return ok;
}

/* Every `step`th truncation, and every `step`th byte with other values. */
static void damage(const char *path, size_t step)
{
    static const unsigned char flips[] = {0x01, 0x02, 0x04, 0x10, 0x80, 0xFF};
    QC_ARENA_SCOPE *a = qc_arena_new();
    void *bytes = NULL;
    size_t size = 0, refused = 0;
    cr_assert_not_null(a);
    MUST(qc_file_read(&bytes, &size, path, a, ST));
    cr_expect(try_bytes(bytes, size), "%s", path);
    for (size_t n = 0; n < size; n += step) refused += !try_bytes(bytes, n);
    cr_expect_gt(refused, 0);
    refused = 0;
    for (size_t i = 0; i < size; i += step)
        for (size_t k = 0; k < sizeof flips; k++) {
            ((unsigned char *)bytes)[i] ^= flips[k];
            refused += !try_bytes(bytes, size);
            ((unsigned char *)bytes)[i] ^= flips[k];
        }
    cr_expect_gt(refused, 0);
}

Test(tflite_read, damaged_models_give_a_status_or_a_graph)
{
    damage(CORPUS "/network.tflite", test_one_of(1, 3));
    damage(CORPUS "/floats.tflite", test_one_of(1, 3));
    damage(CORPUS "/wide.tflite", test_one_of(1, 3));
}

Test(tflite_read, damaged_real_models_give_a_status_or_a_graph)
{
    static const char *const names[] = {"ad01_int8", "kws_ref_model", "person_detect", "pretrainedResnet_quant",
                                        "vww_96_int8"};
    const char *folder = getenv("QCALIB_DATA");
    char path[1024];
    if (!folder) cr_skip_test("QCALIB_DATA does not name the folder with real models");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/tflite/%s.tflite", folder, names[i]);
        damage(path, 997 * test_one_of(2, 8) | 1); /* odd: fields have even sizes */
    }
}
