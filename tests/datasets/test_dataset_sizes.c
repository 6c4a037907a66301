// SPDX-License-Identifier: Apache-2.0
/* Samples of different sizes. Expected numbers are those that were written. */
#include "datasets/arrays/memory_data.h"
#include "datasets/samples/dataset.h"
#include "h5_make.h"
#include "tests/check.h"

static float numbers[64];

static void set_up(void)
{
    for (int i = 0; i < 64; i++) numbers[i] = (float)i;
    folder_make();
}

TestSuite(dataset_sizes, .init = set_up, .fini = folder_remove);

static bool open_it(struct qc_dataset **out, const char *path, unsigned rank, const int64_t *dims)
{
    const struct qc_input_spec spec = {.name = "x", .dtype = QC_F32, .rank = rank, .dims = dims};
    const struct qc_dataset_options options = {.truth = true, .read_ahead = 4};
    return qc_dataset_open(out, path, &spec, 1, &options, ST);
}

/* Members in the natural order of their names; one has an axis of the batch where all have. */
Test(dataset_sizes, a_group_is_in_natural_order)
{
    static const char *const names[] = {"x/10", "x/9", "x/2"};
    static const int64_t widths[] = {4, 2, 3}; /* of 10, 9, 2 */
    static const int64_t input[] = {-1, 2, -1};
    for (unsigned batch = 0; batch < 2; batch++) {
        const char *path = folder_path("g.h5");
        int64_t f = make_file(path);
        for (size_t i = 0; i < 3; i++) {
            struct made m = {.name = names[i], .type = "f32", .rank = 2 + batch, .data = numbers + 10 * i};
            m.dims[0] = 1;
            m.dims[batch] = 2;
            m.dims[batch + 1] = widths[i];
            make_set(f, &m);
        }
        make_done(f);
        OWN(qc_dataset) *ds = NULL;
        OWN(qc_dataset_scratch) *s = NULL;
        int64_t dims[QC_DATA_RANK_MAX];
        float got[8];
        const int64_t *common;
        MUST(open_it(&ds, path, 3, input));
        MUST(qc_dataset_scratch_new(&s, ST));
        cr_expect(qc_dataset_varies(ds) && qc_dataset_units(ds) == 3 && qc_dataset_batch(ds) == 1);
        cr_expect(qc_dataset_dims(&common, ds, 0) == 3 && common[1] == 2 && common[2] == -1);
        cr_expect_eq(qc_dataset_elements(ds, 0), 8, "the largest");
        for (size_t u = 0; u < 3; u++) {
            const size_t i = 2 - u;
            cr_expect_eq(qc_dataset_unit_dims(dims, ds, 0, u), 3);
            cr_expect(dims[0] == 1 && dims[1] == 2 && dims[2] == widths[i], "unit %zu", u);
            MUST(qc_dataset_read(got, ds, 0, u, s, ST));
            cr_expect_arr_eq(got, numbers + 10 * i, (size_t)(2 * widths[i]) * sizeof *got);
        }
    }
}

/* The same samples as rows and in a group are the same data set. */
Test(dataset_sizes, one_size_in_a_group_is_no_difference)
{
    static const int64_t input[] = {2, 3};
    const char *path = folder_path("s.h5");
    int64_t f = make_file(path);
    for (int i = 0; i < 5; i++) {
        char name[16];
        make_set(f, &(struct made)FIELDS(.name = qc_text(name, sizeof name, "x/%d", i), .type = "f32", .rank = 1,
                                         .dims = {3}, .data = numbers + 3 * i));
    }
    make_done(f);
    OWN(qc_dataset) *ds = NULL;
    OWN(qc_dataset_scratch) *s = NULL;
    float got[6];
    MUST(open_it(&ds, path, 2, input));
    MUST(qc_dataset_scratch_new(&s, ST));
    cr_expect(!qc_dataset_varies(ds) && qc_dataset_units(ds) == 2 && qc_dataset_dropped(ds) == 1);
    for (size_t u = 0; u < 2; u++) {
        MUST(qc_dataset_read(got, ds, 0, u, s, ST));
        cr_expect_arr_eq(got, numbers + 6 * u, sizeof got);
    }
}

