// SPDX-License-Identifier: Apache-2.0
/* Gains reported by trials, and integer inputs. */
#include "calib/trials/trials.h"
#include "calib_case.h"
#include "datasets/arrays/memory_data.h"

/* The step of 1024 values, k[i] times 0.37 and a little, and nothing but zeros behind the first so many. */
static double step_of(const int *k, size_t count, double off, size_t values)
{
    enum { VALUES = 1024 };
    float x[VALUES] = {0};
    OWN(qc_memory_data) *m = NULL;
    OWN(qc_dataset) *d = NULL;
    double step = -1;
    for (size_t i = 0; i < values; i++) x[i] = (float)(0.37 * k[i % count] + (i + 1 == values ? off : 0));
    const int64_t units = 4, each = (int64_t)values / units;
    const struct qc_array array = {.name = "x", .dtype = QC_F32, .rank = 2, .dims = (const int64_t[]){units, each}};
    const struct qc_input_spec spec = {.name = "x", .dtype = QC_F32, .rank = 2, .dims = (const int64_t[]){1, each}};
    MUST(qc_memory_data_new(&m, "rows", ST) && qc_memory_data_add(m, &array, x, ST));
    MUST(qc_dataset_open_memory(&d, m, &spec, 1, &QC_DATASET_OPTIONS_INIT, ST));
    MUST(qc_input_step(&step, d, 0, 255, 1, ST));
    return step;
}

Test(trials, inputs_that_were_integers)
{
    const int wide[] = {-128, 6, 10, 15, 127, 0}, even[] = {4, -8, 100}, far[] = {-128, 3, 128};
    cr_expect_float_eq(step_of(wide, 6, 0, 1024), .37, 1e-7);
    cr_expect_float_eq(step_of(even, 3, 0, 1024), 4 * .37, 1e-6);
    cr_expect_eq(step_of(far, 3, 0, 1024), 0, "256 steps are too many");
    cr_expect_eq(step_of(wide, 6, .1, 1024), 0, "one value lies between");
    cr_expect_eq(step_of(wide, 6, 0, 1020), 0, "few values");
    int late[1024], turned[1024]; /* odd ones in the last sample alone; the same in every order */
    for (int i = 0; i < 1024; i++) late[i] = i < 1000 ? i % 50 * 2 : i % 99;
    for (int i = 0; i < 1024; i++) turned[i] = late[1023 - i];
    const double step = step_of(late, 1024, 0, 1024);
    cr_expect_float_eq(step, .37, 1e-7);
    cr_expect_eq(step, step_of(turned, 1024, 0, 1024));

    double lo = -128 * .37, hi = 122 * .37; /* 250 steps: five are left */
    const struct qc_levels levels = {.lo = -128, .hi = 127}, narrow = {.lo = -127, .hi = 127};
    cr_assert(qc_range_of_step(&lo, &hi, .37, levels, QC_ASYMMETRIC));
    cr_expect(fabs(lo + 130 * .37) < 1e-9 && fabs(hi - 125 * .37) < 1e-9, "%g %g", lo, hi);
    lo = 0, hi = 100; /* two levels for each step */
    cr_assert(qc_range_of_step(&lo, &hi, 1, levels, QC_ASYMMETRIC));
    cr_expect(!(lo < 0) && fabs(hi - 127.5) < 1e-9, "%g %g", lo, hi);
    lo = -3, hi = 40; /* three for each */
    cr_assert(qc_range_of_step(&lo, &hi, 1, narrow, QC_SYMMETRIC));
    cr_expect(fabs(hi - 127. / 3) < 1e-9 && fabs(lo + hi) < 1e-9, "%g %g", lo, hi);
    lo = -130, hi = 130;
    cr_expect(!qc_range_of_step(&lo, &hi, 1, levels, QC_ASYMMETRIC) && !qc_range_of_step(&lo, &hi, 0, levels, 0));
}

static double error_of(double *without, const double *noise, const double *other, size_t units)
{
    struct qc_error a[8] = {0}, b[8] = {0};
    double error = -1;
    for (size_t u = 0; u < units; u++) {
        a[u] = (struct qc_error){.count = 1, .signal = 5, .noise = noise[u]};
        b[u] = (struct qc_error){.count = 1, .signal = 5, .noise = other[u]};
    }
    MUST(qc_trials_gain_error(&error, without, a, b, 1, units, ST));
    return error;
}

