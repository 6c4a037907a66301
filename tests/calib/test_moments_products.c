// SPDX-License-Identifier: Apache-2.0
/* Sums of products in 32 bits and in 64 are the same numbers. */
#include "calib/moments/moments_parts.h"
#include "calib_case.h"

enum { ROWS = 30, COLUMNS_MOST = 37 * 3 };

struct summed {
    struct qc_second_moments_layer layer;
    struct qc_second_moments_sums sums;
    int64_t *want; /* [product_count] */
};

static struct summed begin(size_t groups, size_t columns)
{
    struct summed s = {.layer = {.groups = groups, .outputs = groups, .channels = groups, .taps = columns}};
    qc_second_moments_lay_out(&s.layer, QC_MOMENTS_BLOCK);
    s.want = calloc(s.layer.product_count, sizeof *s.want);
    return s;
}

static void end(struct summed *s)
{
    qc_second_moments_drop_products(&s->sums);
    free(s->want);
}

/* Where column k of a group is in a row. */
static size_t place(const struct qc_second_moments_layer *l, size_t group, size_t k)
{
    return l->lanes ? k * l->groups + group : group * l->columns + k;
}

/* Adds rows of entries up to `level`, to the sums and to what is expected. */
static void add(struct summed *s, int level, int up, uint64_t *seed)
{
    const struct qc_second_moments_layer *l = &s->layer;
    const size_t row = qc_second_moments_row(l);
    int16_t x[ROWS * COLUMNS_MOST], panels[(ROWS + 1) / 2 * QC_MOMENTS_PAIR_SIZE * 16];
    int32_t squares[COLUMNS_MOST], scratch[8];
    for (size_t i = 0; i < ROWS * row; i++)
        x[i] = (int16_t)(level * (case_normal(seed) > 0 ? 1 : -1) - (i % 5 ? (int)i % 3 : 0));
    MUST(qc_second_moments_make_room(&s->sums, l, x, ROWS, up, squares, ST));
    if (l->lanes) {
        const struct qc_second_moments_sink to = qc_second_moments_sink_of(&s->sums, up);
        qc_second_moments_lanes(&to, x, ROWS, l->columns, l->groups, scratch, panels);
    }
    for (size_t g = 0; g < l->groups; g++) {
        if (!l->lanes) {
            qc_second_moments_pack(panels, x, ROWS, row, g * l->columns, l->columns);
            qc_second_moments_add_panels(&s->sums, l, g, 0, panels, (ROWS + 1) / 2, up);
        }
        for (size_t k = 0; k < l->columns; k++)
            for (size_t j = 0; j <= k; j++)
                for (size_t r = 0; r < ROWS; r++)
                    s->want[qc_second_moments_product_at(l, g, 0, j, k)] +=
                        (int64_t)x[r * row + place(l, g, j)] * x[r * row + place(l, g, k)] * (1 << (4 * up));
    }
}

static void expect_sums(const struct summed *s, bool narrow, const char *when)
{
    const bool is_narrow = s->sums.narrow != NULL;
    cr_expect_eq(is_narrow, narrow, "%s: %s", s->layer.lanes ? "lanes" : "matrices", when);
    cr_expect_eq(is_narrow, s->sums.products == NULL, "%s: one of them", when);
    for (size_t i = 0; i < s->layer.product_count; i++)
        cr_assert_eq(qc_second_moments_product(&s->sums, i), s->want[i], "%s: product %zu", when, i);
}

