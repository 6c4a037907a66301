// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"
#include "graph/core/verify.h"
#include "rewrite_passes.h"
#include "tests/graph_reader/graph_reader.h"

static bool parse(struct qc_rules *r, const char *text, struct qc_status *st)
{
    return qc_rules_parse(r, "my.rules", text, strlen(text), st);
}

static const struct {
    const char *text, *message; /* message: exactly */
} errors[] = {
    {"nothing", "my.rules:1:1: expected rule, pattern, island, cost, refuse, function, allow or set, got 'nothing'"},
    {"\n  rule", "my.rules:2:7: expected the name of the rule, got the end of the file"},
    {"rule r match x", "my.rules:1:14: expected a match that begins with an op, got 'x'"},
    {"rule r give x", "my.rules:1:8: expected 'match', got 'give'"},
    {"rule r match Relu(x)", "my.rules:1:21: expected 'give', got the end of the file"},
    {"rule r match Relu(x) affine x", "my.rules:1:22: expected 'give', got 'affine'"},
    {"pattern r match Relu(x) give x", "my.rules:1:25: expected 'affine', got 'give'"},
    {"pattern p\n  match Relu(x)\n  affine Relu(q(x : X))",
     "my.rules:3:10: expected a template of the form dq(... : QPARAMS), got 'Relu'"},
    {"rule r match Rela(x) give x",
     "my.rules:1:14: expected the name of an op (qcalib list ops), q, dq or requantize, got 'Rela'"},
    {"rule r match relu(x) give x",
     "my.rules:1:14: expected the name of an op (qcalib list ops), q, dq or requantize, got 'relu'"},
    {"rule r match Relu(X) give x",
     "my.rules:1:19: expected a value (a name in lower case) or an op with its arguments, got 'X'"},
    {"rule r match Relu(x give x", "my.rules:1:21: expected ')', got 'give'"},
    {"rule r match Relu() give x", "my.rules:1:19: expected a value, an op or q, dq, requantize, got ')'"},
    {"rule r match Relu(x) give y", "my.rules:1:27: expected a name of the match, got 'y'"},
    {"rule r\n  match Add(x, y)\n  give  Relu(z)", "my.rules:3:14: expected a name of the match, got 'z'"},
    {"rule r match q(x) give x", "my.rules:1:17: expected one argument and its qparams, as in q(x : X), got ')'"},
    {"rule r match q(x : s) give x", "my.rules:1:20: expected qparams (a name in upper case), got 's'"},
    {"rule r match q(x : S per 8) give x", "my.rules:1:26: expected an axis from 0 to 7, got '8'"},
    {"rule r match q(x : S per -1) give x", "my.rules:1:26: expected an axis from 0 to 7, got '-1'"},
    {"rule r match q(x : S per 0.5) give x", "my.rules:1:26: expected an axis from 0 to 7, got '0.5'"},
    {"rule r match Relu(x) give q(x : S)", "my.rules:1:33: expected qparams of the match, got 'S'"},
    {"rule r match Relu(x) when at_floor(S) give x", "my.rules:1:36: expected qparams of the match, got 'S'"},
    {"pattern p match Relu(x) when at_floor(X) affine dq(Relu(q(x : X)) : Z)",
     "my.rules:1:39: expected qparams of the match, got 'X'"},
    {"rule r match Relu(x) when big(x) give x",
     "my.rules:1:27: expected the name of a guard (docs/rule-language.md), got 'big'"},
    {"rule r match Relu(x) when rank(x give x", "my.rules:1:34: expected ')', got 'give'"},
    {"rule r match Relu(x) when rank(y) == 2 give x", "my.rules:1:32: expected a name of the match, got 'y'"},
    {"rule r match Relu(x) when rank(x) == give x",
     "my.rules:1:38: expected the name of a guard (docs/rule-language.md), got 'give'"},
    {"rule r match Relu(x) when attribute(Relu) == 1 give x", "my.rules:1:41: expected '.', got ')'"},
    {"rule r match Relu(x) when attribute(Rela.a = 1) == 1 give x",
     "my.rules:1:37: expected the name of an op (qcalib list ops), got 'Rela'"},
    {"rule r match Relu(x) when attribute(Relu.alpha = 0.5.5) == 1 give x",
     "my.rules:1:50: expected a number, got '0.5.5'"},
    {"rule r match Relu(x) give Transpose(x, [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17])",
     "my.rules:1:80: expected at most 16 arguments, got '17'"},
    {"rule r match Relu(x) give Add(x, vector(x, x))", "my.rules:1:34: expected vector(e), got 'vector'"},
    {"rule r match Relu(x) give Add(x, column(x))", "my.rules:1:34: expected column(e, w), got 'column'"},
    {"rule r match Relu(x) give Add(x, rows(Relu(x)))", "my.rules:1:39: expected a name of the match, got 'Relu'"},
    {"rule r match Add(x, (y else 0)) give x", "my.rules:1:24: expected ')', got 'else'"},
    {"rule r match Relu(x) give (x other 0)", "my.rules:1:30: expected 'else', got 'other'"},
    {"rule r match Add(x, 1.5) give x", "my.rules:1:21: expected a value, an op or q, dq, requantize, got '1.5'"},
    {"rule r match Add(a, b, c, d, e, f, g, h, i, j, k, l, m) give a",
     "my.rules:1:54: expected at most 12 arguments, got 'm'"},
    {"rule r match Relu(Relu(Relu(Relu(Relu(Relu(Relu(Relu(Relu(x))))))))) give x",
     "my.rules:1:14: expected at most 8 ops in a match, got 'Relu'"},
    {"rule r match Sum(Sum(a, b, c, d, e, f, g), Sum(h, i, j, k, l, m, n), Sum(o, p, r)) give a",
     "my.rules:1:80: expected at most 16 names of values in a rule, got 'r'"},
    {"rule r match Relu(x) when x == 1 give x",
     "my.rules:1:27: expected the name of a guard (docs/rule-language.md), got 'x'"},
    {"set Relu = Abs", "my.rules:1:5: expected a name in upper case that is no op, got 'Relu'"},
    {"set Mine = Abs | Abz", "my.rules:1:18: expected the name of an op (qcalib list ops) or of a set, got 'Abz'"},
    {"allow pass Relu", "my.rules:1:7: expected keep, bound, join or table, got 'pass'"},
    {"allow keep Relu", "my.rules:1:12: expected an op that behaves so on affine values (qcalib list ops), got 'Relu'"},
    {"allow bound Rela",
     "my.rules:1:13: expected an op that behaves so on affine values (qcalib list ops), got 'Rela'"},
    {"rule r match Relu(x) ! give x", "my.rules:1:22: expected a name, a number or a sign, got '!'"},
    {"pattern p match Relu(x) affine dq(Relu(q(x : X)) : Z) result",
     "my.rules:1:61: expected 'quantized', got the end of the file"},
    {"rule r match (Relu|Clap)(x) give x", "my.rules:1:20: expected the name of an op (qcalib list ops), got 'Clap'"},
    {"rule r match (Relu(x) | y) give x", "my.rules:1:14: expected a match that begins with an op, got '('"},
    {"rule r match Relu?(x) give x", "my.rules:1:14: expected a match that begins with an op, got 'Relu'"},
    {"rule r match (Relu(x), y) give x", "my.rules:1:22: expected ')', got ','"},
    {"rule r match Relu(x : u9) give x", "my.rules:1:23: expected qparams (a name in upper case), got 'u9'"},
    {"rule r match Relu(x) give Relu(x : u8)", "my.rules:1:36: expected qparams (a name in upper case), got 'u8'"},
    {"rule r match Relu(x) when rank(x) == \"two give x",
     "my.rules:1:38: expected a text that ends on its line, got '\"'"},
    {"rule r match Relu(x) when dim(x, y) == 1 give x",
     "my.rules:1:34: expected the name of a guard (docs/rule-language.md), got 'y'"},
    {"rule r match Relu(x) when attribute(Conv.strides[-1] = 1) == 1 give x",
     "my.rules:1:50: expected the number of an element, from 0, got '-1'"},
    {"rule r match Relu(x) give Cast(x) {to}", "my.rules:1:38: expected '=', got '}'"},
    {"rule r match Relu(x) target 8 give x", "my.rules:1:29: expected the name of a target, got '8'"},
    {"rule r match Relu(x) target a affine x", "my.rules:1:31: expected 'give', got 'affine'"},
    {"rule r match Relu(x) target a give x target a give x",
     "my.rules:1:52: expected one template for each target, got 'x'"},
    {"rule r match Relu(x) give x give x", "my.rules:1:34: expected one template for each target, got 'x'"},
    {"pattern p match Relu(x) affine dq(Relu(q(x : X)) : Z) scheme",
     "my.rules:1:61: expected 'activation', got the end of the file"},
    {"pattern p match Relu(x) affine dq(Relu(q(x : X)) : Z) scheme weight i32",
     "my.rules:1:69: expected a type of 4 to 16 bits, symmetric, asymmetric, restricted, full, per_channel or "
     "per_tensor, got 'i32'"},
    {"pattern p match Relu(x) affine dq(Relu(q(x : X)) : Z) scheme activation per_axis",
     "my.rules:1:73: expected a type of 4 to 16 bits, symmetric, asymmetric, restricted, full, per_channel or "
     "per_tensor, got 'per_axis'"},
    {"allow table Conv",
     "my.rules:1:13: expected an op that behaves so on affine values (qcalib list ops), got 'Conv'"},
    {"allow keep Pad when rank(x) == 1", "my.rules:1:26: expected a name of the match, got 'x'"},
    {"island i match Exp(x)", "my.rules:1:22: expected 'inside', got the end of the file"},
    {"island i match Exp(x) inside exp", "my.rules:1:30: expected a text in quotes, got 'exp'"},
    {"island i match x inside \"exp\"", "my.rules:1:16: expected a match that begins with an op, got 'x'"},
    {"pattern p match Relu(x) affine Relu(q(x : X))",
     "my.rules:1:32: expected a template of the form dq(... : QPARAMS), got 'Relu'"},
    {"rule r match Relu(x) joins give x", "my.rules:1:22: expected 'give', got 'joins'"},
};

