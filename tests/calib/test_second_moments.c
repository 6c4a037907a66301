// SPDX-License-Identifier: Apache-2.0
/* Second moments against the definition of each op, and independence of the order and the thread of additions. */
#include "calib/moments/moments_parts.h"
#include "calib_case.h"

struct layer_case {
    const char *name, *op, *attributes;
    unsigned rank; /* of the input, without the samples */
    int64_t dims[4], weight[5];
    int weight_rank;
    /* The window, spatial dimensions last of three; dense: one tap. */
    int64_t kernel[3], stride[3], dilation[3], pad[3], out[3];
    size_t groups;
    bool transposed, dense;
};

static const struct layer_case cases[] = {
    FIELDS(.name = "plain", .op = "Conv", .attributes = "", .rank = 3, .dims = {3, 5, 6}, .weight = {40, 3, 2, 3},
           .weight_rank = 4, .kernel = {1, 2, 3}, .stride = {1, 1, 1}, .dilation = {1, 1, 1}, .out = {1, 4, 4},
           .groups = 1),
    FIELDS(.name = "padded, strided, dilated", .op = "Conv",
           .attributes = " {pads=[1,2,0,1], strides=[2,1], dilations=[1,2]}", .rank = 3, .dims = {2, 5, 4},
           .weight = {40, 2, 3, 3}, .weight_rank = 4, .kernel = {1, 3, 3}, .stride = {1, 2, 1}, .dilation = {1, 1, 2},
           .pad = {0, 1, 2}, .out = {1, 2, 3}, .groups = 1),
    FIELDS(.name = "depthwise", .op = "Conv", .attributes = " {group=5, pads=[1,1,1,1]}", .rank = 3, .dims = {5, 4, 4},
           .weight = {5, 1, 3, 3}, .weight_rank = 4, .kernel = {1, 3, 3}, .stride = {1, 1, 1}, .dilation = {1, 1, 1},
           .pad = {0, 1, 1}, .out = {1, 4, 4}, .groups = 5),
    FIELDS(.name = "groups side by side", .op = "Conv", .attributes = " {group=3}", .rank = 3, .dims = {6, 3, 3},
           .weight = {6, 2, 2, 2}, .weight_rank = 4, .kernel = {1, 2, 2}, .stride = {1, 1, 1}, .dilation = {1, 1, 1},
           .out = {1, 2, 2}, .groups = 3),
    FIELDS(.name = "wide groups", .op = "Conv", .attributes = " {group=2}", .rank = 3, .dims = {18, 4, 4},
           .weight = {4, 9, 2, 2}, .weight_rank = 4, .kernel = {1, 2, 2}, .stride = {1, 1, 1}, .dilation = {1, 1, 1},
           .out = {1, 3, 3}, .groups = 2),
    FIELDS(.name = "one dimension", .op = "Conv", .attributes = " {pads=[2,0], strides=[3]}", .rank = 2,
           .dims = {4, 11}, .weight = {3, 4, 4}, .weight_rank = 3, .kernel = {1, 1, 4}, .stride = {1, 1, 3},
           .dilation = {1, 1, 1}, .pad = {0, 0, 2}, .out = {1, 1, 4}, .groups = 1),
    FIELDS(.name = "three dimensions", .op = "Conv", .attributes = " {pads=[1,0,0,0,0,1]}", .rank = 4,
           .dims = {2, 3, 3, 2}, .weight = {3, 2, 2, 2, 2}, .weight_rank = 5, .kernel = {2, 2, 2}, .stride = {1, 1, 1},
           .dilation = {1, 1, 1}, .pad = {1, 0, 0}, .out = {3, 2, 2}, .groups = 1),
    FIELDS(.name = "transposed", .op = "ConvTranspose", .attributes = " {pads=[1,0,0,1], strides=[2,1]}", .rank = 3,
           .dims = {4, 2, 3}, .weight = {4, 5, 3, 2}, .weight_rank = 4, .kernel = {1, 3, 2}, .stride = {1, 2, 1},
           .dilation = {1, 1, 1}, .pad = {0, 1, 0}, .out = {1, 4, 3}, .groups = 1, .transposed = true),
    FIELDS(.name = "rows of a matrix product", .op = "MatMul", .attributes = "", .rank = 2, .dims = {7, 20},
           .weight = {20, 6}, .weight_rank = 2, .kernel = {1, 1, 1}, .stride = {1, 1, 1}, .dilation = {1, 1, 1},
           .out = {1, 1, 7}, .groups = 1, .dense = true),
    FIELDS(.name = "dense", .op = "Gemm", .attributes = " {transB=1}", .rank = 1, .dims = {33}, .weight = {4, 33},
           .weight_rank = 2, .kernel = {1, 1, 1}, .stride = {1, 1, 1}, .dilation = {1, 1, 1}, .out = {1, 1, 1},
           .groups = 1, .dense = true),
};
enum { CASES = sizeof cases / sizeof *cases, SAMPLES = 24 };

