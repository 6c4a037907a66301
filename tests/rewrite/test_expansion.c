// SPDX-License-Identifier: Apache-2.0
/* Functions: queries, results, the choice between functions, and messages about mistakes. */
#include "graph/text/text.h"
#include "rewrite/language/expansion.h"
#include "rewrite/language/expansion_parts.h"
#include "tests/check.h"

#define HEAD "graph \"g\"\ninput %1 \"x\" f32[N,4,6]\nconst %2 \"c\" i64[2] = {5, -7}\n"
enum { OUTPUTS = 2 };

/* The lines that F(x, c) {a=3, t="word"} adds, or the message of why it cannot be. */
static char *expanded(const char *rules, const char *name, int opset, bool *fits)
{
    static const bool wanted[OUTPUTS] = {true, false};
    const struct qc_attr attrs[] = {QC_INT("a", 3), QC_STRING("t", "word")};
    const qc_id inputs[] = {1, 2};
    const struct qc_call call =
        FIELDS(.op = name, .label = "node", .opset = opset, .input_count = 2, .output_count = OUTPUTS, .attr_count = 2,
               .inputs = inputs, .attrs = attrs, .wanted = wanted);
    struct qc_status st = QC_STATUS_INIT;
    OWN(qc_rules) *r = qc_rules_new(&st);
    qc_id outputs[OUTPUTS] = {0};
    char *text;
    OWN(qc_graph) *g = test_graph(HEAD);
    *fits = true;
    if (qc_rules_parse(r, "my.rules", rules, strlen(rules), &st)) {
        const struct qc_expander x = qc_rules_expander(r);
        if (!x.knows(x.user, name, opset))
            *fits = false;
        else if (x.expand(outputs, fits, x.user, g, &call, &st) && *fits)
            cr_assert(qc_graph_add_output(g, "y", outputs[0], &st), "%s", st.message);
    }
    if (st.code != QC_OK)
        text = strdup(st.message);
    else
        text = qc_graph_print(g, &QC_TEXT_ALL, &st);
    return text;
}

