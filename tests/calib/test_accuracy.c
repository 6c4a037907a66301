// SPDX-License-Identifier: Apache-2.0
#include "calib/metrics/accuracy.h"
#include "calib_case.h"

/* A build without GSL has Wilson's intervals. */
#ifdef QC_WITHOUT_GSL
#define BY_BUILD(exact, wilson) (wilson)
#else
#define BY_BUILD(exact, wilson) (exact)
#endif

/* The scores are the data: y = relu(x) of positive numbers. */
static struct qc_graph *scores(int classes)
{
    char text[256];
    return test_graph(qc_text(text, sizeof text,
                              "graph \"g\"\ninput %%1 \"x\" f32[N,%d]\n%%2 \"y\" = Relu(%%1)\noutput \"y\" %%2\n",
                              classes));
}

static bool evaluate(struct qc_metric *m, const struct qc_graph *g, const char *path, unsigned workers,
                     struct qc_status *st)
{
    OWN(qc_dataset) *d = case_open(g, path, true);
    bool ok = case_evaluate(m, g, d, workers, st);
    return ok;
}

static void write_labelled(char path[CASE_PATH], const float *x, int classes, const int64_t *labels, size_t samples)
{
    struct case_data sets[2] = {{.name = "x", .dtype = QC_F32, .values = x, .rank = 1, .dims = {classes}},
                                {.name = "labels", .dtype = QC_I64, .values = labels, .rank = 0}};
    case_write(path, sets, 2, samples);
}

Test(accuracy, top1_and_top5)
{
    enum { SAMPLES = 8, CLASSES = 7 };
    static const float x[SAMPLES][CLASSES] = {
        {1, 2, 3, 4, 5, 6, 7},   /* right */
        {1, 2, 3, 4, 5, 6, 7},   /* fifth */
        {1, 2, 3, 4, 5, 6, 7},   /* sixth */
        {5, 9, 9, 1, 0, 0, 0},   /* tie: the lower number wins */
        {5, 9, 9, 1, 0, 0, 0},   /* so this is second */
        {0, 0, 0, 0, 0, 0, 0},   /* all tied: class 5 is sixth */
        {0, 0, 0, 0, 0, 0, 0},   /* class 0 is first */
        {NAN, 1, 1, 1, 1, 1, 1}, /* a score that is no number is never right */
    };
    static const int64_t labels[SAMPLES] = {6, 2, 1, 1, 2, 5, 0, 0};
    OWN(qc_graph) *g = scores(CLASSES);
    CASE_FILE path[CASE_PATH];
    write_labelled(path, &x[0][0], CLASSES, labels, SAMPLES);
    for (unsigned workers = 1; workers <= 4; workers++) {
        struct qc_metric m;
        MUST(evaluate(&m, g, path, workers, ST));
        HOLD(m.kind == QC_METRIC_TOP1, strcmp(m.name, "top1") == 0);
        cr_expect_eq(m.value, 3.0 / 8, "%g", m.value);
        cr_expect_eq(m.top5, 5.0 / 8, "%g", m.top5);
        HOLD(m.samples == SAMPLES, isnan(m.mse));
        /* scipy.stats.binomtest(3, 8).proportion_ci(0.95, "exact" or "wilson") */
        cr_expect_float_eq(m.low, BY_BUILD(0.08523341, 0.13684429), 1e-7);
        cr_expect_float_eq(m.high, BY_BUILD(0.75513678, 0.69425761), 1e-7);
    }
}

/* nll: -log_softmax of the label, by Python; the rest by hand. */
Test(accuracy, of_sequences_is_by_position)
{
    enum { SAMPLES = 3, T = 2, C = 3 };
    static const float x[SAMPLES][T][C] = {{{1, 2, 0.5f}, {0, 0, 3}},
                                           {{-1, 4, 1}, {2, 2, 2}},
                                           {{0.25f, 0.25f, 0.5f}, {9, 0, 1}}};
    static const int64_t labels[SAMPLES][T] = {{1, 0}, {-100, 0}, {2, -1}};
    float turned[SAMPLES][C][T];
    for (int n = 0; n < SAMPLES; n++)
        for (int t = 0; t < T; t++)
            for (int c = 0; c < C; c++) turned[n][c][t] = x[n][t][c];
    for (int class_first = 0; class_first < 2; class_first++) {
        struct qc_metric m;
        char path[CASE_PATH], text[128];
        OWN(qc_graph) *g = test_graph(qc_text(
            text, sizeof text,
            "graph \"g\"\ninput %%1 \"x\" f32[N,%d,%d]\n%%2 \"y\" = Neg(%%1)\n%%3 \"z\" = Neg(%%2)\noutput \"z\" %%3\n",
            class_first ? C : T, class_first ? T : C));
        const struct case_data sets[2] = {
            FIELDS(.name = "x", .dtype = QC_F32, .values = class_first ? &turned[0][0][0] : &x[0][0][0], .rank = 2,
                   .dims = {class_first ? C : T, class_first ? T : C}),
            {.name = "labels", .dtype = QC_I64, .values = labels, .rank = 1, .dims = {T}}};
        case_write(path, sets, 2, SAMPLES);
        MUST(evaluate(&m, g, path, 2, ST));
        HOLD(m.samples == SAMPLES, m.positions == 4, m.value == 3.0 / 4);
        /* then ln 3; the row that sums to one is taken for probabilities: -ln 0.5 */
        cr_expect_float_eq(m.nll, (0.46436878 + 3.09492296 + 1.09861229 + 0.69314718) / 4, 1e-7, "%.9g", m.nll);
        case_unlink(path);
    }
}

