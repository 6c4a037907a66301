// SPDX-License-Identifier: Apache-2.0
/* Every entry of the allow-list: the op is computed on the integers of its input, and gives what it gives between
   dequantize and quantize, bit for bit. Every op of the list of tables becomes part of one. */
#include "rewrite/passes/functions.h"
#include "rewrite_passes.h"
#include "simq/plan/plan.h"
#include "tests/graph_reader/graph_reader.h"

enum { ELEMENTS = 32 };

/* lines make %9 "y" from %1 "x" f32[1,2,4,4]; constants are %5 to %8. */
static const struct {
    enum qc_op op;
    const char *lines;
} entries[] = {
    {QC_OP_MaxPool, "%9 \"y\" = MaxPool(%1) {kernel_shape=[2,2], pads=[1,0,1,0]}"},
    {QC_OP_GlobalMaxPool, "%9 \"y\" = GlobalMaxPool(%1)"},
    {QC_OP_Reshape, "const %5 i64[2] = {4, 8}\n%9 \"y\" = Reshape(%1, %5)"},
    {QC_OP_Flatten, "%9 \"y\" = Flatten(%1) {axis=2}"},
    {QC_OP_Squeeze, "const %5 i64[1] = {0}\n%9 \"y\" = Squeeze(%1, %5)"},
    {QC_OP_Unsqueeze, "const %5 i64[1] = {1}\n%9 \"y\" = Unsqueeze(%1, %5)"},
    {QC_OP_Transpose, "%9 \"y\" = Transpose(%1) {perm=[0,3,1,2]}"},
    {QC_OP_Slice, "const %5 i64[1] = {3}\nconst %6 i64[1] = {-9}\nconst %7 i64[1] = {2}\nconst %8 i64[1] = {-2}\n%9 "
                  "\"y\" = Slice(%1, %5, %6, %7, %8)"},
    {QC_OP_Split, "%9 \"y\", %10 \"z\" = Split(%1) {axis=2}"},
    {QC_OP_Gather, "const %5 i64[3] = {3, 0, 3}\n%9 \"y\" = Gather(%1, %5) {axis=2}"},
    {QC_OP_Expand, "const %5 i64[4] = {3, 2, 4, 4}\n%9 \"y\" = Expand(%1, %5)"},
    {QC_OP_Tile, "const %5 i64[4] = {1, 2, 1, 3}\n%9 \"y\" = Tile(%1, %5)"},
    {QC_OP_Pad, "const %5 i64[8] = {0, 0, 1, 2, 0, 0, 0, 1}\n%9 \"y\" = Pad(%1, %5)"},
    {QC_OP_DepthToSpace, "%8 = Concat(%1, %1) {axis=1}\n%9 \"y\" = DepthToSpace(%8) {blocksize=2}"},
    {QC_OP_SpaceToDepth, "%9 \"y\" = SpaceToDepth(%1) {blocksize=2}"},
    {QC_OP_Relu, "%9 \"y\" = Relu(%1)"},
    {QC_OP_Clip, "const %5 f32[] = {-1}\nconst %6 f32[] = {2.75}\n%9 \"y\" = Clip(%1, %5, %6)"},
    {QC_OP_Concat, "%9 \"y\" = Concat(%1, %1, %1) {axis=3}"},
    {QC_OP_Resize, "const %5 f32[4] = {1, 1, 2, 1.5}\n%9 \"y\" = Resize(%1, -, %5) {mode=\"nearest\"}"},
};

static float *output_of(size_t *count, const struct qc_graph *g, const float *x)
{
    const struct qc_shape shape = QC_SHAPE(1, 2, 4, 4);
    OWN(qc_plan) *p = NULL;
    OWN(qc_runner) *r = NULL;
    MUST(qc_plan_new(&p, g, &shape, NULL, ST) && qc_runner_new(&r, p, ST));
    memcpy(qc_runner_input(r, 0).data, x, ELEMENTS * sizeof *x);
    MUST(qc_runner_run(r, NULL, NULL, ST));
    const struct qc_view y = qc_runner_output(r, 0);
    *count = qc_view_count(&y);
    float *copy = malloc(*count * sizeof *copy);
    memcpy(copy, y.data, *count * sizeof *copy);
    return copy;
}

