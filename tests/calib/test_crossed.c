// SPDX-License-Identifier: Apache-2.0
/* Weights that compensate errors of their input, against the equations that define them. */
#include "calib/moments/moments_kernel.h"
#include "calib/weights/compensation.h"
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
    make(h, cross, &seed);
    make(held_h, held_cross, &seed);
    for (size_t i = 0; i < N * QC_LANES; i++) x[i] = (double)case_normal(&seed);
    memcpy(factor, h, sizeof factor);
    const struct qc_pool_options team = {.workers = 1};
    cr_assert(qc_factorise(&definite, factor, order, N, DAMPING, panel, &team, ST) && definite);
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

/* What is held back is read beside what is fitted to as each is read alone. */
static void expect_parts_apart(const struct qc_second_moments_layer *l, size_t w)
{
    const unsigned fit = 1, judge = ((1u << QC_MOMENTS_PARTS) - 1) & ~fit;
    struct qc_crossed both = {0}, each[2] = {{0}};
    const size_t square = w * w * sizeof(double);
    QC_FREED double *mean = malloc(2 * w * sizeof *mean);
    MUST(mean && qc_crossed_new(&both, l, ST));
    qc_crossed_read(&both, mean, mean + w, l, fit, judge, true);
    for (size_t k = 0; k < 2; k++) {
        MUST(qc_crossed_new(&each[k], l, ST));
        qc_crossed_read(&each[k], mean, mean + w, l, k ? judge : fit, k ? judge : fit, true);
        cr_expect_not(each[k].held);
    }
    HOLD(both.held, memcmp(each[0].h, each[1].h, square) && memcmp(each[0].cross, each[1].cross, square),
         !memcmp(both.h, each[0].h, square) && !memcmp(both.cross, each[0].cross, square),
         !memcmp(both.held_h, each[1].h, square) && !memcmp(both.held_cross, each[1].cross, square));
    qc_crossed_free(&both);
    for (size_t k = 0; k < 2; k++) qc_crossed_free(&each[k]);
}

/* A layer and its float form, in rows and with channels last, against sums in double precision. Numbers are whole and
   small, so that nothing of them is rounded. */
Test(crossed, pairs_are_read_where_they_are)
{
    enum { C = 3, H = 4, W = 4, SIZE = C * H * W, COLUMNS = 4 * C, UNITS = 20, PLACES = (H - 1) * (W - 1) };
    CASE_RUN r = {0};
    char text[2048], *numbers = case_numbers(8 * COLUMNS, 0.3f, 17);
    cr_assert_lt((size_t)snprintf(text, sizeof text,
                                  "graph \"g\"\ninput %%1 \"x\" f32[N,3,4,4]\nconst %%2 \"w\" f32[8,3,2,2] = %s\n"
                                  "%%3 \"y\" = Conv(%%1, %%2)\noutput \"y\" %%3\n",
                                  numbers),
                 sizeof text);
    OWN(qc_graph) *g = test_graph(text);
    MUST(case_simulate(&r, g, &CASE_SETUP, ST));
    const struct qc_shape shape = QC_SHAPE(1, C, H, W);
    for (int layout = 0; layout < 2; layout++) {
        bool pairs[64] = {false};
        qc_id node = 0;
        double x_sum[COLUMNS] = {0}, e_sum[COLUMNS] = {0}, xx[COLUMNS * COLUMNS] = {0}, xe[COLUMNS * COLUMNS] = {0};
        double real[COLUMNS], quantized[COLUMNS];
        uint64_t seed = 5;
        cr_assert_lt(r.simulated->node_count, 64);
        for (qc_id id = 1; id <= r.simulated->node_count; id++)
            if (r.simulated->nodes[id].op == QC_OP_Conv) node = id;
        pairs[node] = true;
        OWN(qc_second_moments) *m = NULL;
        MUST(qc_second_moments_new_pairs(&m, r.simulated, pairs, ST));
        MUST(qc_second_moments_begin(m, 1, ST));
        for (uint64_t u = 0; u < UNITS; u++) {
            float rows[2][SIZE], shown[2][SIZE];
            for (size_t i = 0; i < SIZE; i++) {
                rows[0][i] = (float)((int64_t)(test_random(&seed) % 801) - 400);
                rows[1][i] = rows[0][i] + (float)((int64_t)(test_random(&seed) % 101) - 50);
            }
            struct qc_view v[2];
            for (size_t k = 0; k < 2; k++) {
                const struct qc_view from = qc_view_of(QC_F32, &shape, QC_LAYOUT_ROW, rows[k]);
                v[k] = qc_view_of(QC_F32, &shape, layout ? QC_LAYOUT_LAST : QC_LAYOUT_ROW, shown[k]);
                qc_view_copy(&v[k], &from);
            }
            const float peak = qc_second_moments_pair_peak(shown[0], shown[1], SIZE);
            float most = 0;
            for (size_t i = 0; i < SIZE; i++)
                most = fmaxf(most, fmaxf(fabsf(rows[0][i]), fabsf(rows[1][i] - rows[0][i])));
            cr_expect_eq(peak, most);
            MUST(qc_second_moments_observe_pair(m, 0, u, node, peak, &v[0], shown[1], ST));
            for (size_t place = 0; place < PLACES; place++) {
                double x[COLUMNS], e[COLUMNS];
                for (size_t tap = 0; tap < 4; tap++)
                    for (size_t c = 0; c < C; c++) {
                        const size_t at = (c * H + place / (W - 1) + tap / 2) * W + place % (W - 1) + tap % 2;
                        x[tap * C + c] = (double)rows[0][at];
                        e[tap * C + c] = (double)rows[1][at] - (double)rows[0][at];
                    }
                for (size_t i = 0; i < COLUMNS; i++) {
                    x_sum[i] += x[i];
                    e_sum[i] += e[i];
                    for (size_t j = 0; j < COLUMNS; j++) {
                        xx[i * COLUMNS + j] += x[i] * x[j];
                        xe[i * COLUMNS + j] += x[i] * e[j];
                    }
                }
            }
        }
        MUST(qc_second_moments_end(m, ST));
        struct qc_crossed c = {0};
        const struct qc_second_moments_layer *l = qc_second_moments_of(m, NULL, node);
        const unsigned all = (1 << QC_MOMENTS_PARTS) - 1;
        cr_assert(qc_crossed_new(&c, l, ST) && c.w == COLUMNS);
        qc_crossed_read(&c, real, quantized, l, all, all, false);
        const double count = UNITS * PLACES;
        for (size_t i = 0; i < COLUMNS; i++) {
            cr_expect_float_eq(quantized[i], x_sum[i] / count, 1e-9, "%zu", i);
            cr_expect_float_eq(real[i], (x_sum[i] + e_sum[i]) / count, 1e-9, "%zu", i);
            for (size_t j = 0; j < COLUMNS; j++) {
                cr_expect_float_eq(c.h[i * COLUMNS + j], xx[i * COLUMNS + j] / count, 1e-6, "%zu %zu", i, j);
                cr_expect_float_eq(c.cross[i * COLUMNS + j], xe[i * COLUMNS + j] / count, 1e-6, "%zu %zu", i, j);
            }
        }
        expect_parts_apart(l, COLUMNS);
        qc_crossed_free(&c);
        qc_second_moments_forget(m, node);
    }
    free(numbers);
}
