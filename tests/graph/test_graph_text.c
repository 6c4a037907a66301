// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/text/text.h"
#include "graph_cases.h"
#include "tests/graph_reader/test_graph.h"

/* Every line that the printer makes, literally. */
static const char simulated[] =
    "graph \"resnet20\" opset 13 simulated\n"
    "qparams @1 quantizer \"input\" u8 asymmetric bound scale 0.0186 zero 114 observed %1\n"
    "qparams @2 quantizer \"w\" i8 symmetric weight restricted per_channel bound scale 0.1 1e-30 zero 0 0 observed %2\n"
    "qparams @3 product @1 @2\n"
    "qparams @4 quantizer \"out\" u8 asymmetric unbound observed %6 %1\n"
    "qparams @5 quantizer \"never\" i8 symmetric off\n"
    "input %1 \"input\" f32[N,1,3,3] symbols \"batch\",-,-,\"w\\\"idth\"\n"
    "const %2 \"w\" f32[2,1,1,1] = {1, -0.1}\n"
    "%3 : f32[N,1,3,3] @1 = simulated_quantize(%1)\n"
    "%4 : f32[2,1,1,1] @2 = simulated_quantize(%2)\n"
    "%5 \"conv1_out\" : f32[N,2,3,3] @3 axis 1 = Conv \"conv1\"(%3, %4, -) {group=1, pads=[0,0,0,0]}\n"
    "%6 : f32[N,2,3,3] @4 = simulated_requantize(%5)\n"
    "%7 \"logits\" : f32[N,2,3,3] = simulated_dequantize(%6)\n"
    "%8 : f32[N,1,3,3], %9 \"half\" : f32[N,1,3,3] = Split(%7) {axis=1}\n"
    "output \"logits\" %8\n"
    "output \"again\" %8 symbols \"batch\",-,-,-\n";

static const char real[] =
    "graph \"odd \\\"names\\\"\\n\\t\\\\\\x01\" opset 0\n"
    "input %1 \"x\" f32[]\n"
    "input %2 \"grüße\" f16[?]\n"
    "const %3 f32[8] = {0, -0, inf, -inf, nan, nan(7fc00001), 1e-45, 3.4028235e+38}\n"
    "const %4 f64[4] = {0.1, 1e-320, nan, nan(fff0000000000001)}\n"
    "const %5 f16[5] = {0.099975586, 65504, 5.9604645e-08, nan, nan(fe01)}\n"
    "const %6 bf16[3] = {0.100097656, nan, nan(ffff)}\n"
    "const %7 i64[2] = {-9223372036854775808, 9223372036854775807}\n"
    "const %8 u64[1] = {18446744073709551615}\n"
    "const %9 u32[1] = {4294967295}\n"
    "const %10 i4[2] = {-8, 7}\n"
    "const %11 bool[2] = {0, 1}\n"
    "const %12 i8[2] = {-128, 127}\n"
    "const %13 f32[2,0] = {}\n"
    "%14 : f32[] = LeakyRelu \"a \"(%1) {a=floats[1,2.5,nan,-inf], alpha=0.01f, \"b c\"=[], c=nan, d=-inf, e=\"s\\n\", "
    "f=i32[1]{-7}, g=floats[], h=-0f, i=-9223372036854775808, j=1e+30f, k=strings[], l=strings[\"a]\",\"b,\\\"c\"]}\n"
    "output \"\" %14\n";

static void check_fixed_point(const char *text)
{
    struct qc_graph *g = test_graph(text);
    char *again = print_graph(g);
    cr_expect_str_eq(again, text);
    free(again);
    qc_graph_free(g);
}

Test(text, prints_and_parses_back_to_the_same_bytes)
{
    check_fixed_point(simulated);
    check_fixed_point(real);
}

Test(text, every_op_goes_round)
{
    for (size_t i = 0; i < graph_case_count; i++) {
        char *source = graph_case_text(&graph_cases[i]);
        struct qc_graph *g = test_graph(source);
        char *text = print_graph(g);
        check_fixed_point(text);
        free(text);
        free(source);
        qc_graph_free(g);
    }
}

