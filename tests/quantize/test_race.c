// SPDX-License-Identifier: Apache-2.0
/* The race with made candidates: their errors are given, unit by unit. */

#include "quantize/search/race.h"
#include "quantize/search/searches.h"
#include "tests/check.h"

enum { UNITS_MOST = 256, CANDIDATES_MOST = 6 };

/* Noise of candidate k on a unit; the signal is 100. */
typedef double noise_fn(size_t k, size_t unit);

struct made {
    noise_fn *noise, *divergence;
    size_t runs[CANDIDATES_MOST]; /* units that each candidate ran on */
    size_t calls;
};

static bool run_made(void *user, struct qc_error *const *errors, struct qc_error *const *judged, const size_t *which,
                     size_t count, size_t first, size_t n, struct qc_status *st)
{
    struct made *m = user;
    m->calls++;
    for (size_t k = 0; k < count; k++) {
        for (size_t u = first; u < first + n; u++) {
            errors[k][u] = (struct qc_error){.count = 1, .signal = 100, .noise = m->noise(which[k], u)};
            if (judged)
                judged[k][u] = (struct qc_error){.count = 1, .signal = 100, .noise = m->divergence(which[k], u)};
        }
        m->runs[which[k]] += n;
    }
    return true;
}

/* Returns the winner. */
static size_t race(struct qc_race_result *results, struct made *m, size_t count, size_t units,
                   const struct qc_race_terms *terms)
{
    const struct qc_race_field field = FIELDS(.count = count, .units = units, .outputs = 1,
                                              .probabilities = m->divergence != NULL, .run = run_made, .user = m);
    size_t best = SIZE_MAX;
    MUST(qc_race_among(results, &best, &field, terms, ST));
    return best;
}

static size_t winner(noise_fn *noise, size_t count, size_t units, double least_db)
{
    struct qc_race_result results[CANDIDATES_MOST];
    struct made m = {.noise = noise};
    const struct qc_race_terms terms = {.least_db = least_db};
    return race(results, &m, count, units, &terms);
}

/* A number in [0, 1) that depends on both arguments. */
static double draw(size_t k, size_t unit)
{
    return (double)((k * 7919 + unit * 104729 + unit * unit * 31) % 1009) / 1009;
}

/* Twice the noise of the baseline on every unit, half of it, or as much as the baseline. */
static double twice_half_same(size_t k, size_t unit)
{
    const double own = 1 + draw(0, unit);
    return k == 1 ? 2 * own : k == 2 ? own / 2 : own;
}

Test(race, a_gain_on_every_unit_wins)
{
    struct qc_race_result results[4];
    struct made m = {.noise = twice_half_same};
    const struct qc_race_terms terms = {.least_db = 0.2};
    cr_expect_eq(race(results, &m, 4, 64, &terms), 2);
    cr_expect_float_eq(results[1].gain, -10 * log10(2), 1e-9);
    cr_expect_float_eq(results[2].gain, 10 * log10(2), 1e-9);
    cr_expect_float_eq(results[2].error, 0, 1e-9, "the gain is the same on every unit");
    cr_expect_float_eq(results[2].sqnr_db - results[0].sqnr_db, results[2].gain, 1e-9);
    for (size_t k = 0; k < 4; k++) cr_expect_eq(m.runs[k], 64, "without a budget all run on all units");
    HOLD(results[2].units == 64, m.calls == 1);
}

Test(race, of_equal_candidates_the_first_stays)
{
    cr_expect_eq(winner(twice_half_same, 4, 64, 0), 2, "candidate 3 has the noise of the baseline");
    cr_expect_eq(winner(twice_half_same, 2, 64, 0), 0, "a loss");
}

static double two_halves(size_t k, size_t unit)
{
    return twice_half_same(k ? 2 : 0, unit);
}

static double zero(size_t k, size_t unit)
{
    return 0;
}

Test(race, ties)
{
    cr_expect_eq(winner(two_halves, 4, 64, 0.2), 1, "candidates 1 to 3 gain the same");
    cr_expect_eq(winner(zero, 3, 64, 0), 0, "no noise to gain over");
}

/* Candidate 1 gains 1.2 dB on average: much on even units, and less than nothing on odd ones. */
static double unsure(size_t k, size_t unit)
{
    return !k ? 1 : unit % 2 ? 1.3 : 0.2;
}

Test(race, a_gain_must_be_significant)
{
    struct qc_race_result few[2], many[2];
    struct made m = {.noise = unsure};
    const struct qc_race_terms terms = {.least_db = 0.2};
    const size_t of_few = race(few, &m, 2, 16, &terms), of_many = race(many, &m, 2, UNITS_MOST, &terms);
    cr_expect_float_eq(few[1].gain, -10 * log10(0.75), 1e-9);
    cr_expect_float_eq(many[1].gain, few[1].gain, 1e-9);
    cr_expect_gt(few[1].error, 2 * many[1].error);
    cr_expect_eq(of_few, 0, "worth %g dB of %g +- %g", few[1].worth, few[1].gain, few[1].error);
    cr_expect_eq(of_many, 1, "worth %g dB of %g +- %g", many[1].worth, many[1].gain, many[1].error);
    cr_expect_float_eq(many[1].worth, many[1].gain - QC_RACE_ERRORS_OF / UNITS_MOST * many[1].error, 1e-9);
}

