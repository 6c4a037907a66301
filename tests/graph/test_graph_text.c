// SPDX-License-Identifier: Apache-2.0
#include "graph/text/text.h"
#include "graph_cases.h"
#include "tests/check.h"

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
    OWN(qc_graph) *g = test_graph(text);
    QC_FREED char *again = print_graph(g);
    cr_expect_str_eq(again, text);
}

Test(text, prints_and_parses_back_to_the_same_bytes)
{
    check_fixed_point(simulated);
    check_fixed_point(real);
}

Test(text, every_op_goes_round)
{
    for (size_t i = 0; i < graph_case_count; i++) {
        QC_FREED char *source = graph_case_text(&graph_cases[i]);
        OWN(qc_graph) *g = test_graph(source);
        QC_FREED char *text = print_graph(g);
        check_fixed_point(text);
    }
}

Test(text, floats_read_back_exactly)
{
    const struct qc_shape shape = QC_SHAPE(4096);
    OWN(qc_tensor) *t = qc_tensor_new(QC_F32, &shape, ST);
    uint32_t *bits = t->data, state = 1;
    for (size_t i = 0; i < 4096; i++)
        bits[i] = state = state * 1664525u + 1013904223u; /* NaNs and denormals among them */
    OWN(qc_graph) *g = qc_graph_new(ST), *h = NULL;
    qc_graph_add_constant(g, "c", t, ST);
    QC_FREED char *text = print_graph(g);
    h = test_graph(text);
    cr_expect_arr_eq(qc_constant_of(h, 1)->data, t->data, 4096 * 4);
}

Test(text, large_constants_are_short_and_then_do_not_parse)
{
    OWN(qc_graph) *h = NULL;
    OWN(qc_graph) *g =
        test_graph("graph \"g\" opset 1\nconst %1 u8[9] = {1,2,3,4,5,6,7,8,9}\nconst %2 u8[8] = {1,2,3,4,5,6,7,8}\n");
    QC_FREED char *text = qc_graph_print(g, &QC_TEXT_SHORT, ST);
    /* FNV-1a, 64 bits, of the bytes 1 to 9, from a Python one-liner. */
    cr_expect_str_eq(
        text,
        "graph \"g\" opset 1\nconst %1 u8[9] = ... fnv d824008dad4b6b6c\nconst %2 u8[8] = {1, 2, 3, 4, 5, 6, 7, 8}\n");
    FAILS(qc_graph_parse(&h, text, strlen(text), ST), "line 2: expected '{' before '... fnv");
}

Test(text, what_people_leave_out_is_filled_in)
{
    OWN(qc_graph) *g = test_graph(
        "\n# a comment\n  graph   # and another\n\n\tinput %7 \"x\" f32[2]\r\nconst %9 f32[2] = {1, # two lines\n 2}\n"
        "%10=Add(%7,%9)\n%20 : f32[2] = Relu(%10) # the end\noutput \"y\" %20");
    QC_FREED char *text = print_graph(g);
    cr_expect_str_eq(
        text, "graph \"graph\" opset 0\ninput %1 \"x\" f32[2]\nconst %2 f32[2] = {1, 2}\n%3 : f32[2] = Add(%1, %2)\n"
              "%4 : f32[2] = Relu(%3)\noutput \"y\" %4\n");
}

/* What the graph refuses: tests that write a wrong graph are told of it. */
static const struct {
    const char *text, *message;
} refused[] = {
    {"", "line 1: expected graph before ''"},
    {"graph\noutput \"y\" %1", "line 2: expected a value that is defined"},
    {"graph\nconst %1 f32[1000000000] = {1}", "line 2: expected more data"},
    {"graph\nqparams @1 quantizer \"x\" u8 asymmetric bound scale 1 2 zero 0 0", "line 2: qparams 'x': 2 scales"},
    {"graph\nqparams @1 quantizer \"x\" u8 asymmetric bound scale 0 zero 0", "line 2: qparams 'x': scale 0"},
    {"graph\nqparams @1 quantizer \"x\" u8 asymmetric bound scale 1 zero 300", "zero point 300"},
    {"graph\nqparams @1 quantizer \"x\" u8 asymmetric bound scale zero", "line 2: qparams 'x': 0 scales"},
    {"graph\nqparams @1 quantizer \"x\" u8 asymmetric unbound\nqparams @2 quantizer \"x\" u8 asymmetric unbound",
     "line 3: expected qparams of another name"},
    {"graph\ninput %1 \"x\" f32[2]\n%2 : f32[3] = Relu(%1)",
     "%2 is f32[3] @0 axis 0 here, but the op gives f32[2] @0 axis 0"},
    {"graph\ninput %1 \"x\" f32[2]\n%2 = Relu()", "line 3: node '' (Relu): has 0 inputs"},
    {"graph\ninput %1 \"x\" f32[2]\n%2 \"a\" = Relu(%1)\n%3 \"b\" = Relu(%1)", "line 4: expected another name"},
    /* Refused by the verifier at the end: two scales on an axis of three */
    {"graph\nqparams @1 quantizer \"x\" u8 asymmetric per_channel bound scale 1 1 zero 0 0\ninput %1 \"x\" f32[3]\n%2 "
     ": @1 = "
     "Quantize(%1)",
     "2 scales for axis 0 of shape [3]"},
};

Test(text, errors_say_where_and_what)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        OWN(qc_graph) *g = NULL;
        REFUSES_ROW(refused[i].text, qc_graph_parse(&g, refused[i].text, strlen(refused[i].text), ST), QC_BAD_INPUT,
                    refused[i].message);
    }
}