Test(text, floats_read_back_exactly)
{
    struct qc_status st = QC_STATUS_INIT;
    const struct qc_shape shape = QC_SHAPE(4096);
    struct qc_tensor *t = qc_tensor_new(QC_F32, &shape, &st);
    uint32_t *bits = t->data, state = 1;
    for (size_t i = 0; i < 4096; i++)
        bits[i] = state = state * 1664525u + 1013904223u; /* NaNs and denormals among them */
    struct qc_graph *g = qc_graph_new(&st), *h;
    qc_graph_add_constant(g, "c", t, &st);
    char *text = print_graph(g);
    h = test_graph(text);
    cr_expect_arr_eq(qc_constant_of(h, 1)->data, t->data, 4096 * 4);
    qc_tensor_unref(t);
    free(text);
    qc_graph_free(g);
    qc_graph_free(h);
}

Test(text, large_constants_are_short_and_then_do_not_parse)
{
    struct qc_status st = QC_STATUS_INIT;
    struct qc_graph
        *g = test_graph(
            "graph \"g\" opset 1\nconst %1 u8[9] = {1,2,3,4,5,6,7,8,9}\nconst %2 u8[8] = {1,2,3,4,5,6,7,8}\n"),
        *h = NULL;
    char *text = qc_graph_print(g, &QC_TEXT_SHORT, &st);
    /* FNV-1a, 64 bits, of the bytes 1 to 9, from a Python one-liner. */
    cr_expect_str_eq(
        text,
        "graph \"g\" opset 1\nconst %1 u8[9] = ... fnv d824008dad4b6b6c\nconst %2 u8[8] = {1, 2, 3, 4, 5, 6, 7, 8}\n");
    cr_expect(!qc_graph_parse(&h, text, strlen(text), &st));
    cr_expect(strstr(st.message, "line 2, column 18: the data of this constant was left out"), "%s", st.message);
    free(text);
    qc_graph_free(g);
}

Test(text, what_people_leave_out_is_filled_in)
{
    struct qc_graph *g = test_graph(
        "\n# a comment\n  graph   # and another\n\n\tinput %7 \"x\" f32[2]\r\nconst %9 f32[2] = {1, # two lines\n 2}\n"
        "%10=Add(%7,%9)\n%20 : f32[2] = Relu(%10) # the end\noutput \"y\" %20");
    char *text = print_graph(g);
    cr_expect_str_eq(
        text, "graph \"graph\" opset 0\ninput %1 \"x\" f32[2]\nconst %2 f32[2] = {1, 2}\n%3 : f32[2] = Add(%1, %2)\n"
              "%4 : f32[2] = Relu(%3)\noutput \"y\" %4\n");
    free(text);
    qc_graph_free(g);
}