static size_t elements(const struct layer_case *c)
{
    size_t n = 1;
    for (unsigned i = 0; i < c->rank; i++) n *= (size_t)c->dims[i];
    return n;
}

static char *list(char to[96], const int64_t *dims, int rank)
{
    size_t used = 0;
    for (int i = 0; i < rank; i++)
        used += (size_t)snprintf(to + used, 96 - used, "%s%lld", i ? "," : "", (long long)dims[i]);
    return to;
}

/* Samples are integers times a power of two of their own, so that their rounding is exact. */
static float *make_samples(const struct layer_case *c, size_t samples, int spread, uint64_t seed)
{
    const size_t n = elements(c);
    float *x = malloc(samples * n * sizeof *x);
    cr_assert(x);
    for (size_t s = 0; s < samples; s++)
        for (size_t i = 0; i < n; i++)
            x[s * n + i] = ldexpf((float)((int64_t)(test_random(&seed) % 1001) - 500), (int)(s % 7) * spread);
    return x;
}

static void run_samples(struct case_run *r, const struct layer_case *c, const float *x, size_t samples,
                        unsigned workers)
{
    struct case_setup setup = CASE_SETUP;
    struct case_data set = {.name = "x", .dtype = QC_F32, .values = x, .rank = c->rank};
    CASE_FILE path[CASE_PATH];
    memcpy(set.dims, c->dims, sizeof c->dims);
    case_write(path, &set, 1, samples);
    char text[16384], in[96], weight[96];
    size_t n = 1;
    for (int i = 0; i < c->weight_rank; i++) n *= (size_t)c->weight[i];
    char *numbers = case_numbers(n, 0.3f, 17);
    cr_assert_lt((size_t)snprintf(text, sizeof text,
                                  "graph \"g\"\ninput %%1 \"x\" f32[N,%s]\nconst %%2 \"w\" f32[%s] = %s\n%%3 \"y\" = "
                                  "%s(%%1, %%2)%s\noutput \"y\" %%3\n",
                                  list(in, c->dims, (int)c->rank), list(weight, c->weight, c->weight_rank), numbers,
                                  c->op, c->attributes),
                 sizeof text);
    free(numbers);
    OWN(qc_graph) *g = test_graph(text);
    setup.moments = true;
    setup.rules = "pattern conv_transpose\n  match ConvTranspose(x, const w)\n  affine dq(ConvTranspose(q(x : X), q(w "
                  ": W per 1)) : X*W)\n  result quantized\n";
    setup.workers = workers;
    cr_assert(case_calibrate(r, g, path, &setup, ST), "%s: %s", c->name, failure.message);
    cr_assert_eq(qc_second_moments_count(r->second_moments), 1, "%s", c->name);
}

/* The columns of one output position: entry [tap][channel] of group 0 first, then of the others. An input adds to
   output o through tap k where i = o*stride - pad + k*dilation; transposed: where o = i*stride - pad + k*dilation. */
