// SPDX-License-Identifier: Apache-2.0
#include <signal.h>
#include <sys/resource.h>

#include "base/file.h"
#include "base/pool.h"
#include "datasets/samples/dataset.h"
#include "datasets/stream/data_writer.h"
#include "h5_make.h"
#include "tests/check.h"

static void set_up(void)
{
    folder_make();
}

TestSuite(writer, .init = set_up, .fini = folder_remove);

static struct qc_writer *start(const char *path, const struct qc_writer_output *outputs, size_t count, int64_t batch)
{
    struct qc_writer *w = NULL;
    MUST(qc_writer_open(&w, path, outputs, count, batch, true, ST));
    return w;
}

static void finish(struct qc_writer *w)
{
    MUST(qc_writer_commit(w, ST));
    qc_writer_free(w);
    cr_assert_eq(folder_count(), 1, "a temporary file is left");
}

Test(writer, every_type_is_read_back_by_hdf5)
{
    static const struct {
        enum qc_dtype t;
        const char *type;
        unsigned char bytes[16];
        double values[2];
    } cases[] = {
        {QC_U8, "u8", {7, 255}, {7, 255}},
        {QC_I8, "i8", {7, 255}, {7, -1}},
        {QC_U16, "u16", {1, 2, 255, 255}, {513, 65535}},
        {QC_I16, "i16", {1, 2, 255, 255}, {513, -1}},
        {QC_I32, "i32", {1, 1, 0, 0, 254, 255, 255, 255}, {257, -2}},
        {QC_U32, "u32", {1, 1, 0, 0, 254, 255, 255, 255}, {257, 4294967294.0}},
        {QC_I64, "i64", {1, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255}, {1, -1}},
        {QC_U64, "u64", {1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 128}, {1, 9223372036854775808.0}},
        {QC_F32, "f32", {0, 0, 192, 63, 0, 0, 0, 192}, {1.5, -2}},
        {QC_F64, "f64", {0, 0, 0, 0, 0, 0, 248, 63, 0, 0, 0, 0, 0, 0, 0, 192}, {1.5, -2}},
        {QC_F16, "f16", {0, 62, 0, 192}, {1.5, -2}},
        {QC_BF16, "f16", {192, 63, 0, 192}, {1.5, -2}},
        {QC_BOOL, "e8", {1, 0}, {1, 0}},
        {QC_U4, "u8", {15, 3}, {15, 3}},
        {QC_I4, "i8", {248, 7}, {-8, 7}},
    };
    const char *path = folder_path("o.h5");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct qc_writer_output o = {.name = "y", .dtype = cases[i].t};
        struct qc_writer *w = start(path, &o, 1, 1);
        size_t n = qc_dtype_size(cases[i].t);
        for (size_t u = 0; u < 2; u++) MUST(qc_writer_put(w, 0, u, cases[i].bytes + u * n, (int64_t[]){1, 1}, 2, ST));
        finish(w);
        double got[2];
        int64_t dims[8];
        char type[16];
        cr_expect_eq(read_back(got, 2, dims, type, path, "y"), 2);
        HOLD(dims[0] == 2 && dims[1] == 1, strcmp(type, cases[i].type) == 0);
        cr_expect(got[0] == cases[i].values[0] && got[1] == cases[i].values[1], "%s: %g %g", cases[i].type, got[0],
                  got[1]);
        if (cases[i].t == QC_BOOL)
            continue; /* HDF5 has no conversion of an enum's numbers to float32 in our reader's sense */
        int64_t free2[] = {-1, 1};
        struct qc_input_spec spec = {.name = "y", .dtype = QC_F32, .rank = 2, .dims = free2};
        OWN(qc_dataset) *ds = NULL;
        OWN(qc_dataset_scratch) *s = NULL;
        float y;
        MUST(qc_dataset_open(&ds, path, &spec, 1, &QC_DATASET_OPTIONS_INIT, ST));
        MUST(qc_dataset_scratch_new(&s, ST) && qc_dataset_read(&y, ds, 0, 1, s, ST));
        cr_expect_eq(y, (float)cases[i].values[1]);
    }
}

