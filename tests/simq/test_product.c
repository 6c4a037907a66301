// SPDX-License-Identifier: Apache-2.0
/* Convolutions and matrix products in float32: every instruction set and every order of memory gives the bits of the
   chain of fused multiply-adds that product_tile.h promises, with C's own fmaf as the reference. */
#include "simq/kernels/real/product.h"
#include "simq/kernels/real/product_tile.h"
#include "tests/check.h"

static const enum qc_isa isas[] = {QC_ISA_PLAIN, QC_ISA_AVX2, QC_ISA_AVX512};

static uint64_t state = 7;

static uint32_t bits32(void)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(state >> 32);
}

static float *numbers(size_t n)
{
    float *p = malloc((n + 1) * sizeof *p);
    cr_assert(p);
    for (size_t i = 0; i < n; i++) p[i] = ((float)bits32() * 0x1p-31f - 1.0f) * 3.0f;
    return p;
}

static void expect_bits(const float *got, const float *want, size_t n, const char *what, enum qc_isa isa)
{
    for (size_t i = 0; i < n; i++)
        cr_assert(memcmp(&got[i], &want[i], sizeof *got) == 0, "%s, %s: number %zu is %a, expected %a", what,
                  qc_isa_name(isa), i, (double)got[i], (double)want[i]);
}

/* --------------------------------------------------------------------------------- fused multiply-add */

static float any_float(void)
{
    static const uint32_t special[] = {0,          0x80000000, 1,          0x80000001, 0x7fffff,
                                       0x800000,   0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000,
                                       0x7fc00000, 0x3f800000, 0x3f800001, 0xbf7fffff};
    uint32_t b = bits32();
    if (b % 8 == 0) b = special[bits32() % (sizeof special / sizeof *special)];
    float f;
    memcpy(&f, &b, sizeof f);
    return f;
}

Test(product, fused_multiply_add_by_doubles_is_fmaf)
{
    for (int i = 0; i < 300000; i++) {
        const float a = any_float(), b = any_float();
        float c = any_float();
        if (i % 4 == 0) c = -(a * b);                       /* cancels */
        if (i % 4 == 1) c = nextafterf(a * b, c) * 0x1p24f; /* near ties */
        const float got = qc_fused_by_doubles(a, b, c), want = fmaf(a, b, c);
        cr_assert((got != got && want != want) || memcmp(&got, &want, sizeof got) == 0, "%a * %a + %a: %a, not %a",
                  (double)a, (double)b, (double)c, (double)got, (double)want);
    }
}

/* --------------------------------------------------------------------------------- what all cases share */

struct way {
    bool last;           /* channels last */
    bool packed, biased; /* weights are known in advance; bias: of them */
    struct qc_product_tail tail;
};

static const struct way ways[] = {
    {.last = true, .packed = true, .biased = true, .tail = {.lo = -INFINITY, .hi = INFINITY}},
    {.last = true, .packed = true, .biased = true, .tail = {.sum = true, .lo = 0, .hi = INFINITY}},
    {.last = true, .packed = false, .biased = true, .tail = {.lo = -1, .hi = 4}},
    {.last = false, .packed = true, .biased = false, .tail = {.sum = true, .lo = 0, .hi = 6}},
};

static float finished(float sum, const float *bias, float there, const struct way *w)
{
    float v = bias ? sum + *bias : sum;
    v = w->tail.sum ? v + there : v;
    v = w->tail.lo > v ? w->tail.lo : v;
    return w->tail.hi < v ? w->tail.hi : v;
}

static void run(const struct qc_product *d, struct qc_product_memory m)
{
    const size_t bytes = qc_product_facts(d).scratch;
    m.scratch = aligned_alloc(64, bytes + 64);
    cr_assert(m.scratch);
    memset(m.scratch, 0xff, bytes);
    qc_product_run(d, &m);
    free(m.scratch);
}

/* --------------------------------------------------------------------------------- convolutions */

struct spatial {
    bool transposed;
    int64_t n, c, m, group, in[3], kernel[3], stride[3], dilation[3], begin[3], out[3];
};