static void columns_of(double *to, const struct layer_case *c, const float *x, const int64_t o[3])
{
    const size_t channels = c->dense ? (size_t)c->dims[c->rank - 1] : (size_t)c->dims[0], each = channels / c->groups;
    int64_t in[3] = {1, 1, 1}, k[3];
    size_t taps = 1, tap = 0;
    for (unsigned i = 1; !c->dense && i < c->rank; i++) in[3 - c->rank + i] = c->dims[i];
    for (int i = 0; i < 3; i++) taps *= (size_t)c->kernel[i];
    for (k[0] = 0; k[0] < c->kernel[0]; k[0]++)
        for (k[1] = 0; k[1] < c->kernel[1]; k[1]++)
            for (k[2] = 0; k[2] < c->kernel[2]; k[2]++, tap++)
                for (size_t ch = 0; ch < channels; ch++) {
                    double *entry = &to[ch / each * taps * each + tap * each + ch % each];
                    *entry = c->dense ? (double)x[(size_t)o[2] * channels + ch] : 0;
                    for (int64_t a = 0; !c->dense && a < in[0] * in[1] * in[2]; a++) {
                        const int64_t at[3] = {a / (in[1] * in[2]), a / in[2] % in[1], a % in[2]};
                        bool here = true;
                        for (int i = 0; i < 3; i++)
                            here = here &&
                                   (c->transposed ? o[i] == at[i] * c->stride[i] - c->pad[i] + k[i] * c->dilation[i]
                                                  : at[i] == o[i] * c->stride[i] - c->pad[i] + k[i] * c->dilation[i]);
                        if (here) *entry = (double)x[(int64_t)ch * in[0] * in[1] * in[2] + a];
                    }
                }
}

static void expect_moments(const struct layer_case *c, const struct qc_second_moments_layer *l, const float *x,
                           size_t samples)
{
    const size_t w = l->columns, row = w * c->groups, n = (size_t)(c->out[0] * c->out[1] * c->out[2]);
    QC_FREED double *want = calloc(c->groups * w * w, sizeof *want), *mean = calloc(row, sizeof *mean),
                    *h = malloc(w * w * sizeof *h), *m = malloc(w * sizeof *m), *column = malloc(row * sizeof *column);
    cr_assert_eq(qc_second_moments_positions(l, n), n, "%s: positions are left out", c->name);
    cr_assert_eq(l->groups, c->groups);
    for (size_t s = 0; s < samples; s++)
        for (size_t p = 0; p < n; p++) {
            const int64_t o[3] = {(int64_t)p / (c->out[1] * c->out[2]), (int64_t)p / c->out[2] % c->out[1],
                                  (int64_t)p % c->out[2]};
            columns_of(column, c, x + s * elements(c), o);
            for (size_t g = 0; g < c->groups; g++)
                for (size_t i = 0; i < w; i++) {
                    mean[g * w + i] += column[g * w + i] / (double)(samples * n);
                    for (size_t j = 0; j < w; j++)
                        want[(g * w + i) * w + j] += column[g * w + i] * column[g * w + j] / (double)(samples * n);
                }
        }
    cr_expect_eq(l->parts[QC_MOMENTS_FIT].rows + l->parts[QC_MOMENTS_HELD].rows, samples * n, "%s", c->name);
    cr_expect_eq(l->parts[QC_MOMENTS_FIT].samples + l->parts[QC_MOMENTS_HELD].samples, samples);
    for (size_t g = 0; g < c->groups; g++) {
        qc_second_moments_read(h, m, l, 3, g, 0);
        for (size_t i = 0; i < w; i++) {
            cr_assert_float_eq(m[i], mean[g * w + i], 1e-9 * (1 + fabs(mean[g * w + i])),
                               "%s: mean of column %zu is %g, not %g", c->name, i, m[i], mean[g * w + i]);
            for (size_t j = 0; j < w; j++) {
                const double e = want[(g * w + i) * w + j];
                cr_assert_float_eq(h[i * w + j], e, 1e-9 * (1 + fabs(e)),
                                   "%s: group %zu, columns %zu and %zu: %g, not %g", c->name, g, i, j, h[i * w + j], e);
            }
        }
    }
}

