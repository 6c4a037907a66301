// SPDX-License-Identifier: Apache-2.0
#include "base/pool.h"
#include "datasets/samples/dataset.h"
#include "h5_make.h"
#include "tests/check.h"

enum { UNITS = 300, A = 3 * 5 * 5, B = 7 };

static void set_up(void)
{
    folder_make();
}

TestSuite(dataset_threads, .init = set_up, .fini = folder_remove);

static void make_data(const char *path)
{
    static uint8_t a[UNITS * A];
    static float b[UNITS * B];
    for (size_t i = 0; i < UNITS * A; i++) a[i] = (uint8_t)(i * i >> 3);
    for (size_t i = 0; i < UNITS * B; i++) b[i] = (float)i / 3.0f;
    int64_t f = make_file(path);
    make_set(f, &(struct made)FIELDS(.name = "a", .type = "u8", .rank = 4, .dims = {UNITS, 3, 5, 5},
                                     .chunk = {1, 3, 5, 5}, .gzip = true, .data = a));
    make_numbers(f, "a", "mean", (double[]){1, 2, 3}, 3);
    make_set(f, &(struct made)FIELDS(.name = "b", .type = "f32", .rank = 2, .dims = {UNITS, B}, .chunk = {16, B},
                                     .shuffle = true, .gzip = true, .data = b));
    make_done(f);
}

struct job {
    struct qc_dataset *ds;
    struct qc_dataset_scratch *scratch[4];
    float (*out)[A + B];
    const size_t *order; /* NULL: as they come */
    unsigned bytes;
};

static bool read_one(void *user, size_t item, unsigned worker, struct qc_status *status)
{
    struct job *j = user;
    return qc_dataset_read(j->out[item], j->ds, 0, item, j->scratch[worker], status) &&
           qc_dataset_read(j->out[item] + A, j->ds, 1, item, j->scratch[worker], status);
}

static void run(float (*out)[A + B], const char *path, unsigned workers, unsigned ahead, int passes)
{
    int64_t a[] = {-1, 3, 5, 5}, b[] = {-1, B};
    struct qc_input_spec inputs[] = {{.name = "a", .dtype = QC_F32, .rank = 4, .dims = a},
                                     {.name = "b", .dtype = QC_F32, .rank = 2, .dims = b}};
    struct qc_dataset_options o = QC_DATASET_OPTIONS_INIT;
    struct job j = {.out = out};
    o.read_ahead = ahead;
    MUST(qc_dataset_open(&j.ds, path, inputs, 2, &o, ST));
    for (unsigned w = 0; w < workers; w++) MUST(qc_dataset_scratch_new(&j.scratch[w], ST));
    for (int pass = 0; pass < passes; pass++) {
        memset(out, 0xff, UNITS * sizeof *out);
        MUST(qc_pool_run(qc_dataset_units(j.ds), read_one, &j, &(struct qc_pool_options){.workers = workers}, ST));
    }
    for (unsigned w = 0; w < workers; w++) qc_dataset_scratch_free(j.scratch[w]);
    qc_dataset_free(j.ds);
}

Test(dataset_threads, four_threads_read_what_one_reads)
{
    const char *path = folder_path("x.h5");
    float(*one)[A + B] = calloc(UNITS, sizeof *one), (*many)[A + B] = calloc(UNITS, sizeof *many);
    make_data(path);
    run(one, path, 1, 0, 1);
    cr_expect(one[1][0] == (float)(uint8_t)(A * A >> 3) - 1.0f && one[1][A] == 7.0f / 3.0f);
    static const unsigned ahead[] = {0, 1, 3, 64};
    for (int k = 0; k < 4; k++) {
        run(many, path, 4, ahead[k], 2);
        cr_expect(memcmp(one, many, UNITS * sizeof *one) == 0, "read-ahead %u", ahead[k]);
    }
    run(many, path, 1, 5, 3);
    cr_expect(memcmp(one, many, UNITS * sizeof *one) == 0);
    free(one);
    free(many);
}

enum { PICTURES = 45, PICTURE = 100 << 10, LARGE = 300 << 10 };

/* Rows of which few or none are asked for together, by more threads than these are; then a second pass, from a row in
   the middle, and backwards. */
static bool look_at_picture(void *user, size_t item, unsigned worker, struct qc_status *status)
{
    struct job *j = user;
    const size_t unit = j->order ? j->order[item] : item;
    QC_FREED float *x = malloc(LARGE * sizeof *x);
    bool ok = x && qc_dataset_read(x, j->ds, 0, unit, j->scratch[worker], status);
    for (size_t i = 0; ok && i < j->bytes; i += 97) ok = x[i] == (float)(uint8_t)(i * 7 + unit * 31);
    return ok;
}

