// SPDX-License-Identifier: Apache-2.0
/* Errors of one graph against another, and the bits of accumulators. */
#include "calib/metrics/measure.h"
#include "calib_case.h"

static double relative(double got, double expected)
{
    return expected == 0 ? fabs(got) : fabs(got / expected - 1);
}

Test(errors, sums_are_those_of_the_definition)
{
    enum { MOST = 131 };
    float r[MOST], x[MOST];
    uint64_t state = 3;
    for (int i = 0; i < MOST; i++) {
        r[i] = 10 * case_normal(&state);
        x[i] = r[i] + 0.1f * case_normal(&state);
    }
    for (size_t n = 1; n <= MOST; n++) {
        struct qc_error e = {0};
        long double signal = 0, noise = 0, cross = 0, power = 0;
        double max = 0;
        for (size_t i = 0; i < n; i++) {
            long double a = (long double)r[i], b = (long double)x[i];
            signal += a * a;
            noise += (a - b) * (a - b);
            cross += a * b;
            power += b * b;
            max = fmax(max, fabs((double)r[i] - (double)x[i]));
        }
        qc_error_compare(&e, r, x, n);
        cr_expect_eq(e.count, n);
        cr_expect(relative(e.signal, (double)signal) < 1e-13 && relative(e.noise, (double)noise) < 1e-13 &&
                      relative(e.cross, (double)cross) < 1e-13 && relative(e.power, (double)power) < 1e-13,
                  "n = %zu", n);
        cr_expect_eq(e.max_abs, max, "n = %zu: %.17g, not %.17g", n, e.max_abs, max);
        cr_expect_float_eq(qc_error_sqnr_db(&e), 10 * log10((double)(signal / noise)), 1e-10);
        cr_expect_float_eq(qc_error_cosine(&e), (double)(cross / (sqrtl(signal) * sqrtl(power))), 1e-14);
    }
}

Test(errors, ends_of_the_scale)
{
    static const float zero[3] = {0, 0, 0}, ones[3] = {1, -1, 1}, other[3] = {1, 1, 0};
    struct qc_error e = {0};
    cr_expect(isnan(qc_error_sqnr_db(&e)) && isnan(qc_error_cosine(&e)), "no elements");
    qc_error_compare(&e, ones, ones, 3);
    cr_expect(isinf(qc_error_sqnr_db(&e)) && qc_error_sqnr_db(&e) > 0, "no noise");
    for (int k = 0; k < 100; k++) { /* 3, 6, ...: of some of them the square of the root is not the number */
        cr_expect_eq(qc_error_cosine(&e), 1, "equal");
        qc_error_compare(&e, ones, ones, 3);
    }
    cr_expect_eq(e.max_abs, 0);
    e = (struct qc_error){0};
    qc_error_compare(&e, zero, zero, 3);
    cr_expect_eq(qc_error_cosine(&e), 1, "both zero");
    cr_expect(isinf(qc_error_sqnr_db(&e)));
    e = (struct qc_error){0};
    qc_error_compare(&e, zero, ones, 3);
    cr_expect_eq(qc_error_cosine(&e), 0, "one zero");
    cr_expect(isinf(qc_error_sqnr_db(&e)) && qc_error_sqnr_db(&e) < 0, "no signal");
    e = (struct qc_error){0};
    qc_error_compare(&e, ones, other, 3);
    cr_expect_eq(qc_error_cosine(&e), 0, "orthogonal");
    cr_expect_eq(e.max_abs, 2);
}

Test(errors, parts_add_up)
{
    float r[40], x[40];
    uint64_t state = 5;
    struct qc_error whole = {0}, a = {0}, b = {0};
    for (int i = 0; i < 40; i++) {
        r[i] = case_normal(&state);
        x[i] = case_normal(&state);
    }
    qc_error_compare(&whole, r, x, 40);
    qc_error_compare(&a, r, x, 13);
    qc_error_compare(&b, r + 13, x + 13, 27);
    a.saturated = 2;
    b.saturated = 3;
    qc_error_add(&a, &b);
    HOLD(a.count == 40, a.saturated == 5, a.max_abs == whole.max_abs);
    cr_expect(relative(a.noise, whole.noise) < 1e-13 && relative(a.cross, whole.cross) < 1e-12);
}

