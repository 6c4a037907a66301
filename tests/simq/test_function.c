// SPDX-License-Identifier: Apache-2.0
/* Op Table against the ops that it replaces: the same bits, on real and on affine values. */
#include "graph/core/function.h"
#include "simq/plan/plan.h"
#include "tests/check.h"

enum { COUNT = 1031 };

static const char *const functions[] = {"Mul(x, Sigmoid(x))",
                                        "Div(Mul(x, Clip(Add(x, 3), 0, 6)), 6)",
                                        "Sigmoid(LeakyRelu(x; alpha=0.1))",
                                        "Mul(Mul(x, 0.5), Add(Erf(Div(x, 1.4142135)), 1))",
                                        "Gelu(x; approximate=tanh)",
                                        "Selu(Clip(x, -, 2.5); alpha=1.5; gamma=0.75)",
                                        "Max(Neg(x), Abs(Sub(x, 1)))",
                                        "Min(Relu(x), Reciprocal(Add(Mul(x, x), 1)))",
                                        "Sub(2, Tanh(HardSigmoid(x; beta=0.25)))",
                                        "Clip(Exp(x), -, -)",
                                        "Add(Sigmoid(1.5), x)",
                                        "Clip(Sqrt(Abs(x)), 0.5, 2.25)"};

static void fill(float *x, size_t n)
{
    static const float special[] = {0, -0.0f, INFINITY, -INFINITY, NAN, 1e-40f, 3.4e38f, -3.4e38f};
    for (size_t i = 0; i < n; i++) x[i] = i < 8 ? special[i] : ((float)((i * 7919) % 1000) - 500) / 61;
}

static void run(float *y, const struct qc_graph *g, const float *x)
{
    const struct qc_shape shape = QC_SHAPE(COUNT);
    OWN(qc_plan) *p = NULL;
    OWN(qc_runner) *r = NULL;
    MUST(qc_plan_new(&p, g, &shape, NULL, ST) && qc_runner_new(&r, p, ST));
    memcpy(qc_runner_input(r, 0).data, x, COUNT * sizeof *x);
    MUST(qc_runner_run(r, NULL, NULL, ST));
    memcpy(y, qc_runner_output(r, 0).data, COUNT * sizeof *y);
}

/* x -> [quantize ->] table or ops [-> quantize] -> y */
static struct qc_graph *graph_of(const char *text, bool as_table, bool affine, bool integers)
{
    struct qc_graph *g = qc_graph_new(ST);
    const struct qc_shape shape = QC_SHAPE(COUNT);
    qc_id x = qc_graph_add_input(g, "x", QC_F32, &shape, ST), v = x, in = 0, out = 0;
    g->simulated = affine && !integers;
    if (affine) {
        struct qc_qparams a = {.name = "a", .dtype = QC_U8}, b = {.name = "b", .dtype = QC_I8};
        in = qc_graph_add_quantizer(g, &a, ST);
        out = qc_graph_add_quantizer(g, &b, ST);
        MUST(qc_graph_bind_quantizer(g, in, 1, &(float){0.05f}, &(int32_t){117}, ST) &&
             qc_graph_bind_quantizer(g, out, 1, &(float){0.043f}, &(int32_t){-5}, ST));
        struct qc_node_def q = {.op = QC_OP_Quantize, .input_count = 1, .inputs = &x, .qparams = in};
        v = qc_graph_add(g, &q, ST);
    }
    if (as_table) {
        struct qc_attr f = QC_STRING("f", text);
        struct qc_node_def def = {
            .op = QC_OP_Table, .input_count = 1, .inputs = &v, .attr_count = 1, .attrs = &f, .qparams = out};
        MUST(v = qc_graph_add(g, &def, ST));
    } else {
        struct qc_function f;
        MUST(qc_function_parse(&f, text, g->arena, ST));
        struct qc_node_def dq = {.op = QC_OP_Dequantize, .input_count = 1, .inputs = &v},
                           q = {.op = QC_OP_Quantize, .input_count = 1, .inputs = &v, .qparams = out};
        if (affine) v = qc_graph_add(g, &dq, ST);
        MUST(v = qc_function_write_out(g, &f, v, "node", "name", ST));
        if (affine) v = qc_graph_add(g, &q, ST);
    }
    struct qc_node_def dq = {.op = QC_OP_Dequantize, .input_count = 1, .inputs = &v};
    if (affine) v = qc_graph_add(g, &dq, ST);
    MUST(v && qc_graph_add_output(g, "y", v, ST));
    return g;
}

