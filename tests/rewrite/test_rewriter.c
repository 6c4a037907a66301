// SPDX-License-Identifier: Apache-2.0
/* Matching, rewriting until nothing matches, and rules that never end. */
#include "graph/core/verify.h"
#include "graph/text/text.h"
#include "rewrite_passes.h"
#include "simq/plan/plan.h"

/* The op that the graph's output comes from after rewriting. */
static enum qc_op rewritten(const char *rules, const char *graph)
{
    OWN(qc_graph) *g = test_graph(graph), *out = NULL;
    OWN(qc_rules) *r = passes_rules_of(rules);
    MUST(qc_rewrite(&out, NULL, g, r, ST));
    MUST(qc_graph_verify(out, ST));
    const struct qc_node *n = qc_node_of(out, out->outputs[0].value);
    enum qc_op op = n ? n->op : QC_OP_INVALID;
    return op;
}

enum { GRAPH = 512 };

/* A graph around lines that make %9 from the inputs %1, %2 and the constants %3, %4. */
static const char *graph_of(char text[GRAPH], const char *lines)
{
    static const char head[] = "graph \"g\"\ninput %1 \"a\" f32[2]\ninput %2 \"b\" f32[2]\n"
                               "const %3 \"c\" f32[2] = {3, 3}\nconst %4 \"d\" f32[2] = {1, 2}\n";
    return qc_text(text, GRAPH, "%s%s%s", head, lines, "output \"y\" %9\n");
}

static const struct {
    const char *what, *match, *node; /* node makes %9 */
    bool matches;
} matches[] = {
    {"a capture is any value", "Relu(x)", "%9 = Relu(%1)\n", true},
    {"an op is not another", "Relu(x)", "%9 = Abs(%1)\n", false},
    {"const wants a constant", "Add(x, const k)", "%9 = Add(%1, %2)\n", false},
    {"const takes one", "Add(x, const k)", "%9 = Add(%1, %3)\n", true},
    {"Add matches both ways", "Add(x, const k)", "%9 = Add(%3, %1)\n", true},
    {"Sub does not", "Sub(x, const k)", "%9 = Sub(%3, %1)\n", false},
    {"a repeated name is the same value", "Add(x, x)", "%9 = Add(%1, %1)\n", true},
    {"and no other", "Add(x, x)", "%9 = Add(%1, %2)\n", false},
    {"constants may be equal values", "Add(const x, const x)", "%9 = Add(%3, %3)\n", true},
    {"nested, in order", "Add(Mul(x, y), y)", "%8 = Mul(%1, %2)\n%9 = Add(%8, %2)\n", true},
    {"nested, inner swapped", "Add(Mul(x, y), y)", "%8 = Mul(%2, %1)\n%9 = Add(%8, %2)\n", true},
    {"nested, outer swapped", "Add(Mul(x, y), y)", "%8 = Mul(%1, %2)\n%9 = Add(%2, %8)\n", true},
    {"nested, both swapped", "Add(Mul(x, y), y)", "%8 = Mul(%2, %1)\n%9 = Add(%2, %8)\n", true},
    {"nested, another value", "Add(Mul(x, y), y)", "%8 = Mul(%1, %1)\n%9 = Add(%2, %8)\n", false},
    {"two branches, each swapped on its own", "Add(Mul(x, y), Max(x, y))",
     "%7 = Mul(%1, %2)\n%8 = Max(%2, %1)\n%9 = Add(%8, %7)\n", true},
    {"two branches that do not agree", "Sub(Mul(x, y), Sub(x, y))",
     "%7 = Mul(%1, %2)\n%8 = Sub(%1, %1)\n%9 = Sub(%7, %8)\n", false},
    {"an inner op that others use", "Relu(Abs(x))", "%7 = Abs(%1)\n%8 = Relu(%7)\n%9 = Add(%8, %7)\n", false},
    {"an optional argument that is there", "Clip(x, const lo?, const hi?)",
     "const %8 f32[] = {1}\n%9 = Clip(%1, %8, %8)\n", true},
    {"one that is an empty place", "Clip(x, const lo?, const hi?)", "const %8 f32[] = {1}\n%9 = Clip(%1, -, %8)\n",
     true},
    {"ones that are not there", "Clip(x, const lo?, const hi?)", "%9 = Clip(%1)\n", true},
    {"more arguments than the rule has", "Clip(x, const lo?)", "const %8 f32[] = {1}\n%9 = Clip(%1, %8, %8)\n", false},
    {"fewer than it needs", "Clip(x, const lo)", "%9 = Clip(%1)\n", false},
    {"guard: a comparison", "Relu(x) when rank(x) == 1", "%9 = Relu(%1)\n", true},
    {"guard: all must hold", "Relu(x) when rank(x) == 1 and elements(x) > 2", "%9 = Relu(%1)\n", false},
    {"guard: !=", "Relu(x) when elements(x) != 2", "%9 = Relu(%1)\n", false},
    {"guard: <= and >=", "Relu(x) when elements(x) <= 2 and elements(x) >= 2 and 1 < 2", "%9 = Relu(%1)\n", true},
    {"guard: an attribute that is there", "LeakyRelu(x) when attribute(LeakyRelu.alpha = 1) < 0.5",
     "%9 = LeakyRelu(%1) {alpha=0.25f}\n", true},
    {"guard: its default", "LeakyRelu(x) when attribute(LeakyRelu.alpha = 1) < 0.5", "%9 = LeakyRelu(%1)\n", false},
    {"guard: value of equal elements", "Add(x, const k) when value(k) == 3", "%9 = Add(%1, %3)\n", true},
    {"guard: elements that differ have none", "Add(x, const k) when value(k) == 1", "%9 = Add(%1, %4)\n", false},
    {"guard: one way round is enough", "Add(x, y) when value(x) == 3", "%9 = Add(%1, %3)\n", true},
    {"guard: activation", "Add(x, y) when activation(x) and activation(y)", "%9 = Add(%1, %3)\n", false},
    {"guard: real", "Relu(x) when real(x)", "%9 = Relu(%1)\n", true},
    {"guard: of an absent value", "Clip(x, const lo?) when elements(lo) == 1", "%9 = Clip(%1)\n", false},
    {"a result of several is no op of a match", "Relu(Split(x))", "%7, %8 = Split(%1) {axis=0}\n%9 = Relu(%7)\n",
     false},
};

