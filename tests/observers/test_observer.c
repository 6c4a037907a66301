// SPDX-License-Identifier: Apache-2.0
#include <float.h>

#include "observers/observer.h"
#include "samples.h"
#include "tests/check.h"

static const struct qc_levels u8 = {.lo = 0, .hi = 255};

/* What is asked for of observer i: its name, with options where it has no defaults. */
static const char *spec_of(size_t i)
{
    const char *name = qc_observer_at(i)->name;
    return strcmp(name, "fixed") == 0 ? "fixed:min=-1,max=2" : name;
}

static struct qc_range solve_values(const char *spec, const float *x, size_t n, const struct qc_solve *request)
{
    const struct qc_observer *o;
    struct qc_observer_values v;
    struct qc_range r;
    MUST(qc_observer_parse(&o, &v, spec, ST));
    MUST(qc_observer_solve_values(&r, o, &v, x, n, request, ST));
    return r;
}

Test(observer, registry_has_all_with_complete_entries)
{
    for (size_t i = 0; i < qc_observer_count(); i++) {
        const struct qc_observer *o = qc_observer_at(i);
        cr_assert(o->name && o->name[0] && strcspn(o->name, ":=,") == strlen(o->name));
        cr_assert_eq(qc_observer_find(o->name), o, "%s is there twice", o->name);
        cr_assert(o->summary && o->summary[0] && !strchr(o->summary, '\n'));
        cr_assert_leq(o->option_count, QC_OBSERVER_OPTIONS);
        for (size_t k = 0; k < o->option_count; k++) {
            const struct qc_observer_option *p = &o->options[k];
            MUST_HOLD(p->name && p->help && p->min <= p->max,
                      isnan(p->preset) || (p->min <= p->preset && p->preset <= p->max),
                      !p->choice_count || (p->choices && p->min == 0 && p->max == (double)p->choice_count - 1));
        }
    }
    cr_assert_null(qc_observer_find("nothing"));
    cr_assert_null(qc_observer_find(""));
}

Test(observer, parses_options)
{
    const struct qc_observer *o;
    struct qc_observer_values v;
    MUST(qc_observer_parse(&o, &v, "kl", ST));
    MUST_HOLD(strcmp(o->name, "kl") == 0, v.v[0] == 0 && v.v[1] == 0);
    MUST(qc_observer_parse(&o, &v, "kl:bins=4096", ST));
    cr_assert_eq(v.v[0], 4096);
    MUST(qc_observer_parse(&o, &v, "percentile:p=99.5,p=99.9", ST)); /* the last one wins */
    cr_assert_eq(v.v[0], 99.9);
    MUST(qc_observer_parse(&o, &v, "kl:variant=mxnet,bins=401", ST));
    cr_assert(v.v[0] == 401 && v.v[1] == 3);
    MUST(qc_observer_parse(&o, &v, "fixed:max=6,min=0", ST));
    cr_assert(v.v[0] == 0 && v.v[1] == 6);
}