/* ---- A whole graph ---- */

enum { SAMPLES = 5, PIXELS = 9 };
static const char conv[] = "graph \"g\"\ninput %1 \"x\" f32[N,2,3,3]\nconst %2 \"w\" f32[2,2,1,1] = {0.5, -2, 0.25, "
                           "0.125}\nconst %3 \"b\" f32[2] = {0.75, -0.5}\n"
                           "%4 \"c\" = Conv(%1, %2, %3)\noutput \"c\" %4\n";

static void write_images(char path[CASE_PATH], float x[SAMPLES][2][PIXELS])
{
    uint64_t state = 11;
    for (float *v = &x[0][0][0]; v < &x[0][0][0] + SAMPLES * 2 * PIXELS; v++) *v = 2 * case_normal(&state);
    struct case_data set = {.name = "x", .dtype = QC_F32, .values = x, .rank = 3, .dims = {2, 3, 3}};
    case_write(path, &set, 1, SAMPLES);
}

static struct qc_affine affine_of(const struct qc_graph *g, const char *quantizer)
{
    const struct qc_qparams *s = &g->qparams_of[case_quantizer(g, quantizer)];
    return (struct qc_affine){.scale = s->scale[0], .zero_point = s->zero_point[0]};
}

/* Input, accumulator and result in plain integers, with the contract of arith/. */
Test(measure, is_what_integers_by_hand_give)
{
    struct case_setup setup = CASE_SETUP;
    OWN(qc_graph) *g = test_graph(conv);
    CASE_RUN r;
    float x[SAMPLES][2][PIXELS];
    CASE_FILE path[CASE_PATH];
    write_images(path, x);
    setup.method = "percentile:p=95"; /* so that something is clipped */
    MUST(case_calibrate(&r, g, path, &setup, ST));
    const struct qc_affine in = affine_of(r.folded, "x"), out = affine_of(r.folded, "c");
    const struct qc_qparams *ws = &r.folded->qparams_of[case_quantizer(r.folded, "w")];
    const struct qc_levels u8 = qc_levels_of(QC_U8, false), i8 = qc_levels_of(QC_I8, true),
                           i32 = qc_levels_of(QC_I32, false);
    static const float w[2][2] = {{0.5f, -2}, {0.25f, 0.125f}}, b[2] = {0.75f, -0.5f};
    struct qc_error input = {0}, result = {0};
    double most = 0;
    for (int s = 0; s < SAMPLES; s++)
        for (int i = 0; i < PIXELS; i++) {
            int32_t q[2];
            for (int k = 0; k < 2; k++) {
                q[k] = qc_quantize_one(x[s][k][i], in, u8);
                float back = qc_dequantize_one(q[k], in);
                qc_error_compare(&input, &x[s][k][i], &back, 1);
                input.saturated += q[k] == u8.lo || q[k] == u8.hi;
            }
            for (int c = 0; c < 2; c++) {
                struct qc_affine sw = {.scale = ws->scale[c]}, sb = {.scale = in.scale * ws->scale[c]};
                int32_t acc = qc_quantize_one(b[c], sb, i32);
                for (int k = 0; k < 2; k++) acc += (q[k] - in.zero_point) * qc_quantize_one(w[c][k], sw, i8);
                most = fmax(most, fabs((double)acc));
                float m = in.scale * ws->scale[c] / out.scale, y = nearbyintf((float)acc * m);
                y = fminf(fmaxf(y, (float)(u8.lo - out.zero_point)), (float)(u8.hi - out.zero_point));
                float real = (float)(0.0 + (double)w[c][0] * (double)x[s][0][i] + (double)w[c][1] * (double)x[s][1][i] +
                                     (double)b[c]),
                      back = y * out.scale;
                qc_error_compare(&result, &real, &back, 1);
                result.saturated += y == (float)(u8.lo - out.zero_point) || y == (float)(u8.hi - out.zero_point);
            }
        }
    cr_assert_gt(input.saturated, 2);
    for (unsigned workers = 1; workers <= 4; workers *= 2) {
        OWN(qc_measurement) *m = NULL;
        struct qc_settings options = {.workers = workers};
        MUST(qc_measure(&m, r.normalised, r.folded, r.data, &options, ST));
        const struct qc_error *quantizers[] = {&m->quantizers[case_quantizer(r.folded, "x")],
                                               &m->quantizers[case_quantizer(r.folded, "c")], &m->outputs[0]},
                              *expected[] = {&input, &result, &result};
        for (int i = 0; i < 3; i++) {
            cr_expect_eq(quantizers[i]->count, expected[i]->count);
            cr_expect(i == 2 || quantizers[i]->saturated == expected[i]->saturated, "%d: %llu saturated", i,
                      (unsigned long long)quantizers[i]->saturated);
            cr_expect(relative(qc_error_sqnr_db(quantizers[i]), qc_error_sqnr_db(expected[i])) < 1e-5,
                      "%d: %.9g dB, not %.9g", i, qc_error_sqnr_db(quantizers[i]), qc_error_sqnr_db(expected[i]));
            cr_expect_float_eq(qc_error_cosine(quantizers[i]), qc_error_cosine(expected[i]), 1e-6);
            cr_expect_float_eq(quantizers[i]->max_abs, expected[i]->max_abs, 1e-5);
        }
        double seen = 0;
        for (qc_id s = 1; s <= m->qparams_count; s++) seen = fmax(seen, m->accumulator_max[s]);
        cr_expect_eq(seen, most, "largest accumulator %g, not %g", seen, most);
        cr_expect_eq(m->samples, SAMPLES);
    }
}

