// SPDX-License-Identifier: Apache-2.0
/* Quantized models from files, converted to the canonical form. */
#include "graph/core/verify.h"
#include "graph/text/text.h"
#include "rewrite/canonical/canonical.h"
#include "simq/plan/plan.h"
#include "tests/check.h"
#include "tests/graph_reader/graph_reader.h"

struct forms {
    struct qc_rules *rules, *fold;
    struct qc_graph *from, *canonical, *produced;
    struct qc_lines notes;
    char *text; /* of the produced graph */
};

static struct forms forms_of(const char *text)
{
    struct qc_status st = QC_STATUS_INIT;
    struct forms f = {.rules = qc_rules_new(&st), .fold = qc_rules_new(&st)};
    const struct qc_text_options all = QC_TEXT_ALL;
    cr_assert(qc_rules_add_builtin(f.rules, "patterns.rules", &st) &&
                  qc_rules_add_builtin(f.rules, "allow.rules", &st) &&
                  qc_rules_add_builtin(f.fold, "requantize.rules", &st),
              "%s", st.message);
    cr_assert(qc_graph_parse(&f.from, text, strlen(text), &st), "%s", st.message);
    cr_assert(qc_canonical(&f.canonical, &f.notes, f.from, f.rules, &st), "%s", st.message);
    cr_assert(qc_graph_verify(f.canonical, &st), "%s", st.message);
    cr_assert(qc_canonical_finish(&f.produced, f.canonical, f.rules, f.fold, qc_evaluate, &st), "%s", st.message);
    cr_assert(qc_graph_verify(f.produced, &st), "%s", st.message);
    cr_assert(f.text = qc_graph_print(f.produced, &all, &st), "%s", st.message);
    return f;
}

static void release(struct forms *f)
{
    free(f->text);
    qc_graph_free(f->produced);
    qc_graph_free(f->canonical);
    qc_graph_free(f->from);
    qc_rules_free(f->rules);
    qc_rules_free(f->fold);
}
#define FORMS __attribute__((cleanup(release))) struct forms

static size_t count(const struct qc_graph *g, enum qc_op op)
{
    struct qc_op_counts c;
    qc_graph_count_ops(&c, g);
    return c.of[op];
}

#define HEAD                                                                                                           \
    "graph \"g\" opset 13\n"                                                                                           \
    "input %1 \"x\" f32[1,2,2,2]\n"                                                                                    \
    "const %2 \"half\" f32[] = {0.5}\n"                                                                                \
    "const %3 \"z\" u8[] = {3}\n"                                                                                      \
    "const %4 \"w\" i8[2,2,1,1] = {1, 2, 3, -4}\n"                                                                     \
    "const %5 \"ws\" f32[2] = {0.25, 2}\n"                                                                             \
    "const %6 \"wz\" i8[2] = {0, 0}\n"                                                                                 \
    "const %7 \"b\" i32[2] = {7, -8}\n"                                                                                \
    "const %8 \"one\" f32[] = {1}\n"                                                                                   \
    "const %9 \"zero\" u8[] = {0}\n"

/* bs: scales of the bias; those of the accumulator are 0.125 and 1. */
#define QDQ_CONV(bs)                                                                                                   \
    HEAD "const %10 \"bs\" f32[2] = {" bs "}\n"                                                                        \
         "%11 \"x_quantized\" : u8[1,2,2,2] = QuantizeLinear(%1, %2, %3)\n"                                            \
         "%12 : f32[1,2,2,2] = DequantizeLinear(%11, %2, %3)\n"                                                        \
         "%13 : f32[2,2,1,1] = DequantizeLinear(%4, %5, %6) {axis=0}\n"                                                \
         "%14 : f32[2] = DequantizeLinear(%7, %10) {axis=0}\n"                                                         \
         "%15 \"y\" : f32[1,2,2,2] = Conv(%12, %13, %14)\n"                                                            \
         "%16 \"y_quantized\" : u8[1,2,2,2] = QuantizeLinear(%15, %8, %9)\n"                                           \
         "%17 : f32[1,2,2,2] = DequantizeLinear(%16, %8, %9)\n"                                                        \
         "output \"out\" %17\n"

static const char qoperator_conv[] =
    HEAD "%10 \"x_quantized\" : u8[1,2,2,2] = QuantizeLinear(%1, %2, %3)\n"
         "%11 \"y_quantized\" : u8[1,2,2,2] = QLinearConv(%10, %2, %3, %4, %5, %6, %8, %9, %7)\n"
         "%12 : f32[1,2,2,2] = DequantizeLinear(%11, %8, %9)\n"
         "output \"out\" %12\n";