/* Three samples of [3] and one of another shape, and how it is named. */
Test(dataset_sizes, refused)
{
    static const struct {
        struct made odd;
        int64_t input[3];
        const char *kind, *said;
    } cases[] = {
        {{.name = "x/3", .type = "f32", .rank = 2, .dims = {3, 2}}, {-1, -1}, NULL, "sample '3': it has 2 axes"},
        {{.name = "x/3", .type = "i32", .rank = 1, .dims = {4}, .data = numbers},
         {-1, -1},
         NULL,
         "store all samples in one type"},
        {{.name = "x/3", .type = "f32", .rank = 1, .dims = {4}, .data = numbers},
         {-1, 3},
         NULL,
         "sample 3 does not fit"},
        {{.name = "x/3", .type = "f32", .rank = 1, .dims = {4}, .data = numbers}, {4, -1}, NULL, "batch of 1"},
        {{.name = "x/3", .type = "f32", .rank = 1, .dims = {0}}, {-1, -1}, NULL, "sample 3 has no elements"},
        {{.name = "x/3", .type = "f32", .rank = 1, .dims = {4}},
         {-1, -1},
         NULL,
         "1 of its 4 data sets were never written, the first with sample 3"},
        {{.name = "x/3"}, {-1, -1}, "group", "not a data set"},
        {{.name = "x/3"}, {-1, -1}, "string", "it holds string"},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const char *path = folder_path("r.h5");
        int64_t f = make_file(path);
        for (int i = 0; i < 3; i++) {
            char name[16];
            make_set(f, &(struct made)FIELDS(.name = qc_text(name, sizeof name, "x/%d", i), .type = "f32", .rank = 1,
                                             .dims = {3}, .data = numbers));
        }
        if (cases[c].kind)
            make_odd(f, "x/3", cases[c].kind);
        else
            make_set(f, &cases[c].odd);
        make_done(f);
        OWN(qc_dataset) *ds = NULL;
        cr_expect_not(open_it(&ds, path, 2, cases[c].input), "case %zu", c);
        cr_expect(strstr(failure.message, cases[c].said), "case %zu: %s", c, failure.message);
        cr_expect(failure.code == QC_BAD_INPUT || failure.code == QC_UNSUPPORTED);
    }
}

static bool give_row(void *out, void *user, size_t first, size_t count, struct qc_status *status)
{
    static const size_t starts[] = {0, 2, 5};
    memcpy(out, numbers + starts[first], (first + 2) * sizeof *numbers);
    return true;
}

/* Rows of 2, 3 and 4 elements, labelled at each position: what a row has is what is read. */
Test(dataset_sizes, labels_by_position)
{
    static const int64_t input[] = {-1, -1}, sizes[] = {2, 3, 4}, dims[] = {3, -1};
    static const struct qc_row_reader reader = {.read = give_row};
    const struct qc_array x = {.name = "x", .dtype = QC_F32, .rank = 2, .dims = dims, .sizes = sizes},
                          labels = {.name = "labels", .dtype = QC_I32, .rank = 2, .dims = dims, .sizes = sizes};
    const struct qc_input_spec spec = {.name = "x", .dtype = QC_F32, .rank = 2, .dims = input};
    const struct qc_dataset_options options = {.truth = true};
    OWN(qc_memory_data) *m = NULL;
    OWN(qc_dataset) *ds = NULL;
    const int64_t *shape;
    int64_t got[4];
    MUST(qc_memory_data_new(&m, "rows", ST));
    MUST(qc_memory_data_add_reader(m, &x, &reader, NULL, ST));
    MUST(qc_memory_data_add_reader(m, &labels, &reader, NULL, ST));
    MUST(qc_dataset_open_memory(&ds, m, &spec, 1, &options, ST));
    cr_assert(qc_dataset_varies(ds));
    cr_expect_eq(qc_dataset_label_count(ds), 4, "the largest");
    for (size_t u = 0; u < 3; u++) {
        cr_expect_eq(qc_dataset_unit_label_count(ds, u), u + 2);
        cr_expect(qc_dataset_label_dims(&shape, ds, u) == 1 && shape[0] == (int64_t)u + 2);
        MUST(qc_dataset_read_labels(got, ds, u, ST));
        for (size_t i = 0; i < u + 2; i++) {
            int32_t bits; /* as they were given */
            memcpy(&bits, &numbers[(size_t[]){0, 2, 5}[u] + i], sizeof bits);
            cr_expect_eq(got[i], bits, "unit %zu", u);
        }
    }
}