Test(rules, errors_name_file_line_and_column)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        OWN(qc_rules) *r = qc_rules_new(ST);
        cr_assert(r);
        cr_expect(!parse(r, errors[i].text, ST), "accepted: %s", errors[i].text);
        cr_expect_eq(failure.code, QC_BAD_INPUT, "%s", errors[i].text);
        cr_expect_str_eq(failure.message, errors[i].message, "%s\n got      %s\n expected %s", errors[i].text,
                         failure.message, errors[i].message);
    }
}

Test(rules, brackets_may_be_32_deep_and_no_deeper)
{
    char text[1024] = "rule r match Relu(x) give ";
    OWN(qc_rules) *r = qc_rules_new(ST);
    size_t n = strlen(text);
    for (int i = 0; i < 31; i++) n += (size_t)snprintf(text + n, sizeof text - n, "Relu(");
    snprintf(text + n, sizeof text - n, "x)))))))))))))))))))))))))))))))");
    SHOULD(parse(r, text, ST));
    QC_FREED char *deep = malloc(200000);
    n = (size_t)snprintf(deep, 200000, "rule r match Relu(x) give ");
    for (int i = 0; i < 30000; i++) n += (size_t)snprintf(deep + n, 200000 - n, "Relu(");
    cr_expect(!parse(r, deep, ST) && strstr(failure.message, "at most 32 levels"), "%s", failure.message);
}