Test(second_moments, moments_are_those_of_the_definition)
{
    for (size_t k = 0; k < CASES; k++) {
        CASE_RUN r;
        QC_FREED float *x = make_samples(&cases[k], SAMPLES, 0, k);
        run_samples(&r, &cases[k], x, SAMPLES, 2);
        expect_moments(&cases[k], qc_second_moments_at(r.second_moments, 0), x, SAMPLES);
    }
}

static void expect_same(const struct qc_second_moments_layer *a, const struct qc_second_moments_layer *b,
                        const char *what)
{
    for (int p = 0; p < QC_MOMENTS_PARTS; p++) {
        const struct qc_second_moments_moments *x = &a->parts[p], *y = &b->parts[p];
        cr_assert(x->seen == y->seen && x->rows == y->rows && x->samples == y->samples && x->skipped == y->skipped &&
                      x->top == y->top,
                  "%s: part %d", what, p);
        for (int k = 0; k < QC_MOMENTS_CLASSES; k++) {
            cr_assert_eq(!x->of[k].sums, !y->of[k].sums, "%s: part %d, class %d", what, p, k);
            if (!x->of[k].sums) continue;
            cr_assert_eq(qc_second_moments_has_products(&x->of[k]), qc_second_moments_has_products(&y->of[k]));
            for (size_t i = 0; qc_second_moments_has_products(&x->of[k]) && i < a->product_count; i++)
                cr_assert_eq(qc_second_moments_product(&x->of[k], i), qc_second_moments_product(&y->of[k], i),
                             "%s: products", what);
            cr_assert(memcmp(x->of[k].sums, y->of[k].sums, a->groups * a->columns * sizeof(int64_t)) == 0, "%s: sums",
                      what);
        }
    }
}

/* Samples of seven magnitudes, 2^18 apart in all: classes leave the window. Whole or in halves, by one worker or four,
 * forwards or backwards. */
Test(second_moments, nothing_depends_on_order_workers_or_shards)
{
    for (size_t k = 0; k < CASES; k++) {
        const struct layer_case *c = &cases[k];
        const size_t n = elements(c), half = SAMPLES / 2;
        CASE_RUN whole, four, back, first, second;
        QC_FREED float *x = make_samples(c, SAMPLES, 3, 100 + k), *y = malloc(SAMPLES * n * sizeof *y);
        for (size_t s = 0; s < SAMPLES; s++) memcpy(y + s * n, x + (SAMPLES - 1 - s) * n, n * sizeof *y);
        run_samples(&whole, c, x, SAMPLES, 1);
        run_samples(&four, c, x, SAMPLES, 4);
        run_samples(&back, c, y, SAMPLES, 1);
        run_samples(&first, c, x, half, 1);
        run_samples(&second, c, x + half * n, SAMPLES - half, 2);
        struct qc_second_moments_layer *a = qc_second_moments_at(first.second_moments, 0),
                                       *b = qc_second_moments_at(second.second_moments, 0),
                                       *all = qc_second_moments_at(whole.second_moments, 0);
        expect_same(all, qc_second_moments_at(four.second_moments, 0), "four workers");
        expect_same(all, qc_second_moments_at(back.second_moments, 0), "backwards");
        if (k % 2) {
            MUST(qc_second_moments_add(a, b, ST));
            expect_same(all, a, "the second half added to the first");
        } else {
            MUST(qc_second_moments_add(b, a, ST));
            expect_same(all, b, "the first half added to the second");
        }
        cr_assert(all->parts[QC_MOMENTS_FIT].seen && all->parts[QC_MOMENTS_HELD].samples, "%s: nothing was held back",
                  c->name);
    }
}