static const struct spatial spatials[] = {
    {false, 1, 3, 24, 1, {1, 13, 37}, {1, 3, 3}, {1, 2, 2}, {1, 1, 1}, {0, 1, 1}, {1, 7, 19}},
    {false, 2, 16, 16, 1, {1, 9, 17}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}, {1, 9, 17}},
    {false, 1, 40, 100, 1, {1, 5, 5}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {1, 5, 5}},
    {false, 1, 300, 33, 1, {1, 3, 3}, {1, 1, 1}, {1, 2, 2}, {1, 1, 1}, {0, 0, 0}, {1, 2, 2}},
    {false, 1, 70, 50, 1, {1, 4, 6}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}, {1, 4, 6}},
    {false, 1, 2, 5, 1, {4, 5, 6}, {2, 3, 1}, {1, 1, 2}, {1, 1, 1}, {1, 0, 0}, {5, 3, 3}},
    {false, 1, 8, 8, 1, {1, 12, 11}, {1, 3, 3}, {1, 1, 1}, {1, 5, 3}, {0, 5, 3}, {1, 12, 11}},
    {false, 1, 6, 9, 3, {1, 8, 8}, {1, 3, 2}, {1, 1, 2}, {1, 1, 1}, {0, 0, 0}, {1, 6, 4}},
    {false, 1, 1, 8, 1, {1, 1, 600}, {1, 1, 5}, {1, 1, 1}, {1, 1, 1}, {0, 0, 2}, {1, 1, 600}},
    {false, 2, 24, 24, 24, {1, 9, 15}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}, {1, 9, 15}},
    {false, 1, 33, 33, 33, {1, 8, 11}, {1, 3, 3}, {1, 2, 2}, {1, 1, 1}, {0, 0, 0}, {1, 4, 5}},
    {false, 1, 7, 7, 7, {1, 6, 4}, {1, 5, 5}, {1, 1, 1}, {1, 1, 1}, {0, 2, 2}, {1, 6, 4}},
    {false, 1, 20, 20, 20, {3, 5, 9}, {2, 3, 3}, {1, 1, 3}, {1, 1, 2}, {1, 1, 2}, {4, 5, 3}},
    /* Short lines of many outputs. */
    {false, 2, 20, 70, 1, {1, 5, 3}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}, {1, 5, 3}},
    {false, 1, 17, 64, 1, {2, 11, 11}, {2, 2, 1}, {1, 2, 3}, {1, 1, 1}, {1, 1, 0}, {3, 6, 4}},
    {true, 1, 6, 128, 2, {1, 3, 2}, {1, 3, 2}, {1, 2, 2}, {1, 1, 1}, {0, 1, 0}, {1, 6, 4}},
    /* Large: the edges apart from the rest. */
    {false, 1, 3, 17, 1, {1, 51, 99}, {1, 3, 3}, {1, 2, 2}, {1, 1, 1}, {0, 1, 1}, {1, 26, 50}},
    {false, 1, 4, 6, 2, {1, 9, 70}, {1, 3, 5}, {1, 1, 1}, {1, 2, 1}, {0, 2, 3}, {1, 9, 71}},
    {true, 1, 5, 17, 1, {1, 4, 5}, {1, 3, 3}, {1, 2, 2}, {1, 1, 1}, {0, 1, 1}, {1, 8, 10}},
    {true, 1, 4, 6, 2, {1, 5, 4}, {1, 3, 3}, {1, 2, 3}, {1, 1, 1}, {0, 1, 0}, {1, 10, 14}},
    {true, 1, 6, 5, 1, {1, 4, 110}, {1, 4, 4}, {1, 2, 2}, {1, 1, 1}, {0, 1, 1}, {1, 8, 220}},
    {true, 1, 3, 4, 1, {2, 3, 3}, {2, 2, 3}, {3, 2, 4}, {1, 3, 2}, {0, 1, 1}, {5, 7, 12}},
};

/* Where the chain is cut: behind so many taps, and behind so many inputs of one. */
struct cut {
    int64_t taps, inputs;
};

