// SPDX-License-Identifier: Apache-2.0
#include "graph/core/graph.h"
#include "tests/check.h"

struct fixture {
    struct qc_graph *g;
    struct qc_status st;
    qc_id x, y;
};

static struct fixture begin(void)
{
    struct fixture f = {.st = QC_STATUS_INIT};
    const struct qc_shape shape = QC_SHAPE(QC_FREE, 4);
    f.g = qc_graph_new(&f.st);
    cr_assert_not_null(f.g);
    f.x = qc_graph_add_input(f.g, "x", QC_F32, &shape, &f.st);
    f.y = qc_graph_add_input(f.g, "y", QC_F32, &shape, &f.st);
    cr_assert(f.x == 1 && f.y == 2);
    return f;
}

static qc_id add(struct fixture *f, enum qc_op op, unsigned inputs, const qc_id *v, unsigned attrs,
                 const struct qc_attr *a, const char *name)
{
    return qc_graph_add(f->g,
                        &(struct qc_node_def)FIELDS(.op = op, .input_count = inputs, .inputs = v, .attr_count = attrs,
                                                    .attrs = a, .output_names = name ? &name : NULL),
                        &f->st);
}

Test(build, an_equal_node_is_the_same_node)
{
    struct fixture f = begin();
    qc_id a = add(&f, QC_OP_Relu, 1, &f.x, 0, NULL, NULL), b = add(&f, QC_OP_Relu, 1, &f.x, 0, NULL, "later");
    HOLD(a == b, f.g->node_count == 1);
    cr_expect_str_eq(qc_value(f.g, a)->name, "later", "the first name stays");
    add(&f, QC_OP_Relu, 1, &f.x, 0, NULL, "too late");
    cr_expect_str_eq(qc_value(f.g, a)->name, "later");
    cr_expect_neq(add(&f, QC_OP_Relu, 1, &f.y, 0, NULL, NULL), a);
    cr_expect_neq(add(&f, QC_OP_Tanh, 1, &f.x, 0, NULL, NULL), a);
    qc_graph_free(f.g);
}

Test(build, attributes_are_part_of_identity_in_any_order)
{
    struct fixture f = begin();
    static const int64_t one[] = {1}, zero[] = {0};
    const struct qc_attr a[] = {QC_INTS("axes", 1, one), QC_INT("keepdims", 1)}, b[] = {a[1], a[0]};
    const struct qc_attr other[] = {QC_INTS("axes", 1, zero), QC_INT("keepdims", 1)};
    qc_id first = add(&f, QC_OP_ReduceSum, 1, &f.x, 2, a, NULL);
    cr_assert_neq(first, 0, "%s", f.st.message);
    cr_expect_eq(add(&f, QC_OP_ReduceSum, 1, &f.x, 2, b, NULL), first);
    cr_expect_neq(add(&f, QC_OP_ReduceSum, 1, &f.x, 2, other, NULL), first);
    cr_expect_neq(add(&f, QC_OP_ReduceSum, 1, &f.x, 1, a, NULL), first);
    const struct qc_attr low = QC_FLOAT("alpha", 0.1f), high = QC_FLOAT("alpha", 0.2f);
    cr_expect_neq(add(&f, QC_OP_LeakyRelu, 1, &f.x, 1, &low, NULL), add(&f, QC_OP_LeakyRelu, 1, &f.x, 1, &high, NULL));
    const struct qc_attr none = QC_STRING("approximate", "none"), tanh_ = QC_STRING("approximate", "tanh");
    cr_expect_neq(add(&f, QC_OP_Gelu, 1, &f.x, 1, &none, NULL), add(&f, QC_OP_Gelu, 1, &f.x, 1, &tanh_, NULL));
    qc_graph_free(f.g);
}

Test(build, a_stack_of_shared_blocks_stays_linear)
{
    struct fixture f = begin(); /* each block uses its input twice: 2 nodes a block, not 2^depth */
    qc_id v = f.x;
    for (int i = 0; i < 40; i++) {
        qc_id s = add(&f, QC_OP_Sigmoid, 1, &v, 0, NULL, NULL), again = add(&f, QC_OP_Sigmoid, 1, &v, 0, NULL, NULL);
        v = add(&f, QC_OP_Add, 2, (qc_id[]){s, again}, 0, NULL, NULL);
        cr_assert_neq(v, 0);
    }
    cr_expect_eq(f.g->node_count, 80);
    qc_graph_free(f.g);
}