/* As rules do it; quantizers are bound to 1/16 and the middle. */
static struct qc_graph *source_of(const char *lines)
{
    char text[1024];
    qc_text(text, sizeof text, "%s%s%s",
            "graph \"g\"\ninput %1 \"x\" f32[1,2,4,4]\nconst %2 \"w\" f32[2,2,1,1] = {0.5, -0.25, 0.125, 1}\n%3 \"c\" "
            "= Conv \"conv\"(%1, %2)\n",
            lines, "\noutput \"y\" %9\noutput \"c\" %3\n");
    struct qc_graph *g = test_graph(text);
    return g;
}

Test(allow_list, every_op_works_on_integers_and_gives_the_same)
{
    float x[ELEMENTS];
    for (int i = 0; i < ELEMENTS; i++) x[i] = (float)((i * 7919) % 311) / 16 - 9.7f;
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        PASSES p;
        OWN(qc_graph) *g = source_of(entries[i].lines);
        const char *name = qc_op_info(entries[i].op)->name;
        cr_assert(passes_run(&p, g, &PASS_SETUP, ST), "%s: %s", name, failure.message);
        qc_id x_qparams = 0;
        for (qc_id id = 1; id <= p.folded->node_count; id++) {
            const struct qc_node *n = &p.folded->nodes[id];
            const qc_id qparams = p.folded->values[n->outputs].type.qparams;
            if (n->op == QC_OP_Quantize && !x_qparams && !qc_constant_of(p.folded, n->inputs[0])) x_qparams = qparams;
            if (n->op == entries[i].op)
                cr_expect(qparams && qparams == x_qparams, "%s does not have the qparams of its input", name);
        }
        cr_expect(passes_count(p.folded, entries[i].op) == 1, "%s is gone", name);
        size_t one, other;
        QC_FREED float *before = output_of(&one, p.simulated, x), *after = output_of(&other, p.folded, x);
        cr_assert_eq(one, other);
        cr_expect(memcmp(before, after, one * sizeof *before) == 0, "%s gives other numbers on integers", name);
    }
}

Test(allow_list, the_cases_above_are_the_list)
{
    OWN(qc_rules) *r = passes_rules(NULL, ST);
    for (size_t k = 0; k < r->allow_count; k++) {
        bool known = r->allows[k].kind == QC_ALLOW_TABLE;
        for (size_t i = 0; i < sizeof entries / sizeof *entries && !known; i++)
            known = entries[i].op == r->allows[k].op;
        cr_expect(known, "no case for %s", qc_op_info(r->allows[k].op)->name);
    }
}

/* Not a copy of elements: stays out. */
Test(allow_list, a_resize_that_crops_is_not_on_it)
{
    OWN(qc_rules) *r = passes_rules(NULL, ST);
    OWN(qc_graph) *g = source_of(
        "const %4 f32[8] = {0, 0, 0, 0, 1, 1, 0.5, 0.5}\nconst %5 i64[4] = {1, 2, 8, 8}\n"
        "%9 \"y\" = Resize(%1, %4, -, %5) {coordinate_transformation_mode=\"tf_crop_and_resize\", mode=\"nearest\"}");
    for (qc_id id = 1; id <= g->node_count; id++)
        if (g->nodes[id].op == QC_OP_Resize) cr_expect_eq(qc_rules_behaviour(r, g, &g->nodes[id]), QC_AFFINE_NONE);
}

/* Without a target, and with one whose runtime has tables. */
static const char *const plain[] = {"LeakyRelu(%1)", "Sigmoid(%1)",  "HardSigmoid(%1)", "HardSwish(%1)",
                                    "Tanh(%1)",      "Elu(%1)",      "Selu(%1)",        "Celu(%1)",
                                    "Softplus(%1)",  "Softsign(%1)", "Mish(%1)",        "ThresholdedRelu(%1)",
                                    "Gelu(%1)",      "Erf(%1)",      "Exp(%1)"};
static const char *const fused[] = {"Abs(%1)",     "Neg(%1)",     "Sqrt(%1)",    "Reciprocal(%1)", "Add(%1, %5)",
                                    "Sub(%1, %5)", "Mul(%1, %5)", "Div(%1, %5)", "Max(%1, %5)",    "Min(%1, %5)"};