Test(match, what_a_rule_matches)
{
    for (size_t i = 0; i < sizeof matches / sizeof *matches; i++) {
        char rule[512], graph[GRAPH];
        qc_text(rule, sizeof rule, "rule r match %s give Tanh(x)", matches[i].match);
        cr_expect_eq(rewritten(rule, graph_of(graph, matches[i].node)) == QC_OP_Tanh, matches[i].matches,
                     "%s: %s on %s", matches[i].what, matches[i].match, matches[i].node);
    }
}

Test(match, the_longest_match_wins_whatever_the_order)
{
    char text[GRAPH];
    const char *graph = graph_of(text, "%8 = Abs(%1)\n%9 = Relu(%8)\n");
    cr_expect_eq(rewritten("rule a match Relu(x) give Tanh(x)\nrule b match Relu(Abs(x)) give Erf(x)", graph),
                 QC_OP_Erf);
    cr_expect_eq(rewritten("rule b match Relu(Abs(x)) give Erf(x)\nrule a match Relu(x) give Tanh(x)", graph),
                 QC_OP_Erf);
}

static char *result(const char *rules, const char *graph)
{
    OWN(qc_graph) *g = test_graph(graph), *out = NULL;
    OWN(qc_rules) *r = passes_rules_of(rules);
    MUST(qc_rewrite(&out, NULL, g, r, ST));
    char *text = qc_graph_print(out, &QC_TEXT_ALL, ST);
    return text;
}

