// SPDX-License-Identifier: Apache-2.0
/* The canonical form of operators that changed between opsets. What each old form means is from ONNX's changelog of
   operators; test_forms_in_onnxruntime.py runs the same forms in ONNX Runtime, before and after. */
#include <float.h>

#include "model_maker.h"
#include "tests/check.h"

/* A model with the input x of these dimensions, to which a case adds its nodes. */
static void start(struct maker *m, int opset, int rank, const int64_t *dims)
{
    maker_start(m, opset);
    maker_input(m, "x", "N", rank, dims);
    maker_output(m, "y");
}

static struct qc_graph *finish(struct maker *m, const char *ops)
{
    struct qc_graph *g = maker_graph(m);
    cr_expect(graph_has_ops(g, ops), "expected %s", ops);
    return g;
}

static void stop(struct maker *m, struct qc_graph *g)
{
    qc_graph_free(g);
    maker_stop(m);
}

static void expect_unsupported(struct maker *m, const char *text)
{
    OWN(qc_graph) *g = maker_import(m, NULL, ST);
    cr_expect_null(g);
    cr_expect_eq(failure.code, QC_UNSUPPORTED, "%s", failure.message);
    SHOULD(strstr(failure.message, text));
}

static float scalar(const struct qc_graph *g, qc_id v)
{
    const struct qc_tensor *t = qc_constant_of(g, v);
    cr_assert_not_null(t);
    cr_expect_eq(t->shape.rank, 0);
    return (float)qc_tensor_float(t, 0);
}

Test(forms, clip_bounds_become_inputs)
{
    struct maker m;
    start(&m, 6 + 1, DIMS(2));
    maker_node(&m, "Clip", "c", "x", "y");
    maker_float(&m, "min", 0);
    maker_float(&m, "max", 6);
    struct qc_graph *g = finish(&m, "Clip");
    const struct qc_node *n = graph_node(g, "y");
    cr_assert_eq(n->input_count, 3);
    HOLD(n->attr_count == 0, scalar(g, n->inputs[1]) == 0, scalar(g, n->inputs[2]) == 6,
         strcmp(qc_value(g, n->inputs[2])->name, "c_max") == 0);
    stop(&m, g);

    start(&m, 7, DIMS(2));
    maker_node(&m, "Clip", NULL, "x", "h");
    maker_float(&m, "min", -FLT_MAX);
    maker_node(&m, "Relu", NULL, "h", "y");
    stop(&m, finish(&m, "Relu"));
}

Test(forms, pads_become_inputs_and_axes_are_spread)
{
    struct maker m;
    start(&m, 10, DIMS(2, 3));
    maker_node(&m, "Pad", NULL, "x", "y");
    maker_int_list(&m, "pads", LIST(0, 1, 0, 2));
    maker_float(&m, "value", 1.5f);
    struct qc_graph *g = finish(&m, "Pad");
    HOLD(node_input_is(g, graph_node(g, "y"), 1, LIST(0, 1, 0, 2)), scalar(g, graph_node(g, "y")->inputs[2]) == 1.5f);
    stop(&m, g);

    start(&m, 18, DIMS(2, 3, 4));
    maker_ints(&m, "p", LIST(1, 5, 2, 6));
    maker_ints(&m, "a", LIST(-1, 0));
    maker_node(&m, "Pad", NULL, "x p - a", "y");
    g = finish(&m, "Pad");
    HOLD(node_input_is(g, graph_node(g, "y"), 1, LIST(5, 0, 1, 6, 0, 2)), graph_node(g, "y")->input_count == 2);
    stop(&m, g);
}

Test(forms, a_fill_value_of_zero_is_the_default)
{
    MAKER m;
    const float zero = 0;
    start(&m, 11, DIMS(4));
    maker_ints(&m, "p", LIST(1, 2));
    maker_floats(&m, "v", 0, NULL, &zero);
    maker_node(&m, "Pad", NULL, "x p v", "y");
    OWN(qc_graph) *g = finish(&m, "Pad");
    cr_expect_eq(graph_node(g, "y")->input_count, 2);
}

