// SPDX-License-Identifier: Apache-2.0
#include "calib_case.h"

/* ---- The same result for any number of workers and any order of samples ---- */

static void expect_same(const struct case_run *a, const struct case_run *b, const char *what)
{
    cr_assert_eq(a->simulated->qparams_count, b->simulated->qparams_count);
    for (qc_id s = 1; s <= a->simulated->qparams_count; s++) {
        const struct qc_qparams *x = &a->simulated->qparams_of[s], *y = &b->simulated->qparams_of[s];
        cr_expect_eq(x->state, QC_QPARAMS_BOUND, "%s: '%s' is not bound", what, x->name);
        cr_assert_eq(x->count, y->count, "%s: '%s'", what, x->name);
        cr_expect(memcmp(x->scale, y->scale, x->count * sizeof *x->scale) == 0, "%s: scales of '%s' differ", what,
                  x->name);
        cr_expect(memcmp(x->zero_point, y->zero_point, x->count * sizeof *x->zero_point) == 0,
                  "%s: zero points of '%s' differ", what, x->name);
        const struct qc_tally *t = &a->calibration->choices[s].seen, *u = &b->calibration->choices[s].seen;
        cr_expect(t->count == u->count && t->zeros == u->zeros && memcmp(&t->min, &u->min, sizeof t->min) == 0 &&
                      memcmp(&t->max, &u->max, sizeof t->max) == 0,
                  "%s: what was seen of '%s' differs", what, x->name);
        double f = a->calibration->choices[s].range.clipped_fraction,
               h = b->calibration->choices[s].range.clipped_fraction;
        cr_expect(memcmp(&f, &h, sizeof f) == 0, "%s: clipped fractions of '%s' differ", what, x->name);
    }
}

/* The samples of the shipped file, one in so many, in another order. */
static void write_shuffled(char path[CASE_PATH], const struct qc_graph *g, size_t samples)
{
    OWN(qc_dataset) *d = case_open(g, QC_TEST_SOURCE "/datasets/digits_calib.h5", false);
    OWN(qc_dataset_scratch) *scratch = NULL;
    const size_t n = qc_dataset_elements(d, 0);
    QC_FREED float *values = malloc(samples * n * sizeof *values);
    uint64_t state = 7;
    MUST(values && qc_dataset_scratch_new(&scratch, ST) &&
         qc_dataset_select(d, &(struct qc_selection){.samples = samples}, ST));
    for (size_t i = 0; i < samples; i++) { /* inside-out shuffle */
        size_t k = (size_t)(test_random(&state) % (i + 1));
        memmove(values + i * n, values + k * n, n * sizeof *values);
        MUST(qc_dataset_read(values + k * n, d, 0, i, scratch, ST));
    }
    struct case_data set = {.name = "input", .dtype = QC_F32, .values = values, .rank = 3, .dims = {1, 8, 8}};
    case_write(path, &set, 1, samples);
}

Test(calibrate, workers_and_order_of_samples_make_no_difference)
{
    static const char *const methods[] = {"minmax", "percentile", "mse", "kl", "avgmax", "gaussian"};
    OWN(qc_graph) *g = case_model(QC_TEST_SOURCE "/datasets/digits_cnn.onnx");
    const char *data = QC_TEST_SOURCE "/datasets/digits_calib.h5";
    CASE_FILE shuffled[CASE_PATH];
    write_shuffled(shuffled, g, 50);
    for (size_t m = 0; m < sizeof methods / sizeof *methods; m++) {
        struct case_setup setup = CASE_SETUP;
        CASE_RUN one, other;
        char what[64];
        setup.method = methods[m];
        setup.samples = 50;
        MUST(case_calibrate(&one, g, data, &setup, ST));
        for (setup.workers = 2; setup.workers <= 4; setup.workers *= 2) {
            MUST(case_calibrate(&other, g, data, &setup, ST));
            cr_expect_eq(other.calibration->cost.workers, setup.workers);
            expect_same(&one, &other, qc_text(what, sizeof what, "%s, %u workers", methods[m], setup.workers));
            case_free(&other);
        }
        setup.workers = 2;
        MUST(case_calibrate(&other, g, shuffled, &setup, ST));
        expect_same(&one, &other, qc_text(what, sizeof what, "%s, another order", methods[m]));
    }
}

