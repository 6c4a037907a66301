// SPDX-License-Identifier: Apache-2.0
/* Samples in memory. The reference is the same samples in an HDF5 file. */
#include "datasets/arrays/memory_data.h"
#include "h5_make.h"
#include "tests/check.h"

enum { ROWS = 5, BATCH = 2, CHANNELS = 3, PIXELS = 4, ELEMENTS = CHANNELS * PIXELS };

static uint8_t pixels[ROWS][CHANNELS][PIXELS];
static int16_t steps[ROWS][PIXELS];
static int64_t labels[ROWS];
static double target[ROWS][2];

static const int64_t pixel_dims[3] = {ROWS, CHANNELS, PIXELS}, step_dims[2] = {ROWS, PIXELS}, label_dims[1] = {ROWS},
                     target_dims[2] = {ROWS, 2};
static const struct qc_array arrays[] = {
    {.name = "image", .dtype = QC_U8, .rank = 3, .dims = pixel_dims, .preprocess = "scale=1/255 mean=.4,.5,.6 std=.2"},
    {.name = "step", .dtype = QC_I16, .rank = 2, .dims = step_dims},
    {.name = "labels", .dtype = QC_I64, .rank = 1, .dims = label_dims},
    {.name = "target", .dtype = QC_F64, .rank = 2, .dims = target_dims, .peak = 3},
};
enum { ARRAYS = sizeof arrays / sizeof *arrays };
static const void *const values[ARRAYS] = {pixels, steps, labels, target};

static const struct qc_input_spec inputs[2] = {
    {.name = "image", .dtype = QC_F32, .rank = 3, .dims = (const int64_t[]){BATCH, CHANNELS, -1}},
    {.name = "step", .dtype = QC_I32, .rank = 2, .dims = (const int64_t[]){BATCH, PIXELS}}};

static void set_up(void)
{
    folder_make();
    for (int i = 0; i < ROWS; i++) {
        for (int k = 0; k < ELEMENTS; k++) pixels[i][k / PIXELS][k % PIXELS] = (uint8_t)(37 * i + 11 * k);
        for (int k = 0; k < PIXELS; k++) steps[i][k] = (int16_t)(1000 * i - 77 * k);
        labels[i] = 7 - i;
        target[i][0] = 0.5 * i;
        target[i][1] = -i;
    }
}

TestSuite(memory_data, .init = set_up, .fini = folder_remove);

static struct qc_memory_data *borrowed(void)
{
    struct qc_memory_data *m = NULL;
    MUST(qc_memory_data_new(&m, "arrays", ST));
    for (size_t k = 0; k < ARRAYS; k++) MUST(qc_memory_data_add(m, &arrays[k], values[k], ST));
    return m;
}

static size_t row_bytes(size_t k)
{
    static const size_t bytes[ARRAYS] = {sizeof pixels[0], sizeof steps[0], sizeof labels[0], sizeof target[0]};
    return bytes[k];
}

static bool next(bool *more, void *user, void *const *rows, struct qc_status *status)
{
    int *at = user;
    *more = *at < ROWS;
    for (size_t k = 0; *more && k < ARRAYS; k++)
        memcpy(rows[k], (const char *)values[k] + (size_t)*at * row_bytes(k), row_bytes(k));
    ++*at;
    return true;
}

static struct qc_memory_data *drawn(size_t keep_bytes)
{
    struct qc_memory_data *m = NULL;
    int at = 0;
    MUST(qc_memory_data_new(&m, "stream", ST));
    MUST(qc_memory_data_draw(m, arrays, ARRAYS, next, &at, keep_bytes, ST));
    cr_expect_eq(at, ROWS + 1, "one call for each sample and one for the end");
    return m;
}

