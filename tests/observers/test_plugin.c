// SPDX-License-Identifier: Apache-2.0
#include "observers/plugin.h"
#include "tests/check.h"

static const char *file_of(char buf[256], int number)
{
    snprintf(buf, 256, "%s/plugin_case_%d.so", QC_PLUGIN_CASES, number);
    return buf;
}

Test(plugin, files_that_are_not_fit_are_refused)
{
    static const struct {
        int number;
        const char *says;
    } cases[] = {
        {1, "made for version 2 of the interface, this program has version 1"},
        {2, "does not export 'qcalib_observer_entry'"},
        {3, "there is an observer 'mse' already"},
        {9, "option 1 of observer 'case' has a default outside its limits"},
        {10, "its name must be 1 to 63 letters"},
        {11, "observer 'case' has no function 'merge'"},
        {12, "observer 'case' has 100 options; it may have 0 to 8"},
        {99, "not a shared object that can be loaded"},
    };
    struct qc_plugins *p = NULL;
    char file[256];
    MUST(qc_plugins_new(&p, ST));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct qc_status bad = QC_STATUS_INIT;
        cr_assert(!qc_plugins_load(p, file_of(file, cases[i].number), &bad), "%s", file);
        cr_assert(bad.code == QC_BAD_INPUT && strstr(bad.message, cases[i].says), "%s", bad.message);
        cr_assert(strstr(bad.message, file), "%s", bad.message);
    }
    struct qc_status bad = QC_STATUS_INIT;
    cr_assert(!qc_plugins_load(p, QC_TEST_SOURCE "/README.md", &bad));
    cr_assert(strstr(bad.message, "not a shared object"), "%s", bad.message);
    cr_assert_eq(qc_plugins_count(p), 0);
    MUST(qc_plugins_load(p, file_of(file, 0), ST));
    cr_assert(!qc_plugins_load(p, file, &bad));
    cr_assert_eq(qc_plugins_count(p), 1);
    const struct qc_observer *o = qc_plugins_at(p, 0);
    cr_assert(strcmp(o->name, "case") == 0 && o->need == QC_NEED_VALUES && o->options[0].preset == 0.5);
    qc_plugins_free(p);
    qc_plugins_free(NULL);
    cr_assert_eq(qc_plugins_count(NULL), 0);
}

static bool solve(struct qc_range *r, int number, const char *spec, const float *x, size_t n, double known_hi,
                  struct qc_status *st)
{
    OWN(qc_plugins) *p = NULL;
    const struct qc_observer *o;
    struct qc_observer_values v;
    char file[256];
    struct qc_solve request = QC_SOLVE_INIT(((struct qc_levels){.lo = 0, .hi = 255}), QC_ASYMMETRIC);
    request.known_hi = known_hi;
    bool ok = qc_plugins_new(&p, st) && qc_plugins_load(p, file_of(file, number), st) &&
              qc_observer_parse_among(&o, &v, spec, p, st) && qc_observer_solve_values(r, o, &v, x, n, &request, st);
    return ok;
}

Test(plugin, its_answer_is_cut_to_what_is_possible)
{
    struct qc_range r;
    static const float x[] = {-4, 1, 3, NAN, INFINITY}, zeros[3];
    MUST(solve(&r, 0, "case", x, 5, (double)INFINITY, ST));
    cr_assert(r.lo == -2 && r.hi == 3, "[%g, %g]", r.lo, r.hi);
    MUST(solve(&r, 0, "case:factor=1", x, 5, 2, ST));
    cr_assert(r.lo == -4 && r.hi == 2, "[%g, %g]", r.lo, r.hi);
    MUST(solve(&r, 0, "case", zeros, 3, (double)INFINITY, ST));
    cr_assert(r.lo == 0 && r.hi == 0);
    cr_assert(!solve(&r, 0, "case:factor=2", x, 5, 2, ST) && failure.code == QC_USAGE);
    cr_assert(!solve(&r, 0, "cas", x, 5, 2, ST) && strstr(failure.message, "did you mean 'case'"), "%s",
              failure.message);
}

Test(plugin, failures_are_errors_with_names)
{
    static const struct {
        int number;
        const char *says;
    } cases[] = {
        {4, "finish gave the range [-2, nan]"},
        {5, "finish gave the range [2, 1]; it must be finite, the lower end first"},
        {6, "plugin 'case': finish failed with code 5"},
        {7, "plugin 'case': scan failed with code 3"},
    };
    static const float x[] = {-4, 1, 3};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct qc_range r;
        REFUSES(solve(&r, cases[i].number, "case", x, 3, (double)INFINITY, ST), QC_BAD_INPUT, cases[i].says);
    }
}

Test(plugin, needs_to_have_seen_the_values)
{
    OWN(qc_plugins) *p = NULL;
    const struct qc_observer *o;
    struct qc_observer_values v;
    struct qc_range r;
    char file[256];
    struct qc_statistics s = {.count = 1, .max = 1};
    struct qc_solve request = QC_SOLVE_INIT(((struct qc_levels){.lo = 0, .hi = 255}), QC_ASYMMETRIC);
    cr_assert(qc_plugins_new(&p, ST) && qc_plugins_load(p, file_of(file, 0), ST) &&
              qc_observer_parse_among(&o, &v, "case", p, ST));
    cr_assert(!qc_observer_solve(&r, o, &v, &s, &request, ST) && strstr(failure.message, "needs the values themselves"),
              "%s", failure.message);
}
