// SPDX-License-Identifier: Apache-2.0
/* Biases that take up the mean error where it is used. */
#include <criterion/criterion.h>
#include <math.h>

#include "calib/trials/correct_used.h"
#include "calib/trials/used_points.h"
#include "calib_case.h"

enum { SAMPLES = 32, IN = 3, SIDE = 12 };

#define HEAD                                                                                                           \
    "graph \"g\"\ninput %1 \"x\" f32[N,3,12,12]\nconst %2 \"w\" f32[3,3,1,1] = {1, 0.2, -0.1, 0, 1, 0.3, 0.2, -0.2, "  \
    "1}\n"                                                                                                             \
    "const %3 \"b\" f32[3] = {-1, -0.5, 0.1}\n%4 \"c\" = Conv(%1, %2, %3)\n"

static const struct {
    const char *text;
    size_t layers;
} ways[] = {
    /* The average of all positions shows the mean and little else. */
    {HEAD "%5 \"l\" = LeakyRelu(%4) {alpha=0.25f}\n%6 \"y\" = GlobalAveragePool(%5)\noutput \"y\" %6\n", 1},
    {HEAD "%5 \"l\" = Sigmoid(%4)\n%6 \"y\" = GlobalAveragePool(%5)\noutput \"y\" %6\n", 1},
    {HEAD "%5 \"s\" = Add(%4, %1)\n%6 \"l\" = LeakyRelu(%5) {alpha=0.5f}\n%7 \"y\" = GlobalAveragePool(%6)\n"
          "output \"y\" %7\n",
     1},
    /* A clamp alone is part of the same rounding; two readers; an output. */
    {HEAD "%5 \"l\" = Relu(%4)\n%6 \"y\" = GlobalAveragePool(%5)\noutput \"y\" %6\n", 0},
    {HEAD "%5 \"l\" = LeakyRelu(%4)\n%6 \"s\" = Add(%4, %1)\n%7 \"y\" = GlobalAveragePool(%5)\noutput \"y\" %7\n"
          "output \"s\" %6\n",
     0},
    {HEAD "output \"c\" %4\n", 0},
};

Test(correct_used, the_mean_behind_functions_and_adds)
{
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        struct qc_status st = QC_STATUS_INIT;
        struct qc_graph *g = case_graph(ways[i].text), *corrected = NULL;
        struct case_run r;
        case_calibrate_skewed(&r, g, "percentile:p=90", SAMPLES);
        const struct qc_trial_options how = {.how = {.rounding = QC_CONTRACT_ONNX}, .workers = 2};
        struct qc_trials *trials = NULL;
        struct qc_used_correction done;
        cr_assert(qc_trials_new(&trials, r.normalised, r.data, SAMPLES, &how, &st), "%s", st.message);
        cr_assert(qc_correct_used(&corrected, &done, r.simulated, r.normalised, r.data, trials, SAMPLES, &how, &st),
                  "%s", st.message);
        cr_expect_eq(done.layers, ways[i].layers, "way %zu: %zu layers", i, done.layers);
        cr_expect_eq(corrected != NULL, ways[i].layers > 0, "way %zu", i);
        if (corrected) {
            const struct qc_graph *both[] = {r.simulated, corrected};
            struct qc_error errors[2][SAMPLES] = {0};
            cr_assert(qc_trials_run((struct qc_error *const[]){errors[0], errors[1]}, NULL, trials, case_copy, both, 2,
                                    0, SAMPLES, &st),
                      "%s", st.message);
            const double noise = qc_trials_noise(errors[0], 1, 0, SAMPLES, 1),
                         left = qc_trials_noise(errors[1], 1, 0, SAMPLES, 1);
            cr_expect(left < 0.5 * noise, "way %zu: noise %g, %g left", i, noise, left);
        }
        qc_graph_free(corrected);
        qc_trials_free(trials);
        case_free(&r);
        qc_graph_free(g);
    }
}