/* ---- What is chosen ---- */

#define CONV                                                                                                           \
    "graph \"g\"\ninput %1 \"x\" f32[N,2,3,3]\nconst %2 \"w\" f32[2,2,1,1] = {0.5, -2, 0.25, 0.125}\nconst %3 \"b\" "  \
    "f32[2] = {0.75, -0.5}\n"                                                                                          \
    "%4 \"c\" = Conv(%1, %2, %3)\n%5 \"r\" = Relu(%4)\n%6 \"y\" = Conv(%5, %2)\noutput \"y\" %6\n"

enum { SAMPLES = 6, PIXELS = 9 };

static void write_images(char path[CASE_PATH], float x[SAMPLES][2][PIXELS])
{
    struct case_data set = {.name = "x", .dtype = QC_F32, .values = x, .rank = 3, .dims = {2, 3, 3}};
    case_write(path, &set, 1, SAMPLES);
}

static void draw_images(float x[SAMPLES][2][PIXELS], float scale)
{
    uint64_t seed = 1;
    for (float *v = &x[0][0][0]; v < &x[0][0][0] + SAMPLES * 2 * PIXELS; v++) *v = scale * case_normal(&seed);
}

static bool calibrate_images(struct case_run *r, const char *text, float x[SAMPLES][2][PIXELS],
                             const struct case_setup *setup, struct qc_status *st)
{
    OWN(qc_graph) *g = test_graph(text);
    CASE_FILE path[CASE_PATH];
    write_images(path, x);
    return case_calibrate(r, g, path, setup, st);
}

static void calibrate_drawn(struct case_run *r, const char *text, float scale, const struct case_setup *setup)
{
    float x[SAMPLES][2][PIXELS];
    draw_images(x, scale);
    MUST(calibrate_images(r, text, x, setup, ST));
}

/* min-max by hand: scale (max - min) / 255 with 0 inside, zero point RNE(-min / scale); weights max |w| / 127,
 * symmetric. */
Test(calibrate, minmax_is_what_the_data_say)
{
    CASE_RUN r;
    float x[SAMPLES][2][PIXELS];
    double lo[2] = {0, 0}, hi[2] = {0, 0};
    draw_images(x, 3);
    for (int s = 0; s < SAMPLES; s++)
        for (int i = 0; i < PIXELS; i++) {
            double a = (double)x[s][0][i], b = (double)x[s][1][i];
            double c[2] = {0.5 * a - 2 * b + 0.75, 0.25 * a + 0.125 * b - 0.5};
            lo[0] = fmin(lo[0], fmin(a, b));
            hi[0] = fmax(hi[0], fmax(a, b));
            hi[1] = fmax(hi[1], fmax(c[0], c[1]));
        }
    MUST(calibrate_images(&r, CONV, x, &CASE_SETUP, ST));
    static const char *const quantizers[] = {"x", "r"};
    for (int k = 0; k < 2; k++) {
        const struct qc_qparams *s = &r.simulated->qparams_of[case_quantizer(r.simulated, quantizers[k])];
        double scale = (hi[k] - lo[k]) / 255;
        cr_expect_eq(s->count, 1);
        cr_expect_float_eq(s->scale[0], scale, 1e-6 * scale, "%s: %.9g, not %.9g", quantizers[k], (double)s->scale[0],
                           scale);
        cr_expect_eq(s->zero_point[0], (int32_t)nearbyint(-lo[k] / scale), "%s: %d", quantizers[k], s->zero_point[0]);
        const struct qc_choice *c = &r.calibration->choices[case_quantizer(r.simulated, quantizers[k])];
        HOLD(c->seen.count == SAMPLES * 2 * PIXELS, c->seen.samples == SAMPLES, strcmp(c->method, "minmax") == 0);
        cr_expect_float_eq(c->range.hi, hi[k], 1e-6 * hi[k]);
        cr_expect_float_eq(c->range.lo, lo[k], 1e-6 * fabs(lo[k]));
    }
    const struct qc_qparams *w = &r.simulated->qparams_of[case_quantizer(r.simulated, "w")];
    cr_assert_eq(w->count, 2);
    cr_expect(w->scale[0] == 2.0f / 127 && w->scale[1] == 0.25f / 127, "%.9g %.9g", (double)w->scale[0],
              (double)w->scale[1]);
    cr_expect(w->zero_point[0] == 0 && w->zero_point[1] == 0);
}

