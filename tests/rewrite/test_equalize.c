// SPDX-License-Identifier: Apache-2.0
/* Equalization: the scaled groups, their scales, and unchanged results of the graph. */
#include "graph/core/verify.h"
#include "onnx/read/import.h"
#include "rewrite/passes/channels.h"
#include "rewrite_passes.h"
#include "simq/plan/plan.h"
#include "tests/graph_reader/graph_reader.h"

/* Numbers in [-2, 2), the same everywhere; token numbers for integers. */
static void fill(struct qc_view in)
{
    uint32_t state = 1;
    for (size_t i = 0; i < qc_view_count(&in); i++) {
        state = state * 1664525u + 1013904223u;
        if (in.dtype == QC_I64)
            ((int64_t *)in.data)[i] = 1 + state / 65536 % 60; /* the smallest alphabet has 63 */
        else
            ((float *)in.data)[i] = (float)(state >> 8) / 4194304.0f - 2;
    }
}

/* Outputs of one run, one after the other; owned by the caller (free). */
static float *outputs_of(size_t *count, const struct qc_graph *g)
{
    struct qc_shape shapes[4];
    struct qc_plan_options options = {0};
    OWN(qc_plan) *plan = NULL;
    OWN(qc_runner) *r = NULL;
    float *all = NULL;
    *count = 0;
    cr_assert_leq(g->input_count, 4);
    for (size_t i = 0; i < g->input_count; i++) {
        shapes[i] = g->values[g->inputs[i].value].type.shape;
        for (int k = 0; k < shapes[i].rank; k++)
            if (shapes[i].dim[k] == QC_FREE) shapes[i].dim[k] = 1;
    }
    MUST(qc_plan_new(&plan, g, shapes, &options, ST));
    MUST(qc_runner_new(&r, plan, ST));
    for (size_t i = 0; i < g->input_count; i++) fill(qc_runner_input(r, i));
    MUST(qc_runner_run(r, NULL, NULL, ST));
    for (size_t i = 0; i < g->output_count; i++) {
        struct qc_view v = qc_runner_output(r, i);
        size_t n = qc_view_count(&v);
        if (v.dtype != QC_F32) continue;
        cr_assert(all = realloc(all, (*count + n) * sizeof *all + 1));
        memcpy(all + *count, v.data, n * sizeof *all);
        *count += n;
    }
    return all;
}

/* Largest difference relative to the largest output. */
static double difference(const struct qc_graph *a, const struct qc_graph *b)
{
    size_t n, m;
    float *x = outputs_of(&n, a), *y = outputs_of(&m, b);
    double worst = 0, largest = 0;
    cr_assert_eq(n, m);
    cr_assert_gt(n, 0);
    for (size_t i = 0; i < n; i++) {
        worst = fmax(worst, fabs((double)x[i] - (double)y[i]));
        largest = fmax(largest, fabs((double)x[i]));
    }
    free(x);
    free(y);
    cr_assert_gt(largest, 0);
    return worst / largest;
}

/* Two layers of very unequal channels, and what may stand between. */
#define BEGIN                                                                                                          \
    "graph \"g\"\ninput %1 \"x\" f32[N,2,5,5]\nconst %2 \"w1\" f32[2,2,1,1] = {4, -2, 0.01, 0.03}\nconst %3 \"b1\" "   \
    "f32[2] = {1, 0.02}\n"                                                                                             \
    "const %4 \"w2\" f32[2,2,1,1] = {0.01, 2, -0.02, 1}\nconst %5 \"dw\" f32[2,1,3,3] = "                              \
    "{1,2,3,4,5,4,3,2,1,.1,.2,.1,.3,.5,.1,.2,.2,.2}\n"                                                                 \
    "const %6 \"zero\" f32[] = {0}\nconst %7 \"six\" f32[] = {6}\n%8 \"c\" = Conv \"first\"(%1, %2, %3)\n"
#define TEN "3,1,4,1,5,9,2,6,5,3,"
#define END(from, to) #to " \"y\" = Conv \"last\"(" #from ", %4)\noutput \"y\" " #to "\n"

