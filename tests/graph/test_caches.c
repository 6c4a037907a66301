// SPDX-License-Identifier: Apache-2.0
/* Which inputs are caches, and along which axis their heads lie. */
#include "graph/core/uses.h"
#include "graph_cases.h"
#include "tests/check.h"

static const char model[] = "graph \"m\" opset 13\n"
                            "input %1 \"past\" f32[N,2,N,4]\n" /* appended to, and asked for its shape */
                            "input %2 \"half\" f16[N,N,2,4]\n" /* the same behind a Cast, by length first */
                            "input %3 \"merged\" f32[N,N,8]\n" /* does not show its heads */
                            "input %4 \"free heads\" f32[N,N,N,4]\n"
                            "input %5 \"fixed\" f32[N,2,6,4]\n"   /* a window */
                            "input %6 \"second\" f32[N,2,N,4]\n"  /* is appended itself */
                            "input %7 \"read\" f32[N,2,N,4]\n"    /* read by another operator */
                            "input %8 \"batches\" f32[N,2,N,4]\n" /* grows by its first axis */
                            "input %9 \"rows\" f32[N,N]\n"
                            "input %10 \"x\" f32[N,N,2,4]\n"
                            "input %11 \"y\" f32[N,N,8]\n"
                            "input %12 \"z\" f32[N,N,N,4]\n"
                            "%13 : f32[N,2,N,4] = Concat(%1, %6) {axis=-2}\n"
                            "%14 : i64[4] = Shape(%1)\n"
                            "%15 : f32[N,N,2,4] = Cast(%2) {to=1}\n"
                            "%16 : f32[N,N,2,4] = Concat(%15, %10) {axis=1}\n"
                            "%17 : f32[N,N,8] = Concat(%3, %11) {axis=1}\n"
                            "%18 : f32[N,N,N,4] = Concat(%4, %12) {axis=2}\n"
                            "%19 : f32[N,2,N,4] = Concat(%5, %6) {axis=2}\n"
                            "%20 : f32[N,2,N,4] = Concat(%7, %6) {axis=2}\n"
                            "%21 : f32[N,2,N,4] = Relu(%7)\n"
                            "%22 : f32[N,2,N,4] = Concat(%8, %6) {axis=0}\n"
                            "%23 : f32[N,N] = Concat(%9, %9) {axis=1}\n"
                            "%24 : f16[N,2,N,4] = Cast(%1) {to=10}\n" /* only asked for its shape */
                            "%25 : i64[4] = Shape(%24)\n"
                            "output \"a\" %13\n"
                            "output \"b\" %23\n";

Test(caches, are_inputs_to_which_a_concat_appends)
{
    static const struct {
        qc_id joined; /* 0: no cache */
        int axis, heads;
    } expected[] = {{13, 2, 1}, {16, 1, 2}, {17, 1, -1}, {18, 2, -1}, {0}, {0}, {0}, {0}, {0}, {0}, {0}, {0}};
    OWN(qc_graph) *g = test_graph(model);
    struct qc_uses u;
    MUST(qc_uses_of(&u, g, test_arena(), ST));
    for (size_t i = 0; i < g->input_count; i++) {
        struct qc_cache c;
        const bool found = qc_cache_of(&c, &u, g->inputs[i].value);
        cr_expect_eq(found, expected[i].joined != 0, "%s", g->inputs[i].name);
        if (!found || !expected[i].joined) continue;
        cr_expect_eq(c.joins->outputs, expected[i].joined, "%s", g->inputs[i].name);
        cr_expect_eq(c.axis, expected[i].axis, "%s", g->inputs[i].name);
        cr_expect_eq(qc_cache_heads(g, &c), expected[i].heads, "%s", g->inputs[i].name);
    }
}
