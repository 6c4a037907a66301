// SPDX-License-Identifier: Apache-2.0
/* --weight-method output against the definition: the layer is computed on all samples with every candidate's weights.
 */
#include "arith/params.h"
#include "calib_case.h"

enum { SAMPLES = 64, IN = 12, OUT = 5, CANDIDATES = 25 };

static const char dense[] = "graph \"g\"\ninput %1 \"x\" f32[N,12]\nconst %2 \"w\" f32[5,12] = ";

static void make(struct qc_graph **g, float *w, float *x)
{
    QC_ARENA_SCOPE *a = qc_arena_new();
    const char *text = dense;
    uint64_t seed = 5;
    for (size_t i = 0; i < OUT * IN; i++) {
        w[i] = roundf(case_normal(&seed) * 64) / 64 * (i % IN % 3 ? 0.25f : 3.0f);
        text = qc_arena_printf(a, ST, "%s%s%.9g", text, i ? ", " : "{", (double)w[i]);
    }
    text = qc_arena_printf(a, ST, "%s}\n%%3 = Gemm(%%1, %%2) {transB=1}\noutput \"y\" %%3\n", text);
    *g = test_graph(text);
    for (size_t i = 0; i < SAMPLES * IN; i++) x[i] = case_normal(&seed) * ((i % IN) % 3 ? 1.0f : 0.01f);
}

struct result {
    float scale[OUT];
    size_t count;
};

static struct result choose(const struct qc_graph *g, const float *x, const char *method, bool per_channel,
                            unsigned workers)
{
    struct case_setup setup = CASE_SETUP;
    CASE_RUN run;
    struct case_data set = {.name = "x", .dtype = QC_F32, .values = x, .rank = 1, .dims = {IN}};
    struct result r = {0};
    char path[CASE_PATH];
    setup.weight_method = method;
    setup.moments = true;
    setup.workers = workers;
    setup.scheme.weight.dtype = QC_I4;
    setup.scheme.weight.per_channel = per_channel;
    case_write(path, &set, 1, SAMPLES);
    MUST(case_calibrate(&run, g, path, &setup, ST));
    const struct qc_qparams *s = &run.simulated->qparams_of[case_quantizer(run.simulated, "w")];
    r.count = s->count;
    for (size_t c = 0; c < s->count; c++) r.scale[c] = s->scale[c];
    case_unlink(path);
    return r;
}

/* Mean squared error of output o over the samples, weights in steps of `scale`; the input, which is rounded too, adds
 * noise of its own. */
static double error_of(const float *w, const float *x, size_t o, float scale, double noise)
{
    double sum = 0;
    for (size_t s = 0; s < SAMPLES; s++) {
        double e = 0;
        for (size_t i = 0; i < IN; i++) {
            const double q = fmin(fmax(rint((double)(w[o * IN + i] / scale)), -7), 7);
            e += ((double)w[o * IN + i] - q * (double)scale) * (double)x[s * IN + i];
        }
        sum += e * e / SAMPLES;
    }
    for (size_t i = 0; i < IN; i++) {
        const double q = fmin(fmax(rint((double)(w[o * IN + i] / scale)), -7), 7),
                     d = (double)w[o * IN + i] - q * (double)scale;
        sum += d * d * noise;
    }
    return sum;
}

static float widest(const float *w, size_t count)
{
    float m = 0;
    for (size_t i = 0; i < count; i++) m = fmaxf(m, fabsf(w[i]));
    return m / 7;
}