static const struct {
    const char *what, *body,
        *has; /* body: behind "function F(x, c) {a, t}"; has: in the text of the graph or the error */
} cases[] = {
    {"an op", "give Relu(x)", "= Relu \"node/Relu\"(%1)"},
    {"names are counted", "give Relu(Neg(Relu(x)))", "Relu \"node/Relu_1\""},
    {"equal ops are one", "give Relu(x) + Relu(x)", "Add \"node/Add\"(%3, %3)"},
    {"a number has the type of the tensor", "give x * 2", "f32[] = {2}"},
    {"signs bind as in arithmetic", "give x * (1 + 2 * 3 - 4 / 2)", "= {5}"},
    {"a number with its sign", "let n = a -1 give x * n", "= {2}"},
    {"division without a rest is whole", "give Reshape(x, [0, 24 / 3, a])", "= {0, 8, 3}"},
    {"with a rest it is real", "give x * (1 / 2)", "= {0.5}"},
    {"a list is spliced into a list", "give Transpose(x) {perm = [2, seq(0, 2)]}", "perm=[2,0,1]"},
    {"lists are computed element by element", "give Reshape(x, [0, 1] * 21 + a)", "= {3, 24}"},
    {"fixed dimensions are numbers", "give Reshape(x, [-1, dim(x, 1) * dim(x, -1)])", "= {-1, 24}"},
    {"free ones are taken while the model runs", "give Reshape(x, [dim(x, 0), 24])", "Concat \"node/Concat\""},
    {"shape of all", "give Reshape(x, shape(x, 1))", "= {4, 6}"},
    {"numbers of a constant", "give x * items(c)[1]", "= {-7}"},
    {"several elements", "give x * (items(c)[[1, 0, 1]] + 1)[2]", "= {-6}"},
    {"replaced elements", "give Reshape(x, replace([1, 2, 3], [-1, 0], [8, 9]))", "= {9, 2, 8}"},
    {"least and greatest", "give Reshape(x, [min([1, 9], 4), max(2, 6), -1])", "= {1, 4, 6, -1}"},
    {"text and conditions", "give if t == \"word\" and not a < 3 then Relu(x) else Neg(x)", "Relu"},
    {"computed from constants", "give if constant(c + 1) then Relu(x) else Neg(x)", "Relu"},
    {"not from constants alone", "give if constant(x * 2) then Relu(x) else Neg(x)", "Neg"},
    {"or", "give if t != \"word\" or a >= 4 then Relu(x) else Neg(x)", "Neg"},
    {"what is not known compares with nothing", "give if dim(x, 0) == 1 then Relu(x) else Neg(x)", "Neg"},
    {"types", "give if dtype(x) == f32 then cast(x, f64) else x", "{to=11}"},
    {"a cast to its own type is none", "give cast(x, f32)", "output \"y\" %1"},
    {"several outputs", "let p, q = Split(x) {axis = 1} give q - p", "(%4, %3)"},
    {"outputs nobody reads are not built", "give Relu(x), Neg(x)", "!Neg"},
    {"a let that is not needed may be wrong", "let n = 1 % 0 give x", "output"},
    {"functions of functions", "give my.domain::G(x) {k = a} function my.domain::G(x) {k} give x * k", "= {3}"},
    {"a clause that does not hold", "when a == 4 give x function F(x, c) {a, t} give Erf(x)", "Erf"},
    {"no clause holds", "when a == 4 give x", "-"},
    {"a refusal", "refuse \"three is too many\" when a == 3 give x", "three is too many"},
    {"an axis", "give Softmax(x) {axis = axis(x, -2)}", "axis=1"},
    {"an axis that is none", "give Softmax(x) {axis = axis(x, 3)}", "my.rules:1:49: axis 3 of a tensor of 3 dim"},
    {"a size divided by 0", "give x * (a / 0)", "divided by 0"},
    {"numbers too large", "give x * (9223372036854775807 * 2)", "too large"},
    {"lists that are too long", "give Reshape(x, repeat(1, 65))", "more than 64"},
    {"lists of other length", "give Reshape(x, [1, 2] + [1, 2, 3])", "different length"},
    {"an op that refuses", "give MatMul(x, x)", "node/MatMul"},
    {"a function without end", "give F(x, c) {a = a, t = t}", "too deep"},
    {"an unknown function", "give G(x)", "no function 'G' fits"},
    {"an attribute that is not named", "give F(x, c) {b = 1}", "attribute 'b' is not handled"},
    {"an attribute that is missing", "give F(x, c) {a = 1}", "attribute 't' is missing"},
    {"an input that is missing", "give F(x)", "input 1 (c) is missing"},
    {"an unknown name", "give y", "my.rules:1:30: expected an input"},
    {"a name that is taken", "let a = 1 give x", "a name that is not taken"},
    {"nothing given", "let b = 1", "expected 'give'"},
    {"several names of no op", "let b, d = x give b", "an op, which has several outputs"},
    {"a name that is ignored", "ignore t, c give x", "output \"y\" %1"},
    {"an unknown name is ignored", "ignore u give x", "my.rules:1:32: expected an input or an attribute"},
    {"an input that is left out", "give G(x) function G(x, y?) give x * rank(y)", "an input that is needed is missing"},
    {"arithmetic with a text", "give x * (t + 1)", "arithmetic with a text"},
};

Test(expansion, what_functions_compute)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char rules[512];
        bool fits, not_there = *cases[i].has == '!';
        qc_text(rules, sizeof rules, "function F(x, c) {a, t} %s", cases[i].body);
        QC_FREED char *text = expanded(rules, "F", 13, &fits);
        if (strcmp(cases[i].has, "-") == 0)
            cr_expect_not(fits, "%s: %s", cases[i].what, text);
        else
            cr_expect((strstr(text, cases[i].has + not_there) != NULL) != not_there, "%s:\n%s", cases[i].what, text);
    }
}

