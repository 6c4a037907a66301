// SPDX-License-Identifier: Apache-2.0
/* The cost of a network: times of operators, and their order for placements and types. */
#include "quantize/search/cost.h"
#include "tests/check.h"
#include "tests/quantize/made_network.h"

#define MODEL QC_TEST_SOURCE "/datasets/digits_cnn.onnx"
#define DATA QC_TEST_SOURCE "/datasets/digits_calib.h5"

static const struct qc_job_inputs in = {.model = {.file = MODEL}, .data = {.file = DATA}};

static double time_on(enum qc_processor on, const char *text, bool wide_is_float)
{
    OWN(qc_graph) *g = test_graph(text);
    double time;
    MUST(qc_estimate_time(&time, on, g, wide_is_float, ST));
    return time;
}

static double time_of(const char *text, bool wide_is_float)
{
    return time_on(QC_PROCESSOR_AVX512_VNNI, text, wide_is_float);
}

#define RUN "graph \"g\"\ninput %1 \"x\" f32[5]\noutput \"x\" %1\n"

#define EIGHT(s) s s s s s s s s
/* of 64 scores half are hidden */
#define MASK                                                                                                           \
    EIGHT("0,")                                                                                                        \
    EIGHT("0,")                                                                                                        \
    EIGHT("0,") EIGHT("0,") EIGHT("-1e9,") EIGHT("-1e9,") EIGHT("-1e9,") "-1e9,-1e9,-1e9,-1e9,-1e9,-1e9,-1e9,-1e9"

/* ONNX Runtime 1.32 on Intel Xeons, one thread: microseconds, measured. */
Test(cost, is_that_of_measured_operators)
{
    static const struct {
        enum qc_processor on;
        const char *text;
        double us;
    } cases[] = {
        {QC_PROCESSOR_AVX512_VNNI,
         "graph \"g\"\ninput %1 \"x\" f32[1,64,16,16]\ninput %2 \"w\" f32[64,64,3,3]\n%3 \"y\" = Conv \"c\"(%1, %2) "
         "{pads=[1,1,1,1]}\noutput \"y\" %3\n",
         111},
        {QC_PROCESSOR_AVX512_VNNI,
         "graph \"g\"\ninput %1 \"x\" f32[1,64,16,16]\ninput %2 \"w\" f32[64,1,3,3]\n%3 \"y\" = Conv \"c\"(%1, %2) "
         "{group=64, pads=[1,1,1,1]}\noutput \"y\" %3\n",
         5.7},
        {QC_PROCESSOR_AVX512_VNNI,
         "graph \"g\"\ninput %1 \"x\" f32[32,128]\ninput %2 \"w\" f32[128,128]\n%3 \"y\" = MatMul \"c\"(%1, "
         "%2)\noutput \"y\" %3\n",
         6.8},
        {QC_PROCESSOR_AVX512_VNNI,
         "graph \"g\"\ninput %1 \"x\" f32[64,128]\n%2 \"y\" = Softmax \"c\"(%1)\noutput \"y\" %2\n", 3},
        {QC_PROCESSOR_AVX512_VNNI,
         "graph \"g\"\ninput %1 \"x\" f32[1,16,24,24]\nconst %2 \"s\" f32[4] = {1, 1, 2, 2}\n%3 \"y\" = Resize "
         "\"c\"(%1, -, %2) {mode=\"nearest\", nearest_mode=\"floor\"}\noutput \"y\" %3\n",
         8.2},
        {QC_PROCESSOR_AVX512_VNNI,
         "graph \"g\"\ninput %1 \"x\" f32[1,24,32,32]\ninput %2 \"s\" f32[24]\ninput %3 \"b\" f32[24]\n%4 \"y\" = "
         "InstanceNormalization \"c\"(%1, %2, %3)\noutput \"y\" %4\n",
         7.3},
        {QC_PROCESSOR_AMX,
         "graph \"g\"\ninput %1 \"x\" f32[1,64,16,16]\ninput %2 \"w\" f32[64,64,3,3]\n%3 \"y\" = Conv \"c\"(%1, %2) "
         "{pads=[1,1,1,1]}\noutput \"y\" %3\n",
         101},
        {QC_PROCESSOR_AMX,
         "graph \"g\"\ninput %1 \"x\" f32[1,64,16,16]\ninput %2 \"w\" f32[64,1,3,3]\n%3 \"y\" = Conv \"c\"(%1, %2) "
         "{group=64, pads=[1,1,1,1]}\noutput \"y\" %3\n",
         4.6},
        {QC_PROCESSOR_AMX,
         "graph \"g\"\ninput %1 \"x\" f32[1,192]\ninput %2 \"w\" f32[192,192]\n%3 \"y\" = Gemm \"c\"(%1, "
         "%2)\noutput \"y\" %3\n",
         1.66},
        {QC_PROCESSOR_AMX,
         "graph \"g\"\ninput %1 \"x\" f32[64,128]\ninput %2 \"w\" f32[128,128]\n%3 \"y\" = MatMul \"c\"(%1, "
         "%2)\noutput \"y\" %3\n",
         11.3},
        {QC_PROCESSOR_AMX, "graph \"g\"\ninput %1 \"x\" f32[64,96]\n%2 \"y\" = Softmax \"c\"(%1)\noutput \"y\" %2\n",
         2.2},
        {QC_PROCESSOR_AMX,
         "graph \"g\"\ninput %1 \"x\" f32[128,64]\nconst %2 \"mask\" f32[64] = {" MASK "}\n%3 \"m\" = Add "
         "\"a\"(%1, %2)\n%4 \"y\" = Softmax \"c\"(%3)\noutput \"y\" %4\n",
         23.5},
        {QC_PROCESSOR_AMX,
         "graph \"g\"\ninput %1 \"x\" f32[1,32,16,16]\nconst %2 \"s\" f32[4] = {1, 1, 2, 2}\n%3 \"y\" = Resize "
         "\"c\"(%1, -, %2) {mode=\"nearest\", nearest_mode=\"floor\"}\noutput \"y\" %3\n",
         3.5},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const double us = (time_on(cases[i].on, cases[i].text, true) - time_on(cases[i].on, RUN, true)) / 1000;
        cr_expect(us > 0.8 * cases[i].us && us < 1.25 * cases[i].us, "case %zu: %g us", i, us);
    }
}