Test(observer, refuses_wrong_specs_and_says_why)
{
    static const struct {
        const char *spec, *says;
    } cases[] = {
        {"klx", "did you mean 'kl'"},
        {"MSE", "unknown observer 'MSE'; known are auto, minmax"},
        {"kl:variant=tensort", "unknown choice 'tensort' (did you mean 'tensorrt'?); known are quantizer, "
                               "symmetric, tensorrt, mxnet, onnxruntime"},
        {"kl:variant", "needs a value, as in kl:variant=quantizer"},
        {"kl:variant=1", "unknown choice '1'"},
        {"fixed:max=1", "option 'min' must be given, as in fixed:min=-1"},
        {"fixed", "must be given"},
        {"fixed:min=1,max=2", "a number from -3.40282e+38 to 0"},
        {"fixed:min=", "needs a value, as in fixed:min=0"},
        {"ema:momentum=1.5", "a number from 0 to 1"},
        {"mse:norm=9", "a number from 1 to 8"},
        {"precentile", "did you mean 'percentile'"},
        {"", "unknown observer ''"},
        {"entropy", "did you mean 'kl'?"},
        {"absmax", "did you mean 'minmax'?"},
        {"entropy-of-all-things", "known are auto"},
        {"kl:", "unknown option ''"},
        {"kl:bin=3", "did you mean 'bins'"},
        {"kl:bins", "needs a value"},
        {"kl:bins=", "needs a value"},
        {"kl:bins=many", "needs a number, got 'many'"},
        {"kl:bins=nan", "needs a number"},
        {"kl:bins=100.5", "a whole number from 0 to 65536"},
        {"kl:bins=1e9", "a whole number from 0 to 65536"},
        {"percentile:p=101", "a number from 50 to 100, got 101"},
        {"percentile:p=99,", "unknown option ''"},
        {"mse:p=3", "unknown option 'p'; known are norm"},
        {"minmax:p=3", "'minmax' has no options"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct qc_observer *o;
        struct qc_observer_values v;
        REFUSES_ROW(cases[i].spec, qc_observer_parse(&o, &v, cases[i].spec, ST), QC_USAGE, cases[i].says);
    }
    char text[2000];
    memset(text, 'k', sizeof text - 1);
    text[sizeof text - 1] = 0;
    const struct qc_observer *o;
    struct qc_observer_values v;
    cr_assert(!qc_observer_parse(&o, &v, text, ST));
    text[200] = 0;
    cr_assert(!qc_observer_parse(&o, &v, text, ST));
}

Test(observer, needs_the_histogram_it_asks_for)
{
    OWN(qc_histogram) *h = NULL;
    const struct qc_observer *o;
    struct qc_observer_values v;
    struct qc_range r;
    MUST(qc_histogram_new(&h, QC_NEED_EXTREMES, ST));
    MUST(qc_observer_parse(&o, &v, "mse", ST));
    struct qc_statistics s = qc_statistics_of(h);
    struct qc_solve request = QC_SOLVE_INIT(u8, QC_ASYMMETRIC);
    FAILS(qc_observer_solve(&r, o, &v, &s, &request, ST), "needs a histogram");
}

/* Ranges that are known without any theory: one value, or none. */
Test(observer, edge_cases)
{
    static const struct {
        const char *name;
        float x[4];
        size_t n;
        double lo, hi;
    } cases[] = {
        {"nothing", {0}, 0, 0, 0},
        {"all zero", {0, -0.0f, 0, 0}, 4, 0, 0},
        {"only NaN", {(float)NAN, (float)NAN, (float)NAN, (float)NAN}, 4, 0, 0},
        {"only infinite", {(float)INFINITY, -(float)INFINITY}, 2, 0, 0},
        {"single value", {3.7f}, 1, 0, (double)3.7f},
        {"constant", {-2.5f, -2.5f, -2.5f, -2.5f}, 4, -2.5, 0},
        {"largest", {3e38f, 3e38f}, 2, 0, (double)3e38f},
        {"smallest denormal", {FLT_TRUE_MIN}, 1, 0, (double)FLT_TRUE_MIN},
        {"NaN beside a value", {(float)NAN, 1, 1, 1}, 4, 0, 1},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        for (size_t i = 0; i < qc_observer_count(); i++) {
            struct qc_solve request = QC_SOLVE_INIT(u8, QC_ASYMMETRIC);
            const char *name = qc_observer_at(i)->name;
            if (qc_observer_at(i)->fixed) continue;
            struct qc_range r = solve_values(spec_of(i), cases[k].x, cases[k].n, &request);
            double slack = strcmp(name, "percentile") == 0 ? 1e-3 : 0;
            cr_assert(fabs(r.lo - cases[k].lo) <= slack * fabs(cases[k].lo) &&
                          fabs(r.hi - cases[k].hi) <= slack * cases[k].hi,
                      "%s, %s: [%g, %g], expected [%g, %g]", name, cases[k].name, r.lo, r.hi, cases[k].lo, cases[k].hi);
            cr_assert_leq(r.clipped_fraction, slack);
            struct qc_affine p = qc_affine_from_range(r.lo, r.hi, u8, QC_ASYMMETRIC);
            cr_assert(isfinite(p.scale) && p.scale >= QC_SCALE_MIN);
        }
    }
}

Test(observer, extreme_magnitudes_give_usable_ranges)
{
    static float x[SAMPLE_SIZE];
    static const double scales[] = {1e-45, 1e-42, 1e-38, 1e-20, 1e20, 1e37};
    for (size_t k = 0; k < sizeof scales / sizeof *scales; k++) {
        samples_fill(x, SAMPLE_SIZE, SAMPLE_normal);
        for (size_t i = 0; i < SAMPLE_SIZE; i++) x[i] = (float)((double)x[i] * scales[k]);
        for (size_t i = 0; i < qc_observer_count(); i++) {
            struct qc_solve request = QC_SOLVE_INIT(u8, QC_ASYMMETRIC);
            if (qc_observer_at(i)->fixed) continue;
            struct qc_range r = solve_values(spec_of(i), x, SAMPLE_SIZE, &request);
            cr_assert(isfinite(r.lo) && isfinite(r.hi) && r.lo <= 0 && r.hi >= 0, "%s at %g: [%g, %g]",
                      qc_observer_at(i)->name, scales[k], r.lo, r.hi);
            cr_assert(r.hi - r.lo >= 2 * scales[k], "%s at %g: [%g, %g]", qc_observer_at(i)->name, scales[k], r.lo,
                      r.hi);
            cr_assert(isnan(r.objective) || r.objective <= r.objective_minmax);
        }
    }
}

Test(observer, stays_inside_extremes_and_known_bounds)
{
    static float x[SAMPLE_SIZE];
    static const struct {
        double lo, hi;
    } bounds[] = {{-(double)INFINITY, (double)INFINITY},
                  {0, 1},
                  {-1, 1},
                  {-0.5, (double)INFINITY},
                  {2, 3},
                  {(double)NAN, (double)NAN}};
    for (int kind = 0; kind < SAMPLE_KINDS; kind++) {
        OWN(qc_histogram) *h = samples_of(x, SAMPLE_SIZE, (enum sample_kind)kind);
        double min = fmin(0, (double)h->tally.min), max = fmax(0, (double)h->tally.max);
        for (size_t b = 0; b < sizeof bounds / sizeof *bounds; b++) {
            for (size_t i = 0; i < qc_observer_count(); i++) {
                struct qc_solve request =
                    FIELDS(.levels = u8, .symmetry = QC_ASYMMETRIC, .known_lo = bounds[b].lo, .known_hi = bounds[b].hi);
                if (qc_observer_at(i)->fixed) continue;
                struct qc_range r = solve_values(spec_of(i), x, SAMPLE_SIZE, &request);
                MUST_HOLD(r.lo <= 0 && r.hi >= 0 && r.lo >= min && r.hi <= max, !(r.lo < bounds[b].lo) || r.lo == 0,
                          !(r.hi > bounds[b].hi) || r.hi == 0);
            }
        }
    }
}

/* Against a count of the values themselves. */
Test(observer, clipped_fraction_is_the_share_more_than_half_a_step_outside)
{
    static float x[SAMPLE_SIZE];
    for (int kind = 0; kind < SAMPLE_KINDS; kind++) {
        samples_fill(x, SAMPLE_SIZE, (enum sample_kind)kind);
        struct qc_solve request = QC_SOLVE_INIT(u8, QC_ASYMMETRIC);
        struct qc_range r = solve_values("percentile:p=90", x, SAMPLE_SIZE, &request);
        const struct qc_affine p = qc_affine_from_range(r.lo, r.hi, u8, QC_ASYMMETRIC);
        const double half = (double)p.scale / 2, lo = (double)qc_dequantize_one(u8.lo, p),
                     hi = (double)qc_dequantize_one(u8.hi, p);
        size_t beyond = 0;
        for (size_t i = 0; i < SAMPLE_SIZE; i++) beyond += (double)x[i] < lo - half || (double)x[i] > hi + half;
        cr_assert_float_eq(r.clipped_fraction, (double)beyond / SAMPLE_SIZE, 2e-3, "%s", sample_names[kind]);
    }
}

Test(observer, clipped_fraction_divides_a_bin)
{
    float x[256]; /* one bin: [1, 1 + 1/256) */
    for (size_t i = 0; i < 256; i++) x[i] = -(1 + (float)i / 65536);
    struct qc_solve request = QC_SOLVE_INIT(u8, QC_ASYMMETRIC);
    for (int side = 0; side < 2; side++) {
        if (side) {
            for (size_t i = 0; i < 256; i++) x[i] = -x[i];
            request = QC_SOLVE_INIT(u8, QC_ASYMMETRIC);
            request.known_hi = 1 + 1.0 / 1024;
        } else {
            request.known_lo = -1 - 1.0 / 1024;
        }
        struct qc_range r = solve_values("mse", x, 256, &request);
        cr_assert_float_eq(r.clipped_fraction, 0.25, 0.02); /* half a step is half of the bin */
        r = solve_values("minmax", x, 256, &request);       /* no histogram to tell from */
        cr_assert(isnan(r.clipped_fraction));
    }
}