static struct cut cut_of(const struct spatial *s, const int64_t o[3])
{
    const int64_t inputs = s->c / s->group;
    int64_t columns = 0;
    for (int64_t t = 0; t < s->kernel[2]; t++)
        columns += !s->transposed || (o[2] + s->begin[2] - t * s->dilation[2]) % s->stride[2] == 0;
    if (columns * inputs <= 128) return (struct cut){columns ? 128 / (columns * inputs) * columns : 1, inputs};
    const int64_t pieces = (inputs + 127) / 128;
    return (struct cut){inputs > 128 ? 1 : 128 / inputs, (inputs + pieces - 1) / pieces};
}

/* The chain over planes, lines, columns and channels of the window, in this order: of a transposed one from its last
   weights, which meet the first data, to its first. Weights that are known may be summed only where they meet data. */
static float chain(const struct spatial *s, const float *x, const float *w, int64_t n, int64_t m, const int64_t o[3])
{
    const int64_t inputs = s->c / s->group, outputs = s->m / s->group, group = m / outputs;
    const int64_t window = s->kernel[0] * s->kernel[1] * s->kernel[2];
    const struct cut cut = cut_of(s, o);
    float sum = 0, all = 0;
    for (int64_t t = 0, taps = 0; t < window; t++) {
        int64_t at = s->transposed ? window - 1 - t : t, rest = at, i[3];
        bool there = true, meets = true;
        for (int k = 3; k-- > 0; rest /= s->kernel[k]) {
            const int64_t tap = rest % s->kernel[k] * s->dilation[k];
            i[k] = s->transposed ? o[k] + s->begin[k] - tap : o[k] * s->stride[k] + tap - s->begin[k];
            if (s->transposed && i[k] % s->stride[k]) meets = false;
            if (s->transposed) i[k] /= s->stride[k];
            there = there && i[k] >= 0 && i[k] < s->in[k] && (!s->transposed || o[k] + s->begin[k] >= tap);
        }
        for (int64_t c = 0; meets && c < inputs; c++) {
            const int64_t input = group * inputs + c;
            const float weight =
                s->transposed ? w[(input * outputs + m % outputs) * window + at] : w[(m * inputs + c) * window + at];
            const float data =
                there ? x[(((n * s->c + input) * s->in[0] + i[0]) * s->in[1] + i[1]) * s->in[2] + i[2]] : 0;
            sum = fmaf(data, weight, sum);
            if ((c + 1) % cut.inputs == 0 || c + 1 == inputs) {
                const bool end = c + 1 < inputs || (taps + 1) % cut.taps == 0;
                all = end ? all + sum : all;
                sum = end ? 0 : sum;
            }
        }
        taps += meets;
    }
    return all + sum;
}

static struct qc_view tensor(int64_t n, int64_t c, const int64_t size[3], bool last, float *data)
{
    const struct qc_shape shape = qc_shape_of(5, (const int64_t[]){n, c, size[0], size[1], size[2]});
    return qc_view_of(QC_F32, &shape, last ? QC_LAYOUT_LAST : QC_LAYOUT_ROW, data);
}

