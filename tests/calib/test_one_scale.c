// SPDX-License-Identifier: Apache-2.0
/* Which pairs of quantizers around a function get one scale, on graphs that the passes have made. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "calib_case.h"

#define HEAD                                                                                                           \
    "graph \"g\"\ninput %1 \"x\" f32[N,2,3,3]\nconst %2 \"w\" f32[2,2,1,1] = {0.5, -2, 0.25, 0.125}\n%3 \"c\" = "      \
    "Conv(%1, %2)\n"
#define LEAKY HEAD "%4 \"y\" = LeakyRelu(%3) {alpha=0.1f}\n%5 \"z\" = Conv(%4, %2)\noutput \"z\" %5\n"

enum { SAMPLES = 64, IMAGE = 18 };

static void write_images(char path[CASE_PATH])
{
    static float x[SAMPLES][IMAGE];
    uint64_t state = 5;
    for (int s = 0; s < SAMPLES; s++)
        for (int i = 0; i < IMAGE; i++) x[s][i] = 2 * case_normal(&state) + (i < IMAGE / 2 ? 1 : -1);
    case_write(path, &(struct case_data){.name = "x", .dtype = QC_F32, .values = x, .rank = 3, .dims = {2, 3, 3}}, 1,
               SAMPLES);
}

static const struct {
    const char *text, *method;
    enum qc_dtype dtype;
    bool symmetric, off, shared;
} cases[] = {
    {LEAKY, "mse", QC_U8, .shared = true},
    {LEAKY, "mse", QC_I8, .shared = true},
    {LEAKY, "mse", QC_I8, .symmetric = true, .shared = true},
    {LEAKY, "mse", QC_U16, .shared = true},
    {LEAKY, "percentile:p=99", QC_U8, .shared = true},
    {LEAKY, "mse", QC_U8, .off = true},                    /* --look-through off */
    {LEAKY, "minmax", QC_U8, .shared = false},             /* no histogram */
    {LEAKY, "fixed:min=-8,max=8", QC_U8, .shared = false}, /* equal, but none of ours */
    {HEAD "%4 \"y\" = Elu(%3)\n%5 \"z\" = Conv(%4, %2)\noutput \"z\" %5\n", "mse", QC_U8, .shared = true},
    {HEAD
     "const %4 \"s\" f32[2,1,1] = {0.1, 0.3}\n%5 \"y\" = PRelu(%3, %4)\n%6 \"z\" = Conv(%5, %2)\noutput \"z\" %6\n",
     "mse", QC_U8, .shared = true},
    /* slopes that enlarge what is negative */
    {HEAD "const %4 \"s\" f32[2,1,1] = {0.1, 3}\n%5 \"y\" = PRelu(%3, %4)\n%6 \"z\" = Conv(%5, %2)\noutput \"z\" %6\n",
     "mse", QC_U8, .shared = false},
    /* no identity from 0 on */
    {HEAD "%4 \"y\" = HardSwish(%3)\n%5 \"z\" = Conv(%4, %2)\noutput \"z\" %5\n", "mse", QC_U8, .shared = false},
    {HEAD "%4 \"y\" = Tanh(%3)\n%5 \"z\" = Conv(%4, %2)\noutput \"z\" %5\n", "mse", QC_U8, .shared = false},
    /* the value before is read by others: a sum, an output */
    {HEAD "%4 \"y\" = LeakyRelu(%3) {alpha=0.1f}\n%5 \"z\" = Conv(%4, %2)\n%6 \"s\" = Add(%3, %5)\noutput \"s\" %6\n",
     "mse", QC_U8, .shared = false},
    {HEAD "%4 \"y\" = LeakyRelu(%3) {alpha=0.1f}\n%5 \"z\" = Conv(%4, %2)\noutput \"c\" %3\noutput \"z\" %5\n", "mse",
     QC_U8, .shared = false},
    /* the quantizer behind is that of others too */
    {HEAD
     "%4 \"y\" = LeakyRelu(%3) {alpha=0.1f}\n%5 \"j\" = Concat(%4, %1) {axis=1}\nconst %6 \"v\" f32[1,4,1,1] = {1, "
     "2, -1, 0.5}\n%7 \"z\" = Conv(%5, %6)\noutput \"z\" %7\n",
     "mse", QC_U8, .shared = false},
};

Test(one_scale, of_what_a_function_leaves_as_it_is)
{
    char path[CASE_PATH];
    write_images(path);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct qc_status st = QC_STATUS_INIT;
        struct case_setup setup = CASE_SETUP;
        struct qc_graph *g = case_graph(cases[i].text);
        struct case_run r;
        setup.method = cases[i].method;
        setup.look_through = !cases[i].off;
        setup.scheme.activation.dtype = cases[i].dtype;
        setup.scheme.activation.symmetry = cases[i].symmetric ? QC_SYMMETRIC : QC_ASYMMETRIC;
        cr_assert(case_calibrate(&r, g, path, &setup, &st), "case %zu: %s", i, st.message);
        const qc_id before = case_quantizer(r.simulated, "c");
        const char *found = NULL;
        for (qc_id s = 1; s <= r.simulated->qparams_count; s++) {
            const struct qc_choice *c = &r.calibration->choices[s];
            if (!c->scale_of) continue;
            const struct qc_qparams *x = &r.simulated->qparams_of[before], *y = &r.simulated->qparams_of[s];
            const double ratio = (double)x->scale[0] / (double)y->scale[0];
            found = c->scale_of;
            cr_expect(ratio >= 1 && fabs(ratio - round(ratio)) < 1e-6, "case %zu: %g", i, ratio);
            cr_expect(cases[i].dtype == QC_U16 || ratio > 1.5 || x->zero_point[0] == y->zero_point[0], "case %zu", i);
            cr_expect(c->range.hi >= 0.99 * r.calibration->choices[before].range.hi, "case %zu: %g", i, c->range.hi);
        }
        cr_expect(cases[i].shared ? found && strcmp(found, "c") == 0 : !found, "case %zu: %s", i,
                  found ? found : "its own");
        case_free(&r);
        qc_graph_free(g);
    }
    case_unlink(path);
}

/* Where nearly everything is negative, the scale of the value before would be much too coarse for what is behind: a
   whole part of it is taken. */
Test(one_scale, a_whole_part_where_the_results_are_small)
{
    char path[CASE_PATH];
    static float x[SAMPLES][IMAGE];
    uint64_t state = 7;
    struct qc_status st = QC_STATUS_INIT;
    struct case_setup setup = CASE_SETUP;
    struct qc_graph *g = case_graph(LEAKY);
    struct case_run r;
    for (int s = 0; s < SAMPLES; s++)
        for (int i = 0; i < IMAGE; i++)
            x[s][i] = i < IMAGE / 2 ? 4 + 0.1f * case_normal(&state) : 2 + 2 * case_normal(&state);
    case_write(path, &(struct case_data){.name = "x", .dtype = QC_F32, .values = x, .rank = 3, .dims = {2, 3, 3}}, 1,
               SAMPLES);
    setup.method = "mse";
    setup.look_through = true;
    cr_assert(case_calibrate(&r, g, path, &setup, &st), "%s", st.message);
    const struct qc_qparams *c = &r.simulated->qparams_of[case_quantizer(r.simulated, "c")],
                            *y = &r.simulated->qparams_of[case_quantizer(r.simulated, "y")];
    const double ratio = (double)c->scale[0] / (double)y->scale[0];
    cr_expect(ratio > 1.5 && fabs(ratio - round(ratio)) < 1e-6, "%g", ratio);
    case_free(&r);
    qc_graph_free(g);
    case_unlink(path);
}