Test(forms, slice_squeeze_unsqueeze_and_split_take_inputs)
{
    MAKER m;
    start(&m, 9, DIMS(4, 1, 6));
    maker_node(&m, "Slice", NULL, "x", "s");
    maker_int_list(&m, "starts", LIST(1, 0));
    maker_int_list(&m, "ends", LIST(3, -1));
    maker_int_list(&m, "axes", LIST(0, 2));
    maker_node(&m, "Squeeze", NULL, "s", "q");
    maker_int_list(&m, "axes", LIST(1));
    maker_node(&m, "Unsqueeze", NULL, "q", "u");
    maker_int_list(&m, "axes", LIST(0));
    maker_node(&m, "Split", NULL, "u", "a b");
    maker_int(&m, "axis", 2);
    maker_int_list(&m, "split", LIST(2, 3));
    maker_node(&m, "Concat", NULL, "b a", "y");
    maker_int(&m, "axis", 2);
    OWN(qc_graph) *g = finish(&m, "Slice Squeeze Unsqueeze Split Concat");
    HOLD(node_input_is(g, graph_node(g, "s"), 1, LIST(1, 0)), node_input_is(g, graph_node(g, "s"), 2, LIST(3, -1)),
         node_input_is(g, graph_node(g, "s"), 3, LIST(0, 2)), node_input_is(g, graph_node(g, "q"), 1, LIST(1)),
         node_input_is(g, graph_node(g, "u"), 1, LIST(0)), node_input_is(g, graph_node(g, "a"), 1, LIST(2, 3)),
         graph_node(g, "a")->attr_count == 1);
    const struct qc_shape want = QC_SHAPE(1, 2, 5);
    cr_expect(qc_shape_equal(&qc_value(g, g->outputs[0].value)->type.shape, &want));
}

Test(forms, steps_of_one_are_the_default)
{
    struct maker m;
    start(&m, 10, DIMS(4));
    maker_ints(&m, "s", LIST(1));
    maker_ints(&m, "e", LIST(3));
    maker_ints(&m, "a", LIST(0));
    maker_ints(&m, "one", LIST(1));
    maker_node(&m, "Slice", NULL, "x s e a one", "y");
    struct qc_graph *g = finish(&m, "Slice");
    cr_expect_eq(graph_node(g, "y")->input_count, 4);
    stop(&m, g);

    start(&m, 10, DIMS(4));
    maker_ints(&m, "s", LIST(0));
    maker_ints(&m, "e", LIST(4));
    maker_ints(&m, "a", LIST(0));
    maker_ints(&m, "two", LIST(2));
    maker_node(&m, "Slice", NULL, "x s e a two", "y");
    g = finish(&m, "Slice");
    cr_expect_eq(graph_node(g, "y")->input_count, 5, "steps that are not one stay");
    stop(&m, g);
}

Test(forms, split_into_unequal_parts)
{
    struct maker m;
    start(&m, 18, DIMS(2, 8));
    maker_node(&m, "Split", NULL, "x", "a b c");
    maker_int(&m, "axis", 1);
    maker_int(&m, "num_outputs", 3);
    maker_node(&m, "Concat", NULL, "c a b", "y");
    maker_int(&m, "axis", 1);
    struct qc_graph *g = finish(&m, "Split Concat");
    cr_expect(node_input_is(g, graph_node(g, "a"), 1, LIST(3, 3, 2)));
    stop(&m, g);

    start(&m, 18, DIMS(2, 9));
    maker_node(&m, "Split", NULL, "x", "a b y");
    maker_int(&m, "axis", 1);
    maker_int(&m, "num_outputs", 3);
    g = finish(&m, "Split");
    cr_expect_eq(graph_node(g, "y")->input_count, 1);
    cr_expect_null(qc_attr_find(graph_node(g, "y"), "num_outputs"));
    stop(&m, g);
}

Test(forms, axes_of_reductions_are_an_attribute)
{
    static const int opsets[] = {11, 13, 18};
    for (size_t i = 0; i < sizeof opsets / sizeof *opsets; i++) {
        MAKER m;
        start(&m, opsets[i], DIMS(2, 3, 4));
        maker_ints(&m, "a", LIST(1, -1));
        maker_node(&m, "ReduceMean", NULL, opsets[i] < 18 ? "x" : "x a", "h");
        if (opsets[i] < 18) maker_int_list(&m, "axes", LIST(1, -1));
        maker_node(&m, "ReduceSum", NULL, opsets[i] < 13 ? "h" : "h a", "y");
        if (opsets[i] < 13) maker_int_list(&m, "axes", LIST(1, -1));
        OWN(qc_graph) *g = finish(&m, "ReduceMean ReduceSum");
        HOLD(node_ints_are(graph_node(g, "h"), "axes", LIST(1, -1)),
             node_ints_are(graph_node(g, "y"), "axes", LIST(1, -1)), graph_node(g, "y")->input_count == 1);
        cr_expect_eq(qc_graph_find_value(g, "a"), 0, "the axes are no value any more");
    }
}