static void convolution(const struct spatial *s, const struct way *way, enum qc_isa isa)
{
    const size_t out = (size_t)(s->n * s->m * s->out[0] * s->out[1] * s->out[2]),
                 in = (size_t)(s->n * s->c * s->in[0] * s->in[1] * s->in[2]),
                 all = (size_t)(s->c * s->m / s->group * s->kernel[0] * s->kernel[1] * s->kernel[2]);
    float *x = numbers(in), *y = numbers(out), *w = numbers(all), *bias = numbers((size_t)s->m), *laid = numbers(in),
          *result = numbers(out), *given = numbers(out);
    const int64_t dims[2] = {s->transposed ? s->c : s->m, (s->transposed ? s->m : s->c) / s->group};
    const struct qc_view row_x = tensor(s->n, s->c, s->in, false, x), row_y = tensor(s->n, s->m, s->out, false, y),
                         weights = tensor(dims[0], dims[1], s->kernel, false, w);
    struct qc_view vx = tensor(s->n, s->c, s->in, way->last, laid), vy = tensor(s->n, s->m, s->out, way->last, result),
                   vb = {.dtype = QC_F32, .rank = 1, .dim = {s->m}, .stride = {1}, .data = bias}, vw = weights;
    memcpy(given, y, out * sizeof *y);
    qc_view_copy(&vx, &row_x);
    qc_view_copy(&vy, &row_y);
    if (!way->packed) vw.data = vb.data = NULL;
    struct qc_product_conv c =
        FIELDS(.transposed = s->transposed, .window = {.spatial = 3}, .groups = s->group, .src = &vx, .weights = &vw,
               .bias = way->biased ? &vb : NULL, .dst = &vy, .tail = way->tail, .isa = isa);
    memcpy(c.window.kernel, s->kernel, sizeof s->kernel);
    memcpy(c.window.stride, s->stride, sizeof s->stride);
    memcpy(c.window.dilation, s->dilation, sizeof s->dilation);
    memcpy(c.window.pad_begin, s->begin, sizeof s->begin);
    struct qc_product *d;
    MUST(qc_product_conv_new(&d, &c, ST));
    run(d, (struct qc_product_memory){.src = laid, .weights = w, .bias = bias, .dst = result});
    qc_product_free(d);
    qc_view_copy(&row_y, &vy);
    size_t i = 0;
    for (int64_t n = 0; n < s->n; n++)
        for (int64_t m = 0; m < s->m; m++)
            for (int64_t p = 0; p < s->out[0] * s->out[1] * s->out[2]; p++, i++) {
                const int64_t o[3] = {p / s->out[2] / s->out[1], p / s->out[2] % s->out[1], p % s->out[2]};
                given[i] = finished(chain(s, x, w, n, m, o), way->biased ? bias + m : NULL, given[i], way);
            }
    char what[64];
    qc_text(what, sizeof what, "convolution %zu, way %zu", (size_t)(s - spatials), (size_t)(way - ways));
    expect_bits(y, given, out, what, isa);
    float *const mine[] = {x, y, w, bias, laid, result, given};
    for (size_t k = 0; k < sizeof mine / sizeof *mine; k++) free(mine[k]);
}

Test(product, convolutions_are_the_same_chain_on_every_instruction_set)
{
    for (size_t s = 0; s < sizeof spatials / sizeof *spatials; s++)
        for (size_t w = 0; w < sizeof ways / sizeof *ways; w++)
            for (size_t i = 0; i < sizeof isas / sizeof *isas; i++)
                if (qc_isa_detect(isas[i]) == isas[i] && (s + w + i) % test_one_of(1, 3) == 0)
                    convolution(&spatials[s], &ways[w], isas[i]);
}

/* --------------------------------------------------------------------------------- matrices */

struct sizes {
    int64_t batch, rows, depth, columns;
    bool turned_a, turned_b, one_b; /* transposed in memory; one matrix b for all */
};

static const struct sizes matrices[] = {
    {1, 1, 64, 10, false, false, false},   {1, 7, 512, 100, false, true, false}, {3, 65, 32, 65, false, true, false},
    {2, 17, 65, 32, false, false, false},  {1, 300, 20, 47, true, false, false}, {2, 31, 130, 1, false, false, true},
    {1, 1100, 3, 16, false, false, false}, {2, 5, 385, 49, true, true, true},    {1, 2, 1000, 3, false, true, false},
    {1, 28, 16, 128, false, false, false},
};

static struct qc_view matrix(int64_t batch, int64_t rows, int64_t columns, bool turned, float *data)
{
    return (struct qc_view)FIELDS(.dtype = QC_F32, .rank = 3, .dim = {batch, rows, columns},
                                  .stride = {rows * columns, turned ? 1 : columns, turned ? rows : 1}, .data = data);
}

static bool room_for_files = true;

