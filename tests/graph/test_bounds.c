// SPDX-License-Identifier: Apache-2.0
#include "graph/core/bounds.h"
#include "graph_cases.h"
#include "tests/check.h"

#define X "graph \"g\"\ninput %1 \"x\" f32[N,3,4,4]\n"
#define INF ((double)INFINITY)

Test(bounds, follow_from_the_ops)
{
    static const struct {
        const char *text, *value;
        double lo, hi;
    } cases[] = {
        {X "%2 \"y\" = Sigmoid(%1)\noutput \"y\" %2\n", "y", 0, 1},
        {X "%2 \"y\" = Tanh(%1)\noutput \"y\" %2\n", "y", -1, 1},
        {X "%2 \"y\" = Softmax(%1) {axis=1}\noutput \"y\" %2\n", "y", 0, 1},
        {X "%2 \"y\" = HardSigmoid(%1)\noutput \"y\" %2\n", "y", 0, 1},
        {X "%2 \"y\" = Relu(%1)\noutput \"y\" %2\n", "y", 0, INF},
        {X "%2 \"a\" = Tanh(%1)\n%3 \"y\" = Relu(%2)\noutput \"y\" %3\n", "y", 0, 1},
        {X "const %2 \"l\" f32[] = {0}\nconst %3 \"h\" f32[] = {6}\n%4 \"y\" = Clip(%1, %2, %3)\noutput \"y\" %4\n",
         "y", 0, 6},
        {X "const %2 \"l\" f32[] = {-2}\n%3 \"y\" = Clip(%1, %2)\noutput \"y\" %3\n", "y", -2, INF},
        {X "%2 \"a\" = Sigmoid(%1)\n%3 \"y\" = MaxPool(%2) {kernel_shape=[2,2]}\noutput \"y\" %3\n", "y", 0, 1},
        {X "%2 \"a\" = Cosh(%1)\n%3 \"y\" = GlobalAveragePool(%2)\noutput \"y\" %3\n", "y", 1, INF},
        {X "%2 \"a\" = Cosh(%1)\n%3 \"y\" = AveragePool(%2) {kernel_shape=[2,2]}\noutput \"y\" %3\n", "y", 0, INF},
        {X "const %2 \"p\" i64[8] = {0,0,1,1,0,0,1,1}\nconst %3 \"v\" f32[] = {-3}\n%4 \"a\" = Tanh(%1)\n%5 \"y\" = "
           "Pad(%4, %2, %3)\noutput \"y\" %5\n",
         "y", -3, 1},
        {X "%2 \"a\" = Tanh(%1)\n%3 \"b\" = Sigmoid(%1)\n%4 \"y\" = Concat(%2, %3) {axis=1}\noutput \"y\" %4\n", "y",
         -1, 1},
        {X "%2 \"a\" = Tanh(%1)\n%3 \"y\" = Concat(%2, %1) {axis=1}\noutput \"y\" %3\n", "y", -INF, INF},
        {X "%2 \"a\" = Sigmoid(%1)\n%3 \"y\" = Transpose(%2) {perm=[0,2,3,1]}\noutput \"y\" %3\n", "y", 0, 1},
        {X "%2 \"a\" = Sigmoid(%1)\n%3 \"y\" = Add(%2, %2)\noutput \"y\" %3\n", "y", -INF, INF},
        {X "%2 \"y\" = LeakyRelu(%1)\noutput \"y\" %2\n", "y", -INF, INF},
        {X "%2 \"y\" = Table(%1) {f=\"Sigmoid(LeakyRelu(x; alpha=0.1))\"}\noutput \"y\" %2\n", "y", 0, 1},
        {X "%2 \"y\" = Table(%1) {f=\"Clip(Add(x, 3), 0, 6)\"}\noutput \"y\" %2\n", "y", 0, 6},
        {X "%2 \"y\" = Table(%1) {f=\"Mul(x, Sigmoid(x))\"}\noutput \"y\" %2\n", "y", -INF, INF},
        {X "const %2 \"c\" f32[3] = {0.5, -2, 1}\n%3 \"y\" = Add(%1, %1)\noutput \"y\" %3\n", "c", -2, 1},
        {X "%2 \"y\" = Relu(%1)\noutput \"y\" %2\n", "x", -INF, INF},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        OWN(qc_graph) *g = test_graph(cases[i].text);
        QC_ARENA_SCOPE *a = qc_arena_new();
        const struct qc_bounds *b = qc_graph_bounds(g, a, ST);
        MUST(a && b);
        qc_id v = qc_graph_find_value(g, cases[i].value);
        cr_expect(v && b[v].lo == cases[i].lo && b[v].hi == cases[i].hi, "[%g, %g], expected [%g, %g]:\n%s", b[v].lo,
                  b[v].hi, cases[i].lo, cases[i].hi, cases[i].text);
    }
}
