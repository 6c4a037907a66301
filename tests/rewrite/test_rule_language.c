// SPDX-License-Identifier: Apache-2.0
/* Alternatives, ops that may be missing, types, guards about weights, attributes in templates, targets and schemes. */
#include "graph/core/verify.h"
#include "graph/text/text.h"
#include "rewrite_passes.h"

/* The last lines of the text, from the first node on, after rewriting. */
static char *result(const char *rules, const char *graph)
{
    OWN(qc_graph) *g = test_graph(graph), *out = NULL;
    OWN(qc_rules) *r = passes_rules_of(rules);
    cr_assert(qc_rewrite(&out, NULL, g, r, ST), "%s: %s", rules, failure.message);
    MUST(qc_graph_verify(out, ST));
    char *text = qc_graph_print(out, &QC_TEXT_ALL, ST);
    return text;
}

#define HEAD                                                                                                           \
    "graph \"g\"\ninput %1 \"a\" f32[2]\ninput %2 \"b\" f32[2]\nconst %3 \"c\" f32[2] = {3, 4}\ninput %4 \"i\" "       \
    "u8[2]\n"

static const struct {
    const char *what, *rule, *nodes, *has; /* has: in the result; the rule's mark is Tanh */
} rewrites[] = {
    {"one of several ops: the first", "rule r match (Relu|Abs)(x) give Tanh(x)", "%9 = Relu(%1)", "Tanh(%1)"},
    {"the second", "rule r match (Relu|Abs)(x) give Tanh(x)", "%9 = Abs(%1)", "Tanh(%1)"},
    {"none", "rule r match (Relu|Abs)(x) give Tanh(x)", "%9 = Neg(%1)", "Neg(%1)"},
    {"the template takes the op that was found", "rule r match Tanh((Relu|Abs)(x)) give (Relu|Abs)(Erf(x))",
     "%8 = Abs(%1)\n%9 = Tanh(%8)", "Abs(%4)"},
    {"a set: the first", "set Mine = Relu | Abs\nrule r match Mine(x) give Tanh(x)", "%9 = Relu(%1)", "Tanh(%1)"},
    {"a set with a set: the last",
     "set Mine = Relu | Abs set More = Erf | Mine rule r match Tanh((More|Neg)(x)) give (More|Neg)(Ceil(x))",
     "%8 = Neg(%1)\n%9 = Tanh(%8)", "Neg(%4)"},
    {"alternatives: the first", "rule r match Relu((Abs(x) | Neg(x))) give Tanh(x)", "%8 = Abs(%1)\n%9 = Relu(%8)",
     "Tanh(%1)"},
    {"the second", "rule r match Relu((Abs(x) | Neg(x))) give Tanh(x)", "%8 = Neg(%1)\n%9 = Relu(%8)", "Tanh(%1)"},
    {"none", "rule r match Relu((Abs(x) | Neg(x))) give Tanh(x)", "%8 = Erf(%1)\n%9 = Relu(%8)", "Relu"},
    {"at the root", "rule r match (Relu(Abs(x)) | Neg(x)) give Tanh(x)", "%9 = Neg(%1)", "Tanh(%1)"},
    {"a name of one alternative is absent in the other",
     "rule r match Relu((Mul(x, const s) | x)) give Tanh(Div(x, (s else 7)))", "%9 = Relu(%1)", "{7}"},
    {"and there in its own", "rule r match Relu((Mul(x, const s) | x)) give Tanh(Div(x, (s else 7)))",
     "%8 = Mul(%1, %3)\n%9 = Relu(%8)", "Div(%1, %4)"},
    {"an op that may be missing is there", "rule r match Relu(Add?(x, const k)) give Tanh(Add?(Neg(x), k))",
     "%8 = Add(%1, %3)\n%9 = Relu(%8)", "Add(%4, %5)"},
    {"there and swapped", "rule r match Relu(Add?(x, const k)) give Tanh(Add?(Neg(x), k))",
     "%8 = Add(%3, %1)\n%9 = Relu(%8)", "Add(%4, %5)"},
    {"or is not", "rule r match Relu(Add?(x, const k)) give Tanh(Add?(Neg(x), k))", "%9 = Relu(%1)", "Tanh(%4)"},
    {"one that does not fit is part of the value", "rule r match Relu(Add?(x, const k)) give Tanh(Add?(Neg(x), k))",
     "%8 = Add(%1, %2)\n%9 = Relu(%8)", "Neg(%4)"},
    {"at the root", "rule r match Relu?(Abs(x)) give Relu?(Tanh(x))", "%9 = Abs(%1)", "%4 : f32[2] = Tanh(%1)"},
    {"a longer match of another rule goes first",
     "rule a match Relu?(Abs?(Neg(x))) give Erf(x)\nrule b match Abs(Neg(x)) give Tanh(x)\nrule c match Neg(x) give "
     "Ceil(x)",
     "%8 = Neg(%1)\n%9 = Floor(%8)", "Erf(%1)"},
    {"a type", "rule r match Relu(Cast(x : u8)) give Tanh(Cast(x))", "%8 = Cast(%4) {to=1}\n%9 = Relu(%8)", "Tanh"},
    {"another one", "rule r match Relu(Cast(x : i8)) give Tanh(Cast(x))", "%8 = Cast(%4) {to=1}\n%9 = Relu(%8)",
     "= Relu"},
    {"of a constant", "rule r match Add(x, const k : f32) give Tanh(x)", "%9 = Add(%1, %3)", "Tanh(%1)"},
    {"guard: type", "rule r match Relu(Cast(x)) when type(x) == uint8 give Tanh(Cast(x))",
     "%8 = Cast(%4) {to=1}\n%9 = Relu(%8)", "Tanh"},
    {"guard: dim", "rule r match Relu(x) when dim(x, -1) == 2 give Tanh(x)", "%9 = Relu(%1)", "Tanh"},
    {"guard: dim out of range", "rule r match Relu(x) when dim(x, 1) != 0 give Tanh(x)", "%9 = Relu(%1)", "Tanh"},
    {"guard: dim with an attribute",
     "rule r match Softmax(x) when dim(x, attribute(Softmax.axis = 5)) == 2 give Tanh(x)", "%9 = Softmax(%1) {axis=0}",
     "Tanh"},
    {"guard: its default is no axis",
     "rule r match Softmax(x) when dim(x, attribute(Softmax.axle = 5)) == 2 give Tanh(x)", "%9 = Softmax(%1) {axis=0}",
     "Softmax"},
    {"guard: least and greatest", "rule r match Add(x, const k) when least(k) == 3 and greatest(k) == 4 give Tanh(x)",
     "%9 = Add(%1, %3)", "Tanh"},
    {"guard: whole", "rule r match Add(x, const k) when whole(k) give Tanh(x)", "%9 = Add(%1, %3)", "Tanh"},
    {"guard: not whole", "rule r match Add(x, const k) when whole(k) give Tanh(x)",
     "const %8 f32[] = {0.5}\n%9 = Add(%1, %8)", "Add"},
    {"guard: waves", "rule r match Gather(const k, x) when waves(k) give Tanh(k)",
     "const %7 i64[1] = {1}\nconst %8 f32[6,1] = {0.00000, 0.47943, 0.84147, 0.99749, 0.90930, 0.59847}\n%9 = "
     "Gather(%8, %7)",
     "Tanh"},
    {"guard: no waves", "rule r match Gather(const k, x) when waves(k) give Tanh(k)",
     "const %7 i64[1] = {1}\nconst %8 f32[6,1] = {0.00000, 0.47943, 0.84147, 0.99749, 0.5, 0.59847}\n%9 = Gather(%8, "
     "%7)",
     "= Gather"},
    {"guard: single use", "rule r match Relu(x) when single_use(x) give Tanh(x)", "%8 = Abs(%1)\n%9 = Relu(%8)",
     "Tanh(%4)"},
    {"guard: two uses", "rule r match Relu(x) when single_use(x) give Tanh(x)",
     "%7 = Abs(%1)\n%8 = Relu(%7)\n%9 = Add(%7, %8)", "Relu"},
    {"guard: along channels", "rule r match Add(x, const k) when along_channels(k, x) give Tanh(x)",
     "const %7 i64[3] = {1, 2, 1}\nconst %8 f32[2,1] = {1, 2}\n%9 = Reshape(%1, %7)\n%10 = Add(%9, %8)", "Tanh"},
    {"guard: along another axis", "rule r match Add(x, const k) when along_channels(k, x) give Tanh(x)",
     "const %7 i64[3] = {1, 1, 2}\nconst %8 f32[2] = {1, 2}\n%9 = Reshape(%1, %7)\n%10 = Add(%9, %8)", "= Add"},
    {"guard: whole, of an absent one", "rule r match Clip(x, const l?) when whole(l) give Tanh(x)", "%9 = Clip(%1)",
     "Tanh"},
    {"guard: or", "rule r match Relu(x) when rank(x) == 3 or (dim(x, 0) + 1) * 2 == 6 give Tanh(x)", "%9 = Relu(%1)",
     "Tanh"},
    {"guard: that cannot be computed", "rule r match Relu(x) when dim(x, 7) + 1 != 0 give Tanh(x)", "%9 = Relu(%1)",
     "Relu"},
    {"guard: not", "rule r match Relu(x) when not rank(x) == 2 give Tanh(x)", "%9 = Relu(%1)", "Tanh"},
    {"guard: not, of what holds", "rule r match Relu(x) when not rank(x) == 1 give Tanh(x)", "%9 = Relu(%1)", "Relu"},
    {"guard: an attribute that is text",
     "rule r match Gelu(x) when attribute(Gelu.approximate = \"none\") == \"tanh\" give Tanh(x)",
     "%9 = Gelu(%1) {approximate=\"tanh\"}", "= Tanh"},
    {"guard: its default", "rule r match Gelu(x) when attribute(Gelu.approximate = \"none\") == \"tanh\" give Tanh(x)",
     "%9 = Gelu(%1)", "= Gelu"},
    {"guard: an element of an attribute",
     "rule r match Transpose(x) when attribute(Transpose.perm[1] = 1) == 0 give Tanh(x)",
     "const %7 i64[2] = {1, 2}\n%8 = Reshape(%1, %7)\n%9 = Transpose(%8) {perm=[1,0]}", "= Tanh"},
    {"a template's attributes", "rule r match Relu(x) give LeakyRelu(x) {alpha=0.25}", "%9 = Relu(%1)",
     "LeakyRelu(%1) {alpha=0.25f}"},
    {"in place of the matched op's", "rule r match Relu(LeakyRelu(x)) give LeakyRelu(x) {alpha=1.0}",
     "%8 = LeakyRelu(%1) {alpha=0.5f}\n%9 = Relu(%8)", "LeakyRelu(%1) {alpha=1f}"},
    {"whole numbers are ints", "rule r match Relu(x) give Softmax(x) {axis=-1}", "%9 = Relu(%1)", "{axis=-1}"},
    {"and lists", "rule r match Relu(x) give ReduceSum(x) {axes=[0], keepdims=1}", "%9 = Relu(%1)", "{axes=[0]"},
    {"and texts", "rule r match Relu(x) give Gelu(x) {approximate=\"tanh\"}", "%9 = Relu(%1)", "approximate=\"tanh\""},
};