/* Three tokens of four features, two heads of two. %5: scores, %9: a value projection, heads moved in front and back
 * again, and an output projection. */
#define ATTENTION                                                                                                      \
    "graph \"g\"\ninput %1 \"x\" f32[N,3,4]\nconst %2 \"wo\" f32[4,3] = {1,2,0.1,0.2,3,4,5,6,0.7,0.8,20,10}\nconst "   \
    "%3 \"heads\" i64[4] = {-1,3,2,2}\n"                                                                               \
    "const %4 \"tokens\" i64[3] = {-1,3,4}\ninput %5 \"p\" f32[N,2,3,3]\nconst %6 \"w1\" f32[4,4] = "                  \
    "{4,-2,0.01,0.03,1,2,0.02,0.1,2,-3,0.05,0.02,1,1,0.01,0.02}\n"                                                     \
    "const %7 \"b1\" f32[4] = {1,0.2,0.02,0.01}\n"
#define VALUES "%8 \"m\" = MatMul(%1, %6)\n%9 \"v\" = Add(%8, %7)\n"
#define HEADS(from, a, b) #a " = Reshape(" #from ", %3)\n" #b " = Transpose(" #a ") {perm=[0,2,1,3]}\n"
#define BACK(from, a, b, c)                                                                                            \
#a " = Transpose(" #from ") {perm=[0,2,1,3]}\n" #b " = Reshape(" #a ", %4)\n" #c " \"y\" = MatMul(" #b             \
       ", %2)\noutput \"y\" " #c "\n"
/* Queries, keys and values of one product. */
#define JOINT                                                                                                          \
    "const %8 \"w\" f32[4,12] = "                                                                                      \
    "{4,-2,1,3,1,2,2,1,.2,.3,.05,.02,1,1,1,2,4,-2,1,3,.1,.2,.02,.1,2,3,5,2,1,1,1,2,.4,.2,.01,.03,1,2,2,1,2,3,5,2,.1,." \
    "1,.01,.02}\n"                                                                                                     \
    "%9 \"qkv\" = MatMul(%1, %8)\n"