Test(calibrate, per_tensor_weights_have_one_scale)
{
    struct case_setup setup = CASE_SETUP;
    CASE_RUN r;
    setup.scheme.weight.per_channel = false;
    calibrate_drawn(&r, CONV, 3, &setup);
    const struct qc_qparams *w = &r.simulated->qparams_of[case_quantizer(r.simulated, "w")];
    HOLD(w->count == 1, w->scale[0] == 2.0f / 127);
}

Test(calibrate, a_clamp_decides_the_range_and_shared_values_have_one_quantizer)
{
    /* relu6 before the convolution's result is stored: [0, 6] at most, whatever comes in */
    static const char text[] = "graph \"g\"\ninput %1 \"x\" f32[N,2,3,3]\n"
                               "const %2 \"w\" f32[2,2,1,1] = {0.5, -2, 0.25, 0.125}\n"
                               "const %3 \"lo\" f32[] = {0}\nconst %4 \"hi\" f32[] = {6}\n%5 \"c\" = Conv(%1, %2)\n"
                               "%6 \"r\" = Clip(%5, %3, %4)\n%7 \"y\" = Conv(%6, %2)\noutput \"y\" %7\n";
    CASE_RUN r;
    calibrate_drawn(&r, text, 100, &CASE_SETUP);
    const struct qc_qparams *s = &r.simulated->qparams_of[case_quantizer(r.simulated, "r")];
    HOLD(s->scale[0] == 6.0f / 255, s->zero_point[0] == 0);
    for (qc_id id = 1; id <= r.simulated->qparams_count; id++) cr_expect_str_neq(r.simulated->qparams_of[id].name, "c");
}

Test(calibrate, values_that_are_no_numbers_are_counted_and_named)
{
    struct case_setup setup = CASE_SETUP;
    OWN(qc_graph) *g = test_graph(CONV);
    CASE_RUN r, clean;
    float x[SAMPLES][2][PIXELS];
    char path[CASE_PATH];
    draw_images(x, 3);
    write_images(path, x);
    MUST(case_calibrate(&clean, g, path, &setup, ST));
    case_unlink(path);
    x[3][0][4] = NAN; /* in the middle of the range: the others keep the extremes */
    x[4][1][2] = INFINITY;
    x[4][1][3] = -INFINITY;
    write_images(path, x);
    for (setup.workers = 1; setup.workers <= 2; setup.workers++) {
        MUST(case_calibrate(&r, g, path, &setup, ST));
        qc_id quantizer = case_quantizer(r.simulated, "x");
        const struct qc_tally *t = &r.calibration->choices[quantizer].seen;
        HOLD(t->nan == 1, t->pos_inf == 1, t->neg_inf == 1, t->count == SAMPLES * 2 * PIXELS - 3,
             t->first_bad_sample == 3);
        cr_assert_gt(r.calibration->warnings.count, 0);
        const char *w = r.calibration->warnings.lines[0];
        cr_expect(strstr(w, path) && strstr(w, "'x'") && strstr(w, "1 NaN") && strstr(w, "2 infinite") &&
                      strstr(w, "sample 3"),
                  "%s", w);
        cr_expect(isfinite(r.simulated->qparams_of[quantizer].scale[0]));
        case_free(&r);
    }
    setup.nonfinite_error = true;
    REFUSES(case_calibrate(&r, g, path, &setup, ST), QC_BAD_INPUT, "");
    SHOULD(strstr(failure.message, path) && strstr(failure.message, "'x'") && strstr(failure.message, "sample 3"));
    case_unlink(path);
}