Test(build, templates_make_constants_and_keep_names)
{
    static const struct {
        const char *rule, *node, *expected; /* the lines behind the inputs and constants c and d */
    } cases[] = {
        {"rule r match Relu(x) give Mul(x, 0.5)", "%9 \"z\" = Relu \"n\"(%1)\n",
         "const %3 f32[] = {0.5}\n%4 \"z\" : f32[2] = Mul \"n\"(%1, %3)\noutput \"y\" %4\n"},
        {"rule r match Relu(x) give Reshape(x, [2,-1])", "%9 \"z\" = Relu \"n\"(%1)\n",
         "const %3 i64[2] = {2, -1}\n%4 \"z\" : f32[2,1] = Reshape \"n\"(%1, %3)\noutput \"y\" %4\n"},
        {"rule r match LeakyRelu(x) give Mul(x, attribute(LeakyRelu.alpha = 0.01))",
         "%9 = LeakyRelu(%1) {alpha=0.25f}\n", "const %3 f32[] = {0.25}\n%4 : f32[2] = Mul(%1, %3)\noutput \"y\" %4\n"},
        {"rule r match Clip(x, const l?) give Max(x, l)", "%9 = Clip(%1)\n",
         "%3 : f32[2] = Max(%1)\noutput \"y\" %3\n"},
        {"rule r match Clip(x, const l?) give Max(x, (l else 7))", "%9 = Clip(%1)\n",
         "const %3 f32[] = {7}\n%4 : f32[2] = Max(%1, %3)\noutput \"y\" %4\n"},
        {"rule r match Relu(Relu(x)) give Relu(x)", "%8 \"i\" = Relu \"inner\"(%1)\n%9 \"o\" = Relu \"outer\"(%8)\n",
         "%3 \"o\" : f32[2] = Relu \"outer\"(%1)\noutput \"y\" %3\n"},
        {"rule r match Relu(Abs(x)) give x", "%8 = Abs(%1)\n%9 \"z\" = Relu(%8)\n", "output \"y\" %1\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char graph[512], expected[512];
        qc_text(graph, sizeof graph,
                "graph \"g\"\ninput %%1 \"a\" f32[2]\ninput %%2 \"b\" f32[2]\n%soutput \"y\" %%9\n", cases[i].node);
        qc_text(expected, sizeof expected, "graph \"g\" opset 0\ninput %%1 \"a\" f32[2]\ninput %%2 \"b\" f32[2]\n%s",
                cases[i].expected);
        QC_FREED char *text = result(cases[i].rule, graph);
        cr_expect_str_eq(text, expected, "%s:\n%s", cases[i].rule, text);
    }
}

Test(build, vector_and_column_give_shapes)
{
    /* vector: one dimension; column: along axis 0 of a tensor of the rank of the second */
    const char *graph = "graph \"g\"\ninput %1 \"a\" f32[1,2,1,1]\nconst %2 \"k\" f32[2,1,1] = {5, 6}\nconst %3 \"w\" "
                        "f32[1,1,1,1] = {1}\n"
                        "%4 = Add(%1, %2)\n%5 = Mul(%4, %3)\noutput \"y\" %5\n";
    char *vector = result("rule r match Mul(Add(x, const k), const w) give Max(vector(k), vector(w))", graph);
    cr_expect(strstr(vector, "f32[2] = {5, 6}") && strstr(vector, "f32[1] = {1}") && strstr(vector, "f32[2] = Max"),
              "%s", vector);
    free(vector);
    QC_FREED char *column = result("rule r match Mul(Add(x, const k), const w) give Add(x, column(k, w))", graph);
    cr_expect(strstr(column, "f32[2,1,1,1] = {5, 6}"), "%s", column);
}

Test(build, a_template_that_cannot_be_made_is_an_error_that_names_rule_and_value)
{
    static const struct {
        const char *rule, *node, *message;
    } cases[] = {
        {"rule r match Relu(x) give Relu(x, x)", "%9 \"z\" = Relu(%1)\n", "rule 'r' at 'z': "},
        {"rule r match Clip(x, const l?) give l", "%9 \"z\" = Clip(%1)\n", "rule 'r' at 'z': "},
        {"rule r match Relu(x) give MatMul(x, [1,2,3])", "%9 \"z\" = Relu(%1)\n", "rule 'r' at 'z': "},
        {"rule r match Relu(x) give Reshape(x, [7])", "%9 \"z\" = Relu(%1)\n", "rule 'r' at 'z': "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char graph[GRAPH];
        OWN(qc_graph) *g = test_graph(graph_of(graph, cases[i].node)), *out = NULL;
        OWN(qc_rules) *r = passes_rules_of(cases[i].rule);
        REFUSES_ROW(cases[i].rule, qc_rewrite(&out, NULL, g, r, ST), QC_BAD_INPUT, "");
        cr_expect(strncmp(failure.message, cases[i].message, strlen(cases[i].message)) == 0, "%s: %s", cases[i].rule,
                  failure.message);
    }
}

Test(build, a_pattern_whose_qparams_belong_to_nothing_or_no_axis_is_an_error)
{
    static const char *const patterns[] = {
        "pattern p match Conv(x, const w) affine dq(Conv(q(x : X), q(w : W per 0)) : Y*W)",
        "pattern p match Conv(x, const w) affine dq(Conv(q(x : X), q(w : W per 0)) : X*V)",
        "pattern p match Conv(x, const w) affine dq(Conv(q(x : X), q(w : W per 4)) : X*W)",
    };
    static const char *const missing[] = {"'Y'", "'V'", "'w' of shape [1,1,1,1] per 4"};
    OWN(qc_graph) *g =
        test_graph("graph \"g\"\ninput %1 \"x\" f32[1,1,2,2]\nconst %2 \"w\" f32[1,1,1,1] = {1}\n%3 \"y\" = "
                   "Conv(%1, %2)\noutput \"y\" %3\n");
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        struct qc_partition_options options = QC_PARTITION_INIT;
        OWN(qc_partition) *p = NULL;
        struct qc_graph *out = NULL;
        OWN(qc_rules) *r = passes_rules_of(patterns[i]);
        MUST(qc_partition_new(&p, g, r, &options, ST));
        cr_expect(!qc_simulate(&out, p, ST));
        cr_expect(failure.code == QC_BAD_INPUT && strstr(failure.message, "'p'") && strstr(failure.message, missing[i]),
                  "%s: %s", patterns[i], failure.message);
    }
}

/* ---- Rules that never end ---- */

static const struct {
    const char *what, *rules, *node, *named;
} endless[] = {
    {"the same again", "rule again match Relu(x) give Relu(x)", "%9 = Relu(%1)\n", "'again'"},
    {"to and fro", "rule to match Relu(x) give Abs(x)\nrule fro match Abs(x) give Relu(x)", "%9 = Relu(%1)\n",
     "rule '"},
    {"doubling", "rule double match Relu(x) give Relu(Relu(x))", "%9 = Relu(%1)\n", "'double'"},
    {"growing by one", "rule grow match Relu(x) give Relu(Abs(x))", "%9 = Relu(%1)\n", "'grow'"},
    {"growing in width", "rule wide match Relu(x) give Add(Relu(Mul(x, 2)), Relu(Mul(x, 3)))", "%9 = Relu(%1)\n",
     "'wide'"},
    {"only after folding", "rule turn match Mul(x, const k) give Mul(x, Neg(k))", "%9 = Mul(%1, %3)\n", "'turn'"},
    {"the same after folding", "rule still match Mul(x, const k) give Mul(x, Mul(k, 1))", "%9 = Mul(%1, %3)\n",
     "'still'"},
    {"counting after folding", "rule count match Add(x, const k) give Add(x, Add(k, 1))", "%9 = Add(%1, %3)\n",
     "'count'"},
};

Test(rewriter, rules_that_never_end_are_named, .timeout = 60)
{
    for (size_t i = 0; i < sizeof endless / sizeof *endless; i++) {
        char graph[GRAPH];
        OWN(qc_graph) *g = test_graph(graph_of(graph, endless[i].node)), *out = NULL;
        OWN(qc_rules) *r = passes_rules_of(endless[i].rules);
        REFUSES_ROW(endless[i].what, qc_normalise(&out, g, r, qc_evaluate, ST), QC_BAD_INPUT, "");
        cr_expect(strncmp(failure.message, "my.rules:", 9) == 0 && strstr(failure.message, endless[i].named), "%s: %s",
                  endless[i].what, failure.message);
    }
}

/* A chain that takes one round per link is no endless rule. */
Test(rewriter, long_chains_come_to_an_end)
{
    const int links = 600 / (int)test_one_of(1, 3);
    struct qc_status st = QC_STATUS_INIT;
    const struct qc_shape image = QC_SHAPE(QC_FREE, 1, 2, 2), one = QC_SHAPE(1, 1, 1, 1);
    OWN(qc_graph) *g = qc_graph_new(&st), *out = NULL;
    qc_id v[2] = {qc_graph_add_input(g, "x", QC_F32, &image, &st), 0};
    for (int i = 0; i <= links; i++) {
        float scale = i ? 1 + 1e-3f * (float)i : 1;
        struct qc_tensor *t = qc_tensor_of(QC_F32, &one, &scale, &st);
        v[1] = qc_graph_add_constant(g, NULL, t, &st);
        qc_tensor_unref(t);
        struct qc_node_def def = {.op = i ? QC_OP_Mul : QC_OP_Conv, .input_count = 2, .inputs = v};
        cr_assert(v[0] = qc_graph_add(g, &def, &st), "%s", st.message);
    }
    cr_assert(qc_graph_add_output(g, "y", v[0], &st));
    OWN(qc_rules) *r = passes_rules(NULL, &st);
    cr_expect(qc_normalise(&out, g, r, qc_evaluate, &st), "%s", st.message);
    if (out) cr_expect_eq(out->node_count, 1, "%zu nodes", out->node_count);
}

Test(rewriter, counts_what_it_applied)
{
    char text[GRAPH];
    OWN(qc_graph) *g = test_graph(graph_of(text, "%7 = Relu(%1)\n%8 = Relu(%2)\n%9 = Add(%7, %8)\n")), *out = NULL;
    OWN(qc_rules) *r = passes_rules_of("rule r match Relu(x) give Abs(x)");
    size_t applied = 99;
    MUST(qc_rewrite(&out, &applied, g, r, ST));
    cr_expect_eq(applied, 2);
}