Test(expansion, the_opset_decides)
{
    static const char rules[] =
        "function F(x, c) opset 9 to 12 {a, t} give Neg(x) function F(x, c) opset 13 {a, t} give Erf(x)";
    static const struct {
        int opset;
        const char *has;
    } taken[] = {{8, NULL}, {9, "Neg"}, {12, "Neg"}, {13, "Erf"}, {28, "Erf"}};
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        bool fits;
        QC_FREED char *text = expanded(rules, "F", taken[i].opset, &fits);
        cr_expect_eq(fits, taken[i].has != NULL);
        cr_expect(!fits || strstr(text, taken[i].has), "%s", text);
    }
}

Test(expansion, a_later_file_stands_in_place_of_all_functions_of_the_name)
{
    OWN(qc_rules) *r = qc_rules_new(ST);
    MUST(qc_rules_add_builtin(r, "functions.rules", ST));
    const size_t before = r->function_count;
    static const char text[] = "function GroupNormalization(x, scale, bias) {num_groups} give x";
    MUST(qc_rules_parse(r, "my.rules", text, strlen(text), ST));
    cr_expect_eq(r->function_count, before - 1);
}

/* An input or attribute that changes numbers must not be forgotten. tests/e2e/test_function_schemas.py compares what is
   declared with the schemas of the operators. */
Test(expansion, built_in_functions_read_all_that_they_declare)
{
    static const char *const files[] = {"functions.rules", "functions_ml.rules", "functions_products.rules",
                                        "functions_written.rules"};
    OWN(qc_rules) *r = qc_rules_new(ST);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) MUST(qc_rules_add_builtin(r, files[i], ST));
    for (size_t i = 0; i < r->function_count; i++) {
        const struct qc_function_rule *f = &r->functions[i];
        for (unsigned k = 0; k < f->slot_count; k++)
            cr_expect(f->slots[k].read || f->slots[k].count > 1, "%s:%u: %s does not read '%s'", f->file, f->line,
                      f->name, f->slots[k].name);
    }
}

/* Messages of built-in functions are for users: they name inputs and attributes of the call. */
Test(expansion, messages_of_built_in_functions)
{
    const struct {
        const char *op, *message;
        unsigned inputs;
        struct qc_attr attr;
    } calls[] = {
        {"com.microsoft::FusedGemm", "its a, b, c, alpha, beta, transA, transB: ", 2, QC_INT("transA", 1)},
        {"CausalConvWithState", "its activation: this activation is not handled", 2, QC_STRING("activation", "E")},
        {"GroupNormalization", "its x, num_groups, stash_type: ", 3, QC_INT("num_groups", 5)},
        {"RMSNormalization", "its x, axis: axis 7 of a tensor of 3 dimensions", 2, QC_INT("axis", 7)},
        {"CausalConvWithState", "its weight: axis 2 of a tensor of 1 dimensions", 2, QC_STRING("activation", "none")},
    };
    static const bool wanted[] = {true};
    static const qc_id inputs[] = {1, 2, 2};
    OWN(qc_rules) *r = qc_rules_new(ST);
    MUST(qc_rules_add_builtin(r, "functions.rules", ST));
    const struct qc_expander x = qc_rules_expander(r);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        qc_id out = 0;
        bool fits = true;
        OWN(qc_graph) *g = test_graph(HEAD);
        const struct qc_call call =
            FIELDS(.op = calls[i].op, .label = "node", .opset = 23, .input_count = calls[i].inputs, .output_count = 1,
                   .attr_count = 1, .inputs = inputs, .attrs = &calls[i].attr, .wanted = wanted);
        cr_expect_not(x.expand(&out, &fits, x.user, g, &call, ST), "%s", calls[i].op);
        cr_expect(strncmp(failure.message, calls[i].message, strlen(calls[i].message)) == 0, "%s: %s", calls[i].op,
                  failure.message);
        cr_expect_not(strstr(failure.message, ".rules"), "%s", failure.message);
    }
}