Test(trials, a_gain_and_its_error)
{
    /* Of shares .5, .25, .25 and .25, .25, .5: differences .25, 0, -.25; sqrt(.125 * 3 / 2) nepers of power. */
    const double x[] = {2, 1, 1}, y[] = {1, 1, 2}, half[] = {1, .5, .5}, bad[] = {1, (double)NAN, 1};
    double without;
    cr_expect_float_eq(error_of(NULL, x, y, 3), 10 / log(10) * sqrt(.125 * 3 / 2), 1e-12);
    cr_expect_float_eq(error_of(NULL, x, half, 3), 0, 1e-12, "what is better everywhere alike is no luck");
    cr_expect(isinf(error_of(&without, x, y, 1)) && without < 0 && isinf(without));
    cr_expect(isinf(error_of(&without, x, bad, 3)) && without < 0 && isinf(without));
}

Test(trials, a_gain_without_the_unit_that_speaks_most_for_it)
{
    const double one[] = {9, 1, 1, 1}, less[] = {1, 1, 2, 1}, all[] = {.9, .1, .1, .1};
    double without;
    error_of(&without, one, less, 4);
    cr_expect_float_eq(without, 10 * log10(3. / 4), 1e-12, "of 12 and 5 the first unit has 9 and 1");
    error_of(&without, one, all, 4);
    cr_expect_float_eq(without, 10, 1e-9);
}

static double divergence(enum qc_probabilities kind, const float *p, const float *q, size_t n)
{
    struct qc_error e = {0};
    qc_divergence_add(&e, kind, p, q, n);
    return e.noise;
}

Test(trials, divergence_is_twice_that_of_kullback_and_leibler)
{
    const float p[] = {0.7f, 0.25f, 0.05f}, q[] = {0.69f, 0.258f, 0.052f}, none[] = {1, 0, 0}, other[] = {0, 0, 1};
    double parts = 0, two = 0;
    for (int i = 0; i < 3; i++) {
        const double x = (double)p[i], y = (double)q[i];
        parts += 2 * x * log(x / y);
        two += 2 * x * log(x / y) + 2 * (1 - x) * log((1 - x) / (1 - y));
    }
    cr_expect_float_eq(divergence(QC_PARTS_OF_ONE, p, q, 3), parts, 0.02 * parts);
    cr_expect_float_eq(divergence(QC_OF_TWO, p, q, 3), two, 0.02 * two);
    cr_expect_eq(divergence(QC_PARTS_OF_ONE, p, p, 3), 0);
    cr_expect_float_eq(divergence(QC_PARTS_OF_ONE, none, other, 3), 4, 1e-12, "nothing in common");
}

static const struct {
    const char *text;
    enum qc_probabilities kind;
} outputs[] = {
    {"%2 = Softmax(%1) {axis=1}\n%3 = Transpose(%2) {perm=[1,0]}\noutput \"y\" %3\n", QC_PARTS_OF_ONE},
    {"%2 = Sigmoid(%1)\noutput \"y\" %2\n", QC_OF_TWO},
    {"%2 = Sigmoid(%1)\n%3 = Neg(%1)\n%4 = Sigmoid(%3)\n%5 = Concat(%2, %4) {axis=1}\noutput \"y\" %5\n", QC_OF_TWO},
    {"%2 = Sigmoid(%1)\n%3 = Softmax(%1) {axis=1}\n%4 = Concat(%2, %3) {axis=1}\noutput \"y\" %4\n",
     QC_NO_PROBABILITIES},
    {"%2 = Sigmoid(%1)\n%3 = Concat(%2, %1) {axis=1}\noutput \"y\" %3\n", QC_NO_PROBABILITIES},
    {"%2 = Sigmoid(%1)\n%3 = Mul(%1, %2)\noutput \"y\" %3\n", QC_NO_PROBABILITIES},
    {"%2 = LogSoftmax(%1) {axis=1}\noutput \"y\" %2\n", QC_NO_PROBABILITIES},
};

Test(trials, which_outputs_are_probabilities)
{
    for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++) {
        char text[512];
        snprintf(text, sizeof text, "graph \"g\"\ninput %%1 \"x\" f32[2,4]\n%s", outputs[i].text);
        OWN(qc_graph) *g = test_graph(text);
        cr_expect_eq(qc_probabilities_of(g, g->outputs[0].value), outputs[i].kind, "%s", text);
    }
}

#define TWO_HEADS(factor)                                                                                              \
    "graph \"g\"\ninput %1 \"x\" f32[N,4]\nconst %2 \"k\" f32[] = {" factor                                            \
    "}\n%3 \"z\" = Mul(%1, %2)\n%4 \"p\" = Softmax(%3) {axis=1}\noutput \"z\" %3\noutput \"p\" %4\n"