Test(function, a_table_has_the_bits_of_its_ops)
{
    static float x[COUNT], table[COUNT], ops[COUNT];
    fill(x, COUNT);
    for (size_t i = 0; i < 3 * (sizeof functions / sizeof *functions); i++) {
        const char *text = functions[i / 3];
        struct qc_graph *a = graph_of(text, true, i % 3, i % 3 == 2),
                        *b = graph_of(text, false, i % 3, false); /* real, simulated, in integers */
        run(table, a, x);
        run(ops, b, x);
        for (size_t k = 0; k < COUNT; k++)
            cr_assert(memcmp(&table[k], &ops[k], sizeof *ops) == 0 || (isnan(table[k]) && isnan(ops[k])),
                      "%s of %g: %g, its ops give %g%s", text, (double)x[k], (double)table[k], (double)ops[k],
                      i % 3 == 0   ? ""
                      : i % 3 == 1 ? " (simulated)"
                                   : " (integers)");
        qc_graph_free(a);
        qc_graph_free(b);
    }
}

Test(function, texts_return)
{
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        struct qc_function f;
        MUST(qc_function_parse(&f, functions[i], test_arena(), ST));
        cr_expect_str_eq(qc_function_print(&f, test_arena(), ST), functions[i]);
    }
}

Test(function, equal_parts_are_one_step)
{
    struct qc_function f;
    MUST(qc_function_parse(&f, "Mul(Sigmoid(Abs(x)), Add(Abs(x), Sigmoid(Abs(x))))", test_arena(), ST));
    cr_expect_eq(f.count, 4);
}

Test(function, what_is_no_function_is_refused)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "function '': expected x, a number or an op at character 1"},
        {"x", "function 'x': an op expected"},
        {"Abs(x", "function 'Abs(x': expected ')' at character 6"},
        {"Abs(x))", "function 'Abs(x))': expected the end at character 7"},
        {"Abs(y)", "function 'Abs(y)': 'y' is no op of a function of one variable"},
        {"Conv(x, x)", "function 'Conv(x, x)': 'Conv' is no op of a function of one variable"},
        {"Abs(x, x)", "function 'Abs(x, x)': Abs has 2 arguments"},
        {"Add(x)", "function 'Add(x)': Add has 1 arguments"},
        {"Max(x, x, x)", "function 'Max(x, x, x)': Max has 3 arguments"},
        {"Clip(x, x, x, x)", "function 'Clip(x, x, x, x)': expected at most 3 arguments at character 14"},
        {"Clip(x, x)", "function 'Clip(x, x)': a bound of Clip is a number"},
        {"LeakyRelu(x; alpha)", "function 'LeakyRelu(x; alpha)': expected '=' at character 19"},
        {"LeakyRelu(x; alpha=)", "function 'LeakyRelu(x; alpha=)': expected a number at character 20"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct qc_function f;
        cr_expect(!qc_function_parse(&f, cases[i].text, test_arena(), ST), "%s", cases[i].text);
        cr_expect(failure.code == QC_BAD_INPUT && strcmp(failure.message, cases[i].message) == 0, "%s",
                  failure.message);
    }
    char deep[QC_FUNCTION_TEXT + 8] = "";
    for (int i = 0; i < 40; i++) strcat(deep, "Abs(");
    struct qc_function f;
    cr_expect(!qc_function_parse(&f, deep, test_arena(), ST) && failure.code == QC_BAD_INPUT);
    memset(deep, ' ', sizeof deep - 1);
    deep[sizeof deep - 1] = '\0';
    cr_expect(!qc_function_parse(&f, deep, test_arena(), ST) && strstr(failure.message, "a function of"), "%s",
              failure.message);
}

Test(function, a_graph_with_a_bad_function_is_refused)
{
    OWN(qc_graph) *g = qc_graph_new(ST);
    const struct qc_shape shape = QC_SHAPE(2);
    qc_id x = qc_graph_add_input(g, "x", QC_F32, &shape, ST);
    struct qc_attr f = QC_STRING("f", "Abs(");
    struct qc_node_def def = {.op = QC_OP_Table, .input_count = 1, .inputs = &x, .attr_count = 1, .attrs = &f};
    cr_expect(!qc_graph_add(g, &def, ST) && failure.code == QC_BAD_INPUT);
    def.attr_count = 0;
    cr_expect(!qc_graph_add(g, &def, ST) && failure.code == QC_BAD_INPUT);
}
