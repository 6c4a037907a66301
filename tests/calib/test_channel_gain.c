// SPDX-License-Identifier: Apache-2.0
/* Gains of channels against the effect of the error of one element on the outputs of the layers, element by element. */
#include "calib/ranges/calibrate_parts.h"
#include "calib_case.h"
#include "simq/plan/plan.h"

/* Every graph is linear in x, or passes errors on as a linear one does; its outputs are those of the layers that are
 * counted. $: the weights. */
static const struct {
    const char *text;
    size_t weights;
} cases[] = {
    /* every element meets every tap */
    {"graph \"g\"\ninput %1 \"x\" f32[1,3,5,5]\nconst %2 \"w\" f32[4,3,3,3] = $\n%3 \"y\" = Conv(%1, %2) "
     "{pads=[2,2,2,2]}\noutput \"y\" %3\n",
     108},
    /* every element meets one tap of four */
    {"graph \"g\"\ninput %1 \"x\" f32[1,3,4,4]\nconst %2 \"w\" f32[4,3,2,2] = $\n%3 \"y\" = Conv(%1, %2) "
     "{strides=[2,2]}\noutput \"y\" %3\n",
     48},
    /* groups */
    {"graph \"g\"\ninput %1 \"x\" f32[1,6,4,4]\nconst %2 \"w\" f32[4,3,1,1] = $\n%3 \"y\" = Conv(%1, %2) "
     "{group=2}\noutput \"y\" %3\n",
     12},
    {"graph \"g\"\ninput %1 \"x\" f32[1,3,4]\nconst %2 \"w\" f32[3,2,3] = $\n%3 \"y\" = ConvTranspose(%1, %2) "
     "{strides=[2]}\noutput \"y\" %3\n",
     18},
    {"graph \"g\"\ninput %1 \"x\" f32[2,5]\nconst %2 \"w\" f32[5,3] = $\n%3 \"y\" = Gemm(%1, %2)\noutput \"y\" %3\n",
     15},
    {"graph \"g\"\ninput %1 \"x\" f32[2,5]\nconst %2 \"w\" f32[3,5] = $\n%3 \"y\" = Gemm(%1, %2) {transB=1}\noutput "
     "\"y\" %3\n",
     15},
    {"graph \"g\"\ninput %1 \"x\" f32[2,4,5]\nconst %2 \"w\" f32[5,3] = $\n%3 \"y\" = MatMul(%1, %2)\noutput \"y\" "
     "%3\n",
     15},
    /* two readers add up */
    {"graph \"g\"\ninput %1 \"x\" f32[1,3,4,4]\nconst %2 \"w\" f32[2,3,1,1] = $\n%3 \"y\" = Conv(%1, %2)\n%4 \"z\" = "
     "Conv(%1, %2) "
     "{strides=[2,2]}\noutput \"y\" %3\noutput \"z\" %4\n",
     6},
    /* means, sums and factors on the way */
    {"graph \"g\"\ninput %1 \"x\" f32[1,3,4,4]\nconst %2 \"w\" f32[2,3] = $\n%3 = GlobalAveragePool(%1)\n%4 = "
     "Flatten(%3)\n%5 \"y\" = Gemm(%4, %2) "
     "{transB=1}\noutput \"y\" %5\n",
     6},
    {"graph \"g\"\ninput %1 \"x\" f32[1,3,4,4]\nconst %2 \"w\" f32[2,3,1,1] = $\n%3 = AveragePool(%1) "
     "{kernel_shape=[2,2], strides=[2,2]}\n%4 \"y\" "
     "= Conv(%3, %2)\noutput \"y\" %4\n",
     6},
    {"graph \"g\"\ninput %1 \"x\" f32[1,3,4,4]\nconst %2 \"w\" f32[2,3,1,1] = $\nconst %3 \"f\" f32[3,1,1] = {2, 0.5, "
     "0}\n%4 = Mul(%1, %3)\n%5 \"y\" "
     "= Conv(%4, %2)\noutput \"y\" %5\n",
     6},
    {"graph \"g\"\ninput %1 \"x\" f32[1,3,4,4]\nconst %2 \"w\" f32[2,3,1,1] = $\n%3 = ReduceMean(%1) {axes=[2,3], "
     "keepdims=1}\n%4 \"y\" = Conv(%3, "
     "%2)\noutput \"y\" %4\n",
     6},
    /* moved, cut and joined */
    {"graph \"g\"\ninput %1 \"x\" f32[1,3,2,4]\nconst %2 \"w\" f32[3,2] = $\n%3 = Transpose(%1) {perm=[0,2,3,1]}\n%4 "
     "\"y\" = MatMul(%3, %2)\noutput "
     "\"y\" %4\n",
     6},
    {"graph \"g\"\ninput %1 \"x\" f32[1,3,2,2]\nconst %2 \"w\" f32[12,2] = $\n%3 = AveragePool(%1) "
     "{kernel_shape=[1,1]}\n%4 = Flatten(%3)\n%5 \"y\" "
     "= Gemm(%4, %2)\noutput \"y\" %5\n",
     24},
    {"graph \"g\"\ninput %1 \"x\" f32[1,3,2,2]\nconst %2 \"w\" f32[2,6,1,1] = $\nconst %3 \"z\" f32[1,3,2,2] = {0, 0, "
     "0, 0, 0, 0, 0, 0, 0, 0, 0, "
     "0}\n%4 = Concat(%3, %1) {axis=1}\n%5 \"y\" = Conv(%4, %2)\noutput \"y\" %5\n",
     12},
    {"graph \"g\"\ninput %1 \"x\" f32[1,4,2,2]\nconst %2 \"w\" f32[2,2,1,1] = $\n%3, %4 = Split(%1) {axis=1}\n%5 \"y\" "
     "= Conv(%4, %2)\noutput \"y\" "
     "%5\n",
     4},
};