Test(calibrate, data_of_nothing_but_zero_give_scale_1_and_of_nan_none)
{
    static const char text[] = "graph \"g\"\ninput %1 \"x\" f32[N,2,3,3]\nconst %2 \"w\" f32[2,2,1,1] = {0.5, -2, "
                               "0.25, 0.125}\n%4 \"c\" = Conv(%1, %2)\noutput \"c\" %4\n";
    for (int k = 0; k < 2; k++) {
        struct case_setup setup = CASE_SETUP;
        CASE_RUN r;
        static float x[SAMPLES][2][PIXELS];
        for (int s = 0; s < SAMPLES; s++)
            for (int i = 0; i < PIXELS; i++) x[s][0][i] = x[s][1][i] = k ? 0 : NAN;
        setup.method = k ? "kl" : "mse";
        const bool ok = calibrate_images(&r, text, x, &setup, ST);
        cr_assert_eq(ok, k, "%s", failure.message);
        if (!ok) {
            cr_expect_eq(failure.code, QC_BAD_INPUT);
            SHOULD(strstr(failure.message, "'x' has no finite value in any sample"));
        }
        static const char *const quantizers[] = {"x", "c"};
        for (int i = 0; ok && i < 2; i++) {
            const struct qc_qparams *s = &r.simulated->qparams_of[case_quantizer(r.simulated, quantizers[i])];
            bool warned = false;
            HOLD(s->scale[0] == 1, s->zero_point[0] == 0);
            for (size_t w = 0; w < r.calibration->warnings.count; w++)
                warned = warned || (strstr(r.calibration->warnings.lines[w], "zero in every sample") &&
                                    strstr(r.calibration->warnings.lines[w], quantizers[i]));
            cr_expect(warned, "no warning about '%s'", quantizers[i]);
        }
    }
}

/* ---- Weights ---- */

static const struct qc_qparams *weight_of(struct case_run *r, const char *text, float amplitude, struct qc_status *st)
{
    float x[SAMPLES][2][PIXELS];
    draw_images(x, 1);
    for (int i = 0; i < PIXELS; i++) x[0][0][i] = amplitude;
    for (int s = 0; s < SAMPLES; s++)
        for (int i = 0; i < PIXELS; i++) {
            x[s][0][i] = fminf(fmaxf(x[s][0][i] * amplitude, -amplitude), amplitude);
            x[s][1][i] = fminf(fmaxf(x[s][1][i] * amplitude, -amplitude), amplitude);
        }
    return calibrate_images(r, text, x, &CASE_SETUP, st) ? &r->simulated->qparams_of[case_quantizer(r->simulated, "w")]
                                                         : NULL;
}

Test(weights, an_empty_channel_takes_the_widest_scale)
{
    struct qc_status st = QC_STATUS_INIT;
    CASE_RUN r;
    const struct qc_qparams *w =
        weight_of(&r,
                  "graph \"g\"\ninput %1 \"x\" f32[N,2,3,3]\nconst %2 \"w\" f32[3,2,1,1] = {0, "
                  "0, 0.5, -2, 0.25, 0}\n%4 \"c\" = Conv(%1, %2)\noutput \"c\" %4\n",
                  1, &st);
    cr_assert(w, "%s", st.message);
    cr_expect(w->scale[0] == 2.0f / 127 && w->scale[1] == 2.0f / 127 && w->scale[2] == 0.25f / 127, "%g %g %g",
              (double)w->scale[0], (double)w->scale[1], (double)w->scale[2]);
    case_free(&r);
    w = weight_of(&r,
                  "graph \"g\"\ninput %1 \"x\" f32[N,2,3,3]\nconst %2 \"w\" f32[1,2,1,1] = {0, 0}\n%4 \"c\" = Conv(%1, "
                  "%2)\noutput \"c\" %4\n",
                  1, &st);
    cr_assert(w, "%s", st.message);
    cr_expect_eq(w->scale[0], 1);
}

/* Channels with and without negative weights, and an empty one. */
Test(weights, symmetric_ones_without_a_sign_have_one_zero_point)
{
    static const struct {
        enum qc_dtype dtype;
        int32_t zero;
        float steps;
    } types[] = {{QC_U8, 128, 127}, {QC_U4, 8, 7}};
    static const char text[] = "graph \"g\"\ninput %1 \"x\" f32[N,2,3,3]\nconst %2 \"w\" f32[4,2,1,1] = {0.5, 1, 2, "
                               "-0.25, -1, -2, 0, 0}\n%4 \"c\" = Conv(%1, %2)\noutput \"c\" %4\n";
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        struct case_setup setup = CASE_SETUP;
        CASE_RUN r;
        setup.scheme.weight.dtype = types[i].dtype;
        calibrate_drawn(&r, text, 3, &setup);
        const struct qc_qparams *w = &r.simulated->qparams_of[case_quantizer(r.simulated, "w")];
        cr_assert_eq(w->count, 4);
        for (size_t c = 0; c < 4; c++)
            cr_expect_eq(w->zero_point[c], types[i].zero, "channel %zu: zero point %d", c, w->zero_point[c]);
        HOLD(w->scale[0] == 1 / types[i].steps, w->scale[2] == 2 / types[i].steps);
    }
}