Test(measure, is_the_same_for_any_number_of_workers)
{
    struct case_setup setup = CASE_SETUP;
    OWN(qc_graph) *g = case_model(QC_TEST_SOURCE "/datasets/digits_cnn.onnx");
    CASE_RUN r;
    OWN(qc_measurement) *one = NULL;
    setup.samples = 24;
    MUST(case_calibrate(&r, g, QC_TEST_SOURCE "/datasets/digits_calib.h5", &setup, ST));
    MUST(qc_measure(&one, r.normalised, r.folded, r.data, CASE_WORKERS(1), ST));
    cr_expect_gt(qc_error_sqnr_db(&one->outputs[0]), 15);
    for (unsigned workers = 2; workers <= 4; workers++) {
        OWN(qc_measurement) *m = NULL;
        MUST(qc_measure(&m, r.normalised, r.folded, r.data, CASE_WORKERS(workers), ST));
        for (qc_id s = 1; s <= one->qparams_count; s++) {
            cr_expect(memcmp(&one->quantizers[s], &m->quantizers[s], sizeof *m->quantizers) == 0,
                      "%u workers: quantizer %u", workers, s);
            cr_expect_eq(one->accumulator_max[s], m->accumulator_max[s]);
        }
        cr_expect(memcmp(one->outputs, m->outputs, sizeof *m->outputs) == 0);
    }
}

Test(measure, a_memory_limit_says_what_is_needed)
{
    OWN(qc_graph) *g = test_graph(conv);
    CASE_RUN r;
    struct qc_measurement *m = NULL;
    float x[SAMPLES][2][PIXELS];
    CASE_FILE path[CASE_PATH];
    write_images(path, x);
    MUST(case_calibrate(&r, g, path, &CASE_SETUP, ST));
    cr_expect(
        !qc_measure(&m, r.normalised, r.folded, r.data, &(struct qc_settings){.workers = 2, .memory_limit = 100}, ST));
    cr_expect(failure.code == QC_MACHINE && strstr(failure.message, "--memory-limit") &&
                  strstr(failure.message, "needs"),
              "%s", failure.message);
}

/* ---- Bits ---- */