Test(writer, shapes)
{
    static const struct {
        int64_t batch, dims[2];
        unsigned rank, wanted_rank;
        int64_t wanted[3];
    } cases[] = {
        {1, {1, 3}, 2, 2, {2, 3}}, {2, {2, 3}, 2, 2, {4, 3}}, {2, {6}, 1, 2, {2, 6}},    {0, {1, 3}, 2, 3, {2, 1, 3}},
        {1, {0}, 0, 1, {2}},       {1, {1}, 1, 1, {2}},       {1, {1, 0}, 2, 2, {2, 0}}, {2, {1, 3}, 2, 3, {2, 1, 3}},
    };
    const char *path = folder_path("o.h5");
    float data[6] = {1, 2, 3, 4, 5, 6};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct qc_writer *w = start(path, &(struct qc_writer_output){.name = "y", .dtype = QC_F32}, 1, cases[i].batch);
        for (size_t u = 0; u < 2; u++) MUST(qc_writer_put(w, 0, u, data, cases[i].dims, cases[i].rank, ST));
        finish(w);
        double got[12];
        int64_t dims[8];
        char type[16];
        cr_expect_eq(read_back(got, 12, dims, type, path, "y"), cases[i].wanted_rank, "case %zu", i);
        size_t n = 1;
        for (unsigned k = 0; k < cases[i].wanted_rank; k++) {
            cr_expect_eq(dims[k], cases[i].wanted[k], "case %zu axis %u: %d", i, k, (int)dims[k]);
            n *= (size_t)cases[i].wanted[k];
        }
        for (size_t k = 0; k < n; k++) cr_expect_eq(got[k], (double)data[k % (n / 2)]);
    }
}

Test(writer, names_with_slashes_and_worse)
{
    static const struct {
        const char *name, *path;
    } cases[] = {
        {"plain", "plain"},
        {"/Relu_output_0", "Relu_output_0"},
        {"a/b/c", "a/b/c"},
        {"a/b", "a%2Fb"},
        {"a/b/d", "a/b/d"},
        {"a//b", "a%2F%2Fb"},
        {".", "%2E"},
        {"./x", "%2E%2Fx"},
        {"", "%"},
        {"Relu_output_0", "Relu_output_0%"},
        {"x/", "x%2F"},
        {"/", "%2F"},
        {"50%/y", "50%/y"},
        {"..", ".."},
        {"dot.ted:0", "dot.ted:0"},
        {"a%2Fb", "a%252Fb"},
    };
    enum { COUNT = sizeof cases / sizeof *cases };
    const char *path = folder_path("o.h5");
    struct qc_writer_output outputs[COUNT];
    struct qc_input_spec inputs[COUNT];
    int64_t free1[] = {-1};
    for (size_t i = 0; i < COUNT; i++) {
        outputs[i] = (struct qc_writer_output){.name = cases[i].name, .dtype = QC_I32};
        inputs[i] = (struct qc_input_spec){.name = cases[i].name, .dtype = QC_I32, .rank = 1, .dims = free1};
    }
    struct qc_writer *w = start(path, outputs, COUNT, 1);
    for (size_t i = 0; i < COUNT; i++) {
        cr_expect_str_eq(qc_writer_path(w, i), cases[i].path);
        MUST(qc_writer_put(w, i, 0, &(int32_t){(int32_t)i}, (int64_t[]){1}, 1, ST));
    }
    finish(w);
    OWN(qc_dataset) *ds = NULL;
    OWN(qc_dataset_scratch) *s = NULL;
    MUST(qc_dataset_open(&ds, path, inputs, COUNT, &QC_DATASET_OPTIONS_INIT, ST));
    MUST(qc_dataset_scratch_new(&s, ST));
    for (size_t i = 0; i < COUNT; i++) {
        int32_t y = -1;
        MUST(qc_dataset_read(&y, ds, i, 0, s, ST));
        cr_expect_eq(y, (int32_t)i, "output '%s' is found by its own name", cases[i].name);
    }
}

