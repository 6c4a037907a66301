// SPDX-License-Identifier: Apache-2.0
/* Compensated rounding from few rows against the dense factor: the same integers, the same errors. */
#include "calib/moments/moments_parts.h"
#include "calib/weights/compensation.h"
#include "calib_case.h"

enum { WIDTH = 328, FIT_ROWS = 30, HELD_ROWS = 5, SILENT = 2 /* rows of zeros */ };
enum { FIT = 1 << QC_MOMENTS_FIT, HELD = 1 << QC_MOMENTS_HELD };

/* Rows, or the sums of their products; one comes twice. */
static void add_rows(struct qc_second_moments_layer *l, enum qc_second_moments_part part, size_t rows, bool kept,
                     uint64_t *seed)
{
    struct qc_second_moments_sums *s;
    int64_t *products = calloc(l->product_count, sizeof *products), sums[WIDTH] = {0};
    int16_t x[WIDTH];
    cr_assert(products);
    for (size_t r = 0; r < rows; r++) {
        const double common = (double)case_normal(seed);
        for (size_t i = 0; i < WIDTH && r != 1; i++) { /* some columns are never anything, two are always the same */
            x[i] = (int16_t)(i % 11 == 3 ? 0 : 300 * ((double)case_normal(seed) + common));
            if (i % 16 == 7) x[i] = x[i - 1];
        }
        for (size_t i = 0; i < WIDTH; i++) sums[i] += x[i];
        if (kept) {
            cr_assert(qc_second_moments_class(&s, l, part, 0, ST) && qc_second_moments_keep(s, l, x, 1, 0, ST));
            for (size_t i = 0; i < WIDTH; i++) s->sums[i] = sums[i];
        }
        for (size_t k = 0; k < WIDTH; k++) {
            for (size_t j = 0; j <= k; j++) products[qc_second_moments_triangle(k) + j] += x[j] * x[k];
        }
    }
    if (!kept) {
        MUST(qc_second_moments_class(&s, l, part, 0, ST) && qc_second_moments_widen(s, l, ST));
        memcpy(s->products, products, l->product_count * sizeof *products);
        memcpy(s->sums, sums, sizeof sums);
    }
    qc_second_moments_add_counts(&l->parts[part], rows + SILENT, rows + SILENT, 0);
    free(products);
}

static void make(struct qc_second_moments_layer *l, bool kept)
{
    uint64_t seed = 5;
    *l = (struct qc_second_moments_layer){.groups = 1, .outputs = QC_LANES, .channels = WIDTH, .taps = 1};
    qc_second_moments_lay_out(l, QC_MOMENTS_BLOCK);
    l->keep = kept ? WIDTH : 0;
    add_rows(l, QC_MOMENTS_FIT, FIT_ROWS, kept, &seed);
    add_rows(l, QC_MOMENTS_HELD, HELD_ROWS, kept, &seed);
}

static void drop(struct qc_second_moments_layer *l)
{
    for (int p = 0; p < QC_MOMENTS_PARTS; p++)
        for (int c = 0; c < QC_MOMENTS_CLASSES; c++) {
            qc_second_moments_drop_products(&l->parts[p].of[c]);
            free(l->parts[p].of[c].sums);
            qc_second_moments_drop_rows(&l->parts[p].of[c]);
        }
}

/* h of the parts about the mean of all rows, or about zero. */
static void dense(double *h, double *mean, const struct qc_second_moments_layer *l, unsigned parts, bool centred)
{
    double own[WIDTH];
    qc_second_moments_read_mean(mean, l, FIT | HELD, 0, 0, WIDTH);
    qc_second_moments_read(h, own, l, parts, 0, 0);
    for (size_t i = 0; centred && i < WIDTH; i++)
        for (size_t j = 0; j < WIDTH; j++) h[i * WIDTH + j] += mean[i] * mean[j] - mean[i] * own[j] - own[i] * mean[j];
}

/* Any number of rows and terms: the chain of the plain loop, whatever the instructions. */
Test(low_rank, sums_of_float32_are_one_chain_each)
{
    enum { ROWS = 11, TERMS = 37, STRIDE = 41 };
    float f[ROWS * STRIDE], d[TERMS * QC_LANES], sum[ROWS * QC_LANES], expected[ROWS * QC_LANES];
    uint64_t seed = 3;
    for (size_t i = 0; i < ROWS * STRIDE; i++) f[i] = (float)case_normal(&seed);
    for (size_t i = 0; i < TERMS * QC_LANES; i++) d[i] = (float)case_normal(&seed);
    for (size_t i = 0; i < ROWS * QC_LANES; i++) sum[i] = expected[i] = (float)case_normal(&seed);
    for (size_t r = 0; r < ROWS; r++)
        for (size_t t = 0; t < TERMS; t++)
            for (size_t l = 0; l < QC_LANES; l++)
                expected[r * QC_LANES + l] = fmaf(f[r * STRIDE + t], d[t * QC_LANES + l], expected[r * QC_LANES + l]);
    qc_lanes_add_up_f32(sum, ROWS, f, STRIDE, d, TERMS);
    cr_expect_arr_eq(sum, expected, sizeof sum);
}

