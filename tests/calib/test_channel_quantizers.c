// SPDX-License-Identifier: Apache-2.0
/* Quantizers with a scale per channel, and ranges by the errors of the following layers. */
#include "calib_case.h"

enum { SAMPLES = 24, CHANNELS = 4, PIXELS = 9, IMAGE = CHANNELS * PIXELS };

/* Channel c is about normal with a size of its own. */
static const float sizes[CHANNELS] = {1, 4, 3, 0.01f};
static float images[SAMPLES][IMAGE];

static void write_images(char path[CASE_PATH])
{
    uint64_t state = 9;
    for (int s = 0; s < SAMPLES; s++)
        for (int i = 0; i < IMAGE; i++) images[s][i] = sizes[i / PIXELS] * case_normal(&state);
    case_write(path,
               &(struct case_data){.name = "x", .dtype = QC_F32, .values = images, .rank = 3, .dims = {CHANNELS, 3, 3}},
               1, SAMPLES);
}

#define DEPTHWISE                                                                                                      \
    "graph \"g\"\ninput %1 \"x\" f32[N,4,3,3]\nconst %2 \"w\" f32[4,1,1,1] = {0.5, -2, 0.25, 100}\n%3 \"y\" = "        \
    "Conv(%1, %2) {group=4}\n%4 \"a\" = "                                                                              \
    "AveragePool(%3) {kernel_shape=[2,2]}\noutput \"a\" %4\n"

static double worst(bool high, size_t channel)
{
    double most = 0;
    for (int s = 0; s < SAMPLES; s++)
        for (size_t i = channel * PIXELS; i < (channel + 1) * PIXELS; i++)
            most = high ? fmax(most, (double)images[s][i]) : fmin(most, (double)images[s][i]);
    return most;
}

Test(channel_quantizers, each_channel_has_the_range_of_its_values)
{
    static const enum qc_symmetry symmetries[] = {QC_ASYMMETRIC, QC_SYMMETRIC};
    CASE_FILE path[CASE_PATH];
    write_images(path);
    for (size_t k = 0; k < 2; k++)
        for (unsigned workers = 1; workers < 4; workers += 2) {
            struct case_setup setup = CASE_SETUP;
            OWN(qc_graph) *g = test_graph(DEPTHWISE);
            CASE_RUN r;
            double lo = 0, hi = 0;
            setup.scheme.activation.per_channel = true;
            setup.scheme.activation.symmetry = symmetries[k];
            setup.workers = workers;
            MUST(case_calibrate(&r, g, path, &setup, ST));
            const struct qc_qparams *s = &r.simulated->qparams_of[case_quantizer(r.simulated, "x")];
            cr_assert(s->per_channel && s->count == CHANNELS, "%zu scales", s->count);
            for (size_t c = 0; c < CHANNELS; c++) {
                lo = fmin(lo, worst(false, c));
                hi = fmax(hi, worst(true, c));
            }
            for (size_t c = 0; c < CHANNELS; c++) {
                const struct qc_affine want =
                    qc_affine_from_range(fmin(worst(false, c), lo / 8), fmax(worst(true, c), hi / 8),
                                         qc_qparams_levels(s), symmetries[k]);
                cr_expect(s->scale[c] == want.scale && s->zero_point[c] == want.zero_point,
                          "channel %zu: %g %d, expected %g %d", c, (double)s->scale[c], s->zero_point[c],
                          (double)want.scale, want.zero_point);
            }
            cr_expect(s->scale[1] > 1.2f * s->scale[0]);
        }
}