enum { LARGE = 600000 }; /* floats: two do not fit into one block */
static float large[LARGE];

struct given {
    int64_t dims[6][2];
    size_t at;
};

static bool next_row(bool *more, void *user, struct qc_sized_row *rows, struct qc_status *status)
{
    struct given *g = user;
    *more = g->dims[g->at][0] != 0;
    if (!*more) return true;
    large[0] = (float)g->at;
    rows[0] = (struct qc_sized_row){.dims = g->dims[g->at++], .values = large};
    return true;
}

static bool draw(struct qc_memory_data **m, const int64_t *dims, struct given *g, size_t keep)
{
    const struct qc_array x = {.name = "x", .dtype = QC_F32, .rank = 3, .dims = dims};
    MUST(qc_memory_data_new(m, "rows", ST));
    return qc_memory_data_draw_sized(*m, &x, 1, next_row, g, keep, ST);
}

/* Kept in memory, and in the temporary file. */
Test(dataset_sizes, drawn_one_after_the_other)
{
    static const int64_t dims[] = {0, 2, -1}, input[] = {-1, 2, -1};
    const struct qc_input_spec spec = {.name = "x", .dtype = QC_F32, .rank = 3, .dims = input};
    const int64_t widths[] = {3, LARGE / 2, LARGE / 2 - 1, 1};
    static float got[LARGE];
    for (size_t i = 1; i < LARGE; i++) large[i] = (float)(i % 1000);
    for (size_t keep = 0; keep < 2; keep++) {
        struct given g = {.dims = {{2, widths[0]}, {2, widths[1]}, {2, widths[2]}, {2, widths[3]}}};
        OWN(qc_memory_data) *m = NULL;
        OWN(qc_dataset) *ds = NULL;
        OWN(qc_dataset_scratch) *s = NULL;
        MUST(draw(&m, dims, &g, keep ? (size_t)1 << 30 : 0));
        MUST(qc_dataset_open_memory(&ds, m, &spec, 1, &QC_DATASET_OPTIONS_INIT, ST));
        MUST(qc_dataset_scratch_new(&s, ST));
        cr_expect(qc_dataset_varies(ds) && qc_dataset_units(ds) == 4);
        for (size_t u = 0; u < 4; u++) {
            large[0] = (float)u;
            cr_assert_eq(qc_dataset_unit_elements(ds, 0, u), (size_t)(2 * widths[u]));
            MUST(qc_dataset_read(got, ds, 0, u, s, ST));
            cr_expect(memcmp(got, large, (size_t)(2 * widths[u]) * sizeof *got) == 0, "unit %zu", u);
        }
    }
}

Test(dataset_sizes, drawn_rows_are_checked)
{
    static const struct {
        int64_t row[2];
        const char *said;
    } cases[] = {{{3, 4}, "axis 1 of its shape is 3, expected 2"},
                 {{2, -1}, "axis 2 of its shape is -1"},
                 {{2, INT64_MAX}, "larger than any memory"},
                 {{2, 0}, "no elements"}};
    static const int64_t dims[] = {0, 2, -1};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct given g = {.dims = {{2, 3}, {cases[c].row[0], cases[c].row[1]}}};
        OWN(qc_memory_data) *m = NULL;
        cr_expect_not(draw(&m, dims, &g, 0));
        SHOULD(strstr(failure.message, cases[c].said) && strstr(failure.message, "sample 1"));
        cr_expect_eq(failure.code, QC_BAD_INPUT);
    }
}