/* A large map: fewer rows than positions, other ones for every sample, and the moments about those of all. */
Test(second_moments, positions_are_drawn_evenly)
{
    const struct layer_case c = FIELDS(.name = "large", .op = "Conv", .attributes = "", .rank = 3, .dims = {1, 64, 64},
                                       .weight = {2, 1, 2, 2}, .weight_rank = 4, .kernel = {1, 2, 2},
                                       .stride = {1, 1, 1}, .dilation = {1, 1, 1}, .out = {1, 63, 63}, .groups = 1);
    CASE_RUN r;
    const size_t n = elements(&c);
    QC_FREED float *x = malloc(SAMPLES * n * sizeof *x);
    for (size_t s = 0; s < SAMPLES; s++)
        for (size_t i = 0; i < n; i++)
            x[s * n + i] = (float)(i / 64); /* a ramp down the rows, the same in every sample but for one pixel */
    for (size_t s = 0; s < SAMPLES; s++) x[s * n] = (float)s;
    run_samples(&r, &c, x, SAMPLES, 2);
    const struct qc_second_moments_layer *l = qc_second_moments_at(r.second_moments, 0);
    const size_t rows = qc_second_moments_positions(l, 63 * 63);
    HOLD(rows == 64, l->parts[0].rows + l->parts[1].rows == rows * SAMPLES);
    double h[16], m[4];
    qc_second_moments_read(h, m, l, 3, 0, 0);
    cr_expect_float_eq(m[0], 31, 0.2, "%g", m[0]); /* mean of rows 0 to 62 */
    cr_expect_float_eq(h[0] - m[0] * m[0], (63 * 63 - 1) / 12.0, 5, "%g", h[0] - m[0] * m[0]);
    cr_expect_float_eq(m[2], 32, 0.2, "%g", m[2]);
}

Test(second_moments, samples_of_nan_are_left_out_and_counted)
{
    const struct layer_case *c = &cases[0];
    const size_t n = elements(c);
    CASE_RUN r;
    QC_FREED float *x = make_samples(c, SAMPLES, 0, 3);
    x[5 * n + 2] = NAN;
    for (size_t i = 0; i < n; i++) x[6 * n + i] = 0;
    run_samples(&r, c, x, SAMPLES, 2);
    struct qc_second_moments_layer *l = qc_second_moments_at(r.second_moments, 0);
    HOLD(l->parts[0].skipped + l->parts[1].skipped == 1, l->parts[0].samples + l->parts[1].samples == SAMPLES - 1);
    memmove(x + 5 * n, x + 6 * n, (SAMPLES - 6) * n * sizeof *x);
    expect_moments(c, l, x, SAMPLES - 1);
}

/* Matrices wider than the bound are cut into blocks along the diagonal, of an even number of columns each. */
Test(second_moments, wide_matrices_are_taken_in_blocks)
{
    const struct layer_case *c = &cases[9];
    CASE_RUN r;
    QC_FREED float *x = make_samples(c, SAMPLES, 0, 9);
    OWN(qc_second_moments) *m = NULL;
    double h[33 * 33], mean[33], part[33 * 33], some[33];
    run_samples(&r, c, x, SAMPLES, 1);
    const struct qc_second_moments_layer *whole = qc_second_moments_at(r.second_moments, 0);
    MUST(qc_second_moments_new(&m, r.simulated, QC_MOMENTS_QUANTIZED, 12, ST));
    const struct qc_second_moments_layer *l = qc_second_moments_at(m, 0);
    cr_expect(l->blocks == 3 && l->block == 12 && qc_second_moments_width(l, 2) == 9);
    MUST(qc_second_moments_begin(m, 1, ST));
    for (size_t s = 0; s < SAMPLES; s++) {
        const struct qc_shape shape = QC_SHAPE(1, 33);
        struct qc_view v = qc_view_of(QC_F32, &shape, QC_LAYOUT_ROW, x + s * 33);
        MUST(qc_second_moments_observe(m, 0, s, l->value, QC_MOMENTS_NO_PEAK, &v, ST));
    }
    MUST(qc_second_moments_end(m, ST));
    qc_second_moments_read(h, mean, whole, 3, 0, 0);
    for (size_t b = 0; b < 3; b++) {
        const size_t width = qc_second_moments_width(l, b), first = b * l->block;
        qc_second_moments_read(part, some, l, 3, 0, b);
        for (size_t i = 0; i < width; i++) {
            cr_expect_float_eq(some[i], mean[first + i], 1e-9 * fabs(mean[first + i]));
            for (size_t j = 0; j < width; j++)
                cr_expect_float_eq(part[i * width + j], h[(first + i) * 33 + first + j],
                                   1e-9 * fabs(part[i * width + j]));
        }
    }
    cr_expect_not(qc_second_moments_add(qc_second_moments_at(m, 0), whole, ST), "moments of other blocks were added");
}