static void look_at_pictures(const char *path, unsigned bytes, bool less)
{
    int64_t dims[] = {-1, bytes};
    struct qc_input_spec input = {.name = "a", .dtype = QC_F32, .rank = 2, .dims = dims};
    struct qc_dataset_options o = QC_DATASET_OPTIONS_INIT;
    struct job j = {.bytes = bytes};
    size_t order[PICTURES];
    o.read_ahead = 3;
    MUST(qc_dataset_open(&j.ds, path, &input, 1, &o, ST));
    if (less) qc_dataset_read_less_ahead(j.ds, 0);
    for (unsigned w = 0; w < 4; w++) MUST(qc_dataset_scratch_new(&j.scratch[w], ST));
    for (int pass = 0; pass < 4; pass++) {
        for (size_t i = 0; i < PICTURES; i++) order[i] = pass == 3 ? PICTURES - 1 - i : (i + 20) % PICTURES;
        j.order = pass < 2 ? NULL : order;
        cr_assert(qc_pool_run(PICTURES, look_at_picture, &j, &(struct qc_pool_options){.workers = 4}, ST),
                  "%u bytes, pass %d: %s", bytes, pass, failure.message);
    }
    for (unsigned w = 0; w < 4; w++) qc_dataset_scratch_free(j.scratch[w]);
    qc_dataset_free(j.ds);
}

Test(dataset_threads, large_rows_in_any_order)
{
    static const unsigned sizes[] = {3, PICTURE, LARGE};
    QC_FREED uint8_t *x = malloc((size_t)PICTURES * LARGE);
    for (size_t k = 0; k < 6; k++) {
        const unsigned bytes = sizes[k / 2];
        const char *path = folder_path(k % 2 ? "chunks.h5" : "rows.h5");
        for (size_t u = 0; u < PICTURES; u++)
            for (size_t i = 0; i < bytes; i++) x[u * bytes + i] = (uint8_t)(i * 7 + u * 31);
        int64_t f = make_file(path);
        make_set(f, &(struct made)FIELDS(.name = "a", .type = "u8", .rank = 2, .dims = {PICTURES, bytes},
                                         .chunk = {k % 2, k % 2 ? bytes : 0}, .data = x));
        make_done(f);
        for (size_t less = 0; less < 2; less++)
            if ((k / 2 + k + less) % test_one_of(1, 2) == 0) look_at_pictures(path, bytes, less);
    }
}

/* Less is read ahead in the middle of it all: what is read stays the same, and less never becomes more. */
Test(dataset_threads, reading_less_ahead_changes_nothing)
{
    const char *path = folder_path("x.h5");
    int64_t a[] = {-1, 3, 5, 5};
    struct qc_input_spec input = {.name = "a", .dtype = QC_F32, .rank = 4, .dims = a};
    struct qc_dataset_options o = QC_DATASET_OPTIONS_INIT;
    static const unsigned limits[] = {9, 3, 5, 1, 0};
    static const unsigned then[] = {8, 3, 3, 1, 0};
    OWN(qc_dataset_scratch) *s = NULL;
    OWN(qc_dataset) *ds = NULL;
    size_t bytes;
    float y[A];
    o.read_ahead = 8;
    make_data(path);
    MUST(qc_dataset_open(&ds, path, &input, 1, &o, ST));
    MUST(qc_dataset_select(ds, &(struct qc_selection){.samples = UNITS / 2}, ST));
    MUST(qc_dataset_scratch_new(&s, ST));
    for (size_t k = 0; k < 5; k++) {
        qc_dataset_read_less_ahead(ds, limits[k]);
        cr_expect_eq(qc_dataset_ahead(&bytes, ds), then[k], "limit %u", limits[k]);
        cr_expect_geq(bytes, 2 * A);
        for (size_t u = k; u < k + 20; u++) {
            MUST(qc_dataset_read(y, ds, 0, u, s, ST));
            const size_t at = 2 * u * A;
            cr_expect_eq(y[0], (float)(uint8_t)(at * at >> 3) - 1.0f, "limit %u, unit %zu", limits[k], u);
        }
    }
}

Test(dataset_threads, choice_while_the_thread_reads_ahead)
{
    const char *path = folder_path("x.h5");
    int64_t a[] = {-1, 3, 5, 5};
    struct qc_input_spec input = {.name = "a", .dtype = QC_F32, .rank = 4, .dims = a};
    struct qc_dataset_options o = QC_DATASET_OPTIONS_INIT;
    OWN(qc_dataset_scratch) *s = NULL;
    OWN(qc_dataset) *ds = NULL;
    float y[A];
    o.read_ahead = 4;
    make_data(path);
    MUST(qc_dataset_open(&ds, path, &input, 1, &o, ST));
    MUST(qc_dataset_select(ds, &(struct qc_selection){.samples = UNITS / 2}, ST));
    cr_assert(qc_dataset_scratch_new(&s, ST) && qc_dataset_read(y, ds, 0, 0, s, ST));
    MUST(qc_dataset_select(ds, &(struct qc_selection){.samples = 10}, ST));
    for (size_t u = 0; u < 10; u++) {
        MUST(qc_dataset_read(y, ds, 0, u, s, ST));
        size_t at = u * 30 * A;
        cr_expect_eq(y[0], (float)(uint8_t)(at * at >> 3) - 1.0f, "unit %zu", u);
    }
}
