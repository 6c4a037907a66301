// SPDX-License-Identifier: Apache-2.0
#include "graph/core/rebuild.h"
#include "graph/core/verify.h"
#include "graph_cases.h"
#include "tests/check.h"

static const char model[] = "graph \"m\" opset 13\n"
                            "qparams @1 quantizer \"x\" u8 asymmetric bound scale 0.5 zero 3 observed %1 %8\n"
                            "qparams @2 quantizer \"unused\" u8 asymmetric off observed %5\n"
                            "input %1 \"x\" f32[N,4] symbols \"batch\",-\n"
                            "input %2 \"never used\" f32[2]\n"
                            "const %3 \"w\" f32[4,2] = {1, 2, 3, 4, 5, 6, 7, 8}\n"
                            "const %4 \"dead\" f32[1] = {1}\n"
                            "%5 \"dead too\" : f32[N,4] = Relu(%1)\n"
                            "%6 \"q\" : u8[N,4] @1 = Quantize(%1)\n"
                            "%7 \"d\" : f32[N,4] = Dequantize(%6)\n"
                            "%8 \"h\" : f32[N,2] = MatMul \"dense\"(%7, %3)\n"
                            "%9 \"a\" : f32[N,1], %10 : f32[N,1] = Split \"cut\"(%8) {axis=1}\n"
                            "%11 : f32[N,1] = Clip(%10, -, -)\n"
                            "output \"out\" %11 symbols \"batch\",-\n"
                            "output \"again\" %9\n";

/* What is left: inputs stay, dead nodes and constants go, names, symbols, observed values and qparams come along. */
static const char copied[] = "graph \"m\" opset 13\n"
                             "qparams @1 quantizer \"x\" u8 asymmetric bound scale 0.5 zero 3 observed %1 %6\n"
                             "qparams @2 quantizer \"unused\" u8 asymmetric off\n"
                             "input %1 \"x\" f32[N,4] symbols \"batch\",-\n"
                             "input %2 \"never used\" f32[2]\n"
                             "%3 \"q\" : u8[N,4] @1 = Quantize(%1)\n"
                             "%4 \"d\" : f32[N,4] = Dequantize(%3)\n"
                             "const %5 \"w\" f32[4,2] = {1, 2, 3, 4, 5, 6, 7, 8}\n"
                             "%6 \"h\" : f32[N,2] = MatMul \"dense\"(%4, %5)\n"
                             "%7 \"a\" : f32[N,1], %8 : f32[N,1] = Split \"cut\"(%6) {axis=1}\n"
                             "%9 : f32[N,1] = Clip(%8, -, -)\n"
                             "output \"out\" %9 symbols \"batch\",-\n"
                             "output \"again\" %7\n";

static struct qc_graph *copy(const struct qc_graph *g)
{
    struct qc_rebuild r;
    struct qc_graph *to = NULL;
    MUST(qc_rebuild_begin(&r, g, ST) && qc_rebuild_finish(&to, &r, ST));
    qc_rebuild_free(&r);
    MUST(qc_graph_verify(to, ST));
    return to;
}

Test(rebuild, what_outputs_need_is_copied_as_it_is)
{
    struct qc_graph *g = test_graph(model), *c = copy(g);
    qc_graph_free(g); /* the copy stands alone */
    QC_FREED char *text = print_graph(c);
    cr_expect_str_eq(text, copied);
    qc_graph_free(c);
}

Test(rebuild, a_second_copy_changes_nothing)
{
    OWN(qc_graph) *g = test_graph(copied), *c = copy(g);
    QC_FREED char *a = print_graph(g), *b = print_graph(c);
    cr_expect_str_eq(a, b);
}

/* Equal constants with names of their own are apart (tests/graph_reader). */
Test(rebuild, constants_that_are_apart_stay_apart)
{
    OWN(qc_graph) *g =
                      test_graph("graph\ninput %1 \"x\" i8[2]\nconst %2 \"z\" i8[] = {0}\nconst %3 \"z_1\" i8[] = {0}\n"
                                 "%4 = Add(%1, %3)\n%5 = Sub(%4, %2)\nconst %6 \"z_2\" i8[] = {0}\n"
                                 "%7 = Mul(%5, %6)\noutput \"o\" %7\n"),
                  *once = copy(g), *twice = copy(once);
    for (unsigned i = 0; i < 3; i++) {
        const char *name = ((const char *[]){"z", "z_1", "z_2"})[i];
        const qc_id v = qc_graph_find_value(once, name), w = qc_graph_find_value(twice, name);
        cr_expect(v && qc_constant_of(once, v), "%s", name);
        cr_expect(w && qc_constant_of(twice, w), "%s", name);
    }
}

Test(rebuild, a_mapped_value_stands_for_the_old_one_everywhere)
{
    OWN(qc_graph) *g = test_graph("graph\ninput %1 \"x\" f32[N,4]\n%2 \"r\" = Relu(%1)\n%3 \"a\" = Add(%2, %2)\n%4 "
                                  "\"b\" = Mul(%2, %3)\noutput \"o\" %4\n");
    struct qc_rebuild r;
    OWN(qc_graph) *to = NULL;
    MUST(qc_rebuild_begin(&r, g, ST));
    r.map[2] = qc_graph_add(r.to, &(struct qc_node_def){.op = QC_OP_Tanh, .input_count = 1, .inputs = &r.map[1]}, ST);
    MUST(qc_rebuild_finish(&to, &r, ST));
    qc_rebuild_free(&r);
    struct qc_op_counts counts;
    qc_graph_count_ops(&counts, to);
    cr_expect(counts.of[QC_OP_Relu] == 0 && counts.of[QC_OP_Tanh] == 1 && counts.of[QC_OP_Add] == 1 &&
              counts.of[QC_OP_Mul] == 1);
    cr_expect_eq(to->node_count, 3);
}

Test(rebuild, depth_is_no_matter)
{
    OWN(qc_graph) *g = qc_graph_new(ST);
    const struct qc_shape one = QC_SHAPE(1);
    qc_id v = qc_graph_add_input(g, "x", QC_F32, &one, ST);
    for (int i = 0; i < 20000; i++)
        v = qc_graph_add(g, &(struct qc_node_def){.op = i % 2 ? QC_OP_Relu : QC_OP_Neg, .input_count = 1, .inputs = &v},
                         ST);
    MUST(v && qc_graph_add_output(g, "y", v, ST));
    OWN(qc_graph) *c = copy(g);
    cr_expect_eq(c->node_count, 20000);
}

Test(rebuild, an_unfinished_one_is_freed)
{
    OWN(qc_graph) *g = test_graph(model);
    struct qc_rebuild r;
    MUST(qc_rebuild_begin(&r, g, ST));
    cr_expect_neq(qc_rebuild_value(&r, 8, ST), 0);
    cr_expect_eq(qc_rebuild_value(&r, 8, ST), r.map[8]);
    qc_rebuild_free(&r);
    qc_rebuild_free(&r);
    qc_rebuild_free(NULL);
}