/* Who has a scale per channel, and who has not and why. */
#define MOVED "channels are mixed, cut, joined or filled on their way"
#define SUMS "a convolution or matrix product that reads it sums over its channels"
static const struct {
    const char *text, *quantizer, *reason; /* reason NULL: it has */
} cases[] = {
    {DEPTHWISE, "x", NULL},
    {DEPTHWISE, "y", NULL},
    {DEPTHWISE, "a", "it is an output of the model, where channels are compared with each other"},
    {"graph \"g\"\ninput %1 \"x\" f32[N,4,3,3]\nconst %2 \"w\" f32[2,4,1,1] = {1, 2, 3, 4, 5, 6, 7, 8}\n%3 \"y\" = "
     "Conv(%1, %2)\noutput \"y\" %3\n",
     "x", SUMS},
    {"graph \"g\"\ninput %1 \"x\" f32[N,4,3,3]\nconst %2 \"w\" f32[2,4,1,1] = {1, 2, 3, 4, 5, 6, 7, 8}\n%3 \"y\" = "
     "Conv(%1, %2)\n%4 \"a\" = "
     "AveragePool(%3) {kernel_shape=[2,2]}\noutput \"a\" %4\n",
     "y", NULL},
    /* a multiplier of two: outputs are not channels */
    {"graph \"g\"\ninput %1 \"x\" f32[N,2,3,3]\nconst %2 \"w\" f32[4,1,1,1] = {1, 2, 3, 4}\n%3 \"y\" = Conv(%1, %2) "
     "{group=2}\noutput \"y\" %3\n",
     "x", SUMS},
    /* through a transposition, and into a matrix product */
    {"graph \"g\"\ninput %1 \"x\" f32[N,4,3,3]\nconst %2 \"w\" f32[4,1,1,1] = {1, 2, 3, 4}\n%3 \"c\" = Conv(%1, %2) "
     "{group=4}\n%4 \"t\" = "
     "Transpose(%3) {perm=[0,2,3,1]}\n%5 \"a\" = Add(%4, %4)\noutput \"a\" %5\n",
     "c", NULL},
    {"graph \"g\"\ninput %1 \"x\" f32[N,4,3,3]\nconst %2 \"w\" f32[4,1,1,1] = {1, 2, 3, 4}\n%3 \"c\" = Conv(%1, %2) "
     "{group=4}\n%4 \"p\" = "
     "Flatten(%3)\nconst %5 \"v\" f32[36,1] = "
     "{1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1}\n%6 \"y\" = Gemm(%4, %5)\noutput \"y\" "
     "%6\n",
     "c", MOVED},
    /* channels joined: two convolutions, one quantizer */
    {"graph \"g\"\ninput %1 \"x\" f32[N,4,3,3]\nconst %2 \"w\" f32[4,1,1,1] = {1, 2, 3, 4}\n%3 \"a\" = Conv(%1, %2) "
     "{group=4}\nconst %4 \"v\" "
     "f32[4,1,1,1] = {4, 2, 3, 4}\n%5 \"b\" = Conv(%1, %4) "
     "{group=4}\n%6 \"c\" = Concat(%3, %5) {axis=1}\nconst %7 \"u\" f32[8,1,1,1] = {1, 2, 3, 4, 5, 6, 7, 8}\n%8 \"y\" "
     "= Conv(%6, %7) "
     "{group=8}\noutput \"y\" %8\n",
     "c", MOVED},
};

Test(channel_quantizers, quantizers_that_cannot_have_channels_say_why)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct case_setup setup = CASE_SETUP;
        CASE_RUN r = {0};
        OWN(qc_graph) *g = test_graph(cases[i].text);
        setup.scheme.activation.per_channel = true;
        cr_assert(case_simulate(&r, g, &setup, ST), "case %zu: %s", i, failure.message);
        const struct qc_qparams *s = &r.simulated->qparams_of[case_quantizer(r.simulated, cases[i].quantizer)];
        const qc_id v = qc_graph_find_value(r.partition->graph, cases[i].quantizer);
        const char *reason = r.partition->one_scale[r.partition->class_of[v]];
        cr_expect_eq(s->per_channel, !cases[i].reason, "case %zu", i);
        cr_expect(cases[i].reason ? reason && strcmp(reason, cases[i].reason) == 0 : !reason, "case %zu: %s", i,
                  reason ? reason : "no reason");
    }
}