Test(forms, reductions_over_no_axes)
{
    struct maker m;
    start(&m, 18, DIMS(2, 3));
    maker_node(&m, "ReduceMax", NULL, "x", "h");
    maker_int(&m, "noop_with_empty_axes", 1);
    maker_node(&m, "ReduceMax", NULL, "h", "y");
    struct qc_graph *g = finish(&m, "ReduceMax");
    cr_expect_eq(graph_node(g, "y")->attr_count, 0);
    stop(&m, g);

    start(&m, 13, DIMS(2, 3));
    maker_input(&m, "axes", NULL, DIMS(1));
    m.inputs[1]->type->tensor_type->elem_type = 7;
    maker_node(&m, "ReduceSum", NULL, "x axes", "y");
    g = finish(&m, "ReduceSum");
    cr_expect_eq(graph_node(g, "y")->input_count, 2);
    stop(&m, g);
}

Test(forms, softmax_of_old_opsets_flattens)
{
    struct maker m;
    start(&m, 11, DIMS(-1, 3, 5));
    maker_node(&m, "Softmax", "s", "x", "y"); /* axis 1 */
    struct qc_graph *g = finish(&m, "Flatten Softmax Reshape");
    HOLD(node_input_is(g, graph_node(g, "y"), 1, LIST(-1, 3, 5)), graph_node(g, "s_soft")->attr_count == 0);
    stop(&m, g);

    start(&m, 11, DIMS(-1, -1, 5));
    maker_node(&m, "LogSoftmax", "s", "x", "y");
    stop(&m, finish(&m, "Flatten LogSoftmax Shape Reshape"));

    start(&m, 11, DIMS(-1, 3, 5));
    maker_node(&m, "Softmax", NULL, "x", "y");
    maker_int(&m, "axis", 2);
    g = finish(&m, "Softmax");
    cr_expect_eq(graph_node(g, "y")->attr_count, 0);
    stop(&m, g);

    start(&m, 11, DIMS(-1, 7, 1, 1));
    maker_node(&m, "Softmax", NULL, "x", "y");
    g = finish(&m, "Softmax");
    cr_expect_eq(qc_attr_int(graph_node(g, "y"), "axis", -1), 1);
    stop(&m, g);
}

Test(forms, softmax_from_opset_13_on_is_of_one_axis)
{
    MAKER m;
    start(&m, 13, DIMS(-1, 3, 5));
    maker_node(&m, "Softmax", NULL, "x", "h");
    maker_int(&m, "axis", 1);
    maker_node(&m, "Softmax", NULL, "h", "y");
    OWN(qc_graph) *g = finish(&m, "Softmax Softmax");
    HOLD(qc_attr_int(graph_node(g, "h"), "axis", -1) == 1, graph_node(g, "y")->attr_count == 0);
}

Test(forms, upsample_and_old_resize_are_asymmetric)
{
    struct maker m;
    const float scales[4] = {1, 1, 2, 3};
    start(&m, 7, DIMS(1, 1, 4, 4));
    maker_node(&m, "Upsample", NULL, "x", "y");
    maker_float_list(&m, "scales", 4, scales);
    maker_text(&m, "mode", "nearest");
    struct qc_graph *g = finish(&m, "Resize");
    const struct qc_node *n = graph_node(g, "y");
    cr_assert_eq(n->input_count, 3);
    HOLD(n->inputs[1] == QC_ABSENT, ((const float *)qc_constant_of(g, n->inputs[2])->data)[3] == 3);
    cr_expect_str_eq(qc_attr_string(n, "coordinate_transformation_mode", ""), "asymmetric");
    cr_expect_str_eq(qc_attr_string(n, "nearest_mode", ""), "floor");
    const struct qc_shape want = QC_SHAPE(1, 1, 8, 12);
    cr_expect(qc_shape_equal(&qc_value(g, g->outputs[0].value)->type.shape, &want));
    stop(&m, g);

    start(&m, 10, DIMS(1, 1, 4, 4));
    maker_floats(&m, "s", DIMS(4), scales);
    maker_node(&m, "Resize", NULL, "x s", "y");
    maker_text(&m, "mode", "linear");
    g = finish(&m, "Resize");
    cr_expect_str_eq(qc_attr_string(graph_node(g, "y"), "mode", ""), "linear");
    cr_expect_null(qc_attr_find(graph_node(g, "y"), "nearest_mode"));
    stop(&m, g);
}