Test(low_rank, counts_alone_decide)
{
    struct qc_second_moments_layer l = {.groups = 1, .outputs = 8, .channels = 320, .taps = 1};
    qc_second_moments_lay_out(&l, QC_MOMENTS_BLOCK);
    l.parts[QC_MOMENTS_FIT].rows = 106;
    cr_expect(qc_low_rank_pays(&l, FIT));
    l.parts[QC_MOMENTS_HELD].rows = 1;
    cr_expect(qc_low_rank_pays(&l, FIT) && qc_low_rank_pays(&l, HELD) && !qc_low_rank_pays(&l, FIT | HELD));
}

Test(low_rank, gives_the_integers_and_errors_of_the_dense_factor)
{
    struct qc_second_moments_layer l;
    const struct qc_pool_options alone = {.workers = 1};
    QC_FREED double *h = malloc(WIDTH * WIDTH * sizeof *h), *factor = malloc(WIDTH * WIDTH * sizeof *h),
                    *scratch = malloc(QC_FACTOR_SCRATCH(WIDTH) * sizeof *h), *w = malloc(WIDTH * QC_LANES * sizeof *w),
                    *d = malloc(WIDTH * QC_LANES * sizeof *d), *few = malloc(WIDTH * QC_LANES * sizeof *few);
    double mean[WIDTH], lo[QC_LANES], hi[QC_LANES];
    size_t order[WIDTH];
    uint64_t seed = 9;
    cr_assert(h && factor && scratch && w && d && few);
    for (size_t i = 0; i < WIDTH * QC_LANES; i++) w[i] = 5 * (double)case_normal(&seed);
    for (size_t i = 0; i < QC_LANES; i++) {
        lo[i] = -7;
        hi[i] = 7;
    }
    for (int k = 0; k < 4; k++) {
        const bool centred = k % 2, kept = k / 2;
        struct qc_low_rank fit, judge;
        double errors[QC_LANES] = {0}, expected[QC_LANES] = {0};
        double fitted[QC_LANES] = {0}, again[QC_LANES] = {0}, seen[QC_LANES] = {0};
        bool definite, found;
        size_t moved = 0;
        make(&l, kept);
        dense(h, mean, &l, FIT, centred);
        const struct qc_factorised of = {.h = h, .n = WIDTH, .damping = {QC_DAMPING, 0.01}};
        cr_assert(qc_factorise_read(&definite, factor, order, &of, scratch, &alone, ST) && definite);
        qc_round_compensated(d, w, factor, order, WIDTH, &(struct qc_round_grid){.lo = lo, .hi = hi}, scratch);
        cr_assert(qc_low_rank_new(&fit, &l, FIT, true, ST) && qc_low_rank_new(&judge, &l, HELD, false, ST));
        MUST(qc_low_rank_read(&fit, &l, FIT, 0, 0, centred ? mean : NULL, ST));
        cr_expect_eq(fit.rank, FIT_ROWS - 1 + centred, "rank %zu", fit.rank);
        cr_assert(qc_low_rank_factorise(&found, &fit, (struct qc_damping){QC_DAMPING, 0.01}, &alone, ST) && found);
        qc_low_rank_round(fitted, few, w, &fit, &(struct qc_round_grid){.lo = lo, .hi = hi}, (float *)(void *)scratch);
        for (size_t i = 0; i < WIDTH * QC_LANES; i++) {
            cr_assert_eq(d[i], few[i], "column %zu: %g, not %g", i / QC_LANES, few[i], d[i]);
            const double nearest = fmax(-7, fmin(7, nearbyint(w[i])));
            moved += w[i] - nearest < d[i] || w[i] - nearest > d[i];
        }
        cr_expect(moved > WIDTH, "%zu weights are not the nearest", moved);
        qc_row_errors(seen, d, h, WIDTH);
        qc_low_rank_errors(again, d, &fit, (float *)(void *)scratch);
        dense(h, mean, &l, HELD, centred);
        qc_row_errors(expected, d, h, WIDTH);
        MUST(qc_low_rank_read(&judge, &l, HELD, 0, 0, centred ? mean : NULL, ST));
        qc_low_rank_errors(errors, d, &judge, (float *)(void *)scratch);
        for (size_t i = 0; i < QC_LANES; i++) {
            cr_expect_float_eq(errors[i], expected[i], 1e-5 * expected[i]);
            cr_expect_float_eq(fitted[i], seen[i], 1e-5 * seen[i]);
            cr_expect_float_eq(again[i], seen[i], 1e-5 * seen[i]);
        }
        qc_low_rank_free(&fit);
        qc_low_rank_free(&judge);
        drop(&l);
    }
}

Test(low_rank, a_layer_that_saw_nothing_has_no_factor)
{
    struct qc_second_moments_layer l = {.groups = 1, .outputs = QC_LANES, .channels = WIDTH, .taps = 1};
    struct qc_low_rank f;
    const struct qc_pool_options alone = {.workers = 1};
    bool found;
    qc_second_moments_lay_out(&l, QC_MOMENTS_BLOCK);
    MUST(qc_low_rank_new(&f, &l, FIT, true, ST));
    MUST(qc_low_rank_read(&f, &l, FIT, 0, 0, NULL, ST));
    cr_expect_eq(f.rank, 0);
    MUST(qc_low_rank_factorise(&found, &f, (struct qc_damping){QC_DAMPING, 0}, &alone, ST));
    cr_expect_not(found);
    qc_low_rank_free(&f);
}