Test(canonical, a_convolution_accumulates_in_the_product_of_its_qparams)
{
    FORMS f = forms_of(QDQ_CONV("0.125, 1"));
    HOLD(f.notes.count == 0, count(f.produced, QC_OP_Conv) == 1, count(f.produced, QC_OP_Requantize) == 1,
         count(f.produced, QC_OP_Quantize) == 1, count(f.produced, QC_OP_Dequantize) == 1);
    cr_expect_eq(f.produced->node_count, 4, "%s", f.text);
    cr_expect(strstr(f.text, "const %4 \"b\" i32[2] @4 = {7, -8}"), "%s", f.text);
    cr_expect(strstr(f.text, "i8[2,2,1,1] @3 = {1, 2, 3, -4}"), "%s", f.text);
}

/* From the inputs on, with qparams numbered in the order in which nodes name them (one digit each). */
static char *renumbered(char *text)
{
    char *from = strstr(text, "input"), seen[10] = {0}, next = '0';
    for (char *p = from; (p = strchr(p, '@')); p++) {
        char *number = &seen[p[1] - '0'];
        if (!*number) *number = ++next;
        p[1] = *number;
    }
    return from;
}

Test(canonical, both_forms_are_the_same_graph)
{
    FORMS a = forms_of(QDQ_CONV("0.125, 1")), b = forms_of(qoperator_conv);
    char *first = renumbered(a.text), *second = renumbered(b.text);
    cr_expect_str_eq(first, second, "%s\n%s", first, second);
}

Test(canonical, a_bias_of_another_scale_is_added_in_float_and_noted)
{
    FORMS f = forms_of(QDQ_CONV("0.12500001, 1"));
    cr_expect_eq(f.notes.count, 1);
    cr_assert(f.notes.count && strstr(f.notes.lines[0],
                                      "'y' (Conv): its bias is added in float, because its scale is not the product"),
              "%s", f.notes.count ? f.notes.lines[0] : "");
    HOLD(count(f.produced, QC_OP_Conv) == 1, count(f.produced, QC_OP_Add) == 1,
         count(f.produced, QC_OP_Requantize) == 0);
}

#define TWO                                                                                                            \
    HEAD "%10 : u8[1,2,2,2] = QuantizeLinear(%1, %2, %3)\n"                                                            \
         "%11 : f32[1,2,2,2] = DequantizeLinear(%10, %2, %3)\n"

Test(canonical, a_dequantize_and_a_quantize_are_a_requantize_or_nothing)
{
    FORMS other = forms_of(TWO "%12 : u8[1,2,2,2] = QuantizeLinear(%11, %8, %9)\n"
                               "%13 : f32[1,2,2,2] = DequantizeLinear(%12, %8, %9)\n"
                               "output \"y\" %13\n");
    cr_expect_eq(count(other.produced, QC_OP_Requantize), 1);
    FORMS same = forms_of(TWO "%12 : f32[1,2,2,2] = MaxPool(%11) {kernel_shape=[1,1]}\n"
                              "%13 : u8[1,2,2,2] = QuantizeLinear(%12, %2, %3)\n"
                              "%14 : f32[1,2,2,2] = DequantizeLinear(%13, %2, %3)\n"
                              "output \"y\" %14\n");
    cr_expect_eq(count(same.produced, QC_OP_Requantize), 0);
    cr_expect_eq(same.produced->node_count, 3, "%s", same.text);
}

Test(canonical, an_op_rounds_once_only_where_all_users_quantize_alike)
{
    static const char quantized[] = TWO "%12 : f32[1,2,2,2] = Add(%11, %11)\n"
                                        "%13 : f32[1,2,2,2] = Relu(%12)\n"
                                        "%14 : u8[1,2,2,2] = QuantizeLinear(%13, %8, %9)\n"
                                        "%15 : f32[1,2,2,2] = DequantizeLinear(%14, %8, %9)\n"
                                        "output \"y\" %15\n";
    static const char also_real[] = TWO "%12 : f32[1,2,2,2] = Add(%11, %11)\n"
                                        "%13 : u8[1,2,2,2] = QuantizeLinear(%12, %8, %9)\n"
                                        "%14 : f32[1,2,2,2] = DequantizeLinear(%13, %8, %9)\n"
                                        "output \"y\" %14\n"
                                        "output \"sum\" %12\n";
    FORMS a = forms_of(quantized), b = forms_of(also_real);
    cr_expect(strstr(a.text, "u8[1,2,2,2] @2 = Add("), "%s", a.text);
    cr_expect_eq(count(a.produced, QC_OP_Relu), 0, "the zero point is the lowest level: saturation cuts\n%s", a.text);
    cr_expect(strstr(b.text, "f32[1,2,2,2] = Add("), "%s", b.text);
}