/* So many Gemms of 512 units in a row, each with weights of its own or all with the same. */
static double time_of_gemms(int count, bool same)
{
    enum { UNITS = 512, SIZE = 4 << 20 };
    char *text = QC_NEW_ARRAY(test_arena(), char, SIZE, ST), *end = text + SIZE, *at = text;
    MUST(text != NULL);
    at += snprintf(at, SIZE, "graph \"g\"\ninput %%1 \"x\" f32[1,%d]\n", UNITS);
    int last = 1;
    for (int k = 0; k < count; k++) {
        const bool again = same && k;
        const int weight = again ? 2 : last + 1, result = again ? last + 1 : last + 2;
        if (!again)
            at += snprintf(at, (size_t)(end - at), "const %%%d \"w%d\" f32[%d,%d] = {1", weight, k, UNITS, UNITS);
        for (int i = 1; !again && i < UNITS * UNITS; i++, at += 2) memcpy(at, ",1", 2);
        at += snprintf(at, (size_t)(end - at), "%s%%%d = Gemm(%%%d, %%%d)\n", again ? "" : "}\n", result, last, weight);
        last = result;
    }
    snprintf(at, (size_t)(end - at), "output \"y\" %%%d\n", last);
    return time_on(QC_PROCESSOR_AMX, text, true) / 1000;
}

/* Weights that fit a cache of 2 MB are there in the next run. ONNX Runtime 1.32 on an Intel Xeon with AMX: a network of
   one such Gemm takes 13.9 us, one of three 107 us. */
Test(cost, of_weights_is_higher_if_the_cache_does_not_hold_them_all)
{
    const double one = time_of_gemms(1, false), three = time_of_gemms(3, false), same = time_of_gemms(3, true);
    cr_expect(one > 0.8 * 13.9 && one < 1.25 * 13.9, "%g us", one);
    cr_expect(three > 0.8 * 107 && three < 1.25 * 107, "%g us", three);
    cr_expect(same < 3 * one, "the same weights are read once: %g us", same);
}

/* ONNX Runtime 1.32 computes HardSwish with a convolution of images in float (activation of its Conv), and as two
   operators behind other products and in one dimension, as its optimized models show. */
Test(cost, of_hard_swish_is_that_of_the_convolution_before_it)
{
#define IMAGE "graph \"g\"\ninput %1 \"x\" f32[1,32,24,24]\ninput %2 \"w\" f32[32,32,1,1]\n%3 \"c\" = Conv(%1, %2)\n"
#define LINE "graph \"g\"\ninput %1 \"x\" f32[1,32,576]\ninput %2 \"w\" f32[32,32,1]\n%3 \"c\" = Conv(%1, %2)\n"
    const double image = time_of(IMAGE "%4 \"y\" = HardSwish(%3)\noutput \"y\" %4\n", true) -
                         time_of(IMAGE "output \"c\" %3\n", true),
                 line = time_of(LINE "%4 \"y\" = HardSwish(%3)\noutput \"y\" %4\n", true) -
                        time_of(LINE "output \"c\" %3\n", true);
    cr_expect(image < 3000 && line > 2 * image, "%g %g ns", image, line);
}