Test(moments_products, are_exact_in_32_bits_while_they_fit_and_in_64_then)
{
    const size_t sizes[][2] = {{3, 37}, {7, 9}}; /* groups, columns */
    for (size_t i = 0; i < 2; i++) {
        struct summed s = begin(sizes[i][0], sizes[i][1]);
        uint64_t seed = i + 1;
        cr_assert_eq(s.layer.lanes, i == 1);
        add(&s, 2040, 3, &seed);
        expect_sums(&s, true, "the highest step alone");
        add(&s, 2000, 3, &seed);
        expect_sums(&s, true, "twice");
        add(&s, 1000, 2, &seed);
        expect_sums(&s, false, "a lower step makes entries 16 times as large"); /* 240e6 * 16 > 2^31 */
        add(&s, 900, 0, &seed);
        expect_sums(&s, false, "and stays");
        end(&s);

        s = begin(sizes[i][0], sizes[i][1]);
        add(&s, 500, 2, &seed);
        add(&s, 1900, 1, &seed);
        expect_sums(&s, true, "a lower step that leaves room");
        add(&s, 100, 2, &seed);
        expect_sums(&s, true, "a higher step");
        for (int k = 0; k < 12; k++) add(&s, 2040, 1, &seed);
        expect_sums(&s, true, "just below 2^31");
        for (int k = 0; k < 12; k++) add(&s, 2040, 1, &seed);
        expect_sums(&s, false, "many rows");
        end(&s);
    }
}

/* A bound by the largest square of each addition is exceeded by columns that take turns; the sums themselves fit. */
Test(moments_products, stay_in_32_bits_where_no_column_has_many)
{
    struct summed s = begin(1, 37);
    const struct qc_second_moments_layer *l = &s.layer;
    int16_t panels[(ROWS + 1) / 2 * QC_MOMENTS_PAIR_SIZE * 3];
    int32_t squares[37];
    for (size_t turn = 0; turn < 37; turn++) {
        int16_t x[ROWS * 37] = {0};
        for (size_t r = 0; r < ROWS; r++) x[r * 37 + turn] = 2047;
        MUST(qc_second_moments_make_room(&s.sums, l, x, ROWS, 0, squares, ST));
        qc_second_moments_pack(panels, x, ROWS, 37, 0, 37);
        qc_second_moments_add_panels(&s.sums, l, 0, 0, panels, (ROWS + 1) / 2, 0);
        s.want[qc_second_moments_product_at(l, 0, 0, turn, turn)] = (int64_t)ROWS * 2047 * 2047;
    }
    expect_sums(&s, true, "in turns");
    end(&s);
}

/* What is put away is read as it was, and comes back when something is added. */
Test(moments_products, are_put_away_into_a_file)
{
    struct qc_second_moments_layer like = {
        .name = "x", .geometry = "rows", .groups = 1, .outputs = 4, .channels = 200, .taps = 1, .block = 200};
    for (int wide = 0; wide < 2; wide++) {
        OWN(qc_second_moments) *m = NULL;
        int16_t x[200], panels[QC_MOMENTS_PAIR_SIZE * 13];
        int32_t squares[200];
        double before[200], after[200];
        MUST(qc_second_moments_restore(&m, 1, &like, ST));
        struct qc_second_moments_layer *l = qc_second_moments_at(m, 0);
        struct qc_second_moments_sums *s;
        MUST(qc_second_moments_class(&s, l, QC_MOMENTS_FIT, 0, ST));
        qc_second_moments_add_counts(&l->parts[QC_MOMENTS_FIT], 1, 1, 0);
        for (int k = 0; k < 2; k++) {
            for (int i = 0; i < 200; i++) x[i] = (int16_t)(i * 7 % 301 - 150);
            cr_assert(qc_second_moments_make_room(s, l, x, 1, 1, squares, ST) &&
                      (!wide || qc_second_moments_widen(s, l, ST)));
            qc_second_moments_pack(panels, x, 1, 200, 0, 200);
            qc_second_moments_add_panels(s, l, 0, 0, panels, 1, 1);
            if (k) break;
            qc_second_moments_read_column(before, l, 1, 0, 0, 11);
            cr_assert(qc_second_moments_put_away(m, 1 << 20, ST) && !s->away, "it is small");
            MUST(qc_second_moments_put_away(m, 0, ST) && s->away && s->file);
            cr_expect_eq(s->products != NULL, wide);
            qc_second_moments_read_column(after, l, 1, 0, 0, 11);
            cr_expect(memcmp(before, after, sizeof before) == 0);
        }
        cr_expect(!s->away && !s->file && s->products, "it was added to");
        qc_second_moments_read_column(after, l, 1, 0, 0, 11);
        for (int i = 0; i < 200; i++) cr_expect_float_eq(after[i], 2 * before[i], 0);
    }
}