enum { UNITS = 200, WIDTH = 50 };

static bool put_both(void *user, size_t item, unsigned worker, struct qc_status *status)
{
    float y[WIDTH];
    uint8_t z[WIDTH];
    size_t unit = item ^ 3; /* out of order even with one worker */
    for (size_t i = 0; i < WIDTH; i++) {
        y[i] = (float)(unit * i);
        z[i] = (uint8_t)(unit + i);
    }
    return qc_writer_put(user, 0, unit, y, (int64_t[]){1, WIDTH}, 2, status) &&
           qc_writer_put(user, 1, unit, z, (int64_t[]){1, WIDTH}, 2, status);
}

Test(writer, bytes_do_not_depend_on_threads_or_time)
{
    static const struct qc_writer_output outputs[] = {{"y", QC_F32}, {"group/z", QC_U8}};
    char first[65], hex[65];
    for (unsigned run = 0; run < 5; run++) {
        const char *path = folder_path("o.h5");
        struct qc_writer *w = start(path, outputs, 2, 1);
        struct qc_pool_options pool = {.workers = run == 0 ? 1 : 4};
        MUST(qc_pool_run(UNITS, put_both, w, &pool, ST));
        finish(w);
        MUST(qc_sha256_file(hex, path, ST));
        if (run == 0) strcpy(first, hex);
        if (run == 0) sleep(1); /* HDF5's times have seconds */
        cr_expect_str_eq(hex, first, "run %u", run);
    }
    static double y[UNITS * WIDTH];
    int64_t dims[8];
    char type[16];
    read_back(y, UNITS * WIDTH, dims, type, folder_path("o.h5"), "y");
    for (size_t i = 0; i < UNITS * WIDTH; i++) cr_assert_eq(y[i], (double)(i / WIDTH * (i % WIDTH)));
}

Test(writer, nothing_is_left_without_commit)
{
    const char *path = folder_path("o.h5");
    FILE *f = fopen(path, "wb");
    fputs("older", f);
    fclose(f);
    struct qc_writer_output o = {"y", QC_F32};
    struct qc_writer *w = start(path, &o, 1, 1);
    MUST(qc_writer_put(w, 0, 0, (float[]){1}, (int64_t[]){1}, 1, ST));
    qc_writer_free(w);
    cr_expect_eq(folder_count(), 1);
    char text[8] = "";
    f = fopen(path, "rb");
    cr_assert_not_null(fgets(text, sizeof text, f));
    fclose(f);
    cr_expect_str_eq(text, "older");
}

Test(writer, refuses)
{
    static const struct qc_writer_output two[] = {{"y", QC_F32}, {"z", QC_F32}};
    const char *path = folder_path("o.h5");
    float data[4] = {0};
    struct qc_writer *w = start(path, two, 2, 2);
    MUST(qc_writer_put(w, 0, 0, data, (int64_t[]){2, 2}, 2, ST));
    REFUSES(qc_writer_put(w, 0, 1, data, (int64_t[]){2, 1}, 2, ST), QC_UNSUPPORTED, "'y'");
    FAILS(qc_writer_put(w, 0, 0, data, (int64_t[]){2, 2}, 2, ST), "unit 0 is given twice");
    FAILS(qc_writer_commit(w, ST), "'z': unit 0 is missing");
    qc_writer_free(w);

    w = start(path, two, 1, 1);
    MUST(qc_writer_put(w, 0, 0, data, (int64_t[]){1, 2}, 2, ST));
    REFUSES(qc_writer_put(w, 0, 1, data, (int64_t[]){1, 2, 1}, 3, ST), QC_UNSUPPORTED, "'y'");
    qc_writer_free(w);

    REFUSES(qc_writer_open(&w, folder_path("no/such/o.h5"), two, 2, 1, true, ST), QC_MACHINE, "");
    REFUSES(qc_writer_open(&w, path, &(struct qc_writer_output){"n", QC_NONE}, 1, 1, true, ST), QC_UNSUPPORTED, "");
    cr_expect_eq(folder_count(), 0);
}