Test(canonical, integers_at_the_interface_stay_integers)
{
    FORMS f = forms_of("graph \"g\" opset 13\n"
                       "input %1 \"x\" u8[4]\n"
                       "const %2 \"s\" f32[] = {0.5}\n"
                       "const %3 \"z\" u8[] = {3}\n"
                       "%4 \"y\" : u8[4] = QLinearAdd(%1, %2, %3, %1, %2, %3, %2, %3)\n"
                       "output \"y\" %4\n");
    HOLD(count(f.produced, QC_OP_DequantizeLinear) == 1, count(f.produced, QC_OP_QuantizeLinear) == 1,
         count(f.produced, QC_OP_Add) == 1);
    cr_expect(strstr(f.text, "@1 = Add("), "%s", f.text);
    cr_expect_eq(qc_value(f.produced, f.produced->outputs[0].value)->type.dtype, QC_U8);
}

Test(canonical, what_moves_integers_moves_them_in_their_qparams)
{
    FORMS f = forms_of(HEAD "%10 : u8[1,2,2,2] = QuantizeLinear(%1, %2, %3)\n"
                            "const %11 \"shape\" i64[2] = {1, 8}\n"
                            "%12 : u8[1,8] = Reshape(%10, %11)\n"
                            "%13 : u8[1,8] = Clip(%12, %3)\n"
                            "const %14 \"pads\" i64[4] = {0, 1, 0, 1}\n"
                            "%15 : u8[1,10] = Pad(%13, %14, %3)\n"
                            "%16 : f32[1,10] = DequantizeLinear(%15, %2, %3)\n"
                            "output \"y\" %16\n");
    cr_expect(strstr(f.text, "u8[1,8] @1 = Reshape("), "%s", f.text);
    cr_expect(strstr(f.text, "u8[1,8] @1 = Relu("), "a cut at the zero point is relu\n%s", f.text);
    cr_expect(strstr(f.text, "u8[1,10] @1 = Pad("), "%s", f.text);
}

Test(canonical, integers_that_are_numbers_are_left_alone)
{
    FORMS f = forms_of(HEAD "%10 : u8[1,2,2,2] = QuantizeLinear(%1, %2, %3)\n"
                            "%11 : f32[1,2,2,2] = Cast(%10) {to=1}\n"
                            "%12 : f32[1,2,2,2] = DequantizeLinear(%10, %2, %3)\n"
                            "output \"numbers\" %11\n"
                            "output \"values\" %12\n");
    HOLD(count(f.produced, QC_OP_QuantizeLinear) == 1, count(f.produced, QC_OP_DequantizeLinear) == 1,
         count(f.produced, QC_OP_Quantize) == 0);
}

/* Two layers on integers; the integers of the input, of the first layer and of the result belong to the interface. */
#define INTEGER_INTERFACE                                                                                              \
    "graph \"g\" opset 13\n"                                                                                           \
    "input %1 \"x\" u8[1,2]\n"                                                                                         \
    "const %2 \"half\" f32[] = {0.5}\n"                                                                                \
    "const %3 \"z\" u8[] = {3}\n"                                                                                      \
    "const %4 \"w\" i8[2,2] = {1, 2, 3, -4}\n"                                                                         \
    "const %5 \"zero\" i8[] = {0}\n"                                                                                   \
    "%6 : f32[1,2] = DequantizeLinear(%1, %2, %3)\n"                                                                   \
    "%7 : f32[2,2] = DequantizeLinear(%4, %2, %5)\n"                                                                   \
    "%8 : f32[1,2] = MatMul(%6, %7)\n"                                                                                 \
    "%9 \"a\" : u8[1,2] = QuantizeLinear(%8, %2, %3)\n"                                                                \
    "%10 : f32[1,2] = DequantizeLinear(%9, %2, %3)\n"                                                                  \
    "%11 : f32[1,2] = MatMul(%10, %7)\n"                                                                               \
    "%12 \"b\" : u8[1,2] = QuantizeLinear(%11, %2, %3)\n"                                                              \
    "output \"a\" %9\n"                                                                                                \
    "output \"b\" %12\n"