Test(accuracy, of_a_softmax_takes_probabilities)
{
    /* what is stored in 8 bits does not sum to one, and 0 is none */
    static const float x[2][3] = {{0, 0, 0}, {9, 0, 0}};
    static const int64_t labels[2] = {1, 2};
    struct qc_metric m;
    CASE_FILE path[CASE_PATH];
    OWN(qc_graph) *g = test_graph(
        "graph \"g\"\nqparams @1 quantizer \"y\" u8 asymmetric bound scale 0.0625 zero 0\ninput %1 \"x\" f32[N,3]\n"
        "%2 \"p\" = Softmax(%1) {axis=1}\n%3 : u8[N,3] @1 = Quantize(%2)\n%4 \"y\" = Dequantize(%3)\noutput "
        "\"y\" %4\n");
    write_labelled(path, &x[0][0], 3, labels, 2);
    MUST(evaluate(&m, g, path, 1, ST));
    cr_expect_float_eq(m.nll, (-log(5.0 / 16) + 24 * log(2)) / 2, 1e-9, "%.9g", m.nll);
}

Test(accuracy, labels_that_are_all_left_out_are_none)
{
    static const float x[2][6] = {{0}};
    static const int64_t labels[2][2] = {{-1, -1}, {-1, -1}};
    struct qc_metric m;
    CASE_FILE path[CASE_PATH];
    OWN(qc_graph) *g = test_graph("graph \"g\"\ninput %1 \"x\" f32[N,2,3]\n%2 \"y\" = Relu(%1)\noutput \"y\" %2\n");
    const struct case_data sets[2] = {{.name = "x", .dtype = QC_F32, .values = x, .rank = 2, .dims = {2, 3}},
                                      {.name = "labels", .dtype = QC_I64, .values = labels, .rank = 1, .dims = {2}}};
    case_write(path, sets, 2, 2);
    REFUSES(evaluate(&m, g, path, 1, ST), QC_BAD_INPUT, "all labels are negative");
}

Test(accuracy, few_classes_have_no_top5)
{
    static const float x[2][5] = {{1, 2, 3, 4, 5}, {5, 4, 3, 2, 1}};
    static const int64_t labels[2] = {4, 0};
    OWN(qc_graph) *g = scores(5);
    struct qc_metric m;
    CASE_FILE path[CASE_PATH];
    write_labelled(path, &x[0][0], 5, labels, 2);
    MUST(evaluate(&m, g, path, 1, ST));
    cr_expect(m.value == 1 && isnan(m.top5));
    cr_expect_float_eq(m.low, BY_BUILD(0.15811388, 0.34238023), 1e-7); /* binomtest(2, 2) */
    cr_expect_eq(m.high, 1);
}

Test(accuracy, a_label_outside_of_the_classes_is_named)
{
    static const float x[3][4] = {{1, 2, 3, 4}, {1, 2, 3, 4}, {1, 2, 3, 4}};
    static const int64_t wrong[2] = {4, -1};
    for (int i = 0; i < 2; i++) {
        int64_t labels[3] = {0, 1, wrong[i]};
        OWN(qc_graph) *g = scores(4);
        struct qc_metric m;
        char path[CASE_PATH], text[32];
        write_labelled(path, &x[0][0], 4, labels, 3);
        REFUSES(evaluate(&m, g, path, 2, ST), QC_BAD_INPUT, "");
        SHOULD(strstr(failure.message, path) && strstr(failure.message, "sample 2") &&
               strstr(failure.message, qc_text(text, sizeof text, "label %d ", (int)wrong[i])) &&
               strstr(failure.message, "4 classes"));
        case_unlink(path);
    }
}

