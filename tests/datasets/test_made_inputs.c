// SPDX-License-Identifier: Apache-2.0
/* Inputs of a decoder that are made from its tokens. Expected numbers follow from their shapes. */
#include "datasets/samples/dataset.h"
#include "h5_make.h"
#include "tests/check.h"

static int32_t numbers[64];

static void set_up(void)
{
    for (int i = 0; i < 64; i++) numbers[i] = i;
    folder_make();
}

TestSuite(made_inputs, .init = set_up, .fini = folder_remove);

enum { TOKENS, MASK, PLACES, CACHE, NUMBER, INPUTS };
static const int64_t matrix[] = {-1, -1}, cache[] = {-1, 2, -1, 8};
static const struct qc_input_spec inputs[INPUTS] = {
    [TOKENS] = {.name = "tokens", .dtype = QC_I64, .rank = 2, .dims = matrix},
    [MASK] = {.name = "mask", .dtype = QC_I64, .rank = 2, .dims = matrix, .made = QC_MADE_ONES},
    [PLACES] = {.name = "places", .dtype = QC_I32, .rank = 2, .dims = matrix, .made = QC_MADE_POSITIONS},
    [CACHE] = {.name = "cache", .dtype = QC_F32, .rank = 4, .dims = cache, .made = QC_MADE_EMPTY},
    [NUMBER] = {.name = "number", .dtype = QC_I64, .rank = 0, .dims = matrix, .made = QC_MADE_ONES},
};

static bool open_it(struct qc_dataset **out, const char *path)
{
    const struct qc_dataset_options options = {.read_ahead = 4};
    return qc_dataset_open(out, path, inputs, INPUTS, &options, ST);
}

/* Compares all inputs of unit u with what `length` tokens give. */
static void expect_unit(const struct qc_dataset *ds, struct qc_dataset_scratch *s, size_t u, int64_t length)
{
    int64_t dims[QC_DATA_RANK_MAX], wide[16];
    int32_t narrow[16];
    for (size_t i = TOKENS; i <= PLACES; i++) {
        cr_expect_eq(qc_dataset_unit_dims(dims, ds, i, u), 2);
        cr_expect(dims[0] == 1 && dims[1] == length, "input %zu of unit %zu", i, u);
        cr_expect_eq(qc_dataset_unit_elements(ds, i, u), (size_t)length);
    }
    cr_expect_eq(qc_dataset_unit_bytes(ds, PLACES, u), (size_t)length * sizeof *narrow);
    MUST(qc_dataset_read(wide, ds, MASK, u, s, ST) && qc_dataset_read(narrow, ds, PLACES, u, s, ST));
    for (int64_t k = 0; k < length; k++) cr_expect(wide[k] == 1 && narrow[k] == k, "unit %zu, token %d", u, (int)k);
    HOLD(qc_dataset_unit_dims(dims, ds, CACHE, u) == 4, dims[0] == 1 && dims[1] == 2 && dims[2] == 0 && dims[3] == 8,
         qc_dataset_unit_elements(ds, CACHE, u) == 0);
    SHOULD(qc_dataset_read(wide, ds, CACHE, u, s, ST));
    cr_expect_eq(qc_dataset_unit_dims(dims, ds, NUMBER, u), 0);
    cr_expect(qc_dataset_unit_elements(ds, NUMBER, u) == 1 && qc_dataset_read(wide, ds, NUMBER, u, s, ST));
    cr_expect_eq(wide[0], 1);
}

/* The only data set feeds the only input that is not made, whatever its name. */
Test(made_inputs, of_one_length)
{
    const char *path = folder_path("t.h5");
    OWN(qc_dataset) *ds = NULL;
    OWN(qc_dataset_scratch) *s = NULL;
    int64_t got[8];
    int64_t f = make_file(path);
    make_set(f, &(struct made){.name = "x", .type = "i32", .rank = 2, .dims = {6, 5}, .data = numbers});
    make_done(f);
    MUST(open_it(&ds, path));
    MUST(qc_dataset_scratch_new(&s, ST));
    cr_expect(qc_dataset_made(ds) == 4 && qc_dataset_units(ds) == 6 && qc_dataset_total(ds) == 6);
    for (size_t u = 0; u < 6; u++) expect_unit(ds, s, u, 5);
    MUST(qc_dataset_select(ds, &(struct qc_selection){.samples = 2}, ST));
    cr_expect_eq(qc_dataset_units(ds), 2);
    for (size_t u = 0; u < 2; u++) {
        SHOULD(qc_dataset_read(got, ds, TOKENS, u, s, ST));
        expect_unit(ds, s, u, 5);
    }
}

Test(made_inputs, of_different_lengths)
{
    const char *path = folder_path("t.h5");
    OWN(qc_dataset) *ds = NULL;
    OWN(qc_dataset_scratch) *s = NULL;
    int64_t f = make_file(path);
    for (int i = 0; i < 3; i++) {
        char name[16];
        make_set(f, &(struct made)FIELDS(.name = qc_text(name, sizeof name, "tokens/%d", i), .type = "i32", .rank = 1,
                                         .dims = {2 + i}, .data = numbers));
    }
    make_done(f);
    MUST(open_it(&ds, path));
    MUST(qc_dataset_scratch_new(&s, ST));
    cr_expect(qc_dataset_made(ds) == 4 && qc_dataset_varies(ds));
    for (size_t u = 0; u < 3; u++) expect_unit(ds, s, u, 2 + (int64_t)u);
}

/* What the data have is read. A cache in the data needs the others too: only they tell how long it is. */
Test(made_inputs, of_data_that_have_some)
{
    const char *path = folder_path("t.h5");
    struct qc_dataset *ds = NULL;
    struct qc_dataset_scratch *s;
    int64_t got[8];
    for (int cached = 0; cached < 2; cached++) {
        int64_t f = make_file(path);
        make_set(f, &(struct made){.name = "tokens", .type = "i32", .rank = 2, .dims = {3, 5}, .data = numbers});
        make_set(f, &(struct made){.name = "mask", .type = "i32", .rank = 2, .dims = {3, 5}, .data = numbers});
        if (cached)
            make_set(f,
                     &(struct made){.name = "cache", .type = "i32", .rank = 4, .dims = {3, 2, 1, 8}, .data = numbers});
        make_done(f);
        if (cached) {
            cr_expect_not(open_it(&ds, path));
            SHOULD(strstr(failure.message, "input 'places'"));
            continue;
        }
        MUST(open_it(&ds, path));
        MUST(qc_dataset_scratch_new(&s, ST));
        cr_expect_eq(qc_dataset_made(ds), 3);
        MUST(qc_dataset_read(got, ds, MASK, 1, s, ST));
        for (int k = 0; k < 5; k++) cr_expect_eq(got[k], 5 + k);
        qc_dataset_scratch_free(s);
        qc_dataset_free(ds);
    }
}