static const struct {
    const char *what, *lines;
    size_t groups, clips;
} cases[] = {
    {"relu", BEGIN "%9 \"r\" = Relu(%8)\n" END(% 9, % 10), 1, 0},
    {"relu6 becomes relu and a bound per channel", BEGIN "%9 \"r\" = Clip(%8, %6, %7)\n" END(% 9, % 10), 1, 1},
    {"a clip with a lower bound that is not zero", BEGIN "%9 \"r\" = Clip(%8, %7, -)\n" END(% 9, % 10), 1, 1},
    {"leaky relu", BEGIN "%9 \"r\" = LeakyRelu(%8) {alpha=0.1f}\n" END(% 9, % 10), 1, 0},
    {"prelu", BEGIN "const %9 f32[2,1,1] = {0.1, 0.3}\n%10 \"r\" = PRelu(%8, %9)\n" END(% 10, % 11), 1, 0},
    {"max pool", BEGIN "%9 \"r\" = MaxPool(%8) {kernel_shape=[2,2]}\n" END(% 9, % 10), 1, 0},
    {"average pool", BEGIN "%9 \"r\" = AveragePool(%8) {kernel_shape=[2,2]}\n" END(% 9, % 10), 1, 0},
    {"an addition of constants", BEGIN "const %9 f32[2,1,1] = {0.1, 0.3}\n%10 \"r\" = Add(%9, %8)\n" END(% 10, % 11), 1,
     0},
    {"a subtraction of a number", BEGIN "const %9 f32[] = {0.25}\n%10 \"r\" = Sub(%8, %9)\n" END(% 10, % 11), 1, 0},
    {"a depthwise convolution between",
     BEGIN "%9 \"r\" = Relu(%8)\n%10 \"d\" = Conv \"depthwise\"(%9, %5) {group=2, pads=[1,1,1,1]}\n%11 \"s\" = "
           "Relu(%10)\n" END(% 11, % 12),
     2, 0},
    {"a linear pair", BEGIN END(% 8, % 9), 1, 0},
    {"two readers",
     BEGIN "%9 \"r\" = Relu(%8)\n%10 \"y\" = Conv \"last\"(%9, %4)\n%11 \"z\" = Conv \"other\"(%9, %5) "
           "{group=2}\noutput \"y\" %10\noutput \"z\" %11\n",
     1, 0},
    {"global pool, flatten, dense",
     BEGIN "%9 \"r\" = Relu(%8)\n%10 \"p\" = GlobalAveragePool(%9)\n%11 \"f\" = Flatten(%10)\nconst %12 \"m\" f32[3,2] "
           "= {1,30,2,40,3,20}\n"
           "%13 \"y\" = Gemm \"last\"(%11, %12) {transB=1}\noutput \"y\" %13\n",
     1, 0},
    {"gain and shift of a normalised value",
     "graph \"g\"\ninput %1 \"x\" f32[N,3,4]\n%2 \"n\" = Softmax(%1)\nconst %3 \"gamma\" f32[4] = {1, 20, 0.5, 2}\n"
     "const %4 \"beta\" f32[4] = {0, 5, 0.1, -1}\n%5 \"a\" = Mul(%2, %3)\n%6 \"b\" = Add(%5, %4)\nconst %7 \"m\" "
     "f32[4,2] = {1,2,0.1,0.2,3,4,5,6}\n%8 \"y\" = MatMul(%6, %7)\noutput \"y\" %8\n",
     1, 0},
    {"values of an attention",
     ATTENTION VALUES HEADS(% 9, % 10, % 11) "%12 = MatMul(%5, %11)\n" BACK(% 12, % 13, % 14, % 15), 1, 0},
    {"values that stand on the left",
     ATTENTION VALUES "%10 = Reshape(%9, %3)\n%11 = Transpose(%10) {perm=[0,2,3,1]}\n%12 = MatMul(%11, %5)\n%13 = "
                      "Transpose(%12) {perm=[0,1,3,2]}\n" BACK(% 13, % 14, % 15, % 16),
     1, 0},
    {"squeezed and unsqueezed",
     ATTENTION VALUES "const %10 i64[1] = {1}\n%11 = Unsqueeze(%9, %10)\n%12 = Squeeze(%11, %10)\n%13 \"y\" = "
                      "MatMul(%12, %2)\noutput \"y\" %13\n",
     1, 0},
    {"values that are read besides stop",
     ATTENTION VALUES HEADS(% 9, % 10,
                            % 11) "%12 = MatMul(%5, %11)\n%13 = Sigmoid(%11)\noutput \"z\" %13\n" BACK(% 12, % 14, % 15,
                                                                                                       % 16),
     0, 0},
    {"channels that are summed stop",
     ATTENTION VALUES "%10 = Reshape(%9, %3)\n%11 = MatMul(%10, %10)\n%12 = Reshape(%11, %4)\n%13 \"y\" = MatMul(%12, "
                      "%2)\noutput \"y\" %13\n",
     0, 0},
    {"tokens and features mixed stop",
     ATTENTION VALUES "const %10 i64[3] = {-1,4,3}\n%11 = Reshape(%9, %10)\n%12 = Transpose(%11) {perm=[0,2,1]}\n%13 "
                      "\"y\" = MatMul(%12, %2)\noutput \"y\" %13\n",
     0, 0},
    {"an addition of two activations stops", BEGIN "%9 \"r\" = Relu(%8)\n%10 \"s\" = Add(%9, %1)\n" END(% 10, % 11), 0,
     0},
    {"one reader that does not scale stops all",
     BEGIN "%9 \"r\" = Relu(%8)\n%10 \"y\" = Conv \"last\"(%9, %4)\n%11 \"z\" = Sigmoid(%9)\noutput \"y\" %10\noutput "
           "\"z\" %11\n",
     0, 0},
    {"sigmoid stops", BEGIN "%9 \"r\" = Sigmoid(%8)\n" END(% 9, % 10), 0, 0},
    {"a graph output stops",
     BEGIN "%9 \"r\" = Relu(%8)\n%10 \"y\" = Conv \"last\"(%9, %4)\noutput \"y\" %10\noutput \"r\" %9\n", 0, 0},
    {"a weight that two layers share stops",
     BEGIN "%9 \"r\" = Relu(%8)\n%10 \"s\" = Conv \"again\"(%9, %2)\n" END(% 10, % 11), 0, 0},
    {"flatten of more than a pixel stops",
     BEGIN "%9 \"r\" = Relu(%8)\n%10 \"f\" = Flatten(%9)\nconst %11 \"m\" f32[50,1] = {" TEN TEN TEN TEN
           "1,2,3,4,5,6,7,8,9,1}\n%12 \"y\" = Gemm \"last\"(%10, %11)\noutput \"y\" %12\n",
     0, 0},
};