Test(accuracy, the_output_with_the_fewest_classes_that_fit_is_taken)
{
    /* features [N,6] and logits [N,2]: the labels belong to the latter; an output of indices is none */
    OWN(qc_graph) *g = test_graph("graph \"g\"\ninput %1 \"x\" f32[N,6]\nconst %2 \"w\" f32[6,2] = {1,0, 0,1, 0,0, "
                                  "0,0, 0,0, 0,0}\n%3 \"f\" = Relu(%1)\n"
                                  "%4 \"y\" = MatMul(%3, %2)\n%5 \"a\" = ArgMax(%4) {axis=1}\noutput \"a\" "
                                  "%5\noutput \"f\" %3\noutput \"y\" %4\n");
    static const float x[3][6] = {{1, 2, 9, 0, 0, 0}, {3, 2, 9, 0, 0, 0}, {1, 2, 9, 0, 0, 0}};
    static const int64_t labels[3] = {1, 0, 0};
    struct qc_metric m;
    CASE_FILE path[CASE_PATH];
    write_labelled(path, &x[0][0], 6, labels, 3);
    MUST(evaluate(&m, g, path, 1, ST));
    cr_expect_eq(m.value, 2.0 / 3);
}

Test(accuracy, of_a_target_is_mse_and_psnr)
{
    enum { SAMPLES = 3, N = 4 };
    static const struct {
        const char *what;
        float y[SAMPLES][N], target[SAMPLES][N];
        double mse; /* with the output clamped to [0, 1] where the target is in it */
    } cases[] = {
        {"inside",
         {{0.5f, 0.25f, 0, 1}, {1, 1, 1, 1}, {0, 0, 0, 0}},
         {{0.5f, 0.75f, 0, 1}, {1, 0.5f, 1, 1}, {0, 0, 0, 1}},
         (0.25 + 0.25 + 1) / 12},
        {"clamped above",
         {{3, 1, 1, 1}, {1, 1, 1, 1}, {0, 0, 0, 0}},
         {{1, 1, 1, 1}, {1, 1, 1, 1}, {0, 0, 0, 0.5f}},
         0.25 / 12},
        {"beyond the peak",
         {{3, 1, 1, 1}, {1, 1, 1, 1}, {0, 0, 0, 0}},
         {{4, 1, 1, 1}, {1, 1, 1, 1}, {0, 0, 0, -2}},
         (1.0 + 4) / 12},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        OWN(qc_graph) *g = scores(N);
        struct case_data sets[2] = {
            {.name = "x", .dtype = QC_F32, .values = cases[i].y, .rank = 1, .dims = {N}},
            {.name = "target", .dtype = QC_F32, .values = cases[i].target, .rank = 1, .dims = {N}}};
        CASE_FILE path[CASE_PATH];
        case_write(path, sets, 2, SAMPLES);
        for (unsigned workers = 1; workers <= 3; workers++) {
            struct qc_metric m;
            MUST(evaluate(&m, g, path, workers, ST));
            cr_expect_str_eq(m.name, "psnr");
            cr_expect_float_eq(m.mse, cases[i].mse, 1e-15, "%s: mse %.17g, not %.17g", cases[i].what, m.mse,
                               cases[i].mse);
            cr_expect_float_eq(m.value, -10 * log10(cases[i].mse), 1e-12);
            HOLD(m.samples == SAMPLES, isnan(m.top5) && isnan(m.low) && isnan(m.high));
        }
    }
}

Test(accuracy, without_error_is_infinite)
{
    static const float x[2][2] = {{0.5f, 1}, {0, 0.25f}};
    OWN(qc_graph) *g = scores(2);
    struct case_data sets[2] = {{.name = "x", .dtype = QC_F32, .values = x, .rank = 1, .dims = {2}},
                                {.name = "target", .dtype = QC_F32, .values = x, .rank = 1, .dims = {2}}};
    struct qc_metric m;
    CASE_FILE path[CASE_PATH];
    case_write(path, sets, 2, 2);
    MUST(evaluate(&m, g, path, 1, ST));
    cr_expect(m.mse == 0 && isinf(m.value) && m.value > 0);
}