Test(forms, resize_of_some_axes_is_spread)
{
    MAKER m;
    const float scales[2] = {2, 3};
    start(&m, 18, DIMS(-1, 2, 4, 4));
    maker_floats(&m, "s", DIMS(2), scales);
    maker_node(&m, "Resize", NULL, "x - s", "y");
    maker_int_list(&m, "axes", LIST(3, 2));
    OWN(qc_graph) *g = finish(&m, "Resize");
    const float *v = qc_constant_of(g, graph_node(g, "y")->inputs[2])->data;
    cr_expect(v[0] == 1 && v[1] == 1 && v[2] == 3 && v[3] == 2);
}

Test(forms, a_gemm_bias_of_one_row_is_a_vector)
{
    MAKER m;
    const float w[6] = {1, 2, 3, 4, 5, 6}, c[3] = {7, 8, 9};
    start(&m, 9, DIMS(-1, 2));
    maker_floats(&m, "w", DIMS(2, 3), w);
    maker_floats(&m, "c", DIMS(1, 3), c);
    maker_node(&m, "Gemm", NULL, "x w c", "y");
    OWN(qc_graph) *g = finish(&m, "Gemm");
    const struct qc_tensor *t = qc_constant_of(g, qc_graph_find_value(g, "c"));
    cr_assert_not_null(t);
    HOLD(t->shape.rank == 1, ((const float *)t->data)[2] == 9);
}

/* Of one element, in every rank that broadcasts: quantized, it has a scale for each column of the weight. */
Test(forms, a_gemm_bias_of_one_element_is_a_vector)
{
    const float w[6] = {1, 2, 3, 4, 5, 6}, c[1] = {7};
    for (int rank = 0; rank < 3; rank++)
        for (int turned = 0; turned < 2; turned++) {
            MAKER m;
            start(&m, 13, DIMS(-1, 2));
            if (turned)
                maker_floats(&m, "w", DIMS(3, 2), w);
            else
                maker_floats(&m, "w", DIMS(2, 3), w);
            if (rank == 0)
                maker_floats(&m, "c", 0, NULL, c);
            else if (rank == 1)
                maker_floats(&m, "c", DIMS(1), c);
            else
                maker_floats(&m, "c", DIMS(1, 1), c);
            maker_node(&m, "Gemm", NULL, "x w c", "y");
            maker_int(&m, "transB", turned);
            OWN(qc_graph) *g = finish(&m, "Gemm");
            const struct qc_tensor *t = qc_constant_of(g, qc_graph_find_value(g, "c"));
            cr_assert_not_null(t);
            cr_assert(t->shape.rank == 1 && t->count == 3, "rank %d, transB %d", rank, turned);
            cr_expect(((const float *)t->data)[0] == 7 && ((const float *)t->data)[2] == 7);
        }
}

Test(forms, a_gemm_without_bias_has_no_beta)
{
    MAKER m;
    const float w[6] = {1, 2, 3, 4, 5, 6};
    start(&m, 13, DIMS(-1, 2));
    maker_floats(&m, "w", DIMS(2, 3), w);
    maker_node(&m, "Gemm", NULL, "x w", "y");
    maker_float(&m, "beta", 0.5f);
    OWN(qc_graph) *g = finish(&m, "Gemm");
    cr_expect_eq(graph_node(g, "y")->attr_count, 0);
}