/* Channel 1, the widest, is multiplied with next to nothing: the range is that of the others. */
Test(channel_quantizers, ranges_by_outputs_follow_the_channels_that_matter)
{
    static const char text[] = "graph \"g\"\ninput %1 \"x\" f32[N,4,3,3]\nconst %2 \"w\" f32[2,4,1,1] = {1, 0.0001, "
                               "0.001, 1, 1, 0.0001, 0.001, "
                               "-1}\n%3 \"y\" = Conv(%1, %2)\noutput \"y\" %3\n";
    CASE_FILE path[CASE_PATH];
    double hi[2];
    write_images(path);
    for (int k = 0; k < 2; k++) {
        struct case_setup setup = CASE_SETUP;
        OWN(qc_graph) *g = test_graph(text);
        CASE_RUN r;
        setup.method = k ? "output" : "mse";
        setup.scheme.activation.dtype = QC_U4; /* few levels: clipping pays */
        MUST(case_calibrate(&r, g, path, &setup, ST));
        hi[k] = r.calibration->choices[case_quantizer(r.simulated, "x")].range.hi;
    }
    cr_expect(hi[0] > 0.5 * worst(true, 1), "mse takes %g of %g", hi[0], worst(true, 1));
    cr_expect(hi[1] < 1.2 * worst(true, 0), "by outputs it is %g, and channel 0 reaches to %g", hi[1], worst(true, 0));
}

/* Statistics without channels are refused before anything is chosen. */
Test(channel_quantizers, statistics_without_channels_are_an_error)
{
    OWN(qc_graph) *g = test_graph(DEPTHWISE);
    CASE_RUN r = {0};
    OWN(qc_collection) *seen = NULL;
    struct qc_calibration *c = NULL;
    struct qc_calibration_options o =
        FIELDS(.activation = qc_observer_find("output"), .weight = qc_observer_find("minmax"),
               .settings = CASE_WORKERS(1), .channels = true);
    const char *const names[] = {"x"};
    MUST(case_simulate(&r, g, &CASE_SETUP, ST) && qc_collection_new(&seen, 1, names, QC_NEED_HISTOGRAM, ST));
    cr_expect(!qc_choose(&c, r.simulated, seen, "a.h5", &o, ST) && failure.code == QC_USAGE &&
                  strstr(failure.message, "--channel-statistics on"),
              "%s", failure.message);
}

/* What a pattern stores itself - a sum - is found in the statistics as what is stored behind it. */
Test(channel_quantizers, sums_have_channels)
{
    static const char text[] =
        "graph \"g\"\ninput %1 \"x\" f32[N,4,3,3]\nconst %2 \"w\" f32[4,1,1,1] = {0.5, -2, 0.25, 100}\n%3 \"c\" = "
        "Conv(%1, "
        "%2) {group=4}\n%4 \"s\" = Add(%3, %1)\n"
        "%5 \"y\" = Conv(%4, %2) {group=4}\n%6 \"a\" = AveragePool(%5) {kernel_shape=[2,2]}\noutput \"a\" %6\n";
    static const char *const quantizers[] = {"x", "c", "s", "y"};
    CASE_FILE path[CASE_PATH];
    struct case_setup setup = CASE_SETUP;
    OWN(qc_graph) *g = test_graph(text);
    CASE_RUN r;
    write_images(path);
    setup.scheme.activation.per_channel = true;
    MUST(case_calibrate(&r, g, path, &setup, ST));
    for (size_t i = 0; i < sizeof quantizers / sizeof *quantizers; i++)
        cr_expect_eq(r.simulated->qparams_of[case_quantizer(r.simulated, quantizers[i])].count, CHANNELS, "%s",
                     quantizers[i]);
    for (size_t i = 0; i < r.calibration->warnings.count; i++)
        cr_expect(!strstr(r.calibration->warnings.lines[i], "one scale"), "%s", r.calibration->warnings.lines[i]);
}