/* The moments of all samples from first on, one in every `step`, with at most so many rows of a class kept. */
static struct qc_second_moments *observe_some(const struct case_run *r, const struct layer_case *c, const float *x,
                                              size_t first, size_t step, size_t keep)
{
    struct qc_second_moments *m = NULL;
    MUST(qc_second_moments_new(&m, r->simulated, QC_MOMENTS_QUANTIZED, 0, ST));
    struct qc_second_moments_layer *l = qc_second_moments_at(m, 0);
    l->keep = keep;
    MUST(qc_second_moments_begin(m, 1, ST));
    for (size_t s = first; s < SAMPLES; s += step) {
        struct qc_shape shape = {.rank = (int)c->rank + 1, .dim = {1}};
        for (unsigned i = 0; i < c->rank; i++) shape.dim[i + 1] = c->dims[i];
        QC_FREED float *copy = malloc(elements(c) * sizeof *copy);
        memcpy(copy, x + s * elements(c), elements(c) * sizeof *copy);
        struct qc_view v = qc_view_of(QC_F32, &shape, QC_LAYOUT_ROW, copy);
        MUST(qc_second_moments_observe(m, 0, s, l->value, QC_MOMENTS_NO_PEAK, &v, ST));
    }
    MUST(qc_second_moments_end(m, ST));
    return m;
}

static bool has_rows(const struct qc_second_moments_layer *l)
{
    const struct qc_second_moments_moments *p = &l->parts[QC_MOMENTS_FIT];
    return p->of[0].rows || p->of[1].rows;
}

/* All that can be read of a group, to the last bit. */
static void expect_equal(const struct qc_second_moments_layer *a, const struct qc_second_moments_layer *b,
                         const char *what)
{
    const size_t w = a->columns;
    QC_FREED double *h = malloc(2 * w * w * sizeof *h), *x = malloc(2 * w * sizeof *x);
    for (size_t g = 0; g < a->groups; g++) {
        qc_second_moments_read(h, x, a, 3, g, 0);
        qc_second_moments_read(h + w * w, x + w, b, 3, g, 0);
        cr_assert(memcmp(h, h + w * w, w * w * sizeof *h) == 0, "%s: matrix of group %zu", what, g);
        cr_assert(memcmp(x, x + w, w * sizeof *x) == 0, "%s: mean of group %zu", what, g);
        for (size_t i = 0; i < w * w; i++) h[w * w + i] = -1;
        qc_second_moments_read_lower(h + w * w, x, b, 3, g, 0);
        for (size_t i = 0; i < w * w; i++)
            cr_assert_eq(h[w * w + i], i % w > i / w ? -1 : h[i], "%s: lower half of group %zu", what, g);
        qc_second_moments_read_diagonal(x, a, 3, g, 0);
        qc_second_moments_read_diagonal(x + w, b, 3, g, 0);
        cr_assert(memcmp(x, x + w, w * sizeof *x) == 0, "%s: diagonal of group %zu", what, g);
        for (size_t i = 0; i < w; i++) cr_assert_eq(x[i], h[i * w + i], "%s: diagonal of group %zu", what, g);
        for (size_t k = 0; k < w; k++) {
            qc_second_moments_read_column(x, a, 3, g, 0, k);
            cr_assert(memcmp(x, h + k * w, w * sizeof *x) == 0, "%s: column %zu of group %zu", what, k, g);
        }
    }
}

/* Rows that are kept are the same moments as their products: read as they are, turned into products when they are
   many, and added to either. */