Test(output_error, scales_have_the_least_error_of_the_outputs)
{
    float w[OUT * IN], x[SAMPLES * IN], top = 0, bottom = 0;
    OWN(qc_graph) *g = NULL;
    make(&g, w, x);
    for (size_t i = 0; i < SAMPLES * IN; i++) {
        top = fmaxf(top, x[i]);
        bottom = fminf(bottom, x[i]);
    }
    const double step = (double)(top - bottom) / 255, noise = step * step / 12;
    size_t inside = 0;
    for (size_t per_channel = 0; per_channel < 2; per_channel++) {
        const struct result r = choose(g, x, "output", per_channel, 1);
        cr_assert_eq(r.count, per_channel ? OUT : 1);
        for (size_t c = 0; c < r.count; c++) {
            const size_t first = per_channel ? c : 0, last = per_channel ? c + 1 : OUT;
            const float start = widest(w + first * IN, (last - first) * IN);
            double least = (double)INFINITY, chosen = 0;
            bool tried = false;
            for (int k = 0; k < CANDIDATES; k++) {
                const float scale = (float)((double)start * pow(2, -k / 16.0));
                double e = 0;
                for (size_t o = first; o < last; o++) e += error_of(w, x, o, scale, noise);
                least = fmin(least, e);
                if (fabsf(scale - r.scale[c]) > 1e-5f * scale) continue;
                chosen = e;
                tried = true;
                inside += k > 0;
            }
            cr_assert(tried, "scale %g of %g is not a candidate", (double)r.scale[c], (double)start);
            cr_expect_lt(chosen, least * 1.02, "%g, but %g can be had", chosen,
                         least); /* moments hold inputs in 12 bits */
        }
    }
    cr_expect_gt(inside, 0, "nothing was ever clipped: the case shows nothing");
}

Test(output_error, workers_make_no_difference)
{
    float w[OUT * IN], x[SAMPLES * IN];
    OWN(qc_graph) *g = NULL;
    make(&g, w, x);
    const struct result one = choose(g, x, "output", true, 1), three = choose(g, x, "output", true, 3);
    for (size_t c = 0; c < OUT; c++) cr_expect_eq(one.scale[c], three.scale[c]);
}

Test(output_error, weights_of_several_layers_are_chosen_by_their_own_error)
{
    float x[SAMPLES * 4];
    uint64_t seed = 3;
    char *numbers = case_numbers(16, 1, 9), path[CASE_PATH];
    OWN(qc_graph) *g = test_graph(qc_arena_printf(
        test_arena(), ST,
        "graph \"g\"\ninput %%1 \"x\" f32[N,4]\nconst %%2 \"w\" f32[4,4] = %s\n"
        "%%3 = Gemm(%%1, %%2) {transB=1}\n%%4 = Relu(%%3)\n%%5 = Gemm(%%4, %%2) {transB=1}\noutput \"y\" %%5\n",
        numbers));
    const struct case_data set = {.name = "x", .dtype = QC_F32, .values = x, .rank = 1, .dims = {4}};
    float scales[2][4];
    for (size_t i = 0; i < SAMPLES * 4; i++) x[i] = case_normal(&seed);
    case_write(path, &set, 1, SAMPLES);
    for (int k = 0; k < 2; k++) {
        struct case_setup setup = CASE_SETUP;
        CASE_RUN run;
        setup.weight_method = k ? "mse" : "output";
        setup.moments = true;
        MUST(case_calibrate(&run, g, path, &setup, ST));
        const struct qc_qparams *s = &run.simulated->qparams_of[case_quantizer(run.simulated, "w")];
        cr_assert_eq(s->count, 4);
        for (size_t c = 0; c < 4; c++) scales[k][c] = s->scale[c];
    }
    for (size_t c = 0; c < 4; c++) cr_expect_eq(scales[0][c], scales[1][c]);
    case_unlink(path);
    free(numbers);
}

Test(output_error, moments_are_demanded)
{
    float w[OUT * IN], x[SAMPLES * IN];
    OWN(qc_graph) *g = NULL;
    struct case_setup setup = CASE_SETUP;
    CASE_RUN run;
    const struct case_data set = {.name = "x", .dtype = QC_F32, .values = x, .rank = 1, .dims = {IN}};
    CASE_FILE path[CASE_PATH];
    make(&g, w, x);
    case_write(path, &set, 1, SAMPLES);
    setup.weight_method = "output";
    REFUSES(case_calibrate(&run, g, path, &setup, ST), QC_USAGE, "second moments");
}
