// SPDX-License-Identifier: Apache-2.0
/* Functions through which ranges are measured, in graphs from the passes. */
#include "calib_case.h"

#define HEAD                                                                                                           \
    "graph \"g\"\ninput %1 \"x\" f32[N,2,3,3]\nconst %2 \"w\" f32[2,2,1,1] = {0.5, -2, 0.25, 0.125}\n%3 \"c\" = "      \
    "Conv(%1, %2)\n"

enum { SAMPLES = 16, IMAGE = 18 };

static void write_images(char path[CASE_PATH])
{
    float x[SAMPLES][IMAGE];
    uint64_t state = 5;
    for (int s = 0; s < SAMPLES; s++)
        for (int i = 0; i < IMAGE; i++) x[s][i] = 2 * case_normal(&state);
    case_write(path, &(struct case_data){.name = "x", .dtype = QC_F32, .values = x, .rank = 3, .dims = {2, 3, 3}}, 1,
               SAMPLES);
}

static const struct {
    const char *text, *behind; /* of quantizer "c"; NULL: nothing */
} cases[] = {
    {HEAD "%4 \"y\" = LeakyRelu(%3) {alpha=0.25f}\n%5 \"z\" = Conv(%4, %2)\noutput \"z\" %5\n",
     "LeakyRelu(x; alpha=0.25)"},
    {HEAD "%4 \"y\" = HardSwish(%3)\noutput \"y\" %4\n", "HardSwish(x)"},
    /* x * Sigmoid(x), which two ops compute */
    {HEAD "%4 \"s\" = Sigmoid(%3)\n%5 \"y\" = Mul(%3, %4)\n%6 \"z\" = Conv(%5, %2)\noutput \"z\" %6\n",
     "Mul(x, Sigmoid(x))"},
    /* moved elements are the same elements */
    {HEAD "%4 \"t\" = Transpose(%3) {perm=[0,2,3,1]}\n%5 \"y\" = Tanh(%4)\noutput \"y\" %5\n", "Tanh(x)"},
    /* a factor alone is nothing, and passed on the way */
    {HEAD "const %4 \"k\" f32[] = {3}\n%5 \"m\" = Mul(%3, %4)\n%6 \"y\" = HardSwish(%5)\n%7 \"z\" = Conv(%6, "
          "%2)\noutput \"z\" %7\n",
     "HardSwish(Mul(x, 3))"},
    {HEAD "const %4 \"k\" f32[] = {3}\n%5 \"m\" = Mul(%3, %4)\n%6 \"z\" = Conv(%5, %2)\noutput \"z\" %6\n", NULL},
    /* a number for each column is no function of one variable */
    {HEAD "const %4 \"k\" f32[3] = {3, 4, 5}\n%5 \"m\" = Mul(%3, %4)\n%6 \"y\" = HardSwish(%5)\n%7 \"z\" = Conv(%6, "
          "%2)\noutput \"z\" %7\n",
     NULL},
    /* others read the value too: a convolution, an output, a sum */
    {HEAD "%4 \"y\" = LeakyRelu(%3)\n%5 \"z\" = Conv(%3, %2)\n%6 \"s\" = Add(%4, %5)\noutput \"s\" %6\n", NULL},
    {HEAD "%4 \"y\" = LeakyRelu(%3)\n%5 \"z\" = Conv(%4, %2)\noutput \"c\" %3\noutput \"z\" %5\n", NULL},
    {HEAD "%4 \"y\" = LeakyRelu(%3)\n%5 \"z\" = Conv(%4, %2)\n%6 \"s\" = Add(%3, %5)\noutput \"s\" %6\n", NULL},
    /* two functions, and no one value behind them */
    {HEAD "%4 \"y\" = LeakyRelu(%3)\n%5 \"t\" = Tanh(%3)\n%6 \"z\" = Conv(%4, %2)\n%7 \"u\" = Conv(%5, %2)\noutput "
          "\"z\" %6\noutput \"u\" %7\n",
     NULL},
    /* ... and one */
    {HEAD "%4 \"y\" = LeakyRelu(%3) {alpha=0.25f}\n%5 \"t\" = Tanh(%3)\n%6 \"m\" = Mul(%4, %5)\n%7 \"z\" = Conv(%6, "
          "%2)\noutput \"z\" %7\n",
     "Mul(LeakyRelu(x; alpha=0.25), Tanh(x))"},
    {HEAD "%4 \"y\" = Softmax(%3) {axis=1}\noutput \"y\" %4\n", NULL},
};

Test(look_through, finds_the_function_that_everything_goes_through)
{
    CASE_FILE path[CASE_PATH];
    write_images(path);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int on = 0; on < 2; on++) {
            struct case_setup setup = CASE_SETUP;
            OWN(qc_graph) *g = test_graph(cases[i].text);
            CASE_RUN r;
            setup.method = "mse";
            setup.look_through = on;
            cr_assert(case_calibrate(&r, g, path, &setup, ST), "case %zu: %s", i, failure.message);
            const char *behind = r.calibration->choices[case_quantizer(r.simulated, "c")].behind,
                       *want = on ? cases[i].behind : NULL;
            cr_expect(want ? behind && strcmp(behind, want) == 0 : !behind, "%s, expected %s:\n%s",
                      behind ? behind : "nothing", want ? want : "nothing", cases[i].text);
        }
}

/* A clamp moves its quantizer, so that there is nothing to look through. */
Test(look_through, a_clamp_is_the_quantizer_itself)
{
    struct case_setup setup = CASE_SETUP;
    OWN(qc_graph) *g = test_graph(HEAD "const %4 \"lo\" f32[] = {0}\nconst %5 \"hi\" f32[] = {6}\n%6 \"y\" = "
                                       "Clip(%3, %4, %5)\n%7 \"z\" = Conv(%6, %2)\noutput \"z\" %7\n");
    CASE_RUN r;
    CASE_FILE path[CASE_PATH];
    write_images(path);
    setup.method = "mse";
    setup.look_through = true;
    MUST(case_calibrate(&r, g, path, &setup, ST));
    cr_expect_null(r.calibration->choices[case_quantizer(r.simulated, "y")].behind);
}