static const char *file(void)
{
    const char *path = folder_path("same.h5");
    static const char *const types[ARRAYS] = {"u8", "i16", "i64", "f64"};
    const double scale[1] = {1.0 / 255}, mean[3] = {.4, .5, .6}, std[1] = {.2}, peak[1] = {3};
    int64_t f = make_file(path);
    for (size_t k = 0; k < ARRAYS; k++) {
        struct made set = {.name = arrays[k].name, .type = types[k], .rank = arrays[k].rank, .data = values[k]};
        memcpy(set.dims, arrays[k].dims, arrays[k].rank * sizeof *set.dims);
        make_set(f, &set);
    }
    make_numbers(f, "image", "scale", scale, 1);
    make_numbers(f, "image", "mean", mean, 3);
    make_numbers(f, "image", "std", std, 1);
    make_numbers(f, "target", "peak", peak, 1);
    make_done(f);
    return path;
}

static const struct qc_dataset_options with_truth = {.truth = true, .read_ahead = 4};

static void expect_same(const struct qc_dataset *a, const struct qc_dataset *b)
{
    OWN(qc_dataset_scratch) *s = NULL;
    MUST(qc_dataset_scratch_new(&s, ST));
    MUST_HOLD(qc_dataset_units(a) == ROWS / BATCH, qc_dataset_units(b) == ROWS / BATCH);
    cr_expect_eq(qc_dataset_dropped(a), 1);
    for (size_t u = 0; u < ROWS / BATCH; u++) {
        float x[2][BATCH * ELEMENTS], t[2][BATCH * 2];
        int32_t n[2][BATCH * PIXELS];
        int64_t l[2][BATCH];
        const struct qc_dataset *const both[2] = {a, b};
        for (int i = 0; i < 2; i++) {
            MUST(qc_dataset_read(x[i], both[i], 0, u, s, ST));
            MUST(qc_dataset_read(n[i], both[i], 1, u, s, ST));
            cr_assert_eq(qc_dataset_label_count(both[i]), BATCH);
            MUST(qc_dataset_read_labels(l[i], both[i], u, ST));
            MUST(qc_dataset_read_target(t[i], both[i], u, s, ST));
        }
        cr_expect_arr_eq(x[0], x[1], sizeof x[0], "unit %zu", u);
        cr_expect_arr_eq(n[0], n[1], sizeof n[0]);
        cr_expect_arr_eq(l[0], l[1], sizeof l[0]);
        cr_expect_arr_eq(t[0], t[1], sizeof t[0]);
    }
    HOLD(qc_dataset_target_peak(a) == 3, qc_dataset_target_peak(b) == 3);
}

Test(memory_data, reads_as_a_file_does)
{
    struct qc_memory_data *all[3] = {borrowed(), drawn((size_t)1 << 30), drawn(0)};
    OWN(qc_dataset) *of_file = NULL;
    MUST(qc_dataset_open(&of_file, file(), inputs, 2, &with_truth, ST));
    for (int i = 0; i < 3; i++) {
        struct qc_dataset *ds = NULL;
        MUST(qc_dataset_open_memory(&ds, all[i], inputs, 2, &with_truth, ST));
        cr_expect_str_eq(qc_dataset_file(ds), i ? "stream" : "arrays");
        expect_same(of_file, ds);
        qc_dataset_free(ds);
        qc_memory_data_free(all[i]);
    }
}

Test(memory_data, what_is_left_over_of_memory_goes_to_a_file)
{
    OWN(qc_memory_data) *m = drawn(2 * row_bytes(0)); /* the first rows fit */
    OWN(qc_memory_data) *b = borrowed();
    char x[65], y[65];
    MUST(qc_memory_data_sha256(x, m, ST));
    MUST(qc_memory_data_sha256(y, b, ST));
    cr_expect_str_eq(x, y);
    steps[ROWS - 1][PIXELS - 1]++;
    MUST(qc_memory_data_sha256(y, b, ST));
    cr_expect_str_neq(x, y);
}

static const int64_t negative[2] = {2, -1}, huge[3] = {2, INT64_MAX, 4};