/* packs: NULL, or where the packed b is kept in a file. */
static void product(const struct sizes *s, const struct way *way, enum qc_isa isa, struct qc_packed *packs)
{
    const int64_t batch_b = s->one_b ? 1 : s->batch;
    const size_t out = (size_t)(s->batch * s->rows * s->columns);
    float *a = numbers((size_t)(s->batch * s->rows * s->depth)),
          *b = numbers((size_t)(batch_b * s->depth * s->columns)), *bias = numbers((size_t)s->columns),
          *y = numbers(out), *want = numbers(out);
    memcpy(want, y, out * sizeof *y);
    struct qc_view va = matrix(s->batch, s->rows, s->depth, s->turned_a, a),
                   vb = matrix(batch_b, s->depth, s->columns, s->turned_b, b),
                   vy = matrix(s->batch, s->rows, s->columns, !way->last, y),
                   row = {.dtype = QC_F32, .rank = 1, .dim = {s->columns}, .stride = {1}, .data = bias};
    for (int64_t i = 0; i < s->batch; i++)
        for (int64_t m = 0; m < s->rows; m++)
            for (int64_t n = 0; n < s->columns; n++) {
                const int64_t pieces = (s->depth + 127) / 128, piece = (s->depth + pieces - 1) / pieces;
                float sum = 0, all = 0, *to = want + i * vy.stride[0] + m * vy.stride[1] + n * vy.stride[2];
                for (int64_t k = 0; k < s->depth; k++) {
                    if (k && k % piece == 0) {
                        all += sum;
                        sum = 0;
                    }
                    sum = fmaf(a[i * va.stride[0] + m * va.stride[1] + k * va.stride[2]],
                               b[i % batch_b * vb.stride[0] + k * vb.stride[1] + n * vb.stride[2]], sum);
                }
                *to = finished(all + sum, way->biased ? bias + n : NULL, *to, way);
            }
    if (!way->packed) vb.data = row.data = NULL;
    const struct qc_product_matrix m = FIELDS(.a = &va, .b = &vb, .bias = way->biased ? &row : NULL, .dst = &vy,
                                              .tail = way->tail, .packs = packs, .in_file = packs != NULL, .isa = isa);
    struct qc_product *d;
    MUST(qc_product_matrix_new(&d, &m, ST));
    if (packs) cr_expect_eq(qc_product_facts(d).is_packed, room_for_files, "matrices %zu", (size_t)(s - matrices));
    run(d, (struct qc_product_memory){.src = a, .weights = b, .bias = bias, .dst = y});
    qc_product_free(d);
    char what[64];
    qc_text(what, sizeof what, "matrices %zu, way %zu", (size_t)(s - matrices), (size_t)(way - ways));
    expect_bits(y, want, out, what, isa);
    float *const mine[] = {a, b, bias, y, want};
    for (size_t k = 0; k < sizeof mine / sizeof *mine; k++) free(mine[k]);
}

Test(product, matrices_are_the_same_chain_on_every_instruction_set)
{
    for (size_t s = 0; s < sizeof matrices / sizeof *matrices; s++)
        for (size_t w = 0; w < sizeof ways / sizeof *ways; w++)
            for (size_t i = 0; i < sizeof isas / sizeof *isas; i++)
                if (qc_isa_detect(isas[i]) == isas[i]) product(&matrices[s], &ways[w], isas[i], NULL);
}

/* If the temporary file cannot be made, b is read at run time. */
Test(product, matrices_packed_in_files_give_the_same_bits)
{
    for (int k = 0; k < 2; k++) {
        struct qc_packed *packs;
        MUST(qc_packed_new(&packs, ST));
        room_for_files = k == 0;
        if (!room_for_files) setenv("TMPDIR", "/nowhere", 1);
        for (size_t s = 0; s < sizeof matrices / sizeof *matrices; s++)
            for (size_t w = 0; w < sizeof ways / sizeof *ways; w++)
                if (ways[w].packed) product(&matrices[s], &ways[w], QC_ISA_BEST, packs);
        qc_packed_free(packs);
    }
    unsetenv("TMPDIR");
}