static const struct {
    const char *text, *message;
} refused[] = {
    {"", "line 1, column 1: expected \"graph\""},
    {"grape", "line 1, column 1: expected \"graph\""},
    {"graph \"x", "line 1, column 9: the string has no closing quote"},
    {"graph \"x\\q\"", "unknown escape"},
    {"graph \"x\\x00\"", "unknown escape"},
    {"graph opset 13 simulated x", "line 1, column 26: the line should end here"},
    {"graph opset -1", "expected a whole number from 0 to"},
    {"graph opset 99999999999999999999", "expected a whole number"},
    {"graph\nnode", "line 2, column 1: expected qparams, input, const, output or %number"},
    {"graph\ninput %1 f32[1]", "line 2, column 10: expected a string"},
    {"graph\ninput %0 \"x\" f32[1]", "expected a whole number from 1"},
    {"graph\ninput %1 \"x\" f33[1]", "line 2, column 14: 'f33' is not an element type"},
    {"graph\ninput %1 \"x\" f32[1,1,1,1,1,1,1,1,1]", "more than 8 dimensions"},
    {"graph\ninput %1 \"x\" f32[-1]", "expected a whole number from 0"},
    {"graph\ninput %1 \"x\" f32[1", "expected ']'"},
    {"graph\ninput %1 \"x\" f32[1]\ninput %2 \"x\" f32[1]", "the name \"x\" is taken"},
    {"graph\ninput %2 \"x\" f32[1]\ninput %1 \"y\" f32[1]", "numbers must ascend"},
    {"graph\ninput %1 \"x\" f32[2] symbols \"a\",\"b\"", "the line should end here"},
    {"graph\ninput %1 \"x\" f32[2,2] symbols \"a\"", "expected ','"},
    {"graph\nconst %1 f32[N] = {}", "too short"},
    {"graph\nconst %1 f32[?] = {}", "too short"},
    {"graph\nconst %1 f32[9223372036854775807,9223372036854775807] = {}", "too short"},
    {"graph\nconst %1 f32[1000000000] = {1}", "too short for a constant of this shape"},
    {"graph\nconst %1 f32[2] = {1}", "expected ','"},
    {"graph\nconst %1 f32[1] = {1, 2}", "expected '}'"},
    {"graph\nconst %1 f32[1] = {1e99}", "'1e99' is not a value of type f32"},
    {"graph\nconst %1 f32[1] = {0x10}", "'0x10' is not a value of type f32"},
    {"graph\nconst %1 f32[1] = {nan(0)}", "is not a value"},
    {"graph\nconst %1 f32[1] = {nan(7f800000)}", "is not a value"},
    {"graph\nconst %1 u8[1] = {256}", "'256' is not a value of type u8"},
    {"graph\nconst %1 u8[1] = {1.5}", "'1.5' is not a value of type u8"},
    {"graph\nconst %1 u64[1] = {18446744073709551616}", "is not a value"},
    {"graph\nconst %1 none[1] = {1}", "'none' is not an element type"},
    {"graph\noutput \"y\" %1", "%1 is not defined above"},
    {"graph\nqparams @2 quantizer \"x\" u8 asymmetric unbound", "expected qparams @1"},
    {"graph\nqparams @1 kind", "expected \"quantizer\" or \"product\""},
    {"graph\nqparams @1 quantizer \"x\" f32 asymmetric unbound", "cannot be quantized to 'f32'"},
    {"graph\nqparams @1 quantizer \"x\" bool asymmetric unbound", "cannot be quantized to 'bool'"},
    {"graph\nqparams @1 quantizer \"x\" u8 unbound", "expected \"symmetric\""},
    {"graph\nqparams @1 quantizer \"x\" u8 asymmetric", "expected \"unbound\""},
    {"graph\nqparams @1 quantizer \"x\" u8 asymmetric bound scale 1", "expected a number"},
    {"graph\nqparams @1 quantizer \"x\" u8 asymmetric bound scale 1 2 zero 0 0", "line 2: qparams 'x': 2 scales"},
    {"graph\nqparams @1 quantizer \"x\" u8 asymmetric bound scale 0 zero 0", "line 2: qparams 'x': scale 0"},
    {"graph\nqparams @1 quantizer \"x\" u8 asymmetric bound scale 1 zero 300", "zero point 300"},
    {"graph\nqparams @1 quantizer \"x\" u8 asymmetric bound scale zero", "line 2: qparams 'x': 0 scales"},
    {"graph\nqparams @1 quantizer \"x\" u8 asymmetric unbound observed %7", "line 2: %7 is not defined"},
    {"graph\nqparams @1 product @1 @1", "qparams @1 is not defined above"},
    {"graph\nqparams @1 quantizer \"x\" u8 asymmetric unbound\nqparams @2 quantizer \"x\" u8 asymmetric unbound",
     "qparams named \"x\" are there already"},
    {"graph\ninput %1 \"x\" f32[2]\n%2 = Nothing(%1)", "line 3, column 6: 'Nothing' is not an op"},
    {"graph\ninput %1 \"x\" f32[2]\n%2 = simulated_quantize(%1)", "not an op of a graph that is not simulated"},
    {"graph simulated\ninput %1 \"x\" f32[2]\n%2 = Quantize(%1)", "not an op of a graph that is simulated"},
    {"graph simulated\ninput %1 \"x\" f32[2]\n%2 = simulated_relu(%1)", "is not an op"},
    {"graph\ninput %1 \"x\" f32[2]\n%2 : f32[3] = Relu(%1)",
     "%2 is f32[3] @0 axis 0 here, but the op gives f32[2] @0 axis 0"},
    {"graph\ninput %1 \"x\" f32[2]\n%2 : @1 = Relu(%1)", "qparams @1 is not defined above"},
    {"graph\ninput %1 \"x\" f32[2]\n%2 = Relu(%2)", "%2 is not defined above"},
    {"graph\ninput %1 \"x\" f32[2]\n%2 = Relu(%1", "expected ')'"},
    {"graph\ninput %1 \"x\" f32[2]\n%2 = Relu()", "line 3: node '' (Relu): has 0 inputs"},
    {"graph\ninput %1 \"x\" f32[2]\n%2 \"a\" = Relu(%1)\n%3 \"b\" = Relu(%1)", "is there already as \"a\""},
    {"graph\ninput %1 \"x\" f32[2]\n%2 = Relu(%1) {a=1, a=2}", "attribute 'a' is there twice"},
    {"graph\ninput %1 \"x\" f32[2]\n%2 = Relu(%1) {a=f32[1]{1}, a=f32[1]{1}}", "attribute 'a' is there twice"},
    {"graph\ninput %1 \"x\" f32[2]\n%2 = Relu(%1) {a=}", "expected a value"},
    {"graph\ninput %1 \"x\" f32[2]\n%2 = Relu(%1) {a=[1,}", "expected a whole number"},
    {"graph\ninput %1 \"x\" f32[2]\n%2 = Relu(%1) {a=floats[x]}", "'x' is not a number"},
    {"graph\ninput %1 \"x\" f32[2]\n%2 = Relu(%1) {a=strings[\"b\", c]}", "expected a string in quotes"},
    {"graph\ninput %1 \"x\" f32[2]\n%2 = Relu(%1) {a=f32[4]{1}}       ", "expected ','"},
    {"graph\ninput %1 \"x\" f32[2]\n%2 = Relu(%1) {a=f32[9999]{1}}", "too short"},
    {"graph\ninput %1 \"x\" f32[2]\n%2 = Relu(%1) {a=1", "expected '}'"},
    {"graph\ninput %1 \"x\" f32[2]\n%2 = Relu(%1) {a=3ff}", "'3ff' is not a number"},
    /* Refused by the verifier at the end: two scales on an axis of three */
    {"graph\nqparams @1 quantizer \"x\" u8 asymmetric per_channel bound scale 1 1 zero 0 0\ninput %1 \"x\" f32[3]\n%2 "
     ": @1 = "
     "Quantize(%1)",
     "2 scales for axis 0 of shape [3]"},
};

Test(text, errors_say_where_and_what)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct qc_status st = QC_STATUS_INIT;
        struct qc_graph *g = NULL;
        bool ok = qc_graph_parse(&g, refused[i].text, strlen(refused[i].text), &st);
        cr_expect(!ok, "accepted: %s", refused[i].text);
        cr_expect_eq(st.code, QC_BAD_INPUT);
        cr_expect(strstr(st.message, refused[i].message), "%s: expected '%s' in '%s'", refused[i].text,
                  refused[i].message, st.message);
        qc_graph_free(g);
    }
}

Test(text, the_text_need_not_end_in_a_zero)
{
    size_t size = strlen(simulated);
    for (size_t n = 0; n <= size; n++) {
        struct qc_status st = QC_STATUS_INIT;
        struct qc_graph *g = NULL;
        char *part = malloc(n ? n : 1);
        memcpy(part, simulated, n);
        if (qc_graph_parse(&g, part, n, &st))
            qc_graph_free(g);
        else
            cr_expect_eq(st.code, QC_BAD_INPUT, "%s", st.message);
        free(part);
    }
}