Test(memory_data, what_cannot_be_is_refused)
{
    static const struct {
        struct qc_array array;
        const char *message;
    } rows[] = {
        {{.name = "", .dtype = QC_U8, .rank = 1, .dims = label_dims}, "arrays: array 4 has no name"},
        {{.name = "step", .dtype = QC_U8, .rank = 1, .dims = label_dims}, "arrays: there are two arrays 'step'"},
        {{.name = "x", .dtype = QC_I4, .rank = 1, .dims = label_dims},
         "arrays: array 'x': it has an element type that samples cannot have"},
        {{.name = "x", .dtype = QC_U8, .rank = 0, .dims = label_dims},
         "arrays: array 'x': it has 0 axes; expected 1 to 32, the first of them the sample"},
        {{.name = "x", .dtype = QC_U8, .rank = 2, .dims = negative}, "arrays: array 'x': axis 1 of its shape is -1"},
        {{.name = "x", .dtype = QC_U8, .rank = 3, .dims = huge},
         "arrays: array 'x': its shape is larger than any memory"},
        {{.name = "x", .dtype = QC_U8, .rank = 1, .dims = label_dims, .preprocess = "scale=a"},
         "arrays: array 'x': --preprocess: 'scale=a' is not a list"},
    };
    OWN(qc_memory_data) *m = borrowed();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct qc_status own = QC_STATUS_INIT;
        cr_assert_not(qc_memory_data_add(m, &rows[i].array, pixels, &own));
        cr_expect_eq(own.code, QC_USAGE);
        cr_expect_eq(strncmp(own.message, rows[i].message, strlen(rows[i].message)), 0, "%s", own.message);
    }
}

/* Samples have whole bytes, and no floats of 8 bits or fewer. */
Test(memory_data, element_types_of_samples)
{
    static const enum qc_dtype refused[] = {QC_U4,      QC_I4,     QC_U2,      QC_I2,     QC_F8E4M3,
                                            QC_F8E4M3Z, QC_F8E5M2, QC_F8E5M2Z, QC_F8E8M0, QC_F4E2M1};
    for (unsigned t = 1; t < QC_DTYPE_COUNT; t++) {
        struct qc_status own = QC_STATUS_INIT;
        OWN(qc_memory_data) *m = borrowed();
        const struct qc_array array = {.name = "other", .dtype = (enum qc_dtype)t, .rank = 1, .dims = label_dims};
        bool is_refused = false;
        for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) is_refused |= refused[i] == (enum qc_dtype)t;
        static const int64_t zeros[64];
        cr_expect_eq(qc_memory_data_add(m, &array, zeros, &own), !is_refused, "%s: %s",
                     qc_dtype_info((enum qc_dtype)t)->name, own.message);
    }
}

static bool refuse(bool *more, void *user, void *const *rows, struct qc_status *status)
{
    int *at = user;
    *more = true;
    return ++*at < 3 || qc_fail(status, QC_MACHINE, "the camera is gone");
}

Test(memory_data, a_sample_that_does_not_come_is_named)
{
    OWN(qc_memory_data) *m = NULL;
    int at = 0;
    MUST(qc_memory_data_new(&m, "stream", ST));
    REFUSES(qc_memory_data_draw(m, arrays, 2, refuse, &at, 0, ST), QC_MACHINE, "");
    cr_expect_str_eq(failure.message, "stream: sample 2: the camera is gone");
}

Test(memory_data, shapes_that_do_not_fit_the_model_are_told_as_of_a_file)
{
    OWN(qc_memory_data) *m = borrowed();
    struct qc_dataset *ds = NULL;
    struct qc_input_spec other =
        FIELDS(.name = "image", .dtype = QC_F32, .rank = 3, .dims = (const int64_t[]){-1, 1, PIXELS});
    struct qc_status own = QC_STATUS_INIT;
    const struct qc_input_spec unknown = {.name = "z", .dtype = QC_F32, .rank = 3, .dims = (const int64_t[]){-1, 1, 1}};
    cr_assert_not(qc_dataset_open_memory(&ds, m, &unknown, 1, &with_truth, &own));
    cr_expect(strstr(own.message, "image uint8 [5,3,4], step int16 [5,4], labels int64 [5]"), "%s", own.message);
    REFUSES(qc_dataset_open_memory(&ds, m, &other, 1, &with_truth, ST), QC_BAD_INPUT,
            "arrays: data set 'image': its shape does not fit input 'image': expected [?,1,4]");
}
