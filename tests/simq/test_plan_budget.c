// SPDX-License-Identifier: Apache-2.0
/* Plans of large shapes: memory is refused before it is allocated, and constants that are too large to fold are
   computed by a step, with the same result. */
#include "base/resident.h"
#include "graph/infer/folding.h"
#include "simq/plan/plan.h"
#include "tests/check.h"
#include "tests/graph_reader/graph_reader.h"

enum { MIB = 1 << 20 };

static struct qc_graph *graph(const char *body)
{
    char text[1024];
    qc_text(text, sizeof text, "graph \"g\" opset 13\ninput %%1 \"x\" f32[2,3,8,8]\n%s", body);
    struct qc_graph *g = test_graph(text);
    return g;
}

static bool planned(struct qc_plan **out, const struct qc_graph *g, struct qc_status *st)
{
    const struct qc_shape x = QC_SHAPE(2, 3, 8, 8);
    return qc_plan_new(out, g, &x, NULL, st);
}

Test(plan_budget, large_values_are_refused_by_name_before_memory_is_taken)
{
    static const struct {
        const char *what, *body, *says;
    } cases[] = {
        {"activation", "const %2 f32[4] = {1, 1, 10000, 10000}\n%3 = Resize(%1, -, %2)\noutput \"y\" %3\n",
         "[2,3,80000,80000]"},
        {"taps of one long axis",
         "const %2 f32[4] = {1, 1, 1, 30000000}\n%3 = Resize(%1, -, %2) {mode=\"linear\"}\noutput \"y\" %3\n",
         "[2,3,8,240000000]"},
        {"constant part",
         "const %2 i64[1] = {2147483648}\n%3 = ConstantOfShape(%2)\n%4 = ReduceSum(%3) {keepdims=0}\n%5 = Add(%1, "
         "%4)\noutput \"y\" %5\n",
         "ConstantOfShape"},
        {"all together",
         "const %2 i64[4] = {1, 1, 320, 320}\n%3 = Tile(%1, %2)\n%4 = Softmax(%3)\n%5 = Concat(%3, %4) "
         "{axis=0}\noutput \"y\" %5\n",
         "MiB"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        OWN(qc_graph) *g = graph(cases[i].body);
        struct qc_plan *p = NULL;
        const size_t before = qc_resident_bytes();
        cr_expect_not(planned(&p, g, ST), "%s", cases[i].what);
        cr_expect(failure.code == QC_MACHINE && strstr(failure.message, cases[i].says) &&
                      strstr(failure.message, "--memory-limit"),
                  "%s: %s", cases[i].what, failure.message);
        cr_expect_lt(qc_resident_bytes(), before + 64 * MIB, "%s", cases[i].what);
    }
}

Test(plan_budget, the_users_limit_holds_for_what_is_computed_ahead)
{
    OWN(qc_graph) *g = graph("const %2 i64[1] = {16777216}\n%3 = ConstantOfShape(%2)\n%4 = ReduceSum(%3) "
                             "{keepdims=0}\n%5 = Add(%1, %4)\noutput \"y\" %5\n");
    struct qc_plan *p = NULL;
    g->budget.memory_limit = qc_resident_bytes() + 32 * MIB;
    cr_expect_not(planned(&p, g, ST));
    cr_expect(failure.code == QC_MACHINE && strstr(failure.message, "ConstantOfShape") &&
                  strstr(failure.message, "64.0 MiB"),
              "%s", failure.message);
}

/* Range, ConstantOfShape, Concat, Cast, Mul, ReduceSum of constants: folded, and as steps where each constant is too
 * large for folding. */
Test(plan_budget, what_is_not_folded_is_a_step_of_the_same_result)
{
    static const char body[] =
        "const %2 f32[] = {0}\nconst %3 f32[] = {%s}\nconst %4 f32[] = {1}\n%6 = Range(%2, %3, %4)\n"
        "const %7 i64[1] = {%s}\n%8 = ConstantOfShape(%7)\n%9 = Mul(%6, %6)\n%10 = Add(%9, %8)\n%11 = ReduceMax(%10) "
        "{keepdims=0}\n%12 = Add(%1, %11)\noutput \"y\" %12\n";
    static const char *const sizes[] = {"1000", "34000000"}; /* the second: 130 MiB each */
    for (int i = 0; i < 2; i++) {
        char text[1024];
        size_t at = 0;
        for (const char *c = body; *c && at + 16 < sizeof text; c++) {
            if (c[0] == '{' && c[1] == '%' && c[2] == 's') {
                at += (size_t)snprintf(text + at, sizeof text - at, "{%s", sizes[i]);
                c += 2;
            } else {
                text[at++] = *c;
            }
        }
        text[at] = '\0';
        OWN(qc_graph) *g = graph(text);
        OWN(qc_plan) *p = NULL;
        OWN(qc_runner) *r = NULL;
        MUST(planned(&p, g, ST) && qc_runner_new(&r, p, ST));
        cr_expect_eq(qc_plan_runner_bytes(p) > 100 * MIB, i == 1, "%zu", qc_plan_runner_bytes(p));
        struct qc_view x = qc_runner_input(r, 0);
        memset(x.data, 0, 2 * 3 * 8 * 8 * sizeof(float));
        MUST(qc_runner_run(r, NULL, NULL, ST));
        const float last = i ? 33999999.0f : 999.0f, *y = qc_runner_output(r, 0).data;
        cr_expect_float_eq(y[0] / (last * last), 1, 1e-6, "%g", (double)y[0]);
    }
}

/* Elements read and written count 4, multiply-adds 1. */
Test(plan_budget, cost_of_nodes)
{
    static const struct {
        const char *body;
        size_t bytes;
        uint64_t work;
    } cases[] = {
        {"%2 = Relu(%1)\noutput \"y\" %2\n", 1536, 4 * 768},
        {"%2 = Shape(%1)\noutput \"y\" %2\n", 32, 16},
        {"%2 = MaxPool(%1) {kernel_shape=[2,4], strides=[2,4]}\noutput \"y\" %2\n", 192, 4 * (384 + 48) + 48 * 8},
        {"const %2 f32[8,5] zero\n%3 = MatMul(%1, %2)\noutput \"y\" %3\n", 960, 4 * (384 + 40 + 240) + 240 * 8},
        {"const %2 f32[4,3,1,1] zero\n%3 = Conv(%1, %2)\noutput \"y\" %3\n", 2048, 4 * (384 + 12 + 512) + 512 * 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char body[256];
        const char *zero = strstr(cases[i].body, "zero");
        if (zero) { /* as many numbers as the shape has */
            int n = 0, at = snprintf(body, sizeof body, "%.*s= {", (int)(zero - cases[i].body), cases[i].body);
            for (n = strstr(cases[i].body, "[8,5]") ? 40 : 12; n > 0; n--)
                at += snprintf(body + at, sizeof body - (size_t)at, n > 1 ? "0," : "0}");
            snprintf(body + at, sizeof body - (size_t)at, "%s", zero + 4);
        } else {
            snprintf(body, sizeof body, "%s", cases[i].body);
        }
        OWN(qc_graph) *g = graph(body);
        size_t bytes;
        uint64_t work;
        qc_node_cost(&bytes, &work, g, &g->nodes[1]);
        cr_expect_eq(bytes, cases[i].bytes, "%s: %zu", cases[i].body, bytes);
        cr_expect_eq(work, cases[i].work, "%s: %llu", cases[i].body, (unsigned long long)work);
    }
}
