// SPDX-License-Identifier: Apache-2.0
/* What trials say of their gains, and how many samples a range cuts something off of. */
#include <criterion/criterion.h>
#include <math.h>

#include "calib/trials/clipped_units.h"
#include "calib/trials/trial_run.h"
#include "calib_case.h"
#include "datasets/arrays/memory_data.h"

enum { ROWS = 4, WIDTH = 3 };

/* Four samples of three values, cut off to lo .. hi. */
static double clipped(const float (*rows)[WIDTH], double lo, double hi)
{
    const struct qc_array array = {.name = "x", .dtype = QC_F32, .rank = 2, .dims = (const int64_t[]){ROWS, WIDTH}};
    const struct qc_input_spec spec = {.name = "x", .dtype = QC_F32, .rank = 2, .dims = (const int64_t[]){1, WIDTH}};
    struct qc_status st = QC_STATUS_INIT;
    struct qc_memory_data *m = NULL;
    struct qc_dataset *d = NULL;
    double units = -1;
    cr_assert(qc_memory_data_new(&m, "rows", &st) && qc_memory_data_add(m, &array, rows, &st), "%s", st.message);
    cr_assert(qc_dataset_open_memory(&d, m, &spec, 1, &QC_DATASET_OPTIONS_INIT, &st), "%s", st.message);
    cr_assert(qc_clipped_units(&units, d, 0, lo, hi, &st), "%s", st.message);
    qc_dataset_free(d);
    qc_memory_data_free(m);
    return units;
}

Test(trials, units_that_are_cut_off)
{
    const float alone[ROWS][WIDTH] = {{1, -1, 0}, {9, 8, -7}, {0, 1, 1}, {-1, 1, 0}};
    const float alike[ROWS][WIDTH] = {{3, 0, 1}, {0, -3, 1}, {0, 1, 3}, {-3, 0, 0}};
    const float uneven[ROWS][WIDTH] = {{3, 0, 1}, {0, 3, 3}, {0, 1, 1}, {NAN, 0, 0}};
    cr_expect_float_eq(clipped(alone, -2, 2), 1, 1e-12);
    cr_expect_float_eq(clipped(alike, -2, 2), 4, 1e-12);
    cr_expect_float_eq(clipped(uneven, -2, 2), 9. / 5, 1e-12); /* errors 1 and 2: (1 + 2)^2 / (1 + 4) */
    cr_expect_eq(clipped(alone, -7, 9), 0);
}

static double error_of(const double *noise, const double *other, size_t units)
{
    struct qc_status st = QC_STATUS_INIT;
    struct qc_error a[8] = {0}, b[8] = {0};
    double error = -1;
    for (size_t u = 0; u < units; u++) {
        a[u] = (struct qc_error){.count = 1, .signal = 5, .noise = noise[u]};
        b[u] = (struct qc_error){.count = 1, .signal = 5, .noise = other[u]};
    }
    cr_assert(qc_trials_gain_error(&error, a, b, 1, units, &st));
    return error;
}

Test(trials, a_gain_and_its_error)
{
    /* Of shares .5, .25, .25 and .25, .25, .5: differences .25, 0, -.25; sqrt(.125 * 3 / 2) nepers of power. */
    const double x[] = {2, 1, 1}, y[] = {1, 1, 2}, half[] = {1, .5, .5}, bad[] = {1, NAN, 1};
    cr_expect_float_eq(error_of(x, y, 3), 10 / log(10) * sqrt(.125 * 3 / 2), 1e-12);
    cr_expect_float_eq(error_of(x, half, 3), 0, 1e-12, "what is better everywhere alike is no luck");
    cr_expect(isinf(error_of(x, y, 1)) && isinf(error_of(x, bad, 3)));
}
