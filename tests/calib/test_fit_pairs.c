// SPDX-License-Identifier: Apache-2.0
#include "arith/params.h"
#include "calib/ranges/calibrate_parts.h"
#include "tests/check.h"

static const char text[] = "graph \"g\" opset 13\n"
                           "qparams @1 quantizer \"w\" i8 symmetric weight restricted per_channel pairs 128 unbound\n"
                           "input %1 \"x\" f32[1,4]\n"
                           "output \"y\" %1\n";

/* Rows that need no other scale, twice the scale, and what rounding asks for; the scale of all is 1. */
static const struct {
    float row[4];
    float scale; /* at least, and at most a step of 1/512 more */
} rows[] = {
    {{127, 1, -127, -1}, 1},
    {{127, -127, 127, -127}, 1},
    {{1, 127, 127, 1}, 1},           /* 127 and 127 are in two pairs */
    {{127, 127, 0, 0}, 127 / 64.5F}, /* 64 and 64 */
    {{0, 0, -127, -2}, 127 / 126.5F},
    {{64, 65, 1, 1}, 65 / 64.5F},
};

Test(fit_pairs, scales_are_raised_as_little_as_needed)
{
    enum { ROWS = sizeof rows / sizeof *rows };
    float scale[ROWS];
    const int32_t zero[ROWS] = {0};
    const struct qc_shape shape = QC_SHAPE(ROWS, 4);
    OWN(qc_graph) *g = test_graph(text);
    cr_assert_eq(g->qparams_of[1].pair_limit, 128);
    OWN(qc_tensor) *t = qc_tensor_new(QC_F32, &shape, ST);
    cr_assert(t);
    for (size_t i = 0; i < ROWS; i++) {
        memcpy((float *)t->data + 4 * i, rows[i].row, sizeof rows[i].row);
        scale[i] = 1;
    }
    const struct qc_pair_fit fit = {.g = g, .quantizer = 1, .weights = t, .axis = 0};
    size_t raised = 0, expected = 0;
    MUST(qc_fit_pairs(&raised, scale, zero, &fit, ST));
    for (size_t i = 0; i < ROWS; i++) {
        double most = 0;
        for (size_t k = 0; k < 4; k += 2) {
            const double a = nearbyint((double)rows[i].row[k] / (double)scale[i]),
                         b = nearbyint((double)rows[i].row[k + 1] / (double)scale[i]);
            most = fmax(most, fabs(a + b) > fabs(a - b) ? fabs(a + b) : 0);
        }
        cr_expect(most <= 128, "row %zu: %g", i, most);
        cr_expect(scale[i] >= 1 && (double)scale[i] <= (double)rows[i].scale * (1 + 2.0 / 512) + 1e-6,
                  "row %zu: scale %g, expected about %g", i, (double)scale[i], (double)rows[i].scale);
        expected += scale[i] > 1;
    }
    cr_expect(raised == expected && raised >= 2, "%zu raised", raised);
}

/* The largest sum of one sign of a pair, all weights of the row rounded. */
static int32_t largest_sum(const float *row, size_t n, float scale)
{
    const struct qc_levels levels = {.lo = -127, .hi = 127};
    const struct qc_affine p = {.scale = scale};
    int32_t most = 0;
    for (size_t i = 0; i < n; i += 2) {
        const int32_t a = qc_quantize_one(row[i], p, levels),
                      b = i + 1 < n ? qc_quantize_one(row[i + 1], p, levels) : 0;
        const int32_t above = (a > 0 ? a : 0) + (b > 0 ? b : 0), below = (a < 0 ? -a : 0) + (b < 0 ? -b : 0);
        most = above > most ? above : most;
        most = below > most ? below : most;
    }
    return most;
}

/* Random rows of even and odd counts: the scale keeps the limit, and none of the steps that were passed does. */
Test(fit_pairs, a_scale_is_the_first_step_that_keeps_the_limit)
{
    enum { ROWS = 400, MOST = 37, LIMIT = 128 };
    static const double step = 1 + 1.0 / 512;
    uint32_t random = 1;
    size_t raised = 0, kept = 0;
    for (size_t n = 1; n <= MOST; n += 6) {
        float scale[ROWS];
        const int32_t zero[ROWS] = {0};
        const struct qc_shape shape = QC_SHAPE(ROWS, (int64_t)n);
        OWN(qc_graph) *g = test_graph(text);
        OWN(qc_tensor) *t = qc_tensor_new(QC_F32, &shape, ST);
        cr_assert(t);
        float *x = t->data;
        for (size_t i = 0; i < ROWS * n; i++) {
            random = random * 1664525 + 1013904223;
            const double u = (double)(random >> 8) / (1 << 24) * 2 - 1;
            x[i] = (float)(127 * u * fabs(u));
        }
        for (size_t i = 0; i < ROWS; i++) scale[i] = 1;
        const struct qc_pair_fit fit = {.g = g, .quantizer = 1, .weights = t, .axis = 0};
        size_t count = 0, larger = 0;
        MUST(qc_fit_pairs(&count, scale, zero, &fit, ST));
        for (size_t i = 0; i < ROWS; i++) {
            const int32_t before = largest_sum(x + i * n, n, 1);
            double to = fmax(1, (double)(before - 1) / (LIMIT + 1));
            while (before > LIMIT && largest_sum(x + i * n, n, (float)to) > LIMIT) to *= step;
            cr_assert_eq(scale[i], before > LIMIT ? (float)to : 1, "%zu weights, row %zu: %.9g, expected %.9g", n, i,
                         (double)scale[i], to);
            larger += scale[i] > 1;
        }
        cr_expect_eq(count, larger, "%zu weights", n);
        raised += larger;
        kept += ROWS - larger;
    }
    cr_expect(raised > 100 && kept > 100, "%zu rows raised, %zu kept", raised, kept);
}
