// SPDX-License-Identifier: Apache-2.0

#include "graph_cases.h"
#include "tests/check.h"

/* Types of the results of the last node, as in graph_case.expected. */
static void results_text(char buf[1024], const struct qc_graph *g)
{
    const struct qc_node *n = &g->nodes[g->node_count];
    char one[160];
    *buf = '\0';
    for (unsigned k = 0; k < n->output_count; k++) {
        if (k) strcat(buf, " ");
        strcat(buf, type_text(one, &g->values[n->outputs + k].type));
    }
}

Test(rules, give_the_shapes_of_the_operator_documentation)
{
    for (size_t i = 0; i < graph_case_count; i++) {
        char *text = graph_case_text(&graph_cases[i]), got[1024];
        OWN(qc_graph) *g = test_graph(text);
        results_text(got, g);
        cr_expect_str_eq(got, graph_cases[i].expected, "%s of %s: expected %s, got %s", graph_cases[i].node,
                         graph_cases[i].inputs, graph_cases[i].expected, got);
        free(text);
    }
}

/* Shapes that ONNX Runtime gave when it ran the nodes (make_infer_reference.py). */
Test(rules, agree_with_onnx_runtime)
{
    FILE *f = fopen(QC_TEST_SOURCE "/tests/graph/infer_reference.txt", "r");
    char line[2048];
    size_t cases = 0;
    cr_assert_not_null(f);
    while (fgets(line, sizeof line, f)) {
        if (*line == '#') continue;
        char *save, *inputs = strtok_r(line, "\t", &save), *node = strtok_r(NULL, "\t", &save),
                    *expected = strtok_r(NULL, "\n", &save);
        cr_assert(inputs && node && expected, "line %zu", cases);
        struct graph_case c = {.inputs = inputs, .node = node, .expected = expected};
        struct qc_graph *g = NULL;
        char *text = graph_case_text(&c), got[1024] = "";
        if (qc_graph_parse(&g, text, strlen(text), ST)) results_text(got, g);
        cr_expect_str_eq(got, expected, "%s of %s: expected %s, got %s %s", node, inputs, expected, got,
                         failure.message);
        qc_graph_free(g);
        free(text);
        cases++;
    }
    fclose(f);
    cr_expect_geq(cases, 200, "only %zu cases", cases);
}

Test(rules, refuse_what_does_not_fit_with_code_and_reason)
{
    for (size_t i = 0; i < bad_graph_case_count; i++) {
        const struct graph_case *c = &bad_graph_cases[i];
        struct qc_graph *g = NULL;
        QC_FREED char *text = graph_case_text(c);
        bool ok = qc_graph_parse(&g, text, strlen(text), ST);
        cr_expect(!ok, "accepted: %s of %s", c->node, c->inputs);
        cr_expect_null(g);
        cr_expect_eq(failure.code, c->code, "%s of %s: code %d, %s", c->node, c->inputs, (int)failure.code,
                     failure.message);
        cr_expect(strstr(failure.message, c->expected), "%s of %s: expected '%s' in '%s'", c->node, c->inputs,
                  c->expected, failure.message);
        cr_expect(strstr(failure.message, "node 'y0' ("), "the message names the node: %s", failure.message);
        if (ok) qc_graph_free(g);
    }
}

Test(rules, every_op_has_a_case)
{
    bool seen[QC_OP_COUNT] = {false};
    for (size_t i = 0; i < graph_case_count; i++) {
        char name[64] = {0};
        memcpy(name, graph_cases[i].node, strcspn(graph_cases[i].node, "("));
        enum qc_op op = qc_op_from_name(name);
        cr_assert_neq(op, QC_OP_INVALID, "%s", name);
        seen[op] = true;
    }
    for (int op = 1; op < QC_OP_COUNT; op++) {
        const struct qc_op_info *info = qc_op_info((enum qc_op)op);
        cr_expect(seen[op] || info->unary || !info->onnx[0], "no case for %s", info->name);
    }
}

Test(rules, unary_rows_keep_the_type)
{
    for (int op = 1; op < QC_OP_COUNT; op++) {
        const struct qc_op_info *info = qc_op_info((enum qc_op)op);
        if (!info->unary) continue;
        OWN(qc_graph) *g = qc_graph_new(&QC_STATUS_INIT);
        const struct qc_shape shape = QC_SHAPE(QC_FREE, 3);
        qc_id x = qc_graph_add_input(g, "x", QC_F32, &shape, ST), k = qc_graph_add_input(g, "k", QC_I64, &shape, ST);
        qc_id y = qc_graph_add(g, &(struct qc_node_def){.op = (enum qc_op)op, .input_count = 1, .inputs = &x}, ST);
        cr_assert_neq(y, 0, "%s", failure.message);
        cr_expect_eq(qc_value(g, y)->type.dtype, QC_F32);
        cr_expect(qc_shape_equal(&qc_value(g, y)->type.shape, &qc_value(g, x)->type.shape));
        cr_expect_eq(qc_graph_add(g, &(struct qc_node_def){.op = (enum qc_op)op, .input_count = 1, .inputs = &k}, ST),
                     0);
    }
}