Test(rules, a_later_rule_of_the_same_name_and_kind_replaces)
{
    OWN(qc_rules) *r = qc_rules_new(ST);
    MUST(parse(r,
               "rule a match Relu(x) give x\nrule b match Abs(x) give x\npattern a match Relu(x) affine "
               "dq(Relu(q(x : X)) : Z)",
               ST));
    cr_expect_eq(r->count, 3);
    MUST(parse(r, "rule a match Neg(x) give Abs(x) # another one", ST));
    HOLD(r->count == 3, r->rules[0].match->op == QC_OP_Neg, r->rules[2].kind == QC_RULE_PATTERN,
         r->rules[2].match->op == QC_OP_Relu);
}

Test(rules, allow_lists_add_up)
{
    OWN(qc_rules) *r = qc_rules_new(ST);
    static const struct {
        enum qc_op op;
        enum qc_allow_kind kind;
    } want[] = {{QC_OP_MaxPool, QC_ALLOW_KEEP},
                {QC_OP_Concat, QC_ALLOW_JOIN},
                {QC_OP_Pad, QC_ALLOW_KEEP},
                {QC_OP_Tile, QC_ALLOW_KEEP}};
    MUST(parse(r, "allow keep MaxPool\nallow join Concat", ST));
    MUST(parse(r, "allow keep Pad Tile", ST));
    cr_assert_eq(r->allow_count, sizeof want / sizeof *want);
    for (size_t i = 0; i < r->allow_count; i++)
        cr_expect(r->allows[i].op == want[i].op && r->allows[i].kind == want[i].kind, "entry %zu", i);
}