Test(writer, other_shapes_become_a_group)
{
    static const int64_t shapes[][2] = {{1, 3}, {1, 3}, {1, 0}, {2, 1}};
    static const float data[] = {1, 2, 3};
    const char *path = folder_path("o.h5");
    struct qc_writer *w = start(path, &(struct qc_writer_output){"a/y", QC_F32}, 1, 1);
    for (size_t k = 0; k < 4; k++) { /* 2, 3, 0, 1 */
        const size_t unit = (k + 2) % 4;
        MUST(qc_writer_put(w, 0, unit, data, shapes[unit], 2, ST));
    }
    const struct qc_shape s = qc_writer_shape(w, 0);
    cr_expect(s.rank == 3 && s.dim[0] == 4 && s.dim[1] == -1 && s.dim[2] == -1);
    finish(w);
    for (size_t k = 0; k < 4; k++) {
        char name[16], type[16];
        double got[4] = {0};
        int64_t dims[8];
        const unsigned rank = read_back(got, 4, dims, type, path, qc_text(name, sizeof name, "a/y/%zu", k));
        cr_expect(rank == 2 && dims[0] == shapes[k][0] && dims[1] == shapes[k][1], "unit %zu", k);
        for (int64_t i = 0; i < dims[0] * dims[1]; i++) cr_expect_eq(got[i], (double)data[i]);
    }
}

Test(writer, no_unit_gives_empty_data_sets)
{
    const char *path = folder_path("o.h5");
    struct qc_writer *w = start(path, &(struct qc_writer_output){"y", QC_I8}, 1, 1);
    finish(w);
    double none[1];
    int64_t dims[8];
    char type[16];
    cr_expect_eq(read_back(none, 1, dims, type, path, "y"), 1);
    cr_expect_eq(dims[0], 0);
}

/* A limit on the size of files stands for a full disk: writing fails with EFBIG instead of ENOSPC. */
Test(writer, full_disk)
{
    const char *path = folder_path("o.h5");
    struct rlimit old, small;
    static uint32_t noise[4096];
    uint32_t random = 1;
    struct qc_writer *w = start(path, &(struct qc_writer_output){"y", QC_U32}, 1, 1);
    cr_assert_eq(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old;
    small.rlim_cur = 100000;
    signal(SIGXFSZ, SIG_IGN);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
    bool ok = true;
    for (size_t u = 0; ok && u < 50; u++) {
        for (size_t i = 0; i < 4096; i++) noise[i] = random = random * 1664525u + 1013904223u;
        ok = qc_writer_put(w, 0, u, noise, (int64_t[]){1, 4096}, 2, ST);
    }
    ok = ok && qc_writer_commit(w, ST);
    qc_writer_free(w);
    setrlimit(RLIMIT_FSIZE, &old);
    signal(SIGXFSZ, SIG_DFL);
    cr_expect_not(ok);
    cr_expect_eq(failure.code, QC_MACHINE, "%s", failure.message);
    SHOULD(strstr(failure.message, "disk full"));
    cr_expect_eq(folder_count(), 0, "nothing is left behind");
    /* and HDF5 works on */
    w = start(path, &(struct qc_writer_output){"y", QC_U32}, 1, 1);
    SHOULD(qc_writer_put(w, 0, 0, noise, (int64_t[]){1, 4096}, 2, ST));
    finish(w);
}