Test(weights, scales_are_raised_until_the_bias_fits)
{
    /* channel 0: |b| / (sx sw) far above 2^30; channel 1: fits as it is */
    struct qc_status st = QC_STATUS_INIT;
    CASE_RUN r;
    const struct qc_qparams *w = weight_of(&r,
                                           "graph \"g\"\ninput %1 \"x\" f32[N,2,3,3]\nconst %2 \"w\" f32[2,2,1,1] = "
                                           "{1e-9, 0, 0.25, 0}\nconst %3 \"b\" f32[2] = {-5e3, 5}\n"
                                           "%4 \"c\" = Conv(%1, %2, %3)\noutput \"c\" %4\n",
                                           1, &st);
    cr_assert(w, "%s", st.message);
    double input = (double)r.simulated->qparams_of[case_quantizer(r.simulated, "x")].scale[0];
    cr_expect_gt(w->scale[0], 1e-9f / 127);
    double steps = 5e3 / (input * (double)w->scale[0]);
    cr_expect(steps <= 1073741824.0 && steps > 0.999 * 1073741824.0, "%.17g steps", steps);
    cr_expect_eq(w->scale[1], 0.25f / 127);
    bool warned = false;
    for (size_t i = 0; i < r.calibration->warnings.count; i++)
        warned = warned || (strstr(r.calibration->warnings.lines[i], "1 channel of weights") &&
                            strstr(r.calibration->warnings.lines[i], "bias"));
    cr_expect(warned);
    /* and the produced graph holds the bias, within half a step and the rounding of float32 */
    const struct qc_tensor *bias = NULL;
    for (qc_id id = 1; id <= r.produced->value_count; id++) {
        const struct qc_qparams *p = qc_graph_parameters(r.produced, id);
        if (!p || p->kind != QC_QPARAMS_PRODUCT || !qc_constant_of(r.produced, id)) continue;
        bias = qc_constant_of(r.produced, id);
        for (size_t c = 0; c < 2; c++)
            cr_expect_float_eq((double)qc_tensor_int(bias, c) * (double)p->scale[c], c ? 5 : -5e3,
                               0.500001 * (double)p->scale[c] + 0x1p-24 * 5e3);
    }
    cr_assert(bias);
}

Test(weights, numbers_at_the_end_of_the_range_are_no_surprise)
{
    static const struct {
        const char *what, *text;
        float amplitude;
    } cases[] = {
        {"tiny weights and data",
         "const %2 \"w\" f32[2,2,1,1] = {1e-30, 0, 1e-38, 1e-37}\nconst %3 \"b\" f32[2] = {0, 1e-38}\n", 1e-30f},
        {"denormal weights", "const %2 \"w\" f32[2,2,1,1] = {1e-42, 0, 1e-45, 0}\nconst %3 \"b\" f32[2] = {1, 0}\n", 1},
        {"huge weights", "const %2 \"w\" f32[2,2,1,1] = {3e38, -3e38, 1, 0}\nconst %3 \"b\" f32[2] = {3e38, 0}\n",
         1e-3f},
        {"denormal data", "const %2 \"w\" f32[2,2,1,1] = {1, 0, 2, 0}\nconst %3 \"b\" f32[2] = {1, -1}\n", 1e-42f},
        {"huge bias over tiny steps",
         "const %2 \"w\" f32[2,2,1,1] = {1e-30, 0, 1, 0}\nconst %3 \"b\" f32[2] = {3e38, -3e38}\n", 1e-30f},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CASE_RUN r;
        char text[512];
        qc_text(text, sizeof text,
                "graph \"g\"\ninput %%1 \"x\" f32[N,2,3,3]\n%s%%4 \"c\" = Conv(%%1, %%2, %%3)\noutput \"c\" %%4\n",
                cases[i].text);
        if (!weight_of(&r, text, cases[i].amplitude, ST)) {
            cr_expect(failure.code == QC_BAD_INPUT || failure.code == QC_UNSUPPORTED, "%s: %s", cases[i].what,
                      failure.message);
            cr_expect(strstr(failure.message, "'"), "%s: no name in: %s", cases[i].what, failure.message);
        } else {
            for (qc_id s = 1; s <= r.simulated->qparams_count; s++)
                for (size_t c = 0; c < r.simulated->qparams_of[s].count; c++)
                    cr_expect(isnormal(r.simulated->qparams_of[s].scale[c]) && r.simulated->qparams_of[s].scale[c] > 0,
                              "%s: scale %g of '%s'", cases[i].what, (double)r.simulated->qparams_of[s].scale[c],
                              r.simulated->qparams_of[s].name);
        }
    }
}