Test(language, what_rules_rewrite)
{
    for (size_t i = 0; i < sizeof rewrites / sizeof *rewrites; i++) {
        char graph[1024];
        qc_text(graph, sizeof graph, "%s%s\noutput \"y\" %s\n", HEAD, rewrites[i].nodes,
                strstr(rewrites[i].nodes, "%10 =") ? "%10" : "%9");
        QC_FREED char *text = result(rewrites[i].rule, graph);
        cr_expect(strstr(text, rewrites[i].has), "%s: %s lacks '%s':\n%s", rewrites[i].what, rewrites[i].rule,
                  rewrites[i].has, text);
    }
}

/* ---- Guards about weights ---- */

static const struct {
    const char *guard, *weight, *attributes;
    bool holds;
} weights[] = {
    {"pointwise(w)", "4,4,1,1", "", true},
    {"pointwise(w)", "4,4,1,3", "", false},
    {"depthwise(w)", "4,1,3,3", "{group=4}", true},
    {"depthwise(w)", "4,2,3,3", "{group=2}", false},
    {"depthwise(w)", "4,4,3,3", "", false},
    {"groups(w) == channels(w)", "4,1,3,3", "{group=4}", true},
    {"groups(w) == channels(w)", "8,1,3,3", "{group=4}", false},
    {"groups(w) == 2 and channels(w) == 6", "6,2,1,1", "{group=2}", true},
    {"groups(x) == 1", "4,4,1,1", "", false},
    {"attribute(Conv.strides[0] = 1) == 2", "4,4,1,1", "{strides=[2,1]}", true},
    {"attribute(Conv.strides[0] = 1) == attribute(Conv.strides[1] = 1)", "4,4,1,1", "", true},
    {"attribute(Conv.strides[0] = 1) == attribute(Conv.strides[1] = 1)", "4,4,1,1", "{strides=[2,1]}", false},
};