static struct qc_graph *graph_of(size_t i)
{
    const char *dollar = strchr(cases[i].text, '$');
    char *weights = case_numbers(cases[i].weights, 1, i + 1), text[4096];
    snprintf(text, sizeof text, "%.*s%s%s", (int)(dollar - cases[i].text), cases[i].text, weights, dollar + 1);
    free(weights);
    return test_graph(text);
}

/* Sum of squares of all outputs of x. */
static double energy(struct qc_runner *r, const struct qc_graph *g, const float *x, size_t n)
{
    double sum = 0;
    memcpy(qc_runner_input(r, 0).data, x, n * sizeof *x);
    MUST(qc_runner_run(r, NULL, NULL, ST));
    for (size_t k = 0; k < g->output_count; k++) {
        const struct qc_view y = qc_runner_output(r, k);
        for (size_t i = 0; i < qc_view_count(&y); i++)
            sum += (double)((const float *)y.data)[i] * (double)((const float *)y.data)[i];
    }
    return sum;
}

Test(channel_gain, is_what_an_error_does_to_the_outputs)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        QC_ARENA_SCOPE *a = qc_arena_new();
        OWN(qc_graph) *g = graph_of(i);
        struct qc_channel_gain *gains;
        OWN(qc_plan) *plan = NULL;
        OWN(qc_runner) *r = NULL;
        float x[512];
        size_t n;
        const struct qc_shape *s = &g->values[g->inputs[0].value].type.shape;
        const struct qc_plan_options how = {0};
        cr_assert(a && qc_channel_gains(&gains, g, a, ST) && qc_plan_new(&plan, g, s, &how, ST) &&
                      qc_runner_new(&r, plan, ST),
                  "case %zu: %s", i, failure.message);
        cr_assert(qc_shape_count(&n, s) && n <= sizeof x / sizeof *x);
        const struct qc_channel_gain *got = &gains[g->inputs[0].value];
        cr_assert(got->gain, "case %zu", i);
        size_t inner = 1;
        for (int d = got->axis + 1; d < s->rank; d++) inner *= (size_t)s->dim[d];
        for (size_t c = 0; c < got->channels; c++) {
            double sum = 0;
            size_t elements = 0;
            for (size_t e = 0; e < n; e++) {
                if (e / inner % got->channels != c) continue;
                for (size_t k = 0; k < n; k++) x[k] = k == e;
                sum += energy(r, g, x, n);
                elements++;
            }
            cr_expect_float_eq(got->gain[c], sum / (double)elements, 1e-5 * (1 + sum / (double)elements),
                               "case %zu channel %zu: %g, expected %g", i, c, got->gain[c], sum / (double)elements);
        }
    }
}

/* What no layer reads has none. */
Test(channel_gain, ends_at_what_is_not_looked_through)
{
    static const char *const texts[] = {
        "graph \"g\"\ninput %1 \"x\" f32[1,3,4,4]\n%2 \"y\" = Relu(%1)\noutput \"y\" %2\n",
        "graph \"g\"\ninput %1 \"x\" f32[2,3]\nconst %2 \"w\" f32[3,1] = {1, 2, 3}\n%3 = Softmax(%1) {axis=1}\n%4 "
        "\"y\" = MatMul(%3, %2)\noutput \"y\" %4\n",
        "graph \"g\"\ninput %1 \"x\" f32[2,3]\nconst %2 \"w\" f32[3,1] = {1, 2, 3}\n%3 = Mul(%1, %1)\n%4 \"y\" = "
        "MatMul(%3, %2)\noutput \"y\" %4\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        QC_ARENA_SCOPE *a = qc_arena_new();
        OWN(qc_graph) *g = test_graph(texts[i]);
        struct qc_channel_gain *gains;
        MUST(a && qc_channel_gains(&gains, g, a, ST));
        cr_expect_null(gains[g->inputs[0].value].gain, "%zu", i);
    }
}