Test(weights, nan_in_a_weight_is_an_error_that_names_it)
{
    struct qc_status st = QC_STATUS_INIT;
    CASE_RUN r;
    cr_expect_null(weight_of(&r,
                             "graph \"g\"\ninput %1 \"x\" f32[N,2,3,3]\nconst %2 \"w\" f32[1,2,1,1] = {nan, 1}\n%4 "
                             "\"c\" = Conv(%1, %2)\noutput \"c\" %4\n",
                             1, &st));
    cr_expect(st.code == QC_BAD_INPUT && strstr(st.message, "'w'"), "%s", st.message);
}

Test(weights, a_matrix_and_its_transpose_have_scales_along_their_own_channels)
{
    OWN(qc_graph) *g = test_graph("graph \"g\"\ninput %1 \"x\" f32[N,3]\nconst %2 \"w\" f32[3,2] = {1, 2, -4, 8, 16, "
                                  "-32}\n%3 \"h\" = Gemm \"encode\"(%1, %2)\n"
                                  "%4 \"y\" = Gemm \"decode\"(%3, %2) {transB=1}\noutput \"y\" %4\n");
    static const float x[2][3] = {{1, 2, 3}, {-1, 0, 1}};
    struct case_data set = {.name = "x", .dtype = QC_F32, .values = x, .rank = 1, .dims = {3}};
    CASE_FILE path[CASE_PATH];
    CASE_RUN r;
    case_write(path, &set, 1, 2);
    MUST(case_calibrate(&r, g, path, &CASE_SETUP, ST));
    const struct qc_qparams *columns = &r.simulated->qparams_of[case_quantizer(r.simulated, "w")],
                            *rows = &r.simulated->qparams_of[case_quantizer(r.simulated, "w per 0")];
    cr_assert(columns->count == 2 && rows->count == 3);
    cr_expect(columns->scale[0] == 16.0f / 127 && columns->scale[1] == 32.0f / 127);
    cr_expect(rows->scale[0] == 2.0f / 127 && rows->scale[1] == 8.0f / 127 && rows->scale[2] == 32.0f / 127);
}

/* Quantizers are told apart by name; names may be longer than what messages show of them. */
Test(calibrate, long_names_stay_apart)
{
    CASE_RUN r;
    char text[4096], name[400];
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = '\0';
    qc_text(text, sizeof text,
            "graph \"g\"\ninput %%1 \"x\" f32[N,2,3,3]\nconst %%2 \"%s_w1\" f32[2,2,1,1] = {1, 0, 0, 1}\nconst %%3 "
            "\"%s_w2\" f32[2,2,1,1] = {64, 0, 0, 64}\n"
            "%%4 \"%s_1\" = Conv(%%1, %%2)\n%%5 \"%s_2\" = Conv(%%4, %%3)\noutput \"y\" %%5\n",
            name, name, name, name);
    calibrate_drawn(&r, text, 1, &CASE_SETUP);
    size_t quantizers = 0;
    for (qc_id s = 1; s <= r.simulated->qparams_count; s++)
        quantizers += r.simulated->qparams_of[s].kind == QC_QPARAMS_QUANTIZER;
    cr_expect_eq(quantizers, 5, "%zu quantizers", quantizers);
}