Test(cost, is_unknown_if_a_shape_is)
{
    cr_expect(isnan(time_of("graph \"g\"\ninput %1 \"x\" f32[1,N,8]\ninput %2 \"w\" f32[8,4]\n%3 \"y\" = MatMul "
                            "\"c\"(%1, %2)\noutput \"y\" %3\n",
                            true)));
}

static struct qc_cost cost_with(enum qc_option option, const char *value)
{
    struct qc_options o;
    MADE_NETWORK m;
    struct qc_cost cost;
    cr_assert(qc_options_init(&o, QC_COMMAND_quantize, test_arena(), ST) &&
              qc_options_set(&o, QC_OPTION_SAMPLES, "8", ST) && qc_options_set(&o, QC_OPTION_METHOD, "minmax", ST) &&
              qc_options_set(&o, QC_OPTION_THREADS, "1", ST) && (!value || qc_options_set(&o, option, value, ST)));
    MUST(make_network(&m, &o, &in, NULL, ST) && qc_cost_of(&cost, m.c->network, ST));
    return cost;
}

/* ONNX Runtime has no kernels for 16 bits; a target that has is not asked to compute in float. */
Test(cost, of_bits)
{
    const struct qc_cost bytes = cost_with(QC_OPTION_THREADS, NULL),
                         wide = cost_with(QC_OPTION_ACTIVATION_TYPE, "uint16"),
                         part = cost_with(QC_OPTION_SKIP, "res1_conv_node"),
                         small = cost_with(QC_OPTION_WEIGHT_TYPE, "int4");
    cr_expect(wide.latency > 1 && wide.latency > bytes.latency, "%g %g", wide.latency, bytes.latency);
    cr_expect(part.bytes > bytes.bytes && small.bytes < bytes.bytes);
    cr_expect(bytes.latency > 0.2 && bytes.latency < 1.5, "%g", bytes.latency);
}

/* A convolution, and so many residual blocks that begin with its result. */
static double more_in_float(const struct qc_network *net, int blocks)
{
    char text[4096];
    int at = snprintf(text, sizeof text,
                      "graph \"g\"\nqparams @1 quantizer \"x\" u8 asymmetric bound scale 0.1 zero 3 observed %%1\n"
                      "qparams @2 quantizer \"w\" i8 symmetric weight bound scale 0.1 zero 0\n"
                      "qparams @3 product @1 @2\ninput %%1 \"x\" f32[1,16,32,32]\ninput %%2 \"w\" f32[16,16,3,3]\n"
                      "%%3 : u8[1,16,32,32] @1 = Quantize(%%1)\n%%4 : i8[16,16,3,3] @2 = Quantize(%%2)\n"
                      "%%5 : i32[1,16,32,32] @3 axis 1 = Conv \"c\"(%%3, %%4) {pads=[1,1,1,1]}\n"
                      "%%6 : u8[1,16,32,32] @1 = Requantize(%%5)\n");
    int last = 6;
    for (int k = 0; k < blocks; k++, last += 4)
        at += snprintf(text + at, sizeof text - (size_t)at,
                       "%%%d : i32[1,16,32,32] @3 axis 1 = Conv \"b%d\"(%%%d, %%4) {pads=[1,1,1,1]}\n"
                       "%%%d : u8[1,16,32,32] @1 = Requantize(%%%d)\n"
                       "%%%d : u8[1,16,32,32] @1 = Add(%%%d, %%%d)\n%%%d : u8[1,16,32,32] @1 = Relu(%%%d)\n",
                       last + 1, k, last, last + 2, last + 1, last + 3, last, last + 2, last + 4, last + 3);
    snprintf(text + at, sizeof text - (size_t)at, "output \"y\" %%%d\n", last);
    OWN(qc_graph) *g = test_graph(text);
    double *more, time, one = (double)NAN;
    MUST(qc_latency_in_float(&more, &time, net, g, test_arena(), ST));
    for (qc_id id = 1; id <= g->node_count; id++)
        if (g->nodes[id].name && strcmp(g->nodes[id].name, "c") == 0) one = more[id] * time;
    return one;
}

/* In float, ONNX Runtime orders the channels of the result otherwise before and behind each sum: ResNet-20 takes 366 us
   instead of 353 if its first convolution is in float. */
Test(cost, of_a_float_convolution_grows_with_the_sums_behind_it)
{
    struct qc_options o;
    MADE_NETWORK m;
    cr_assert(qc_options_init(&o, QC_COMMAND_quantize, test_arena(), ST) &&
              qc_options_set(&o, QC_OPTION_SAMPLES, "8", ST) && qc_options_set(&o, QC_OPTION_METHOD, "minmax", ST) &&
              make_network(&m, &o, &in, NULL, ST));
    const double one = more_in_float(m.c->network, 1), two = more_in_float(m.c->network, 2),
                 three = more_in_float(m.c->network, 3);
    cr_expect(two > one && fabs(three - two - (two - one)) < 1, "%g %g %g", one, two, three);
}