Test(rules, there_is_no_unknown_builtin_file)
{
    OWN(qc_rules) *r = qc_rules_new(ST);
    cr_expect(!qc_rules_add_builtin(r, "no.rules", ST));
    cr_expect_str_eq(failure.message, "there are no built-in rules 'no.rules'");
}

/* ---- Hostile files ---- */

/* Real and simulated graphs that the rules below find something in. */
static const char *const subjects[] = {
    "graph \"g\"\ninput %1 \"x\" f32[N,2,4,4]\nconst %2 \"w\" f32[2,2,1,1] = {0.5, -0.25, 0.125, 1}\nconst %3 \"b\" "
    "f32[2] = {0.5, -0.5}\n"
    "const %4 \"s\" f32[2] = {1, 3}\n%5 \"c\" = Conv \"conv\"(%1, %2, %3)\n%6 \"n\" = BatchNormalization(%5, %4, %4, "
    "%4, %4)\n"
    "%7 \"r\" = Relu(%6)\n%8 \"a\" = Add(%7, %5)\n%9 \"p\" = MaxPool(%8) {kernel_shape=[2,2]}\n%10 \"y\" = Conv(%9, "
    "%2)\noutput \"y\" %10\n",
    "graph \"g\" simulated\nqparams @1 quantizer \"x\" u8 asymmetric bound scale 0.5 zero 0\nqparams @2 quantizer "
    "\"y\" u8 "
    "asymmetric bound scale 0.25 zero 0\n"
    "input %1 \"x\" f32[N,2]\n%2 : @1 = simulated_quantize(%1)\n%3 = simulated_dequantize(%2)\n%4 : @2 = "
    "simulated_quantize(%3)\n"
    "%5 = Relu(%4)\n%6 = simulated_dequantize(%5)\n%7 = Sigmoid(%6)\noutput \"y\" %7\n",
};

static void apply(const struct qc_rules *r, const struct qc_graph *g)
{
    struct qc_status st = QC_STATUS_INIT;
    OWN(qc_graph) *out = NULL, *simulated = NULL;
    OWN(qc_partition) *p = NULL;
    struct qc_partition_options options = QC_PARTITION_INIT;
    if (qc_rewrite(&out, NULL, g, r, &st))
        cr_expect(qc_graph_verify(out, &st), "%s", st.message);
    else
        cr_expect_neq(st.code, QC_OK, "failed without a message");
    st = QC_STATUS_INIT;
    if (!g->simulated) {
        bool ok = qc_partition_new(&p, g, r, &options, &st) && qc_simulate(&simulated, p, &st) &&
                  qc_graph_verify(simulated, &st);
        cr_expect(ok || st.code != QC_OK, "failed without a message");
    }
}

static void swallow(const char *text, size_t size, struct qc_graph *const graphs[2])
{
    OWN(qc_rules) *r = qc_rules_new(ST);
    QC_FREED char *exact = malloc(size ? size : 1); /* so that AddressSanitizer sees a step beyond the end */
    cr_assert(r && exact);
    memcpy(exact, text, size);
    if (qc_rules_parse(r, "hostile", exact, size, ST))
        for (int i = 0; i < 2; i++) apply(r, graphs[i]);
    else
        cr_expect(failure.code == QC_BAD_INPUT && strncmp(failure.message, "hostile:", 8) == 0, "%s", failure.message);
}

