// SPDX-License-Identifier: Apache-2.0
/* Refused input of kernels, and kernels on affine values and on very many elements. */
#include "kernel_run.h"
#include "simq/kernels/real/unary.h"
#include "tests/check.h"

static struct qc_graph *parse(const char *lines)
{
    char text[1024];
    snprintf(text, sizeof text, "graph \"case\" opset 13\n%s", lines);
    return test_graph(text);
}

static struct qc_tensor *run(const char *lines, const struct kernel_run_options *options, struct qc_status *st)
{
    OWN(qc_graph) *g = parse(lines);
    struct qc_tensor *outputs[8] = {0};
    if (!kernel_run(outputs, g, 1, NULL, options, st)) outputs[0] = NULL;
    return outputs[0];
}

#define DATA "const %1 f32[2,3] = {1, 2, 3, 4, 5, 6}\n"
#define RNN "const %1 f32[2,1,1] = {1, 2}\nconst %2 f32[1,1,1] = {0.5}\nconst %3 f32[1,1,1] = {0.25}\n"

Test(kernel_errors, name_what_is_wrong)
{
    static const struct {
        const char *lines;
        uint64_t late;
        enum qc_code code;
        const char *message;
    } cases[] = {
        {"const %1 i32[2] = {1, 2}\nconst %2 i32[2] = {1, 0}\n%3 : i32[2] = Div(%1, %2)\n", 3, QC_BAD_INPUT,
         "an integer is divided by zero"},
        {"const %1 u8[2] = {1, 2}\nconst %2 u8[] = {0}\n%3 : u8[2] = Mod(%1, %2)\n", 3, QC_BAD_INPUT,
         "an integer is divided by zero"},
        {"const %1 i64[2] = {1, 2}\nconst %2 i64[] = {0}\n%3 : i64[2] = Mod(%1, %2) {fmod=1}\n", 3, QC_BAD_INPUT,
         "an integer is divided by zero"},
        {"const %1 i32[1] = {1}\n%2 : i32[] = ReduceLogSumExp(%1) {axes=[0], keepdims=0}\n", 1, QC_UNSUPPORTED,
         "element type i32 is not handled"},
        {DATA "const %2 i64[4] = {0, 1, 0, 1}\n%3 : f32[2,5] = Pad(%1, %2)\n", 3, QC_UNSUPPORTED,
         "input \"pads\" (%2) must be constant"},
        {DATA "const %2 f32[2] = {2, 1}\n%3 : f32[4,3] = Resize(%1, -, %2)\n", 5, QC_UNSUPPORTED,
         "input \"scales\" must be constant"},
        {RNN "const %4 i32[1] = {3}\n%5 : f32[2,1,1,1] = RNN(%1, %2, %3, -, %4)\n", 15, QC_BAD_INPUT,
         "sequence_lens of sample 0 is 3, expected 0 to 2"},
        {RNN "const %4 i32[1] = {-1}\n%5 : f32[2,1,1,1] = RNN(%1, %2, %3, -, %4)\n", 15, QC_BAD_INPUT,
         "sequence_lens of sample 0 is -1, expected 0 to 2"},
        {RNN "%4 : f32[2,1,1,1] = RNN(%1, %2, %3) {clip=-1f}\n", 7, QC_BAD_INPUT, "attribute clip is -1"},
        {RNN "%4 : f32[2,1,1,1] = RNN(%1, %2, %3) {activations=strings[\"Tan\"]}\n", 7, QC_BAD_INPUT,
         "activations has the unknown name 'Tan'"},
        {RNN "%4 : f32[2,1,1,1] = RNN(%1, %2, %3) {activations=strings[\"Tanh\",\"Tanh\"]}\n", 7, QC_BAD_INPUT,
         "activations has 2 names, expected 1"},
        {"const %1 f64[1,1,1] = {1}\n%2 : f64[1,1,1,1] = RNN(%1, %1, %1)\n", 1, QC_UNSUPPORTED,
         "element type f64 is not handled"},
        {"const %1 i64[3] = {4, -5, 6}\nconst %2 bool[3] = {1, 0, 0}\n"
         "%3 : i64[3] = Expect(%1, %2) {expected=\"lengths from 0 on\"}\n",
         3, QC_BAD_INPUT, "expected lengths from 0 on, got -5"},
        {DATA "const %2 bool[] = {0}\n%3 : f32[2,3] = Expect(%1, %2) {expected=\"keys\"}\n", 3, QC_BAD_INPUT,
         "expected keys"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct kernel_run_options options = {.late = cases[i].late};
        OWN(qc_tensor) *y = run(cases[i].lines, &options, ST);
        cr_expect_null(y, "case %zu runs", i);
        cr_expect_eq(failure.code, cases[i].code, "case %zu: code %d, %s", i, (int)failure.code, failure.message);
        cr_expect(strstr(failure.message, cases[i].message), "case %zu says \"%s\"", i, failure.message);
    }
}

Test(kernel_errors, a_sequence_without_steps_ends_in_zeros)
{
    static const char lines[] = "input %1 \"x\" f32[0,2,1]\ninput %2 \"w\" f32[1,3,1]\ninput %3 \"r\" f32[1,3,1]\n"
                                "%4 : f32[0,1,2,1], %5 : f32[1,2,1] = GRU(%1, %2, %3)\n";
    struct qc_status st = QC_STATUS_INIT;
    const struct qc_shape none = QC_SHAPE(0, 2, 1), weight = QC_SHAPE(1, 3, 1);
    struct qc_tensor *x = qc_tensor_of(QC_F32, &none, NULL, &st), *outputs[2] = {NULL},
                     *w = qc_tensor_of(QC_F32, &weight, (float[]){1, 2, 3}, &st);
    OWN(qc_graph) *g = parse(lines);
    const struct qc_tensor *const inputs[] = {x, w, w};
    cr_assert(kernel_run(outputs, g, 1, inputs, &(struct kernel_run_options){0}, &st), "%s", st.message);
    cr_expect_eq(outputs[0]->count, 0);
    cr_expect_arr_eq(outputs[1]->data, ((float[]){0, 0}), outputs[1]->bytes);
    for (int k = 0; k < 2; k++) qc_tensor_unref(outputs[k]);
    qc_tensor_unref(x);
    qc_tensor_unref(w);
}

Test(kernel_errors, name_an_index_that_is_outside)
{
    static const struct {
        const char *lines;
        int64_t index;
        const char *message;
    } cases[] = {
        {"input %1 \"x\" f32[2,3]\ninput %2 \"i\" i64[1,1]\n%3 : f32[2,1,1] = Gather(%1, %2) {axis=1}\n", 3,
         "index 3 is outside axis 1, which has 3 elements"},
        {"input %1 \"x\" f32[2,3]\ninput %2 \"i\" i64[1,1]\n%3 : f32[1,1,3] = Gather(%1, %2)\n", -3,
         "index -3 is outside axis 0, which has 2 elements"},
        {"input %1 \"x\" f32[2,3]\ninput %2 \"i\" i64[1,1]\n%3 : f32[1,1] = GatherElements(%1, %2) {axis=1}\n",
         INT64_MIN, "index -9223372036854775808 is outside axis 1, which has 3 elements"},
        {"input %1 \"x\" f32[2,3]\ninput %2 \"i\" i64[1,1]\n%3 : f32[1,1] = GatherElements(%1, %2) {axis=1}\n", -3,
         NULL},
    };
    const struct qc_shape shape = QC_SHAPE(2, 3), one = QC_SHAPE(1, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct qc_status st = QC_STATUS_INIT;
        OWN(qc_graph) *g = parse(cases[i].lines);
        OWN(qc_tensor) *x = qc_tensor_of(QC_F32, &shape, (float[]){1, 2, 3, 4, 5, 6}, &st), *y = NULL;
        OWN(qc_tensor) *index = qc_tensor_of(QC_I64, &one, &cases[i].index, &st);
        const struct qc_tensor *const inputs[] = {x, index};
        const bool ok = kernel_run(&y, g, 1, inputs, &(struct kernel_run_options){0}, &st);
        cr_expect_eq(ok, !cases[i].message, "case %zu: %s", i, st.message);
        cr_expect_eq(st.code, cases[i].message ? QC_BAD_INPUT : QC_OK);
        if (cases[i].message)
            cr_expect(strstr(st.message, cases[i].message), "case %zu says \"%s\"", i, st.message);
        else
            cr_expect_eq(qc_tensor_float(y, 0), 1);
    }
}

/* The value that pads is real; data are levels: centred in floats, as stored in integers. */
static void check_pad(const char *lines, struct qc_scales scales, double want, enum qc_code code)
{
    const struct qc_scales all[] = {scales, {.identity = true, .count = 1}, {.identity = true, .count = 1}};
    const struct kernel_run_options options = {.late = 1, .in_scales = all};
    struct qc_status st = QC_STATUS_INIT;
    OWN(qc_tensor) *y = run(lines, &options, &st);
    cr_expect_eq(st.code, code, "code %d, %s", (int)st.code, st.message);
    if (code == QC_OK) {
        cr_assert_not_null(y);
        cr_expect_eq(qc_tensor_float(y, 0), want, "%g, expected %g", qc_tensor_float(y, 0), want);
        cr_expect_eq(qc_tensor_float(y, 1), 5);
    }
}

#define PADS "const %2 i64[2] = {1, 0}\n"

Test(kernel_pad, quantizes_the_value_that_pads_an_affine_one)
{
    static const float scale[] = {0.5f, 0.25f};
    static const int32_t zero[] = {10, 3};
    const struct qc_scales u8 = {.count = 1, .scale = scale, .zero_point = zero, .levels = {0, 255}},
                           real = {.identity = true, .count = 1};
    struct qc_scales channels = u8;
    channels.count = 2;
    static const char value[] =
        "const %1 f32[1] = {5}\n" PADS "const %3 f32[] = {1.25}\n%4 : f32[2] = Pad(%1, %2, %3)\n";
    static const char low[] =
        "const %1 f32[1] = {5}\n" PADS "const %3 f32[] = {-1000}\n%4 : f32[2] = Pad(%1, %2, %3)\n";
    static const char none[] = "const %1 f32[1] = {5}\n" PADS "%3 : f32[2] = Pad(%1, %2)\n";
    static const char stored[] = "const %1 u8[1] = {5}\n" PADS "%3 : u8[2] = Pad(%1, %2)\n";
    check_pad(value, real, 1.25, QC_OK);
    check_pad(value, u8, 2, QC_OK); /* 2.5 rounds to the even 2 */
    check_pad(low, u8, -10, QC_OK); /* level 0 */
    check_pad(none, u8, 0, QC_OK);
    check_pad(stored, u8, 10, QC_OK);
    check_pad(none, channels, 0, QC_OK);
    check_pad(value, channels, 0, QC_UNSUPPORTED);
}

Test(kernel_reduce, sums_many_elements_precisely)
{
    enum { N = 1 << 20 };
    const struct qc_shape shape = QC_SHAPE(1, N);
    OWN(qc_graph) *g = parse("input %1 \"x\" f32[1,1048576]\n%2 : f32[1] = ReduceSum(%1) {axes=[1], keepdims=0}\n");
    OWN(qc_tensor) *x = qc_tensor_new(QC_F32, &shape, ST), *y = NULL;
    for (size_t i = 0; i < N; i++) ((float *)x->data)[i] = 0.1f;
    const struct qc_tensor *const inputs[] = {x};
    MUST(kernel_run(&y, g, 1, inputs, &(struct kernel_run_options){0}, ST));
    cr_expect_float_eq(qc_tensor_float(y, 0), (double)0.1f * N, 1e-6 * 0.1 * N); /* a float32 sum is off by 1e-3 */
}

Test(unary, finds_the_function_of_a_node)
{
    struct qc_unary u;
    float y[3];
    const struct qc_attr alpha = QC_FLOAT("alpha", 0.25f), how = QC_STRING("approximate", "erf");
    const struct qc_node leaky = {.op = QC_OP_LeakyRelu, .attr_count = 1, .attrs = &alpha},
                         plain = {.op = QC_OP_LeakyRelu};
    const struct qc_node gelu = {.op = QC_OP_Gelu, .attr_count = 1, .attrs = &how}, conv = {.op = QC_OP_Conv};
    MUST(qc_unary_of(&u, &leaky, ST));
    u.fn(y, (float[]){-4, 0, 3}, 3, u.a, u.b);
    cr_expect_arr_eq(y, ((float[]){-1, 0, 3}), sizeof y);
    MUST(qc_unary_of(&u, &plain, ST));
    cr_expect_eq(u.a, 0.01f);
    REFUSES(qc_unary_of(&u, &gelu, ST), QC_UNSUPPORTED, "approximate is \"erf\"");
    FAILS(qc_unary_of(&u, &conv, ST), "Conv is not a function");
}
