// SPDX-License-Identifier: Apache-2.0
/* Weights that make good what is read otherwise, against the equations that define them. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "calib/weights/crossed.h"
#include "calib/weights/factorise.h"
#include "calib_case.h"

enum { N = 20, ROWS = 200 };
static const double DAMPING = 0.01;

/* Correlated x', and e that follows it in part; of other rows the same but for noise. */
static void make(double *h, double *cross, uint64_t *seed)
{
    double x[N], e[N];
    memset(h, 0, N * N * sizeof *h);
    memset(cross, 0, N * N * sizeof *cross);
    for (int r = 0; r < ROWS; r++) {
        const double common = (double)case_normal(seed);
        for (size_t i = 0; i < N; i++) x[i] = (double)case_normal(seed) * (1 + (double)(i % 3)) + common;
        for (size_t i = 0; i < N; i++) e[i] = 0.1 * x[(i + 1) % N] - 0.05 * x[i] + 0.1 * (double)case_normal(seed);
        for (size_t i = 0; i < N; i++)
            for (size_t j = 0; j < N; j++) {
                h[i * N + j] += x[i] * x[j] / ROWS;
                cross[i * N + j] += x[i] * e[j] / ROWS;
            }
    }
}

Test(crossed, the_target_solves_its_equations)
{
    double h[N * N], cross[N * N], held_h[N * N], held_cross[N * N], factor[N * N], panel[QC_FACTOR_SCRATCH(N)];
    double x[N * QC_LANES], to[N * QC_LANES], scratch[2 * N * QC_LANES];
    size_t order[N];
    uint64_t seed = 7;
    bool definite;
    struct qc_status st = QC_STATUS_INIT;
    make(h, cross, &seed);
    make(held_h, held_cross, &seed);
    for (size_t i = 0; i < N * QC_LANES; i++) x[i] = (double)case_normal(&seed);
    memcpy(factor, h, sizeof factor);
    const struct qc_pool_options team = {.workers = 1};
    cr_assert(qc_factorise(&definite, factor, order, N, DAMPING, panel, &team, &st) && definite);
    struct qc_crossed c = {
        .w = N, .h = h, .cross = cross, .factor = factor, .order = order, .held_h = held_h, .held_cross = held_cross};
    for (int held = 0; held < 2; held++) {
        c.held = held;
        qc_crossed_target(to, &c, x, scratch);
        double with = 0, of = 0, error = 0, size = 0, z[N * QC_LANES];
        for (size_t i = 0; i < N * QC_LANES; i++) z[i] = to[i] - x[i];
        /* (h + damping) z is a part p of E[x' e'] x, the same for all. */
        double p = held ? 0 : 0.5;
        for (int pass = held ? 0 : 1; pass < 2; pass++)
            for (size_t i = 0; i < N; i++)
                for (size_t l = 0; l < QC_LANES; l++) {
                    double left = DAMPING * z[i * QC_LANES + l], right = 0;
                    for (size_t j = 0; j < N; j++) {
                        left += h[i * N + j] * z[j * QC_LANES + l];
                        right += cross[i * N + j] * x[j * QC_LANES + l];
                    }
                    if (!pass) with += left * right;
                    if (!pass) of += right * right;
                    if (pass) error += (left - p * right) * (left - p * right);
                    if (pass) size += right * right;
                    if (!pass && i + 1 == N && l + 1 == QC_LANES) p = with / of;
                }
        cr_expect(error < 1e-20 * size, "%d: %g of %g", held, error, size);
        cr_expect(p > 0.4 && p <= 1, "%g", p);
        if (!held) continue;
        /* No other part has a smaller error on the rows held back. */
        double errors[3] = {0};
        for (size_t l = 0; l < QC_LANES; l++)
            for (int k = 0; k < 3; k++)
                for (size_t i = 0; i < N; i++)
                    for (size_t j = 0; j < N; j++) {
                        const double by = 0.99 + 0.01 * k, a = by * z[i * QC_LANES + l], b = by * z[j * QC_LANES + l];
                        errors[k] += a * held_h[i * N + j] * b - 2 * a * held_cross[i * N + j] * x[j * QC_LANES + l];
                    }
        cr_expect(errors[1] < errors[0] && errors[1] < errors[2], "%g %g %g", errors[0], errors[1], errors[2]);
    }
}
