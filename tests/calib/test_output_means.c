// SPDX-License-Identifier: Apache-2.0
/* Biases of the layers that compute the outputs. */
#include "calib/trials/trials.h"
#include "calib_case.h"

enum { SAMPLES = 48, IN = 3, SIDE = 6 };

#define INPUT                                                                                                          \
    "graph \"g\"\ninput %1 \"x\" f32[N,3,6,6]\nconst %2 \"w\" f32[3,3,1,1] = {1, 0.2, -0.1, 0, 1, 0.3, 0.2, -0.2, "    \
    "1}\n"                                                                                                             \
    "const %3 \"b\" f32[3] = {-1, -0.5, 0.1}\n"
#define LAYER INPUT "%4 \"c\" = Conv(%1, %2, %3)\n"

static const struct {
    const char *text, *method;
    size_t outputs;
} cases[] = {
    {LAYER "output \"c\" %4\n", "percentile:p=90", 1},
    {LAYER "%5 \"y\" = Flatten(%4)\noutput \"y\" %5\n", "percentile:p=90", 1},
    {INPUT "const %4 \"v\" f32[3,2] = {0.5, -0.2, 0.3, 1, 0.1, -0.4}\nconst %5 \"d\" f32[2] = {1, 2}\n"
           "%6 = Conv(%1, %2, %3)\n%7 = Transpose(%6) {perm=[0,2,3,1]}\n%8 = MatMul(%7, %4)\n"
           "%9 \"y\" = Add(%8, %5)\noutput \"y\" %9\n",
     "percentile:p=90", 1},
    /* Weights and ranges that leave no mean error; another reader; a function between; no bias. */
    {"graph \"g\"\ninput %1 \"x\" f32[N,3,6,6]\nconst %2 \"w\" f32[3,3,1,1] = {1, 0, 0, 0, 1, 0, 0, 0, 1}\n"
     "const %3 \"b\" f32[3] = {0, 0, 0}\n%4 \"c\" = Conv(%1, %2, %3)\noutput \"c\" %4\n",
     "minmax", 0},
    {LAYER "%5 \"y\" = Relu(%4)\noutput \"c\" %4\noutput \"y\" %5\n", "percentile:p=90", 0},
    {LAYER "%5 \"y\" = Sigmoid(%4)\noutput \"y\" %5\n", "percentile:p=90", 0},
    {INPUT "%4 \"c\" = Conv(%1, %2)\noutput \"c\" %4\n", "percentile:p=90", 0},
};

/* Mean errors of the outputs of one graph, by channel. */
struct seen {
    double sums[3];
    size_t channels;
};

static void look(void *user, size_t place, size_t output, const struct qc_view *wanted, const struct qc_view *got)
{
    struct seen *s = user;
    const size_t n = qc_view_count(wanted), inner = s->channels == 3 ? (size_t)SIDE * SIDE : 1;
    for (size_t e = 0; e < n; e++)
        s->sums[e / inner % s->channels] +=
            (double)((const float *)got->data)[e] - (double)((const float *)wanted->data)[e];
}

Test(output_means, mean_errors_of_outputs_go)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        OWN(qc_graph) *g = test_graph(cases[i].text), *corrected = NULL;
        CASE_RUN r;
        case_calibrate_skewed(&r, g, cases[i].method, SAMPLES);
        /* One worker: the sums below are shared. */
        const struct qc_trial_options how = {.settings = CASE_WORKERS(1)};
        OWN(qc_trials) *trials = NULL;
        struct qc_output_correction done;
        const struct qc_graph *was = r.simulated;
        MUST(qc_trials_new(&trials, r.normalised, r.data, SAMPLES, &how, ST));
        MUST(qc_correct_outputs(&corrected, &done, was, trials, &(const struct qc_trial_graphs){case_copy, &was, 1},
                                ST));
        cr_expect_eq(done.outputs, cases[i].outputs, "case %zu: %zu outputs", i, done.outputs);
        cr_expect_eq(corrected != NULL, cases[i].outputs > 0, "case %zu", i);
        if (corrected) {
            struct seen before = {.channels = i == 2 ? 2 : 3}, after = before;
            struct qc_error errors[2][SAMPLES] = {0};
            const struct qc_graph *now = corrected;
            qc_trials_look(trials, look, &before);
            MUST(qc_trials_run((struct qc_error *[]){errors[0]}, NULL, trials,
                               &(const struct qc_trial_graphs){case_copy, &was, 1}, 0, SAMPLES, ST));
            qc_trials_look(trials, look, &after);
            MUST(qc_trials_run((struct qc_error *[]){errors[1]}, NULL, trials,
                               &(const struct qc_trial_graphs){case_copy, &now, 1}, 0, SAMPLES, ST));
            double sums[2] = {0};
            for (size_t c = 0; c < before.channels; c++) {
                sums[0] += before.sums[c] * before.sums[c];
                sums[1] += after.sums[c] * after.sums[c];
            }
            cr_expect(sums[1] < 0.02 * sums[0], "case %zu: %g, %g left", i, sums[0], sums[1]);
            const double gain = qc_trials_gain(qc_trials_noise(errors[0], 1, 0, SAMPLES, 1),
                                               qc_trials_noise(errors[1], 1, 0, SAMPLES, 1));
            cr_expect(gain > 0.05 && fabs(gain - done.gain_db) < 0.3 * gain, "case %zu: %g dB, %g expected", i, gain,
                      done.gain_db);
        }
    }
}
