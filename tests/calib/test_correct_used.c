// SPDX-License-Identifier: Apache-2.0
/* Biases that take up the mean error where it is used. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include "calib/trials/correct_used.h"
#include "calib/trials/used_points.h"
#include "calib_case.h"
#include "graph/core/rebuild.h"

enum { SAMPLES = 32, IN = 3, SIDE = 12 };

#define HEAD                                                                                                           \
    "graph \"g\"\ninput %1 \"x\" f32[N,3,12,12]\nconst %2 \"w\" f32[3,3,1,1] = {1, 0.2, -0.1, 0, 1, 0.3, 0.2, -0.2, "  \
    "1}\n"                                                                                                             \
    "const %3 \"b\" f32[3] = {-1, -0.5, 0.1}\n%4 \"c\" = Conv(%1, %2, %3)\n"

/* Few large values: a range that cuts them off leaves a mean error. */
static void calibrate(struct case_run *r, const struct qc_graph *g)
{
    struct qc_status st = QC_STATUS_INIT;
    struct case_setup setup = CASE_SETUP;
    const size_t n = (size_t)SAMPLES * IN * SIDE * SIDE;
    uint64_t seed = 7;
    float *x = malloc(n * sizeof *x);
    cr_assert(x);
    for (size_t i = 0; i < n; i++) x[i] = expf(0.8f * case_normal(&seed));
    const struct case_data set = {.name = "x", .dtype = QC_F32, .values = x, .rank = 3, .dims = {IN, SIDE, SIDE}};
    char path[CASE_PATH];
    case_write(path, &set, 1, SAMPLES);
    setup.method = "percentile:p=90";
    cr_assert(case_calibrate(r, g, path, &setup, &st), "%s", st.message);
    case_unlink(path);
    free(x);
}

static bool copy(void *user, struct qc_graph **out, size_t k, struct qc_status *st)
{
    const struct qc_graph *const *graphs = user;
    struct qc_rebuild b;
    const bool ok = qc_rebuild_begin(&b, graphs[k], st) && qc_rebuild_finish(out, &b, st);
    qc_rebuild_free(&b);
    return ok;
}

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
        calibrate(&r, g);
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
            cr_assert(qc_trials_run((struct qc_error *const[]){errors[0], errors[1]}, NULL, trials, copy, both, 2, 0,
                                    SAMPLES, &st),
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