Test(bits, of_a_number)
{
    static const struct {
        double max;
        unsigned bits;
    } cases[] = {{0, 1},
                 {1, 2},
                 {2, 3},
                 {3, 3},
                 {4, 4},
                 {127, 8},
                 {128, 9},
                 {32767, 16},
                 {32768, 17},
                 {2147483647.0, 32},
                 {2147483648.0, 33},
                 {1e300, 64}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_expect_eq(qc_bits_for(cases[i].max), cases[i].bits, "%g", cases[i].max);
}

static const struct {
    const char *what, *weights, *bias;
    int32_t zero_point;
} accumulators[] = {
    {"positive weights", "{0.5, 1, 0.25, 0.75}", "{0, 0}", 0},
    {"negative weights", "{-0.5, -1, -0.25, -0.75}", "{0, 0}", 0},
    {"mixed weights", "{0.5, -1, 0.25, -0.125}", "{0, 0}", 0},
    {"mixed weights, zero point in the middle", "{0.5, -1, 0.25, -0.125}", "{0, 0}", 128},
    {"zero point near the top", "{0.5, -1, 0.25, 1}", "{0, 0}", 250},
    {"a bias that adds", "{0.5, 1, 0.25, 0.75}", "{100, 1}", 0},
    {"a bias that takes away", "{0.5, 1, 0.25, 0.75}", "{-100, 0}", 0},
    {"nothing but a bias", "{0, 0, 0, 0}", "{0.001, -3}", 7},
};

/* Largest magnitude over all inputs at the ends of their levels, for a 1x1 convolution of two channels. */
static double brute_force(const struct qc_graph *g, const float weights[4], const float bias[2])
{
    const struct qc_affine in = affine_of(g, "x");
    const struct qc_qparams *ws = &g->qparams_of[case_quantizer(g, "w")];
    const int32_t ends[3] = {0 - in.zero_point, 0, 255 - in.zero_point};
    double most = 0;
    for (int c = 0; c < 2; c++) {
        struct qc_affine sw = {.scale = ws->scale[c]}, sb = {.scale = in.scale * ws->scale[c]};
        double b = (double)qc_quantize_one(bias[c], sb, qc_levels_of(QC_I32, false));
        for (int i = 0; i < 9; i++) {
            double acc = b;
            for (int k = 0; k < 2; k++)
                acc += (double)ends[k ? i / 3 : i % 3] *
                       (double)qc_quantize_one(weights[2 * c + k], sw, qc_levels_of(QC_I8, true));
            most = fmax(most, fmax(fabs(acc), fabs(acc - b))); /* the bias may come last */
        }
    }
    return most;
}

Test(bits, of_an_accumulator_are_those_of_the_worst_input)
{
    for (size_t i = 0; i < sizeof accumulators / sizeof *accumulators; i++) {
        CASE_RUN r;
        float x[SAMPLES][2][PIXELS], w[4], b[2];
        char path[CASE_PATH], text[512];
        int32_t zero_point = accumulators[i].zero_point;
        const float scale = 0.03125f;
        write_images(path, x);
        qc_text(text, sizeof text,
                "graph \"g\"\ninput %%1 \"x\" f32[N,2,3,3]\nconst %%2 \"w\" f32[2,2,1,1] = %s\nconst %%3 \"b\" f32[2] "
                "= %s\n%%4 \"c\" = Conv(%%1, %%2, %%3)\noutput \"c\" %%4\n",
                accumulators[i].weights, accumulators[i].bias);
        cr_assert_eq(sscanf(accumulators[i].weights, "{%f, %f, %f, %f}", &w[0], &w[1], &w[2], &w[3]), 4);
        cr_assert_eq(sscanf(accumulators[i].bias, "{%f, %f}", &b[0], &b[1]), 2);
        OWN(qc_graph) *g = test_graph(text);
        MUST(case_calibrate(&r, g, path, &CASE_SETUP, ST));
        MUST(qc_graph_bind_quantizer(r.folded, case_quantizer(r.folded, "x"), 1, &scale, &zero_point, ST));
        unsigned bits = 0, counted = 0;
        for (qc_id id = 1; id <= r.folded->node_count; id++) {
            MUST(qc_accumulator_bits(&bits, r.folded, id, ST));
            cr_expect_eq(bits != 0, r.folded->nodes[id].op == QC_OP_Conv);
            if (!bits) continue;
            unsigned expected = qc_bits_for(brute_force(r.folded, w, b));
            cr_expect_eq(bits, expected, "%s: %u bits, not %u", accumulators[i].what, bits, expected);
            counted++;
        }
        cr_expect_eq(counted, 1);
        case_unlink(path);
    }
}