Test(second_moments, kept_rows_are_the_same_moments)
{
    enum { ALWAYS = 1 << 20, SOME = 40 };
    for (size_t k = 0; k < CASES; k++) {
        const struct layer_case *c = &cases[k];
        CASE_RUN r;
        QC_FREED float *x = make_samples(c, SAMPLES, 2, 30 + k); /* of several steps and classes */
        run_samples(&r, c, x, SAMPLES, 1);
        struct qc_second_moments_layer *square = qc_second_moments_at(r.second_moments, 0);
        if (square->lanes) continue;
        OWN(qc_second_moments) *products = observe_some(&r, c, x, 0, 1, 0),
                               *rows = observe_some(&r, c, x, 0, 1, ALWAYS);
        struct qc_second_moments_layer *all = qc_second_moments_at(products, 0);
        cr_assert(!has_rows(all) && has_rows(qc_second_moments_at(rows, 0)), "%s", c->name);
        expect_equal(all, qc_second_moments_at(rows, 0), c->name);
        const size_t keeps[] = {0, SOME, ALWAYS};
        for (size_t i = 0; i < 9; i++) {
            OWN(qc_second_moments) *even = observe_some(&r, c, x, 0, 2, keeps[i % 3]),
                                   *odd = observe_some(&r, c, x, 1, 2, keeps[i / 3]);
            MUST(qc_second_moments_add(qc_second_moments_at(even, 0), qc_second_moments_at(odd, 0), ST));
            expect_equal(all, qc_second_moments_at(even, 0), "halves added");
        }
    }
}

Test(second_moments, a_divisor_divides_what_is_read)
{
    for (size_t k = 0; k < CASES; k++) {
        const struct layer_case *c = &cases[k];
        CASE_RUN r;
        QC_FREED float *x = make_samples(c, SAMPLES, 2, 50 + k);
        run_samples(&r, c, x, SAMPLES, 1);
        struct qc_second_moments_layer *l = qc_second_moments_at(r.second_moments, 0), divided = *l;
        const size_t w = l->columns, each = l->channels / l->groups;
        double *h = malloc((2 * w * w + 3 * w + l->channels) * sizeof *h), *mean = h + 2 * w * w, *by = mean + 2 * w,
               *divisor = by + w;
        for (size_t i = 0; i < l->channels; i++) divisor[i] = 0.25 + (double)(i % 7);
        divided.divisor = divisor;
        for (size_t g = 0; g < l->groups; g++) {
            for (size_t i = 0; i < w; i++) by[i] = divisor[g * each + i % each];
            qc_second_moments_read(h, mean, l, 3, g, 0);
            qc_second_moments_read(h + w * w, mean + w, &divided, 3, g, 0);
            for (size_t i = 0; i < w; i++) {
                cr_expect_float_eq(mean[w + i] * by[i], mean[i], 1e-12 * fabs(mean[i]) + 1e-300);
                for (size_t j = 0; j < w; j++)
                    cr_expect_float_eq(h[w * w + i * w + j] * by[i] * by[j], h[i * w + j],
                                       1e-12 * fabs(h[i * w + j]) + 1e-300);
            }
            qc_second_moments_read_mean(mean, &divided, 3, g, 0, w);
            cr_expect(memcmp(mean, mean + w, w * sizeof *mean) == 0, "%s", c->name);
            if (l->lanes) continue;
            qc_second_moments_read_diagonal(mean, &divided, 3, g, 0);
            qc_second_moments_read_column(mean + w, &divided, 3, g, 0, w - 1);
            for (size_t i = 0; i < w * w; i += w + 1)
                cr_expect_float_eq(mean[i / w], h[w * w + i], 1e-12 * mean[i / w]);
            cr_expect_float_eq(mean[w], h[w * w + w - 1], 1e-12 * fabs(mean[w]) + 1e-300);
        }
        free(h);
    }
}