Test(forms, batch_norm_is_for_inference_only)
{
    MAKER m;
    const float v[3] = {1, 2, 3};
    start(&m, 7, DIMS(-1, 3, 2, 2));
    maker_floats(&m, "p", DIMS(3), v);
    maker_node(&m, "BatchNormalization", NULL, "x p p p p", "y");
    maker_float(&m, "momentum", 0.5f);
    maker_float(&m, "epsilon", 1e-5f);
    struct qc_graph *g = finish(&m, "BatchNormalization");
    cr_expect_eq(graph_node(g, "y")->attr_count, 0);
    qc_graph_free(g);
    maker_int(&m, "spatial", 0);
    expect_unsupported(&m, "spatial=0");
    m.nodes[0]->attribute[2]->name = (char *)(uintptr_t) "training_mode";
    m.nodes[0]->attribute[2]->i = 1;
    m.opset.version = 15;
    expect_unsupported(&m, "training mode");
}

Test(forms, constants_of_every_attribute)
{
    MAKER m;
    const float list[2] = {1, 2};
    start(&m, 13, DIMS(2));
    maker_node(&m, "Constant", NULL, "", "a");
    maker_float_list(&m, "value_floats", 2, list);
    maker_node(&m, "Constant", NULL, "", "b");
    maker_float(&m, "value_float", 3);
    maker_node(&m, "Constant", NULL, "", "c");
    maker_tensor(&m, "value", maker_floats(&m, "inner", DIMS(2), list));
    m.graph.n_initializer = 0;
    maker_node(&m, "Constant", NULL, "", "d");
    maker_int_list(&m, "value_ints", LIST(2));
    maker_node(&m, "Constant", NULL, "", "e");
    maker_int(&m, "value_int", 1);
    maker_node(&m, "Add", NULL, "x a", "h1");
    maker_node(&m, "Add", NULL, "h1 b", "h2");
    maker_node(&m, "Add", NULL, "h2 c", "h3");
    maker_node(&m, "Expand", NULL, "h3 d", "h4");
    maker_node(&m, "Gather", NULL, "h4 e", "y");
    struct qc_graph *g = finish(&m, "Add Add Add Expand Gather");
    HOLD(scalar(g, qc_graph_find_value(g, "b")) == 3, qc_constant_of(g, qc_graph_find_value(g, "e"))->dtype == QC_I64,
         qc_value(g, g->outputs[0].value)->type.shape.rank == 0);
    cr_expect_eq(graph_node(g, "h1")->inputs[1], graph_node(g, "h3")->inputs[1], "equal constants are one");
    qc_graph_free(g);
    m.nodes[0]->attribute[0]->name = (char *)(uintptr_t) "value_strings";
    expect_unsupported(&m, "value_strings");
}

Test(forms, shape_with_bounds_is_a_slice)
{
    MAKER m;
    start(&m, 15, DIMS(-1, 3, 4));
    maker_node(&m, "Shape", "s", "x", "y");
    maker_int(&m, "start", 1);
    OWN(qc_graph) *g = finish(&m, "Shape Slice");
    HOLD(node_input_is(g, graph_node(g, "y"), 1, LIST(1)), node_input_is(g, graph_node(g, "y"), 2, LIST(INT64_MAX)));
}

Test(forms, transpose_always_has_perm)
{
    MAKER m;
    start(&m, 7, DIMS(-1, 3, 4));
    maker_node(&m, "Transpose", NULL, "x", "y");
    OWN(qc_graph) *g = finish(&m, "Transpose");
    cr_expect(node_ints_are(graph_node(g, "y"), "perm", LIST(2, 1, 0)));
}

Test(forms, output_type_of_quantize_is_a_zero_point)
{
    MAKER m;
    const float scale = 0.5f;
    start(&m, 21, DIMS(-1, 3));
    maker_floats(&m, "s", 0, NULL, &scale);
    maker_node(&m, "QuantizeLinear", NULL, "x s", "q");
    maker_int(&m, "output_dtype", 3);
    maker_node(&m, "DequantizeLinear", NULL, "q s", "y");
    OWN(qc_graph) *g = finish(&m, "QuantizeLinear DequantizeLinear");
    HOLD(qc_value(g, qc_graph_find_value(g, "q"))->type.dtype == QC_I8, graph_node(g, "q")->attr_count == 0);
    cr_assert_eq(graph_node(g, "q")->input_count, 3);
    cr_expect_eq(qc_tensor_int(qc_constant_of(g, graph_node(g, "q")->inputs[2]), 0), 0);
}