/* op, then Sigmoid: one table that begins with Sigmoid(OP( */
static void check_table(const char *op, const char *target, bool joined)
{
    struct pass_setup setup = PASS_SETUP;
    PASSES p;
    char lines[256], head[64];
    qc_text(lines, sizeof lines, "const %%5 f32[] = {0.75}\n%%6 = %s\n%%9 \"y\" = Sigmoid(%%6)", op);
    OWN(qc_graph) *g = source_of(lines);
    setup.target = target;
    cr_assert(passes_run(&p, g, &setup, ST), "%s: %s", op, failure.message);
    const char *f = "";
    for (qc_id id = 1; id <= p.folded->node_count; id++)
        if (p.folded->nodes[id].op == QC_OP_Table) f = qc_attr_string(&p.folded->nodes[id], "f", "");
    qc_text(head, sizeof head, "Sigmoid(%.*s(", (int)strcspn(op, "("), op);
    cr_expect_eq(strncmp(f, head, strlen(head)) == 0, joined, "%s%s%s: %s", op, target ? " for target " : "",
                 target ? target : "", f);
}

Test(allow_list, unary_functions_in_a_row_are_one_table)
{
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) check_table(plain[i], NULL, true);
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) check_table(plain[i], "fused", true);
    for (size_t i = 0; i < sizeof fused / sizeof *fused; i++) check_table(fused[i], "fused", true);
    for (size_t i = 0; i < sizeof fused / sizeof *fused; i++) check_table(fused[i], NULL, false);
}

/* Clamps are part of a table in its middle. */
Test(allow_list, clamps_inside_of_tables)
{
    static const char *const clamps[] = {"Relu(%6)", "Clip(%6, %5)"};
    for (size_t i = 0; i < 2; i++) {
        struct pass_setup setup = PASS_SETUP;
        PASSES p;
        char lines[256];
        qc_text(lines, sizeof lines, "const %%5 f32[] = {0.75}\n%%6 = Tanh(%%1)\n%%7 = %s\n%%9 \"y\" = Sigmoid(%%7)",
                clamps[i]);
        OWN(qc_graph) *g = source_of(lines);
        setup.target = "fused";
        MUST(passes_run(&p, g, &setup, ST));
        cr_expect_eq(passes_count(p.folded, QC_OP_Table), 1, "%s", clamps[i]);
        cr_expect_eq(passes_count(p.folded, QC_OP_Sigmoid) + passes_count(p.folded, QC_OP_Tanh), 0, "%s", clamps[i]);
    }
}

/* In a quantized file the file says what is rounded: what lies between a DequantizeLinear and a QuantizeLinear is one
 * table. */
Test(allow_list, functions_of_quantized_models)
{
    static const struct {
        const char *lines, *f; /* f: of the table that is made, NULL: none */
    } cases[] = {
        {"%4 = Sigmoid(%3)\n%5 = Mul(%3, %4)\n%6 = QuantizeLinear(%5, %2)\noutput \"y\" %6\n", "Mul(x, Sigmoid(x))"},
        {"%4 = Sigmoid(%3)\n%6 = QuantizeLinear(%4, %2)\noutput \"y\" %6\n", NULL},
        {"%4 = Sigmoid(%3)\n%5 = Mul(%3, %4)\noutput \"y\" %5\n", NULL},
        {"%4 = Sigmoid(%3)\n%5 = Mul(%3, %4)\n%6 = QuantizeLinear(%5, %2)\noutput \"y\" %6\noutput \"z\" %5\n", NULL},
        {"%4 = Softmax(%3)\n%5 = Tanh(%4)\n%7 = Erf(%5)\n%8 = QuantizeLinear(%7, %2)\noutput \"y\" %8\n", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        OWN(qc_graph) *g = NULL, *joined = NULL;
        OWN(qc_rules) *r = passes_rules(NULL, ST);
        char text[1024];
        const char *f = NULL;
        qc_text(text, sizeof text, "%s%s",
                "graph \"g\"\ninput %1 \"x\" u8[2]\nconst %2 \"s\" f32[] = {0.5}\n%3 = DequantizeLinear(%1, %2)\n",
                cases[i].lines);
        MUST(qc_graph_parse(&g, text, strlen(text), ST));
        MUST(qc_join_functions(&joined, g, r, NULL, ST));
        for (qc_id id = 1; id <= joined->node_count; id++)
            if (joined->nodes[id].op == QC_OP_Table) f = qc_attr_string(&joined->nodes[id], "f", "");
        cr_expect((f == NULL) == (cases[i].f == NULL) && (!f || strcmp(f, cases[i].f) == 0), "case %zu: %s", i,
                  f ? f : "none");
    }
}