Test(canonical, integers_of_the_interface_are_read_and_written_by_integer_layers)
{
    FORMS f = forms_of(INTEGER_INTERFACE);
    cr_expect_eq(count(f.produced, QC_OP_MatMul), 2);
    cr_expect_eq(count(f.produced, QC_OP_Requantize), 2, "%s", f.text);
    cr_expect_eq(count(f.produced, QC_OP_Quantize), 1, "of what is read from the input\n%s", f.text);
    cr_expect_eq(count(f.produced, QC_OP_DequantizeLinear), 1, "%s", f.text);
    cr_expect_eq(count(f.produced, QC_OP_QuantizeLinear), 2, "%s", f.text);
    for (size_t i = 0; i < 2; i++) {
        const struct qc_value *v = qc_value(f.produced, f.produced->outputs[i].value);
        cr_expect(v->type.dtype == QC_U8 && v->type.qparams == QC_REAL);
    }
}

/* The same integers with two meanings: each reading has its own parameters. */
Test(canonical, integers_of_the_interface_may_be_read_in_two_ways)
{
    FORMS f = forms_of("graph \"g\" opset 13\n"
                       "input %1 \"x\" u8[4]\n"
                       "const %2 \"half\" f32[] = {0.5}\n"
                       "const %3 \"two\" f32[] = {2}\n"
                       "const %4 \"z\" u8[] = {3}\n"
                       "%5 : f32[4] = DequantizeLinear(%1, %2, %4)\n"
                       "%6 : f32[4] = DequantizeLinear(%1, %3, %4)\n"
                       "%7 : f32[4] = Add(%5, %6)\n"
                       "%8 \"y\" : u8[4] = QuantizeLinear(%7, %3, %4)\n"
                       "output \"y\" %8\n");
    cr_expect(strstr(f.text, "Add(") && count(f.produced, QC_OP_Quantize) == 2, "%s", f.text);
    const struct qc_node *add = NULL;
    for (qc_id id = 1; id <= f.produced->node_count; id++)
        if (f.produced->nodes[id].op == QC_OP_Add) add = &f.produced->nodes[id];
    cr_assert(add);
    const struct qc_qparams *a = qc_graph_parameters(f.produced, add->inputs[0]),
                            *b = qc_graph_parameters(f.produced, add->inputs[1]);
    cr_assert(a && b, "%s", f.text);
    cr_expect_float_eq(a->scale[0], 0.5f, 0);
    cr_expect_float_eq(b->scale[0], 2.0f, 0);
}

/* The scale of an int32 is a product of two, which may be too small for qparams. */
Test(canonical, scales_that_are_too_small_for_qparams_stay_operators_of_the_file)
{
    static const char *const scales[] = {"0", "1e-40"};
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++) {
        char text[512];
        qc_text(text, sizeof text,
                "graph \"g\" opset 13\ninput %%1 \"x\" i32[4]\nconst %%2 \"s\" f32[] = {%s}\n"
                "%%3 : f32[4] = DequantizeLinear(%%1, %%2)\noutput \"y\" %%3\n",
                scales[i]);
        FORMS f = forms_of(text);
        cr_expect_eq(count(f.produced, QC_OP_DequantizeLinear), 1, "scale %s", scales[i]);
        cr_expect_eq(count(f.produced, QC_OP_Dequantize), 0, "scale %s", scales[i]);
    }
}

/* What stands between QuantizeLinear and DequantizeLinear of scale 0.5 and zero point 3: a clip of stored integers. */
Test(canonical, bounds_between_integers_are_real_numbers)
{
    static const struct {
        int low, high; /* stored integers */
        const char *produced;
    } cases[] = {{5, 200, "{1}"}, {5, 200, "{98.5}"}, {5, 255, "Clip("}, {3, 200, "Clip("}, {3, 255, "Relu("}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512];
        qc_text(text, sizeof text,
                "graph \"g\" opset 13\ninput %%1 \"x\" f32[4]\nconst %%2 \"s\" f32[] = {0.5}\nconst %%3 \"a\" u8[] = "
                "{5}\nconst %%4 \"b\" u8[] = {%d}\nconst %%5 \"z\" u8[] = {3}\n"
                "%%6 : u8[4] = QuantizeLinear(%%1, %%2, %%5)\n%%7 : u8[4] = Clip(%%6, %s, %%4)\n"
                "%%8 : f32[4] = DequantizeLinear(%%7, %%2, %%5)\noutput \"y\" %%8\n",
                cases[i].high, cases[i].low == 3 ? "%5" : "%3");
        FORMS f = forms_of(text);
        cr_expect(strstr(f.text, cases[i].produced), "case %zu: no %s in\n%s", i, cases[i].produced, f.text);
    }
}