Test(language, guards_about_weights)
{
    for (size_t i = 0; i < sizeof weights / sizeof *weights; i++) {
        char rule[256], graph[512];
        qc_text(rule, sizeof rule, "rule r match Conv(x, w) when %s give Tanh(x)", weights[i].guard);
        qc_text(graph, sizeof graph,
                "graph \"g\"\ninput %%1 \"x\" f32[1,4,5,5]\ninput %%2 \"w\" f32[%s]\n%%9 = Conv(%%1, %%2) %s\noutput "
                "\"y\" %%9\n",
                weights[i].weight, weights[i].attributes);
        QC_FREED char *text = result(rule, graph);
        cr_expect_eq(strstr(text, "Tanh") != NULL, weights[i].holds, "%s of [%s] %s", weights[i].guard,
                     weights[i].weight, weights[i].attributes);
    }
}

Test(language, channels_of_other_ops)
{
    static const struct {
        const char *op, *x, *w, *attributes;
        int channels;
    } cases[] = {
        {"ConvTranspose", "1,4,5,5", "4,3,1,1", "{group=2}", 6},
        {"MatMul", "2,3", "3,7", "", 7},
        {"Gemm", "2,3", "3,7", "", 7},
        {"Gemm", "2,3", "7,3", "{transB=1}", 7},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char rule[256], graph[512];
        qc_text(rule, sizeof rule, "rule r match %s(x, w) when channels(w) == %d give Tanh(x)", cases[i].op,
                cases[i].channels);
        qc_text(
            graph, sizeof graph,
            "graph \"g\"\ninput %%1 \"x\" f32[%s]\ninput %%2 \"w\" f32[%s]\n%%9 = %s(%%1, %%2) %s\noutput \"y\" %%9\n",
            cases[i].x, cases[i].w, cases[i].op, cases[i].attributes);
        QC_FREED char *text = result(rule, graph);
        cr_expect(strstr(text, "Tanh"), "%s:\n%s", cases[i].op, text);
    }
}

