// SPDX-License-Identifier: Apache-2.0
#include "graph/core/rebuild.h"
#include "graph/core/uses.h"
#include "graph_cases.h"
#include "tests/check.h"

/* 3 is read twice by one node, 5 by two nodes and an output, 7 by an output alone, 8 by nobody. */
static const char model[] = "graph \"m\" opset 13\n"
                            "input %1 \"x\" f32[N,4]\n"
                            "const %2 \"hi\" f32[] = {6}\n"
                            "%3 : f32[N,4] = Relu(%1)\n"
                            "%4 : f32[N,4] = Add(%3, %3)\n"
                            "%5 : f32[N,4] = Clip(%4, -, %2)\n"
                            "%6 : f32[N,4] = Tanh(%5)\n"
                            "%7 : f32[N,4] = Mul(%5, %6)\n"
                            "%8 : f32[N,4] = Neg(%1)\n"
                            "output \"a\" %5\n"
                            "output \"b\" %7\n"
                            "output \"c\" %7\n";

/* "node.input" of each use. */
static const char *text_of(char text[64], struct qc_use_list l)
{
    text[0] = 0;
    for (size_t i = 0; i < l.count; i++)
        sprintf(text + strlen(text), "%s%u.%u", i ? " " : "", l.of[i].node, l.of[i].input);
    return text;
}

Test(uses, readers_come_in_the_order_of_nodes_and_outputs_of_the_graph_last)
{
    static const struct {
        qc_id value;
        const char *all, *readers;
        qc_id only;
    } cases[] = {
        {0, "", "", 0},       {1, "1.0 6.0", "1.0 6.0", 0},     {2, "3.2", "3.2", 3}, {3, "2.0 2.1", "2.0 2.1", 0},
        {4, "3.0", "3.0", 3}, {5, "4.0 5.0 0.0", "4.0 5.0", 0}, {6, "5.1", "5.1", 5}, {7, "0.1 0.2", "", 0},
        {8, "", "", 0},
    };
    OWN(qc_graph) *g = test_graph(model);
    struct qc_uses u;
    char text[64];
    MUST(qc_uses_of(&u, g, test_arena(), ST));
    cr_expect_eq(u.graph, g);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_expect_str_eq(text_of(text, qc_all_uses(&u, cases[i].value)), cases[i].all, "uses of %u: %s", cases[i].value,
                         text);
        cr_expect_str_eq(text_of(text, qc_readers(&u, cases[i].value)), cases[i].readers, "readers of %u: %s",
                         cases[i].value, text);
        cr_expect_eq(qc_only_reader(&u, cases[i].value), cases[i].only, "the only reader of %u", cases[i].value);
    }
}

Test(uses, an_output_alone_is_no_only_reader)
{
    OWN(qc_graph) *g = test_graph("graph \"m\" opset 13\n"
                                  "input %1 \"x\" f32[N,4]\n"
                                  "%2 : f32[N,4] = Relu(%1)\n"
                                  "output \"a\" %2\n");
    struct qc_uses u;
    MUST(qc_uses_of(&u, g, test_arena(), ST));
    cr_expect_eq(qc_all_uses(&u, 2).count, 1);
    cr_expect_eq(qc_only_reader(&u, 2), 0);
    cr_expect_eq(qc_only_reader(&u, 1), 1);
}

Test(uses, a_node_like_another_has_its_name_attributes_and_names_of_outputs)
{
    OWN(qc_graph) *g = test_graph("graph \"m\" opset 13\n"
                                  "input %1 \"x\" f32[2,4]\n"
                                  "input %2 \"y\" f32[2,4]\n"
                                  "%3 \"p\" : f32[2,2], %4 \"q\" : f32[2,2] = Split \"cut\"(%1) {axis=1}\n"
                                  "%5 \"r\" : f32[2,4] = Relu \"bound\"(%1)\n"
                                  "output \"p\" %3\n"
                                  "output \"r\" %5\n");
    OWN(qc_graph) *to = qc_graph_new(ST);
    const struct qc_shape shape = QC_SHAPE(2, 4);
    const qc_id x = qc_graph_add_input(to, "other", QC_F32, &shape, ST);
    const struct qc_node_def with = {.inputs = &x};
    const qc_id first = qc_graph_add_like(to, g, &g->nodes[1], &with, ST);
    MUST(first);
    HOLD(strcmp(qc_node_of(to, first)->name, "cut") == 0, qc_node_of(to, first)->output_count == 2,
         qc_attr_int(qc_node_of(to, first), "axis", 0) == 1, strcmp(to->values[first].name, "p") == 0,
         strcmp(to->values[first + 1].name, "q") == 0);
    const qc_id in[3] = {first, 0, 0};
    const char *name = "mine";
    const struct qc_node_def other = {.op = QC_OP_Clip, .input_count = 3, .inputs = in, .output_names = &name};
    const qc_id clip = qc_graph_add_like(to, g, &g->nodes[2], &other, ST);
    MUST(clip);
    HOLD(qc_node_of(to, clip)->op == QC_OP_Clip, qc_node_of(to, clip)->input_count == 3,
         strcmp(qc_node_of(to, clip)->name, "bound") == 0, strcmp(to->values[clip].name, "mine") == 0);
}