Test(build, equal_constants_are_one_value)
{
    struct fixture f = begin();
    const struct qc_shape two = QC_SHAPE(2), row = QC_SHAPE(1, 2);
    struct qc_tensor *a = qc_tensor_of(QC_F32, &two, (float[]){1, 2}, &f.st),
                     *b = qc_tensor_of(QC_F32, &two, (float[]){1, 2}, &f.st),
                     *c = qc_tensor_of(QC_F32, &row, (float[]){1, 2}, &f.st),
                     *d = qc_tensor_of(QC_F32, &two, (float[]){-0.0f, 2}, &f.st),
                     *e = qc_tensor_of(QC_F32, &two, (float[]){0, 2}, &f.st);
    qc_id first = qc_graph_add_constant(f.g, "w", a, &f.st);
    cr_expect_eq(qc_graph_add_constant(f.g, "v", b, &f.st), first);
    cr_expect_str_eq(qc_value(f.g, first)->name, "w");
    cr_expect_neq(qc_graph_add_constant(f.g, "r", c, &f.st), first);
    cr_expect_neq(qc_graph_add_constant(f.g, NULL, d, &f.st), qc_graph_add_constant(f.g, NULL, e, &f.st),
                  "-0 is not 0");
    cr_expect_eq(a->references, 2, "tensors are referenced, not copied");
    qc_tensor_unref(a);
    qc_tensor_unref(b);
    qc_tensor_unref(c);
    qc_tensor_unref(d);
    qc_tensor_unref(e);
    cr_expect_eq(qc_tensor_int(qc_constant_of(f.g, first), 1), 2);
    qc_graph_free(f.g);
}

Test(build, names_are_made_unique)
{
    struct fixture f = begin();
    qc_id a = add(&f, QC_OP_Relu, 1, &f.x, 0, NULL, "x"), b = add(&f, QC_OP_Tanh, 1, &f.x, 0, NULL, "x");
    HOLD(strcmp(qc_value(f.g, a)->name, "x_1") == 0, strcmp(qc_value(f.g, b)->name, "x_2") == 0,
         qc_graph_find_value(f.g, "x") == f.x, qc_graph_find_value(f.g, "x_2") == b,
         qc_graph_find_value(f.g, "nothing") == 0);
    qc_graph_free(f.g);
}

/* Suffixes are given out in order, and those that somebody took are left out. */
Test(build, suffixes_skip_names_that_are_there)
{
    static const char *const asked[] = {"x", "x_3", "x", "x", "x_1", "x"}, *const given[] = {"x_1", "x_3",   "x_2",
                                                                                             "x_4", "x_1_1", "x_5"};
    struct fixture f = begin();
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        const struct qc_shape shape = QC_SHAPE((int64_t)i + 1);
        const qc_id v = qc_graph_add_input(f.g, asked[i], QC_F32, &shape, &f.st);
        cr_expect_str_eq(qc_value(f.g, v)->name, given[i]);
    }
    qc_graph_free(f.g);
}

Test(build, many_values_are_found_again)
{
    struct fixture f = begin();
    qc_id v = f.x;
    char name[32];
    for (int i = 0; i < 3000; i++) {
        snprintf(name, sizeof name, "v%d", i);
        v = add(&f, i % 2 ? QC_OP_Relu : QC_OP_Neg, 1, &v, 0, NULL, name);
        cr_assert_neq(v, 0, "%s", f.st.message);
    }
    HOLD(f.g->node_count == 3000, qc_graph_find_value(f.g, "v0") == 3, qc_graph_find_value(f.g, "v2999") == v);
    qc_graph_free(f.g);
}

Test(build, results_of_several_outputs_follow_each_other)
{
    struct fixture f = begin();
    static const char *const names[] = {"left", NULL};
    const struct qc_attr axis = QC_INT("axis", 1);
    struct qc_node_def def = FIELDS(.op = QC_OP_Split, .input_count = 1, .inputs = &f.x, .output_count = 2,
                                    .attr_count = 1, .attrs = &axis, .output_names = names);
    qc_id v = qc_graph_add(f.g, &def, &f.st);
    cr_assert_neq(v, 0, "%s", f.st.message);
    cr_expect_str_eq(qc_value(f.g, v)->name, "left");
    cr_expect_null(qc_value(f.g, v + 1)->name);
    HOLD(qc_node_of(f.g, v + 1) == qc_node_of(f.g, v), qc_value(f.g, v + 1)->output == 1,
         qc_value(f.g, v + 1)->type.shape.dim[1] == 2);
    def.output_count = 4;
    def.output_names = NULL;
    cr_expect_neq(qc_graph_add(f.g, &def, &f.st), v, "another number of results is another node");
    qc_graph_free(f.g);
}