/* Moments of x / d - c from those of x, by the definition, in every way to read them. */
Test(second_moments, a_centre_is_subtracted_from_what_is_read)
{
    for (size_t k = 0; k < CASES; k++) {
        const struct layer_case *c = &cases[k];
        CASE_RUN r;
        QC_FREED float *x = make_samples(c, SAMPLES, 2, 60 + k);
        run_samples(&r, c, x, SAMPLES, 1);
        struct qc_second_moments_layer *l = qc_second_moments_at(r.second_moments, 0), centred = *l;
        const size_t w = l->columns, each = l->channels / l->groups;
        double *h = malloc((2 * w * w + 3 * w + 2 * l->channels) * sizeof *h), *mean = h + 2 * w * w, *own = mean + w,
               *one = own + w, *divisor = one + w, *centre = divisor + l->channels;
        for (size_t i = 0; i < l->channels; i++) divisor[i] = i % 2 ? 2 : 0.5, centre[i] = (double)(i % 5) - 1.5;
        centred.divisor = divisor;
        centred.centre = centre;
        for (size_t g = 0; g < l->groups; g++) {
            qc_second_moments_read(h, mean, l, 3, g, 0);
            qc_second_moments_read(h + w * w, own, &centred, 3, g, 0);
            for (size_t i = 0; i < w; i++) {
                const double di = divisor[g * each + i % each], ci = centre[g * each + i % each], mi = mean[i] / di;
                cr_expect_float_eq(own[i], mi - ci, 1e-12 * (fabs(mi) + 2), "%s", c->name);
                for (size_t j = 0; j < w; j++) {
                    const double dj = divisor[g * each + j % each], cj = centre[g * each + j % each], mj = mean[j] / dj,
                                 hij = h[i * w + j] / (di * dj);
                    cr_expect_float_eq(h[w * w + i * w + j], hij - mi * cj - ci * mj + ci * cj,
                                       1e-11 * (fabs(hij) + fabs(mi) + fabs(mj) + 4), "%s", c->name);
                }
            }
            qc_second_moments_read_mean(one, &centred, 3, g, 0, w);
            for (size_t i = 0; i < w; i++) cr_expect_float_eq(one[i], own[i], 1e-12 * (fabs(own[i]) + 2));
            if (l->lanes) continue;
            qc_second_moments_read_diagonal(one, &centred, 3, g, 0);
            for (size_t i = 0; i < w; i++)
                cr_expect_float_eq(one[i], h[w * w + i * w + i], 1e-11 * (one[i] + 4), "%s", c->name);
            qc_second_moments_read_column(one, &centred, 3, g, 0, w - 1);
            for (size_t i = 0; i < w; i++)
                cr_expect_float_eq(one[i], h[w * w + i * w + w - 1], 1e-11 * (fabs(one[i]) + 8), "%s", c->name);
        }
        free(h);
    }
}

/* What is wide keeps rows up to their number, and takes no more than products would. */
Test(second_moments, few_rows_of_wide_layers_are_kept)
{
    struct qc_second_moments_layer l = {.groups = 1, .outputs = 8, .channels = 736, .taps = 1}, narrow = l;
    struct qc_second_moments_sums *s;
    QC_FREED int16_t *rows = calloc(92 * 736, sizeof *rows);
    for (size_t i = 0; i < 92 * 736; i++) rows[i] = (int16_t)(i % 4001) - 2000;
    narrow.channels = 128;
    qc_second_moments_lay_out(&l, QC_MOMENTS_BLOCK);
    qc_second_moments_lay_out(&narrow, QC_MOMENTS_BLOCK);
    cr_assert(l.keep == 736 && !narrow.keep);
    MUST(qc_second_moments_class(&s, &l, QC_MOMENTS_FIT, 0, ST));
    for (int i = 0; i < 8; i++) MUST(qc_second_moments_keep(s, &l, rows, 92, i % 4, ST));
    cr_expect(s->rows && !qc_second_moments_has_products(s) && s->row_count == 736);
    MUST(qc_second_moments_keep(s, &l, rows, 1, 0, ST));
    cr_expect(!s->rows && qc_second_moments_has_products(s) && !s->row_count);
    qc_second_moments_drop_products(s);
    free(s->sums);
}