/* ---- Many ways ---- */

Test(language, a_rule_of_very_many_ways_comes_to_an_end, .timeout = 20)
{
    char rule[1024] = "rule r match Relu(Sum(";
    for (int i = 0; i < 8; i++) strcat(rule, i ? ", (a|a|a|a|a|a|a|a)" : "(a|a|a|a|a|a|a|a)");
    strcat(rule, ")) give a");
    OWN(qc_rules) *r = passes_rules_of(rule);
    OWN(qc_graph) *g = test_graph(HEAD "%8 = Sum(%1, %1, %1, %1, %1, %1, %1, %2)\n%9 = Relu(%8)\noutput \"y\" %9\n"),
                  *out = NULL;
    MUST(qc_rewrite(&out, NULL, g, r, ST));
    cr_expect_eq(passes_count(out, QC_OP_Relu), 1);
}

/* ---- Targets ---- */

Test(language, a_target_takes_its_own_template)
{
    static const char rules[] = "rule r match Relu(x) give Abs(x) target one give Neg(x) target two give Tanh(x)\n"
                                "rule only match Erf(x) target two give Ceil(x)";
    static const struct {
        const char *target;
        enum qc_op relu, erf;
    } cases[] = {{NULL, QC_OP_Abs, QC_OP_Erf},
                 {"one", QC_OP_Neg, QC_OP_Erf},
                 {"two", QC_OP_Tanh, QC_OP_Ceil},
                 {"other", QC_OP_Abs, QC_OP_Erf}};
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        const size_t c = i / 2;
        OWN(qc_graph) *g = test_graph(HEAD "%8 = Erf(%1)\n%9 = Relu(%8)\noutput \"y\" %9\n"), *out = NULL;
        OWN(qc_rules) *r = qc_rules_new(ST);
        if (i % 2) MUST(qc_rules_add_target(r, cases[c].target, ST)); /* before or after the rules are read */
        MUST(qc_rules_parse(r, "my.rules", rules, strlen(rules), ST));
        if (i % 2 == 0) MUST(qc_rules_add_target(r, cases[c].target, ST));
        MUST(qc_rewrite(&out, NULL, g, r, ST));
        cr_expect_eq(passes_count(out, cases[c].relu), 1, "target %s", cases[c].target ? cases[c].target : "none");
        cr_expect_eq(passes_count(out, cases[c].erf), 1, "target %s", cases[c].target ? cases[c].target : "none");
    }
}