Test(build, attributes_are_copied_and_looked_up_by_name)
{
    struct fixture f = begin();
    int64_t axes[] = {1, 0};
    char mode[] = "linear";
    const struct qc_attr a[] = {QC_INTS("axes", 2, axes), QC_STRING("mode", mode), QC_FLOAT("alpha", 0.5f),
                                QC_INT("keepdims", 0)};
    qc_id v = add(&f, QC_OP_ReduceMax, 1, &f.x, 4, a, NULL);
    axes[0] = 99;
    mode[0] = 'X';
    const struct qc_node *n = qc_node_of(f.g, v);
    const int64_t *got;
    cr_assert_eq(qc_attr_ints(n, "axes", &got), 2);
    cr_expect(got[0] == 1 && got[1] == 0);
    cr_expect_str_eq(qc_attr_string(n, "mode", ""), "linear");
    cr_expect_eq(qc_attr_float(n, "alpha", 0), 0.5f);
    HOLD(qc_attr_int(n, "keepdims", 1) == 0, qc_attr_int(n, "absent", 7) == 7);
    cr_expect_eq(qc_attr_int(n, "mode", 7), 7, "another kind is as good as absent");
    cr_expect_eq(qc_attr_ints(n, "keepdims", &got), 0);
    cr_expect_null(qc_attr_find(n, "absent"));
    qc_graph_free(f.g);
}

Test(build, mistakes_are_a_status_that_names_op_and_node)
{
    struct fixture f = begin();
    const struct {
        struct qc_node_def def;
        const char *part;
    } cases[] = {
        {{.op = QC_OP_INVALID, .name = "n", .input_count = 1, .inputs = &f.x}, "node 'n' (invalid): not an op"},
        {{.op = QC_OP_COUNT, .name = "n", .input_count = 1, .inputs = &f.x}, "not an op"},
        {{.op = QC_OP_Relu, .name = "n", .input_count = 0}, "node 'n' (Relu): has 0 inputs"},
        {{.op = QC_OP_Relu, .name = "n", .input_count = 1, .inputs = (qc_id[]){99}}, "input 0 is not a value"},
        {{.op = QC_OP_Relu, .name = "n", .input_count = 1, .inputs = (qc_id[]){0}}, "input 0 is missing"},
        {{.op = QC_OP_Relu, .name = "n", .input_count = 1, .inputs = &f.x, .output_count = 2}, "has 2 outputs"},
        {{.op = QC_OP_Relu, .name = "n", .input_count = 1, .inputs = &f.x, .qparams = 5},
         "result qparams 5 do not exist"},
        {{.op = QC_OP_Relu, .name = "n", .input_count = 1, .inputs = &f.x, .attr_count = 33}, "33 attributes"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_expect_eq(qc_graph_add(f.g, &cases[i].def, ST), 0);
        cr_expect_eq(failure.code, QC_BAD_INPUT);
        cr_expect(strstr(failure.message, cases[i].part), "expected '%s' in '%s'", cases[i].part, failure.message);
    }
    HOLD(f.g->node_count == 0, f.g->value_count == 2);
    qc_graph_free(f.g);
}

Test(build, uses_count_nodes_and_outputs)
{
    struct fixture f = begin();
    qc_id s = add(&f, QC_OP_Add, 2, (qc_id[]){f.x, f.x}, 0, NULL, NULL),
          c = add(&f, QC_OP_Clip, 3, (qc_id[]){s, 0, 0}, 0, NULL, NULL);
    cr_assert(c && qc_graph_add_output(f.g, "out", s, &f.st));
    struct qc_arena *a = qc_arena_new();
    uint32_t *use = qc_graph_uses(f.g, a, &f.st);
    cr_assert_not_null(use);
    HOLD(use[f.x] == 2, use[f.y] == 0, use[s] == 2, use[c] == 0);
    qc_arena_free(a);
    qc_graph_free(f.g);
}

Test(build, labels_name_or_number)
{
    struct fixture f = begin();
    char buf[QC_LABEL];
    qc_id v = add(&f, QC_OP_Relu, 1, &f.x, 0, NULL, NULL);
    cr_expect_str_eq(qc_value_label(buf, f.g, f.x), "x");
    cr_expect_str_eq(qc_value_label(buf, f.g, v), "%3");
    cr_expect_str_eq(qc_value_label(buf, f.g, 99), "%99");
    qc_graph_free(f.g);
    qc_graph_free(NULL);
}

Test(build, ops_are_found_by_both_names)
{
    for (int op = 1; op < QC_OP_COUNT; op++) {
        const struct qc_op_info *info = qc_op_info((enum qc_op)op);
        cr_expect_eq(qc_op_from_name(info->name), (enum qc_op)op);
        if (info->onnx[0]) cr_expect_str_eq(qc_op_info(qc_op_from_onnx(info->onnx))->onnx, info->onnx);
        cr_expect_leq(info->inputs_min, info->inputs_max);
        cr_expect_geq(info->outputs_max, 1);
    }
    HOLD(qc_op_from_name("Quantize") == QC_OP_Quantize, qc_op_from_onnx("") == QC_OP_INVALID,
         qc_op_from_onnx("Quantize") == QC_OP_INVALID, qc_op_from_name("conv") == QC_OP_INVALID);
}