/* Candidate 1 gains on unit 5 alone, where the baseline has nine tenths of its noise. */
static double one_unit(size_t k, size_t unit)
{
    return unit == 5 ? (k ? 1 : 2300) : 1;
}

Test(race, the_best_unit_does_not_decide)
{
    struct qc_race_result results[2];
    struct made m = {.noise = one_unit};
    const struct qc_race_terms terms = {.least_db = 0.2};
    cr_expect_eq(race(results, &m, 2, UNITS_MOST, &terms), 0);
    cr_expect_gt(results[1].gain, 9);
    cr_expect_leq(results[1].worth, 1e-9);
}

static double broken(size_t k, size_t unit)
{
    return k == 1 && unit == 3 ? (double)NAN : k == 1 ? 0.1 : 1;
}

Test(race, a_candidate_that_is_not_finite_loses)
{
    cr_expect_eq(winner(broken, 2, 64, 0), 0);
    cr_expect_eq(winner(two_halves, 2, 1, 0), 0, "one unit has no standard error");
}

/* ---- The budget ---- */

/* Candidates 1 and 2 lose, 3 and 4 gain a little and much. */
static double five(size_t k, size_t unit)
{
    static const double factor[] = {1, 3, 1.5, 0.9, 0.5};
    return factor[k] * (1 + 0.2 * draw(k, unit));
}

Test(race, those_that_cannot_win_stop_early)
{
    struct qc_race_result results[5];
    struct made m = {.noise = five};
    const struct qc_race_terms terms = {.budget = 5 * UNITS_MOST - 1, .least_db = 0.2};
    cr_expect_eq(race(results, &m, 5, UNITS_MOST, &terms), 4);
    HOLD(m.runs[1] == UNITS_MOST / 16, m.runs[2] == UNITS_MOST / 16, m.runs[0] == UNITS_MOST, m.runs[4] == UNITS_MOST);
    for (size_t k = 0; k < 5; k++) cr_expect_eq(results[k].units, m.runs[k], "of candidate %zu", k);
}

Test(race, the_best_continue_within_the_budget)
{
    enum { FIRST = UNITS_MOST / 16, SECOND = UNITS_MOST / 4 };
    for (size_t room = 2; room <= 3; room++) {
        struct qc_race_result results[5];
        struct made m = {.noise = five};
        const struct qc_race_terms terms = {.budget = 5 * FIRST + room * (SECOND - FIRST), .least_db = 0.2};
        cr_expect_eq(race(results, &m, 5, UNITS_MOST, &terms), 4);
        cr_expect_eq(m.runs[3], room == 2 ? FIRST : SECOND, "it gains, and %zu candidates may continue", room);
    }
}

Test(race, of_few_units_every_one_runs)
{
    struct qc_race_result results[5];
    struct made m = {.noise = five};
    const struct qc_race_terms terms = {.budget = 5 * 32, .least_db = 0.2};
    cr_expect_eq(race(results, &m, 5, 32, &terms), 4);
    for (size_t k = 0; k < 5; k++) cr_expect_eq(m.runs[k], 32, "candidate %zu", k);
}

/* A budget of nothing still compares the baseline with the best candidate. */
Test(race, the_baseline_and_one_candidate_always_finish)
{
    struct qc_race_result results[5];
    struct made m = {.noise = five};
    const struct qc_race_terms terms = {.budget = 1, .least_db = 0.2};
    cr_expect_eq(race(results, &m, 5, UNITS_MOST, &terms), 4);
    HOLD(m.runs[0] == UNITS_MOST, m.runs[4] == UNITS_MOST);
}

/* ---- Probabilities ---- */

/* Candidate 1 halves both measures, 2 gains by squared error and loses by divergence, 3 the reverse, 4 gains by
   divergence alone. */
static double by_error(size_t k, size_t unit)
{
    static const double factor[] = {1, 0.5, 0.1, 4, 1};
    return factor[k] * (1 + draw(0, unit));
}

static double by_divergence(size_t k, size_t unit)
{
    static const double factor[] = {1, 0.5, 4, 0.1, 0.6};
    return factor[k] * (1 + draw(0, unit));
}

Test(race, divergence_counts_beside_squared_error)
{
    struct qc_race_result results[5];
    struct made m = {.noise = by_error, .divergence = by_divergence};
    const struct qc_race_terms terms = {.least_db = 0.2};
    cr_expect_eq(race(results, &m, 5, 64, &terms), 1);
    cr_expect_float_eq(results[4].gain, -10 * log10(0.6), 1e-9, "the better measure counts");
    cr_expect_float_eq(results[4].worth, -10 * log10(0.6), 1e-9);
    for (size_t k = 2; k < 4; k++) cr_expect_lt(results[k].worth, -QC_RACE_LOSS_DB, "candidate %zu", k);
}