/* Equalizes a graph, which computes the same afterwards. */
static struct qc_graph *equalized(struct qc_equalized *info, const struct qc_graph *g, const char *what, double most)
{
    struct qc_graph *e = NULL;
    cr_assert(qc_equalize(&e, info, g, QC_EQUALIZE_ALL, ST) && qc_graph_verify(e, ST), "%s: %s", what, failure.message);
    cr_expect_lt(difference(g, e), most, "%s: %g", what, difference(g, e));
    return e;
}

Test(equalize, function_stays_and_groups_are_found)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct qc_equalized info;
        OWN(qc_graph) *g = test_graph(cases[i].lines), *e = equalized(&info, g, cases[i].what, 1e-6);
        cr_expect_eq(info.groups, cases[i].groups, "%s: %zu groups", cases[i].what, info.groups);
        cr_expect_eq(info.clips, cases[i].clips, "%s: %zu clips", cases[i].what, info.clips);
        const struct qc_tensor *a = qc_constant_of(g, qc_graph_find_value(g, "w1")),
                               *b = qc_constant_of(e, qc_graph_find_value(e, "w1"));
        cr_expect(!a || (b && qc_tensor_equal(a, b) == (cases[i].groups == 0)), "%s", cases[i].what);
    }
}

static const struct {
    const char *what, *lines;
} joint[] = {
    {"slices",
     ATTENTION JOINT "const %10 i64[1] = {0}\nconst %11 i64[1] = {4}\nconst %12 i64[1] = {8}\nconst %13 i64[1] = "
                     "{12}\nconst %14 i64[1] = {-1}\n%15 \"q\" = Slice(%9, %10, %11, %14)\n"
                     "%16 \"k\" = Slice(%9, %11, %12, %14)\n%17 = Slice(%9, %12, %13, %14)\n" HEADS(
                         % 17, % 18, % 19) "%20 = MatMul(%5, %19)\n" BACK(% 20, % 21, % 22,
                                                                          % 23) "output \"q\" %15\noutput \"k\" %16\n"},
    {"a split", ATTENTION JOINT
     "%10 \"q\", %11 \"k\", %12 = Split(%9) {axis=-1}\n" HEADS(% 12, % 18, % 19) "%20 = MatMul(%5, %19)\n" BACK(
         % 20, % 21, % 22, % 23) "output \"q\" %10\noutput \"k\" %11\n"},
    {"one reshape and a place on an axis of three", ATTENTION JOINT
     "const %10 i64[5] = {-1,3,3,2,2}\n%11 = Reshape(%9, %10)\n%12 = Transpose(%11) {perm=[2,0,3,1,4]}\nconst %13 "
     "i64[] = {0}\nconst %14 i64[] = {1}\n"
     "const %15 i64[] = {-1}\n%16 \"q\" = Gather(%12, %13)\n%17 \"k\" = Gather(%12, %14)\n%18 = Gather(%12, %15)\n%20 "
     "= MatMul(%5, %18)\n" BACK(% 20, % 21, % 22, % 23) "output \"q\" %16\noutput \"k\" %17\n"},
};