static char *builtin_text(const char *name, size_t *size, struct qc_arena *a)
{
    char path[512];
    void *text = NULL;
    qc_text(path, sizeof path, "%s/rewrite/rules/%s", QC_TEST_SOURCE, name);
    MUST(qc_file_read(&text, size, path, a, ST));
    return text;
}

static const char *const files[] = {"normalise.rules", "patterns.rules", "requantize.rules", "allow.rules"};

static void read_subjects(struct qc_graph *graphs[2])
{
    for (int i = 0; i < 2; i++) MUST(qc_graph_parse(&graphs[i], subjects[i], strlen(subjects[i]), ST));
}

Test(rules, files_cut_anywhere_are_read_or_refused)
{
    struct qc_graph *graphs[2];
    read_subjects(graphs);
    for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
        size_t size;
        const char *text = builtin_text(files[f], &size, test_arena());
        for (size_t cut = 0; cut < size; cut += 3 * test_one_of(1, 3)) swallow(text, cut, graphs);
    }
    for (int i = 0; i < 2; i++) qc_graph_free(graphs[i]);
}

/* Words in the place of other words: what a hand would write wrong, and most of what a parser lets through. */
static size_t replace_word(char *out, const char *text, size_t size, uint64_t *state)
{
    static const char *const words[] = {"(Relu|Clip)(x)",
                                        "Relu?(x)",
                                        "(x | w)",
                                        "x : u8",
                                        "target one",
                                        "scheme weight int4",
                                        "{axis=1}",
                                        "\"text\"",
                                        "not",
                                        "x",
                                        "w",
                                        "S",
                                        "X*W",
                                        "Relu",
                                        "Conv",
                                        "Add",
                                        "q",
                                        "dq",
                                        "requantize",
                                        "const",
                                        "0",
                                        "-1",
                                        "1e30",
                                        "[1,-1]",
                                        "per out",
                                        "per 0",
                                        "(b else 0)",
                                        "vector(w)",
                                        "column(w, w)",
                                        "give",
                                        "match",
                                        "when",
                                        "rule again",
                                        "",
                                        ":",
                                        "?",
                                        "attribute(Conv.group = 1)",
                                        "Split(x)",
                                        "MatMul(x, x)",
                                        "Reshape(x, [1])",
                                        "elements(x) > 1",
                                        "joins",
                                        "\0"};
    size_t at = (size_t)(test_random(state) % size), end = at;
    const char *word = words[test_random(state) % (sizeof words / sizeof *words)];
    while (at && text[at - 1] != ' ' && text[at - 1] != '(' && text[at - 1] != '\n') at--;
    while (end < size && text[end] != ' ' && text[end] != ')' && text[end] != ',' && text[end] != '\n') end++;
    size_t n = *word ? strlen(word) : (size_t)(test_random(state) % 2);
    memcpy(out, text, at);
    memcpy(out + at, word, n);
    memcpy(out + at + n, text + end, size - end);
    return at + n + size - end;
}

Test(rules, files_with_mistakes_are_read_or_refused)
{
    struct qc_graph *graphs[2];
    uint64_t state = 20240607;
    read_subjects(graphs);
    for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
        size_t size;
        const char *text = builtin_text(files[f], &size, test_arena());
        QC_FREED char *one = malloc(size + 128), *two = malloc(size + 128);
        for (int k = 0; k < 250; k++) {
            memcpy(one, text, size);
            for (uint64_t flips = test_random(&state) % 3; flips < 3; flips++)
                one[test_random(&state) % size] = (char)test_random(&state);
            swallow(one, size, graphs);
            size_t n = replace_word(one, text, size, &state);
            swallow(one, n, graphs);
            if (n) swallow(two, replace_word(two, one, n, &state), graphs);
        }
    }
    for (int i = 0; i < 2; i++) qc_graph_free(graphs[i]);
}