Test(language, an_allow_list_entry_may_be_for_a_target_or_depend_on_attributes)
{
    OWN(qc_rules) *r = passes_rules_of("allow keep MaxPool when attribute(MaxPool.ceil_mode = 0) == 0\nallow keep Pad "
                                       "target one\nallow table Erf Mul target one\nallow table Tanh");
    OWN(qc_graph) *g =
        test_graph("graph \"g\"\ninput %1 \"x\" f32[1,1,4,4]\n%2 = MaxPool(%1) {kernel_shape=[2,2]}\n%3 = "
                   "MaxPool(%1) {ceil_mode=1, kernel_shape=[2,2]}\n"
                   "const %4 i64[8] = {0,0,1,1,0,0,1,1}\n%5 = Pad(%1, %4)\n%6 = Tanh(%5)\n%7 = "
                   "Erf(%6)\noutput \"a\" %2\noutput \"b\" %3\noutput \"c\" %7\n");
    cr_expect_eq(qc_rules_behaviour(r, g, &g->nodes[1]), QC_AFFINE_KEEP);
    cr_expect_eq(qc_rules_behaviour(r, g, &g->nodes[2]), QC_AFFINE_NONE);
    cr_expect_eq(qc_rules_behaviour(r, g, &g->nodes[3]), QC_AFFINE_NONE);
    cr_expect(qc_rules_in_table(r, g, &g->nodes[4]));
    cr_expect(!qc_rules_in_table(r, g, &g->nodes[5]));
    MUST(qc_rules_add_target(r, "one", ST));
    cr_expect_eq(qc_rules_behaviour(r, g, &g->nodes[3]), QC_AFFINE_KEEP);
    cr_expect(qc_rules_in_table(r, g, &g->nodes[5]));
}

/* ---- Qparams ---- */

Test(language, guards_about_qparams)
{
    static const char graph[] =
        "graph \"g\" simulated\nqparams @1 quantizer \"x\" u8 asymmetric bound scale 0.5 zero 0\nqparams @2 quantizer "
        "\"w\" i8 "
        "symmetric weight bound scale 0.25 zero 0\n"
        "qparams @3 product @1 @2\nqparams @4 quantizer \"y\" u8 asymmetric bound scale 0.25 zero 0\ninput %1 \"x\" "
        "f32[N,1,2,2]\n%2 : @1 = simulated_quantize(%1)\n"
        "const %3 \"w\" f32[1,1,1,1] = {1}\n%4 : @2 = simulated_quantize(%3)\n%5 \"c\" : @3 axis 1 = Conv(%2, %4)\n%6 "
        ": @3 axis 1 = Relu(%5)\n"
        "%7 : @4 = simulated_requantize(%6)\n%8 : @4 = Relu(%7)\n%9 = simulated_dequantize(%8)\noutput \"a\" %9\n";
    char *text = result("rule r match Relu(v : S) when site(S) give v", graph);
    cr_expect(strstr(text, "@3 axis 1 = Relu") && !strstr(text, "@4 = Relu"), "%s", text);
    free(text);
    text = result("rule r match Relu(v : S) when not site(S) give v", graph);
    cr_expect(!strstr(text, "@3 axis 1 = Relu") && strstr(text, "@4 = Relu"), "%s", text);
    free(text);
    text = result("rule r match Relu(v : u8 S) give v", graph);
    cr_expect(strstr(text, "@3 axis 1 = Relu") && !strstr(text, "@4 = Relu"), "%s", text);
    free(text);
    text = result("rule r match Relu(v : i32 A*B) give v", graph);
    cr_expect(!strstr(text, "@3 axis 1 = Relu") && strstr(text, "@4 = Relu"), "%s", text);
    free(text);
}