/* Only the columns of the values are scaled: what is done with queries and keys does not commute with scales. */
Test(equalize, values_alone_of_a_joint_product)
{
    for (size_t i = 0; i < sizeof joint / sizeof *joint; i++) {
        struct qc_equalized info;
        OWN(qc_graph) *g = test_graph(joint[i].lines), *e = equalized(&info, g, joint[i].what, 1e-6);
        cr_expect(info.groups == 1 && info.channels == 4, "%s: %zu channels of %zu groups", joint[i].what,
                  info.channels, info.groups);
        const struct qc_tensor *a = qc_constant_of(g, qc_graph_find_value(g, "w")),
                               *b = qc_constant_of(e, qc_graph_find_value(e, "w"));
        cr_assert(a && b);
        for (size_t k = 0; k < a->count; k++)
            cr_expect_eq(qc_tensor_float(a, k) == qc_tensor_float(b, k), k % 12 < 8, "%s: weight %zu is %g, was %g",
                         joint[i].what, k, qc_tensor_float(b, k), qc_tensor_float(a, k));
    }
}

/* As exporters write it: the sizes come from the input, whose batch is free. Without the sizes nothing is known of
 * slices and heads. */
Test(equalize, sizes_of_a_shape_are_known_where_its_batch_is_free)
{
    static const char text[] = ATTENTION VALUES
        "%10 = Shape(%9)\nconst %11 i64[] = {1}\nconst %12 i64[] = {-1}\n%13 = Gather(%10, %11)\n%14 = Gather(%10, "
        "%12)\nconst %15 i64[] = {2}\n%16 = Div(%14, %15)\n"
        "const %17 i64[1] = {0}\n%18 = Unsqueeze(%13, %17)\n%19 = Unsqueeze(%16, %17)\nconst %20 i64[1] = {-1}\nconst "
        "%21 i64[1] = {2}\n%22 = Concat(%20, %18, %21, %19) {axis=0}\n"
        "%23 = Reshape(%9, %22)\n%24 = Transpose(%23) {perm=[0,2,1,3]}\n%25 = MatMul(%5, %24)\n" BACK(% 25, % 26, % 27,
                                                                                                      % 28);
    OWN(qc_graph) *g = test_graph(text), *folded = NULL;
    struct qc_equalized info;
    MUST(qc_fold_constants(&folded, g, qc_evaluate, ST));
    OWN(qc_graph) *e = equalized(&info, folded, "sizes", 1e-6);
    for (qc_id id = 1; id <= folded->node_count; id++) cr_expect_neq(folded->nodes[id].op, QC_OP_Gather);
    cr_expect_eq(info.groups, 1);
    cr_expect_lt(difference(g, e), 1e-6);
}

/* What a LayerNormalization makes has no size in constants alone: equalization leaves it, scales that are given are
   taken, and two readers take the same. */
Test(equalize, a_norm_makes_channels_that_others_scale)
{
    static const char text[] =
        "graph \"g\"\ninput %1 \"x\" f32[N,3]\nconst %2 \"gain\" f32[3] = {1, 2, -0.5}\nconst %3 \"shift\" f32[3] = "
        "{0.5, "
        "0, 3}\n%4 \"n\" = LayerNormalization(%1, %2, %3) {axis=-1}\nconst %5 \"a\" f32[3,2] = {1,2,3,4,5,6}\nconst %6 "
        "\"b\" f32[3,1] = {2,-1,4}\n%7 \"y\" = MatMul(%4, %5)\n%8 \"z\" = MatMul(%4, %6)\noutput \"y\" %7\noutput "
        "\"z\" "
        "%8\n";
    struct qc_equalized info;
    struct qc_channels c;
    OWN(qc_graph) *g = test_graph(text), *e = equalized(&info, g, "norm", 1e-6);
    cr_expect(info.groups == 0 && qc_tensor_equal(qc_constant_of(g, qc_graph_find_value(g, "a")),
                                                  qc_constant_of(e, qc_graph_find_value(e, "a"))));
    qc_graph_free(e);
    MUST(qc_channels_find(&c, g, test_arena(), ST));
    const qc_id n = qc_graph_find_value(g, "n");
    cr_assert(c.group[n] == n && !c.groups[n].fixed && c.groups[n].count == 3);
    for (int i = 0; i < 3; i++) c.groups[n].scale[i] = (double[]){0.5, 4, 3}[i];
    MUST(qc_channels_apply(&e, &info, &c, ST));
    HOLD(info.groups == 1 && info.channels == 3,
         qc_tensor_float(qc_constant_of(e, qc_graph_find_value(e, "gain")), 1) == 0.5,
         qc_tensor_float(qc_constant_of(e, qc_graph_find_value(e, "shift")), 2) == 1,
         qc_tensor_float(qc_constant_of(e, qc_graph_find_value(e, "b")), 1) == -4);
    cr_expect_lt(difference(g, e), 1e-6, "%g", difference(g, e));
}