Test(accuracy, data_without_truth_or_of_another_size_are_refused)
{
    static const float x[2][3] = {{1, 2, 3}, {3, 2, 1}}, target[2][5] = {{0}};
    OWN(qc_graph) *g = scores(3);
    struct case_data sets[2] = {{.name = "x", .dtype = QC_F32, .values = x, .rank = 1, .dims = {3}},
                                {.name = "target", .dtype = QC_F32, .values = target, .rank = 1, .dims = {5}}};
    static const char *const messages[] = {"neither a data set 'labels' nor 'target'",
                                           "no float output of the model fits the target"};
    for (size_t i = 0; i < 2; i++) {
        struct qc_metric m;
        CASE_FILE path[CASE_PATH];
        case_write(path, sets, i + 1, 2);
        cr_expect(!evaluate(&m, g, path, 1, ST));
        cr_expect(failure.code == QC_BAD_INPUT && strstr(failure.message, path) && strstr(failure.message, messages[i]),
                  "%s", failure.message);
    }
}

/* scipy.stats.binomtest(k, n).proportion_ci(confidence, "exact") */
/* Points of top-1, decibels of PSNR. */
Test(accuracy, a_drop_is_in_the_units_people_say)
{
    struct qc_metric a = {.kind = QC_METRIC_TOP1, .value = 0.75}, b = {.kind = QC_METRIC_TOP1, .value = 0.5};
    cr_expect_float_eq(qc_metric_drop(&a, &b), 25, 1e-12);
    a = (struct qc_metric){.kind = QC_METRIC_PSNR, .value = 31.5};
    b = (struct qc_metric){.kind = QC_METRIC_PSNR, .value = 30};
    cr_expect_float_eq(qc_metric_drop(&a, &b), 1.5, 1e-12);
}

/* Ten classes: 10 % is guessing, 19 % hardly more (kappa 0.1), and of few samples nothing is said. */
Test(accuracy, guessing_is_known)
{
    static const struct {
        double value;
        size_t classes, samples;
        bool chance;
    } cases[] = {{0.1, 10, 100, true}, {0.18, 10, 100, true}, {0.2, 10, 100, false}, {0.1, 10, 49, false},
                 {0.5, 2, 100, true},  {0.6, 2, 100, false},  {1, 1, 100, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct qc_metric m = FIELDS(.kind = QC_METRIC_TOP1, .value = cases[i].value, .classes = cases[i].classes,
                                          .samples = cases[i].samples);
        cr_expect_eq(qc_metric_is_chance_level(&m), cases[i].chance, "%g of %zu classes, %zu samples", cases[i].value,
                     cases[i].classes, cases[i].samples);
    }
}

Test(accuracy, intervals_are_those_of_scipy)
{
    static const struct {
        uint64_t hits, n;
        double confidence, exact[2], wilson[2]; /* scipy.stats.binomtest(hits, n).proportion_ci(confidence, method) */
    } cases[] = {
        {0, 1, 0.95, {0, 0.975}, {0, 0.793450685623}},
        {1, 1, 0.95, {0.025, 1}, {0.206549314377, 1}},
        {0, 10, 0.95, {0, 0.3084971078188}, {0, 0.277532799863}},
        {10, 10, 0.95, {0.6915028921812, 1}, {0.722467200137, 1}},
        {80, 100, 0.95, {0.7081573109114, 0.873344447898}, {0.711170834407, 0.866633066669}},
        {80, 100, 0.99, {0.6787735871472, 0.8915894585334}, {0.679826467385, 0.882841119986}},
        {9173, 10000, 0.95, {0.9117293308776, 0.9226261914764}, {0.911740121686, 0.922539393274}},
        {9173, 10000, 0.9, {0.9126290852044, 0.9217900939469}, {0.912655943673, 0.921718312746}},
        {1, 10000, 0.95, {2.531777563271e-06, 0.000557036997987}, {1.76526736011e-05, 0.000566268897401}},
        {9999, 10000, 0.95, {0.999442963002, 0.9999974682224}, {0.999433731103, 0.999982347326}},
        {872, 872, 0.95, {0.9957785690492, 1}, {0.99561397924, 1}},
        {353, 357, 0.95, {0.9715620273119, 0.9969389507449}, {0.971549355928, 0.995634407103}},
        {589, 597, 0.95, {0.9737674555902, 0.99419740963}, {0.973782671479, 0.993194542677}},
        {45000, 50000, 0.95, {0.8973371655268, 0.9026162936636}, {0.897339624523, 0.902598916857}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double low, high;
        const double *wanted = BY_BUILD(cases[i].exact, cases[i].wilson);
        qc_interval(&low, &high, cases[i].hits, cases[i].n, cases[i].confidence);
        cr_expect_float_eq(low, wanted[0], 1e-9, "%llu of %llu: %.12g", (unsigned long long)cases[i].hits,
                           (unsigned long long)cases[i].n, low);
        cr_expect_float_eq(high, wanted[1], 1e-9, "%llu of %llu: %.12g", (unsigned long long)cases[i].hits,
                           (unsigned long long)cases[i].n, high);
    }
}