static bool other_factor(void *user, struct qc_graph **out, size_t k, struct qc_status *st)
{
    *out = test_graph(TWO_HEADS("1.5"));
    return true;
}

/* Of two outputs the one that is no Softmax is judged as ever. */
Test(trials, probabilities_are_judged_by_divergence)
{
    static const float x[2][4] = {{1, 2, 0, -1}, {0.5f, -3, 2, 2}};
    OWN(qc_trials) *trials = NULL;
    struct qc_error errors[2][2] = {0}, judged[2][2] = {0};
    const struct qc_trial_options how = {.settings = CASE_WORKERS(1)};
    CASE_FILE path[CASE_PATH];
    case_write(path, &(struct case_data){.name = "x", .dtype = QC_F32, .values = x, .rank = 1, .dims = {4}}, 1, 2);
    OWN(qc_graph) *real = test_graph(TWO_HEADS("1"));
    OWN(qc_dataset) *data = case_open(real, path, false);
    MUST(qc_trials_new(&trials, real, data, 2, &how, ST));
    cr_expect(qc_trials_have_probabilities(trials));
    MUST(qc_trials_run((struct qc_error *const[]){errors[0]}, (struct qc_error *const[]){judged[0]}, trials,
                       &(const struct qc_trial_graphs){other_factor, NULL, 1}, 0, 2, ST));
    for (int u = 0; u < 2; u++) {
        HOLD(judged[u][0].noise == errors[u][0].noise, judged[u][0].signal == errors[u][0].signal);
        cr_expect(judged[u][1].noise > 2 * errors[u][1].noise, "%g %g", judged[u][1].noise, errors[u][1].noise);
        cr_expect_float_eq(judged[u][1].signal, 1, 1e-6, "probabilities of one");
    }
}

/* Of 80 units `held` have keys that second moments hold back: are these drawn alone, in the order of their keys? */
static size_t drawn_of_held(size_t held)
{
    enum { UNITS = 80, WANTED = 9 };
    static float rows[UNITS][3];
    const struct qc_array array = {.name = "x", .dtype = QC_F32, .rank = 2, .dims = (const int64_t[]){UNITS, 3}};
    const struct qc_input_spec spec = {.name = "x", .dtype = QC_F32, .rank = 2, .dims = (const int64_t[]){1, 3}};
    OWN(qc_memory_data) *m = NULL;
    OWN(qc_dataset) *d = NULL;
    OWN(qc_trials) *t = NULL;
    uint64_t keys[UNITS];
    OWN(qc_graph) *g = test_graph("graph \"g\"\ninput %1 \"x\" f32[1,3]\n%2 \"y\" = Relu(%1)\noutput \"y\" %2\n");
    for (size_t u = 0; u < UNITS; u++) {
        rows[u][0] = (float)u; /* the signal of a unit is its number, squared */
        keys[u] = u < held ? 8000 - 8 * u : 8 * u + 1;
    }
    const struct qc_trial_options o = {.keys = keys, .held = true, .settings = CASE_WORKERS(1)};
    MUST(qc_memory_data_new(&m, "rows", ST) && qc_memory_data_add(m, &array, rows, ST));
    MUST(qc_dataset_open_memory(&d, m, &spec, 1, &QC_DATASET_OPTIONS_INIT, ST));
    MUST(qc_trials_new(&t, g, d, WANTED, &o, ST));
    size_t count = 0;
    struct qc_error errors[WANTED] = {0};
    cr_assert_eq(qc_trials_units(t), held < WANTED && held >= 8 ? held : WANTED);
    MUST(qc_trials_run((struct qc_error *const[]){errors}, NULL, t,
                       &(const struct qc_trial_graphs){case_copy, &(const struct qc_graph *){g}, 1}, 0,
                       qc_trials_units(t), ST));
    uint64_t before = 0;
    for (size_t i = 0; i < qc_trials_units(t); i++) {
        const size_t u = (size_t)sqrt(errors[i].signal);
        count += u < held;
        cr_expect(keys[u] > before);
        before = keys[u];
    }
    return count;
}

Test(trials, those_that_weights_were_not_fitted_to_judge)
{
    cr_expect_eq(drawn_of_held(20), 9);
    cr_expect_eq(drawn_of_held(8), 8, "fewer than are wanted, but enough");
    cr_expect_eq(drawn_of_held(7), 0, "of too few one decides: all are drawn, the least keys first");
}