static double magnitude(const struct qc_graph *g, const char *name, size_t first, size_t step, size_t count)
{
    const struct qc_tensor *t = qc_constant_of(g, qc_graph_find_value(g, name));
    double top = 0;
    for (size_t i = 0; i < count; i++) top = fmax(top, fabs(qc_tensor_float(t, first + i * step)));
    return top;
}

/* Without biases rows and columns meet at the geometric mean (Nagel et al. 2019, eq. 9 to 11). */
Test(equalize, rows_and_columns_take_equal_shares)
{
    static const char text[] =
        "graph \"g\"\ninput %1 \"x\" f32[N,2,1,1]\nconst %2 \"w1\" f32[2,2,1,1] = {4, -2, 0.1, 0.25}\nconst %3 \"w2\" "
        "f32[2,2,1,1] = {0.5, 2, -0.25, 1}\n"
        "%4 \"c\" = Conv(%1, %2)\n%5 \"r\" = Relu(%4)\n%6 \"y\" = Conv(%5, %3)\noutput \"y\" %6\n";
    struct qc_equalized info;
    OWN(qc_graph) *g = test_graph(text), *e = NULL;
    MUST(qc_equalize(&e, &info, g, QC_EQUALIZE_ALL, ST));
    double row[2], column[2];
    for (size_t c = 0; c < 2; c++) {
        row[c] = magnitude(e, "w1", 2 * c, 1, 2);
        column[c] = magnitude(e, "w2", c, 2, 2);
        double before[2] = {4, 0.25}, after[2] = {0.5, 2};
        cr_expect_float_eq(row[c] * column[c] / (before[c] * after[c]), 1,
                           1e-5); /* what the product is does not change */
    }
    cr_expect_float_eq(row[1] / row[0], column[1] / column[0], 0.02);
    cr_expect_float_eq(row[1] / row[0], 0.5, 0.02); /* sqrt(0.25 * 2 / (4 * 0.5)) */
}

static void check_model(const char *path, const char *name)
{
    OWN(qc_graph) *g = NULL, *normal = NULL;
    struct qc_equalized info;
    OWN(qc_rules) *rules = passes_rules(NULL, ST);
    cr_assert(rules && qc_onnx_import_with(&g, NULL, path, &QC_IMPORT_INIT, ST), "%s: %s", name, failure.message);
    cr_assert(qc_normalise(&normal, g, rules, qc_evaluate, ST), "%s: %s", name, failure.message);
    OWN(qc_graph) *e = equalized(&info, normal, name, 1e-5);
    /* every weight of the GPT stands behind a LayerNorm or before a GELU, those of the LSTM are its own */
    const bool none = strstr(name, "gpt") || strstr(name, "lstm");
    cr_expect(info.groups > 0 || none, "%s: nothing to equalize", name);
}

Test(equalize, the_shipped_model_computes_the_same)
{
    check_model(QC_TEST_SOURCE "/datasets/digits_cnn.onnx", "digits_cnn");
}

Test(equalize, given_models_compute_the_same, .timeout = 240)
{
    passes_given_models(check_model);
}
